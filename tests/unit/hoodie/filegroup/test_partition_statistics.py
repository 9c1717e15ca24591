"""What a commit adds to the statistics of a partition, and how records are merged."""

import math
from dataclasses import replace

import numpy as np
import pytest

from hoodie import errors
from hoodie.model import partition_statistics
from hoodie.model.file_statistics import ColumnStatistics, ValueType
from hoodie.model.value_wrappers import Wrapper

FILE = ColumnStatistics(
    file_name="f",
    column="c",
    low=3,
    high=8,
    kind=Wrapper.INT,
    value_type=ValueType.INT,
    values=5,
    nulls=1,
    size_bytes=40,
    plain_bytes=60,
)
ALL_NULL = replace(FILE, low=None, high=None, kind=None, nulls=5)
WITHOUT_ROWS = ColumnStatistics(file_name="g", column="c", value_type=ValueType.NULL)
LONG = replace(FILE, kind=Wrapper.LONG, value_type=ValueType.LONG)
DOUBLE = replace(FILE, low=4.5, high=9.5, kind=Wrapper.DOUBLE, value_type=ValueType.DOUBLE)
DECIMAL = replace(FILE, kind=Wrapper.BYTES, value_type=ValueType.DECIMAL, type_info="9,2")


def test_files_of_a_commit_have_a_record_for_each_column() -> None:
    files = [FILE, replace(FILE, column="d"), replace(FILE, low=-1), ALL_NULL, WITHOUT_ROWS]
    records = partition_statistics.of_files("p=1", files)
    assert [(each.file_name, each.column, each.is_tight) for each in records] == [
        ("p=1", "c", False),
        ("p=1", "d", False),
    ]
    assert (records[0].low, records[0].high) == (-1, 8)
    assert (records[0].size_bytes, records[0].plain_bytes) == (120, 180)


def test_records_of_a_commit_have_a_null_that_an_older_file_may_have() -> None:
    (record,) = partition_statistics.of_files("p", [replace(FILE, nulls=0, values=5)] * 2)
    assert (record.values, record.nulls) == (11, 1)
    (record,) = partition_statistics.of_files("p", [ALL_NULL])
    assert (record.values, record.nulls, record.kind) == (6, 6, None)


def test_files_without_rows_add_nothing() -> None:
    assert partition_statistics.of_files("p", [WITHOUT_ROWS]) == ()
    assert partition_statistics.of_files("p", []) == ()


def test_bounds_are_widened_unless_the_newer_ones_are_tight() -> None:
    older, newer = replace(FILE, is_tight=True), replace(FILE, low=1, high=4)
    widened = partition_statistics.merged(older, newer)
    assert (widened.low, widened.high, widened.is_tight) == (1, 8, False)
    assert (widened.values, widened.nulls) == (10, 2)
    tight = replace(newer, is_tight=True)
    assert partition_statistics.merged(older, tight) == tight


@pytest.mark.parametrize("other", [ALL_NULL, WITHOUT_ROWS, replace(LONG, low=3, high=8)])
def test_bounds_stay_beside_none(other: ColumnStatistics) -> None:
    for pair in ((FILE, other), (other, FILE)):
        found = partition_statistics.merged(*pair)
        assert (found.low, found.high) == (3, 8)
        assert found.kind is not None


def test_bounds_are_of_the_newer_type() -> None:
    wider = partition_statistics.merged(FILE, LONG)
    assert (wider.kind, wider.value_type) == (Wrapper.LONG, ValueType.LONG)
    real = partition_statistics.merged(FILE, DOUBLE)
    assert (real.low, real.high, real.kind) == (3.0, 9.5, Wrapper.DOUBLE)
    assert isinstance(real.low, float)
    nan = partition_statistics.merged(replace(DOUBLE, high=math.nan), DOUBLE)
    assert (nan.low, math.isnan(float(str(nan.high)))) == (4.5, True)


def test_floats_become_the_doubles_that_they_are_read_as() -> None:
    single = float(np.float32(0.1))
    assert single > 0.1
    older = replace(FILE, low=single, high=single, kind=Wrapper.FLOAT, value_type=ValueType.FLOAT)
    found = partition_statistics.merged(older, DOUBLE)
    assert (found.low, found.high, found.kind) == (0.1, 9.5, Wrapper.DOUBLE)


def test_decimals_are_ordered_by_their_value() -> None:
    older = replace(DECIMAL, low=b"\xff", high=b"\x05")
    newer = replace(DECIMAL, low=b"\x01", high=b"\x01\x00", type_info="12,2")
    found = partition_statistics.merged(older, newer)
    assert (found.low, found.high, found.type_info) == (b"\xff", b"\x01\x00", "12,2")


def test_narrower_record_after_a_wider_one_leaves_its_type() -> None:
    found = partition_statistics.merged(LONG, replace(FILE, low=-1))
    assert (found.low, found.high, found.kind, found.value_type) == (
        -1,
        8,
        Wrapper.LONG,
        ValueType.LONG,
    )


def test_floats_become_the_doubles_that_read_alike() -> None:
    single = replace(FILE, low=0.5, high=3.0999999046325684, kind=Wrapper.FLOAT)
    found = partition_statistics.merged(single, replace(DOUBLE, low=1.0, high=2.0))
    assert (found.low, found.high, found.kind) == (0.5, 3.1, Wrapper.DOUBLE)
    assert not partition_statistics.excludes(single, replace(DOUBLE, low=0.5, high=3.1))


def test_statistics_exclude_values_and_nulls_outside_them() -> None:
    for there, expected in (
        (FILE, False),
        (replace(FILE, high=9), True),
        (replace(FILE, low=2), True),
        (ALL_NULL, False),
        (replace(LONG, high=9), True),
        (replace(FILE, value_type=ValueType.DATE, high=99), False),
    ):
        assert partition_statistics.excludes(FILE, there) == expected, there
    assert partition_statistics.excludes(replace(FILE, nulls=0), FILE)
    assert not partition_statistics.excludes(replace(FILE, nulls=None), FILE)
    assert partition_statistics.excludes(ALL_NULL, FILE)
    text = replace(FILE, kind=Wrapper.STRING, value_type=ValueType.STRING)
    long = replace(text, low="x" * 2000, high="x" * 2000)
    cut = replace(text, low="x" * 1024, high="x" * 1023 + "y")
    assert not partition_statistics.excludes(long, cut)
    assert not partition_statistics.excludes(cut, long)


@pytest.mark.parametrize(
    "newer",
    [
        replace(FILE, low="a", high="b", kind=Wrapper.STRING, value_type=ValueType.STRING),
        replace(FILE, value_type=ValueType.DATE),
        replace(DECIMAL, low=b"\x01", high=b"\x02"),
    ],
)
def test_types_without_a_common_order_are_named(newer: ColumnStatistics) -> None:
    with pytest.raises(errors.UnsupportedError, match="column 'c' of 'f' are of "):
        partition_statistics.merged(FILE, newer)
    scaled = replace(DECIMAL, low=b"\x01", high=b"\x02")
    with pytest.raises(errors.UnsupportedError, match="expected one type"):
        partition_statistics.merged(scaled, replace(scaled, type_info="9,3"))
