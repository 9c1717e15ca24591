"""Secondary indexes: of the values of a column which record keys have them.

A partition of the metadata table each. It has a pair of value and record key for each row; which
file group a key's row is in says the record index. A pair without a row does no harm: a look-up
leads to file groups whose rows are filtered. A row without its pair is not found.

Source: `SecondaryIndexRecordGenerationUtils.java`, `HoodieIndexUtils.java` (1.2.0); format.md:
Metadata table.
"""

import re
from dataclasses import dataclass, field

import pyarrow as pa

from hoodie import errors
from hoodie.model import column_names

PREFIX = "secondary_index_"
"""What the names of their partitions begin with."""

TYPE = "secondary_index"
"""Of their definitions."""


COLUMN_KEY = "hoodie.operator.index.column"
"""In a plan: the column of the index; of an expression index all that defines it, as JSON.

In the properties, with the index's name behind it, too: of one that is being built nothing is in
the definitions, by which Apache Hudi's readers would use it.
"""

_NAME = re.compile(rf"{PREFIX}[A-Za-z0-9_]{{1,100}}", re.ASCII)


def is_one(partition: str) -> bool:
    """Return whether a partition of a metadata table is a secondary index."""
    return partition.startswith(PREFIX)


UNUSED_BESIDE_OTHERS = (
    "other engines may write the table, and Apache Hudi's bulk inserts by rows, its default, add "
    "nothing to it"
)
"""Why reads here do not ask an index."""


def is_buildable(name: str) -> bool:
    """Return whether a name is one of a secondary index, in characters that SQL takes."""
    return _NAME.fullmatch(name) is not None


def column_key(name: str) -> str:
    """Return the property that has the column of an index."""
    return f"{COLUMN_KEY}.{name}"


def is_column_key(key: str) -> bool:
    """Return whether a property is one of `column_key`."""
    return key.startswith(f"{COLUMN_KEY}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A secondary index of a table.

    Attributes:
        partition: Of the metadata table.
        column: Whose values are looked up.
        is_hashed_by_value: Whether all pairs of a value are in one file group, and not each pair by
            itself; as of version V2 of an index.
    """

    partition: str
    column: str
    is_hashed_by_value: bool = True


def _none() -> pa.Array:
    return pa.nulls(0, pa.string())


@dataclass(frozen=True, slots=True, kw_only=True)
class PairChanges:
    """The pairs that a write put into a secondary index, or took out of it.

    Attributes:
        definition: The index.
        added: As they are stored (`format.secondary_keys`), each once or more often.
        removed: Pairs of which no row is left. None of them is added.
    """

    definition: Definition
    added: pa.Array = field(default_factory=_none)
    removed: pa.Array = field(default_factory=_none)


def is_indexable(kind: pa.DataType) -> bool:
    """Return whether values of a type have the same text here as in Apache Hudi.

    It takes floats and doubles as well, by `Double.toString`, whose texts differ between versions
    of Java, and for zeros that are equal.
    """
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    is_number = kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())
    is_time = pa.types.is_timestamp(kind) and kind.tz is not None and kind.unit == "us"
    return is_text or is_number or pa.types.is_date32(kind) or is_time


def column_refusal(
    definition: Definition, schema: pa.Schema, table_name: str
) -> errors.HoodieError | None:
    """Return why a column of a table cannot have a secondary index that is kept up.

    Args:
        definition: The index.
        schema: The table's columns.
        table_name: For messages.
    """
    column = definition.column
    if column not in schema.names:
        return errors.InvalidInputError(
            column_names.absence_of_indexed(column, definition.partition, schema.names, table_name)
        )
    kind = schema.field(column).type
    if not is_indexable(kind):
        return errors.UnsupportedError(
            f"the index {definition.partition} of {table_name} is of the column {column}, whose "
            f"type is {kind}, expected a column of texts, integers, dates, or times in "
            "microseconds of UTC"
        )
    return None


def upkeep_refusal(
    definition: Definition, schema: pa.Schema, table_name: str
) -> errors.UnsupportedError | None:
    """Return why an index that a table has cannot be kept up; arguments of `column_refusal`."""
    refusal = column_refusal(definition, schema, table_name)
    if refusal is None:
        return None
    return errors.UnsupportedError(
        f"{refusal}: this version does not keep the index up, drop it by `hoodie index drop "
        f"{definition.partition}`"
    )
