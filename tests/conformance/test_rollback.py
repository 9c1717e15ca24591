"""Failed writes of either side are taken back by either side, and both go on (T-R05, S69)."""

import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hoodie import environment, errors
from hoodie import table as tables
from support.peer import peer_ours
from support.peer.judge import (
    Gate,
    InstantState,
    Judge,
    JudgeError,
    JudgeLostError,
    PeerInstant,
    Settings,
)
from support.peer.peer_cases import BASE, SCHEMA, row
from support.peer.peer_options import PeerTable, filesystem_lock
from support.peer.peer_rows import assert_same_rows
from support.processes import dying_writer

SOON = (
    *("--set", "hoodie.client.heartbeat.interval_in_ms=1000"),
    *("--set", "hoodie.client.heartbeat.tolerable.misses=2"),
)
"""Heartbeats expire after two seconds, so that a test need not wait for ten minutes."""

WAIT_S = 60
TABLE = replace(BASE, name="rolled_back", buckets=2)
COPY_ON_WRITE = replace(TABLE, merge_on_read=False)
OCC = {"hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL"}
SERVER = {
    "hoodie.embed.timeline.server": "true",
    "hoodie.write.markers.type": "TIMELINE_SERVER_BASED",
}

Result = TypeVar("Result")


def rows(first: int, last: int, ts: int) -> pa.Table:
    return pa.Table.from_pylist([row(n, ts=ts) for n in range(first, last)], SCHEMA)


def merged(*parts: pa.Table) -> pa.Table:
    """Return the newest row of each key; the parts are in the order of their times."""
    found = {each["id"]: each for part in parts for each in part.to_pylist()}
    return pa.Table.from_pylist(list(found.values()), SCHEMA)


def wait_for(look: Callable[[], Result]) -> Result:
    """Look until there is something to see."""
    end_s = time.monotonic() + WAIT_S
    while not (found := look()):
        assert time.monotonic() < end_s, "nothing came"
        time.sleep(0.05)
    return found


def requested(path: Path) -> set[str]:
    return {file.name[:17] for file in (path / ".hoodie/timeline").glob("2*.requested")}


def files_of(path: Path, instant: str) -> list[Path]:
    found = [*path.glob("*/*"), *path.glob("*/.*")]
    return [file for file in found if f"_{instant}." in file.name and ".crc" not in file.name]


def kill_in_flight(path: Path, data: pa.Table, options: dict[str, str]) -> str:
    """Let a Spark writer of its own begin, and kill it while it writes; return its instant.

    The table lock is held meanwhile, so that it cannot commit however fast it is.
    """
    gate = Gate(path=path.parent / "gate")
    lock = path / ".hoodie" / "lock"
    before = requested(path)

    def take_lock() -> bool:
        try:
            lock.touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    settings = Settings(name="victim")
    with Judge(path.parent / "victim", settings) as victim, ThreadPoolExecutor(1) as threads:
        writing = threads.submit(victim.write, path, data, options, gate=gate)
        # Only there the writer does not want the lock before it commits.
        wait_for(lambda: gate.is_reached or (writing.done() and writing.result()))
        (instant,) = requested(path) - before
        wait_for(take_lock)
        gate.open()
        wait_for(lambda: len(files_of(path, instant)) >= 2)
        victim.kill()
        with pytest.raises(JudgeLostError):
            writing.result()
    lock.unlink()
    return instant


def roll_back_when_dead(path: Path, instant: str) -> None:
    def roll_back() -> bool:
        try:
            peer_ours.hoodie("rollback", path, "--instant", instant, *SOON)
        except peer_ours.CommandFailedError as error:
            if error.exit_code == errors.ConflictError.exit_code:
                return False
            raise
        return True

    wait_for(roll_back)


def rollbacks(judge: Judge, path: Path) -> list[PeerInstant]:
    return [each for each in judge.timeline(path) if each.action == "rollback"]


@pytest.mark.parametrize(
    ("table", "mode"),
    [
        (replace(COPY_ON_WRITE, extra=SERVER), OCC),
        (replace(TABLE, table_version=8), {}),
    ],
    ids=["copy-on-write, markers of the timeline server", "merge-on-read, version 8"],
)
def test_killed_spark_writer_is_taken_back_by_us(
    table: PeerTable, mode: dict[str, str], judge: Judge, tmp_path: Path
) -> None:
    """T-H01, T-R06."""
    path = tmp_path / "table"
    single = replace(table, extra={})
    judge.write(path, rows(0, 20, 1000), single.write_options())
    options = table.nbcc_options(filesystem_lock()) | mode
    instant = kill_in_flight(path, rows(10, 30, 2000), options)
    with pytest.raises(peer_ours.CommandFailedError, match="sign of life"):
        peer_ours.hoodie("rollback", path, "--instant", instant)
    roll_back_when_dead(path, instant)
    assert files_of(path, instant) == []
    assert not (path / ".hoodie/.temp" / instant).exists()
    peer_ours.hoodie("check", path)
    assert [each.state for each in rollbacks(judge, path)] == [InstantState.COMPLETED]
    assert_same_rows(judge.read(path), rows(0, 20, 1000), ["id"])
    judge.write(path, rows(15, 25, 3000), single.write_options())
    expected = merged(rows(0, 20, 1000), rows(15, 25, 3000))
    assert_same_rows(judge.read(path), expected, ["id"])
    assert_same_rows(peer_ours.read(path), expected, ["id"])
    assert len(rollbacks(judge, path)) == 1, "Hudi finds nothing left to take back"


def die(path: Path, step: str) -> str:
    """Let a writer of ours be killed at a step, and return its instant."""
    source = path.parent / f"{step}.parquet"
    pq.write_table(rows(10, 30, 2000), source)
    command = [sys.executable, dying_writer.__file__, str(path), str(source), step]
    died = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
    assert died.returncode == -9, died
    return died.stdout.strip()


@pytest.mark.parametrize(
    ("table", "step"),
    [
        (TABLE, "written"),
        (TABLE, "rollback-planned"),
        (TABLE, "rollback-begun"),
        (COPY_ON_WRITE, "written"),
        (COPY_ON_WRITE, "rollback-begun"),
    ],
    ids=lambda value: value if isinstance(value, str) else f"mor-{value.merge_on_read}",
)
def test_killed_writer_of_ours_is_taken_back_by_hudi(
    table: PeerTable, step: str, judge: Judge, tmp_path: Path
) -> None:
    """Its markers are read, and a plan of ours that was not carried out is gone on with."""
    path = tmp_path / "table"
    peer_ours.Hoodie(table=table).write(path, rows(0, 20, 1000), "upsert")
    instant = die(path, step)
    assert files_of(path, instant)
    planned = [each.requested_time for each in rollbacks(judge, path)]
    judge.write(path, rows(15, 25, 3000), table.write_options())
    assert files_of(path, instant) == []
    (rollback,) = rollbacks(judge, path)
    assert rollback.state is InstantState.COMPLETED
    assert planned in ([], [rollback.requested_time])
    # Nothing of it had been part of the table: it leaves no gap.
    then = tables.open_table(str(path), environment.system()).read(as_of=rollback.requested_time)
    assert_same_rows(then.read_all(), rows(0, 20, 1000), ["id"])
    expected = merged(rows(0, 20, 1000), rows(15, 25, 3000))
    assert_same_rows(judge.read(path), expected, ["id"])
    assert_same_rows(peer_ours.read(path), expected, ["id"])
    assert peer_ours.hoodie("rollback", path, "--all", *SOON)["rollbacks"] == []
    peer_ours.hoodie("check", path)


def test_rollback_of_hudi_that_broke_off_is_finished_by_us(judge: Judge, tmp_path: Path) -> None:
    """Its plan is read: what it did is taken for not yet completed."""
    path = tmp_path / "table"
    peer_ours.Hoodie(table=TABLE).write(path, rows(0, 20, 1000), "upsert")
    instant = die(path, "written")
    judge.write(path, rows(15, 25, 3000), TABLE.write_options())
    (completed,) = (path / ".hoodie/timeline").glob("*_*.rollback")
    completed.unlink()
    (completed.parent / f".{completed.name}.crc").unlink(missing_ok=True)
    rollback = completed.name[:17]

    def resume() -> list[dict[str, str]]:
        done: list[dict[str, str]] = peer_ours.hoodie("rollback", path, "--all", *SOON)["rollbacks"]
        return done

    (done,) = wait_for(resume)
    assert (done["instant"], done["target"]) == (rollback, instant)
    assert [each.state for each in rollbacks(judge, path)] == [InstantState.COMPLETED]
    expected = merged(rows(0, 20, 1000), rows(15, 25, 3000))
    assert_same_rows(judge.read(path), expected, ["id"])
    judge.write(path, rows(25, 26, 4000), TABLE.write_options())
    assert len(rollbacks(judge, path)) == 1


def test_later_logs_are_hidden_from_readers_of_apache_hudi_until_its_failed_write_is_rolled_back(
    judge: Judge, second_judge: Judge, tmp_path: Path
) -> None:
    """Without writers of ours: its conflict left a base file, above which the others log."""
    path = tmp_path / "table"
    options = replace(TABLE, buckets=None).occ_options(filesystem_lock())
    judge.write(path, rows(0, 6, 1000), options)
    gate = Gate(path=tmp_path / "gate")
    heartbeats = {"hoodie.client.heartbeat.interval_in_ms": "1000"}
    with ThreadPoolExecutor(1) as threads:
        failing = threads.submit(
            second_judge.write, path, rows(3, 9, 2000), options | heartbeats, gate=gate
        )
        wait_for(lambda: gate.is_reached)
        judge.write(path, rows(3, 6, 3000), options)
        gate.open()
        with pytest.raises(JudgeError, match="ConcurrentModification"):
            failing.result()
    judge.write(path, rows(0, 3, 4000), options)
    expected = merged(rows(3, 6, 3000), rows(0, 3, 4000))
    assert_same_rows(peer_ours.read(path), expected, ["id"])
    assert judge.read(path).column("ts").to_pylist() == [1000] * 6
    (instant,) = (
        each.requested_time
        for each in judge.timeline(path)
        if each.state is not InstantState.COMPLETED
    )
    roll_back_when_dead(path, instant)
    assert_same_rows(judge.read(path), expected, ["id"])
