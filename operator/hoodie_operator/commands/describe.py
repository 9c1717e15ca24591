"""`hudi-operator describe`: everything about objects of a state folder."""

import sys
from typing import Annotated

import typer

from hoodie import clock
from hoodie_operator.commands import options, stored
from hoodie_operator.standalone import printing, processes, reporting, store


def describe(
    kind: Annotated[str, typer.Argument(help="Kind: table, writer, action, policy or lock.")],
    name: Annotated[str | None, typer.Argument(help="The object's name.")] = None,
    state: options.State = options.STATE_DEFAULT,
) -> None:
    """Print the details of objects: spec, status, attempts, conditions."""
    everything = store.load(state)
    refused = store.load_refused(state)
    runs = processes.Processes(state, clock.SystemClock())
    texts = []
    for found in stored.objects_of(state, *stored.asked_for(kind, name)):
        owned = reporting.made_for(found, everything.values())
        told = [each for each in refused if each.key == found.key]
        texts.append(printing.describe(found, owned, told, runs.log([found.uid])))
    sys.stdout.write("\n\n".join(texts))
