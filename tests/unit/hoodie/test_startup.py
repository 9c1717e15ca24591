"""What a program of ours leaves out, in processes of their own."""

import subprocess
import sys

import pytest

_COUNTS = """
import sys
import pyarrow
{begin}
assert pyarrow.array([1, 2]).to_pylist() == [1, 2]
print("pandas" in sys.modules)
"""


@pytest.mark.parametrize(
    ("begin", "is_imported"),
    [("", True), ("from hoodie import startup; startup.leave_out_pandas()", False)],
)
def test_arrays_of_lists_import_pandas_unless_it_is_left_out(begin: str, is_imported: bool) -> None:
    assert _run(_COUNTS.format(begin=begin)) == f"{is_imported}\n"


def test_who_needs_pandas_nonetheless_is_told() -> None:
    program = """
from hoodie import startup
startup.leave_out_pandas()
startup.leave_out_pandas()
try:
    import pandas
except ModuleNotFoundError as error:
    print(error)
"""
    assert _run(program) == "this program does without pandas\n"


def test_command_line_leaves_pandas_out() -> None:
    program = """
import sys
from hoodie import cli
sys.argv = ["hoodie", "--version"]
cli.main()
import pandas
"""
    found = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True
    )
    assert "ModuleNotFoundError: this program does without pandas" in found.stderr


def _run(program: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
