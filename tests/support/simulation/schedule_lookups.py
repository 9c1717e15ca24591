"""A table in a simulated world whose data files are real, and whose writers see the keys in them.

Each write puts and deletes a few keys that all share, and puts a row of its own; or it replaces all
rows by those that it puts; or it reads which rows a filter keeps, once it has begun, and deletes
these. With a global index each row is of one of two partitions. Where each
goes, and what of other writes it conflicts with, is the library's to decide. Optimistic writes are
serial in the order of their completion, so what a read has to find follows from the writes that it
saw; but rows that another has added in new file groups since a replacement began outlive it, as do
those that match a filter and were added since the rows that it keeps were read.
"""

import functools
import operator
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from hoodie.filegroup import (
    metadata_table,
    reading,
    record_index,
    snapshots,
    statistics_reading,
)
from hoodie.format import metadata_avro
from hoodie.metadata import initial_statistics
from hoodie.model import (
    commits,
    file_statistics,
    files,
    instants,
    key_changes,
    predicates,
    schemas,
    secondary_indexes,
    settings,
    table_config,
)
from hoodie.read import planning
from hoodie.read import tasks as read_tasks
from hoodie.services import (
    metadata_statistics,
    record_index_checks,
    secondary_index_checks,
)
from hoodie.storage import protocol
from hoodie.timeline import active, index_definitions, table_properties
from hoodie.transaction import heartbeats, lifecycle
from hoodie.transaction.client import Client, OpenAction
from hoodie.write import (
    batches,
    inserted_keys,
    record_keys,
    replacements,
    secondary_pairs,
    tasks,
    write_task,
)
from support.simulation import invariants, schedule, schedule_rows, schedule_streaming
from support.simulation.schedule_world import ANOTHER_PARTITION, PARTITION, World

FLAG = "_hoodie_is_deleted"
COLUMNS = pa.schema(
    [("id", pa.string()), ("part", pa.string()), ("v", pa.int64()), (FLAG, pa.bool_())]
)
SCHEMA = schemas.from_arrow(COLUMNS, "t")
KEYS = ("k1", "k2", "k3", "k4")
_HOUR_MS = 3_600_000
_MANY = ("nothing", "put", "put", "delete")
_FEW = (*["nothing"] * 6, "put", "put", "delete")

_MEANING: Mapping[predicates.Comparator, Callable[[object, object], bool]] = {
    predicates.Comparator.EQ: operator.eq,
    predicates.Comparator.NE: operator.ne,
    predicates.Comparator.LT: operator.lt,
    predicates.Comparator.GE: operator.ge,
}
_COMPARATORS = tuple(_MEANING)

Changes = Mapping[str, int | None]
"""The value that a write gives each key; None deletes it."""


def config_of(
    table_type: table_config.TableType, index: table_config.IndexKind
) -> table_config.TableConfig:
    """Return the configuration of a table with such an index."""
    is_bucket = index is table_config.IndexKind.BUCKET
    return table_config.TableConfig(
        name="t",
        table_type=table_type,
        record_key_fields=("id",),
        partition_fields=("part",),
        index=None if is_bucket else index,
        bucket_count=2 if is_bucket else None,
    )


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What a read found.

    Attributes:
        writes: Those that had completed, in the order of completion.
        rows: Key and value of each row.
    """

    writes: tuple[instants.InstantTime, ...]
    rows: tuple[tuple[str, int], ...]


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Which rows a write deletes.

    Attributes:
        where: Keeps them.
        seen: The writes that the read which found them saw.
        rows: Their record keys and partition paths.
    """

    where: predicates.Compare
    seen: frozenset[instants.InstantTime]
    rows: pa.Table


class LookupWorld(World):
    """One table, its lock service, and the processes that use them."""

    schema = SCHEMA
    has_rows = True
    index = key_changes.RECORD_INDEX

    def __init__(self, time: schedule.Schedule, **options: Any) -> None:  # noqa: ANN401 - as of a world
        self.seen: list[Seen] = []
        self.drawn: dict[instants.InstantTime, Changes] = {}
        self.known: dict[instants.InstantTime, frozenset[instants.InstantTime]] = {}
        self.selections: dict[instants.InstantTime, Selection] = {}
        # Watches of another run in this process would have looked already.
        heartbeats.watch.cache_clear()
        super().__init__(time, **options)

    def write_files(
        self, writer: Client, opened: OpenAction, groups: Sequence[files.FileGroupId], task: int = 0
    ) -> Sequence[commits.Written]:
        del groups
        source = random.Random(f"{self.time.seed} {writer.author.writer_id} {opened.batch_id}")
        operation = self.operation_of(writer, opened.batch_id)
        selection = None
        changes: Changes = {}
        if operation is commits.Operation.DELETE:
            selection = self._selection(writer, opened, source)
        else:
            changes = self.changes_of(writer, opened, source)
        if operation.replaces:
            self.known[opened.requested_time] = self._known_to(opened)
            changes = {key: value for key, value in changes.items() if value is not None}
        self.drawn[opened.requested_time] = changes
        how = write_task.WriteTask(
            table_uri=writer.storage.uri,
            config=schedule_streaming.looking_up(writer.storage, opened.config),
            schema=SCHEMA,
            stored_schema=SCHEMA,
            instant_time=opened.requested_time,
            write_id=opened.write_id,
            operation=operation,
            # Without small files writers share no file group of new keys.
            settings=replace(
                self.settings,
                small_file_bytes=self.small_file_bytes(writer, source),
                # By the machine's clock, which no run may depend on: each write looks once.
                heartbeat_interval_ms=_HOUR_MS,
            ),
            committed=snapshots.committed_instants(opened.timeline),
            replaced=snapshots.replaced_groups(writer.storage, opened.timeline),
            statistics=file_statistics.wanted(opened.config, SCHEMA.arrow, None),
            tracks_keys=self.index in opened.config.metadata_partitions_kept_up,
        )
        if selection is not None:
            batch = batches.of_stored(selection.rows, how.config, SCHEMA)
        else:
            batch = self._batch(how, changes, source)
        token = write_task.WriteToken(task=task, stage=opened.stage)
        return tasks.run(how, batch, token, writer.storage, self.process_of(writer).engine)

    def small_file_bytes(self, writer: Client, source: random.Random) -> int:
        """Return up to which size a write adds new keys to a file group that is there."""
        del writer
        return source.choice((0, 1 << 20))

    def _batch(
        self, how: write_task.WriteTask, changes: Changes, source: random.Random
    ) -> batches.Batch:
        rows = [
            {"id": key, "part": self.part_of(key, source), "v": value or 0, FLAG: value is None}
            for key, value in changes.items()
        ]
        data = pa.Table.from_pylist(rows, COLUMNS)
        return batches.prepare(data, how.config, SCHEMA, how.operation)

    def _selection(self, writer: Client, opened: OpenAction, source: random.Random) -> Selection:
        """Return what a write deletes, which is read once: all of its tasks delete the same."""
        found = self.selections.get(opened.requested_time)
        if found is None:
            numbers = sorted({_number(f"w{w} b{b}") for w in range(3) for b in range(3)})
            comparator = source.choice(_COMPARATORS)
            where = predicates.Compare("v", comparator, source.choice(numbers))
            select = functools.partial(self._select, storage=writer.storage, where=where)
            if self.is_cleaned:
                found = snapshots.consistent(writer.storage, self.config, select)
            else:
                found = select(snapshots.take(writer.storage, self.config, has_committed_only=True))
            self.selections[opened.requested_time] = found
        return found

    def _select(
        self, snapshot: snapshots.Snapshot, storage: protocol.Storage, where: predicates.Compare
    ) -> Selection:
        """Return the rows of a snapshot that a filter keeps, read as by `Table.read`."""
        columns = (schemas.RECORD_KEY, schemas.PARTITION_PATH)
        query = read_tasks.Query(columns=columns, where=where)
        planned = planning.plan(storage.uri, self.config, SCHEMA, snapshot, query)
        slices = reading.SliceReader(storage, self.config, SCHEMA, snapshot.committed.is_committed)
        fields = [read_tasks.full_schema(SCHEMA.arrow).field(name) for name in columns]
        rows = [slices.read(each, columns, where) for each in planned.slices]
        return Selection(
            where=where,
            seen=frozenset(self._writes_of(snapshot)),
            rows=pa.concat_tables([pa.schema(fields).empty_table(), *rows]),
        )

    @property
    def has_record_index(self) -> bool:
        """False: its keys are those of rows, and are not drawn."""
        return False

    def settling(
        self,
        writer: Client,
        opened: OpenAction,
        replaced: replacements.Replaced,
        written: Sequence[commits.Written],
    ) -> lifecycle.Settling:
        looked_up = [each for each in written if isinstance(each, key_changes.LookedUp)]
        of_keys = record_keys.settling(writer.storage, SCHEMA, replaced.groups, 1, looked_up)
        mode = self.settings.concurrency
        write = secondary_pairs.Write(
            requested_time=opened.requested_time,
            retired=replaced.groups,
            is_alone=mode is not settings.ConcurrencyMode.NON_BLOCKING,
        )
        return secondary_pairs.settling(writer.storage, SCHEMA, write, of_keys)

    def check_metadata(self) -> None:
        """Check also the index that was built, if it is there."""
        super().check_metadata()
        config = table_properties.load(self.storage, self.process("judge").clock)
        if self.index in config.metadata_partitions:
            timeline = active.load(self.storage)
            self.judge_index(config, snapshots.take(self.storage, config, timeline))

    def judge_index(self, config: table_config.TableConfig, snapshot: snapshots.Snapshot) -> None:
        """I7: the record index names the file group of each row."""
        table = metadata_table.MetadataTable(self.storage, snapshot.timeline)
        reader = reading.SliceReader(self.storage, config, SCHEMA, snapshot.committed.is_committed)
        slices = snapshot.newest_slices()
        engine = self.process("judge").engine
        wrong = list(record_index_checks.wrong_keys(table, reader, engine, slices))
        assert not wrong, wrong
        index = record_index.RecordIndex(table)
        assert index.groups.is_partitioned is self.builds_partitioned
        secondary = index_definitions.of_secondary_indexes(
            self.storage, config, config.metadata_partitions
        )
        for each in secondary:
            missing = list(
                secondary_index_checks.missing_pairs(table, each, reader, engine, slices)
            )
            assert not missing, missing
            self.valued += len(self._see(snapshot, self.storage).rows)
        self.located += len(self._see(snapshot, self.storage).rows)

    def key_checks(
        self, writer: Client, written: Sequence[commits.Written]
    ) -> list[lifecycle.CommitCheck]:
        absent = [each for each in written if isinstance(each, commits.Absent)]
        return [inserted_keys.commit_check(writer, absent, SCHEMA)]

    def write_compacted(self, service: Client, opened: OpenAction) -> Sequence[commits.WriteStat]:
        return schedule_rows.compacted(service, opened, SCHEMA, self.settings)

    def read(self, reader: Client) -> invariants.Read:
        begun_ms = self.time.now_ms
        if self.is_cleaned:
            see = functools.partial(self._see, storage=reader.storage)
            self.seen.append(snapshots.consistent(reader.storage, self.config, see))
        else:
            snapshot = snapshots.take(reader.storage, self.config, has_committed_only=True)
            self.seen.append(self._see(snapshot, reader.storage))
        return invariants.Read(
            reader_id=str(reader.author), begun_ms=begun_ms, ended_ms=self.time.now_ms, seen={}
        )

    def check(self) -> active.ActiveTimeline:
        timeline = super().check()
        snapshot = snapshots.take(self.storage, self.config, active.load(self.storage))
        self.seen.append(self._see(snapshot, self.storage))
        late = {each.requested_time for each in self.late | self.posthumous}
        for each in self.seen:
            # Nothing is promised of what is published after its author lost the lock.
            if late.isdisjoint(each.writes):
                self._check_rows(each)
        return timeline

    def check_last(self, timeline: active.ActiveTimeline, read: invariants.Read) -> None:
        """See to it that the last read, whose rows are checked, saw all writes."""
        del read
        completed = {each.requested_time for each in timeline.completed_writes}
        assert completed & self.drawn.keys() == set(self.seen[-1].writes)

    def _check_rows(self, found: Seen) -> None:
        twice = [key for key, count in Counter(key for key, _ in found.rows).items() if count > 1]
        assert not twice, f"there twice: {twice} of {found}"
        expected: dict[str, int] = {}
        last: dict[str, instants.InstantTime] = {}
        for write in found.writes:
            known = self.known.get(write, frozenset())
            for key in [key for key in expected if last[key] in known]:
                del expected[key]
            if write in self.selections:
                self._delete_selected(self.selections[write], expected, last)
            for key, value in self.drawn[write].items():
                last[key] = write
                if value is None:
                    expected.pop(key, None)
                else:
                    expected[key] = value
        assert dict(found.rows) == expected, f"expected {expected}: {found}"

    def _delete_selected(
        self,
        selection: Selection,
        expected: dict[str, int],
        last: Mapping[str, instants.InstantTime],
    ) -> None:
        """Delete rows that match and were last changed before they were read; others stay."""
        compare = _MEANING[selection.where.comparator]
        matching = [key for key, value in expected.items() if compare(value, selection.where.value)]
        for key in matching:
            if last[key] in selection.seen:
                del expected[key]

    def _known_to(self, opened: OpenAction) -> frozenset[instants.InstantTime]:
        """Return the writes that had completed when one began, archived ones too."""
        there = active.load(self.storage).write_completion_times
        archived = self.timeline.write_completion_times.keys() - there.keys()
        return frozenset(opened.timeline.write_completion_times.keys() | archived)

    def _see(self, snapshot: snapshots.Snapshot, storage: protocol.Storage) -> Seen:
        """Return the rows of a snapshot."""
        slices = reading.SliceReader(storage, self.config, SCHEMA, snapshot.committed.is_committed)
        rows = [
            (str(row["id"]), int(row["v"]))
            for path in snapshot.view.partitions()
            for file_slice in snapshot.view.latest_slices(path)
            for row in slices.read(file_slice, ["id", "v"]).to_pylist()
        ]
        return Seen(writes=self._writes_of(snapshot), rows=tuple(rows))

    def _writes_of(self, snapshot: snapshots.Snapshot) -> tuple[instants.InstantTime, ...]:
        """Return the writes that a snapshot shows, in the order of completion."""
        completed = {time: snapshot.timeline.completion_time(time) for time in list(self.drawn)}
        writes = sorted((str(at), time) for time, at in completed.items() if at is not None)
        return tuple(time for _, time in writes)

    def operation_of(self, writer: Client, batch_id: str | None) -> commits.Operation:
        name = f"operation {self.time.seed} {writer.author.writer_id} {batch_id}"
        source = random.Random(name)
        if self.selection_rate:
            is_selected = source.random() < self.selection_rate
            return commits.Operation.DELETE if is_selected else commits.Operation.UPSERT
        if source.random() >= self.replacement_rate:
            return commits.Operation.UPSERT
        return source.choice(
            (commits.Operation.INSERT_OVERWRITE, commits.Operation.INSERT_OVERWRITE_TABLE)
        )

    def part_of(self, key: str, source: random.Random) -> str:
        """Return the partition of a row, which is another one for each write of the key.

        Where a record index of each is built beside writes that overlap, some bring partitions.
        """
        brings = self.lingers_s and self.builds_partitioned and not self.replacement_rate
        if brings and key not in KEYS:
            return source.choice((PARTITION, f"new-{key}"))
        if not self.config.has_global_index:
            return PARTITION
        return source.choice((PARTITION, ANOTHER_PARTITION)) if key in KEYS else PARTITION

    def changes_of(self, writer: Client, opened: OpenAction, source: random.Random) -> Changes:
        """Return what a writer's batch does: the same whenever it is tried."""
        name = f"{writer.author.writer_id} {opened.batch_id}"
        number = _number(name)
        changes: dict[str, int | None] = {name: number}
        # Writes beside a replacement conflict with it, but for those of other keys.
        choices = _FEW if self.replacement_rate else _MANY
        for key in KEYS:
            match source.choice(choices):
                case "put":
                    changes[key] = number
                case "delete":
                    changes[key] = None
        return changes


def _number(name: str) -> int:
    """Return the value that the rows of a batch have: near those of others, and of few the same."""
    return sum(map(ord, name))


class ValueWorld(LookupWorld):
    """The same with a secondary index of the rows' values, which is built with the record index."""

    indexed_columns = MappingProxyType({f"{secondary_indexes.PREFIX}of_v": "v"})


class StatisticsWorld(LookupWorld):
    """The same, in which statistics of files and partitions are built."""

    index = file_statistics.COLUMN_STATS

    def __init__(self, time: schedule.Schedule, **options: Any) -> None:  # noqa: ANN401 - as of a world
        super().__init__(time, **options)
        self._read_before = self.config

    @property
    def indexes(self) -> tuple[str, ...]:
        return (self.index, file_statistics.PARTITION_STATS)

    def columns_asked(self, service: Client) -> Sequence[str] | None:
        if not self.changes_columns or not service.author.writer_id.startswith("indexer"):
            return None
        return ("v",) if service.random.uniform() < 0.5 else ("id", "v")

    def _see(self, snapshot: snapshots.Snapshot, storage: protocol.Storage) -> Seen:
        """Return the rows of a snapshot; reads with filters find those that these keep."""
        seen = super()._see(snapshot, storage)
        clock = self.process("judge").clock
        # As a table that was opened at some read before knows it.
        config, self._read_before = self._read_before, table_properties.load(storage, clock)
        values = sorted(value for _, value in seen.rows)
        if values and not self.is_metadata_doubtful:
            for where in (
                predicates.Compare("v", predicates.Comparator.LT, values[len(values) // 2]),
                predicates.Compare("v", predicates.Comparator.GE, values[-1]),
            ):
                self._judge_read(snapshot, storage, config, where, seen)
        return seen

    def _judge_read(
        self,
        snapshot: snapshots.Snapshot,
        storage: protocol.Storage,
        config: table_config.TableConfig,
        where: predicates.Compare,
        seen: Seen,
    ) -> None:
        """I7: what a filter keeps is read, whatever statistics leave out."""
        query = read_tasks.Query(columns=("id", "v"), where=where)

        def planned(with_config: table_config.TableConfig) -> planning.Plan:
            return planning.plan(storage.uri, with_config, SCHEMA, snapshot, query)

        def ready() -> Sequence[str]:
            return table_properties.load(storage, self.process("judge").clock).metadata_partitions

        plan = planning.with_ready_indexes(planned, config, ready)
        slices = reading.SliceReader(storage, config, SCHEMA, snapshot.committed.is_committed)
        found = {
            (str(row["id"]), int(row["v"]))
            for each in plan.slices
            for row in slices.read(each, ["id", "v"], where).to_pylist()
        }
        keeps = _MEANING[where.comparator]
        expected = {each for each in seen.rows if keeps(each[1], where.value)}
        assert found == expected, f"a read of {where} found {found}, expected {expected}"
        by_statistics = (planning.Means.PARTITION_STATISTICS, planning.Means.COLUMN_STATISTICS)
        self.left_out += sum(each.skipped for each in plan.steps if each.means in by_statistics)

    def judge_index(self, config: table_config.TableConfig, snapshot: snapshots.Snapshot) -> None:
        """I7: each file has its statistics, and no partition's exclude what is there."""
        engine, source = self.process("judge").engine, self._source(config, snapshot)
        table = metadata_table.MetadataTable(self.storage, snapshot.timeline)
        names = config.metadata_partitions
        compared = metadata_statistics.Comparison(
            table, names, source, engine, is_shared=config.has_foreign_writers
        )
        partition = table.partition(self.index)
        by_path = initial_statistics.data_files(snapshot)
        for path, data_files in by_path.items():
            wrong = list(compared.compare(path, data_files, snapshot.view.latest_slices(path)))
            assert not [each for each in wrong if each.is_relied_on], wrong
            for each in data_files:
                for stated in statistics_reading.of_file(source, each):
                    key = metadata_avro.statistics_key(stated, path)
                    assert partition.values(key), (
                        f"{each.path} has no statistics of {stated.column}"
                    )
                    self.stated += 1

    def _source(
        self, config: table_config.TableConfig, snapshot: snapshots.Snapshot
    ) -> statistics_reading.Source:
        wanted = index_definitions.wanted_statistics(self.storage, config, SCHEMA.arrow)
        return statistics_reading.Source(
            self.storage, SCHEMA.arrow, wanted, snapshot.committed.is_committed
        )
