"""`hoodie read`: rows of a table, to a file or to standard output."""

from collections import Counter
from dataclasses import replace
from typing import Annotated

import typer

from hoodie import environment, errors
from hoodie.cli import command, options, output, progress, row_files, row_output, tables
from hoodie.cli.views import read_plans
from hoodie.model import column_names, moments, partition_columns, predicates, schemas
from hoodie.read import travel
from hoodie.read import where as where_text
from hoodie.storage import counted

DETAILS = """Reads any table of version 8 or 9, copy-on-write or merge-on-read, created by hoodie or
by Apache Hudi. A terminal shows 20 rows; a pipe receives all rows as CSV, or with --json as JSON
lines, in which NaN and infinities are null. A .parquet or .csv file appears when it is complete.

--explain shows how many partitions and file slices a filter skips by the values in partition paths,
by the buckets of keys, and by record index, statistics and bloom filters of a metadata table, why
these are not used, and how many requests planning takes.

With --partition-values path, values of partition columns are those of the partition paths: the
texts of times, and of dates with slashes, as Apache Hudi's readers extract them.

--as-of reads the table as it was: right after an instant completed, at a savepoint
(savepoint:INSTANT), or at a time: with an offset (2026-11-28T06:32:19+01:00, or Z) or in the time
zone of the timeline, or relative to now (16 min ago, 2 h 30 min ago, 3 days ago, yesterday 14:30).
Writes count that had completed by then; with --as-of-rule requested, those that had been requested,
which is the rule of Apache Hudi's readers. What was cleaned since is refused, and the message names
the earliest time that can be read.
"""
EXAMPLES = """Examples:

  hoodie read /data/trips --output trips.parquet
  hoodie read /data/trips --columns id,fare --where "city = 'Rome' and fare > 20"
  hoodie read /data/trips --where "driver is null or not (fare in (0, 1))"
  hoodie read /data/trips --meta --limit 3
  hoodie read /data/trips --where "fare > 20" --explain
  hoodie read /data/trips --as-of 20261121093012345
  hoodie read /data/trips --as-of "2 hours ago"
  hoodie read /data/trips --as-of "2026-11-21 09:30" --as-of-columns then

The grammar of --where; keywords are case-insensitive:

  filter    = term { "or" term }
  term      = factor { "and" factor }
  factor    = "not" factor | "(" filter ")" | condition
  condition = name ( "=" | "==" | "!=" | "<>" | "<" | "<=" | ">" | ">=" ) literal
            | name \\[ "not" ] "in" "(" literal { "," literal } ")"
            | name \\[ "not" ] "between" literal "and" literal
            | name \\[ "not" ] "like" 'text%'
            | name "is" \\[ "not" ] "null"
            | name
  literal   = number | 'text' | true | false

A name alone is a column of truth values. The % of like stands at the end, for any text.

Text is in single quotes, doubled inside a text (''). Dates and times are texts: day >=
'2013-01-31'. A time without a zone is in UTC: at < '2013-01-31 12:00:00'. A name may be in double
quotes: "from" = 'JFK'. As in SQL, a comparison with null is neither true nor false.
"""


def read(  # noqa: PLR0913 - a parameter an option
    uri: options.TableUri,
    *,
    columns: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Columns to read, in this order.", show_default="all"),
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(
            metavar="EXPR", help="Filter of rows; see the grammar below.", show_default="all"
        ),
    ] = None,
    read_optimized: Annotated[
        bool,
        typer.Option(
            "--read-optimized",
            metavar="",
            help="Read base files only: fast, without changes since the compaction.",
        ),
    ] = False,
    partition_values: Annotated[
        partition_columns.Source,
        typer.Option(
            metavar="SOURCE",
            help="Where values of partition columns are taken from: file, or path, as by readers "
            "of Apache Hudi that extract them.",
        ),
    ] = partition_columns.Source.FILE,
    as_of: Annotated[
        str | None,
        typer.Option(
            "--as-of",
            metavar="MOMENT",
            help="An instant, savepoint:INSTANT, or a time.",
            show_default="now",
        ),
    ] = None,
    as_of_rule: Annotated[
        moments.Rule,
        typer.Option(
            metavar="RULE",
            help="With --as-of: writes count by their completion, or when they were requested.",
        ),
    ] = moments.Rule.COMPLETION,
    as_of_columns: Annotated[
        travel.Columns,
        typer.Option(
            metavar="now|then", help="With --as-of: the table's columns of now, or of then."
        ),
    ] = travel.Columns.NOW,
    output_path: Annotated[
        str,
        typer.Option(
            "--output", metavar="FILE", help="A .parquet or .csv file; - is standard output."
        ),
    ] = row_files.STANDARD_OUTPUT,
    is_meta_wanted: Annotated[
        bool,
        typer.Option(
            "--meta", metavar="", help="Include Hudi's meta columns: _hoodie_commit_time, ..."
        ),
    ] = False,
    limit: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            help="Show at most N rows.",
            show_default=f"all; {row_output.LIMIT_AT_TERMINAL} at a terminal",
        ),
    ] = None,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain",
            metavar="",
            help="Read nothing; show which files a read needs, and what it skips.",
        ),
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Read the rows of a table."""
    predicate = where_text.parse(where) if where is not None else None
    moment = None
    if as_of is not None:
        moment = travel.AsOf(time=as_of, rule=as_of_rule, columns=as_of_columns)
    elif (as_of_rule, as_of_columns) != (moments.Rule.COMPLETION, travel.Columns.NOW):
        raise typer.BadParameter("--as-of-rule and --as-of-columns go with --as-of")
    if explain:
        _explain(
            uri,
            predicate,
            moment,
            is_read_optimized=read_optimized,
            source=partition_values,
            as_json=as_json,
        )
        return
    row_output.check(output_path, uri)
    with progress.Display() as display:
        opened = tables.open_table(uri, environment.system(), display)
        there = opened.columns_of(partition_columns.Source.FILE, moment).names
        names = _columns(columns, there, is_meta_wanted=is_meta_wanted)
        display.phase("reading")
        found = opened.read(
            names,
            predicate,
            is_read_optimized=read_optimized,
            partition_values=partition_values,
            as_of=moment,
        )
        row_output.deliver(found, opened.uri, output_path, limit, display, as_json=as_json)


def _explain(
    uri: str,
    predicate: predicates.Predicate | None,
    moment: travel.AsOf | None,
    *,
    is_read_optimized: bool,
    source: partition_columns.Source,
    as_json: bool,
) -> None:
    """Print the plan of a read, and the requests that it took."""
    requests: Counter[str] = Counter()
    env = environment.system()
    counting = replace(
        env, open_storage=lambda opened: counted.counted(env.open_storage(opened), requests)
    )
    with progress.Display() as display:
        opened = tables.open_table(uri, counting, display)
        requests.clear()
        display.phase("planning")
        plan = opened.explain_read(
            where=predicate,
            is_read_optimized=is_read_optimized,
            partition_values=source,
            as_of=moment,
        )
        shown = read_plans.document(opened.uri, plan, requests)
    if as_json:
        output.document(shown)
        return
    output.grid(read_plans.grid(shown))
    for line in read_plans.lines(shown):
        output.line(line)


def _columns(text: str | None, there: list[str], *, is_meta_wanted: bool) -> list[str] | None:
    """Return the columns to read of those that are there; None for all but the meta columns.

    Raises:
        NotFoundError: There is no such column.
    """
    known = [*schemas.META_COLUMNS, *there]
    names = options.names(text, "--columns") if text is not None else None
    for name in names or ():
        if name not in known:
            raise errors.NotFoundError(column_names.absence(name, known))
    if not is_meta_wanted:
        return list(names) if names is not None else None
    plain = there if names is None else names
    return [*schemas.META_COLUMNS, *(name for name in plain if name not in schemas.META_COLUMNS)]


COMMAND = command.Command(
    run=read,
    details=DETAILS,
    examples=EXAMPLES,
)
