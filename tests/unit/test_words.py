"""Plain words where users read: pages, help, messages, descriptions (CONTRIBUTING.md, Language)."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# What a reader of a second language stumbles over, and what to write instead.
BANNED = {
    r"tells?|told|telling": "report, show, print, pass; 'tell apart' is distinguish",
    r"hears?|heard|hearing": "observe, receive",
    r"whom|whoever|nobody|somebody|anybody|everybody": "name it: the writer, no process",
    # People are persons, processes are not.
    r"(?<!anyone )(?<!users )(?<!people )who": "the process that, the writer that",
    r"knows": "has, reads, keeps, supports",
    r"anew": "again",
    r"(?<!there )(?:is|are|was|were) none": "is not",
    r"(?<!there )(?:is|are|was|were) no(?! longer)": "is not",
    r"(?:is|are|was|were) to be": "must be",
    r"(?:was|is|be) (?:not )?had": "acquired",
    r"so many|so long(?! as)": "N; for this long",
    r"g(?:ive|ives|ave|iving) way": "abort, yield",
    r"g(?:o|oes|oing|one) on|went on": "continue",
    r"in vain": "without success, unsuccessful",
    r"at work": "running, active, in progress",
    r"(?:pass|passes|passed|passing) by": "skip, miss; (an error) clears",
    r"t(?:ake|akes|aken|aking|ook)(?: (?:it|them|that|what \w+))? back": "roll back",
    r"befalls?|befell": "happen",
    r"mends?|mended|mending": "fix",
    r"for good": "permanently",
    r"for one(?=[,;:.)]|$)": "for example",
    r"read over": "ignored",
    r"comes? to nothing": "fail",
    r"of (?:yours|ours)": "your, this project's",
}
WORDS = re.compile(
    r"\b(?:" + "|".join(f"(?P<w{at}>{each})" for at, each in enumerate(BANNED)) + r")\b",
    re.IGNORECASE,
)

PAGES = sorted(
    path
    for pattern in (
        "*.md",
        "docs/**/*.md",
        "crds/*.yaml",
        "charts/*/values.yaml",
        "charts/*/values.schema.json",
        "charts/*/templates/NOTES.txt",
        "examples/**/*.yaml",
    )
    for path in ROOT.glob(pattern)
    if "work" not in path.relative_to(ROOT).parts
)
MODULES = sorted(
    path
    for root in ("core/hoodie", "operator/hoodie_operator", "jobs/hoodie_jobs")
    for path in (ROOT / root).rglob("*.py")
)


def _texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line number and text of what users may read, without what is in backticks."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        found = _strings(ast.parse(source))
    else:
        found = enumerate(source.splitlines(), 1)
    for number, text in found:
        yield number, re.sub(r"`[^`]*`", "``", text)


def _strings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the lines of strings of more than one word, docstrings left out."""
    docstrings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if " " in text.strip() and node not in docstrings:
                for offset, line in enumerate(text.splitlines()):
                    yield node.lineno + offset, line


def _faults(path: Path) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{number}: '{match.group()}': {_instead(match)}"
        for number, text in _texts(path)
        for match in WORDS.finditer(text)
    ]


def _instead(match: re.Match[str]) -> str:
    return next(
        instead for at, instead in enumerate(BANNED.values()) if match[f"w{at}"] is not None
    )


@pytest.mark.parametrize("path", PAGES + MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_users_read_plain_words(path: Path) -> None:
    faults = _faults(path)
    assert not faults, "\n".join(["CONTRIBUTING.md, Language:", *faults])


@pytest.mark.parametrize(
    "text",
    [
        "The lock was not had within the wait.",
        "The service account is none that the operator allows.",
        "a commit that is passed by by a compaction",
        "what the run told of",
        "Nobody has the lock.",
        "the process who holds it",
        "it was taken back",
    ],
)
def test_banned_word_is_found(text: str) -> None:
    assert WORDS.search(text)


@pytest.mark.parametrize(
    "text",
    [
        "Timed out waiting for the table lock.",
        "There is no such column.",
        "users who create pods",
        "The lock is no longer held.",
        "as long as the lease lasts",
    ],
)
def test_plain_sentence_passes(text: str) -> None:
    assert not WORDS.search(text)
