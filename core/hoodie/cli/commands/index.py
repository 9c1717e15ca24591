"""`hoodie index`: indexes in the metadata table, built beside writers, shown, and dropped."""

import contextlib
import enum
from collections.abc import Iterator
from typing import Annotated

import typer

from hoodie import environment
from hoodie.cli import command, options, output, progress, run_settings, tables
from hoodie.cli.views import indexes as views
from hoodie.metadata import index_decisions
from hoodie.model import expression_indexes, secondary_indexes
from hoodie.transaction import authors

DETAILS = """Indexes are partitions of a table's metadata table: column_stats, partition_stats,
which needs column_stats, bloom_filters, record_index, which has each key once in the table, or with
`--partitioned` once in each partition of it, secondary_index_NAME (`--secondary NAME --column
COLUMN`), which needs a record_index of the table: by it reads find the rows that have a value in a
column, and expr_index_NAME (`--expression NAME --column 'lower(city)'`): the bounds of what a
function makes of a column, by which readers of Apache Hudi leave files out.

`build` builds those that are missing while writers and table services continue: none of them waits
or fails, and reads use an index once it is complete. The plan is an indexing action on the table's
timeline, as of Apache Hudi. If the command breaks off, the same one finishes the build. A record
index is given up if a key is in two file groups. In a table that other engines may write an index
is published once no write of theirs is pending, or, if it is of statistics, bloom filters or record
keys, once those have ended that were pending in the beginning; that is waited for up to 15 minutes.
It stays if their options for it are on (`hoodie describe --spark-options`). A merge-on-read table
gets one secondary index there, and no bloom_filters, by which readers of Apache Hudi miss rows.

`build column_stats --columns a,b` builds statistics of these columns alone, such as those that
filters of a wide table name; without the option they are of the first 32. Statistics of other
columns are dropped first, so that reads have none until the new ones are complete. Writers of
Apache Hudi need the same columns in `hoodie.metadata.index.column.stats.column.list`.

`drop` drops indexes, and gives up what is being built of them, unless its builder is alive. Drop
a record index that writers of Apache Hudi use while none of them is writing: a write that has not
looked its keys up yet fails, and has to be repeated. Compact a merge-on-read table without buckets
first.

`status` shows which are there, of which columns, and the process that builds one, with how far it
is and the time left until it is published.
"""
EXAMPLES = """Examples:

  hoodie index status /data/trips
  hoodie index build /data/trips column_stats partition_stats --lock filesystem
  hoodie index build /data/trips record_index --lock filesystem
  hoodie index build /data/trips record_index --partitioned --lock filesystem
  hoodie index build /data/trips --secondary rider --column rider_id --lock filesystem
  hoodie index build /data/trips --expression city --column 'lower(city)' --lock filesystem
  hoodie index build /data/trips column_stats --columns fare,city --lock filesystem
  hoodie index drop /data/trips bloom_filters --lock filesystem
  hoodie index drop /data/trips --secondary rider --lock filesystem
"""


class Action(enum.Enum):
    """What to do."""

    STATUS = "status"
    BUILD = "build"
    DROP = "drop"


def index(  # noqa: PLR0913 - a parameter an option
    action: Annotated[Action, typer.Argument(metavar="status|build|drop", help="The action.")],
    uri: options.TableUri,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[INDEX]...", help="With build and drop: the indexes."),
    ] = None,
    *,
    is_partitioned: Annotated[
        bool,
        typer.Option(
            "--partitioned",
            help="With build: record_index is one of each partition, whose keys may be the same.",
        ),
    ] = False,
    secondary: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="With build and drop: the secondary index of this name, secondary_index_NAME.",
        ),
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            help="With build: the column of texts, integers, dates or times whose values it has, "
            "or a function of a column, such as lower(city).",
        ),
    ] = None,
    expression: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="With build and drop: the expression index of this name, expr_index_NAME.",
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN,...",
            help="With build: the columns of column_stats and partition_stats.",
        ),
    ] = None,
    lock: options.LockText = None,
    set_texts: options.SetTexts = None,
    as_json: options.AsJson = False,
) -> None:
    """Build an index beside the writers of a table; drop it, or show which there are."""
    options_of_build = (is_partitioned, bool(column), columns is not None)
    if action is not Action.BUILD and any(options_of_build):
        raise typer.BadParameter("--partitioned, --column and --columns are options of build only")
    if action is Action.STATUS:
        if names or secondary or expression:
            raise typer.BadParameter(
                "INDEX is an argument of build and drop only, as --secondary and --expression are"
            )
        _status(uri, lock, set_texts, as_json)
        return
    wanted, secondary_columns = _wanted(
        names or [],
        _once("--secondary", secondary),
        _once("--expression", expression),
        _once("--column", column),
    )
    run = run_settings.parse_beside_writers(uri, set_texts, lock)
    transaction = run.transaction(authors.Author())
    with progress.Display() as display:
        opened = tables.open_table(uri, environment.system(), display)
        run_settings.check_facts(run.facts, opened.config)
        shown: views.BuiltDocument | views.DroppedDocument
        if action is Action.BUILD:
            refusal = index_decisions.readers_refusal(wanted, opened.config)
            if refusal is not None:
                raise refusal
            display.phase("looking for builds")
            with _told_how_to_continue():
                done = opened.build_index(
                    wanted,
                    transaction,
                    display.phase,
                    columns=None if columns is None else [*map(str.strip, columns.split(","))],
                    secondary=secondary_columns,
                    is_partitioned=is_partitioned,
                )
            shown = views.built(opened.uri, done)
        else:
            display.phase("dropping")
            dropped = opened.drop_index(wanted, transaction)
            shown = views.DroppedDocument(table=opened.uri, dropped=dropped)
    if as_json:
        output.document(shown)
    elif isinstance(shown, views.DroppedDocument):
        output.line(views.dropped_line(shown))
    else:
        output.line(views.built_line(shown))
        for finding in shown.findings:
            output.note(finding)


@contextlib.contextmanager
def _told_how_to_continue() -> Iterator[None]:
    """Say what becomes of a build that is interrupted."""
    try:
        yield
    except KeyboardInterrupt:
        output.note("the same command continues the build, `hoodie index drop` gives it up")
        raise


def _once(option: str, values: list[str] | None) -> str | None:
    """Return the value of an option that is of one index; None for none."""
    if values is not None and len(values) > 1:
        raise typer.BadParameter(
            f"{option} is given {len(values)} times, expected once: build or drop one index of a "
            "column after the other"
        )
    return values[0] if values else None


def _wanted(
    names: list[str], secondary: str | None, expression: str | None, column: str | None
) -> tuple[list[str], dict[str, str]]:
    """Return the names of indexes, and the columns of those that have one."""
    if secondary is not None and expression is not None:
        raise typer.BadParameter("--secondary and --expression are of two indexes: build one first")
    if secondary is None and expression is None:
        if column is not None:
            raise typer.BadParameter(
                "--column is that of `hoodie index build --secondary NAME`, or --expression NAME"
            )
        return names, {}
    name = f"{secondary_indexes.PREFIX}{secondary}"
    if expression is not None:
        name = f"{expression_indexes.PREFIX}{expression}"
    return [*names, name], {} if column is None else {name: column}


def _status(
    uri: str, lock: options.LockText, set_texts: options.SetTexts, as_json: options.AsJson
) -> None:
    run = run_settings.parse(uri, set_texts, lock)
    with progress.Display() as display:
        opened = tables.open_table(uri, environment.system(), display)
        run_settings.check_facts(run.facts, opened.config)
        display.phase("reading heartbeats")
        builds = opened.pending_indexes()
        pending = opened.pending(run.settings) if builds else []
        shown = views.document(
            opened.uri,
            opened.config,
            builds,
            pending,
            opened.index_progress(builds),
            has_partitioned_record_index=opened.has_partitioned_record_index(),
        )
        shown = views.with_columns(shown, opened.index_columns(builds))
    if as_json:
        output.document(shown)
        return
    output.grid(views.grid(shown))
    for line in views.hints(shown):
        output.note(line)


COMMAND = command.Command(
    run=index,
    details=DETAILS,
    examples=EXAMPLES,
)
