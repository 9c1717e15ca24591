"""Steps of a file group that share what they read."""

from dataclasses import replace
from pathlib import Path

import pytest

from hoodie import errors
from hoodie.read import group_steps, row_versions
from support.tables.tables import CONFIG, SmallTable

PLAIN = replace(CONFIG, has_partial_updates=False, bucket_count=1)


def written(path: Path, parts: str = "p") -> tuple[SmallTable, list[row_versions.VersionTask]]:
    """A table with four writes to each partition, and the steps of all but the first."""
    small = SmallTable(path / "t", PLAIN)
    rows = [{"id": key, "part": part, "a": 0, "b": "x"} for key in "12" for part in parts]
    small.upsert(rows)
    first = small.table.timeline().completed_writes[-1].requested_time
    for number in (1, 2, 3):
        small.upsert([row | {"a": number} for row in rows[: len(parts)]])
    return small, list(small.table.change_data(first).tasks())


def found(step: group_steps.GroupStep) -> list[tuple[object, object]]:
    rows = [row for batch in group_steps.changes(step) for row in batch.to_pylist()]
    return [(row["before"]["a"], row["after"]["a"]) for row in rows]


def test_steps_come_in_order_and_share_by_file_group(tmp_path: Path) -> None:
    _, tasks = written(tmp_path, "pq")
    steps = list(group_steps.grouped(tasks))
    assert [each.number for each in steps] == [0, 0, 1, 1, 2, 2]
    assert len({id(each.steps) for each in steps}) == 2
    assert [found(each) for each in steps] == [[(n, n + 1)] for n in (0, 0, 1, 1, 2, 2)]


def test_no_more_is_kept_than_may_be(tmp_path: Path) -> None:
    _, tasks = written(tmp_path)
    assert tasks[0].after[0].log_files
    for kept_bytes, shared in ((tasks[-1].after[0].log_bytes, 1), (1, 3)):
        steps = list(group_steps.grouped(tasks, kept_bytes))
        assert len({id(each.steps) for each in steps}) == shared
        assert [found(each) for each in steps] == [[(0, 1)], [(1, 2)], [(2, 3)]]


def test_failure_is_of_the_step_that_meets_it(tmp_path: Path) -> None:
    small, tasks = written(tmp_path)
    (path,) = {*tasks[2].after[0].log_files} - {*tasks[1].after[0].log_files}
    (small.path / path.path).unlink()
    steps = list(group_steps.grouped(tasks))
    assert [found(each) for each in steps[:2]] == [[(0, 1)], [(1, 2)]]
    with pytest.raises(errors.NotFoundError, match=path.name):
        found(steps[2])


def test_blocks_with_some_of_the_columns_are_merged_for_each_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, tasks = written(tmp_path)
    monkeypatch.setattr(row_versions.common_base.block_decoding, "is_partial", lambda _: True)
    assert row_versions.compute_together(tasks) == [None] * 3
    assert [found(each) for each in group_steps.grouped(tasks)] == [[(0, 1)], [(1, 2)], [(2, 3)]]
