"""`hoodie tables`: the tables below a folder."""

from typing import Annotated

import typer

from hoodie import environment
from hoodie.cli import command, output, progress
from hoodie.cli.views import found_tables as view
from hoodie.services import finding

DETAILS = """All files below the folder are listed, those of tables as well: an object store takes
a request for each thousand of them. Tables that hoodie cannot read are listed with the reason.
"""
EXAMPLES = """Examples:

  hoodie tables /data
  hoodie tables s3://lake --json
"""


def tables(
    folder: Annotated[str, typer.Argument(metavar="URI", help="A folder, or a URI.")],
    *,
    as_json: Annotated[
        bool,
        typer.Option("--json", metavar="", help="Print one JSON document to standard output."),
    ] = False,
) -> None:
    """List the tables below a folder."""
    env = environment.system()
    with progress.Display() as display:
        display.phase("listing folders")
        found = finding.tables_below(
            folder, env, lambda done, total: display.count(done, total, "tables")
        )
    shown = view.document(env.open_storage(folder).uri, found)
    if as_json:
        output.document(shown)
        return
    if not found:
        output.line(f"there are no tables in {shown.folder}")
        return
    output.grid(view.grid(shown))
    for each in shown.tables:
        if each.problem is not None:
            output.note(f"note: {each.path}: {each.problem}")


COMMAND = command.Command(
    run=tables,
    details=DETAILS,
    examples=EXAMPLES,
)
