"""Opening the table that a command is about, its data-parallel work watched."""

from dataclasses import replace

from hoodie import environment, table
from hoodie.cli import progress
from hoodie.door import writers
from hoodie.engine.progress import ProgressEngine


def watched(env: environment.Environment, display: progress.Display) -> environment.Environment:
    """Return an environment whose data-parallel work is shown."""

    def report(done: int, total: int) -> None:
        display.count(done, total, "file groups")

    return replace(env, engine=ProgressEngine(env.engine, report))


def open_table(
    uri: str,
    env: environment.Environment,
    display: progress.Display,
    writer: writers.Writer | None = None,
) -> table.Table:
    """Open a table.

    Args:
        uri: Its root.
        env: The environment.
        display: Shows what is done.
        writer: On whose behalf `Table.update` and the like change it; as of `table.Table`.

    Raises:
        NotFoundError: There is none.
    """
    display.phase("opening the table")
    return table.open_table(uri, watched(env, display), writer)
