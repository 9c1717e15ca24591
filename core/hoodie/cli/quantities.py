"""Numbers, sizes and durations as people read them."""

from hoodie import errors
from hoodie.model import instants, relative_times, time_zones

_BINARY_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB")
_STEP = 1024
_SHORT_S = 10
_MINUTE_S = 60
_HOUR_S = 3600
_DAY_S = 24 * 3600


def size_text(size_bytes: int) -> str:
    """Return a size, such as `1.4 MiB`."""
    size = float(size_bytes)
    if size < _STEP:
        return f"{size_bytes} B"
    unit = ""
    for unit in _BINARY_UNITS:  # noqa: B007 - the last one is used
        size /= _STEP
        # What would be shown as 1024.0 is one of the next unit.
        if round(size, 1) < _STEP:
            break
    return f"{size:.1f} {unit}"


def count_text(count: int) -> str:
    """Return a count with thousands set apart, such as `336,776`."""
    return f"{count:,}"


def counted(count: int, one: str, many: str | None = None) -> str:
    """Return a count with its noun, such as `1 file` or `2 files`."""
    return f"{count_text(count)} {one if count == 1 else many or one + 's'}"


def duration_text(duration_ms: int) -> str:
    """Return a duration, such as `0.35 s`, `3 min 05 s`, `2 h 07 min`, `7 days`, `3 days 5 h`."""
    seconds = duration_ms / 1000
    if round(seconds, 2) < _SHORT_S:
        return f"{seconds:.2f} s"
    whole = round(seconds)
    if whole < _MINUTE_S:
        return f"{whole} s"
    if whole < _HOUR_S:
        return f"{whole // _MINUTE_S} min {whole % _MINUTE_S:02d} s"
    if whole < 2 * _DAY_S:
        minutes = whole // _MINUTE_S
        return f"{minutes // 60} h {minutes % 60:02d} min"
    days, hours = divmod(whole // _HOUR_S, 24)
    return f"{count_text(days)} days{f' {hours} h' if hours else ''}"


def ago_text(elapsed_ms: int) -> str:
    """Return how long something is over, such as `just now`, `16 min ago`, `3 days ago`."""
    seconds = elapsed_ms // 1000
    if seconds < 0:
        return f"in {duration_text(-elapsed_ms)}"
    if not seconds:
        return "just now"
    for unit_s, many, unit in ((1, 60, "s"), (_MINUTE_S, 60, "min"), (_HOUR_S, 48, "h")):
        if seconds < unit_s * many:
            return f"{seconds // unit_s} {unit} ago"
    return f"{count_text(seconds // _DAY_S)} days ago"


def ago_of(time: str | None, zone: time_zones.TimeZone | None, now_ms: int) -> str:
    """Return how long ago an instant time was; empty for None.

    Args:
        time: Of an instant.
        zone: The timeline's; None for local times of a zone that is not known, which are returned
            such as `2026-11-21 09:58:02`.
        now_ms: The time, in milliseconds since the epoch.
    """
    if time is None:
        return ""
    try:
        if zone is None:
            return _clock_text(instants.checked_time(time))
        return ago_text(now_ms - zone.epoch_ms(time))
    except errors.InvalidInputError:
        return time  # Of a release whose times tell none.


def _clock_text(time: instants.InstantTime) -> str:
    return f"{time[:4]}-{time[4:6]}-{time[6:8]} {time[8:10]}:{time[10:12]}:{time[12:14]}"


def age_notes(zone: time_zones.TimeZone | None) -> tuple[str, ...]:
    """Return what to say of ages beside a grid with those of `ago_of`."""
    if zone is not None:
        return ()
    return ("times as the table's writers gave them, of a zone that is not stated (hoodie adopt)",)


def duration_ms(text: str) -> int:
    """Return the milliseconds of a duration such as `90s`, `36h`, `7d` or `2 weeks`.

    Raises:
        InvalidInputError: It has another form.
    """
    found_ms = relative_times.span_ms(text)
    if found_ms is None:
        raise errors.InvalidInputError(
            f"{text!r} is not a duration, expected a whole number with s, m, h or d, such as 7d"
        )
    return found_ms


def elapsed_ms(requested_time: str, completion_time: str | None) -> int | None:
    """Return the milliseconds between two instant times; None when either tells no time."""
    if completion_time is None:
        return None
    try:
        return instants.parse_time(completion_time) - instants.parse_time(requested_time)
    except errors.InvalidInputError:
        return None
