"""`hoodie rollback`: what failed is taken back."""

from typing import Annotated

import typer

from hoodie import environment
from hoodie.cli import command, options, output, progress, run_settings, tables
from hoodie.cli.views import rollbacks
from hoodie.model import instants, results
from hoodie.transaction import authors

DETAILS = """A failed write leaves a pending instant, markers and data files, all invisible to
readers. Once the heartbeat shows that its writer is dead, a rollback deletes them under the table
lock, in steps that another process can resume. A live writer is never rolled back, and a writer
that was judged dead can no longer commit. `hoodie heartbeats URI` shows which writers are alive.
"""
EXAMPLES = """Examples:

  hoodie rollback /data/trips --all
  hoodie rollback /data/trips --instant 20261121093012345

--all finishes interrupted rollbacks, then rolls back failed writes of any engine, then deletes
orphan files of ended instants. --instant of a failed compaction returns it to requested;
`hoodie compact` also executes it again.
"""


def rollback(
    uri: options.TableUri,
    *,
    instant: Annotated[
        str | None,
        typer.Option(metavar="INSTANT", help="Roll back the pending instant with this time."),
    ] = None,
    is_all: Annotated[
        bool, typer.Option("--all", metavar="", help="Roll back all failed writes.")
    ] = False,
    lock: options.LockText = None,
    set_texts: options.SetTexts = None,
    as_json: options.AsJson = False,
) -> None:
    """Take failed writes back."""
    if is_all == (instant is not None):
        raise typer.BadParameter("expected one of --instant INSTANT and --all")
    run = run_settings.parse_for_service(uri, set_texts, lock)
    requested_time = instants.checked_time(instant) if instant is not None else None
    transaction = run.transaction(authors.Author())
    with progress.Display() as display:
        opened = tables.open_table(uri, environment.system(), display)
        run_settings.check_facts(run.facts, opened.config)
        display.phase("rolling back")
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
