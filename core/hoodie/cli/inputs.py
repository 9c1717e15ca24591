"""How the input files of `hoodie write` are read: what their names and the options say."""

import codecs
import contextlib
import enum
import glob
import itertools
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from hoodie import errors
from hoodie.cli import quantities
from hoodie.contract import input_sources
from hoodie.model import table_config
from hoodie.sources import local_files, rejecting


class FormatName(enum.Enum):
    """Formats, as the command line spells them."""

    CSV = "csv"
    TSV = "tsv"
    JSON = "json"
    JSONL = "jsonl"
    NDJSON = "ndjson"
    PARQUET = "parquet"


STANDARD_INPUT = "-"
_KEPT_AS = "standard-input"

_FORMATS = {
    ".csv": input_sources.SourceFormat.CSV,
    ".tsv": input_sources.SourceFormat.CSV,
    ".json": input_sources.SourceFormat.JSON,
    ".jsonl": input_sources.SourceFormat.JSON,
    ".ndjson": input_sources.SourceFormat.JSON,
    ".parquet": input_sources.SourceFormat.PARQUET,
}
_BYTES_AT_ONCE = 32 << 20
"""Larger files are read in pieces."""
_COMPRESSED_SUFFIX = ".gz"
_TABS_SUFFIX = ".tsv"
_TAB = "\t"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What the options say about the files.

    Attributes:
        format: Of all of them; None goes by their names.
        delimiter: CSV: between two fields; None for a tab in files named .tsv, and else a comma.
        null_texts: CSV: mean null beside the empty field; one at most.
        has_header: CSV: whether the first line names the columns.
        columns: `NAME=SOURCE` each; empty takes all columns.
        renames: `NAME=SOURCE` each, where all are taken.
        encoding: CSV and JSON: of the text.
        date_format: CSV: of dates and times; None for ISO 8601.
        decimal_point: CSV: before the digits of a fraction.
    """

    format: FormatName | None = None
    delimiter: str | None = None
    null_texts: tuple[str, ...] = ()
    has_header: bool = True
    columns: tuple[str, ...] = ()
    renames: tuple[str, ...] = ()
    encoding: str = input_sources.UTF_8
    date_format: str | None = None
    decimal_point: str = "."


@contextlib.contextmanager
def local(files: Sequence[str], reading: Reading) -> Iterator[list[str]]:
    """Give the names of files: those of patterns such as `day*.csv`, and standard input as a file.

    Standard input is kept in a temporary file meanwhile, since input is read more than once.

    Raises:
        InvalidInputError: No file matches a pattern, one is a folder, or standard input is named
            twice or without its format.
        StorageError: Standard input cannot be kept.
    """
    names = [name for file in files for name in _matches(file)]
    if names.count(STANDARD_INPUT) > 1:
        raise errors.InvalidInputError("standard input is given twice, expected one -")
    if STANDARD_INPUT not in names:
        yield names
        return
    if reading.format is None:
        raise errors.InvalidInputError("standard input has no name: expected --format as well")
    with tempfile.TemporaryDirectory(prefix="hoodie-") as folder:
        kept = Path(folder) / _KEPT_AS
        try:
            with kept.open("wb") as stream:
                shutil.copyfileobj(sys.stdin.buffer, stream)
        except OSError as error:
            raise errors.StorageError(f"standard input: {error.strerror or error}") from error
        try:
            yield [str(kept) if name == STANDARD_INPUT else name for name in names]
        except errors.HoodieError as error:
            # The file that keeps it is gone when the message is read.
            error.args = tuple(
                str(each).replace(str(kept), title(str(kept))) for each in error.args
            )
            raise


def title(file: str) -> str:
    """Return what a file is called where people read it: standard input is no file to them."""
    return "standard input" if Path(file).name == _KEPT_AS else file


def _matches(file: str) -> list[str]:
    if "://" not in file and Path(file).is_dir():
        raise errors.InvalidInputError(
            f"input {file} is a folder, expected files, such as '{file.rstrip('/')}/*.parquet'"
        )
    if not glob.has_magic(file) or Path(file).exists() or "://" in file:
        return [file]
    found = sorted(glob.glob(file, recursive=True))  # noqa: PTH207 - a Path has no `**` of a shell
    if not found:
        raise errors.InvalidInputError(f"input {file}: no file matches")
    return found


def source(files: Sequence[str], reading: Reading) -> input_sources.Source:
    """Return how to read files.

    Raises:
        InvalidInputError: Their formats differ or are not known, or an option is malformed.
    """
    delimiter = _delimiter(files, reading)
    if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n':
        raise errors.InvalidInputError(
            f"--delimiter {delimiter!r}: expected one character (or \\t) other than a quote"
        )
    if reading.columns and reading.renames:
        raise errors.InvalidInputError(
            "--column and --rename: expected one of them; --column renames as well, and takes just "
            "the columns that are named"
        )
    if len(reading.null_texts) > 1:
        given = " and ".join(map(repr, reading.null_texts))
        raise errors.InvalidInputError(
            f"--null-text is given {len(reading.null_texts)} times ({given}), expected one text; "
            "the empty field means null as well"
        )
    format_ = _FORMATS[f".{reading.format.value}"] if reading.format else _format(files)
    _check_forms(reading, format_)
    return input_sources.Source(
        format=format_,
        columns=tuple(_mapping(text, "--column") for text in reading.columns),
        renames=renames(reading.renames),
        has_header=reading.has_header,
        delimiter=delimiter,
        null_text=next(iter(reading.null_texts), None),
        encoding=codecs.lookup(reading.encoding).name,
        date_format=reading.date_format,
        decimal_point=reading.decimal_point,
    )


def _check_forms(reading: Reading, format_: input_sources.SourceFormat) -> None:
    """Refuse forms of values that the format has not, or that are none.

    Raises:
        InvalidInputError: There is one.
    """
    try:
        encoding = codecs.lookup(reading.encoding).name
    except LookupError as error:
        raise errors.InvalidInputError(
            f"--encoding {reading.encoding}: expected one that Python has, such as latin-1, "
            "cp1252 or utf-16"
        ) from error
    is_csv = format_ is input_sources.SourceFormat.CSV
    if encoding != input_sources.UTF_8 and format_ is input_sources.SourceFormat.PARQUET:
        raise errors.InvalidInputError("--encoding: parquet files have none")
    if not is_csv and (reading.date_format is not None or reading.decimal_point != "."):
        raise errors.InvalidInputError(
            f"--date-format and --decimal are options of CSV, and the input is {format_.value}"
        )
    if reading.decimal_point not in (".", ","):
        raise errors.InvalidInputError(f"--decimal {reading.decimal_point!r}: expected . or ,")
    if reading.date_format is not None and "%" not in reading.date_format:
        raise errors.InvalidInputError(
            f"--date-format {reading.date_format!r}: expected a form such as %d.%m.%Y"
        )


def renames(texts: Sequence[str]) -> tuple[input_sources.ColumnMapping, ...]:
    """Return which columns get other names.

    Raises:
        InvalidInputError: A text is not `NAME=SOURCE`.
    """
    return tuple(_mapping(text, "--rename") for text in texts)


def rows(
    files: Sequence[str],
    source: input_sources.Source,
    schema: pa.Schema,
    config: table_config.TableConfig,
    rejects: rejecting.Rejects | None,
) -> pa.Table | pa.RecordBatchReader:
    """Return the rows of files, as a stream where they may take much memory.

    Args:
        files: Paths or URIs.
        source: How to read them.
        schema: The table's columns, with those that the files add.
        config: The table's.
        rejects: Takes rows of CSV and JSON that do not fit; None makes errors of them.

    Raises:
        NotFoundError: A file does not exist.
        InvalidInputError: A file is not of its format, or does not fit the table.
    """
    # What JSON carries is known once all of it is read.
    is_json = source.format is input_sources.SourceFormat.JSON
    is_carried = is_json and config.has_partial_updates
    if rejects is not None:
        if source.format is input_sources.SourceFormat.PARQUET:
            raise errors.InvalidInputError(
                "--reject-file is an option of CSV and JSON, and the input is parquet"
            )
        needed = _needed(config)
        strict = pa.schema(
            [field.with_nullable(field.nullable and field.name not in needed) for field in schema]
        )
        fitting = local_files.stream(files, source, strict, rejects)
        return carried(fitting.read_all(), source, config) if is_carried else fitting
    if is_carried or sum(map(local_files.size_bytes, files)) <= _BYTES_AT_ONCE:
        return carried(local_files.read(files, source, schema), source, config)
    return local_files.stream(files, source, schema)


def peeked(
    data: pa.Table | pa.RecordBatchReader,
) -> tuple[pa.Table | pa.RecordBatchReader, bool]:
    """Return rows and whether there are any; of a stream the first ones are read to see it."""
    if isinstance(data, pa.Table):
        return data, data.num_rows > 0
    for batch in data:
        if batch.num_rows:
            batches = itertools.chain([batch], data)
            return pa.RecordBatchReader.from_batches(data.schema, batches), True
    return data, False


def completed(
    data: pa.Table | pa.RecordBatchReader, schema: pa.Schema, config: table_config.TableConfig
) -> tuple[pa.Table | pa.RecordBatchReader, tuple[str, ...]]:
    """Return rows with null in the columns that they lack, and which these are.

    Columns that may not be null, and those of key, partition and ordering, must be there; a table
    with partial updates keeps the values of columns that are not.
    """
    if config.has_partial_updates:
        return data, ()
    needed = _needed(config)
    given = {*data.schema.names, *needed}
    absent = [field for field in schema if field.name not in given and field.nullable]
    if not absent:
        return data, ()
    names = tuple(field.name for field in absent)
    if isinstance(data, pa.Table):
        return _with_nulls(data, absent), names
    batches = (
        batch
        for each in data
        for batch in _with_nulls(pa.Table.from_batches([each]), absent).to_batches()
    )
    fields = pa.schema([*data.schema, *absent])
    return pa.RecordBatchReader.from_batches(fields, batches), names


def _needed(config: table_config.TableConfig) -> set[str]:
    """Return the columns that have a value in each row."""
    return {*config.record_key_fields, *config.partition_fields, *config.ordering_fields}


def rejection_notes(count: int, path: str | None) -> tuple[str, ...]:
    """Return what to say of rows that were rejected."""
    return (f"{quantities.counted(count, 'row')} rejected, see {path}",) if count else ()


def absence_notes(names: Sequence[str]) -> tuple[str, ...]:
    """Return what to say of columns that are null because no input has them."""
    if not names:
        return ()
    return (f"the input has no {', '.join(names)}: null in all rows",)


def _with_nulls(data: pa.Table, absent: Sequence[pa.Field]) -> pa.Table:
    for field in absent:
        data = data.append_column(field, pa.nulls(data.num_rows, field.type))
    return data


def carried(
    data: pa.Table, source: input_sources.Source, config: table_config.TableConfig
) -> pa.Table:
    """Return the columns that an input carries.

    JSON lines have no header: of what they leave out everywhere, a table with partial updates keeps
    what it has, and so the input claims no such column beside other writers.
    """
    if source.format is not input_sources.SourceFormat.JSON or source.columns:
        return data
    if not config.has_partial_updates:
        return data
    needed = _needed(config)
    return data.select(
        [
            name
            for name in data.column_names
            if name in needed or data.column(name).null_count < data.num_rows
        ]
    )


def _format(files: Sequence[str]) -> input_sources.SourceFormat:
    found = {file: _format_of(file) for file in files}
    first = files[0]
    for file, format_ in found.items():
        if format_ is not found[first]:
            raise errors.InvalidInputError(
                f"{first} is {found[first].value} and {file} is {format_.value}: expected files of "
                "one format in one write"
            )
    return found[first]


def _format_of(file: str) -> input_sources.SourceFormat:
    name = _uncompressed(file)
    for suffix, format_ in _FORMATS.items():
        if name.endswith(suffix):
            return format_
    raise errors.InvalidInputError(
        f"input {file}: unknown file name extension, expected one of "
        f"{', '.join(_FORMATS)}; `hoodie write` has --format for files of other names"
    )


def _delimiter(files: Sequence[str], reading: Reading) -> str:
    if reading.delimiter is not None:
        return {"\\t": _TAB}.get(reading.delimiter, reading.delimiter)
    if reading.format is FormatName.TSV:
        return _TAB
    tabs = [_uncompressed(file).endswith(_TABS_SUFFIX) for file in files]
    if any(tabs) and not all(tabs) and reading.format is None:
        other = files[tabs.index(False)]
        raise errors.InvalidInputError(
            f"{files[tabs.index(True)]} has tabs by its name, and {other} has not: expected files "
            "of one format in one write"
        )
    return _TAB if any(tabs) else ","


def _uncompressed(file: str) -> str:
    return file.lower().removesuffix(_COMPRESSED_SUFFIX)


def _mapping(text: str, option: str) -> input_sources.ColumnMapping:
    name, sign, source_name = text.partition("=")
    if not sign or not name or not source_name:
        raise errors.InvalidInputError(f"{option} {text!r}: expected NAME=SOURCE")
    return input_sources.ColumnMapping(name=name, source=source_name)
