"""A task of a compaction: one file slice is merged into a base file, by any process.

Running it again gives the same records: a plan never changes. Source: `HoodieCompactor.java`
(1.2.0); protocol.md: Compaction.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar

from hoodie import errors
from hoodie.filegroup import (
    bounded_merging,
    kept_deletes,
    merging,
    placing,
    reading,
    snapshots,
    writing,
)
from hoodie.format import file_names
from hoodie.maintenance.compaction import memory
from hoodie.model import (
    commits,
    file_statistics,
    files,
    instants,
    key_changes,
    partition_columns,
    plans,
    schemas,
    settings,
    table_config,
)
from hoodie.storage import locations, protocol
from hoodie.transaction import heartbeats, markers

DataFile = TypeVar("DataFile", files.BaseFile, files.LogFile)
MergedRows: TypeAlias = reading.SliceRows | bounded_merging.BoundedRows


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionTask:
    """What a process needs to know to compact one file slice; it pickles.

    Attributes:
        table_uri: The table's root.
        config: The table's configuration.
        schema: The table's columns.
        instant_time: The compaction's requested time.
        write_id: Of this execution: whose heartbeat must be there until all files are written.
        settings: The codec.
        committed: Which log blocks count.
        operation: The slice.
        write_token: Of the files; no other execution of the plan has the same.
        statistics: Which ones are gathered of the files.
    """

    table_uri: str
    config: table_config.TableConfig
    schema: schemas.TableSchema
    instant_time: instants.InstantTime
    write_id: str
    settings: settings.WriteSettings
    committed: snapshots.CommittedInstants
    operation: plans.CompactionOperation
    write_token: str
    statistics: file_statistics.Wanted = file_statistics.NOTHING

    @property
    def file_schema(self) -> schemas.TableSchema:
        """The columns that the base file gets."""
        return partition_columns.stored(self.schema, self.config)


def run(task: CompactionTask) -> tuple[commits.WriteStat, ...]:
    """Compact one file slice in whatever process the task was taken to."""
    storage = locations.open_storage(task.table_uri)
    watch = heartbeats.watch(task.instant_time, task.write_id, task.settings.heartbeat_interval_ms)

    def announce(path: str) -> None:
        markers.mark(storage, task.instant_time, path)
        # Afterwards: what is written in spite of it can be found.
        watch.check(storage)

    return compact_slice(task, storage, announce)


def compact_slice(
    task: CompactionTask, storage: protocol.Storage, before_file: Callable[[str], None]
) -> tuple[commits.WriteStat, ...]:
    """Merge a slice into a base file, and a log file of the deletes that outlive it.

    Of a table that captures change data, also a log of what the log files change in the base file.

    Memory: the changes in the slice's logs, and some row groups of its base file; of a slice that
    needs more than the settings allow, what they allow, and scratch space for the changes.

    Args:
        task: What to merge.
        storage: The table's.
        before_file: Called with the path of each file before it is opened.

    Raises:
        NotFoundError: A file of the plan is gone.
        FormatError: A file is broken, or the plan names one that is none.
    """
    file_slice = _slice(task.operation)
    committed = snapshots.CommittedFiles(storage, task.committed)
    reader = reading.SliceReader(storage, task.config, task.schema, committed.is_committed)
    target = _target(task, storage, file_slice, before_file)
    with contextlib.ExitStack() as stack:
        log = None
        if task.config.change_data is not None and file_slice.base_file is not None:
            log = writing.change_log(
                target, task.config.change_data, task.file_schema, task.settings
            )
            stack.enter_context(log)
        with _merged(task, reader, file_slice, log) as rows:
            stat, *on_top = _write(task, target, file_slice, rows)
    if log is not None:
        stat = replace(stat, change_data=log.written)
    return (stat, *on_top)


@contextlib.contextmanager
def _merged(
    task: CompactionTask,
    reader: reading.SliceReader,
    file_slice: files.FileSlice,
    watch: merging.Watch | None,
) -> Iterator[MergedRows]:
    """Return the rows of a slice, merged in the memory that there is."""
    columns = [*writing.BASE_FILE_META_COLUMNS, *task.file_schema.arrow.names]
    if memory.fits(task.operation, task.settings.compaction_memory_bytes):
        yield reader.stream(file_slice, columns, watch=watch)
        return
    allowed = placing.Memory(
        bytes_max=task.settings.compaction_memory_bytes,
        scratch_folder=task.settings.scratch_folder,
    )
    with reader.stream_bounded(file_slice, columns, allowed, watch) as rows:
        yield rows


def _target(
    task: CompactionTask,
    storage: protocol.Storage,
    file_slice: files.FileSlice,
    before_file: Callable[[str], None],
) -> writing.FileTarget:
    return writing.FileTarget(
        storage=storage,
        group=file_slice.group,
        instant_time=task.instant_time,
        write_token=task.write_token,
        before_file=before_file,
        base_instant_time=file_slice.base_instant_time,
        base_file=task.operation.base_file_name,
        statistics=task.statistics,
    )


def _write(
    task: CompactionTask,
    target: writing.FileTarget,
    file_slice: files.FileSlice,
    rows: MergedRows,
) -> tuple[commits.WriteStat, ...]:
    stat = writing.write_base_file(target, rows, task.file_schema, task.settings)
    counts = rows.counts
    stat = replace(stat, inserts=counts.inserted, updates=counts.updated, deletes=counts.deleted)
    keeping = kept_deletes.Keeping(
        instant_time=task.instant_time,
        file_slice=file_slice,
        hours=task.settings.deletes_kept_hours,
    )
    kept = rows.kept_deletes(keeping)
    name = file_names.base_file_name(file_slice.group.file_id, task.write_token, task.instant_time)
    on_top = replace(target, base_instant_time=task.instant_time, base_file=name)
    on_top_stats = writing.write_kept_deletes(on_top, kept, task.file_schema, task.settings)
    # They were counted with the base file already. A key stays where it is, if it stays.
    on_top_stats = tuple(replace(each, deletes=0) for each in on_top_stats)
    return tuple(replace(each, keys=key_changes.NONE) for each in (stat, *on_top_stats))


def _slice(operation: plans.CompactionOperation) -> files.FileSlice:
    base_file = None
    if operation.base_file_name is not None:
        base_file = _parsed(operation, operation.base_file_name, files.BaseFile)
    return files.FileSlice(
        group=operation.group,
        base_instant_time=instants.checked_time(operation.base_instant_time),
        base_file=base_file,
        log_files=tuple(
            _parsed(operation, name, files.LogFile) for name in operation.log_file_names
        ),
    )


def _parsed(operation: plans.CompactionOperation, name: str, kind: type[DataFile]) -> DataFile:
    parsed = file_names.parse(files.join(operation.group.partition_path, name), 0)
    if not isinstance(parsed, kind) or parsed.group != operation.group:
        raise errors.FormatError(
            f"the plan names {name!r} for file group {operation.group}, expected one of its files"
        )
    return parsed
