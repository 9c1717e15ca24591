"""Which file group a bucket's rows go to.

With the simple bucket index a (partition, bucket) has one file group. Groups of others are found by
the first eight characters of their id. An empty bucket's new group gets an id that follows from the
timeline (`index.bucket.file_id`), so that concurrent writers agree on it. Writers whose timelines
differ about that bucket are told apart when they complete (`write.conflicts`).

Cost: one list request a partition, when its first row is placed.
"""

import contextlib
from collections.abc import Mapping

from hoodie import errors
from hoodie.filegroup import snapshots
from hoodie.format import file_names, properties
from hoodie.index import bucket
from hoodie.model import files, instants
from hoodie.storage import protocol


class Placement:
    """The file groups of the partitions that a write touches."""

    def __init__(
        self,
        storage: protocol.Storage,
        committed: snapshots.CommittedFiles,
        replaced: Mapping[files.FileGroupId, instants.InstantTime],
        instant_time: instants.InstantTime,
    ) -> None:
        """Place rows into the table as a timeline shows it.

        Args:
            storage: The table's.
            committed: Tells committed groups from leftovers of failed writes.
            replaced: When each group that a replace commit retired was retired.
            instant_time: The write's own.
        """
        self._storage = storage
        self._committed = committed
        self._replaced = replaced
        self._retired_at: dict[tuple[str, int], instants.InstantTime] = {}
        for group, time in replaced.items():
            if bucket.is_bucket_file_id(group.file_id):
                place = (group.partition_path, bucket.bucket_of(group.file_id))
                self._retired_at[place] = max(time, self._retired_at.get(place, time))
        self._instant_time = instant_time
        self._partitions: dict[str, dict[int, list[files.BaseFile | files.LogFile]]] = {}

    def prepare(self, partition_path: str, *, is_created: bool = True) -> None:
        """List a partition. Not thread-safe.

        Args:
            partition_path: The partition.
            is_created: Whether its metadata file is created when it has none yet.
        """
        if partition_path in self._partitions:
            return
        by_bucket: dict[int, list[files.BaseFile | files.LogFile]] = {}
        has_metadata = False
        for info in self._storage.list(partition_path):
            has_metadata = has_metadata or file_names.is_partition_metadata(info.name)
            parsed = file_names.parse(info.path, info.size_bytes)
            if parsed is not None and bucket.is_bucket_file_id(parsed.group.file_id):
                by_bucket.setdefault(bucket.bucket_of(parsed.group.file_id), []).append(parsed)
        if is_created and not has_metadata:
            self._create_metadata(partition_path)
        self._partitions[partition_path] = by_bucket

    def group_of(self, partition_path: str, bucket_number: int) -> files.FileGroupId:
        """Return the file group of a bucket in a prepared partition.

        Raises:
            UnsupportedError: Another engine wrote into the bucket's group after it was retired.
            FormatError: The bucket has several groups.
        """
        place = f"bucket {bucket_number} of partition {partition_path or '.'!r}"
        live = {
            each.group
            for each in self._partitions[partition_path].get(bucket_number, ())
            if self._committed.is_committed(each.instant_time)
            and each.instant_time > self._replaced.get(each.group, "")
        }
        for group in sorted(live.intersection(self._replaced)):
            raise errors.UnsupportedError(
                f"{place} has rows in file group {group.file_id}, written after a replace commit "
                f"retired that group at {self._replaced[group]}: Apache Hudi does not show these "
                "rows, and its cleaner removes them; read them with hoodie and write the partition "
                "anew with Apache Hudi's insert_overwrite"
            )
        if len(live) > 1:
            names = ", ".join(sorted(group.file_id for group in live))
            raise errors.FormatError(f"{place} has the file groups {names}, expected one")
        if live:
            return live.pop()
        retired_at = self._retired_at.get((partition_path, bucket_number))
        return files.FileGroupId(partition_path, bucket.file_id(bucket_number, retired_at))

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

    def _files_of(self, group: files.FileGroupId) -> list[files.BaseFile | files.LogFile]:
        present = self._partitions[group.partition_path].get(bucket.bucket_of(group.file_id), ())
        return [each for each in present if each.group == group]

    def _create_metadata(self, partition_path: str) -> None:
        depth = len(partition_path.split("/")) if partition_path else 0
        content = properties.encode(
            {"commitTime": self._instant_time, "partitionDepth": str(depth)},
            ["partition metadata"],
        )
        # Where another writer's first row came first, its file says the same.
        with contextlib.suppress(errors.AlreadyExistsError):
            path = files.join(partition_path, file_names.PARTITION_METADATA)
            self._storage.create(path, content)
