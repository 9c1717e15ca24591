"""How the input files of `hoodie write` are read: what their names and the options say."""

import enum
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from hoodie import errors
from hoodie.contract import input_sources
from hoodie.model import table_config


class FormatName(enum.Enum):
    """Formats, as the command line spells them."""

    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"


_FORMATS = {
    ".csv": input_sources.SourceFormat.CSV,
    ".json": input_sources.SourceFormat.JSON,
    ".jsonl": input_sources.SourceFormat.JSON,
    ".ndjson": input_sources.SourceFormat.JSON,
    ".parquet": input_sources.SourceFormat.PARQUET,
}
_COMPRESSED_SUFFIX = ".gz"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What the options say about the files.

    Attributes:
        format: Of all of them; None goes by their names.
        delimiter: CSV: between two fields.
        null_texts: CSV: mean null beside the empty field; one at most.
        has_header: CSV: whether the first line names the columns.
        columns: `NAME=SOURCE` each; empty takes all columns by name.
    """

    format: FormatName | None = None
    delimiter: str = ","
    null_texts: tuple[str, ...] = ()
    has_header: bool = True
    columns: tuple[str, ...] = ()


def source(files: Sequence[str], reading: Reading) -> input_sources.Source:
    """Return how to read files.

    Raises:
        InvalidInputError: Their formats differ or are not known, or an option is malformed.
    """
    delimiter = {"\\t": "\t"}.get(reading.delimiter, reading.delimiter)
    if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n':
        raise errors.InvalidInputError(
            f"--delimiter {reading.delimiter!r}: expected one character (or \\t) other than a quote"
        )
    if len(reading.null_texts) > 1:
        given = " and ".join(map(repr, reading.null_texts))
        raise errors.InvalidInputError(
            f"--null-text is given {len(reading.null_texts)} times ({given}), expected one text; "
            "the empty field means null as well"
        )
    return input_sources.Source(
        format=input_sources.SourceFormat(reading.format.value)
        if reading.format
        else _format(files),
        columns=tuple(_mapping(text) for text in reading.columns),
        has_header=reading.has_header,
        delimiter=delimiter,
        null_text=next(iter(reading.null_texts), None),
    )


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
    needed = {*config.record_key_fields, *config.partition_fields, *config.ordering_fields}
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
    name = file.lower().removesuffix(_COMPRESSED_SUFFIX)
    for suffix, format_ in _FORMATS.items():
        if name.endswith(suffix):
            return format_
    raise errors.InvalidInputError(
        f"input {file}: unknown file name extension, expected one of "
        f"{', '.join(_FORMATS)} or --format"
    )


def _mapping(text: str) -> input_sources.ColumnMapping:
    name, sign, source_name = text.partition("=")
    if not sign or not name or not source_name:
        raise errors.InvalidInputError(f"--column {text!r}: expected NAME=SOURCE")
    return input_sources.ColumnMapping(name=name, source=source_name)
