"""`hoodie write`: the rows of files into a table, in one commit."""

import enum
from typing import Annotated

import typer

from hoodie import environment, errors
from hoodie.cli import (
    command,
    inputs,
    options,
    output,
    progress,
    quantities,
    run_settings,
    tables,
)
from hoodie.cli.views import outcomes
from hoodie.model import commits, settings
from hoodie.sources import local_files
from hoodie.transaction import authors
from hoodie.write import sessions

DETAILS = """The file name determines the format: .csv, .json, .jsonl, .ndjson or .parquet, and .gz
after all but parquet. Columns are matched by name; of two rows with the same key, the later one
counts. All files of one command make one commit: readers see all of its rows or none.
Times have the form 2013-01-31 12:00:00, in UTC unless they name a zone; bytes are base64 in JSON.
"""
_RETRIES_KEY = "hoodie.write.num.retries.on.conflict.failures"
EXAMPLES = f"""Examples:

  hoodie write /data/trips --input trips.csv
  hoodie write /data/trips --input day1.csv.gz day2.csv.gz --null-text NA
  hoodie write /data/trips --input gone.csv --operation delete
  hoodie write /data/trips --input day.csv --operation insert_overwrite
  hoodie write /data/trips --input day.parquet --operation bulk_insert --sort-by city,fare
  hoodie write /data/trips --input eta.json --concurrency nbcc --writer-id eta

With --set {settings.ADDS_COLUMNS_KEY}=true, parquet files add their new columns to
the table and widen its types; CSV and JSON carry no types.

An insert treats all rows as new, and a bulk insert writes them to base files where a bucket is
empty: two rows of one key may then stay in a table. With --sort-by, its files hold sorted ranges of
each partition, so that filters on these columns read few of them.

insert_overwrite replaces all rows of the partitions that its rows are of, insert_overwrite_table
those of the whole table. With --partition, an insert_overwrite replaces just those partitions, also
without rows. What other writers change there meanwhile is a conflict; nbcc writers cannot replace.

Several processes can write at the same time. With --concurrency occ, of two that write to one file
group the slower one fails, or retries with --set {_RETRIES_KEY}=N.
With --concurrency nbcc none fails; each writes its own columns, or rows have an ordering value.
Each needs its own --writer-id, and all need the same mode and --lock. With --batch-id, a batch that
the table already contains is not written again.

Settings for --set:

{options.settings_text()}
"""


class OperationName(enum.Enum):
    """What is done with the rows, as the command line spells it."""

    UPSERT = "upsert"
    INSERT = "insert"
    BULK_INSERT = "bulk_insert"
    INSERT_OVERWRITE = "insert_overwrite"
    INSERT_OVERWRITE_TABLE = "insert_overwrite_table"
    DELETE = "delete"


def write(  # noqa: PLR0913 - a parameter an option
    uri: options.TableUri,
    *,
    input_files: Annotated[
        list[str],
        typer.Option(
            "--input",
            metavar="FILE...",
            help="Input files, one or more.",
        ),
    ],
    operation: Annotated[
        OperationName,
        typer.Option(
            metavar="NAME",
            help="upsert, insert, bulk_insert, insert_overwrite, insert_overwrite_table or delete.",
            case_sensitive=False,
        ),
    ] = OperationName.UPSERT,
    partition: options.PartitionPaths = None,
    sort_by: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN[,COLUMN...]",
            help="Columns by which a bulk_insert sorts its rows.",
            show_default="as they come",
        ),
    ] = None,
    concurrency: Annotated[
        options.Concurrency | None,
        typer.Option(
            metavar="MODE",
            help="single-writer; occ or nbcc with several writers.",
            show_default="single-writer",
            case_sensitive=False,
        ),
    ] = None,
    lock: options.LockText = None,
    writer_id: Annotated[
        str | None,
        typer.Option(
            metavar="ID", help="Name of this writer, unique among the writers of the table."
        ),
    ] = None,
    batch_id: Annotated[
        str | None,
        typer.Option(
            metavar="ID", help="Name of this input; skipped if it is already in the table."
        ),
    ] = None,
    set_texts: options.SetTexts = None,
    input_format: Annotated[
        inputs.FormatName | None,
        typer.Option(
            "--format", metavar="NAME", help="csv, json or parquet.", show_default="by the names"
        ),
    ] = None,
    delimiter: Annotated[str, typer.Option(metavar="C", help="CSV: between two fields.")] = ",",
    null_texts: Annotated[
        list[str] | None,
        typer.Option(
            "--null-text", metavar="TEXT", help="CSV: means null, as the empty field does."
        ),
    ] = None,
    no_header: Annotated[
        bool,
        typer.Option("--no-header", metavar="", help="CSV: the first line is a row; see --column."),
    ] = False,
    columns: Annotated[
        list[str] | None,
        typer.Option(
            "--column",
            metavar="NAME=SOURCE",
            help="Take column NAME of the table from SOURCE of the input; repeatable. Without a "
            "header the input's columns are _c0, _c1, ...",
            show_default="all, by name",
        ),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Write the rows of files into a table."""
    env = environment.system()
    begun_s = env.clock.monotonic_s()
    run = run_settings.parse(set_texts, lock, concurrency)
    order = options.names(sort_by, "--sort-by") if sort_by is not None else ()
    source = inputs.source(
        input_files,
        inputs.Reading(
            format=input_format,
            delimiter=delimiter,
            null_texts=tuple(null_texts or ()),
            has_header=not no_header,
            columns=tuple(columns or ()),
        ),
    )
    if batch_id is not None and writer_id is None:
        raise errors.InvalidInputError(
            "--batch-id needs --writer-id as well: a writer's batches have ids of their own"
        )
    if run.settings.concurrency is settings.ConcurrencyMode.NON_BLOCKING and writer_id is None:
        writer_id = f"cli-{env.random.uuid()}"
    with progress.Display() as display:
        opened = tables.open_table(uri, env, display)
        run_settings.check_facts(run.facts, opened.config)
        display.phase("reading input")
        columns_of_rows = opened.schema
        if run.settings.adds_columns:
            columns_of_rows = local_files.grown(input_files, source, opened.schema)
        found = local_files.read(input_files, source, columns_of_rows.arrow)
        data = inputs.carried(found, source, opened.config)
        display.phase("writing", quantities.counted(data.num_rows, "row"))
        result = opened.write(
            data,
            sessions.WriteOptions(
                operation=commits.Operation[operation.name],
                transaction=run.transaction(authors.Author(writer_id=writer_id)),
                partitions=options.partition_paths(partition),
                batch_id=batch_id,
                compaction=run.compaction,
                sort_by=order,
            ),
        )
    total_ms = round((env.clock.monotonic_s() - begun_s) * 1000)
    shown = outcomes.written(opened.uri, result, operation.value, writer_id, total_ms)
    if as_json:
        output.document(shown)
        return
    output.line(outcomes.write_line(shown))
    for finding in shown.findings:
        output.note(f"note: {finding}")


COMMAND = command.Command(
    run=write,
    details=DETAILS,
    examples=EXAMPLES,
)
