"""Bounds of columns: which value is the least, how long bounds are, and how records hold them.

Here a value is plain: of a date, a time or a timestamp the number that stands for it, of a decimal
a Decimal with as many places as the column has. NaN is the greatest number, as in Java and Spark.
Texts are ordered by their characters, as UTF-8 is, and Spark's filters.

Apache Hudi orders texts by UTF-16 where it merges statistics, and bytes as signed numbers: bounds
that it has merged are not those of other readers. Source: `HoodieColumnRangeMetadata.java`,
`HoodieAvroWrapperUtils.java` (1.2.0).
"""

import decimal
import math
from typing import Any

from hoodie.model.file_statistics import Bound, Kind, ValueType
from hoodie.model.value_wrappers import Wrapper

LENGTH_MAX = 1024
"""A longer text, in characters, or value of bytes is cut to this length as a bound."""

_PLACES = decimal.Decimal(1).scaleb(-15)
_EXACT = decimal.Context(prec=76)

_BYTE_MAX = 0xFF
_CHARACTER_MAX = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)


def order(value: Any, value_type: int | None = None) -> tuple[bool, Any]:  # noqa: ANN401
    """Return what values of one type are ordered by.

    Args:
        value: One of them, plain or as a record holds it.
        value_type: The column's type where it is as a record holds it.
    """
    if isinstance(value, float) and math.isnan(value):
        return True, 0.0
    if value_type == ValueType.DECIMAL:
        return False, int.from_bytes(value, "big", signed=True)
    return False, value


def cut_low(value: Any) -> Any:  # noqa: ANN401
    """Return a value that is not above another, and not long."""
    return value[:LENGTH_MAX] if isinstance(value, str | bytes) else value


def cut_high(value: Any) -> Any:  # noqa: ANN401
    """Return a value that is not below another, and not long unless there is no such one."""
    if not isinstance(value, str | bytes) or len(value) <= LENGTH_MAX:
        return value
    for end in range(LENGTH_MAX, 0, -1):
        following = _following(value[end - 1 : end])
        if following is not None:
            return value[: end - 1] + following
    return value


def _following(last: Any) -> Any:  # noqa: ANN401 - a text or bytes, of length 1
    """Return the next character or byte; None if there is none."""
    if isinstance(last, bytes):
        return None if last[0] == _BYTE_MAX else bytes([last[0] + 1])
    code = ord(last) + 1
    if code > _CHARACTER_MAX:
        return None
    return chr(_SURROGATES.stop if code in _SURROGATES else code)


def written(value: Any, kind: Kind) -> Bound:  # noqa: ANN401
    """Return a value as a record holds it."""
    if kind.wrapper is Wrapper.DECIMAL:
        return _EXACT.quantize(value, _PLACES)
    if kind.value_type is ValueType.DECIMAL:
        sign, digits, _ = value.as_tuple()
        unscaled = int("".join(map(str, digits))) * (-1 if sign else 1)
        # As short as two's complement allows, as Java's BigInteger.
        bits = (unscaled if unscaled >= 0 else ~unscaled).bit_length()
        return unscaled.to_bytes(bits // 8 + 1, "big", signed=True)
    bound: Bound = value
    return bound
