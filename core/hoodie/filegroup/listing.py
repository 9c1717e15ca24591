"""Which partitions and data files a table has, by listing its storage.

A directory is a partition when it holds `.hoodie_partition_metadata`. Data files that no commit
knows are listed, too; the view leaves them out.

Requests: one recursive listing answers everything about a partitioned table, its own folder
`.hoodie` included; of a table without partitions only the root is listed. Who knows the partition
asks for its files alone: one listing of one directory.
"""

from collections.abc import Mapping
from typing import Protocol

from hoodie.format import file_names
from hoodie.model import files
from hoodie.storage import protocol

DataFile = files.BaseFile | files.LogFile

_OWN_FOLDER = ".hoodie/"


class Listing(Protocol):
    """Knows the partitions and data files of a table, as of one moment."""

    def partitions(self) -> list[str]:
        """Return the partition paths, sorted."""
        ...

    def files(self, partition_path: str) -> list[DataFile]:
        """Return the data files of a partition, sorted by name; empty when there is none such."""
        ...


class StorageListing:
    """A listing that asks the storage, each thing once."""

    def __init__(self, storage: protocol.Storage, *, is_partitioned: bool = True) -> None:
        """List a table when it is first asked for.

        Args:
            storage: The table's.
            is_partitioned: Whether there may be partitions below the root.
        """
        self._storage = storage
        self._is_partitioned = is_partitioned
        self._everything: tuple[list[str], Mapping[str, list[DataFile]]] | None = None
        self._some: dict[str, list[DataFile]] = {}

    def partitions(self) -> list[str]:
        """Return the partition paths, sorted; the first call lists the table."""
        return list(self._list_all()[0])

    def files(self, partition_path: str) -> list[DataFile]:
        """Return the data files of a partition; one request unless the table was listed before."""
        if self._everything is not None:
            return list(self._everything[1].get(partition_path, ()))
        if partition_path not in self._some:
            by_partition = _data_files(self._storage.list(partition_path))
            self._some[partition_path] = by_partition.get(partition_path, [])
        return list(self._some[partition_path])

    def _list_all(self) -> tuple[list[str], Mapping[str, list[DataFile]]]:
        if self._everything is None:
            infos = [
                info
                for info in self._storage.list("", is_recursive=self._is_partitioned)
                if not info.path.startswith(_OWN_FOLDER)
            ]
            partitions = sorted(
                info.path.rpartition("/")[0]
                for info in infos
                if file_names.is_partition_metadata(info.name)
            )
            by_partition = _data_files(infos)
            self._everything = (
                partitions,
                {path: by_partition.get(path, []) for path in partitions},
            )
        return self._everything


def _data_files(infos: list[protocol.FileInfo]) -> dict[str, list[DataFile]]:
    by_partition: dict[str, list[DataFile]] = {}
    for info in infos:
        parsed = file_names.parse(info.path, info.size_bytes)
        if parsed is not None:
            by_partition.setdefault(parsed.group.partition_path, []).append(parsed)
    return by_partition
