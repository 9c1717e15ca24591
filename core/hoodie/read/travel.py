"""Time travel: which moment of a table a caller means, as values and texts name it.

    an instant      its requested time, 17 digits or 14: the table right after it completed
    a savepoint     `savepoint:` and the instant of the commit that it keeps
    a time          2026-11-28, 2026-11-28 06:32:19.123, with or without `T`, with an offset such as
                    +01:00 or Z; without one as clocks show it in the time zone of the timeline
    a relative time 16 min ago, yesterday 14:30 (`model.relative_times`)
    other digits    a time of the timeline, such as a completion time

All of these become one completion time, up to which writes count (`model.moments`). By Apache
Hudi's own rule digits stay what they are, a bound of requested times.

In local time an hour comes twice when clocks are put back. No time of it names one moment, so that
it is refused, whether it has an offset or not: instants on the timeline are still told apart.
"""

import enum
import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from hoodie import errors
from hoodie.model import instants, moments, relative_times, table_config
from hoodie.timeline import active

_DIGITS = re.compile(r"\d{14}(\d{3})?", re.ASCII)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([ T]|$)", re.ASCII)
_SAVEPOINT = "savepoint:"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)

_EXPECTED = (
    "expected an instant of 17 digits, savepoint:INSTANT, or a time such as 2026-11-28 06:32:19, "
    "2026-11-28T06:32:19+01:00, 16 min ago or yesterday 14:30"
)


class Columns(enum.Enum):
    """Which columns rows of an earlier moment are shown with."""

    NOW = "now"
    THEN = "then"


@dataclass(frozen=True, slots=True, kw_only=True)
class AsOf:
    """As of when a table is read.

    Attributes:
        time: An instant, a savepoint or a time, as the module says.
        rule: Which writes count.
        columns: The table's columns of now, null where they came later; or those of then.
    """

    time: str | datetime
    rule: moments.Rule = moments.Rule.COMPLETION
    columns: Columns = Columns.NOW


Given = AsOf | str | datetime
"""What callers name a moment by."""


def as_of(given: Given) -> AsOf:
    """Return what a caller gave with all of its options.

    Raises:
        InvalidInputError: It is of another kind.
    """
    if isinstance(given, AsOf):
        return given
    if isinstance(given, str | datetime):
        return AsOf(time=given)
    raise errors.InvalidInputError(f"a table cannot be read as of {given!r:.80}: {_EXPECTED}")


def requested_since(time: str | None) -> AsOf:
    """Return where a reader by requested times is; before the first write without a time."""
    return AsOf(time=time or instants.format_time(0), rule=moments.Rule.REQUESTED)


def fixed(given: Given, config: table_config.TableConfig, clock_ms: int) -> AsOf:
    """Return what a caller gave with a time that stays the same if it was relative to now.

    Args:
        given: What the caller named it by.
        config: Has the time zone of the timeline.
        clock_ms: What our clock says, since the epoch.

    Raises:
        InvalidInputError: It is of another kind.
        ConfigurationError: It is relative to now, and the table does not state its time zone.
    """
    wanted = as_of(given)
    if not isinstance(wanted.time, str):
        return wanted
    time = relative_times.parse(wanted.time, config.zone, clock_ms)
    if time is None:
        return wanted
    _check_zone(wanted.time.strip(), config)
    return replace(wanted, time=time)


def moment_of(
    wanted: AsOf,
    timeline: active.ActiveTimeline,
    config: table_config.TableConfig,
    clock_ms: int,
) -> moments.Moment:
    """Return the moment that is meant.

    Some requests to the archive where digits are not those of an instant on the timeline.

    Args:
        wanted: What a caller named it by.
        timeline: The table's.
        config: Tells the time zone of the timeline.
        clock_ms: What our clock says, since the epoch.

    Raises:
        InvalidInputError: The text names no time, or one that clocks show twice; or the time is in
            the future; or the instant has not completed.
        NotFoundError: There is no such savepoint.
        ConfigurationError: The time has an offset or is relative to now, and the table does not
            state its time zone.
    """
    wanted = fixed(wanted, config, clock_ms)
    time = wanted.time
    if isinstance(time, str):
        text = time.strip()
        if text.startswith(_SAVEPOINT):
            time = _savepoint(text.removeprefix(_SAVEPOINT).strip(), timeline)
        elif _DIGITS.fullmatch(text):
            time = instants.checked_time(text)
        else:
            return _at(_parsed(text), wanted, timeline, config, clock_ms)
        if wanted.rule is moments.Rule.COMPLETION:
            found = _completion(time, timeline)
            if found is not None:
                return moments.Moment(time=found)
        return _past(time, wanted, timeline, config, clock_ms)
    return _at(time, wanted, timeline, config, clock_ms)


def _completion(
    requested_time: instants.InstantTime, timeline: active.ActiveTimeline
) -> instants.InstantTime | None:
    """Return when an instant of that time completed; None if there is none.

    Raises:
        InvalidInputError: It has not completed.
    """
    found = timeline.find(requested_time)
    if found is None:
        return timeline.archive.completion_time(requested_time)
    if found.is_pending:
        raise errors.InvalidInputError(
            f"instant {found} has not completed: the table has never been as of it; name an "
            "instant that has, or a time"
        )
    return found.completion_time


def _savepoint(text: str, timeline: active.ActiveTimeline) -> instants.InstantTime:
    time = instants.checked_time(text)
    saved = sorted({each.requested_time for each in timeline.savepoints})
    if time not in saved:
        raise errors.NotFoundError(
            f"there is no savepoint of instant {time}; there are savepoints of "
            f"{', '.join(saved) or 'none'}"
        )
    return time


def _parsed(text: str) -> datetime:
    refusal = errors.InvalidInputError(f"{text!r:.80} names no moment: {_EXPECTED}")
    if not _DATE.match(text):
        raise refusal
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise refusal from error


def _at(
    time: datetime,
    wanted: AsOf,
    timeline: active.ActiveTimeline,
    config: table_config.TableConfig,
    clock_ms: int,
) -> moments.Moment:
    """Return the moment of a time, in the time zone of the timeline where it has none."""
    if time.tzinfo is None:
        shown_ms = (time.replace(tzinfo=UTC) - _EPOCH) // _MS
        shown = instants.format_time(shown_ms)
        if config.time_zone is not None and len(config.zone.moments_ms(shown)) > 1:
            raise _ambiguous(time, config)
        return _past(shown, wanted, timeline, config, clock_ms)
    _check_zone(time.isoformat(), config)
    epoch_ms = (time - _EPOCH) // _MS
    if config.zone.repetition(epoch_ms) is not None:
        raise _ambiguous(time, config)
    return _past(config.zone.format(epoch_ms), wanted, timeline, config, clock_ms)


def _check_zone(time: str, config: table_config.TableConfig) -> None:
    """Refuse a time that has to be converted into that of a timeline whose zone is not known.

    Raises:
        ConfigurationError: It is not.
    """
    if config.time_zone is None:
        raise errors.ConfigurationError(
            f"{time} cannot be converted: the table does not state the time zone of its timeline; "
            "name the time as clocks show it there, without an offset, or state the zone by hoodie "
            "adopt"
        )


def _past(
    time: instants.InstantTime,
    wanted: AsOf,
    timeline: active.ActiveTimeline,
    config: table_config.TableConfig,
    clock_ms: int,
) -> moments.Moment:
    """Return a moment, unless it is yet to come: what is read as of it would change."""
    greatest = timeline.greatest_time
    if time > config.zone.format(clock_ms) and (greatest is None or time > greatest):
        newest = "it has no instants" if greatest is None else f"its newest instant is {greatest}"
        raise errors.InvalidInputError(
            f"{time} is in the future of the table: {newest}; read without a time to read it as "
            "it is now"
        )
    return moments.Moment(time=time, rule=wanted.rule)


def _ambiguous(time: datetime, config: table_config.TableConfig) -> errors.InvalidInputError:
    return errors.InvalidInputError(
        f"clocks in {config.zone.name}, the time zone of the timeline, show the hour of "
        f"{time.isoformat()} twice: name an instant of it instead, such as hoodie timeline shows"
    )
