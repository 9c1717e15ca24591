"""The memory that a compaction needs, by its plan."""

import math
from collections.abc import Mapping

import pytest

from hoodie.maintenance.compaction import memory
from hoodie.model import files, instants, plans

MIB = 1 << 20
LIMIT = 1024 * MIB


def operation(metrics: Mapping[str, float]) -> plans.CompactionOperation:
    return plans.CompactionOperation(
        group=files.FileGroupId("p", "g"),
        base_instant_time=instants.format_time(0),
        base_file_name=None,
        log_file_names=("log",),
        metrics=metrics,
    )


def of_logs(*log_mib: float) -> list[plans.CompactionOperation]:
    return [operation({plans.LOG_BYTES: mib * MIB}) for mib in log_mib]


def test_plan_needs_the_memory_of_its_largest_slice_for_each_that_is_merged_at_once() -> None:
    size = memory.size_of(of_logs(1, 10, 2))
    one = memory.needed(size, LIMIT, 1)
    assert memory.PROCESS_BYTES < one < memory.PROCESS_BYTES + LIMIT
    assert memory.needed(size, LIMIT, 2) - one == one - memory.PROCESS_BYTES
    assert memory.needed(size, LIMIT, 100) == memory.needed(size, LIMIT, 3)


def test_slice_beyond_its_memory_needs_what_it_may_take() -> None:
    assert memory.needed(memory.size_of(of_logs(10_000)), LIMIT, 1) == memory.PROCESS_BYTES + LIMIT
    assert memory.fits(of_logs(1)[0], LIMIT)
    assert not memory.fits(of_logs(10_000)[0], LIMIT)


@pytest.mark.parametrize(
    "metrics", [{}, *({plans.LOG_BYTES: value} for value in (-1.0, math.nan, math.inf))]
)
def test_plan_that_does_not_state_its_size_is_taken_for_large(metrics: dict[str, float]) -> None:
    unknown = operation(metrics)
    assert not memory.fits(unknown, LIMIT)
    size = memory.size_of([*of_logs(1), unknown])
    assert memory.needed(size, LIMIT, 1) == memory.PROCESS_BYTES + LIMIT


def test_empty_plan_needs_no_more_than_a_process() -> None:
    assert memory.needed(memory.size_of([]), LIMIT, 4) == memory.PROCESS_BYTES
