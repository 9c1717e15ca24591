"""Statistics of the columns of data files, as a metadata table holds them.

Source: `ValueType.java`, `HoodieMetadata.avsc` (1.2.0); format.md: Metadata table.
"""

import datetime
import decimal
import enum
from dataclasses import dataclass

from hoodie.model.value_wrappers import Wrapper

Number = bool | int | float | decimal.Decimal
Bound = Number | str | bytes | datetime.date


class ValueType(enum.IntEnum):
    """The type of a column, by its ordinal in Apache Hudi's enumeration (`ValueType.java`)."""

    NULL = 1  # Of a log file that only deletes.
    BOOLEAN = 2
    INT = 3
    LONG = 4
    FLOAT = 5
    DOUBLE = 6
    STRING = 7
    BYTES = 8
    FIXED = 9
    DECIMAL = 10
    UUID = 11
    DATE = 12
    TIME_MILLIS = 13
    TIME_MICROS = 14
    TIMESTAMP_MILLIS = 15
    TIMESTAMP_MICROS = 16
    TIMESTAMP_NANOS = 17
    LOCAL_TIMESTAMP_MILLIS = 18
    LOCAL_TIMESTAMP_MICROS = 19
    LOCAL_TIMESTAMP_NANOS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnStatistics:
    """The values of a column in a data file.

    Attributes:
        file_name: The file's; of a partition's statistics its path.
        column: The column's name.
        low: Not above any value; None where all are null, or where there are no rows.
        high: Not below any value; None as `low`.
        kind: How both are written; None without them.
        value_type: The ordinal of the column's type, which may be of a newer release; None in
            version 8, whose kinds say it.
        type_info: What the type alone does not say: precision and scale of a decimal.
        values: Rows, nulls among them; None where it is not known.
        nulls: Rows without a value; None as `values`.
        size_bytes: In the file; 0 in log files.
        plain_bytes: The same before compression.
        is_tight: Whether bounds of several files are those of rows that are there.
    """

    file_name: str
    column: str
    low: Bound | None = None
    high: Bound | None = None
    kind: Wrapper | None = None
    value_type: int | None = None
    type_info: str | None = None
    values: int | None = 0
    nulls: int | None = 0
    size_bytes: int | None = 0
    plain_bytes: int | None = 0
    is_tight: bool = False

    @property
    def has_nulls(self) -> bool:
        """Whether a value may be null."""
        return self.nulls != 0
