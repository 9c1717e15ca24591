"""The objects of a state folder, for commands that print them."""

from collections.abc import Mapping
from pathlib import Path

from hoodie import errors
from hoodie_operator.api import kinds, objects
from hoodie_operator.commands import options
from hoodie_operator.reconcile import verdicts
from hoodie_operator.standalone import ownership, printing, reporting, store


def objects_of(state: Path, kind: kinds.Kind | None, name: str | None) -> list[objects.AnyObject]:
    """Return the objects of a kind or of all, or one of a kind; tell where no operator runs.

    Raises:
        NotFoundError: There is no such folder, or no such object.
    """
    if not state.is_dir():
        raise errors.NotFoundError(
            f"{state} is not a state folder: no operator has run with it. Pass --state, or set "
            f"{options.STATE_VARIABLE}"
        )
    found = chosen(store.load(state), kind, name)
    if ownership.owner_of(state) is None and not all(map(verdicts.is_settled, found)):
        # "Running" would not be true.
        told = f"no operator runs on {state}: this is the state that the last one left"
        options.ERR.print(told, markup=False, soft_wrap=True)
    refused = [
        each
        for each in store.load_refused(state)
        if each.key is None
        or kind is None
        or (each.key.kind == kind.name and name in (None, each.key.name))
    ]
    if refused:
        # What is printed is what goes on, and not what the manifests say.
        options.ERR.print("refused; the previous declarations stay in effect:", markup=False)
        options.ERR.print(reporting.problems_text(refused), markup=False, soft_wrap=True)
    if kind is not None and name is not None and not found:
        raise errors.NotFoundError(f"{kind.name} {name} does not exist")
    return found


def asked_for(kind: str, name: str | None) -> tuple[kinds.Kind, str | None]:
    """Return which objects are meant: `writer trips`, `writer/trips`, or `writers`.

    Raises:
        InvalidInputError: There is no such kind, or two names are given.
    """
    kind_text, slash, after = kind.partition("/")
    if slash and (name is not None or not after):
        given = kind if name is None else f"{kind} {name}"
        raise errors.InvalidInputError(f"{given}: expected KIND NAME, or KIND/NAME")
    return printing.kind_named(kind_text), after or name


def one_asked_for(kind: str, name: str | None) -> tuple[kinds.Kind, str]:
    """Return which object is meant: `writer trips` or `writer/trips`.

    Raises:
        InvalidInputError: As of `asked_for`, or there is no name.
    """
    found, chosen_name = asked_for(kind, name)
    if chosen_name is None:
        raise errors.InvalidInputError(f"{kind}: expected KIND NAME, or KIND/NAME")
    return found, chosen_name


def chosen(
    everything: Mapping[objects.ObjectKey, objects.AnyObject],
    kind: kinds.Kind | None,
    name: str | None,
) -> list[objects.AnyObject]:
    """Return the objects of a kind or of all, or one of a kind, as people look at them."""
    return [
        each
        for each in reporting.ordered(everything)
        if kind is None or (each.key.kind == kind.name and name in (None, each.name))
    ]
