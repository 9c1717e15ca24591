"""How delete records hold ordering values: wrapped, so that the value's Java class is kept.

A record's ordering value is null, one of these wrappers, or, with several ordering fields, an array
of them. On the wire a wrapper is its number in the union and the bare value.

    Arrow                     wrapper   Java
    boolean                   Boolean   Boolean
    integers to 32 bits, date Int       Integer, as Spark holds a date
    integers, timestamp       Long      Long, as Spark holds a timestamp
    float, double             Float, Double
    string, binary            String, Bytes
    decimal                   Decimal   BigDecimal, of precision 30 and scale 15 always

The others are read only. Source: `HoodieDeleteRecord.avsc` (1.2.0), `HoodieAvroUtils.java`
(`wrapValueIntoAvro`); run from the bundle.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie import errors
from hoodie.model import avro_types
from hoodie.model.avro_types import Wire
from hoodie.model.value_wrappers import Wrapper

ARRAY = "ArrayWrapper"
ARRAY_BRANCH = 12
"""Position of the array of wrapped values in a record's union; in the array it is LOCAL_DATE's."""

_DECIMAL = pa.decimal128(30, 15)
_BRANCHES: dict[int, Wrapper] = dict(enumerate(Wrapper, start=1))


def _column(type_: pa.DataType, wire: Wire) -> avro_types.Column:
    return avro_types.Column(
        name="orderingVal", type=type_, wire=wire, null_branch=None, is_union=False
    )


COLUMNS: Mapping[Wrapper, avro_types.Column] = {
    Wrapper.BOOLEAN: _column(pa.bool_(), Wire.BOOLEAN),
    Wrapper.INT: _column(pa.int32(), Wire.INT),
    Wrapper.LONG: _column(pa.int64(), Wire.LONG),
    Wrapper.FLOAT: _column(pa.float32(), Wire.FLOAT),
    Wrapper.DOUBLE: _column(pa.float64(), Wire.DOUBLE),
    Wrapper.BYTES: _column(pa.binary(), Wire.BYTES),
    Wrapper.STRING: _column(pa.string(), Wire.STRING),
    Wrapper.DATE: _column(pa.date32(), Wire.INT),
    Wrapper.DECIMAL: _column(_DECIMAL, Wire.BYTES),
    Wrapper.TIME_MICROS: _column(pa.time64("us"), Wire.LONG),
    Wrapper.TIMESTAMP_MICROS: _column(pa.timestamp("us", "UTC"), Wire.LONG),
    Wrapper.LOCAL_DATE: _column(pa.date32(), Wire.INT),
}
"""How each wrapper's values stand on the wire and in Arrow."""


def branch_of(wrapper: Wrapper) -> int:
    """Return a wrapper's position in the union."""
    return next(branch for branch, each in _BRANCHES.items() if each is wrapper)


def wrapper_at(branch: int, *, is_in_array: bool) -> Wrapper | None:
    """Return the wrapper at a position in the union; None for null and for what is none."""
    wrapper = _BRANCHES.get(branch)
    return None if wrapper is Wrapper.LOCAL_DATE and not is_in_array else wrapper


def wrap(values: pa.Array) -> tuple[Wrapper, pa.Array]:
    """Return the wrapper for ordering values, and the values in its type.

    Raises:
        InvalidInputError: There are nulls, or decimals that do not fit the wrapper.
        UnsupportedError: The type is none that ordering values have.
    """
    if values.null_count:
        raise errors.InvalidInputError(
            f"{values.null_count} of {len(values)} deletes have a null ordering value"
        )
    wrapper = _wrapper_of(values.type)
    type_ = COLUMNS[wrapper].type
    if pa.types.is_temporal(values.type):
        # The number of days or of the type's own units since the epoch.
        return wrapper, values.view(type_)
    try:
        return wrapper, values.cast(type_)
    except pa.ArrowInvalid as error:
        raise errors.InvalidInputError(
            f"an ordering value does not fit {type_}: {error}"
        ) from error


def _wrapper_of(type_: pa.DataType) -> Wrapper:
    predicates = (
        (pa.types.is_boolean, Wrapper.BOOLEAN),
        (pa.types.is_int64, Wrapper.LONG),
        (pa.types.is_uint32, Wrapper.LONG),
        (lambda each: pa.types.is_integer(each) and not pa.types.is_uint64(each), Wrapper.INT),
        (pa.types.is_date32, Wrapper.INT),
        (pa.types.is_timestamp, Wrapper.LONG),
        (pa.types.is_float64, Wrapper.DOUBLE),
        (pa.types.is_floating, Wrapper.FLOAT),
        (pa.types.is_string, Wrapper.STRING),
        (pa.types.is_large_string, Wrapper.STRING),
        (pa.types.is_binary, Wrapper.BYTES),
        (pa.types.is_decimal, Wrapper.DECIMAL),
    )
    found = next((wrapper for is_of, wrapper in predicates if is_of(type_)), None)
    if found is None:
        raise errors.UnsupportedError(f"ordering values of type {type_} are not supported")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordering:
    """The ordering values of some deletes.

    Attributes:
        columns: For each ordering field the values by wrapper: one for each delete, null where it
            has another wrapper or none.
        is_array: Deletes whose value is an array, of one element or more.
    """

    columns: tuple[Mapping[Wrapper, pa.Array], ...]
    is_array: npt.NDArray[np.bool_]
