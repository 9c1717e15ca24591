"""The installed program: what only a process has, such as streams, terminals and signals."""

import importlib
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from fcntl import ioctl
from pathlib import Path

import pytest

from hoodie.sources import local_files
from support.tables.command_line import Run, put

PROGRAM_TIMEOUT_S = 60
CONTROL_SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def at_terminal(program: Path, *argv: str | Path, columns: int = 80) -> str:
    """Run a command at a terminal and return what it shows, without colours."""
    master, slave = pty.openpty()
    ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {key: text for key, text in os.environ.items() if key != "COLUMNS"}
    with subprocess.Popen(
        [program, *argv],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env={**environment, "TERM": "xterm"},
    ) as process:
        os.close(slave)
        shown = b"".join(iter(lambda: _read(master), b""))
        os.close(master)
        assert process.wait(PROGRAM_TIMEOUT_S) == 0, shown
    return CONTROL_SEQUENCE.sub("", shown.decode()).replace("\r", "")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # So Linux says that the other side is closed.
        return b""


def test_main_path_of_a_stranger(program: Run, tmp_path: Path, schema: Path, trips: Path) -> None:
    table = tmp_path / "trips"
    created = program("create", table, "--schema", schema, "--record-key", "id")
    assert (created.code, created.err) == (0, "")
    assert program("write", table, "--input", trips).code == 0
    answer = program("read", table, "--columns", "id,city", "--where", "city = 'Oslo'")
    assert (answer.code, answer.out, answer.err) == (0, '"id","city"\n"b","Oslo"\n', "")
    missing = program("read", tmp_path / "no")
    assert (missing.code, missing.out) == (22, "")
    assert missing.err.startswith("error: there is no table in ")
    assert "Traceback" not in missing.err


def test_terminal_shows_what_fits(
    hoodie: Run, program_path: Path, table: Path, trips: Path
) -> None:
    assert hoodie("write", table, "--input", trips).code == 0
    for command, marks in (
        ("timeline", ["requested", "completed", "rows", "hidden because the terminal is narrow: "]),
        ("slices", ["file group", "0000000", "in 0 log files"]),
    ):
        shown = at_terminal(program_path, command, table)
        assert all(mark in shown for mark in marks), shown
        lines = [line for line in shown.splitlines() if not line.startswith("hidden")]
        assert max(map(len, lines)) <= 80, shown


def test_terminal_shows_some_rows_and_says_so(
    hoodie: Run, program_path: Path, table: Path, tmp_path: Path
) -> None:
    header = "id,city,fare,seats,updated_at,day,at\n"
    rows = put(
        tmp_path / "many.csv", header + "".join(f"{n},\x1b[31mred,,,,,\n" for n in range(50))
    )
    assert hoodie("write", table, "--input", rows).code == 0
    shown = at_terminal(program_path, "read", table)
    assert shown.count("␛[31mred") == 20
    assert "the first 20 rows; more with --limit N, all with --output FILE" in shown


def test_reader_that_goes_away_ends_the_program_quietly(
    hoodie: Run, program_path: Path, table: Path, tmp_path: Path
) -> None:
    header = "id,city,fare,seats,updated_at,day,at\n"
    rows = put(tmp_path / "many.csv", header + "".join(f"{n},Rome,,,,,\n" for n in range(50_000)))
    assert hoodie("write", table, "--input", rows).code == 0
    with subprocess.Popen(
        [program_path, "read", table], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert (process.stderr.read(), process.wait(PROGRAM_TIMEOUT_S)) == (b"", 141)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_full_device_is_told(hoodie: Run, program: Run, table: Path, trips: Path) -> None:
    assert hoodie("write", table, "--input", trips).code == 0
    for words in (["read"], ["count"], ["timeline"], ["count", "--json"], ["read", "--json"]):
        with Path("/dev/full").open("wb") as full:
            answer = program(words[0], table, *words[1:], stdout=full)
        assert answer.code == 30
        assert answer.err.startswith("error: standard output: No space left on device\n")
        assert "Exception" not in answer.err


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_program_that_was_started_without_a_stream_does_without_it(
    hoodie: Run, program_path: Path, table: Path, trips: Path, closed: str
) -> None:
    for words in (f"write {table} --input {trips}", f"read {table}", f"timeline {table}"):
        done = subprocess.run(
            ["/bin/sh", "-c", f"{program_path} {words} {closed}"],
            capture_output=True,
            timeout=PROGRAM_TIMEOUT_S,
            check=False,
        )
        assert (done.returncode, b"Traceback" in done.stderr) == (0, False), done.stderr
    assert hoodie("count", table).out == "3 rows\n"


def test_interrupt_is_told_without_traceback(
    hoodie: Run, table: Path, trips: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(local_files, "read", interrupt)
    answer = hoodie("write", table, "--input", trips)
    assert (answer.code, answer.out) == (130, "")
    assert answer.err == "error: interrupted\nhint: uncommitted changes stay invisible\n"
    assert hoodie("timeline", table).out == "the timeline is empty\n"
    # Importing a command takes a while, too.
    monkeypatch.setattr(importlib, "import_module", interrupt)
    assert hoodie("timeline", table, "--json").document["error"]["kind"] == "Cancelled"


def test_bug_is_told_with_its_traceback(
    hoodie: Run, table: Path, trips: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("oops")

    monkeypatch.setattr(local_files, "read", fail)
    answer = hoodie("write", table, "--input", trips, "--json")
    assert answer.code == 70
    assert answer.document["error"] == {"kind": "Internal", "message": "RuntimeError: oops"}
    assert answer.err.startswith("Traceback")
    assert "error: RuntimeError: oops\nhint: this is a bug in hoodie" in answer.err


STOPPED = """
import signal, sys, time
from hoodie.write import tasks
from hoodie.cli import main

def stall(*_):
    print("writing", flush=True)
    for _ in range(600):  # A sleep does not notice a signal that came right before it.
        time.sleep(0.1)

signal.signal(signal.SIGINT, signal.default_int_handler)  # A shell's background has none.
tasks.run = stall
sys.argv[1:] = ["write", {table!r}, {trips!r}]
sys.exit(main())
"""


STOPPED_WHILE_READING = """
import signal, sys, time
from hoodie.sources import casting
from hoodie.cli import inputs, main

def stall(*_, **__):
    print("reading", flush=True)
    for _ in range(600):  # A sleep does not notice a signal that came right before it.
        time.sleep(0.1)

signal.signal(signal.SIGINT, signal.default_int_handler)
inputs._BYTES_AT_ONCE = 0
casting.cast = stall
sys.argv[1:] = ["write", {table!r}, {trips!r}]
sys.exit(main())
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_write_that_is_stopped_while_it_reads_a_stream_says_so(
    hoodie: Run, table: Path, trips: Path, number: signal.Signals, code: int
) -> None:
    """A signal that comes while Arrow asks for rows is no failure of the input."""
    script = STOPPED_WHILE_READING.format(table=str(table), trips=str(trips))
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "reading\n"
        process.send_signal(number)
        _, noted = process.communicate(timeout=30)
    assert (process.returncode, "broke off" in noted) == (code, False), noted
    assert hoodie("heartbeats", table).out == "nothing is pending\n"
    assert hoodie("read", table, "--json").out == ""


@pytest.mark.parametrize(
    ("number", "code", "told"), [(signal.SIGTERM, 143, "terminated"), (signal.SIGINT, 130, "inter")]
)
def test_stopped_write_is_taken_back(
    hoodie: Run, table: Path, trips: Path, number: signal.Signals, code: int, told: str
) -> None:
    script = STOPPED.format(table=str(table), trips=str(trips))
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
        assert len(hoodie("heartbeats", table, "--json").document["pending"]) == 1
        process.send_signal(number)
        _, noted = process.communicate(timeout=30)
    assert process.returncode == code
    assert f"error: {told}" in noted
    assert hoodie("heartbeats", table).out == "nothing is pending\n"
    assert hoodie("read", table, "--json").out == ""


QUERIED = """
import signal, sys
from hoodie.cli import main

signal.signal(signal.SIGINT, signal.default_int_handler)
minutes = "SELECT count(*) FROM range(100000) a, range(9000000) b WHERE a.range * b.range % 7 = 3"
sys.argv[1:] = ["sql", {table!r}, minutes]
sys.exit(main())
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_query_of_duckdb_that_is_stopped_ends_at_once(
    table: Path, number: signal.Signals, code: int
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", QUERIED.format(table=str(table))],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(4)
        process.send_signal(number)
        found = process.communicate(timeout=10)
    cause = "terminated" if number == signal.SIGTERM else "interrupted"
    message = f"error: {cause}\nhint: uncommitted changes stay invisible\n"
    assert (process.returncode, *found) == (code, "", message)


@pytest.mark.parametrize(
    ("shell", "line", "expected"),
    [
        ("bash", "hoodie wr", ["write"]),
        ("bash", "hoodie write --re", ["--record-key", "--rename", "--reject-file"]),
        ("zsh", "hoodie read --as-of-c", ["--as-of-columns"]),
        ("fish", "hoodie compact --sch", ["--schedule"]),
    ],
)
def test_shells_complete_commands_and_their_options(
    program_path: Path, shell: str, line: str, expected: list[str]
) -> None:
    variables = {
        "_HOODIE_COMPLETE": f"complete_{shell}",
        "COMP_CWORD": str(line.count(" ")),
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        ("COMP_WORDS" if shell == "bash" else "_TYPER_COMPLETE_ARGS"): line,
    }
    answer = subprocess.run(
        [program_path],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=PROGRAM_TIMEOUT_S,
        check=True,
    ).stdout
    assert [each for each in expected if each not in answer] == []
    assert "--help" not in answer
