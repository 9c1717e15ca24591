"""`hudi-operator get`: objects of a state folder, one a line."""

import sys
from enum import Enum
from typing import Annotated

import typer

from hoodie import clock, errors
from hoodie_operator.commands import options, stored
from hoodie_operator.standalone import printing


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
    state: options.State = options.STATE_DEFAULT,
) -> None:
    """Print objects, with the reason of everything that does not run."""
    chosen = None if kind.lower() == printing.ALL else printing.kind_named(kind)
    if chosen is None and name is not None:
        raise errors.InvalidInputError(f"get all {name}: expected the kind of {name}")
    found = stored.objects_of(state, chosen, name)
    if output is Output.JSON:
        sys.stdout.write(printing.get_json(found, is_one=name is not None))
        return
    is_wide, now_ms = output is Output.WIDE, clock.SystemClock().now_ms()
    if chosen is None:
        sys.stdout.write(printing.get_all(found, is_wide=is_wide, now_ms=now_ms))
    else:
        sys.stdout.write(printing.get(found, chosen, is_wide=is_wide, now_ms=now_ms))
