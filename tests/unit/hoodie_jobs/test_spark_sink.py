"""The sink of DataFrames without Spark: tasks that run twice, die or fail, and drivers that do.

`tests/jobs/test_spark_sink.py` has Spark call it.
"""

import os
import pickle
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import datasource
from pyspark.sql.pandas import types as arrow_types

import hoodie
from hoodie import errors
from hoodie_jobs import staging
from hoodie_jobs.spark import calls, data_source, sink, write_options

WRITE = "hoodie.datasource.write"
OPTIONS = {
    f"{WRITE}.recordkey.field": "id",
    f"{WRITE}.partitionpath.field": "city",
    "hoodie.operator.clock.wait_ms": "0",
}
INSERT = {f"{WRITE}.operation": "insert"}
SCHEMA = pa.schema([("id", pa.string()), ("city", pa.string()), ("fare", pa.float64())])

Messages = list[datasource.WriterCommitMessage | None]


def rows(*texts: str, schema: pa.Schema = SCHEMA) -> pa.Table:
    """Return rows of texts `id city fare`."""
    parts = [text.split() for text in texts]
    return pa.table(
        [
            [each[0] for each in parts],
            [each[1] for each in parts],
            [float(each[2]) for each in parts],
        ],
        schema=schema,
    )


@dataclass
class Task:
    """What a task sees of Spark."""

    number: int
    attempt: int
    query_id: str | None = None

    def partitionId(self) -> int:  # noqa: N802
        return self.number

    def taskAttemptId(self) -> int:  # noqa: N802
        return self.attempt

    def attemptNumber(self) -> int:  # noqa: N802
        return 3

    def getLocalProperty(self, key: str) -> str | None:  # noqa: N802
        assert key == "sql.streaming.queryId"
        return self.query_id


@dataclass
class Place:
    """A table that may not be there, and Spark's part in writing it."""

    folder: Path
    options: dict[str, str] = field(default_factory=lambda: dict(OPTIONS))
    attempts: int = 0

    @property
    def uri(self) -> str:
        return str(self.folder / "trips")

    def source(self, **options: str) -> data_source.HoodieDataSource:
        return data_source.HoodieDataSource({"path": self.uri, **self.options, **options})

    def writer(
        self,
        schema: pa.Schema = SCHEMA,
        options: dict[str, str] | None = None,
        *,
        is_overwrite: bool = False,
    ) -> sink.HoodieWriter:
        spark_schema = arrow_types.from_arrow_schema(schema)
        found = self.source(**(options or {})).writer(spark_schema, is_overwrite)
        assert isinstance(found, sink.HoodieWriter)
        # As it goes to the tasks.
        again: sink.HoodieWriter = pickle.loads(pickle.dumps(found))
        return again

    def run(
        self,
        writer: sink.HoodieWriter | sink.HoodieStreamWriter,
        number: int,
        data: pa.Table,
        query_id: str | None = None,
    ) -> datasource.WriterCommitMessage:
        self.attempts += 1
        task = Task(number, self.attempts, query_id)
        with mock.patch.object(TaskContext, "get", return_value=task):
            return writer.write(iter(data.to_batches()))

    def write(
        self,
        *parts: pa.Table,
        options: dict[str, str] | None = None,
        is_overwrite: bool = False,
    ) -> None:
        writer = self.writer(parts[0].schema, options, is_overwrite=is_overwrite)
        writer.commit([self.run(writer, number, part) for number, part in enumerate(parts)])

    def held(self) -> list[str]:
        found = hoodie.open_table(self.uri).scan(["id", "city", "fare"]).to_arrow()
        return sorted(f"{row['id']} {row['city']} {row['fare']:g}" for row in found.to_pylist())

    def commits(self) -> int:
        return hoodie.open_table(self.uri).inspect.timeline().num_rows

    @property
    def staged(self) -> list[Path]:
        return sorted((Path(self.uri) / staging.FOLDER).rglob("*.arrow"))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_rows_of_all_tasks_are_one_commit_and_nothing_stays_staged(place: Place) -> None:
    place.write(rows("a oslo 1", "b rome 2"), rows(), rows("c oslo 3"))
    assert place.held() == ["a oslo 1", "b rome 2", "c oslo 3"]
    assert (place.commits(), place.staged) == (1, [])


def test_of_rows_with_one_key_the_later_one_counts(place: Place) -> None:
    writer = place.writer()
    messages = [
        place.run(writer, 1, rows("a oslo 2")),
        place.run(writer, 0, rows("a oslo 1", "b oslo 1")),
    ]
    writer.commit(list(messages))
    assert place.held() == ["a oslo 2", "b oslo 1"]


def test_quick_start_of_apache_hudi(place: Place) -> None:
    place.write(rows("a oslo 1", "b rome 2", "c oslo 3"), is_overwrite=True)
    place.write(rows("a oslo 10"), options={f"{WRITE}.operation": "upsert"})
    place.write(rows("b rome 0"), options={f"{WRITE}.operation": "delete"})
    assert place.held() == ["a oslo 10", "c oslo 3"]
    place.write(rows("d rome 4", "d rome 5"), is_overwrite=True)
    assert place.held() == ["d rome 5"]
    place.write(rows("e oslo 1"), options={f"{WRITE}.operation": "insert_overwrite"})
    assert place.held() == ["d rome 5", "e oslo 1"]
    place.write(rows("e rome 9"), options={f"{WRITE}.operation": "insert_overwrite"})
    assert place.held() == ["e oslo 1", "e rome 9"]


@pytest.mark.parametrize("operation", ["insert", "bulk_insert", "insert_overwrite_table"])
def test_inserts_add_what_is_given(place: Place, operation: str) -> None:
    sorting = {"hoodie.bulkinsert.sort.mode": "GLOBAL_SORT"}
    place.write(
        rows("b oslo 1", "a oslo 2", "a oslo 3"),
        options={f"{WRITE}.operation": operation, **sorting},
    )
    assert place.held() == ["a oslo 2", "a oslo 3", "b oslo 1"]


def test_task_that_ran_twice_leaves_no_double_rows(place: Place) -> None:
    """Speculation, or an attempt whose answer was lost: one message of the two arrives."""
    writer = place.writer(options=INSERT)
    lost = place.run(writer, 0, rows("a oslo 1", "b oslo 1"))
    messages: Messages = [place.run(writer, 0, rows("a oslo 1", "b oslo 1"))]
    messages.append(place.run(writer, 1, rows("c oslo 1")))
    assert len(place.staged) == 3
    writer.commit(messages)
    assert place.held() == ["a oslo 1", "b oslo 1", "c oslo 1"]
    assert place.staged == []
    assert isinstance(lost, sink.Message)


def test_attempt_that_outlives_the_commit_changes_nothing(place: Place) -> None:
    writer = place.writer(options=INSERT)
    writer.commit([place.run(writer, 0, rows("a oslo 1"))])
    place.run(writer, 0, rows("a oslo 1"))
    assert place.held() == ["a oslo 1"]
    assert len(place.staged) == 1
    place.write(rows("b oslo 1"))
    assert place.held() == ["a oslo 1", "b oslo 1"]


def test_two_messages_of_one_task_are_refused(place: Place) -> None:
    writer = place.writer(options=INSERT)
    messages = [place.run(writer, 0, rows("a oslo 1")) for _ in range(2)]
    with pytest.raises(errors.StorageError, match="expected each once"):
        writer.commit(list(messages))
    writer.abort(list(messages))
    assert place.held() == place.staged == []


def test_driver_that_dies_before_the_commit_publishes_nothing(place: Place) -> None:
    writer = place.writer()
    place.run(writer, 0, rows("a oslo 1"))
    with pytest.raises(errors.NotFoundError):
        hoodie.open_table(place.uri)
    place.write(rows("b oslo 2"))
    assert place.held() == ["b oslo 2"]
    assert len(place.staged) == 1


def test_what_a_dead_driver_left_is_deleted_days_later(place: Place) -> None:
    writers = [place.writer() for _ in range(2)]
    for writer in writers:
        place.run(writer, 0, rows("a oslo 1"))
    old, fresh = place.staged
    then_s = time.time() - staging.LEFT_MS / 1000 - 60
    os.utime(old, (then_s, then_s))
    place.write(rows("b oslo 2"))
    assert place.staged == [fresh]
    assert place.held() == ["b oslo 2"]


def test_write_whose_staged_rows_are_gone_publishes_nothing(place: Place) -> None:
    place.write(rows("a oslo 1"))
    writer = place.writer()
    message = place.run(writer, 0, rows("a oslo 2"))
    place.staged[0].unlink()
    with pytest.raises(errors.NotFoundError):
        writer.commit([message])
    assert (place.held(), place.commits()) == (["a oslo 1"], 1)


def test_staged_rows_that_are_fewer_than_was_told_are_not_written(place: Place) -> None:
    """A stream of Arrow may end after any batch, and says nothing of it."""
    place.write(rows("a oslo 1"))
    writer = place.writer()
    data = pa.concat_tables([rows("a oslo 2"), rows("b oslo 2")])
    message = place.run(writer, 0, data)
    whole = place.staged[0].read_bytes()
    with pa.ipc.open_stream(whole) as stream:
        first = stream.read_next_batch()
    with place.staged[0].open("wb") as file, pa.ipc.new_stream(file, first.schema) as shorter:
        shorter.write_batch(first)
    with pytest.raises(errors.StorageError, match=r"has 1 rows, expected 2: write the rows again"):
        writer.commit([message])
    assert (place.held(), place.commits()) == (["a oslo 1"], 1)


def test_failed_task_is_the_error_of_the_write(place: Place) -> None:
    place.write(rows("a oslo 1"))
    writer = place.writer()
    messages: Messages = [place.run(writer, 0, rows("b oslo 1"))]

    def failing(storage: object, *others: object) -> staging.Staged:
        raise errors.StorageError("the disk is full")

    with mock.patch.object(staging, "stage", failing):
        messages.append(place.run(writer, 1, rows("c oslo 1")))
    with pytest.raises(errors.StorageError, match="the disk is full"):
        writer.commit(messages)
    writer.abort(messages)
    assert (place.held(), place.commits(), place.staged) == (["a oslo 1"], 1, [])


def test_rows_that_break_off_leave_no_file(place: Place) -> None:
    writer = place.writer()

    def broken() -> Iterator[pa.RecordBatch]:
        yield from rows("a oslo 1").to_batches()
        raise RuntimeError("killed")

    with (
        mock.patch.object(TaskContext, "get", return_value=Task(0, 1)),
        pytest.raises(RuntimeError, match="killed"),
    ):
        writer.write(broken())
    assert place.staged == []


def test_write_that_fails_on_the_driver_publishes_nothing(place: Place) -> None:
    """A null record key is found when rows are grouped."""
    place.write(rows("a oslo 1"))
    writer = place.writer()
    bad = pa.table([["b", None], ["oslo", "oslo"], [1.0, 2.0]], schema=SCHEMA)
    messages: Messages = [place.run(writer, 0, bad)]
    with pytest.raises(errors.InvalidInputError, match="'id'"):
        writer.commit(messages)
    writer.abort(messages)
    assert (place.held(), place.commits(), place.staged) == (["a oslo 1"], 1, [])


def test_more_than_one_process_should_write_is_refused_with_the_function(place: Place) -> None:
    writer = place.writer(options={"staged_bytes_max": "10"})
    messages: Messages = [place.run(writer, 0, rows("a oslo 1"))]
    with pytest.raises(errors.UnsupportedError, match=r"use hoodie_jobs\.spark\.frames\.write"):
        writer.commit(messages)
    with pytest.raises(errors.NotFoundError):
        hoodie.open_table(place.uri)


def test_columns_that_do_not_fit_are_refused_before_any_task(place: Place) -> None:
    place.write(rows("a oslo 1"))
    other = pa.schema([*SCHEMA, pa.field("tip", pa.float64())])
    with pytest.raises(errors.InvalidInputError, match="column 'tip' is not in the table"):
        place.writer(other)
    with pytest.raises(errors.InvalidInputError, match=r"'fare' \(double\) is missing"):
        place.writer(SCHEMA.remove(2))
    place.writer(other, {f"{WRITE}.reconcile.schema": "true"})


def test_columns_are_added_where_that_is_asked_for(place: Place) -> None:
    place.write(rows("a oslo 1"))
    data = rows("b oslo 2").append_column("tip", pa.array([0.5]))
    place.write(data, options={f"{WRITE}.reconcile.schema": "true"})
    found = hoodie.open_table(place.uri).scan(["id", "tip"]).to_arrow().sort_by("id")
    assert found.to_pylist() == [{"id": "a", "tip": None}, {"id": "b", "tip": 0.5}]


def test_hudis_own_columns_are_not_written(place: Place) -> None:
    data = rows("a oslo 1").append_column("_hoodie_commit_time", pa.array(["1"]))
    place.write(data)
    assert hoodie.open_table(place.uri).schema.arrow.names == SCHEMA.names


def test_deletes_need_the_columns_of_the_key(place: Place) -> None:
    delete = {f"{WRITE}.operation": "delete"}
    with pytest.raises(errors.NotFoundError):
        place.writer(options=delete)
    place.write(rows("a oslo 1", "b rome 1"))
    with pytest.raises(errors.InvalidInputError, match=r"lack the column 'city'.* id, city"):
        place.writer(SCHEMA.remove(1), delete)
    place.write(rows("b rome 1").drop_columns(["fare"]), options=delete)
    assert place.held() == ["a oslo 1"]


def test_table_that_exists_may_be_left_alone(place: Place) -> None:
    ignore, refuse = {"if_exists": "ignore"}, {"if_exists": "error"}
    place.write(rows("a oslo 1"), options=refuse)
    place.write(rows("b oslo 1"), options=ignore)
    with pytest.raises(errors.AlreadyExistsError, match="option if_exists is error"):
        place.writer(options=refuse)
    assert (place.held(), place.staged) == (["a oslo 1"], [])


def test_table_that_others_created_meanwhile_must_be_the_one_that_was_asked_for(
    place: Place,
) -> None:
    writer = place.writer()
    message = place.run(writer, 0, rows("a oslo 1"))
    hoodie.create_table(place.uri, SCHEMA, "id", index="simple", table_type="cow")
    with pytest.raises(errors.ConfigurationError, match="partition columns differs"):
        writer.commit([message])
    assert place.held() == []


def test_named_batch_is_written_once(place: Place) -> None:
    named = {**INSERT, "writer_id": "nightly", "batch_id": "42"}
    for _ in range(2):
        place.write(rows("a oslo 1"), options=named)
    assert (place.held(), place.staged) == (["a oslo 1"], [])
    place.write(rows("a oslo 1"), options={**named, "batch_id": "43"})
    assert place.held() == ["a oslo 1"] * 2


@dataclass
class Query:
    """A stream, whose writer Spark makes for the tasks of a micro-batch, and for its commit."""

    place: Place
    id: str
    options: dict[str, str] = field(default_factory=lambda: dict(INSERT))
    is_complete: bool = False

    def writer(self) -> sink.HoodieStreamWriter:
        schema = arrow_types.from_arrow_schema(SCHEMA)
        found = self.place.source(**self.options).streamWriter(schema, self.is_complete)
        assert isinstance(found, sink.HoodieStreamWriter)
        return found

    def staged(self, parts: Sequence[pa.Table]) -> Messages:
        writer = self.writer()
        return [self.place.run(writer, *part, self.id) for part in enumerate(parts)]

    def batch(self, number: int, *parts: pa.Table) -> None:
        self.writer().commit(self.staged(parts), number)


def test_micro_batch_is_written_once(place: Place) -> None:
    query = Query(place, "q1")
    query.batch(0, rows("a oslo 1"), rows("b oslo 1"))
    query.batch(0, rows("a oslo 1"), rows("b oslo 1"))
    query.batch(1, rows("a oslo 1"))
    query.batch(1, rows("a oslo 1"))
    assert place.held() == ["a oslo 1", "a oslo 1", "b oslo 1"]
    assert place.staged == []


def test_query_with_a_new_checkpoint_begins_with_other_micro_batches(place: Place) -> None:
    """Its first one has the number 0 as well; the identifier of the writer may be the same."""
    named = {**INSERT, write_options.STREAM_ID: "orders"}
    Query(place, "q1", named).batch(0, rows("a oslo 1"))
    Query(place, "q2", named).batch(0, rows("b oslo 1"))
    Query(place, "q2", named).batch(0, rows("b oslo 1"))
    Query(place, "q3").batch(0, rows("c oslo 1"))
    assert place.held() == ["a oslo 1", "b oslo 1", "c oslo 1"]
    authors = hoodie.open_table(place.uri).inspect.writers().to_pylist()
    assert "orders" in str(authors)


def test_complete_micro_batches_replace_the_table(place: Place) -> None:
    query = Query(place, "q1", {}, is_complete=True)
    query.batch(0, rows("a oslo 1", "b oslo 1"))
    query.batch(1, rows("a oslo 2"))
    assert place.held() == ["a oslo 2"]
    query.batch(2, rows())
    assert place.held() == []


def test_failed_micro_batch_leaves_nothing(place: Place) -> None:
    query = Query(place, "q1")
    query.batch(0, rows("a oslo 1"))
    messages = query.staged([rows("b oslo 1")])
    query.writer().abort([*messages, None], 1)
    assert (place.held(), place.staged) == (["a oslo 1"], [])


def test_messages_that_name_no_query_are_refused(place: Place) -> None:
    query = Query(place, "q1")
    mixed = [*query.staged([rows("a oslo 1")]), *Query(place, "q2").staged([rows("b oslo 1")])]
    nameless = [place.run(query.writer(), 0, rows("a oslo 1"))]
    for messages in (mixed, list(nameless)):
        with pytest.raises(errors.ConfigurationError, match="expected those of one"):
            query.writer().commit(messages, 0)


def test_outcomes_cross_the_border_of_processes(place: Place) -> None:
    writer = place.writer()
    message = place.run(writer, 0, rows("a oslo 1"))
    again = pickle.loads(pickle.dumps(message))
    assert isinstance(again, sink.Message)
    assert calls.result_of(again.outcome).rows == 1
    writer.commit([again])
    assert place.held() == ["a oslo 1"]


def refusing() -> Iterator[tuple[str, Callable[[Place], object]]]:
    yield "unknown option", lambda place: place.writer(options={"hoodie.sortt": "x"})
    yield "other table", lambda place: place.writer(options={"hoodie.table.name": "other"})


@pytest.mark.parametrize("refuse", [each for _, each in refusing()], ids=[n for n, _ in refusing()])
def test_refused_write_leaves_the_table_as_it_was(
    place: Place, refuse: Callable[[Place], object]
) -> None:
    place.write(rows("a oslo 1"))
    with pytest.raises(errors.HoodieError):
        refuse(place)
    assert (place.held(), place.commits(), place.staged) == (["a oslo 1"], 1, [])
