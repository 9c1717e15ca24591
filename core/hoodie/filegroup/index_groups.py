"""Which file groups of a metadata table (MDT) hold the records of a record index.

    record-index-0000-0               of the whole table: a key is in the index once
    record-index-{partition}-0000-0   of one partition: a key is once in each partition of the table

A partition stands there by its path, in which every character that separates parts of a name is
escaped, a hyphen too. A table without partitions has one by an empty path. An index of each
partition has no file groups of a partition until a write makes it.

The table, or the partition, is the key space: a key is in it once, and has its place, by its hash,
among the file groups of the key space, sorted by their ids.

Source: `HoodieTableMetadataUtil.java` (getFileIDForFileGroup, verifyRLIFile,
getDataTablePartitionNameFromFileGroupName), `PartitionPathEncodeUtils.java` (1.2.0).
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from hoodie import errors
from hoodie.filegroup import metadata_table
from hoodie.model import key_changes
from hoodie.storage.protocol import Storage
from hoodie.timeline import index_definitions

_NAMED_MAX = 3
_ESCAPED = frozenset("\"#%'*-/:=?[\\]^_{\x7f") | frozenset(map(chr, range(32)))
_ID = re.compile(r"record-index-(?:(?P<partition>[^-]*)-)?(?P<number>\d{4,})-0", re.ASCII)
_CODE = re.compile(r"%([0-9A-Fa-f]{2})")


@dataclass(frozen=True, slots=True)
class IndexGroups:
    """The file groups of a record index.

    Attributes:
        source: The index, for messages.
        is_partitioned: Whether it is one of each partition.
        by_key_space: Their numbers by the paths of partitions, or all of them by None.
    """

    source: str
    is_partitioned: bool
    by_key_space: Mapping[str | None, AbstractSet[int]]

    @property
    def key_spaces(self) -> Mapping[str, str | None]:
        """The key spaces of all file groups, by their ids."""
        return {
            file_id(key_space, number): key_space
            for key_space, numbers in self.by_key_space.items()
            for number in numbers
        }

    def key_space(self, partition_path: str) -> str | None:
        """Return where a key of a partition is once: there, or in the whole table (None)."""
        return partition_path if self.is_partitioned else None

    def ids(self, key_space: str | None) -> Sequence[str]:
        """Return the ids of the file groups of a key space, sorted; none of a new partition.

        Raises:
            FormatError: Some are missing.
        """
        numbers = self.by_key_space.get(key_space, frozenset())
        if numbers != frozenset(range(len(numbers))):
            raise errors.FormatError(
                f"{self.source} has the file groups {_named(key_space, numbers)}, expected "
                f"{file_id(key_space, 0)} and those that follow"
            )
        return _sorted(key_space, numbers)

    def ids_completed(self, key_space: str | None, shown: AbstractSet[str]) -> Sequence[str]:
        """Return the ids of the file groups that a key space has once a write completes, sorted.

        Those that readers see, if there are some. A new partition gets as many as the one that has
        the fewest, and as writers have begun to give it that did not end.

        Args:
            key_space: Where keys are written to.
            shown: The file groups that readers see.
        """
        if not self.is_partitioned:
            return self.ids(key_space)
        numbers = self.by_key_space.get(key_space, frozenset())
        seen = [each for each in _sorted(key_space, numbers) if each in shown]
        if seen:
            return seen
        # Apache Hudi gives a new one what its writers' options say, and others at least as many.
        count = min(
            (len(each) for at, each in self.by_key_space.items() if at != key_space), default=1
        )
        return _sorted(key_space, range(max(count, 1, *(number + 1 for number in numbers))))


def of(storage: Storage, ids: Iterable[str]) -> IndexGroups:
    """Return the file groups of a table's record index; a request where they do not show its kind.

    That is where there are none, and where a process that was paused has left some of an earlier
    index, of the other kind: the definition says which it is, and the others are left out.

    Args:
        storage: The data table's.
        ids: Those of all file groups that are there.

    Raises:
        FormatError: One is of no record index, or there is none of an index of the whole table.
    """
    source = f"the record index of {storage.uri}"
    by_key_space: defaultdict[str | None, set[int]] = defaultdict(set)
    for each in ids:
        match = _ID.fullmatch(each)
        path = None if match is None else match["partition"]
        key_space = None if path is None else _CODE.sub(_unescaped, path)
        if match is None or file_id(key_space, int(match["number"])) != each:
            raise errors.FormatError(
                f"{source} has the file group {each}, expected {file_id(None, 0)} or "
                f"{file_id('PARTITION', 0)}"
            )
        by_key_space[key_space].add(int(match["number"]))
    kinds = {key_space is not None for key_space in by_key_space}
    is_partitioned = kinds.pop() if len(kinds) == 1 else index_definitions.is_partitioned(storage)
    if not by_key_space and not is_partitioned:
        raise errors.FormatError(f"{source} has no file groups")
    own = {
        key_space: numbers
        for key_space, numbers in by_key_space.items()
        if (key_space is not None) is is_partitioned
    }
    return IndexGroups(source, is_partitioned, own)


def _named(key_space: str | None, numbers: Iterable[int]) -> str:
    return ", ".join(_sorted(key_space, numbers)[:_NAMED_MAX])


def _sorted(key_space: str | None, numbers: Iterable[int]) -> list[str]:
    # In the order of Apache Hudi, which is that of texts.
    return sorted(file_id(key_space, number) for number in numbers)


def file_id(key_space: str | None, number: int) -> str:
    """Return the id of one of the file groups of a key space, which are numbered from 0."""
    within = () if key_space is None else (_escaped(key_space),)
    return metadata_table.file_id(key_changes.RECORD_INDEX, number, *within)


def _escaped(path: str) -> str:
    return "".join(f"%{ord(each):02X}" if each in _ESCAPED else each for each in path)


def _unescaped(match: re.Match[str]) -> str:
    return chr(int(match[1], 16))
