"""docs/guarantees.md names tests that are there, and of each promise the result.

`REWRITE_EXPECTED=1 pytest tests/unit/test_guarantees_page.py` writes tests and results of the
promises into it, as docs/tests.md has them: write that one first.
"""

import os
import re
from collections.abc import Mapping, Sequence

import pytest

from support.simulation import catalogue

PAGE = catalogue.DOCS / "guarantees.md"
NAMED = re.compile(r"`(?P<file>test_\w+\.py)?(?:::(?P<test>\w+))?`")
PROMISE = re.compile(
    r"^\| S(?P<number>\d+) \| (?P<text>[^|]+) \| (?P<proof>[^|]+) "
    r"\|[^|]*\| ?(?P<result>[^|]*?) ?\|$",
    re.MULTILINE,
)
PROMISES = 170
ATTACKS = ("simulation/", "processes/", "conformance/", "cluster/test_controller_kills")
"""Tests that search for a violation, or have Apache Hudi as the judge."""

COUNT = re.compile(r"^\| (?P<result>proved|covered|in part|open|no test) \| \d* \|", re.MULTILINE)

Scenarios = Mapping[str, catalogue.Scenario]


def result(found: Sequence[catalogue.Scenario]) -> str:
    """Return how far a promise is covered by the tests of its scenarios."""
    missing = ", ".join(sorted({part for each in found for part in each.missing}))
    if not found:
        return "no test"
    if not any(each.files for each in found):
        return f"open: {missing}"
    if missing:
        return f"in part: {missing}"
    is_attacked = all(any(file.startswith(ATTACKS) for file in each.files) for each in found)
    return "proved" if is_attacked else "covered"


def rewritten(page: str, scenarios: Scenarios) -> str:
    """Return the page with tests and result of each promise."""

    def write(row: re.Match[str]) -> str:
        found = [scenarios[each] for each in catalogue.SCENARIO.findall(row["proof"])]
        files = {file.rpartition("/")[2] for each in found for file in each.files}
        cells = (f"S{row['number']}", row["text"], row["proof"], ", ".join(sorted(files)))
        return f"| {' | '.join((*cells, result(found)))} |".replace("|  |", "| |")

    page = PROMISE.sub(write, page)
    results = [row["result"].partition(":")[0] for row in PROMISE.finditer(page)]
    return COUNT.sub(
        lambda row: f"| {row['result']} | {results.count(row['result'])} |",
        page,
    )


def test_every_test_that_is_named_exists() -> None:
    file = ""
    named = 0
    for found in NAMED.finditer(PAGE.read_text(encoding="utf-8")):
        # A test alone is of the file that was named before it.
        file = found["file"] or file
        paths = list(catalogue.TESTS.rglob(file))
        assert paths, file
        if found["test"]:
            assert any(f"def {found['test']}(" in path.read_text("utf-8") for path in paths), found
        named += 1
    assert named > 10


def test_promises_have_the_tests_and_results_of_the_catalogue() -> None:
    page = PAGE.read_text(encoding="utf-8")
    found = rewritten(page, catalogue.scenarios(catalogue.PAGE.read_text(encoding="utf-8")))
    if os.environ.get("REWRITE_EXPECTED"):
        PAGE.write_text(found, encoding="utf-8")
    else:
        assert page == found


def test_every_promise_is_there_once_and_every_scenario_proves_one() -> None:
    rows = [*PROMISE.finditer(PAGE.read_text(encoding="utf-8"))]
    assert [int(row["number"]) for row in rows] == list(range(1, PROMISES + 1))
    proving = {each for row in rows for each in catalogue.SCENARIO.findall(row["proof"])}
    assert proving == catalogue.scenarios(catalogue.PAGE.read_text(encoding="utf-8")).keys()


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ([], "no test"),
        ([("x", ""), ("y", "")], "covered"),
        ([("simulation/x, y", ""), ("conformance/y", "")], "proved"),
        ([("simulation/x", ""), ("y", "")], "covered"),
        ([("x", ""), ("", "cleaning")], "in part: cleaning"),
        ([("x", "b"), ("", "b, a")], "in part: a, b"),
        ([("", "b"), ("", "a")], "open: a, b"),
    ],
)
def test_result_follows_from_tests_and_what_is_missing(
    cells: Sequence[tuple[str, str]], expected: str
) -> None:
    page = "".join(f"| T-A{n:02} | a | {x} | {y} |\n" for n, (x, y) in enumerate(cells))
    assert result([*catalogue.scenarios(page).values()]) == expected
