"""Texts of times in partition paths, as Apache Hudi's timestamp-based key generator makes them.

    numbers     UNIX_TIMESTAMP, EPOCHMILLISECONDS, EPOCHMICROSECONDS, SCALAR with a unit: since 1970
    texts       DATE_STRING or MIXED: read by the first pattern that fits, in the input zone
    null        one unit, or millisecond, after the epoch
    path        the time by the output pattern in the output zone

What would depend on the time zone of a JVM is refused. Source:
`TimestampBasedAvroKeyGenerator.java`, `HoodieDateTimeParser.java`; run from the 1.2.0 bundle.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from hoodie import errors
from hoodie.model import key_generators, table_config, time_zones
from hoodie.write import bad_values, time_patterns

_PREFIXES: Final = (key_generators.OPTIONS_PREFIX, "hoodie.deltastreamer.keygen.timebased.")
_PARSER_KEY: Final = "hoodie.keygen.datetime.parser.class"
_PARSER: Final = "HoodieDateTimeParser"
_UNIT_OF: Final = {
    "UNIX_TIMESTAMP": "SECONDS",
    "EPOCHMILLISECONDS": "MILLISECONDS",
    "EPOCHMICROSECONDS": "MICROSECONDS",
}
_ONE_OFFSET: Final = ("UTC", "GMT")
_OF_TEXTS: Final = ("DATE_STRING", "MIXED")
# Years of four digits.
_MS_MIN: Final = -62_135_596_800_000
_MS_MAX: Final = 253_402_300_799_999
_INT64_MAX: Final = 2**63 - 1
# Java takes greater numbers for GMT itself.
_FIXED_ZONE: Final = re.compile(r"GMT([+-])([01]?\d|2[0-3])(?::?([0-5]\d))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Unit:
    """A unit of numbers: a millisecond times one number, or divided by another."""

    multiplier: int = 1
    divisor: int = 1

    def milliseconds(self, values: pa.Array) -> pa.Array:
        # As Java divides: towards the epoch.
        return pc.divide(pc.multiply(values, self.multiplier), self.divisor)

    def bounds(self) -> tuple[int, int]:
        """Return the least and the greatest number of a year of four digits."""
        return (
            max(_MS_MIN * self.divisor // self.multiplier, -_INT64_MAX),
            min(_MS_MAX * self.divisor // self.multiplier, _INT64_MAX),
        )


_UNITS: Final = {
    "NANOSECONDS": _Unit(divisor=1_000_000),
    "MICROSECONDS": _Unit(divisor=1000),
    "MILLISECONDS": _Unit(),
    "SECONDS": _Unit(multiplier=1000),
    "MINUTES": _Unit(multiplier=60_000),
    "HOURS": _Unit(multiplier=3_600_000),
    "DAYS": _Unit(multiplier=86_400_000),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """How a table makes texts of times.

    Attributes:
        unit: Of numbers; None for texts.
        input_patterns: Of texts.
        input_zone: Of texts that do not say theirs.
        output_pattern: Of paths.
        output_zone: Of paths.
    """

    unit: _Unit | None
    input_patterns: tuple[time_patterns.Pattern, ...]
    input_zone: str | None
    output_pattern: time_patterns.Pattern
    output_zone: str


def rule(config: table_config.TableConfig) -> Rule:
    """Return how a table with timestamp-based partitions makes their texts.

    Raises:
        UnsupportedError: By what is not known here, or depends on the time zone of a JVM.
    """
    try:
        return _rule(config.properties)
    except errors.UnsupportedError as error:
        raise errors.UnsupportedError(
            f"table {config.name!r} has timestamp-based partitions: {error}"
        ) from None


def is_ordered(how: Rule) -> bool:
    """Return whether a greater number never has a lesser text.

    Not in a zone whose clocks are put back.
    """
    has_one_offset = how.output_zone in _ONE_OFFSET or how.output_zone[0] in "+-"
    is_of_numbers = how.unit is not None
    return is_of_numbers and has_one_offset and time_patterns.is_ordered(how.output_pattern)


def texts(column: pa.Array, how: Rule, name: str) -> pa.Array:
    """Return the text of each value in paths.

    Args:
        column: Whole numbers or texts.
        how: The table's rule.
        name: The column's, for errors.

    Raises:
        InvalidInputError: The column is of another type, or a value is no such time, or is of a
            year before 1 or after 9999.
    """
    if how.unit is None:
        is_fitting, wanted = pa.types.is_string(column.type), "texts"
    else:
        is_fitting, wanted = pa.types.is_integer(column.type), "whole numbers"
    if not is_fitting:
        raise errors.InvalidInputError(
            f"partition column {name!r} is {column.type}, the table's timestamp-based partitions "
            f"are of {wanted}"
        )
    if how.unit is None:
        times = _read(column, how, name)
    else:
        values = column.cast(pa.int64()).fill_null(1)
        least, greatest = how.unit.bounds()
        is_far = pc.or_(pc.less(values, least), pc.greater(values, greatest))
        bad_values.refuse(name, values, is_far, "a time of a year before 1 or after 9999")
        times = how.unit.milliseconds(values)
    return time_patterns.written(_shown(times, how.output_zone), how.output_pattern)


def _rule(properties: Mapping[str, str]) -> Rule:
    options = {
        key.removeprefix(prefix): value
        for prefix in reversed(_PREFIXES)
        for key, value in properties.items()
        if key.startswith(prefix) and value.strip()
    }
    parser = properties.get(_PARSER_KEY, _PARSER).rpartition(".")[2]
    if parser != _PARSER:
        raise errors.UnsupportedError(f"the parser is {parser}, expected {_PARSER}")
    if "output.dateformat" not in options:
        raise _without("output.dateformat", "which Apache Hudi may leave to its writers")
    zone = options.get("timezone")
    input_zone = _zone(zone or options.get("input.timezone"))
    output_zone = _zone(zone or options.get("output.timezone"))
    patterns: tuple[time_patterns.Pattern, ...] = ()
    unit = None
    if options.get("timestamp.type") in _OF_TEXTS:
        patterns = _input_patterns(options)
        if input_zone is None and not all(map(time_patterns.has_zone, patterns)):
            raise _without("input.timezone", "so that each JVM takes its own")
        # The zone that a text was read in.
        output_zone = output_zone or input_zone
    else:
        unit = _unit(options)
    if output_zone is None:
        raise _without("output.timezone", "so that each JVM takes its own")
    return Rule(
        unit=unit,
        input_patterns=patterns,
        input_zone=input_zone,
        output_pattern=time_patterns.of_output(options["output.dateformat"]),
        output_zone=output_zone,
    )


def _without(option: str, why: str) -> errors.UnsupportedError:
    return errors.UnsupportedError(
        f"there is no {option}, {why}: state it by `hoodie adopt URI --key-option "
        f"{key_generators.OPTIONS_PREFIX}{option}=...`, or in keys.options of a HudiTable"
    )


def _unit(options: Mapping[str, str]) -> _Unit:
    kind = options.get("timestamp.type", "")
    name = _UNIT_OF.get(kind, "")
    if kind == "SCALAR":
        name = options.get("timestamp.scalar.time.unit", "SECONDS").upper()
    if name not in _UNITS:
        known = ", ".join((*_OF_TEXTS, *_UNIT_OF, "SCALAR"))
        raise errors.UnsupportedError(
            f"timestamp.type is {kind!r}{f' of {name}' if name else ''}, expected one of {known}"
        )
    return _UNITS[name]


def _input_patterns(options: Mapping[str, str]) -> tuple[time_patterns.Pattern, ...]:
    delimiter = options.get("input.dateformat.list.delimiter.regex", ",")
    if delimiter != ",":
        raise errors.UnsupportedError(f"{delimiter!r} separates patterns, expected a comma")
    stated = [each.strip() for each in options.get("input.dateformat", "").split(",")]
    if not all(stated):
        raise errors.UnsupportedError("there is no input.dateformat, or an empty one")
    return tuple(map(time_patterns.of_input, stated))


def _zone(name: str | None) -> str | None:
    """Return a zone as Arrow names it; None for none."""
    if name is None:
        return None
    text = name.strip()
    fixed = _FIXED_ZONE.fullmatch(text)
    if fixed:
        return f"{fixed[1]}{int(fixed[2]):02d}:{fixed[3] or '00'}"
    try:
        time_zones.TimeZone(text).check()
    except errors.ConfigurationError as error:
        # Java takes a name that it does not know for GMT.
        raise errors.UnsupportedError(f"the time zone is not known: {error}") from None
    return text


def _read(column: pa.Array, how: Rule, name: str) -> pa.Array:
    """Return what texts say, in milliseconds since the epoch."""
    first = _shown(pa.array([1], pa.int64()), how.input_zone or how.output_zone)
    column = column.fill_null(time_patterns.written(first, how.input_patterns[0])[0])
    found = pa.nulls(len(column), pa.int64())
    for pattern in how.input_patterns:
        try:
            by_pattern = time_patterns.read(column, pattern, how.input_zone)
        except pa.ArrowInvalid as error:
            raise errors.InvalidInputError(
                f"partition column {name!r} has a time that there is not: {error}"
            ) from None
        found = pc.coalesce(found, by_pattern)
    is_other = found.is_null()
    problem = "a text that is not of a pattern of the table's input.dateformat"
    bad_values.refuse(name, column, is_other, problem)
    return found


def _shown(times: pa.Array, zone: str) -> pa.Array:
    """Return milliseconds since the epoch as times of a zone."""
    return times.cast(pa.timestamp("ms", "UTC")).cast(pa.timestamp("ms", zone))
