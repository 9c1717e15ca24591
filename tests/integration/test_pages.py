"""Pages of the documentation, followed from the first block to the last as a reader would."""

import os
import re
from pathlib import Path

import pytest
from manual import notebooks

from support.documentation import executing, pages
from support.tables import unstated

TUTORIAL = pages.ROOT / "docs" / "tutorial.ipynb"


def follow(page: str, folder: Path) -> int:
    text = (pages.ROOT / page).read_text(encoding="utf-8")
    return executing.Reader(folder).follow(executing.steps(text, ("python", "bash")))


@pytest.mark.parametrize("page", ["docs/changes.md", "docs/recover.md", "docs/site/index.md"])
def test_page_does_what_it_shows(page: str, tmp_path: Path) -> None:
    wanted = sum(
        sum(tests.values()) for (named, _), tests in pages.EXECUTED.items() if named == page
    )
    assert follow(page, tmp_path) == wanted


def test_table_of_apache_hudi_is_adopted_as_the_page_shows(tmp_path: Path) -> None:
    """docs/adopt.md, on a table that says as much of itself as one of Apache Hudi does."""
    reader = executing.Reader(tmp_path)
    reader.shell(
        "printf 'id,city,fare\\n1,Oslo,9.5\\n2,Rome,20\\n' > /tmp/trips.csv\n"
        "hoodie create /tmp/lake/trips --schema /tmp/trips.csv --columns 'id string' "
        "--record-key id --index simple\n"
        "hoodie write /tmp/lake/trips /tmp/trips.csv"
    )
    unstated.forget_index(tmp_path / "lake" / "trips")
    assert follow("docs/adopt.md", tmp_path) == 4
    rows = reader.shell("hoodie read /tmp/lake/trips --output - --columns id,fare | sort")
    assert rows.split() == ['"1",12.5', '"2",20', '"9",7', '"id","fare"']


def masked(cells: list[notebooks.Cell]) -> list[tuple[str, str, list[str]]]:
    """Return cells with their outputs, but for times, ages, and sizes of files."""
    found = []
    for cell in cells:
        text = f"{cell.printed}{cell.shown or ''}"
        for pattern in (
            r"\d{17}",
            r"\b\d+s\b",
            r"[\d,]+ bytes",
            r"-[0-9a-f]{6}-",
            r"-g1-[0-9a-f]+",
        ):
            text = re.sub(pattern, "?", text)
        found.append((cell.id, cell.text, text.split()))
    return found


def test_tutorial_gives_what_it_shows(tmp_path: Path) -> None:
    """docs/tutorial.ipynb, as Jupyter runs it; REWRITE_EXPECTED=1 writes its outputs."""
    cells = notebooks.read(TUTORIAL.read_text(encoding="utf-8"))
    done = executing.executed(cells, executing.Reader(tmp_path))
    if os.environ.get("REWRITE_EXPECTED"):
        TUTORIAL.write_text(notebooks.written(done), encoding="utf-8")
        cells = done
    assert masked(done) == masked(cells)
    assert len([cell for cell in cells if cell.kind == "code"]) > 15
