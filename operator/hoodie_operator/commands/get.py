"""`hudi-operator get`: objects of a state folder, one a line."""

import sys
from enum import Enum
from typing import Annotated

import typer

from hoodie import clock
from hoodie_operator.commands import options, stored
from hoodie_operator.standalone import printing


class Output(Enum):
    """Forms of `get`."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"


def get(
    kind: Annotated[
        str, typer.Argument(help="Kind: tables, writers, actions, policies, indexes or locks.")
    ],
    name: Annotated[str | None, typer.Argument(help="The object's name.")] = None,
    output: Annotated[Output, typer.Option("-o", "--output", help="Output format.")] = Output.TABLE,
    state: options.State = options.STATE_DEFAULT,
) -> None:
    """Print objects, with the reason of everything that does not run."""
    found = stored.objects_of(state, printing.kind_named(kind), name)
    if output is Output.JSON:
        sys.stdout.write(printing.get_json(found, is_one=name is not None))
    else:
        text = printing.get(
            found,
            printing.kind_named(kind),
            is_wide=output is Output.WIDE,
            now_ms=clock.SystemClock().now_ms(),
        )
        sys.stdout.write(text)
