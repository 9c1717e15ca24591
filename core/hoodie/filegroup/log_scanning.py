"""Which log blocks of a slice count.

In log order, a block counts unless its instant is not committed, or a later command block rolls it
back. Command blocks are obeyed, though only Hudi before 1.0 wrote them. Corrupt ranges are passed
by. Source: `BaseHoodieLogRecordReader.java` (`scanInternalV1`); format.md: Log files.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from hoodie import errors
from hoodie.filegroup import slicing
from hoodie.format import log_blocks
from hoodie.format.log_blocks import BlockType, HeaderKey
from hoodie.model import files, instants
from hoodie.storage import protocol

_ROLLBACK = "0"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundBlock:
    """A block and where it is.

    Attributes:
        file: Its log file.
        block: The block; its content is part of the file's buffer.
    """

    file: files.LogFile
    block: log_blocks.Block


OnCorrupt = Callable[[files.LogFile, log_blocks.CorruptRange], None]
"""Hears of every range of a log file that is no block."""


def read(
    storage: protocol.Storage,
    log_files: Iterable[files.LogFile],
    is_committed: slicing.IsCommitted,
    on_corrupt: OnCorrupt,
) -> list[FoundBlock]:
    """Return the blocks that count, in log order; one read of each file.

    Args:
        storage: The table's.
        log_files: In merge order.
        is_committed: Whether blocks of an instant count.
        on_corrupt: Called for each range that is skipped.

    Raises:
        FormatError: A block is broken inside.
        UnsupportedError: A block is of a kind that is not read: of a log compaction, or HFile.
    """
    found: list[FoundBlock] = []
    for log_file in log_files:
        with named(log_file), storage.open_input(log_file.path) as source:
            for block in log_blocks.scan(source.read_buffer()):
                match block:
                    case log_blocks.CorruptRange():
                        on_corrupt(log_file, block)
                    case log_blocks.Block(type=BlockType.COMMAND):
                        target = _rolled_back(block)
                        found = [each for each in found if _instant_text(each.block) != target]
                    case log_blocks.Block(type=BlockType.CDC_DATA):
                        pass  # Change data is for incremental reads, which look for it themselves.
                    case log_blocks.Block():
                        _check_kind(block)
                        if is_committed(instant_time(block)):
                            found.append(FoundBlock(file=log_file, block=block))
    return found


@contextlib.contextmanager
def named(data_file: files.LogFile | files.BaseFile) -> Iterator[None]:
    """Put the path of a data file before the messages of errors about its content."""
    try:
        yield
    except errors.FormatError as error:
        raise errors.FormatError(f"{data_file.path}: {error}") from error
    except errors.UnsupportedError as error:
        raise errors.UnsupportedError(f"{data_file.path}: {error}") from error


def _rolled_back(block: log_blocks.Block) -> str:
    """Return the instant whose earlier blocks a command block takes back."""
    kind = block.header.get(HeaderKey.COMMAND_BLOCK_TYPE)
    target = block.header.get(HeaderKey.TARGET_INSTANT_TIME)
    if kind != _ROLLBACK or target is None:
        raise errors.UnsupportedError(
            f"the command block at byte {block.offset} has the type {kind} and the target {target},"
            f" expected type {_ROLLBACK} (rollback) and an instant"
        )
    return target


def _check_kind(block: log_blocks.Block) -> None:
    if HeaderKey.COMPACTED_BLOCK_TIMES in block.header:
        raise errors.UnsupportedError(
            f"the block at byte {block.offset} is of a log compaction, which is not supported"
        )
    if block.type is BlockType.HFILE_DATA:
        raise errors.UnsupportedError(
            f"the block at byte {block.offset} holds HFile data, expected parquet or Avro"
        )


def _instant_text(block: log_blocks.Block) -> str | None:
    return block.header.get(HeaderKey.INSTANT_TIME)


def instant_time(block: log_blocks.Block) -> instants.InstantTime:
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
