"""A table in a simulated world whose data files are real: rows and deletes of a few keys.

Log files, base files, kept deletes and merged rows are the library's own. Each write also adds a
row of its own, by which a read tells which writes it saw; what it has to see of the other keys then
follows from these writes by the model of one key.
"""

import functools
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from hoodie.filegroup import reading, snapshots, writing
from hoodie.format import file_names
from hoodie.maintenance.compaction import planning as compaction_planning
from hoodie.maintenance.compaction import tasks as compaction_tasks
from hoodie.model import (
    commits,
    file_statistics,
    files,
    instants,
    schemas,
    settings,
    table_config,
)
from hoodie.read import tasks
from hoodie.timeline import active
from hoodie.transaction import markers
from hoodie.transaction.client import Client, OpenAction
from support.simulation import faulty_storage, schedule
from support.simulation.schedule_world import PARTITION, World
from support.tables import one_key

FLAG = "_hoodie_is_deleted"
COLUMNS = pa.schema(
    [
        ("id", pa.string()),
        ("part", pa.string()),
        ("at", pa.int64()),
        ("a", pa.int64()),
        ("b", pa.int64()),
        (FLAG, pa.bool_()),
    ]
)
SCHEMA = schemas.from_arrow(COLUMNS, "t")
KEYS = ("k1", "k2", "k3")
TIMES_MAX = 4
"""Of so many events in the table's time each change has one."""

WRITES_MAX = 100
"""More than any run has; changes of one event are told apart by their write, if they have to be."""

Cells = Mapping[str, object]
Rows = Mapping[str, Cells]
"""By record key."""


def config_of(mode: table_config.MergeMode, *, fills_nulls: bool) -> table_config.TableConfig:
    """Return the configuration of a table with a merge mode."""
    by_event_time = mode is table_config.MergeMode.EVENT_TIME
    return table_config.TableConfig(
        name="t",
        record_key_fields=("id",),
        partition_fields=("part",),
        ordering_fields=("at",) if by_event_time else (),
        merge_mode=mode,
        bucket_count=2,
        has_partial_updates=fills_nulls,
    )


@dataclass(frozen=True, kw_only=True)
class Batch:
    """What a write does to a file group.

    Attributes:
        changes: Of each key that it changes.
        rows: What it writes, the write's own row included.
        deleted: Keys that it deletes with no row, with their ordering values.
        orders_deletes: Whether these deletes have their ordering values in the file, too.
    """

    changes: Mapping[str, one_key.Change]
    rows: Sequence[Cells]
    deleted: Mapping[str, int]
    orders_deletes: bool

    @property
    def log_rows(self) -> writing.LogRows:
        """Return it as the library takes it."""
        rows = pa.Table.from_pylist([dict(row) for row in self.rows], COLUMNS)
        times = pa.array(self.deleted.values(), pa.int64())
        return writing.LogRows(
            data=rows.combine_chunks(),
            record_keys=rows.column("id").combine_chunks(),
            deleted_keys=pa.array(self.deleted, pa.string()) if self.deleted else None,
            deleted_ordering=times if self.deleted and self.orders_deletes else None,
        )


@dataclass(frozen=True, kw_only=True)
class Content:
    """What a read found in a file group.

    Attributes:
        group: Which.
        writes: Those that it holds.
        rows: Of the keys that writes share.
    """

    group: files.FileGroupId
    writes: tuple[instants.InstantTime, ...]
    rows: Rows


class RowsWorld(World):
    """One table of rows, its lock service, and the processes that use them."""

    schema = SCHEMA
    has_rows = True
    repeats_keys = True

    def __init__(  # noqa: PLR0913 - what a plan says, by name
        self,
        time: schedule.Schedule,
        *,
        faults: faulty_storage.Faults,
        write_settings: settings.WriteSettings,
        config: table_config.TableConfig,
        is_in_place: bool,
        is_lying: bool = False,
        has_chain: bool = False,
        has_metadata: bool = False,
        has_bloom_filters: bool = False,
        has_record_index: bool = False,
        has_partitioned_record_index: bool = False,
        has_statistics: bool = False,
    ) -> None:
        has_some = has_record_index or has_partitioned_record_index
        assert not has_some, "rows of real files have keys that nobody draws"
        super().__init__(
            time,
            faults=faults,
            write_settings=write_settings,
            config=config,
            is_in_place=is_in_place,
            is_lying=is_lying,
            has_chain=has_chain,
            has_metadata=has_metadata,
            has_bloom_filters=has_bloom_filters,
            has_statistics=has_statistics,
        )
        self.batches: dict[tuple[instants.InstantTime, files.FileGroupId], Batch] = {}
        self.contents: list[Content] = []
        self._numbers: dict[str, int] = {}  # Of what writers write, by what draws it.

    def write_files(
        self, writer: Client, opened: OpenAction, groups: Sequence[files.FileGroupId], task: int = 0
    ) -> list[commits.WriteStat]:
        token = file_names.write_token(task, opened.stage, 0)
        stats: list[commits.WriteStat] = []
        for group in groups:
            batch = self._batch(writer, opened, group)
            self.batches[opened.requested_time, group] = batch
            target = _target(writer, opened, group, token)
            stats += writing.write_log_files(target, [batch.log_rows], SCHEMA, self.settings)
        return stats

    def write_compacted(self, service: Client, opened: OpenAction) -> list[commits.WriteStat]:
        return compacted(service, opened, SCHEMA, self.settings)

    def writes_read(self, reader: Client, task: tasks.ReadTask) -> tuple[instants.InstantTime, ...]:
        committed = snapshots.CommittedFiles(reader.storage, task.committed)
        slices = reading.SliceReader(reader.storage, self.config, SCHEMA, committed.is_committed)
        found = slices.read(task.file_slice, COLUMNS.names).to_pylist()
        writes = sorted(str(row["id"]) for row in found if row["id"] not in KEYS)
        content = Content(
            group=task.file_slice.group,
            writes=tuple(map(instants.InstantTime, writes)),
            rows={str(row["id"]): row for row in found if row["id"] in KEYS},
        )
        assert len(found) == len(writes) + len(content.rows), f"a key is there twice: {found}"
        self.contents.append(content)
        return content.writes

    def check(self) -> active.ActiveTimeline:
        timeline = super().check()
        late = {each.requested_time for each in self.late}
        for content in self.contents:
            # Nothing is promised of the order in which those of one file group are merged.
            if self._is_order_free or late.isdisjoint(content.writes):
                self._check_content(content)
        return timeline

    def _check_content(self, content: Content) -> None:
        """Check that each key is its history, one change after the other, compacted or not."""
        for key in KEYS:
            batches = [self.batches[write, content.group] for write in content.writes]
            history = [each.changes[key] for each in batches if key in each.changes]
            expected = one_key.after_all(history, fills_nulls=self.config.has_partial_updates)
            found = content.rows.get(key)
            assert found == expected.values, (
                f"{content.group} holds {found} for {key}, expected {expected.values}: {history}"
            )

    @property
    def _by_event_time(self) -> bool:
        return self.config.merge_mode is table_config.MergeMode.EVENT_TIME

    @property
    def _is_order_free(self) -> bool:
        """Whether the content may not depend on the order in which writes are merged."""
        return self.settings.concurrency is settings.ConcurrencyMode.NON_BLOCKING

    def _batch(self, writer: Client, opened: OpenAction, group: files.FileGroupId) -> Batch:
        """Return what a writer's batch does to a file group: the same whenever it is tried."""
        name = f"{self.time.seed} {writer.author.writer_id} {opened.batch_id}"
        number = self._numbers.setdefault(name, len(self._numbers))
        source = random.Random(f"{name} {group}")
        orders_deletes = self._by_event_time and (self._is_order_free or source.random() < 0.3)
        changes: dict[str, one_key.Change] = {}
        rows = [_row(opened.requested_time, 1)]
        deleted = {}
        for key in KEYS:
            at = source.randint(1, TIMES_MAX)
            if self._is_order_free:
                at = at * WRITES_MAX + number
            place = at if self._by_event_time else None
            match source.choice(("nothing", "put", "put", "delete", "flag")):
                case "put":
                    values = [source.choice((None, number)) for _ in "ab"]
                    rows.append(_row(key, at, *values))
                    changes[key] = one_key.Put(values=rows[-1], ordering=place)
                case "flag":
                    rows.append({**_row(key, at), FLAG: True})
                    changes[key] = one_key.Remove(ordering=place, is_row=True)
                case "delete":
                    deleted[key] = at
                    changes[key] = one_key.Remove(ordering=place if orders_deletes else None)
        return Batch(
            changes=changes, rows=tuple(rows), deleted=deleted, orders_deletes=orders_deletes
        )


def compacted(
    service: Client,
    opened: OpenAction,
    schema: schemas.TableSchema,
    write_settings: settings.WriteSettings,
) -> list[commits.WriteStat]:
    """Write the data files of a compaction, as the library does."""
    stats: list[commits.WriteStat] = []
    snapshot = snapshots.take(service.storage, opened.config, opened.timeline)
    for operation in compaction_planning.plan_to_execute(
        snapshot, opened.requested_time
    ).operations:
        task = compaction_tasks.CompactionTask(
            table_uri=service.storage.uri,
            config=opened.config,
            schema=schema,
            instant_time=opened.requested_time,
            write_id=opened.write_id,
            settings=write_settings,
            committed=snapshots.committed_instants(opened.timeline),
            operation=operation,
            write_token=file_names.write_token(0, opened.stage, 0),
            statistics=file_statistics.wanted(opened.config, schema.arrow, None),
        )
        mark = functools.partial(markers.mark, service.storage, opened.requested_time)
        stats += compaction_tasks.compact_slice(task, service.storage, mark)
    return stats


def _target(
    writer: Client, opened: OpenAction, group: files.FileGroupId, token: str
) -> writing.FileTarget:
    return writing.FileTarget(
        storage=writer.storage,
        group=group,
        instant_time=opened.requested_time,
        write_token=token,
        before_file=functools.partial(markers.mark, writer.storage, opened.requested_time),
        base_instant_time=opened.requested_time,
        statistics=file_statistics.wanted(opened.config, COLUMNS, None),
    )


def _row(key: str, at: int, a: int | None = None, b: int | None = None) -> Cells:
    return {"id": key, "part": PARTITION, "at": at, "a": a, "b": b, FLAG: None}
