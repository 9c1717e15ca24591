"""The shape of the repository itself: source roots, names of modules, what no file may mention."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parents[2]
SOURCE_ROOTS = {
    "core": ("hoodie",),
    "operator": ("hoodie_operator",),
    # Spark finds a data source by the name of a package of its own.
    "jobs": ("hoodie_jobs", "pyspark_hoodie"),
}
MODULES = sorted(path for root in SOURCE_ROOTS for path in (ROOT / root).rglob("*.py"))
LOCKS = sorted((ROOT / "requirements").iterdir())

# In pieces, so that this file mentions none of them.
PACKAGE_HOSTS = ["pypi" + ".org", "python" + "hosted", "repo1" + ".maven", "repo.maven" + ".apache"]
MACHINE_PATHS = ["/work" + "/main", "/work" + "/shared", "/root" + "/."]
MENTION = re.compile("|".join(re.escape(name) for name in PACKAGE_HOSTS + MACHINE_PATHS))
API_GROUP = "hudi" + ".dev"


def _files(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        built = path.name in {"__pycache__", "build", "dist", "work"}
        hidden = path.name.startswith(".") and path.name not in {".ci", ".gitignore"}
        if built or hidden or path.is_symlink():
            continue
        if path.is_dir():
            yield from _files(path)
        else:
            yield path


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


@pytest.mark.parametrize(("root", "packages"), SOURCE_ROOTS.items())
def test_source_root_holds_its_packages_and_is_none(root: str, packages: tuple[str, ...]) -> None:
    # `operator/__init__.py` would hide the standard library's `operator`; anything else beside the
    # packages could be imported by its bare name where the project is installed editable.
    found = {path.name for path in (ROOT / root).iterdir() if path.name != "__pycache__"}
    assert found == set(packages)


def test_every_package_of_the_wheel_says_that_it_is_typed() -> None:
    """PEP 561: without the file type checkers pass over our annotations."""
    files = {each.distribution_path for each in WheelBuilder(str(ROOT)).recurse_included_files()}
    packages = [package for found in SOURCE_ROOTS.values() for package in found]
    assert {f"{package}/py.typed" for package in packages} <= files


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_module_is_not_named_as_the_standard_library(path: Path) -> None:
    # spark-submit and kopf put a file's own folder first on the path: a neighbour of such a name
    # would be imported in place of the standard one. __init__ and __main__ are names of no module.
    assert path.stem not in sys.stdlib_module_names - {"__main__"}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_folder_of_modules_is_a_package(path: Path) -> None:
    assert (path.parent / "__init__.py").exists()


def test_tests_lie_in_no_folder_named_operator() -> None:
    # With an __init__.py it would hide the standard library's `operator` from the tests.
    assert not [path for path in (ROOT / "tests").rglob("operator") if path.is_dir()]


def test_group_of_the_api_is_written_in_api_only() -> None:
    # One constant: renaming the group is one change.
    allowed = ROOT / "operator" / "hoodie_operator" / "api"
    offenders = [path for path in MODULES if API_GROUP in _text(path)]
    assert [path for path in offenders if not path.is_relative_to(allowed)] == []


def test_no_file_mentions_a_package_host_or_a_developers_machine() -> None:
    # Where packages come from is the configuration of the machine, not of the project.
    found = {
        str(path.relative_to(ROOT)): match.group()
        for path in _files(ROOT)
        if (match := MENTION.search(_text(path)))
    }
    assert found == {}


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.name)
def test_lock_names_no_address_and_no_path(path: Path) -> None:
    lines = [line for line in _text(path).splitlines() if not line.startswith("#")]
    assert [line for line in lines if "://" in line or "/" in line or "@" in line] == []


@pytest.mark.parametrize("name", ["build.txt", "dev.txt", "engines.txt", "hudi-peer.txt"])
def test_every_locked_package_has_hashes(name: str) -> None:
    text = _text(ROOT / "requirements" / name).replace("\\\n", " ")
    packages = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert packages
    assert [line for line in packages if "==" not in line or "--hash=sha256:" not in line] == []
