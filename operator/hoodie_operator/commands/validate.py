"""`hudi-operator validate`: manifests checked."""

import sys

import typer

from hoodie import errors
from hoodie_operator.commands import options
from hoodie_operator.standalone import reporting, validating
from hoodie_operator.standalone.folder import Folder


def validate(filename: options.Manifests, data: options.Data = None) -> None:
    """Validate manifests without changes.

    Enumerations may be in another case, as standalone takes them; what an API server would refuse
    for that is printed.
    """
    folder = Folder(filename)
    state = options.declared(folder, filename)
    problems = validating.problems(state, str(options.data_root(folder, data)))
    if problems:
        options.ERR.print(reporting.problems_text(problems), markup=False, soft_wrap=True)
        raise typer.Exit(errors.InvalidInputError.exit_code)
    for manifest in state.declared:
        for note in manifest.respelled:
            options.ERR.print(str(note), markup=False, soft_wrap=True)
        sys.stdout.write(f"{manifest.key.kind}/{manifest.key.name} is valid\n")
