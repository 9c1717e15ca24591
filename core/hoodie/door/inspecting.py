"""What is in a table besides rows, as tables of Arrow: `Table.inspect`."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import pyarrow as pa

from hoodie import errors, guesses
from hoodie.door import writing
from hoodie.filegroup import data_skipping, snapshots
from hoodie.filegroup.column_statistics import understood_columns
from hoodie.model import (
    column_names,
    commits,
    file_statistics,
    files,
    instants,
    results,
    settings,
)
from hoodie.timeline import active


class Timelines(Protocol):
    """Reads the timeline, and what writes on it say."""

    def timeline(self) -> active.ActiveTimeline:
        """Return the active timeline."""
        ...

    def metadata(
        self, wanted: Sequence[instants.Instant]
    ) -> Mapping[instants.Instant, commits.CommitMetadata]:
        """Return what writes say of themselves."""
        ...

    def pending(self, heartbeat_settings: settings.WriteSettings) -> list[results.PendingInstant]:
        """Return what is pending, and who works on it."""
        ...

    def slices(self) -> list[files.FileSlice]:
        """Return the newest slice of each file group."""
        ...


@guesses.of_names(guesses.INSPECT)
class Inspection:
    """Looks into a table. Each method reads it as it is now."""

    def __init__(self, table: Timelines, job: writing.Job) -> None:
        """Take the table."""
        self._table = table
        self._job = job

    def __repr__(self) -> str:
        names = ", ".join(each for each in vars(type(self)) if not each.startswith("_"))
        return f"<Inspection of {self._job.target.storage.uri}: {names}>"

    def timeline(self, limit: int | None = None) -> pa.Table:
        """Return the actions of the active timeline, newest first, and what writes say they did.

        Args:
            limit: So many of the newest; None for all. Each write is a read.
        """
        found = sorted(self._table.timeline().instants, key=lambda each: each.requested_time)
        newest = found[::-1][:limit]
        told = self._table.metadata(newest)
        return _table(
            {
                "requested": pa.string(),
                "action": pa.string(),
                "state": pa.string(),
                "completed": pa.string(),
                "operation": pa.string(),
                "writer": pa.string(),
                "batch": pa.string(),
                "rows": pa.int64(),
                "deletes": pa.int64(),
                "files": pa.int64(),
                "size_bytes": pa.int64(),
            },
            (_instant(each, told.get(each)) for each in newest),
        )

    def slices(self) -> pa.Table:
        """Return the newest file slice of each file group: what a read merges."""
        return _table(
            {
                "partition": pa.string(),
                "file_id": pa.string(),
                "base_instant": pa.string(),
                "base_file": pa.string(),
                "base_bytes": pa.int64(),
                "log_files": pa.int64(),
                "log_bytes": pa.int64(),
            },
            (
                {
                    "partition": each.group.partition_path,
                    "file_id": each.group.file_id,
                    "base_instant": each.base_instant_time,
                    "base_file": None if each.base_file is None else each.base_file.name,
                    "base_bytes": None if each.base_file is None else each.base_file.size_bytes,
                    "log_files": len(each.log_files),
                    "log_bytes": each.log_bytes,
                }
                for each in self._table.slices()
            ),
        )

    def files(self) -> pa.Table:
        """Return the files of the newest file slices.

        A base file that is alone in its slice can be read by any reader of parquet; what a slice
        with log files holds only a merge says.
        """
        return _table(
            {
                "path": pa.string(),
                "kind": pa.string(),
                "partition": pa.string(),
                "file_id": pa.string(),
                "instant": pa.string(),
                "size_bytes": pa.int64(),
                "is_alone": pa.bool_(),
            },
            (
                {
                    "path": file.path,
                    "kind": "log" if isinstance(file, files.LogFile) else "base",
                    "partition": each.group.partition_path,
                    "file_id": each.group.file_id,
                    "instant": file.instant_time,
                    "size_bytes": file.size_bytes,
                    "is_alone": not each.is_changed,
                }
                for each in self._table.slices()
                for file in each.data_files
            ),
        )

    def partitions(self) -> pa.Table:
        """Return how much is in each partition."""
        by_path: dict[str, list[files.FileSlice]] = {}
        for each in self._table.slices():
            by_path.setdefault(each.group.partition_path, []).append(each)
        return _table(
            {
                "partition": pa.string(),
                "file_groups": pa.int64(),
                "base_files": pa.int64(),
                "base_bytes": pa.int64(),
                "log_files": pa.int64(),
                "log_bytes": pa.int64(),
            },
            (
                {
                    "partition": path,
                    "file_groups": len(found),
                    "base_files": sum(each.has_base for each in found),
                    "base_bytes": sum(
                        each.base_file.size_bytes for each in found if each.base_file is not None
                    ),
                    "log_files": sum(len(each.log_files) for each in found),
                    "log_bytes": sum(each.log_bytes for each in found),
                }
                for path, found in sorted(by_path.items())
            ),
        )

    def writers(self) -> pa.Table:
        """Return who has written on the active timeline, and what is pending of whom.

        Unnamed writers and table services have no `writer`.
        """
        timeline = self._table.timeline()
        found: dict[str | None, dict[str, object]] = {}
        told = self._table.metadata(timeline.completed_writes)
        for instant, metadata in sorted(
            told.items(), key=lambda each: str(each[0].completion_time)
        ):
            name = metadata.extra.get(commits.WRITER_ID_KEY)
            row = found.setdefault(name, {"writer": name, "commits": 0, "pending": 0})
            row["commits"] = int(str(row["commits"])) + 1
            row["last_completed"] = instant.completion_time
            row["last_batch"] = metadata.extra.get(commits.BATCH_ID_KEY)
        for each in self._table.pending(self._job.writer.transaction.settings):
            row = found.setdefault(each.owner, {"writer": each.owner, "commits": 0, "pending": 0})
            row["pending"] = int(str(row["pending"])) + 1
            row["liveness"] = each.liveness
        return _table(
            {
                "writer": pa.string(),
                "commits": pa.int64(),
                "last_completed": pa.string(),
                "last_batch": pa.string(),
                "pending": pa.int64(),
                "liveness": pa.string(),
            },
            found.values(),
        )

    def statistics(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the range of each column's values in each file slice, where it is known.

        They are those by which reads skip slices. Bounds are texts; they are of base file and log
        files together, so that a merged row need not have them.

        Args:
            columns: Of which; None for all that have statistics.

        Raises:
            NotFoundError: The table has no column statistics, or no such column.
            FormatError: They are damaged.
        """
        job = self._job
        config, schema = job.target.config, job.columns
        if file_statistics.COLUMN_STATS not in config.metadata_partitions:
            raise errors.NotFoundError(
                f"{job.target.storage.uri} has no column statistics: make a metadata table by "
                "`table.maintain.make_metadata_table()`"
            )
        for name in columns or ():
            if name not in schema.names:
                raise errors.NotFoundError(column_names.absence(name, schema.names))
        names = [each for each in understood_columns(schema) if columns is None or each in columns]

        def ranges(snapshot: snapshots.Snapshot) -> pa.Table:
            view = snapshot.view
            found = [each for path in view.partitions() for each in view.latest_slices(path)]
            metadata = snapshot.metadata
            if metadata is None:
                raise errors.NotFoundError(
                    f"the metadata table of {job.target.storage.uri} cannot be used now"
                )
            of_column = data_skipping.ranges_of_slices(
                metadata, found, names, is_shared=config.has_foreign_writers
            )
            each = [_ranges(found, schema.field(name), of_column) for name in names]
            return pa.concat_tables([_STATISTICS.empty_table(), *each])

        return snapshots.consistent(job.target.storage, config, ranges)


_STATISTICS = pa.schema(
    [
        ("partition", pa.string()),
        ("file_id", pa.string()),
        ("column", pa.string()),
        ("low", pa.string()),
        ("high", pa.string()),
        ("has_nulls", pa.bool_()),
        ("is_known", pa.bool_()),
    ]
)


def _ranges(
    slices: Sequence[files.FileSlice], field: pa.Field, of_column: data_skipping.RangesOf
) -> pa.Table:
    found = of_column(field.name, field.type)
    return pa.table(
        [
            pa.array([each.group.partition_path for each in slices], pa.string()),
            pa.array([each.group.file_id for each in slices], pa.string()),
            pa.array([field.name] * len(slices), pa.string()),
            _texts(found.low),
            _texts(found.high),
            pa.array(found.has_nulls),
            pa.array(found.is_known),
        ],
        schema=_STATISTICS,
    )


def _texts(values: pa.Array) -> pa.Array:
    return pa.array(
        [None if each is None else str(each) for each in values.to_pylist()], pa.string()
    )


def _instant(
    instant: instants.Instant, metadata: commits.CommitMetadata | None
) -> dict[str, object]:
    row: dict[str, object] = {
        "requested": instant.requested_time,
        "action": instant.action.value,
        "state": instant.state.value,
        "completed": instant.completion_time,
    }
    if metadata is None:
        return row
    stats = metadata.stats
    return row | {
        "operation": metadata.operation,
        "writer": metadata.extra.get(commits.WRITER_ID_KEY),
        "batch": metadata.extra.get(commits.BATCH_ID_KEY),
        "rows": sum(each.written for each in stats),
        "deletes": sum(each.deletes for each in stats),
        "files": len(stats),
        "size_bytes": sum(each.size_bytes for each in stats),
    }


def _table(columns: Mapping[str, pa.DataType], rows: Iterable[Mapping[str, object]]) -> pa.Table:
    schema = pa.schema(list(columns.items()))
    found = list(rows)
    arrays = [pa.array([each.get(name) for each in found], kind) for name, kind in columns.items()]
    return pa.table(arrays, schema=schema)
