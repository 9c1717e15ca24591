"""`hudi-operator logs`: what the attempts of an object have printed."""

import sys
from collections import deque
from typing import Annotated

import typer

from hoodie import clock, errors
from hoodie_operator.commands import options, stored
from hoodie_operator.standalone import processes, reporting, store

_PERIOD_S = 0.3


def logs(
    kind: Annotated[str, typer.Argument(help="Kind: table, writer, action, policy or index.")],
    name: Annotated[str | None, typer.Argument(help="The object's name.")] = None,
    attempt: Annotated[
        int | None, typer.Option("--attempt", metavar="N", help="An attempt; default: the newest.")
    ] = None,
    tail: Annotated[
        int | None, typer.Option("--tail", metavar="N", min=0, help="Print the last N lines only.")
    ] = None,
    follow: Annotated[
        bool,
        typer.Option("-f", "--follow", metavar="", help="Print what is added until it has ended."),
    ] = False,
    state: options.State = options.STATE_DEFAULT,
) -> None:
    """Print the log of the newest attempt.

    Of an object whose work is done by TableActions it is the log of the newest of these.
    """
    (found,) = stored.objects_of(state, *stored.one_asked_for(kind, name))
    made = reporting.made_for(found, store.load(state).values())
    uids = [each.uid for each in (found, *made)]
    log = processes.Processes(state, clock.SystemClock()).log(uids, attempt)
    if log is None:
        which = "no attempt yet" if attempt is None else f"no log of an attempt {attempt}"
        raise errors.NotFoundError(f"{found.key} has {which}")
    with log.open(errors="replace") as file:
        sys.stdout.writelines(file if tail is None else deque(file, maxlen=tail))
        while follow:
            # Asked before it is read: what was printed last is not missed.
            is_last = processes.has_ended(log)
            sys.stdout.writelines(file)
            sys.stdout.flush()
            if is_last:
                break
            clock.SystemClock().sleep_s(_PERIOD_S)
