"""Patterns of times in Joda-Time's spelling, as Apache Hudi's key generators take them.

    y, Y        year, of four digits
    M d H m s   month, day, hour, minute, second: numbers of at least as many digits as letters
    D           day of the year; only written
    S           fraction of a second, of as many digits
    Z           offset of a zone, `+0100`, `+01:00` or `Z`; only read
    '...'       the text itself, as is anything but letters

Other letters, and names of months, are refused. Source: Joda-Time's `DateTimeFormat`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from hoodie import errors

_TOKEN: Final = re.compile(
    r"'(?P<quoted>(?:[^']|'')*)'|(?P<letter>[A-Za-z])(?P=letter)*|[^A-Za-z']"
)
_NUMBERS: Final[Mapping[str, Callable[[pa.Array], pa.Array]]] = {
    "y": pc.year,
    "M": pc.month,
    "d": pc.day,
    "D": pc.day_of_year,
    "H": pc.hour,
    "m": pc.minute,
    "s": pc.second,
}
_WRITTEN: Final = frozenset((*_NUMBERS, "S"))
_READ: Final = frozenset("yMdHmsSZ")
_ORDERS: Final = ("yMdHmsS", "yDHmsS")
_DIGITS: Final[Mapping[str, int]] = {
    "y": 4,
    "M": 2,
    "d": 2,
    "D": 3,
    "H": 2,
    "m": 2,
    "s": 2,
    "S": 1,
}
_SHORT_YEAR: Final = 2
_NAMED_MONTH: Final = 3
_FRACTION_DIGITS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """A run of one letter."""

    letter: str
    count: int


Pattern = Sequence[_Run | str]
"""Runs of letters, and texts that stand for themselves."""


def of_output(text: str) -> Pattern:
    """Return a pattern that times are written by.

    Raises:
        UnsupportedError: It has what is not known here.
    """
    return _parsed(text, _WRITTEN)


def of_input(text: str) -> Pattern:
    """Return a pattern that texts are read by; as `of_output`."""
    found = _parsed(text, _READ)
    letters = [each.letter for each in found if isinstance(each, _Run)]
    if "y" not in letters or len(set(letters)) < len(letters):
        raise errors.UnsupportedError(
            f"the pattern {text!r} cannot be read: expected a year, and each letter in one place"
        )
    return found


def has_zone(pattern: Pattern) -> bool:
    """Return whether texts of a pattern say their offset."""
    return any(isinstance(each, _Run) and each.letter == "Z" for each in pattern)


def is_ordered(pattern: Pattern) -> bool:
    """Return whether a later time never has a lesser text, in years of four digits.

    Its numbers are of one length each, greater units before smaller ones.
    """
    runs = [each for each in pattern if isinstance(each, _Run)]
    letters = "".join(each.letter for each in runs)
    is_in_order = any(order.startswith(letters) for order in _ORDERS)
    return is_in_order and all(each.count >= _DIGITS[each.letter] for each in runs)


def written(shown: pa.Array, pattern: Pattern) -> pa.Array:
    """Return times as texts.

    Args:
        shown: Timestamps in milliseconds, in the zone of the texts.
        pattern: A pattern of either kind.
    """
    return pc.binary_join_element_wise(*(_text(shown, each) for each in pattern), "")


def read(texts: pa.Array, pattern: Pattern, zone: str | None) -> pa.Array:
    """Return texts in milliseconds since the epoch; null for those that are not of a pattern.

    A time that clocks show twice is the first; what a pattern leaves out is the least.

    Args:
        texts: Without nulls.
        pattern: Of `of_input`.
        zone: Of texts that do not say theirs, as Arrow names it.

    Raises:
        ArrowInvalid: There is no such time, as on 30 February.
    """
    groups = pc.extract_regex(texts, pattern=_regex(pattern))
    is_read = groups.is_valid()
    fields = {
        each.name: pc.if_else(is_read, groups.field(index), None)
        for index, each in enumerate(groups.type)
    }

    def digits(letter: str, least: str) -> pa.Array | str:
        return pc.utf8_lpad(fields[letter], 2, "0") if letter in fields else least

    fraction: pa.Array | str = "000"
    if "S" in fields:
        fraction = _of_length(fields["S"], _FRACTION_DIGITS)
    date = [fields["y"], "-", digits("M", "01"), "-", digits("d", "01")]
    time = [digits("H", "00"), ":", digits("m", "00"), ":", digits("s", "00"), ".", fraction]
    shown = pc.binary_join_element_wise(*date, "T", *time, "").cast(pa.timestamp("ms"))
    if "Z" in fields:
        return pc.subtract(shown.cast(pa.int64()), _offset_ms(fields["Z"]))
    in_zone = pc.assume_timezone(shown, zone, ambiguous="earliest", nonexistent="raise")
    return in_zone.cast(pa.int64())


def _parsed(text: str, letters: frozenset[str]) -> Pattern:
    found: list[_Run | str] = []
    place = 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise errors.UnsupportedError(f"the pattern {text!r} has a quotation without an end")
        place = match.end()
        if match["letter"] is not None:
            found.append(_run(match[0], text, letters))
        elif match["quoted"] is None:
            found.append(match[0])
        else:
            found.append(match["quoted"].replace("''", "'") or "'")
    return tuple(found)


def _run(run: str, text: str, letters: frozenset[str]) -> _Run:
    found = _Run(letter="y" if run[0] == "Y" else run[0], count=len(run))
    is_short_year = found.letter == "y" and found.count == _SHORT_YEAR
    is_name = found.letter == "M" and found.count >= _NAMED_MONTH
    if found.letter not in letters or is_short_year or is_name:
        raise errors.UnsupportedError(
            f"the pattern {text!r} has {run}, expected yyyy, MM, or others of "
            f"{', '.join(sorted(letters))}"
        )
    return found


def _text(shown: pa.Array, part: _Run | str) -> pa.Array | str:
    if isinstance(part, str):
        return part
    if part.letter == "Z":
        return pc.strftime(shown, format="%z")
    if part.letter == "S":
        millis = pc.utf8_lpad(pc.millisecond(shown).cast(pa.string()), _FRACTION_DIGITS, "0")
        return _of_length(millis, part.count)
    return pc.utf8_lpad(_NUMBERS[part.letter](shown).cast(pa.string()), part.count, "0")


def _of_length(fraction: pa.Array, digits: int) -> pa.Array:
    return pc.utf8_slice_codeunits(pc.utf8_rpad(fraction, digits, "0"), 0, digits)


def _regex(pattern: Pattern) -> str:
    return rf"\A{''.join(map(_group, pattern))}\z"


def _group(part: _Run | str) -> str:
    if isinstance(part, str):
        return re.escape(part)
    if part.letter == "Z":
        return r"(?P<Z>Z|[+-]\d{2}:?\d{2})"
    if part.letter == "y":
        return r"(?P<y>\d{4})"
    if part.letter == "S":
        return rf"(?P<S>\d{{{part.count}}})"
    return rf"(?P<{part.letter}>\d{{1,2}})" if part.count == 1 else rf"(?P<{part.letter}>\d\d)"


def _offset_ms(zones: pa.Array) -> pa.Array:
    plain = pc.replace_substring(zones, ":", "")
    plain = pc.if_else(pc.equal(plain, "Z"), "+0000", plain)
    hours = pc.utf8_slice_codeunits(plain, 1, 3).cast(pa.int64())
    minutes = pc.utf8_slice_codeunits(plain, 3, 5).cast(pa.int64())
    offset = pc.multiply(pc.add(pc.multiply(hours, 60), minutes), 60_000)
    return pc.if_else(pc.starts_with(plain, "-"), pc.negate(offset), offset)
