"""Writing a DataFrame's rows through the core, in Spark's tasks.

Two ways:
    direct     each task parses its rows and writes a log file to every file group among them
    shuffled   tasks parse and split their rows by file group, Spark brings together what belongs to
               one, and a second row of tasks writes each group once

Direct is faster where few tasks share the work; with many tasks it would make many small log files.
What is shuffled are Arrow tables as opaque bytes, one a task and target, not rows.

Both keep the order of rows: tasks are numbered in the order of the input, a log file's write token
begins with that number in digits of equal count, and the log files of one write are merged in the
order of their tokens. So no key need be unique in a batch.

A task that dies is tried again: its attempt's id makes its files' names its own, and files of
attempts that nobody heard of are removed before the commit, by their markers (W13).
"""

import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame

from hoodie import environment
from hoodie.engine import local
from hoodie.model import commits, settings
from hoodie.storage import locations
from hoodie.write import batches, early_conflicts, tasks
from hoodie_jobs.spark import calls, failures, reading

DIRECT_TASKS_MAX = 4
DIRECT_TASK_BYTES_MAX = 128 << 20
TASK_BYTES_MIN = 1 << 20
TASK_BYTES = 64 << 20
_CHUNK_BYTES = 128 << 20
_TOKEN_TASK_FIRST = 100_000
_OUTCOME = "outcome binary"
_PIECE = "target int, sequence long, outcome binary"

Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How the work is divided.

    Attributes:
        tasks: How many tasks write.
        is_shuffled: Whether rows are brought together by file group before.
    """

    tasks: int
    is_shuffled: bool


def layout(size_bytes: int, parallelism: int, mode: settings.ConcurrencyMode) -> Layout:
    """Return how to divide input of that size among so many cores.

    A single writer makes base files where there is no file group yet, and two tasks would make two
    of them for one: its rows are brought together before.
    """
    count = max(1, min(parallelism, size_bytes // TASK_BYTES_MIN))
    direct_max = 1 if mode is settings.ConcurrencyMode.SINGLE_WRITER else DIRECT_TASKS_MAX
    if count <= direct_max and size_bytes <= count * DIRECT_TASK_BYTES_MAX:
        return Layout(tasks=count, is_shuffled=False)
    return Layout(tasks=max(parallelism, -(-size_bytes // TASK_BYTES)), is_shuffled=True)


def write(
    data: reading.SparkInput, task: tasks.WriteTask, plan: Layout
) -> list[calls.Outcome[list[commits.WriteStat]]]:
    """Write all rows into data files; return what each task wrote, or why it did not.

    Raises:
        HoodieError: A file cannot be read, or not as what it should be.
    """
    if plan.is_shuffled:
        written = (
            data.frame.mapInArrow(_worker(partial(_split, data.parser, task, plan.tasks)), _PIECE)
            .repartitionById(plan.tasks, "target")
            .mapInArrow(_worker(partial(_write_pieces, task)), _OUTCOME)
        )
    else:
        written = _narrowed(data.frame, plan.tasks).mapInArrow(
            _worker(partial(_write_rows, data.parser, task)), "outcome binary"
        )
    try:
        rows = written.collect()
    except Exception as error:
        # Of Py4J or Spark: which, depends on where in the JVM it failed.
        raise failures.reading_error(error) or error from None
    return [calls.decode(bytes(row.outcome)) for row in rows]


def _narrowed(frame: DataFrame, count: int) -> DataFrame:
    # Coalescing joins neighbours, so that the order of rows stays; it never widens.
    return frame.coalesce(count)


def _worker(call: Callable[[Batches], Batches]) -> Callable[[Batches], Batches]:
    """Return a plain function: Spark looks at the signature of what it is to run."""

    def work(rows: Batches) -> Batches:
        return call(rows)

    return work


def _write_rows(parser: reading.Parser, task: tasks.WriteTask, rows: Batches) -> Batches:
    """Parse and write all rows of a part; return one outcome, or none where there are no rows."""
    part = _whole(rows)
    if part is not None:
        yield _outcome_batch(calls.outcome_of(lambda: _write(task, parser.parse(part))))


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
    for group in batches.prepare(parsed, task.config, task.schema, task.operation).groups:
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


def _write(task: tasks.WriteTask, data: pa.Table) -> list[commits.WriteStat]:
    context = TaskContext.get()
    assert context is not None
    token = tasks.WriteToken(
        task=_TOKEN_TASK_FIRST + context.partitionId(),
        stage=context.stageId(),
        attempt=context.taskAttemptId(),
    )
    batch = batches.prepare(data, task.config, task.schema, task.operation)
    storage = locations.open_storage(task.table_uri)
    mark = early_conflicts.marking(task.detection, storage, environment.system(parallelism=1))
    return tasks.run(task, batch, token, storage, local.LocalEngine(1), mark)


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


def _outcome_batch(outcome: calls.Outcome[list[commits.WriteStat]]) -> pa.RecordBatch:
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
