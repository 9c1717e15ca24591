"""Rows of all file slices, brought together by the file groups of an index that is built.

    read      some columns of a slice's rows, and which file group of the index each belongs to
    finish    all rows of a file group of the index: put in order, and written

An engine of this process reads slices by threads, whose rows go through scratch space. One whose
tasks run elsewhere has both done by tasks, which exchange the rows: a task of each slice, and one
of each file group of the index. What comes of them is the same, to the byte.

Memory: the rows of one file group of the index, and pieces of the slices that are read at once; a
task that runs elsewhere has what it reads of one slice. Source: `SparkHoodieIndexClient.java`.
"""

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie import errors
from hoodie.engine import ahead
from hoodie.engine.protocol import Engine
from hoodie.filegroup import metadata_writing, placing
from hoodie.metadata import build_progress, index_steps
from hoodie.model import commits, files, instants
from hoodie.storage import protocol, scratch
from hoodie.timeline import metadata_timelines
from hoodie.transaction.client import Client

Result_co = TypeVar("Result_co", covariant=True)
Found = TypeVar("Found")

Placed = tuple[pa.Table, npt.NDArray[np.int64]]
"""Rows, and for each the number of its file group of the index."""

_SPILLED_BYTES = 64 << 20
_WAITING_BYTES = 64 << 20
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


class Work(Protocol[Result_co]):
    """What is done with the slices of a table; it pickles.

    Attributes:
        count: So many file groups the index has.
        reading: What the first part is called.
        writing: What the second part is called.
    """

    @property
    def count(self) -> int: ...  # noqa: D102 - see above

    @property
    def reading(self) -> str: ...  # noqa: D102 - see above

    @property
    def writing(self) -> str: ...  # noqa: D102 - see above

    def read(
        self, number: int, file_slice: files.FileSlice, memory: placing.Memory
    ) -> Iterator[Placed]:
        """Yield what is needed of a slice's rows, in pieces of one schema.

        Args:
            number: Of the slice, in the order of all.
            file_slice: The slice.
            memory: What a merge may use.
        """
        ...

    def finish(self, number: int, pieces: Sequence[pa.Table]) -> Result_co:
        """Return what the rows of one file group of the index come to.

        Args:
            number: Of the file group.
            pieces: In the order of the slices; none if it has no rows.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """Has the work of a build done.

    Attributes:
        client: Of the process that builds: its threads, memory and scratch space.
        engine: Does it elsewhere, if its tasks run there.
        reporter: Is told how far it is.
    """

    client: Client
    engine: Engine
    reporter: build_progress.Reporter

    def by_group(
        self, slices: Sequence[files.FileSlice], work: Work[Found]
    ) -> Iterator[tuple[int, Found]]:
        """Yield what the file groups of an index come to, with their numbers, in this order.

        Args:
            slices: All slices of the table.
            work: What is done.

        Raises:
            NotFoundError: A file was removed meanwhile.
            FormatError: A data file is broken.
            StorageError: The storage failed, or the scratch folder is full.
            HoodieError: As of the work.
        """
        if self.engine.is_distributed:
            yield from self._exchanged(slices, work)
            return
        folder = self.client.settings.scratch_folder
        with scratch.Parts(folder, work.count, _SPILLED_BYTES) as parts:
            for rows, numbers in self._read(slices, work):
                parts.add(rows, numbers)
            parts.flush()
            for number in range(work.count):
                self.reporter.count(work.writing, number, work.count, "file groups")
                yield number, work.finish(number, list(parts.tables(number)))

    def _read(self, slices: Sequence[files.FileSlice], work: Work[Found]) -> Iterator[Placed]:
        """Yield what is read of slices, several at once."""
        threads = self.client.parallelism
        memory = self._memory(threads)

        def pieces(number: int) -> Iterator[tuple[int, Placed]]:
            for piece in work.read(number, slices[number], memory):
                yield number, piece

        def size(piece: tuple[int, Placed]) -> int:
            _, (rows, numbers) = piece
            return int(rows.nbytes + numbers.nbytes)

        bound = ahead.Bound(size_of=size, size_max=_WAITING_BYTES)
        counted = -1
        for number, piece in ahead.streams(pieces, range(len(slices)), threads, bound):
            if number != counted:
                self.reporter.count(work.reading, number, len(slices), "file slices")
                counted = number
            yield piece

    def _exchanged(
        self, slices: Sequence[files.FileSlice], work: Work[Found]
    ) -> Iterator[tuple[int, Found]]:
        """Yield what tasks elsewhere return, of which each has the memory of one process."""
        self.reporter.count(work.reading, 0, len(slices), "file slices")
        done = self.engine.exchange(
            functools.partial(_split, work, self._memory(1)),
            list(enumerate(slices)),
            functools.partial(_merge, work),
        )
        found = dict(done)
        for number in range(work.count):
            yield number, found[number] if number in found else work.finish(number, [])

    def _memory(self, threads: int) -> placing.Memory:
        settings = self.client.settings
        return placing.Memory(
            bytes_max=settings.compaction_memory_bytes // threads,
            scratch_folder=settings.scratch_folder,
        )


def _split(
    work: Work[Found], memory: placing.Memory, numbered: tuple[int, files.FileSlice]
) -> Mapping[int, bytes]:
    """Return the rows of a slice by file group of the index, as Arrow streams."""
    found: dict[int, list[pa.Table]] = {}
    for rows, numbers in work.read(*numbered, memory):
        for number in np.unique(numbers).tolist():
            found.setdefault(number, []).append(rows.filter(pa.array(numbers == number)))
    return {number: _packed(pa.concat_tables(pieces)) for number, pieces in found.items()}


def _merge(work: Work[Found], number: int, parts: Sequence[bytes]) -> tuple[int, Found]:
    pieces = [pa.ipc.open_stream(part).read_all() for part in parts]
    return number, work.finish(number, pieces)


def _packed(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=_OPTIONS) as writer:
        writer.write_table(rows.combine_chunks())
    content: bytes = sink.getvalue().to_pybytes()
    return content


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseWriter:
    """Writes the base files of one build; it pickles.

    Attributes:
        storage: The data table's.
        groups: The file groups of the index.
        time: Of the build.
        token: Of its files.
        now_ms: The time, in milliseconds since the epoch.
    """

    storage: protocol.Storage
    groups: Sequence[files.FileGroupId]
    time: instants.InstantTime
    token: str
    now_ms: int

    @classmethod
    def of(
        cls,
        client: Client,
        begun: index_steps.Begun,
        groups: Sequence[files.FileGroupId],
        token: str,
    ) -> "BaseWriter":
        """Return that of a build that has begun."""
        return cls(
            storage=client.storage,
            groups=groups,
            time=begun.time,
            token=token,
            now_ms=client.clock.now_ms(),
        )

    def write(self, number: int, records: Iterable[pa.Table]) -> commits.WriteStat:
        """Write the base file of a file group.

        A task of which nothing was heard any more is done again elsewhere, and may have written the
        same file: that one counts.

        Args:
            number: Of the file group.
            records: As of `metadata_writing.write_base`.

        Raises:
            StorageError: Not done.
        """
        storage, group = metadata_timelines.opened(self.storage), self.groups[number]
        counted = _Counted(records)
        try:
            return metadata_writing.write_base(
                storage, group, self.time, self.token, counted, self.now_ms
            )
        except errors.AlreadyExistsError:
            written = sum(each.num_rows for each in counted) + counted.rows
            return metadata_writing.stat_of_base(storage, group, self.time, self.token, written)


class _Counted:
    """Pieces of records, and how many rows of them were taken."""

    def __init__(self, records: Iterable[pa.Table]) -> None:
        self._records = iter(records)
        self.rows = 0

    def __iter__(self) -> Iterator[pa.Table]:
        for each in self._records:
            self.rows += each.num_rows
            yield each
