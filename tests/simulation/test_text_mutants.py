"""Every edit of the list fits the code and is told in the docs; a sample of them is caught here.

`make mutants` judges all of them. `REWRITE_EXPECTED=1 pytest tests/simulation/test_text_mutants.py`
writes the list into docs/simulation.md.
"""

import os
import re
from dataclasses import replace

import pytest

from support.simulation import text_mutants
from support.simulation.text_mutants import Mutant, Result

pytestmark = pytest.mark.simulation

MUTANTS = text_mutants.load()
PAGE = text_mutants.ROOT / "docs" / "simulation.md"
TABLE = re.compile(r"(?<=<!-- mutants -->\n).*?(?=<!-- end of mutants -->)", re.DOTALL)
SAMPLE = [name for name, mutant in MUTANTS.items() if mutant.is_sample]


RULES = re.compile(
    r"<!-- rules of indexing -->\n.*?\n.*?\n(.*?)<!-- end of rules of indexing -->", re.DOTALL
)
INDEXING = [
    *(f"I{number}" for number in range(1, 8)),
    "CH14",
    "CH15",
    *(f"IX{number}" for number in range(1, 10)),
]


def row(mutant: Mutant) -> str:
    partners = "".join(f", with: {each}" for each in mutant.partners)
    judge = f"`{mutant.judge}`" if mutant.scenario is None else mutant.judge
    return f"| {mutant.name}{partners} | {judge} | {mutant.why} |\n".replace("|  |", "| |")


@pytest.mark.parametrize("name", MUTANTS)
def test_edit_fits_the_code_and_changes_it(name: str) -> None:
    mutants = text_mutants.together(name, MUTANTS)
    for file, text in text_mutants.edited(mutants).items():
        assert text != (text_mutants.ROOT / "core" / "hoodie" / file).read_text(encoding="utf-8")
        compile(text, file, "exec")


def test_edit_whose_text_is_gone_is_told_with_file_and_text() -> None:
    gone = replace(next(iter(MUTANTS.values())), old="no such text")
    with pytest.raises(text_mutants.MisfitError, match=r"found it 0 times.*\n.*no such text"):
        text_mutants.edited([gone])


def test_mutant_that_only_a_test_catches_says_why() -> None:
    unexplained = [
        name for name, mutant in MUTANTS.items() if mutant.scenario is None and not mutant.why
    ]
    assert unexplained == []


@pytest.mark.parametrize("name", SAMPLE)
def test_sample_is_caught(name: str) -> None:
    verdict = text_mutants.judge(name, MUTANTS)
    assert verdict.result is Result.CAUGHT, verdict.message


def test_edit_that_changes_nothing_is_missed() -> None:
    """Else what is caught would prove nothing."""
    harmless = replace(
        next(each for each in MUTANTS.values() if each.scenario is not None), partners=(), seed=0
    )
    harmless = replace(harmless, new=harmless.old)
    verdict = text_mutants.judge("harmless", {"harmless": harmless}, seeds_max=5)
    assert verdict.result is Result.MISSED


def test_each_rule_of_indexing_has_edits_that_break_it() -> None:
    found = RULES.search(PAGE.read_text(encoding="utf-8"))
    assert found is not None
    rows = [line.strip("|").split("|") for line in found[1].splitlines()]
    assert [rule.strip() for rule, _, _ in rows] == INDEXING
    named = {name.strip() for _, _, names in rows for name in names.split(";")}
    assert named <= MUTANTS.keys(), named - MUTANTS.keys()


def test_page_tells_what_catches_each_mutant() -> None:
    page = PAGE.read_text(encoding="utf-8")
    heading = "| with this edit of the core | what fails | why no scenario |\n|---|---|---|\n"
    table = heading + "".join(row(mutant) for mutant in MUTANTS.values())
    if os.environ.get("REWRITE_EXPECTED"):
        page = TABLE.sub(lambda _: table, page)
        PAGE.write_text(page, encoding="utf-8")
    found = TABLE.search(page)
    assert found is not None
    assert found[0] == table, "run REWRITE_EXPECTED=1 pytest tests/simulation/test_text_mutants.py"
