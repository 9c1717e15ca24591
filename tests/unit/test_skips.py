"""tests/conftest.py: a skip fails where CI is set, and only there."""

import os
import subprocess
import sys
from pathlib import Path

CONFTEST = Path(__file__).parents[1] / "conftest.py"

SKIPPED_TEST = """
import pytest

@pytest.mark.skip(reason="no Java")
def test_skipped_by_mark(): ...

def test_skipped_inside():
    pytest.skip("no network")

@pytest.mark.xfail(reason="known")
def test_fails_as_expected():
    assert False
"""
SKIPPED_MODULE = """
import pytest
pytest.importorskip("a_module_that_is_nowhere")
"""


def _run_pytest(folder: Path, module: str, **environment: str) -> tuple[int, str]:
    (folder / "conftest.py").write_text(CONFTEST.read_text())
    (folder / "test_one.py").write_text(module)
    clean = {name: value for name, value in os.environ.items() if name != "CI"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", folder, folder],
        env=clean | environment,
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
    )
    return done.returncode, done.stdout


def test_skip_passes_on_a_laptop(tmp_path: Path) -> None:
    code, output = _run_pytest(tmp_path, SKIPPED_TEST)
    assert code == 0, output
    assert "2 skipped, 1 xfailed" in output


def test_skip_fails_in_ci_and_expected_failure_does_not(tmp_path: Path) -> None:
    code, output = _run_pytest(tmp_path, SKIPPED_TEST, CI="true")
    assert code == 1
    assert "1 failed, 1 xfailed, 1 error" in output
    assert "forbids skips: Skipped: no Java" in output
    assert "forbids skips: Skipped: no network" in output


def test_skipped_module_fails_in_ci(tmp_path: Path) -> None:
    code, output = _run_pytest(tmp_path, SKIPPED_MODULE, CI="true")
    assert code == 2
    assert "1 error" in output
