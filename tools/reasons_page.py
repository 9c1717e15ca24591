"""Writes docs/reasons.md: every reason of conditions and events, from the table of states."""

import sys
from pathlib import Path

from hoodie_operator.api import states
from hoodie_operator.api.reasons import Reason

PAGE = Path(__file__).parents[1] / "docs" / "reasons.md"

_HEAD = """# Reasons

Made by `make generate`. Every condition of an object carries one of these, and so does each event
about it: an event is made when the state or the reason changes, once for each message, and counted
when it comes again. Programs may match on reasons: none changes its meaning.
What to do about them is told by [kubernetes.md](kubernetes.md).

| reason | meaning | kinds, and the states they are in |
|---|---|---|
"""
_ABOUT_A_TABLE = "CompactionPolicy, of one of its tables"
_EVENTS_ALONE = {Reason.OTHER_OPERATOR: "an event of whatever has runs"}


def page() -> str:
    """Return the page."""
    return _HEAD + "".join(
        f"| `{reason.value}` | {reason.sentence} | {_places(reason)} |\n"
        for reason in sorted(Reason, key=lambda reason: str(reason.value))
    )


def _places(reason: Reason) -> str:
    found = []
    for kind, rows in states.TABLE.items():
        named = [state.value for state, row in rows.items() if reason in row.reasons]
        if named:
            found.append(f"{kind}: {', '.join(named)}")
    return "; ".join(found) or _EVENTS_ALONE.get(reason, _ABOUT_A_TABLE)


if __name__ == "__main__":
    (Path(sys.argv[1]) if len(sys.argv) > 1 else PAGE).write_text(page(), encoding="utf-8")
