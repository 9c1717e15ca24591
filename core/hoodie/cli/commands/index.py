"""`hoodie index`: indexes in the metadata table, built beside writers, shown, and dropped."""

import enum
from typing import Annotated

import typer

from hoodie import environment
from hoodie.cli import command, options, output, progress, run_settings, tables
from hoodie.cli.views import indexes as views
from hoodie.transaction import authors

DETAILS = """Indexes are partitions of a table's metadata table: column_stats, partition_stats,
which needs column_stats, bloom_filters, and record_index, which has each key once in the table, or
with `--partitioned` once in each partition of it.

`build` builds those that are missing while writers and table services continue: none of them waits
or fails, and reads use an index once it is complete. The plan is an indexing action on the table's
timeline, as of Apache Hudi. If the command breaks off, the same one finishes the build. A record
index is given up if a key is in two file groups. In a table that other engines may write an index
is published once no write of theirs is pending, which is waited for up to 15 minutes; it stays if
their options for it are on (`hoodie describe --spark-options`).

`drop` drops indexes, and gives up what is being built of them, unless its builder is alive.

`status` shows which are there, and the process that builds one.
"""
EXAMPLES = """Examples:

  hoodie index status /data/trips
  hoodie index build /data/trips column_stats partition_stats --lock filesystem
  hoodie index build /data/trips record_index --lock filesystem
  hoodie index build /data/trips record_index --partitioned --lock filesystem
  hoodie index drop /data/trips bloom_filters --lock filesystem
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
    lock: options.LockText = None,
    set_texts: options.SetTexts = None,
    as_json: options.AsJson = False,
) -> None:
    """Build an index beside the writers of a table; drop it, or show which there are."""
    if is_partitioned and action is not Action.BUILD:
        raise typer.BadParameter("--partitioned is an option of build only")
    if action is Action.STATUS:
        if names:
            raise typer.BadParameter("INDEX is an argument of build and drop only")
        _status(uri, lock, set_texts, as_json)
        return
    run = run_settings.parse_beside_writers(set_texts, lock)
    transaction = run.transaction(authors.Author())
    with progress.Display() as display:
        opened = tables.open_table(uri, environment.system(), display)
        run_settings.check_facts(run.facts, opened.config)
        shown: views.BuiltDocument | views.DroppedDocument
        if action is Action.BUILD:
            display.phase("looking for builds")
            done = opened.build_index(
                names or [], transaction, display.phase, is_partitioned=is_partitioned
            )
            shown = views.built(opened.uri, done)
        else:
            display.phase("dropping")
            dropped = opened.drop_index(names or [], transaction)
            shown = views.DroppedDocument(table=opened.uri, dropped=dropped)
    if as_json:
        output.document(shown)
    elif isinstance(shown, views.DroppedDocument):
        output.line(views.dropped_line(shown))
    else:
        output.line(views.built_line(shown))
        for finding in shown.findings:
            output.note(finding)


def _status(
    uri: str, lock: options.LockText, set_texts: options.SetTexts, as_json: options.AsJson
) -> None:
    run = run_settings.parse(set_texts, lock)
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
            has_partitioned_record_index=opened.has_partitioned_record_index(),
        )
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
