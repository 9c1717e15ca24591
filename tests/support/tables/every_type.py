"""A value of each type that we write, and its null."""

import datetime
import decimal
from typing import Any

import pyarrow as pa

SCHEMA = pa.schema(
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
_AT = datetime.datetime(2013, 1, 2, 3, 4, 5, 678901, tzinfo=datetime.UTC)
ROWS: list[dict[str, Any]] = [
    {
        "id": 1,
        "flag": True,
        "small": 7,
        "ratio": 0.5,
        "score": 1.25,
        "price": decimal.Decimal("12.50"),
        "day": _AT.date(),
        "at": _AT,
        "local_at": _AT.replace(tzinfo=None),
        "raw": b"\x00\xff",
        "coarse_at": _AT.replace(microsecond=678000),
        "name": "ü",
    },
    {"id": 2},
]
