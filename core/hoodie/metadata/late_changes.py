"""What has changed while the files of a table were looked into, for a metadata table (MDT).

Partitions of an MDT are made of what a timeline counts. Changes that completed since are found on a
later one, and their files looked into, without the lock; in the scope that makes the partitions
only the last are left. Source: protocol.md: The metadata table.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from hoodie import errors
from hoodie.filegroup import metadata_records, snapshots, statistics_reading
from hoodie.metadata import initial_statistics
from hoodie.model import file_statistics, instants, schemas, table_config
from hoodie.model.file_statistics import ColumnStatistics
from hoodie.storage.protocol import Storage
from hoodie.timeline import active, contents
from hoodie.transaction import stored_schemas


class OutdatedError(errors.ConflictError):
    """What was found without the lock cannot be brought up to date."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """What was found in data files without the lock.

    Attributes:
        schema: The table's columns then.
        wanted: Which statistics.
        reading: How data files are looked into.
        bases: The base files of the partitions with statistics.
        late: By path of files of changes since.
    """

    schema: schemas.TableSchema
    wanted: file_statistics.Wanted
    reading: initial_statistics.Reading
    bases: initial_statistics.Bases
    late: dict[str, Sequence[ColumnStatistics]] = field(default_factory=dict)

    def source(
        self, storage: Storage, timeline: active.ActiveTimeline
    ) -> statistics_reading.Source:
        """Return what is looked into as of a timeline."""
        known = snapshots.committed_instants(timeline)
        committed = snapshots.CommittedFiles(storage, known)
        return statistics_reading.Source(
            storage, self.schema.arrow, self.wanted, committed.is_committed
        )

    def check_columns(
        self, storage: Storage, config: table_config.TableConfig, timeline: active.ActiveTimeline
    ) -> None:
        """Refuse what was found if the table has other columns by now.

        Raises:
            OutdatedError: It has.
        """
        now = stored_schemas.columns_of(storage, config, timeline, self.schema)
        if now.arrow != self.schema.arrow:
            raise OutdatedError("the table's columns have changed")

    def look_into(
        self,
        storage: Storage,
        timeline: active.ActiveTimeline,
        changes: Iterable[metadata_records.Changes],
    ) -> bool:
        """Look into files of changes that were not looked into yet; return whether any were.

        Args:
            storage: The data table's.
            timeline: Its timeline, which has the changes.
            changes: Completed since `bases` were found.

        Raises:
            FormatError: A data file is broken.
        """
        paths = {
            stat.path: stat.size_bytes
            for each in changes
            for stat in each.written
            if stat.path not in self.late
        }
        if paths:
            source = self.source(storage, timeline)
            found = initial_statistics.of_paths(paths.items(), source, self.reading)
            self.late.update({path: found.get(path, ()) for path in paths})
        return bool(paths)

    def completed(self, changes: Iterable[metadata_records.Changes]) -> metadata_records.Changes:
        """Return changes as one, with the statistics of their files, which were looked into.

        Files that are gone by now, or have no rows, are left out.
        """
        found = list(changes)
        return metadata_records.Changes(
            written=[
                replace(stat, statistics=tuple(self.late[stat.path]))
                for each in found
                for stat in each.written
                if self.late[stat.path]
            ],
            deleted=[path for each in found for path in each.deleted],
            columns=list(self.wanted.kinds),
            expressions=tuple(self.wanted.expressions),
        )


def since(
    storage: Storage, before: active.ActiveTimeline, now: active.ActiveTimeline
) -> Iterator[metadata_records.Changes]:
    """Yield the changes of instants that completed between two looks, in their order.

    A read for each. Another engine may give an earlier completion time than one that is there.

    Raises:
        OutdatedError: One took others back, or some may have been archived meanwhile.
    """
    known = str(before.completed[-1].completion_time) if before.completed else ""
    if known and now.start is not None and now.start > known:
        raise OutdatedError("instants were archived meanwhile")
    there = set(before.completed)
    for each in now.completed:
        if each in there:
            continue
        if each.action is instants.Action.RESTORE:
            raise OutdatedError(f"{each} took instants back")
        if each.action.completed in instants.WRITES:
            yield metadata_records.Changes(written=contents.read_commit(storage, each).stats)
        elif each.action is instants.Action.CLEAN:
            deleted = tuple(sorted(contents.read_clean(storage, each).paths))
            yield metadata_records.Changes(deleted=deleted)
