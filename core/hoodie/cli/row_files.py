"""Rows out of the program: parquet and CSV files put in place whole, CSV and JSON lines streamed.

A file is written beside its place and renamed, so whoever reads it finds all rows or none.
"""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, parquet

from hoodie import errors
from hoodie.cli import output
from hoodie.format import json_lines
from hoodie.storage import locations

STANDARD_OUTPUT = "-"
PARQUET_SUFFIX = ".parquet"
CSV_SUFFIX = ".csv"

_ROWS_AT_ONCE = 1 << 16
"""So many rows' text stays below the 2 GiB of Arrow's short offsets, unless rows are huge."""

Progress = Callable[[int], None]
"""Hears how many rows were written."""


def check_path(path: str) -> None:
    """Refuse an output file that nothing could be written to.

    Raises:
        InvalidInputError: Its name tells no format, or its folder does not exist.
    """
    if not path.endswith((PARQUET_SUFFIX, CSV_SUFFIX)):
        raise errors.InvalidInputError(
            f"output {path}: expected a file named {PARQUET_SUFFIX} or {CSV_SUFFIX}, or - for "
            "standard output"
        )
    if not Path(path).absolute().parent.is_dir():
        raise errors.InvalidInputError(f"output {path}: there is no such folder")
    if Path(path).is_dir():
        raise errors.InvalidInputError(f"output {path}: is a folder")


def check_outside(output_path: str, uri: str) -> None:
    """Refuse to put a file into the table itself, where other readers would take it for data.

    Raises:
        InvalidInputError: The output lies in the table's folder.
    """
    if locations.resolve(output_path).is_within(locations.resolve(uri)):
        raise errors.InvalidInputError(
            f"output {output_path} lies in the table's own folder, expected another"
        )


def write_file(rows: pa.RecordBatchReader, path: str, told: Progress) -> int:
    """Write all rows to a file, whose name tells the format; return their number.

    Raises:
        UnsupportedError: Bytes are no text, which CSV cannot hold.
        StorageError: The file cannot be written.
    """
    place = Path(path)
    partial = place.with_name(f".{place.name}.{os.getpid()}.partial")
    try:
        try:
            with partial.open("wb") as stream:
                if place.name.endswith(PARQUET_SUFFIX):
                    count = _write_parquet(rows, stream, told)
                else:
                    count = write_csv(rows, stream, told)
                stream.flush()
                os.fsync(stream.fileno())
            partial.replace(place)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise errors.StorageError(f"output {path}: {error.strerror or error}") from error
    return count


def write_standard_output(rows: pa.RecordBatchReader, told: Progress, *, is_json: bool) -> None:
    """Write all rows to standard output, as CSV or as JSON lines.

    Raises:
        BrokenPipeError: Whoever read it is gone.
        UnsupportedError: Bytes are no text, which CSV cannot hold.
        StorageError: It cannot be written to.
    """
    stream = sys.stdout.buffer
    with output.printing():
        if is_json:
            write_json_lines(rows, stream, told)
        else:
            write_csv(rows, stream, told)
        stream.flush()


def write_csv(rows: pa.RecordBatchReader, stream: BinaryIO, told: Progress) -> int:
    """Write rows as CSV, and return their number.

    Null is the empty field, an empty text is "", a float that is no number NaN, as who reads CSV
    most often expects it. Bytes are the text that they are, as CSV input has them; nested values
    are JSON, as `write_json_lines` has it.

    Raises:
        UnsupportedError: Bytes are no text.
    """
    count = 0
    nothing = pa.RecordBatch.from_pylist([], schema=rows.schema)
    with csv.CSVWriter(stream, _flat(nothing).schema) as writer:
        for batch in map(_flat, rows):
            _check_texts(batch)
            if _has_nan(batch):
                # The writer has one spelling for it, and no way to choose another.
                stream.writelines(
                    _csv_lines(batch.slice(start, _ROWS_AT_ONCE))
                    for start in range(0, batch.num_rows, _ROWS_AT_ONCE)
                )
            else:
                writer.write_batch(batch)
            count += batch.num_rows
            told(count)
    return count


def _check_texts(batch: pa.RecordBatch) -> None:
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        kind = column.type
        if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
            try:
                column.cast(pa.binary()).cast(pa.string())
            except pa.ArrowInvalid as error:
                raise errors.UnsupportedError(
                    f"column {name!r} holds bytes that are not UTF-8 text, which CSV cannot hold: "
                    "use parquet output, or --json, which writes them as base64"
                ) from error


def _has_nan(batch: pa.RecordBatch) -> bool:
    return any(
        pc.any(pc.is_nan(column)).as_py()
        for column in batch.columns
        if pa.types.is_floating(column.type)
    )


def _csv_lines(batch: pa.RecordBatch) -> bytes:
    """Return rows as Arrow's writer has them, but for NaN."""
    fields = [_csv_fields(column) for column in batch.columns]
    separators = [b","] * (len(fields) - 1) + [b"\n"]
    parts = [part for pair in zip(fields, separators, strict=True) for part in pair]
    lines = pc.binary_join_element_wise(*parts, b"")
    # The values lie one behind the other.
    content: bytes = lines.buffers()[2].to_pybytes()
    return content


def _csv_fields(column: pa.Array) -> pa.Array:
    kind = column.type
    is_text = (
        pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind)
    )
    fields = column.cast(pa.binary() if is_text else pa.string()).cast(pa.binary())
    if is_text:
        escaped = pc.replace_substring(fields, '"', '""')
        fields = pc.binary_join_element_wise(b'"', escaped, b'"', b"")
    elif pa.types.is_floating(kind):
        fields = pc.if_else(pc.is_nan(column), pa.scalar(b"NaN"), fields)
    return pc.fill_null(fields, b"")


def write_json_lines(rows: pa.RecordBatchReader, stream: BinaryIO, told: Progress) -> int:
    """Write rows as JSON objects, one a line, and return their number."""
    count = 0
    for batch in rows:
        stream.write(json_lines.encode(batch))
        count += batch.num_rows
        told(count)
    return count


def head(rows: pa.RecordBatchReader, limit: int) -> pa.RecordBatchReader:
    """Return the first rows; the others are not read."""

    def first() -> Iterator[pa.RecordBatch]:
        left = limit
        with contextlib.closing(rows):
            for batch in rows:
                # Arrow takes no length beyond 64 bits, which a user may well give.
                yield batch.slice(0, min(left, batch.num_rows))
                left -= batch.num_rows
                if left <= 0:
                    return

    if limit <= 0:
        return pa.RecordBatchReader.from_batches(rows.schema, [])
    return pa.RecordBatchReader.from_batches(rows.schema, first())


def _write_parquet(rows: pa.RecordBatchReader, stream: BinaryIO, told: Progress) -> int:
    count = 0
    with parquet.ParquetWriter(stream, rows.schema, compression="zstd") as writer:
        for batch in rows:
            writer.write_batch(batch)
            count += batch.num_rows
            told(count)
    return count


def _flat(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows with the JSON texts of nested values."""
    for index, field in enumerate(batch.schema):
        if pa.types.is_nested(field.type):
            texts = json_lines.values(batch.column(index))
            batch = batch.set_column(index, field.with_type(pa.string()), texts)
    return batch
