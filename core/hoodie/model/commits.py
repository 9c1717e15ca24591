"""Commit metadata: what a completed write says it did.

Source: `HoodieCommitMetadata.avsc`, `HoodieWriteStat.avsc` (1.2.0). Their Avro form is in
`hoodie.format.timeline_avro`; here is the part that anything of ours reads or sets.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import pyarrow as pa

from hoodie import deferred
from hoodie.model import files

with deferred.imports():
    from hoodie.model import file_statistics, key_changes

SCHEMA_KEY = "schema"
"""Extra metadata key: Avro JSON of the write schema, without meta columns. Never left out."""

WRITER_ID_KEY = "hoodie.operator.writer.id"
"""Extra metadata key of inflights and commits: who wrote it; unique among a table's writers."""

WRITE_ID_KEY = "hoodie.operator.write.id"
"""Extra metadata key of inflights, plans and commits: fresh for each write."""

BATCH_ID_KEY = "hoodie.operator.batch.id"
"""Extra metadata key of commits: which of the writer's batches it holds (rule WR1)."""

BATCH_FILES_KEY = "hoodie.operator.batch.files"
"""Extra metadata key of commits: JSON list of what the batch's files are remembered by."""

ACTION_ID_KEY = "hoodie.operator.action.id"
"""Extra metadata key of plans and commits: the TableAction that made it."""

BATCH_SETTINGS_KEY = "hoodie.operator.batch.settings.hash"
"""Extra metadata key of commits: the hash of the batch settings under which it was written."""

ATTEMPT_KEY = "hoodie.operator.attempt"
"""Extra metadata key of inflights, plans and commits: the number of the attempt."""


class Operation(enum.Enum):
    """What a write does, by the constant's name that Hudi stores."""

    UPSERT = "UPSERT"
    INSERT = "INSERT"
    BULK_INSERT = "BULK_INSERT"
    DELETE = "DELETE"
    INSERT_OVERWRITE = "INSERT_OVERWRITE"
    INSERT_OVERWRITE_TABLE = "INSERT_OVERWRITE_TABLE"
    DELETE_PARTITION = "DELETE_PARTITION"
    COMPACT = "COMPACT"

    @property
    def replaces(self) -> bool:
        """Whether it retires file groups, and what it writes are new ones."""
        return self in _REPLACING

    @property
    def adds_rows(self) -> bool:
        """Whether its rows are added as they are, and not merged with those of their keys."""
        return self in _ADDING


_REPLACING = frozenset(
    (Operation.INSERT_OVERWRITE, Operation.INSERT_OVERWRITE_TABLE, Operation.DELETE_PARTITION)
)
_ADDING = frozenset(
    (
        Operation.INSERT,
        Operation.BULK_INSERT,
        Operation.INSERT_OVERWRITE,
        Operation.INSERT_OVERWRITE_TABLE,
    )
)


def batch_files(extra: Mapping[str, str]) -> tuple[str, ...]:
    """Return what the files of a commit's batch are remembered by; none where it has none."""
    try:
        data = json.loads(extra.get(BATCH_FILES_KEY, "[]"))
    except ValueError:
        return ()
    return tuple(str(each) for each in data) if isinstance(data, list) else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeDataLog:
    """A log file that says what a write changed.

    Attributes:
        path: Below the table root.
        size_bytes: Its exact length.
    """

    path: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteStat:
    """What one write did to one file group, in one data file.

    Attributes:
        file_id: The file group's id within the partition.
        partition_path: As in `hoodie.model.files`.
        path: Path of the file written, below the table root.
        prev_commit: Base instant the write stood on; the text `null` for a new file group.
        records: Rows in the file, deletes not counted.
        inserts: Rows known to be new.
        updates: Rows known, or taken, to replace another.
        deletes: Keys deleted.
        size_bytes: The file's exact length.
        base_file: Bare name of the slice's base file; None for base-file writes.
        log_files: Bare names of the log files written; empty for base-file writes.
        logs_before: Bare names of log files that were in the slice before, where the table captures
            change data: Apache Hudi computes from them what this one changed.
        log_version: Version in the log file's name; None for base-file writes.
        log_blocks: Blocks written.
        prev_base_file: Bare name of the base file that this one replaces in a copy-on-write table.
        lost: Keys whose rows a base file does not get: its own have greater ordering values. Never
            on the timeline.
        change_data: What the write changed, beside the base file.
        statistics: Of its columns, for the metadata table; never on the timeline.
        keys: Added and removed ones, for a record index; of several files of one file group the
            first has all. None where nobody kept track of them. Never on the timeline.
        pairs: Those of value and key that secondary indexes gain and lose with the file, as they
            are stored, by column; none of columns of which nobody kept track. Never on the
            timeline.
    """

    file_id: str
    partition_path: str
    path: str
    prev_commit: str
    records: int
    inserts: int
    updates: int
    deletes: int
    size_bytes: int
    base_file: str | None = None
    log_files: tuple[str, ...] = ()
    logs_before: tuple[str, ...] = ()
    log_version: int | None = None
    log_blocks: int = 0
    prev_base_file: str | None = None
    lost: int = 0
    change_data: tuple[ChangeDataLog, ...] = ()
    statistics: tuple[file_statistics.ColumnStatistics, ...] = ()
    keys: key_changes.KeyChanges | None = None
    pairs: Mapping[str, key_changes.KeyChanges] = field(default_factory=dict)

    @property
    def written(self) -> int:
        """Rows that the write brought: without those that a base file took over from another."""
        return self.records if self.prev_base_file is None else self.inserts + self.updates


@dataclass(frozen=True, slots=True, kw_only=True)
class Untouched:
    """A file group that a write found nothing to write to: none of its rows change what is there.

    That depends on what is there, so it conflicts with other writes like one that was written to.

    Attributes:
        file_id: The file group's id within the partition.
        partition_path: As in `hoodie.model.files`.
    """

    file_id: str
    partition_path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Absent:
    """Keys that a write looked for in all file groups of a partition, and found in none.

    Or perhaps in none: with a global index those that a log file of their file group may delete.
    What it wrote, or left out, depends on that, so it conflicts with a write that inserts one.

    Attributes:
        partition_path: As in `hoodie.model.files`.
        keys: Texts, each once.
    """

    partition_path: str
    keys: pa.Array


Written: TypeAlias = "WriteStat | Untouched | Absent | key_changes.LookedUp"
"""What a task returns of each file group that its rows are of, and of keys that it looked up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitMetadata:
    """The content of a completed commit of any kind, or of an inflight's workload profile.

    Attributes:
        operation: The operation's stored name; a plain text, since other writers have more of them.
        stats: In any order; every stat's partition and file id are set.
        extra: Never None; holds `SCHEMA_KEY` in every completed commit.
        is_compacted: Whether it is a compaction's result.
        replaced: The file groups that a replace commit retires.
    """

    operation: str | None
    stats: tuple[WriteStat, ...]
    extra: Mapping[str, str] = field(default_factory=dict)
    is_compacted: bool = False
    replaced: frozenset[files.FileGroupId] = frozenset()
