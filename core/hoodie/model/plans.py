"""Plans of table services: what an instant will do, written before it does it, then immutable.

Source: `HoodieCompactionPlan.avsc`, `HoodieCompactionOperation.avsc` (1.2.0), plan version 2, whose
paths are bare file names; `HoodieRollbackPlan.avsc`, `HoodieRollbackRequest.avsc`;
`HoodieCleanerPlan.avsc`, version 2; `HoodieSavepointMetadata.avsc`; `HoodieIndexPlan.avsc`,
`HoodieIndexCommitMetadata.avsc`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from hoodie.model import files, instants

SAVEPOINTS_KEY = "savepointed_timestamps"
"""Under which a clean names the savepoints that it has seen, as Apache Hudi's cleans do."""

LOG_BYTES = "TOTAL_LOG_FILES_SIZE"
"""Metric of a compaction's operation: the summed size of its log files."""

IS_PARTITIONED = "isPartitioned"
"""Under which a plan says "true" of a record index of each partition, as definitions do."""

BOUND_KEY = "hoodie.operator.clean.bound"
"""Under which a clean of ours records its bound, a completion time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionOperation:
    """One file slice to merge into a base file.

    Attributes:
        group: The file group.
        base_instant_time: The slice's barrier, as in `files.FileSlice`.
        base_file_name: Bare name; None for a slice of log files alone.
        log_file_names: Bare names in merge order, without those of change data: empty only where
            Apache Hudi planned a slice for these alone.
        metrics: Sizes and counts for whoever orders or bounds the work, as Hudi stores them.
    """

    group: files.FileGroupId
    base_instant_time: str
    base_file_name: str | None
    log_file_names: tuple[str, ...]
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPlan:
    """The content of a requested compaction.

    Attributes:
        operations: In the order of the strategy.
        extra: Extra metadata.
        missed_partitions: Partitions with log files that the plan leaves in place: Apache Hudi's
            `missingSchedulePartitions`. Empty where the plan does not say.
    """

    operations: tuple[CompactionOperation, ...]
    extra: Mapping[str, str] = field(default_factory=dict)
    missed_partitions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackRequest:
    """Files of one partition that a rollback deletes.

    Attributes:
        partition_path: As in `hoodie.model.files`.
        file_names: Bare names.
        file_id: Of the file group; None where Hudi does not say.
        base_instant_time: What the files were written for; None where Hudi does not say.
    """

    partition_path: str
    file_names: tuple[str, ...]
    file_id: str | None = None
    base_instant_time: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackPlan:
    """The content of a requested rollback.

    Attributes:
        target: The instant to take back.
        action: What the target does.
        requests: The files that it left, as far as they were known when the plan was made.
    """

    target: instants.InstantTime
    action: instants.Action
    requests: tuple[RollbackRequest, ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of all files to delete, below the table's root."""
        return tuple(
            files.join(request.partition_path, name)
            for request in self.requests
            for name in request.file_names
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenBack:
    """What a rollback says of the instant that it takes back.

    Attributes:
        target: The instant.
        may_have_completed: Whether the instant may have been part of the table before.
    """

    target: instants.InstantTime
    may_have_completed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackDone:
    """The content of a completed rollback.

    Attributes:
        requested_time: Of the rollback.
        duration_ms: Of the execution that completed it.
        plan: What was asked for.
        deleted: Paths of all files that are gone, those that were not there any more included.
    """

    requested_time: instants.InstantTime
    duration_ms: int
    plan: RollbackPlan
    deleted: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanPlan:
    """The content of a requested clean.

    Attributes:
        policy: By which it was made, as Hudi names it.
        earliest_retained: The completed write with the smallest requested time whose version of the
            table stays readable, and with it all that completed later; None where the policy counts
            file versions.
        last_completed: Requested time of the write that had completed last; None for an empty
            table.
        file_names: Bare names of the files to delete, by partition.
        extra: Ids, and what the next clean has to know.
    """

    policy: str
    earliest_retained: instants.Instant | None
    last_completed: instants.InstantTime | None
    file_names: Mapping[str, tuple[str, ...]]
    extra: Mapping[str, str] = field(default_factory=dict)

    @property
    def paths(self) -> frozenset[str]:
        """The paths of all files to delete, below the table's root."""
        return _paths(self.file_names)


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanDone:
    """The content of a completed clean, as far as anybody needs it later.

    Attributes:
        earliest_retained: Requested time, as in the plan.
        last_completed: As in the plan.
        file_names: Bare names of the files that are gone, by partition.
        extra: As in the plan.
    """

    earliest_retained: instants.InstantTime | None
    last_completed: instants.InstantTime | None
    file_names: Mapping[str, tuple[str, ...]]
    extra: Mapping[str, str] = field(default_factory=dict)

    @property
    def paths(self) -> frozenset[str]:
        """The paths of all files that are gone, below the table's root."""
        return _paths(self.file_names)

    @property
    def savepoints(self) -> tuple[str, ...]:
        """Requested times of the savepoints that it kept files for, as they are recorded."""
        texts = map(str.strip, self.extra.get(SAVEPOINTS_KEY, "").split(","))
        return tuple(filter(None, texts))

    @property
    def bound(self) -> instants.InstantTime | None:
        """Completion time: what was replaced earlier is gone, except for what savepoints keep.

        Empty if it deletes nothing; None for a clean of another engine, which does not record it.
        """
        text = self.extra.get(BOUND_KEY)
        return None if text is None else instants.InstantTime(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Savepoint:
    """The content of a completed savepoint: the files of a commit that nothing may delete.

    Attributes:
        by: Who created it; may be empty.
        comment: Any text; may be empty.
        saved_at_ms: When, in milliseconds since the epoch, by the clock of who created it.
        file_names: Bare names of the base files and log files, by partition path.
    """

    by: str
    comment: str
    saved_at_ms: int
    file_names: Mapping[str, tuple[str, ...]]

    @property
    def paths(self) -> frozenset[str]:
        """The paths of all its files, below the table's root."""
        return _paths(self.file_names)


def _paths(file_names: Mapping[str, tuple[str, ...]]) -> frozenset[str]:
    return frozenset(
        files.join(partition_path, name)
        for partition_path, names in file_names.items()
        for name in names
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedPartition:
    """A partition of the metadata table that is built beside writers, or was.

    Attributes:
        name: Its name.
        through: Requested time of a write: those up to it are certain to be in the index; empty in
            a table without writes.
        extra: Extra metadata.
    """

    name: str
    through: str
    extra: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_partitioned(self) -> bool:
        """Whether it is a record index of each partition."""
        return self.extra.get(IS_PARTITIONED) == "true"


@dataclass(frozen=True, slots=True, kw_only=True)
class Indexing:
    """The content of a requested indexing action, which is its plan, and of a completed one.

    Attributes:
        partitions: In the order of building.
    """

    partitions: tuple[IndexedPartition, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the partitions."""
        return tuple(each.name for each in self.partitions)

    @property
    def is_partitioned(self) -> bool:
        """Whether it builds a record index of each partition."""
        return any(each.is_partitioned for each in self.partitions)

    @property
    def extra(self) -> Mapping[str, str]:
        """The extra metadata of the first partition, which that of the others repeats."""
        return self.partitions[0].extra if self.partitions else {}
