"""What the commands of a dialogue do: a table in memory, its writers, and a clock that they set.

Times read `t21`: seconds since the dialogue began. Writers run on machines of their own; `w.2` is
the second run of writer `w`. Everything goes through `hoodie.table` and is the library's own.

    create columns=a,b:int            a fresh table, which the commands below are about; its record
                                      key is the text `id`, other columns are texts or integers
      ordering=b partition=a partial=yes buckets=2|none type=cow mode=M
    begin W                           a write, inflight; it may write all columns, or columns=a,b
    write W                           the rows below, `key column=value ...` a line
    commit W, abort W
    commit W dies=before-data         it dies right before its completed file, or before that of the
      dies=before-metadata            metadata table
    upsert, insert, bulk_insert, delete W     all three steps at once
      batch=ID mode=M policy=P acknowledge=yes operation=O
      rolls=yes                       a log file for each block, and a block for each row
      hoodie.KEY=VALUE                any setting of a writer, by its name in Apache Hudi
    kill W                            for good; who comes next by this name is another process
    pause W until=t70                 no command and no heartbeat till then
    clock W ahead=3600                how many seconds its machine's clock differs
    plan, compact TIME                of a compaction
    clean                             keeps what the last commit needs; dies=completing
    rollback, rollback TIME           of everything whose owner is dead, or of one instant
    index I NAME...                   built by indexer I, who may die once the plan is there, once
      dies=planned|grouping|begun     some file groups are, or once all of them are
    drop-index NAME...
    indexes                           which are ready, or planned
    timeline, timeline order=completion, slices, files, pending, check
    initialise                        a metadata table of files
    metadata                          its partitions, as the table's properties have them, and the
                                      instants on its timeline
    metadata slices, metadata files   its file slices (of=NAME); the data files that it has
    metadata validate                 whether it, with its indexes, is what the data files say
    read, read optimized
    slices as-of=t50, read as-of=t50  as RFC-66's pseudocode has it: what had completed by then
    read after=t20 through=t50        what changed between the two
    pull NAME ordered=yes             what changed since a reader has pulled last; at first all
    snapshot NAME, read NAME          what a reader sees that looked at the timeline by then

M is single, optimistic or non-blocking, which is taken where a table says nothing. Writers whose
names begin with `jvm` are those of Apache Hudi that stream into the metadata table.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc

from hoodie import environment, errors, table
from hoodie.engine.local import LocalEngine
from hoodie.filegroup import metadata_table, snapshots
from hoodie.format import file_names
from hoodie.maintenance.cleaning import retention
from hoodie.model import commits, instants, results, schemas, settings, table_config
from hoodie.read import changed_rows, changes
from hoodie.read import tasks as read_tasks
from hoodie.storage import locations, memory, protocol
from hoodie.timeline import active, contents, metadata_timelines
from hoodie.transaction import authors, manager
from hoodie.transaction.locks import addresses
from hoodie.write import batches, early_conflicts, sessions, tasks, write_task
from support.simulation import dialogue_texts, schedule, schedule_streaming
from support.simulation.dialogue_files import Command
from support.simulation.dialogue_texts import OK

MODES = {
    "single": settings.ConcurrencyMode.SINGLE_WRITER,
    "optimistic": settings.ConcurrencyMode.OPTIMISTIC,
    "non-blocking": settings.ConcurrencyMode.NON_BLOCKING,
}
TABLE_OPTIONS = {
    "columns",
    "ordering",
    "partition",
    "partial",
    "buckets",
    "type",
    "mode",
    "foreign",
}
WRITE_OPTIONS = {"columns", "mode", "policy", "operation", "acknowledge", "batch", "rolls"}
OTHER_OPTIONS = {"ordered", "until", "ahead", "order", "as-of", "after", "through", "dies", "of"}
_COMPLETED = r"\.hoodie/timeline/\d{17}_\d{17}\."
DEATHS = {
    "before-data": re.compile("^" + _COMPLETED),
    "before-metadata": re.compile(r"\.hoodie/metadata/" + _COMPLETED),
    "completing": re.compile(r"^\.hoodie/metadata/files/"),
    "planned": re.compile(r"\.hoodie/timeline/\d{17}\.indexing\.inflight"),
    # The first file group is there, and the second is not.
    "grouping": re.compile(r"bloom_filters/.*-0001-0_"),
}
"""The files right before which a process dies."""
SETTINGS = settings.WriteSettings(clock_wait_ms=0, lock_wait_ms=1_000)
READER, SERVICE = "reader", "service"
LAST_OF_INITIALISING = metadata_timelines.FIRST_TIMES[-1]
TYPES = {"": pa.string(), "int": pa.int64()}


@dataclass(slots=True)
class _Writing:
    """A write that is inflight."""

    session: sessions.WriteSession
    stats: list[commits.Written] = field(default_factory=list)
    tasks: int = 0


class DialogueWorld:
    """A table and who works on it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.time = schedule.Schedule()
        self.stores: list[memory.MemoryStore] = []
        self.mode = ""
        self.processes: dict[str, schedule.Process] = {}
        self.writing: dict[str, _Writing] = {}
        self.snapshots: dict[str, list[read_tasks.ReadTask]] = {}
        self.positions: dict[str, str] = {}  # Of readers of increments.
        self.deaths: dict[str, re.Pattern[str]] = {}
        self.streams: dict[tuple[str, str], protocol.Storage] = {}  # Of writers of Apache Hudi.
        self.commands: Mapping[str, Callable[[Command], Iterable[str]]] = {
            "create": self._create,
            "begin": self._begin,
            "write": self._write,
            "commit": self._commit,
            "abort": self._abort,
            "upsert": self._write_at_once,
            "insert": self._write_at_once,
            "bulk_insert": self._write_at_once,
            "delete": self._write_at_once,
            "kill": self._kill,
            "pause": self._pause,
            "clock": self._set_clock,
            "plan": self._plan,
            "compact": self._compact,
            "clean": self._clean,
            "rollback": self._roll_back,
            "timeline": self._timeline,
            "slices": self._slices,
            "files": self._files,
            "pending": self._pending,
            "check": self._check,
            "initialise": self._initialise,
            "metadata": self._metadata,
            "index": self._index,
            "drop-index": self._drop_index,
            "indexes": self._indexes,
            "snapshot": self._take_snapshot,
            "read": self._read,
            "pull": self._pull,
        }

    def answer(self, command: Command) -> list[str]:
        """Do what a command says; return what it answers."""
        where = f"{self.name}, line {command.line}"
        assert command.name in self.commands, f"{where}: there is no command {command.name}"
        known = TABLE_OPTIONS if command.name == "create" else WRITE_OPTIONS | OTHER_OPTIONS
        unknown = {name for name in command.options.keys() - known if not _is_setting(name)}
        assert not unknown, f"{where}: unknown {unknown}"
        if command.time is not None:
            duration_ms = dialogue_texts.milliseconds(command.time) - self._now_ms
            assert duration_ms >= 0, f"{where}: {command.time} is over"
            self.time.advance(duration_ms)
        try:
            lines = [*self.commands[command.name](command)]
        except errors.HoodieError as error:
            lines = [f"{type(error).__name__}: {error}"]
        short_lines = (line.replace(self._uri, "the table") for line in lines)
        return [part for line in short_lines for part in dialogue_texts.readable(line)]

    @property
    def _now_ms(self) -> int:
        return self.time.now_ms - schedule.EPOCH_MS

    @property
    def _uri(self) -> str:
        return f"memory://dialogues/{self.name}-{len(self.stores)}"

    @property
    def _storage(self) -> protocol.Storage:
        return locations.open_storage(self._uri)

    # Who works on the table.

    def _env(self, name: str) -> environment.Environment:
        process = self.processes.get(name)
        if process is None:
            process = schedule.Process(self.time, name, host=f"machine of {name}")
            self.processes[name] = process
        assert not process.is_paused, f"{name} is paused"

        def open_storage(uri: str) -> protocol.Storage:
            mortal = _mortal(locations.open_storage(uri), process, self.deaths)
            if not name.startswith("jvm"):
                return mortal
            # It remembers what a write of it began with.
            return self.streams.setdefault((name, uri), schedule_streaming.streaming(mortal))

        return environment.Environment(
            open_storage=open_storage,
            clock=process.clock,
            random=process.random,
            background=process.background,
            engine=LocalEngine(1),
            process=process.process,
        )

    def _table(self, name: str = READER) -> table.Table:
        return table.open_table(self._uri, self._env(name))

    def _transaction(self, name: str, options: Mapping[str, str]) -> manager.TransactionOptions:
        writer_id, _, attempt = name.partition(".")
        author = authors.Author(writer_id=writer_id, attempt=int(attempt or 1))
        policy = options.get("policy")
        rolls = options.get("rolls") == "yes"
        chosen = {name: text for name, text in options.items() if _is_setting(name)}
        return manager.TransactionOptions(
            settings=replace(
                settings.from_properties(chosen, SETTINGS),
                concurrency=MODES[options.get("mode", self.mode)],
                failed_writes_policy=settings.FailedWritesPolicy(policy) if policy else None,
                acknowledges_order_dependence=options.get("acknowledge") == "yes",
                log_file_bytes_max=1 if rolls else SETTINGS.log_file_bytes_max,
                log_block_bytes_max=1 if rolls else SETTINGS.log_block_bytes_max,
            ),
            lock=addresses.InProcessAddress(),
            author=authors.Author() if name == SERVICE else author,
        )

    def _kill(self, command: Command) -> Iterable[str]:
        (name,) = command.arguments
        self.processes.pop(name).crash()
        self.writing.pop(name, None)
        yield OK

    def _pause(self, command: Command) -> Iterable[str]:
        (name,) = command.arguments
        until_ms = dialogue_texts.milliseconds(command.options["until"])
        self.processes[name].pause(until_ms - self._now_ms)
        yield OK

    def _set_clock(self, command: Command) -> Iterable[str]:
        (name,) = command.arguments
        self._env(name)
        self.processes[name].clock.offset_ms = int(command.options["ahead"]) * 1000
        yield OK

    # Writing.

    def _create(self, command: Command) -> Iterable[str]:
        options = command.options
        ordering, partition = options.get("ordering"), options.get("partition")
        buckets = options.get("buckets", "1")
        is_ours = options.get("foreign") == "no"
        config = table_config.TableConfig(
            name="dialogue",
            table_type=table_config.TableType.COPY_ON_WRITE
            if options.get("type") == "cow"
            else table_config.TableType.MERGE_ON_READ,
            record_key_fields=("id",),
            partition_fields=(partition,) if partition else (),
            ordering_fields=(ordering,) if ordering else (),
            merge_mode=table_config.MergeMode.EVENT_TIME
            if ordering
            else table_config.MergeMode.COMMIT_TIME,
            has_partial_updates=options.get("partial") == "yes",
            bucket_count=None if buckets == "none" else int(buckets),
            chain=table_config.ChainName(id="dialogue") if is_ours else None,
            has_foreign_writers=not is_ours,
        )
        columns = [pa.field("id", pa.string())]
        for text in options["columns"].split(","):
            name, _, kind = text.partition(":")
            columns.append(pa.field(name, TYPES[kind]))
        schema = schemas.from_arrow(pa.schema(columns), config.name)
        self.mode = options.get("mode", "non-blocking")
        # Held here, a store lives as long as the dialogue; its URI names it by their number.
        self.stores.append(memory.named_store(f"dialogues/{self.name}-{len(self.stores) + 1}"))
        self.stores[-1].clock = schedule.VirtualClock(self.time)
        table.create_table(self._uri, config, schema, self._env(SERVICE))
        yield OK

    def _options(self, name: str, operation: str, command: Command) -> sessions.WriteOptions:
        return sessions.WriteOptions(
            operation=commits.Operation[operation.upper()],
            transaction=self._transaction(name, command.options),
            batch_id=command.options.get("batch"),
        )

    def _begin(self, command: Command) -> Iterable[str]:
        (name,) = command.arguments
        opened = self._table(name)
        columns = command.options.get("columns")
        options = self._options(name, command.options.get("operation", "upsert"), command)
        session = opened.begin_write(
            options, ["id", *columns.split(",")] if columns else opened.schema.arrow.names
        )
        if isinstance(session, results.AlreadyCommitted):
            return dialogue_texts.outcome(session)
        self.writing[name] = _Writing(session)
        return [f"begins at {session.requested_time}"]

    def _write(self, command: Command) -> Iterable[str]:
        (name,) = command.arguments
        writing, opened, env = self.writing[name], self._table(name), self._env(name)
        task = writing.session.task
        data = dialogue_texts.parse_rows(command.input, opened.schema)
        batch = batches.prepare(data, opened.config, opened.schema, task.operation)
        token = write_task.WriteToken(task=writing.tasks)
        storage = env.open_storage(self._uri) if name.startswith("jvm") else self._storage
        mark = early_conflicts.marking(task.detection, storage, env)
        writing.stats += tasks.run(task, batch, token, storage, env.engine, mark)
        writing.tasks += 1
        yield OK

    def _commit(self, command: Command) -> Iterable[str]:
        (name,) = command.arguments
        self._env(name)
        writing = self.writing.pop(name)
        if "dies" in command.options:
            self.deaths[name] = DEATHS[command.options["dies"]]
        try:
            return dialogue_texts.outcome(writing.session.commit(writing.stats))
        except schedule.Crash:
            self.processes.pop(name)
            del self.deaths[name]
            return ["it dies"]

    def _abort(self, command: Command) -> Iterable[str]:
        (name,) = command.arguments
        self._env(name)
        self.writing.pop(name).session.abort(has_tasks_left=False)
        yield OK

    def _write_at_once(self, command: Command) -> Iterable[str]:
        (name,) = command.arguments
        opened = self._table(name)
        data = dialogue_texts.parse_rows(command.input, opened.schema)
        written = opened.write(data, self._options(name, command.name, command))
        return dialogue_texts.outcome(written)

    # Table services.

    def _plan(self, command: Command) -> Iterable[str]:
        opened = self._table(SERVICE)
        planned = opened.schedule_compaction(self._transaction(SERVICE, command.options))
        if planned is None:
            yield "nothing to compact"
            return
        yield f"planned at {planned}"
        timeline = opened.timeline()
        instant = timeline.find(planned)
        assert instant is not None
        plan = contents.read_compaction_plan(self._storage, instant)
        for operation in sorted(plan.operations, key=lambda operation: operation.group):
            found = dialogue_texts.data_files((operation.base_file_name, *operation.log_file_names))
            group = dialogue_texts.group(operation.group)
            yield f"  {group}: {dialogue_texts.contents(found, timeline)}"

    def _compact(self, command: Command) -> Iterable[str]:
        (time,) = command.arguments
        transaction = self._transaction(SERVICE, command.options)
        compacted = self._table(SERVICE).compact(dialogue_texts.instant_time(time), transaction)
        return dialogue_texts.outcome(compacted)

    def _clean(self, command: Command) -> Iterable[str]:
        how = retention.Retention(retained=1, grace_ms=0)
        (name,) = command.arguments or (SERVICE,)
        if "dies" in command.options:
            self.deaths[name] = DEATHS[command.options["dies"]]
        try:
            found = self._table(name).clean(how, self._transaction(name, command.options))
        except schedule.Crash:
            self.processes.pop(name)
            del self.deaths[name]
            return ["it dies"]
        return [
            f"[{each.instant.requested_time}, {each.instant.completion_time}]"
            for each in found.done
        ] or ["nothing to clean"]

    def _roll_back(self, command: Command) -> Iterable[str]:
        opened, transaction = self._table(SERVICE), self._transaction(SERVICE, command.options)
        if command.arguments:
            (time,) = command.arguments
            done = opened.roll_back(dialogue_texts.instant_time(time), transaction)
            return [dialogue_texts.rollback(done)]
        found = opened.roll_back_failed(transaction)
        reasons = [f"passed over: {reason}" for reason in found.passed_over]
        return [*map(dialogue_texts.rollback, found.done), *reasons] or ["nothing to roll back"]

    # Looking.

    def _timeline(self, command: Command) -> Iterable[str]:
        opened = self._table()
        found = list(opened.timeline().instants)
        if command.options.get("order") == "completion":
            found = [each for each in found if each.is_completed]
            found.sort(key=lambda each: each.completion_time or "")
        metadata = opened.metadata(found)
        return dialogue_texts.columns(
            dialogue_texts.instant(each, metadata.get(each)) for each in found
        )

    def _snapshot(self, through: str | None) -> snapshots.Snapshot:
        """Return the table as of a completion time: what completed later is pending."""
        timeline = active.load(self._storage)
        if through is not None:
            time = dialogue_texts.instant_time(through)
            timeline = active.from_files(
                each
                for each in timeline.files
                if each.completion_time is None or each.completion_time <= time
            )
        return snapshots.take(self._storage, self._table().config, timeline)

    def _slices(self, command: Command) -> Iterable[str]:
        snapshot = self._snapshot(command.options.get("as-of"))
        view = snapshot.view
        for slices in (each for path in view.partitions() for each in view.slices(path)):
            yield f"{dialogue_texts.group(slices[0].group)}:"
            for each in slices:
                base_files = [each.base_file] if each.base_file is not None else []
                found = dialogue_texts.contents([*base_files, *each.log_files], snapshot.timeline)
                yield f"  {each.base_instant_time}: {found}"

    def _files(self, command: Command) -> Iterable[str]:
        del command
        for info in self._storage.list("", is_recursive=True):
            if file_names.parse(info.path, info.size_bytes) is not None:
                yield info.path

    def _pending(self, command: Command) -> Iterable[str]:
        del command
        found = self._table().pending(SETTINGS)
        return dialogue_texts.columns(map(dialogue_texts.pending, found)) or ["nothing"]

    def _check(self, command: Command) -> Iterable[str]:
        del command
        found = self._table().check(SETTINGS)
        return [f"{each.severity.value}: {each.subject}: {each.message}" for each in found] or [OK]

    def _initialise(self, command: Command) -> Iterable[str]:
        transaction = self._transaction(SERVICE, command.options)
        self._table(SERVICE).initialise_metadata(transaction, has_statistics=False)
        yield OK

    def _index(self, command: Command) -> Iterable[str]:
        """Build indexes; with `dies=begun` the indexer dies after it has begun."""
        indexer, *names = command.arguments
        opened = self._table(indexer)
        dies = command.options.get("dies")
        if dies in DEATHS:
            self.deaths[indexer] = DEATHS[dies]

        def hear(what: str) -> None:
            if dies == "begun" and what.startswith("reading"):
                self.processes[indexer].crash()

        try:
            built = opened.build_index(names, self._transaction(indexer, command.options), hear)
        except schedule.Crash:
            self.processes.pop(indexer)
            self.deaths.pop(indexer, None)
            return ["it dies"]
        if built.instant is None:
            return ["nothing to build"]
        through = contents.read_indexing(self._storage, built.instant).partitions[0].through
        interval = f"[{built.instant.requested_time}, {built.instant.completion_time}]"
        return [f"{', '.join(built.built)} {interval}, up to {through}"]

    def _drop_index(self, command: Command) -> Iterable[str]:
        transaction = self._transaction(SERVICE, command.options)
        dropped = self._table(SERVICE).drop_index(command.arguments, transaction)
        return [f"dropped {', '.join(dropped)}" if dropped else "nothing to drop"]

    def _indexes(self, command: Command) -> Iterable[str]:
        """Show which indexes are ready, and what is planned of which up to when."""
        del command
        opened = self._table()
        yield f"ready: {', '.join(opened.config.metadata_partitions)}"
        if opened.config.metadata_partitions_inflight:
            yield f"inflight: {', '.join(opened.config.metadata_partitions_inflight)}"
        for build in opened.pending_indexes():
            for each in build.plan.partitions:
                yield f"{build.instant.requested_time} builds {each.name} up to {each.through}"

    def _metadata(self, command: Command) -> Iterable[str]:
        snapshot = self._snapshot(None)
        if command.arguments == ("files",):
            committed = snapshots.take(
                self._storage, self._table().config, snapshot.timeline, has_committed_only=True
            )
            listing = committed.listing
            return [each.path for path in listing.partitions() for each in listing.files(path)]
        if command.arguments == ("validate",):
            found = self._table().validate_metadata()
            return [OK if found.is_right else str(found)]
        beside = metadata_table.MetadataTable(self._storage, snapshot.timeline)
        if command.arguments == ("slices",):
            name = command.options.get("of", metadata_table.FILES)
            return [
                f"{name}: {dialogue_texts.contents(each.data_files, beside.timeline)}"
                for each in beside.latest_slices(name)
            ]
        ready = ", ".join(self._table().config.metadata_partitions)
        instants_of = beside.timeline.instants
        changes = [each for each in instants_of if each.requested_time > LAST_OF_INITIALISING]
        cells = [dialogue_texts.instant(each, None)[:-1] for each in changes]
        return [f"ready: {ready}", *dialogue_texts.columns(cells)]

    def _take_snapshot(self, command: Command) -> Iterable[str]:
        (name,) = command.arguments
        self.snapshots[name] = self._table().plan_read()
        yield OK

    def _read(self, command: Command) -> Iterable[str]:
        (name,) = command.arguments or ("",)
        if "after" in command.options:
            return self._increment(command.options["after"], command.options["through"])
        if "as-of" in command.options:
            planned = self._table().plan_read(as_of=_moment(command.options["as-of"]))
        elif name in ("", "optimized"):
            planned = self._table().plan_read(is_read_optimized=bool(name))
        else:
            planned = self.snapshots[name]
        return _shown(planned)

    def _increment(self, after: str, through: str) -> Iterable[str]:
        """Yield what changed between two completion times."""
        return _changed(self._table().changes(_moment(after), until=_moment(through)))

    def _pull(self, command: Command) -> Iterable[str]:
        """Pull what changed since a reader has pulled last, at first everything."""
        (name,) = command.arguments
        is_ordered = command.options.get("ordered") == "yes"
        found = self._table().changes(self.positions.get(name), is_ordered=is_ordered)
        self.positions[name] = str(found.position)
        yield from _changed(found)
        yield from (f"late: {dialogue_texts.instant(each, None)}" for each in found.latecomers)
        yield f"up to {found.position.time}"


def _mortal(
    storage: protocol.Storage, process: schedule.Process, deaths: Mapping[str, re.Pattern[str]]
) -> protocol.Storage:
    """Return a storage at which a process dies right before it creates a file, for good."""

    class Mortal:
        def __getattr__(self, name: str) -> object:
            process.check_alive()
            return getattr(storage, name)

        def create(self, path: str, content: bytes) -> protocol.FileInfo:
            self._die_at(path)
            return storage.create(path, content)

        def open_write(self, path: str) -> protocol.NewFile:
            self._die_at(path)
            return storage.open_write(path)

        def _die_at(self, path: str) -> None:
            death = deaths.get(process.name)
            if death is not None and death.search(path):
                process.crash()
            process.check_alive()

    return cast("protocol.Storage", Mortal())


def _shown(planned: Iterable[read_tasks.ReadTask]) -> list[str]:
    read = [batch for task in planned for batch in read_tasks.run(task)]
    rows = dialogue_texts.show_rows(pa.Table.from_batches(read)) if read else []
    return rows or ["no rows"]


def _changed(found: changes.Changes) -> list[str]:
    rows = found.read().read_all()
    is_upsert = pc.equal(rows.column(changed_rows.CHANGE), changed_rows.UPSERT)
    upserts = rows.filter(is_upsert).drop_columns([changed_rows.CHANGE])
    gone = rows.filter(pc.invert(is_upsert)).column("id").to_pylist()
    shown = dialogue_texts.show_rows(upserts) if upserts.num_rows else []
    return [*shown, *(f"{key} is deleted" for key in sorted(gone))] or ["no rows"]


def _moment(time: str) -> datetime:
    """Return the time that `t21` means; its digits might be those of an instant."""
    digits = dialogue_texts.instant_time(time)
    return datetime.fromtimestamp(instants.parse_time(digits) / 1000, UTC)


def _is_setting(name: str) -> bool:
    return name.startswith("hoodie.")
