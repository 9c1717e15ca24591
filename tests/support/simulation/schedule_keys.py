"""Record keys of simulated writes, and what the record index has to say of them in the end.

Each bucket has keys of its own. A few keys roam: a write may bring one to any file group, and must
be refused or lose a conflict where another has it. With an index of each partition, that is where
another of the partition has it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import pyarrow as pa

from hoodie.filegroup import metadata_table, record_index
from hoodie.model import commits, files, instants, key_changes
from hoodie.storage.protocol import Storage
from hoodie.timeline import active
from hoodie.transaction.client import Client

_ROAMING = ("r0", "r1")
_ROAMING_RATE = 0.25
_KEYS_OF_A_GROUP = 3

_Key: TypeAlias = tuple[str | None, str]
"""A key, and the partition that it is of in an index of each."""


class Keys:
    """Draws what writes do to keys, and remembers it."""

    def __init__(self, *, has_deletes: bool, is_partitioned: bool = False) -> None:
        self._has_deletes = has_deletes
        self._is_partitioned = is_partitioned
        self.has_roaming = True  # Or no write is refused for its keys.
        self.judged = 0  # How many keys were found in the end.
        self._claims: dict[instants.InstantTime, list[tuple[files.FileGroupId, set[str], set[str]]]]
        self._claims = {}

    def drawn(
        self, writer: Client, time: instants.InstantTime, stats: Sequence[commits.WriteStat]
    ) -> list[commits.WriteStat]:
        """Return the stats of a write with keys that chance chooses."""
        found, claims = [], []
        roaming_at = {
            self._key_space(stat.partition_path): set(_ROAMING if self.has_roaming else ())
            for stat in stats
        }
        for stat in stats:
            roaming = roaming_at[self._key_space(stat.partition_path)]
            group = files.FileGroupId(stat.partition_path, stat.file_id)
            added: set[str] = set()
            removed: set[str] = set()
            for key in self._of_group(group):
                chance = writer.random.uniform()
                if chance < 0.5:
                    added.add(key)
                elif chance < 0.7 and self._has_deletes:
                    removed.add(key)
            for key in sorted(roaming):
                chance = writer.random.uniform()
                if chance < _ROAMING_RATE:
                    added.add(key)
                    roaming.discard(key)
                elif chance < 2 * _ROAMING_RATE and self._has_deletes:
                    removed.add(key)
            claims.append((group, added, removed))
            changes = key_changes.KeyChanges(added=_texts(added), removed=_texts(removed))
            found.append(replace(stat, keys=changes))
        self._claims[time] = claims
        return found

    def check(self, storage: Storage, completed: Sequence[instants.Instant]) -> None:
        """Check that the record index has each key where the writes that completed put it.

        Args:
            storage: The table's.
            completed: In the order of completion.
        """
        expected: dict[_Key, files.FileGroupId] = {}
        for instant in completed:
            for group, added, removed in self._claims.get(instant.requested_time, ()):
                key_space = self._key_space(group.partition_path)
                for key in ((key_space, text) for text in added):
                    at = expected.setdefault(key, group)
                    assert at == group, f"{instant} brings {key} to {group}, which is in {at}"
                for key in ((key_space, text) for text in removed):
                    if expected.get(key) == group:
                        del expected[key]
        found = self._found(storage)
        self.judged += len(found)
        assert found == expected, (
            f"the record index and the writes differ: {found.items() ^ expected.items()}"
        )

    def _key_space(self, partition_path: str) -> str | None:
        return partition_path if self._is_partitioned else None

    def _found(self, storage: Storage) -> Mapping[_Key, files.FileGroupId]:
        keys = {key for claims in self._claims.values() for _, some, _ in claims for key in some}
        keys |= {key for claims in self._claims.values() for _, _, some in claims for key in some}
        table = metadata_table.MetadataTable(storage, active.listed(storage))
        index = record_index.RecordIndex(table)
        found = {}
        for key_space in index.groups.by_key_space:
            located = index.locations(key_space, _texts(keys))
            numbers = zip(located.keys.to_pylist(), located.numbers.tolist(), strict=True)
            found |= {
                (key_space, key): located.groups[number]
                for key, number in numbers
                if number != key_changes.NOWHERE
            }
        return found

    def _of_group(self, group: files.FileGroupId) -> list[str]:
        return [f"{group.file_id[:8]}-{number}" for number in range(_KEYS_OF_A_GROUP)]


def _texts(keys: set[str]) -> pa.Array:
    return pa.array(sorted(keys), pa.string())
