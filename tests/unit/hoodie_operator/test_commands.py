"""The command `hudi-operator`: each command is loaded alone, and listed as it tells of itself."""

import importlib
import subprocess
import sys

import pytest

from hoodie_operator import __main__ as program


@pytest.mark.parametrize(("name", "summary"), program._COMMANDS.items())
def test_list_says_of_a_command_what_it_says_itself(name: str, summary: str) -> None:
    word = name.replace("-", "_")
    command = getattr(importlib.import_module(f"hoodie_operator.commands.{word}"), word)
    assert (command.__doc__ or "").splitlines()[0] == summary


def test_command_loads_nothing_of_the_others() -> None:
    code = """
import sys
from hoodie_operator import __main__ as program
try:
    program.main(["lock-server", "--help"])
except SystemExit as ended:
    heavy = {"aiohttp", "kopf", "prometheus_client", "pyarrow"} & set(sys.modules)
    sys.exit(f"loaded: {heavy}" if heavy else ended.code)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Be the ZooKeeper server" in done.stdout


def test_command_that_is_not_there_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        program.main(["reticulate"])
    assert ended.value.code == 2
    assert "No such command 'reticulate'" in capsys.readouterr().err


def test_reported_error_is_one_line_and_its_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        program.main(["run", "--config", "/nowhere"])
    assert ended.value.code == 22
    assert (
        capsys.readouterr().err == "hudi-operator: --config /nowhere: No such file or directory\n"
    )
