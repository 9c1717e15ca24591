"""The configuration of a new table, of what its user wishes; wishes that do not fit are refused.

The command line and the library spell parameters differently: messages name them as `spell` does.
"""

from collections.abc import Callable
from dataclasses import dataclass

from hoodie import errors
from hoodie.model import column_names, schemas, table_config
from hoodie.model.change_data import LoggingMode
from hoodie.storage import locations
from hoodie.write import keys

BUCKETS_DEFAULT = 8

Spell = Callable[[str], str]
"""How a caller's user writes the name of a parameter, such as `partition_by`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a new table is wished to be.

    Attributes:
        name: The table's name.
        table_type: Merge-on-read or copy-on-write.
        version: Table version.
        record_key: Columns.
        partition_by: Columns; empty for none.
        ordering: Columns; empty for none.
        merge: The merge mode; None for the one that the ordering means.
        index: How writers find records.
        keeps_partitions: With a global index: whether records stay in their partition.
        buckets: Buckets a partition; None for the default of a bucket index.
        has_partial_updates: Whether null keeps the older value.
        is_hive_style: Whether partition folders read field=value.
        is_url_encoded: Whether partition values are percent-encoded.
        drops_partition_columns: Whether data files are without the partition columns.
        change_data: What writes say of what they changed; None for nothing.
        chain: What orders all changes of ours; None for none.
        has_foreign_writers: Whether other engines may write the table.
    """

    name: str
    table_type: table_config.TableType = table_config.TableType.MERGE_ON_READ
    version: int = table_config.VERSION_DEFAULT
    record_key: tuple[str, ...]
    partition_by: tuple[str, ...] = ()
    ordering: tuple[str, ...] = ()
    merge: table_config.MergeMode | None = None
    index: table_config.IndexKind = table_config.IndexKind.BUCKET
    keeps_partitions: bool = False
    buckets: int | None = None
    has_partial_updates: bool = False
    is_hive_style: bool = False
    is_url_encoded: bool = False
    drops_partition_columns: bool = False
    change_data: LoggingMode | None = None
    chain: table_config.ChainName | None = None
    has_foreign_writers: bool = True


def name_of(uri: str) -> str:
    """Return the name that a table gets of its URI: the last part.

    Raises:
        InvalidInputError: The URI has none.
    """
    name = locations.resolve(uri).path.rpartition("/")[2]
    if not name:
        raise errors.InvalidInputError(f"{uri} has no last part to name the table by")
    return name


def new_table(wish: Wish, schema: schemas.TableSchema, spell: Spell) -> table_config.TableConfig:
    """Return the configuration of a new table.

    Args:
        wish: What it is to be.
        schema: Its columns.
        spell: Names parameters in messages.

    Raises:
        InvalidInputError: A column is not in the schema, or of a type that makes no keys or paths.
        UnsupportedError: Keys of these columns differ between releases of Hudi.
        ConfigurationError: Options contradict each other.
    """
    merge = _merge_mode(wish, spell)
    for option, fields in (
        ("record_key", wish.record_key),
        ("partition_by", wish.partition_by),
        ("ordering", wish.ordering),
    ):
        for name in fields:
            if name not in schema.arrow.names:
                raise errors.InvalidInputError(
                    f"{spell(option)} {name!r}: the schema has no such column; its columns are "
                    f"{', '.join(schema.arrow.names)}"
                    f"{column_names.similar(name, schema.arrow.names)}"
                )
    check_keeps_partitions(wish.index, keeps_partitions=wish.keeps_partitions, spell=spell)
    if wish.index.is_global and wish.has_partial_updates and not wish.keeps_partitions:
        raise errors.ConfigurationError(
            f"{spell('partial_updates')} with {spell('index')} {spelled(wish.index)}: a row that "
            "moves to another partition is written as a whole, expected "
            f"{spell('keep_partitions')}, or an index that is not global"
        )
    if wish.drops_partition_columns and not wish.partition_by:
        raise errors.ConfigurationError(
            f"{spell('drop_partition_columns')} without {spell('partition_by')}: expected the "
            "partition columns"
        )
    has_buckets = wish.index.has_buckets
    if not wish.record_key and (has_buckets or wish.index.is_global):
        raise errors.InvalidInputError(
            f"{spell('record_key')} is empty: expected the columns that identify a row, or "
            f"{spell('index')} simple or bloom, with which keys are generated"
        )
    if wish.buckets is not None and wish.buckets < 1:
        raise errors.InvalidInputError(f"{spell('buckets')} is {wish.buckets}, expected 1 or more")
    if wish.buckets is not None and not has_buckets:
        raise errors.ConfigurationError(
            f"{spell('buckets')} {wish.buckets} with {spell('index')} {spelled(wish.index)}: only "
            "a bucket index has buckets"
        )
    config = table_config.TableConfig(
        name=wish.name,
        table_type=wish.table_type,
        version=wish.version,
        record_key_fields=wish.record_key,
        partition_fields=wish.partition_by,
        ordering_fields=wish.ordering,
        merge_mode=merge,
        has_partial_updates=wish.has_partial_updates,
        is_hive_style=wish.is_hive_style,
        is_url_encoded=wish.is_url_encoded,
        drops_partition_columns=wish.drops_partition_columns,
        change_data=wish.change_data,
        create_schema=schema.avro,
        index=stated(wish.index),
        updates_partitions=not wish.keeps_partitions,
        bucket_count=(wish.buckets or BUCKETS_DEFAULT) if has_buckets else None,
        hash_fields=wish.record_key if has_buckets else (),
        chain=wish.chain,
        has_foreign_writers=wish.has_foreign_writers,
    )
    _check_keys(config, schema)
    return config


def _check_keys(config: table_config.TableConfig, schema: schemas.TableSchema) -> None:
    """Refuse keys and partitions that every write would refuse: the same rules, on no rows."""
    stored = table_config.from_properties(table_config.to_properties(config))
    empty = schema.arrow.empty_table()
    if stored.record_key_fields:
        keys.record_keys(empty, stored)
    keys.partition_paths(empty, stored)


def _merge_mode(wish: Wish, spell: Spell) -> table_config.MergeMode:
    if len(wish.ordering) > 1:
        raise errors.ConfigurationError(
            f"{spell('ordering')} {','.join(wish.ordering)}: expected one column"
        )
    if wish.merge is table_config.MergeMode.COMMIT_TIME and wish.ordering:
        # Apache Hudi 1.2.0 turns such a table into event time and then refuses the next write.
        raise errors.ConfigurationError(
            f"{spell('ordering')} {wish.ordering[0]} with {spell('merge')} commit-time: a table "
            "merged by commit time has no ordering column, expected one of the two options"
        )
    if wish.merge is table_config.MergeMode.EVENT_TIME and not wish.ordering:
        raise errors.ConfigurationError(
            f"{spell('merge')} event-time without {spell('ordering')}: expected an ordering column"
        )
    if wish.merge is not None:
        return wish.merge
    return (
        table_config.MergeMode.EVENT_TIME if wish.ordering else table_config.MergeMode.COMMIT_TIME
    )


def check_keeps_partitions(
    index: table_config.IndexKind | None, *, keeps_partitions: bool, spell: Spell
) -> None:
    """Refuse the option with an index that finds keys in their own partition alone.

    Raises:
        ConfigurationError: It is one.
    """
    if keeps_partitions and (index is None or not index.is_global):
        raise errors.ConfigurationError(
            f"{spell('keep_partitions')} without a global index: expected {spell('index')} "
            "global-simple or global-bloom, with which a key is found in other partitions"
        )


def stated(index: table_config.IndexKind) -> table_config.IndexKind | None:
    """Return what is stored of an index: that of simple buckets is said by their number."""
    return None if index is table_config.IndexKind.BUCKET else index


def spelled(index: table_config.IndexKind) -> str:
    """Return how users write a kind of index."""
    return index.value.lower().replace("_", "-")
