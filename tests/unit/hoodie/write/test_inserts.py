"""Which file groups take new rows: functions of values."""

import uuid

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodie.write import inserts
from hoodie.write.inserts import Share, SmallFile

SIZES = inserts.Sizes(row_bytes=10, file_bytes_max=1000)


def small(*sizes: int) -> list[SmallFile]:
    return [SmallFile(file_id=f"f{size}", size_bytes=size) for size in sizes]


@pytest.mark.parametrize(
    ("count", "files", "expected"),
    [
        (0, [], []),
        (0, [100], []),
        (5, [], [(None, 5)]),
        (100, [], [(None, 100)]),
        (101, [], [(None, 50), (None, 51)]),
        (250, [], [(None, 83), (None, 83), (None, 84)]),
        (5, [900, 100], [("f100", 5)]),
        (95, [900, 100], [("f100", 90), ("f900", 5)]),
        (120, [900, 100], [("f100", 90), ("f900", 10), (None, 20)]),
        (3, [995], [(None, 3)]),  # No row fits in.
        (3, [2000], [(None, 3)]),
    ],
)
def test_small_files_are_filled_up_before_new_ones(
    count: int, files: list[int], expected: list[tuple[str | None, int]]
) -> None:
    found = list(inserts.shares(count, small(*files), SIZES))
    assert found == [Share(file_id=file_id, count=each) for file_id, each in expected]


@given(
    count=st.integers(0, 5000),
    files=st.lists(st.integers(0, 1500), unique=True, max_size=6),
    row_bytes=st.floats(0, 5000),
)
def test_each_key_is_in_one_share_and_no_file_grows_beyond_its_size(
    count: int, files: list[int], row_bytes: float
) -> None:
    sizes = inserts.Sizes(row_bytes=row_bytes, file_bytes_max=1000)
    found = list(inserts.shares(count, small(*files), sizes))
    assert sum(each.count for each in found) == count
    assert all(each.count > 0 for each in found)
    for each in found:
        before = 0 if each.file_id is None else int(each.file_id[1:])
        assert each.count == 1 or before + each.count * row_bytes <= 1000.001
    numbers = inserts.numbers_of(np.arange(count), found)
    assert np.bincount(numbers, minlength=len(found)).tolist() == [each.count for each in found]
    assert (np.diff(numbers) >= 0).all()


def test_ids_differ_by_write_task_and_number_and_are_those_of_apache_hudi() -> None:
    writes = [str(uuid.UUID(int=number)) for number in range(3)]
    found = {
        inserts.new_file_id(write, task, number)
        for write in writes
        for task in range(3)
        for number in range(3)
    }
    assert len(found) == 27
    assert inserts.new_file_id(writes[0], 1, 2) == inserts.new_file_id(writes[0], 1, 2)
    for each in found:
        prefix, _, number = each.rpartition("-")
        assert str(uuid.UUID(prefix)) == prefix
        assert number.isdecimal()
