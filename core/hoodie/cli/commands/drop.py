"""`hoodie drop`: a table is deleted, with all of its files."""

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from hoodie import environment, errors
from hoodie.cli import command, options, output, progress, run_settings, tables
from hoodie.cli.views import drops
from hoodie.services import dropping
from hoodie.storage import protocol
from hoodie.transaction import authors, manager

DETAILS = """All files below the table's root are deleted, those of savepoints as well, and nothing
brings them back. The command asks for the table's name, or is given it by --name. It refuses while
a writer or service of the table is alive, and where another table lies in this one. If it is
interrupted, the same command continues.

A table that a HudiTable of the operator describes is dropped by deleting that, with deletionPolicy
Delete: its writers would otherwise continue, and the table might be created again. The command
refuses a table that a HudiTable has created or adopted, unless --unmanaged says that the HudiTable
is gone.
"""
EXAMPLES = """Examples:

  hoodie drop /data/trips --dry-run
  hoodie drop /data/trips
  hoodie drop s3://lake/trips --name trips --lock zookeeper://zk:2181/hudi/trips
"""


def drop(  # noqa: PLR0913 - a parameter an option
    uri: options.TableUri,
    *,
    name: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="The table's name, to confirm.", show_default="asked at a terminal"
        ),
    ] = None,
    unmanaged: Annotated[
        bool,
        typer.Option(
            "--unmanaged",
            metavar="",
            help="A HudiTable has created or adopted the table, and is gone.",
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", metavar="", help="Delete nothing; show what would be.")
    ] = False,
    lock: options.LockText = None,
    set_texts: options.SetTexts = None,
    as_json: options.AsJson = False,
) -> None:
    """Delete a table with all of its files."""
    env = environment.system()
    run = run_settings.parse_for_service(uri, set_texts, lock)
    storage = env.open_storage(uri)
    with progress.Display() as display:
        display.phase("looking at the table")
        infos = dropping.check_alone(storage)
        try:
            opened = tables.open_table(uri, env, display)
        except errors.NotFoundError:
            if not dropping.is_begun(storage):
                raise
            opened = None
    known = opened.config.name if opened is not None else None
    shown = drops.DropDocument(
        table=storage.uri,
        name=known,
        is_dry_run=dry_run,
        files=len(infos),
        bytes=sum(info.size_bytes for info in infos),
    )
    managed = _managed(infos) if opened is not None and not unmanaged else ""
    if managed and not dry_run:
        raise errors.InvalidInputError(f"{storage.uri} is not deleted: {managed}")
    if not dry_run:
        if opened is not None:
            _confirm(opened.config.name, drops.sizes(shown), name)
        with progress.Display() as display:
            if opened is not None:
                display.phase("checking for writers")
                target = manager.Target(storage=storage, config=opened.config, schema=opened.schema)
                dropping.begin(target, run.transaction(authors.Author()), env)
            display.phase("deleting")
            dropping.delete(storage, lambda done, total: display.count(done, total, "files"))
    if as_json:
        output.document(shown)
    else:
        output.line(drops.line(shown))
    if managed:
        output.note(f"note: {managed}")


def _managed(infos: Sequence[protocol.FileInfo]) -> str:
    """Return why a table may have a HudiTable; empty if nothing says so."""
    names = dropping.hudi_tables(infos)
    if not names:
        return ""
    return (
        f"the operator manages it, or did, as HudiTable {' and '.join(names)}. Delete that, with "
        "deletionPolicy Delete; if it is gone, add --unmanaged"
    )


def _confirm(wanted: str, sizes: str, given: str | None) -> None:
    """Have the table's name confirmed.

    Raises:
        InvalidInputError: It is another one, or there is no terminal.
    """
    if given is None:
        if not sys.stdin.isatty():
            raise errors.InvalidInputError(
                f"there is no terminal to ask at: expected --name {wanted}, which deletes {sizes}"
            )
        given = typer.prompt(f"This deletes {sizes}. Type the table's name to continue", err=True)
    if given != wanted:
        raise errors.InvalidInputError(
            f"the table's name is {wanted!r}, not {given!r}: nothing is deleted"
        )


COMMAND = command.Command(
    run=drop,
    details=DETAILS,
    examples=EXAMPLES,
)
