"""File groups that we replace, in tables that Apache Hudi writes, reads, cleans and archives too.

After each step both read the same rows, by listing and by metadata table, and the rows are those of
a model.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hoodie.model import commits
from support.peer import peer_ours, peer_sessions
from support.peer.judge import RELEASE, Judge, Query
from support.peer.peer_cases import BASE, SCHEMA, row
from support.peer.peer_options import PeerTable, filesystem_lock
from support.peer.peer_rows import assert_same_rows

KEY = ["part", "id"]
OFTEN = {"hoodie.metadata.compact.max.delta.commits": "5"}
RECORD_INDEX = {
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.embed.timeline.server": "true",
    "hoodie.index.type": "RECORD_INDEX",
}
SIMPLE = replace(BASE, name="replaced", buckets=None, bloom_filter=True)
WITH_METADATA = replace(SIMPLE, metadata_table=True, extra=OFTEN)
TABLES: Mapping[str, tuple[PeerTable, Sequence[str]]] = {
    "mor, buckets": (replace(BASE, name="replaced"), ("bucket", "--buckets", "2")),
    "cow, simple": (replace(SIMPLE, merge_on_read=False), ("simple",)),
    "cow, buckets, metadata": (
        replace(BASE, name="replaced", merge_on_read=False, metadata_table=True, extra=OFTEN),
        ("bucket", "--buckets", "2"),
    ),
    "mor, record index": (replace(WITH_METADATA, extra=OFTEN | RECORD_INDEX), ("simple",)),
    "cow, record index, version 8": (
        replace(WITH_METADATA, merge_on_read=False, table_version=8, extra=OFTEN | RECORD_INDEX),
        ("bloom",),
    ),
}
if RELEASE.startswith("1.0."):
    TABLES = {kind: each for kind, each in TABLES.items() if each[0].table_version == 8}
SKIPPING = Query(use_metadata_table=True, options={"hoodie.enable.data.skipping": "true"})
ARCHIVE = {
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.cleaner.commits.retained": "1",
    "hoodie.clean.commits.retained": "1",
}


class Turns:
    """A table that both change, and what should be in it."""

    def __init__(self, judge: Judge, path: Path, kind: str) -> None:
        self.judge, self.path = judge, path
        self.made, self.index = TABLES[kind]
        self.ours = peer_ours.Hoodie(table=self.made, concurrency="occ", settings=dict(OFTEN))
        self.options = self.made.occ_options(filesystem_lock())
        self.rows: dict[tuple[str, str], dict[str, Any]] = {}

    def drawn(self, numbers: range, ts: int, part: str | None = None) -> pa.Table:
        rows = [row(number, ts=ts) for number in numbers]
        found = [each for each in rows if part in (None, each["part"])]
        return pa.Table.from_pylist(found, SCHEMA)

    def _learn(self, rows: pa.Table) -> None:
        self.rows |= {(each["part"], each["id"]): each for each in rows.to_pylist()}

    def forget(self, *parts: str) -> None:
        self.rows = {key: each for key, each in self.rows.items() if key[0] not in parts}

    def theirs(self, numbers: range, ts: int) -> None:
        rows = self.drawn(numbers, ts)
        self.judge.write(self.path, rows, self.options)
        self._learn(rows)

    def write(self, numbers: range, ts: int) -> None:
        rows = self.drawn(numbers, ts)
        self.ours.write(self.path, rows, "upsert")
        self._learn(rows)

    def overwrite(self, numbers: range, ts: int, part: str) -> None:
        rows = self.drawn(numbers, ts, part)
        self.ours.write(self.path, rows, "insert_overwrite")
        self.forget(part)
        self._learn(rows)

    def overwrite_table(self, numbers: range, ts: int) -> None:
        rows = self.drawn(numbers, ts)
        self.ours.write(self.path, rows, "insert_overwrite_table")
        self.rows = {}
        self._learn(rows)

    def delete_partition(self, part: str) -> None:
        paths = ("--partition", part)
        peer_ours.hoodie(
            "delete", self.path, *paths, "--concurrency", "occ", "--lock", "filesystem"
        )
        self.forget(part)

    def steps(self) -> Iterator[str]:
        self.theirs(range(12), 1)
        peer_ours.hoodie("adopt", self.path, "--index", *self.index, "--lock", "filesystem")
        self.write(range(6, 15), 2)
        yield "written by both"
        self.overwrite(range(21, 28), 3, "north")
        yield "a partition overwritten by ours"
        self.theirs(range(18), 4)
        yield "keys of it brought back by theirs"
        self.write(range(3, 24), 5)
        yield "and updated by ours"
        self.delete_partition("south")
        yield "a partition deleted by ours"
        self.theirs(range(1, 8), 6)
        yield "written again by theirs"
        if self.made.merge_on_read:
            self.judge.compact(self.path, self.options)
            yield "compacted by theirs"
        self.overwrite(range(4, 7), 7, "south")
        before = dict(self.rows)
        self.overwrite(range(30, 33), 8, "south")
        self.rows = before
        newest = self.judge.timeline(self.path)[-1].requested_time
        self.judge.rollback(self.path, newest, self.options)
        yield "an overwrite by ours that theirs rolled back"
        self.overwrite_table(range(8, 20), 9)
        yield "overwritten by ours"
        self.theirs(range(6), 10)
        self.judge.clean(self.path, self.options | ARCHIVE)
        yield "cleaned by theirs"
        self.write(range(4, 9), 11)
        self.theirs(range(2, 7), 12)
        self.judge.clean(self.path, self.options | ARCHIVE)
        self.judge.archive(self.path, self.options | ARCHIVE)
        yield "archived by theirs"
        self.delete_partition("west")
        self.write(range(3, 18), 13)
        clean = ["clean", self.path, "--keep-commits", "1", "--grace", "0", "--lock", "filesystem"]
        peer_ours.hoodie(*clean)
        yield "cleaned by ours"
        self.theirs(range(12), 14)
        self.theirs(range(6, 18), 15)
        yield "written by theirs"


def check(turns: Turns) -> None:
    expected = pa.Table.from_pylist(list(turns.rows.values()), SCHEMA)
    assert_same_rows(turns.judge.read(turns.path), expected, KEY)
    assert_same_rows(peer_ours.read(turns.path), expected, KEY)
    if turns.made.metadata_table:
        assert_same_rows(turns.judge.read(turns.path, SKIPPING), expected, KEY)
        where = "id IN ('key-003', 'key-010', 'key-022')"
        found = turns.judge.read(turns.path, replace(SKIPPING, where=where))
        assert_same_rows(found, turns.judge.read(turns.path, Query(where=where)), KEY)
        assert_same_rows(peer_ours.read(turns.path, "--where", where), found, KEY)
        validated = peer_ours.hoodie("metadata", "validate", turns.path)
        found = [validated[name] for name in ("differences", "statistics", "filters", "keys")]
        assert found == [[], [], [], []]


@pytest.mark.sample(0)  # A minute each; the other one has both engines, too.
@pytest.mark.parametrize("kind", TABLES)
def test_replaced_file_groups_are_replaced_for_both(
    kind: str, judge: Judge, tmp_path: Path
) -> None:
    turns = Turns(judge, tmp_path / "table", kind)
    for step in turns.steps():
        try:
            check(turns)
        except AssertionError as error:
            raise AssertionError(f"{step}: {error}") from error
    assert peer_ours.hoodie("check", turns.path)["findings"] == []


def test_replacement_that_did_not_end_is_rolled_back_by_theirs(
    judge: Judge, tmp_path: Path
) -> None:
    """Its requested file is empty, where theirs has a plan without content."""
    kind = "cow, simple" if "cow, simple" in TABLES else next(iter(TABLES))
    turns = Turns(judge, tmp_path / "table", kind)
    turns.theirs(range(12), 1)
    peer_ours.hoodie("adopt", turns.path, "--index", *turns.index)
    rows = turns.drawn(range(30, 33), 2)
    session, _ = peer_sessions.begun(turns.path, rows, operation=commits.Operation.INSERT_OVERWRITE)
    # Beside it, and after it.
    turns.theirs(range(6, 15), 3)
    check(turns)
    judge.rollback(turns.path, session.requested_time, turns.options)
    turns.write(range(3, 9), 4)
    check(turns)
    session.abort(has_tasks_left=True)
