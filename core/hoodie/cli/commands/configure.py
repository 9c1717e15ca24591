"""`hoodie configure`: which engines write a table, and whether a chain orders its changes."""

from typing import Annotated

import typer

from hoodie import environment
from hoodie.cli import command, options, output, progress, run_settings, tables
from hoodie.cli.views import configuration
from hoodie.transaction import authors

DETAILS = """With a chain, every change of hoodie is first a file that is created once: hoodie's
writers cannot overtake each other, even if the lock fails, and another engine that writes without
the lock is detected. A table without foreign writers always has a chain. It stays right even if its
lock is given to several writers at once, and no write waits for clocks; Apache Hudi may read it,
but must not write it.

A write that is pending began by the rules that are to change: it has to end first.
"""
EXAMPLES = """Examples:

  hoodie configure /data/trips --chain
  hoodie configure /data/trips --no-foreign-writers
  hoodie configure /data/trips --foreign-writers
  hoodie configure /data/trips --no-chain
"""


def configure(
    uri: options.TableUri,
    *,
    chain: Annotated[
        bool | None,
        typer.Option("--chain/--no-chain", help="Whether a chain orders hoodie's changes."),
    ] = None,
    foreign_writers: Annotated[
        bool | None,
        typer.Option(
            "--foreign-writers/--no-foreign-writers",
            help="Whether other engines, such as Apache Hudi, may write the table.",
        ),
    ] = None,
    lock: options.LockText = None,
    set_texts: options.SetTexts = None,
    as_json: options.AsJson = False,
) -> None:
    """Change which engines may write a table, and whether it has a chain."""
    if chain is None and foreign_writers is None:
        raise typer.BadParameter("expected --[no-]chain or --[no-]foreign-writers")
    if chain is False and foreign_writers is False:
        raise typer.BadParameter("--no-chain: a table without foreign writers has a chain")
    run = run_settings.parse_for_service(set_texts, lock)
    with progress.Display() as display:
        opened = tables.open_table(uri, environment.system(), display)
        run_settings.check_facts(run.facts, opened.config)
        display.phase("waiting for the table's lock")
        has_foreign_writers = foreign_writers
        if has_foreign_writers is None:
            has_foreign_writers = opened.config.has_foreign_writers or chain is False
        changed = opened.configure_chain(
            run.transaction(authors.Author()),
            has_chain=chain is not False,
            has_foreign_writers=has_foreign_writers,
        )
    shown = configuration.document(changed.uri, changed.config, changed.schema.arrow)
    if as_json:
        output.document(shown)
    else:
        output.line(f"{shown.table}: {configuration.writers(shown)}")


COMMAND = command.Command(
    run=configure,
    details=DETAILS,
    examples=EXAMPLES,
)
