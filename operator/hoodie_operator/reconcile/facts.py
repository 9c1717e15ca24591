"""What observers tell: timelines, sources, locks and runs, as values.

Every group of facts carries when it was seen, because a decision about a run that has ended may
only stand on what was seen after its end: both by the monotonic time of the process that decides.
"""

import enum
import functools
import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from hoodie.contract import job_results
from hoodie.maintenance.compaction import memory
from hoodie.model import instants, table_config
from hoodie_operator.api import objects

_DIGEST_LENGTH = 16


def digests(batches: Iterable[str]) -> str:
    """Return batches as one text of digests, which is shorter: there may be very many."""
    return "".join(sorted(map(_digest, batches)))


@functools.lru_cache(maxsize=256)
def _digests_in(text: str) -> frozenset[str]:
    starts = range(0, len(text), _DIGEST_LENGTH)
    return frozenset(text[start : start + _DIGEST_LENGTH] for start in starts)


def holds(text: str, batch: str) -> bool:
    """Return whether a batch is one of those of `digests`."""
    return bool(text) and _digest(batch) in _digests_in(text)


def _digest(batch: str) -> str:
    return hashlib.sha256(batch.encode(errors="surrogatepass")).hexdigest()[:_DIGEST_LENGTH]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Why something could not be seen.

    Attributes:
        kind: Of the class in `hoodie.errors`.
        message: One line.
        is_transient: Whether it may pass by itself.
    """

    kind: str
    message: str
    is_transient: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A completed write or compaction.

    Attributes:
        requested_time: Its name.
        completion_time: When it took effect.
        action: As on the timeline.
        is_compaction: Whether it is a compaction's result.
        writer_id: Who wrote it; None when the commit does not say.
        batch_id: Of the writer's batch; None when the commit does not say.
        files: Tokens of the batch's files, where it has several.
        action_id: Of the TableAction; None when there was none.
        log_bytes: Log files that it wrote.
    """

    requested_time: instants.InstantTime
    completion_time: instants.InstantTime
    action: str
    is_compaction: bool = False
    writer_id: str | None = None
    batch_id: str | None = None
    files: tuple[str, ...] = ()
    action_id: str | None = None
    log_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """An instant that is requested or inflight.

    Attributes:
        requested_time: Its name.
        action: As on the timeline.
        writer_id: As of `Commit`.
        action_id: The TableAction that planned it.
        attempt: The fence number of the attempt that began it; None where that is not told.
        target: What a rollback takes back; None for other actions, and where it is not known.
        is_alive: Whether a fresh heartbeat says that somebody works on it.
        process: Where its owner runs or ran, by its heartbeat; empty where that is not known.
        plan_size: Of a compaction; None of other actions, and where its plan cannot be read.
        indexes: What an indexing action builds; none of one that was given up, and of others.
        is_partitioned: Whether that has a record index of each partition.
    """

    requested_time: instants.InstantTime
    action: str
    writer_id: str | None = None
    action_id: str | None = None
    attempt: int | None = None
    target: instants.InstantTime | None = None
    is_alive: bool = False
    process: str = ""
    plan_size: memory.PlanSize | None = None
    indexes: tuple[str, ...] = ()
    is_partitioned: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Savepoint:
    """A completed savepoint.

    Attributes:
        requested_time: Of the commit that it keeps.
        completion_time: Of itself.
    """

    requested_time: instants.InstantTime
    completion_time: instants.InstantTime


@dataclass(frozen=True, slots=True, kw_only=True)
class PassedConsumer:
    """A declared consumer that a clean has passed: increments that it has not read may be gone.

    Attributes:
        name: Of the consumer.
        consumed: Completion time up to which it has read.
        clean: Requested time of the clean.
    """

    name: str
    consumed: instants.InstantTime
    clean: instants.InstantTime


CONSUMERS_MAX: Final = 100
"""So many consumers of a table are told: each is a series of the metrics."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumer:
    """A declared consumer, and what it has not read.

    Attributes:
        name: Of the consumer.
        consumed: Completion time up to which it has read.
        is_holding: Whether cleaning waits for it; otherwise it was silent beyond its limit.
        unread: How many writes it has not read, compactions left out.
        unread_since: Completion time of the first of them; None if it has read all.
    """

    name: str
    consumed: instants.InstantTime
    is_holding: bool = True
    unread: int = 0
    unread_since: instants.InstantTime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexBehind:
    """An index that lacks a write: its writer, of another engine, did not keep it up.

    Attributes:
        name: Of the index.
        instant: Requested time of the first such write.
    """

    name: str
    instant: instants.InstantTime


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataTable:
    """How a metadata table is that readers are to use.

    Attributes:
        delta_commits: Since its last compaction.
        problem: Why readers list the storage instead; empty if they use it.
        behind: Indexes that lack a write.
        has_partitioned_record_index: Whether its record index is one of each partition.
    """

    delta_commits: int = 0
    problem: str = ""
    behind: tuple[IndexBehind, ...] = ()
    has_partitioned_record_index: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirror:
    """How far a table's mirror in Iceberg is.

    Attributes:
        completion_time: Up to which it has followed the table.
        instant: Requested time of the newest write that it has; None for none.
        snapshots: How many it keeps.
        unmirrored_groups: File groups with rows in log files alone.
        unmirrored_log_bytes: The size of these log files.
    """

    completion_time: instants.InstantTime
    instant: instants.InstantTime | None
    snapshots: int
    unmirrored_groups: int
    unmirrored_log_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """What a table's storage tells.

    Attributes:
        observed_ms: When it was begun to be looked at, as of `Heard`.
        problem: Why it could not be seen; nothing else is set then.
        config: The stored configuration; None when there is no table.
        commits: Completed, in the order of their completion.
        pending: In the order of their requested times.
        last_clean: Requested time of the clean that completed last; None for none on the timeline.
        savepoints: In the order of their completion.
        archived: Batches that archived commits held, by writer id: see `digests`.
        ledger: Batches by writer id that the table remembers beyond its active timeline.
        has_partition_buckets: Whether it has bucket counts by partition, which non-blocking
            writers do not write.
        batch_settings: The hash that the newest commit of each writer carries, by writer id.
        consumers: Declared ones, those first that are the furthest behind.
        passed_consumers: Consumers that hold cleaning back, and that it has passed, by name.
        interference: What other engines did to a table with a chain that its users should know.
        metadata: Of the metadata table; None where readers have none to use.
        mirror: Of the mirror that spec.mirror declares; None where there is none.
    """

    observed_ms: int
    problem: Problem | None = None
    config: table_config.TableConfig | None = None
    commits: tuple[Commit, ...] = ()
    pending: tuple[Pending, ...] = ()
    last_clean: instants.InstantTime | None = None
    savepoints: tuple[Savepoint, ...] = ()
    archived: Mapping[str, str] = field(default_factory=dict)
    ledger: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    has_partition_buckets: bool = False
    batch_settings: Mapping[str, str] = field(default_factory=dict)
    consumers: tuple[Consumer, ...] = ()
    passed_consumers: tuple[PassedConsumer, ...] = ()
    interference: tuple[str, ...] = ()
    metadata: MetadataTable | None = None
    mirror: Mirror | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """One input file.

    Attributes:
        path: Absolute, or a URI.
        token: Its name and a digest of its content: what commits remember it by.
    """

    path: str
    token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFacts:
    """What a writer's source tells.

    Attributes:
        generation: Of the Writer that it was looked at for.
        observed_ms: As of `TableFacts`.
        problem: Why it could not be read; nothing else is set then.
        groups: Files that belong into one commit each, in order.
        columns: Those of the files; None when only reading all of them would tell.
    """

    generation: int
    observed_ms: int
    problem: Problem | None = None
    groups: tuple[tuple[SourceFile, ...], ...] = ()
    columns: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LockFacts:
    """What a lock provider tells.

    Attributes:
        generation: Of the LockProvider that it was looked at for.
        is_ready: Whether it answers.
        servers: `host:port` of each, of a ZooKeeper.
        message: What it says, or why it does not.
        since_ms: Since when it is ready, or is not.
    """

    generation: int
    is_ready: bool
    servers: Sequence[str] = ()
    message: str
    since_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunId:
    """One attempt of one object's run: never started twice.

    Attributes:
        kind: Of the owner.
        namespace: Of the owner.
        name: Of the owner.
        uid: Of the owner.
        attempt: From 1.
    """

    kind: str
    namespace: str
    name: str
    uid: str
    attempt: int

    def __str__(self) -> str:
        return f"{self.kind.lower()}.{self.name}.{self.uid[:8]}.{self.attempt}"

    @property
    def owner(self) -> objects.ObjectKey:
        """Where the owner is found; another of that key has another uid."""
        return objects.ObjectKey(kind=self.kind, namespace=self.namespace, name=self.name)


class Obstacle(enum.Enum):
    """What an attempt waits for before it can begin, or go on, where it is pods."""

    NO_POD = "its pod has not been created"
    NO_NODE = "its pod cannot be scheduled"
    NO_IMAGE = "the image of its pod has not been pulled"
    NO_CONTAINER = "the container of its pod cannot be created"
    BEGINNING = "its pod is starting"


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """That an attempt has not begun, or has no executor at work.

    Attributes:
        obstacle: What is in its way.
        message: What is said of it; empty for nothing.
        since_ms: Since when, by the clocks of API server and nodes.
    """

    obstacle: Obstacle
    message: str = ""
    since_ms: int

    @property
    def is_placed(self) -> bool:
        """Whether there is a node for its pod."""
        return self.obstacle not in (Obstacle.NO_POD, Obstacle.NO_NODE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """Why an attempt ended, as those tell who ran it.

    Attributes:
        kind: As of errors, or one of `reconcile.retries`.
        message: One line.
    """

    kind: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """When this process heard what of an attempt: monotonic milliseconds (`reconcile.hearing`).

    Attributes:
        news_ms: The last sign of life, or of the attempt at all.
        begun_ms: That it has begun.
        waiting_ms: That it waits for what it waits for.
        stop_ms: That it was told to stop; None while it was not.
        going_ms: That pods of it are to be gone; None while none are.
        ended_ms: That it has ended; None while it has not.
    """

    news_ms: int
    begun_ms: int
    waiting_ms: int
    stop_ms: int | None
    going_ms: int | None
    ended_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """A wait that a status tells of.

    Attributes:
        since: Its begin as it is told, by the clock of the process that told it.
        heard_ms: When this process heard of it, as of `Heard`.
    """

    since: str
    heard_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """The waits that the status of one object tells of; None for none.

    Attributes:
        state: In one waiting state, for one reason.
        attempt: For the next attempt, from the end of the last one.
        commit: Since the newest commit of the object's own.
    """

    state: Wait | None = None
    attempt: Wait | None = None
    commit: Wait | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What is known of an attempt.

    Attributes:
        id: Which.
        protocol_hash: What it was started with.
        run_hash: The same; empty where that was not noted.
        batch_settings_hash: Of the batch settings that it was given last; empty where it takes
            none up.
        started_ms: When.
        process: Where it runs, for people.
        table: Namespace and name of the HudiTable; empty where its owner alone tells.
        waiting: Why it has not begun; None for one that has, and where it begins at once.
        began_ms: When it began; None where that is not known apart from its start.
        unknown_after_ms: For how long pods may be going until nobody knows whether they are at
            work, their node being silent; 0 where that is told. None where none is going.
        is_abandoned: Whether its driver has ended, and has left executors at work.
        is_orphaned: Whether nothing but labels and a name says whose it is: its owner was deleted
            without it.
        stop_requested_ms: When it was told to stop; None while it was not.
        stop_reason: Why; empty while it was not.
        progress: What it told last.
        unreached: Where it was asked how far it is and the network was in the way, and how; empty
            where it was not.
        ended_ms: When it ended or was seen to have ended, for people; None while it runs.
        result: What it told at its end; None when it did not come to that.
        exit_code: None where unknown.
        cause: Why it ended, where somebody else than itself tells.
        heard: When what was heard of it, where somebody listens.
    """

    id: RunId
    protocol_hash: str
    run_hash: str = ""
    batch_settings_hash: str = ""
    started_ms: int
    process: str = ""
    table: str = ""
    waiting: Waiting | None = None
    began_ms: int | None = None
    unknown_after_ms: int | None = None
    is_abandoned: bool = False
    is_orphaned: bool = False
    stop_requested_ms: int | None = None
    stop_reason: str = ""
    progress: job_results.JobProgress | None = None
    unreached: str = ""
    ended_ms: int | None = None
    result: job_results.JobResult | None = None
    exit_code: int | None = None
    cause: Cause | None = None
    heard: Heard | None = None

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self.ended_ms is None


def of_owner(runs: Mapping[str, Sequence[Run]], owner: objects.AnyObject) -> Sequence[Run]:
    """Return the runs of an object, among all by the uid of their owner.

    What elsewhere names its uid is none, nor what nobody owns while the owner is to stay.
    """
    return [
        run
        for run in runs.get(owner.uid, ())
        if run.id.owner == owner.key and (owner.is_deleting or not run.is_orphaned)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """That the outside was not allowed to do what was decided about an object.

    Attributes:
        generation: Of the object.
        message: What was refused, and why.
        due_ms: When it is tried again.
        is_namespace_ending: Whether it was refused because the namespace is being deleted: no try
            will be granted.
        is_fenced_off: Whether it was refused because a leader by a later lease has been at it.
    """

    generation: int
    message: str
    due_ms: int
    is_namespace_ending: bool = False
    is_fenced_off: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything seen from outside, by the uid of the object that it is about.

    Attributes:
        tables: What storages tell.
        sources: What Writers are to write.
        locks: Whether lock providers answer.
        runs: Attempts, by the uid of their owner.
        at_work: Those of them that have not ended; None where they are not kept apart.
        refusals: What was refused.
        waits: What statuses tell to be waited for.
    """

    tables: Mapping[str, TableFacts] = field(default_factory=dict)
    sources: Mapping[str, SourceFacts] = field(default_factory=dict)
    locks: Mapping[str, LockFacts] = field(default_factory=dict)
    runs: Mapping[str, Sequence[Run]] = field(default_factory=dict)
    at_work: Collection[Run] | None = None
    refusals: Mapping[str, Refusal] = field(default_factory=dict)
    waits: Mapping[str, Waits] = field(default_factory=dict)
