"""`hoodie metadata`: the metadata table that another engine keeps beside a table's files."""

import enum
from typing import Annotated

import typer

from hoodie import environment, errors
from hoodie.cli import command, options, output, progress, tables
from hoodie.cli.views import metadata_tables as views

DETAILS = """A metadata table, in `.hoodie/metadata`, lists the data files of a table, and holds
statistics and indexes. Reads take the files from it instead of listing the storage. If it lacks a
change of the table, or is damaged, they list the storage, and show a warning.

`status` shows its partitions and whether reads use it.

`validate` compares the files in it with the committed files on storage, and its column statistics
with the footers of base files: a line for each difference. Files of writes that have not completed
do not count, and writers may continue meanwhile. The exit code is 1 if there are differences.
"""
EXAMPLES = """Examples:

  hoodie metadata status /data/trips
  hoodie metadata validate /data/trips --json
"""


class Action(enum.Enum):
    """What to do."""

    STATUS = "status"
    VALIDATE = "validate"


def metadata(
    action: Annotated[Action, typer.Argument(metavar="status|validate", help="The action.")],
    uri: options.TableUri,
    *,
    as_json: options.AsJson = False,
) -> int:
    """Show or validate a table's metadata table."""
    return _status(uri, as_json) if action is Action.STATUS else _validate(uri, as_json)


def _status(uri: str, as_json: bool) -> int:
    with progress.Display() as display:
        opened = tables.open_table(uri, environment.system(), display)
        display.phase("reading the metadata table")
        shown = views.status(opened.uri, opened.metadata_status())
    if as_json:
        output.document(shown)
        return errors.EXIT_DONE
    if shown.partitions:
        output.grid(views.grid(shown))
    for line in views.status_lines(shown):
        output.line(line)
    return errors.EXIT_DONE


def _validate(uri: str, as_json: bool) -> int:
    with progress.Display() as display:
        opened = tables.open_table(uri, environment.system(), display)
        display.phase("listing files")
        found = opened.validate_metadata(lambda path: display.phase(f"comparing {path or '.'}"))
        shown = views.validation(opened.uri, found)
    if as_json:
        output.document(shown)
    else:
        for line in views.validation_lines(shown):
            output.line(line)
        output.note(views.validation_summary(shown))
    return errors.EXIT_DONE if found.is_right else errors.EXIT_FINDINGS


COMMAND = command.Command(
    run=metadata,
    details=DETAILS,
    examples=EXAMPLES,
)
