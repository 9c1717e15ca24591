"""Savepoints of either side are listed, kept from cleaning and deleted by either side (S66)."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from hoodie import environment, table
from hoodie.model import plans
from support.peer import peer_ours
from support.peer.judge import Judge
from support.peer.peer_cases import BASE, SCHEMA, row
from support.peer.peer_options import PeerTable, filesystem_lock
from support.peer.peer_rows import assert_same_rows

MERGE_ON_READ = replace(BASE, name="saved")
TABLES = {"mor": MERGE_ON_READ, "cow": replace(MERGE_ON_READ, merge_on_read=False)}
VERSION_8 = {f"{kind}-8": replace(each, table_version=8) for kind, each in TABLES.items()}
CLEAN = {
    "hoodie.clean.automatic": "true",
    "hoodie.cleaner.policy": "KEEP_LATEST_FILE_VERSIONS",
    "hoodie.cleaner.fileversions.retained": "1",
}
KEY = ["part", "id", "ts"]


def rows(numbers: range, ts: int) -> pa.Table:
    return pa.Table.from_pylist([row(n, ts=ts) for n in numbers], SCHEMA)


def commits(path: Path) -> list[str]:
    """Return the requested times of the completed writes, in the order of their completion."""
    opened = table.open_table(str(path), environment.system())
    return [each.requested_time for each in opened.timeline().completed_writes]


def savepoints(path: Path) -> list[plans.Savepoint]:
    opened = table.open_table(str(path), environment.system())
    return [each.savepoint for each in opened.savepoints()]


def names(savepoint: plans.Savepoint) -> dict[str, set[str]]:
    return {path: set(found) for path, found in savepoint.file_names.items() if found}


def call(judge: Judge, procedure: str, path: Path, arguments: str = "") -> pa.Table:
    return judge.sql(f"CALL {procedure}(path => '{path}'{arguments})")


def shown(judge: Judge, path: Path) -> list[str]:
    return [str(each) for each in call(judge, "show_savepoints", path).column(0).to_pylist()]


@pytest.fixture(params=[*TABLES, *VERSION_8])
def kind(request: pytest.FixtureRequest) -> PeerTable:
    return (TABLES | VERSION_8)[request.param]


@pytest.fixture
def written(kind: PeerTable, tmp_path: Path) -> Path:
    """Four commits of ours, and where there are log files a compaction before the last two."""
    path = tmp_path / "table"
    ours = peer_ours.Hoodie(table=kind)
    ours.write(path, rows(range(9), 1000), "upsert")
    ours.write(path, rows(range(3), 2000), "upsert")
    if kind.merge_on_read:
        planned = ours.schedule_compaction(path)
        assert planned is not None
        ours.write(path, rows(range(4), 2500), "upsert")
        ours.execute_compaction(path, planned)
    ours.write(path, rows(range(2, 6), 3000), "upsert")
    ours.write(path, rows(range(9, 12), 4000), "upsert")
    return path


def test_ours_names_the_files_that_theirs_names(
    written: Path, judge: Judge, kind: PeerTable
) -> None:
    completed = commits(written)
    newest = completed[-1]
    for commit in completed:
        call(judge, "create_savepoint", written, f", commit_time => '{commit}', comments => 'c'")
        (theirs,) = savepoints(written)
        assert theirs.comment == "c"
        assert peer_ours.hoodie("savepoint", "delete", written, "--instant", commit)["deleted"]
        assert shown(judge, written) == []
        peer_ours.hoodie("savepoint", "create", written, "--instant", commit)
        (ours,) = savepoints(written)
        if commit == newest or not kind.merge_on_read:
            assert names(ours) == names(theirs), commit
        # Theirs has the log files of a slice that completed after the commit, too; and it counts a
        # compaction as of its request, without what a read as of the commit's completion needs.
        later = completed[completed.index(commit) + 1 :]
        assert all(any(f"_{each}." in path for each in later) for path in theirs.paths - ours.paths)
        assert all(".log." in path for path in ours.paths ^ theirs.paths)
        peer_ours.hoodie("savepoint", "delete", written, "--instant", commit)
    assert savepoints(written) == []
    assert peer_ours.hoodie("check", written)["findings"] == []


def test_their_cleaner_keeps_ours_until_they_delete_it(
    written: Path, judge: Judge, kind: PeerTable
) -> None:
    """T-V05. They delete it without its inflight file, too."""
    made = peer_ours.hoodie("savepoint", "create", written, "--comment", "ours")
    (created,) = made["savepoints"]
    assert shown(judge, written) == [created["instant"]]
    kept = savepoints(written)[0].paths
    before = peer_ours.read(written)
    options = kind.shared_options(filesystem_lock())
    clean(written, judge, options, kind)
    assert all((written / path).exists() for path in kept)
    cleaned = commits(written)[0]
    with pytest.raises(peer_ours.CommandFailedError, match=r"was cleaned|may be gone"):
        peer_ours.hoodie("savepoint", "create", written, "--instant", cleaned)
    inflight = written / ".hoodie/timeline" / f"{created['instant']}.savepoint.inflight"
    inflight.unlink()
    assert shown(judge, written) == [created["instant"]]
    call(judge, "delete_savepoint", written, f", instant_time => '{created['instant']}'")
    assert peer_ours.hoodie("savepoint", "list", written)["savepoints"] == []
    assert not inflight.exists()
    clean(written, judge, options, kind)
    assert not all((written / path).exists() for path in kept)
    assert peer_ours.read(written).num_rows == before.num_rows
    assert peer_ours.hoodie("check", written)["findings"] == []


def clean(path: Path, judge: Judge, options: dict[str, str], kind: PeerTable) -> None:
    """Let Apache Hudi write all keys, compact where there are logs, and clean."""
    judge.write(path, rows(range(12), 5000), options)
    if kind.merge_on_read:
        judge.compact(path, options)
    judge.write(path, rows(range(12), 6000), options | CLEAN)


@pytest.mark.parametrize("how", ["theirs", "ours"])
def test_table_reads_the_same_with_a_savepoint_and_after_it(
    how: str, written: Path, judge: Judge
) -> None:
    before = peer_ours.read(written)
    commit = commits(written)[-1]
    create: dict[str, Callable[[], object]] = {
        "theirs": lambda: call(judge, "create_savepoint", written, f", commit_time => '{commit}'"),
        "ours": lambda: peer_ours.hoodie("savepoint", "create", written),
    }
    create[how]()
    assert_same_rows(judge.read(written), before, KEY)
    assert_same_rows(peer_ours.read(written), before, KEY)
    (found,) = peer_ours.hoodie("savepoint", "list", written)["savepoints"]
    assert found["instant"] == commit
    peer_ours.hoodie("savepoint", "delete", written, "--instant", commit)
    assert shown(judge, written) == []
    assert_same_rows(judge.read(written), before, KEY)
    assert_same_rows(peer_ours.read(written), before, KEY)
