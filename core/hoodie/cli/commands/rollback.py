"""`hoodie rollback`: what failed is taken back."""

from typing import Annotated

import typer

from hoodie import environment
from hoodie.cli import command, options, output, progress, run_settings, tables
from hoodie.cli.views import rollbacks
from hoodie.model import instants, results
from hoodie.transaction import authors

DETAILS = """A write that failed leaves a pending instant, markers and data files that nobody sees.
Once its writer is dead, which its heartbeat tells, all of that is deleted, under the table lock and
in steps that another process can go on with. A writer that is alive is never taken back, and one
that was taken for dead cannot commit any more. `hoodie heartbeats URI` tells who is alive.
"""
EXAMPLES = """Examples:

  hoodie rollback /data/trips --all
  hoodie rollback /data/trips --instant 20261121093012345

With --all rollbacks that were broken off are finished, then failed writes of any engine are taken
back, then files are removed that ended instants left. A compaction that failed is requested again
by --instant; it is executed anew by `hoodie compact`, too.
"""


def rollback(
    uri: options.TableUri,
    *,
    instant: Annotated[
        str | None,
        typer.Option(metavar="INSTANT", help="Take back the pending instant of this time."),
    ] = None,
    is_all: Annotated[
        bool, typer.Option("--all", metavar="", help="Take back everything that failed.")
    ] = False,
    lock: options.LockText = None,
    set_texts: options.SetTexts = None,
    as_json: options.AsJson = False,
) -> None:
    """Take failed writes back."""
    if is_all == (instant is not None):
        raise typer.BadParameter("expected one of --instant INSTANT and --all")
    run = run_settings.parse_for_service(set_texts, lock)
    requested_time = instants.checked_time(instant) if instant is not None else None
    transaction = run.transaction(authors.Author())
    with progress.Display() as display:
        opened = tables.open_table(uri, environment.system(), display)
        run_settings.check_facts(run.facts, opened.config)
        display.phase("taking back")
        if requested_time is not None:
            done = (opened.roll_back(requested_time, transaction),)
            found = results.RollbackResults(done=done)
        else:
            found = opened.roll_back_failed(transaction)
    shown = rollbacks.document(opened.uri, found)
    if as_json:
        output.document(shown)
        return
    for line in rollbacks.lines(shown):
        output.line(line)
    for text in (*shown.passed_over, *shown.findings):
        output.note(f"note: {text}")


COMMAND = command.Command(
    run=rollback,
    details=DETAILS,
    examples=EXAMPLES,
)
