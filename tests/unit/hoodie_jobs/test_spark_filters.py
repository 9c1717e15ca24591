"""A filter is pushed exactly when ours means the same as Spark's."""

import datetime
import decimal

import pyarrow as pa
import pytest
from pyspark.sql import datasource as spark

from hoodie.model import predicates
from hoodie_jobs.spark import filters

SCHEMA = pa.schema(
    [
        ("n", pa.int32()),
        ("s", pa.string()),
        ("f", pa.float64()),
        ("d", pa.date32()),
        ("t", pa.timestamp("us", "UTC")),
        ("b", pa.bool_()),
        ("m", pa.decimal128(5, 1)),
    ]
)
NOON = datetime.datetime(2013, 1, 1, 12, tzinfo=datetime.UTC)
DATA = pa.table(
    {
        "n": pa.array([1, 2, None, 4], pa.int32()),
        "s": ["a", "ab", "b", None],
        "f": [1.0, float("nan"), None, 2.0],
        "d": pa.array([NOON.date(), None, None, None]),
        "t": pa.array([NOON, None, None, None], pa.timestamp("us", "UTC")),
        "b": [True, False, None, True],
        "m": pa.array([decimal.Decimal("1.5"), None, None, None], pa.decimal128(5, 1)),
    },
    schema=SCHEMA,
)


@pytest.mark.parametrize(
    ("pushed", "rows"),
    [
        (spark.EqualTo(("n",), 2), [1]),
        (spark.Not(spark.EqualTo(("n",), 2)), [0, 3]),
        (spark.GreaterThan(("n",), 1), [1, 3]),
        (spark.GreaterThanOrEqual(("n",), 2), [1, 3]),
        (spark.LessThan(("n",), 2), [0]),
        (spark.LessThanOrEqual(("n",), 2), [0, 1]),
        (spark.In(("n",), (1, 4)), [0, 3]),
        (spark.Not(spark.In(("n",), (1, 4))), [1]),
        (spark.IsNull(("n",)), [2]),
        (spark.IsNotNull(("n",)), [0, 1, 3]),
        (spark.EqualNullSafe(("n",), 2), [1]),
        (spark.Not(spark.EqualNullSafe(("n",), 2)), [0, 2, 3]),
        (spark.EqualNullSafe(("n",), None), [2]),
        (spark.StringStartsWith(("s",), "a"), [0, 1]),
        (spark.Not(spark.StringStartsWith(("s",), "a")), [2]),
        (spark.EqualTo(("b",), True), [0, 3]),
        (spark.EqualTo(("d",), NOON.date()), [0]),
        (spark.LessThan(("t",), NOON), []),
        (spark.EqualTo(("m",), decimal.Decimal("1.5")), [0]),
    ],
)
def test_pushed_filter_keeps_the_rows_that_spark_would_keep(
    pushed: spark.Filter, rows: list[int]
) -> None:
    predicate = filters.to_predicate(pushed, SCHEMA)
    assert predicate is not None
    numbered = DATA.append_column("row", pa.array(range(4)))
    kept = numbered.filter(predicates.to_expression(predicate, SCHEMA))
    assert kept["row"].to_pylist() == rows


@pytest.mark.parametrize(
    "pushed",
    [
        spark.GreaterThan(("f",), 1.0),
        spark.EqualTo(("f",), float("nan")),
        spark.EqualTo(("n", "x"), 1),
        spark.EqualTo(("unknown",), 1),
        spark.EqualTo(("n",), "1"),
        spark.EqualTo(("n",), True),
        spark.EqualTo(("d",), NOON),
        spark.EqualTo(("t",), NOON.replace(tzinfo=None)),
        spark.In(("n",), (1, None)),
        spark.StringEndsWith(("s",), "a"),
        spark.StringContains(("s",), "a"),
        spark.StringStartsWith(("s",), ""),
        spark.StringStartsWith(("s",), "\U0010ffff"),
        spark.Not(spark.StringContains(("s",), "a")),
    ],
)
def test_other_filter_stays_with_spark(pushed: spark.Filter) -> None:
    assert filters.to_predicate(pushed, SCHEMA) is None
