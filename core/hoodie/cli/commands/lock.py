"""`hoodie lock`: who has a table's lock, and taking it from one that is dead."""

import enum
import shlex
from typing import Annotated

import typer

from hoodie import environment, errors, table
from hoodie.cli import command, options, output, progress, run_settings, tables
from hoodie.cli.views import locks
from hoodie.services import lock_breaking
from hoodie.transaction.locks import addresses, inspection

DETAILS = """`explain` tells who has the lock, since when, and what proves that it lives or died.
What proves death is what would give the lock to the next who wants it: an ended process of this
machine, a lease that is over, a silence beyond the server's time-out.

`break` takes the lock from a holder that is proved dead, and refuses while it may be alive. One
that lives on learns of its loss before it publishes anything.
"""
EXAMPLES = """Examples:

  hoodie lock explain /data/trips
  hoodie lock explain /data/trips --lock zookeeper://zk:2181/hudi/trips --watch 30
  hoodie lock break /data/trips
  hoodie lock break /data/trips --holder 0e7c9a52-6a4e-4a44-8f0f-6d6f4f9a7d10

A holder on another machine that is known to be gone cannot be proved dead from here: --holder names
it, by the id that `explain` shows, so that nobody else's lock is broken by mistake.
"""


class Action(enum.Enum):
    """What to do."""

    EXPLAIN = "explain"
    BREAK = "break"


def lock(  # noqa: PLR0913 - a parameter an option
    action: Annotated[Action, typer.Argument(metavar="explain|break", help="What to do.")],
    uri: options.TableUri,
    *,
    lock_text: options.LockText = None,
    holder: Annotated[
        str | None,
        typer.Option(
            metavar="ID", help="With break: take the lock from this holder, though it may be alive."
        ),
    ] = None,
    watch_s: Annotated[
        float,
        typer.Option(
            "--watch",
            metavar="SECONDS",
            min=0,
            help="Watch a holder that may be alive for so long.",
        ),
    ] = 0.0,
    set_texts: options.SetTexts = None,
    as_json: options.AsJson = False,
) -> None:
    """Explain who has a table's lock, or break a dead holder's."""
    if holder is not None and action is Action.EXPLAIN:
        raise typer.BadParameter("--holder goes with break only")
    run = run_settings.parse(set_texts, lock_text)
    with progress.Display() as display:
        opened = tables.open_table(uri, environment.system(), display)
        run_settings.check_facts(run.facts, opened.config)
        display.phase("looking at the lock")
        state = _done(opened, run.lock, action, watch_s, holder)
    shown = locks.document(opened.uri, state, run.settings, is_broken=action is Action.BREAK)
    if as_json:
        output.document(shown)
        return
    for line in locks.lines(shown):
        output.line(line)
    if action is Action.EXPLAIN and state.holding is not None:
        output.note(f"hint: {_hint(uri, lock_text, state.holding)}")


def _done(
    opened: table.Table,
    address: addresses.LockAddress,
    action: Action,
    watch_s: float,
    holder: str | None,
) -> lock_breaking.LockState:
    if action is Action.EXPLAIN:
        return opened.explain_lock(address, watch_s)
    try:
        return opened.break_lock(address, watch_s, holder)
    except errors.ConflictError:
        output.note("hint: `hoodie lock explain` tells all that is known, and how to insist")
        raise


def _hint(uri: str, lock_text: str | None, holding: inspection.Holding) -> str:
    words = ["hoodie", "lock", "break", uri, *(["--lock", lock_text] if lock_text else [])]
    match holding.liveness:
        case inspection.Liveness.DEAD:
            return f"`{shlex.join(words)}` gives the lock free now"
        case inspection.Liveness.MAYBE:
            insisting = shlex.join([*words, "--holder", holding.holder.id])
            return f"once you know that it is dead, `{insisting}` takes the lock from it"
        case inspection.Liveness.ALIVE:
            return "wait for it, or end its process"


COMMAND = command.Command(
    run=lock,
    details=DETAILS,
    examples=EXAMPLES,
)
