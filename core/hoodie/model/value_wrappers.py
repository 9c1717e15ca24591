"""How records of Apache Hudi hold a value of any type: wrapped, so that its Java class is kept.

Ordering values of deletes, and the bounds of column statistics. Source: `HoodieDeleteRecord.avsc`,
`HoodieMetadata.avsc` (1.2.0).
"""

import enum


class Wrapper(enum.Enum):
    """A record that holds one value, by its name; in the order of the union of them."""

    BOOLEAN = "BooleanWrapper"
    INT = "IntWrapper"
    LONG = "LongWrapper"
    FLOAT = "FloatWrapper"
    DOUBLE = "DoubleWrapper"
    BYTES = "BytesWrapper"
    STRING = "StringWrapper"
    DATE = "DateWrapper"
    DECIMAL = "DecimalWrapper"
    TIME_MICROS = "TimeMicrosWrapper"
    TIMESTAMP_MICROS = "TimestampMicrosWrapper"
    LOCAL_DATE = "LocalDateWrapper"
