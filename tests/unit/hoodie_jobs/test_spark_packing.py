"""Tasks of a scan: few where files are small, and enough for all cores."""

import itertools
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodie_jobs.spark import packing
from support.tables.tables import SmallTable

MIB = 1 << 20


@pytest.mark.parametrize(
    ("size_bytes", "cores", "count"),
    [
        (1, 2, 1),
        (4 * MIB, 2, 1),
        (8 * MIB, 2, 2),
        (9 * MIB, 2, 2),
        (13 * MIB, 2, 4),
        (20 * MIB, 2, 4),
        (9 * MIB, 4, 3),
        (80 * MIB, 2, 8),
        (80 * MIB, 100, 20),
        (640 * MIB, 2, 40),
        (660 * MIB, 2, 42),
        (3200 * MIB, 100, 400),
        (80 * MIB, None, 20),
    ],
)
def test_tasks_are_few_and_leave_no_core_idle(
    size_bytes: int, cores: int | None, count: int
) -> None:
    assert packing.task_count(size_bytes, cores) == count


@pytest.mark.parametrize(
    ("sizes", "groups"),
    [
        ([], []),
        ([5] * 16, [[place, place + 1] for place in range(0, 16, 2)]),
        ([1] * 4, [[0, 1, 2, 3]]),
        ([1, 1, 100, 1, 1], [[0, 1], [2], [3, 4]]),
    ],
)
def test_neighbours_share_a_task_until_each_core_has_four(
    sizes: list[int], groups: list[list[int]]
) -> None:
    assert packing.groups([size * MIB for size in sizes], 2) == groups


@given(
    sizes=st.lists(st.integers(64 << 10, 200 * MIB), max_size=40),
    cores=st.none() | st.integers(1, 64),
)
def test_each_item_is_in_one_group_and_no_group_of_several_is_large(
    sizes: list[int], cores: int | None
) -> None:
    groups = packing.groups(sizes, cores)
    assert list(itertools.chain(*groups)) == list(range(len(sizes)))
    share = sum(sizes) / max(1, packing.task_count(sum(sizes), cores))
    for group in groups:
        # Half of the first and half of the last may lie outside of the share.
        assert len(group) == 1 or sum(sizes[place] for place in group) < 3 * share


def test_of_a_slice_counts_what_its_columns_that_are_read_are_of_all(tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "t")
    small.upsert([{"id": "0", "part": "p", "a": 1, "b": "x"}])
    counts = []
    for columns in (["a"], None):
        (task,) = small.table.plan_read(columns)
        (log_file,) = task.file_slice.log_files
        large = replace(log_file, size_bytes=4 * MIB)
        grown = replace(task, file_slice=replace(task.file_slice, log_files=(large,)))
        counts.append(len(packing.packed([grown] * 8, 2)))
    # With record key and commit time three of nine columns, of 32 MiB, and six.
    assert counts == [2, 6]
