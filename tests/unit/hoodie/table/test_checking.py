"""What `hoodie check` finds, each in a table that was damaged in one way."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from hoodie import errors
from hoodie.maintenance import consumers, savepoints
from hoodie.maintenance.cleaning import retention
from hoodie.timeline import active
from support.tables.tables import QUICK, SmallTable


def damaged(tmp_path: Path) -> SmallTable:
    small = SmallTable(tmp_path / "small")
    small.upsert([{"id": str(number), "part": "p", "a": number} for number in range(20)])
    assert small.problems() == []
    return small


def one(small: SmallTable, pattern: str) -> Path:
    return next(iter(sorted(small.path.glob(pattern))))


def truncate_log(small: SmallTable) -> None:
    log = one(small, "p/.*.log.1_*")
    log.write_bytes(log.read_bytes()[:-20])


def lose_log(small: SmallTable) -> None:
    one(small, "p/.*.log.1_*").unlink()


def move_to_other_bucket(small: SmallTable) -> None:
    log = one(small, "p/.00000000*.log.1_*")
    other = one(small, "p/.00000001*.log.1_*")
    other.write_bytes(log.read_bytes())


def add_orphan(small: SmallTable) -> None:
    log = one(small, "p/.*.log.1_*")
    stem, _, rest = log.name.partition("_")
    time = str(int(rest[:17]) + 1)
    (log.parent / f"{stem}_{time}{rest[17:]}").write_bytes(log.read_bytes())


def complete_twice(small: SmallTable) -> None:
    completed = one(small, ".hoodie/timeline/*_*.deltacommit")
    requested, _, rest = completed.name.partition("_")
    again = completed.with_name(f"{requested}_{int(rest[:17]) + 5}{rest[17:]}")
    again.write_bytes(completed.read_bytes())


def leave_pending(small: SmallTable) -> None:
    requested = small.path / ".hoodie" / "timeline" / "20990101000000000.deltacommit.requested"
    requested.touch()
    # One without a heartbeat may be another engine's, and alive, as long as it is young.
    os.utime(requested, (0, 0))


def break_metadata(small: SmallTable) -> None:
    one(small, ".hoodie/timeline/*_*.deltacommit").write_bytes(b"no Avro")


def test_checksum_that_hadoop_keeps_of_a_heartbeat_is_no_orphan(tmp_path: Path) -> None:
    small = damaged(tmp_path)
    heartbeats = small.path / ".hoodie" / ".heartbeat"
    heartbeats.mkdir(exist_ok=True)
    (heartbeats / ".20990101000000000.crc").write_bytes(b"crc")
    assert small.table.check(QUICK) == []
    left = heartbeats / "20200101000000000"
    left.touch()
    os.utime(left, (0, 0))
    (found,) = small.table.check(QUICK)
    assert "is an orphan of an instant that is not pending" in found.message


@pytest.mark.parametrize(
    ("damage", "finding"),
    [
        (truncate_log, "are not a block"),
        (lose_log, "is missing"),
        (move_to_other_bucket, "belong to a bucket other"),
        (add_orphan, "which is not on the timeline"),
        (complete_twice, "expected once"),
        (leave_pending, "is dead"),
        (break_metadata, "deltacommit"),
    ],
)
def test_damage_is_found(
    tmp_path: Path, damage: Callable[[SmallTable], None], finding: str
) -> None:
    small = damaged(tmp_path)
    damage(small)
    problems = small.problems()
    assert any(finding in problem for problem in problems), problems


def notes(small: SmallTable) -> list[str]:
    return [f"{each.subject}: {each.message}" for each in small.table.check(QUICK)]


def test_damaged_savepoint_is_found_and_can_be_deleted(tmp_path: Path) -> None:
    small = damaged(tmp_path)
    transaction = small.options().transaction
    made = small.table.create_savepoint(savepoints.Wanted(), transaction).instant
    one(small, ".hoodie/timeline/*_*.savepoint").write_bytes(b"no Avro")
    (problem,) = small.problems()
    assert f"hoodie savepoint delete --instant {made.requested_time}" in problem
    doomed = savepoints.Doomed(commits=frozenset((made.requested_time,)))
    small.table.delete_savepoints(doomed, transaction)
    assert not notes(small)


@pytest.mark.parametrize(
    ("name", "note"),
    [
        ("20200101000000000.clean.requested", "has no plan"),
        ("20200101000000000.clean.inflight", "has no plan"),
        ("20200101000000000_20200101000000001.clean", "looks at the whole table"),
    ],
)
def test_clean_that_a_crash_left_empty_is_found(name: str, note: str, tmp_path: Path) -> None:
    small = damaged(tmp_path)
    path = small.path / ".hoodie/timeline" / name
    path.touch()
    os.utime(path, (0, 0))
    assert any(note in each for each in notes(small)), notes(small)
    if path.suffix != ".clean":
        with pytest.raises(errors.ConflictError, match="run hoodie clean"):
            small.table.create_savepoint(savepoints.Wanted(), small.options().transaction)
        small.table.clean(retention.Retention(), small.options().transaction)
        assert not notes(small)
        assert small.table.create_savepoint(savepoints.Wanted(), small.options().transaction)


def test_consumers_that_matter_to_cleaning_are_found(tmp_path: Path) -> None:
    small = damaged(tmp_path)
    small.table.advance_consumer("c", consumers.Progress(limit_ms=1))
    assert not notes(small)
    path = small.path / active.consumer_path("c")
    os.utime(path, (0, 0))
    assert any("was silent for longer" in each for each in notes(small))
    path.write_bytes(b"?")
    (problem,) = small.problems()
    assert "until then nothing is cleaned" in problem
