"""Cleaning beside Apache Hudi: the same files go, and each side goes on where the other stopped."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hoodie import environment, table
from hoodie.engine import local
from hoodie.maintenance.cleaning import retention
from hoodie.model import instants, plans, settings
from hoodie.timeline import contents
from hoodie.transaction import authors, manager
from hoodie.transaction.locks import address_texts
from support.peer import peer_ours
from support.peer.judge import Judge
from support.peer.peer_cases import BASE, SCHEMA, row
from support.peer.peer_options import PeerTable, filesystem_lock
from support.peer.peer_rows import assert_same_rows

MERGE_ON_READ = replace(BASE, name="cleaned")
COPY_ON_WRITE = replace(MERGE_ON_READ, merge_on_read=False)
TABLES = {"mor": MERGE_ON_READ, "cow": COPY_ON_WRITE}
KEY = ["part", "id", "ts"]
ROWS = 9
WRITES = 12

RETENTIONS = {
    "1 commit": (retention.Policy.COMMITS, 1),
    "4 commits": (retention.Policy.COMMITS, 4),
    "all commits but one": (retention.Policy.COMMITS, WRITES - 1),
    "1 version": (retention.Policy.VERSIONS, 1),
    "2 versions": (retention.Policy.VERSIONS, 2),
}
KEYS = {
    retention.Policy.COMMITS: "hoodie.clean.commits.retained",
    retention.Policy.VERSIONS: "hoodie.clean.fileversions.retained",
}


class DyingError(Exception):
    """The cleaner dies."""


class DyingEngine(local.LocalEngine):
    """An engine whose process dies when the first task is done."""

    def map(self, task: object, items: Sequence[object], **_: object) -> list[object]:  # type: ignore[override] # any task
        super().map(task, items[:1])  # type: ignore[arg-type] # as it came
        raise DyingError


def rows_of(ts: int) -> pa.Table:
    return pa.Table.from_pylist([row(number, ts=ts) for number in range(ROWS)], SCHEMA)


def options_of(peer: PeerTable, policy: retention.Policy, retained: int) -> Mapping[str, str]:
    return {
        **peer.shared_options(filesystem_lock()),
        "hoodie.clean.policy": policy.value,
        KEYS[policy]: str(retained),
    }


def how(policy: retention.Policy, retained: int) -> retention.Retention:
    return retention.Retention(policy=policy, retained=retained, grace_ms=0)


def opened(path: Path) -> table.Table:
    return table.open_table(str(path), environment.system())


def transaction() -> manager.TransactionOptions:
    return manager.TransactionOptions(
        settings=settings.WriteSettings(),
        lock=address_texts.parse("filesystem"),
        author=authors.Author(),
    )


def planned(path: Path) -> plans.CleanPlan:
    """Return the plan of the only pending clean."""
    (pending,) = opened(path).timeline().pending_of(instants.Action.CLEAN)
    return contents.read_clean_plan(environment.system().open_storage(str(path)), pending)


def data_files(path: Path) -> set[str]:
    return {
        str(each.relative_to(path))
        for each in path.rglob("*")
        if each.is_file() and ".hoodie" not in str(each.relative_to(path))
        if not each.name.endswith(".crc")
    }


def fill(judge: Judge, peer: PeerTable, path: Path) -> None:
    """Write a table a dozen times, by turns, compacting it now and then."""
    ours = peer_ours.Hoodie(table=peer)
    theirs = peer.shared_options(filesystem_lock())
    for number in range(WRITES):
        if number == 0 or number % 2:
            ours.write(path, rows_of(1000 + number), "upsert")
        else:
            judge.write(path, rows_of(1000 + number), theirs)
        if peer.merge_on_read and number % 4 == 3:
            judge.compact(path, theirs)


@pytest.mark.parametrize("kind", TABLES)
def test_both_plan_to_delete_the_same_files(kind: str, judge: Judge, tmp_path: Path) -> None:
    """T-X01, at the boundaries of each policy; then we execute one of their plans."""
    peer, path = TABLES[kind], tmp_path / "table"
    fill(judge, peer, path)
    for name, (policy, retained) in RETENTIONS.items():
        proposal = opened(path).propose_clean(how(policy, retained))
        ours = proposal.paths
        if judge.schedule_clean(path, options_of(peer, policy, retained)) is None:
            assert not ours, name
            continue
        theirs = planned(path)
        assert ours == theirs.paths, name
        assert proposal.earliest_retained == theirs.earliest_retained or (
            proposal.earliest_retained is not None
            and theirs.earliest_retained is not None
            and proposal.earliest_retained.requested_time == theirs.earliest_retained.requested_time
        ), name
        for pending in (path / ".hoodie/timeline").glob("*.clean*"):
            pending.unlink()
    policy, retained = RETENTIONS["4 commits"]
    assert judge.schedule_clean(path, options_of(peer, policy, retained)) is not None
    expected = data_files(path) - planned(path).paths
    done = opened(path).clean(how(policy, retained), transaction())
    assert len(done.done) == 1
    assert data_files(path) == expected
    assert_same_rows(judge.read(path), rows_of(1000 + WRITES - 1), KEY)
    assert_same_rows(peer_ours.read(path), rows_of(1000 + WRITES - 1), KEY)
    assert peer_ours.hoodie("check", path)["findings"] == []


@pytest.mark.parametrize("kind", TABLES)
def test_each_goes_on_where_the_other_stopped(kind: str, judge: Judge, tmp_path: Path) -> None:
    """They finish a clean of ours that died, and plan from there on; and we from theirs."""
    peer, path = TABLES[kind], tmp_path / "table"
    fill(judge, peer, path)
    policy, retained = retention.Policy.COMMITS, 4
    dying = replace(environment.system(), engine=DyingEngine(1))
    with pytest.raises(DyingError):
        table.open_table(str(path), dying).clean(how(policy, retained), transaction())
    expected = data_files(path) - planned(path).paths
    judge.clean(path, options_of(peer, policy, retained))
    assert data_files(path) == expected
    assert not opened(path).timeline().pending
    # Their clean begins where ours did, and ours where theirs did.
    theirs = peer.shared_options(filesystem_lock())
    for number in range(3):
        judge.write(path, rows_of(2000 + number), theirs)
    proposal = opened(path).propose_clean(how(policy, 2))
    assert proposal.commits_seen is not None
    assert judge.schedule_clean(path, options_of(peer, policy, 2)) is not None
    assert proposal.paths == planned(path).paths
    judge.clean(path, options_of(peer, policy, 2))
    for number in range(3):
        judge.write(path, rows_of(3000 + number), theirs)
        if peer.merge_on_read and number < 2:
            judge.compact(path, theirs)
    proposal = opened(path).propose_clean(how(policy, 2))
    assert proposal.commits_seen is not None
    assert proposal.removals
    opened(path).clean(how(policy, 2), transaction())
    assert_same_rows(judge.read(path), rows_of(3002), KEY)
    assert_same_rows(peer_ours.read(path), rows_of(3002), KEY)
    assert peer_ours.hoodie("check", path)["findings"] == []


@pytest.mark.parametrize("kind", TABLES)
def test_retired_file_groups_go(kind: str, judge: Judge, tmp_path: Path) -> None:
    """T-K04 in part: what their insert_overwrite and delete_partition have retired."""
    peer, path = TABLES[kind], tmp_path / "table"
    ours = peer_ours.Hoodie(table=peer, concurrency="occ")
    options = peer.occ_options(filesystem_lock())
    ours.write(path, rows_of(1000), "upsert")
    north = rows_of(1500).filter(pc.equal(rows_of(1500).column("part"), "north"))
    judge.write(path, north, options, operation="insert_overwrite")
    dropped = {"hoodie.datasource.write.partitions.to.delete": "south"}
    judge.write(path, north.slice(0, 1), options | dropped, operation="delete_partition")
    for _ in range(3):
        ours.write(path, north, "upsert")
    before = judge.read(path)
    policy, retained = retention.Policy.COMMITS, 1
    proposal = opened(path).propose_clean(how(policy, retained))
    assert judge.schedule_clean(path, options_of(peer, policy, retained)) is not None
    assert proposal.paths == planned(path).paths
    opened(path).clean(how(policy, retained), transaction())
    assert not any(name.startswith("south/") and "_0-" in name for name in data_files(path))
    assert_same_rows(judge.read(path), before, KEY)
    assert_same_rows(peer_ours.read(path), before, KEY)


@pytest.mark.parametrize("kind", TABLES)
def test_change_data_goes_with_its_slice(kind: str, judge: Judge, tmp_path: Path) -> None:
    """Log files of change data, which Apache Hudi writes: both plan to delete the same ones."""
    peer, path = TABLES[kind], tmp_path / "table"
    options = peer.shared_options(filesystem_lock()) | {"hoodie.table.cdc.enabled": "true"}
    for number in range(6):
        judge.write(path, rows_of(1000 + number), options)
        if peer.merge_on_read and number % 2:
            judge.compact(path, options)
    assert any(name.endswith(".cdc") for name in data_files(path))
    policy, retained = retention.Policy.COMMITS, 2
    proposal = opened(path).propose_clean(how(policy, retained))
    theirs = options_of(peer, policy, retained) | {"hoodie.table.cdc.enabled": "true"}
    assert judge.schedule_clean(path, theirs) is not None
    ours = proposal.paths
    assert ours == planned(path).paths
    assert any(name.endswith(".cdc") for name in ours)
    opened(path).clean(how(policy, retained), transaction())
    assert not ours & data_files(path)
    assert_same_rows(judge.read(path), rows_of(1005), KEY)
