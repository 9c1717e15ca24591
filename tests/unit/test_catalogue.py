"""docs/tests.md tells which tests name which scenarios, and what is still to come.

`REWRITE_EXPECTED=1 pytest tests/unit/test_catalogue.py` writes what the tests name into the page.
"""

import collections
import os
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "tests.md"
# There is no letter Z: the tests below use it.
SCENARIO = re.compile(r"\bT-[A-Y]\d\d\b")
ROW = re.compile(
    r"^\| (?P<ids>(?P<first>T-[A-Z]\d\d)(?: to (?P<last>T-[A-Z]\d\d))?) "
    r"\| (?P<title>[^|]+) \|(?P<files>[^|]*)\|(?P<missing>[^|]*)\|$",
    re.MULTILINE,
)

Named = Mapping[str, set[str]]


def named_in_tests() -> Named:
    """Return in which files below `tests/` each scenario is named."""
    named = collections.defaultdict(set)
    for path in TESTS.rglob("*"):
        if path.suffix in (".py", ".txt"):
            for scenario in SCENARIO.findall(path.read_text(encoding="utf-8")):
                named[scenario].add(str(path.relative_to(TESTS).with_suffix("")))
    return named


def scenarios(row: re.Match[str]) -> list[str]:
    """Return the scenarios of a row: one, or a range."""
    first, last = row["first"], row["last"] or row["first"]
    assert first[:3] == last[:3], row[0]
    return [f"{first[:3]}{number:02}" for number in range(int(first[3:]), int(last[3:]) + 1)]


def rewritten(page: str, named: Named) -> str:
    """Return the page with the files that name each row's scenarios."""

    def write(row: re.Match[str]) -> str:
        files = ", ".join(sorted({file for each in scenarios(row) for file in named.get(each, ())}))
        return (
            f"| {row['ids']} | {row['title']} |{f' {files} ' if files else ' '}|{row['missing']}|"
        )

    return ROW.sub(write, page)


def test_page_says_what_the_tests_name() -> None:
    page = PAGE.read_text(encoding="utf-8")
    found = rewritten(page, named_in_tests())
    if os.environ.get("REWRITE_EXPECTED"):
        PAGE.write_text(found, encoding="utf-8")
    else:
        assert page == found


def test_page_has_every_scenario_once() -> None:
    rows = [*ROW.finditer(PAGE.read_text(encoding="utf-8"))]
    listed = [each for row in rows for each in scenarios(row)]
    letters = collections.Counter(scenario[2] for scenario in listed)
    assert listed == [
        f"T-{letter}{number:02}"
        for letter, count in letters.items()
        for number in range(1, count + 1)
    ]
    assert named_in_tests().keys() <= set(listed)


def test_what_no_test_names_has_a_reason() -> None:
    named = named_in_tests()
    bare = [
        row["ids"]
        for row in ROW.finditer(PAGE.read_text(encoding="utf-8"))
        if not row["missing"].strip() and named.keys().isdisjoint(scenarios(row))
    ]
    assert bare == []


@pytest.mark.parametrize(
    ("page", "named", "found"),
    [
        ("| T-Z01 | a | | |", {"T-Z01": {"y", "x"}}, "| T-Z01 | a | x, y | |"),
        ("| T-Z01 | a | x | later |", {}, "| T-Z01 | a | | later |"),
        (
            "| T-Z01 to T-Z03 | a | | later |",
            {"T-Z02": {"x"}},
            "| T-Z01 to T-Z03 | a | x | later |",
        ),
        ("no row", {"T-Z01": {"x"}}, "no row"),
    ],
)
def test_page_is_rewritten_by_row(page: str, named: Named, found: str) -> None:
    assert rewritten(page, named) == found
