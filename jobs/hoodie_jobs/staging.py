"""Rows that tasks have staged: Arrow streams in a folder of the table that no reader looks into.

    .hoodie/.aux/staged/{write}/{partition}-{attempt}.arrow

A file is there whole, or not at all. Each attempt of a task has one of its own, so that of two that
run at once, or of one that ran again, only the file counts that its message names. Nothing of it is
part of the table: a folder that a killed driver left is deleted by a later write, when it is
`LEFT_MS` older than what that write staged, by the storage's clock.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from hoodie import errors
from hoodie.maintenance import findings
from hoodie.storage import protocol

logger = logging.getLogger(__name__)

FOLDER = ".hoodie/.aux/staged"
LEFT_MS = 3 * 24 * 3600 * 1000
"""A write that stages no new file for so long may fail, and publish nothing."""

_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """What one attempt of a task has staged.

    Attributes:
        partition: The task's number in its stage; rows are written in this order.
        path: The file; None for no rows.
        rows: How many.
        size_bytes: Of the rows in memory.
    """

    partition: int
    path: str | None = None
    rows: int = 0
    size_bytes: int = 0


def stage(
    storage: protocol.Storage,
    folder: str,
    attempt: str,
    partition: int,
    batches: Iterator[pa.RecordBatch],
) -> Staged:
    """Stage the rows of a task, one batch after the other.

    Args:
        storage: The table's.
        folder: Of the write, of `folder_of`.
        attempt: A text that no other attempt has.
        partition: The task's number.
        batches: Its rows, all of one schema.

    Raises:
        StorageError: They could not be written.
    """
    filled = (batch for batch in batches if batch.num_rows)
    first = next(filled, None)
    if first is None:
        return Staged(partition=partition)
    path = f"{folder}/{partition:06d}-{attempt}.arrow"
    rows, size_bytes = first.num_rows, first.nbytes
    with (
        storage.open_write(path) as file,
        pa.ipc.new_stream(file, first.schema, options=_OPTIONS) as writer,
    ):
        writer.write_batch(first)
        for batch in filled:
            rows += batch.num_rows
            size_bytes += batch.nbytes
            writer.write_batch(batch)
    return Staged(partition=partition, path=path, rows=rows, size_bytes=size_bytes)


def folder_of(write_id: str) -> str:
    """Return the folder of a write."""
    return f"{FOLDER}/{write_id}"


def reader(
    storage: protocol.Storage, staged: Sequence[Staged], schema: pa.Schema
) -> pa.RecordBatchReader:
    """Return the rows of all tasks, in their order, a batch in memory at once.

    Raises:
        StorageError: Two messages are of one task. As they are read: rows are missing.
    """
    numbers = [each.partition for each in staged]
    if len(set(numbers)) != len(numbers):
        raise errors.StorageError(
            f"{storage.uri}: tasks {sorted(numbers)} have staged rows, expected each once: write "
            "the rows again"
        )
    ordered = sorted(staged, key=lambda each: each.partition)

    def batches() -> Iterator[pa.RecordBatch]:
        for each in ordered:
            if each.path is None:
                continue
            rows = 0
            with storage.open_input(each.path) as file, pa.ipc.open_stream(file) as stream:
                for batch in stream:
                    rows += batch.num_rows
                    yield batch.select(schema.names).cast(schema)
            # A stream that was cut off between two batches reads as one that ends there.
            if rows != each.rows:
                raise errors.StorageError(
                    f"{storage.uri}: {each.path} has {rows:,} rows, expected {each.rows:,}: write "
                    "the rows again"
                )

    return pa.RecordBatchReader.from_batches(schema, batches())


def clear(storage: protocol.Storage, write_id: str) -> None:
    """Delete what a write has staged, and what others have left; what fails is logged.

    None of it is part of the table, and a later write tries again.
    """
    left: list[str] = []
    findings.caught("staged rows stay", left, lambda: _sweep(storage, write_id))
    findings.caught("staged rows stay", left, lambda: storage.delete_directory(folder_of(write_id)))
    for finding in left:
        logger.warning("%s: %s", storage.uri, finding)


def _sweep(storage: protocol.Storage, write_id: str) -> None:
    """Delete what writes have left that ended long before this one; one request, and deletions."""
    newest_ms: dict[str, int] = {}
    for each in storage.list(FOLDER, is_recursive=True):
        found = each.path.removeprefix(f"{FOLDER}/").partition("/")[0]
        newest_ms[found] = max(newest_ms.get(found, 0), each.modified_before_ms)
    now_ms = newest_ms.pop(write_id, None)
    for other, modified_ms in newest_ms.items():
        # Times of one store's clock alone are compared.
        if now_ms is not None and modified_ms + LEFT_MS < now_ms:
            storage.delete_directory(folder_of(other))
