"""Data files: base files, log files, and how they form file slices and file groups.

    file group   (partition path, file id): all versions of one set of records
    file slice   a base file, or none, and the log files to merge on top of it
    log order    requested time, log version, write token: the order of merging within a slice;
                 before all others come the deletes that the base file's compaction kept

Partition paths are relative, `/`-separated, without leading or trailing slash; `""` is the table
root of a non-partitioned table. Names are parsed and formed in `hoodie.format.file_names`.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from hoodie.model import instants

LOG_VERSION_FIRST = 1

METADATA_BOOTSTRAP_TIME = instants.checked_time("00000000000001")
"""The requested time of every bootstrap that leaves the rows where they are (METADATA_ONLY)."""


@dataclass(frozen=True, slots=True, order=True)
class FileGroupId:
    """The identity of a file group."""

    partition_path: str
    file_id: str

    def __str__(self) -> str:
        return f"{self.partition_path or '.'}/{self.file_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseFile:
    """A parquet file with one version of all records of its file group.

    Attributes:
        group: Its file group.
        name: The bare file name.
        instant_time: Requested time of the commit or compaction that wrote it.
        write_token: `{task}-{stage}-{attempt}`.
        size_bytes: Its length on storage.
    """

    group: FileGroupId
    name: str
    instant_time: instants.InstantTime
    write_token: str
    size_bytes: int

    @property
    def path(self) -> str:
        """The path below the table root."""
        return join(self.group.partition_path, self.name)

    @property
    def is_skeleton(self) -> bool:
        """Whether it holds meta columns alone: the rows are in a file outside the table."""
        return self.instant_time == METADATA_BOOTSTRAP_TIME


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFile:
    """A file of log blocks that one delta commit wrote for one file group.

    Attributes:
        group: Its file group.
        name: The bare file name, beginning with a dot.
        instant_time: Requested time of the delta commit that wrote it.
        version: 1 and up, in the writer's own order.
        write_token: `{task}-{stage}-{attempt}`.
        size_bytes: Its length on storage.
    """

    group: FileGroupId
    name: str
    instant_time: instants.InstantTime
    version: int
    write_token: str
    size_bytes: int

    @property
    def path(self) -> str:
        """The path below the table root."""
        return join(self.group.partition_path, self.name)

    @property
    def merge_order(self) -> tuple[str, int, str]:
        """The sort key of log files within a slice (`HoodieLogFile.LogFileComparator`)."""
        return (self.instant_time, self.version, self.write_token)


def in_merge_order(
    log_files: Iterable[LogFile], base_instant_time: instants.InstantTime
) -> tuple[LogFile, ...]:
    """Return log files of a slice as they are merged.

    What a compaction has merged counts as earlier than every log file on top of it, whoever was
    requested first; so do the deletes that it kept, which have its own instant.
    """
    return tuple(
        sorted(log_files, key=lambda log: (log.instant_time != base_instant_time, log.merge_order))
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSlice:
    """What has to be merged to know a file group as of some time.

    Attributes:
        group: The file group.
        base_instant_time: The barrier the slice starts at: requested time of its base file or
            pending compaction, or of its first log file when there is neither.
        base_file: None for a slice of log files alone.
        log_files: In merge order.
        may_keep_deletes: Whether log files of the base file's instant are deletes that outlived it.
            Those of a table that was upgraded from version 6 may have any rows.
    """

    group: FileGroupId
    base_instant_time: instants.InstantTime
    base_file: BaseFile | None
    log_files: tuple[LogFile, ...]
    may_keep_deletes: bool = True

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to read."""
        return self.base_file is None and not self.log_files

    @property
    def has_base(self) -> bool:
        """Whether it has a base file."""
        return self.base_file is not None

    @property
    def data_files(self) -> "tuple[BaseFile | LogFile, ...]":
        """The base file, if there is one, and the log files."""
        return self.log_files if self.base_file is None else (self.base_file, *self.log_files)

    @property
    def kept_deletes(self) -> tuple[LogFile, ...]:
        """The log files of the compaction that made the base file: deletes that outlived it."""
        if self.base_file is None or not self.may_keep_deletes:
            return ()
        own = self.base_instant_time
        return tuple(log for log in self.log_files if log.instant_time == own)

    @property
    def is_changed(self) -> bool:
        """Whether there is more to read than the base file: kept deletes are of keys it has not."""
        return bool(self.log_files) and len(self.log_files) > len(self.kept_deletes)

    @property
    def log_bytes(self) -> int:
        """The summed size of the log files."""
        return sum(log.size_bytes for log in self.log_files)

    @property
    def total_bytes(self) -> int:
        """The summed size of all files."""
        return self.log_bytes + (self.base_file.size_bytes if self.base_file else 0)


def join(partition_path: str, name: str) -> str:
    """Return the path below the table root of a name in a partition."""
    return f"{partition_path}/{name}" if partition_path else name
