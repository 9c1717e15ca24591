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

DETAILS = """`explain` shows the holder of the lock, since when it holds it, and the evidence that
it is alive or dead. A holder is proved dead by whatever would give the lock to the next process:
its process on this machine has ended, its lease has expired, or its silence exceeds the timeout of
the server.

The purpose says what depends on the lock: in a table without foreign writers nothing does (`hoodie
configure`).

`break` takes the lock from a holder that is proved dead, and refuses while the holder may be alive.
A holder that is still alive notices the loss before it publishes anything.
"""
EXAMPLES = """Examples:

  hoodie lock explain /data/trips
  hoodie lock explain /data/trips --lock zookeeper://zk:2181/hudi/trips --watch 30
  hoodie lock break /data/trips
  hoodie lock break /data/trips --holder 0e7c9a52-6a4e-4a44-8f0f-6d6f4f9a7d10

A holder on another machine cannot be proved dead from here. If you are sure that it is dead, name
it with --holder and the id that `explain` shows, so that no other holder loses the lock by mistake.
"""


class Action(enum.Enum):
    """What to do."""

    EXPLAIN = "explain"
    BREAK = "break"


def lock(  # noqa: PLR0913 - a parameter an option
    action: Annotated[Action, typer.Argument(metavar="explain|break", help="The action.")],
    uri: options.TableUri,
    *,
    lock_text: options.LockText = None,
    holder: Annotated[
        str | None,
        typer.Option(
            metavar="ID", help="With break: take the lock from this holder even if it may be alive."
        ),
    ] = None,
    watch_s: Annotated[
        float,
        typer.Option(
            "--watch",
            metavar="SECONDS",
            min=0,
            help="Watch a holder that may be alive for this time.",
        ),
    ] = 0.0,
    set_texts: options.SetTexts = None,
    as_json: options.AsJson = False,
) -> None:
    """Explain who has a table's lock, or break a dead holder's."""
    if holder is not None and action is Action.EXPLAIN:
        raise typer.BadParameter("--holder is an option of break only")
    run = run_settings.parse(uri, set_texts, lock_text)
    with progress.Display() as display:
        opened = tables.open_table(uri, environment.system(), display)
        run_settings.check_facts(run.facts, opened.config)
        display.phase("inspecting the lock")
        state = _done(opened, run.lock, action, watch_s, holder)
    shown = locks.document(
        opened.uri, opened.config, state, run.settings, is_broken=action is Action.BREAK
    )
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
        output.note(
            "hint: `hoodie lock explain` shows the evidence, and how to break the lock regardless"
        )
        raise


def _hint(uri: str, lock_text: str | None, holding: inspection.Holding) -> str:
    words = ["hoodie", "lock", "break", uri, *(["--lock", lock_text] if lock_text else [])]
    match holding.liveness:
        case inspection.Liveness.DEAD:
            return f"`{shlex.join(words)}` releases the lock now"
        case inspection.Liveness.MAYBE:
            insisting = shlex.join([*words, "--holder", holding.holder.id])
            return f"if you are sure that it is dead, `{insisting}` takes the lock from it"
        case inspection.Liveness.ALIVE:
            return "wait for it, or stop its process"


COMMAND = command.Command(
    run=lock,
    details=DETAILS,
    examples=EXAMPLES,
)
