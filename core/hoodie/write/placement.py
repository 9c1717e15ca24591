"""Which file group a bucket's rows go to.

With the simple bucket index a (partition, bucket) has one file group. Ours are named as
non-blocking concurrency control names them, the same for every writer; groups that Apache Hudi made
otherwise have a random tail and are found by their first eight characters.

Cost: one list request a partition, when its first row is placed.
"""

import contextlib
from collections.abc import Collection

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
        replaced: Collection[files.FileGroupId],
        instant_time: instants.InstantTime,
    ) -> None:
        """Place rows into the table as a timeline shows it.

        Args:
            storage: The table's.
            committed: Tells committed groups from leftovers of failed writes.
            replaced: Groups that a replace commit retired.
            instant_time: The write's own.
        """
        self._storage = storage
        self._committed = committed
        self._replaced = replaced
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
            UnsupportedError: The bucket's group was replaced: rows written to it would not be seen.
            FormatError: The bucket has several groups.
        """
        present = self._partitions[partition_path].get(bucket_number, [])
        committed = {
            each.group for each in present if self._committed.is_committed(each.instant_time)
        }
        if committed & set(self._replaced):
            raise errors.UnsupportedError(
                f"bucket {bucket_number} of partition {partition_path or '.'!r} was replaced by a "
                "replace commit; writing it again is not supported"
            )
        if len(committed) > 1:
            names = ", ".join(sorted(group.file_id for group in committed))
            raise errors.FormatError(
                f"bucket {bucket_number} of partition {partition_path or '.'!r} has the file "
                f"groups {names}, expected one"
            )
        if committed:
            return committed.pop()
        return files.FileGroupId(partition_path, bucket.file_id(bucket_number))

    def base_file_of(self, group: files.FileGroupId) -> files.BaseFile | None:
        """Return the newest committed base file of a group in a prepared partition."""
        present = self._partitions[group.partition_path].get(bucket.bucket_of(group.file_id), [])
        committed = [
            each
            for each in present
            if isinstance(each, files.BaseFile) and self._committed.is_committed(each.instant_time)
        ]
        return max(committed, key=lambda each: (each.instant_time, each.write_token), default=None)

    def is_new(self, partition_path: str, bucket_number: int) -> bool:
        """Return whether a bucket in a prepared partition holds no file, not even a failed one."""
        return bucket_number not in self._partitions[partition_path]

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
