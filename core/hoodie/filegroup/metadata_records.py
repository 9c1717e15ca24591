"""What the metadata table (MDT) records of a change of the data table: values, no I/O.

    files  of each partition that is touched the names of new files with their sizes, and of those
           that were deleted; and which partitions there are

Source: `HoodieTableMetadataUtil.java` (convertMetadataToRecords); format.md: Metadata table.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie.filegroup import metadata_table
from hoodie.format import java_hash, metadata_avro
from hoodie.format.metadata_avro import RecordType
from hoodie.model import commits

Records = Mapping[str, Mapping[str, bytes]]
"""Records by partition of the metadata table and by key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What an action does to the data files.

    Attributes:
        written: The new files.
        deleted: Paths of those that are gone, below the table's root.
    """

    written: Sequence[commits.WriteStat] = ()
    deleted: Sequence[str] = ()


def of_changes(changes: Changes, partitions: Iterable[str]) -> Records:
    """Return the records that a change adds to partitions that are kept up."""
    return {name: _RECORDS[name](changes) for name in partitions}


def _files(changes: Changes) -> dict[str, bytes]:
    sizes: defaultdict[str, dict[str, int | None]] = defaultdict(dict)
    for path in changes.deleted:
        partition_path, _, name = path.rpartition("/")
        sizes[metadata_avro.key_of(partition_path)][name] = None
    touched: dict[str, int | None] = {}
    for stat in changes.written:
        key = metadata_avro.key_of(stat.partition_path)
        touched[key] = 0
        sizes[key][stat.path.rpartition("/")[2]] = stat.size_bytes
    found = {key: metadata_avro.encode_sizes(some, RecordType.FILES) for key, some in sizes.items()}
    # Also without any: that it is in `files` shows that a write has reached the metadata table.
    found[metadata_avro.ALL_PARTITIONS] = metadata_avro.encode_sizes(touched, RecordType.PARTITIONS)
    return found


_RECORDS = {metadata_table.FILES: _files}

KEPT = frozenset(_RECORDS)
"""The partitions that are kept up."""


def places(keys: Sequence[str], count: int) -> npt.NDArray[np.int64]:
    """Return which of so many file groups, sorted by their ids, holds each key."""
    hashes = java_hash.string_hash(pa.array(keys, pa.string())).astype(np.int64)
    return np.abs(hashes) % count
