"""Changes on Spark: incremental and CDC queries, views of them in SQL, and streams."""

import json

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from hoodie.contract import job_specs
from hoodie.model import moments, settings
from hoodie.read import changes, travel, where
from hoodie_jobs.spark import data_source, packing, tables
from support.kube.programs import wait_until
from support.tables.job_workshop import Workshop

BEGIN = "hoodie.datasource.read.begin.instanttime"
INCREMENTAL = {"hoodie.datasource.query.type": "incremental"}
CDC = {**INCREMENTAL, "hoodie.datasource.query.incremental.format": "cdc"}


@pytest.fixture(autouse=True, scope="module")
def register(spark: SparkSession) -> None:
    spark.dataSource.register(data_source.HoodieDataSource)


def load(spark: SparkSession, workshop: Workshop, **options: str) -> DataFrame:
    return spark.read.format("hoodie").options(**options).load(workshop.uri)


def rows(frame: DataFrame) -> list[tuple[object, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def local_rows(found: changes.Changes) -> list[tuple[object, ...]]:
    return sorted((tuple(row.values()) for row in found.read().read_all().to_pylist()), key=repr)


def delete(workshop: Workshop, *ids: str) -> None:
    workshop.mode = settings.ConcurrencyMode.OPTIMISTIC
    condition = f"id in ({', '.join(map(repr, ids))})"
    workshop.run(workshop.spec(job_specs.DeleteRows(where=condition)))


def test_incremental_rows_are_those_of_the_table(spark: SparkSession, written: Workshop) -> None:
    first, second = written.table().timeline().completed_writes[:2]
    begin = str(first.completion_time)
    options = {**INCREMENTAL, BEGIN: begin}
    assert rows(load(spark, written, **options)) == [("a", "eu", 10, "x"), ("d", "asia", 4, "z")]
    expected = local_rows(written.table().changes(begin))
    assert rows(load(spark, written, **options, deletes="true")) == expected
    up_to = {"hoodie.datasource.read.end.instanttime": str(second.completion_time)}
    assert rows(load(spark, written, **options, **up_to)) == []
    assert rows(load(spark, written, **INCREMENTAL)) == rows(load(spark, written))
    filtered = load(spark, written, **options).where("amount > 5").select("id")
    assert rows(filtered) == [("a",)]
    plan = filtered._jdf.queryExecution().executedPlan().toString()  # type: ignore[operator] # of the JVM
    assert "Filter " not in plan, "it is pushed down"
    deleted = load(spark, written, **options, deletes="true").where("_change = 'delete'")
    assert rows(deleted) == []
    by_option = load(spark, written, **options, where="amount > 5")
    assert rows(by_option.select("id")) == [("a",)]
    version = {"hoodie.datasource.read.incr.table.version": "6", BEGIN: first.requested_time}
    requested = load(spark, written, **INCREMENTAL, **version)
    assert rows(requested) == [("a", "eu", 10, "x"), ("d", "asia", 4, "z")]


def test_change_data_is_that_of_apache_hudi(spark: SparkSession, written: Workshop) -> None:
    """Its columns; tests of conformance compare the values."""
    begin = str(written.table().timeline().completed_writes[0].completion_time)
    frame = load(spark, written, **CDC, **{BEGIN: begin})
    assert frame.dtypes == [
        ("op", "string"),
        ("ts_ms", "string"),
        ("before", "string"),
        ("after", "string"),
    ]
    found = {
        row.op: (row.before and json.loads(row.before), json.loads(row.after))
        for row in frame.collect()
    }
    assert found == {
        "u": (
            {"id": "a", "region": "eu", "amount": 1, "note": "x"},
            {"id": "a", "region": "eu", "amount": 10, "note": "x"},
        ),
        "i": (None, {"id": "d", "region": "asia", "amount": 4, "note": "z"}),
    }
    structs = load(spark, written, **CDC, images="struct").where("op = 'u'")
    assert rows(structs.select("record_key", "before.amount", "after.amount")) == [("a", 1, 10)]


def test_parts_are_read_by_several_tasks(
    spark: SparkSession, written: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packing, "TASK_BYTES_MIN", 1)
    found = tables.changes(spark, written.uri)
    assert found.is_snapshot
    assert found.frame.rdd.getNumPartitions() == len(written.table().slices()) > 2
    expected = [("upsert", *row) for row in rows(load(spark, written))]
    assert rows(found.frame) == expected


def test_positions_lead_from_read_to_read(spark: SparkSession, written: Workshop) -> None:
    first = tables.changes(spark, written.uri)
    assert rows(tables.changes(spark, written.uri, first.position).frame) == []
    written.write(written.file("3", "e,eu,5,v\n"), attempt=3)
    found = tables.changes(spark, written.uri, str(first.position))
    assert rows(found.frame) == [("upsert", "e", "eu", 5, "v")]
    data = tables.change_data(spark, written.uri, first.position, columns=["id"])
    assert [(row.op, row.after.id) for row in data.frame.collect()] == [("i", "e")]
    assert data.position == found.position
    again = tables.changes(spark, written.uri, first.position, until=first.position)
    assert rows(again.frame) == []
    before = written.table().timeline().completed_writes[-2].requested_time
    requested = travel.AsOf(time=before, rule=moments.Rule.REQUESTED)
    found = tables.changes(spark, written.uri, requested, where=where.parse("amount = 5"))
    assert rows(found.frame) == [("upsert", "e", "eu", 5, "v")]
    assert found.position == written.table().timeline().completed_writes[-1].requested_time


def test_views_in_sql(spark: SparkSession, written: Workshop) -> None:
    first = written.table().timeline().completed_writes[0]
    view = "CREATE OR REPLACE TEMPORARY VIEW v USING hoodie OPTIONS"
    spark.sql(f"{view} (path '{written.uri}')")
    assert rows(spark.sql("SELECT id FROM v WHERE amount > 3")) == [("a",), ("d",)]
    spark.sql(f"{view} (path '{written.uri}', `as.of.instant` '{first.requested_time}')")
    assert rows(spark.sql("SELECT sum(amount) FROM v")) == [(6,)]
    options = ", ".join(
        f"`{name}` '{value}'" for name, value in {**CDC, BEGIN: first.completion_time}.items()
    )
    spark.sql(f"{view} (path '{written.uri}', {options})")
    counted = spark.sql("SELECT op, get_json_object(after, '$.amount') FROM v")
    assert rows(counted) == [("i", "4"), ("u", "10")]
    options = ", ".join(f"`{name}` '{value}'" for name, value in INCREMENTAL.items())
    spark.sql(f"{view} (path '{written.uri}', {options}, deletes 'true')")
    assert rows(spark.sql("SELECT _change, count(*) FROM v GROUP BY _change")) == [("upsert", 4)]


class Stream:
    """A query, whose sink keeps each micro-batch once."""

    def __init__(self, spark: SparkSession, workshop: Workshop, **options: str) -> None:
        self.batches: dict[int, list[tuple[object, ...]]] = {}
        self.fails_in: int | None = None
        self.spark, self.workshop, self.options = spark, workshop, options
        self.checkpoint = str(workshop.folder / "checkpoint")

    def start(self, *, is_endless: bool = False) -> StreamingQuery:
        frame = self.spark.readStream.format("hoodie").options(**self.options)
        writer = frame.load(self.workshop.uri).writeStream.foreachBatch(self.take)
        writer = writer.option("checkpointLocation", self.checkpoint)
        if not is_endless:
            writer = writer.trigger(availableNow=True)
        return writer.start()

    def take(self, frame: DataFrame, number: int) -> None:
        found = rows(frame)
        assert self.batches.setdefault(number, found) == found, "a micro-batch is another one now"
        if number == self.fails_in:
            self.fails_in = None
            raise RuntimeError("the sink dies")

    def run(self) -> None:
        """Run to the end; once more if Spark's worker was too slow to connect on a busy machine.

        Spark gives the worker that plans a stream 10 s, which cannot be changed (4.3.0).
        """
        try:
            self.start().awaitTermination()
        except StreamingQueryException as error:
            if "worker failed to connect" not in str(error):
                raise
            self.start().awaitTermination()

    @property
    def rows(self) -> list[list[tuple[object, ...]]]:
        return [self.batches[number] for number in sorted(self.batches) if self.batches[number]]


def test_stream_goes_on_from_its_checkpoint(spark: SparkSession, written: Workshop) -> None:
    stream = Stream(spark, written, deletes="true")
    stream.run()
    assert stream.rows == [[("upsert", *row) for row in rows(load(spark, written))]]
    written.write(written.file("3", "e,eu,5,v\n"), attempt=3)
    written.write(written.file("4", "e,eu,6,v\nb,eu,7,\n"), attempt=4)
    delete(written, "c")
    stream.run()
    assert stream.rows[1:] == [
        [
            ("delete", "c", "us", None, None),
            ("upsert", "b", "eu", 7, "y"),
            ("upsert", "e", "eu", 6, "v"),
        ]
    ]
    stream.run()
    assert len(stream.rows) == 2


def test_stream_that_fails_reads_the_same_rows_again(
    spark: SparkSession, written: Workshop
) -> None:
    """Among limited micro-batches, with a write in between that the logged one must not have."""
    stream = Stream(spark, written, maxCommitsPerTrigger="1", deletes="true")
    for number in range(3):
        written.write(written.file(f"more{number}", f"e,eu,{number},v\n"), attempt=number + 3)
    stream.run()
    for number in range(3):
        written.write(written.file(f"late{number}", f"e,eu,{9 - number},v\n"), attempt=number + 6)
    stream.fails_in = max(stream.batches) + 2
    with pytest.raises(Exception, match="the sink dies"):
        stream.run()
    written.write(written.file("last", "f,us,1,v\n"), attempt=9)
    stream.run()
    changed = [[row[-2] for row in batch] for batch in stream.rows[1:]]
    assert changed == [[9], [8], [7], [1]]
    held: dict[object, tuple[object, ...]] = {}
    for _, *row in (row for batch in stream.rows for row in batch):
        held[row[0]] = tuple(row)
    assert held == written.rows()


def test_stream_of_change_data(spark: SparkSession, written: Workshop) -> None:
    options = {**CDC, "hoodie.datasource.streaming.startOffset": "latest"}
    stream = Stream(spark, written, **options)
    stream.run()
    assert stream.rows == []
    written.write(written.file("3", "d,asia,5,\n"), attempt=3)
    delete(written, "a")
    stream.run()
    (found,) = stream.rows
    assert [(row[0], str(row[2] or row[3])[:9]) for row in found] == [
        ("d", '{"id":"a"'),
        ("u", '{"id":"d"'),
    ]


def test_stream_that_runs_takes_what_is_committed_meanwhile(
    spark: SparkSession, written: Workshop
) -> None:
    stream = Stream(spark, written, consumer="c")
    query = stream.start(is_endless=True)
    try:
        wait_until(lambda: bool(stream.rows), "the first micro-batch")
        written.write(written.file("3", "e,eu,5,v\n"), attempt=3)
        wait_until(lambda: [("e", "eu", 5, "v")] in stream.rows, "the next one")
        # Spark commits a micro-batch with the next one.
        written.write(written.file("4", "e,eu,6,v\n"), attempt=4)
        wait_until(lambda: len(stream.rows) == 3, "the third one")
        (consumer,) = written.table().consumers()
        assert consumer.consumer.name == "c"
    finally:
        query.stop()
    assert query.exception() is None
