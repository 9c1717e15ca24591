"""Building a secondary index beside running writers (`index_building`).

The pairs of value and record key of all rows as of the build's time, brought together by the file
groups of the index (`initial_parts`), sorted and written. What writers complete later they log: by
requested times that may be earlier, but always on top of these pairs.

Source: `SecondaryIndexRecordGenerationUtils.java` (readSecondaryKeysFromFileSlices); protocol.md:
Indexes built beside writers.
"""

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from hoodie.filegroup import (
    held_keys,
    metadata_merging,
    metadata_records,
    placing,
    snapshots,
    stored_keys,
)
from hoodie.format import file_names, secondary_keys
from hoodie.metadata import build_outlook, index_steps, initial_parts, partition_making
from hoodie.model import commits, files, secondary_indexes
from hoodie.transaction.client import Client

Result = TypeVar("Result")

_PIECE_ROWS = 1 << 16
_KEYS = pa.schema([("key", pa.binary())])


def write(
    client: Client,
    begun: index_steps.Begun,
    snapshot: snapshots.Snapshot,
    slices: Sequence[files.FileSlice],
    runner: initial_parts.Runner,
) -> Iterator[commits.WriteStat]:
    """Write the base files of secondary indexes; each is yielded as soon as it is there.

    Args:
        client: Of the process that builds.
        begun: The build.
        snapshot: Of the timeline on which it began.
        slices: The newest ones there.
        runner: Has the work done.

    Raises:
        NotFoundError: A file was removed meanwhile.
        FormatError: A data file is broken.
        StorageError: The storage failed, or the scratch folder is full.
    """
    source = held_keys.KeySource(
        client.storage, begun.config, begun.schema, snapshot.committed.is_committed
    )
    token = file_names.write_token(0, begun.opened.stage, 0)
    for definition, count in begun.secondary.items():
        groups = partition_making.groups(definition.partition, count)
        writer = initial_parts.BaseWriter.of(client, begun, groups, token)
        work = PairWork(
            source=source,
            definition=definition,
            count=count,
            write=functools.partial(_write, writer),
        )
        for _, stat in runner.by_group(slices, work):
            if stat is not None:
                yield stat


@dataclass(frozen=True, slots=True, kw_only=True)
class PairWork(Generic[Result]):
    """The pairs of all rows, by the file groups of a secondary index (`initial_parts`).

    Attributes:
        source: The table.
        definition: Of the index.
        count: So many file groups it has.
        write: Takes the number of a file group of the index, and its records in order, in pieces.
    """

    source: held_keys.KeySource
    definition: secondary_indexes.Definition
    count: int
    write: Callable[[int, Iterator[pa.Table]], Result]

    @property
    def reading(self) -> str:
        """What the first part is called."""
        return build_outlook.reading_name(self.definition.column)

    @property
    def writing(self) -> str:
        """What the second part is called."""
        return build_outlook.writing_name(self.definition.partition)

    def read(
        self, number: int, file_slice: files.FileSlice, memory: placing.Memory
    ) -> Iterator[initial_parts.Placed]:
        """Yield the pairs of a slice's rows."""
        del number
        column = self.definition.column
        for found in stored_keys.rows_of_slice(self.source, file_slice, memory, [column]):
            keys = secondary_keys.of_rows(column, found)
            hashed = keys
            if self.definition.is_hashed_by_value:
                hashed = secondary_keys.prefixes_of(keys)
            rows = pa.table([keys.cast(pa.binary())], _KEYS)
            yield rows, metadata_records.places(hashed, self.count)

    def finish(self, number: int, pieces: Sequence[pa.Table]) -> Result:
        """Write the pairs of one of the index's file groups."""
        found = pa.concat_tables([_KEYS.empty_table(), *pieces]).column("key")
        return self.write(number, _records(pc.unique(found).sort()))


def _write(
    writer: initial_parts.BaseWriter, number: int, records: Iterator[pa.Table]
) -> commits.WriteStat | None:
    """Write a base file; none without pairs."""
    first = next(records, None)
    return None if first is None else writer.write(number, itertools.chain([first], records))


def _records(keys: pa.Array) -> Iterator[pa.Table]:
    for first in range(0, len(keys), _PIECE_ROWS):
        piece = keys.slice(first, _PIECE_ROWS)
        records = pa.repeat(secondary_keys.RECORD, len(piece))
        yield pa.table([piece, records], metadata_merging.SCHEMA)
