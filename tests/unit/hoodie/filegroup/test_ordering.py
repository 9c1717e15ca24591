"""The order of ordering values: Java's, and Spark's for texts."""

import datetime
import decimal
import itertools
import math

import numpy as np
import pyarrow as pa
import pytest

from hoodie.filegroup import ordering
from hoodie.filegroup.ordering import ValueClass

DAY = datetime.date(2026, 1, 1)
MOMENT = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("kind", "ascending"),
    [
        (pa.int64(), [None, -(2**63) + 1, -1, 0, 2**63 - 1]),
        (pa.float64(), [None, -math.inf, -1.0, -0.0, 0.0, 5e-324, 1.0, math.inf, math.nan]),
        (pa.float32(), [None, -math.inf, -1.0, -0.0, 0.0, 1.0, math.inf, math.nan]),
        (pa.string(), [None, "", "Z", "a", "aa", "é", "\uffff", "\U0001f600"]),
        (pa.binary(), [None, b"", b"\x00", b"a", b"\xff"]),
        (pa.bool_(), [None, False, True]),
        (pa.date32(), [datetime.date(1969, 1, 1), DAY]),
        (pa.timestamp("us", "UTC"), [None, MOMENT, MOMENT + datetime.timedelta(microseconds=1)]),
        (pa.time64("us"), [None, datetime.time(0), datetime.time(1)]),
        (pa.time32("ms"), [None, datetime.time(0), datetime.time(1)]),
        (pa.decimal128(5, 2), [None, *map(decimal.Decimal, ("-1.00", "0.00", "2.50"))]),
    ],
)
def test_values_are_in_this_order(kind: pa.DataType, ascending: list[object]) -> None:
    column = pa.chunked_array([pa.array(ascending, kind)])
    values = ordering.OrderingValues.of([column])
    for (left, _), (right, _) in itertools.product(enumerate(ascending), repeat=2):
        found = values.at_least(np.array([left]), values, np.array([right]))
        assert found.tolist() == [left >= right], (ascending[left], ascending[right])


def test_null_in_a_column_of_integers_is_zero() -> None:
    # RecordContext.getOrderingValue: no value is the default, the Integer 0.
    values = ordering.OrderingValues.of([pa.chunked_array([pa.array([None, 0, -1], pa.int32())])])
    null, zero, below = np.array([0]), np.array([1]), np.array([2])
    assert values.at_least(null, values, zero).all()
    assert values.at_least(zero, values, null).all()
    assert values.at_least(null, values, below).all()


def test_several_fields_are_compared_from_left_to_right() -> None:
    values = ordering.OrderingValues.of(
        [pa.chunked_array([[1, 1, 2]]), pa.chunked_array([["b", "c", "a"]])]
    )
    first, second, third = np.array([0]), np.array([1]), np.array([2])
    assert not values.at_least(first, values, second).any()
    assert values.at_least(third, values, second).all()


def test_default_is_null_or_the_integer_zero() -> None:
    integers = pa.chunked_array([pa.array([None, 0, 1], pa.int32())])
    longs = pa.chunked_array([pa.array([None, 0, 1], pa.int64())])
    assert ordering.is_default(integers).tolist() == [True, True, False]
    assert ordering.is_default(longs).tolist() == [True, False, False]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (pa.int32(), ValueClass.INTEGER),
        (pa.date32(), ValueClass.INTEGER),
        (pa.int64(), ValueClass.LONG),
        (pa.timestamp("us", "UTC"), ValueClass.LONG),
        (pa.float32(), ValueClass.FLOAT),
        (pa.float64(), ValueClass.DOUBLE),
        (pa.string(), ValueClass.STRING),
        (pa.decimal128(9, 2), ValueClass.DECIMAL),
        (pa.list_(pa.int32()), ValueClass.OTHER),
    ],
)
def test_class_of_a_column(kind: pa.DataType, expected: ValueClass) -> None:
    assert ordering.class_of(kind) is expected
