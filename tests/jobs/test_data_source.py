"""Tables as a Spark data source: the rows of the core's own read, columns and filters pushed."""

import datetime
import decimal
import re
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession, datasource
from pyspark.sql.types import LongType, StringType, StructField, StructType

from hoodie import environment, table
from hoodie.model import commits, jobs, schemas, settings, table_config
from hoodie.transaction import authors
from hoodie.transaction.locks import address_texts
from hoodie.write import sessions
from hoodie_jobs.spark import data_source
from support.job_workshop import Workshop


@pytest.fixture
def written(workshop: Workshop) -> Workshop:
    """A table with a base file, logs over it, and one group of logs alone."""
    workshop.write(workshop.file("1", "a,eu,1,x\nb,eu,2,y\nc,us,3,\n"))
    workshop.run(workshop.spec(jobs.Compact(step=jobs.CompactionStep.SCHEDULE_AND_EXECUTE)))
    workshop.write(workshop.file("2", "a,eu,10,\nd,asia,4,z\n"), attempt=2)
    return workshop


@pytest.fixture(autouse=True, scope="module")
def register(spark: SparkSession) -> None:
    spark.dataSource.register(data_source.HoodieDataSource)


def load(spark: SparkSession, workshop: Workshop, **options: str) -> DataFrame:
    return spark.read.format("hoodie").options(**options).load(workshop.uri)


def rows(frame: DataFrame) -> set[tuple[object, ...]]:
    return {tuple(row) for row in frame.collect()}


def test_snapshot_is_the_tables_rows(spark: SparkSession, written: Workshop) -> None:
    frame = load(spark, written)
    assert frame.columns == ["id", "region", "amount", "note"]
    assert rows(frame) == set(written.rows().values())
    assert frame.rdd.getNumPartitions() == 1


def test_read_optimized_leaves_logs_out(spark: SparkSession, written: Workshop) -> None:
    frame = load(spark, written, query="read_optimized")
    assert rows(frame) == {("a", "eu", 1, "x"), ("b", "eu", 2, "y"), ("c", "us", 3, None)}


def test_columns_go_by_option_or_schema(spark: SparkSession, written: Workshop) -> None:
    expected = {(10, "a"), (2, "b"), (3, "c"), (4, "d")}
    assert rows(load(spark, written, columns="amount, id")) == expected
    schema = StructType([StructField("amount", LongType()), StructField("id", StringType())])
    assert rows(spark.read.format("hoodie").schema(schema).load(written.uri)) == expected


def test_meta_columns_are_there_when_named(spark: SparkSession, written: Workshop) -> None:
    frame = load(spark, written, columns="_hoodie_record_key,_hoodie_partition_path,id")
    assert rows(frame) == {
        ("a", "eu", "a"),
        ("b", "eu", "b"),
        ("c", "us", "c"),
        ("d", "asia", "d"),
    }


@pytest.mark.parametrize(
    ("condition", "ids", "pushed"),
    [
        ("id = 'a'", "a", True),
        ("region = 'eu' and amount > 5", "a", True),
        ("note is null", "c", True),
        ("id in ('a', 'd') and not region = 'eu'", "d", True),
        ("note like '%y%'", "b", False),
        ("amount % 2 = 0", "abd", False),
    ],
)
def test_filters_are_pushed_and_exact(
    spark: SparkSession,
    written: Workshop,
    condition: str,
    ids: str,
    *,
    pushed: bool,
) -> None:
    frame = load(spark, written).where(condition)
    assert {row.id for row in frame.collect()} == set(ids)
    plan = frame._jdf.queryExecution().executedPlan().toString()  # type: ignore[operator] # of the JVM
    assert (re.search(r"\bFilter ", plan) is None) is pushed


def test_only_small_slices_share_a_partition(
    spark: SparkSession, written: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = data_source.HoodieReader({"path": written.uri}, load(spark, written).schema)
    slices = len(written.table().slices())
    assert [len(partition.tasks) for partition in reader.partitions()] == [slices]
    monkeypatch.setattr(data_source, "PARTITION_BYTES", 1)
    assert [len(partition.tasks) for partition in reader.partitions()] == [1] * slices


def test_filter_on_partition_or_key_leaves_slices_out(
    spark: SparkSession, written: Workshop
) -> None:
    frame = load(spark, written)
    for pushed, slices in (
        (datasource.EqualTo(("region",), "asia"), 1),
        (datasource.EqualTo(("id",), "c"), 2),
    ):
        reader = data_source.HoodieReader({"path": written.uri}, frame.schema)
        assert list(reader.pushFilters([pushed])) == []
        assert sum(len(partition.tasks) for partition in reader.partitions()) <= slices


def test_aggregate_over_the_table(spark: SparkSession, written: Workshop) -> None:
    frame = load(spark, written, columns="region,amount").groupBy("region").sum("amount")
    assert rows(frame) == {("eu", 12), ("us", 3), ("asia", 4)}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": "colour"}, "there is no column 'colour'"),
        ({"query": "incremental"}, "option query is 'incremental'"),
    ],
)
def test_wrong_option_is_told(
    spark: SparkSession, written: Workshop, options: dict[str, str], message: str
) -> None:
    with pytest.raises(Exception, match=message):
        load(spark, written, **options).collect()


def test_missing_table_is_told(spark: SparkSession, workshop: Workshop) -> None:
    with pytest.raises(Exception, match=r"(?s)nowhere"):
        spark.read.format("hoodie").load(f"{workshop.uri}/nowhere").collect()


TYPED = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("flag", pa.bool_()),
        pa.field("small", pa.int32()),
        pa.field("ratio", pa.float32()),
        pa.field("score", pa.float64()),
        pa.field("price", pa.decimal128(12, 2)),
        pa.field("day", pa.date32()),
        pa.field("at", pa.timestamp("us", tz="UTC")),
        pa.field("local_at", pa.timestamp("us")),
        pa.field("raw", pa.binary()),
        pa.field("coarse_at", pa.timestamp("ms", tz="UTC")),
        pa.field("name", pa.string()),
    ]
)
AT = datetime.datetime(2013, 1, 2, 3, 4, 5, 678901, tzinfo=datetime.UTC)
TYPED_ROWS = [
    {
        "id": 1,
        "flag": True,
        "small": 7,
        "ratio": 0.5,
        "score": 1.25,
        "price": decimal.Decimal("12.50"),
        "day": AT.date(),
        "at": AT,
        "local_at": AT.replace(tzinfo=None),
        "raw": b"\x00\xff",
        "coarse_at": AT.replace(microsecond=678000),
        "name": "ü",
    },
    {"id": 2},
]


@pytest.fixture
def typed(tmp_path: Path) -> str:
    """A table of each type that we write, its rows in base files and in logs over them."""
    schema = schemas.from_arrow(TYPED, "typed")
    config = table_config.TableConfig(
        name="typed",
        record_key_fields=("id",),
        create_schema=schema.avro,
        bucket_count=2,
        has_partial_updates=True,
    )
    uri = str(tmp_path / "typed")
    opened = table.create_table(uri, config, schema, environment.system(parallelism=1))
    options = sessions.WriteOptions(
        operation=commits.Operation.UPSERT,
        transaction=sessions.TransactionOptions(
            settings=settings.WriteSettings(clock_wait_ms=0),
            lock=address_texts.parse("in-process"),
            author=authors.Author(writer_id="test"),
        ),
    )
    opened.write(pa.Table.from_pylist(TYPED_ROWS, schema=opened.schema.arrow), options)
    opened.write(pa.Table.from_pylist(TYPED_ROWS[:1], schema=opened.schema.arrow), options)
    return uri


def test_every_type_arrives_as_it_was_written(spark: SparkSession, typed: str) -> None:
    frame = spark.read.format("hoodie").load(typed)
    read = frame.toArrow().sort_by("id").to_pylist()
    assert read == [dict.fromkeys(TYPED.names) | row for row in TYPED_ROWS]


def test_empty_table_has_no_rows_and_all_columns(spark: SparkSession, workshop: Workshop) -> None:
    frame = load(spark, workshop)
    assert frame.columns == ["id", "region", "amount", "note"]
    assert frame.collect() == []


def test_filter_that_no_partition_meets_reads_nothing(
    spark: SparkSession, written: Workshop
) -> None:
    assert load(spark, written).where("region = 'nowhere'").collect() == []
