"""The Python of docs and README: each block is executed, and prints what it shows."""

import contextlib
import io
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(python|text)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SECTION = "## A table in Python\n"


def _blocks(text: str) -> Iterator[tuple[str, str | None]]:
    """Yield each block of Python, and the text that it shows as printed; None for none."""
    found = BLOCK.findall(text)
    followers = [*found[1:], ("", "")]
    for (kind, code), (next_kind, shown) in zip(found, followers, strict=True):
        if kind == "python":
            yield code, shown if next_kind == "text" else None


def _execute(text: str, folder: Path) -> int:
    """Execute the blocks of a text in one namespace; return how many they are."""
    scope: dict[str, object] = {}
    count = 0
    for code, shown in _blocks(text.replace("/tmp/", f"{folder}/")):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "docs/python.md", "exec"), scope)
        if shown is not None:
            assert printed.getvalue() == shown
        count += 1
    return count


def test_every_block_of_the_page_prints_what_it_shows(tmp_path: Path) -> None:
    assert _execute((ROOT / "docs" / "python.md").read_text(), tmp_path) == 9


def test_every_block_of_the_page_on_mirrors_prints_what_it_shows(tmp_path: Path) -> None:
    assert _execute((ROOT / "docs" / "mirror.md").read_text(), tmp_path) == 5


def test_python_of_the_readme_works(tmp_path: Path) -> None:
    section = (ROOT / "README.md").read_text().partition(SECTION)[2].partition("\n## ")[0]
    assert _execute(section, tmp_path) == 1
