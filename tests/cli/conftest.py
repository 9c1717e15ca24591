"""The command line as tests call it: in this process, or as the real program."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

from hoodie import cli
from support.tables.command_line import SCHEMA, TRIPS, Answer, Run, put

TIMEOUT_S = 60


@pytest.fixture
def hoodie(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command line in this process."""

    def run(*argv: str | Path) -> Answer:
        code = cli.main([str(each) for each in argv])
        captured = capsys.readouterr()
        return Answer(code=code, out=captured.out, err=captured.err)

    return run


@pytest.fixture
def program_path() -> Path:
    """The installed program."""
    return Path(sys.executable).with_name("hoodie")


@pytest.fixture
def program(program_path: Path) -> Run:
    """Runs the installed program, without a terminal."""

    def run(*argv: str | Path, stdout: int | IO[bytes] = subprocess.PIPE) -> Answer:
        done = subprocess.run(
            [program_path, *argv],
            check=False,
            stdout=stdout,
            stderr=subprocess.PIPE,
            env={**os.environ, "COLUMNS": "80"},
            timeout=TIMEOUT_S,
            text=True,
        )
        return Answer(code=done.returncode, out=done.stdout or "", err=done.stderr)

    return run


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    """The schema of trips."""
    return put(tmp_path / "trips.avsc", json.dumps(SCHEMA))


@pytest.fixture
def trips(tmp_path: Path) -> Path:
    """Three trips."""
    return put(tmp_path / "trips.csv", TRIPS)


@pytest.fixture
def table(tmp_path: Path, schema: Path, hoodie: Run) -> Path:
    """An empty table of trips, in two buckets."""
    path = tmp_path / "table"
    answer = hoodie("create", path, "--schema", schema, "--record-key", "id", "--buckets", "2")
    assert answer.code == 0, answer.err
    return path
