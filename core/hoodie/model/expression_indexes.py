"""Expression indexes: of the values that a function makes of a column, which files may have them.

A partition of the metadata table each, of one of two kinds:

    column_stats    bounds of each data file, as `column_stats` has them of a column, and tight ones
                    of each partition of the data table, by which Apache Hudi's readers leave it out
    bloom_filters   a filter of each data file; one without is read

Only those of the first kind are kept up here, and have to be: a partition whose bounds do not say
that a write was there is left out. Of the second a write says nothing, and its files are read.

Source: `HoodieExpressionIndex.java`, `SparkMetadataWriterUtils.java`,
`ExpressionIndexSupport.scala` (1.2.0); format.md: Metadata table.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import pyarrow as pa

from hoodie import deferred, errors
from hoodie.model import column_names

with deferred.imports():
    from hoodie.model import spark_functions


PREFIX = "expr_index_"
"""What the names of their partitions begin with."""

OF_BOUNDS = "column_stats"
"""The type of their definitions, of the first kind."""

OF_FILTERS = "bloom_filters"
"""That of the second."""

PARTITION_MARK = "__partition_stat__"
"""In keys of bounds of partitions: in place of a partition, which follows."""

_NAME = re.compile(rf"{PREFIX}[A-Za-z0-9_]{{1,100}}", re.ASCII)


def is_one(partition: str) -> bool:
    """Return whether a partition of a metadata table is an expression index."""
    return partition.startswith(PREFIX) and "/" not in partition


def is_buildable(name: str) -> bool:
    """Return whether a name is one of an expression index, in characters that SQL takes."""
    return _NAME.fullmatch(name) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """An expression index of a table that has bounds; it pickles.

    Attributes:
        partition: Of the metadata table.
        column: That the function takes.
        function: With its arguments.
        has_value_types: Whether records say of which type bounds are.
    """

    partition: str
    column: str
    function: spark_functions.Function
    has_value_types: bool = True

    def __str__(self) -> str:
        """Return the expression as SQL has it."""
        return self.function.called(self.column)


def column_refusal(
    definition: Definition, schema: pa.Schema, table_name: str
) -> errors.HoodieError | None:
    """Return why an expression index of a table cannot be kept up.

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
    if definition.function.result_of(kind) is None:
        return errors.UnsupportedError(
            f"the index {definition.partition} of {table_name} is of {definition}, whose column is "
            f"of type {kind}, expected one of {definition.function.takes}"
        )
    return None
