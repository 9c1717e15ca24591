"""`hoodie timeline`: what happened to a table, and what is going on."""

from typing import Annotated

import typer

from hoodie import environment
from hoodie.cli import command, options, output, progress, quantities, tables
from hoodie.cli.views import timelines

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
    as_json: options.AsJson = False,
) -> None:
    """Show a table's timeline."""
    with progress.Display() as display:
        opened = tables.open_table(uri, environment.system(), display)
        display.phase("reading the timeline")
        instants = opened.timeline().instants
        chosen = instants if limit is None else instants[len(instants) - limit :]
        shown = timelines.document(opened.uri, chosen, opened.metadata(chosen))
    if as_json:
        output.document(shown)
        return
    if not instants:
        output.line("the timeline is empty")
        return
    output.grid(timelines.grid(shown))
    if len(chosen) < len(instants):
        output.note(f"the newest of {quantities.counted(len(instants), 'instant')}")


COMMAND = command.Command(
    run=timeline,
    details=DETAILS,
)
