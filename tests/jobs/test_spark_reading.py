"""Spark reads what the local runtime reads, and refuses what it refuses."""

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession

from hoodie import errors
from hoodie.contract import input_sources
from hoodie.sources import local_files
from hoodie_jobs.spark import failures, reading

SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("count", pa.int32()),
        pa.field("price", pa.decimal128(10, 2)),
        pa.field("day", pa.date32()),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("a.b", pa.string()),
    ]
)
CSV = input_sources.Source(format=input_sources.SourceFormat.CSV, null_text="NA")
JSON = input_sources.Source(format=input_sources.SourceFormat.JSON)
PARQUET = input_sources.Source(format=input_sources.SourceFormat.PARQUET)


def by_spark(spark: SparkSession, files: list[str], source: input_sources.Source) -> pa.Table:
    """Return the rows in the order in which the tasks of a write see them."""
    data = reading.read(spark, files, source, SCHEMA)
    try:
        parts = data.frame.coalesce(1).toArrow()
    except Exception as error:
        raise failures.reading_error(error) or error from None
    assert not parts.num_rows or set(data.columns) == set(data.parser.parse(parts).column_names)
    return data.parser.parse(parts)


@pytest.mark.parametrize(
    ("contents", "source"),
    [
        (
            [
                """id,count,price,day,at,a.b
a,1,1.50,2013-01-01,2013-01-01T10:00:00Z,"x, ""y"\""
b,NA,NA,NA,NA,NA
"c", 7 ,,,,
d,8,"NA","","",ü
"""
            ],
            CSV,
        ),
        (["day,id\n2013-01-01,z\n", "id,count\na,1\nb,2\n", "id\nc\n"], CSV),
        (
            ["a|1\nb|2\n"],
            input_sources.Source(
                format=input_sources.SourceFormat.CSV,
                has_header=False,
                delimiter="|",
                columns=(
                    input_sources.ColumnMapping(name="count", source="_c1"),
                    input_sources.ColumnMapping(name="id", source="_c0"),
                    input_sources.ColumnMapping(name="a.b", source="_c0"),
                ),
            ),
        ),
        (["id,count\n" + "".join(f"{n},{n}\n" for n in range(50_000)), "id\nlast\n"], CSV),
        (
            [
                """{"id": "a", "count": 1, "price": "1.50", "day": "2013-01-01", "a.b": "x"}

{"id": "b", "at": "2013-01-01T10:00:00Z"}
""",
                '{"id": "c"}',
            ],
            JSON,
        ),
    ],
)
def test_texts_are_read_alike(
    spark: SparkSession, tmp_path: Path, contents: list[str], source: input_sources.Source
) -> None:
    files = [str(tmp_path / f"{number} [%41]{{}}*.csv") for number in range(len(contents))]
    for path, content in zip(files, contents, strict=True):
        Path(path).write_text(content)
    assert by_spark(spark, files, source).equals(local_files.read(files, source, SCHEMA))


def test_parquet_is_read_alike(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "in.parquet"
    rows = pa.table(
        {
            "id": ["a", "b"],
            "count": pa.array([1, None], pa.int64()),
            "price": pa.array(["1.50", None]).cast(pa.decimal128(10, 2)),
            "at": pa.array([1_000_000, None], pa.timestamp("us", "UTC")),
        }
    )
    pa.parquet.write_table(rows, path)
    files = [str(path)]
    assert by_spark(spark, files, PARQUET).equals(local_files.read(files, PARQUET, SCHEMA))


def test_gzipped_file_is_read(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "in.csv.gz"
    path.write_bytes(gzip.compress(b"id\na\n"))
    assert by_spark(spark, [path.as_uri()], CSV).to_pydict() == {"id": ["a"]}


@pytest.mark.parametrize(
    ("contents", "source", "message"),
    [
        (["id,colour\na,b\n"], CSV, "0: the table has no column 'colour'"),
        (["id\na\n", "id,count\nb,seven\n"], CSV, "1: column 'count' has the value 'seven', exp"),
        (["id\na\n", "id,count\nNA,7\n"], CSV, "1: column 'id' is null, expected a value"),
        (['{"id": "a"}\n', '{"id": "b", "colour": 1}'], JSON, "1: the table has no column 'col"),
    ],
)
def test_bad_file_is_named(
    spark: SparkSession,
    tmp_path: Path,
    contents: list[str],
    source: input_sources.Source,
    message: str,
) -> None:
    files = [str(tmp_path / str(number)) for number in range(len(contents))]
    for path, content in zip(files, contents, strict=True):
        Path(path).write_text(content)
    with pytest.raises(errors.InvalidInputError, match=message):
        by_spark(spark, files, source)


@pytest.mark.parametrize("line", ["lone", "x,1,2"])
def test_line_of_another_length_is_refused(spark: SparkSession, tmp_path: Path, line: str) -> None:
    # Behind what the driver looks at.
    (tmp_path / "in").write_text("id,count\n" + "a,1\n" * 500_000 + line)
    with pytest.raises(
        errors.InvalidInputError, match=rf"/in: the line '{line}' has a different number of fields"
    ):
        by_spark(spark, [str(tmp_path / "in")], CSV)


def test_bad_first_line_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").write_text("id,count\nlone\n")
    with pytest.raises(errors.InvalidInputError, match=r"/in: .* Expected 2 columns, got 1"):
        by_spark(spark, [str(tmp_path / "in")], CSV)


def test_files_that_differ_in_a_columns_type_are_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    files = [str(tmp_path / name) for name in ("long", "double")]
    for path, kind in zip(files, (pa.int64(), pa.float64()), strict=True):
        pa.parquet.write_table(pa.table({"id": ["a"], "count": pa.array([1], kind)}), path)
    with pytest.raises(errors.InvalidInputError, match=r"double: column 'count' is of type"):
        by_spark(spark, files, PARQUET)


def test_file_that_spark_takes_for_hidden_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "_in.csv").write_text("id\na\n")
    with pytest.raises(errors.UnsupportedError, match=r"_in.csv: Spark does not read files"):
        by_spark(spark, [str(tmp_path / "_in.csv")], CSV)


def test_missing_file_is_named(spark: SparkSession) -> None:
    with pytest.raises(errors.NotFoundError, match="/nowhere/x: there is no such file"):
        by_spark(spark, ["/nowhere/x"], PARQUET)
