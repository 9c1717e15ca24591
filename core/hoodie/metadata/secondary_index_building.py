"""Building a secondary index beside running writers (`index_building`).

The pairs of value and record key of all rows as of the build's time, by slices; through scratch
space into a part for each file group of the index, which is sorted and written. What writers
complete later they log: by requested times that may be earlier, but always on top of these pairs.

Memory: the pairs of one file group of the index, and of the slices that are read at once some
pieces. Source: `SecondaryIndexRecordGenerationUtils.java` (readSecondaryKeysFromFileSlices);
protocol.md: Indexes built beside writers.
"""

import functools
import itertools
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from hoodie.filegroup import (
    held_keys,
    metadata_merging,
    metadata_records,
    metadata_writing,
    placing,
    snapshots,
    stored_keys,
)
from hoodie.format import file_names, secondary_keys
from hoodie.metadata import build_progress, index_steps, initial_keys, partition_making
from hoodie.model import commits, files, secondary_indexes
from hoodie.storage import scratch
from hoodie.transaction.client import Client

_SPILLED_BYTES = 64 << 20
_PIECE_ROWS = 1 << 16


def write(
    client: Client,
    begun: index_steps.Begun,
    snapshot: snapshots.Snapshot,
    reporter: build_progress.Reporter,
) -> Iterator[commits.WriteStat]:
    """Write the base files of secondary indexes; each is yielded as soon as it is there.

    Args:
        client: Of the process that builds.
        begun: The build.
        snapshot: Of the timeline on which it began.
        reporter: Is told what is done.

    Raises:
        NotFoundError: A file was removed meanwhile.
        FormatError: A data file is broken.
        StorageError: The storage failed, or the scratch folder is full.
    """
    return itertools.chain.from_iterable(
        _written(client, begun, snapshot, reporter, definition, count)
        for definition, count in begun.secondary.items()
    )


def _written(
    client: Client,
    begun: index_steps.Begun,
    snapshot: snapshots.Snapshot,
    reporter: build_progress.Reporter,
    definition: secondary_indexes.Definition,
    count: int,
) -> Iterator[commits.WriteStat]:
    groups = partition_making.groups(definition.partition, count)
    with scratch.Parts(client.settings.scratch_folder, count, _SPILLED_BYTES) as parts:
        _spill(client, begun, snapshot, reporter, definition, parts)
        for number, group in enumerate(groups):
            reporter.count(f"writing {definition.partition}", number, count, "file groups")
            pieces = list(parts.tables(number))
            found = pa.concat_tables([_KEYS.empty_table(), *pieces]).column("key")
            keys = pc.unique(found).sort()
            if len(keys):
                yield metadata_writing.write_base(
                    index_steps.beside(client),
                    group,
                    begun.time,
                    file_names.write_token(0, begun.opened.stage, 0),
                    _records(keys),
                    client.clock.now_ms(),
                )


_KEYS = pa.schema([("key", pa.binary())])


def _spill(
    client: Client,
    begun: index_steps.Begun,
    snapshot: snapshots.Snapshot,
    reporter: build_progress.Reporter,
    definition: secondary_indexes.Definition,
    parts: scratch.Parts,
) -> None:
    """Put the pairs of all rows into the parts of the index's file groups."""
    view = snapshot.view
    slices = [each for path in view.partitions() for each in view.latest_slices(path)]
    source = held_keys.KeySource(
        client.storage, begun.config, begun.schema, snapshot.committed.is_committed
    )

    def read(file_slice: files.FileSlice, memory: placing.Memory) -> Iterator[pa.Array]:
        for rows in stored_keys.rows_of_slice(source, file_slice, memory, [definition.column]):
            yield secondary_keys.of_rows(definition.column, rows)

    count = functools.partial(reporter.count, f"reading {definition.column}")
    for _, keys in initial_keys.read_all(client, slices, read, count):
        hashed = secondary_keys.prefixes_of(keys) if definition.is_hashed_by_value else keys
        rows = pa.table([keys.cast(pa.binary())], _KEYS)
        parts.add(rows, metadata_records.places(hashed, len(parts)))
    parts.flush()


def _records(keys: pa.Array) -> Iterator[pa.Table]:
    for first in range(0, len(keys), _PIECE_ROWS):
        piece = keys.slice(first, _PIECE_ROWS)
        records = pa.repeat(secondary_keys.RECORD, len(piece))
        yield pa.table([piece, records], metadata_merging.SCHEMA)
