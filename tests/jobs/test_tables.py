"""Tables as DataFrames: Spark's own scan of what has no changes, the core's read of the rest."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from hoodie import environment, errors, table
from hoodie.contract import job_specs
from hoodie.read import planning, where
from hoodie_jobs.spark import tables
from support.tables import every_type
from support.tables.job_workshop import Workshop, keep_statistics, write_typed

EVERY_PARTITION = ("a b", "50%", "x*[y]{z}", "k=v", "_hidden", "ü?")


def rows(frame: DataFrame) -> set[tuple[object, ...]]:
    return {tuple(row) for row in frame.collect()}


def plan(frame: DataFrame) -> str:
    text: str = frame._jdf.queryExecution().executedPlan().toString()  # type: ignore[operator] # of the JVM
    return text


def compact(workshop: Workshop) -> None:
    workshop.run(
        workshop.spec(job_specs.Compact(step=job_specs.CompactionStep.SCHEDULE_AND_EXECUTE))
    )


def test_snapshot_is_the_tables_rows(spark: SparkSession, written: Workshop) -> None:
    frame = tables.read(spark, written.uri)
    assert frame.columns == ["id", "region", "amount", "note"]
    assert rows(frame) == set(written.rows().values())
    assert "parquet" in plan(frame)
    assert "MapInArrow" in plan(frame)


def test_compacted_table_is_read_by_spark_alone(spark: SparkSession, written: Workshop) -> None:
    compact(written)
    frame = tables.read(spark, written.uri)
    assert rows(frame) == set(written.rows().values())
    assert "MapInArrow" not in plan(frame)


def test_read_optimized_leaves_logs_out(spark: SparkSession, written: Workshop) -> None:
    frame = tables.read(spark, written.uri, is_read_optimized=True)
    assert rows(frame) == {("a", "eu", 1, "x"), ("b", "eu", 2, "y"), ("c", "us", 3, None)}


def test_columns_come_in_the_order_asked_for(spark: SparkSession, written: Workshop) -> None:
    frame = tables.read(spark, written.uri, ["amount", "_hoodie_record_key"])
    assert rows(frame) == {(10, "a"), (2, "b"), (3, "c"), (4, "d")}


def test_filter_reaches_the_scan(spark: SparkSession, written: Workshop) -> None:
    frame = tables.read(spark, written.uri).where("amount > 2 and note is null")
    assert rows(frame) == {("c", "us", 3, None)}
    assert "GreaterThan(amount,2)" in plan(frame)


@pytest.mark.parametrize("is_compacted", [False, True])
def test_every_type_arrives_as_it_was_written(
    spark: SparkSession, typed: str, *, is_compacted: bool
) -> None:
    frame = tables.read(spark, typed, is_read_optimized=is_compacted)
    read = frame.toArrow().sort_by("id").to_pylist()
    assert read == [dict.fromkeys(every_type.SCHEMA.names) | row for row in every_type.ROWS]
    assert ("MapInArrow" not in plan(frame)) is is_compacted


def test_values_count_and_not_what_paths_say(spark: SparkSession, workshop: Workshop) -> None:
    content = "".join(f"{n},{part},{n},\n" for n, part in enumerate(EVERY_PARTITION))
    workshop.write(workshop.file("1", content))
    compact(workshop)
    frame = tables.read(spark, workshop.uri)
    assert rows(frame) == set(workshop.rows().values())
    assert "MapInArrow" not in plan(frame)


def test_columns_of_paths_alone_are_read_by_the_core(
    spark: SparkSession, written: Workshop
) -> None:
    compact(written)
    before = set(written.rows().values())
    properties = Path(written.uri) / ".hoodie" / "hoodie.properties"
    key = "hoodie.datasource.write.drop.partition.columns"
    properties.write_text(properties.read_text().replace(f"{key}=false", f"{key}=true"))
    for path in Path(written.uri).glob("*/*.parquet"):
        pq.write_table(pq.read_table(path).drop_columns(["region"]), path)
    frame = tables.read(spark, written.uri)
    assert rows(frame) == before
    assert "parquet" not in plan(frame)
    filtered = tables.read(spark, written.uri, ["id"], where=where.parse("region = 'us'"))
    assert rows(filtered) == {(id_,) for id_, region, *_ in before if region == "us"}
    assert "MapInArrow" not in plan(tables.read(spark, written.uri, ["id", "note"]))


def test_file_of_another_type_is_read_by_the_core(spark: SparkSession, written: Workshop) -> None:
    compact(written)
    for path in Path(written.uri).rglob("*.parquet"):
        narrow = pq.read_table(path).cast(
            pa.schema(
                field.with_type(pa.int32()) if field.name == "amount" else field
                for field in pq.read_schema(path)
            )
        )
        pq.write_table(narrow, path)
    frame = tables.read(spark, written.uri)
    assert rows(frame) == set(written.rows().values())
    assert "parquet" not in plan(frame)
    assert "MapInArrow" not in plan(tables.read(spark, written.uri, ["id", "note"]))


def test_snapshot_is_of_the_moment_of_the_call(spark: SparkSession, written: Workshop) -> None:
    before = set(written.rows().values())
    frame = tables.read(spark, written.uri)
    written.write(written.file("3", "a,eu,11,\nc,us,33,\ne,eu,5,\n"), attempt=3)
    assert rows(frame) == before
    compact(written)
    assert rows(frame) == before
    assert rows(tables.read(spark, written.uri)) == set(written.rows().values()) != before


def test_empty_table_has_no_rows_and_all_columns(spark: SparkSession, workshop: Workshop) -> None:
    frame = tables.read(spark, workshop.uri)
    assert frame.columns == ["id", "region", "amount", "note"]
    assert frame.collect() == []


CONDITIONS = {
    "id = 1": True,
    "not (small > 6)": True,
    "small in (7, 8) or name is null": True,
    "flag = true": True,
    "ratio = 0.5 and score < 2": True,
    "not (score >= 1.5)": True,
    "price >= 12.50": True,
    "day >= '2013-01-02'": True,
    "at > '2013-01-02 03:04:05'": True,
    "local_at <= '2013-01-02 03:04:05.678901'": True,
    "name != 'u' and name >= 'ü'": True,
    "small < 7.5": False,
    "small not in (5000000000)": False,
}
"""Filters, and whether Spark evaluates them in its own scan."""


@pytest.mark.parametrize("text", CONDITIONS)
def test_rows_of_a_filter_are_those_of_the_core(spark: SparkSession, typed: str, text: str) -> None:
    predicate = where.parse(text)
    for is_compacted in (False, True):
        columns = ["name", "id"]
        frame = tables.read(spark, typed, columns, where=predicate, is_read_optimized=is_compacted)
        opened = table.open_table(typed, environment.system(parallelism=1))
        expected = opened.read(columns, predicate, is_read_optimized=is_compacted).read_all()
        assert frame.columns == columns
        assert rows(frame) == {tuple(row.values()) for row in expected.to_pylist()}
    if expected.num_rows:
        assert ("MapInArrow" not in plan(frame)) is CONDITIONS[text]


def test_nan_is_not_above_all_others(spark: SparkSession, tmp_path: Path) -> None:
    nan = {**every_type.ROWS[0], "id": 3, "score": float("nan"), "ratio": float("nan")}
    opened = write_typed(str(tmp_path / "typed"), [[*every_type.ROWS, nan]])
    for text in ("score > 1", "not (score > 1)", "ratio != 0.5", "ratio in (0.5, 1)"):
        predicate = where.parse(text)
        frame = tables.read(spark, opened.uri, ["id"], where=predicate)
        assert "MapInArrow" not in plan(frame)
        expected = opened.read(["id"], predicate).read_all().column("id").to_pylist()
        assert [row.id for row in frame.collect()] == expected, text


def test_filter_leaves_out_partitions_and_slices_by_statistics(
    spark: SparkSession, workshop: Workshop
) -> None:
    keep_statistics(workshop)
    for number, region in enumerate(("eu", "us", "asia")):
        content = "".join(f"{region}{n},{region},{100 * number + n},\n" for n in range(8))
        workshop.write(workshop.file(region, content), attempt=number + 1)
    compact(workshop)
    predicate = where.parse("amount = 103")
    step = workshop.table().explain_read(where=predicate).step(planning.Means.PARTITION_STATISTICS)
    assert (step.considered, step.left) == (3, 1)
    frame = tables.read(spark, workshop.uri, where=predicate)
    assert rows(frame) == {("us3", "us", 103, None)}
    needed = {Path(each).parent.name for each in frame.inputFiles()}
    assert needed == {"us"}
    assert len(frame.inputFiles()) < len(tables.read(spark, workshop.uri).inputFiles()) // 2


def test_wrong_names_are_told(spark: SparkSession, workshop: Workshop) -> None:
    with pytest.raises(errors.NotFoundError, match="no column 'colour'"):
        tables.read(spark, workshop.uri, ["colour"])
    with pytest.raises(errors.NotFoundError, match="no column 'colour'"):
        tables.read(spark, workshop.uri, where=where.parse("colour = 'red'"))
    with pytest.raises(errors.NotFoundError, match="nowhere"):
        tables.read(spark, f"{workshop.uri}/nowhere")
