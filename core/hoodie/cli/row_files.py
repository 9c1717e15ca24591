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
from pyarrow import csv, parquet

from hoodie import errors
from hoodie.cli import json_lines

STANDARD_OUTPUT = "-"
PARQUET_SUFFIX = ".parquet"
CSV_SUFFIX = ".csv"

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


def write_file(rows: pa.RecordBatchReader, path: str, told: Progress) -> int:
    """Write all rows to a file, whose name tells the format; return their number.

    Raises:
        UnsupportedError: A column's type has no form in that format.
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
        UnsupportedError: A column's type has no form in CSV.
        StorageError: It cannot be written to.
    """
    stream = sys.stdout.buffer
    try:
        if is_json:
            write_json_lines(rows, stream, told)
        else:
            write_csv(rows, stream, told)
        stream.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise errors.StorageError(f"standard output: {error.strerror or error}") from error


def write_csv(rows: pa.RecordBatchReader, stream: BinaryIO, told: Progress) -> int:
    """Write rows as CSV, and return their number; null is the empty field, an empty text is "".

    Raises:
        UnsupportedError: A column's type has no form in CSV.
    """
    _check_flat(rows.schema)
    count = 0
    with csv.CSVWriter(stream, rows.schema) as writer:
        for batch in rows:
            writer.write_batch(batch)
            count += batch.num_rows
            told(count)
    return count


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
                yield batch.slice(0, left)
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


def _check_flat(schema: pa.Schema) -> None:
    for field in schema:
        if pa.types.is_nested(field.type):
            raise errors.UnsupportedError(
                f"column {field.name!r} of type {field.type} has no form in CSV, expected parquet "
                "output, or JSON lines by --json"
            )
