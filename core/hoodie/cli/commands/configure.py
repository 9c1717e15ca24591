"""`hoodie configure`: who writes a table, its chain, and what its writes store of changes."""

import enum
from typing import Annotated

import typer

from hoodie import environment, table
from hoodie.cli import command, options, output, progress, run_settings, tables
from hoodie.cli.views import configuration
from hoodie.model import change_data
from hoodie.transaction import authors, manager

DETAILS = """With a chain, every change of hoodie is first a file that is created once: hoodie's
writers cannot overtake each other, even if the lock fails, and another engine that writes without
the lock is detected. A table without foreign writers always has a chain. It stays right even if its
lock is given to several writers at once, and no write waits for clocks; Apache Hudi may read it,
but must not write it.

With --change-data, writes store what they change beside the data (CDC), as much of it as the mode
says, for readers of changes. What was written before stays as it is: `hoodie changes --cdc`
computes its changes, and Apache Hudi reads changes of copy-on-write tables from then on. `off` ends
it; what was stored is still read.

A write that is pending began by the rules that are to change: it has to end first.
"""
EXAMPLES = """Examples:

  hoodie configure /data/trips --chain
  hoodie configure /data/trips --no-foreign-writers
  hoodie configure /data/trips --foreign-writers
  hoodie configure /data/trips --no-chain
  hoodie configure /data/trips --change-data data-before-after
  hoodie configure /data/trips --change-data off
"""


class ChangeDataChoice(enum.Enum):
    """What writes store of changes from now on, as the command line spells it."""

    OFF = "off"
    OP_KEY_ONLY = "op-key-only"
    DATA_BEFORE = "data-before"
    DATA_BEFORE_AFTER = "data-before-after"

    @property
    def mode(self) -> change_data.LoggingMode | None:
        """The logging mode; None for nothing."""
        return None if self is ChangeDataChoice.OFF else change_data.LoggingMode[self.name]


def configure(  # noqa: PLR0913 - a parameter an option
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
    change_data_choice: Annotated[
        ChangeDataChoice | None,
        typer.Option(
            "--change-data",
            metavar="MODE",
            help="What writes store of changes: op-key-only, data-before, data-before-after; or "
            "off.",
        ),
    ] = None,
    lock: options.LockText = None,
    set_texts: options.SetTexts = None,
    as_json: options.AsJson = False,
) -> None:
    """Change which engines may write a table, its chain, and what writes store of changes."""
    if chain is None and foreign_writers is None and change_data_choice is None:
        raise typer.BadParameter(
            "expected --[no-]chain, --[no-]foreign-writers or --change-data MODE"
        )
    if chain is False and foreign_writers is False:
        raise typer.BadParameter("--no-chain: a table without foreign writers has a chain")
    run = run_settings.parse_for_service(uri, set_texts, lock)
    with progress.Display() as display:
        opened = tables.open_table(uri, environment.system(), display)
        run_settings.check_facts(run.facts, opened.config)
        display.phase("waiting for the table's lock")
        transaction = run.transaction(authors.Author())
        changed = opened
        if chain is not None or foreign_writers is not None:
            changed = _of_chain(opened, transaction, chain, foreign_writers)
        if change_data_choice is not None:
            changed = changed.capture_change_data(transaction, change_data_choice.mode)
    shown = configuration.document(changed.uri, changed.config, changed.schema.arrow)
    if as_json:
        output.document(shown)
    else:
        output.line(f"{shown.table}: {configuration.writers(shown)}")
        if change_data_choice is not None:
            output.line(f"{shown.table}: {configuration.captured(shown)}")


def _of_chain(
    opened: table.Table,
    transaction: manager.TransactionOptions,
    chain: bool | None,
    foreign_writers: bool | None,
) -> table.Table:
    """Return the table once the chain and other engines are as is wanted, as far as they are."""
    has_foreign_writers = foreign_writers
    if has_foreign_writers is None:
        has_foreign_writers = opened.config.has_foreign_writers or chain is False
    return opened.configure_chain(
        transaction, has_chain=chain is not False, has_foreign_writers=has_foreign_writers
    )


COMMAND = command.Command(
    run=configure,
    details=DETAILS,
    examples=EXAMPLES,
)
