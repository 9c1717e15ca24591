"""`hudi-operator diff`: what manifests would change."""

import dataclasses
import json
import sys
from enum import Enum
from typing import Annotated

import typer

from hoodie import clock, errors
from hoodie_operator.commands import options
from hoodie_operator.standalone import applying, diffing, reporting, store
from hoodie_operator.standalone.diffing import Change
from hoodie_operator.standalone.folder import Folder

_SIGNS = {
    Change.CREATED: ("+", "green"),
    Change.CHANGED: ("~", "yellow"),
    Change.DELETED: ("-", "red"),
}


class Output(Enum):
    """Forms of `diff`."""

    TEXT = "text"
    JSON = "json"


def diff(
    filename: options.Manifests,
    output: Annotated[Output, typer.Option("-o", "--output", help="Output format.")] = Output.TEXT,
    prune: Annotated[
        bool,
        typer.Option("--prune", metavar="", help="Delete what has no manifest, as standalone."),
    ] = False,
    state: options.State = options.STATE_DEFAULT,
) -> None:
    """Print what manifests would change, and change nothing.

    Compared are the manifests and the objects of the state folder; without one, everything is new.
    Exit code 0: nothing would change; 1: something would; 20: something is refused.
    """
    folder = Folder(filename)
    declared = options.declared(folder, filename)
    stored = store.load(state)
    changes = applying.apply(
        stored,
        declared,
        may_prune=prune,
        now_ms=clock.SystemClock().now_ms(),
        new_uid=str,
    )
    found = diffing.differences(stored, changes)
    if output is Output.JSON:
        sys.stdout.write(json.dumps([_document(each) for each in found], indent=2) + "\n")
    else:
        for each in found:
            _print(each)
        if not found:
            options.ERR.print("nothing would change", markup=False)
    if changes.protected:
        names = ", ".join(map(str, changes.protected))
        options.ERR.print(f"kept, because deletionProtection is on: {names}", markup=False)
    problems = (*declared.problems, *changes.problems)
    if problems:
        options.ERR.print("refused:", markup=False)
        options.ERR.print(reporting.problems_text(problems), markup=False, soft_wrap=True)
        raise typer.Exit(errors.InvalidInputError.exit_code)
    if found:
        raise typer.Exit(errors.EXIT_FINDINGS)


def _print(found: diffing.Difference) -> None:
    sign, style = _SIGNS[found.change]
    options.OUT.print(f"{sign} {found.key}", style=style, markup=False, soft_wrap=True)
    for each in found.fields:
        told = f"    {each.path}: {_shown(each.before)} -> {_shown(each.after)}"
        options.OUT.print(told, markup=False, soft_wrap=True)


def _shown(value: object) -> str:
    return "not set" if value is None else json.dumps(value, ensure_ascii=False)


def _document(found: diffing.Difference) -> dict[str, object]:
    key = dataclasses.asdict(found.key)
    fields = [dataclasses.asdict(each) for each in found.fields]
    return {**key, "change": found.change.value, "fields": fields}
