"""benchmarks/INDEXES.md is what INDEXES.jsonl keeps, of which a run replaces what it measures."""

import importlib.util
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
INDEXES = ["bucket", "simple"]


@pytest.fixture(scope="module")
def figures() -> ModuleType:
    spec = importlib.util.spec_from_file_location("figures", BENCHMARKS / "index_figures.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_run_of_one_index_leaves_the_others(figures: ModuleType, tmp_path: Path) -> None:
    kept = [
        figures.Figure(
            rows=1000,
            batch=100,
            table_type="copy-on-write",
            index=index,
            step=step,
            peer_s=8.0,
            spark_s=None,
            local_s=2.0,
            run="yesterday",
        )
        for index in reversed(INDEXES)
        for step in ("upsert", "insert")
    ]
    again = [replace(kept[0], peer_s=9.0, spark_s=3.0, run="today")]
    larger = [replace(kept[3], rows=2000, run="today")]
    path = tmp_path / "figures.jsonl"
    assert figures.read(path) == []
    figures.write(path, figures.replaced(kept, [*again, *larger]))
    found = figures.read(path)
    assert found == [*again, *kept[1:], *larger]
    page = figures.page(found, INDEXES)
    rows = [line for line in page.splitlines() if line.startswith("| copy-on-write")]
    assert rows == [
        "| copy-on-write | bucket | insert | 8.00 |  |  | 2.00 | 4.0 | 2 |",
        "| copy-on-write | bucket | upsert | 8.00 |  |  | 2.00 | 4.0 | 2 |",
        "| copy-on-write | simple | insert | 8.00 |  |  | 2.00 | 4.0 | 2 |",
        "| copy-on-write | simple | upsert | 9.00 | 3.00 | 3.0 | 2.00 | 4.5 | 1 |",
        "| copy-on-write | bucket | insert | 8.00 |  |  | 2.00 | 4.0 | 1 |",
    ]
    assert page.index("## A batch of 100 rows into 1,000\n") < page.index("into 2,000\n")
    assert page.endswith("## Runs\n\n1. today\n2. yesterday\n")


def test_page_shows_the_figures_that_are_kept(figures: ModuleType) -> None:
    kept = figures.read(BENCHMARKS / "INDEXES.jsonl")
    page = (BENCHMARKS / "INDEXES.md").read_text(encoding="utf-8")
    # A copy-on-write table has not all of them.
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| merge-on-read")]
    indexes = list(dict.fromkeys(row[1] for row in rows))
    assert page == figures.page(kept, indexes)
