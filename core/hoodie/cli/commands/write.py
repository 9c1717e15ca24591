"""`hoodie write`: the rows of files into a table, in one commit."""

import contextlib
import enum
from dataclasses import replace
from typing import Annotated

import pyarrow as pa
import typer

from hoodie import environment, errors
from hoodie.cli import (
    command,
    inputs,
    options,
    output,
    progress,
    quantities,
    reject_files,
    run_settings,
    targets,
)
from hoodie.cli.views import outcomes
from hoodie.contract import input_sources
from hoodie.door import outcomes as door_outcomes
from hoodie.model import commits, settings
from hoodie.sources import local_files
from hoodie.transaction import authors
from hoodie.write import sessions

DETAILS = """The file name determines the format: .csv, .tsv, .json, .jsonl, .ndjson or .parquet,
and .gz after all but parquet; - is standard input. Columns are matched by name, and those that the
files lack are null; of two rows with the same key, the later one counts. All files of one command
make one commit: readers see all of its rows or none. Files without rows make none. Times have the
form 2013-01-31 12:00:00, in UTC unless they name a zone; bytes are base64 in JSON. A column of text
takes a value of any JSON type: a number with the digits that it has, an object as its JSON.

With --create, a table that is not there is created with the columns of the files; `hoodie create`
has more options for it.
"""
_RETRIES_KEY = "hoodie.write.num.retries.on.conflict.failures"
EXAMPLES = f"""Examples:

  hoodie write /data/trips trips.parquet --create --record-key id --partition-by city
  hoodie write /data/trips trips.csv
  hoodie write /data/trips day1.csv.gz day2.csv.gz --null-text NA
  curl https://example.org/trips.json | hoodie write /data/trips - --format json
  hoodie write /data/trips gone.csv --operation delete
  hoodie write /data/trips day.csv --operation insert_overwrite
  hoodie write /data/trips day.parquet --operation bulk_insert --sort-by city,fare
  hoodie write /data/trips eta.json --concurrency nbcc --writer-id eta

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

    @property
    def needs_rows(self) -> bool:
        """Whether it changes nothing without rows."""
        return self not in (OperationName.INSERT_OVERWRITE, OperationName.INSERT_OVERWRITE_TABLE)


def write(  # noqa: PLR0913 - a parameter an option
    uri: options.TableUri,
    *,
    input_files: Annotated[
        list[str],
        typer.Option(
            "--input",
            metavar="FILE...",
            help="Input files, one or more; the option's name may be left out.",
        ),
    ],
    create: Annotated[
        bool,
        typer.Option(
            "--create", metavar="", help="Create the table if it is not there; see --record-key."
        ),
    ] = False,
    record_key: Annotated[str | None, options.RecordKey] = None,
    partition_by: options.PartitionBy = None,
    ordering: options.OrderingField = None,
    type_name: Annotated[
        options.TypeName | None,
        typer.Option("--type", help="Type of the new table.", show_default="mor"),
    ] = None,
    types: options.ColumnTypes = None,
    operation: Annotated[
        OperationName,
        typer.Option(
            metavar="NAME",
            help="upsert, insert, bulk_insert, insert_overwrite, insert_overwrite_table or delete.",
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
        ),
    ] = None,
    lock: options.LockText = None,
    writer_id: options.WriterId = None,
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
            "--format",
            metavar="NAME",
            help="csv, tsv, json (jsonl, ndjson) or parquet.",
            show_default="by the names",
        ),
    ] = None,
    delimiter: Annotated[
        str | None,
        typer.Option(
            metavar="C",
            help="CSV: between two fields.",
            show_default="a comma; a tab in .tsv files",
        ),
    ] = None,
    null_texts: Annotated[
        list[str] | None,
        typer.Option(
            "--null-text", metavar="TEXT", help="CSV: means null, as the empty field does."
        ),
    ] = None,
    encoding: Annotated[
        str, typer.Option(metavar="NAME", help="CSV, JSON: of the text, such as latin-1 or utf-16.")
    ] = input_sources.UTF_8,
    date_format: Annotated[
        str | None,
        typer.Option(
            metavar="FORM",
            help="CSV: of dates and times, such as %d.%m.%Y.",
            show_default="2013-01-31, 2013-01-31 12:00:00",
        ),
    ] = None,
    decimal: Annotated[
        str, typer.Option(metavar="C", help="CSV: before the digits of a fraction, . or a comma.")
    ] = ".",
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
    renames: options.Renames = None,
    reject_file: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="CSV, JSON: put rows that do not fit there, with the reason, and write the "
            "others.",
            show_default="they end the command",
        ),
    ] = None,
    count: Annotated[
        bool,
        typer.Option(
            "--count",
            metavar="",
            help="Count new, updated and unchanged rows where log files take them unseen: by a "
            "read of the keys in the file groups that were written to, afterwards.",
        ),
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Write the rows of files into a table."""
    env = environment.system()
    begun_s = env.clock.monotonic_s()
    run = run_settings.parse(uri, set_texts, lock, concurrency)
    order = options.names(sort_by, "--sort-by") if sort_by is not None else ()
    reading = inputs.Reading(
        format=input_format,
        delimiter=delimiter,
        null_texts=tuple(null_texts or ()),
        has_header=not no_header,
        columns=tuple(columns or ()),
        renames=tuple(renames or ()),
        encoding=encoding,
        date_format=date_format,
        decimal_point=decimal,
    )
    wish = targets.wish(
        is_wanted=create,
        record_key=record_key,
        partition_by=partition_by,
        ordering=ordering,
        type_name=type_name,
        types=types,
    )
    if batch_id is not None and writer_id is None:
        raise errors.InvalidInputError(
            "--batch-id needs --writer-id as well: a writer's batches have ids of their own"
        )
    if run.settings.concurrency is settings.ConcurrencyMode.NON_BLOCKING and writer_id is None:
        writer_id = f"cli-{env.random.uuid()}"
    with contextlib.ExitStack() as stack:
        files = stack.enter_context(inputs.local(input_files, reading))
        rejects = stack.enter_context(reject_files.RejectFile(reject_file)) if reject_file else None
        display = stack.enter_context(progress.Display())
        source = inputs.source(files, reading)
        target = targets.target(uri, wish, files, source, env, display)
        run_settings.check_facts(run.facts, target.config)
        display.phase("reading input")
        schema = target.schema
        if run.settings.adds_columns:
            schema = local_files.grown(files, source, schema)
        data = inputs.rows(files, source, schema.arrow, target.config, rejects)
        notes = target.notes
        if operation is not OperationName.DELETE:
            data, absent = inputs.completed(data, schema.arrow, target.config)
            notes += inputs.absence_notes(absent)
        data, has_rows = inputs.peeked(data)
        opened = target.opened(env, display)
        # A batch without rows is kept by its commit, as new columns are.
        is_kept = batch_id is not None or run.settings.adds_columns
        size = quantities.counted(data.num_rows, "row") if isinstance(data, pa.Table) else ""
        display.phase("writing", size)
        wanted = sessions.WriteOptions(
            operation=commits.Operation[operation.name],
            transaction=run.transaction(authors.Author(writer_id=writer_id)),
            partitions=options.partition_paths(partition),
            batch_id=batch_id,
            compaction=run.compaction,
            sort_by=order,
        )
        is_idle = operation.needs_rows and not (has_rows or is_kept)
        result = None if is_idle else opened.write(data, wanted)
        # They are counted as rows are read, which the write does.
        rejected = rejects.count if rejects is not None else 0
        notes += inputs.rejection_notes(rejected, reject_file)
        counted = None
        if count and result is not None:
            display.phase("counting new rows")
            counted = door_outcomes.counted(result, opened.row_counts)
    total_ms = round((env.clock.monotonic_s() - begun_s) * 1000)
    shown = replace(
        outcomes.written(opened.uri, result, operation.value, writer_id, total_ms, counted),
        rejected=rejected,
    )
    if as_json:
        output.document(shown)
        return
    output.line(outcomes.write_line(shown, is_counted=count))
    for finding in (*notes, *shown.findings):
        output.note(f"note: {finding}")


COMMAND = command.Command(
    run=write,
    details=DETAILS,
    examples=EXAMPLES,
)
