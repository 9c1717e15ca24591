"""What an operation on a table did, as values that commands and jobs show."""

import enum
from dataclasses import dataclass

from hoodie.model import commits, files, instants, plans


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitResult:
    """A write or a compaction that took effect.

    Attributes:
        instant: Completed.
        stats: What was written to each file group.
        replaced: The file groups that it retired.
        batch_id: The writer's batch, if it has one.
        lock_wait_ms: Waited for the table lock in all.
        lock_hold_ms: Held it in all.
        findings: What the table's user should know though nothing failed.
        planned_compaction: What the writer planned after its commit; None for nothing.
    """

    instant: instants.Instant
    stats: tuple[commits.WriteStat, ...]
    replaced: frozenset[files.FileGroupId] = frozenset()
    batch_id: str | None = None
    lock_wait_ms: int = 0
    lock_hold_ms: int = 0
    findings: tuple[str, ...] = ()
    planned_compaction: instants.InstantTime | None = None

    @property
    def records(self) -> int:
        """Rows written, deletes not counted."""
        return sum(stat.written for stat in self.stats)

    @property
    def inserted(self) -> int | None:
        """Rows that were new; None where a log file took rows, for which nothing is looked up."""
        return sum(stat.inserts for stat in self.stats) if self._has_looked else None

    @property
    def updated(self) -> int | None:
        """Rows that replaced others; None likewise."""
        return sum(stat.updates for stat in self.stats) if self._has_looked else None

    @property
    def unchanged(self) -> int | None:
        """Rows that changed nothing, beside those written; None likewise."""
        return self.lost if self._has_looked else None

    @property
    def lost(self) -> int:
        """Rows that were not written to base files, which have rows of greater ordering values."""
        return sum(stat.lost for stat in self.stats)

    @property
    def _has_looked(self) -> bool:
        return not any(stat.log_files for stat in self.stats)

    @property
    def deletes(self) -> int:
        """Keys deleted."""
        return sum(stat.deletes for stat in self.stats)

    @property
    def size_bytes(self) -> int:
        """The summed size of the files written."""
        return sum(stat.size_bytes for stat in self.stats)

    @property
    def group_count(self) -> int:
        """File groups written to."""
        return len({(stat.partition_path, stat.file_id) for stat in self.stats})

    @property
    def file_count(self) -> int:
        """Files written."""
        return sum(max(1, len(stat.log_files)) for stat in self.stats)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCounts:
    """What became of the rows of a write, by the table before and after it.

    Attributes:
        inserted: Rows whose keys were new.
        updated: Rows that replaced others.
        unchanged: Rows that changed nothing: the table has one of a greater ordering value, which a
            base file then keeps, and log files leave to readers; or a log file has another of the
            key, or the same values where rows are merged by column.
    """

    inserted: int
    updated: int
    unchanged: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleResult:
    """What became of the request to plan a compaction.

    Attributes:
        instant: The plan's; None where nothing was planned.
        outcome: In a word, such as `planned` or `not due`.
        message: With numbers: why.
        file_groups: File groups in the plan.
        left_out: File groups that did not fit in: another plan with the same options takes them.
    """

    instant: instants.InstantTime | None
    outcome: str
    message: str
    file_groups: int = 0
    left_out: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AlreadyCommitted:
    """A batch that the table holds already: nothing was written.

    Attributes:
        batch_id: The batch.
    """

    batch_id: str


WriteResult = CommitResult | AlreadyCommitted


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackResult:
    """An instant that was taken back.

    Attributes:
        instant: The rollback, completed.
        target: The requested time of what it took back.
        action: What that was to do.
        deleted: Paths of the files that are gone, below the table's root.
        lock_wait_ms: Waited for the table lock in all.
        lock_hold_ms: Held it in all.
        findings: What the table's user should know though nothing failed.
    """

    instant: instants.Instant
    target: instants.InstantTime
    action: instants.Action
    deleted: tuple[str, ...]
    lock_wait_ms: int = 0
    lock_hold_ms: int = 0
    findings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackResults:
    """What became of the failed writes of a table.

    Attributes:
        done: Taken back, in that order.
        passed_over: Why others were not: somebody alive works on them, or was faster; or they were
            archived.
        leftovers: Files removed of instants that are not pending.
    """

    done: tuple[RollbackResult, ...] = ()
    passed_over: tuple[str, ...] = ()
    leftovers: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanResult:
    """A clean that took effect.

    Attributes:
        instant: Completed.
        deleted: Paths of the files that are gone, below the table's root.
        lock_wait_ms: Waited for the table lock in all.
        lock_hold_ms: Held it in all.
        findings: What the table's user should know though nothing failed.
    """

    instant: instants.Instant
    deleted: tuple[str, ...]
    lock_wait_ms: int = 0
    lock_hold_ms: int = 0
    findings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexResult:
    """Indexes that are ready.

    Attributes:
        instant: The indexing action that completed last; None where all were ready before.
        built: Those that were not.
        lock_wait_ms: Waited for the table lock in all.
        lock_hold_ms: Held it in all.
        findings: What the table's user should know though nothing failed.
    """

    instant: instants.Instant | None = None
    built: tuple[str, ...] = ()
    lock_wait_ms: int = 0
    lock_hold_ms: int = 0
    findings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanResults:
    """What the cleaning of a table did.

    Attributes:
        done: Cleans that were completed, those that were pending before first.
        held_by: What keeps the oldest version that stays.
        left_out: Files that may go and stay for the next clean.
    """

    done: tuple[CleanResult, ...] = ()
    held_by: str
    left_out: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryFile:
    """A file of the archived timeline.

    Attributes:
        name: In the folder of the history.
        first: Requested time of its first instant.
        last: Requested time of its last instant.
        newest: The greatest requested or completion time in it.
        count: How many instants it holds.
    """

    name: str
    first: instants.InstantTime
    last: instants.InstantTime
    newest: instants.InstantTime
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveResult:
    """What was moved out of the active timeline.

    Attributes:
        archived: Completed instants, by requested time.
        trimmed: Files of the history that were too old: no manifest lists them any more.
        holds: What keeps further instants, or further history, a sentence each.
        leftovers: Files removed of instants that are not pending.
        lock_wait_ms: Waited for the table lock in all.
        lock_hold_ms: Held it in all.
    """

    archived: tuple[instants.Instant, ...]
    trimmed: tuple[HistoryFile, ...] = ()
    holds: tuple[str, ...]
    leftovers: int = 0
    lock_wait_ms: int = 0
    lock_hold_ms: int = 0


class Severity(enum.Enum):
    """How bad a finding is."""

    NOTE = "note"
    ERROR = "error"


class Remedy(enum.Enum):
    """What mends a finding."""

    ROLL_BACK = "roll back"
    COMPACT = "compact"
    CLEAN = "clean"
    BUILD_INDEX = "build index"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that a check of a table found.

    Attributes:
        severity: A note is nothing to mend.
        subject: The file, instant or property it is about.
        message: What is so, and what was expected.
        remedy: What mends it; None for nothing that we have.
    """

    severity: Severity
    subject: str
    message: str
    remedy: Remedy | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingInstant:
    """A pending instant, and what is known of whoever works on it.

    Attributes:
        instant: In its furthest state.
        is_alive: Whether it must be left alone.
        liveness: What its heartbeat tells, in a word or two.
        owner: Who works on it; None where nobody says so.
        silence_ms: Since the last sign of life; None where there is none.
        remedy: What to do about it; None while it is to be left alone.
    """

    instant: instants.Instant
    is_alive: bool
    liveness: str
    owner: str | None
    silence_ms: int | None
    remedy: Remedy | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointResult:
    """A savepoint of a table.

    Attributes:
        instant: Completed; its requested time is that of the commit that it keeps.
        savepoint: What it says.
        is_new: Whether it was created just now.
    """

    instant: instants.Instant
    savepoint: plans.Savepoint
    is_new: bool = False
