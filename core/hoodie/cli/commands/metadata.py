"""`hoodie metadata`: the metadata table beside a table's files: made, shown, compared, dropped."""

import enum
from typing import Annotated

import typer

from hoodie import environment, errors
from hoodie.cli import command, options, output, progress, run_settings, tables
from hoodie.cli.views import metadata_tables as views
from hoodie.transaction import authors

DETAILS = """A metadata table, in `.hoodie/metadata`, lists the data files of a table, and holds
statistics and indexes. Every write, compaction, clean and rollback keeps it up. Reads take the
files from it instead of listing the storage. If it lacks a change of the table, or is damaged, they
list the storage, and show a warning.

`init` makes one from the files on storage, while writers continue; batches that began before are
refused once, and have to be written again. As Apache Hudi does by default, it makes statistics of
the columns of files, and of partitions if there are any: from footers of base files, from columns
where footers are not enough, and from the rows of log files. With --files-only it lists files only.
With --rebuild one that is there is dropped first, with all its indexes. All but statistics of the
columns by default are then built again beside writers, which takes their lock (`hoodie index
build`); with --files-only they are not.

`drop` removes it, whichever engine made it. Apache Hudi makes a new one with its next write unless
that has `hoodie.metadata.enable=false`.

`status` shows its partitions and whether reads use it.

`validate` compares the files in it with the committed files on storage, and its statistics, bloom
filters, record index, secondary and expression indexes with what is in the files: a line for each
difference. Indexes may include more than there is. Files of writes that have not completed do not
count, and writers may continue meanwhile. The exit code is 1 if there are differences.
"""
EXAMPLES = """Examples:

  hoodie metadata init /data/trips
  hoodie metadata status /data/trips
  hoodie metadata validate /data/trips --json
"""


class Action(enum.Enum):
    """What to do."""

    STATUS = "status"
    INIT = "init"
    VALIDATE = "validate"
    DROP = "drop"


def metadata(  # noqa: PLR0913 - one for each option
    action: Annotated[
        Action, typer.Argument(metavar="status|init|validate|drop", help="The action.")
    ],
    uri: options.TableUri,
    *,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="With init: drop the one that is there first.")
    ] = False,
    files_only: Annotated[
        bool, typer.Option("--files-only", help="With init: without statistics.")
    ] = False,
    lock: options.LockText = None,
    set_texts: options.SetTexts = None,
    as_json: options.AsJson = False,
) -> int:
    """Show, make, validate or drop a table's metadata table."""
    for name, is_given in (("--rebuild", rebuild), ("--files-only", files_only)):
        if is_given and action is not Action.INIT:
            raise typer.BadParameter(f"{name} is an option of init only")
    if action is Action.VALIDATE:
        return _validate(uri, as_json)
    # Indexes are built again beside writers.
    parse = run_settings.parse_beside_writers if rebuild else run_settings.parse_for_service
    run = parse(uri, set_texts, lock)
    left_out: list[str] = []
    with progress.Display() as display:
        opened = tables.open_table(uri, environment.system(), display)
        if action is not Action.STATUS:
            run_settings.check_facts(run.facts, opened.config)
            transaction = run.transaction(authors.Author())
            display.phase("listing files" if action is Action.INIT else "dropping")
            if action is Action.INIT:
                opened = opened.initialise_metadata(
                    transaction,
                    is_rebuilt=rebuild,
                    has_statistics=not files_only,
                    hear=lambda path: display.phase(f"looking into {path or '.'}"),
                    hear_left_out=left_out.append,
                )
            else:
                opened.drop_metadata(transaction)
                opened = tables.open_table(uri, environment.system(), display)
        display.phase("reading the metadata table")
        shown = views.status(opened.uri, opened.metadata_status())
    _print(shown, as_json)
    for each in left_out:
        output.note(each)
    return errors.EXIT_DONE


def _print(shown: views.StatusDocument, as_json: bool) -> None:
    if as_json:
        output.document(shown)
        return
    if shown.partitions:
        output.grid(views.grid(shown))
    for line in views.status_lines(shown):
        output.line(line)


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
