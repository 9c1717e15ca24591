"""Functions of Spark SQL, as far as they are computed here: of the values of expression indexes.

Bounds of what a function makes of a column hold whatever Java, and whatever time zone of a session,
computes it elsewhere. Where that matters the bounds are wider than those of one computation:

    lower, upper   Java's case rules are those of its version of Unicode, and of a capital sigma
                   those of its word boundaries. A value is known up to the first character whose
                   case differs between versions (`is_certain`), and unknown from there.
    times          Java's time zones are at most 18 hours from UTC, and texts of times with a
                   four-digit year have the order of local times. Before 1583, where Spark may count
                   by the Julian calendar, and from 9999 on nothing is known.

Null is made of null alone. Source: `ExpressionIndexSparkFunctions.java` (1.2.0), which names the
functions and their options; `UTF8String.java`, `DateTimeUtils.scala` (Spark 3.5).
"""

import datetime
import functools
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie import errors

_GREATEST = "\U0010ffff"
"""Not below any text that begins with a letter."""

_OFFSET_S: Final = 18 * 3600
_DAY_S: Final = 86_400
_EPOCH: Final = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - a local time, of no zone
_LEAST_S: Final = int((datetime.datetime(1583, 1, 1) - _EPOCH).total_seconds())  # noqa: DTZ001
_END_S: Final = int((datetime.datetime(9999, 1, 1) - _EPOCH).total_seconds())  # noqa: DTZ001
_INT_MAX: Final = (1 << 31) - 1

_TIME_FORMAT: Final = "yyyy-MM-dd HH:mm:ss"
_SEPARATOR = r"[-/._: ]?"
_TIME_PATTERN = re.compile(
    "yyyy" + "".join(f"(?:{_SEPARATOR}{part}" for part in ("MM", "dd", "HH", "mm", "ss")) + ")?" * 5
)
_TIME_PARTS = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}

TEXT: Final = "texts"
DATE: Final = "dates"
TIME: Final = "times of UTC in microseconds"
SECONDS: Final = "whole numbers of 64 bits"

_EXACTLY_TAKEN = (TEXT, DATE)

Bounds = tuple[Any, Any]
"""Not above and not below any value; of a date the number of days."""

_BothBounds = Callable[[pa.ChunkedArray, Mapping[str, str]], tuple[Bounds, Bounds]]
"""Returns bounds that hold whoever computes the function, and what all such bounds include."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A function of one column with constant arguments; it pickles.

    Attributes:
        name: As Spark names it.
        options: As Apache Hudi stores its arguments, by their names there.
    """

    name: str
    options: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        """Return it with its arguments, without the column."""
        return self.called("...")

    def called(self, column: str) -> str:
        """Return it as SQL calls it of a column."""
        values = [value if name in _NUMBERS else quoted(value) for name, value in self.options]
        return f"{self.name}({', '.join([column, *values])})"

    def result_of(self, kind: pa.DataType) -> pa.DataType | None:
        """Return the type of what it makes of a type; None for a type that is not taken."""
        for taken, (result, _) in _FUNCTIONS[self.name].items():
            if _IS_OF[taken](kind):
                return result
        return None

    @property
    def takes(self) -> str:
        """Columns of which kinds of values it takes, for messages."""
        return " or ".join(_FUNCTIONS[self.name])

    def exact_result_of(self, kind: pa.DataType) -> pa.DataType | None:
        """Return the type of `values` of a type; None where sessions make different ones."""
        is_exact = self.name in _EXACT and any(_IS_OF[each](kind) for each in _EXACTLY_TAKEN)
        return self.result_of(kind) if is_exact else None

    @property
    def takes_exactly(self) -> str:
        """Columns of which kinds of values it takes in filters, for messages."""
        if self.name not in _EXACT:
            return "none"
        return " or ".join(each for each in _FUNCTIONS[self.name] if each in _EXACTLY_TAKEN)

    @property
    def has_uncertain_values(self) -> bool:
        """Whether versions of Java may make different values of one."""
        return self.name in (_LOWER, _UPPER)

    def bounds(self, column: pa.ChunkedArray, *, is_certain: bool = False) -> Bounds | None:
        """Return bounds of what it makes of values; None where there are none but nulls.

        Args:
            column: Of a type that it takes.
            is_certain: Whether they are those that all other bounds include, whichever session has
                made them, and not those that include all others.
        """
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        found = pc.drop_null(column)
        if not len(found):
            return None
        for taken, (_, bounds) in _FUNCTIONS[self.name].items():
            if _IS_OF[taken](column.type):
                outer, inner = bounds(found, dict(self.options))
                return inner if is_certain else outer
        raise AssertionError(f"{self} of {column.type}")

    def values(self, column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
        """Return what it makes of values of types with an `exact_result_of`; null of null."""
        return _EXACT[self.name](column, dict(self.options))

    def is_certain(self, value: object) -> bool:
        """Return whether no other computation makes it of a value of which this one makes another.

        Args:
            value: What it might make.
        """
        if not self.has_uncertain_values:
            return True
        return isinstance(value, str) and _CERTAIN_RESULTS[self.name].fullmatch(value) is not None


_LOWER = "lower"
_UPPER = "upper"
_NUMBERS = ("pos", "len", "days")


def parsed(name: str, options: Mapping[str, str], source: str) -> Function:
    """Return a function as Apache Hudi defines it.

    Args:
        name: As it is stored.
        options: By their names there.
        source: For messages.

    Raises:
        UnsupportedError: It is not computed here.
        FormatError: Its arguments are damaged.
    """
    if name not in _FUNCTIONS:
        raise errors.UnsupportedError(
            f"{source} is of the function {name!r:.80}, which is not computed here, expected one "
            f"of {', '.join(sorted(_FUNCTIONS))}"
        )
    given = {key: value for key, value in options.items() if key in _ARGUMENTS}
    allowed = _OPTIONS.get(name, ())
    for key in given:
        if key not in allowed:
            raise errors.FormatError(f"{source} has the option {key}, which {name} does not take")
    for key in allowed:
        if key not in given and key not in _OPTIONAL:
            raise errors.FormatError(f"{source} lacks the option {key} of {name}")
        if key in _NUMBERS and re.fullmatch(r"[+-]?\d{1,10}", given[key], re.ASCII) is None:
            raise errors.FormatError(
                f"{source} has the option {key}={given[key]!r:.80}, expected a whole number"
            )
    pattern = given.get("format")
    if pattern is not None and _TIME_PATTERN.fullmatch(pattern) is None:
        raise errors.UnsupportedError(
            f"{source} has the format {pattern!r:.80}, of whose texts no order is known, expected "
            f"a beginning of {_TIME_FORMAT!r}, with other separators or none"
        )
    return Function(name=name, options=tuple((key, given[key]) for key in allowed if key in given))


def call_of(text: str) -> tuple[str, Function]:
    """Return the column and the function of a call such as `substring(name, 1, 3)`.

    A column whose name is no word stands in backticks, or double quotes.

    Raises:
        InvalidInputError: It is not a call of a function of a column, or of other arguments.
        UnsupportedError: The function is not computed here.
    """
    found = _CALL.fullmatch(text)
    if found is None:
        raise errors.InvalidInputError(
            f"{text!r:.120} is not an expression, expected a function of a column, such as "
            "lower(name) or substring(name, 1, 3)"
        )
    given = [each.strip() for each in _ARGUMENT.findall(found["arguments"] or "")]
    column = found["column"]
    if column[0] in '`"':
        column = column[1:-1].replace(2 * column[0], column[0])
    return column, of_arguments(found["name"], given)


def of_arguments(name: str, given: Sequence[str]) -> Function:
    """Return a function with arguments, as texts of SQL, behind the column.

    Raises:
        InvalidInputError: It takes others.
        UnsupportedError: The function is not computed here.
    """
    name = name.lower()
    names = [each for each in _OPTIONS.get(name, ()) if each != "trimString"]
    called = f"{name}({', '.join(['...', *given])})"
    if name in _FUNCTIONS and len(given) > len(names):
        raise errors.InvalidInputError(
            f"{called:.120} has {len(given)} arguments behind the column, expected "
            f"{', '.join(names) or 'none'}"
        )
    options = {}
    for key, value in zip(names, given, strict=False):
        is_text = value.startswith("'")
        if is_text is (key in _NUMBERS):
            kind = "a whole number" if is_text else "a text in quotes"
            raise errors.InvalidInputError(f"{called:.120} has {key} {value}, expected {kind}")
        options[key] = value[1:-1].replace("''", "'") if is_text else value
    try:
        return parsed(name, options, called)
    except errors.FormatError as error:
        raise errors.InvalidInputError(str(error)) from error


def quoted(text: str) -> str:
    """Return a text as SQL has it."""
    return "'" + text.replace("'", "''") + "'"


_ARGUMENT = re.compile(r"""\s*,\s*('(?:[^']|'')*'|[+-]?\d{1,10})\s*""", re.ASCII)
_CALL = re.compile(
    r"""\s*(?P<name>[A-Za-z_]\w*)\s*\(\s*
    (?P<column>[^\W\d]\w*|`(?:[^`]|``)+`|"(?:[^"]|"")+")\s*
    (?P<arguments>(?:,\s*(?:'(?:[^']|'')*'|[+-]?\d{1,10})\s*)*)\)\s*""",
    re.VERBOSE,
)


def _texts(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Return the texts of a column, each once."""
    return pc.unique(column).cast(pa.string())


def _ends(values: pa.Array) -> Bounds:
    found = pc.min_max(values)
    low, high = found["min"], found["max"]
    if pa.types.is_date32(values.type):
        return low.value, high.value
    return low.as_py(), high.as_py()


def _by_values(name: str) -> _BothBounds:
    """Return bounds of an exact function, of each value."""

    def bounds(column: pa.ChunkedArray, options: Mapping[str, str]) -> tuple[Bounds, Bounds]:
        found = _ends(_EXACT[name](pc.unique(column), options))
        return found, found

    return bounds


def _cased_bounds(name: str) -> _BothBounds:
    """Return bounds of `lower` or `upper`."""

    def bounds(column: pa.ChunkedArray, options: Mapping[str, str]) -> tuple[Bounds, Bounds]:
        texts = _texts(column)
        is_plain = pc.string_is_ascii(texts)
        plain = texts.filter(is_plain)
        lows: list[str] = []
        highs: list[str] = []
        ends: list[str] = []
        if len(plain):
            ends += _ends(_EXACT[name](plain, options))
        for text in texts.filter(pc.invert(is_plain)).to_pylist():
            known = _certain(name).match(text)
            assert known is not None, text
            made = _CASES[name](known[0])
            lows.append(made)
            highs.append(made if len(known[0]) == len(text) else made + _GREATEST)
        outer = min([*ends, *lows]), max([*ends, *highs])
        return outer, (min([*ends, *highs]), max([*ends, *lows]))

    return bounds


def _cased(name: str) -> Callable[[pa.ChunkedArray, Mapping[str, str]], pa.Array]:
    by_arrow = {_LOWER: pc.ascii_lower, _UPPER: pc.ascii_upper}[name]

    def values(column: pa.ChunkedArray | pa.Array, options: Mapping[str, str]) -> pa.Array:
        found = by_arrow(column)
        is_other = pc.invert(pc.string_is_ascii(column))
        others = column.filter(is_other).to_pylist()
        if not others:
            return found
        made = pa.array(list(map(_CASES[name], others)), column.type)
        if isinstance(found, pa.ChunkedArray):
            found, is_other = found.combine_chunks(), is_other.combine_chunks()
        return pc.replace_with_mask(found, is_other.fill_null(False), made)

    return values


_CASES: Mapping[str, Callable[[str], str]] = {_LOWER: str.lower, _UPPER: str.upper}


_CHANGED = (
    range(0x0250, 0x02B0),  # Some got capital letters.
    range(0x10A0, 0x1100),  # Georgian got them in version 11 of Unicode.
    range(0x13A0, 0x1400),  # Cherokee got small ones in 8.
    (0x019B, 0x03F3),
)
"""Characters that were there in version 3.2 of Unicode and have had another case since."""

_CASELESS = (
    range(0x3040, 0x3100),  # Kana,
    range(0x4E00, 0xA000),  # Han,
    range(0xAC00, 0xD7A4),  # Hangul, and pictures.
    range(0x1F000, 0x1FB00),
)
"""Of writing without case, whichever characters of it a version of Unicode has."""

_CAPITAL_SIGMA = "\N{GREEK CAPITAL LETTER SIGMA}"


def _is_certain(character: str, name: str) -> bool:
    """Return whether a character has had the same case in all versions of Unicode since 6.2.

    A capital sigma at the end of a word becomes another small one than elsewhere.
    """
    if any(ord(character) in each for each in _CASELESS):
        return True
    is_sigma = character == _CAPITAL_SIGMA and name == _LOWER
    has_changed = any(ord(character) in each for each in _CHANGED)
    is_new = unicodedata.ucd_3_2_0.category(character) == "Cn"
    return not (is_sigma or has_changed or is_new)


@functools.cache
def _certain(name: str) -> re.Pattern[str]:
    """Return what matches the beginning of a text whose case is certain; 0.3 s, once."""
    ranges: list[list[int]] = []
    for code in range(0x110000):
        if not _is_certain(chr(code), name):
            continue
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return re.compile("[" + "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in ranges) + "]*")


_CERTAIN_RESULTS: Mapping[str, re.Pattern[str]] = {
    # Not what uncertain characters become in any version: those are letters of other alphabets.
    _LOWER: re.compile(
        r"[\x00-\xde\xe0-\u017f\u0400-\u045f\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7a3]*"
    ),
    _UPPER: re.compile(r"[\x00-\xde\xe0-\u017f\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7a3]*"),
}
"""What is made, in any version, of certain characters alone."""


def _trimmed(trim: Callable[..., pa.Array]) -> Callable[..., pa.Array]:
    def values(column: pa.ChunkedArray | pa.Array, options: Mapping[str, str]) -> pa.Array:
        # Spark takes spaces off, and no other blanks.
        return trim(column, characters=options.get("trimString", " "))

    return values


def _substring(column: pa.ChunkedArray | pa.Array, options: Mapping[str, str]) -> pa.Array:
    position, length = int(options["pos"]), int(options["len"])
    if length <= 0:
        return pc.utf8_slice_codeunits(column, 0, 0)
    start = position - 1 if position > 0 else position
    if start >= 0:
        return pc.utf8_slice_codeunits(column, start, min(start + length, _INT_MAX))
    end = start + length
    # From the end, where the beginning may lie before the text.
    return pc.utf8_slice_codeunits(column, start, end if end < 0 else None)


def _length(column: pa.ChunkedArray | pa.Array, options: Mapping[str, str]) -> pa.Array:
    return pc.utf8_length(column)


def _identity(column: pa.ChunkedArray | pa.Array, options: Mapping[str, str]) -> pa.Array:
    return column


def _of_days(
    make: Callable[[npt.NDArray[np.int64], Mapping[str, str]], npt.NDArray[Any]],
    result: pa.DataType,
) -> Callable[[pa.ChunkedArray | pa.Array, Mapping[str, str]], pa.Array]:
    """Return a function of dates, by what it makes of their days since the epoch."""

    def values(column: pa.ChunkedArray | pa.Array, options: Mapping[str, str]) -> pa.Array:
        found = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        days = found.cast(pa.int32()).fill_null(0).to_numpy(zero_copy_only=False)
        made = make(days.astype(np.int64), options).astype(np.int32)  # Spark wraps, too.
        is_null = found.is_null().to_numpy(zero_copy_only=False)
        return pa.array(made, pa.int32(), mask=is_null).cast(result)

    return values


def _year(days: npt.NDArray[np.int64], options: Mapping[str, str]) -> npt.NDArray[np.int64]:
    return days.astype("M8[D]").astype("M8[Y]").astype(np.int64) + 1970


def _month(days: npt.NDArray[np.int64], options: Mapping[str, str]) -> npt.NDArray[np.int64]:
    return days.astype("M8[D]").astype("M8[M]").astype(np.int64) % 12 + 1


def _day(days: npt.NDArray[np.int64], options: Mapping[str, str]) -> npt.NDArray[np.int64]:
    first = days.astype("M8[D]").astype("M8[M]").astype("M8[D]").astype(np.int64)
    return days - first + 1


def _added(sign: int) -> Callable[..., npt.NDArray[np.int64]]:
    def values(days: npt.NDArray[np.int64], options: Mapping[str, str]) -> npt.NDArray[np.int64]:
        return days + sign * int(options["days"])

    return values


def _of_times(
    per_second: int, text: Callable[[int, Mapping[str, str]], Any], unknown: Bounds
) -> _BothBounds:
    """Return bounds of a function that grows with the local time, in any zone.

    Args:
        per_second: Units of the column.
        text: What it makes of local seconds since 1970.
        unknown: Where it is not known what it makes.
    """

    def bounds(column: pa.ChunkedArray, options: Mapping[str, str]) -> tuple[Bounds, Bounds]:
        least, greatest = (each // per_second for each in _ends(column.cast(pa.int64())))
        low, high = least - _OFFSET_S, greatest + _OFFSET_S
        if low < _LEAST_S or high >= _END_S:
            return unknown, unknown[::-1]
        outer = text(low, options), text(high, options)
        return outer, (text(least + _OFFSET_S, options), text(greatest - _OFFSET_S, options))

    return bounds


def _time_text(local_s: int, options: Mapping[str, str]) -> str:
    pattern = options.get("format", _TIME_FORMAT)
    for part, directive in _TIME_PARTS.items():
        pattern = pattern.replace(part, directive)
    return (_EPOCH + datetime.timedelta(seconds=local_s)).strftime(pattern)


def _local_day(local_s: int, options: Mapping[str, str]) -> int:
    return local_s // _DAY_S


def _local_year(local_s: int, options: Mapping[str, str]) -> int:
    return (_EPOCH + datetime.timedelta(seconds=local_s)).year


_EXACT: Mapping[str, Callable[..., pa.Array]] = {
    "identity": _identity,
    _LOWER: _cased(_LOWER),
    _UPPER: _cased(_UPPER),
    "trim": _trimmed(pc.utf8_trim),
    "ltrim": _trimmed(pc.utf8_ltrim),
    "rtrim": _trimmed(pc.utf8_rtrim),
    "length": _length,
    "substring": _substring,
    "year": _of_days(_year, pa.int32()),
    "month": _of_days(_month, pa.int32()),
    "day": _of_days(_day, pa.int32()),
    "date_add": _of_days(_added(1), pa.date32()),
    "date_sub": _of_days(_added(-1), pa.date32()),
}
"""What is made of values, which is the same in any session but for uncertain characters."""

_Taken = Mapping[str, tuple[pa.DataType, _BothBounds]]

_ANY_TEXT = ("", _GREATEST)
_ANY_INT = (-_INT_MAX - 1, _INT_MAX)

_FUNCTIONS: Mapping[str, _Taken] = {
    "identity": {
        TEXT: (pa.string(), _by_values("identity")),
        DATE: (pa.date32(), _by_values("identity")),
    },
    _LOWER: {TEXT: (pa.string(), _cased_bounds(_LOWER))},
    _UPPER: {TEXT: (pa.string(), _cased_bounds(_UPPER))},
    **{
        name: {TEXT: (pa.string(), _by_values(name))}
        for name in ("trim", "ltrim", "rtrim", "substring")
    },
    "length": {TEXT: (pa.int32(), _by_values("length"))},
    "year": {
        DATE: (pa.int32(), _by_values("year")),
        TIME: (pa.int32(), _of_times(1_000_000, _local_year, _ANY_INT)),
    },
    "month": {DATE: (pa.int32(), _by_values("month"))},
    "day": {DATE: (pa.int32(), _by_values("day"))},
    "date_add": {DATE: (pa.date32(), _by_values("date_add"))},
    "date_sub": {DATE: (pa.date32(), _by_values("date_sub"))},
    "to_date": {TIME: (pa.date32(), _of_times(1_000_000, _local_day, _ANY_INT))},
    "date_format": {TIME: (pa.string(), _of_times(1_000_000, _time_text, _ANY_TEXT))},
    "from_unixtime": {SECONDS: (pa.string(), _of_times(1, _time_text, _ANY_TEXT))},
}
"""By name: of which columns, with the type of what it makes and the bounds of that."""

NAMES: Sequence[str] = tuple(sorted(_FUNCTIONS))

_IS_OF: Mapping[str, Callable[[pa.DataType], bool]] = {
    TEXT: pa.types.is_string,
    DATE: pa.types.is_date32,
    TIME: lambda kind: pa.types.is_timestamp(kind) and kind.unit == "us" and kind.tz is not None,
    SECONDS: pa.types.is_int64,
}

_OPTIONS: Mapping[str, Sequence[str]] = {
    "substring": ("pos", "len"),
    "date_add": ("days",),
    "date_sub": ("days",),
    **dict.fromkeys(("trim", "ltrim", "rtrim"), ("trimString",)),
    "date_format": ("format",),
    "from_unixtime": ("format",),
}
"""The names of options that a function takes, in the order of its arguments."""

_OPTIONAL = frozenset({"trimString", "format"})
_ARGUMENTS = frozenset(
    {"trimString", "idx", "replacement", "pattern", "len", "pos", "days", "format"}
)
