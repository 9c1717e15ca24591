"""docs/tests.md tells which tests name which scenarios, and what is still to come.

`REWRITE_EXPECTED=1 pytest tests/unit/test_catalogue.py` writes what the tests name into the page.
"""

import collections
import os
import re

import pytest

from support.simulation import catalogue


def rewritten(page: str, named: catalogue.Named) -> str:
    """Return the page with the files that name each row's scenarios."""

    def write(row: re.Match[str]) -> str:
        ids = catalogue.ids_of(row)
        files = ", ".join(sorted({file for each in ids for file in named.get(each, ())}))
        return (
            f"| {row['ids']} | {row['title']} |{f' {files} ' if files else ' '}|{row['missing']}|"
        )

    return catalogue.ROW.sub(write, page)


def test_page_says_what_the_tests_name() -> None:
    page = catalogue.PAGE.read_text(encoding="utf-8")
    found = rewritten(page, catalogue.named_in_tests())
    if os.environ.get("REWRITE_EXPECTED"):
        catalogue.PAGE.write_text(found, encoding="utf-8")
    else:
        assert page == found


def test_page_has_every_scenario_once() -> None:
    rows = catalogue.rows(catalogue.PAGE.read_text(encoding="utf-8"))
    listed = [each for row in rows for each in catalogue.ids_of(row)]
    letters = collections.Counter(scenario[2] for scenario in listed)
    assert listed == [
        f"T-{letter}{number:02}"
        for letter, count in letters.items()
        for number in range(1, count + 1)
    ]
    assert catalogue.named_in_tests().keys() <= set(listed)


def test_what_no_test_names_has_a_reason() -> None:
    named = catalogue.named_in_tests()
    bare = [
        row["ids"]
        for row in catalogue.rows(catalogue.PAGE.read_text(encoding="utf-8"))
        if not row["missing"].strip() and named.keys().isdisjoint(catalogue.ids_of(row))
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
def test_page_is_rewritten_by_row(page: str, named: catalogue.Named, found: str) -> None:
    assert rewritten(page, named) == found
