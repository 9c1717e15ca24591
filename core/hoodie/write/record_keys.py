"""The keys of a write to a table with a record index, which holds each key once.

That is once in the whole table, or once in each partition, whose keys are others then.

    look up   before the lock: in which file group the index has each key that the write touched
    settle    in the lock scope: with what others have logged since; what the index has to learn
              is left

A key that is in another file group there is refused: a reader that asks the index would not find
its older row any more. Where the older row came meanwhile, that is a conflict. But the write may
take the key out of that file group itself (`write.partition_moves`): the index learns its new one.

Keys of file groups that the write retires are taken out, but for those that it writes again.

While the index is being built nothing can be looked up there. A write logs all keys that it has
brought, and takes out those alone that certainly were where it took them from: keys that its log
files delete are looked up in their file groups before the lock. The builder finds keys that are in
two file groups (`metadata.record_index_building`).

The newest record of a key counts in the order of requested times. So a write gives way to one that
began later, was faster, and took out a key that it brings: its record would lie below.

Requests: those of `RecordIndex.locations` before the lock; in the lock scope, where others have
changed the index since the write began, two listings and a read for each of their log files.
Source: rules-chain-metadata-index MD5; protocol.md: The metadata table.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie import deferred, errors
from hoodie.filegroup import metadata_records, metadata_table, snapshots
from hoodie.model import commits, files, instants, key_changes, schemas, table_config
from hoodie.model.key_changes import NOWHERE
from hoodie.storage import protocol
from hoodie.timeline import active, index_definitions
from hoodie.transaction import lifecycle, table_lock
from hoodie.transaction.client import OpenAction
from hoodie.write import replacements

with deferred.imports():
    from hoodie.filegroup import held_keys, record_index

_NAMED_MAX = 5
_TRIES_MAX = 5

_Numbers = npt.NDArray[np.int64]

NO_KEYS: Mapping[files.FileGroupId, pa.Array] = MappingProxyType({})
"""Those of a write that retires no file group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Claims:
    """What a write says of keys.

    Attributes:
        keys: Texts; of one file group each once.
        numbers: For each that of its file group, ascending.
    """

    keys: pa.Array
    numbers: _Numbers

    @classmethod
    def of(cls, pieces: Sequence[pa.Array]) -> _Claims:
        """Return the claims of file groups in their order."""
        each_once = [pc.unique(piece) for piece in pieces]
        lengths = [len(piece) for piece in each_once]
        return cls(
            keys=pa.concat_arrays([pa.array([], pa.string()), *each_once]),
            numbers=np.repeat(np.arange(len(pieces), dtype=np.int64), lengths),
        )

    def pieces(self, kept: npt.NDArray[np.bool_], count: int) -> list[pa.Array]:
        """Return those that are kept, by file group."""
        ends = np.searchsorted(self.numbers, np.arange(count), side="right").tolist()
        found = []
        for start, end in zip([0, *ends], ends, strict=False):
            of_group = self.keys.slice(start, end - start)
            found.append(of_group.filter(pa.array(kept[start:end])))
        return found


_Missing: TypeAlias = Callable[[Collection[files.FileGroupId]], Collection[files.FileGroupId]]


class RecordKeys:
    """The keys of a write, looked up in the record index."""

    def __init__(
        self,
        storage: protocol.Storage,
        stats: Sequence[commits.WriteStat],
        retired: Mapping[files.FileGroupId, pa.Array] = NO_KEYS,
        threads: int = 1,
        looked_up: Sequence[key_changes.LookedUp] = (),
    ) -> None:
        """Look the keys up.

        Args:
            storage: The table's.
            stats: Of the write, with keys.
            retired: The keys in file groups that it retires.
            threads: That read the index.
            looked_up: What the write has looked up there since it began.

        Raises:
            InvalidInputError: The write puts a key into two file groups.
            WriteConflictError: The index changed during each of some look-ups.
            HoodieError: The metadata table is damaged, or the storage failed.
        """
        self._storage = storage
        self._stats = stats
        self._threads = threads
        self._looked_up = _looked_up(storage, stats, retired, threads, looked_up)

    def settle(
        self, scope: table_lock.LockScope, write: OpenAction
    ) -> metadata_records.SettledKeys:
        """Return the keys that the index has to learn of.

        Args:
            scope: Of the write's completion.
            write: The write.

        Raises:
            WriteConflictError: Another write changed the index for one of the keys meanwhile.
            InvalidInputError: A key is in another file group.
            HoodieError: As at the look-up.
        """
        since = self._since(scope, write)
        try:
            now = self._now(scope, since) if since else None
            missing = functools.partial(self._missing, scope, write)
            settled = [each.settled(write, now, missing) for each in self._looked_up.key_spaces]
        except errors.NotFoundError as error:
            # By a process that has the lock as well, or has it now.
            raise errors.WriteConflictError(
                f"the metadata table of {self._storage.uri} was compacted meanwhile, expected "
                f"that of this lock scope: write the batch again; {error}"
            ) from error
        changes = dict(itertools.chain.from_iterable(each.written for each in settled))
        removed: defaultdict[str, list[pa.Array]] = defaultdict(list)
        for group, keys in itertools.chain.from_iterable(each.removed for each in settled):
            removed[group.partition_path].append(keys)
        return metadata_records.SettledKeys(
            written=tuple(
                stat if stat.keys is None else replace(stat, keys=changes[place])
                for place, stat in enumerate(self._stats)
            ),
            removed={path: pa.concat_arrays(keys) for path, keys in removed.items()},
        )

    def _missing(
        self,
        scope: table_lock.LockScope,
        write: OpenAction,
        groups: Collection[files.FileGroupId],
    ) -> Collection[files.FileGroupId]:
        """Return those of some file groups that the table does not have; a listing.

        An index may have keys without a row in file groups that were replaced since.
        """
        paths = {each.partition_path for each in groups}
        snapshot = snapshots.take(
            self._storage, write.config, scope.timeline, has_committed_only=True
        )
        there = {each.group for path in paths for each in snapshot.view.latest_slices(path)}
        return set(groups) - there

    def _now(self, scope: table_lock.LockScope, since: frozenset[instants.InstantTime]) -> _Now:
        """Return the index as others have changed it since the write began."""
        table = metadata_table.MetadataTable(self._storage, scope.timeline)
        index = record_index.RecordIndex(table, self._threads)
        now = _Now(
            index=index,
            is_compacted=not self._looked_up.bases.items() <= index.bases.items(),
            since=since,
        )
        if now.index.groups.is_partitioned is not self._looked_up.is_partitioned:
            raise errors.WriteConflictError(
                f"the record index of {self._storage.uri} was made again meanwhile, of another "
                "kind: write the batch again"
            )
        return now

    def _since(
        self, scope: table_lock.LockScope, write: OpenAction
    ) -> frozenset[instants.InstantTime]:
        """Return what has changed the metadata table since the write began.

        Beside other engines an index is made at a time that is no write's, with a log of what
        completed while it was built: above the records of a write that began before.
        """
        assert scope.beside is not None, self._storage.uri
        known = write.timeline.write_completion_times
        writes = scope.timeline.write_completion_times
        return frozenset(
            each.requested_time
            for each in scope.beside.completed_writes
            if each.action is instants.Action.DELTA_COMMIT
            and each.requested_time not in known
            and each.requested_time != write.requested_time
            and (each.requested_time in writes or each.requested_time > write.requested_time)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Now:
    """The index in the lock scope.

    Attributes:
        index: The index.
        is_compacted: Whether it was compacted since the look-up, or built again.
        since: What has changed it since the write began.
    """

    index: record_index.RecordIndex
    is_compacted: bool
    since: frozenset[instants.InstantTime]


@dataclass(frozen=True, slots=True, kw_only=True)
class _LookedUp:
    """What a write says of keys, and where they were.

    Attributes:
        bases: As of `RecordIndex.bases`.
        is_partitioned: Whether the index is one of each partition.
        key_spaces: The keys by where one is once.
    """

    bases: Mapping[str, instants.InstantTime]
    is_partitioned: bool
    key_spaces: Sequence[_KeySpace]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Settled:
    """What the index has to learn of keys.

    Attributes:
        written: What becomes of those of the write's stats, by the places of these.
        removed: Those that are gone with retired file groups.
    """

    written: Sequence[tuple[int, key_changes.KeyChanges]]
    removed: Sequence[tuple[files.FileGroupId, pa.Array]]


class _KeySpace:
    """The keys of a write in the whole table, or in a partition, whose index is one of each."""

    def __init__(
        self,
        index: record_index.RecordIndex,
        key_space: str | None,
        stats: Mapping[int, commits.WriteStat],
        retired: Mapping[files.FileGroupId, pa.Array],
        known: key_changes.LookedUp | None,
    ) -> None:
        """Look the keys up.

        Args:
            index: The index.
            key_space: As of `index_groups.IndexGroups.key_space`.
            stats: Of the write, by their places among all.
            retired: The keys in file groups that the write retires.
            known: What has been looked up of the same index.
        """
        self._source = index.groups.source
        self._key_space = key_space
        self._stats = stats
        self._numbers: dict[files.FileGroupId, int] = {}
        keys = [stat.keys or key_changes.NONE for stat in stats.values()]
        self._groups = [
            files.FileGroupId(each.partition_path, each.file_id) for each in stats.values()
        ]
        self._retired_groups = list(retired)
        for group in [*self._groups, *self._retired_groups]:
            self._numbers.setdefault(group, len(self._numbers))
        self._added = _Claims.of([each.added for each in keys])
        self._removed = _Claims.of([each.removed for each in keys])
        self._retired = _Claims.of(list(retired.values()))
        self._touched = pa.concat_arrays([self._added.keys, self._removed.keys, self._retired.keys])
        self._refuse_twice()
        if known is None:
            self._located = index.locations(key_space, self._touched)
            return
        is_known = pc.is_in(self._touched, value_set=known.locations.keys)
        others = self._touched.filter(pc.invert(is_known))
        self._located = known.locations
        if len(others):
            self._located = known.locations.and_those_of(index.locations(key_space, others))

    def settled(self, write: OpenAction, now: _Now | None, missing: _Missing) -> _Settled:
        """Return the keys that the index has to learn of.

        Args:
            write: The write.
            now: The index; None if no other has changed it since the write began.
            missing: Returns those of some file groups that the table does not have.
        """
        located, logged = self._located, None
        if now is not None:
            if now.is_compacted:
                located = now.index.locations(self._key_space, self._touched)
            logged = now.index.logged_by(self._key_space, now.since, self._touched)
            self._refuse_below(write, logged)
        known_added = self._known(self._added, located, logged)
        # What was in a retired file group is in none, before it is written again.
        retired = [self._numbers[group] for group in self._retired_groups]
        known_added[np.isin(known_added, retired)] = NOWHERE
        is_moving = self._is_moving(known_added)
        if logged is not None:
            self._refuse_moving_below(write, logged, self._added.keys.filter(pa.array(is_moving)))
        known_added[is_moving] = NOWHERE
        self._forget_missing(known_added, missing)
        self._refuse_elsewhere(write, known_added, is_certain=logged is None)
        known_removed = self._known(self._removed, located, logged)
        added = self._added.pieces(known_added == NOWHERE, len(self._stats))
        is_brought = pc.is_in(self._removed.keys, value_set=self._added.keys)
        is_gone = known_removed == self._claimed(self._removed)
        is_gone &= ~is_brought.to_numpy(zero_copy_only=False)
        removed = self._removed.pieces(is_gone, len(self._stats))
        return _Settled(
            written=[
                (place, key_changes.KeyChanges(added=each, removed=gone))
                for place, each, gone in zip(self._stats, added, removed, strict=True)
            ],
            removed=self._gone(self._known(self._retired, located, logged)),
        )

    def _is_moving(self, known: _Numbers) -> npt.NDArray[np.bool_]:
        """Return which of the keys that are added are taken out of the file group they are in."""
        found = np.zeros(len(known), np.bool_)
        removed_from = self._claimed(self._removed)
        for number in np.intersect1d(known, removed_from).tolist():
            removed = self._removed.keys.filter(pa.array(removed_from == number))
            is_removed = pc.is_in(self._added.keys, value_set=removed)
            found |= (known == number) & is_removed.to_numpy(zero_copy_only=False)
        return found

    def _forget_missing(self, known: _Numbers, missing: _Missing) -> None:
        """Have keys that are added be nowhere, if their file group is not there any more."""
        elsewhere = np.setdiff1d(known[known != self._claimed(self._added)], [NOWHERE])
        if not len(elsewhere):
            return
        groups = {group: number for group, number in self._numbers.items() if number in elsewhere}
        gone = [groups[group] for group in missing(groups.keys())]
        known[np.isin(known, gone)] = NOWHERE

    def _gone(self, known: _Numbers) -> list[tuple[files.FileGroupId, pa.Array]]:
        """Return the keys that are in no file group any more, of those that were retired."""
        numbers = np.array([self._numbers[group] for group in self._retired_groups], np.int64)
        is_there = known == numbers[self._retired.numbers]
        is_written = pc.is_in(self._retired.keys, value_set=self._added.keys)
        is_gone = is_there & ~is_written.to_numpy(zero_copy_only=False)
        pieces = self._retired.pieces(is_gone, len(numbers))
        return list(zip(self._retired_groups, pieces, strict=True))

    def _claimed(self, claims: _Claims) -> _Numbers:
        """Return the numbers of the file groups that claims of stats are of."""
        numbers = np.array([self._numbers[group] for group in self._groups], np.int64)
        return np.asarray(numbers[claims.numbers], np.int64)

    def _known(
        self,
        claims: _Claims,
        located: key_changes.Locations,
        logged: record_index.Logged | None = None,
    ) -> _Numbers:
        """Return the numbers of the file groups that the index has keys in."""
        found = self._renumbered(located, claims.keys)
        if logged is None:
            return found
        is_logged = pc.is_in(claims.keys, value_set=logged.locations.keys)
        return np.where(
            is_logged.to_numpy(zero_copy_only=False),
            self._renumbered(logged.locations, claims.keys),
            found,
        )

    def _renumbered(self, located: key_changes.Locations, keys: pa.Array) -> _Numbers:
        for group in located.groups:
            self._numbers.setdefault(group, len(self._numbers))
        numbers = np.array([*(self._numbers[group] for group in located.groups), NOWHERE], np.int64)
        return np.asarray(numbers[located.of(keys)], np.int64)

    def _refuse_twice(self) -> None:
        claimed = pa.table([self._added.keys, self._claimed(self._added)], ["key", "group"])
        found = claimed.group_by("key").aggregate([("group", "min"), ("group", "max")])
        twice = found.filter(pc.not_equal(found.column("group_min"), found.column("group_max")))
        if not twice.num_rows:
            return
        raise errors.InvalidInputError(
            f"the batch has {_names(twice.column('key'))} in two file groups, "
            f"{self._place(twice.column('group_min')[0].as_py())} and "
            f"{self._place(twice.column('group_max')[0].as_py())} among them; expected each key in "
            f"one of them: {self._source} holds a key {self._once}"
        )

    def _refuse_elsewhere(
        self,
        write: OpenAction,
        known: _Numbers,
        *,
        is_certain: bool,
    ) -> None:
        claimed = self._claimed(self._added)
        elsewhere = (known != NOWHERE) & (known != claimed)
        if not elsewhere.any():
            return
        first = int(np.flatnonzero(elsewhere)[0])
        message = (
            f"{_names(self._added.keys.filter(pa.array(elsewhere)))} cannot be written to "
            f"{self._place(int(claimed[first]))}: {self._source} has it in "
            f"{self._place(int(known[first]))}, and holds a key {self._once}"
        )
        if not is_certain:
            # Perhaps only since the write began: written again it finds out.
            raise errors.WriteConflictError(f"{message}; write the batch of {write.inflight} again")
        raise errors.InvalidInputError(
            f"{message}; delete it there first, or drop the index: "
            f"`hoodie index drop {key_changes.RECORD_INDEX}`"
        )

    def _refuse_below(self, write: OpenAction, logged: record_index.Logged) -> None:
        """Refuse keys that a later write took out which was faster."""
        is_later = pc.greater(logged.times, write.requested_time)
        is_gone = pa.array(logged.locations.numbers == NOWHERE)
        gone = logged.locations.keys.filter(pc.and_(is_later, is_gone))
        below = self._added.keys.filter(pc.is_in(self._added.keys, value_set=gone))
        if len(below):
            raise errors.WriteConflictError(
                f"{_names(below)}, which {write.inflight} brings, was deleted according to "
                f"{self._source} by a write that began later and completed first, or before the "
                "index was built that began later: write the batch again, on what the table holds "
                "now"
            )

    def _refuse_moving_below(
        self, write: OpenAction, logged: record_index.Logged, moving: pa.Array
    ) -> None:
        """Refuse keys that the write moves, and of which there is a later record."""
        later = logged.locations.keys.filter(pc.greater(logged.times, write.requested_time))
        below = moving.filter(pc.is_in(moving, value_set=later))
        if len(below):
            raise errors.WriteConflictError(
                f"{_names(below)}, which {write.inflight} moves, has a record in {self._source} of "
                "a write or a build that began later and completed first: write the batch again, "
                "on what the table holds now"
            )

    @property
    def _once(self) -> str:
        return "once" if self._key_space is None else "once in a partition"

    def _place(self, number: int) -> str:
        return str(next(group for group, each in self._numbers.items() if each == number))


def settling(
    storage: protocol.Storage,
    schema: schemas.TableSchema,
    retired: Collection[files.FileGroupId],
    threads: int,
    looked_up: Sequence[key_changes.LookedUp] = (),
) -> lifecycle.Settling:
    """Return what looks up the keys of a write before its lock scope.

    That returns what settles them when the write completes; None without a record index. While one
    of the whole table is built, keys that log files delete are looked up in their own file groups:
    a log file may delete a key that is in another one, whose record must stay. Errors are those of
    `RecordKeys`.

    Args:
        storage: The table's.
        schema: The columns that files of the table have.
        retired: The file groups that the write retires, whose keys are read.
        threads: Look into several files, and read the index.
        looked_up: What the write has looked up in the index since it began.
    """

    def look_up(
        config: table_config.TableConfig, stats: Sequence[commits.WriteStat]
    ) -> lifecycle.Settlement | None:
        if key_changes.RECORD_INDEX not in config.metadata_partitions_kept_up:
            return None
        keys = NO_KEYS
        if retired:
            keys = replacements.keys_of(storage, config, schema, retired, threads)
        if key_changes.RECORD_INDEX in config.metadata_partitions:
            return RecordKeys(storage, stats, keys, threads, looked_up).settle
        held = _with_held(storage, schema, config, stats)

        def settle(scope: table_lock.LockScope, write: OpenAction) -> metadata_records.SettledKeys:
            del scope, write
            # Only in the scope: before, an index of the other kind may have been built.
            is_partitioned = index_definitions.is_partitioned(storage)
            return while_built(
                stats if is_partitioned else held, keys, is_partitioned=is_partitioned
            )

        return settle

    return look_up


def while_built(
    stats: Sequence[commits.WriteStat],
    retired: Mapping[files.FileGroupId, pa.Array] = NO_KEYS,
    *,
    is_partitioned: bool = False,
) -> metadata_records.SettledKeys:
    """Return the keys that an index has to learn of which is being built.

    In an index of each partition a delete is of the record of its own, whose file groups are that
    of the key's bucket, or have been looked through.

    Args:
        stats: Of the write, with keys: those removed had their row there.
        retired: The keys in file groups that it retires.
        is_partitioned: Whether the index is one of each partition.
    """
    keys = [stat.keys or key_changes.NONE for stat in stats]
    brought: defaultdict[str | None, list[pa.Array]] = defaultdict(list)
    for stat, each in zip(stats, keys, strict=True):
        brought[stat.partition_path if is_partitioned else None].append(each.added)

    def gone(partition_path: str, taken_out: pa.Array) -> pa.Array:
        added = brought[partition_path if is_partitioned else None]
        kept = pc.is_in(taken_out, value_set=pa.concat_arrays([pa.array([], pa.string()), *added]))
        return taken_out.filter(pc.invert(kept))

    removed: defaultdict[str, list[pa.Array]] = defaultdict(list)
    for group, held in retired.items():
        removed[group.partition_path].append(gone(group.partition_path, held))
    return metadata_records.SettledKeys(
        written=[
            replace(
                stat,
                keys=key_changes.KeyChanges(
                    added=each.added,
                    removed=gone(stat.partition_path, each.removed),
                ),
            )
            for stat, each in zip(stats, keys, strict=True)
        ],
        removed={path: pa.concat_arrays(arrays) for path, arrays in removed.items()},
    )


def _is_doubtful(config: table_config.TableConfig, stat: commits.WriteStat) -> bool:
    """Return whether a file may say that it took out keys that are in another file group.

    A base file says what the one had that it replaced, and with a global index each key was looked
    up in all partitions.
    """
    has_removed = stat.keys is not None and len(stat.keys.removed) > 0
    return has_removed and bool(stat.log_files) and not config.has_global_index


def _with_held(
    storage: protocol.Storage,
    schema: schemas.TableSchema,
    config: table_config.TableConfig,
    stats: Sequence[commits.WriteStat],
) -> Sequence[commits.WriteStat]:
    """Return stats with those keys as removed that had a row in their file group before.

    Others have not changed it since, or the write is refused for that. Of a file group whose files
    are gone by now none is.
    """
    if not any(_is_doubtful(config, stat) for stat in stats):
        return stats
    snapshot = snapshots.take(storage, config, has_committed_only=True)
    source = held_keys.KeySource(storage, config, schema, snapshot.committed.is_committed)

    def looked_up(stat: commits.WriteStat) -> commits.WriteStat:
        if stat.keys is None or not _is_doubtful(config, stat):
            return stat
        removed = pc.unique(stat.keys.removed)
        is_there = np.zeros(len(removed), np.bool_)
        with contextlib.suppress(errors.NotFoundError):
            for each in snapshot.view.latest_slices(stat.partition_path):
                if each.group.file_id == stat.file_id:
                    is_there = held_keys.live(source, each, removed)
        keys = replace(stat.keys, removed=removed.filter(pa.array(is_there)))
        return replace(stat, keys=keys)

    return [looked_up(stat) for stat in stats]


def _looked_up(
    storage: protocol.Storage,
    stats: Sequence[commits.WriteStat],
    retired: Mapping[files.FileGroupId, pa.Array],
    threads: int,
    looked_up: Sequence[key_changes.LookedUp],
) -> _LookedUp:
    """Return where the keys of a write are, in whichever state since it began."""
    missing: errors.NotFoundError | None = None
    for _ in range(_TRIES_MAX):
        table = metadata_table.MetadataTable(storage, active.listed(storage))
        try:
            index = record_index.RecordIndex(table, threads)
            by_key_space: defaultdict[str | None, dict[int, commits.WriteStat]] = defaultdict(dict)
            for place, stat in enumerate(stats):
                by_key_space[index.groups.key_space(stat.partition_path)][place] = stat
            known = {each.key_space: each for each in looked_up if each.bases == index.bases}
            gone: defaultdict[str | None, dict[files.FileGroupId, pa.Array]] = defaultdict(dict)
            for group, keys in retired.items():
                gone[index.groups.key_space(group.partition_path)][group] = keys
            return _LookedUp(
                bases=index.bases,
                is_partitioned=index.groups.is_partitioned,
                key_spaces=[
                    _KeySpace(index, each, by_key_space[each], gone[each], known.get(each))
                    for each in dict.fromkeys([*by_key_space, *gone])
                ],
            )
        except errors.NotFoundError as error:
            missing = error  # Compactions have replaced it.
    raise errors.WriteConflictError(
        f"the metadata table of {storage.uri} was compacted during each of {_TRIES_MAX} look-ups "
        f"of keys: write the batch again; {missing}"
    )


def _names(keys: pa.Array | pa.ChunkedArray) -> str:
    named = ", ".join(repr(key) for key in keys.slice(0, _NAMED_MAX).to_pylist())
    rest = len(keys) - _NAMED_MAX
    noun = "key" if len(keys) == 1 else "keys"
    return f"{noun} {named}" + (f" and {rest} more" if rest > 0 else "")
