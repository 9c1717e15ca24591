"""Writing a DataFrame's rows through the core, in Spark's tasks; `small` is for input that is.

Tasks parse and split their rows by file group, Spark brings together what belongs to one, and a
second row of tasks writes each group once. What is shuffled are Arrow tables as opaque bytes, one a
task and target, not rows; they are put together in the order of the input, so no key need be unique
in a batch.

A task that dies is tried again: its attempt's id makes its files' names its own, and files of
attempts that nobody heard of are removed before the commit, by their markers (W13).
"""

import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark import TaskContext

from hoodie.model import commits
from hoodie.write import tasks
from hoodie_jobs.spark import attempts, calls, failures, reading

TASK_BYTES = 64 << 20
_CHUNK_BYTES = 128 << 20
_OUTCOME = "outcome binary"
_PIECE = "target int, sequence long, outcome binary"

Batches = Iterator[pa.RecordBatch]


def task_count(size_bytes: int, parallelism: int) -> int:
    """Return how many tasks write input of that size, on so many cores."""
    return max(parallelism, -(-size_bytes // TASK_BYTES))


def write(
    data: reading.SparkInput, task: tasks.WriteTask, count: int
) -> list[calls.Outcome[list[commits.Written]]]:
    """Write all rows into data files; return what each of `count` tasks wrote, or why it did not.

    Raises:
        HoodieError: A file cannot be read, or not as what it should be.
    """
    written = (
        data.frame.mapInArrow(_worker(partial(_split, data.parser, task, count)), _PIECE)
        .repartitionById(count, "target")
        .mapInArrow(_worker(partial(_write_pieces, task)), _OUTCOME)
    )
    try:
        rows = written.collect()
    except Exception as error:
        # Of Py4J or Spark: which, depends on where in the JVM it failed.
        raise failures.reading_error(error) or error from None
    return [calls.decode(bytes(row.outcome)) for row in rows]


def _worker(call: Callable[[Batches], Batches]) -> Callable[[Batches], Batches]:
    """Return a plain function: Spark looks at the signature of what it is to run."""

    def work(rows: Batches) -> Batches:
        return call(rows)

    return work


def _split(parser: reading.Parser, task: tasks.WriteTask, count: int, rows: Batches) -> Batches:
    """Return rows by the task that is to write their file group, a table each."""
    context = TaskContext.get()
    assert context is not None
    sequence = context.partitionId() << 32
    for chunk in _chunks(rows):
        outcome = calls.outcome_of(partial(_pieces, parser, task, count, chunk))
        match outcome:
            case calls.Raised():
                yield _piece_batch({0: outcome}, sequence)
                return
            case calls.Returned(pieces):
                encoded = {target: calls.Returned(piece) for target, piece in pieces.items()}
                yield _piece_batch(encoded, sequence)
        sequence += 1


def _pieces(
    parser: reading.Parser, task: tasks.WriteTask, count: int, chunk: pa.Table
) -> dict[int, bytes]:
    parsed = parser.parse(chunk)
    rows: dict[int, list[npt.NDArray[np.int64]]] = {}
    for group in tasks.prepare(task, parsed).groups:
        place = f"{group.partition_path}/{group.bucket}"
        rows.setdefault(zlib.crc32(place.encode()) % count, []).append(group.rows)
    return {
        target: _encoded(parsed.take(np.sort(np.concatenate(parts))))
        for target, parts in rows.items()
    }


def _write_pieces(task: tasks.WriteTask, rows: Batches) -> Batches:
    pieces = _whole(rows)
    if pieces is None:
        return
    ordered = pieces.sort_by("sequence")["outcome"]
    outcomes = [calls.decode(content.as_buffer()) for content in ordered]
    if raised := [each for each in outcomes if isinstance(each, calls.Raised)]:
        yield _outcome_batch(raised[0])
        return
    tables = [_decoded(calls.result_of(each)) for each in outcomes]
    yield _outcome_batch(calls.outcome_of(partial(_write, task, pa.concat_tables(tables))))


def _write(task: tasks.WriteTask, data: pa.Table) -> list[commits.Written]:
    return attempts.run(task, tasks.prepare(task, data))


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
