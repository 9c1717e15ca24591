"""Comparing ordering values as Apache Hudi's readers do, many at a time.

Terms:
    class    the Java class of a value, as far as merging asks for it: a delete whose value is of
             another class than the column's is not compared, it wins
    default  the integer 0, or none: a delete with it takes place in commit order

Null sorts below everything, but as the integer 0 in columns of integers: Apache Hudi reads it so,
and fails on it in other columns. Numbers with a fraction have Java's order: -0.0 below 0.0, and NaN
above all. Texts and bytes compare by unsigned bytes. Source: `OrderingValues.java`,
`RecordContext.java`, `ArrayComparable.java`; format.md: Merging.
"""

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Positions = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_Comparable: TypeAlias = npt.NDArray[np.int64] | pa.Array
"""The values of one column: numbers in an order-preserving form, or Arrow's own."""

_LOWEST = np.iinfo(np.int64).min
_HIGHEST = np.iinfo(np.int64).max


class ValueClass(enum.Enum):
    """The class of an ordering value."""

    INTEGER = "Integer"
    LONG = "Long"
    FLOAT = "Float"
    DOUBLE = "Double"
    BOOLEAN = "Boolean"
    STRING = "String"
    BYTES = "byte[]"
    DECIMAL = "BigDecimal"
    OTHER = "Object"


def class_of(kind: pa.DataType) -> ValueClass:
    """Return the class of a column's values; dates are integers and times longs, as in Spark."""
    predicates = (
        (pa.types.is_boolean, ValueClass.BOOLEAN),
        (pa.types.is_int64, ValueClass.LONG),
        (pa.types.is_integer, ValueClass.INTEGER),
        (pa.types.is_date32, ValueClass.INTEGER),
        (pa.types.is_timestamp, ValueClass.LONG),
        (pa.types.is_time, ValueClass.LONG),
        (pa.types.is_float64, ValueClass.DOUBLE),
        (pa.types.is_floating, ValueClass.FLOAT),
        (pa.types.is_string, ValueClass.STRING),
        (pa.types.is_binary, ValueClass.BYTES),
        (pa.types.is_fixed_size_binary, ValueClass.BYTES),
        (pa.types.is_decimal, ValueClass.DECIMAL),
    )
    return next((found for test, found in predicates if test(kind)), ValueClass.OTHER)


@dataclass(frozen=True, slots=True)
class OrderingValues:
    """The ordering values of some rows: one comparable column for each ordering field."""

    columns: tuple[_Comparable, ...]

    @classmethod
    def of(cls, columns: Sequence[pa.ChunkedArray]) -> "OrderingValues":
        """Return the values of the ordering fields' columns."""
        return cls(tuple(_comparable(column) for column in columns))

    def at_least(
        self, positions: Positions, other: "OrderingValues", other_positions: Positions
    ) -> Flags:
        """Return for each pair of rows whether the value here is not below the one there."""
        sign = np.zeros(len(positions), np.int8)
        for here, there in zip(self.columns, other.columns, strict=True):
            step = _signs(_at(here, positions), _at(there, other_positions))
            sign = np.where(sign == 0, step, sign)
        return sign >= 0

    def only(self, positions: Positions) -> "OrderingValues":
        """Return the values of some rows."""
        return OrderingValues(tuple(_at(column, positions) for column in self.columns))

    def with_behind(self, other: "OrderingValues", positions: Positions) -> "OrderingValues":
        """Return these values, and behind them those of some rows of others."""
        there = other.only(positions)
        return OrderingValues(
            tuple(_joined(*pair) for pair in zip(self.columns, there.columns, strict=True))
        )


def is_default(column: pa.ChunkedArray) -> Flags:
    """Return for each value whether it is the default: none, or the integer 0."""
    found = flags(column.is_null())
    if class_of(column.type) is ValueClass.INTEGER:
        found |= _integers(column.cast(pa.int32()).fill_null(0)) == 0
    return found


def flags(column: pa.ChunkedArray | pa.Array) -> Flags:
    """Return a column of booleans without nulls as numpy has it."""
    return np.asarray(column, np.bool_)


def _comparable(column: pa.ChunkedArray) -> _Comparable:
    match class_of(column.type):
        case ValueClass.INTEGER:
            return _integers(column.cast(pa.int32()).fill_null(0))
        case ValueClass.LONG | ValueClass.BOOLEAN:
            if pa.types.is_time32(column.type):
                column = column.cast(pa.int32())
            return _integers(column.cast(pa.int64()).fill_null(_LOWEST))
        case ValueClass.FLOAT | ValueClass.DOUBLE:
            return _of_fractions(column)
        case _:
            return column.combine_chunks()


def _integers(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    return np.asarray(column, np.int64)


def _of_fractions(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """Return integers in the order of the fractions: their bits, those of negative ones turned."""
    fractions = np.asarray(column.cast(pa.float64()).fill_null(0.0), np.float64)
    bits = np.ascontiguousarray(fractions).view(np.int64)
    ordered = np.where(bits < 0, bits ^ _HIGHEST, bits)
    ordered[np.isnan(fractions)] = _HIGHEST
    ordered[flags(column.is_null())] = _LOWEST
    return ordered


def _at(values: _Comparable, positions: Positions) -> _Comparable:
    return values[positions] if isinstance(values, np.ndarray) else values.take(pa.array(positions))


def _joined(first: _Comparable, second: _Comparable) -> _Comparable:
    if isinstance(first, np.ndarray) or isinstance(second, np.ndarray):
        return np.concatenate([first, second])
    return pa.concat_arrays([first, second])


def _signs(left: _Comparable, right: _Comparable) -> npt.NDArray[np.int8]:
    """Return -1, 0 or 1 for each pair, as the left one is below, equal or above."""
    if isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
        above, below = np.greater(left, right), np.less(left, right)
    else:
        left_null, right_null = flags(left.is_null()), flags(right.is_null())
        above = flags(pc.greater(left, right).fill_null(False)) | (~left_null & right_null)
        below = flags(pc.less(left, right).fill_null(False)) | (left_null & ~right_null)
    return np.subtract(above, below, dtype=np.int8)
