"""The part of a write that scales: rows into data files, file group by file group.

A `WriteTask` is a value made once a write has begun; any number of processes may run it over parts
of the input. What they wrote counts once the driver completes the instant with their stats; files
of attempts that died are known by their markers.
"""

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from hoodie.engine import protocol as engine_protocol
from hoodie.filegroup import snapshots, writing
from hoodie.format import file_names
from hoodie.model import commits, files, instants, schemas, settings, table_config
from hoodie.storage import protocol
from hoodie.transaction import markers
from hoodie.write import batches, early_conflicts, placement


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTask:
    """What a process needs to know to write data files of a write; it pickles.

    Attributes:
        table_uri: The table's root.
        config: The table's configuration.
        schema: The table's columns.
        instant_time: The write's requested time.
        operation: Upsert, insert or delete.
        settings: The writer's settings.
        committed: As the write began; tells committed file groups from leftovers.
        replaced: File groups that replace commits retired.
        detection: How to find conflicts before writing; None for not.
    """

    table_uri: str
    config: table_config.TableConfig
    schema: schemas.TableSchema
    instant_time: instants.InstantTime
    operation: commits.Operation
    settings: settings.WriteSettings
    committed: snapshots.CommittedInstants
    replaced: frozenset[files.FileGroupId]
    detection: early_conflicts.Detection | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteToken:
    """Which attempt of which task writes; unique within an instant.

    Attributes:
        task: The task's number.
        stage: The number of its stage.
        attempt: The attempt's number.
    """

    task: int = 0
    stage: int = 0
    attempt: int = 0


def run(
    task: WriteTask,
    batch: batches.Batch,
    token: WriteToken,
    storage: protocol.Storage,
    engine: engine_protocol.Engine,
    mark: early_conflicts.Mark | None = None,
) -> list[commits.WriteStat]:
    """Write a batch's data files and return what was written to each file group.

    Args:
        task: The write.
        batch: Made by `batches.prepare` with the task's configuration, schema and operation.
        token: No other call for this instant may have the same.
        storage: The table's.
        engine: Runs the file groups; threads of this process.
        mark: Made by `early_conflicts.marking` of the task's detection.

    Raises:
        WriteConflictError: A conflict was found early.
    """
    assert (mark is None) == (task.detection is None), "conflicts are to be detected"
    groups = placement.Placement(storage, task.committed, task.replaced, task.instant_time)
    for partition_path in dict.fromkeys(group.partition_path for group in batch.groups):
        groups.prepare(partition_path)
    # Rows are numbered within the task, over all of its file groups.
    first_rows = [0]
    for group in batch.groups:
        first_rows.append(first_rows[-1] + len(group.rows))

    def write_group(place: int) -> tuple[commits.WriteStat, ...]:
        group = batch.groups[place]
        group_id = groups.group_of(group.partition_path, group.bucket)
        is_new = groups.is_new(group.partition_path, group.bucket)
        target = writing.FileTarget(
            storage=storage,
            group=group_id,
            instant_time=task.instant_time,
            write_token=file_names.write_token(token.task, token.stage, token.attempt),
            before_file=lambda path: (
                mark(group_id, path) if mark else markers.mark(storage, task.instant_time, path)
            ),
            first_row=first_rows[place],
            base_instant_time=None if is_new else task.instant_time,
        )
        return _write_group(task, batch, group, target, may_have_base_file=is_new)

    found = engine.map(write_group, range(len(batch.groups)))
    return [stat for stats in found for stat in stats]


def _write_group(
    task: WriteTask,
    batch: batches.Batch,
    group: batches.GroupRows,
    target: writing.FileTarget,
    *,
    may_have_base_file: bool,
) -> tuple[commits.WriteStat, ...]:
    """Write the rows of one file group: to its log, or a base file if it is new and we are alone.

    Non-blocking writers only ever log: another one may be first in the same bucket.
    """
    rows = pa.array(group.rows)
    record_keys = batch.record_keys.take(rows)
    if task.operation is commits.Operation.DELETE:
        deletes = writing.LogRows(
            data=task.schema.arrow.empty_table(),
            record_keys=record_keys.slice(0, 0),
            deleted_keys=record_keys,
            deleted_ordering=_deleted_ordering(task, batch, rows),
        )
        return writing.write_log_files(target, deletes, task.schema, task.settings)
    data = batch.data.take(rows)
    is_alone = task.settings.concurrency is settings.ConcurrencyMode.SINGLE_WRITER
    if may_have_base_file and is_alone and _makes_base_rows(task, record_keys):
        file_name = target.group.file_id  # Replaced by the writer, which knows the name.
        whole = writing.with_meta_columns(data, record_keys, target, target.first_row, file_name)
        return (writing.write_base_file(target, [whole], task.schema, task.settings),)
    changes = writing.LogRows(
        data=data,
        record_keys=record_keys,
        is_insert=task.operation is commits.Operation.INSERT,
    )
    return writing.write_log_files(target, changes, task.schema, task.settings)


def _makes_base_rows(task: WriteTask, record_keys: pa.Array) -> bool:
    """Return whether rows can stand in a base file: no key twice, and none that says it is gone."""
    tells_of_deletes = (
        task.config.delete_marker is not None or batches.DELETED_COLUMN in task.schema.arrow.names
    )
    return not tells_of_deletes and len(pc.unique(record_keys)) == len(record_keys)


def _deleted_ordering(
    task: WriteTask, batch: batches.Batch, rows: pa.Array
) -> pa.Array | tuple[pa.Array, ...] | None:
    """Return the ordering values of deletes; None for deletes that take place in commit order."""
    names = task.config.ordering_fields
    if not names or not set(names) <= batch.carried:
        return None
    values = tuple(batch.data.column(name).take(rows).combine_chunks() for name in names)
    return values[0] if len(values) == 1 else values
