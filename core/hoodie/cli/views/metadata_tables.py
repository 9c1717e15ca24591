"""The metadata table of a table: a row a partition of it, or a line a difference."""

from dataclasses import dataclass

from hoodie.cli import grids, quantities
from hoodie.services import (
    bloom_filter_checks,
    metadata_statistics,
    metadata_tables,
    record_index_checks,
    secondary_index_checks,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusDocument:
    """What is known of a metadata table.

    Attributes:
        table: The table's URI.
        partitions: By name; none where the table has no metadata table.
        last_instant: Requested time of the instant that completed last.
        last_completion_time: When that was.
        commits_since_compaction: Delta commits that were not compacted yet.
        problem: Why readers list the storage instead; null if they use it.
    """

    table: str
    partitions: tuple[metadata_tables.PartitionStatus, ...]
    last_instant: str | None
    last_completion_time: str | None
    commits_since_compaction: int
    problem: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationDocument:
    """How a metadata table differs from what it is about.

    Attributes:
        table: The table's URI.
        differences: A committed file each that is not the same in both.
        statistics: A column each, of a data file or a partition, of which the metadata table
            excludes a value.
        filters: A base file each whose bloom filter is another one in the metadata table.
        keys: A file group each with keys that the record index has not there.
        pairs: A file group each with rows that a secondary index does not have.
        files: So many files were compared.
        files_read: So many were looked into for their statistics.
        filters_compared: So many base files were looked into for their bloom filters.
        groups_compared: So many file groups were looked into for their keys, or for the values of
            secondary indexes.
        indexes_of_groups: Which indexes were asked for these.
    """

    table: str
    differences: tuple[metadata_tables.Difference, ...]
    statistics: tuple[metadata_statistics.WrongStatistics, ...]
    filters: tuple[bloom_filter_checks.WrongFilter, ...]
    keys: tuple[record_index_checks.WrongKeys, ...]
    pairs: tuple[secondary_index_checks.MissingPairs, ...]
    files: int
    files_read: int
    filters_compared: int
    groups_compared: int
    indexes_of_groups: tuple[str, ...]


def status(uri: str, found: metadata_tables.Status) -> StatusDocument:
    """Return the document of a metadata table."""
    return StatusDocument(
        table=uri,
        partitions=found.partitions,
        last_instant=found.last.requested_time if found.last else None,
        last_completion_time=found.last.completion_time if found.last else None,
        commits_since_compaction=found.commits_since_compaction,
        problem=found.problem,
    )


def validation(uri: str, found: metadata_tables.Validation) -> ValidationDocument:
    """Return the document of a validation."""
    return ValidationDocument(
        table=uri,
        differences=found.differences,
        statistics=found.statistics,
        filters=found.filters,
        keys=found.keys,
        pairs=found.pairs,
        files=found.files,
        files_read=found.files_read,
        filters_compared=found.filters_compared,
        groups_compared=found.groups_compared,
        indexes_of_groups=found.indexes_of_groups,
    )


def grid(shown: StatusDocument) -> grids.Grid:
    """Return the partitions as texts."""
    return grids.Grid(
        columns=(
            grids.Column(heading="partition"),
            grids.Column(heading="state", styles={"ready": "green", "being built": "yellow"}),
            grids.Column(heading="file groups", is_number=True, importance=1),
            grids.Column(heading="base", is_number=True, importance=2),
            grids.Column(heading="logs", is_number=True, importance=2),
            grids.Column(heading="log files", is_number=True, importance=0),
        ),
        rows=tuple(
            (
                each.name,
                "ready" if each.is_ready else "being built",
                quantities.count_text(each.file_groups),
                quantities.size_text(each.base_bytes),
                quantities.size_text(each.log_bytes),
                quantities.count_text(each.log_files),
            )
            for each in shown.partitions
        ),
    )


def status_lines(shown: StatusDocument) -> list[str]:
    """Return what is said below the grid."""
    if not shown.partitions:
        return ["the table has no metadata table: readers list its files"]
    lines = []
    if shown.last_instant is not None:
        commits = quantities.counted(shown.commits_since_compaction, "commit")
        lines.append(f"last instant {shown.last_instant}, {commits} not compacted yet")
    if shown.problem is not None:
        lines.append(f"not used, readers list the table's files instead: {shown.problem}")
    return lines


def validation_lines(shown: ValidationDocument) -> list[str]:
    """Return a line for each difference."""
    return [
        *map(_line, shown.differences),
        *map(_statistics_line, shown.statistics),
        *(f"{each.path}: {each.problem}" for each in shown.filters),
        *(f"{each.path}: {each.problem}" for each in shown.keys),
        *(f"{each.path}: {each.problem}" for each in shown.pairs),
    ]


def validation_summary(shown: ValidationDocument) -> str:
    """Return what is said in the end."""
    relied_on = [each for each in shown.statistics if each.is_relied_on]
    count = sum(map(len, (shown.differences, relied_on, shown.filters, shown.keys, shown.pairs)))
    found = quantities.counted(count, "difference") if count else "no differences"
    others = len(shown.statistics) - len(relied_on)
    if others:
        found += f" but {others} in statistics that reads do not rely on"
    parts = [f"{found}, {quantities.counted(shown.files, 'file')} compared"]
    if shown.files_read:
        parts.append(f"the statistics of {quantities.counted(shown.files_read, 'file')}")
    if shown.filters_compared:
        base_files = quantities.counted(shown.filters_compared, "base file")
        parts.append(f"the bloom filters of {base_files}")
    if shown.groups_compared:
        groups = quantities.counted(shown.groups_compared, "file group")
        parts.append(f"the {' and '.join(shown.indexes_of_groups)} of {groups}")
    return ", and ".join(parts)


def _line(each: metadata_tables.Difference) -> str:
    if each.metadata_bytes is None:
        size = quantities.size_text(each.storage_bytes or 0)
        return f"{each.path}: {size} on storage, not in the metadata table"
    if each.storage_bytes is None:
        return f"{each.path}: in the metadata table, not on storage"
    return (
        f"{each.path}: {each.metadata_bytes} bytes in the metadata table, "
        f"{each.storage_bytes} on storage"
    )


def _statistics_line(each: metadata_statistics.WrongStatistics) -> str:
    if not each.column:
        return f"{each.path}: {each.file_range}"
    note = "" if each.is_relied_on else "; reads do not rely on it"
    return (
        f"{each.path}: {each.column} is {each.metadata_range} in the metadata table, "
        f"{each.file_range} in the files{note}"
    )
