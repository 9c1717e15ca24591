"""`*.csv` is several input files, with `--input` before them or without."""

import pytest
from typer import core

from hoodie.cli import arguments, program


@pytest.mark.parametrize(
    ("given", "spread"),
    [
        ("write t --input a", "write t --input a"),
        ("write t --input a b c", "write t --input a --input b --input c"),
        ("write t --input a b --json", "write t --json --input a --input b"),
        ("write t --input a --input b", "write t --input a --input b"),
        ("write t --input=a --lock x", "write t --lock x --input a"),
        ("write --input a b --json t", "write t --json --input a --input b"),
        ("write --input a b t", "write t --input a --input b"),
        ("write --input t", "write --input t"),
        ("write --writer-id w --input a b", "write b --writer-id w --input a"),
        ("write --no-header t --input a b", "write t --no-header --input a --input b"),
        ("-v write t --input a b", "-v write t --input a --input b"),
        ("write t --input", "write t"),
        ("write t --set k=v --input a b", "write t --set k=v --input a --input b"),
        ("write t a", "write t --input a"),
        (
            "write t a b --create --record-key id",
            "write t --create --record-key id --input a --input b",
        ),
        ("write t a --input b", "write t --input a --input b"),
        ("write t - --format csv", "write t --format csv --input -"),
        ("write t --input -", "write t --input -"),
        ("write --create t a", "write t --create --input a"),
        ("read t --input a b", "read t --input a b"),
        ("--help", "--help"),
        ("help", "--help"),
        ("help write", "write --help"),
        ("version", "--version"),
        ("write help a", "write help --input a"),
        ("", ""),
    ],
)
def test_files_after_input_are_its_values(given: str, spread: str) -> None:
    assert arguments.spread(given.split()) == spread.split()


def test_options_without_a_value_leave_the_file_after_them_alone() -> None:
    write = program.parser("write").commands["write"]
    flags = [each for each in write.params if isinstance(each, core.TyperOption) and each.is_flag]
    assert len(flags) > 3
    for flag in (name for each in flags for name in each.opts):
        assert arguments.spread(["write", "t", flag, "a"]) == ["write", "t", flag, "--input", "a"]
