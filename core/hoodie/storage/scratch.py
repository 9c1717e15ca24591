"""Local scratch space: rows that do not fit into memory, put into numbered parts and read back.

A scratch file has no name: the kernel frees it when it is closed, or when its process ends in
whatever way. It is append-only; a part is a list of places in it.
"""

import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import IO, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie import errors
from hoodie.model import settings

PARTS_MAX = 1 << 16

_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Rows of one part: where they are in the file, and how large they are in memory."""

    offset: int
    length: int
    rows_bytes: int


class Parts:
    """Rows by part, in a scratch file of their own; to be closed."""

    def __init__(self, folder: str, count: int, buffer_bytes: int) -> None:
        """Open the file.

        Args:
            folder: A local folder that exists.
            count: Parts are numbered from 0 to below it.
            buffer_bytes: So much is collected in memory before it is written.

        Raises:
            StorageError: No file can be created in the folder.
        """
        assert count <= PARTS_MAX, count
        self._folder = folder
        self._chunks: list[list[_Chunk]] = [[] for _ in range(count)]
        self._pending: list[list[pa.Table]] = [[] for _ in range(count)]
        self._pending_bytes = 0
        self._buffer_bytes = buffer_bytes
        self._end = 0
        try:
            # Closed by `close`.
            self._file: IO[bytes] = tempfile.TemporaryFile(  # noqa: SIM115
                dir=folder, buffering=0
            )
        except OSError as error:
            raise self._failure("create a file in", error) from error

    def __len__(self) -> int:
        """Return how many parts there are."""
        return len(self._chunks)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Free the space."""
        self._file.close()

    def add(self, rows: pa.Table, numbers: npt.NDArray[np.int64]) -> None:
        """Add each row to the part of its number, behind what is there.

        Args:
            rows: Of the same schema each time.
            numbers: One for each row.

        Raises:
            StorageError: The disk is full, or failed.
        """
        counts = np.bincount(numbers, minlength=len(self))
        sorted_rows = rows
        if counts.max(initial=0) < rows.num_rows:
            # Numpy sorts two bytes by radix, which is linear.
            order = np.argsort(numbers.astype(np.uint16), kind="stable")
            sorted_rows = rows.take(pa.array(order))
        ends = np.cumsum(counts)
        for number in np.flatnonzero(counts):
            piece = sorted_rows.slice(ends[number] - counts[number], counts[number])
            self._pending[number].append(piece)
        self._pending_bytes += sorted_rows.nbytes
        if self._pending_bytes >= self._buffer_bytes:
            self.flush()

    def flush(self) -> None:
        """Write what is in memory; to be called before anything is read.

        Raises:
            StorageError: The disk is full, or failed.
        """
        for number, tables in enumerate(self._pending):
            if not tables:
                continue
            rows = pa.concat_tables(tables).combine_chunks()
            tables.clear()
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, rows.schema, options=_OPTIONS) as writer:
                writer.write_table(rows)
            content = sink.getvalue()
            self._write(content)
            self._chunks[number].append(_Chunk(self._end, content.size, rows.nbytes))
            self._end += content.size
        self._pending_bytes = 0

    def size_bytes(self, number: int) -> int:
        """Return how large the rows of a part are in memory."""
        return sum(chunk.rows_bytes for chunk in self._chunks[number])

    def tables(self, number: int) -> Iterator[pa.Table]:
        """Yield the rows of a part in order.

        Raises:
            StorageError: The disk failed.
        """
        for place in range(self.table_count(number)):
            yield self.table(number, place)

    def table_count(self, number: int) -> int:
        """Return how many tables `tables` yields."""
        return len(self._chunks[number])

    def table(self, number: int, place: int) -> pa.Table:
        """Return one of the tables that `tables` yields; for any thread.

        Raises:
            StorageError: The disk failed.
        """
        chunk = self._chunks[number][place]
        try:
            content = os.pread(self._file.fileno(), chunk.length, chunk.offset)
        except OSError as error:
            raise self._failure("read from", error) from error
        return pa.ipc.open_stream(content).read_all()

    def _write(self, content: pa.Buffer) -> None:
        rest = memoryview(content)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            raise self._failure("write to", error) from error

    def _failure(self, act: str, error: OSError) -> errors.StorageError:
        return errors.StorageError(
            f"cannot {act} the scratch folder {self._folder}: {error.strerror}, with "
            f"{self._end} bytes in this file so far. Free space there, or set "
            f"{settings.SCRATCH_FOLDER_KEY} to a local folder with more"
        )
