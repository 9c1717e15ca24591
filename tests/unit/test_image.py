"""tools/image.py: what an image stands on, and that it holds what the tests ran with."""

import importlib.util
import re
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


def _tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("image", ROOT / "tools" / "image.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The program, over a repository of its own."""
    module = _tool()
    monkeypatch.setattr(module, "ROOT", tmp_path)
    return module


def _versions(lock: str) -> Mapping[str, set[str]]:
    found: dict[str, set[str]] = {}
    for name, version in re.findall(
        r"^([A-Za-z0-9._-]+)==(\S+)", (ROOT / lock).read_text(), re.MULTILINE
    ):
        found.setdefault(name, set()).add(version)
    return found


def test_image_has_the_packages_that_the_tests_ran_with() -> None:
    tested = _versions("requirements/dev.txt")
    image = _versions("requirements/image.txt")
    assert {
        name: versions for name, versions in image.items() if not versions <= tested[name]
    } == {}


def test_image_has_every_package_that_the_project_declares() -> None:
    declared = re.findall(
        r'"([a-z0-9-]+)(?:\[[^]]*\])?>=',
        (ROOT / "pyproject.toml").read_text().partition("[dependency-groups]")[0],
    )
    names = {name for name in declared if name != "hatchling"}
    assert {"kopf", "pyspark", "pyarrow", "boto3"} <= names
    # Engines of people who read tables in Python: no program of the image has them.
    assert names - _versions("requirements/image.txt").keys() == {"duckdb", "polars"}


@pytest.mark.parametrize("change", ["content", "name", "moved boundary", "new file"])
def test_key_changes_with_whatever_goes_in(tool: ModuleType, tmp_path: Path, change: str) -> None:
    (tmp_path / "core").mkdir()
    (tmp_path / "core" / "a.py").write_text("one")
    (tmp_path / "core" / "b.py").write_text("two")
    before = tool.key_of(["x"], tool.files_of([tmp_path / "core"]))
    if change == "content":
        (tmp_path / "core" / "a.py").write_text("two")
    elif change == "name":
        (tmp_path / "core" / "a.py").rename(tmp_path / "core" / "c.py")
    elif change == "moved boundary":
        (tmp_path / "core" / "a.py").write_text("onet")
        (tmp_path / "core" / "b.py").write_text("wo")
    else:
        (tmp_path / "core" / "c.py").write_text("")
    assert tool.key_of(["x"], tool.files_of([tmp_path / "core"])) != before


def test_key_does_not_change_with_what_python_compiles(tool: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("one")
    before = tool.key_of([], tool.files_of([tmp_path]))
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "a.pyc").write_text("compiled")
    assert tool.key_of([], tool.files_of([tmp_path])) == before


def test_every_part_of_the_lock_is_fetched_or_built(tmp_path: Path) -> None:
    tool = _tool()
    sources, ready = tool.split_lock(tmp_path / "wheels")
    lines = (ROOT / "requirements" / "image.txt").read_text().splitlines()
    assert sorted(sources.read_text().splitlines() + ready.read_text().splitlines()) == sorted(
        lines
    )
    assert sources.read_text().startswith("pyspark==")
    assert "--hash=" in sources.read_text()
