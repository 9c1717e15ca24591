"""`hoodie delete`: the rows that match a filter, or those of partitions, in one commit."""

from typing import Annotated

import typer

from hoodie import environment, errors, table
from hoodie.cli import command, options, output, progress, run_settings, tables
from hoodie.cli.views import outcomes
from hoodie.model import commits, predicates, results, schemas
from hoodie.read import where as where_text
from hoodie.transaction import authors
from hoodie.write import sessions

DETAILS = """Rows are selected after the write has begun. A row that another writer changes between
is a conflict: nothing is deleted, and the command fails, or selects again with
--set hoodie.write.num.retries.on.conflict.failures=N.
`hoodie write --operation delete` deletes by keys in files.

--partition deletes whole partitions without writing data files, and reads none unless the table has
a record index. A clean removes the files later. What another writer changes there meanwhile
is a conflict as well.
"""
EXAMPLES = """Examples:

  hoodie delete /data/trips --where "city = 'Rome' and fare < 0" --dry-run
  hoodie delete /data/trips --where "city = 'Rome' and fare < 0"
  hoodie delete /data/trips --where "day < 20250101" --concurrency occ --lock filesystem
  hoodie delete /data/trips --partition day=2024-12-30 --partition day=2024-12-31

`hoodie read --help` has the grammar of --where. Non-blocking writers find no conflicts: with
--concurrency nbcc the command is refused.
"""


def delete(  # noqa: PLR0913 - a parameter an option
    uri: options.TableUri,
    *,
    where: Annotated[
        str | None, typer.Option(metavar="EXPR", help="Filter of the rows to delete.")
    ] = None,
    partition: options.PartitionPaths = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", metavar="", help="Delete nothing; show how many rows match."),
    ] = False,
    concurrency: options.SelectingConcurrency = None,
    lock: options.LockText = None,
    writer_id: options.WriterId = None,
    set_texts: options.SetTexts = None,
    as_json: options.AsJson = False,
) -> None:
    """Delete the rows that match a filter, or whole partitions."""
    env = environment.system()
    begun_s = env.clock.monotonic_s()
    paths = options.partition_paths(partition)
    if (where is None) == (not paths):
        raise errors.InvalidInputError("expected either --where or --partition")
    predicate = None if where is None else where_text.parse(where)
    run = run_settings.parse(uri, set_texts, lock, concurrency)
    with progress.Display() as display:
        opened = tables.open_table(uri, env, display)
        run_settings.check_facts(run.facts, opened.config)
        display.phase("reading" if dry_run else "deleting")
        if dry_run:
            shown = _previewed(opened, predicate, paths)
        else:
            operation = commits.Operation.DELETE_PARTITION if paths else commits.Operation.DELETE
            write_options = sessions.WriteOptions(
                operation=operation,
                partitions=paths,
                transaction=run.transaction(authors.Author(writer_id=writer_id)),
                compaction=run.compaction,
            )
            result: results.WriteResult | None
            if predicate is not None:
                result = opened.delete_where(predicate, write_options)
            else:
                # A mistyped name is refused before anything is on the timeline.
                opened.preview_delete_partitions(paths)
                result = opened.delete_partitions(write_options)
            total_ms = round((env.clock.monotonic_s() - begun_s) * 1000)
            shown = outcomes.deleted(opened.uri, result, total_ms, paths)
    if as_json:
        output.document(shown)
        return
    output.line(outcomes.delete_line(shown))
    for finding in shown.findings:
        output.note(f"note: {finding}")


def _previewed(
    opened: table.Table, where: predicates.Predicate | None, partitions: tuple[str, ...]
) -> outcomes.DeleteDocument:
    if where is None:
        found = opened.preview_delete_partitions(partitions)
        return outcomes.DeleteDocument(
            table=opened.uri,
            is_dry_run=True,
            rows=None,
            partitions=partitions,
            replaced=len(found),
        )
    matching = sum(batch.num_rows for batch in opened.read([schemas.RECORD_KEY], where))
    return outcomes.DeleteDocument(table=opened.uri, is_dry_run=True, rows=matching)


COMMAND = command.Command(
    run=delete,
    details=DETAILS,
    examples=EXAMPLES,
)
