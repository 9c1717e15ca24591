"""Reading input files in this process, whole or in pieces."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pyarrow as pa
from pyarrow import fs, parquet

from hoodie import errors
from hoodie.contract import input_sources
from hoodie.model import schema_evolution, schemas
from hoodie.sources import (
    casting,
    columns,
    input_checks,
    json_arrays,
    json_rows,
    parsing,
    rejecting,
)
from hoodie.storage import locations, uris

_ROWS_OF_A_PIECE = 1 << 16
_BUFFER_BYTES = 1 << 20


def read(files: Sequence[str], source: input_sources.Source, schema: pa.Schema) -> pa.Table:
    """Return the rows of files in their order, in the types of the table.

    Columns that a file has not and another has are null in its rows.

    Args:
        files: Paths or URIs; `.gz` and the like are decompressed, but for parquet.
        source: How to read them.
        schema: The table's, without meta columns.

    Raises:
        NotFoundError: A file does not exist.
        InvalidInputError: A file is not of its format, or does not fit the table.
    """
    tables = [_read(path, source, schema) for path in files]
    if not tables:
        return schema.empty_table()
    # A file without some column that is not nullable is caught here, whatever the others have.
    names = dict.fromkeys(name for table in tables for name in table.column_names)
    return pa.concat_tables(
        casting.cast(_with_columns(table, list(names), schema), schema, path)
        for table, path in zip(tables, files, strict=True)
    )


def stream(
    files: Sequence[str],
    source: input_sources.Source,
    schema: pa.Schema,
    rejects: rejecting.Rejects | None = None,
) -> pa.RecordBatchReader:
    """Return the rows that `read` returns, some MiB at once; errors of rows come as they are read.

    Args:
        files: As of `read`.
        source: As of `read`.
        schema: As of `read`.
        rejects: Takes rows of CSV and JSON that do not fit; None makes errors of them.

    Raises:
        NotFoundError: A file does not exist.
        InvalidInputError: A file's head is not of its format, or its columns do not fit the table.
    """
    names = carried_columns(files, source, schema, is_strict=rejects is None)
    fields = pa.schema([schema.field(name) for name in names])

    def batches() -> Iterator[pa.RecordBatch]:
        for path in files:
            for rows in _rows(path, source, schema, rejects):
                whole = casting.cast(_with_columns(rows, names, schema), schema, path)
                yield from whole.select(list(names)).to_batches()

    return pa.RecordBatchReader.from_batches(fields, batches())


def grown(
    files: Sequence[str], source: input_sources.Source, table: schemas.TableSchema
) -> schemas.TableSchema:
    """Return a table's columns with those that files add, and widened for them.

    Only parquet tells types: of other formats nothing is added. It reads the files' footers.

    Raises:
        NotFoundError: A file does not exist.
        InvalidInputError: A file is no parquet, or names a column as none can be named.
        UnsupportedError: A new column's type has no form in a table.
    """
    if source.format is not input_sources.SourceFormat.PARQUET:
        return table
    for path in files:
        carried = _carried_by_parquet(path, source)
        table = schema_evolution.merged(table, schema_evolution.additions(table, carried))
    return table


def carried_columns(
    files: Sequence[str],
    source: input_sources.Source,
    schema: pa.Schema,
    *,
    is_strict: bool = True,
) -> tuple[str, ...]:
    """Return the table's columns that `read` would find; it reads the files' heads.

    Args:
        files: As of `read`.
        source: As of `read`.
        schema: As of `read`.
        is_strict: As of `csv_names`.

    Raises:
        NotFoundError: A file does not exist.
        InvalidInputError: A file's head is not of its format, or its columns do not fit the table.
    """
    return tuple(
        dict.fromkeys(
            name for path in files for name in _head(path, source, schema, is_strict=is_strict)
        )
    )


def csv_names(path: str, source: input_sources.Source, *, is_strict: bool = True) -> list[str]:
    """Return the names of a CSV file's columns; it reads the first block.

    Args:
        path: A path or URI.
        source: How to read it.
        is_strict: Whether rows of another number of fields are refused here already.

    Raises:
        NotFoundError: The file does not exist.
        InvalidInputError: The file is empty, or its first line is no CSV.
        StorageError: It cannot be read.
    """
    system, inner = _locate(path)
    with _named(path, system):
        return parsing.csv_names(source, _opener(system, inner, source), path, is_strict=is_strict)


def schema_of(path: str, source: input_sources.Source) -> pa.Schema:
    """Return a file's columns under its own names; CSV and JSON as their first rows look.

    Raises:
        NotFoundError: The file does not exist.
        InvalidInputError: The file is empty, or not of its format.
        StorageError: It cannot be read.
    """
    system, inner = _locate(path)
    open_input = _opener(system, inner, source)
    with _named(path, system):
        match source.format:
            case input_sources.SourceFormat.CSV:
                return parsing.csv_schema(source, open_input, path)
            case input_sources.SourceFormat.JSON:
                return parsing.json_schema(open_input, path)
            case input_sources.SourceFormat.PARQUET:
                with _open_parquet(system, inner, path) as content:
                    return content.schema_arrow.remove_metadata()


def size_bytes(path: str) -> int:
    """Return a file's length.

    Raises:
        NotFoundError: The file does not exist.
    """
    system, inner = _locate(path)
    info = system.get_file_info(inner)
    if info.type is not fs.FileType.File:
        raise errors.NotFoundError(f"{path}: there is no such file")
    return int(info.size)


def _head(
    path: str, source: input_sources.Source, schema: pa.Schema, *, is_strict: bool
) -> Mapping[str, str]:
    """Return the file's column of each table column."""
    match source.format:
        case input_sources.SourceFormat.CSV:
            return columns.choose(
                csv_names(path, source, is_strict=is_strict), source, schema, path
            )
        case input_sources.SourceFormat.JSON:
            return _json_keys(source, schema, path) or {name: name for name in schema.names}
        case input_sources.SourceFormat.PARQUET:
            system, inner = _locate(path)
            with _named(path, system), _open_parquet(system, inner, path) as content:
                return columns.choose(content.schema_arrow.names, source, schema, path)


def _json_keys(
    source: input_sources.Source, schema: pa.Schema, path: str
) -> Mapping[str, str] | None:
    """Return the input's key of each table column; None where all have their own names."""
    keys = columns.mapping(source)
    columns.check_known(keys, schema, path)
    if keys or not source.renames:
        return keys or None
    names = {column.name: column.source for column in source.renames}
    columns.check_known(names, schema, path)
    return {name: names.get(name, name) for name in schema.names}


def _carried_by_parquet(path: str, source: input_sources.Source) -> pa.Schema:
    """Return what a file has for the table's columns, as far as its columns are what is asked."""
    system, inner = _locate(path)
    with _named(path, system), _open_parquet(system, inner, path) as content:
        found = {column.name: column for column in content.schema_arrow}
    chosen = columns.mapping(source) or columns.renamed(list(found), source, path)
    return pa.schema(
        [
            found[source_name].with_name(name)
            for name, source_name in chosen.items()
            if source_name in found
        ]
    )


def _read(path: str, source: input_sources.Source, schema: pa.Schema) -> pa.Table:
    system, inner = _locate(path)
    open_input = _opener(system, inner, source)
    with _named(path, system):
        match source.format:
            case input_sources.SourceFormat.CSV:
                names = parsing.csv_names(source, open_input, path)
                chosen = columns.choose(names, source, schema, path)
                return parsing.parse_csv(source, open_input, names, chosen, schema, path)
            case input_sources.SourceFormat.JSON:
                keys = _json_keys(source, schema, path)
                return parsing.parse_json(open_input, keys, schema, path)
            case input_sources.SourceFormat.PARQUET:
                return _read_parquet(system, inner, source, schema, path)


def _rows(
    path: str,
    source: input_sources.Source,
    schema: pa.Schema,
    rejects: rejecting.Rejects | None,
) -> Iterator[pa.Table]:
    """Yield a file's rows some MiB at once, in the types of the table."""
    if rejects is not None and source.format is input_sources.SourceFormat.JSON:
        yield from _fitting_json(path, source, schema, rejects)
        return
    first_row = 0
    for piece in _pieces(path, source, schema, rejects):
        yield _fitted(piece, source, schema, path, first_row, rejects)
        first_row += piece.num_rows


def _fitting_json(
    path: str, source: input_sources.Source, schema: pa.Schema, rejects: rejecting.Rejects
) -> Iterator[pa.Table]:
    """Yield the rows of lines of JSON that fit; blocks in which all do are not looked at by row."""
    system, inner = _locate(path)
    open_input = _opener(system, inner, source)
    keys = _json_keys(source, schema, path)
    row_count = skipped = 0

    def fit(texts: pa.Table) -> pa.Table:
        fields = pa.schema([schema.field(name) for name in texts.column_names])
        if not texts.num_rows:
            return fields.empty_table()
        return parsing.parse_json_lines(json_rows.lines(texts), None, fields, path)

    def reject_row(row: int, text: str, problem: str) -> None:
        nonlocal skipped
        plain = problem.removeprefix(f"{path}: ")
        number = row_count + skipped_before + row
        if is_array and plain.startswith(json_rows.NO_JSON):
            # Its rows end where the brackets before them close.
            raise errors.InvalidInputError(f"{path}: row {number + 1} {plain}")
        rejects.add_malformed(path, number, text, plain)
        skipped += 1

    def reject(row: int, column: str, problem: str) -> None:
        # Each row was looked at as if it were the first.
        plain = problem.removeprefix(f"{path}: ").removeprefix(f"column {column!r} ")
        found = texts.slice(row, 1).to_pylist()[0]
        fields = {name: None if text is None else json.loads(text) for name, text in found.items()}
        rejects.add(path, row_count + row, column, plain.replace(" in row 1,", ",", 1), fields)

    with _named(path, system):
        is_array = json_arrays.is_array(open_input)
        for block in parsing.json_blocks(open_input):
            try:
                rows = parsing.parse_json_lines(block, keys, schema, path)
                row_count += rows.num_rows
            except errors.InvalidInputError:
                skipped_before = skipped
                texts = parsing.json_texts(block, keys, schema, path, reject_row)
                rows = rejecting.fitting(texts, fit, reject)
                row_count += texts.num_rows
            yield rows


def _fitted(
    piece: pa.Table,
    source: input_sources.Source,
    schema: pa.Schema,
    path: str,
    first_row: int,
    rejects: rejecting.Rejects | None,
) -> pa.Table:
    """Return the rows of a piece in the types of the table."""

    def fit(rows: pa.Table) -> pa.Table:
        usual = parsing.in_usual_forms(rows, schema, source, path, first_row=first_row)
        return casting.cast(usual, schema, path, first_row=first_row)

    if rejects is None:
        return fit(piece)

    def reject(row: int, column: str, problem: str) -> None:
        # File, column and row are told beside it; each row was looked at as if it were the first.
        plain = problem.removeprefix(f"{path}: column {column!r} ")
        plain = plain.replace(f" in row {first_row + 1}", "", 1)
        fields = piece.slice(row, 1).to_pylist()[0]
        rejects.add(path, first_row + row, column, plain, fields)

    return rejecting.fitting(piece, fit, reject)


def _pieces(
    path: str,
    source: input_sources.Source,
    schema: pa.Schema,
    rejects: rejecting.Rejects | None,
) -> Iterator[pa.Table]:
    """Yield a file's rows some MiB at once, in the columns of the table, not yet in its types."""
    system, inner = _locate(path)
    open_input = _opener(system, inner, source)
    with _named(path, system):
        match source.format:
            case input_sources.SourceFormat.CSV:
                names = parsing.csv_names(source, open_input, path, is_strict=rejects is None)
                chosen = columns.choose(names, source, schema, path)
                yield from parsing.csv_pieces(source, open_input, names, chosen, path, rejects)
            case input_sources.SourceFormat.JSON:
                keys = _json_keys(source, schema, path)
                yield from parsing.json_pieces(open_input, keys, schema, path)
            case input_sources.SourceFormat.PARQUET:
                with _open_parquet(system, inner, path) as content:
                    chosen = columns.choose(content.schema_arrow.names, source, schema, path)
                    taken = list(dict.fromkeys(chosen.values()))
                    for batch in _batches(content, taken):
                        yield pa.table(
                            {
                                name: batch.column(source_name)
                                for name, source_name in chosen.items()
                            }
                        )


def _batches(content: parquet.ParquetFile, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    # Row group by row group: what Arrow reads ahead of several it holds until the last one's end.
    for number in range(content.num_row_groups):
        yield from content.iter_batches(_ROWS_OF_A_PIECE, row_groups=[number], columns=names)


@contextmanager
def _named(path: str, system: fs.FileSystem) -> Iterator[None]:
    """Have what goes wrong with a file told by its name and the class of the error."""
    try:
        yield
    except FileNotFoundError as error:
        raise errors.NotFoundError(f"{path}: there is no such file") from error
    except UnicodeError as error:
        raise errors.InvalidInputError(f"{path}: {error}") from error
    except OSError as error:
        # An error of the system has a number; Arrow's own are about what it read.
        if error.errno is None and isinstance(system, fs.LocalFileSystem):
            raise errors.InvalidInputError(f"{path}: {error}") from error
        raise errors.StorageError(f"{path}: {error}") from error


def _read_parquet(
    system: fs.FileSystem, inner: str, source: input_sources.Source, schema: pa.Schema, path: str
) -> pa.Table:
    with _open_parquet(system, inner, path) as content:
        chosen = columns.choose(content.schema_arrow.names, source, schema, path)
        data = content.read(list(dict.fromkeys(chosen.values())))
    return casting.cast(
        pa.table({name: data[source_name] for name, source_name in chosen.items()}), schema, path
    )


@contextmanager
def _open_parquet(system: fs.FileSystem, inner: str, path: str) -> Iterator[parquet.ParquetFile]:
    try:
        with system.open_input_file(inner) as file:
            # A row group may be the whole file: of a local one little is read at once, of others
            # in few requests.
            is_local = isinstance(system, fs.LocalFileSystem)
            yield parquet.ParquetFile(file, pre_buffer=not is_local, buffer_size=_BUFFER_BYTES)
    except pa.ArrowInvalid as error:
        raise errors.InvalidInputError(f"{path}: {error}") from error


def _opener(system: fs.FileSystem, inner: str, source: input_sources.Source) -> input_checks.Open:
    """Return what opens a file of text from its beginning, in UTF-8."""
    if source.encoding == input_sources.UTF_8:
        return lambda: system.open_input_stream(inner)
    return lambda: pa.transcoding_input_stream(
        system.open_input_stream(inner), source.encoding, input_sources.UTF_8
    )


def _with_columns(table: pa.Table, names: Sequence[str], schema: pa.Schema) -> pa.Table:
    # By one dictionary: every other way to ask a table for a name looks at all of its columns.
    found = dict(zip(table.column_names, table.columns, strict=True))
    kinds = {field.name: field.type for field in schema}
    return pa.table(
        {
            name: found[name] if name in found else pa.nulls(table.num_rows, kinds[name])
            for name in names
        }
    )


def _locate(path: str) -> tuple[fs.FileSystem, str]:
    location = locations.resolve(path)
    if location.scheme == uris.LOCAL:
        return fs.LocalFileSystem(), f"/{location.path}"
    try:
        system, inner = fs.FileSystem.from_uri(str(location))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise errors.UnsupportedError(
            f"{path}: input cannot be read from there: {error}"
        ) from error
    return system, inner
