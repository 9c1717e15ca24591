"""`hoodie history`: what became of one row."""

from typing import Annotated

import typer

from hoodie import environment, errors, table
from hoodie.cli import command, options, output, progress, quantities, row_files, tables
from hoodie.cli.views import histories

DETAILS = """Each write that changed the row comes with its instant, how long ago it completed,
what it was, and the columns that it changed; the newest last. With --json come the completion time,
and the rows before and after, one JSON object a write.

A key of several fields is given by their values, in the order of the fields, with commas between
them; of a table without key fields it is _hoodie_record_key. Without --partition the key is looked
for in all partitions.

What cannot be read any more, because files were cleaned, the table was restored or its history was
trimmed, comes as a line that says so. The line after it has the row as it was then, and the instant
that had written it.
"""
EXAMPLES = """Examples:

  hoodie history /data/trips --key 4711
  hoodie history /data/trips --key 4711 --partition city=Oslo --columns fare,tip
  hoodie history /data/orders --key 17,3 --since "2026-11-21 09:30" --json
  hoodie history /data/orders --key 17,3 --since "3 days ago"

`hoodie read --help` has the forms of times, under --as-of.
"""


def history(  # noqa: PLR0913 - a parameter an option
    uri: options.TableUri,
    *,
    key: Annotated[
        str, typer.Option(metavar="K[,..]", help="The values of the record key's fields.")
    ],
    partition: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="Path of the row's partition, such as city=Oslo.",
            show_default="all",
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Columns of the row.", show_default="all"),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="MOMENT", help="Begin after this instant or time.", show_default="first write"
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(metavar="MOMENT", help="An instant or a time to end at.", show_default="now"),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Show what became of one row."""
    env = environment.system()
    with progress.Display() as display:
        opened = tables.open_table(uri, env, display)
        display.phase("reading")
        (path,) = options.partition_paths([partition]) if partition is not None else (None,)
        found = opened.history(
            _values(key, opened),
            partition=path,
            columns=None if columns is None else options.names(columns, "--columns"),
            since=since,
            until=until,
        ).read()
        if as_json:
            row_files.write_standard_output(found, display.rows, is_json=True)
            return
        rows = found.read_all()
    if not rows.num_rows:
        output.line(f"no write that is known has changed a row of key {key}")
        return
    zone = opened.config.time_zone
    output.grid(histories.grid(rows, zone, env.clock.now_ms()))
    for line in (*quantities.age_notes(zone), *histories.notes(rows)):
        output.note(line)
    output.note(quantities.counted(histories.change_count(rows), "change"))


def _values(text: str, opened: table.Table) -> dict[str, str] | str:
    """Return the values of the key fields, or the key itself where it is generated.

    Raises:
        InvalidInputError: They are not so many.
    """
    fields = opened.config.record_key_fields
    if not fields:
        return text
    values = [text] if len(fields) == 1 else text.split(",")
    if len(values) != len(fields):
        raise errors.InvalidInputError(
            f"--key {text}: expected values of {', '.join(fields)}, with commas between them"
        )
    return dict(zip(fields, values, strict=True))


COMMAND = command.Command(
    run=history,
    details=DETAILS,
    examples=EXAMPLES,
)
