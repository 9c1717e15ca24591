"""Opening the table that a command is about, its data-parallel work watched."""

from dataclasses import replace

from hoodie import environment, table
from hoodie.cli import progress


def watched(outside: environment.Environment, display: progress.Display) -> environment.Environment:
    """Return an environment whose data-parallel work is shown."""
    return replace(outside, engine=progress.WatchedEngine(outside.engine, display))


def open_table(
    uri: str, outside: environment.Environment, display: progress.Display
) -> table.Table:
    """Open a table.

    Raises:
        NotFoundError: There is none.
    """
    display.phase("opening the table")
    return table.open_table(uri, watched(outside, display))
