"""The bloom filters that a metadata table begins with, from the base files on storage.

A filter is 431 kB of text in most files, and 326 kB once it is compressed. So tasks return parts of
the HFiles, each of some filters, and what is not written yet is that of a few tasks. Source:
`HoodieTableMetadataUtil.java` (convertFilesToBloomFilterRecords).
"""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence

import pyarrow as pa

from hoodie.engine.protocol import Engine
from hoodie.filegroup import (
    key_footers,
    listing,
    metadata_merging,
    metadata_records,
    metadata_writing,
)
from hoodie.format import hfile_writing, metadata_avro
from hoodie.model import files
from hoodie.storage.protocol import Storage

FILE_GROUPS = 4

_OF_A_TASK = 2
_TASKS_MIN = 32
_TASKS_PER_CORE = 4
"""So many tasks are done, and what they return is written, before the next ones."""


def by_group(
    data_files: Mapping[str, Sequence[listing.DataFile]],
) -> list[list[files.BaseFile]]:
    """Return the base files that each file group has the filters of, in the order of their keys.

    Args:
        data_files: Those that count, by partition path.
    """
    by_key = {
        _key(each): each
        for found in data_files.values()
        for each in found
        if isinstance(each, files.BaseFile)
    }
    keys = sorted(by_key, key=str.encode)
    places = metadata_records.places(pa.array(keys, pa.string()), FILE_GROUPS).tolist()
    found: list[list[files.BaseFile]] = [[] for _ in range(FILE_GROUPS)]
    for key, place in zip(keys, places, strict=True):
        found[place].append(by_key[key])
    return found


def pieces(
    storage: Storage,
    engine: Engine,
    base_files: Sequence[files.BaseFile],
    count: Callable[[int], object],
) -> Iterator[hfile_writing.Run]:
    """Yield the records of base files, compressed; of those that are gone, none.

    Tasks of the engine make all of it, whose length is the same whatever it is.

    Args:
        storage: The data table's.
        engine: Has several tasks at once.
        base_files: In the order of their keys.
        count: Called with how many have been read.

    Raises:
        FormatError: A file is broken.
    """
    every = [base_files[at : at + _OF_A_TASK] for at in range(0, len(base_files), _OF_A_TASK)]
    at_once = max(_TASKS_MIN, _TASKS_PER_CORE * engine.parallelism)
    for first in range(0, len(every), at_once):
        count(first * _OF_A_TASK)
        found = engine.map(functools.partial(_run, storage), every[first : first + at_once])
        yield from (run for run in found if run is not None)


def _run(storage: Storage, base_files: Sequence[files.BaseFile]) -> hfile_writing.Run | None:
    found = (_record(storage, each) for each in base_files)
    records = {key: record for key, record in found if record is not None}
    return metadata_writing.prepare_run(metadata_merging.table(records)) if records else None


def _record(storage: Storage, base_file: files.BaseFile) -> tuple[str, bytes | None]:
    """Return key and record of a base file's bloom filter; no record of a file that is gone."""
    stored = key_footers.read_or_make_filter(storage, base_file.path)
    if stored is None:
        return _key(base_file), None
    return _key(base_file), metadata_avro.encode_bloom_filter(stored, base_file.instant_time)


def _key(base_file: files.BaseFile) -> str:
    return metadata_avro.bloom_filter_key(base_file.group.partition_path, base_file.name)
