"""Rows of slices that have their base file in common, as each slice has them alone."""

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hoodie.filegroup import common_base, held_keys, reading
from hoodie.model import files, schemas
from support.tables.file_groups import Group, at

KEYS = ("a", "b", "c", "", "ä")
COLUMNS = (schemas.RECORD_KEY, schemas.COMMIT_TIME, "ts", "price", "name")
Row = tuple[str, int, float | None, bool]

rows_of = st.lists(
    st.tuples(
        st.sampled_from(KEYS),
        st.integers(1, 4),
        st.one_of(st.none(), st.floats(0, 1)),
        st.sampled_from([False, False, True]),
    ),
    max_size=4,
)
logs_of = st.lists(
    st.tuples(
        rows_of,
        st.lists(st.sampled_from(KEYS), max_size=2, unique=True),
        st.one_of(st.none(), st.integers(1, 4)),
    ),
    max_size=6,
)


def put(group: Group, base: list[Row], logs: list[tuple[list[Row], list[str], int | None]]) -> None:
    def rows(found: list[Row], tick: int) -> list[dict[str, object]]:
        return [
            {"id": key, "ts": ts, "price": price, "name": f"{tick}", "_hoodie_is_deleted": gone}
            for key, ts, price, gone in found
        ]

    if base:
        group.base(0, rows(base, 0))
    for tick, (found, deleted, ts) in enumerate(logs, 1):
        ordering = None
        if ts is not None and group.config.ordering_fields:
            ordering = pa.array([ts] * len(deleted), pa.int64())
        group.log(tick, rows(found, tick), deleted, ordering)


def side_of(group: Group, ticks: set[int]) -> held_keys.Side:
    """The slice once some writes have completed."""
    times = {at(0), *map(at, ticks)}
    file_slice = replace(
        group.slice,
        log_files=tuple(each for each in group.log_files if each.instant_time in times),
    )
    # Files of the others may be there.
    source = held_keys.KeySource(
        group.storage, group.config, group.schema, lambda time: time in times
    )
    return held_keys.Side(source, file_slice)


def alone(side: held_keys.Side, keys: pa.Array) -> pa.Table:
    source = side.source
    reader = reading.SliceReader(source.storage, source.config, source.schema, source.is_committed)
    rows = reader.read(side.file_slice, COLUMNS)
    return rows.filter(pc.is_in(rows.column(schemas.RECORD_KEY), value_set=keys))


@pytest.mark.parametrize("rules", ["event time", "commit time", "partial updates"])
@settings(deadline=None, max_examples=60)
@given(rows_of, logs_of, st.data())
def test_rows_are_those_of_each_slice(
    rules: str,
    base: list[Row],
    logs: list[tuple[list[Row], list[str], int | None]],
    data: st.DataObject,
) -> None:
    group = Group()
    if rules != "event time":
        group.by_commit_time(has_partial_updates=rules == "partial updates")
    put(group, base, logs)
    # Writes complete in any order.
    ticks = data.draw(st.permutations(range(1, len(logs) + 1)))
    moments = [set(ticks[:count]) for count in range(len(ticks) + 1)]
    sides = [side_of(group, each) for each in moments]
    common = common_base.CommonBase(sides, COLUMNS)
    asked = [
        common_base.Asked(side=side, keys=pa.array(keys, pa.string()))
        for side, keys in data.draw(
            st.lists(
                st.tuples(
                    st.integers(0, len(sides) - 1),
                    st.lists(st.sampled_from(KEYS), unique=True),
                ),
                max_size=8,
            )
        )
    ]
    for each, found in zip(asked, common.rows(asked), strict=True):
        assert found.equals(alone(sides[each.side], each.keys)), each
    for now in range(1, len(sides)):
        keys = common.added(now - 1, now)
        expected = held_keys.logged_since(sides[now - 1], sides[now])
        assert (keys is None) == (expected is None)
        if keys is not None:
            assert sorted(keys.to_pylist()) == sorted(expected.to_pylist())


@pytest.mark.parametrize("rows_max", [1, 3])
def test_many_rows_are_merged_some_at_a_time(
    rows_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(common_base, "_MERGED_MAX", rows_max)
    group = Group()
    row: Row = ("a", 1, None, False)
    put(group, [row], [([(key, tick, 1.0, False) for key in "ab"], [], None) for tick in (2, 3)])
    sides = [side_of(group, ticks) for ticks in (set(), {1}, {1, 2})]
    common = common_base.CommonBase(sides, COLUMNS)
    keys = pa.array(["a", "b"])
    asked = [common_base.Asked(side=side, keys=keys) for side in range(3)]
    found = [rows.column("ts").to_pylist() for rows in common.rows(asked)]
    assert found == [[1], [2, 2], [3, 3]]


def test_slices_without_files_and_keys() -> None:
    group = Group()
    group.base(0, group.data([]).to_pylist())
    common = common_base.CommonBase([side_of(group, set())] * 2, COLUMNS)
    keys = common.added(0, 1)
    assert keys is not None
    assert not len(keys)
    (rows,) = common.rows([common_base.Asked(side=1, keys=keys)])
    assert rows.num_rows == 0
    assert rows.column_names == list(COLUMNS)


def test_slices_of_one_base_file() -> None:
    group = Group()
    group.base(0, [{"id": "a", "ts": 1}])
    before = group.slice
    group.log(1, [{"id": "a", "ts": 2}])
    assert common_base.have_one([before, group.slice])
    other = replace(group.slice, group=files.FileGroupId("q", group.id.file_id))
    assert not common_base.have_one([before, other])
    assert not common_base.have_one([before, replace(group.slice, base_file=None)])
