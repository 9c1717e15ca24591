"""What a process needs to know to write data files of a write; values that pickle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hoodie import deferred
from hoodie.filegroup import snapshots
from hoodie.model import (
    commits,
    file_statistics,
    files,
    instants,
    partition_columns,
    schemas,
    settings,
    table_config,
)

with deferred.imports():
    from hoodie.timeline import partition_buckets
    from hoodie.write import early_conflicts


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTask:
    """A write that has begun.

    Attributes:
        table_uri: The table's root.
        config: The table's configuration.
        schema: The columns that batches are prepared in: the table's when it was opened, and those
            that the write adds.
        stored_schema: The columns of its data files: the table's when the write began, and those
            that it adds. What a base file holds is rewritten whole, whichever writer it is of.
        instant_time: The write's requested time.
        write_id: Of the write: whose heartbeat must be there for as long as files are written.
        operation: What it does; anything but a delete of partitions, which has no rows.
        settings: The writer's settings.
        committed: As the write began; tells committed file groups from leftovers.
        replaced: When each file group that a replace commit retired was retired.
        known: Slices whose keys an insert leaves out; none unless it drops duplicates.
        hashing_config: Bucket counts by partition, as the write began; None for one of all.
        detection: How to find conflicts before writing; None for not.
        statistics: Which ones are gathered of the data files.
        tracks_keys: Whether stats have the keys that the write adds and removes.
        indexed_columns: Those of secondary indexes, whose pairs stats of base files have.
        sort_by: Columns by which a bulk insert sorts the rows of base files; none for no order.
    """

    table_uri: str
    config: table_config.TableConfig
    schema: schemas.TableSchema
    stored_schema: schemas.TableSchema
    instant_time: instants.InstantTime
    write_id: str
    operation: commits.Operation
    settings: settings.WriteSettings
    committed: snapshots.CommittedInstants
    replaced: Mapping[files.FileGroupId, instants.InstantTime]
    known: Mapping[files.FileGroupId, files.FileSlice] = field(default_factory=dict)
    hashing_config: partition_buckets.HashingConfig | None = None
    detection: early_conflicts.Detection | None = None
    statistics: file_statistics.Wanted = file_statistics.NOTHING
    tracks_keys: bool = False
    indexed_columns: tuple[str, ...] = ()
    sort_by: tuple[str, ...] = ()

    @property
    def file_schema(self) -> schemas.TableSchema:
        """The columns that data files get."""
        return partition_columns.stored(self.schema, self.config)

    @property
    def file_order(self) -> tuple[str, ...]:
        """Those of the columns that sort the rows of a file; others have one value in each."""
        left_out = partition_columns.left_out(self.config)
        return tuple(each for each in self.sort_by if each not in left_out)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteToken:
    """Which attempt of which task writes; unique within an instant.

    Attributes:
        task: The task's number.
        stage: The number of its stage; files of further partitions have those that follow.
        attempt: The attempt's number.
        is_alone: Whether no other task has rows of the write.
    """

    task: int = 0
    stage: int = 0
    attempt: int = 0
    is_alone: bool = True
