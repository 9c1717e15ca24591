"""A table's configuration and columns."""

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from hoodie.cli import grids
from hoodie.model import key_generators, table_config

_PLAIN_GENERATORS = ("SIMPLE", "COMPLEX", "NON_PARTITION")
"""Those that are known from key and partition columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnRow:
    """One column of the table.

    Attributes:
        name: Its name.
        type: Its Arrow type.
        is_nullable: Whether it may hold null.
        role: What it is for, such as `record key`; empty for plain data.
    """

    name: str
    type: str
    is_nullable: bool
    role: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """What a table is.

    Attributes:
        table: Its URI.
        name: Its name.
        type: MERGE_ON_READ or COPY_ON_WRITE.
        version: Table version.
        record_key: Columns.
        partition_by: Columns.
        ordering: Columns.
        merge_mode: Which version of a record wins, by Hudi's constant.
        has_partial_updates: Whether a null in the newer version keeps the older value.
        change_data: What writes say of what they changed, by Hudi's constant; None for nothing.
        index: How writers find records, by Hudi's constant; None where the table does not say.
        buckets: Of the simple bucket index; None for a table with another index.
        buckets_by_partition: Counts that Apache Hudi gave partitions, as `regex,count;regex,count`;
            None for none. Such a table is not written.
        time_zone: Of the timeline; None for local times of a zone that the table does not state.
        key_generator: Its type, and what it makes of times and dates in partition paths.
        has_chain: Whether a chain orders all changes of ours.
        has_foreign_writers: Whether other engines may write the table.
        columns: Without the meta columns.
        properties: As stored.
    """

    table: str
    name: str
    type: str
    version: int
    record_key: tuple[str, ...]
    partition_by: tuple[str, ...]
    ordering: tuple[str, ...]
    merge_mode: str
    has_partial_updates: bool
    change_data: str | None
    index: str | None
    buckets: int | None
    buckets_by_partition: str | None
    time_zone: str | None
    key_generator: str
    has_chain: bool
    has_foreign_writers: bool
    columns: tuple[ColumnRow, ...]
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkOptionsDocument:
    """What a Spark writer of Apache Hudi is told.

    Attributes:
        table: The table's URI.
        options: Of the writer, without the operation.
    """

    table: str
    options: Mapping[str, str]


def document(
    uri: str,
    config: table_config.TableConfig,
    schema: pa.Schema,
    *,
    by_partition: str | None = None,
) -> Document:
    """Return the document of a table; `by_partition` as in `Document.buckets_by_partition`."""
    return Document(
        table=uri,
        name=config.name,
        type=config.table_type.value,
        version=config.version,
        record_key=config.record_key_fields,
        partition_by=config.partition_fields,
        ordering=config.ordering_fields,
        merge_mode=config.merge_mode.value,
        has_partial_updates=config.has_partial_updates,
        change_data=config.change_data.value if config.change_data else None,
        index=None if config.index_kind is None else config.index_kind.value,
        buckets=config.bucket_count,
        buckets_by_partition=by_partition,
        time_zone=None if config.time_zone is None else config.time_zone.name,
        key_generator=key_generators.described(config),
        has_chain=config.chain is not None,
        has_foreign_writers=config.has_foreign_writers,
        columns=tuple(
            ColumnRow(
                name=field.name,
                type=str(field.type),
                is_nullable=field.nullable,
                role=_role(field.name, config),
            )
            for field in schema
        ),
        properties=dict(config.properties),
    )


def facts(shown: Document) -> grids.Grid:
    """Return the configuration as texts, a row a fact."""
    rows = [
        ("table", shown.table),
        ("name", shown.name),
        ("type", shown.type),
        ("version", str(shown.version)),
        ("record key", ", ".join(shown.record_key) or "none"),
        ("partitioned by", ", ".join(shown.partition_by) or "nothing"),
        ("ordering", ", ".join(shown.ordering) or "none"),
        ("merge mode", shown.merge_mode),
        (
            "partial updates",
            "null keeps the older value" if shown.has_partial_updates else "no",
        ),
        ("buckets", str(shown.buckets)) if _is_simple(shown) else ("index", _index(shown)),
        ("times", shown.time_zone or "local ones, the zone is not stated (hoodie adopt)"),
        ("written by", writers(shown)),
    ]
    if shown.change_data is not None:
        rows.append(("change data", captured(shown)))
    if shown.key_generator not in _PLAIN_GENERATORS:
        rows.append(("key generator", shown.key_generator))
    if shown.properties.get(table_config.DROPS_PARTITION_COLUMNS_KEY) == "true":
        rows.append(("partition values", "in the names of folders, not in data files"))
    if shown.buckets_by_partition is not None:
        rows.append(("by partition", shown.buckets_by_partition))
    return grids.Grid(
        columns=(grids.Column(heading="property"), grids.Column(heading="value", width_min=20)),
        rows=tuple(rows),
    )


def _is_simple(shown: Document) -> bool:
    """Return whether the number of buckets says all of the index."""
    return shown.index == table_config.IndexKind.BUCKET.value and shown.buckets is not None


def _index(shown: Document) -> str:
    if shown.index is None:
        return "not stated (hoodie adopt)"
    if shown.properties.get(table_config.PARTITION_UPDATES_KEY) == "false":
        return f"{shown.index}, records keep their partition"
    if shown.buckets is not None:
        return f"{shown.index}, partitions begin with {shown.buckets} buckets"
    return shown.index


def writers(shown: Document) -> str:
    """Return who may write a table, and how they are kept apart."""
    if not shown.has_chain:
        return "any engine, kept apart by the lock"
    if shown.has_foreign_writers:
        return "any engine, kept apart by the lock; hoodie by a chain"
    return "hoodie only, kept apart by a chain"


def captured(shown: Document) -> str:
    """Return what writes store of what they change."""
    if shown.change_data is None:
        return "writes store none of their changes"
    return f"stored by writes: {shown.change_data}"


def columns(shown: Document) -> grids.Grid:
    """Return the columns as texts."""
    return grids.Grid(
        columns=(
            grids.Column(heading="column", width_min=12),
            grids.Column(heading="type", width_min=12),
            grids.Column(heading="nullable", importance=0),
            grids.Column(heading="role", importance=1),
        ),
        rows=tuple(
            (each.name, each.type, "yes" if each.is_nullable else "no", each.role)
            for each in shown.columns
        ),
    )


def _role(name: str, config: table_config.TableConfig) -> str:
    roles = (
        ("record key", config.record_key_fields),
        ("partition", config.partition_fields),
        ("ordering", config.ordering_fields),
        ("bucket", config.hash_fields),
    )
    return ", ".join(role for role, fields in roles if name in fields)
