"""Decimals of a table created from an Avro schema, once Apache Hudi has rewritten a base file."""

import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from support.peer import peer_ours
from support.peer.judge import Judge
from support.peer.peer_options import PeerTable, filesystem_lock
from support.peer.peer_rows import assert_same_rows

COLUMNS = pa.schema([("id", pa.string()), ("price", pa.decimal128(12, 2)), ("ts", pa.int64())])
AVRO = {
    "type": "record",
    "name": "sale",
    "fields": [
        {"name": "id", "type": "string"},
        {
            "name": "price",
            "type": [
                "null",
                {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2},
            ],
            "default": None,
        },
        {"name": "ts", "type": ["null", "long"], "default": None},
    ],
}
TABLE = PeerTable(name="sales", ordering="ts")
TABLES = {"cow": replace(TABLE, merge_on_read=False), "mor": TABLE}


def rows_of(numbers: range, ts: int) -> pa.Table:
    rows = [{"id": f"k{n}", "price": Decimal(n * 700 - 1500).scaleb(-2), "ts": ts} for n in numbers]
    rows[0]["price"] = None
    return pa.Table.from_pylist(rows, COLUMNS)


def newest(*batches: pa.Table) -> pa.Table:
    found = {each["id"]: each for one in batches for each in one.to_pylist()}
    return pa.Table.from_pylist(list(found.values()), COLUMNS)


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("is_avro", [True, False])
def test_base_files_that_apache_hudi_rewrote_are_read_by_both(
    kind: str, is_avro: bool, judge: Judge, tmp_path: Path
) -> None:
    table, path = TABLES[kind], tmp_path / "table"
    table = replace(table, parquet_logs=not is_avro)
    schema = tmp_path / "sales.avsc"
    schema.write_text(json.dumps(AVRO))
    arguments = ["--record-key", "id", "--ordering", "ts", "--buckets", "2", "--name", table.name]
    if not table.merge_on_read:
        arguments += ["--type", "cow"]
    peer_ours.hoodie("create", path, "--schema", schema, *arguments)
    ours = peer_ours.Hoodie(table=table)
    options = table.shared_options(filesystem_lock())
    first, second, third = (
        rows_of(range(start, start + 8), ts) for start, ts in ((0, 1), (4, 2), (6, 3))
    )
    ours.write(path, first, "upsert")
    assert_same_rows(judge.read(path), first, ["id"])
    judge.write(path, second, options)
    if table.merge_on_read:
        judge.compact(path, options)
    for found in (judge.read(path), peer_ours.read(path)):
        assert_same_rows(found, newest(first, second), ["id"])
    ours.write(path, third, "upsert")
    if table.merge_on_read:
        judge.compact(path, options)
    for found in (judge.read(path), peer_ours.read(path)):
        assert_same_rows(found, newest(first, second, third), ["id"])
