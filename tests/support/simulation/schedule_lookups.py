"""A table in a simulated world whose data files are real, and whose writers see the keys in them.

Each write puts and deletes a few keys that all share, and puts a row of its own; or it replaces all
rows by those that it puts. With a global index each row is of one of two partitions. Where each
goes, and what of other writes it conflicts with, is the library's to decide. Optimistic writes are
serial in the order of their completion, so what a read has to find follows from the writes that it
saw; but rows that another has added in new file groups since a replacement began outlive it.
"""

import functools
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from hoodie.filegroup import reading, snapshots
from hoodie.model import commits, file_statistics, files, instants, schemas, table_config
from hoodie.storage import protocol
from hoodie.timeline import active
from hoodie.transaction import heartbeats, lifecycle
from hoodie.transaction.client import Client, OpenAction
from hoodie.write import batches, inserted_keys, tasks
from support.simulation import invariants, schedule, schedule_rows
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


class LookupWorld(World):
    """One table, its lock service, and the processes that use them."""

    schema = SCHEMA

    def __init__(self, time: schedule.Schedule, **options: Any) -> None:  # noqa: ANN401 - as of a world
        self.seen: list[Seen] = []
        self.drawn: dict[instants.InstantTime, Changes] = {}
        self.known: dict[instants.InstantTime, frozenset[instants.InstantTime]] = {}
        # Watches of another run in this process would have looked already.
        heartbeats.watch.cache_clear()
        super().__init__(time, **options)

    def write_files(
        self, writer: Client, opened: OpenAction, groups: Sequence[files.FileGroupId], task: int = 0
    ) -> Sequence[commits.Written]:
        del groups
        source = random.Random(f"{self.time.seed} {writer.author.writer_id} {opened.batch_id}")
        changes = self._changes(writer, opened, source)
        operation = self.operation_of(writer, opened.batch_id)
        if operation.replaces:
            self.known[opened.requested_time] = self._known_to(opened)
            changes = {key: value for key, value in changes.items() if value is not None}
        self.drawn[opened.requested_time] = changes
        how = tasks.WriteTask(
            table_uri=writer.storage.uri,
            config=opened.config,
            schema=SCHEMA,
            stored_schema=SCHEMA,
            instant_time=opened.requested_time,
            write_id=opened.write_id,
            operation=operation,
            # Without small files writers share no file group of new keys.
            settings=replace(
                self.settings,
                small_file_bytes=source.choice((0, 1 << 20)),
                # By the machine's clock, which no run may depend on: each write looks once.
                heartbeat_interval_ms=_HOUR_MS,
            ),
            committed=snapshots.committed_instants(opened.timeline),
            replaced=snapshots.replaced_groups(writer.storage, opened.timeline),
            statistics=file_statistics.wanted(opened.config, SCHEMA.arrow, None),
            tracks_keys=self.has_record_index,
        )
        rows = [
            {"id": key, "part": self._part_of(key, source), "v": value or 0, FLAG: value is None}
            for key, value in changes.items()
        ]
        data = pa.Table.from_pylist(rows, COLUMNS)
        batch = batches.prepare(data, how.config, SCHEMA, how.operation)
        token = tasks.WriteToken(task=task, stage=opened.stage)
        return tasks.run(how, batch, token, writer.storage, self.process_of(writer).engine)

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
            for key, value in self.drawn[write].items():
                last[key] = write
                if value is None:
                    expected.pop(key, None)
                else:
                    expected[key] = value
        assert dict(found.rows) == expected, f"expected {expected}: {found}"

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
        completed = {time: snapshot.timeline.completion_time(time) for time in list(self.drawn)}
        writes = sorted((str(at), time) for time, at in completed.items() if at is not None)
        return Seen(writes=tuple(time for _, time in writes), rows=tuple(rows))

    def operation_of(self, writer: Client, batch_id: str | None) -> commits.Operation:
        name = f"operation {self.time.seed} {writer.author.writer_id} {batch_id}"
        source = random.Random(name)
        if source.random() >= self.replacement_rate:
            return commits.Operation.UPSERT
        return source.choice(
            (commits.Operation.INSERT_OVERWRITE, commits.Operation.INSERT_OVERWRITE_TABLE)
        )

    def _part_of(self, key: str, source: random.Random) -> str:
        """Return the partition of a row, which is another one for each write of the key."""
        if not self.config.has_global_index:
            return PARTITION
        return source.choice((PARTITION, ANOTHER_PARTITION)) if key in KEYS else PARTITION

    def _changes(self, writer: Client, opened: OpenAction, source: random.Random) -> Changes:
        """Return what a writer's batch does: the same whenever it is tried."""
        number = sum(map(ord, f"{writer.author.writer_id} {opened.batch_id}"))
        changes: dict[str, int | None] = {f"{writer.author.writer_id} {opened.batch_id}": number}
        # Writes beside a replacement conflict with it, but for those of other keys.
        choices = _FEW if self.replacement_rate else _MANY
        for key in KEYS:
            match source.choice(choices):
                case "put":
                    changes[key] = number
                case "delete":
                    changes[key] = None
        return changes
