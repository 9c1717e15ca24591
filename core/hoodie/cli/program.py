"""The command `hoodie`: its commands put together, and the edge where every failure is told."""

import functools
import importlib
import io
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, cast

import typer
from typer import core

from hoodie import errors, startup
from hoodie.cli import arguments, command, failures, output

NAME = "hoodie"
JSON_OPTION = "--json"

_HELP = """Create, write, read and maintain Apache Hudi tables.

A table is named by a folder or a URI: /data/trips, file:///data/trips, s3://bucket/trips.
"""
EPILOG = """Get started:

  hoodie write /tmp/trips trips.csv --create --record-key id
  hoodie read /tmp/trips --where "city = 'Rome'"

Exit codes:

  0      done
  1      `hoodie check` has findings
  2      wrong usage
  10-19  try again: 10 conflict, 11 lock not acquired, ...
  20-29  correct the request: 20 input, 21 unsupported, 22 not found, 23 exists,
         24 configuration, 25 gone
  30-49  the machine: 30 storage, 31 corrupt bytes, 40 out of memory
  70     internal error
"""

COMMANDS = {
    "create": ("Tables", "Create an empty table."),
    "write": ("Tables", "Write the rows of files into a table, in one commit."),
    "read": ("Tables", "Read the rows of a table."),
    "count": ("Tables", "Count the rows of a table."),
    "sql": ("Tables", "Query tables by DuckDB."),
    "changes": ("Tables", "Read what changed in a table since a position."),
    "history": ("Tables", "Show what became of one row: each write that changed it."),
    "update": ("Tables", "Set columns of the rows that match a filter, in one commit."),
    "delete": ("Tables", "Delete the rows that match a filter, in one commit."),
    "adopt": ("Tables", "State the index and time zone of a table that Apache Hudi made."),
    "drop": ("Tables", "Delete a table with all of its files."),
    "configure": (
        "Tables",
        "Change which engines may write a table, and what writes store of changes.",
    ),
    "tables": ("Inspection", "List the tables below a folder."),
    "describe": ("Inspection", "Show a table's configuration and columns."),
    "timeline": ("Inspection", "Show a table's timeline: its instants, oldest first."),
    "slices": ("Inspection", "Show a table's file slices, one per file group."),
    "stats": ("Inspection", "Show the sizes of a table's files, and what services would do."),
    "metadata": (
        "Inspection",
        "Show or validate the metadata table, which lists a table's files.",
    ),
    "index": (
        "Table services",
        "Build an index beside the writers of a table; drop it, or show which there are.",
    ),
    "heartbeats": (
        "Inspection",
        "Show pending instants of a table and the processes that own them.",
    ),
    "check": ("Inspection", "Check every invariant of a table and its timeline."),
    "compact": ("Table services", "Compact a table: merge its log files into new base files."),
    "clean": ("Table services", "Delete the file versions that no reader needs any more."),
    "rollback": ("Table services", "Roll back failed writes."),
    "savepoint": ("Table services", "Create, list or delete savepoints, which keep files."),
    "consumer": (
        "Table services",
        "Record how far readers of increments have read, for which cleaning waits.",
    ),
    "mirror": (
        "Table services",
        "Register a table's base files in an Iceberg table beside it.",
    ),
    "archive": (
        "Table services",
        "Archive a table: move old instants out of the active timeline.",
    ),
    "lock": (
        "Table services",
        "Show the holder of a table's lock, or break the lock of a dead holder.",
    ),
}
"""The panel of the help and the summary of each command, `COMMAND` in the module of its name."""

_HELP_NAMES = ["-h", "--help"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line and return the exit code.

    Args:
        argv: Without the program's name; None takes the process's own, which then is ours.
    """
    if argv is None:
        output.open_missing()
        startup.leave_out_pandas()
        signal.signal(signal.SIGTERM, _terminate)
    given = list(sys.argv[1:] if argv is None else argv) or ["--help"]
    _tolerate_all_characters()
    try:
        result = _run(arguments.spread(given))
        output.flush()
    except (Exception, KeyboardInterrupt) as error:
        cause = (error.__cause__ or error) if isinstance(error, _BrokenOffError) else error
        if isinstance(cause, BrokenPipeError):
            return failures.EXIT_READER_GONE
        return _tell(failures.of(cause), is_json=JSON_OPTION in given)
    return result if isinstance(result, int) else errors.EXIT_DONE


def _terminate(_number: int, _frame: object) -> None:
    # One that comes again while what was begun is taken back ends the process at once.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    raise failures.TerminatedError


class _BrokenOffError(Exception):
    """Carries an interrupt, or a reader's end, past typer, which would make an exit of it."""


def _run(argv: list[str]) -> object:
    """Run a command line by typer and return what the command returns."""
    wanted = arguments.command_of(arguments.completed_words(os.environ) or argv)
    return parser(wanted).main(argv, prog_name=NAME, standalone_mode=False)


def parser(wanted: str | None) -> core.TyperGroup:
    """Return the parser of all commands, of which the wanted one is loaded."""
    app = typer.Typer(
        help=command.reflowed(_HELP),
        epilog=command.reflowed(EPILOG),
        add_completion=True,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": _HELP_NAMES},
    )
    app.callback()(_configure)
    for name, (panel, summary) in COMMANDS.items():
        # By name, and only the one that runs: most of a second goes by until Arrow is there, which
        # help, version and a mistyped command need not wait for.
        found = _load(name) if name == wanted else command.Command(run=_listed_only)
        app.command(
            name,
            cls=command.OptionsOnce,
            help=found.help(summary),
            short_help=summary,
            epilog=found.epilog,
            rich_help_panel=panel,
        )(_carried(found.run))
    return command.group(app)


def _load(name: str) -> command.Command:
    module = importlib.import_module(f"hoodie.cli.commands.{name}")
    return cast("command.Command", module.COMMAND)


def _listed_only() -> None:
    """Stand for a command that the help lists."""
    raise AssertionError("the requested command is loaded")


def _carried(run: Callable[..., int | None]) -> Callable[..., int | None]:
    @functools.wraps(run)
    def carried(*values: object, **options: object) -> int | None:
        try:
            return run(*values, **options)
        except (KeyboardInterrupt, BrokenPipeError) as error:
            raise _BrokenOffError from error

    return carried


def _configure(
    *,
    is_version_wanted: Annotated[bool, command.version_option(NAME)] = False,
    is_verbose: Annotated[
        bool, typer.Option("--verbose", "-v", metavar="", help="Log each step to standard error.")
    ] = False,
) -> None:
    """Configure what holds for every command."""
    del is_version_wanted
    logging.basicConfig(
        level=logging.INFO if is_verbose else logging.ERROR, handlers=[_Notes()], force=True
    )
    logging.getLogger("hoodie").setLevel(logging.DEBUG if is_verbose else logging.WARNING)


class _Notes(logging.Handler):
    """The library's log as notes, among progress."""

    def emit(self, record: logging.LogRecord) -> None:
        output.note(f"{record.levelname.lower()}: {record.getMessage()}")


def _tell(failure: failures.Failure, *, is_json: bool) -> int:
    exit_code = command.show(failure)
    if is_json:
        output.document(failures.document(failure))
    return exit_code


def _tolerate_all_characters() -> None:
    """Print what the terminal's encoding lacks as escapes instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
