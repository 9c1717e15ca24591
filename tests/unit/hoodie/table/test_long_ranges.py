"""Ranges of many commits: what they take in memory does not grow with them.

Apart from them is what the table has: the timeline, and the names of its files. Change data has a
step for each write of a range.
"""

import tracemalloc
from collections.abc import Callable
from dataclasses import replace

import pytest

from hoodie import table
from hoodie.model import instants, settings
from hoodie.read import change_data, changes
from support.tables import cloned_commits
from support.tables.tables import CONFIG, SmallTable

COMMITS = 900
SHORT = 300
"""More than are read at once."""

RUNS = 3
STEP_BYTES_MAX = 2_000
CONSTANT_BYTES = 128 << 10
ALONE = settings.ConcurrencyMode.SINGLE_WRITER
Planned = changes.Changes | change_data.ChangeData


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> table.Table:
    config = replace(CONFIG, has_partial_updates=False)
    small = SmallTable(tmp_path_factory.mktemp("long") / "t", config)
    rows = [{"id": str(n), "part": f"p{n % 2}", "a": n, "b": "x"} for n in range(20)]
    small.upsert(rows, concurrency=ALONE)
    small.upsert(rows[:8], concurrency=ALONE)
    cloned_commits.put(small, small.table.timeline().completed_writes[-1], COMMITS)
    return small.table


def peak_bytes(plan: Callable[[], Planned]) -> int:
    """Return the least of some peaks: how many commits threads hold at once is a matter of luck."""
    return min(_peak_bytes(plan) for _ in range(RUNS))


def _peak_bytes(plan: Callable[[], Planned]) -> int:
    tracemalloc.start()
    try:
        planned = plan()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert planned.writes
    return peak


def begin(long: table.Table, count: int) -> instants.InstantTime:
    return long.timeline().completed_writes[-count - 1].requested_time


@pytest.mark.parametrize(
    ("plan", "bytes_each"),
    [
        (lambda long, since: long.changes(since), 0),
        (lambda long, since: long.change_data(since, is_net=True), 0),
        (lambda long, since: long.change_data(since), STEP_BYTES_MAX),
    ],
    ids=["rows", "net", "each write"],
)
def test_plan_does_not_grow(
    long: table.Table,
    plan: Callable[[table.Table, instants.InstantTime], Planned],
    bytes_each: int,
) -> None:
    short, whole = begin(long, SHORT), begin(long, COMMITS)
    plan(long, whole)  # Names of files are remembered.
    of_short = peak_bytes(lambda: plan(long, short))
    of_whole = peak_bytes(lambda: plan(long, whole))
    assert of_whole - of_short < CONSTANT_BYTES + bytes_each * (COMMITS - SHORT)


def test_rows_come_once_however_many_commits_wrote_them(long: table.Table) -> None:
    found = long.changes(begin(long, COMMITS))
    assert len(found.writes) == COMMITS
    rows = found.read().read_all()
    assert sorted(rows.column("id").to_pylist()) == [str(n) for n in range(8)]
