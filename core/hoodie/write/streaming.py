"""Batches that do not fit into memory, by way of scratch files to their file groups.

    spool    the input is checked, and kept in a scratch file, once; a write that lost a conflict
             reads it again
    place    where keys are looked up (`write.routes`): decided by what is kept of all rows
    deal     rows go to parts by their file groups, in a second scratch file
    write    each part is read, and its file groups are written

Memory: some pieces of `PIECE_BYTES` and the parts that are written at once, each about `PART_BYTES`
and as much again while it is put together. Rows of a bucket that are more are divided by their keys
and written piece by piece (`tasks.run_in_pieces`); but what a bucket of a copy-on-write table gets
is held as a whole if it is merged with the rows that are there. Where keys are looked up those of
all rows are held, about 100 bytes a row.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie import deferred, errors
from hoodie.engine import ahead, local
from hoodie.engine import protocol as engine_protocol
from hoodie.format import java_hash
from hoodie.model import commits
from hoodie.storage import protocol
from hoodie.write import batches, tasks, write_task

with deferred.imports():
    from hoodie.storage import scratch
    from hoodie.write import early_conflicts, routes

MEMORY_BYTES = 256 << 20
"""Input of fewer is written as a whole."""

PIECE_BYTES = 32 << 20
PART_BYTES = 64 << 20
DIVIDED_BYTES = PART_BYTES + PIECE_BYTES
"""Parts of more are divided by keys."""

KEYED_BYTES = 16 << 20
"""About so many of the rows of a bucket are written at once: with meta columns they are thrice."""

_MIXING = 0x9E3779B1
_TASK_FIRST = 100_000
"""Tokens of tasks have equally many digits: log files of one write are merged in their order."""


class Spool:
    """Input in a scratch file, in pieces."""

    def __init__(self, parts: scratch.Parts, schema: pa.Schema) -> None:
        """Take the rows of the first part.

        Args:
            parts: Flushed.
            schema: Of the rows.
        """
        self._parts = parts
        self.column_names: Sequence[str] = schema.names

    @property
    def size_bytes(self) -> int:
        """How large all rows are in memory."""
        return self._parts.size_bytes(0)

    @property
    def numbers(self) -> range:
        """The numbers of the pieces, in the order of the rows."""
        return range(self._parts.table_count(0))

    def piece(self, number: int) -> pa.Table:
        """Return some rows; for any thread.

        Raises:
            StorageError: The disk failed.
        """
        return self._parts.table(0, number)


@contextlib.contextmanager
def spooled(
    reader: pa.RecordBatchReader, check: Callable[[pa.Table], object], folder: str
) -> Iterator[pa.Table | Spool]:
    """Read all input; what fits into memory is given back as a table.

    Args:
        reader: The input.
        check: Raises if rows do not fit the table.
        folder: A local folder for scratch files.

    Raises:
        InvalidInputError: It broke off.
        StorageError: The disk is full, or failed.
    """
    with contextlib.ExitStack() as stack:
        held: list[pa.Table] = []
        held_bytes = 0
        parts: scratch.Parts | None = None
        for piece in _pieces(reader):
            check(piece)
            if parts is None:
                held.append(piece)
                held_bytes += piece.nbytes
                if held_bytes <= MEMORY_BYTES:
                    continue
                parts = stack.enter_context(scratch.Parts(folder, 1, PIECE_BYTES))
            for each in held or [piece]:
                parts.add(each, np.zeros(each.num_rows, np.int64))
            held = []
        if parts is None:
            yield pa.concat_tables([reader.schema.empty_table(), *held])
        else:
            parts.flush()
            yield Spool(parts, reader.schema)


def held(rows: pa.Table | pa.RecordBatchReader, bytes_max: int) -> pa.Table:
    """Return rows that have to be in memory.

    Raises:
        InvalidInputError: The input broke off, or takes more than so many bytes.
    """
    pieces, found_bytes = [rows.schema.empty_table()], 0
    for piece in [rows] if isinstance(rows, pa.Table) else _pieces(rows):
        found_bytes += piece.nbytes
        if found_bytes > bytes_max:
            raise errors.InvalidInputError(
                "rows beside a change by a filter in one commit are held in memory, expected "
                f"{MEMORY_BYTES >> 20} MiB at most: write them in a commit of their own"
            )
        pieces.append(piece)
    return pa.concat_tables(pieces)


def _pieces(reader: pa.RecordBatchReader) -> Iterator[pa.Table]:
    """Yield the rows of a reader, some `PIECE_BYTES` at once."""
    waiting: list[pa.RecordBatch] = []
    waiting_bytes = 0
    for batch in _batches(reader):
        rows = max(1, batch.num_rows * PIECE_BYTES // max(1, batch.nbytes))
        for start in range(0, batch.num_rows, rows):
            part = batch.slice(start, rows)
            waiting.append(part)
            waiting_bytes += part.nbytes
            if waiting_bytes >= PIECE_BYTES:
                yield pa.Table.from_batches(waiting)
                waiting, waiting_bytes = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)


def _batches(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    done = 0
    try:
        for batch in reader:
            yield batch
            done += batch.num_rows
    except pa.ArrowException as error:
        what = str(error).partition(" Detail: ")[0]
        raise errors.InvalidInputError(
            f"the input broke off after {done:,} rows, and nothing was written: {what}"
        ) from error


def write(
    task: write_task.WriteTask,
    spool: Spool,
    storage: protocol.Storage,
    engine: engine_protocol.Engine,
    mark: early_conflicts.Mark | None,
) -> list[commits.Written]:
    """Write the rows of a spool; as `tasks.run`.

    Args:
        task: The write.
        spool: Its input.
        storage: The table's.
        engine: Runs the parts; threads of this process.
        mark: As of `tasks.run`.

    Raises:
        WriteConflictError: A conflict was found early.
        HeartbeatExpiredError: The write was judged dead.
        StorageError: The disk is full, or failed.
    """
    count = max(engine.parallelism, -(-spool.size_bytes // PART_BYTES))
    count = min(count, scratch.PARTS_MAX)
    parts = partial(scratch.Parts, task.settings.scratch_folder, count, PIECE_BYTES)
    if not task.config.looks_keys_up:
        with parts() as by_bucket:
            buckets = _deal_by_bucket(task, spool, storage, engine, by_bucket)
            if buckets is not None:
                return _write_buckets(task, storage, engine, mark, by_bucket, buckets)
    with parts() as by_group:
        return _write_placed(task, spool, storage, engine, mark, by_group)


@dataclass(slots=True, kw_only=True)
class _Bucket:
    """A bucket that rows were dealt to.

    Attributes:
        rows: Which one it is, without rows.
        part: The part that has them.
        token: Of a task that writes them alone.
        row_count: How many there are.
    """

    rows: batches.GroupRows
    part: int
    token: write_task.WriteToken
    row_count: int = 0


_Buckets: TypeAlias = dict[tuple[str, int], _Bucket]
"""By partition and number."""


def _deal_by_bucket(
    task: write_task.WriteTask,
    spool: Spool,
    storage: protocol.Storage,
    engine: engine_protocol.Engine,
    parts: scratch.Parts,
) -> _Buckets | None:
    """Put rows into the parts of their buckets; None if two parts may share a base file."""

    def split(number: int) -> tuple[pa.Table, Sequence[batches.GroupRows]]:
        piece = spool.piece(number)
        return piece, tasks.prepare(task, piece, storage).groups

    paths: set[str] = set()
    buckets: _Buckets = {}
    for piece, groups in ahead.results(split, spool.numbers, engine.parallelism):
        found = dict.fromkeys(group.partition_path for group in groups)
        new = [path for path in found if path not in paths]
        if new and tasks.has_shared_groups(task, new, storage):
            return None
        paths.update(new)
        numbers = np.empty(piece.num_rows, np.int64)
        for group in groups:
            place = (group.partition_path, group.bucket)
            if place not in buckets:
                buckets[place] = _Bucket(
                    rows=routes.without_rows([group])[0],
                    # In turn, so that no part has two buckets while another has none.
                    part=len(buckets) % len(parts),
                    token=_token(len(parts) + len(buckets)),
                )
            numbers[group.rows] = buckets[place].part
            buckets[place].row_count += len(group.rows)
        parts.add(piece, numbers)
    parts.flush()
    return buckets


def _write_buckets(
    task: write_task.WriteTask,
    storage: protocol.Storage,
    engine: engine_protocol.Engine,
    mark: early_conflicts.Mark | None,
    parts: scratch.Parts,
    buckets: _Buckets,
) -> list[commits.Written]:
    """Write rows that were put into the parts of their buckets."""
    by_part: dict[int, _Buckets] = {}
    for place, bucket in buckets.items():
        by_part.setdefault(bucket.part, {})[place] = bucket

    def write_part(number: int) -> list[commits.Written]:
        own = by_part[number]
        if parts.size_bytes(number) > DIVIDED_BYTES:
            paths = list(dict.fromkeys(path for path, _ in own))
            if tasks.may_be_in_pieces(task, paths, storage):
                return _write_divided(task, storage, mark, parts, own)
        batch = tasks.prepare(task, _rows(parts, number), storage)
        return tasks.run(task, batch, _token(number), storage, local.LocalEngine(1), mark)

    written = engine.map(write_part, _filled(parts))
    return [each for of_part in written for each in of_part]


def _write_divided(
    task: write_task.WriteTask,
    storage: protocol.Storage,
    mark: early_conflicts.Mark | None,
    parts: scratch.Parts,
    buckets: _Buckets,
) -> list[commits.Written]:
    """Write the buckets of one part, each bucket's rows divided by their keys."""
    (number,) = {each.part for each in buckets.values()}
    row_bytes = parts.size_bytes(number) / sum(each.row_count for each in buckets.values())
    numbers_of: dict[tuple[str, int], range] = {}
    count = 0
    for place, bucket in buckets.items():
        end = count + max(1, round(bucket.row_count * row_bytes / KEYED_BYTES))
        numbers_of[place] = range(count, end)
        count = end

    def prepared(piece: int) -> batches.Batch:
        return tasks.prepare(task, _rows(pieces, piece), storage)

    written = []
    with scratch.Parts(task.settings.scratch_folder, count, PIECE_BYTES) as pieces:
        for rows in parts.tables(number):
            batch = tasks.prepare(task, rows, storage)
            numbers = np.empty(rows.num_rows, np.int64)
            for group in batch.groups:
                keys = batch.record_keys.take(pa.array(group.rows))
                own = numbers_of[group.partition_path, group.bucket]
                numbers[group.rows] = own.start + _spread(keys, len(own))
            pieces.add(rows, numbers)
        pieces.flush()
        for place, bucket in buckets.items():
            filled = [each for each in numbers_of[place] if pieces.size_bytes(each)]
            made = [partial(prepared, each) for each in filled]
            written += tasks.run_in_pieces(task, bucket.rows, made, bucket.token, storage, mark)
    return written


def _spread(keys: pa.Array, count: int) -> npt.NDArray[np.int64]:
    """Return a number from 0 to below a count for each key.

    The hashes of a bucket's keys have one remainder: bits that say more than that have to count.
    """
    hashes = java_hash.string_hash(keys).view(np.uint32).astype(np.uint64)
    mixed = hashes * np.uint64(_MIXING) & np.uint64(0xFFFFFFFF)
    numbers: npt.NDArray[np.int64] = (mixed * np.uint64(count) >> np.uint64(32)).astype(np.int64)
    return numbers


def _write_placed(
    task: write_task.WriteTask,
    spool: Spool,
    storage: protocol.Storage,
    engine: engine_protocol.Engine,
    mark: early_conflicts.Mark | None,
    parts: scratch.Parts,
) -> list[commits.Written]:
    """Write rows after it was decided for all of them in which file groups they belong."""

    def outlined(number: int) -> batches.Outline:
        return tasks.outline(task, tasks.prepare(task, spool.piece(number), storage))

    outlines = engine.map(outlined, spool.numbers)
    placed = tasks.place(task, outlines, storage, engine)
    counts = [each.rows.num_rows for each in outlines]
    del outlines
    groups = placed.batch.groups
    owner = routes.owners(groups, len(parts))
    pieces = batches.remarked(map(spool.piece, spool.numbers), placed.batch.marks)
    for piece, of_piece in zip(pieces, routes.of_pieces(groups, counts), strict=True):
        for number, rows in routes.routed(piece, of_piece, owner).items():
            parts.add(rows, np.full(rows.num_rows, number, np.int64))
    parts.flush()
    headers = routes.without_rows(groups)

    def write_part(number: int) -> list[commits.Written]:
        rows, own = routes.received(_rows(parts, number), headers)
        batch = tasks.prepare(task, rows, storage)
        return tasks.write(task, replace(batch, groups=own), _token(number), storage, mark)

    written = engine.map(write_part, _filled(parts))
    return [
        *placed.facts,
        *(each for of_part in written for each in of_part),
    ]


def _rows(parts: scratch.Parts, number: int) -> pa.Table:
    # As `tasks.prepare` has them: it holds no second copy then.
    return pa.concat_tables(parts.tables(number)).combine_chunks()


def _filled(parts: scratch.Parts) -> list[int]:
    return [number for number in range(len(parts)) if parts.size_bytes(number)]


def _token(number: int) -> write_task.WriteToken:
    return write_task.WriteToken(task=_TASK_FIRST + number, is_alone=False)
