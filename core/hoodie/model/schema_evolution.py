"""How a table's columns grow with what is written: new ones, and wider types.

A new column stands last and is null in all older rows. A type is widened where Apache Hudi's
readers bring older files to the wider one: int to long, float or double, long to float or double,
float to double. Nothing is dropped, renamed or narrowed, so that columns that several writers add
at once are all there in the end, in the order of their commits. Source: RFC-82; Apache Hudi's page
on schema evolution ("on write").

Ordering fields keep their type: a delete in a log file keeps the class of its ordering value, and
to every reader a delete of another class than the column's wins over any row. So do the fields that
a key or partition path is the text of, where the text would change: 1 and 1.0 are two keys.
"""

import json

import pyarrow as pa

from hoodie import errors
from hoodie.model import avro_types, schemas, table_config


def merged(table: schemas.TableSchema, data: pa.Schema) -> schemas.TableSchema:
    """Return a table's columns as they must be for data to fit; unchanged where it does.

    Args:
        table: The table's columns.
        data: The data's, any of them in any order.

    Raises:
        InvalidInputError: A type is neither held by the table's nor wider than it, or a new name
            is none that a column can have beside the others.
        UnsupportedError: A new column's type has no form in a table.
    """
    record = avro_types.parse_record(table.avro)
    fields = {each["name"]: each for each in record["fields"]}
    full_name = ".".join(filter(None, (record.get("namespace"), record["name"])))
    changed = {
        column.name: schemas.avro_field(column, full_name)
        for column in data
        if _is_change(column, table)
    }
    if not changed:
        return table
    added = [name for name in changed if name not in fields]
    if added:
        schemas.check_names(added, beside=list(fields))
    fields |= changed
    return schemas.from_avro(
        json.dumps(record | {"fields": list(fields.values())}, separators=(",", ":"))
    )


def additions(table: schemas.TableSchema, data: pa.Schema) -> pa.Schema:
    """Return the columns of data that a table lacks, or holds in a narrower type.

    All others are left out, whether they fit the table or not.

    Raises:
        UnsupportedError: A column's type has no form in a table.
    """
    known = set(table.arrow.names)
    return pa.schema(
        [column for column in data if column.name not in known or _is_wider(column, table)]
    )


def check_fixed(
    table: schemas.TableSchema, added: pa.Schema, config: table_config.TableConfig
) -> None:
    """Check that what a write adds changes no column whose type has to stay.

    Args:
        table: The table's columns.
        added: What the write adds or widens, as of `additions`.
        config: The table's configuration.

    Raises:
        InvalidInputError: It does.
    """
    named = {*config.record_key_fields, *config.partition_fields, *config.bucket_fields}
    for column in added:
        if column.name not in table.arrow.names:
            continue
        why = None
        if column.name in config.ordering_fields:
            why = "an ordering field: deletes of the older type would win over newer rows"
        elif column.name in named and pa.types.is_floating(column.type):
            why = "part of keys or partition paths, whose texts would change"
        if why is not None:
            held = table.arrow.field(column.name).type
            raise errors.InvalidInputError(
                f"column {column.name!r} is not widened from {held} to {column.type}, it is {why}; "
                f"expected {held}, or a new table with the wider type"
            )


def _is_wider(column: pa.Field, table: schemas.TableSchema) -> bool:
    wider = schemas.WIDER.get(table.arrow.field(column.name).type, ())
    return bool(wider) and schemas.stored_type(column) in wider


def _is_change(column: pa.Field, table: schemas.TableSchema) -> bool:
    """Return whether a column is new, or wider than the table's."""
    if column.name not in table.arrow.names:
        return True
    held = table.arrow.field(column.name).type
    if schemas.is_lossless(column.type, held):
        return False
    if not _is_wider(column, table):
        raise errors.InvalidInputError(
            f"column {column.name!r} is {held} in the table, and not widened to {column.type}"
        )
    return True
