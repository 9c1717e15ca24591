"""`hoodie update`: columns of the rows that match a filter are set, in one commit."""

from typing import Annotated

import typer

from hoodie import environment, errors
from hoodie.cli import command, options, output, progress, run_settings, tables
from hoodie.cli.views import outcomes
from hoodie.door import writers, writing
from hoodie.model import predicates
from hoodie.read import where as where_text
from hoodie.transaction import authors

DETAILS = """An assignment is COLUMN = VALUE, or several with commas between them. A value is a
number, a 'text', true, false or null; dates and times are texts. Columns of the record key and of
the partition cannot be set. Rows keep their record keys, so that tables without key fields are
updated as well. For values that are computed of a row, use Table.update in Python.

Rows are selected after the write has begun. A row that another writer changes between
is a conflict: nothing is updated, and the command fails, or selects again with
--set hoodie.write.num.retries.on.conflict.failures=N.
`hoodie write --operation upsert` updates by keys, from files.
"""
EXAMPLES = """Examples:

  hoodie update /data/trips "fare = 0" --where "city = 'Rome' and fare < 0" --dry-run
  hoodie update /data/trips "fare = 0" --where "city = 'Rome' and fare < 0"
  hoodie update /data/trips "seats = null, at = '2026-11-20 08:00'" --where "id = 't1'"

`hoodie read --help` has the grammar of --where. Non-blocking writers find no conflicts: with
--concurrency nbcc the command is refused.
"""


def update(  # noqa: PLR0913 - a parameter an option
    uri: options.TableUri,
    assignments: Annotated[
        list[str], typer.Argument(metavar="ASSIGNMENT", help="What columns are set to.")
    ],
    *,
    where: Annotated[
        str | None,
        typer.Option(metavar="EXPR", help="Filter of the rows to update.", show_default="all rows"),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", metavar="", help="Update nothing; show how many rows match."),
    ] = False,
    concurrency: options.SelectingConcurrency = None,
    lock: options.LockText = None,
    writer_id: options.WriterId = None,
    set_texts: options.SetTexts = None,
    as_json: options.AsJson = False,
) -> None:
    """Set columns of the rows that match a filter."""
    env = environment.system()
    begun_s = env.clock.monotonic_s()
    values = _values(assignments)
    predicate = None if where is None else where_text.parse(where)
    run = run_settings.parse(uri, set_texts, lock, concurrency)
    writer = writers.Writer(
        transaction=run.transaction(authors.Author(writer_id=writer_id)), compaction=run.compaction
    )
    with progress.Display() as display:
        opened = tables.open_table(uri, env, display, writer)
        run_settings.check_facts(run.facts, opened.config)
        display.phase("reading" if dry_run else "updating")
        if dry_run:
            writing.changes_of(values, opened.config, opened.schema.arrow)
            matching = opened.scan(where=predicate).count()
            shown = outcomes.UpdateDocument(table=opened.uri, is_dry_run=True, rows=matching)
        else:
            result = opened.update(values, predicate)
            total_ms = round((env.clock.monotonic_s() - begun_s) * 1000)
            shown = outcomes.updated(opened.uri, result, total_ms)
    if as_json:
        output.document(shown)
        return
    output.line(outcomes.update_line(shown))
    for finding in shown.findings:
        output.note(f"note: {finding}")


def _values(texts: list[str]) -> dict[str, predicates.Literal | None]:
    """Return what columns are set to by some assignments.

    Raises:
        InvalidInputError: One is malformed, or a column is set twice.
    """
    found: dict[str, predicates.Literal | None] = {}
    for text in texts:
        for name, value in where_text.parse_assignments(text).items():
            if name in found:
                raise errors.InvalidInputError(f"column {name!r} is set twice")
            found[name] = value
    return found


COMMAND = command.Command(
    run=update,
    details=DETAILS,
    examples=EXAMPLES,
)
