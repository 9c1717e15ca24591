"""Writing a DataFrame's rows through the core, in Spark's tasks; `small` is for input that is.

Tasks parse and split their rows by file group, Spark brings together what belongs to one, and a
second row of tasks writes each group once. What is shuffled are Arrow tables as opaque bytes, one a
task and target, not rows; they are put together in the order of the input, so no key need be unique
in a batch.

Where the driver decides which file group a row is written to (`hoodie.write.routes`), tasks first
tell it what decides that: keys, partitions, ordering values. Rows are then known by their position,
so Spark keeps the input meanwhile, and input that changed under that is refused.

Cost there: the driver holds those columns of all rows, and some 20 bytes more for each.

A task that dies is tried again: its attempt's id makes its files' names its own, and files of
attempts that nobody heard of are removed before the commit, by their markers (W13).
"""

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, Row

from hoodie import errors
from hoodie.engine import protocol
from hoodie.model import commits
from hoodie.storage import locations
from hoodie.write import batches, routes, tasks, write_task
from hoodie_jobs.spark import attempts, calls, failures, reading

TASK_BYTES = 64 << 20
_CHUNK_BYTES = 128 << 20
_OUTCOME = "outcome binary"
_PIECE = "target int, sequence long, outcome binary"
_OUTLINE = "sequence long, outcome binary"

Batches = Iterator[pa.RecordBatch]


def task_count(size_bytes: int, parallelism: int) -> int:
    """Return how many tasks write input of that size, on so many cores."""
    return max(parallelism, -(-size_bytes // TASK_BYTES))


def write(
    data: reading.SparkInput, task: write_task.WriteTask, count: int
) -> list[calls.Outcome[list[commits.Written]]]:
    """Write all rows into data files; return what each of `count` tasks wrote, or why it did not.

    Raises:
        HoodieError: A file cannot be read, or not as what it should be.
    """
    split = partial(_split, partial(_pieces, data.parser, task, count))
    written = (
        data.frame.mapInArrow(_worker(split), _PIECE)
        .repartitionById(count, "target")
        .mapInArrow(_worker(partial(_write_pieces, partial(_write, task))), _OUTCOME)
    )
    return [calls.decode(row.outcome) for row in _collected(written)]


def write_placed(
    data: reading.SparkInput, task: write_task.WriteTask, count: int, engine: protocol.Engine
) -> list[calls.Outcome[list[commits.Written]]]:
    """Decide in the driver where rows go, and write them as `write`, file groups dealt by rows.

    Args:
        data: The input.
        task: The write.
        count: Of the tasks, at most.
        engine: Reads the files of the table.

    Raises:
        HoodieError: A file cannot be read, or not as what it should be, or the input does not fit.
    """
    frame = data.frame.persist()
    try:
        outlined = _collected(
            frame.mapInArrow(_worker(partial(_outlines, data.parser, task)), _OUTLINE)
        )
        pieces: dict[int, _Outlined] = {
            row.sequence: calls.result_of(calls.decode(row.outcome))
            for row in sorted(outlined, key=lambda row: row.sequence)
        }
        if not pieces:
            return []
        storage = locations.open_storage(task.table_uri)
        outlines = [each.outline for each in pieces.values()]
        placed = tasks.place(task, outlines, storage, engine)
        groups = placed.batch.groups
        owner = routes.owners(groups, count)
        of_pieces = routes.of_pieces(groups, [each.rows.num_rows for each in outlines])
        expected = {
            sequence: (each.digest, of_piece)
            for (sequence, each), of_piece in zip(pieces.items(), of_pieces, strict=True)
        }
        route = partial(_route, data.parser, task, expected, owner)
        write_groups = partial(_write_placed, task, routes.without_rows(groups))
        rows = _collected(
            frame.mapInArrow(_worker(route), _PIECE)
            .repartitionById(count, "target")
            .mapInArrow(_worker(partial(_write_pieces, write_groups)), _OUTCOME)
        )
    finally:
        frame.unpersist()
    found: list[calls.Outcome[list[commits.Written]]] = [calls.Returned(list(placed.facts))]
    return [*found, *(calls.decode(row.outcome) for row in rows)]


def _collected(frame: DataFrame) -> list[Row]:
    """Return a frame's rows.

    Raises:
        HoodieError: A file cannot be read, or not as what it should be.
    """
    try:
        return frame.collect()
    except Exception as error:
        # Of Py4J or Spark: which, depends on where in the JVM it failed.
        raise failures.reading_error(error) or error from None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outlined:
    """A piece of the input, as the driver gets it.

    Attributes:
        outline: What decides where its rows go.
        digest: Of its rows.
    """

    outline: batches.Outline
    digest: int


def _worker(call: Callable[[Batches], Batches]) -> Callable[[Batches], Batches]:
    """Return a plain function: Spark looks at the signature of what it is to run."""

    def work(rows: Batches) -> Batches:
        return call(rows)

    return work


def _numbered(rows: Batches) -> Iterator[tuple[int, pa.Table]]:
    """Return the chunks of a task's rows, numbered in the order of the input."""
    context = TaskContext.get()
    assert context is not None
    return enumerate(_chunks(rows), start=context.partitionId() << 32)


def _outlines(parser: reading.Parser, task: write_task.WriteTask, rows: Batches) -> Batches:
    """Return what decides where rows go."""
    storage = locations.open_storage(task.table_uri)

    def outlined(chunk: pa.Table) -> _Outlined:
        parsed = parser.parse(chunk)
        outline = tasks.outline(task, tasks.prepare(task, parsed, storage))
        return _Outlined(outline=outline, digest=_digest(task, parsed))

    for sequence, chunk in _numbered(rows):
        content = calls.encode(calls.outcome_of(partial(outlined, chunk)))
        yield pa.record_batch(
            {
                "sequence": pa.array([sequence], pa.int64()),
                "outcome": pa.array([content], pa.binary()),
            }
        )


def _digest(task: write_task.WriteTask, parsed: pa.Table) -> int:
    """Return a number by which a piece of the input is known again."""
    return zlib.crc32(_encoded(parsed.select(task.config.record_key_fields)), parsed.num_rows)


def _route(
    parser: reading.Parser,
    task: write_task.WriteTask,
    expected: Mapping[int, tuple[int, routes.Routes]],
    owner: npt.NDArray[np.int32],
    rows: Batches,
) -> Batches:
    """Return rows by the task that is to write their file group, as the driver has decided."""

    def routed(sequence: int, chunk: pa.Table) -> Mapping[int, bytes]:
        parsed = parser.parse(chunk)
        digest, of_piece = expected.get(sequence, (None, None))
        if of_piece is None or digest != _digest(task, parsed):
            raise errors.InvalidInputError(
                f"the input of the write {task.instant_time} changed while it was read: expected "
                "files that stay as they are until they are written"
            )
        tables = routes.routed(parsed, of_piece, owner)
        return {target: _encoded(table) for target, table in tables.items()}

    return _split(routed, rows)


def _split(split: Callable[[int, pa.Table], Mapping[int, bytes]], rows: Batches) -> Batches:
    """Return rows by the task that is to write their file group, a table each."""
    for sequence, chunk in _numbered(rows):
        outcome = calls.outcome_of(partial(split, sequence, chunk))
        match outcome:
            case calls.Raised():
                yield _piece_batch({0: outcome}, sequence)
                return
            case calls.Returned(pieces):
                encoded = {target: calls.Returned(piece) for target, piece in pieces.items()}
                yield _piece_batch(encoded, sequence)


def _pieces(
    parser: reading.Parser, task: write_task.WriteTask, count: int, sequence: int, chunk: pa.Table
) -> dict[int, bytes]:
    parsed = parser.parse(chunk)
    storage = locations.open_storage(task.table_uri)
    rows: dict[int, list[npt.NDArray[np.int64]]] = {}
    for group in tasks.prepare(task, parsed, storage).groups:
        place = f"{group.partition_path}/{group.bucket}"
        rows.setdefault(zlib.crc32(place.encode()) % count, []).append(group.rows)
    return {
        target: _encoded(parsed.take(np.sort(np.concatenate(parts))))
        for target, parts in rows.items()
    }


def _write_pieces(
    write_table: Callable[[pa.Table], list[commits.Written]], rows: Batches
) -> Batches:
    """Put the pieces of a task together, and write them."""
    pieces = _whole(rows)
    if pieces is None:
        return
    ordered = pieces.sort_by("sequence")["outcome"]
    outcomes = [calls.decode(content.as_buffer()) for content in ordered]
    if raised := [each for each in outcomes if isinstance(each, calls.Raised)]:
        yield _outcome_batch(raised[0])
        return
    tables = [_decoded(calls.result_of(each)) for each in outcomes]
    yield _outcome_batch(calls.outcome_of(partial(write_table, pa.concat_tables(tables))))


def _write(task: write_task.WriteTask, data: pa.Table) -> list[commits.Written]:
    storage = locations.open_storage(task.table_uri)
    return attempts.run(task, tasks.prepare(task, data, storage))


def _write_placed(
    task: write_task.WriteTask, groups: Sequence[batches.GroupRows], rows: pa.Table
) -> list[commits.Written]:
    data, own = routes.received(rows, groups)
    storage = locations.open_storage(task.table_uri)
    batch = tasks.prepare(task, data, storage)
    return attempts.run(task, replace(batch, groups=own), is_placed=True)


def _whole(rows: Batches) -> pa.Table | None:
    received = [batch for batch in rows if batch.num_rows]
    return pa.Table.from_batches(received) if received else None


def _chunks(rows: Batches) -> Iterator[pa.Table]:
    """Return the rows in tables of about so many bytes, so that a part may be of any size."""
    received: list[pa.RecordBatch] = []
    for batch in rows:
        if batch.num_rows:
            received.append(batch)
        if sum(each.nbytes for each in received) >= _CHUNK_BYTES:
            yield pa.Table.from_batches(received)
            received = []
    if received:
        yield pa.Table.from_batches(received)


def _outcome_batch(outcome: calls.Outcome[list[commits.Written]]) -> pa.RecordBatch:
    return pa.record_batch({"outcome": pa.array([calls.encode(outcome)], pa.binary())})


def _piece_batch(outcomes: Mapping[int, calls.Outcome[bytes]], sequence: int) -> pa.RecordBatch:
    return pa.record_batch(
        {
            "target": pa.array(outcomes, pa.int32()),
            "sequence": pa.array([sequence] * len(outcomes), pa.int64()),
            "outcome": pa.array([calls.encode(each) for each in outcomes.values()], pa.binary()),
        }
    )


def _encoded(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _decoded(content: bytes) -> pa.Table:
    return pa.ipc.open_stream(pa.py_buffer(content)).read_all()
