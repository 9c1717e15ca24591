"""Bytes of CSV and JSON into Arrow tables of the table's types.

Each format is parsed straight into the types, in C++. Only when that fails is the input parsed
again, loosely, to find out what to say. Rules that hold in every engine:
    CSV    the empty field and the configured text are null, quoted or not; every line has the same
           number of fields; quotes are doubled inside quotes
    JSON   one object a line, or one array of objects; a key that the table has not is an error, an
           absent one is null; bytes are base64, as `hoodie read` prints them; a column of texts
           takes values of any type, as `json_rows` says
Arrow cuts the input into blocks, each of which holds a row at least: a row that is longer than one
is parsed again in blocks that are longer, too.
"""

import base64
import binascii
import codecs
import contextlib
import functools
import io
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, json

from hoodie import errors
from hoodie.contract import input_sources
from hoodie.sources import (
    casting,
    columns,
    input_checks,
    json_arrays,
    json_maps,
    json_rows,
    rejecting,
)

_BLOCK_BYTES = (1 << 20, 1 << 28)
"""Arrow's own size of a block, and the one for rows that are longer than that."""
_INFERRED_BYTES = 1 << 24
"""Types are inferred of so many."""
_PIECE_BYTES = 1 << 23
"""Of text, parsed at once; a row may not be longer."""
_POINT = "."
_COMMA_NUMBER = r"^\s*[+-]?(\d{1,3}(\.\d{3})+|\d*)(,\d*)?([eE][+-]?\d+)?\s*$"
"""Points set thousands apart, or there are none."""
_HAS_TIME = re.compile(r"%[HIMSTRXcps]")
_ROW_TOO_LONG = "straddling object straddles two block boundaries"
_NO_UTF_8 = re.compile("invalid UTF-?8", re.IGNORECASE)
_HINTS = (
    (_NO_UTF_8, ", expected UTF-8, or another encoding that is named"),
    (
        re.compile("Expected 1 columns"),
        "; if another character than a comma is the delimiter: --delimiter",
    ),
)
"""What to append to some messages of Arrow."""
_NO_TEXT = "changed from string to"
_NULL_ROW = "Column() changed from object to null"
_NO_JSON = (pa.ArrowInvalid, pa.ArrowNotImplementedError)
_OTHER_KIND = re.compile(r"Column\(/?(.*)\) changed from (\w+) to (\w+)")

_Parsed = TypeVar("_Parsed")


def csv_names(
    source: input_sources.Source,
    open_input: input_checks.Open,
    origin: str,
    *,
    is_strict: bool = True,
) -> list[str]:
    """Return the names of a CSV input's columns; it reads the first block.

    Args:
        source: How it is written.
        open_input: Opens it.
        origin: Its name, for messages.
        is_strict: Whether rows of another number of fields are refused here already.

    Raises:
        InvalidInputError: The input is empty, or its first line is no CSV.
    """
    skip = None if is_strict else _skip
    _check_encoding(open_input, origin)

    def first_block(block_bytes: int) -> list[str]:
        with open_input() as stream:
            reader = csv.open_csv(
                stream,
                read_options=csv.ReadOptions(
                    autogenerate_column_names=not source.has_header, block_size=block_bytes
                ),
                parse_options=_csv_rules(source, skip),
            )
            names: list[str] = reader.schema.names
            return names

    try:
        names = _in_blocks(first_block)
    except pa.ArrowInvalid as error:
        raise errors.InvalidInputError(f"{origin}: {_shown(error)}") from error
    except UnicodeDecodeError as error:
        raise errors.InvalidInputError(
            f"{origin}: its first line is not UTF-8, and no other encoding is named: {error}"
        ) from error
    return names if source.has_header else [f"_c{index}" for index in range(len(names))]


def csv_schema(
    source: input_sources.Source, open_input: input_checks.Open, origin: str
) -> pa.Schema:
    """Return the columns of a CSV input, of the types that its first rows look like.

    Raises:
        InvalidInputError: The input is empty, or its first rows are no CSV.
    """
    names = csv_names(source, open_input, origin, is_strict=False)
    with open_input() as stream:
        try:
            reader = csv.open_csv(
                stream,
                read_options=csv.ReadOptions(
                    column_names=names,
                    skip_rows_after_names=1 if source.has_header else 0,
                    block_size=_INFERRED_BYTES,
                ),
                parse_options=_csv_rules(source, _skip),
                convert_options=csv.ConvertOptions(
                    null_values=null_texts(source),
                    strings_can_be_null=True,
                    decimal_point=source.decimal_point,
                    timestamp_parsers=None if source.date_format is None else [source.date_format],
                ),
            )
        except pa.ArrowInvalid as error:
            raise errors.InvalidInputError(f"{origin}: {_shown(error)}") from error
        return _with_dates(reader.schema, source)


def json_schema(open_input: input_checks.Open, origin: str) -> pa.Schema:
    """Return the columns of lines of JSON objects, of the types that the first lines look like.

    A column with values of several JSON types is one of texts, as one of CSV is.

    Raises:
        InvalidInputError: The input is empty, or its first lines are no JSON objects.
    """
    input_checks.check_nesting(open_input, origin)
    open_input = _objects(open_input)
    with open_input() as stream:
        block = next(json_rows.blocks(stream, _INFERRED_BYTES), b"")
    try:
        return _inferred(block)
    except pa.ArrowInvalid as error:
        # Lines that are left out here are errors when all rows are read.
        with contextlib.suppress(pa.ArrowInvalid):
            return _inferred(json_rows.without_mixtures(block))
        raise errors.InvalidInputError(f"{origin}: {_shown(error)}") from error


def _inferred(block: bytes) -> pa.Schema:
    if json_rows.has_null(functools.partial(io.BytesIO, block)):
        raise pa.ArrowInvalid(_NULL_ROW)
    options = json.ReadOptions(block_size=len(block) + 1)
    with json.open_json(io.BytesIO(block), read_options=options) as reader:
        return reader.schema


def _check_encoding(open_input: input_checks.Open, origin: str) -> None:
    """Refuse text whose beginning is not UTF-8; Arrow prints a traceback of such rows itself."""
    with open_input() as stream:
        head = stream.read(_BLOCK_BYTES[0])
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError as error:
        raise errors.InvalidInputError(
            f"{origin}: byte {error.start} (0x{head[error.start]:02x}) is not UTF-8, expected "
            "UTF-8, or another encoding that is named, such as latin-1"
        ) from error


def _skip(_: csv.InvalidRow) -> str:
    # Reading all rows tells of it.
    return "skip"


def null_texts(source: input_sources.Source) -> list[str]:
    """Return the CSV fields that mean null."""
    return ["", *([] if source.null_text is None else [source.null_text])]


def parse_csv(
    source: input_sources.Source,
    open_input: input_checks.Open,
    names: list[str],
    chosen: Mapping[str, str],
    schema: pa.Schema,
    origin: str,
) -> pa.Table:
    """Return the chosen columns of a CSV input.

    Args:
        source: How it is written.
        open_input: input_checks.Opens it.
        names: Its columns.
        chosen: The input's column of each table column.
        schema: The table's.
        origin: Its name, for messages.

    Raises:
        InvalidInputError: It is no CSV, or a value does not fit; the message names it.
    """
    input_checks.check_quotes(open_input, source.delimiter, origin)
    taken = dict.fromkeys(chosen.values())

    def parse(types: Mapping[str, pa.DataType], block_bytes: int) -> pa.Table:
        with open_input() as stream:
            parsed = csv.read_csv(
                stream,
                read_options=csv.ReadOptions(
                    column_names=names,
                    skip_rows_after_names=1 if source.has_header else 0,
                    block_size=block_bytes,
                ),
                parse_options=_csv_rules(source),
                convert_options=csv.ConvertOptions(
                    column_types=types,
                    include_columns=list(taken),
                    null_values=null_texts(source),
                    strings_can_be_null=True,
                ),
            )
        return pa.table({name: parsed[source_name] for name, source_name in chosen.items()})

    types: dict[str, pa.DataType] = {}
    for name, source_name in chosen.items():
        kind = schema.field(name).type
        # One input column for two table columns of different types is taken as text.
        types[source_name] = kind if types.get(source_name, kind) == kind else pa.string()
    parsed: pa.Table | None = None
    if not _has_own_forms(source):
        with contextlib.suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):
            parsed = _in_blocks(lambda size: parse(types, size))
    # Arrow makes infinity of a number that is too great; its text says whether it is one.
    if parsed is None or any(map(casting.has_infinity, parsed.columns)):
        try:
            parsed = _in_blocks(lambda size: parse(dict.fromkeys(taken, pa.string()), size))
        except pa.ArrowInvalid as error:
            raise errors.InvalidInputError(f"{origin}: {_shown(error)}") from error
        parsed = in_usual_forms(parsed, schema, source, origin, first_row=0)
    return casting.cast(parsed, schema, origin)


def _has_own_forms(source: input_sources.Source) -> bool:
    return source.date_format is not None or source.decimal_point != _POINT


def in_usual_forms(
    data: pa.Table, schema: pa.Schema, source: input_sources.Source, origin: str, *, first_row: int
) -> pa.Table:
    """Return texts with numbers, dates and times in the forms that can be cast.

    Args:
        data: Texts of CSV under the names of the table's columns, or rows of another format.
        schema: The table's.
        source: Says which forms they have.
        origin: The input's name, for messages.
        first_row: How many rows of the input come before, for messages.

    Raises:
        InvalidInputError: A number, date or time does not have the form of the source.
    """
    if not _has_own_forms(source):
        return data
    for index, name in enumerate(data.column_names):
        kind = schema.field(name).type
        column = data.column(index)
        is_fraction = pa.types.is_floating(kind) or pa.types.is_decimal(kind)
        if is_fraction and source.decimal_point != _POINT:
            is_whole = pc.match_substring_regex(column, _COMMA_NUMBER)
            _check_form(column, is_whole, name, origin, first_row, "a number with a decimal comma")
            column = pc.replace_substring(pc.replace_substring(column, _POINT, ""), ",", _POINT)
        elif source.date_format is not None and _is_of_days(kind):
            texts = pc.utf8_trim_whitespace(column)
            column = pc.strptime(texts, source.date_format, "s", error_is_null=True)
            # It takes the 31st of February for the 2nd of March.
            is_day = pc.equal(_digits(pc.strftime(column, source.date_format)), _digits(texts))
            form = f"one of the form {source.date_format}"
            _check_form(texts, is_day, name, origin, first_row, form)
            column = column.cast(pa.timestamp("us"))
            if pa.types.is_timestamp(kind) and kind.tz is not None:
                column = pc.assume_timezone(column, "UTC")
        data = data.set_column(index, name, column)
    return data


def _check_form(
    texts: pa.ChunkedArray,
    is_right: pa.ChunkedArray,
    name: str,
    origin: str,
    first_row: int,
    expected: str,
) -> None:
    row = pc.index(pc.and_(pc.is_valid(texts), pc.invert(pc.fill_null(is_right, False))), True)
    if row.as_py() >= 0:
        raise errors.InvalidInputError(
            f"{origin}: column {name!r} has the value {texts[row.as_py()].as_py()!r} in row "
            f"{first_row + row.as_py() + 1}, expected {expected}"
        )


def _digits(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the numbers in texts, without what stands between them and leading zeros."""
    numbers = pc.replace_substring_regex(texts, r"\D+", " ")
    return pc.utf8_trim_whitespace(pc.replace_substring_regex(numbers, r"\b0+(\d)", r"\1"))


def _is_of_days(kind: pa.DataType) -> bool:
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def _with_dates(schema: pa.Schema, source: input_sources.Source) -> pa.Schema:
    """Return the inferred columns; what a format without a time of the day describes are dates."""
    if source.date_format is None or _HAS_TIME.search(source.date_format):
        return schema
    return pa.schema(
        [
            field.with_type(pa.date32()) if pa.types.is_timestamp(field.type) else field
            for field in schema
        ]
    )


def csv_pieces(
    source: input_sources.Source,
    open_input: input_checks.Open,
    names: list[str],
    chosen: Mapping[str, str],
    origin: str,
    rejects: rejecting.Rejects | None,
) -> Iterator[pa.Table]:
    """Yield the chosen columns of a CSV input as texts, some MiB at once; arguments as above.

    Raises:
        InvalidInputError: It is no CSV.
    """
    input_checks.check_quotes(open_input, source.delimiter, origin)
    taken = dict.fromkeys(chosen.values())

    def reject(row: csv.InvalidRow) -> str:
        if rejects is None:
            return "error"
        # Rows count from 1, the header first if there is one.
        number = row.number - (2 if source.has_header else 1)
        problem = f"expected {row.expected_columns} fields, got {row.actual_columns}"
        rejects.add_malformed(origin, number, row.text, problem)
        return "skip"

    with open_input() as stream:
        try:
            for batch in csv.open_csv(
                stream,
                read_options=csv.ReadOptions(
                    column_names=names,
                    skip_rows_after_names=1 if source.has_header else 0,
                    block_size=_PIECE_BYTES,
                    use_threads=rejects is None,  # Else rows have no numbers.
                ),
                parse_options=_csv_rules(source, reject),
                convert_options=csv.ConvertOptions(
                    column_types=dict.fromkeys(taken, pa.string()),
                    include_columns=list(taken),
                    null_values=null_texts(source),
                    strings_can_be_null=True,
                ),
            ):
                yield pa.table({name: batch.column(given) for name, given in chosen.items()})
        except pa.ArrowInvalid as error:
            raise errors.InvalidInputError(f"{origin}: {_shown(error)}") from error


def json_pieces(
    open_input: input_checks.Open, chosen: Mapping[str, str] | None, schema: pa.Schema, origin: str
) -> Iterator[pa.Table]:
    """Yield the columns of lines of JSON objects, some MiB at once; arguments as of `parse_json`.

    Raises:
        InvalidInputError: It is no JSON, or has a key too many.
    """
    input_checks.check_nesting(open_input, origin)
    first_row = 0
    for block in json_blocks(open_input):
        piece = _parsed(functools.partial(io.BytesIO, block), chosen, schema, origin, first_row)
        first_row += piece.num_rows
        yield piece


def json_blocks(open_input: input_checks.Open) -> Iterator[bytes]:
    """Yield lines of JSON objects, of an array as well, some MiB at once."""
    with _objects(open_input)() as stream:
        yield from json_rows.blocks(stream, _PIECE_BYTES)


def parse_json(
    open_input: input_checks.Open, chosen: Mapping[str, str] | None, schema: pa.Schema, origin: str
) -> pa.Table:
    """Return the columns of lines of JSON objects.

    Args:
        open_input: input_checks.Opens the input.
        chosen: The input's key of each table column; None takes every column by its own name.
        schema: The table's.
        origin: The input's name, for messages.

    Raises:
        InvalidInputError: It is no JSON, has a key too many, or a value does not fit.
    """
    input_checks.check_nesting(open_input, origin)
    return casting.cast(_parsed(_objects(open_input), chosen, schema, origin), schema, origin)


def parse_json_lines(
    block: bytes, chosen: Mapping[str, str] | None, schema: pa.Schema, origin: str
) -> pa.Table:
    """Return the columns of lines of JSON objects, as `parse_json` does."""
    open_block = functools.partial(io.BytesIO, block)
    input_checks.check_nesting(open_block, origin)
    return casting.cast(_parsed(open_block, chosen, schema, origin), schema, origin)


def json_texts(
    block: bytes,
    chosen: Mapping[str, str] | None,
    schema: pa.Schema,
    origin: str,
    reject: Callable[[int, str, str], None],
) -> pa.Table:
    """Return the rows of lines of JSON objects as JSON texts, of which `json_rows.lines` are lines.

    Args:
        block: The lines.
        chosen: As of `parse_json`.
        schema: As of `parse_json`.
        origin: As of `parse_json`.
        reject: Called with the number, the text and the problem of a row that is no object, or
            has a key too many.
    """
    keys = chosen or _same(schema)

    def check(row: json_rows.Row) -> None:
        if chosen is None and (foreign := [key for key in row if key not in keys]):
            raise columns.unknown(foreign[0], schema, origin)

    return json_rows.texts(json_rows.rows(block, check, reject), keys, schema)


def _parsed(
    open_input: input_checks.Open,
    chosen: Mapping[str, str] | None,
    schema: pa.Schema,
    origin: str,
    first_row: int = 0,
) -> pa.Table:
    """Return the columns of lines of JSON objects, not yet in the types of the table."""
    keys = chosen or _same(schema)
    try:
        parsed = _read_json(open_input, _json_rules(keys, schema, takes_all=chosen is None))
    except _NO_JSON as error:
        if _NO_TEXT not in str(error):
            raise _explained(error, open_input, keys, schema, origin, first_row) from error

        def refuse(row: int, _: str, problem: str) -> None:
            plain = problem.removeprefix(f"{origin}: ")
            raise errors.InvalidInputError(f"{origin}: row {first_row + row + 1}: {plain}")

        with open_input() as stream:
            found = json_texts(bytes(stream.read()), chosen, schema, origin, refuse)
        open_input, keys = functools.partial(io.BytesIO, json_rows.lines(found)), _same(schema)
        try:
            parsed = _read_json(open_input, _json_rules(keys, schema, takes_all=True))
        except _NO_JSON as again:
            raise _explained(again, open_input, keys, schema, origin, first_row) from again
    return _with_maps(_with_bytes(_renamed(parsed, keys), schema, origin), schema, origin)


def _objects(open_input: input_checks.Open) -> input_checks.Open:
    """Return what opens the objects of JSON, one a line."""
    is_array = json_arrays.is_array(open_input)
    return json_arrays.objects(open_input) if is_array else open_input


def _json_rules(
    keys: Mapping[str, str], schema: pa.Schema, *, takes_all: bool
) -> json.ParseOptions:
    expected = pa.schema(
        [
            pa.field(key, _parsed_type(schema.field(name).type))
            for key, name in {key: name for name, key in keys.items()}.items()
        ]
    )
    unexpected = "error" if takes_all else "ignore"
    return json.ParseOptions(explicit_schema=expected, unexpected_field_behavior=unexpected)


def _read_json(open_input: input_checks.Open, rules: json.ParseOptions) -> pa.Table:
    def parse(block_bytes: int) -> pa.Table:
        with open_input() as stream:
            return json.read_json(
                stream,
                read_options=json.ReadOptions(block_size=block_bytes),
                parse_options=rules,
            )

    if json_rows.has_null(open_input):
        raise pa.ArrowInvalid(_NULL_ROW)
    parsed = _in_blocks(parse)
    parsed.validate(full=True)
    return parsed


def _explained(
    error: Exception,
    open_input: input_checks.Open,
    keys: Mapping[str, str],
    schema: pa.Schema,
    origin: str,
    first_row: int,
) -> errors.InvalidInputError:
    """Return what is wrong with an input that does not parse as the schema."""
    try:
        parsed = _read_json(open_input, json.ParseOptions())
        present = set(parsed.column_names)
        known = {key: name for name, key in keys.items() if key in present}
        maps = {key for key, name in known.items() if pa.types.is_map(schema.field(name).type)}
        if foreign := [name for name in parsed.column_names if name not in known]:
            return columns.unknown(foreign[0], schema, origin)
        known = {key: name for key, name in known.items() if key not in maps}
        for key, name in known.items():
            kind = schema.field(name).type
            wrong = columns.foreign_field(name, parsed.schema.field(key).type, kind)
            if wrong is not None:
                return errors.InvalidInputError(f"{origin}: {wrong}")
        data = _renamed(parsed, {name: key for key, name in known.items()})
        casting.cast(data, schema, origin, first_row=first_row)
    except errors.InvalidInputError as misfit:
        return misfit
    except pa.ArrowInvalid as plain:
        error = plain
    return errors.InvalidInputError(f"{origin}: {_shown(error)}")


def _same(schema: pa.Schema) -> dict[str, str]:
    return {name: name for name in schema.names}


def _renamed(parsed: pa.Table, keys: Mapping[str, str]) -> pa.Table:
    return pa.table({name: parsed[key] for name, key in keys.items()})


def _parsed_type(kind: pa.DataType) -> pa.DataType:
    """Return the type that JSON is parsed into: texts where JSON has no type of its own."""
    if pa.types.is_floating(kind):
        return pa.float64()
    is_text = pa.types.is_temporal(kind) or pa.types.is_binary(kind) or pa.types.is_map(kind)
    return pa.string() if is_text else kind


def _with_maps(data: pa.Table, schema: pa.Schema, origin: str) -> pa.Table:
    """Return the table with the maps that texts of JSON stand for."""
    for index, name in enumerate(data.column_names):
        kind = schema.field(name).type
        if not pa.types.is_map(kind):
            continue
        try:
            found = json_maps.of_texts(data.column(index), kind)
        except errors.InvalidInputError as error:
            raise errors.InvalidInputError(f"{origin}: column {name!r} {error}") from error
        data = data.set_column(index, name, found)
    return data


def _with_bytes(data: pa.Table, schema: pa.Schema, origin: str) -> pa.Table:
    """Return the table with the bytes that base64 texts stand for."""
    for index, name in enumerate(data.column_names):
        if not pa.types.is_binary(schema.field(name).type):
            continue
        try:
            decoded = [
                None if text is None else base64.b64decode(text, validate=True)
                for text in data.column(index).to_pylist()
            ]
        except (binascii.Error, ValueError):
            raise errors.InvalidInputError(
                f"{origin}: column {name!r} has a text that is not base64, the encoding of bytes "
                "in JSON"
            ) from None
        data = data.set_column(index, name, pa.array(decoded, pa.binary()))
    return data


def _csv_rules(
    source: input_sources.Source, reject: Callable[[csv.InvalidRow], str] | None = None
) -> csv.ParseOptions:
    return csv.ParseOptions(
        delimiter=source.delimiter, newlines_in_values=True, invalid_row_handler=reject
    )


def _in_blocks(parse: Callable[[int], _Parsed]) -> _Parsed:
    """Return what `parse` makes of the input in blocks of some size in bytes, as few as will do."""
    usual, large = _BLOCK_BYTES
    try:
        return parse(usual)
    except pa.ArrowInvalid as error:
        if _ROW_TOO_LONG not in str(error):
            raise
    return parse(large)


def _shown(error: Exception) -> str:
    """Return Arrow's message in a user's words, where it has none."""
    text = str(error).strip().splitlines()[0]
    if "\0" in text:
        return (
            "has zero bytes, as UTF-16 has them, expected UTF-8, or another encoding that is named"
        )
    for pattern, hint in _HINTS:
        if pattern.search(text):
            return text + hint
    if _ROW_TOO_LONG in text:
        return f"a row is longer than {_BLOCK_BYTES[-1] >> 20} MiB"
    if (kinds := _OTHER_KIND.search(text)) is None:
        return text
    name, expected, found = kinds.groups()
    if not name:
        return f"JSON parse error: found {found}, expected objects: one a line, or in one array"
    return f"column {name!r} has a value of JSON type {found}, expected {expected}"
