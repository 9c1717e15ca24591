"""Avro log blocks by our own column-wise coding beside fastavro, row by row.

    .venv/bin/python benchmarks/avro_coding.py [--rows N]

Codes the same rows both ways, compares bytes and rows, and prints processor time and ratio of each
step: the best of some repetitions. docs/adr/0022 has the figures that the choice is based on.
"""

import argparse
import io
import json
import struct
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import data
import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from hoodie.format import avro_records, delete_records, delete_rows
from hoodie.model import schemas

Result = TypeVar("Result")

_HEAD = struct.Struct(">ii")
_LENGTH = struct.Struct(">i")
_REPETITIONS = 3


def main() -> None:
    """Print a line for each step."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    count = parser.parse_args().rows
    with tempfile.TemporaryDirectory() as folder:
        sizes = data.Sizes(rows=count, upserts=0, delete_rows=0)
        found = data.generate(Path(folder), sizes)
        rows = pq.read_table(found.rows).combine_chunks()
    schema = schemas.from_arrow(data.SCHEMA, "orders").avro
    block, encode_s = timed(lambda: avro_records.encode(rows, schema))
    by_rows, encode_rows_s = timed(lambda: encode_by_rows(rows, schema))
    assert by_rows == block, "fastavro must write the same bytes"
    decoded, decode_s = timed(lambda: avro_records.decode(pa.py_buffer(block), schema))
    decoded_by_rows, decode_rows_s = timed(lambda: decode_by_rows(block, schema))
    assert decoded.equals(rows), "what was encoded must be decoded"
    assert decoded_by_rows.equals(rows), "fastavro must read the same rows"
    deletes = pa.py_buffer(delete_records.encode(rows.column("id"), "2026/01/01"))
    _, deletes_s = timed(lambda: delete_records.decode(deletes))
    _, deletes_rows_s = timed(lambda: delete_rows.decode(deletes[_HEAD.size :]))
    table = Table("step", "by columns, s", "fastavro, s", "ratio")
    for step, ours_s, theirs_s in (
        ("encode data block", encode_s, encode_rows_s),
        ("decode data block", decode_s, decode_rows_s),
        ("decode delete block", deletes_s, deletes_rows_s),
    ):
        table.add_row(step, f"{ours_s:.3f}", f"{theirs_s:.3f}", f"{theirs_s / ours_s:.1f}")
    Console().print(f"{count:,} rows of {len(data.SCHEMA)} columns", table)


def timed(step: Callable[[], Result]) -> tuple[Result, float]:
    """Return what a step gives, and the least processor time of its repetitions in seconds."""
    times = []
    for _ in range(_REPETITIONS):
        begun = time.process_time()
        result = step()
        times.append(time.process_time() - begun)
    return result, min(times)


def encode_by_rows(rows: pa.Table, avro_json: str) -> bytes:
    """Return the content of a data block, each row written by fastavro."""
    schema = fastavro.parse_schema(json.loads(avro_json))
    block = io.BytesIO()
    block.write(_HEAD.pack(avro_records.VERSION, rows.num_rows))
    for row in rows.to_pylist():
        record = io.BytesIO()
        fastavro.schemaless_writer(record, schema, row)
        block.write(_LENGTH.pack(record.tell()) + record.getvalue())
    return block.getvalue()


def decode_by_rows(block: bytes, avro_json: str) -> pa.Table:
    """Return the rows of a data block, each read by fastavro."""
    schema = fastavro.parse_schema(json.loads(avro_json))
    at = _HEAD.size
    rows = []
    while at < len(block):
        (length,) = _LENGTH.unpack_from(block, at)
        at += _LENGTH.size
        rows.append(fastavro.schemaless_reader(io.BytesIO(block[at : at + length]), schema))
        at += length
    return pa.Table.from_pylist(rows, schema=data.SCHEMA)


if __name__ == "__main__":
    main()
