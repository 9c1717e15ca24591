"""Rows go to the file groups that hold their keys, where a key alone does not say which.

    simple, bloom index   of every row: the keys of all file groups of its partition are looked
                          through; what is nowhere is new (`write.inserts`), or a delete of nothing
    global ones           the same, of all partitions (`write.partition_moves`)
    bucket index          of rows whose keys are in file groups of no bucket
                          (`index.foreign_groups`): written into the group of its bucket, such a
                          row would be in the table twice, and a delete would delete nothing

A record index, if the table has one, says where rows are at once. It forgets a key whose row was
deleted, and the base file that has it stays until it is compacted: writers that look into base
files would find the key there and in a new place. So in file groups with log files the keys that
the index does not have are looked for, too.

The table is looked at as it is when this begins, which is later than the write's own begin: what
changes the file groups after the look is a conflict in every mode (`write.conflicts`), and so is
a key that another write has inserted since (`write.inserted_keys`).

A key that several file groups hold is written to each that has a row of it: the table was broken
before. Where one group's row was deleted, and another one's came later, that is the latter alone.

Cost: a snapshot, and `held_keys.held` of each file slice, by the engine.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie import errors
from hoodie.engine import protocol as engine_protocol
from hoodie.filegroup import held_keys, record_index, snapshots
from hoodie.model import files, key_changes
from hoodie.write import batches

logger = logging.getLogger(__name__)

NOWHERE = -1

EVERYWHERE = ""
"""What stands for a partition, where keys are looked for in all of them."""

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A file group that holds some of some keys.

    Attributes:
        file_slice: Its newest slice.
        places: Of which keys, ascending.
    """

    file_slice: files.FileSlice
    places: held_keys.Places


@dataclass(frozen=True, slots=True, kw_only=True)
class Tags:
    """Where the keys of a partition are, or those of all partitions.

    Attributes:
        keys: Texts, each once.
        holders: The file groups that hold some of them. Of several that hold one key, each is to
            be written to.
    """

    keys: pa.Array
    holders: Sequence[Holder]

    def first(self) -> Numbers:
        """Return the number of the first holder of each key, or NOWHERE."""
        found = np.full(len(self.keys), NOWHERE, np.int64)
        for number in reversed(range(len(self.holders))):
            found[self.holders[number].places] = number
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Indexed:
    """Where the keys of partitions are by a record index.

    Attributes:
        tags: Of each partition.
        looked_up: What the index was asked for, which need not be looked up again.
    """

    tags: Mapping[str, Tags]
    looked_up: Sequence[key_changes.LookedUp] = ()


def look_up(
    source: held_keys.KeySource,
    wanted: Mapping[str, pa.Array],
    slices: Mapping[str, Sequence[files.FileSlice]],
    engine: engine_protocol.Engine,
    *,
    has_rows_only: bool = False,
) -> Mapping[str, Tags]:
    """Return where keys are.

    Args:
        source: The table.
        wanted: Keys of each partition, each once.
        slices: The file slices that are looked through, of each partition.
        engine: Runs them.
        has_rows_only: Whether a file group whose row of a key was deleted does not hold it.

    Raises:
        HoodieError: A file cannot be read.
    """
    jobs = [(path, each) for path in wanted for each in slices[path]]

    def find(number: int) -> Holder:
        path, file_slice = jobs[number]
        places = held_keys.held(source, file_slice, wanted[path])
        return Holder(file_slice=file_slice, places=places)

    found: dict[str, list[Holder]] = {path: [] for path in wanted}
    for (path, _), holder in zip(jobs, engine.map(find, range(len(jobs))), strict=True):
        if len(holder.places):
            found[path].append(holder)
    doubtful = 0 if has_rows_only else 1
    tags = {}
    for path, keys in wanted.items():
        counts = np.zeros(len(keys), np.int64)
        for holder in found[path]:
            counts[holder.places] += 1
        settled = _settled(source, keys, found[path], counts > doubtful, engine)
        tags[path] = Tags(
            keys=keys,
            holders=settled if has_rows_only else _with_first(settled, found[path], len(keys)),
        )
    return tags


def by_record_index(
    snapshot: snapshots.Snapshot,
    wanted: Mapping[str, pa.Array],
    slices: Mapping[str, Sequence[files.FileSlice]],
    threads: int,
) -> Indexed | None:
    """Return where keys are by the table's record index; None where that cannot be used.

    A key that is in another partition counts as new in its own; what to do with it is decided when
    the write completes (`write.record_keys`). Arguments as of `look_up`, and the number of threads
    that read the index.
    """
    if snapshot.metadata is None:
        return None
    found: dict[str, Tags] = {}
    looked_up = []
    try:
        index = record_index.RecordIndex(snapshot.metadata, threads)
        key_spaces: dict[str | None, list[str]] = {}
        for path in wanted:
            key_spaces.setdefault(index.groups.key_space(path), []).append(path)
        for key_space, paths in key_spaces.items():
            if not index.groups.ids(key_space) and any(slices[path] for path in paths):
                return None  # A partition that it does not have may have any key.
            keys = pa.concat_arrays([pa.array([], pa.string()), *(wanted[path] for path in paths)])
            located = index.locations(key_space, keys)
            looked_up.append(
                key_changes.LookedUp(key_space=key_space, locations=located, bases=index.bases)
            )
            found |= {path: _located(wanted[path], located, slices[path]) for path in paths}
    except (errors.FormatError, errors.NotFoundError, errors.UnsupportedError) as error:
        logger.warning("%s is not used to find keys: %s", key_changes.RECORD_INDEX, error)
        return None
    return Indexed(tags=found, looked_up=looked_up)


def _located(
    keys: pa.Array, located: key_changes.Locations, slices: Sequence[files.FileSlice]
) -> Tags:
    # A file group has a number for each write that brought keys there.
    numbers = {group: number for number, group in enumerate(located.groups)}
    first = np.array([*(numbers[group] for group in located.groups), NOWHERE], np.int64)
    of_keys = first[located.of(keys)]
    holders = [
        Holder(file_slice=each, places=np.flatnonzero(of_keys == numbers[each.group]))
        for each in slices
        if each.group in numbers
    ]
    return Tags(keys=keys, holders=[each for each in holders if len(each.places)])


def wanted_keys(batch: batches.Batch) -> Mapping[str, pa.Array]:
    """Return the keys of a batch by partition, each once, in the order of their first rows."""
    rows: dict[str, list[Numbers]] = {}
    for group in batch.groups:
        rows.setdefault(group.partition_path, []).append(group.rows)
    return {
        path: pc.unique(batch.record_keys.take(pa.array(np.concatenate(parts))))
        for path, parts in rows.items()
    }


def routed(batch: batches.Batch, tags: Mapping[str, Tags], *, stays: bool) -> batches.Batch:
    """Return a batch with the rows of keys that file groups hold split off.

    Args:
        batch: The batch.
        tags: Where its keys are, by partition.
        stays: Whether such a row stays in the group of its bucket as well.
    """
    groups: list[batches.GroupRows] = []
    split: dict[files.FileGroupId, list[Numbers]] = {}
    for group in batch.groups:
        of_partition = tags.get(group.partition_path)
        if of_partition is None or not of_partition.holders:
            groups.append(group)
            continue
        keys = batch.record_keys.take(pa.array(group.rows))
        places = pc.index_in(keys, value_set=of_partition.keys).to_numpy()
        first = of_partition.first()[places]
        for number, rows in by_number(first, group.rows):
            split.setdefault(of_partition.holders[number].file_slice.group, []).append(rows)
        for holder, more in _more(of_partition):
            rows = group.rows[np.isin(places, more)]
            if len(rows):
                split.setdefault(holder.file_slice.group, []).append(rows)
        left = group.rows if stays else group.rows[first == NOWHERE]
        if len(left):
            groups.append(replace(group, rows=left))
    groups += [
        batches.GroupRows(
            partition_path=holding.partition_path,
            bucket=batches.NO_BUCKET,
            file_id=holding.file_id,
            rows=np.sort(np.concatenate(parts)),
        )
        for holding, parts in split.items()
    ]
    return replace(batch, groups=tuple(groups))


def nowhere(tags: Mapping[str, Tags]) -> Mapping[str, pa.Array]:
    """Return the keys that no file group holds, by partition; of partitions that have such."""
    left = {
        path: each.keys.filter(pa.array(each.first() == NOWHERE)) for path, each in tags.items()
    }
    return {path: keys for path, keys in left.items() if len(keys)}


def joined(tags: Mapping[str, Tags], more: Mapping[str, Tags]) -> Mapping[str, Tags]:
    """Return tags with those of keys that were nowhere, looked up by other means."""
    found = dict(tags)
    for path, others in more.items():
        keys = tags[path].keys
        places = pc.index_in(others.keys, value_set=keys).to_numpy()
        holders = [replace(each, places=np.sort(places[each.places])) for each in others.holders]
        found[path] = Tags(keys=keys, holders=[*tags[path].holders, *holders])
    return found


def by_number(numbers: Numbers, rows: Numbers) -> Iterable[tuple[int, Numbers]]:
    """Yield the rows of each number but NOWHERE, in one pass over them."""
    order = np.argsort(numbers, kind="stable")
    present, starts = np.unique(numbers[order], return_index=True)
    ends = np.append(starts[1:], len(order))
    for number, start, end in zip(present.tolist(), starts, ends, strict=True):
        if number != NOWHERE:
            yield number, rows[order[start:end]]


def _more(tags: Tags) -> Iterable[tuple[Holder, held_keys.Places]]:
    """Yield the keys that a holder has and an earlier one, too."""
    first = tags.first()
    for number, holder in enumerate(tags.holders):
        more = holder.places[first[holder.places] != number]
        if len(more):
            yield holder, more


def _settled(
    source: held_keys.KeySource,
    keys: pa.Array,
    holders: Sequence[Holder],
    doubtful: npt.NDArray[np.bool_],
    engine: engine_protocol.Engine,
) -> list[Holder]:
    """Return the holders, of doubtful keys only as far as they have a row of them."""

    def settle(holder: Holder) -> Holder:
        in_doubt = holder.places[doubtful[holder.places]]
        if not len(in_doubt) or not holder.file_slice.log_files:
            return holder
        lives = held_keys.live(source, holder.file_slice, keys.take(pa.array(in_doubt)))
        return replace(holder, places=np.setdiff1d(holder.places, in_doubt[~lives]))

    return engine.map(settle, holders)


def _with_first(settled: Sequence[Holder], found: Sequence[Holder], count: int) -> Sequence[Holder]:
    """Return the holders with the first that was found of each key that none has a row of."""
    is_held = np.zeros(count, np.bool_)
    for holder in settled:
        is_held[holder.places] = True
    kept = []
    for before, after in zip(found, settled, strict=True):
        first = before.places[~is_held[before.places]]
        is_held[first] = True
        kept.append(replace(after, places=np.union1d(after.places, first)))
    return kept
