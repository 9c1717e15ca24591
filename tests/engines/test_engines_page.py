"""docs/engines.md: its blocks, executed with the engines of .peers/engines (`make engines`)."""

import contextlib
import io
import itertools
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import hoodie

pytestmark = pytest.mark.filterwarnings("default")  # Ibis and Ray call what others deprecate.

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "engines.md").read_text()
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def sections() -> Iterator[tuple[str, str]]:
    """Yield the title and the text of each section."""
    for part in re.split(r"^## ", PAGE, flags=re.MULTILINE):
        title, _, text = part.partition("\n")
        yield title, text


def execute(text: str, scope: dict[str, object]) -> int:
    """Execute blocks of Python, and compare what they print; return how many they are."""
    blocks = [*BLOCK.findall(text), ("", "")]
    count = 0
    for (kind, code), (next_kind, shown) in itertools.pairwise(blocks):
        if kind != "python":
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "docs/engines.md", "exec"), scope)
        if next_kind == "text":
            assert printed.getvalue() == shown
        count += 1
    return count


def test_blocks_of_python_print_what_they_show(tmp_path: Path) -> None:
    scope: dict[str, object] = {}
    found = {
        title.partition(",")[0]: execute(text.replace("/tmp/", f"{tmp_path}/"), scope)
        for title, text in sections()
    }
    assert found == {"# Daft": 1, "Daft": 1, "Ibis": 1, "Ray": 1, "Dask": 1, "dbt": 0, "Others": 0}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The project of dbt that the page describes."""
    text = dict(sections())["dbt"].replace("/tmp/", f"{tmp_path}/")
    profile, sources, model = (code for _, code in BLOCK.findall(text))
    folder = tmp_path / "project"
    (folder / "models").mkdir(parents=True)
    (folder / "profiles.yml").write_text(profile)
    (folder / "models" / "sources.yml").write_text(sources)
    (folder / "models" / "fares.sql").write_text(model)
    (folder / "dbt_project.yml").write_text("name: trips\nprofile: lake\n")
    return folder


def run(project: Path) -> None:
    options = ("--project-dir", project, "--profiles-dir", project, "--no-version-check")
    program = Path(sys.executable).parent / "dbt"
    command = [program, "--no-send-anonymous-usage-stats", "run", *options]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_dbt_reads_a_source_and_writes_a_model(project: Path, tmp_path: Path) -> None:
    columns = {"id": "string", "city": "string", "fare": "float64"}
    trips = hoodie.create_table(tmp_path / "lake" / "trips", columns, "id")
    trips.upsert([{"id": "1", "city": "Oslo", "fare": 9.5}, {"id": "2", "city": "Rome", "fare": 4}])
    run(project)
    fares = hoodie.open_table(tmp_path / "lake" / "fares")
    assert fares.scan().to_arrow().sort_by("city").to_pylist() == [
        {"city": "Oslo", "fares": 9.5},
        {"city": "Rome", "fares": 4.0},
    ]
    trips.delete("city = 'Rome'")
    trips.upsert([{"id": "3", "city": "Oslo", "fare": 1.0}])
    run(project)
    assert fares.scan().to_arrow().to_pylist() == [{"city": "Oslo", "fares": 10.5}]
    # dbt makes one row of nulls of a model without rows.
    trips.delete("city = 'Oslo'")
    run(project)
    assert fares.scan().count() == 0
