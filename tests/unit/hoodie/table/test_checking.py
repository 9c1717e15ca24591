"""What `hoodie check` finds, each in a table that was damaged in one way."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from support.tables.tables import SmallTable


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
