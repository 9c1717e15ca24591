"""Columns whose type was widened since a file was written read as Apache Hudi reads them."""

import math

import pyarrow as pa
import pytest

from hoodie.filegroup import projecting

FLOATS = [3.1, 1e7, 1.5e-4, None, math.inf]
DOUBLES = [1.0, -0.0, 123456.7, 9999999.0, 1e7, 1.2345678e10, 0.001, -9.99e-4, 1e300, math.nan]


@pytest.mark.parametrize(
    ("written", "kind", "read"),
    [
        (pa.array([1, None], pa.int32()), pa.int64(), [1, None]),
        (pa.array(FLOATS, pa.float32()), pa.float64(), FLOATS),
        (pa.array([1, 2**53 + 1]), pa.float64(), [1.0, 2.0**53]),
        (pa.array([2**31 - 1], pa.int32()), pa.float32(), [2.0**31]),
        (pa.array([-5, None]), pa.string(), ["-5", None]),
        (
            pa.array(FLOATS, pa.float32()),
            pa.string(),
            ["3.1", "1.0E7", "1.5E-4", None, "Infinity"],
        ),
        (
            pa.array(DOUBLES),
            pa.string(),
            [
                "1.0",
                "-0.0",
                "123456.7",
                "9999999.0",
                "1.0E7",
                "1.2345678E10",
                "0.001",
                "-9.99E-4",
                "1.0E300",
                "NaN",
            ],
        ),
        (pa.array(["a", None]), pa.binary(), [b"a", None]),
    ],
)
def test_widened_column(written: pa.Array, kind: pa.DataType, read: list[object]) -> None:
    rows = pa.table({"value": written})
    projected = projecting.project(rows, pa.schema([("value", kind)]))
    assert projected["value"].to_pylist() == read
    assert projected.schema.field("value").type == kind
