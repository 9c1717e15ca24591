"""Reads as of a moment and increments of tables that Apache Hudi made, beside its own.

Where it is right both return the same rows. Where it is not, what it returns is asserted as well,
so that a release that mends it is noticed (docs/guarantees.md: Incremental pull).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hoodie import environment, errors, table
from hoodie.model import moments
from hoodie.model.instants import Instant
from hoodie.read import travel
from hoodie.read.changed_rows import CHANGE, DELETE
from support.peer import peer_ours, peer_sessions
from support.peer.judge import Judge, Query, QueryType
from support.peer.peer_cases import BASE, COMMIT_TIME, COW, DEFAULTS, SCHEMA, rows_of
from support.peer.peer_options import PeerTable, filesystem_lock
from support.peer.peer_rows import assert_same_rows

TABLES = {
    "mor, buckets": replace(BASE, name="pulled"),
    "mor, commit time": replace(COMMIT_TIME, name="pulled"),
    "mor, bloom": replace(DEFAULTS, name="pulled"),
    "cow, bloom": replace(COW, name="pulled"),
}
KEY = ["part", "id"]
CLEANED = {
    "hoodie.clean.automatic": "true",
    "hoodie.clean.policy": "KEEP_LATEST_COMMITS",
    "hoodie.clean.commits.retained": "1",
}
Rows = dict[tuple[str, str], dict[str, Any]]


def opened(path: Path) -> table.Table:
    return table.open_table(str(path), environment.system(parallelism=2))


@dataclass
class Pulled:
    """A reader of increments of ours."""

    path: Path
    position: str | None = None
    held: Rows = field(default_factory=dict)

    def pull(self, *, falls_back: bool = False) -> int:
        """Pull what changed; return how many changes there were."""
        found = opened(self.path).changes(self.position, falls_back=falls_back)
        if found.is_snapshot:
            self.held = {}
        rows = found.read().read_all().to_pylist()
        for row in rows:
            change, key = row.pop(CHANGE), (row["part"], row["id"])
            if change == DELETE:
                del self.held[key]
            else:
                self.held[key] = row
        self.position = str(found.position)
        return len(rows)

    def check(self, judge: Judge) -> None:
        """Check that it holds what Apache Hudi reads."""
        self.pull()
        assert_same_rows(
            pa.Table.from_pylist([*self.held.values()], SCHEMA), judge.read(self.path), KEY
        )


def history(judge: Judge, peer: PeerTable, path: Path) -> list[Pulled]:
    """Write a history, with a reader that begins after each step and one that pulls every time."""
    options = peer.write_options()
    pulled: list[Pulled] = []
    steps: Sequence[tuple[str, range, int]] = (
        ("upsert", range(12), 1000),
        ("upsert", range(3, 6), 2000),
        ("delete", range(5, 7), 3000),
        ("insert", range(20, 24), 3500),
        ("compact", range(0), 0),
        ("upsert", range(6), 4000),
        ("delete", range(20, 21), 5000),
        ("upsert", range(5, 7), 6000),
        ("plan", range(0), 0),
        ("upsert", range(7, 9), 7000),
    )
    for operation, numbers, ts in steps:
        if operation in {"compact", "plan"}:
            if peer.merge_on_read:
                act = judge.compact if operation == "compact" else judge.schedule_compaction
                act(path, options)
        else:
            judge.write(path, rows_of(numbers, ts), options, operation=operation)
        pulled.append(Pulled(path))
        for each in (pulled[0], pulled[-1]):
            each.check(judge)
    return pulled


def writes(path: Path) -> list[Instant]:
    return list(opened(path).timeline().completed_writes)


@pytest.mark.sample(0)  # A minute each, or more.
@pytest.mark.parametrize("kind", TABLES)
def test_both_read_the_same_moments_and_increments(kind: str, judge: Judge, tmp_path: Path) -> None:
    """T-Q02, T-Q03, T-Q04, T-Q06: deletes and a pending compaction among them."""
    peer, path = TABLES[kind], tmp_path / "table"
    readers = history(judge, peer, path)
    for reader in readers:
        reader.check(judge)
    ours = opened(path)
    for each in writes(path):
        theirs = judge.read(path, Query(as_of=each.requested_time))
        assert_same_rows(ours.read(as_of=each.requested_time).read_all(), theirs, KEY)
        asked = travel.AsOf(time=each.requested_time, rule=moments.Rule.REQUESTED)
        assert_same_rows(ours.read(as_of=asked).read_all(), theirs, KEY)
        time = each.completion_time
        assert time is not None
        increment = judge.read(path, Query(type=QueryType.INCREMENTAL, begin=time))
        found = ours.changes(time, has_deletes=False).read().read_all().drop_columns([CHANGE])
        assert_same_rows(found, increment, KEY)


@pytest.mark.sample(0)  # A minute each, or more.
@pytest.mark.parametrize("kind", ["mor, bloom", "cow, bloom"])
def test_readers_go_on_beside_clustering_overwrites_cleans_and_archives(
    kind: str, judge: Judge, tmp_path: Path
) -> None:
    peer, path = TABLES[kind], tmp_path / "table"
    options = peer.write_options()
    judge.write(path, rows_of(range(12), 1000), options)
    each_time, seldom = Pulled(path), Pulled(path)
    each_time.check(judge)
    seldom.check(judge)
    judge.write(path, rows_of(range(3, 6), 2000), options)
    judge.sql(f"CALL run_clustering(path => '{path}', op => 'scheduleandexecute')")
    before = each_time.position
    each_time.check(judge)
    found = opened(path).changes(before).read().read_all()
    assert sorted(found.column("id").to_pylist()) == ["key-003", "key-004", "key-005"]
    judge.write(path, rows_of(range(12), 3000).slice(0, 3), options, operation="insert_overwrite")
    each_time.check(judge)
    judge.write(path, rows_of(range(30, 33), 4000), options, operation="delete")
    seldom.check(judge)
    for ts in (5000, 6000):
        judge.write(path, rows_of(range(2), ts), options | CLEANED)
        each_time.check(judge)
    judge.clean(path, options | CLEANED)
    assert seldom.pull(falls_back=True)
    assert seldom.held == each_time.held


def late_beside_a_plan(judge: Judge, path: Path) -> tuple[list[Instant], Mapping[str, str]]:
    """A write is requested, a compaction planned, and another write completes before the first."""
    peer = TABLES["mor, buckets"]
    options = peer.shared_options(filesystem_lock())
    ours = peer_ours.Hoodie(table=peer)
    ours.write(path, rows_of(range(6), 1000), "upsert")
    session, written = peer_sessions.begun(
        path, rows_of(range(2), 2000), peer_sessions.NON_BLOCKING, writer_id="late"
    )
    assert judge.schedule_compaction(path, options) is not None
    ours.write(path, rows_of(range(4, 6), 3000), "upsert")
    session.commit(written)
    return writes(path), options


def test_time_travel_beside_a_late_write(judge: Judge, tmp_path: Path) -> None:
    """T-Q10: by completion it is not there; Apache Hudi goes by requested times."""
    path = tmp_path / "table"
    (_, second, late), _ = late_beside_a_plan(judge, path)
    assert late.requested_time < second.requested_time
    ours = opened(path)
    then = ours.read(["id", "ts"], as_of=second.requested_time).read_all().to_pylist()
    assert sorted(row["id"] for row in then if row["ts"] == 3000) == ["key-004", "key-005"]
    assert not [row for row in then if row["ts"] == 2000]
    theirs = judge.read(path, Query(as_of=second.requested_time))
    asked = travel.AsOf(time=second.requested_time, rule=moments.Rule.REQUESTED)
    assert_same_rows(ours.read(as_of=asked).read_all(), theirs, KEY)


def test_increment_beside_a_pending_compaction(judge: Judge, tmp_path: Path) -> None:
    """Apache Hudi 1.2.0 loses a write that was requested before the plan and completed after it."""
    path = tmp_path / "table"
    (first, second, late), options = late_beside_a_plan(judge, path)
    reader = Pulled(path)
    for time, ids in (
        (second.completion_time, ["key-000", "key-001"]),
        (first.completion_time, ["key-000", "key-001", "key-004", "key-005"]),
    ):
        assert time is not None
        found = opened(path).changes(time, columns=["id"]).read().read_all()
        assert sorted(found.column("id").to_pylist()) == ids
    assert late.completion_time is not None
    theirs = judge.read(path, Query(type=QueryType.INCREMENTAL, begin=second.completion_time))
    assert theirs.num_rows == 0, "Apache Hudi finds it now: see docs/guarantees.md"
    reader.check(judge)
    (pending,) = opened(path).timeline().pending_compactions
    judge.execute_compaction(path, pending.requested_time, options)
    reader.check(judge)


def test_increment_of_partial_updates(judge: Judge, tmp_path: Path) -> None:
    """Rows come merged as they are."""
    peer = replace(COMMIT_TIME, name="pulled")
    path, options = tmp_path / "table", peer.write_options()
    judge.write(path, rows_of(range(6), 1000), options)
    reader = Pulled(path)
    reader.check(judge)
    judge.execute(f"CREATE TABLE pulled_rows USING hudi LOCATION '{path}'")
    judge.execute(
        "MERGE INTO pulled_rows AS t USING "
        "(SELECT 'key-001' AS id, 'south' AS part, 77.5D AS amount) AS s "
        "ON t.id = s.id WHEN MATCHED THEN UPDATE SET amount = s.amount"
    )
    before = reader.position
    reader.check(judge)
    found = opened(path).changes(before).read().read_all().to_pylist()
    assert [(row["id"], row["amount"], row["ts"]) for row in found] == [("key-001", 77.5, 1000)]


@pytest.mark.parametrize("kind", ["mor, bloom", "cow, bloom"])
def test_readers_across_a_restore_by_apache_hudi(kind: str, judge: Judge, tmp_path: Path) -> None:
    """Who has not seen what was taken back goes on; who has is told which restore it was."""
    peer, path = TABLES[kind], tmp_path / "table"
    options = peer.write_options()
    judge.write(path, rows_of(range(6), 1000), options)
    (kept,) = writes(path)
    judge.sql(f"CALL create_savepoint(path => '{path}', commit_time => '{kept.requested_time}')")
    before, after = Pulled(path), Pulled(path)
    before.check(judge)
    judge.write(path, rows_of(range(3), 2000), options)
    judge.write(path, rows_of(range(8, 10), 3000), options)
    gone = writes(path)[1:]
    after.check(judge)
    judge.sql(
        f"CALL rollback_to_savepoint(path => '{path}', instant_time => '{kept.requested_time}')"
    )
    ours = opened(path)
    with pytest.raises(errors.GoneError, match=r"\d{17} restore completed restored it"):
        ours.changes(after.position)
    with pytest.raises(errors.GoneError, match="restored it"):
        ours.change_data(after.position)
    assert before.pull() == 0
    judge.write(path, rows_of(range(5, 7), 4000), options)
    assert before.pull() == 2
    before.check(judge)
    assert after.pull(falls_back=True) == 7
    assert after.held == before.held
    for each in gone:
        with pytest.raises(errors.GoneError, match="rolled back what was written since"):
            ours.read(as_of=each.completion_time)
    then = ours.read(as_of=kept.requested_time).read_all()
    assert_same_rows(then, judge.read(path, Query(as_of=kept.requested_time)), KEY)
    found = ours.history({"id": "key-005"}).read().read_all()
    events = list(zip(found["event"].to_pylist(), found["instant"].to_pylist(), strict=True))
    newest = writes(path)[-1]
    assert events == [
        ("insert", kept.requested_time),
        ("unknown", None),
        ("known", kept.requested_time),
        ("update", newest.requested_time),
    ]


@pytest.mark.parametrize("kind", ["mor, bloom", "cow, bloom"])
def test_readers_across_a_rollback_of_a_completed_write(
    kind: str, judge: Judge, tmp_path: Path
) -> None:
    peer, path = TABLES[kind], tmp_path / "table"
    options = peer.write_options()
    judge.write(path, rows_of(range(6), 1000), options)
    before, after = Pulled(path), Pulled(path)
    before.check(judge)
    judge.write(path, rows_of(range(3), 2000), options)
    after.check(judge)
    gone = writes(path)[-1]
    judge.rollback(path, gone.requested_time, options)
    with pytest.raises(errors.GoneError, match=f"rolled back what began at {gone.requested_time}"):
        opened(path).changes(after.position)
    for time in (gone.completion_time, gone.requested_time):
        with pytest.raises(errors.GoneError, match=r"and may have completed before") as caught:
            opened(path).read(as_of=time)
        with pytest.raises(errors.GoneError, match="and may have completed before"):
            opened(path).changes(time)
    then = opened(path).read(as_of=caught.value.readable).read_all()
    assert_same_rows(then, judge.read(path), KEY)
    assert before.pull() == 0
    judge.write(path, rows_of(range(5, 7), 4000), options)
    before.check(judge)
    after.pull(falls_back=True)
    assert after.held == before.held


def test_writers_of_apache_hudi_keep_the_id_of_a_table(judge: Judge, tmp_path: Path) -> None:
    """Also when they change the properties: a column is added, a metadata table is made."""
    peer, path = TABLES["cow, bloom"], tmp_path / "table"
    options = peer.write_options()
    judge.write(path, rows_of(range(6), 1000), options)
    reader = Pulled(path)
    reader.check(judge)
    peer_ours.hoodie("adopt", path, "--index", "bloom", "--lock", "filesystem")
    made = opened(path).config.table_id
    assert made
    reader.check(judge)
    assert reader.position is not None
    judge.write(path, rows_of(range(3), 2000), options | {"hoodie.metadata.enable": "true"})
    judge.execute(f"CREATE TABLE kept_id USING hudi LOCATION '{path}'")
    judge.execute("ALTER TABLE kept_id ADD COLUMNS (added int)")
    now = opened(path)
    assert now.config.metadata_partitions
    assert "added" in now.schema.arrow.names
    assert now.config.table_id == made
    assert now.changes(reader.position).writes
