"""Which log blocks of a slice count.

In log order, a block counts unless its instant is not committed, or a later command block rolls it
back. Command blocks are obeyed, though only Hudi before 1.0 wrote them. Corrupt ranges are passed
by. Source: `BaseHoodieLogRecordReader.java` (`scanInternalV1`); format.md: Log files.
"""

import contextlib
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

import pyarrow as pa

from hoodie import errors
from hoodie.filegroup import slicing
from hoodie.format import log_blocks
from hoodie.format.log_blocks import BlockType, HeaderKey
from hoodie.model import files, instants
from hoodie.storage import protocol

_ROLLBACK = "0"
_WINDOW_BYTES = 64 << 10
WITHOUT_LOG_COMPACTIONS = (
    "have Apache Hudi compact it, and set hoodie.log.compaction.enable=false for its writers"
)
"""How a table with log compactions is made one that is read here."""

Frame = TypeVar("Frame", bound=log_blocks.Frame)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found(Generic[Frame]):
    """A block and where it is.

    Attributes:
        file: Its log file.
        block: The block.
    """

    file: files.LogFile
    block: Frame

    @property
    def place(self) -> tuple[str, int]:
        """Its file and where it begins in it, which no other block has."""
        return self.file.path, self.block.offset


OnCorrupt = Callable[[files.LogFile, log_blocks.CorruptRange], None]
"""Hears of every range of a log file that is no block."""


def read(
    storage: protocol.Storage,
    log_files: Collection[files.LogFile],
    is_committed: slicing.IsCommitted,
    on_corrupt: OnCorrupt,
    *,
    has_hfiles: bool = False,
) -> list[Found[log_blocks.Block]]:
    """Return the blocks that count, in log order; one read of each file, several at a time.

    The content of the blocks is part of their file's buffer.

    Args:
        storage: The table's.
        log_files: In merge order.
        is_committed: Whether blocks of an instant count.
        on_corrupt: Called for each range that is skipped.
        has_hfiles: Whether blocks hold HFiles, as those of a metadata table do.

    Raises:
        FormatError: A block is broken inside.
        UnsupportedError: A block is of a log compaction, or of a kind that the table does not have.
    """
    buffers = storage.read_buffers([each.path for each in log_files])
    scanned = zip(log_files, map(log_blocks.scan, buffers), strict=True)
    return counting(scanned, is_committed, on_corrupt, has_hfiles=has_hfiles)


def counting(
    scanned: Iterable[tuple[files.LogFile, Iterable[Frame | log_blocks.CorruptRange]]],
    is_committed: slicing.IsCommitted,
    on_corrupt: OnCorrupt,
    *,
    has_hfiles: bool = False,
) -> list[Found[Frame]]:
    """Return the blocks that count, in log order; errors as of `read`.

    Args:
        scanned: Log files in merge order, and what is in each.
        is_committed: As of `read`.
        on_corrupt: As of `read`.
        has_hfiles: As of `read`.
    """
    found: list[Found[Frame]] = []
    for log_file, blocks in scanned:
        with named(log_file):
            found = _counting(found, log_file, blocks, is_committed, on_corrupt, has_hfiles)
    return found


def locate(
    storage: protocol.Storage,
    log_files: Iterable[files.LogFile],
    is_committed: slicing.IsCommitted,
    on_corrupt: OnCorrupt,
) -> list[Found[log_blocks.Frame]]:
    """Return the same blocks as `read` without their content; about one read a block.

    Arguments and errors are those of `read`.
    """
    found: list[Found[log_blocks.Frame]] = []
    for log_file in log_files:
        with named(log_file), storage.open_input(log_file.path, is_mapped=False) as source:
            scanned = log_blocks.frames(_Window(source))
            found = _counting(found, log_file, scanned, is_committed, on_corrupt, False)
    return found


def is_of_another(
    storage: protocol.Storage, data_file: files.BaseFile | files.LogFile | None
) -> bool:
    """Return whether a log file's blocks are of another instant than its name; a short read.

    `UPDATE`, `DELETE` and `MERGE INTO` of Apache Hudi name a log file by a write that wrote rows to
    the file group (format.md: Log files). A file that is gone, broken off, or no log file does not
    belong to another instant.
    """
    if not isinstance(data_file, files.LogFile):
        return False
    try:
        with storage.open_input(data_file.path, is_mapped=False) as source:
            for block in log_blocks.frames(_Window(source)):
                if not isinstance(block, log_blocks.CorruptRange):
                    return _instant_text(block) not in {None, data_file.instant_time}
    except (errors.NotFoundError, errors.FormatError):
        pass
    return False


def contents(
    storage: protocol.Storage, located: Iterable[Found[log_blocks.Frame]]
) -> Iterator[Found[log_blocks.Block]]:
    """Yield blocks that `locate` found, with their content, one after the other."""
    for log_file, same in itertools.groupby(located, key=lambda each: each.file):
        with named(log_file), storage.open_input(log_file.path, is_mapped=False) as source:
            for each in same:
                source.seek(each.block.start)
                content = source.read_buffer(each.block.length)
                yield Found(file=log_file, block=each.block.with_content(content))


def _counting(
    before: list[Found[Frame]],
    log_file: files.LogFile,
    scanned: Iterable[Frame | log_blocks.CorruptRange],
    is_committed: slicing.IsCommitted,
    on_corrupt: OnCorrupt,
    has_hfiles: bool,
) -> list[Found[Frame]]:
    """Return the blocks that count once a file follows those before it."""
    found = before
    for block in scanned:
        if isinstance(block, log_blocks.CorruptRange):
            on_corrupt(log_file, block)
        elif block.type is BlockType.COMMAND:
            target = _rolled_back(block)
            found = [each for each in found if _instant_text(each.block) != target]
        elif block.type is not BlockType.CDC_DATA:
            # Change data is for incremental reads, which look for it themselves.
            _check_kind(block, has_hfiles)
            if is_committed(instant_time(block)):
                found.append(Found(file=log_file, block=block))
    return found


class _Window:
    """The bytes of an open file, of which small slices are read ahead; see `log_blocks.Bytes`."""

    def __init__(self, source: pa.NativeFile) -> None:
        self._source = source
        self._size_bytes = source.size()
        self._start = 0
        self._window = b""

    def __len__(self) -> int:
        size_bytes: int = self._size_bytes
        return size_bytes

    def __getitem__(self, where: slice) -> bytes:
        first, end, _ = where.indices(len(self))
        if first < self._start or end > self._start + len(self._window):
            self._source.seek(first)
            self._window = self._source.read(max(end - first, _WINDOW_BYTES))
            self._start = first
        return self._window[first - self._start : max(end, first) - self._start]


@contextlib.contextmanager
def named(data_file: files.LogFile | files.BaseFile) -> Iterator[None]:
    """Put the path of a data file before the messages of errors about its content."""
    try:
        yield
    except errors.FormatError as error:
        raise errors.FormatError(f"{data_file.path}: {error}") from error
    except errors.UnsupportedError as error:
        raise errors.UnsupportedError(f"{data_file.path}: {error}") from error


def _rolled_back(block: log_blocks.Frame) -> str:
    """Return the instant whose earlier blocks a command block takes back."""
    kind = block.header.get(HeaderKey.COMMAND_BLOCK_TYPE)
    target = block.header.get(HeaderKey.TARGET_INSTANT_TIME)
    if kind != _ROLLBACK or target is None:
        raise errors.UnsupportedError(
            f"the command block at byte {block.offset} has the type {kind} and the target {target},"
            f" expected type {_ROLLBACK} (rollback) and an instant"
        )
    return target


def _check_kind(block: log_blocks.Frame, has_hfiles: bool) -> None:
    if HeaderKey.COMPACTED_BLOCK_TIMES in block.header:
        raise errors.UnsupportedError(
            f"the block at byte {block.offset} is of a log compaction, which is not supported: "
            f"{WITHOUT_LOG_COMPACTIONS}"
        )
    if block.type is BlockType.DELETE:
        return
    if (block.type is BlockType.HFILE_DATA) is not has_hfiles:
        expected = "HFile data" if has_hfiles else "parquet or Avro"
        raise errors.UnsupportedError(
            f"the block at byte {block.offset} holds {block.type.name}, expected {expected}"
        )


def _instant_text(block: log_blocks.Frame) -> str | None:
    return block.header.get(HeaderKey.INSTANT_TIME)


def instant_time(block: log_blocks.Frame) -> instants.InstantTime:
    """Return the instant that a block says it is of.

    Raises:
        FormatError: It says none.
    """
    text = _instant_text(block)
    try:
        return instants.checked_time(text or "")
    except errors.InvalidInputError as error:
        raise errors.FormatError(
            f"the block at byte {block.offset} has the instant {text!r}, expected 17 digits"
        ) from error
