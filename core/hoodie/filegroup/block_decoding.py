"""From the content of log blocks to changes.

Which rows delete: those whose column `_hoodie_is_deleted` is true, those that the table's delete
marker names, and those whose `_hoodie_operation` is D or -U. Source: `DeleteContext.java`,
`RecordContext.java` (`isDeleteRecord`); format.md: Log files, Merging.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie import deferred, errors
from hoodie.filegroup import changes, ordering, parquet_reading, projecting
from hoodie.filegroup.ordering import ValueClass
from hoodie.format import log_blocks
from hoodie.format.log_blocks import BlockType, HeaderKey
from hoodie.model import avro_types, schemas, table_config
from hoodie.model.value_wrappers import Wrapper

with deferred.imports():
    from hoodie.format import avro_records, delete_records

IS_DELETED = "_hoodie_is_deleted"
OPERATION = "_hoodie_operation"
_DELETE_BYTES = 64
_VALUE_BYTES = 8
"""About what a delete takes as a row, and each of its columns, which are null."""

_DELETING_OPERATIONS = pa.array(["D", "-U"])

_CLASSES: Mapping[Wrapper, ValueClass] = {
    Wrapper.BOOLEAN: ValueClass.BOOLEAN,
    Wrapper.INT: ValueClass.INTEGER,
    Wrapper.DATE: ValueClass.INTEGER,
    Wrapper.LOCAL_DATE: ValueClass.INTEGER,
    Wrapper.LONG: ValueClass.LONG,
    Wrapper.TIME_MICROS: ValueClass.LONG,
    Wrapper.TIMESTAMP_MICROS: ValueClass.LONG,
    Wrapper.FLOAT: ValueClass.FLOAT,
    Wrapper.DOUBLE: ValueClass.DOUBLE,
    Wrapper.STRING: ValueClass.STRING,
    Wrapper.BYTES: ValueClass.BYTES,
    Wrapper.DECIMAL: ValueClass.DECIMAL,
}
"""The class of a wrapped value once a reader holds it, as Spark does."""


def deleting_columns(config: table_config.TableConfig) -> frozenset[str]:
    """Return the columns by which a row may say that it is deleted."""
    marker = () if config.delete_marker is None else config.delete_marker[:1]
    return frozenset((IS_DELETED, OPERATION, *marker))


def marked_rows(rows: pa.Table, delete_marker: tuple[str, str]) -> changes.Flags:
    """Return which rows a table's own marker deletes.

    Args:
        rows: With the marker's column.
        delete_marker: As of `table_config.TableConfig`.
    """
    name, marker = delete_marker
    text = rows.column(name).cast(pa.string())
    return ordering.flags(pc.equal(text, marker).fill_null(False))


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoder:
    """What of a table decides how its blocks are decoded.

    Attributes:
        columns: Of the rows wanted, the record key and the ordering fields among them.
        ordering_fields: Columns that decide by event time.
        delete_marker: Column and text that mark a row as deleted.
        has_deleted_column: Whether the table has a column `_hoodie_is_deleted` of booleans.
    """

    columns: pa.Schema
    ordering_fields: Sequence[str]
    delete_marker: tuple[str, str] | None
    has_deleted_column: bool

    @classmethod
    def of(
        cls,
        config: table_config.TableConfig,
        schema: pa.Schema,
        columns: pa.Schema,
        ordering_fields: Sequence[str],
    ) -> Decoder:
        """Return the decoder of a table.

        Args:
            config: The table's configuration.
            schema: All of the table's columns.
            columns: As the attribute.
            ordering_fields: As the attribute.
        """
        return cls(
            columns=columns,
            ordering_fields=ordering_fields,
            delete_marker=config.delete_marker,
            has_deleted_column=pa.field(IS_DELETED, pa.bool_()) in schema,
        )

    def decode(self, block: log_blocks.Block) -> changes.Change:
        """Return the changes that a data block or delete block holds.

        Raises:
            FormatError: The content is broken, or a record key is null.
        """
        if block.type is BlockType.DELETE:
            return self._deletes(delete_records.decode(block.content))
        return self._rows(block)

    def rows(self, block: log_blocks.Block) -> pa.Table:
        """Return the rows of a data block, those too that say that they are deleted.

        Raises:
            FormatError: The content is broken, or a record key is null.
        """
        return self._rows(block).rows

    def pieces(self, block: log_blocks.Block, bytes_max: int) -> Iterator[changes.Change]:
        """Yield what `decode` returns in pieces of about so many bytes, as rows; at least one.

        A delete block is decoded at once.
        """
        if block.type is BlockType.DELETE:
            deletes = self._deletes(delete_records.decode(block.content))
            step = max(1, bytes_max // (_DELETE_BYTES + _VALUE_BYTES * len(self.columns)))
            for first in range(0, max(1, len(deletes.keys)), step):
                yield deletes.part(first, step)
        elif block.type is BlockType.PARQUET_DATA:
            file = parquet_reading.ParquetInput(pa.BufferReader(block.content))
            wanted = self._with_flags(file.schema)
            yield self._changed(block, file.schema, wanted.empty_table())
            for rows in file.cut(wanted, bytes_max):
                yield self._changed(block, file.schema, rows)
        else:
            for content in avro_records.cut(block.content, bytes_max):
                yield self._rows(replace(block, content=content))

    def _rows(self, block: log_blocks.Block) -> changes.ChangedRows:
        if block.type is BlockType.PARQUET_DATA:
            file = parquet_reading.ParquetInput(pa.BufferReader(block.content))
            present = file.schema
            rows = file.read(self._with_flags(present))
        else:
            avro_json = _schema_of(block)
            present = pa.schema([column.arrow for column in avro_types.columns(avro_json)])
            wanted = self._with_flags(present)
            decoded = avro_records.decode(block.content, avro_json, frozenset(wanted.names))
            rows = projecting.project(decoded, wanted)
        return self._changed(block, present, rows)

    def _changed(
        self, block: log_blocks.Block, present: pa.Schema, rows: pa.Table
    ) -> changes.ChangedRows:
        """Return rows of a block that has some columns as changes."""
        keys = rows.column(schemas.RECORD_KEY)
        if keys.null_count:
            raise errors.FormatError(
                f"{keys.null_count} rows of the block at byte {block.offset} have no record key"
            )
        return self.changed(rows, frozenset(present.names) if is_partial(block) else None)

    def changed(
        self, rows: pa.Table, partial_columns: frozenset[str] | None = None
    ) -> changes.ChangedRows:
        """Return rows as changes.

        Args:
            rows: The columns wanted in their types, and those that tell whether a row deletes. No
                record key is null.
            partial_columns: What a partial block holds; None for whole rows.
        """
        return changes.ChangedRows(
            keys=rows.column(schemas.RECORD_KEY),
            rows=rows.select(self.columns.names),
            partial_columns=partial_columns,
            is_deleted=self.deleted_rows(rows),
        )

    def _with_flags(self, present: pa.Schema) -> pa.Schema:
        """Return the columns wanted, and those that tell whether a row deletes."""
        flags = [pa.field(OPERATION, pa.string())]
        if self.has_deleted_column:
            flags.append(pa.field(IS_DELETED, pa.bool_()))
        if self.delete_marker is not None:
            flags.append(pa.field(self.delete_marker[0], pa.string()))
        missing = [
            flag
            for flag in flags
            if flag.name in present.names and flag.name not in self.columns.names
        ]
        return pa.schema([*self.columns, *missing])

    def deleted_rows(self, rows: pa.Table) -> changes.Flags | None:
        """Return which rows delete; None when none does."""
        found = np.zeros(rows.num_rows, np.bool_)
        if self.has_deleted_column and IS_DELETED in rows.column_names:
            found |= ordering.flags(rows.column(IS_DELETED).fill_null(False))
        if OPERATION in rows.column_names:
            operation = rows.column(OPERATION)
            found |= ordering.flags(pc.is_in(operation, value_set=_DELETING_OPERATIONS))
        if self.delete_marker is not None and self.delete_marker[0] in rows.column_names:
            found |= marked_rows(rows, self.delete_marker)
        return found if found.any() else None

    def _deletes(self, deletes: delete_records.Deletes) -> changes.DeletedKeys:
        fields = [self.columns.field(name) for name in self.ordering_fields]
        columns = None
        is_foreign = ~deletes.is_default
        if fields and len(deletes.ordering) == len(fields):
            columns = tuple(
                _in_class_of(field, len(deletes.keys), values)
                for field, values in zip(fields, deletes.ordering, strict=True)
            )
            has_values = [ordering.flags(column.is_valid()) for column in columns]
            is_foreign &= ~np.logical_and.reduce(has_values)
        return changes.DeletedKeys(
            keys=pa.chunked_array([deletes.keys]),
            ordering=columns,
            is_default=deletes.is_default,
            is_foreign=is_foreign,
        )


def is_partial(block: log_blocks.Frame) -> bool:
    """Return whether a block has some of the columns alone."""
    return block.header.get(HeaderKey.IS_PARTIAL, "").lower() == "true"


def _in_class_of(
    field: pa.Field, count: int, values: Mapping[Wrapper, pa.Array]
) -> pa.ChunkedArray:
    """Return the ordering values of a field's own class in its type, null for the others."""
    of_class = ordering.class_of(field.type)
    found = pa.nulls(count, field.type)
    for wrapper, wrapped in values.items():
        if _CLASSES[wrapper] is of_class:
            found = pc.coalesce(found, _unwrapped(wrapped, field))
    return pa.chunked_array([found])


def _unwrapped(wrapped: pa.Array, field: pa.Field) -> pa.Array:
    try:
        if pa.types.is_temporal(field.type) and pa.types.is_integer(wrapped.type):
            # A number counts the type's own units.
            return wrapped.view(field.type)
        return wrapped.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise errors.FormatError(
            f"a delete has an ordering value that is not a {field.type}, the type of "
            f"{field.name!r}: "
            f"{error}"
        ) from error


def _schema_of(block: log_blocks.Block) -> str:
    text = block.header.get(HeaderKey.SCHEMA)
    if text is None:
        raise errors.FormatError(f"the block at byte {block.offset} has no schema")
    return text
