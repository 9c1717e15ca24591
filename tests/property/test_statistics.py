"""Statistics of random rows: no value is outside them, and both ways to gather them agree."""

import math
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from hoodie.filegroup import parquet_writing, statistics_gathering
from hoodie.model import bounds, file_statistics, partition_statistics
from hoodie.model.file_statistics import Bound, ColumnStatistics, Wanted

TYPES = {
    "flag": (pa.bool_(), st.booleans()),
    "whole": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "single": (pa.float32(), st.floats(width=32)),
    "real": (pa.float64(), st.floats()),
    "price": (
        pa.decimal128(38, 4),
        st.decimals(-(10**33), 10**33, places=4, allow_nan=False, allow_infinity=False),
    ),
    "day": (pa.date32(), st.integers(-(2**31), 2**31 - 1)),
    "at": (pa.timestamp("us", "UTC"), st.integers(-(2**63), 2**63 - 1)),
    "text": (
        pa.string(),
        st.text() | st.builds(lambda text, count: text * count, st.text(), st.just(3000)),
    ),
    "raw": (pa.binary(), st.binary() | st.binary(min_size=4000, max_size=6000)),
}
WANTED = {
    version: Wanted(
        {
            name: kind
            for name, (data_type, _) in TYPES.items()
            if (kind := file_statistics.kind_of(data_type, has_value_types=version > 8))
        }
    )
    for version in (8, 9)
}


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    count = draw(st.integers(1, 6))
    return pa.table(
        {
            name: pa.array(draw(st.lists(st.none() | values, min_size=count, max_size=count)), kind)
            for name, (kind, values) in TYPES.items()
        }
    )


def from_footer(rows: list[pa.Table], wanted: Wanted) -> tuple[ColumnStatistics, ...]:
    gathered = statistics_gathering.FooterStatistics(wanted)
    sink = pa.BufferOutputStream()
    with parquet_writing.ParquetOutput(sink, rows[0].schema, "snappy", gathered.add) as output:
        for each in rows:
            output.write(each)
        footer = output.finish({})
    return tuple(
        replace(each, size_bytes=0, plain_bytes=0) for each in gathered.finish("f", footer)
    )


@given(rows=st.lists(tables(), min_size=1, max_size=3), version=st.sampled_from([8, 9]))
def test_rows_and_footers_say_the_same(rows: list[pa.Table], version: int) -> None:
    gathered = statistics_gathering.RowStatistics(WANTED[version])
    for each in rows:
        gathered.add(each)
    by_footer = from_footer(rows, WANTED[version])
    assert _comparable(gathered.finish("f")) == _comparable(by_footer)


@given(rows=tables())
def test_no_value_is_outside_its_bounds(rows: pa.Table) -> None:
    gathered = statistics_gathering.RowStatistics(WANTED[9])
    gathered.add(rows)
    for each in gathered.finish("f"):
        kind = WANTED[9].kinds[each.column]
        column = rows.column(each.column)
        assert (each.values, each.nulls) == (len(column), column.null_count)
        for scalar in column.drop_null():
            plain = scalar.value if pa.types.is_temporal(scalar.type) else scalar.as_py()
            value = bounds.order(bounds.written(plain, kind), each.value_type)
            assert bounds.order(each.low, each.value_type) <= value
            assert value <= bounds.order(each.high, each.value_type)
            assert len(str(each.low)) <= max(len(str(plain)), 5 * bounds.LENGTH_MAX)


@given(pieces=st.lists(tables(), min_size=1, max_size=3))
def test_partition_has_the_bounds_of_all_its_rows(pieces: list[pa.Table]) -> None:
    files = []
    for piece in pieces:
        gathered = statistics_gathering.RowStatistics(WANTED[9])
        gathered.add(piece)
        files += gathered.finish("f")
    together = statistics_gathering.RowStatistics(WANTED[9])
    together.add(pa.concat_tables(pieces))
    expected = [
        replace(each, values=(each.values or 0) + 1, nulls=(each.nulls or 0) + 1)
        for each in together.finish("p")
    ]
    found = partition_statistics.of_files("p", files)
    assert _comparable(found) == _comparable(expected)


def _comparable(statistics: Sequence[ColumnStatistics]) -> list[ColumnStatistics]:
    """Return statistics in which NaN is equal to itself, and 0 to -0."""
    return [replace(each, low=_bound(each.low), high=_bound(each.high)) for each in statistics]


def _bound(bound: Bound | None) -> Bound | None:
    if not isinstance(bound, float):
        return bound
    return "NaN" if math.isnan(bound) else bound + 0.0
