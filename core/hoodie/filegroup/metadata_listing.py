"""Which partitions and data files a table has, by its metadata table: a handful of requests.

It has the files of writes that completed, and of no other; a listing of the storage has more, which
the view leaves out. Where the metadata table is behind, damaged, or of a kind that is not read, the
storage is listed instead, and a warning says why.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from hoodie import deferred, errors
from hoodie.filegroup import listing, metadata_table
from hoodie.format import file_names, metadata_avro
from hoodie.model import files, table_config
from hoodie.storage import protocol
from hoodie.timeline import active

with deferred.imports():
    from hoodie.timeline import metadata_timelines, partition_buckets

logger = logging.getLogger(__name__)

_TRIES_MAX = 3
"""So often a metadata table is opened that changes meanwhile."""

Found = TypeVar("Found")


def of_table(
    storage: protocol.Storage,
    config: table_config.TableConfig,
    timeline: active.ActiveTimeline,
    listed: listing.Listing,
) -> listing.Listing:
    """Return a listing of a table's committed files; no request before the first question.

    Args:
        storage: The table's.
        config: Tells whether there is a metadata table.
        timeline: The table's, just read.
        listed: The storage's listing, for a table without one, or with one that cannot be used.
    """
    if not config.has_metadata_table:
        return listed
    return MetadataListing(storage, timeline, listed)


class Files:
    """A listing by the partition `files` of a metadata table."""

    def __init__(self, partition: metadata_table.Partition) -> None:
        """Take the partition, which is open."""
        self._partition = partition
        self._parsed = 0

    def partitions(self) -> list[str]:
        """Return the partition paths, sorted."""
        return sorted("" if key == metadata_avro.ROOT else key for key in self._all_partitions())

    def files(self, partition_path: str) -> list[listing.DataFile]:
        """Return the data files of a partition, sorted by name; empty when there is none such."""
        sizes = self.sizes(partition_path)
        self._parsed += len(sizes)
        is_many = self._parsed > file_names.REMEMBERED_MAX
        parse = file_names.parse_new if is_many else file_names.parse
        found = (
            parse(files.join(partition_path, name), size) for name, size in sorted(sizes.items())
        )
        return [each for each in found if each is not None]

    def change_data(self, partition_path: str) -> list[listing.ChangeDataFile]:
        """Return the log files of change data of a partition, sorted by name."""
        return listing.change_data(self._infos(partition_path)).get(partition_path, [])

    def is_partition(self, partition_path: str) -> bool:
        """Return whether there is such a partition."""
        return metadata_avro.key_of(partition_path) in self._all_partitions()

    def partitions_among(self, paths: Collection[str]) -> list[str]:
        """Return which of some paths are partitions, sorted."""
        return sorted(each for each in paths if self.is_partition(each))

    def hashing_configs(self) -> list[str]:
        """Return nothing: they are no data files."""
        return []

    def sizes(self, partition_path: str) -> Mapping[str, int]:
        """Return the sizes in bytes of a partition's files by name."""
        found = self._sizes(metadata_avro.key_of(partition_path))
        return {name: size for name, size in found.items() if "/" not in name}  # Not of others.

    def _all_partitions(self) -> Mapping[str, int]:
        return self._sizes(metadata_avro.ALL_PARTITIONS)

    def _infos(self, partition_path: str) -> list[protocol.FileInfo]:
        return [
            protocol.FileInfo(
                path=files.join(partition_path, name), size_bytes=size, modified_ms=0, version=""
            )
            for name, size in sorted(self.sizes(partition_path).items())
        ]

    def _sizes(self, key: str) -> Mapping[str, int]:
        source = f"{metadata_timelines.DIRECTORY}/{metadata_table.FILES}, key {key}"
        return metadata_avro.merged_sizes(self._partition.values(key), source)


class MetadataListing:
    """A listing that asks a metadata table, or the storage where that cannot be used.

    Attributes:
        is_refused: Whether it could not be used.
    """

    def __init__(
        self,
        storage: protocol.Storage,
        timeline: active.ActiveTimeline,
        listed: listing.Listing,
    ) -> None:
        """Take a table that has a metadata table.

        Args:
            storage: The table's.
            timeline: The table's.
            listed: Asked if the metadata table cannot be used.
        """
        self.is_refused = False
        self._storage = storage
        self._timeline = timeline
        self._listed = listed
        self._table: metadata_table.MetadataTable | None = None
        self._files: Files | None = None

    def sizes(self, partition_path: str) -> Mapping[str, int]:
        """Return the sizes in bytes of a partition's data files by name."""

        def ask(found: listing.Listing) -> Mapping[str, int]:
            if isinstance(found, Files):
                return found.sizes(partition_path)
            data_files = (*found.files(partition_path), *found.change_data(partition_path))
            return {each.name: each.size_bytes for each in data_files}

        return self._asked(ask)

    def table(self) -> metadata_table.MetadataTable | None:
        """Return the metadata table, once it was asked; None if it could not be used."""
        return None if self.is_refused else self._table

    def partitions(self) -> list[str]:
        """Return the partition paths, sorted."""
        return self._asked(lambda found: found.partitions())

    def files(self, partition_path: str) -> list[listing.DataFile]:
        """Return the data files of a partition, sorted by name; empty when there is none such."""
        return self._asked(lambda found: found.files(partition_path))

    def change_data(self, partition_path: str) -> list[listing.ChangeDataFile]:
        """Return the log files of change data of a partition, sorted by name."""
        return self._asked(lambda found: found.change_data(partition_path))

    def is_partition(self, partition_path: str) -> bool:
        """Return whether there is such a partition."""
        return self._asked(lambda found: found.is_partition(partition_path))

    def partitions_among(self, paths: Collection[str]) -> list[str]:
        """Return which of some paths are partitions, sorted."""
        return self._asked(lambda found: found.partitions_among(paths))

    def hashing_configs(self) -> list[str]:
        """Return the paths of the files with bucket counts by partition; a request."""
        if self.is_refused:
            return self._listed.hashing_configs()
        return partition_buckets.listed(self._storage)

    def _asked(self, ask: Callable[[listing.Listing], Found]) -> Found:
        for tries_left in reversed(range(_TRIES_MAX)):
            if self.is_refused:
                break
            try:
                if self._files is None:
                    self._table = metadata_table.MetadataTable(self._storage, self._timeline)
                    self._files = Files(self._table.partition(metadata_table.FILES))
                return ask(self._files)
            except (errors.FormatError, errors.NotFoundError) as error:
                if not tries_left or not self._has_changed():
                    self._refuse(error)
                self._files = None
            except errors.UnsupportedError as error:
                self._refuse(error)
        return ask(self._listed)

    def _has_changed(self) -> bool:
        """Return whether compactions may have replaced what was listed: a later state is as good.

        A listing.
        """
        if self._table is None:
            return False
        return active.listed(metadata_timelines.opened(self._storage)) != self._table.timeline

    def _refuse(self, error: errors.HoodieError) -> None:
        self.is_refused = True
        logger.warning(
            "%s: files are listed, since the metadata table cannot be used: %s",
            self._storage.uri,
            error,
        )
