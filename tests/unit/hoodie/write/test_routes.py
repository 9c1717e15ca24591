"""Rows of pieces of a batch, dealt out to the tasks that write their file groups."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from hoodie.write import batches, routes


def group(count: int, name: str = "g", leaving: Sequence[int] = ()) -> batches.GroupRows:
    return batches.GroupRows(
        partition_path="eu",
        bucket=batches.NO_BUCKET,
        file_id=name,
        rows=np.arange(count, dtype=np.int64),
        leaving=np.array(leaving, np.int64),
    )


def test_file_groups_are_dealt_by_rows() -> None:
    groups = [group(count) for count in (10, 70, 20, 30, 0, 30)]
    assert routes.owners(groups, 2).tolist() == [0, 0, 1, 1, 0, 1]
    assert sorted(routes.owners(groups, 9).tolist()) == list(range(6))
    assert routes.owners([], 2).tolist() == []


def test_routes_cut_where_the_pieces_of_the_input_end() -> None:
    first = dataclasses.replace(group(0, "a"), rows=np.array([0, 4, 5]), leaving=np.array([2]))
    second = dataclasses.replace(group(0, "b"), rows=np.array([1, 4]))
    found = list(routes.of_pieces([first, second], [3, 0, 2, 1, 1]))
    assert [each.rows.tolist() for each in found] == [[0, 1, 2], [], [1, 1], [0], []]
    assert [each.groups.tolist() for each in found] == [[0, 1, 0], [], [0, 1], [0], []]
    assert [each.leaving.tolist() for each in found] == [
        [False, False, True],
        [],
        [False, False],
        [False],
        [],
    ]


def test_tasks_get_the_rows_of_their_file_groups_in_order() -> None:
    first = dataclasses.replace(group(0, "a"), rows=np.array([0, 3]), leaving=np.array([2]))
    second = dataclasses.replace(group(0, "b"), rows=np.array([1, 3]))
    groups = [first, second]
    owner = np.array([0, 1], np.int32)
    data = pa.table({"n": [10, 11, 12, 13, 14]})
    pieces = [data.slice(0, 2), data.slice(2, 3)]
    of_pieces = routes.of_pieces(groups, [2, 3])
    parts = [routes.routed(p, r, owner) for p, r in zip(pieces, of_pieces, strict=True)]
    known = routes.without_rows(groups)
    for number, wanted in enumerate(([10, 13], [11, 13])):
        rows, (own,) = routes.received(pa.concat_tables([p[number] for p in parts]), known)
        assert rows["n"].take(pa.array(own.rows)).to_pylist() == wanted
        assert own.file_id == groups[number].file_id
        assert rows["n"].take(pa.array(own.leaving)).to_pylist() == ([12] if number == 0 else [])
