"""Ranges of the values of a column in many files at once, as Arrow arrays.

A range is known, or nothing is known of the values. Bounds that are not understood, or that may be
wrong, make it unknown: nothing is left out because of them.

What Apache Hudi takes from the footers of base files is wrong where a footer says less than all
(format.md: Metadata table). Each row group that hides its values is one of nulls, or of zeros, to
it, and its range joined with those of others hides that. So of a file that it may have written
these are not relied on: bounds of floats with 0 between them, and bounds of texts beside nulls.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie import deferred, errors
from hoodie.filegroup import ordering
from hoodie.format.metadata_columns import HIGH, LOW
from hoodie.model import predicates
from hoodie.model.file_statistics import ValueType
from hoodie.model.value_wrappers import Wrapper

with deferred.imports():
    from hoodie.format import avro_columns, metadata_columns

Flags = npt.NDArray[np.bool_]
Places = npt.NDArray[np.int64]

_DECIMAL_DIGITS_MAX = 38
_DECIMAL_SCALE_MAX = 15
"""Greater scales are cut in version 8, which a bound does not survive."""

_MICROS = (ValueType.TIMESTAMP_MICROS, ValueType.LOCAL_TIMESTAMP_MICROS)
"""Types of times in microseconds, with and without zone; version 8 has no other ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranges:
    """The values of a column in some files each, or in some groups of them.

    Attributes:
        low: The least value, in the column's type; null where no row has a value, or where nothing
            is known.
        high: The greatest value, as `low`.
        has_nulls: Whether a row may have no value.
        is_known: Whether all this is known.
    """

    low: pa.Array
    high: pa.Array
    has_nulls: Flags
    is_known: Flags

    def take(self, places: Places) -> "Ranges":
        """Return the ranges at some places, unknown ones at those below 0."""
        is_there = places >= 0
        if not len(self.low):
            return unknown(self.low.type, len(places))
        indices = pa.array(places, mask=~is_there)
        inside = np.maximum(places, 0)
        return Ranges(
            low=self.low.take(indices),
            high=self.high.take(indices),
            has_nulls=self.has_nulls[inside] & is_there,
            is_known=self.is_known[inside] & is_there,
        )

    def joined(self, groups: Places, count: int) -> "Ranges":
        """Return the range of each group of files; of one without files, no rows.

        Args:
            groups: Which group each range is of.
            count: How many groups there are.
        """
        is_known = np.bincount(groups[~self.is_known], minlength=count) == 0
        has_nulls = np.bincount(groups[self.has_nulls], minlength=count) > 0
        return Ranges(
            low=_firsts(self.low, groups, count, "ascending"),
            high=_firsts(self.high, groups, count, "descending"),
            has_nulls=has_nulls,
            is_known=is_known,
        )

    def columns(self, name: str) -> dict[str, pa.Array]:
        """Return the columns of `predicates.to_range_expression` for a column of this name."""
        is_unknown = pa.array(~self.is_known)
        nothing = pa.scalar(None, self.low.type)
        return {
            predicates.range_name(name, predicates.LOW): pc.if_else(is_unknown, nothing, self.low),
            predicates.range_name(name, predicates.HIGH): pc.if_else(
                is_unknown, nothing, self.high
            ),
            predicates.range_name(name, predicates.HAS_NULLS): pa.array(
                self.has_nulls, mask=~self.is_known
            ),
            predicates.range_name(name, predicates.IS_KNOWN): pa.array(self.is_known),
        }


def unknown(data_type: pa.DataType, count: int) -> Ranges:
    """Return so many ranges of which nothing is known."""
    nothing = pa.nulls(count, data_type)
    return Ranges(
        low=nothing,
        high=nothing,
        has_nulls=np.zeros(count, np.bool_),
        is_known=np.zeros(count, np.bool_),
    )


def is_understood(data_type: pa.DataType) -> bool:
    """Return whether bounds of a column of that type are read."""
    return bool(wrappers_of(data_type))


def wrappers_of(data_type: pa.DataType) -> tuple[Wrapper, ...]:
    """Return the wrappers whose bounds are values of a column's type; none for other types."""
    is_micros = pa.types.is_timestamp(data_type) and data_type.unit == "us"
    is_decimal = pa.types.is_decimal128(data_type)
    is_held = is_decimal and data_type.scale <= _DECIMAL_SCALE_MAX
    found: Sequence[tuple[bool, tuple[Wrapper, ...]]] = (
        (pa.types.is_signed_integer(data_type), (Wrapper.INT, Wrapper.LONG)),
        (pa.types.is_float32(data_type), (Wrapper.FLOAT,)),
        (pa.types.is_float64(data_type), (Wrapper.FLOAT, Wrapper.DOUBLE)),
        (pa.types.is_string(data_type), (Wrapper.STRING,)),
        (pa.types.is_date32(data_type), (Wrapper.INT, Wrapper.DATE, Wrapper.LOCAL_DATE)),
        (is_micros, (Wrapper.LONG, Wrapper.TIMESTAMP_MICROS)),
        (is_held, (Wrapper.DECIMAL, Wrapper.BYTES)),
        (is_decimal, (Wrapper.BYTES,)),
    )
    return next((wrappers for is_of, wrappers in found if is_of), ())


def stated(statistics: pa.Table, data_type: pa.DataType, may_hide: Flags) -> Ranges:
    """Return the range that each of some statistics states.

    Args:
        statistics: Of one column, as `metadata_columns.SCHEMA`; none of deleted files.
        data_type: The column's type.
        may_hide: Which of them Apache Hudi may have taken from footers.
    """
    count = statistics.num_rows
    kinds = _array(statistics, "kind")
    has_bounds = ordering.flags(kinds.is_valid())
    nulls = _array(statistics, "nullCount")
    has_nulls = ordering.flags(pc.fill_null(pc.not_equal(nulls, 0), True))
    is_known = ~has_bounds
    low = high = pa.nulls(count, data_type)
    for wrapper in wrappers_of(data_type):
        is_of = ordering.flags(pc.fill_null(pc.equal(kinds, wrapper.value), False))
        if not is_of.any():
            continue
        found = _of_wrapper(statistics, wrapper, data_type)
        if found is None:
            continue
        is_known |= is_of & ordering.flags(pc.and_(found[0].is_valid(), found[1].is_valid()))
        low = pc.if_else(pa.array(is_of), found[0], low)
        high = pc.if_else(pa.array(is_of), found[1], high)
    is_known &= ~_is_not_relied_on(data_type, (low, high), has_nulls, may_hide)
    is_nothing = pa.array(~is_known)
    nothing = pa.scalar(None, data_type)
    return Ranges(
        low=pc.if_else(is_nothing, nothing, low),
        high=pc.if_else(is_nothing, nothing, high),
        has_nulls=has_nulls,
        is_known=is_known,
    )


def _of_wrapper(
    statistics: pa.Table, wrapper: Wrapper, data_type: pa.DataType
) -> tuple[pa.Array, pa.Array] | None:
    """Return the bounds in a wrapper as values of the column's type; null where there are none.

    None where they do not fit the type.
    """
    low, high = (_array(statistics, metadata_columns.bound(end, wrapper)) for end in (LOW, HIGH))
    if wrapper is Wrapper.BYTES:
        return _unscaled(statistics, (low, high), data_type)
    if pa.types.is_timestamp(data_type):
        value_type = _array(statistics, "valueType.typeOrdinal")
        is_fit = pc.or_(
            value_type.is_null(), pc.is_in(value_type, pa.array([int(each) for each in _MICROS]))
        )
    elif pa.types.is_signed_integer(data_type):
        least, greatest = _limits(data_type)
        is_fit = pc.and_(pc.greater_equal(low, least), pc.less_equal(high, greatest))
    elif pa.types.is_floating(data_type):
        # Of NaNs Apache Hudi and Spark say that they are greatest; filters here say neither.
        is_fit = pc.invert(pc.or_(pc.is_nan(low), pc.is_nan(high)))
    else:
        is_fit = pa.scalar(True)
    try:
        return _where(is_fit, low, data_type), _where(is_fit, high, data_type)
    except pa.ArrowInvalid:
        return None  # A type that is wider than the column's: it was narrowed, which nobody does.


def _unscaled(
    statistics: pa.Table, bounds: tuple[pa.Array, pa.Array], data_type: pa.DataType
) -> tuple[pa.Array, pa.Array] | None:
    """Return the decimals of version 9, whose scale is in the type that is stated of them."""
    is_decimal = pc.equal(_array(statistics, "valueType.typeOrdinal"), int(ValueType.DECIMAL))
    info = _array(statistics, "valueType.additionalInfo")
    is_fit = pc.and_(is_decimal, pc.ends_with(info, f",{data_type.scale}"))
    nothing = pa.scalar(None, pa.binary())
    widest = pa.decimal128(_DECIMAL_DIGITS_MAX, data_type.scale)
    try:
        low, high = (
            avro_columns.decimals(pc.if_else(is_fit, each, nothing), widest).cast(data_type)
            for each in bounds
        )
    except (errors.FormatError, pa.ArrowInvalid):
        return None
    return low, high


def _where(is_fit: pa.Array, bound: pa.Array, data_type: pa.DataType) -> pa.Array:
    fit = pc.if_else(is_fit, bound, pa.scalar(None, bound.type))
    if pa.types.is_float32(fit.type) and pa.types.is_float64(data_type):
        fit = fit.cast(pa.string())  # A float is read as the double that reads alike.
    return fit.cast(data_type)


def _limits(data_type: pa.DataType) -> tuple[pa.Scalar, pa.Scalar]:
    info = np.iinfo(data_type.to_pandas_dtype())
    return pa.scalar(info.min, pa.int64()), pa.scalar(info.max, pa.int64())


def _is_not_relied_on(
    data_type: pa.DataType, bounds: tuple[pa.Array, pa.Array], has_nulls: Flags, may_hide: Flags
) -> Flags:
    """Return of which ranges a row group may be missing, or is hidden among zeros or nulls."""
    low, high = bounds
    if pa.types.is_floating(data_type):
        has_zero = pc.and_(pc.less_equal(low, 0), pc.greater_equal(high, 0))
        return may_hide & ordering.flags(pc.fill_null(has_zero, True))
    if pa.types.is_string(data_type):
        return may_hide & has_nulls
    return np.zeros(len(low), np.bool_)


def _firsts(values: pa.Array, groups: Places, count: int, order: str) -> pa.Array:
    """Return the first value of each group in an order, nulls behind all others."""
    if len(np.unique(groups)) == len(groups):
        places = np.full(count, -1)
        places[groups] = np.arange(len(groups))
    else:
        table = pa.table({"group": groups, "value": values})
        keys = [("group", "ascending"), ("value", order)]
        rows = pc.sort_indices(table, sort_keys=keys).to_numpy()
        there, firsts = np.unique(groups[rows], return_index=True)
        places = np.full(count, -1)
        places[there] = rows[firsts]
    if not len(values):
        return pa.nulls(count, values.type)
    return values.take(pa.array(places, mask=places < 0))


def _array(table: pa.Table, name: str) -> pa.Array:
    return table.column(name).combine_chunks()
