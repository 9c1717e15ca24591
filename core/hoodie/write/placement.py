"""Which file group a bucket's rows go to.

A (partition, bucket) has one file group; the table's index finds the bucket of a group that is
there. An empty bucket's new group gets an id that follows from the timeline (`Index.new_file_id`),
so that concurrent writers agree on it. Writers whose timelines differ about that bucket conflict
when they complete (`write.conflicts`).

Cost: one list request a partition, when its first row is placed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from hoodie import deferred, errors
from hoodie.filegroup import listing, snapshots
from hoodie.format import file_names, properties
from hoodie.model import files, instants, table_config
from hoodie.storage import protocol

with deferred.imports():
    from hoodie.index import partitions

_Files = dict[files.FileGroupId, list[listing.DataFile]]


class Placement:
    """The file groups of the partitions that a write touches."""

    def __init__(
        self,
        storage: protocol.Storage,
        config: table_config.TableConfig,
        committed: snapshots.CommittedFiles,
        replaced: Mapping[files.FileGroupId, instants.InstantTime],
        instant_time: instants.InstantTime,
        indexes: partitions.PartitionIndexes,
    ) -> None:
        """Place rows into the table as a timeline shows it.

        Args:
            storage: The table's.
            config: Its configuration, with the number of buckets.
            committed: Tells committed groups from leftovers of failed writes.
            replaced: When each group that a replace commit retired was retired.
            instant_time: The write's own.
            indexes: Of its partitions.
        """
        self.storage = storage
        self._listing = listing.of_table(storage, config)
        self.indexes = indexes
        self._committed = committed
        self._replaced = replaced
        self._retired: dict[str, list[files.FileGroupId]] = {}
        for group in replaced:
            self._retired.setdefault(group.partition_path, []).append(group)
        self._retired_at: dict[tuple[str, int], instants.InstantTime] = {}
        self._instant_time = instant_time
        self._partitions: dict[str, _Files] = {}
        self._created: set[str] = set()
        self._groups: dict[tuple[str, int | None], list[files.FileGroupId]] = {}

    def prepare(self, partition_path: str, *, is_created: bool = True) -> None:
        """List a partition. Not thread-safe.

        Args:
            partition_path: The partition.
            is_created: Whether its metadata file is created when it has none yet.
        """
        if partition_path in self._partitions:
            if is_created:
                self._create(partition_path)
            return
        by_group: _Files = {}
        for each in self._listing.files(partition_path):
            by_group.setdefault(each.group, []).append(each)
        if is_created:
            self._create(partition_path)
        self._partitions[partition_path] = by_group
        index = self.indexes.of(partition_path)
        for group in sorted(by_group):
            number = index.bucket_of(group.file_id)
            self._groups.setdefault((partition_path, number), []).append(group)
        for group in self._retired.get(partition_path, ()):
            number = index.bucket_of(group.file_id)
            if number is not None:
                place, time = (partition_path, number), self._replaced[group]
                self._retired_at[place] = max(time, self._retired_at.get(place, time))

    def foreign_groups(self, partition_path: str) -> list[files.FileGroupId]:
        """Return the live groups of no bucket in a prepared partition."""
        return self._live(partition_path, None)

    def group_of(self, partition_path: str, bucket_number: int) -> files.FileGroupId:
        """Return the file group of a bucket in a prepared partition.

        Raises:
            UnsupportedError: Another engine wrote into the bucket's group after it was retired.
            FormatError: The bucket has several groups.
        """
        place = f"bucket {bucket_number} of partition {partition_path or '.'!r}"
        live = self._live(partition_path, bucket_number)
        for group in live:
            if group not in self._replaced:
                continue
            raise errors.UnsupportedError(
                f"{place} has rows in file group {group.file_id}, written after a replace commit "
                f"retired that group at {self._replaced[group]}: Apache Hudi does not show these "
                "rows, and its cleaner removes them; read them with hoodie and write the partition "
                "again with insert_overwrite of Apache Hudi"
            )
        if len(live) > 1:
            names = ", ".join(group.file_id for group in live)
            raise errors.FormatError(f"{place} has the file groups {names}, expected one")
        if live:
            return live[0]
        retired_at = self._retired_at.get((partition_path, bucket_number))
        file_id = self.indexes.of(partition_path).new_file_id(bucket_number, retired_at)
        return files.FileGroupId(partition_path, file_id)

    def base_file_of(self, group: files.FileGroupId) -> files.BaseFile | None:
        """Return the newest committed base file of a group in a prepared partition."""
        present = [each for each in self._files_of(group) if isinstance(each, files.BaseFile)]
        committed = [
            each
            for each in self._committed.without_orphans(present)
            if self._committed.is_committed(each.instant_time)
        ]
        return max(committed, key=lambda each: (each.instant_time, each.write_token), default=None)

    def is_new(self, group: files.FileGroupId) -> bool:
        """Return whether a group in a prepared partition holds no file, not even a failed one."""
        return not self._files_of(group)

    def _files_of(self, group: files.FileGroupId) -> list[listing.DataFile]:
        return self._partitions[group.partition_path].get(group, [])

    def _live(self, partition_path: str, bucket_number: int | None) -> list[files.FileGroupId]:
        """Return the groups with committed files that no replace commit hides."""
        return [
            group
            for group in self._groups.get((partition_path, bucket_number), ())
            if any(
                self._committed.is_committed(each.instant_time)
                and each.instant_time > self._replaced.get(group, "")
                for each in self._files_of(group)
            )
        ]

    def _create(self, partition_path: str) -> None:
        self.indexes.begin(partition_path)
        if partition_path in self._created or self._listing.is_partition(partition_path):
            return
        self._created.add(partition_path)
        depth = len(partition_path.split("/")) if partition_path else 0
        content = properties.partition_metadata(self._instant_time, depth)
        # Where another writer's first row came first, its file says the same.
        with contextlib.suppress(errors.AlreadyExistsError):
            path = files.join(partition_path, file_names.PARTITION_METADATA)
            self.storage.create(path, content)
