"""`hoodie timeline`: what happened to a table, and what is going on."""

import itertools
from typing import Annotated

import typer

from hoodie import environment
from hoodie.cli import command, options, output, progress, quantities, tables
from hoodie.cli.views import chains, timelines
from hoodie.model import instants

_PAGE = 100
"""So many archived instants are shown at once."""

DETAILS = """An instant is named by its requested time and takes effect at its completion time. Both
have the form yyyyMMddHHmmssSSS, in UTC unless the table is configured otherwise. A requested or
inflight instant is invisible to readers. Completions are shown by how long ago they were; --json
and wide terminals have their times. Rows, deletes, files and size are what the instant wrote.
Old instants are archived (`hoodie archive`); --archived shows them, the newest first.
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
    archived: Annotated[
        bool,
        typer.Option(
            "--archived",
            metavar="",
            help=f"Show the newest {_PAGE} archived instants, the newest first.",
        ),
    ] = False,
    before: Annotated[
        str | None,
        typer.Option(
            metavar="INSTANT", help="With --archived: show only instants before this time."
        ),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Show a table's timeline."""
    if archived and chain:
        raise typer.BadParameter("expected at most one of --archived and --chain")
    if before is not None and not archived:
        raise typer.BadParameter("expected --archived with --before INSTANT")
    if archived:
        _show_archived(uri, _PAGE if limit is None else limit, before, as_json=as_json)
        return
    notes: tuple[str, ...] = ()
    with progress.Display() as display:
        env = environment.system()
        opened = tables.open_table(uri, env, display)
        if chain:
            display.phase("reading the chain")
            epochs = opened.epochs()
            changes = chains.document(opened.uri, epochs[_first(len(epochs), limit) :])
            count, grid = len(epochs), chains.grid(changes)
            shown: chains.Document | timelines.Document = changes
        else:
            display.phase("reading the timeline")
            found = opened.timeline().instants
            chosen = found[_first(len(found), limit) :]
            rows = timelines.document(opened.uri, chosen, opened.metadata(chosen))
            count, shown = len(found), rows
            zone = opened.config.time_zone
            grid = timelines.grid(rows, zone, env.clock.now_ms())
            notes = quantities.age_notes(zone)
    if as_json:
        output.document(shown)
        return
    if not count:
        output.line("the timeline is empty")
        return
    output.grid(grid)
    for line in notes:
        output.note(line)
    if limit is not None and limit < count:
        output.note(f"the newest of {quantities.counted(count, 'epoch' if chain else 'instant')}")


def _show_archived(uri: str, limit: int, before: str | None, *, as_json: bool) -> None:
    """Show a page of the archive; only the files that hold it are read."""
    end = instants.checked_time(before) if before is not None else None
    with progress.Display() as display:
        env = environment.system()
        opened = tables.open_table(uri, env, display)
        display.phase("reading the archived timeline")
        # One instant more than the page holds shows whether there is another page.
        found = list(itertools.islice(opened.archived_instants(end), limit + 1))
    page = found[:limit]
    shown = timelines.document_of_archive(opened.uri, page)
    if as_json:
        output.document(shown)
        return
    if not page:
        output.line(
            "no instant is archived" if end is None else f"no instant is archived before {end}"
        )
        return
    zone = opened.config.time_zone
    output.grid(timelines.grid(shown, zone, env.clock.now_ms()))
    for line in quantities.age_notes(zone):
        output.note(line)
    if len(found) > limit:
        oldest = page[-1].instant.requested_time
        output.note(f"hint: show earlier instants with --before {oldest}")


def _first(count: int, limit: int | None) -> int:
    """Return from which on the newest are shown."""
    return 0 if limit is None else max(0, count - limit)


COMMAND = command.Command(
    run=timeline,
    details=DETAILS,
)
