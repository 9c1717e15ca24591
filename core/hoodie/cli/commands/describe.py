"""`hoodie describe`: what a table is, and what a Spark writer beside ours is told."""

from typing import Annotated

import typer

from hoodie import environment, errors, table
from hoodie.cli import command, options, output, progress, run_settings, tables
from hoodie.cli.views import configuration
from hoodie.services import spark_options
from hoodie.timeline import partition_buckets
from hoodie.write import keys

DETAILS = """With --spark-options, prints the options with which Apache Hudi 1.2 on Spark writes
this table concurrently with hoodie's writers, one KEY=VALUE per line. All writers of the table must
use the same --lock and --concurrency. docs/spark-writers.md explains each option."""
EXAMPLES = """Examples:
  hoodie describe /data/orders
  hoodie describe /data/orders --spark-options --lock zookeeper://zk:2181/hudi/orders"""


def describe(
    uri: options.TableUri,
    *,
    shows_spark_options: Annotated[
        bool,
        typer.Option(
            "--spark-options",
            metavar="",
            help="Print the options for Apache Hudi writers on Spark.",
        ),
    ] = False,
    lock: options.LockText = None,
    concurrency: Annotated[
        options.Concurrency | None,
        typer.Option(
            "--concurrency",
            metavar="MODE",
            help="With --spark-options: the mode of all writers: single-writer, occ or nbcc.",
            show_default="nbcc; occ for a copy-on-write table",
        ),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Show a table's configuration and columns."""
    if not shows_spark_options and (lock is not None or concurrency is not None):
        raise errors.InvalidInputError("--lock and --concurrency require --spark-options")
    with progress.Display() as display:
        opened = tables.open_table(uri, environment.system(), display)
        hashing_config = opened.hashing_config()
    if shows_spark_options:
        if not opened.config.has_foreign_writers:
            raise errors.ConfigurationError(
                f"{opened.uri} is written by hoodie only: `hoodie configure {opened.uri} "
                "--foreign-writers` admits Apache Hudi"
            )
        _show_spark_options(opened, hashing_config, lock, concurrency, as_json=as_json)
        return
    shown = configuration.document(
        opened.uri,
        opened.config,
        opened.schema.arrow,
        by_partition=hashing_config.expressions if hashing_config else None,
    )
    if as_json:
        output.document(shown)
        return
    output.grid(configuration.facts(shown))
    output.line("")
    output.grid(configuration.columns(shown))


def _show_spark_options(
    opened: table.Table,
    hashing_config: partition_buckets.HashingConfig | None,
    lock: str | None,
    concurrency: options.Concurrency | None,
    *,
    as_json: bool,
) -> None:
    mode = spark_options.mode_of(opened.config, hashing_config)
    if concurrency is not None:
        mode = options.CONCURRENCY_MODES[concurrency]
    run = run_settings.parse(opened.uri, None, lock, options.Concurrency(options.name_of(mode)))
    found = spark_options.options(
        opened.config,
        mode,
        run.lock,
        has_instants_in_keys=keys.has_instants(opened.schema.arrow, opened.config),
        has_partitioned_record_index=opened.has_partitioned_record_index(),
        hashing_config=hashing_config,
    )
    if as_json:
        output.document(configuration.SparkOptionsDocument(table=opened.uri, options=found))
        return
    for key, value in found.items():
        output.line(f"{key}={value}")


COMMAND = command.Command(
    run=describe,
    details=DETAILS,
    examples=EXAMPLES,
)
