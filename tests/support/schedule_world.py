"""A table in a simulated world, with writers and compactors that are small but go the real way.

Data files are a line of text each, in the names and places of real ones; timeline, heartbeats,
markers, locks and all decisions are the library's.
"""

from collections.abc import Sequence
from dataclasses import replace

from hoodie import errors
from hoodie.format import file_names, timeline_avro
from hoodie.model import commits, files, instants, plans, settings, table_config
from hoodie.storage.memory import MemoryStorage, MemoryStore
from hoodie.storage.protocol import Storage
from hoodie.timeline import active, table_properties, transitions
from hoodie.transaction import authors, layout, lifecycle, markers, scheduling
from hoodie.transaction.client import (
    AlreadyWritten,
    Client,
    Completion,
    Connection,
    Guard,
    OpenWrite,
)
from hoodie.write import conflicts
from support import faulty_storage, invariants, schedule

CONFIG = table_config.TableConfig(name="t", record_key_fields=("id",), bucket_count=2)
SETTINGS = settings.WriteSettings(
    concurrency=settings.ConcurrencyMode.NON_BLOCKING,
    heartbeat_interval_ms=1_000,
    heartbeat_misses_max=5,
    clock_wait_ms=0,
    lock_wait_ms=30_000,
)
GROUPS = tuple(files.FileGroupId("p", f"0000000{n}-0000-0000-0000-000000000000-0") for n in (0, 1))


class World:
    """One table, its lock service, and the processes that use them."""

    def __init__(
        self,
        time: schedule.Schedule | None = None,
        *,
        faults: faulty_storage.Faults | None = None,
        write_settings: settings.WriteSettings = SETTINGS,
    ) -> None:
        self.time = time or schedule.Schedule()
        self.faults = faults or faulty_storage.NoFaults()
        self.settings = write_settings
        self.has_partial_writes = False  # Or every write writes to every file group.
        self.store = MemoryStore(schedule.VirtualClock(self.time))
        self.storage: Storage = MemoryStorage(self.store)
        self.lock = schedule.SessionLock(self.time)
        self.told: list[invariants.Told] = []
        clock = schedule.VirtualClock(self.time)
        self.config = table_properties.create(self.storage, CONFIG, clock)

    def process(self, name: str, *, offset_ms: int = 0, host: str = "host") -> schedule.Process:
        return schedule.Process(self.time, name, offset_ms=offset_ms, host=host)

    def client(
        self,
        process: schedule.Process,
        author: authors.Author | None = None,
        *,
        guards: tuple[Guard, ...] = (),
        write_settings: settings.WriteSettings | None = None,
    ) -> Client:
        """Return a client of a process, with a lock provider of its own."""
        return Client(
            Connection(
                storage=faulty_storage.FaultyStorage(self.storage, process, self.faults),
                provider=schedule.SessionLockProvider(self.lock, process),
                surroundings=process,
                settings=write_settings or self.settings,
                author=author or authors.Author(writer_id=process.name),
                guards=guards,
                is_proved_dead=self.time.is_proved_dead,
            )
        )

    def writer(self, name: str, **options: object) -> Client:
        """Return a client of a process of its own."""
        return self.client(self.process(name), **options)  # type: ignore[arg-type] # passed on

    @property
    def timeline(self) -> active.ActiveTimeline:
        return active.load(self.storage)

    def check(self) -> active.ActiveTimeline:
        """Check every invariant."""
        timeline = invariants.check_all(self.storage, self.told)
        if self.is_optimistic:
            invariants.check_serial(self.storage, timeline, self.told)
        return timeline

    def begin(self, writer: Client, batch_id: str | None = None) -> OpenWrite:
        """Begin a write and make it inflight."""
        opened = lifecycle.begin(writer, instants.Action.DELTA_COMMIT, self.config, batch_id)
        assert isinstance(opened, OpenWrite), opened
        lifecycle.start(writer, opened, commits.Operation.UPSERT)
        return opened

    def write(self, writer: Client, batch_id: str | None = None) -> Completion | AlreadyWritten:
        """Write a batch, and take down what the writer is told."""
        begun_ms = self.time.now_ms
        opened = lifecycle.begin(writer, instants.Action.DELTA_COMMIT, self.config, batch_id)
        if isinstance(opened, AlreadyWritten):
            return opened
        number = self._tell(writer, opened, batch_id, begun_ms)
        try:
            lifecycle.start(writer, opened, commits.Operation.UPSERT)
            stats = write_data(writer, opened, self._groups())
            completion = lifecycle.complete(writer, opened, metadata(stats), self._steps(writer))
        except errors.HoodieError as error:
            self._end(number, invariants.outcome_of(error))
            lifecycle.abort(writer, opened, has_tasks_left=False)
            raise
        self._end(number, invariants.Outcome.ACKNOWLEDGED)
        return completion

    def schedule_compaction(self, service: Client) -> instants.Instant | None:
        """Plan a compaction of everything that completed, unless one is pending."""
        storage = service.storage

        def plan(
            timeline: active.ActiveTimeline,
            requested_time: instants.InstantTime,
            extra: object,
        ) -> bytes | None:
            assert isinstance(extra, dict)
            names = completed_logs(storage, timeline)
            if timeline.pending_compactions or not any(names.values()):
                return None
            assert all(
                completed_before(timeline, name, requested_time)
                for group in names.values()
                for name in group
            )
            operations = [
                plans.CompactionOperation(
                    group=group,
                    base_instant_time=requested_time,
                    base_file_name=None,
                    log_file_names=tuple(logs),
                )
                for group, logs in names.items()
                if logs
            ]
            return timeline_avro.encode_compaction_plan(
                plans.CompactionPlan(operations=tuple(operations), extra=extra)
            )

        return scheduling.schedule(service, instants.Action.COMPACTION, self.config, plan).instant

    def compact(self, service: Client, requested_time: instants.InstantTime) -> Completion:
        """Execute a planned compaction, and take down what the service is told."""
        begun_ms = self.time.now_ms
        opened = scheduling.execute(service, requested_time, self.config)
        number = self._tell(service, opened, None, begun_ms)
        try:
            lifecycle.start(service, opened, commits.Operation.COMPACT)
            stats = write_bases(service, opened)
            compacted = replace(metadata(stats, commits.Operation.COMPACT), is_compacted=True)
            completion = lifecycle.complete(service, opened, compacted)
        except errors.HoodieError as error:
            # Another execution may complete it yet: of this one nothing more is known.
            self._end(number, invariants.Outcome.UNKNOWN)
            lifecycle.abort(service, opened, has_tasks_left=False)
            raise errors.ConflictError(f"compaction {requested_time}: {error}") from error
        self._end(number, invariants.Outcome.ACKNOWLEDGED)
        return completion

    @property
    def is_optimistic(self) -> bool:
        return self.settings.concurrency is settings.ConcurrencyMode.OPTIMISTIC

    def _groups(self) -> Sequence[files.FileGroupId]:
        """Return what the next write writes to."""
        if not self.has_partial_writes:
            return GROUPS
        return self.time.random.sample(GROUPS, self.time.random.randint(1, len(GROUPS)))

    def _steps(self, writer: Client) -> tuple[lifecycle.PreCompletion, ...]:
        return (conflicts.step(writer),) if self.is_optimistic else ()

    def _tell(
        self,
        writer: Client,
        opened: OpenWrite,
        batch_id: str | None,
        begun_ms: int,
    ) -> int:
        self.told.append(
            invariants.Told(
                writer_id=writer.author.writer_id,
                batch_id=batch_id,
                requested_time=opened.requested_time,
                begun_ms=begun_ms,
                ended_ms=None,
                outcome=invariants.Outcome.UNKNOWN,
            )
        )
        return len(self.told) - 1

    def _end(self, number: int, outcome: invariants.Outcome) -> None:
        ended_ms = self.time.now_ms
        self.told[number] = replace(self.told[number], outcome=outcome, ended_ms=ended_ms)


def write_data(
    writer: Client, opened: OpenWrite, groups: Sequence[files.FileGroupId]
) -> list[commits.WriteStat]:
    """Write a log file to each file group, its marker first."""
    stats = []
    token = file_names.write_token(0, opened.stage, 0)
    for group in groups:
        name = file_names.log_file_name(group.file_id, opened.requested_time, 1, token)
        content = f"{writer.author} {opened.batch_id}\n".encode()
        path = put_file(writer, opened, files.join(group.partition_path, name), content)
        stats.append(stat(group, path, len(content), log_files=(name,)))
    return stats


def write_bases(service: Client, opened: OpenWrite) -> list[commits.WriteStat]:
    """Write the base file of each operation in a plan."""
    content = service.storage.read(transitions.path(opened.requested))
    token = file_names.write_token(0, opened.stage, 0)
    stats = []
    for operation in timeline_avro.decode_compaction_plan(content).operations:
        group = operation.group
        name = file_names.base_file_name(group.file_id, token, opened.requested_time)
        logs = [files.join(group.partition_path, log) for log in operation.log_file_names]
        merged = b"".join(service.storage.read(log) for log in logs)
        path = put_file(service, opened, files.join(group.partition_path, name), merged)
        stats.append(stat(group, path, len(merged)))
    return stats


def put_file(writer: Client, opened: OpenWrite, path: str, content: bytes) -> str:
    """Write a data file after its marker."""
    markers.mark(writer.storage, opened.requested_time, path)
    with writer.storage.open_write(path) as file:
        file.write(content)
    return path


def stat(
    group: files.FileGroupId, path: str, size_bytes: int, log_files: tuple[str, ...] = ()
) -> commits.WriteStat:
    """Return the write stat of one file."""
    return commits.WriteStat(
        file_id=group.file_id,
        partition_path=group.partition_path,
        path=path,
        prev_commit="null",
        records=1,
        inserts=0,
        updates=1,
        deletes=0,
        size_bytes=size_bytes,
        log_files=log_files,
        log_version=1 if log_files else None,
    )


def metadata(
    stats: Sequence[commits.WriteStat],
    operation: commits.Operation = commits.Operation.UPSERT,
) -> commits.CommitMetadata:
    """Return the metadata of a write."""
    return commits.CommitMetadata(
        operation=operation.value, stats=tuple(stats), extra={commits.SCHEMA_KEY: "{}"}
    )


def completed_logs(
    storage: Storage, timeline: active.ActiveTimeline
) -> dict[files.FileGroupId, list[str]]:
    """Return the names of each group's completed log files that no compaction has yet."""
    compacted = [
        each for each in timeline.completed_writes if each.action is instants.Action.COMMIT
    ]
    since = compacted[-1].requested_time if compacted else ""
    names: dict[files.FileGroupId, list[str]] = {group: [] for group in GROUPS}
    for info in storage.list("p"):
        parsed = file_names.parse(info.path, info.size_bytes)
        if isinstance(parsed, files.LogFile):
            completion = timeline.completion_time(parsed.instant_time)
            if completion is not None and completion >= since:
                names[parsed.group].append(parsed.name)
    return names


def completed_before(
    timeline: active.ActiveTimeline, log_name: str, time: instants.InstantTime
) -> bool:
    """Return whether a log file completed before a time."""
    parsed = file_names.parse(log_name, 0)
    assert isinstance(parsed, files.LogFile)
    completion = timeline.completion_time(parsed.instant_time)
    return completion is not None and completion < time


def heartbeat_paths(storage: Storage) -> list[str]:
    """Return the heartbeat files that there are."""
    return [info.path for info in storage.list(layout.HEARTBEATS)]
