"""Sorted bulk inserts: Apache Hudi reads their rows, leaves out files by them, and goes on."""

import math
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from support.peer import peer_ours
from support.peer.judge import RELEASE, Judge, Query
from support.peer.peer_cases import BASE, SCHEMA, row
from support.peer.peer_options import PeerTable, filesystem_lock
from support.peer.peer_rows import assert_same_rows

KEY = ["part", "id"]
BUCKETS = replace(BASE, name="ranges", metadata_table=True)
SIMPLE = replace(BUCKETS, buckets=None, bloom_filter=True)
SMALL_FILES = {"hoodie.parquet.max.file.size": "2000", "hoodie.parquet.small.file.limit": "0"}
TABLES = {
    "mor, simple": SIMPLE,
    "cow, simple": replace(SIMPLE, merge_on_read=False),
    "mor, buckets": BUCKETS,
    "cow, buckets, version 8": replace(BUCKETS, merge_on_read=False, table_version=8),
    "mor, simple, version 8": replace(SIMPLE, table_version=8),
}
if RELEASE.startswith("1.0."):
    TABLES = {kind: each for kind, each in TABLES.items() if each.table_version == 8}


def rows_of(numbers: range, ts: int) -> pa.Table:
    rows = [row(n, ts=ts, quantity=n * 71 % len(numbers)) for n in numbers]
    # Without a NaN: of a file with one Apache Hudi's statistics are other ones (format.md).
    special = {0: None, 1: math.inf, 2: -math.inf}
    for number, value in special.items():
        rows[number]["amount"] = value
    return pa.Table.from_pylist(rows, SCHEMA)


@pytest.mark.parametrize("kind", TABLES)
def test_apache_hudi_reads_and_changes_what_was_sorted(
    kind: str, judge: Judge, tmp_path: Path
) -> None:
    made: PeerTable = TABLES[kind]
    path = tmp_path / "table"
    ours = peer_ours.Hoodie(
        table=made, concurrency="occ", settings=SMALL_FILES, creation=("--metadata-table",)
    )
    rows = rows_of(range(240), 1)
    ours.write(path, rows, "bulk_insert", "--sort-by", "quantity,amount")
    assert_sorted(path, "quantity")
    with_metadata = Query(use_metadata_table=True)
    some = "quantity >= 100 and quantity < 110"
    narrow = Query(use_metadata_table=True, where=some)
    chosen = pc.and_(
        pc.greater_equal(rows.column("quantity"), 100), pc.less(rows.column("quantity"), 110)
    )
    for query, expected in ((with_metadata, rows), (narrow, rows.filter(chosen))):
        assert_same_rows(judge.read(path, query), expected, KEY)
    assert_same_rows(peer_ours.read(path, "--where", some), rows.filter(chosen), KEY)

    changed = rows_of(range(240), 2).slice(60, 90)
    judge.write(path, changed, made.occ_options(filesystem_lock()))
    left = [*range(60), *range(150, 240)]
    rows = pa.concat_tables([rows.take(left), changed])
    ours.write(path, rows.slice(0, 5).select([*KEY, "ts"]), "delete")
    rows = rows.slice(5)
    for found in (judge.read(path, with_metadata), judge.read(path), peer_ours.read(path)):
        assert_same_rows(found, rows, KEY)
    peer_ours.hoodie("metadata", "validate", path)
    peer_ours.hoodie("check", path)


def assert_sorted(path: Path, column: str) -> None:
    files = list(path.rglob("[!.]*.parquet"))
    assert len(files) > 3
    for each in files:
        values = pq.read_table(each, partitioning=None).column(column).to_pylist()
        assert values == sorted(values)
