"""What observers tell: timelines, sources, locks and runs, as values.

Every group of facts carries when it was seen, because a decision about a run that has ended may
only stand on what was seen after its end.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hoodie.model import instants, jobs, table_config


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
        target: What a rollback takes back; None for other actions, and where it is not known.
        is_alive: Whether a fresh heartbeat says that somebody works on it.
    """

    requested_time: instants.InstantTime
    action: str
    writer_id: str | None = None
    action_id: str | None = None
    target: instants.InstantTime | None = None
    is_alive: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """What a table's storage tells.

    Attributes:
        observed_ms: When it was seen, by the operator's clock, at the start of looking.
        problem: Why it could not be seen; nothing else is set then.
        config: The stored configuration; None when there is no table.
        commits: Completed, in the order of their completion.
        pending: In the order of their requested times.
        ledger: Batches by writer id that the table remembers beyond its active timeline.
    """

    observed_ms: int
    problem: Problem | None = None
    config: table_config.TableConfig | None = None
    commits: Sequence[Commit] = ()
    pending: Sequence[Pending] = ()
    ledger: Mapping[str, Sequence[str]] = field(default_factory=dict)


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
        observed_ms: When.
        problem: Why it could not be read; nothing else is set then.
        groups: Files that belong into one commit each, in order.
        columns: Those of the files; None when only reading all of them would tell.
    """

    generation: int
    observed_ms: int
    problem: Problem | None = None
    groups: Sequence[Sequence[SourceFile]] = ()
    columns: Sequence[str] | None = None


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
        name: Of the owner.
        uid: Of the owner.
        attempt: From 1.
    """

    kind: str
    name: str
    uid: str
    attempt: int

    def __str__(self) -> str:
        return f"{self.kind.lower()}.{self.name}.{self.uid[:8]}.{self.attempt}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What is known of an attempt.

    Attributes:
        id: Which.
        protocol_hash: What it was started with.
        started_ms: When.
        process: Where it runs, for people.
        stop_requested_ms: When it was told to stop; None while it was not.
        stop_reason: Why; empty while it was not.
        progress: What it told last.
        ended_ms: When it ended or was seen to have ended; None while it runs.
        result: What it told at its end; None when it did not come to that.
        exit_code: None where unknown.
    """

    id: RunId
    protocol_hash: str
    started_ms: int
    process: str = ""
    stop_requested_ms: int | None = None
    stop_reason: str = ""
    progress: jobs.JobProgress | None = None
    ended_ms: int | None = None
    result: jobs.JobResult | None = None
    exit_code: int | None = None

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self.ended_ms is None

    @property
    def last_sign_ms(self) -> int:
        """When it last told anything, its start included."""
        return max(self.started_ms, self.progress.updated_ms if self.progress else 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything seen from outside, by the uid of the object that it is about."""

    tables: Mapping[str, TableFacts] = field(default_factory=dict)
    sources: Mapping[str, SourceFacts] = field(default_factory=dict)
    locks: Mapping[str, LockFacts] = field(default_factory=dict)
    runs: Mapping[str, Sequence[Run]] = field(default_factory=dict)
