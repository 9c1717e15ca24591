"""`hoodie adopt`: a table that Apache Hudi made says from now on what its writers have to know."""

from typing import Annotated

import typer

from hoodie import environment, errors
from hoodie.cli import command, configurations, options, output, progress, run_settings, tables
from hoodie.cli.views import adoptions
from hoodie.transaction import authors

DETAILS = """Apache Hudi keeps the index in the options of its writers, not in the table. A writer
with another index would put a key into the table twice, so hoodie writes a table only once its
properties say what the index is.

simple and bloom are for tables whose Spark writers set hoodie.index.type to SIMPLE, BLOOM or
RECORD_INDEX, or do not set it at all: SIMPLE is the default of Apache Hudi. They find a row in any
file group of its partition. A table whose file groups are all of buckets is refused. global-simple
and global-bloom are for those with GLOBAL_SIMPLE, GLOBAL_BLOOM or GLOBAL_RECORD_LEVEL_INDEX: a key
is unique in the table, and a row whose partition changes moves there. --keep-partitions is for
writers that set hoodie.simple.index.update.partition.path, or that of their index, to false, as
it is by default with a record index: such a row is updated where it is.

bucket is for tables with hoodie.index.type=BUCKET, consistent-hashing for those that also have
hoodie.index.bucket.engine=CONSISTENT_HASHING. Of such a table all keys are read, and it is refused
if one is in another bucket than it belongs to. --buckets is what its writers give as
hoodie.bucket.index.num.buckets. Counts of single partitions (RFC-89) are found in the table, unless
its writers alone have them: --buckets-by-partition is what they give as
hoodie.bucket.index.partition.expressions.

The instants of a table have the local times of its writers, unless hoodie.table.timeline.timezone
is UTC. Then --time-zone says which zone that is, by its name in the IANA database: UTC if the JVMs
run in UTC. It is refused if the times of the newest files show another one. Of a table that is only
read, the zone may be stated without an index: ages of its commits are shown then.

Keys and paths of some rows are compared with what the table's key generator makes of them. Where it
leaves options of the generator to its writers, as CUSTOM does with hoodie.keygen.timebased.*, state
them by --key-option. Whether COMPLEX puts the name of a single key field into keys is read from the
rows, where the table's version does not say.

Nothing but the table's properties changes. Writers of Apache Hudi continue with their options.
"""
EXAMPLES = """Examples:

  hoodie adopt /data/trips --index simple --dry-run
  hoodie adopt /data/trips --index simple
  hoodie adopt /data/trips --index simple --time-zone Europe/Berlin
  hoodie adopt /data/trips --index bucket --buckets 16
  hoodie adopt /data/trips --index bucket --buckets 16 --buckets-by-partition '^2026,64'
  hoodie adopt /data/trips --index global-bloom --keep-partitions
  hoodie adopt /data/trips --key-option hoodie.keygen.timebased.output.timezone=UTC
"""


def adopt(  # noqa: PLR0913 - one for each option
    uri: options.TableUri,
    *,
    index: Annotated[
        options.IndexName | None,
        typer.Option(help="How the table's writers find rows."),
    ] = None,
    keep_partitions: options.KeepsPartitions = False,
    buckets: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="With --index bucket or consistent-hashing: buckets of each partition.",
        ),
    ] = None,
    buckets_by_partition: options.BucketsByPartition = None,
    bucket_fields: Annotated[
        str | None,
        typer.Option(
            metavar="F[,F]",
            help="With --index bucket or consistent-hashing: the columns that are hashed.",
            show_default="the record key",
        ),
    ] = None,
    time_zone: Annotated[
        str | None,
        typer.Option(
            metavar="ZONE", help="Zone of the instants' local times, such as Europe/Berlin."
        ),
    ] = None,
    key_option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE",
            help="An option of the key generator that the table does not state, several times.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", metavar="", help="Only compare, and show what to change.")
    ] = False,
    lock: options.LockText = None,
    set_texts: options.SetTexts = None,
    as_json: options.AsJson = False,
) -> None:
    """State what a table that Apache Hudi made lacks, such as its index or its time zone."""
    declared = configurations.Adoption(
        index=None if index is None else options.INDEX_KINDS[index],
        keeps_partitions=keep_partitions,
        buckets=buckets,
        bucket_fields=options.names(bucket_fields, "--bucket-fields") if bucket_fields else (),
        time_zone=time_zone,
        key_options=options.properties(key_option, "--key-option"),
    )
    run = run_settings.parse_for_service(uri, set_texts, lock)
    with progress.Display() as display:
        opened = tables.open_table(uri, environment.system(), display)
        run_settings.check_facts(run.facts, opened.config)
        is_stated = opened.config.states_index and opened.config.time_zone is not None
        if not is_stated and index is None and time_zone is None and not key_option:
            raise errors.ConfigurationError(
                "nothing to state: expected --index, --time-zone, or both"
            )
        display.phase("comparing the table with what is declared")
        config = configurations.adopted(opened.config, declared)
        changes = opened.adopt(
            config,
            run.transaction(authors.Author()),
            hashing_config=configurations.hashing_config(config, buckets_by_partition),
            is_preview=dry_run,
        )
    shown = adoptions.document(opened.uri, config, changes, is_done=not dry_run)
    if as_json:
        output.document(shown)
        return
    for line in adoptions.lines(shown):
        output.line(line)


COMMAND = command.Command(
    run=adopt,
    details=DETAILS,
    examples=EXAMPLES,
)
