"""A table in a simulated world: writers, compactors and readers, small but going the real way.

Data files hold a line of text for each write in them, under the names of real ones (or rows, in
`schedule_rows`); timeline, heartbeats, markers, locks, file slices and all decisions are the
library's.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import pyarrow as pa

from hoodie import errors, identity
from hoodie.filegroup import metadata_listing, snapshots
from hoodie.format import file_names, timeline_avro
from hoodie.index import bucket, partitions
from hoodie.maintenance.archiving import planning as archive_planning
from hoodie.maintenance.archiving import service as archiving
from hoodie.maintenance.cleaning import retention
from hoodie.maintenance.cleaning import service as cleaning
from hoodie.maintenance.compaction import planning as compaction_planning
from hoodie.metadata import (
    index_building,
    index_decisions,
    index_dropping,
    initial_statistics,
    initialising,
    upkeep,
)
from hoodie.model import (
    commits,
    compaction_options,
    files,
    instants,
    key_changes,
    schemas,
    settings,
    table_config,
)
from hoodie.read import planning, tasks
from hoodie.storage.memory import MemoryStorage, MemoryStore
from hoodie.storage.protocol import Storage
from hoodie.timeline import (
    active,
    chain,
    contents,
    metadata_timelines,
    table_properties,
    transitions,
)
from hoodie.transaction import authors, layout, lifecycle, manager, markers
from hoodie.transaction.client import (
    AlreadyWritten,
    Client,
    Companions,
    Completion,
    Connection,
    Guard,
    OpenAction,
)
from hoodie.write import compatibility, conflicts, placement, record_keys, replacements
from support.simulation import (
    faulty_storage,
    invariants,
    schedule,
    schedule_files,
    schedule_keeping,
    schedule_keys,
    schedule_metadata,
    schedule_streaming,
    schedule_wall,
    schedule_witness,
    whole_timeline,
)
from support.tables import filtered_metadata, record_indexes

CONFIG = table_config.TableConfig(
    name="t",
    record_key_fields=("id",),
    partition_fields=("part",),
    bucket_count=2,
    has_partial_updates=True,
)
COPY_ON_WRITE = replace(
    CONFIG, table_type=table_config.TableType.COPY_ON_WRITE, has_partial_updates=False
)
SCHEMA = schemas.from_arrow(pa.schema([("id", pa.string()), ("part", pa.string())]), "t")
ARCHIVE = archive_planning.Policy(commits_min=1, commits_max=2, compaction_delta_commits=1)
EVERYTHING = tasks.Query(columns=("id",))
ANY_COMPACTION = compaction_options.CompactionOptions()
UPKEEP_AFTER = 2
"""After so many delta commits a metadata table is compacted."""

SETTINGS = settings.WriteSettings(
    concurrency=settings.ConcurrencyMode.NON_BLOCKING,
    heartbeat_interval_ms=1_000,
    heartbeat_misses_max=5,
    clock_wait_ms=0,
    lock_wait_ms=30_000,
)
PARTITION = "p"
GROUPS = tuple(
    files.FileGroupId(PARTITION, f"0000000{n}-0000-0000-0000-000000000000-0") for n in (0, 1)
)
ANOTHER_PARTITION = "q"
"""Of tables whose record index is one of each partition."""


class World:
    """One table, its lock service, and the processes that use them."""

    schema = SCHEMA
    has_rows = False  # Whether data files hold rows.
    repeats_keys = False  # Whether each file group has rows of the same keys.
    filters = 0  # How many bloom filters were judged.
    judgements = 0  # How often an index that was ready while others went on.
    skips = 0  # Of how many writes, by statistics, a read with a filter was.
    located = 0  # How many rows were found by a record index that was built.
    valued = 0  # And by a secondary index.
    stated = 0  # How many records of statistics that were built were judged.
    left_out = 0  # How many file slices reads left out by them.
    index: str = filtered_metadata.PARTITION  # What is built and dropped.
    builds_partitioned = False  # Whether that is a record index of each partition.
    changes_columns = False  # Whether those who build statistics ask for others now and then.
    indexed_columns: Mapping[str, str] = MappingProxyType({})  # Secondary indexes beside it.

    def __init__(  # noqa: PLR0913, PLR0915 - what a plan says, by name
        self,
        time: schedule.Schedule | None = None,
        *,
        faults: faulty_storage.Faults | None = None,
        write_settings: settings.WriteSettings = SETTINGS,
        store: MemoryStore | None = None,
        config: table_config.TableConfig = CONFIG,
        is_in_place: bool = False,
        is_lying: bool = False,
        has_chain: bool = False,
        epochs_kept: int = 3,
        has_metadata: bool = False,
        has_bloom_filters: bool = False,
        has_record_index: bool = False,
        has_partitioned_record_index: bool = False,
        has_statistics: bool = False,
    ) -> None:
        self.is_lying = is_lying  # Whether the lock is given to everybody; a chain keeps order.
        self.page_names: int | None = None  # How listings come; see `faulty_storage`.
        self.time = time or schedule.Schedule()
        self.faults = faults or faulty_storage.NoFaults()
        self.settings = write_settings
        self.is_in_place = is_in_place
        self.keeps_attempts = False  # Whether two processes may run as one attempt of a writer.
        self.replacement_rate = 0.0  # How many of the batches replace all rows.
        self.selection_rate = 0.0  # How many of the batches delete rows by a filter.
        self.failed_task_rate = 0.0  # How often a task fails after its file, and is run again.
        self.repeats_tasks = False  # Whether a task that fails is run again, as Spark does.
        self.names_groups = False  # Whether each writer names the groups of empty buckets itself.
        self.lingers_s = 0.0  # How long a write of another engine that streams takes at most.
        self.streams_keys = False  # Whether it logs in a record index before it completes.
        self.streamed = 0  # How many of them were judged that have.
        self._unnamed = 0  # How often the properties were changed that named no record index.
        self.plans_beside_rate = 0.0  # How often a compaction is planned while one is pending.
        self.is_cleaned = False  # Whether there are cleaners, which readers have to look for.
        self.is_archived = False  # Whether instants leave the timeline; judges see them all.
        self.archived = 0  # How many have left it.
        self.has_engines = False  # Whether other engines change the table.
        self.misjudgement_rate = 0.0  # How often a living process is proved dead.
        self.misjudged: set[str] = set()  # Names of those that everybody takes for dead.
        self.has_partial_writes = False  # Or every write writes to every file group.
        self.store = store or MemoryStore(schedule.VirtualClock(self.time))
        self.storage: Storage = MemoryStorage(self.store)
        self._whole = whole_timeline.WholeStorage(self.store)
        self.keepers = schedule_keeping.Keepers(self.time, MemoryStorage(self.store))
        self.archive_policy = ARCHIVE
        self.lock = schedule.SessionLock(self.time)
        self.witness = schedule_witness.Witness(
            self.time, MemoryStorage(self.store), self.lock, write_settings.heartbeat_expiry_ms
        )
        self.witness.has_one_writer = (
            write_settings.concurrency is settings.ConcurrencyMode.SINGLE_WRITER
        )
        self.metadata_judge: schedule_metadata.MetadataJudge | None = None
        self.wall: schedule_wall.WallJudge | None = None
        if not config.zone.is_utc:
            self.wall = schedule_wall.WallJudge(self.time, lambda: self.whole, config.zone)
        self.told: list[invariants.Told] = []
        self.reads: list[invariants.Read] = []
        self.late: set[instants.Instant] = set()
        self.posthumous: set[instants.Instant] = set()
        self.strays: set[instants.InstantTime] = set()
        self.lock.is_lying = is_lying
        self.is_chained_from_the_start = is_lying or has_chain
        if self.is_chained_from_the_start:
            name = table_config.ChainName(id="chain")
            config = replace(config, chain=name, has_foreign_writers=not is_lying)
        clock = schedule.VirtualClock(self.time)
        config = chain.begin(self.storage, config, "creation", kept=epochs_kept)
        stored = table_config.to_properties(config) | schedule_wall.zone_properties(config.zone)
        if schedule_files.FILTERED_KEY in config.properties:
            stored[schedule_files.FILTERED_KEY] = "true"
        table_properties.create_with(self.storage, stored, clock)
        self.config = table_config.from_properties(stored)
        self.groups: Sequence[files.FileGroupId] = GROUPS
        if has_partitioned_record_index:
            self.groups = (*GROUPS, replace(GROUPS[0], partition_path=ANOTHER_PARTITION))
        for path in sorted({each.partition_path for each in self.groups}):
            self.storage.create(files.join(path, file_names.PARTITION_METADATA), b"")
        self.pulls = 0  # How many increments were pulled.
        self.latecomers = 0  # How many writes of them completed at or below a position.
        self.listings = 0  # How many reads were made by the metadata table.
        self.remakes = 0  # How often it was begun or ended to make the metadata table again.
        self._doubts_cleared = 0  # How many late publications it was made after.
        self.compacted = 0  # How often it was compacted.
        self.has_bloom_filters = has_bloom_filters  # Whether it has those of base files.
        self.has_statistics = has_statistics  # Whether it has them; not once it was made again.
        is_non_blocking = write_settings.concurrency is settings.ConcurrencyMode.NON_BLOCKING
        self.keys = schedule_keys.Keys(
            has_deletes=not is_non_blocking, is_partitioned=has_partitioned_record_index
        )
        if has_metadata:
            self.settings = replace(write_settings, metadata_delta_commits_max=UPKEEP_AFTER)
            process = self.process("creation")
            self._make_metadata(process)
            if has_record_index:
                # Each partition gets as many file groups as that one has.
                named = ("none",) if has_partitioned_record_index else None
                record_indexes.add(self.client(process), 2, partitions=named)
                self.config = table_properties.load(self.storage, process.clock)
            self.metadata_judge = schedule_metadata.MetadataJudge(
                self.time, MemoryStorage(self.store), has_lock=not is_lying
            )

    def _make_metadata(self, process: schedule.Process) -> None:
        """Give the table a metadata table, by a process to which nothing happens."""
        process.is_spared = True
        config = table_properties.load(self.storage, process.clock)
        reading = None
        if self.has_statistics:
            reading = initial_statistics.Reading(self.schema, process.engine)
        initialising.initialise_by(self.client(process), config, reading)
        if self.has_bloom_filters:
            # A client of the table with a metadata table.
            self.config = table_properties.load(self.storage, process.clock)
            filtered_metadata.add_bloom_filters(self.client(process))
        self.config = table_properties.load(self.storage, process.clock)

    @property
    def is_metadata_doubtful(self) -> bool:
        """Whether the metadata table may be wrong, and has to be made again.

        In a table without a chain it is after a change was published by an author that had lost the
        lock: its delta commit was taken off by then, or names files that were deleted.
        """
        return self._doubts > self._doubts_cleared

    def doubt_metadata(self) -> bool:
        """Return whether files of late publications may be gone: it is made again then."""
        self._doubts_cleared = 0
        return self.is_metadata_doubtful

    @property
    def _published_late(self) -> frozenset[instants.InstantTime]:
        """What has a completed file that was published after others had gone on."""
        return frozenset(each.requested_time for each in self.late | self.posthumous)

    @property
    def _doubts(self) -> int:
        return len(self.late | self.posthumous)

    def remake_metadata(self, service: Client) -> None:
        """Drop the metadata table, and make it again."""
        self.remakes += 1
        doubts = self._doubts
        self.has_statistics = False  # Lines of text have no footers.
        initialising.drop_by(service)
        self._make_metadata(self.process_of(service))
        self._doubts_cleared = doubts
        self.remakes += 1

    def keep_up_metadata(self, service: Client) -> None:
        """Compact the metadata table, if that is due."""
        self.compacted += upkeep.run_by(service, self.config) is not None

    def build_index(self, service: Client) -> bool:
        """Have the index built; return whether there was none before."""
        target = manager.Target(storage=service.storage, config=self.config, schema=self.schema)
        engine = self.process_of(service).engine
        request = index_decisions.Request(
            names=self.indexes,
            columns=self.columns_asked(service),
            secondary=self.indexed_columns,
            is_partitioned=self.builds_partitioned,
        )
        return bool(index_building.build_by(service, target, request, engine).built)

    def columns_asked(self, service: Client) -> Sequence[str] | None:
        """Return of which columns statistics are to be built; None where there are none."""
        del service
        return None

    @property
    def indexes(self) -> tuple[str, ...]:
        """What is built and dropped."""
        return (self.index, *self.indexed_columns)

    def drop_index(self, service: Client) -> None:
        """Drop the index, or give its build up."""
        index_dropping.drop_by(service, self.config, self.indexes)

    def stored_properties(self) -> Mapping[str, str]:
        """Return the table's properties, each as it is stored."""
        return table_properties.load(self.storage, self.process("judge").clock).properties

    def check_index(self, *, builds_max: int, builds_min: int = 1) -> None:
        """Check that the index is ready, and that nothing is being built.

        Args:
            builds_min: So many builds at least have been completed.
            builds_max: So many builds at most have been completed; none of them is pending.
        """
        self.config = table_properties.load(self.storage, self.process("judge").clock)
        assert set(self.indexes) <= set(self.config.metadata_partitions)
        assert not self.config.metadata_partitions_inflight
        indexing = [
            each
            for each in active.listed(self.storage).instants
            if each.action is instants.Action.INDEXING
        ]
        assert all(each.is_completed for each in indexing), indexing
        assert builds_min <= len(indexing) <= builds_max, indexing

    def process(self, name: str, *, offset_ms: int = 0, host: str = "host") -> schedule.Process:
        return schedule.Process(self.time, name, offset_ms=offset_ms, host=host)

    def client(
        self,
        process: schedule.Process,
        author: authors.Author | None = None,
        *,
        guards: tuple[Guard, ...] = (),
        write_settings: settings.WriteSettings | None = None,
        columns: tuple[str, ...] | None = None,
    ) -> Client:
        """Return a client of a process, with a lock provider of its own.

        Args:
            process: Where it runs.
            author: On whose behalf; the process's own name by default.
            guards: Its guards.
            write_settings: The world's by default.
            columns: Those that it writes, if it is to begin only beside others that may (N1).
        """
        stream = compatibility.Stream(
            writer_id=process.name, columns=columns, mode=self.settings.concurrency
        )

        def admit_beside(companions: Companions) -> None:
            others = [
                compatibility.stream_of(instant, seen) for instant, seen in companions.items()
            ]
            compatibility.check(self.config, stream, others)

        storage = self.storage_of(process)
        table_chain = None
        knows_no_chain = ("engine", "jvm", schedule_streaming.PREFIX)
        if self.config.chain is not None and not process.name.startswith(knows_no_chain):
            # Collected after a few epochs, so that runs of few changes meet it.
            table_chain = chain.Chain(
                storage,
                self.config.chain.id,
                has_foreign_writers=self.config.has_foreign_writers,
            )
        has_metadata = bool(self.config.metadata_partitions)
        found = Client(
            Connection(
                storage=storage,
                table_chain=table_chain,
                beside=metadata_timelines.opened(storage) if has_metadata else None,
                provider=self.lock_of(process),
                env=process,
                settings=write_settings or self.settings,
                author=author or authors.Author(writer_id=process.name),
                guards=guards,
                claim=compatibility.claim(stream) if columns else "",
                admit_beside=admit_beside if columns else None,
                time_zone=self.config.zone,
                is_proved_dead=lambda judged: self._is_proved_dead(process, judged),
            )
        )
        if process.name.startswith("jvm"):
            schedule_wall.renew_jvm(found)
        return found

    def _is_proved_dead(self, judge: schedule.Process, judged: identity.ProcessIdentity) -> bool:
        """Return a verdict of death, which is wrong of a living process at some rate."""
        if self.time.is_proved_dead(judged) or self._is_misjudged(judged):
            return True
        if not self.misjudgement_rate or judged == judge.process:
            return False

        def sample(source: random.Random) -> int:
            return source.random() < self.misjudgement_rate

        is_wrong = bool(self.time.chances.draw(judge, f"verdict on {judged.pid}", 0, sample))
        if is_wrong:
            self.time.note(f"{judge.name}: takes {judged} for dead")
        return is_wrong

    def _is_misjudged(self, judged: identity.ProcessIdentity) -> bool:
        known = self.time.processes.get(judged.pid)
        return known is not None and known.name in self.misjudged

    def storage_of(self, process: schedule.Process) -> Storage:
        """Return the table's storage as a process has it."""
        found = faulty_storage.FaultyStorage(
            self.storage,
            process,
            self.faults,
            self,
            is_in_place=self.is_in_place,
            page_names=self.page_names,
        )
        is_streaming = process.name.startswith(schedule_streaming.PREFIX)
        return schedule_streaming.streaming(found) if is_streaming else found

    def lock_of(self, process: schedule.Process) -> schedule.SessionLockProvider:
        """Return the table's lock as a process has it."""
        return schedule.SessionLockProvider(self.lock, process)

    def writer(self, name: str, **options: object) -> Client:
        """Return a client of a process of its own."""
        return self.client(self.process(name), **options)  # type: ignore[arg-type] # passed on

    @property
    def timeline(self) -> active.ActiveTimeline:
        return active.load(self.whole)

    @property
    def whole(self) -> Storage:
        """The storage as judges see it: with the instants that were archived."""
        return self._whole if self.is_archived else self.storage

    @property
    def surplus(self) -> frozenset[instants.Instant]:
        """What was published after others had gone on, and not called a success; or by the dead."""
        successes = {told.completed for told in self.told}
        return frozenset(self.late - successes | self.posthumous)

    @property
    def excused(self) -> frozenset[instants.InstantTime]:
        """Writes and compactions that are completed by surplus files alone."""
        completed = {each for each in self.timeline.files if each.is_completed}
        certain = {each.requested_time for each in completed - self.surplus}
        return frozenset(
            each.requested_time
            for each in self.surplus
            if each.action.is_write and each.requested_time not in certain
        )

    @property
    def behind(self) -> frozenset[instants.InstantTime]:
        """What JVMs gave a time that was below others when clocks had been put back."""
        return frozenset() if self.wall is None else frozenset(self.wall.went_back)

    def check(self) -> active.ActiveTimeline:
        """Check every invariant."""
        excused, behind = self.excused, self.behind
        alone = {told.completed for told in self.told if told.is_said_to_be_alone}
        late = {each.requested_time for each in self.late - alone}
        timeline = invariants.check_all(
            self.whole, self.told, excused, self.surplus, self.strays, self.late, behind=behind
        )
        invariants.check_reads(
            self.whole, timeline, self.told, self.reads, late, excused, behind=behind
        )
        invariants.check_increments(timeline, self.reads, late | excused | behind)
        if not self.keeps_attempts:
            invariants.check_attempts_write_once(self.whole, timeline)
        if self.names_groups:
            invariants.check_one_group_a_bucket(self.whole, timeline, excused)
        if self.is_optimistic:
            invariants.check_serial(self.whole, timeline, self.told, behind)
        if self.wall is not None:
            self.wall.check_findings({each.requested_time for each in self.late})
        if self.is_ordered:
            assert not self.late | self.posthumous, "what a chain orders is never late"
            if self.is_chained_from_the_start:
                invariants.check_parity(timeline)
        if not self.is_lying:
            invariants.check_lock_history(self.lock.history)
            invariants.check_indexing_is_followed(timeline)
        return timeline

    def check_last(self, timeline: active.ActiveTimeline, read: invariants.Read) -> None:
        """Check the read of a table that is not written any more."""
        invariants.check_everything_is_read(self.whole, timeline, read, self.excused, self.behind)

    def begin(self, writer: Client, batch_id: str | None = None) -> OpenAction:
        """Begin a write and make it inflight."""
        opened = lifecycle.begin(writer, self.action(), self.config, batch_id)
        assert isinstance(opened, OpenAction), opened
        lifecycle.start(writer, opened, commits.Operation.UPSERT)
        return opened

    def write(self, writer: Client, batch_id: str | None = None) -> Completion | AlreadyWritten:
        """Write a batch, and take down what the writer is told."""
        begun_ms = self.time.now_ms
        if isinstance(writer.times, schedule_wall.JvmTimes):
            schedule_wall.renew_jvm(writer)
        schedule_streaming.renew(writer.storage)
        operation = self.operation_of(writer, batch_id)
        opened = lifecycle.begin(writer, self.action(operation), self.config, batch_id)
        if isinstance(opened, AlreadyWritten):
            return opened
        self.witness.see_begin(writer, opened)
        number = self._tell(writer, opened, batch_id, begun_ms)
        if self.settings.concurrency is not settings.ConcurrencyMode.NON_BLOCKING:
            known = frozenset(opened.timeline.write_completion_times)
            self.witness.known_at_begin[opened.requested_time] = known
        try:
            lifecycle.start(writer, opened, operation)
            groups = self._groups(writer, opened)
            if self.failed_task_rate and writer.random.uniform() < self.failed_task_rate:
                self.write_files(writer, opened, groups[:1], task=1)
            written = self._write_all(writer, opened, groups)
            stats = [each for each in written if isinstance(each, commits.WriteStat)]
            self._stream(writer, opened, stats)
            if self.has_record_index:
                stats = [*self.keys.drawn(writer, opened.requested_time, stats)]
            replaced = self.replaced(writer, opened, operation, stats)
            completion = lifecycle.commit(
                writer,
                opened,
                metadata(stats, operation, self.schema, replaced),
                [
                    conflicts.commit_check(writer, self.untouched(written), replaced),
                    *self.key_checks(writer, written),
                ],
                lifecycle.Adjustment(keys=self.settling(writer, opened, replaced, written)),
            )
        except errors.HoodieError as error:
            if opened.requested_time in self.timeline.pending_times and _is_missing(error):
                raise AssertionError(f"cleaned under {opened.requested}: {error}") from error
            self._end(number, invariants.outcome_of(error))
            with self.witness.seeing_abort(self.process_of(writer), opened):
                lifecycle.abort(writer, opened, has_tasks_left=False)
            raise
        self._end(number, invariants.Outcome.ACKNOWLEDGED, completion)
        return completion

    def _stream(
        self, writer: Client, opened: OpenAction, stats: Sequence[commits.WriteStat]
    ) -> None:
        """Take a while, if the writer is one that streams, which logs in a record index before."""
        if not self.lingers_s or not schedule_streaming.is_one(writer.storage):
            return
        unnamed = self._unnamed
        streamed = None
        if self.streams_keys:
            streamed = schedule_streaming.Streamed.by(writer, opened, stats)
        writer.clock.sleep_s(self.lingers_s * writer.random.uniform())
        if streamed is None or self._unnamed != unnamed or not self._names_record_index:
            return
        # One that was taken for dead meanwhile loses its files, and is refused when it completes.
        if not self._is_taken_back(opened.requested_time):
            self.streamed += 1
            streamed.check(self.storage)

    def _is_taken_back(self, requested_time: instants.InstantTime) -> bool:
        """Return whether a write was rolled back, or is being."""
        timeline = self.timeline
        return requested_time not in timeline.pending_times or any(
            contents.read_rollback_target(self.storage, each) == requested_time
            for each in timeline.pending_of(instants.Action.ROLLBACK)
        )

    def schedule_compaction(
        self,
        service: Client,
        options: compaction_options.CompactionOptions = ANY_COMPACTION,
    ) -> instants.Instant | None:
        """Plan a compaction of everything that completed, unless one is pending."""

        def plan(
            timeline: active.ActiveTimeline,
            requested_time: instants.InstantTime,
            extra: Mapping[str, str],
        ) -> bytes | None:
            is_beside = service.random.uniform() < self.plans_beside_rate
            if timeline.pending_compactions and not is_beside:
                return None
            snapshot = snapshots.take(service.storage, self.config, timeline)
            found = compaction_planning.decide(snapshot, requested_time, options).plan
            if found is None:
                return None
            return timeline_avro.encode_compaction_plan(replace(found, extra=extra))

        return lifecycle.plan(service, instants.Action.COMPACTION, self.config, plan).instant

    def clean(self, service: Client, how: retention.Retention) -> None:
        """Finish cleans that are pending, then plan another and execute it."""
        for pending in active.listed(service.storage).pending_of(instants.Action.CLEAN):
            self._execute_clean(service, pending.requested_time)
        proposal = cleaning.propose(service.storage, self.config, how)
        if proposal.is_worth_recording:
            self._execute_clean(service, cleaning.plan(service, self.config, how, proposal))

    def _execute_clean(self, service: Client, requested_time: instants.InstantTime) -> None:
        try:
            cleaning.execute(service, self.config, requested_time, service.storage.delete_all)
        except errors.NotFoundError as error:
            pending = active.listed(service.storage).pending_of(instants.Action.CLEAN)
            if any(each.requested_time == requested_time for each in pending):
                raise AssertionError(f"a pending clean cannot be executed: {error}") from error
            raise  # Another has ended it, and its files were archived.

    def archive(self, service: Client) -> None:
        """Archive all but a few commits."""
        holding = self.keepers.holding()
        done = archiving.archive_by(service, self.config, self.archive_policy)
        self.archived += len(done.archived)
        self.keepers.check_archived(done.archived, holding)

    def check_archived(self) -> None:
        """I8, I10: the timeline holds nothing that the archive has, and no more than it should."""
        timeline = active.load(self.storage)
        for each in timeline.completed:
            if each.action in archive_planning.ARCHIVED:
                held = timeline.archive.completion_time(each.requested_time)
                assert held is None, f"archived, and on the timeline: {each}"
        for told in self.told:
            if told.completed is not None:
                found = timeline.completion_time(told.requested_time)
                assert found == told.completed.completion_time, f"{told}: {found} was looked up"

    def check_cleaned(self, how: retention.Retention) -> None:
        """I8, I10: what may go is gone, and nothing that a read needs."""
        proposal = cleaning.propose(self.storage, self.config, how)
        assert not proposal.removals, f"still there: {proposal.removals}"
        there = {info.path for info in self.storage.list("", is_recursive=True)}
        left = invariants.cleaned(self.whole, self.timeline) & there
        assert not left, f"cleaned, and still there: {sorted(left)}"

    def read(self, reader: Client) -> invariants.Read:
        """Read a snapshot, and take down what is seen."""
        begun_ms, remakes = self.time.now_ms, self.remakes

        def plan(snapshot: snapshots.Snapshot) -> list[tasks.ReadTask]:
            planned = planning.plan(reader.storage.uri, self.config, SCHEMA, snapshot, EVERYTHING)
            return list(planned.tasks)

        judged: list[snapshots.Snapshot] = []

        def plan_and_judge(snapshot: snapshots.Snapshot) -> list[tasks.ReadTask]:
            planned = plan(snapshot)
            self._judge_listing(snapshot, remakes)
            judged[:] = [snapshot]
            return planned

        if self.is_cleaned:
            planned = snapshots.consistent(reader.storage, self.config, plan_and_judge)
        else:
            planned = plan_and_judge(
                snapshots.take(reader.storage, self.config, has_committed_only=True)
            )
        seen = {task.file_slice.group: self.writes_read(reader, task) for task in planned}
        if self.has_statistics and not self.is_metadata_doubtful:
            self._judge_statistics(judged[0], planned, seen)
        read = invariants.Read(
            reader_id=str(reader.author), begun_ms=begun_ms, ended_ms=self.time.now_ms, seen=seen
        )
        self.reads.append(read)
        return read

    def _is_remade(self, *, since: int) -> bool:
        """Return whether the metadata table is being made again, or was."""
        return self.remakes != since or bool(self.remakes % 2)

    def _judge_listing(self, snapshot: snapshots.Snapshot, remakes: int) -> None:
        """I7: judge the files that a read has just taken from the metadata table."""
        if isinstance(snapshot.listing, metadata_listing.MetadataListing):
            if self.is_metadata_doubtful or self._is_remade(since=remakes):
                return
            assert not snapshot.listing.is_refused, "the storage was listed instead"
            invariants.check_listing(self.whole, snapshot, self._published_late)
            self.listings += 1
            self._judge_filters(snapshot)

    def _judge_statistics(
        self,
        snapshot: snapshots.Snapshot,
        planned: Sequence[tasks.ReadTask],
        seen: Mapping[files.FileGroupId, Sequence[instants.InstantTime]],
    ) -> None:
        """I7: a read of one write's rows, by statistics, leaves out nothing that has some."""
        slices = [each.file_slice for each in planned]
        columns = tasks.full_schema(self.schema.arrow)
        self.skips += invariants.check_skipping(
            snapshot, slices, seen, columns, self._published_late
        )

    def check_metadata(self) -> None:
        """I7, I10: the metadata table names what there is, and nothing of it is left over."""
        if self.config.metadata_partitions:
            invariants.check_metadata(self.storage, self.whole, self.config, self._published_late)
            self.check_filters()
        if self.has_record_index and not self._published_late:
            self.keys.check(self.storage, self.timeline.completed_writes)

    def check_filters(self) -> None:
        """I7: the filters in the metadata table are those of all committed base files."""
        timeline = chain.load(self.storage, self.config)
        self._judge_filters(snapshots.take(self.storage, self.config, timeline))

    def check_index_of_all(self) -> None:
        """I7: an index that any engine takes for ready has the filters of all base files of now."""
        if self.is_metadata_doubtful or self._is_remade(since=self.remakes):
            return
        stored = dict(self.stored_properties())
        stored.pop(table_config.METADATA_PARTITIONS_OWN_KEY, None)
        before, self.config = self.config, table_config.from_properties(stored)
        if self.index in self.config.metadata_partitions:
            self.judgements += 1
            # As readers list them: of two executions of one plan the files of one count.
            timeline = chain.load(self.storage, self.config)
            self._judge_filters(
                snapshots.take(self.storage, self.config, timeline, has_committed_only=True)
            )
        self.config = before

    def _judge_filters(self, snapshot: snapshots.Snapshot) -> None:
        """I7: the filters of committed base files are those in their footers."""
        if filtered_metadata.PARTITION in self.config.metadata_partitions:
            self.filters += invariants.check_bloom_filters(
                self.storage, self.config, snapshot, self._published_late
            )

    def compact(self, service: Client, requested_time: instants.InstantTime) -> Completion:
        """Execute a planned compaction, and take down what the service is told."""
        begun_ms = self.time.now_ms
        opened = lifecycle.take_over(
            service, instants.Action.COMPACTION, requested_time, self.config
        )
        number = self._tell(service, opened, None, begun_ms)
        try:
            lifecycle.start(service, opened, commits.Operation.COMPACT)
            if not self.is_lying:
                self.witness.see_start(self.process_of(service), opened)
            stats = self.write_compacted(service, opened)
            merged = metadata(stats, commits.Operation.COMPACT, self.schema)
            compacted = replace(merged, is_compacted=True)
            completion = lifecycle.commit(service, opened, compacted)
        except errors.HoodieError as error:
            # Another execution may complete it yet: of this one nothing more is known.
            self._end(number, invariants.Outcome.UNKNOWN)
            lifecycle.abort(service, opened, has_tasks_left=False)
            raise errors.ConflictError(f"compaction {requested_time}: {error}") from error
        self._end(number, invariants.Outcome.ACKNOWLEDGED, completion)
        return completion

    def write_files(
        self, writer: Client, opened: OpenAction, groups: Sequence[files.FileGroupId], task: int = 0
    ) -> Sequence[commits.Written]:
        """Write the data files of a write."""
        return write_data(writer, opened, groups, task)

    def untouched(self, written: Sequence[commits.Written]) -> Sequence[commits.Untouched]:
        """Return the file groups that a write had nothing to write to, as far as it looks at them.

        Only deletes by a filter do here: the writes of other scenarios are those that they were.
        """
        if not self.selection_rate:
            return ()
        return [each for each in written if isinstance(each, commits.Untouched)]

    def key_checks(
        self, writer: Client, written: Sequence[commits.Written]
    ) -> list[lifecycle.CommitCheck]:
        """Return the checks of the keys that a write looked for, in a table where writers do."""
        del writer, written
        return []

    def write_compacted(self, service: Client, opened: OpenAction) -> Sequence[commits.WriteStat]:
        """Write the data files of a compaction."""
        return write_bases(service, opened)

    def writes_read(self, reader: Client, task: tasks.ReadTask) -> tuple[instants.InstantTime, ...]:
        """Read a slice; return which writes it holds, in the order in which they were merged."""
        return writes_in(content(reader.storage, task.file_slice))

    def settling(
        self,
        writer: Client,
        opened: OpenAction,
        replaced: replacements.Replaced,
        written: Sequence[commits.Written],
    ) -> lifecycle.Settling:
        """Return what settles the keys of a write."""
        del written
        del replaced  # Of lines of text nobody knows what keys were in them.
        return record_keys.settling(writer.storage, self.schema, (), 1)

    @property
    def has_record_index(self) -> bool:
        """Whether it has one, of drawn keys; not once its metadata table was made again."""
        return key_changes.RECORD_INDEX in self.config.metadata_partitions

    @property
    def is_ordered(self) -> bool:
        """Whether a chain orders all that changes the table, however late it is published."""
        return self.config.chain is not None and not self.has_engines

    @property
    def is_optimistic(self) -> bool:
        return self.settings.concurrency is settings.ConcurrencyMode.OPTIMISTIC

    def operation_of(self, writer: Client, batch_id: str | None) -> commits.Operation:
        """Return what a writer's batch does."""
        del writer, batch_id
        return commits.Operation.UPSERT

    def replaced(
        self,
        writer: Client,
        opened: OpenAction,
        operation: commits.Operation,
        stats: Sequence[commits.WriteStat],
    ) -> replacements.Replaced:
        """Return what a write replaces."""
        replacement = replacements.of(operation, ())
        if replacement is None:
            return replacements.NOTHING
        return replacements.replaced(
            replacement, writer.storage, opened.config, opened.timeline, stats
        )

    def action(self, operation: commits.Operation = commits.Operation.UPSERT) -> instants.Action:
        """Return what a write is on the timeline."""
        if operation.replaces:
            return instants.Action.REPLACE_COMMIT
        is_cow = self.config.is_copy_on_write
        return instants.Action.COMMIT if is_cow else instants.Action.DELTA_COMMIT

    def _groups(self, writer: Client, opened: OpenAction) -> Sequence[files.FileGroupId]:
        """Return what the next write writes to."""
        if not self.has_partial_writes:
            return self.groups
        groups = [group for group in self.groups if writer.random.uniform() < 0.6]
        groups = groups or list(self.groups[:1])
        return self._named_groups(writer, opened, groups) if self.names_groups else groups

    def _named_groups(
        self, writer: Client, opened: OpenAction, groups: Sequence[files.FileGroupId]
    ) -> Sequence[files.FileGroupId]:
        """Return the groups that buckets have, or names of the writer's own, as Apache Hudi's."""
        written = {
            (stat.partition_path, bucket.bucket_of(stat.file_id)): stat.file_id
            for each in (self if self.is_archived else opened).timeline.completed_writes
            if not self.is_archived or opened.timeline.is_committed(each.requested_time)
            for stat in contents.read_commit(self.whole, each).stats
        }
        places = [(group.partition_path, bucket.bucket_of(group.file_id)) for group in groups]
        return [
            files.FileGroupId(
                path,
                written.get((path, number), f"{number:08d}-{writer.random.uuid()[9:]}-0"),
            )
            for path, number in places
        ]

    def _write_all(
        self, writer: Client, opened: OpenAction, groups: Sequence[files.FileGroupId]
    ) -> Sequence[commits.Written]:
        """Write the data files; a task that fails is run once more, where that is to be."""
        try:
            return self.write_files(writer, opened, groups)
        except errors.StorageError:
            if not self.repeats_tasks:
                raise
        return self.write_files(writer, opened, groups, task=2)

    def process_of(self, client: Client) -> schedule.Process:
        """Return the process that a client is of."""
        return self.time.processes[client.process.pid]

    def see_creation(self, process: schedule.Process, path: str, is_late: bool) -> None:
        """Take down what is published after others may have gone on.

        By the lock, that is: with one that lies, the chain decides what counts.
        """
        self._judge_beside(process, path, is_late)
        if self.is_lying:
            return
        self.witness.see_any_creation(process, path, is_late)
        if not is_late:
            self.witness.see_creation(process, path)
        self._judge_times(process, path, is_late)
        instant = schedule_witness.instant_at(path)
        # That it has begun is told by its author alone, whose instant it is.
        if instant is None or instant.state is not instants.State.INFLIGHT:
            self._record_change(process, path, is_late)
        if instant is None:
            return
        if self.is_ordered:
            return
        if instant.state is instants.State.REQUESTED and self.lock.is_overtaken(process):
            self.strays.add(instant.requested_time)
        if not instant.is_completed:
            return
        if is_late or self.lock.is_overtaken(process):
            self.time.note(f"{process.name}: has published {instant} after others had the lock")
            self.late.add(instant)
        if is_late and process.is_dead:
            self.posthumous.add(instant)

    def _judge_times(self, process: schedule.Process, path: str, is_late: bool) -> None:
        """Judge the times of an instant in local time, unless its author lost the lock.

        What an epoch has decided may be published later, with the times that it gave.
        """
        instant = schedule_witness.instant_at(path)
        if self.wall is None or instant is None:
            return
        is_timely = not is_late and not self.lock.is_overtaken(process)
        if is_timely and self.witness.has_just_decided(process, path):
            self.wall.see_creation(process, instant, self._archived_times)

    @property
    def _archived_times(self) -> frozenset[instants.InstantTime]:
        """Requested times of the writes that are in the archive alone."""
        if not self.is_archived:
            return frozenset()
        there = active.listed(self.storage).write_completion_times
        return frozenset(self.timeline.write_completion_times.keys() - there.keys())

    def _judge_beside(
        self, process: schedule.Process, path: str, is_late: bool, *, is_deletion: bool = False
    ) -> None:
        """Judge a change by the rules of the metadata table, unless its author lost the lock."""
        is_overtaken = is_late or (not self.is_lying and self.lock.is_overtaken(process))
        if (
            self.metadata_judge is None
            or not self.config.metadata_partitions
            or is_overtaken
            or self._is_remade(since=self.remakes)
        ):
            return
        judge = self.metadata_judge
        see = judge.see_deletion if is_deletion else judge.see_creation
        see(process, path, self.lock.taken_ms.get(process.name, 0))

    def see_replacement(self, process: schedule.Process, path: str, is_late: bool) -> None:
        """Judge what is replaced."""
        if path == table_properties.PATH and not self._names_record_index:
            self._unnamed += 1
        if self.is_lying:
            return
        if not is_late:
            self.witness.see_replacement(process, path)

    @property
    def _names_record_index(self) -> bool:
        stored = self.stored_properties()
        keys = (table_config.METADATA_PARTITIONS_KEY, table_config.METADATA_PARTITIONS_INFLIGHT_KEY)
        return any(key_changes.RECORD_INDEX in stored.get(key, "") for key in keys)

    def see_touch(self, process: schedule.Process, path: str, is_late: bool) -> None:
        """Judge what is touched."""
        if self.is_lying:
            return
        if not is_late:
            self.witness.see_touch(process, path)

    def see_deletion(self, process: schedule.Process, path: str, is_late: bool) -> None:
        """Judge what is deleted."""
        if self.is_archived:
            self._whole.see_deletion(path)
        self.keepers.see_deletion(process, path, self.whole)
        self._judge_beside(process, path, is_late, is_deletion=True)
        if self.is_lying:
            return
        self._record_change(process, path, is_late)
        if not is_late:
            self.witness.see_deletion(process, path)

    def _record_change(self, process: schedule.Process, path: str, is_late: bool) -> None:
        """Take down what of the timeline is changed, for the history of the lock.

        What a store carries out late was asked for in time; others check what it may do.
        """
        if not is_late and schedule_witness.instant_at(path) is not None:
            self.lock.record(invariants.LockEvent.CHANGED, process, path)

    def acknowledge(self, client: Client, completed: instants.Instant) -> None:
        """Take down what another engine has completed."""
        self.told.append(
            invariants.Told(
                writer_id=client.author.writer_id,
                batch_id=None,
                requested_time=completed.requested_time,
                begun_ms=self.time.now_ms,
                ended_ms=self.time.now_ms,
                outcome=invariants.Outcome.ACKNOWLEDGED,
                completed=completed,
            )
        )

    def _tell(
        self,
        writer: Client,
        opened: OpenAction,
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

    def _end(
        self,
        number: int,
        outcome: invariants.Outcome,
        completion: Completion | None = None,
    ) -> None:
        self.told[number] = replace(
            self.told[number],
            outcome=outcome,
            ended_ms=self.time.now_ms,
            completed=completion.instant if completion else None,
            findings=completion.findings if completion else (),
        )


def _is_missing(error: errors.HoodieError) -> bool:
    return isinstance(error, errors.NotFoundError)


def restored(world: World) -> instants.Instant:
    """Let another engine restore the table to what it is; return the restore."""
    service = world.writer("restorer")
    with service.lock.scope() as scope:
        requested = transitions.request(
            world.storage,
            service.times.generate(scope.timeline),
            instants.Action.RESTORE,
            b"plan",
            lambda: False,
        )
        return transitions.complete(
            world.storage,
            requested.pending_in(instants.State.INFLIGHT),
            b"done",
            timeline=active.listed(world.storage),
            times=service.times,
            check=scope.check,
        )


def write_data(
    writer: Client, opened: OpenAction, groups: Sequence[files.FileGroupId], task: int = 0
) -> list[commits.WriteStat]:
    """Write each file group's log file, or its next base file, marker first."""
    line = f"{opened.requested_time} {writer.author} {opened.batch_id}\n".encode()
    if opened.config.is_copy_on_write:
        return _rewrite(writer, opened, groups, line, task)
    stats = []
    token = file_names.write_token(task, opened.stage, 0)
    for group in groups:
        name = file_names.log_file_name(group.file_id, opened.requested_time, 1, token)
        path = put_file(writer, opened, files.join(group.partition_path, name), line)
        stats.append(stat(group, path, line, len(line), log_files=(name,)))
    return stats


def _rewrite(
    writer: Client,
    opened: OpenAction,
    groups: Sequence[files.FileGroupId],
    line: bytes,
    task: int,
) -> list[commits.WriteStat]:
    known = snapshots.committed_instants(opened.timeline)
    committed = snapshots.CommittedFiles(writer.storage, known)
    time = opened.requested_time
    indexes = partitions.PartitionIndexes(
        writer.storage, opened.config, None, committed.is_committed
    )
    present = placement.Placement(writer.storage, opened.config, committed, {}, time, indexes)
    for path in sorted({each.partition_path for each in groups}):
        present.prepare(path)
    stats = []
    token = file_names.write_token(task, opened.stage, 0)
    for group in groups:
        base = present.base_file_of(group)
        name = file_names.base_file_name(group.file_id, token, opened.requested_time)
        lines = (schedule_files.lines_of(writer.storage.read(base.path)) if base else b"") + line
        content = schedule_files.base_content(opened.config, lines)
        path = put_file(writer, opened, files.join(group.partition_path, name), content)
        stats.append(stat(group, path, lines, len(content)))
    return stats


def write_bases(service: Client, opened: OpenAction) -> list[commits.WriteStat]:
    """Write the base file of each operation in a plan."""
    token = file_names.write_token(0, opened.stage, 0)
    stats = []
    snapshot = snapshots.take(service.storage, opened.config, opened.timeline)
    for operation in compaction_planning.plan_to_execute(
        snapshot, opened.requested_time
    ).operations:
        group = operation.group
        name = file_names.base_file_name(group.file_id, token, opened.requested_time)
        lines = b"".join(
            schedule_files.lines_of(
                service.storage.read(files.join(group.partition_path, merged_name))
            )
            for merged_name in (operation.base_file_name, *operation.log_file_names)
            if merged_name is not None
        )
        merged = schedule_files.base_content(opened.config, lines)
        path = put_file(service, opened, files.join(group.partition_path, name), merged)
        stats.append(stat(group, path, lines, len(merged)))
    return stats


def content(storage: Storage, file_slice: files.FileSlice) -> bytes:
    """Return what a slice holds: its base file, and its log files in the order of merging."""
    base = () if file_slice.base_file is None else (file_slice.base_file,)
    return b"".join(
        schedule_files.lines_of(storage.read(file.path)) for file in (*base, *file_slice.log_files)
    )


def writes_in(text: bytes) -> tuple[instants.InstantTime, ...]:
    """Return which writes a file group holds, in the order in which they were merged."""
    return tuple(instants.InstantTime(line.split()[0]) for line in text.decode().splitlines())


def put_file(writer: Client, opened: OpenAction, path: str, content: bytes) -> str:
    """Write a data file after its marker."""
    markers.mark(writer.storage, opened.requested_time, path)
    with writer.storage.open_write(path) as file:
        file.write(content)
    return path


def stat(
    group: files.FileGroupId,
    path: str,
    lines: bytes,
    size_bytes: int,
    log_files: tuple[str, ...] = (),
) -> commits.WriteStat:
    """Return the write stat of one file, which has some lines."""
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
        keys=key_changes.NONE,
        statistics=tuple(schedule_files.statistics_of(lines, path.rpartition("/")[2])),
    )


def metadata(
    stats: Sequence[commits.WriteStat],
    operation: commits.Operation = commits.Operation.UPSERT,
    schema: schemas.TableSchema = SCHEMA,
    replaced: replacements.Replaced = replacements.NOTHING,
) -> commits.CommitMetadata:
    """Return the metadata of a write."""
    return commits.CommitMetadata(
        operation=operation.value,
        stats=tuple(stats),
        extra={commits.SCHEMA_KEY: schema.avro},
        replaced=replaced.groups,
    )


def data_files(storage: Storage) -> list[str]:
    """Return the names of the data files that there are, whoever they are of."""
    found = (
        file_names.parse(info.path, info.size_bytes)
        for path in (PARTITION, ANOTHER_PARTITION)
        for info in storage.list(path)
    )
    return [each.name for each in found if each is not None]


def heartbeat_paths(storage: Storage) -> list[str]:
    """Return the heartbeat files that there are."""
    return [info.path for info in storage.list(layout.HEARTBEATS)]
