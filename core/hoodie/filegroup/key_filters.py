"""What the metadata table's bloom filters say of keys: which file slices may hold one of them.

A base file without any of the keys is left out of a read, if its slice has no changes on top: a
log file may bring any key. Where the metadata table has no filter of a base file, or one that is
not understood, it may hold every key.

Requests: of the file groups of the partition `bloom_filters` that the filters are in, a listing,
their log files, and the blocks of their base files with a filter each. A filter is as long as a
base file of ten thousand short rows, so they are not asked where that is more than there is to
read.

Source: `HoodieMetadataBloomFilterProbingFunction.java` (1.2.0).
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import pyarrow as pa

from hoodie import deferred, errors
from hoodie.filegroup import metadata_table
from hoodie.format import metadata_avro
from hoodie.format.bloom_filters import Filter
from hoodie.model import file_statistics, files

with deferred.imports():
    from hoodie.filegroup import metadata_records


def may_hold(
    table: metadata_table.MetadataTable, slices: Sequence[files.FileSlice], keys: pa.Array
) -> list[bool]:
    """Return for each file slice whether it may hold one of some keys.

    Args:
        table: The metadata table, which has `bloom_filters`.
        slices: Of any partitions.
        keys: Record keys, none of them null.

    Raises:
        FormatError: The partition is damaged.
        UnsupportedError: It has something that is not read.
    """
    found = [True] * len(slices)
    asked = {
        place: metadata_avro.bloom_filter_key(each.group.partition_path, each.base_file.name)
        for place, each in enumerate(slices)
        if each.base_file is not None and not each.is_changed
    }
    for group, places in _by_group(table, asked).items():
        if not _is_worth_it(group, [slices[place] for place in places]):
            continue
        filters = table.of_slices([group])
        for place in places:
            found[place] = _may_hold(filters, asked[place], keys)
    return found


def _by_group(
    table: metadata_table.MetadataTable, asked: Mapping[int, str]
) -> Mapping[files.FileSlice, Sequence[int]]:
    """Return which of the filters that are asked for each file group of the partition has."""
    groups = table.latest_slices(file_statistics.BLOOM_FILTERS)
    found: defaultdict[files.FileSlice, list[int]] = defaultdict(list)
    if not groups or not asked:
        return found
    of_keys = metadata_records.places(pa.array(asked.values(), pa.string()), len(groups))
    for place, number in zip(asked, of_keys.tolist(), strict=True):
        found[groups[number]].append(place)
    return found


def _is_worth_it(group: files.FileSlice, slices: Sequence[files.FileSlice]) -> bool:
    """Return whether the log files of a group, which are read whole, are less than base files."""
    logged = sum(each.size_bytes for each in group.log_files)
    return logged < sum(each.base_file.size_bytes for each in slices if each.base_file is not None)


def _may_hold(filters: metadata_table.Partition, key: str, keys: pa.Array) -> bool:
    values = filters.values(key)
    if not values:
        return True
    stored = metadata_avro.decode_bloom_filter(values[-1], key)
    if stored is None:
        return True
    try:
        return bool(Filter.decode(stored, key).may_contain(keys).any())
    except errors.UnsupportedError:
        return True
