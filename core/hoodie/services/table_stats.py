"""`hoodie stats`: how a table's rows lie in files, and what a table service would do about it now.

Terms:
    current   files that a snapshot read needs: of each file group the newest slice, and what is
              merged with it while a compaction is pending
    older     committed files that are not current: versions before, and replaced file groups
    other     data files of writes that have not completed, or that no instant knows
    small     a current base file below a size; bigger ones are read with fewer requests
    skew      bytes of the largest file group by those of the median one: tasks take a file group
              each, and the largest takes the longest

From one listing of the table and its timeline: no data file is read, and time grows with the number
of files alone.
"""

import statistics
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, fields, replace

from hoodie import errors
from hoodie.filegroup import snapshots
from hoodie.maintenance import consumers
from hoodie.maintenance.cleaning import service as cleaning
from hoodie.maintenance.compaction import planning, service
from hoodie.model import files, instants, plans, table_config
from hoodie.read import increments
from hoodie.storage import protocol
from hoodie.timeline import active, archived

SMALL_FILE_BYTES = 100 << 20
"""As Apache Hudi's `hoodie.parquet.small.file.limit`, in its default."""

_LAST = instants.InstantTime("9" * 17)

_PLANNED = (
    instants.Action.COMPACTION,
    instants.Action.LOG_COMPACTION,
    instants.Action.CLUSTERING,
    instants.Action.CLEAN,
    instants.Action.INDEXING,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStats:
    """The files of a partition, or of the whole table.

    Attributes:
        file_groups: How many have current files.
        base_files: Current ones.
        base_bytes: Their size.
        log_files: Current ones.
        log_bytes: Their size.
        small_files: Current base files below the limit.
        largest_group_bytes: Of the file group with the most current bytes.
        median_group_bytes: Of half of the file groups at least, and at most.
        older_files: Committed files that are not current.
        older_bytes: Their size: what a clean that keeps one version could free.
        other_files: Data files of writes that have not completed, or of none.
        other_bytes: Their size.
    """

    file_groups: int
    base_files: int
    base_bytes: int
    log_files: int
    log_bytes: int
    small_files: int
    largest_group_bytes: int
    median_group_bytes: int
    older_files: int
    older_bytes: int
    other_files: int
    other_bytes: int

    @property
    def log_ratio(self) -> float | None:
        """Bytes of log files by those of base files; None without base files."""
        return self.log_bytes / self.base_bytes if self.base_bytes else None

    @property
    def skew(self) -> float | None:
        """The largest file group by the median one; None without any."""
        if not self.median_group_bytes:
            return None
        return self.largest_group_bytes / self.median_group_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingPlan:
    """A plan of a table service that was not executed to its end.

    Attributes:
        instant: In its furthest state.
        file_groups: That it is to work on; None where that is not known from the timeline.
    """

    instant: instants.Instant
    file_groups: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NextCompaction:
    """What a compaction would do that was planned now.

    Attributes:
        file_groups: That it would merge.
        log_files: Of them.
        log_bytes: Of these.
        read_bytes: With their base files.
        reason: Why it would do nothing, or why not more; empty if it would merge all.
    """

    file_groups: int = 0
    log_files: int = 0
    log_bytes: int = 0
    read_bytes: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """What a consumer has not read yet.

    Attributes:
        writes: How many writes, compactions left out.
        since: Completion time of the first of them; None if it has read all.
        age_ms: For how long that waits to be read, in milliseconds, by our clock; 0 for none.
        is_least: Whether more may be archived that it has not read.
    """

    writes: int
    since: instants.InstantTime | None
    age_ms: int
    is_least: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerStats:
    """A declared consumer, and what it means to cleaning now.

    Attributes:
        consumer: Its file.
        state: Whether cleaning waits for it.
        passed_by: A clean that deleted, or may delete, what it has not read; None without one.
        lag: What it has not read yet; None where its file is damaged.
    """

    consumer: consumers.Consumer
    state: consumers.State
    passed_by: instants.Instant | None = None
    lag: Lag | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStats:
    """What is known of a table's files.

    Attributes:
        small_file_bytes: Base files below that count as small.
        partitions: By partition path, sorted.
        total: Of all partitions.
        pending: Plans of table services, by requested time.
        compaction: What one would do now.
        savepoints: Requested times of the commits that savepoints keep; a clean frees less.
        consumers: The declared consumers, by name; a clean waits for those that hold.
    """

    small_file_bytes: int
    partitions: Mapping[str, FileStats]
    total: FileStats
    pending: tuple[PendingPlan, ...]
    compaction: NextCompaction
    savepoints: tuple[instants.InstantTime, ...]
    consumers: tuple[ConsumerStats, ...] = ()


def of_table(
    storage: protocol.Storage,
    config: table_config.TableConfig,
    clock_ms: int,
    small_file_bytes: int = SMALL_FILE_BYTES,
) -> TableStats:
    """Return how a table's rows lie in files; cost as of a snapshot.

    Args:
        storage: The table's.
        config: Of the table.
        clock_ms: What our clock says, since the epoch.
        small_file_bytes: Base files below that count as small.
    """
    if small_file_bytes < 0:
        raise errors.InvalidInputError(
            f"a file is not smaller than {small_file_bytes} bytes, expected 0 or more"
        )
    snapshot = snapshots.take(storage, config)
    view = snapshot.view
    partitions: dict[str, FileStats] = {}
    groups_bytes: list[int] = []
    candidates: list[files.FileSlice] = []
    for path in view.partitions():
        groups = view.slices(path)
        latest = [found for each in groups if (found := view.latest_of(each)) is not None]
        candidates += (
            found for each in groups if (found := view.compactable_of(each, _LAST)) is not None
        )
        sizes = [each.total_bytes for each in latest]
        groups_bytes += sizes
        partitions[path] = _partition(snapshot, path, latest, sizes, small_file_bytes)
    return TableStats(
        small_file_bytes=small_file_bytes,
        partitions=partitions,
        total=_total(list(partitions.values()), groups_bytes),
        pending=_pending(snapshot.timeline, snapshot.compactions),
        compaction=_compaction(snapshot, config, candidates),
        savepoints=tuple(each.requested_time for each in snapshot.timeline.savepoints),
        consumers=tuple(of_consumers(storage, config, snapshot.timeline, clock_ms)),
    )


def of_consumers(
    storage: protocol.Storage,
    config: table_config.TableConfig,
    timeline: active.ActiveTimeline,
    clock_ms: int,
) -> list[ConsumerStats]:
    """Return the consumers that a timeline shows; no request without any.

    Two requests each, a listing, and a read for each clean that was requested after what one of
    them has read.

    Args:
        storage: The table's.
        config: Its configuration.
        timeline: Its timeline.
        clock_ms: What our clock says, since the epoch.
    """
    declared = consumers.read_all(storage, timeline)
    if not declared:
        return []
    now_ms = cleaning.clock_of(storage, config, timeline).now_ms
    return [
        ConsumerStats(
            consumer=each,
            state=each.state_at(now_ms),
            passed_by=None
            if each.record is None
            else consumers.passing(storage, timeline, each.consumed),
            lag=None
            if each.record is None
            else _lag(storage, config, timeline, each.consumed, clock_ms),
        )
        for each in declared
    ]


def _lag(
    storage: protocol.Storage,
    config: table_config.TableConfig,
    timeline: active.ActiveTimeline,
    consumed: instants.InstantTime,
    clock_ms: int,
) -> Lag:
    """Return what a consumer has not read; a request for one that is behind the timeline."""
    unread = [
        increments.completion_of(each)
        for each in timeline.completed_writes
        if increments.completion_of(each) > consumed and not increments.is_compaction(config, each)
    ]
    since = min(unread, default=None)
    is_behind = timeline.start is not None and consumed < timeline.start
    return Lag(
        writes=len(unread),
        since=since,
        age_ms=0 if since is None else max(0, clock_ms - config.zone.epoch_ms(since)),
        is_least=is_behind and archived.newest_manifest(storage) is not None,
    )


def _partition(
    snapshot: snapshots.Snapshot,
    path: str,
    latest: Collection[files.FileSlice],
    sizes: list[int],
    small_file_bytes: int,
) -> FileStats:
    current: set[str] = set()
    bases = [each.base_file for each in latest if each.base_file is not None]
    logs = [log for each in latest for log in each.log_files]
    current.update(base.name for base in bases)
    current.update(log.name for log in logs)
    older: list[int] = []
    other: list[int] = []
    is_committed: dict[instants.InstantTime, bool] = {}
    for data_file in snapshot.listing.files(path):
        if data_file.name in current:
            continue
        time = data_file.instant_time
        if time not in is_committed:
            is_committed[time] = snapshot.committed.is_committed(time)
        (older if is_committed[time] else other).append(data_file.size_bytes)
    return FileStats(
        file_groups=len(sizes),
        base_files=len(bases),
        base_bytes=sum(base.size_bytes for base in bases),
        log_files=len(logs),
        log_bytes=sum(log.size_bytes for log in logs),
        small_files=sum(base.size_bytes < small_file_bytes for base in bases),
        largest_group_bytes=max(sizes, default=0),
        median_group_bytes=statistics.median_low(sizes) if sizes else 0,
        older_files=len(older),
        older_bytes=sum(older),
        other_files=len(other),
        other_bytes=sum(other),
    )


def _total(partitions: Collection[FileStats], groups_bytes: list[int]) -> FileStats:
    sums = {
        each.name: sum(getattr(found, each.name) for found in partitions)
        for each in fields(FileStats)
    }
    return replace(
        FileStats(**sums),
        largest_group_bytes=max(groups_bytes, default=0),
        median_group_bytes=statistics.median_low(groups_bytes) if groups_bytes else 0,
    )


def _pending(
    timeline: active.ActiveTimeline,
    compactions: Mapping[instants.InstantTime, plans.CompactionPlan],
) -> tuple[PendingPlan, ...]:
    found = []
    for each in timeline.pending_of(*_PLANNED):
        plan = compactions.get(each.requested_time)
        is_known = plan is not None and each.action is instants.Action.COMPACTION
        count = len(plan.operations) if plan is not None and is_known else None
        found.append(PendingPlan(instant=each, file_groups=count))
    return tuple(found)


def _compaction(
    snapshot: snapshots.Snapshot,
    config: table_config.TableConfig,
    candidates: Iterable[files.FileSlice],
) -> NextCompaction:
    """Return what the next compaction would do that nothing bounds."""
    try:
        service.Compaction().check(config)
    except errors.ConfigurationError as error:
        return NextCompaction(reason=str(error))
    groups = {each.group for plan in snapshot.compactions.values() for each in plan.operations}
    waiting = f"{len(groups)} file groups are in pending compactions" if groups else ""
    merged = planning.changed(candidates)
    if not merged:
        return NextCompaction(reason=waiting or "no file group has log files to merge")
    return NextCompaction(
        file_groups=len(merged),
        log_files=sum(len(each.log_files) for each in merged),
        log_bytes=sum(each.log_bytes for each in merged),
        read_bytes=sum(each.total_bytes for each in merged),
        reason=waiting,
    )
