"""What footers say of columns, and which statistics exclude a row that is there."""

import datetime
import decimal
import io
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hoodie.filegroup import column_statistics
from hoodie.filegroup.column_statistics import ColumnRange
from hoodie.model.file_statistics import ColumnStatistics, ValueType
from hoodie.model.value_wrappers import Wrapper

DAY = datetime.date(2026, 1, 2)
TIME = datetime.datetime(2026, 1, 2, 3, tzinfo=datetime.UTC)
MICROS = int(TIME.timestamp()) * 1_000_000
ROWS = pa.table(
    {
        "i": pa.array([3, 1, None, 2], pa.int32()),
        "s": ["b", "a", "c", "d"],
        "day": pa.array([DAY, DAY, DAY, None]),
        "t": pa.array([TIME] * 4, pa.timestamp("us", "UTC")),
        "n": pa.array([decimal.Decimal("1.5")] * 4, pa.decimal128(9, 2)),
        "none": pa.nulls(4, pa.int64()),
        "list": pa.array([[1], [2], [3], []], pa.list_(pa.int32())),
    }
)
TOLD = ColumnStatistics(
    file_name="f", column="i", low=1, high=3, kind=Wrapper.INT, values=4, nulls=1
)


def footer_of(rows: pa.Table, **options: object) -> dict[str, ColumnRange]:
    content = io.BytesIO()
    pq.write_table(rows, content, **options)
    return column_statistics.footer_ranges(pq.read_metadata(pa.py_buffer(content.getvalue())))


@pytest.mark.parametrize("rows_of_group", [1, 2, 4])
def test_ranges_of_row_groups_are_joined(rows_of_group: int) -> None:
    found = footer_of(ROWS, row_group_size=rows_of_group)
    assert found["i"] == ColumnRange(1, 3, 1)
    assert found["s"] == ColumnRange("a", "d", 0)
    assert found["day"] == ColumnRange(DAY, DAY, 1)
    assert found["t"] == ColumnRange(MICROS, MICROS, 0)
    assert found["n"] == ColumnRange(decimal.Decimal("1.50"), decimal.Decimal("1.50"), 0)
    assert found["none"] == ColumnRange(None, None, 4)


def test_nothing_is_known_without_statistics() -> None:
    assert footer_of(ROWS, write_statistics=False) == {}
    long = pa.table({"s": ["x" * 10_000]})
    assert "s" not in footer_of(long)


def test_statistics_exclude_what_is_outside_their_bounds() -> None:
    def excludes(told: ColumnStatistics, low: object, high: object, nulls: int = 0) -> bool:
        return column_statistics.excludes(told, ColumnRange(low, high, nulls), pa.int32())

    assert not excludes(TOLD, 1, 3, nulls=1)
    assert not excludes(TOLD, 2, 2)
    assert not excludes(TOLD, None, None, nulls=4)
    assert excludes(TOLD, 0, 3)
    assert excludes(TOLD, 1, 4)
    assert excludes(replace(TOLD, nulls=0), 1, 3, nulls=1)
    assert not excludes(replace(TOLD, nulls=None), 1, 3, nulls=1)
    assert excludes(replace(TOLD, low=None, high=None, kind=None), 1, 3)


def test_bounds_that_are_not_understood_exclude_nothing() -> None:
    text = replace(TOLD, low="a", high="b", kind=Wrapper.STRING)
    assert not column_statistics.excludes(text, ColumnRange(1, 9, 0), pa.int32())
    late = replace(TOLD, low=2**31 - 1, high=2**31 - 1)
    assert not column_statistics.excludes(late, ColumnRange(DAY, DAY, 0), pa.date32())
    millis = replace(TOLD, kind=Wrapper.LONG, value_type=ValueType.TIMESTAMP_MILLIS)
    assert not column_statistics.excludes(millis, ColumnRange(5, 9, 0), pa.timestamp("us", "UTC"))
