"""The catalogue of scenarios: what docs/tests.md lists, and which tests and benchmarks name it."""

import collections
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).parents[2]
DOCS = TESTS.parent / "docs"
PAGE = DOCS / "tests.md"
# There is no letter Z: tests of these functions use it.
SCENARIO = re.compile(r"\bT-[A-Y]\d\d\b")
ROW = re.compile(
    r"^\| (?P<ids>(?P<first>T-[A-Z]\d\d)(?: to (?P<last>T-[A-Z]\d\d))?) "
    r"\| (?P<title>[^|]+) \|(?P<files>[^|]*)\|(?P<missing>[^|]*)\|$",
    re.MULTILINE,
)

Named = Mapping[str, set[str]]
"""In which files each scenario is named: below `tests/`, or of `benchmarks/`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One scenario, as the page has it.

    Attributes:
        files: That name it, or another of its row.
        missing: What is still to come; empty for nothing.
    """

    files: tuple[str, ...]
    missing: tuple[str, ...]


def named_in_tests() -> Named:
    """Read all tests, and what is measured."""
    named = collections.defaultdict(set)
    root = TESTS.parent
    places = [(path, TESTS) for path in TESTS.rglob("*") if path.suffix in (".py", ".txt")]
    places += [(path, root) for path in (root / "benchmarks").glob("*.py")]
    for path, place in places:
        for scenario in SCENARIO.findall(path.read_text(encoding="utf-8")):
            named[scenario].add(str(path.relative_to(place).with_suffix("")))
    return named


def ids_of(row: re.Match[str]) -> list[str]:
    """Return the scenarios of a row: one, or a range."""
    first, last = row["first"], row["last"] or row["first"]
    assert first[:3] == last[:3], row[0]
    return [f"{first[:3]}{number:02}" for number in range(int(first[3:]), int(last[3:]) + 1)]


def scenarios(page: str) -> dict[str, Scenario]:
    """Return the scenarios of a page by their ids."""
    return {
        each: Scenario(files=_parts(row["files"]), missing=_parts(row["missing"]))
        for row in rows(page)
        for each in ids_of(row)
    }


def rows(page: str) -> Iterator[re.Match[str]]:
    """Yield the rows of a page."""
    return ROW.finditer(page)


def _parts(cell: str) -> tuple[str, ...]:
    return tuple(part for part in cell.strip().split(", ") if part)
