"""`hudi-operator get`: objects of a state folder, one a line."""

import sys
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from hoodie import clock, errors
from hoodie_operator.api import kinds, objects
from hoodie_operator.commands import options, stored
from hoodie_operator.standalone import printing, store, watching

_WATCH_PERIOD_S = 0.5


class Output(Enum):
    """Forms of `get`."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"


def get(
    kind: Annotated[
        str,
        typer.Argument(
            help="Kind: tables, writers, actions, policies, indexes, locks and others, or all."
        ),
    ] = printing.ALL,
    name: Annotated[str | None, typer.Argument(help="The object's name.")] = None,
    output: Annotated[Output, typer.Option("-o", "--output", help="Output format.")] = Output.TABLE,
    watch: Annotated[
        bool,
        typer.Option("-w", "--watch", metavar="", help="Continue with a line for each change."),
    ] = False,
    state: options.State = options.STATE_DEFAULT,
) -> None:
    """Print objects, with the reason of everything that does not run."""
    chosen = None
    if kind.lower() != printing.ALL:
        chosen, name = stored.asked_for(kind, name)
    elif name is not None:
        raise errors.InvalidInputError(f"get all {name}: expected the kind of {name}")
    found = stored.objects_of(state, chosen, name)
    if watch:
        if output is Output.JSON:
            raise errors.InvalidInputError("get --watch prints tables, expected it without -o json")
        lines = watching.Watch(chosen, is_wide=output is Output.WIDE)
        _watch(found, state, chosen, name, lines)
    if output is Output.JSON:
        sys.stdout.write(printing.get_json(found, is_one=name is not None))
        return
    is_wide, now_ms = output is Output.WIDE, clock.SystemClock().now_ms()
    if chosen is None:
        sys.stdout.write(printing.get_all(found, is_wide=is_wide, now_ms=now_ms))
    else:
        sys.stdout.write(printing.get(found, chosen, is_wide=is_wide, now_ms=now_ms))


def _watch(
    found: Sequence[objects.AnyObject],
    state: Path,
    kind: kinds.Kind | None,
    name: str | None,
    watch: watching.Watch,
) -> NoReturn:
    """Print objects, and each again when it changes or goes, until interrupted."""
    our_clock = clock.SystemClock()
    while True:
        sys.stdout.writelines(f"{line}\n" for line in watch.lines(found, our_clock.now_ms()))
        sys.stdout.flush()
        our_clock.sleep_s(_WATCH_PERIOD_S)
        found = stored.chosen(store.load(state), kind, name)
