"""The wheel as users install it: plain it is the library and `hoodie`, with the extra the operator.

Packages come from the index or pip's cache, in the versions of the lock.
"""

import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Final

import pytest

from hoodie import errors

ROOT: Final = Path(__file__).parents[2]
SOURCES: Final = ("core", "operator", "jobs")
OF_THE_EXTRA: Final = ("standalone", "run", "get", "describe", "validate")
OF_BOTH: Final = ("observe", "lock-server")
"""Commands that need the extra, and those of helpers in pods, for which a plain wheel is enough."""
OF_THE_OPERATOR: Final = {"aiohttp", "kopf", "prometheus_client", "yaml"}
"""What only the extra brings: typer brings pydantic, too."""


class Environment:
    """A virtual environment of its own, with nothing of this one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)

    def run(self, program: str, *arguments: str | Path) -> "subprocess.CompletedProcess[str]":
        """Run one of its programs, from a folder that has nothing to import."""
        words = [self.folder / "bin" / program, *arguments]
        # Nothing of this checkout is to be found: neither by a path nor by the current folder.
        here = {"PATH": "/usr/bin:/bin", "HOME": str(Path.home())}
        return subprocess.run(
            words, cwd=self.folder, env=here, capture_output=True, text=True, check=False
        )

    def install(self, what: str, constraints: Path) -> None:
        place = ("--python", str(self.folder / "bin" / "python"))
        options = ("--quiet", "--no-compile", "--constraint", str(constraints))
        # With the variables of the test: they may name an index and its certificate.
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", *place]
        subprocess.run([*pip, "install", *options, what], cwd=self.folder, check=True)

    def can_import(self) -> set[str]:
        """Return which packages of the operator there are."""
        code = (
            "import importlib.util, json, sys\n"
            "print(json.dumps([each for each in sys.argv[1:] if importlib.util.find_spec(each)]))"
        )
        done = self.run("python", "-c", code, *sorted(OF_THE_OPERATOR))
        return set(json.loads(done.stdout))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    options = ("--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder))
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, str(ROOT)], check=True)
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def constraints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The versions of the lock without hashes: the wheel itself has none there."""
    locked = (ROOT / "requirements" / "dev.txt").read_text()
    versions = re.findall(r"^[a-z0-9][^ \\]*==[^\\\n]*", locked, re.MULTILINE)
    path = tmp_path_factory.mktemp("lock") / "constraints.txt"
    path.write_text("\n".join(versions))
    return path


@pytest.fixture(scope="module")
def plain(wheel: Path, constraints: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with the wheel and what it asks for."""
    found = Environment(tmp_path_factory.mktemp("plain") / "venv")
    found.install(str(wheel), constraints)
    return found


def test_wheel_holds_the_three_packages_and_nothing_else(wheel: Path) -> None:
    expected = {
        str(path.relative_to(ROOT / source))
        for source in SOURCES
        for path in (ROOT / source).rglob("*")
        if path.is_file() and path.suffix in {".py", ".pyi", ".typed"}
    }
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert held == expected


def test_plain_wheel_reads_and_writes_tables(plain: Environment, tmp_path: Path) -> None:
    assert plain.can_import() == set()
    told = plain.run("hoodie", "--help")
    assert (told.returncode, told.stderr) == (0, "")
    assert "compact" in told.stdout
    (tmp_path / "rows.csv").write_text("id,fare\na,1.5\nb,2.5\n")
    columns = [
        {"name": "id", "type": "string"},
        {"name": "fare", "type": ["null", "double"], "default": None},
    ]
    schema = {"type": "record", "name": "trip", "fields": columns}
    (tmp_path / "trip.avsc").write_text(json.dumps(schema))
    trips = tmp_path / "trips"
    options = ("--schema", tmp_path / "trip.avsc", "--record-key", "id")
    for words in (
        ("create", trips, *options),
        ("write", trips, "--input", tmp_path / "rows.csv"),
        ("read", trips),
    ):
        done = plain.run("hoodie", *words)
        assert done.returncode == 0, done.stderr
    assert "2.5" in done.stdout


def test_plain_wheel_needs_no_data_frames(plain: Environment, tmp_path: Path) -> None:
    code = """
import sys
import hoodie

trips = hoodie.create_table(sys.argv[1], {"id": "string", "fare": "float64"}, "id")
trips.upsert([{"id": "a", "fare": 1.5}])
print(trips.dataset().to_table().to_pylist(), trips.inspect.files().num_rows)
for convert in (trips.scan().to_pandas, trips.scan().to_polars):
    try:
        convert()
    except hoodie.errors.ConfigurationError as error:
        print(error)
"""
    done = plain.run("python", "-c", code, tmp_path / "trips")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "[{'id': 'a', 'fare': 1.5}] 1",
        "needs the package pandas, which is not installed: pip install pandas",
        "needs the package polars, which is not installed: pip install polars",
    ]


def test_operator_of_a_plain_wheel_says_what_to_install(plain: Environment) -> None:
    listed = plain.run("hudi-operator", "--help")
    assert (listed.returncode, listed.stderr) == (0, "")
    for command in OF_THE_EXTRA:
        assert command in listed.stdout
        done = plain.run("hudi-operator", command)
        assert done.returncode == errors.ConfigurationError.exit_code, done.stderr
        (line,) = done.stderr.splitlines()
        assert line.startswith(f"error: hudi-operator {command} needs the package ")
        assert line.endswith("expected an installation with hudi-operator[operator]")
    for command in OF_BOTH:
        told = plain.run("hudi-operator", command, "--help")
        assert (told.returncode, told.stderr) == (0, ""), command


def test_what_it_says_to_install_is_enough(wheel: Path, constraints: Path, tmp_path: Path) -> None:
    extended = Environment(tmp_path / "venv")
    extended.install(f"{wheel}[operator]", constraints)
    assert extended.can_import() == OF_THE_OPERATOR
    for command in OF_THE_EXTRA:
        told = extended.run("hudi-operator", command, "--help")
        assert (told.returncode, told.stderr) == (0, ""), command
    manifests = ROOT / "examples" / "flights" / "manifests"
    done = extended.run("hudi-operator", "validate", "-f", manifests)
    assert done.returncode == 0, done.stderr
