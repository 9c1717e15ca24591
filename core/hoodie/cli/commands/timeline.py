"""`hoodie timeline`: what happened to a table, and what is going on."""

from typing import Annotated

import typer

from hoodie import environment
from hoodie.cli import command, options, output, progress, quantities, tables
from hoodie.cli.views import chains, timelines

DETAILS = """An instant is named by its requested time and takes effect at its completion time. Both
have the form yyyyMMddHHmmssSSS, in UTC unless the table is configured otherwise. A requested or
inflight instant is invisible to readers. Rows, deletes, files and size are what the instant wrote.
"""


def timeline(
    uri: options.TableUri,
    *,
    limit: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=0, help="Show only the newest N instants.", show_default="all"
        ),
    ] = None,
    chain: Annotated[
        bool,
        typer.Option(
            "--chain",
            metavar="",
            help="Show the changes as the table's chain orders them.",
        ),
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Show a table's timeline."""
    with progress.Display() as display:
        opened = tables.open_table(uri, environment.system(), display)
        if chain:
            display.phase("reading the chain")
            epochs = opened.epochs()
            changes = chains.document(opened.uri, epochs[_first(len(epochs), limit) :])
            count, grid = len(epochs), chains.grid(changes)
            shown: chains.Document | timelines.Document = changes
        else:
            display.phase("reading the timeline")
            instants = opened.timeline().instants
            chosen = instants[_first(len(instants), limit) :]
            rows = timelines.document(opened.uri, chosen, opened.metadata(chosen))
            count, grid, shown = len(instants), timelines.grid(rows), rows
    if as_json:
        output.document(shown)
        return
    if not count:
        output.line("the timeline is empty")
        return
    output.grid(grid)
    if limit is not None and limit < count:
        output.note(f"the newest of {quantities.counted(count, 'epoch' if chain else 'instant')}")


def _first(count: int, limit: int | None) -> int:
    """Return from which on the newest are shown."""
    return 0 if limit is None else max(0, count - limit)


COMMAND = command.Command(
    run=timeline,
    details=DETAILS,
)
