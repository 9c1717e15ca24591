"""What inserts do about repeated keys, by option: the rows that Apache Hudi leaves, row by row."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from support.peer import peer_ours
from support.peer.judge import Judge
from support.peer.peer_cases import BASE, SCHEMA, row
from support.peer.peer_options import PeerTable
from support.peer.peer_rows import assert_same_rows

COW = replace(BASE, name="inserted", merge_on_read=False, partition_by=())
COMBINE = {"hoodie.combine.before.insert": "true"}
DROP = {"hoodie.datasource.write.insert.drop.duplicates": "true"}
MERGE = {"hoodie.merge.allow.duplicate.on.inserts": "false"}
# With its bucket index Apache Hudi drops every row of a bucket that has a file group.
BLOOM = {"hoodie.index.type": "BLOOM"}


def batch(*numbers_and_times: tuple[int, int]) -> pa.Table:
    return pa.Table.from_pylist([row(n, ts=ts) for n, ts in numbers_and_times], SCHEMA)


FIRST = batch((0, 10), (1, 10), (2, 10), (0, 5))
SECOND = batch((0, 20), (1, 5), (3, 7), (3, 9), (3, 8), (4, 1))


@pytest.mark.parametrize(
    ("table", "options", "operations"),
    [
        (COW, {}, ("insert", "insert", "upsert")),
        (COW, COMBINE, ("insert", "insert", "delete")),
        (COW, MERGE, ("upsert", "insert")),
        (replace(COW, ordering=None), COMBINE, ("insert", "insert")),
        (COW, {}, ("bulk_insert", "upsert")),
        (COW, COMBINE, ("bulk_insert", "insert")),
        (replace(COW, table_version=8), DROP, ("insert", "insert")),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, tuple | dict) else "",
)
def test_inserts_leave_the_rows_that_apache_hudi_leaves(
    table: PeerTable,
    options: Mapping[str, str],
    operations: tuple[str, ...],
    judge: Judge,
    tmp_path: Path,
) -> None:
    ours = peer_ours.Hoodie(table=table, concurrency="single-writer", settings=options)
    theirs = table.write_options() | dict(options) | (BLOOM if options == DROP else {})
    batches = (FIRST, SECOND, batch((0, 30), (3, 40)))
    for operation, rows in zip(operations, batches, strict=False):
        ours.write(tmp_path / "ours", rows, operation)
        judge.write(tmp_path / "theirs", rows, theirs, operation=operation)
        expected = judge.read(tmp_path / "theirs")
        for found in (judge.read(tmp_path / "ours"), peer_ours.read(tmp_path / "ours")):
            assert_same_rows(found, expected, ["id", "ts"])
