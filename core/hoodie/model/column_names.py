"""What is said of a column that is not there."""

import difflib
from collections.abc import Collection

_META_PREFIX = "_hoodie_"
_SHOWN_MAX = 40


def absence(name: object, names: Collection[str]) -> str:
    """Return what is wrong with a name, or another value, that is none of some columns."""
    return f"there is no column {name!r}; the columns are {listed(names)}{similar(name, names)}"


def absence_of_indexed(column: str, index: str, names: Collection[str], table_name: str) -> str:
    """Return what is wrong with an index of a table that lacks its column."""
    return (
        f"{table_name} has no column {column!r}, which its index {index} is of; the columns are "
        f"{', '.join(names)}"
    )


def similar(name: object, names: Collection[str]) -> str:
    """Return the question whether a similar name is meant; empty if none is similar."""
    if not isinstance(name, str):
        return ""
    by_lower = {each.lower(): each for each in names}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1)
    return f"; did you mean {by_lower[close[0]]!r}?" if close else ""


def listed(names: Collection[str]) -> str:
    """Return names for a message, Hudi's own behind the others, and not all of very many."""
    ordered = sorted(names, key=lambda each: each.startswith(_META_PREFIX))
    if len(ordered) <= _SHOWN_MAX:
        return ", ".join(ordered)
    return f"{', '.join(ordered[:_SHOWN_MAX])} and {len(ordered) - _SHOWN_MAX} more"
