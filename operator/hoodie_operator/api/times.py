"""Times in statuses: RFC 3339 in UTC, to the second, as Kubernetes writes them."""

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def text(epoch_ms: int) -> str:
    """Return the text of a time in milliseconds since the epoch."""
    return f"{_EPOCH + timedelta(seconds=epoch_ms // 1000):%Y-%m-%dT%H:%M:%SZ}"


def epoch_ms(time: str) -> int:
    """Return the milliseconds since the epoch of a text that `text` made."""
    return int(datetime.fromisoformat(time).timestamp()) * 1000


def span(milliseconds: int) -> str:
    """Return a length of time for people: `850 ms`, `12 s`, `5 min`, `3 h`."""
    if milliseconds < 1000:  # noqa: PLR2004 - units
        return f"{milliseconds} ms"
    seconds = milliseconds // 1000
    if seconds < 120:  # noqa: PLR2004 - units
        return f"{seconds} s"
    if seconds < 7200:  # noqa: PLR2004 - units
        return f"{seconds // 60} min"
    return f"{seconds // 3600} h"
