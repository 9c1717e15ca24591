"""Statistics of the columns of data files, as a metadata table holds them.

Bounds are written by the version of the index: from table version 9 on as primitive values beside
the column's type, before as the wrapper says it alone:

    Arrow                     version 8             version 9
    boolean, whole numbers,   Boolean, Int, Long,   the same
    floats, text, bytes       Float, Double, ...
    date                      Date                  Int
    time, timestamp           Int, Long             the same, in the column's unit
    decimal                   Decimal(30, 15)       Bytes: the unscaled number, big-endian
    fixed bytes               -                     Bytes

Columns of nested types, and decimals that Decimal(30, 15) cannot hold, have none. Source:
`ValueType.java`, `HoodieTableMetadataUtil.java` (getColumnsToIndex, isColumnTypeSupported),
`HoodieMetadata.avsc` (1.2.0); format.md: Metadata table.
"""

import datetime
import decimal
import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from hoodie import errors
from hoodie.model import expression_indexes, partition_columns, schemas, table_config
from hoodie.model.value_wrappers import Wrapper

COLUMN_STATS = "column_stats"
"""The partition of a metadata table that has the statistics of data files."""

PARTITION_STATS = "partition_stats"
"""That which has the statistics of partitions of the data table."""

BLOOM_FILTERS = "bloom_filters"
"""That which has a filter of the keys of each base file."""

META_COLUMNS = (schemas.COMMIT_TIME, schemas.PARTITION_PATH, schemas.RECORD_KEY)
"""The meta columns with statistics."""

COLUMNS_MAX = 32
"""The number of data columns of which Apache Hudi takes statistics by default."""

_WRAPPED_DIGITS = 30
_WRAPPED_SCALE = 15

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
        expression: The index whose function made the values of the column's; None of a column.
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
    expression: expression_indexes.Definition | None = None

    @property
    def has_nulls(self) -> bool:
        """Whether a value may be null."""
        return self.nulls != 0


@dataclass(frozen=True, slots=True)
class Kind:
    """How the bounds of a column are written.

    Attributes:
        wrapper: What holds them.
        value_type: The column's type; None in version 8.
        type_info: What the type alone does not say.
    """

    wrapper: Wrapper
    value_type: ValueType | None = None
    type_info: str | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which statistics of its new data files a table needs; it pickles.

    Attributes:
        kinds: How the bounds of each column are written; of no other column there are statistics.
        has_bloom_filter: Whether base files have a bloom filter of their keys.
        expressions: The expression indexes that have bounds of each file, with how these are
            written.
    """

    kinds: Mapping[str, Kind] = field(default_factory=dict)
    has_bloom_filter: bool = False
    expressions: Mapping[expression_indexes.Definition, Kind] = field(default_factory=dict)


NOTHING = Wanted()
"""What a table without statistics needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """What the definitions of a table's indexes say of its statistics.

    Attributes:
        columns: The columns with statistics.
        has_value_types: Whether records say of which type a column is; None where that follows from
            the table's version.
    """

    columns: tuple[str, ...]
    has_value_types: bool | None = None


def is_needed(config: table_config.TableConfig) -> bool:
    """Return whether a table has statistics, or they are being built; or expression indexes."""
    return has_columns(config) or bool(expressions_of(config))


def has_columns(config: table_config.TableConfig) -> bool:
    """Return whether a table has statistics of columns, or they are being built."""
    return not {COLUMN_STATS, PARTITION_STATS}.isdisjoint(_partitions(config))


def expressions_of(config: table_config.TableConfig) -> Sequence[str]:
    """Return the names of a table's expression indexes, of either kind, by name."""
    return sorted(filter(expression_indexes.is_one, _partitions(config)))


def _partitions(config: table_config.TableConfig) -> Sequence[str]:
    return (*config.metadata_partitions, *config.metadata_partitions_inflight)


def wanted(
    config: table_config.TableConfig,
    schema: pa.Schema,
    definition: Definition | None,
    expressions: Sequence[expression_indexes.Definition] = (),
) -> Wanted:
    """Return which statistics of new data files a table needs.

    A column that was added since the definition was written is among them if Apache Hudi would take
    it: it reads a file with statistics of other columns alone as one without values of this.

    Columns that are left out of data files have none.

    Args:
        config: The table's configuration.
        schema: Its columns, without meta columns.
        definition: None where the table has no definition.
        expressions: Its expression indexes that have bounds.

    Raises:
        UnsupportedError: The definition has a column inside another, or an expression index one of
            another type than its function takes.
        InvalidInputError: An expression index is of a column that is not there.
    """
    left_out = partition_columns.left_out(config)
    schema = pa.schema([each for each in schema if each.name not in left_out])
    made: dict[expression_indexes.Definition, Kind] = {}
    for each_expression in expressions:
        refusal = expression_indexes.column_refusal(each_expression, schema, config.name)
        if refusal is not None:
            name = each_expression.partition
            raise type(refusal)(f"{refusal}: drop it by `hoodie index drop TABLE {name}`")
        data_type = schema.field(each_expression.column).type
        made[each_expression] = _kind_of_expression(each_expression, data_type)
    # Apache Hudi's bloom index fails at a base file without a filter, and its writers may have that
    # index in any table whose keys are looked up.
    has_bloom_filter = config.looks_keys_up or BLOOM_FILTERS in _partitions(config)
    if not has_columns(config):
        return Wanted(has_bloom_filter=has_bloom_filter, expressions=made)
    has_value_types = None if definition is None else definition.has_value_types
    if has_value_types is None:
        has_value_types = config.version > table_config.VERSION_WITH_PAYLOADS
    if definition is not None:
        held = [name for name in definition.columns if name not in left_out]
        definition = replace(definition, columns=tuple(held))
    found = {each.name: kind_of(each.type, has_value_types=has_value_types) for each in schema}
    kinds = {name: kind for name, kind in found.items() if kind is not None}
    chosen = config.statistics_columns
    meta = kind_of(pa.string(), has_value_types=has_value_types)
    assert meta is not None
    return Wanted(
        {
            **dict.fromkeys(META_COLUMNS, meta),
            **{name: kinds[name] for name in _names(list(kinds), schema, definition, chosen)},
        },
        has_bloom_filter=has_bloom_filter,
        expressions=made,
    )


def _names(
    supported: Sequence[str],
    schema: pa.Schema,
    definition: Definition | None,
    chosen: Sequence[str] | None,
) -> Sequence[str]:
    """Return of which of the supported columns statistics are needed."""
    default = supported[:COLUMNS_MAX]
    named = [] if definition is None else list(definition.columns)
    named = [name for name in named if name not in META_COLUMNS]
    if chosen is not None and set(named) <= set(chosen):  # Else others have defined it anew.
        return [name for name in supported if name in chosen]
    if definition is None:
        return default
    if named == default[: len(named)]:
        return default
    inner = [name for name in named if "." in name and name.partition(".")[0] in schema.names]
    if inner:
        raise errors.UnsupportedError(
            f"the index {COLUMN_STATS} has {', '.join(inner)}, inside columns of nested types, "
            "which this version does not keep up: drop it with Apache Hudi, or the metadata table "
            "by `hoodie metadata drop`"
        )
    return [name for name in named if name in supported]


def columns_refusal(
    columns: Sequence[str], config: table_config.TableConfig, schema: pa.Schema
) -> errors.HoodieError | None:
    """Return why a table cannot have statistics of columns.

    Args:
        columns: As they were asked for.
        config: The table's configuration.
        schema: Its columns, without meta columns.
    """
    types = {each.name: each.type for each in schema}
    has_value_types = config.version > table_config.VERSION_WITH_PAYLOADS
    for name in columns:
        if columns.count(name) > 1:
            return errors.InvalidInputError(f"column {name} is named twice")
        if name not in types:
            return errors.InvalidInputError(
                f"{config.name} has no column {name!r}, expected one of {', '.join(types)}"
            )
        if name != name.strip() or "," in name:
            return errors.InvalidInputError(
                f"column {name!r} has a comma, or begins or ends with a space, and cannot be in a "
                "list of columns: name another column"
            )
        if name in partition_columns.left_out(config):
            return errors.InvalidInputError(
                f"the data files of {config.name} do not have the partition column {name}: name "
                "another column"
            )
        if kind_of(types[name], has_value_types=has_value_types) is None:
            return errors.InvalidInputError(
                f"column {name} of {config.name} is of type {types[name]}, of which there are no "
                "statistics: name another column"
            )
    return None


def _kind_of_expression(definition: expression_indexes.Definition, column: pa.DataType) -> Kind:
    """Return how bounds of an expression index are written, by the type of its column."""
    result = definition.function.result_of(column)
    assert result is not None, (definition, column)
    kind = kind_of(result, has_value_types=definition.has_value_types)
    assert kind is not None, result
    return kind


def kind_of(data_type: pa.DataType, *, has_value_types: bool) -> Kind | None:
    """Return how bounds of a type are written; None if there are none of it.

    Args:
        data_type: As a table has it.
        has_value_types: Whether records say of which type a column is.
    """
    if pa.types.is_decimal(data_type):
        if has_value_types:
            info = f"{data_type.precision},{data_type.scale}"
            return Kind(Wrapper.BYTES, ValueType.DECIMAL, info)
        whole_digits = data_type.precision - data_type.scale
        is_held = (
            data_type.scale <= _WRAPPED_SCALE and whole_digits <= _WRAPPED_DIGITS - _WRAPPED_SCALE
        )
        return Kind(Wrapper.DECIMAL) if is_held else None
    if pa.types.is_fixed_size_binary(data_type):
        return Kind(Wrapper.BYTES, ValueType.FIXED) if has_value_types else None
    found = _KINDS.get(data_type)
    if found is None or has_value_types:
        return found
    return Kind(Wrapper.DATE if found.value_type is ValueType.DATE else found.wrapper)


_KINDS: Mapping[pa.DataType, Kind] = {
    pa.bool_(): Kind(Wrapper.BOOLEAN, ValueType.BOOLEAN),
    pa.int32(): Kind(Wrapper.INT, ValueType.INT),
    pa.int64(): Kind(Wrapper.LONG, ValueType.LONG),
    pa.float32(): Kind(Wrapper.FLOAT, ValueType.FLOAT),
    pa.float64(): Kind(Wrapper.DOUBLE, ValueType.DOUBLE),
    pa.string(): Kind(Wrapper.STRING, ValueType.STRING),
    pa.binary(): Kind(Wrapper.BYTES, ValueType.BYTES),
    pa.date32(): Kind(Wrapper.INT, ValueType.DATE),
    pa.time32("ms"): Kind(Wrapper.INT, ValueType.TIME_MILLIS),
    pa.time64("us"): Kind(Wrapper.LONG, ValueType.TIME_MICROS),
    pa.timestamp("ms", "UTC"): Kind(Wrapper.LONG, ValueType.TIMESTAMP_MILLIS),
    pa.timestamp("us", "UTC"): Kind(Wrapper.LONG, ValueType.TIMESTAMP_MICROS),
    pa.timestamp("ms"): Kind(Wrapper.LONG, ValueType.LOCAL_TIMESTAMP_MILLIS),
    pa.timestamp("us"): Kind(Wrapper.LONG, ValueType.LOCAL_TIMESTAMP_MICROS),
}
