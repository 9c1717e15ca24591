"""`hoodie savepoint`: commits whose files are kept, whatever is cleaned."""

import enum
from typing import Annotated

import typer

from hoodie import environment
from hoodie.cli import command, options, output, progress, quantities, run_settings, tables
from hoodie.cli.views import savepoints as views
from hoodie.maintenance import savepoints
from hoodie.model import instants, time_zones
from hoodie.transaction import authors

DETAILS = """A savepoint keeps all files of a commit: cleaning does not delete them, and archiving
does not pass the commit, until the savepoint is deleted. Apache Hudi lists, deletes and restores
them like its own.

`create` refuses a commit of which files were cleaned, or are in the plan of a pending clean. It may
be repeated: a commit that has a savepoint with the same comment is left as it is.

`delete` removes the savepoint of one commit, or with --older-than all whose age exceeds a limit.
The age counts up to the newest instant on the table's timeline, so that no clock that is ahead
deletes a savepoint. The files are left to the next clean.
"""
EXAMPLES = """Examples:

  hoodie savepoint create /data/trips --comment "before the migration"
  hoodie savepoint create /data/trips --instant 20261121093012345
  hoodie savepoint list /data/trips
  hoodie savepoint delete /data/trips --instant 20261121093012345
  hoodie savepoint delete /data/trips --older-than 7d
"""


class Action(enum.Enum):
    """What to do."""

    CREATE = "create"
    LIST = "list"
    DELETE = "delete"


def savepoint(  # noqa: PLR0913 - a parameter an option
    action: Annotated[Action, typer.Argument(metavar="create|list|delete", help="The action.")],
    uri: options.TableUri,
    *,
    instant: Annotated[
        str | None,
        typer.Option(
            metavar="INSTANT",
            help="The requested time of the commit; with create, the newest one by default.",
        ),
    ] = None,
    comment: Annotated[
        str | None, typer.Option(metavar="TEXT", help="With create: why it is kept.")
    ] = None,
    older_than: Annotated[
        str | None,
        typer.Option(
            metavar="AGE", help="With delete: every savepoint of a greater age, such as 36h or 7d."
        ),
    ] = None,
    lock: options.LockText = None,
    set_texts: options.SetTexts = None,
    as_json: options.AsJson = False,
) -> None:
    """Create, list or delete savepoints."""
    _check_options(action, instant=instant, comment=comment, older_than=older_than)
    run = run_settings.parse_for_service(uri, set_texts, lock)
    commit = instants.checked_time(instant) if instant is not None else None
    age_ms = quantities.duration_ms(older_than) if older_than is not None else None
    env = environment.system()
    with progress.Display() as display:
        opened = tables.open_table(uri, env, display)
        run_settings.check_facts(run.facts, opened.config)
        display.phase(f"{action.value} savepoints")
        shown: views.Document | views.DeletedDocument
        if action is Action.CREATE:
            wanted = savepoints.Wanted(commit=commit, comment=comment or "")
            created = opened.create_savepoint(wanted, run.transaction(authors.Author()))
            shown = views.document(opened.uri, [created])
        elif action is Action.LIST:
            shown = views.document(opened.uri, opened.savepoints())
        else:
            commits = frozenset() if commit is None else frozenset((commit,))
            doomed = savepoints.Doomed(commits=commits, older_than_ms=age_ms)
            deleted = opened.delete_savepoints(doomed, run.transaction(authors.Author()))
            shown = views.deleted(opened.uri, deleted)
    if as_json:
        output.document(shown)
    else:
        _print(action, shown, opened.config.time_zone, env.clock.now_ms())


def _check_options(
    action: Action, *, instant: str | None, comment: str | None, older_than: str | None
) -> None:
    if comment is not None and action is not Action.CREATE:
        raise typer.BadParameter("--comment is an option of create only")
    if older_than is not None and action is not Action.DELETE:
        raise typer.BadParameter("--older-than is an option of delete only")
    if instant is not None and action is Action.LIST:
        raise typer.BadParameter("--instant is an option of create and delete")
    if action is Action.DELETE and (instant is None) == (older_than is None):
        raise typer.BadParameter("expected one of --instant and --older-than")


def _print(
    action: Action,
    shown: views.Document | views.DeletedDocument,
    zone: time_zones.TimeZone | None,
    now_ms: int,
) -> None:
    if isinstance(shown, views.DeletedDocument):
        for each in shown.deleted:
            output.line(f"deleted savepoint {each}")
        if not shown.deleted:
            output.line("no savepoint is that old")
    elif action is Action.CREATE:
        output.line(views.created_line(shown.savepoints[0]))
    elif shown.savepoints:
        output.grid(views.grid(shown, zone, now_ms))
        for line in quantities.age_notes(zone):
            output.note(line)
    else:
        output.line("no savepoints")


COMMAND = command.Command(
    run=savepoint,
    details=DETAILS,
    examples=EXAMPLES,
)
