"""Reading a parquet file of the archived timeline in parts: its row groups.

A merged file may hold the commits of years. Its rows are ordered by requested time, and each row
group says from which time to which it goes, so that one instant costs one row group, and who walks
through all of them holds a few at a time. A file of another engine may be a single row group.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from hoodie import errors
from hoodie.model import instants
from hoodie.storage.protocol import Storage
from hoodie.timeline.history_tree import TreeFile

TIME = "instantTime"
COMPLETION = "completionTime"

_SECONDS_DIGITS = 14
_EARLIEST, _LATEST = "", "9" * 17


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A row group.

    Attributes:
        number: Its place in the file.
        first: No requested time in it is smaller.
        last: No requested time in it is greater.
        row_count: How many instants are in it.
        newest: No completion time in it is greater.
    """

    number: int
    first: str
    last: str
    row_count: int
    newest: str = _LATEST

    def may_hold(self, time: str) -> bool:
        """Return whether an instant of that requested time may be in it."""
        return self.first <= time <= self.last


class HistoryFile:
    """A file whose parts are read on demand; what it holds never changes."""

    def __init__(self, storage: Storage, file: TreeFile) -> None:
        """Take a file; nothing is read yet."""
        self._storage = storage
        self._file = file
        self._metadata: pq.FileMetaData | None = None

    def named(self) -> AbstractContextManager[None]:
        """Name the file in errors of what it holds."""
        return naming(self._file)

    @contextmanager
    def opened(self) -> "Iterator[OpenedFile]":
        """Open it; the first time its footer is read.

        Raises:
            FormatError: It is not of an archive.
            NotFoundError: It is gone.
        """
        with naming(self._file), self._storage.open_input(self._file.path) as source:
            parquet = pq.ParquetFile(source, metadata=self._metadata)
            self._metadata = parquet.metadata
            yield OpenedFile(parquet)


class OpenedFile:
    """A file that can be read."""

    def __init__(self, parquet: pq.ParquetFile) -> None:
        """Take what Arrow has opened."""
        self._parquet = parquet
        self.parts = tuple(_parts(parquet.metadata))

    def rows(self, parts: Iterable[Part], columns: Sequence[str]) -> pa.Table:
        """Return the rows of some parts, in their order."""
        numbers = [each.number for each in parts]
        return self._parquet.read_row_groups(numbers, columns=list(columns))


@contextmanager
def naming(file: TreeFile) -> Iterator[None]:
    """Name the file in errors of Arrow and of values."""
    try:
        yield
    except (pa.ArrowException, KeyError, TypeError, ValueError) as error:
        raise errors.FormatError(f"{file.path} is not a file of an archive: {error}") from error


def _parts(metadata: pq.FileMetaData) -> Iterator[Part]:
    names = metadata.schema.to_arrow_schema().names
    place = names.index(TIME)
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        statistics = group.column(place).statistics
        first, last = _EARLIEST, _LATEST
        if statistics is not None and statistics.has_min_max:
            first, last = (
                second_of(statistics.min),
                second_of(statistics.max) + instants.SHORT_ENDING,
            )
        newest = _LATEST
        if COMPLETION in names:
            completions = group.column(names.index(COMPLETION)).statistics
            if completions is not None and completions.has_min_max:
                newest = second_of(completions.max) + instants.SHORT_ENDING
        yield Part(number=number, first=first, last=last, row_count=group.num_rows, newest=newest)


def second_of(time: str) -> str:
    """Return the second of a time: one of 14 digits stands for the end of it, and sorts first."""
    return instants.checked_time(time)[:_SECONDS_DIGITS]
