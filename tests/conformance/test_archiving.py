"""The archived timeline of either side is read, continued and merged by the other (T-X07, S163)."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from hoodie import environment, table
from hoodie.maintenance.archiving import planning
from hoodie.model import commits, settings
from hoodie.timeline import archived, history_tree
from hoodie.transaction import authors, manager
from hoodie.transaction.locks import address_texts
from hoodie.write import sessions
from support.peer import peer_ours
from support.peer.judge import InstantState, Judge
from support.peer.peer_cases import BASE, SCHEMA, row
from support.peer.peer_options import PeerTable, filesystem_lock
from support.peer.peer_rows import assert_same_rows

MERGE_ON_READ = replace(BASE, name="archived", partition_by=(), buckets=1)
COPY_ON_WRITE = replace(MERGE_ON_READ, merge_on_read=False)
POLICY = planning.Policy(commits_min=2, commits_max=4, compaction_delta_commits=2)
OURS = 120
THEIRS = 14
THEIR_POLICY = {
    "hoodie.archive.automatic": "true",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.clean.commits.retained": "1",
    "hoodie.compact.inline.max.delta.commits": "2",
    "hoodie.timeline.compaction.batch.size": "3",
}


@pytest.fixture(params=[MERGE_ON_READ, COPY_ON_WRITE], ids=["merge-on-read", "copy-on-write"])
def shared(request: pytest.FixtureRequest) -> PeerTable:
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


class Shared:
    """A table that both write and archive, and what both must know of it."""

    def __init__(self, path: Path, peer_table: PeerTable) -> None:
        self.path = path
        self.peer_table = peer_table
        self.times: dict[str, str] = {}
        self.ts = 0

    def write_ours(self, count: int, archive_each: int) -> None:
        opened = table.open_table(str(self.path), environment.system())
        options = sessions.WriteOptions(
            operation=commits.Operation.UPSERT, transaction=transaction()
        )
        for number in range(count):
            self.ts += 1
            opened.write(rows(self.ts), options)
            self.note()
            if number % archive_each == archive_each - 1:
                opened.archive(transaction(), POLICY)

    def write_theirs(self, judge: Judge, options: Mapping[str, str], count: int) -> None:
        for _ in range(count):
            self.ts += 1
            judge.write(self.path, rows(self.ts), options)
            self.note()

    def note(self) -> None:
        """Remember all that is on the timeline."""
        timeline = table.open_table(str(self.path), environment.system()).timeline()
        for each in timeline.completed:
            self.times[each.requested_time] = each.completion_time or ""

    def check(self, judge: Judge) -> None:
        """Check that both find each instant once, with its completion time, and the same rows."""
        opened = table.open_table(str(self.path), environment.system())
        timeline = opened.timeline()
        active = {each.requested_time: each.completion_time for each in timeline.completed}
        old = [each.instant for each in opened.archived_instants()]
        assert {
            **{each.requested_time: each.completion_time for each in old},
            **active,
        } == self.times
        found, completion_times = judge.archived(self.path, self.times)
        assert completion_times == self.times
        assert {(each.requested_time, each.action) for each in found} == {
            (each.requested_time, each.action.value) for each in old
        }
        assert {each.state for each in found} == {InstantState.COMPLETED}
        assert_same_rows(judge.read(self.path), rows(self.ts), ["id"])
        assert_same_rows(peer_ours.read(self.path), rows(self.ts), ["id"])
        peer_ours.hoodie("check", self.path)

    def levels(self) -> list[int]:
        storage = environment.system().open_storage(str(self.path))
        number = archived.newest_manifest(storage)
        assert number is not None
        return [each.level for each in archived.files_of_manifest(storage, number)]


@pytest.mark.sample(0)  # Minutes.
def test_both_archive_one_table_in_turn(shared: PeerTable, judge: Judge, tmp_path: Path) -> None:
    """T-X07: hundreds of commits, with levels merged on both sides."""
    both = Shared(tmp_path / "table", shared)
    peer_ours.create(both.path, shared, SCHEMA)
    both.write_ours(OURS, archive_each=3)
    assert max(both.levels()) >= 1
    both.check(judge)
    theirs = shared.occ_options(filesystem_lock()) | THEIR_POLICY
    before = max(both.levels())
    both.write_theirs(judge, theirs, THEIRS)
    both.check(judge)
    assert max(both.levels()) >= before
    assert len(both.levels()) < OURS // 3
    both.write_ours(40, archive_each=2)
    both.check(judge)
    judge.archive(both.path, theirs)
    both.check(judge)


def test_run_of_ours_that_died_is_finished_by_apache_hudi(
    shared: PeerTable, judge: Judge, tmp_path: Path
) -> None:
    """The manifest is published, and no file deleted: its archiver drops or repeats them."""
    both = Shared(tmp_path / "table", shared)
    peer_ours.create(both.path, shared, SCHEMA)
    both.write_ours(8, archive_each=100)
    kept = {
        file: file.read_bytes()
        for file in (both.path / ".hoodie/timeline").iterdir()
        if file.is_file()
    }
    table.open_table(str(both.path), environment.system()).archive(transaction(), POLICY)
    for file, content in kept.items():
        file.write_bytes(content)
    theirs = shared.occ_options(filesystem_lock()) | THEIR_POLICY
    both.write_theirs(judge, theirs, 4)
    both.check(judge)
    table.open_table(str(both.path), environment.system()).archive(transaction(), POLICY)
    both.check(judge)
    names = (both.path / history_tree.DIRECTORY).iterdir()
    assert [each for each in names if each.name == "_version_"]
