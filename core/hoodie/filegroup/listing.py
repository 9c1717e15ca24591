"""Which partitions and data files a table has, by listing its storage.

A directory is a partition when it holds `.hoodie_partition_metadata`. Data files that no commit
knows are listed, too; the view leaves them out.

Requests: one recursive listing answers everything about a partitioned table, its own folder
`.hoodie` included; of a table without partitions only the root is listed. Who knows the partition
asks for its files alone: one listing of one directory.

Tables do not lie in each other (`services.definition`), but Apache Hudi makes such ones. The inner
table's files are none of the outer one's: not read, and above all not removed as leftovers.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from hoodie import deferred
from hoodie.format import file_names
from hoodie.model import files, table_config
from hoodie.storage import paths as storage_paths
from hoodie.storage import protocol

with deferred.imports():
    from hoodie.timeline import partition_buckets

DataFile = files.BaseFile | files.LogFile
ChangeDataFile = files.LogFile
"""A log file of change data: no read of rows looks at it."""

_OWN_FOLDER = ".hoodie/"
_OTHER_FOLDER = f"/{_OWN_FOLDER}"


def own_files(storage: protocol.Storage, *, is_recursive: bool = True) -> list[protocol.FileInfo]:
    """List a table's files, sorted by path, without those of other tables that lie in it."""
    infos = storage.list("", is_recursive=is_recursive)
    return outside_of(other_tables(info.path for info in infos), infos)


def own_paths(storage: protocol.Storage) -> list[str]:
    """List the paths of all files of a table, as `own_files`, where only their paths matter."""
    found = [
        storage_paths.joined(directory, name)
        for directory, names in storage.names_by_directory("", is_recursive=True).items()
        for name in names
    ]
    prefixes = _prefixes(other_tables(found))
    return [path for path in found if not path.startswith(prefixes)] if prefixes else found


def outside_of(folders: Iterable[str], infos: list[protocol.FileInfo]) -> list[protocol.FileInfo]:
    """Return the files that are below none of some folders."""
    prefixes = _prefixes(folders)
    return [info for info in infos if not info.path.startswith(prefixes)] if prefixes else infos


def _prefixes(folders: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"{path}/" for path in folders)


def other_tables(paths: Iterable[str]) -> list[str]:
    """Return the folders that are tables of their own among all paths in a table, sorted.

    One that was dropped, or is about to be created, counts as well.
    """
    found = {path.partition(_OTHER_FOLDER)[0] for path in paths if _OTHER_FOLDER in path}
    return sorted(each for each in found if not each.startswith(_OWN_FOLDER))


def partitions_of(by_directory: Mapping[str, Sequence[str]]) -> dict[str, Sequence[str]]:
    """Return the partitions among a table's directories, sorted, with the names of their files.

    Args:
        by_directory: Names of files by the paths of their directories.
    """
    others = other_tables(f"{path}/" for path in by_directory)
    outside = (_OWN_FOLDER, *(f"{path}/" for path in others))
    return {
        path: by_directory[path]
        for path in sorted(by_directory)
        if not f"{path}/".startswith(outside)
        and not file_names.PARTITION_METADATA_NAMES.isdisjoint(by_directory[path])
    }


class Listing(Protocol):
    """The partitions and data files of a table, as of one moment.

    What reads or writes rows asks a listing, never the storage: a table's files may be known
    without listing them. What looks for files that no commit names lists the storage.
    """

    def partitions(self) -> list[str]:
        """Return the partition paths, sorted."""
        ...

    def files(self, partition_path: str) -> list[DataFile]:
        """Return the data files of a partition, sorted by name; empty when there is none such."""
        ...

    def change_data(self, partition_path: str) -> list[ChangeDataFile]:
        """Return the log files of change data of a partition, sorted by name."""
        ...

    def is_partition(self, partition_path: str) -> bool:
        """Return whether a partition has its metadata file."""
        ...

    def partitions_among(self, paths: Collection[str]) -> list[str]:
        """Return which of a few paths are partitions of the table, sorted."""
        ...

    def hashing_configs(self) -> list[str]:
        """Return the paths of the files with bucket counts by partition."""
        ...


def of_table(storage: protocol.Storage, config: table_config.TableConfig) -> Listing:
    """Return a listing of a table as it is from the first question on."""
    return StorageListing(storage, is_partitioned=bool(config.partition_fields))


class StorageListing:
    """A listing that asks the storage, each thing once."""

    def __init__(
        self,
        storage: protocol.Storage,
        *,
        is_partitioned: bool = True,
        extension: str = file_names.PARQUET,
    ) -> None:
        """List a table when it is first asked for.

        Args:
            storage: The table's.
            is_partitioned: Whether there may be partitions below the root.
            extension: Of the table's base files.
        """
        self._storage = storage
        self._is_partitioned = is_partitioned
        self._extension = extension
        self._everything: tuple[list[str], Mapping[str, list[DataFile]]] | None = None
        self._hashing_configs: list[str] = []
        self._change_data: dict[str, list[ChangeDataFile]] = {}
        self._some: dict[str, tuple[list[DataFile], bool]] = {}

    def partitions(self) -> list[str]:
        """Return the partition paths, sorted; the first call lists the table."""
        return list(self._list_all()[0])

    def files(self, partition_path: str) -> list[DataFile]:
        """Return the data files of a partition; one request unless the table was listed before."""
        if self._everything is not None:
            return list(self._everything[1].get(partition_path, ()))
        return list(self._list(partition_path)[0])

    def change_data(self, partition_path: str) -> list[ChangeDataFile]:
        """Return the log files of change data of a partition; requests as `files`."""
        self.files(partition_path)
        return self._change_data.get(partition_path, [])

    def is_partition(self, partition_path: str) -> bool:
        """Return whether a partition has its metadata file; requests as `files`."""
        if self._everything is not None:
            return partition_path in self._everything[1]
        return self._list(partition_path)[1]

    def partitions_among(self, paths: Collection[str]) -> list[str]:
        """Return which of a few paths are partitions; a few requests each.

        That is one of its files, and one for each folder of the path, but if the table was listed.
        """
        found = sorted(each for each in paths if self.is_partition(each))
        if self._everything is not None:
            return found
        return [each for each in found if not self._is_in_another_table(each)]

    def _is_in_another_table(self, path: str) -> bool:
        parts = path.split("/")
        folders = ("/".join(parts[: count + 1]) for count in range(len(parts)))
        return any(_OWN_FOLDER in self._storage.names(each) for each in folders)

    def hashing_configs(self) -> list[str]:
        """Return those paths; no request of its own where a partitioned table was listed before."""
        if self._is_partitioned and self._everything is not None:
            return list(self._hashing_configs)
        return partition_buckets.listed(self._storage)

    def _list(self, partition_path: str) -> tuple[list[DataFile], bool]:
        if partition_path not in self._some:
            infos = self._storage.list(partition_path)
            is_partition = any(file_names.is_partition_metadata(info.name) for info in infos)
            found = data_files(infos, self._extension).get(partition_path, [])
            self._change_data[partition_path] = change_data(infos).get(partition_path, [])
            self._some[partition_path] = found, is_partition
        return self._some[partition_path]

    def _list_all(self) -> tuple[list[str], Mapping[str, list[DataFile]]]:
        if self._everything is None:
            infos = []
            for info in own_files(self._storage, is_recursive=self._is_partitioned):
                if not info.path.startswith(_OWN_FOLDER):
                    infos.append(info)
                elif partition_buckets.is_hashing_config(info.path):
                    self._hashing_configs.append(info.path)
            partitions = sorted(
                info.path.rpartition("/")[0]
                for info in infos
                if file_names.is_partition_metadata(info.name)
            )
            by_partition = data_files(infos, self._extension)
            self._change_data = change_data(infos)
            self._everything = (
                partitions,
                {path: by_partition.get(path, []) for path in partitions},
            )
        return self._everything


def data_files(
    infos: Collection[protocol.FileInfo], extension: str = file_names.PARQUET
) -> dict[str, list[DataFile]]:
    """Return what some files are, by partition, in their order; those that are no data files not.

    Args:
        infos: Of them path and length matter.
        extension: Of the table's base files.
    """
    is_many = len(infos) > file_names.REMEMBERED_MAX
    parse = file_names.parse_new if is_many else file_names.parse
    by_partition: dict[str, list[DataFile]] = {}
    for info in infos:
        parsed = parse(info.path, info.size_bytes, extension)
        if parsed is not None:
            by_partition.setdefault(parsed.group.partition_path, []).append(parsed)
    return by_partition


def change_data(infos: Iterable[protocol.FileInfo]) -> dict[str, list[ChangeDataFile]]:
    """Return the log files of change data among some files, by partition, in their order."""
    by_partition: dict[str, list[ChangeDataFile]] = {}
    for info in infos:
        if not info.path.endswith(file_names.CHANGE_DATA):
            continue
        parsed = file_names.parse(file_names.as_log_file(info.path), info.size_bytes)
        if isinstance(parsed, files.LogFile):
            found = by_partition.setdefault(parsed.group.partition_path, [])
            found.append(replace(parsed, name=info.name))
    return by_partition


class With:
    """A listing with more files than there are, whose sizes are not known."""

    def __init__(self, there: Listing, more: Iterable[str]) -> None:
        """Take a listing, and paths of other data files; what is none is left out."""
        self._there = there
        self._more: dict[str, list[DataFile]] = {}
        for path in more:
            parsed = file_names.parse(path, 0)
            if parsed is not None:
                self._more.setdefault(parsed.group.partition_path, []).append(parsed)

    def partitions(self) -> list[str]:
        """Return the partition paths, sorted."""
        return sorted({*self._there.partitions(), *self._more})

    def files(self, partition_path: str) -> list[DataFile]:
        """Return the data files of a partition, sorted by name."""
        found = [*self._there.files(partition_path), *self._more.get(partition_path, ())]
        return sorted(found, key=lambda each: each.name)

    def change_data(self, partition_path: str) -> list[ChangeDataFile]:
        """Return the log files of change data that are there."""
        return self._there.change_data(partition_path)

    def is_partition(self, partition_path: str) -> bool:
        """Return whether a partition has its metadata file, or another file."""
        return partition_path in self._more or self._there.is_partition(partition_path)

    def partitions_among(self, paths: Collection[str]) -> list[str]:
        """Return which of a few paths are partitions, sorted."""
        there = self._there.partitions_among(paths)
        return sorted({*there, *self._more.keys() & set(paths)})

    def hashing_configs(self) -> list[str]:
        """Return the paths of the files with bucket counts by partition."""
        return self._there.hashing_configs()
