"""The command `hudi-operator`: each command is loaded alone, and listed as it tells of itself."""

import importlib
import subprocess
import sys
from importlib import metadata

import pytest

from hoodie import errors
from hoodie_operator import __main__ as program


@pytest.mark.parametrize(("name", "summary"), program.COMMANDS.items())
def test_list_says_of_a_command_what_it_says_itself(name: str, summary: str) -> None:
    word = name.replace("-", "_")
    command = getattr(importlib.import_module(f"hoodie_operator.commands.{word}"), word)
    assert (command.__doc__ or "").splitlines()[0] == summary


def test_command_loads_nothing_of_the_others() -> None:
    code = """
import sys
from hoodie_operator import __main__ as program
code = program.main(["lock-server", "--help"])
heavy = {"aiohttp", "kopf", "kubernetes", "prometheus_client", "pyarrow"} & set(sys.modules)
sys.exit(f"loaded: {heavy}" if heavy else code)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Run the ZooKeeper server" in done.stdout


def test_command_that_is_not_there_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["reticulate"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "error: No such command 'reticulate'.",
        "hint: run `hudi-operator --help` for usage",
    ]


def test_reported_error_is_one_line_and_its_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["run", "--config", "/nowhere"]) == 22
    assert capsys.readouterr().err == "error: --config /nowhere: No such file or directory\n"


def test_bare_call_and_short_option_print_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    printed = []
    for argv in ([], ["-h"], ["--help"]):
        assert program.main(argv) == 0
        printed.append(capsys.readouterr().out)
    assert len(set(printed)) == 1
    assert "standalone" in printed[0]


def test_version_is_that_of_the_installation(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["--version"]) == 0
    assert capsys.readouterr().out == f"hudi-operator {metadata.version('hudi-operator')}\n"


@pytest.mark.parametrize(
    ("package", "commands"),
    [("yaml", ("validate", "get", "standalone")), ("kopf", ("run",)), ("pydantic", ("observe",))],
)
def test_installation_without_the_operator_says_what_to_install(
    package: str, commands: tuple[str, ...]
) -> None:
    """A plain wheel has this command, and not what it stands on."""
    for name in commands:
        code = f"""
import sys
sys.modules[{package!r}] = None
from hoodie_operator import __main__ as program
sys.exit(program.main([{name!r}]))
"""
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False
        )
        assert done.returncode == errors.ConfigurationError.exit_code
        assert done.stderr == (
            f"error: hudi-operator {name} needs the package {package}, expected an installation "
            "with hudi-operator[operator]\n"
        )
