"""The Python of docs and README: each block is executed, and prints what it shows."""

from pathlib import Path

from support.documentation import executing

ROOT = Path(__file__).parents[2]
SECTION = "## A table in Python\n"


def follow(text: str, folder: Path) -> int:
    return executing.Reader(folder).follow(executing.steps(text, ("python",)))


def test_every_block_of_the_page_prints_what_it_shows(tmp_path: Path) -> None:
    assert follow((ROOT / "docs" / "python.md").read_text(), tmp_path) == 10


def test_every_block_of_the_page_on_mirrors_prints_what_it_shows(tmp_path: Path) -> None:
    assert follow((ROOT / "docs" / "mirror.md").read_text(), tmp_path) == 5


def test_python_of_the_readme_works(tmp_path: Path) -> None:
    section = (ROOT / "README.md").read_text().partition(SECTION)[2].partition("\n## ")[0]
    assert follow(section, tmp_path) == 1
