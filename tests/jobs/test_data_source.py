"""Tables as a Spark data source: the rows of the core's own read, columns and filters pushed."""

import re
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession, datasource
from pyspark.sql.types import LongType, StringType, StructField, StructType

from hoodie_jobs.spark import data_source, packing, read_options, tables
from support.tables import every_type
from support.tables.job_workshop import Workshop, keep_statistics


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


def test_queries_have_the_names_of_apache_hudi(spark: SparkSession, written: Workshop) -> None:
    named = {"hoodie.datasource.query.type": "read_optimized"}
    assert rows(load(spark, written, **named)) == rows(load(spark, written, query="read-optimized"))
    named = {"hoodie.datasource.query.type": "snapshot"}
    assert rows(load(spark, written, **named)) == set(written.rows().values())


def test_partition_values_are_those_of_paths_by_option(
    spark: SparkSession, written: Workshop
) -> None:
    properties = Path(written.uri) / ".hoodie" / "hoodie.properties"
    properties.write_text(
        properties.read_text().replace("keygenerator.type=SIMPLE", "keygenerator.type=TIMESTAMP")
    )
    for folder in ("eu", "us", "asia"):
        (Path(written.uri) / folder).rename(Path(written.uri) / f"of {folder}")
    frame = load(spark, written, partition_values="path")
    expected = {(id_, f"of {region}", *rest) for id_, region, *rest in written.rows().values()}
    assert rows(frame) == expected
    assert rows(tables.read(spark, written.uri, partition_values="path")) == expected
    with pytest.raises(Exception, match="expected file or path"):
        load(spark, written, partition_values="folder").collect()


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


def test_filters_are_left_to_spark_where_it_pushes_none_down(
    spark: SparkSession, written: Workshop
) -> None:
    """As in every session of which nobody asked for it."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    try:
        found = load(spark, written).where("id in ('a', 'd')").collect()
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    assert {row.id for row in found} == {"a", "d"}


def test_only_small_slices_share_a_partition(
    spark: SparkSession, written: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = data_source.HoodieReader(
        read_options.parse({"path": written.uri}), load(spark, written).schema
    )
    slices = len(written.table().slices())
    assert [len(partition.tasks) for partition in reader.partitions()] == [slices]
    monkeypatch.setattr(packing, "TASK_BYTES_MIN", 1)
    assert [len(partition.tasks) for partition in reader.partitions()] == [1] * slices


def test_filter_on_partition_or_key_leaves_slices_out(
    spark: SparkSession, written: Workshop
) -> None:
    frame = load(spark, written)
    for pushed, slices in (
        (datasource.EqualTo(("region",), "asia"), 1),
        (datasource.EqualTo(("id",), "c"), 2),
    ):
        reader = data_source.HoodieReader(read_options.parse({"path": written.uri}), frame.schema)
        assert list(reader.pushFilters([pushed])) == []
        assert sum(len(partition.tasks) for partition in reader.partitions()) <= slices


def test_filter_leaves_partitions_and_slices_out_by_statistics(
    spark: SparkSession, workshop: Workshop
) -> None:
    keep_statistics(workshop)
    for number, region in enumerate(("eu", "us", "asia")):
        content = "".join(f"{region}{n},{region},{100 * number + n},\n" for n in range(8))
        workshop.write(workshop.file(region, content), attempt=number + 1)
    frame = load(spark, workshop)
    reader = data_source.HoodieReader(read_options.parse({"path": workshop.uri}), frame.schema)
    assert list(reader.pushFilters([datasource.EqualTo(("amount",), 103)])) == []
    planned = [task for partition in reader.partitions() for task in partition.tasks]
    assert {task.file_slice.group.partition_path for task in planned} == {"us"}
    assert len(planned) < len(workshop.table().slices()) // 2
    assert rows(frame.where("amount = 103")) == {("us3", "us", 103, None)}


def test_aggregate_over_the_table(spark: SparkSession, written: Workshop) -> None:
    frame = load(spark, written, columns="region,amount").groupBy("region").sum("amount")
    assert rows(frame) == {("eu", 12), ("us", 3), ("asia", 4)}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": "colour"}, "there is no column 'colour'"),
        ({"query": "latest"}, "option query is 'latest'"),
        ({"hoodie.datasource.read.incr.path.glob": "eu"}, "of Apache Hudi is not supported"),
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


def test_every_type_arrives_as_it_was_written(spark: SparkSession, typed: str) -> None:
    frame = spark.read.format("hoodie").load(typed)
    read = frame.toArrow().sort_by("id").to_pylist()
    assert read == [dict.fromkeys(every_type.SCHEMA.names) | row for row in every_type.ROWS]


def test_empty_table_has_no_rows_and_all_columns(spark: SparkSession, workshop: Workshop) -> None:
    frame = load(spark, workshop)
    assert frame.columns == ["id", "region", "amount", "note"]
    assert frame.collect() == []


def test_filter_that_no_partition_meets_reads_nothing(
    spark: SparkSession, written: Workshop
) -> None:
    assert load(spark, written).where("region = 'nowhere'").collect() == []


def test_table_is_read_as_of_an_earlier_moment(spark: SparkSession, written: Workshop) -> None:
    first = written.table().timeline().completed_writes[0].requested_time
    expected = {("a", "eu", 1, "x"), ("b", "eu", 2, "y"), ("c", "us", 3, None)}
    assert rows(load(spark, written, **{"as.of.instant": first})) == expected
    by_theirs = {"as.of.instant": first, "as.of.rule": "requested", "as.of.columns": "then"}
    assert rows(load(spark, written, **by_theirs)) == expected
    assert rows(tables.read(spark, written.uri, as_of=first)) == expected
    with pytest.raises(Exception, match="expected completion or requested"):
        load(spark, written, **{"as.of.rule": "other"}).collect()
