"""`hoodie create`: a new, empty table."""

import enum
from typing import Annotated

import typer

from hoodie import environment, table
from hoodie.cli import (
    command,
    configurations,
    inputs,
    options,
    output,
    progress,
    run_settings,
    schema_files,
)
from hoodie.cli.views import configuration
from hoodie.model import change_data, column_types, table_config
from hoodie.services import new_tables
from hoodie.transaction import authors

DETAILS = """The columns come from a file of rows (parquet, CSV or JSON), from an Avro schema
(.avsc), or from --columns, which also gives columns of a file other types. Types of CSV and JSON
are inferred from the first rows. Rows are identified by the record key, stored by partition, and
distributed over the buckets of each partition. The number of buckets can never be changed; with
--index consistent-hashing, which needs a merge-on-read table, clusterings of Apache Hudi split and
merge them, and writers are one at a time or optimistic. With --index simple or bloom, as tables of
Apache Hudi's defaults have it, there are no buckets: a write reads the keys of the partitions that
it touches, new rows fill up small files first, and writers are one at a time or optimistic. With
--index global-simple or global-bloom a key is unique in the table, and a write reads the keys of
all partitions: a row whose partition changes moves there, or stays where it is with
--keep-partitions.

Without --record-key, which needs --index simple or bloom, keys are generated: rows are added, by
the operations insert, bulk_insert and overwrites, and changed by `hoodie update` and `hoodie delete
--where` alone.
"""
EXAMPLES = """Examples:

  hoodie create /data/t --columns 'id long, born date, price decimal(10, 2)' --record-key id
  hoodie create /data/t --schema t.avsc --record-key id
  hoodie create /data/t --schema day1.csv --columns 'zip string' --record-key id
  hoodie create /data/t --schema day1.parquet --record-key id --partition-by city
  hoodie create /data/t --schema t.avsc --record-key id --ordering updated_at
  hoodie create /data/t --schema t.avsc --record-key id --partial-updates
  hoodie create /data/t --schema t.avsc --record-key id --no-foreign-writers
  hoodie create /data/t --schema t.avsc --record-key id --metadata-table
  hoodie create /data/t --schema t.avsc --record-key id --type cow --index simple
  hoodie create /data/t --schema t.avsc --record-key id --change-data data-before-after

Writes to a merge-on-read table create log files, which readers merge and a compaction merges into
base files. Writes to a copy-on-write table create new base files; it needs no compaction and allows
one writer per file group at a time.

Of two rows with the same key, the one with the greater value of --ordering wins (event time);
without --ordering, the one that was committed later (commit time). With --partial-updates, columns
that an input lacks keep their value, and null never overwrites a value.

Every change is first a file that is created once, an epoch of the table's chain (`hoodie timeline
--chain`). With --no-foreign-writers the table stays right even if its lock is given to several
writers at once, and no write waits for clocks; Apache Hudi may read it, but must not write it.
`hoodie configure` changes both later.

With --change-data each write also says what it changed, for readers of changes (CDC): operations
with their keys, with the rows before them, or with the rows before and after them. A copy-on-write
table has that in log files beside its base files; of a merge-on-read table readers compute it.

With --metadata-table the table has a metadata table from the start, under the lock of its writers
(--lock). `hoodie metadata` makes or drops one later.
"""


class MergeName(enum.Enum):
    """Merge modes, as the command line spells them."""

    EVENT_TIME = "event-time"
    COMMIT_TIME = "commit-time"


class VersionName(enum.Enum):
    """Table versions that are written."""

    NINE = "9"
    EIGHT = "8"


class ChangeDataName(enum.Enum):
    """What writes say of changes, as the command line spells it."""

    OP_KEY_ONLY = "op-key-only"
    DATA_BEFORE = "data-before"
    DATA_BEFORE_AFTER = "data-before-after"


_MERGE_MODES = {
    MergeName.EVENT_TIME: table_config.MergeMode.EVENT_TIME,
    MergeName.COMMIT_TIME: table_config.MergeMode.COMMIT_TIME,
}


def create(  # noqa: PLR0913 - a parameter an option
    uri: options.TableUri,
    *,
    record_key: Annotated[str | None, options.RecordKey] = None,
    schema: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="The columns: a file of rows (.parquet, .csv, .tsv, .json, .jsonl), or Avro JSON "
            "(.avsc).",
        ),
    ] = None,
    types: options.ColumnTypes = None,
    renames: options.Renames = None,
    partition_by: options.PartitionBy = None,
    ordering: options.OrderingField = None,
    type_name: Annotated[
        options.TypeName,
        typer.Option(
            "--type",
            help="mor (merge-on-read) for many writers and frequent updates, cow (copy-on-write) "
            "for fast reads.",
        ),
    ] = options.TypeName.MOR,
    index: Annotated[
        options.IndexName,
        typer.Option(
            help="How writers find rows: bucket or consistent-hashing, by the key alone; simple or "
            "bloom, by reading the keys of the partition's files; global-simple or global-bloom, "
            "of all partitions."
        ),
    ] = options.IndexName.BUCKET,
    keep_partitions: options.KeepsPartitions = False,
    buckets: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Buckets, and so file groups, of each partition, or those that it begins with.",
            show_default=f"{new_tables.BUCKETS_DEFAULT}, with a bucket index",
        ),
    ] = None,
    buckets_by_partition: options.BucketsByPartition = None,
    table_version: Annotated[
        VersionName,
        typer.Option(help="Table version: 9 for Hudi 1.1 and later, 8 for readers of Hudi 1.0."),
    ] = VersionName.NINE,
    merge: Annotated[
        MergeName | None,
        typer.Option(
            metavar="MODE",
            help="Which row of a key wins: event-time or commit-time.",
            show_default="event-time with --ordering, or commit-time",
        ),
    ] = None,
    partial_updates: Annotated[
        bool,
        typer.Option(
            "--partial-updates", metavar="", help="Null, or an absent column, changes nothing."
        ),
    ] = False,
    name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The table's name.", show_default="the URI's last part"),
    ] = None,
    hive_style: Annotated[
        bool, typer.Option("--hive-style", metavar="", help="Name partition folders field=value.")
    ] = False,
    url_encode: Annotated[
        bool,
        typer.Option(
            "--url-encode", metavar="", help="Percent-encode values in partition folders."
        ),
    ] = False,
    drop_partition_columns: Annotated[
        bool,
        typer.Option(
            "--drop-partition-columns",
            metavar="",
            help="Keep partition values in the names of folders alone, not in data files.",
        ),
    ] = False,
    change_data_mode: Annotated[
        ChangeDataName | None,
        typer.Option(
            "--change-data",
            metavar="MODE",
            help="Have writes say what they changed: op-key-only, data-before or "
            "data-before-after.",
            show_default="they do not",
        ),
    ] = None,
    no_foreign_writers: Annotated[
        bool,
        typer.Option(
            "--no-foreign-writers",
            metavar="",
            help="Only hoodie writes the table: commits then need no lock to be right.",
        ),
    ] = False,
    no_chain: Annotated[
        bool,
        typer.Option("--no-chain", metavar="", help="Keep writers apart by the lock alone."),
    ] = False,
    metadata_table: Annotated[
        bool,
        typer.Option(
            "--metadata-table", metavar="", help="Keep a metadata table: files and statistics."
        ),
    ] = False,
    lock: options.LockText = None,
    as_json: options.AsJson = False,
) -> None:
    """Create an empty table."""
    if no_chain and no_foreign_writers:
        raise typer.BadParameter("--no-chain: a table without foreign writers has a chain")
    if schema is None and types is None:
        raise typer.BadParameter("expected --schema FILE or --columns 'NAME TYPE, ...'")
    if renames and schema is None:
        raise typer.BadParameter("--rename without --schema: there is nothing to rename")
    if lock is not None and not metadata_table:
        raise typer.BadParameter("--lock is an option of --metadata-table only")
    run = run_settings.parse_for_service(uri, None, lock)
    env = environment.system()
    table_name = name or new_tables.name_of(uri)
    columns = schema_files.read(
        schema,
        table_name,
        column_types.columns(types) if types is not None else {},
        inputs.renames(renames or ()),
    )
    config = new_tables.new_table(
        new_tables.Wish(
            name=table_name,
            table_type=options.TABLE_TYPES[type_name],
            version=int(table_version.value),
            record_key=options.names(record_key, "--record-key") if record_key else (),
            partition_by=options.names(partition_by, "--partition-by") if partition_by else (),
            ordering=options.names(ordering, "--ordering") if ordering else (),
            merge=_MERGE_MODES[merge] if merge else None,
            index=options.INDEX_KINDS[index],
            keeps_partitions=keep_partitions,
            buckets=buckets,
            has_partial_updates=partial_updates,
            is_hive_style=hive_style,
            is_url_encoded=url_encode,
            drops_partition_columns=drop_partition_columns,
            change_data=(
                change_data.LoggingMode[change_data_mode.name] if change_data_mode else None
            ),
            chain=None if no_chain else table_config.ChainName(id=env.random.uuid()),
            has_foreign_writers=not no_foreign_writers,
        ),
        columns.schema,
        configurations.spelled,
    )
    hashing_config = configurations.hashing_config(config, buckets_by_partition)
    with progress.Display() as display:
        display.phase("creating the table")
        created = table.create_table(uri, config, columns.schema, env, hashing_config)
        if metadata_table:
            display.phase("making the metadata table")
            created = created.initialise_metadata(run.transaction(authors.Author()))
    shown = configuration.document(created.uri, created.config, created.schema.arrow)
    if as_json:
        output.document(shown)
    else:
        output.line(f"created table {shown.name} in {shown.table}")
    for note in columns.notes:
        output.note(f"note: {note}")


COMMAND = command.Command(
    run=create,
    details=DETAILS,
    examples=EXAMPLES,
)
