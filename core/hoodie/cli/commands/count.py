"""`hoodie count`: how many rows a table has."""

from typing import Annotated

import typer

from hoodie import environment
from hoodie.cli import command, options, output, progress, quantities, tables
from hoodie.cli.views import outcomes
from hoodie.read import where as where_text

DETAILS = """Without a filter, only the footers of file slices without changes are read. With
--read-optimized changes since the compaction do not count.
"""
EXAMPLES = """Examples:

  hoodie count /data/trips
  hoodie count /data/trips --where "city = 'Rome'"
  hoodie count /data/trips --as-of "yesterday 12:00"

`hoodie read --help` has the grammar of --where, and the forms of --as-of.
"""


def count(
    uri: options.TableUri,
    *,
    where: Annotated[
        str | None, typer.Option(metavar="EXPR", help="Filter of rows.", show_default="all")
    ] = None,
    as_of: Annotated[
        str | None,
        typer.Option(
            metavar="MOMENT",
            help="An instant, savepoint:INSTANT, or a time.",
            show_default="now",
        ),
    ] = None,
    read_optimized: Annotated[
        bool, typer.Option("--read-optimized", metavar="", help="Count in base files only.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Count the rows of a table."""
    predicate = where_text.parse(where) if where is not None else None
    with progress.Display() as display:
        opened = tables.open_table(uri, environment.system(), display)
        display.phase("counting")
        found = opened.scan(where=predicate, as_of=as_of, read_optimized=read_optimized).count()
    if as_json:
        output.document(outcomes.CountDocument(table=opened.uri, rows=found))
    else:
        output.line(quantities.counted(found, "row"))


COMMAND = command.Command(
    run=count,
    details=DETAILS,
    examples=EXAMPLES,
)
