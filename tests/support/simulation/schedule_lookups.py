"""A table in a simulated world whose writers look keys up; its data files are real.

Each write puts and deletes a few keys that all share, and puts a row of its own. Where each goes,
and what of other writes it conflicts with, is the library's to decide. Optimistic writes are serial
in the order of their completion, so what a read has to find follows from the writes that it saw.
"""

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
from support.simulation.schedule_world import PARTITION, World

FLAG = "_hoodie_is_deleted"
COLUMNS = pa.schema(
    [("id", pa.string()), ("part", pa.string()), ("v", pa.int64()), (FLAG, pa.bool_())]
)
SCHEMA = schemas.from_arrow(COLUMNS, "t")
KEYS = ("k1", "k2", "k3", "k4")
_HOUR_MS = 3_600_000

Changes = Mapping[str, int | None]
"""The value that a write gives each key; None deletes it."""


def config_of(
    table_type: table_config.TableType, index: table_config.IndexKind
) -> table_config.TableConfig:
    """Return the configuration of a table with such an index."""
    return table_config.TableConfig(
        name="t",
        table_type=table_type,
        record_key_fields=("id",),
        partition_fields=("part",),
        index=index,
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
    """One table without buckets, its lock service, and the processes that use them."""

    schema = SCHEMA

    def __init__(self, time: schedule.Schedule, **options: Any) -> None:  # noqa: ANN401 - as of a world
        self.seen: list[Seen] = []
        self.drawn: dict[instants.InstantTime, Changes] = {}
        # Watches of another run in this process would have looked already.
        heartbeats.watch.cache_clear()
        super().__init__(time, **options)

    def write_files(
        self, writer: Client, opened: OpenAction, groups: Sequence[files.FileGroupId], task: int = 0
    ) -> Sequence[commits.Written]:
        del groups
        source = random.Random(f"{self.time.seed} {writer.author.writer_id} {opened.batch_id}")
        changes = self._changes(writer, opened, source)
        self.drawn[opened.requested_time] = changes
        how = tasks.WriteTask(
            table_uri=writer.storage.uri,
            config=opened.config,
            schema=SCHEMA,
            stored_schema=SCHEMA,
            instant_time=opened.requested_time,
            write_id=opened.write_id,
            operation=commits.Operation.UPSERT,
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
            {"id": key, "part": PARTITION, "v": value or 0, FLAG: value is None}
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
        snapshot = snapshots.take(reader.storage, self.config, has_committed_only=True)
        self._see(snapshot, reader.storage)
        return invariants.Read(
            reader_id=str(reader.author), begun_ms=begun_ms, ended_ms=self.time.now_ms, seen={}
        )

    def check(self) -> active.ActiveTimeline:
        timeline = super().check()
        self._see(snapshots.take(self.storage, self.config, self.timeline), self.storage)
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
        for write in found.writes:
            for key, value in self.drawn[write].items():
                if value is None:
                    expected.pop(key, None)
                else:
                    expected[key] = value
        assert dict(found.rows) == expected, f"expected {expected}: {found}"

    def _see(self, snapshot: snapshots.Snapshot, storage: protocol.Storage) -> None:
        """Take down the rows of a snapshot."""
        slices = reading.SliceReader(storage, self.config, SCHEMA, snapshot.committed.is_committed)
        rows = [
            (str(row["id"]), int(row["v"]))
            for path in snapshot.view.partitions()
            for file_slice in snapshot.view.latest_slices(path)
            for row in slices.read(file_slice, ["id", "v"]).to_pylist()
        ]
        writes = sorted(
            (str(each.completion_time), each.requested_time)
            for each in snapshot.timeline.completed_writes
            if each.requested_time in self.drawn
        )
        self.seen.append(Seen(writes=tuple(time for _, time in writes), rows=tuple(rows)))

    def _changes(self, writer: Client, opened: OpenAction, source: random.Random) -> Changes:
        """Return what a writer's batch does: the same whenever it is tried."""
        number = sum(map(ord, f"{writer.author.writer_id} {opened.batch_id}"))
        changes: dict[str, int | None] = {f"{writer.author.writer_id} {opened.batch_id}": number}
        for key in KEYS:
            match source.choice(("nothing", "put", "put", "delete")):
                case "put":
                    changes[key] = number
                case "delete":
                    changes[key] = None
        return changes
