"""What a job is asked to do: one JSON file with a `JobSpec`, the only argument of its program."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from hoodie import errors
from hoodie.contract import attempt_fences, batch_settings, engine_specs, input_sources
from hoodie.model import commits, compaction_options, json_values, settings

DELETE = "Delete"
"""The deletion policy by which a table's data goes with its HudiTable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTable:
    """Create the table, or compare an existing one with the expected configuration.

    Attributes:
        may_create: Whether an absent table is created; otherwise it is an error.
        may_adopt: Whether an existing table is taken over; otherwise it is an error.
        has_metadata_table: Whether a table that is created gets a metadata table.
        time_zone: Of the times of an existing table that are local ones; None where they are not.
        key_options: Options of the key generator of an existing table, which that may lack.
        bucket_counts: Bucket counts by partition that the table begins with, or that an existing
            one may not say, as `partition_buckets.declared` takes them; empty for none.
    """

    may_create: bool = True
    may_adopt: bool = True
    has_metadata_table: bool = False
    time_zone: str | None = None
    key_options: Mapping[str, str] = field(default_factory=dict)
    bucket_counts: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteBatches:
    """Write batches in order, one commit each; a batch that the timeline holds is skipped.

    Attributes:
        operation: One that has rows; anything but a delete of partitions.
        source: How to read the files.
        batches: In the order of their commits.
        commit_interval_ms: Pace: a commit stays open, from its requested time to its completion,
            at least this long, so that readers see changes at most that often. 0 for as fast as
            can be.
        settings: Of each batch, until the file of `batch_settings_path` has others.
        sort_by: Columns by which a bulk insert sorts the rows of each batch; none for no order.
    """

    operation: commits.Operation
    source: input_sources.Source
    batches: tuple[input_sources.Batch, ...]
    commit_interval_ms: int = 0
    settings: batch_settings.BatchSettings = field(default_factory=batch_settings.BatchSettings)
    sort_by: tuple[str, ...] = ()


class CompactionStep(enum.Enum):
    """Which part of a compaction to do."""

    SCHEDULE = "schedule"
    EXECUTE = "execute"
    SCHEDULE_AND_EXECUTE = "schedule-and-execute"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compact:
    """Plan a compaction, execute a planned one, or both.

    Attributes:
        step: Which part.
        instant_time: The plan to execute; set exactly when the step is EXECUTE.
        options: Of the plan to make: trigger, strategies and bounds, by the keys of
            `compaction_options`; none for whatever there is.
    """

    step: CompactionStep
    instant_time: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RollBack:
    """Take failed writes back.

    Attributes:
        instant_time: One pending instant; None for everything that failed.
    """

    instant_time: str | None = None


class CleanPolicy(enum.Enum):
    """By what the past that stays readable is measured."""

    COMMITS = "commits"
    HOURS = "hours"
    VERSIONS = "versions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Clean:
    """Delete the file versions that no reader needs any more.

    Attributes:
        policy: By what the past is measured.
        retained: So many commits, hours or file versions stay.
        grace_ms: What was replaced so recently stays for its readers.
        files_max: About so many files are deleted at most; None for the default.
        is_dry_run: Whether to report only what would be deleted.
    """

    policy: CleanPolicy
    retained: int
    grace_ms: int
    files_max: int | None = None
    is_dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """Move old instants out of the active timeline.

    Attributes:
        commits_min: So many commits are left by a run.
        commits_max: Nothing is archived unless there are more.
        clean_retained: How many commits the cleaner keeps readable; None if that is not known.
        history_days: So many days of what is archived stay; None for all of it.
        is_dry_run: Whether to report only what would be archived.
    """

    commits_min: int
    commits_max: int
    clean_retained: int | None = None
    history_days: int | None = None
    is_dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateSavepoint:
    """Keep the files of a commit.

    Attributes:
        commit: Requested time of the commit; None for the write that completed last.
        comment: Any text.
    """

    commit: str | None = None
    comment: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteSavepoints:
    """Delete savepoints.

    Attributes:
        commits: Requested times of the commits that they keep; one that has none is passed over.
        older_than_ms: Beside them, those that completed so long before the newest instant on the
            timeline; None for no others.
    """

    commits: tuple[str, ...] = ()
    older_than_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletePartitions:
    """Delete all rows of some partitions; of those that have none it is done.

    Attributes:
        partitions: Their paths.
    """

    partitions: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRows:
    """Delete the rows that match when the run begins its write.

    Attributes:
        where: The filter, as `hoodie.read.where` parses it.
    """

    where: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigureTable:
    """Change which engines write the table, and what writes store of changes.

    Attributes:
        has_chain: Whether a chain is to order all changes.
        has_foreign_writers: Whether other engines may write it; if not, it has a chain.
        change_data: The logging mode of change data, by Hudi's constant; empty for none, and None
            for what it is.
    """

    has_chain: bool
    has_foreign_writers: bool
    change_data: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InitialiseMetadata:
    """Make the metadata table of the table, unless it has one.

    Attributes:
        is_rebuilt: Whether one that is there is dropped first.
    """

    is_rebuilt: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DropMetadata:
    """Drop the metadata table of the table, if it has one."""


class IndexValidation(enum.Enum):
    """How much of a metadata table is compared with the table after its indexes are built."""

    NONE = "none"
    SAMPLE = "sample"
    WHOLE = "whole"


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildIndexes:
    """Build the indexes of the table that are missing, and finish a build that broke off.

    Attributes:
        names: Partitions of the metadata table.
        columns: Of secondary indexes, and calls of expression indexes, by the names of these.
        statistics_columns: Those of statistics; None for those that there are, or by default.
        validation: What is compared once they are ready, also if they were before.
        is_partitioned: Whether a record index is one of each partition.
    """

    names: tuple[str, ...]
    columns: Mapping[str, str] = field(default_factory=dict)
    validation: IndexValidation = IndexValidation.NONE
    is_partitioned: bool = False
    statistics_columns: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DropIndexes:
    """Drop the indexes of the table that are there, and give up what is being built of them.

    Attributes:
        names: Partitions of the metadata table.
    """

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirror:
    """Bring a mirror of the table in Iceberg up to date, or make it.

    Attributes:
        kept: How many snapshots the mirror keeps.
        catalog: That it is in: a name that PyIceberg is configured with, or a URI; None for the
            table's own folder alone.
        table: Its name in the catalog.
    """

    kept: int
    catalog: str | None = None
    table: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DropTable:
    """Delete the table's data and everything else below its root; done when nothing is there.

    Who starts it repeats what the HudiTable says, and the job refuses whatever does not ask for it.
    The defaults ask for nothing.

    Attributes:
        table_uid: Of the HudiTable that is being deleted.
        deletion_policy: What it says becomes of the data.
        is_protected: Whether it says that the data stays all the same.
    """

    table_uid: str = ""
    deletion_policy: str = ""
    is_protected: bool = True


Work: TypeAlias = (
    CreateTable
    | WriteBatches
    | Compact
    | RollBack
    | Clean
    | Archive
    | CreateSavepoint
    | DeleteSavepoints
    | DeletePartitions
    | DeleteRows
    | ConfigureTable
    | InitialiseMetadata
    | DropMetadata
    | BuildIndexes
    | DropIndexes
    | Mirror
    | DropTable
)
"""What a job can be asked to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """Everything that a job is given.

    Attributes:
        table_uri: The table's root.
        allowed_roots: The folders or prefixes of which the table and all input must be below one;
            none for no limit.
        table_properties: What `hoodie.properties` holds of a new table, and what an existing one
            must agree with.
        settings: The effective settings, equal for everything that writes this table.
        lock: Address of the table lock, as `hoodie.transaction.locks.address_texts` parses it.
        protocol_hash: Of everything that all writers of the table must agree on.
        writer_id: Unique among the table's writers; None for a table service's run.
        action_id: The TableAction's name, or `HudiTable/NAME` for a table's own runs; None for a
            writer's run.
        attempt: Higher than that of every earlier attempt of the writer or action on this table.
        fence: Where the operator says which attempt may commit, read in the lock scope of each
            completion beside the attempt record in the table. None where there is none.
        work: What to do.
        engine: What to run on.
        progress_path: Where to put a `JobProgress`; None for nowhere.
        result_path: Where to put the `JobResult`; None for nowhere.
        termination_path: A file that is there, such as a pod's termination message, to write the
            `JobResult` into as well; None for none.
        progress_port: Where the job answers `GET /progress` with its `JobProgress`; None where it
            does not.
        batch_settings_path: Where a writer reads, before each batch, the `BatchSettings` that are
            newer than those of its work, if the file is there; None for nowhere.
    """

    table_uri: str
    allowed_roots: tuple[str, ...]
    table_properties: Mapping[str, str]
    settings: settings.WriteSettings
    lock: str
    protocol_hash: str
    writer_id: str | None
    action_id: str | None
    attempt: int
    fence: attempt_fences.FenceAddress | None
    work: Work
    engine: engine_specs.EngineSpec
    progress_path: str | None
    result_path: str | None
    termination_path: str | None = None
    progress_port: int | None = None
    batch_settings_path: str | None = None


def encode_spec(spec: JobSpec) -> bytes:
    """Return the content of a spec file."""
    return json_values.encode(spec)


def decode_spec(content: bytes, source: str) -> JobSpec:
    """Return the spec in a file's content.

    Raises:
        ConfigurationError: An option of compaction is unknown, or has another value.
        InvalidInputError: The content does not fit; the message names source and field.
    """
    spec = json_values.decode(JobSpec, content, source)
    if spec.attempt < 1:
        raise errors.InvalidInputError(f"{source}.attempt: is {spec.attempt}, expected 1 or more")
    match spec.work:
        case WriteBatches() as work:
            _check_write(spec, work, source)
        case Compact() as work:
            if (work.instant_time is not None) != (work.step is CompactionStep.EXECUTE):
                raise errors.InvalidInputError(
                    f"{source}.work.instant_time: is {work.instant_time!r} with step "
                    f"{work.step.value}, expected an instant exactly with step execute"
                )
            compaction_options.from_properties(work.options)
        case ConfigureTable() as work:
            if not (work.has_chain or work.has_foreign_writers):
                raise errors.InvalidInputError(
                    f"{source}.work.has_chain: is false, expected true without foreign writers"
                )
        case DeleteSavepoints() as work:
            if not work.commits and work.older_than_ms is None:
                raise errors.InvalidInputError(
                    f"{source}.work: has no commits and no older_than_ms, expected one of them"
                )
        case (
            CreateTable()
            | RollBack()
            | Clean()
            | Archive()
            | CreateSavepoint()
            | DeletePartitions()
            | DeleteRows()
            | InitialiseMetadata()
            | DropMetadata()
            | BuildIndexes()
            | DropIndexes()
            | Mirror()
            | DropTable()
        ):
            pass
    return spec


def _check_write(spec: JobSpec, work: WriteBatches, source: str) -> None:
    compaction_options.from_properties(work.settings.compaction)
    if spec.writer_id is None:
        raise errors.InvalidInputError(f"{source}.writer_id: is missing, expected one to write")
    ids = [batch.id for batch in work.batches]
    if duplicates := sorted({batch_id for batch_id in ids if ids.count(batch_id) > 1}):
        raise errors.InvalidInputError(
            f"{source}.work.batches: id {duplicates[0]!r} is given twice, expected unique ids"
        )
    if len(work.source.delimiter) != 1:
        raise errors.InvalidInputError(
            f"{source}.work.source.delimiter: is {work.source.delimiter!r}, expected one character"
        )
