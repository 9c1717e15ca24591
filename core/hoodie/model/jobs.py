"""The contract between whoever starts runs (the operator) and the programs they are (the jobs).

In: one JSON file with a `JobSpec`, the only argument of a job. While it runs: a `JobProgress`,
replaced atomically, for whoever watches. Out: one JSON file with a `JobResult`, put in place by
rename as the very last act, and the exit code of its error (`hoodie.errors.EXIT_CODES`).

Terms:
    run      what one owner (a Writer, a TableAction) wants done; it may take several attempts
    attempt  one process or pod of a run; numbers grow, and only the newest may commit
    batch    the input of one commit; its id is stored in that commit, so that it is written once

A result never proves a commit: whether an instant completed is read from the timeline, where the
commit's extra metadata names writer, action, attempt and batch by the keys below.
"""

import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from hoodie import errors
from hoodie.model import commits, instants, json_values, settings

WRITER_ID_KEY = "hoodie.operator.writer.id"
"""Extra metadata key of inflights and commits: who wrote it; unique among a table's writers."""

WRITE_ID_KEY = "hoodie.operator.write.id"
"""Extra metadata key of inflights, plans and commits: fresh for each write."""

BATCH_ID_KEY = "hoodie.operator.batch.id"
"""Extra metadata key of commits: which of the writer's batches it holds (rule WR1)."""

BATCH_FILES_KEY = "hoodie.operator.batch.files"
"""Extra metadata key of commits: JSON list of what the batch's files are remembered by."""

ACTION_ID_KEY = "hoodie.operator.action.id"
"""Extra metadata key of plans and commits: the TableAction that made it."""

ATTEMPT_KEY = "hoodie.operator.attempt"
"""Extra metadata key of inflights, plans and commits: the number of the attempt."""

DELETE = "Delete"
"""The deletion policy by which a table's data goes with its HudiTable."""

RESULT_BYTES_MAX = 3072
"""A longer result would be cut where it is a pod's termination message."""

_MESSAGE_LENGTH_MAX = 600


class SourceFormat(enum.Enum):
    """How input files are encoded."""

    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"


class EngineKind(enum.Enum):
    """What runs the data-parallel part."""

    LOCAL = "local"
    SPARK = "spark"


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesExecutors:
    """Executors as pods, made by the job as Spark's driver, which is in a pod itself.

    Attributes:
        namespace: Theirs, and the driver's.
        instances: How many.
        name_prefix: Their names begin with it; at most 47 characters.
        image: Theirs.
        template_path: A pod template, in the driver's pod, for everything else.
        cores: Tasks at one time, of each.
        cpu_request: A quantity; None leaves it to Spark.
        heap_mib: Of each JVM.
        overhead_mib: What its pod gets beside the heap, for Python and for native memory.
        labels: Of each pod.
    """

    namespace: str
    instances: int
    name_prefix: str
    image: str
    template_path: str
    cores: int
    cpu_request: str | None
    heap_mib: int
    overhead_mib: int
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSpec:
    """What to run on.

    Attributes:
        kind: Threads of the job's own process, or Spark.
        parallelism: Threads, or Spark's local cores; None takes the machine's.
        spark_conf: Spark properties beside those that the job sets.
        executors: The pods of Spark's tasks; None where they run in the job's own process.
    """

    kind: EngineKind = EngineKind.LOCAL
    parallelism: int | None = None
    spark_conf: Mapping[str, str] = field(default_factory=dict)
    executors: KubernetesExecutors | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnMapping:
    """One column of the table and where it comes from.

    Attributes:
        name: The table's column.
        source: The input's column.
    """

    name: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """How to read a writer's input files.

    Attributes:
        format: Their encoding; files ending in .gz are decompressed.
        columns: Which columns to take, under which names; empty takes all under their own.
        has_header: CSV: whether the first line names the columns; without one they are named by
            their position, `_c0` and up.
        delimiter: CSV: one character between fields.
        null_text: CSV: the text that means null, beside which the empty field does too.
    """

    format: SourceFormat
    columns: tuple[ColumnMapping, ...] = ()
    has_header: bool = True
    delimiter: str = ","
    null_text: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The input of one commit.

    Attributes:
        id: Unique among the writer's batches, equal for equal input; at most 128 characters.
        files: Absolute paths or URIs, read in this order.
        tokens: What each file is remembered by, so that it is known to be written however files
            are grouped into batches; empty when the id says it all.
    """

    id: str
    files: tuple[str, ...]
    tokens: tuple[str, ...] = ()

    @property
    def extra_metadata(self) -> dict[str, str]:
        """What the batch's commit carries beside ids."""
        if not self.tokens:
            return {}
        return {BATCH_FILES_KEY: json.dumps(self.tokens, ensure_ascii=False)}


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTable:
    """Create the table, or compare an existing one with the expected configuration.

    Attributes:
        may_create: Whether an absent table is created; otherwise it is an error.
        may_adopt: Whether an existing table is taken over; otherwise it is an error.
    """

    may_create: bool = True
    may_adopt: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteBatches:
    """Write batches in order, one commit each; a batch that the timeline holds is skipped.

    Attributes:
        operation: Upsert, insert, bulk insert or delete.
        source: How to read the files.
        batches: In the order of their commits.
        commit_interval_ms: Pace: a commit stays open, from its requested time to its completion,
            at least this long, so that readers see changes at most that often. 0 for as fast as
            can be.
    """

    operation: commits.Operation
    source: Source
    batches: tuple[Batch, ...]
    commit_interval_ms: int = 0


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
    """

    step: CompactionStep
    instant_time: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RollBack:
    """Take failed writes back.

    Attributes:
        instant_time: One pending instant; None for everything that failed.
    """

    instant_time: str | None = None


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


Work: TypeAlias = CreateTable | WriteBatches | Compact | RollBack | DropTable
"""What a job can be told to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceFile:
    """A file with a `Fence`, which whoever starts attempts writes.

    Attributes:
        path: Absolute.
    """

    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceNode:
    """A ZooKeeper node with a `Fence`, which whoever starts attempts writes.

    Attributes:
        servers: `host:port` of each.
        path: Of the node.
    """

    servers: tuple[str, ...]
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceRecord:
    """A record in the table's own storage, which each attempt makes of itself when it begins.

    Attributes:
        owner: Of which writer or action: the same for all its attempts.
    """

    owner: str


FenceAddress: TypeAlias = FenceFile | FenceNode | FenceRecord
"""Where it is told which attempt of a run may commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """Everything a job is told.

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
        action_id: The TableAction's name; None for a writer's run.
        attempt: Higher than that of every earlier attempt of the writer or action on this table.
        fence: Where it is told which attempt may commit, read in the lock scope of each
            completion. None where nobody fences.
        work: What to do.
        engine: What to run on.
        progress_path: Where to put a `JobProgress`; None for nowhere.
        result_path: Where to put the `JobResult`; None for nowhere.
        termination_path: A file that is there, such as a pod's termination message, to write the
            `JobResult` into as well; None for none.
        progress_port: Where the job answers `GET /progress` with its `JobProgress`; None where it
            does not.
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
    fence: FenceAddress | None
    work: Work
    engine: EngineSpec
    progress_path: str | None
    result_path: str | None
    termination_path: str | None = None
    progress_port: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """Which attempt may commit, and under which protocol.

    Attributes:
        attempt: The current attempt; 0 for none.
        protocol_hash: The table's current hash.
        lease: The number of the leader's lease who wrote it, among several operators; a leader
            with a lower one may not change it any more.
    """

    attempt: int
    protocol_hash: str
    lease: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobProgress:
    """How far a job has come.

    Attributes:
        phase: A word or two: `starting Spark`, `writing`, `waiting for lock`.
        done: Finished items: batches of a write, file groups of a compaction.
        total: All items; 0 while not known.
        updated_ms: When this was told, milliseconds since the epoch.
    """

    phase: str
    done: int
    total: int
    updated_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedInstant:
    """One instant that the job took part in.

    Attributes:
        requested_time: Its name.
        completion_time: None for a plan that was only requested.
        action: As on the timeline: deltacommit, commit, compaction.
        batch_id: The batch it holds, of a writer's run.
    """

    requested_time: instants.InstantTime
    completion_time: instants.InstantTime | None
    action: str
    batch_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobError:
    """Why a job failed.

    Attributes:
        kind: Of the class in `hoodie.errors`, or `Internal`.
        message: One line.
    """

    kind: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResult:
    """What a job tells at its end.

    Attributes:
        attempt: As in its spec.
        error: None when everything asked for was done.
        instants: In the order of their completion; the oldest are left out when there are more
            than fit, see `commit_count`.
        commit_count: All commits of this attempt.
        skipped_count: Batches that the timeline held already.
        records: Rows written, deletes not counted.
        deletes: Keys deleted.
        files: Data files written; of a rollback, deleted.
        bytes: Their summed size.
        file_groups: File groups compacted, of a compaction.
        duration_ms: From start to end.
        read_ms: Spent reading and preparing input.
        write_ms: Spent merging, encoding and writing data.
        lock_wait_ms: Summed waits for the table lock.
        lock_hold_ms: Summed times it was held.
        memory_bytes_max: Peak of resident memory of the job's own process; 0 where unknown.
        findings: What the operator's user should know though nothing failed.
    """

    attempt: int
    error: JobError | None = None
    instants: tuple[CommittedInstant, ...] = ()
    commit_count: int = 0
    skipped_count: int = 0
    records: int = 0
    deletes: int = 0
    files: int = 0
    bytes: int = 0
    file_groups: int = 0
    duration_ms: int = 0
    read_ms: int = 0
    write_ms: int = 0
    lock_wait_ms: int = 0
    lock_hold_ms: int = 0
    memory_bytes_max: int = 0
    findings: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """What the process that gives this result exits with."""
        if self.error is None:
            return errors.EXIT_DONE
        return errors.EXIT_CODES.get(self.error.kind, errors.EXIT_INTERNAL)


def encode_spec(spec: JobSpec) -> bytes:
    """Return the content of a spec file."""
    return json_values.encode(spec)


def decode_spec(content: bytes, source: str) -> JobSpec:
    """Return the spec in a file's content.

    Raises:
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
        case CreateTable() | RollBack() | DropTable():
            pass
    return spec


def _check_write(spec: JobSpec, work: WriteBatches, source: str) -> None:
    if spec.writer_id is None:
        raise errors.InvalidInputError(f"{source}.writer_id: is missing, expected one to write")
    ids = [batch.id for batch in work.batches]
    if duplicates := sorted({batch_id for batch_id in ids if ids.count(batch_id) > 1}):
        raise errors.InvalidInputError(
            f"{source}.work.batches: id {duplicates[0]!r} is there twice, expected unique ids"
        )
    if len(work.source.delimiter) != 1:
        raise errors.InvalidInputError(
            f"{source}.work.source.delimiter: is {work.source.delimiter!r}, expected one character"
        )


def encode_result(result: JobResult) -> bytes:
    """Return the content of a result file, at most `RESULT_BYTES_MAX` long.

    What does not fit is left out: first the oldest instants, then the last findings, then the end
    of the error's message.
    """
    error = result.error
    if error is not None and len(error.message) > _MESSAGE_LENGTH_MAX:
        error = replace(error, message=error.message[: _MESSAGE_LENGTH_MAX - 3] + "...")
        result = replace(result, error=error)
    while len(content := json_values.encode(result)) > RESULT_BYTES_MAX:
        if result.instants:
            result = replace(result, instants=result.instants[1:])
        elif result.findings:
            result = replace(result, findings=result.findings[:-1])
        else:
            assert result.error is not None, "numbers alone are never that long"
            message = result.error.message
            result = replace(result, error=replace(result.error, message=message[:-32]))
    return content


def decode_result(content: bytes, source: str) -> JobResult:
    """Return the result in a file's content.

    Raises:
        InvalidInputError: The content does not fit.
    """
    return json_values.decode(JobResult, content, source)


def encode_progress(progress: JobProgress) -> bytes:
    """Return the content of a progress file."""
    return json_values.encode(progress)


def decode_progress(content: bytes, source: str) -> JobProgress:
    """Return the progress in a file's content.

    Raises:
        InvalidInputError: The content does not fit.
    """
    return json_values.decode(JobProgress, content, source)


def encode_fence(fence: Fence) -> bytes:
    """Return the content of a fence file."""
    return json_values.encode(fence)


def decode_fence(content: bytes, source: str) -> Fence:
    """Return the fence in a file's content.

    Raises:
        InvalidInputError: The content does not fit.
    """
    return json_values.decode(Fence, content, source)
