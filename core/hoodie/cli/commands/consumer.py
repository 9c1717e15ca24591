"""`hoodie consumer`: readers of increments that cleaning waits for."""

import enum
from typing import Annotated

import typer

from hoodie import environment, errors, table
from hoodie.cli import command, options, output, progress, quantities, tables
from hoodie.cli.views import consumers as views
from hoodie.maintenance import consumers
from hoodie.model import instants

DETAILS = """A consumer reads what changed since it read last, such as an incremental query of
Apache Hudi, a Flink job or a replication. `advance` records the completion time up to which it has
read: cleaning then keeps every file version that was replaced at that time or later. The first
`advance` declares the consumer; without --to it begins at the newest completed instant. For a
consumer that exists, `advance` without --to records that it is alive.

A consumer that is silent for longer than its limit does not hold cleaning back any more. The limit
is measured by the table's storage and timeline, not by a clock of this machine. A consumer never
moves back. A clean that Apache Hudi itself plans does not wait: `list` shows which clean passed a
consumer.

`list` also shows how far behind each consumer is: how many writes it has not read, with a + where
more of them may be archived, for how long the first of them waits, and the position from which its
next read begins.
"""
EXAMPLES = """Examples:

  hoodie consumer advance /data/trips billing
  hoodie consumer advance /data/trips billing --to 20261121093012345
  hoodie consumer advance /data/trips billing --limit 14d
  hoodie consumer list /data/trips
  hoodie consumer remove /data/trips billing
"""


class Action(enum.Enum):
    """What to do."""

    ADVANCE = "advance"
    LIST = "list"
    REMOVE = "remove"


def consumer(  # noqa: PLR0913 - a parameter an option
    action: Annotated[Action, typer.Argument(metavar="advance|list|remove", help="The action.")],
    uri: options.TableUri,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="The consumer; not with list.")
    ] = None,
    *,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="With advance: the completion time up to which it has read."
        ),
    ] = None,
    expected: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="TIME", help="With advance: refuse unless it is at this time now."
        ),
    ] = None,
    limit: Annotated[
        str | None,
        typer.Option(
            metavar="AGE",
            help="With advance: how long it may be silent, such as 36h.",
            show_default="7d, or as before",
        ),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Record how far consumers have read, list or remove them."""
    _check_options(action, name, to=to, expected=expected, limit=limit)
    wanted = consumers.Progress(
        to=None if to is None else instants.checked_time(to),
        expected=None if expected is None else instants.checked_time(expected),
        limit_ms=None if limit is None else quantities.duration_ms(limit),
    )
    with progress.Display() as display:
        opened = tables.open_table(uri, environment.system(), display)
        display.phase(f"{action.value} consumers")
        shown = _shown(opened, action, name or "", wanted)
    if as_json:
        output.document(shown)
    else:
        _print(shown)


def _shown(
    opened: table.Table, action: Action, name: str, wanted: consumers.Progress
) -> views.Document | views.AdvancedDocument | views.RemovedDocument:
    match action:
        case Action.ADVANCE:
            return views.advanced(opened.uri, opened.advance_consumer(name, wanted))
        case Action.LIST:
            return views.document(opened.uri, opened.consumers())
        case Action.REMOVE:
            if not opened.remove_consumer(name):
                raise errors.NotFoundError(f"{opened.uri} has no consumer {name[:80]!r}")
            return views.RemovedDocument(table=opened.uri, consumer=name, is_removed=True)


def _check_options(
    action: Action, name: str | None, *, to: str | None, expected: str | None, limit: str | None
) -> None:
    if action is Action.LIST and name is not None:
        raise typer.BadParameter("list takes no name of a consumer")
    if action is not Action.LIST and name is None:
        raise typer.BadParameter(f"expected the name of the consumer to {action.value}")
    for option, given in (("--to", to), ("--from", expected), ("--limit", limit)):
        if given is not None and action is not Action.ADVANCE:
            raise typer.BadParameter(f"{option} is an option of advance only")


def _print(shown: views.Document | views.AdvancedDocument | views.RemovedDocument) -> None:
    match shown:
        case views.RemovedDocument():
            output.line(f"removed consumer {shown.consumer}")
        case views.AdvancedDocument():
            for line in views.advanced_lines(shown):
                output.line(line)
            if shown.passed_by is not None:
                output.note(f"warning: {views.passed_line(shown.consumer, shown.passed_by)}")
        case views.Document(consumers=()):
            output.line("no consumers")
        case views.Document():
            output.grid(views.grid(shown))
            for each in shown.consumers:
                if each.defect is not None:
                    output.note(f"note: {each.defect}")


COMMAND = command.Command(
    run=consumer,
    details=DETAILS,
    examples=EXAMPLES,
)
