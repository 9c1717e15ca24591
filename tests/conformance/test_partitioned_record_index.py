"""A record index of each partition, made by Apache Hudi or by us, kept up by both in turn.

Keys are in several partitions. Apache Hudi updates rows by look-ups in the index, so that a record
that is not where it looks would double a row. What it inserts goes to buckets: by look-ups it would
go to any file group, and of a merge-on-read table's known buckets it is not added to the index.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hoodie import environment
from hoodie.model.key_changes import RECORD_INDEX
from hoodie.table import open_table
from hoodie.transaction import authors
from hoodie.transaction.locks import address_texts
from hoodie.transaction.manager import TransactionOptions
from support.peer import peer_ours
from support.peer.judge import RELEASE, Judge, Query
from support.peer.peer_cases import BASE, SCHEMA, row
from support.peer.peer_options import PeerTable
from support.peer.peer_rows import assert_same_rows
from support.tables.tables import QUICK

KEY = ["part", "id"]
INDEXED = {
    "hoodie.metadata.record.level.index.enable": "true",
    "hoodie.metadata.record.level.index.min.filegroup.count": "2",
    "hoodie.metadata.compact.max.delta.commits": "6",
    "hoodie.embed.timeline.server": "true",
}
BY_INDEX = {"hoodie.index.type": "RECORD_LEVEL_INDEX"}
NAMES = {
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.datasource.write.partitionpath.urlencode": "true",
}
COPY_ON_WRITE = replace(BASE, name="parts", metadata_table=True, merge_on_read=False, extra=INDEXED)
TABLES = {
    "cow, version 8, names escaped": replace(COPY_ON_WRITE, table_version=8, extra=INDEXED | NAMES),
    "mor": replace(COPY_ON_WRITE, merge_on_read=True),
}
BUILT = {
    "cow, names escaped": replace(COPY_ON_WRITE, extra=INDEXED | NAMES),
    "cow, simple index": replace(COPY_ON_WRITE, buckets=None),
    "mor": TABLES["mor"],
}
LOCK = ("--lock", "filesystem")
FIRST, SECOND, THIRD = "2026-01-01", "a b_c", "west"
BY_METADATA = Query(use_metadata_table=True, options={"hoodie.enable.data.skipping": "true"})


class Turns:
    """Changes by both engines, and what the table must hold after them."""

    def __init__(self, judge: Judge, path: Path, made: PeerTable) -> None:
        self.judge = judge
        self.path = path
        self.options = made.write_options()
        self.looking_up = self.options | BY_INDEX
        often = {"hoodie.metadata.compact.max.delta.commits": "6"}
        self.ours = peer_ours.Hoodie(
            table=made,
            settings=often,
            orders_deletes=True,
            concurrency="occ" if made.buckets is None else None,
        )
        self.rows: dict[tuple[str, str], dict[str, Any]] = {}

    def _taken_up(self, numbers: Sequence[int], parts: Sequence[str], ts: int) -> pa.Table:
        rows = [row(number, ts=ts, part=part) for part in parts for number in numbers]
        self.rows |= {(each["part"], each["id"]): each for each in rows}
        return pa.Table.from_pylist(rows, SCHEMA)

    def by_ours(self, numbers: Sequence[int], parts: Sequence[str], ts: int) -> None:
        self.ours.write(self.path, self._taken_up(numbers, parts, ts), "upsert")

    def updated_by_theirs(self, numbers: Sequence[int], part: str, ts: int) -> None:
        # Of one partition: its writer takes file groups of one id in two partitions for one.
        self.judge.write(self.path, self._taken_up(numbers, [part], ts), self.looking_up)

    def inserted_by_theirs(self, numbers: Sequence[int], parts: Sequence[str], ts: int) -> None:
        self.judge.write(self.path, self._taken_up(numbers, parts, ts), self.options)

    def deletes(self, numbers: Sequence[int], part: str, ts: int) -> pa.Table:
        rows = [row(number, ts=ts, part=part) for number in numbers]
        for each in rows:
            del self.rows[each["part"], each["id"]]
        return pa.Table.from_pylist(rows, SCHEMA)

    @property
    def content(self) -> pa.Table:
        return pa.Table.from_pylist(list(self.rows.values()), SCHEMA)

    def check(self) -> None:
        assert_same_rows(peer_ours.read(self.path), self.content, KEY)
        assert_same_rows(self.judge.read(self.path, BY_METADATA), self.content, KEY)
        validated = peer_ours.hoodie("metadata", "validate", self.path)
        found = [validated[name] for name in ("differences", "statistics", "filters", "keys")]
        assert found == [[], [], [], []]
        for where in ("id = 'key-003'", f"id IN ('key-003', 'key-005') AND part = '{SECOND}'"):
            expected = self.judge.read(self.path, Query(where=where))
            assert_same_rows(peer_ours.read(self.path, "--where", where), expected, KEY)


def build(table: Turns) -> None:
    """Build the index while partitions come into being, by the API of commands."""
    path, number = table.path, 0
    peer_ours.hoodie("configure", path, "--no-foreign-writers", *LOCK)
    peer_ours.hoodie("metadata", "init", path, "--files-only", *LOCK)

    def write(what: str) -> None:
        nonlocal number
        number += 1
        # The third partition is theirs to make.
        table.by_ours(range(6), [FIRST, "during"][: 1 + number // 2], 1)

    transaction = TransactionOptions(
        settings=QUICK, lock=address_texts.parse("filesystem"), author=authors.Author()
    )
    opened = open_table(str(path), environment.system(parallelism=2))
    opened.build_index([RECORD_INDEX], transaction, write, is_partitioned=True)
    assert number > 3
    peer_ours.hoodie("configure", path, "--foreign-writers", *LOCK)


def turns(
    judge: Judge, path: Path, made: PeerTable, *, is_built: bool = False
) -> Iterator[tuple[str, Turns]]:
    """Change a table, and yield after each step what was done."""
    table = Turns(judge, path, made)
    peer_ours.create(path, made, SCHEMA)
    table.by_ours(range(6), [FIRST], 1)
    if is_built:
        build(table)
        yield "the index was built by ours", table
        table.updated_by_theirs(range(2, 6), "during", 2)
        yield "rows of a partition that came into being meanwhile were updated by theirs", table
    table.inserted_by_theirs(range(3, 6), [FIRST], 2)
    yield "rows were written by theirs, which makes the index if there is none", table
    table.by_ours(range(6), [FIRST, SECOND], 3)
    yield "a partition that ours has made, with keys of another", table
    table.updated_by_theirs(range(6), SECOND, 4)
    yield "updated by theirs, which look keys up", table
    table.inserted_by_theirs(range(2, 8), [THIRD], 5)
    yield "a partition that theirs has made", table
    table.by_ours(range(8), [SECOND, THIRD], 6)
    table.ours.write(path, table.deletes([3, 4], SECOND, 7), "delete")
    yield "updated, inserted and deleted by ours", table
    judge.write(path, table.deletes([5], THIRD, 7), table.looking_up, operation="delete")
    yield "deleted by theirs", table
    table.by_ours([3, 5], [SECOND, THIRD], 10)
    table.updated_by_theirs(range(8), THIRD, 11)
    yield "inserted again by ours, updated by theirs", table
    if made.merge_on_read:
        plan = table.ours.schedule_compaction(path)
        assert plan is not None
        table.ours.execute_compaction(path, plan)
        table.by_ours(range(3), [FIRST, SECOND], 12)
        yield "compacted by ours", table
        judge.compact(path, table.options)
        yield "compacted by theirs", table
    before = dict(table.rows)
    table.by_ours(range(5), ["new", FIRST], 13)
    table.rows = before
    judge.rollback(path, judge.timeline(path)[-1].requested_time, table.options)
    yield "a write of ours, with a new partition, rolled back by theirs", table
    table.inserted_by_theirs(range(4), ["new"], 14)
    table.by_ours(range(2, 6), ["new", THIRD], 15)
    peer_ours.hoodie("clean", path, "--keep-commits", "1", "--grace", "0", "--lock", "filesystem")
    judge.clean(path, table.options)
    yield "that partition made by theirs, and cleaned by both", table


OF_PARTITIONS_ONLY = pytest.mark.skipif(
    RELEASE.startswith("1.0."), reason="Apache Hudi 1.0 has no such index"
)


@pytest.mark.sample(0)  # Minutes.
@OF_PARTITIONS_ONLY
@pytest.mark.parametrize("kind", TABLES)
def test_both_engines_keep_the_index_up(kind: str, judge: Judge, tmp_path: Path) -> None:
    for stage, table in turns(judge, tmp_path / "table", TABLES[kind]):
        try:
            table.check()
        except AssertionError as error:
            raise AssertionError(f"{stage}: {error}") from error


@pytest.mark.sample(0)  # Minutes.
@OF_PARTITIONS_ONLY
@pytest.mark.parametrize("kind", BUILT)
def test_both_engines_keep_an_index_up_that_we_built(
    kind: str, judge: Judge, tmp_path: Path
) -> None:
    for stage, table in turns(judge, tmp_path / "table", BUILT[kind], is_built=True):
        try:
            table.check()
        except AssertionError as error:
            raise AssertionError(f"{stage}: {error}") from error


@pytest.mark.parametrize(
    "index", [pytest.param("record.level", marks=OF_PARTITIONS_ONLY), "global.record.level"]
)
def test_rows_are_read_that_a_bucket_writer_of_theirs_did_not_add_to_the_index(
    index: str, judge: Judge, tmp_path: Path
) -> None:
    """Of what it inserts into log files its index has no key."""
    version = 9
    if RELEASE.startswith("1.0."):
        index, version = "record", 8
    indexed = {f"hoodie.metadata.{index}.index.enable": "true"} | {
        "hoodie.embed.timeline.server": "true"
    }
    made = replace(BASE, name="parts", metadata_table=True, extra=indexed, table_version=version)
    path = tmp_path / "table"
    peer_ours.create(path, made, SCHEMA)
    for start in (0, 3, 6):
        rows = [row(number, ts=1 + start) for number in range(start, start + 6)]
        judge.write(path, pa.Table.from_pylist(rows, SCHEMA), made.write_options())
    for compacted in (False, True):
        for number in (0, 7, 11):
            where = f"id = 'key-{number:03d}'"
            assert peer_ours.read(path, "--where", where).num_rows == 1, (where, compacted)
        if not compacted:
            judge.compact(path, made.write_options())
    with pytest.raises(peer_ours.CommandFailedError, match="ended with 1"):
        peer_ours.hoodie("metadata", "validate", path)
