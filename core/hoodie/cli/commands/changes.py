"""`hoodie changes`: what changed in a table since a position."""

from pathlib import Path
from typing import Annotated

import typer

from hoodie import environment, errors, table
from hoodie.cli import command, options, output, progress, quantities, row_files, row_output, tables
from hoodie.maintenance import consumers
from hoodie.model import moments
from hoodie.read import change_data, positions, travel
from hoodie.read import changes as row_changes
from hoodie.read import where as where_text
from hoodie.storage import local_files

DETAILS = """Each changed row comes once, as it is at the end of the range, with the column _change
before the others: upsert, or delete with the columns of its key and partition alone. Rows that lost
against others by their order did not change. Without a position all rows come, as upserts.

The position after them is printed to standard error, or kept in the file of --position, which the
next run begins at: it changes only when all rows were written. --consumer begins where a declared
consumer is, and with --advance records the new position; cleaning waits for it.

What was cleaned or trimmed since the position is an error, and so are writes that were rolled back
since. With --or-all all rows come then, and a note says so: what a reader has and they have not is
gone. A write that completed at or below the position after it was given out is not left out; a
warning names it.

With --where those of the changed rows come that meet a filter as they are at the end: not those
that met it before, and meet it no more. Of deleted rows it sees the columns of key and partition;
all others are null. `hoodie read --help` has its grammar.

With --rule requested the changes of writes come that were requested since, as Apache Hudi had it
before 1.0: up to the first write that is pending, whatever completed after it. The position is a
requested time then, and no write is found that another engine completes below it later.

With --cdc each change of each write comes, in the order in which the writes completed: op (i, u,
d), ts_ms (the requested time of the write), record_key, partition_path, and the rows before and
after, which CSV has as JSON. Without a position it begins with the first write. A table that was
created with --change-data is read faster; all others can be read as well.
"""
EXAMPLES = """Examples:

  hoodie changes /data/trips --position trips.position --output changes.parquet
  hoodie changes /data/trips --since "2026-11-21 09:30" --no-deletes
  hoodie changes /data/trips --position rome.position --where "city = 'Rome'" --output rome.parquet
  hoodie changes /data/trips --consumer billing --advance --json
  hoodie changes /data/trips --since "2 hours ago" --cdc --json

`hoodie read --help` has the forms of times, under --as-of.
"""


def changes(  # noqa: PLR0913 - a parameter an option
    uri: options.TableUri,
    *,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="POSITION", help="A position, an instant, or a time, such as '2 hours ago'."
        ),
    ] = None,
    position: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Where the position is kept; it may not be there yet."),
    ] = None,
    consumer: Annotated[
        str | None, typer.Option(metavar="NAME", help="Begin where this consumer is.")
    ] = None,
    advance: Annotated[
        bool,
        typer.Option("--advance", metavar="", help="With --consumer: record the new position."),
    ] = False,
    columns: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Columns, in this order.", show_default="all"),
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(
            metavar="EXPR", help="Filter of rows, as they are at the end.", show_default="all"
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            metavar="MOMENT", help="An instant or a time to read up to.", show_default="now"
        ),
    ] = None,
    no_deletes: Annotated[
        bool, typer.Option("--no-deletes", metavar="", help="Leave deleted rows out.")
    ] = False,
    ordered: Annotated[
        bool,
        typer.Option(
            "--ordered", metavar="", help="End before writes that are younger than a pending one."
        ),
    ] = False,
    rule: Annotated[
        moments.Rule,
        typer.Option(
            metavar="RULE", help="By which times of writes: completion, or requested as before 1.0."
        ),
    ] = moments.Rule.COMPLETION,
    or_all: Annotated[
        bool,
        typer.Option("--or-all", metavar="", help="Read all rows where the changes are gone."),
    ] = False,
    cdc: Annotated[
        bool,
        typer.Option(
            "--cdc", metavar="", help="Read each change of each write, the rows before and after."
        ),
    ] = False,
    net: Annotated[
        bool,
        typer.Option(
            "--net", metavar="", help="With --cdc: one change of each key, of all writes."
        ),
    ] = False,
    output_path: Annotated[
        str,
        typer.Option(
            "--output", metavar="FILE", help="A .parquet or .csv file; - is standard output."
        ),
    ] = row_files.STANDARD_OUTPUT,
    as_json: options.AsJson = False,
) -> None:
    """Read what changed since a position."""
    if sum(each is not None for each in (since, position, consumer)) > 1:
        raise typer.BadParameter("expected one of --since, --position and --consumer")
    if advance and consumer is None:
        raise typer.BadParameter("--advance goes with --consumer")
    if net and not cdc:
        raise typer.BadParameter("--net goes with --cdc")
    if cdc and (no_deletes or or_all or where is not None):
        raise typer.BadParameter("--no-deletes, --or-all and --where do not go with --cdc")
    if rule is moments.Rule.REQUESTED and (cdc or or_all or consumer is not None):
        raise typer.BadParameter("--cdc, --or-all and --consumer do not go with --rule requested")
    row_output.check(output_path, uri)
    predicate = None if where is None else where_text.parse(where)
    begin = since if position is None else _kept(Path(position))
    with progress.Display() as display:
        opened = tables.open_table(uri, environment.system(), display)
        display.phase("planning")
        names = None if columns is None else options.names(columns, "--columns")
        found: row_changes.Changes | change_data.ChangeData
        if cdc:
            found = opened.change_data(
                begin,
                consumer=consumer,
                columns=names,
                until=until,
                is_ordered=ordered,
                is_net=net,
            )
        else:
            found = opened.changes(
                begin if rule is moments.Rule.COMPLETION else travel.requested_since(begin),
                consumer=consumer,
                columns=names,
                where=predicate,
                until=until,
                has_deletes=not no_deletes,
                is_ordered=ordered,
                falls_back=or_all,
            )
        display.phase("reading")
        rows = found.read()
        if output_path != row_files.STANDARD_OUTPUT:
            row_output.to_file(rows, opened.uri, output_path, display, as_json=as_json)
        else:
            row_files.write_standard_output(rows, display.rows, is_json=as_json)
            display.close()
    _keep(opened, found, position, consumer if advance else None)


def _kept(path: Path) -> str | None:
    """Return the position in a file; None where there is no file."""
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise errors.InvalidInputError(f"cannot read the position in {path}: {error}") from error


def _keep(
    opened: table.Table,
    found: row_changes.Changes | change_data.ChangeData,
    path: str | None,
    consumer: str | None,
) -> None:
    """Keep the new position where the next run looks for it, and show it."""
    if path is not None:
        target, content = Path(path), f"{found.position}\n".encode()
        with (
            local_files.reported("write", path),
            local_files.temporary_file(target, content, is_durable=True) as temporary,
        ):
            temporary.replace(target)
    if consumer is not None:
        reached = positions.of_completion(found.position)
        progressed = consumers.Progress(to=reached.time, position=str(reached))
        opened.advance_consumer(consumer, progressed)
    is_all = isinstance(found, row_changes.Changes) and found.is_snapshot
    what = "all rows" if is_all else quantities.counted(len(found.writes), "write")
    output.note(f"{what}; position {found.position}")


COMMAND = command.Command(
    run=changes,
    details=DETAILS,
    examples=EXAMPLES,
)
