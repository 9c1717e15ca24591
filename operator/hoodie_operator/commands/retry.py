"""`hudi-operator retry`: another attempt of what has failed."""

from typing import Annotated

import typer

from hoodie import clock, errors
from hoodie_operator.api import objects
from hoodie_operator.api.conditions import Type
from hoodie_operator.commands import options, stored
from hoodie_operator.standalone import ownership, reporting, retry_requests, store


def retry(
    kind: Annotated[str, typer.Argument(help="Kind: table, writer, action, policy or index.")],
    name: Annotated[str | None, typer.Argument(help="The object's name.")] = None,
    state: options.State = options.STATE_DEFAULT,
) -> None:
    """Ask for another attempt of what has failed, or for a sooner one.

    Failures are counted anew, as after a change of the manifest. Of an object whose work is done by
    TableActions those that have failed are tried again.
    """
    (found,) = stored.objects_of(state, *stored.one_asked_for(kind, name))
    family = (found, *reporting.made_for(found, store.load(state).values()))
    due = [each for each in family if retry_requests.is_due(each.status)]
    if not due:
        raise errors.InvalidInputError(f"{found.key} has no failed attempt{_standing(found)}")
    now_ms = clock.SystemClock().now_ms()
    for each in due:
        retry_requests.leave(state, each.key, now_ms)
        typer.echo(f"{each.key}: another attempt is asked for")
    if ownership.owner_of(state) is None:
        options.ERR.print(f"no operator runs on {state}: the next one will begin it", markup=False)


def _standing(found: objects.AnyObject) -> str:
    ready = found.status.condition(Type.READY)
    return "" if ready is None else f": {found.status.state}: {ready.message}"
