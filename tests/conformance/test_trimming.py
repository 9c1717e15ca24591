"""Apache Hudi goes on with a table whose archived timeline was trimmed, and we with its."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from hoodie import environment, table
from hoodie.maintenance.archiving import planning
from hoodie.maintenance.cleaning import retention
from hoodie.model import commits, instants, settings
from hoodie.timeline import archived
from hoodie.transaction import authors, manager
from hoodie.transaction.locks import address_texts
from hoodie.write import sessions
from support.peer import peer_ours
from support.peer.judge import Judge
from support.peer.peer_cases import BASE, SCHEMA, row
from support.peer.peer_options import PeerTable, filesystem_lock
from support.peer.peer_rows import assert_same_rows
from support.tables import earlier

MERGE_ON_READ = replace(BASE, name="trimmed", partition_by=(), buckets=1)
COPY_ON_WRITE = replace(MERGE_ON_READ, merge_on_read=False)
POLICY = planning.Policy(commits_min=2, commits_max=4, compaction_delta_commits=2)
CLEAN = retention.Retention(retained=1, grace_ms=0)
OLD = 24
DAYS = 7
THEIR_POLICY = {
    "hoodie.archive.automatic": "true",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.clean.automatic": "true",
    "hoodie.clean.commits.retained": "1",
    "hoodie.compact.inline.max.delta.commits": "2",
    "hoodie.timeline.compaction.batch.size": "3",
}


@pytest.fixture(params=[MERGE_ON_READ, COPY_ON_WRITE], ids=["merge-on-read", "copy-on-write"])
def peer_table(request: pytest.FixtureRequest) -> PeerTable:
    found: PeerTable = request.param
    return found


def rows(ts: int) -> pa.Table:
    return pa.Table.from_pylist([row(n, ts=ts) for n in range(3)], SCHEMA)


def transaction() -> manager.TransactionOptions:
    return manager.TransactionOptions(
        settings=settings.WriteSettings(
            concurrency=settings.ConcurrencyMode.OPTIMISTIC, clock_wait_ms=20, clock_skew_ms_max=20
        ),
        lock=address_texts.parse("filesystem"),
        author=authors.Author(writer_id="ours"),
    )


class Ours:
    """Our side: each write is followed by all services, as of some day."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ts = 0

    def opened(self, days: float = 0) -> table.Table:
        return table.open_table(str(self.path), earlier.system(days))

    def write(self, count: int, days: float = 0) -> None:
        opened = self.opened(days)
        options = sessions.WriteOptions(
            operation=commits.Operation.UPSERT, transaction=transaction()
        )
        for number in range(count):
            self.ts += 1
            opened.write(rows(self.ts), options)
            if number % 3 == 2:
                self.compact(opened)
                opened.clean(CLEAN, transaction())
                opened.archive(transaction(), POLICY)

    def compact(self, opened: table.Table) -> None:
        if opened.config.is_copy_on_write:
            return
        planned = opened.schedule_compaction(transaction())
        if planned is not None:
            opened.compact(planned, transaction())

    def trim(self) -> None:
        self.opened().archive(transaction(), replace(POLICY, history_days=DAYS))

    def archived(self) -> list[instants.InstantTime]:
        found = [each.instant.requested_time for each in self.opened().archived_instants()]
        return sorted(found)

    def check(self, judge: Judge) -> None:
        """Check that both read the rows written last, and find the same instants."""
        assert_same_rows(judge.read(self.path), rows(self.ts), ["id"])
        assert_same_rows(peer_ours.read(self.path), rows(self.ts), ["id"])
        peer_ours.hoodie("check", self.path)
        found, _ = judge.archived(self.path)
        assert sorted(each.requested_time for each in found) == self.archived()


def go_on_as_they(judge: Judge, ours: Ours, options: Mapping[str, str], count: int) -> None:
    for _ in range(count):
        ours.ts += 1
        judge.write(ours.path, rows(ours.ts), options)
        ours.check(judge)


@pytest.mark.sample(0)  # Some forty seconds each.
def test_table_whose_history_was_trimmed_is_continued_by_apache_hudi(
    peer_table: PeerTable, judge: Judge, tmp_path: Path
) -> None:
    ours = Ours(tmp_path / "table")
    peer_ours.create(ours.path, peer_table, SCHEMA)
    ours.write(OLD, days=30)
    ours.write(6)
    before = ours.archived()
    assert len(before) > OLD
    ours.trim()
    left = ours.archived()
    assert 0 < len(left) < len(before) - OLD // 2
    ours.check(judge)
    theirs = peer_table.occ_options(filesystem_lock()) | THEIR_POLICY
    go_on_as_they(judge, ours, theirs, 6)
    if peer_table.merge_on_read:
        judge.compact(ours.path, theirs)
        ours.check(judge)
    judge.clean(ours.path, theirs)
    judge.archive(ours.path, theirs)
    ours.check(judge)
    assert max(ours.archived()) > max(left)
    ours.write(6)
    ours.trim()
    ours.check(judge)


@pytest.mark.sample(0)  # Some forty seconds each.
def test_archive_that_was_trimmed_to_nothing_is_continued_by_apache_hudi(
    peer_table: PeerTable, judge: Judge, tmp_path: Path
) -> None:
    ours = Ours(tmp_path / "table")
    peer_ours.create(ours.path, peer_table, SCHEMA)
    ours.write(OLD, days=30)
    opened = ours.opened()
    ours.ts += 1
    options = sessions.WriteOptions(operation=commits.Operation.UPSERT, transaction=transaction())
    opened.write(rows(ours.ts), options)
    ours.compact(opened)
    opened.clean(CLEAN, transaction())
    ours.trim()
    storage = environment.system().open_storage(str(ours.path))
    assert archived.newest_files(storage) == ()
    ours.check(judge)
    theirs = peer_table.occ_options(filesystem_lock()) | THEIR_POLICY
    go_on_as_they(judge, ours, theirs, 5)
    judge.archive(ours.path, theirs)
    ours.check(judge)
    assert ours.archived()
    ours.write(6)
    ours.trim()
    ours.check(judge)
