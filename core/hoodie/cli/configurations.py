"""The configuration of a new table, of what the user wishes; wishes that do not fit are refused."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from hoodie import errors
from hoodie.model import key_generators, schemas, table_config, time_zones
from hoodie.model.change_data import LoggingMode
from hoodie.storage import locations
from hoodie.timeline import partition_buckets
from hoodie.write import keys

BUCKETS_DEFAULT = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What `hoodie create` was told.

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Adoption:
    """What `hoodie adopt` was told.

    Attributes:
        index: How the table's writers find records; None for not said.
        keeps_partitions: With a global index: whether records stay in their partition.
        buckets: Buckets a partition; None for not said.
        bucket_fields: Columns that are hashed; none for the record key.
        time_zone: Of times that are local ones; None for not said.
        key_options: Properties of the key generator.
    """

    index: table_config.IndexKind | None = None
    keeps_partitions: bool = False
    buckets: int | None = None
    bucket_fields: tuple[str, ...] = ()
    time_zone: str | None = None
    key_options: Mapping[str, str] = field(default_factory=dict)


def adopted(stored: table_config.TableConfig, wish: Adoption) -> table_config.TableConfig:
    """Return a table's configuration with what is declared of it.

    Raises:
        ConfigurationError: Options contradict each other, or the table states another index,
            another zone or another option of its key generator.
    """
    declared = _in_zone(_with_index(stored, wish), wish.time_zone)
    for key, value in wish.key_options.items():
        if not key_generators.is_option(key):
            raise errors.ConfigurationError(
                f"--key-option {key}: expected {key_generators.OPTIONS_PREFIX}..., "
                f"{key_generators.SLASHES_KEY} or {table_config.KEY_ENCODING_KEY}"
            )
        if stored.properties.get(key, value) != value:
            raise errors.ConfigurationError(
                f"table {stored.name!r} states {key}={stored.properties[key]}, not {value}: what "
                "makes keys and paths is not changed"
            )
    return replace(declared, properties={**stored.properties, **wish.key_options})


def _in_zone(stored: table_config.TableConfig, name: str | None) -> table_config.TableConfig:
    if name is None:
        return stored
    zone = time_zones.TimeZone(name)
    zone.check()
    if stored.time_zone not in (None, zone):
        raise errors.ConfigurationError(
            f"the times of table {stored.name!r} are those of {stored.zone.name}, not {name}: a "
            "zone that is stated is not changed"
        )
    return replace(stored, time_zone=zone)


def _with_index(stored: table_config.TableConfig, wish: Adoption) -> table_config.TableConfig:
    has_buckets = wish.index is not None and wish.index.has_buckets
    if wish.index is not None and has_buckets and wish.buckets is None:
        raise errors.ConfigurationError(
            f"--index {_spelled(wish.index)} without --buckets: expected their number"
        )
    for option, is_given in (
        ("--buckets", wish.buckets is not None),
        ("--bucket-fields", bool(wish.bucket_fields)),
    ):
        if is_given and not has_buckets:
            given = "no --index" if wish.index is None else f"--index {_spelled(wish.index)}"
            raise errors.ConfigurationError(
                f"{option} with {given}: only a bucket index has buckets"
            )
    check_keeps_partitions(wish.index, keeps_partitions=wish.keeps_partitions)
    if wish.index is None:
        return stored
    declared = replace(
        stored,
        index=_stated(wish.index),
        updates_partitions=not wish.keeps_partitions,
        bucket_count=wish.buckets if has_buckets else stored.bucket_count,
        hash_fields=wish.bucket_fields if has_buckets else stored.hash_fields,
    )
    if stored.index_kind is not None and _index_of(stored) != _index_of(declared):
        raise errors.ConfigurationError(
            f"table {stored.name!r} states {_index_of(stored)}, not {_index_of(declared)}: an "
            "index that is stated is not changed"
        )
    return declared


def _stated(index: table_config.IndexKind) -> table_config.IndexKind | None:
    """Return what is stored of an index: that of simple buckets is said by their number."""
    return None if index is table_config.IndexKind.BUCKET else index


def _spelled(index: table_config.IndexKind) -> str:
    return index.value.lower().replace("_", "-")


def _index_of(config: table_config.TableConfig) -> str:
    kind = config.index_kind
    if kind is None:
        return "no index"
    if kind.is_global:
        verb = "moves" if config.updates_partitions else "keeps"
        return f"index {kind.value} that {verb} records whose partition changes"
    if not kind.has_buckets:
        return f"index {kind.value}"
    name = "" if kind is table_config.IndexKind.BUCKET else f"index {kind.value} of "
    return f"{name}{config.bucket_count} buckets by {', '.join(config.bucket_fields)}"


def check_keeps_partitions(index: table_config.IndexKind | None, *, keeps_partitions: bool) -> None:
    """Refuse the option with an index that finds keys in their own partition alone.

    Raises:
        ConfigurationError: It is one.
    """
    if keeps_partitions and (index is None or not index.is_global):
        raise errors.ConfigurationError(
            "--keep-partitions without a global index: expected --index global-simple or "
            "global-bloom, with which a key is found in other partitions"
        )


def hashing_config(
    config: table_config.TableConfig, expressions: str | None
) -> partition_buckets.HashingConfig | None:
    """Return the bucket counts by partition that an option declares; None for none.

    Raises:
        InvalidInputError: They are malformed.
        UnsupportedError: An expression may mean something else in Java.
        ConfigurationError: The table has no number of buckets.
    """
    if expressions is None:
        return None
    if config.bucket_count is None:
        raise errors.ConfigurationError(
            "--buckets-by-partition without a bucket index: expected --index bucket"
        )
    return partition_buckets.declared(expressions, config.bucket_count)


def name_of(uri: str) -> str:
    """Return the name that a table gets of its URI: the last part.

    Raises:
        InvalidInputError: The URI has none.
    """
    name = locations.resolve(uri).path.rpartition("/")[2]
    if not name:
        raise errors.InvalidInputError(f"{uri} has no last part to name the table by")
    return name


def new_table(wish: Wish, schema: schemas.TableSchema) -> table_config.TableConfig:
    """Return the configuration of a new table.

    Raises:
        InvalidInputError: A column is not in the schema, or of a type that makes no keys or paths.
        UnsupportedError: Keys of these columns differ between releases of Hudi.
        ConfigurationError: Options contradict each other.
    """
    merge = _merge_mode(wish)
    for option, fields in (
        ("--record-key", wish.record_key),
        ("--partition-by", wish.partition_by),
        ("--ordering", wish.ordering),
    ):
        for name in fields:
            if name not in schema.arrow.names:
                raise errors.InvalidInputError(
                    f"{option} {name!r}: the schema has no such column; its columns are "
                    f"{', '.join(schema.arrow.names)}"
                )
    check_keeps_partitions(wish.index, keeps_partitions=wish.keeps_partitions)
    if wish.drops_partition_columns and not wish.partition_by:
        raise errors.ConfigurationError(
            "--drop-partition-columns without --partition-by: expected the partition columns"
        )
    has_buckets = wish.index.has_buckets
    if wish.buckets is not None and not has_buckets:
        raise errors.ConfigurationError(
            f"--buckets {wish.buckets} with --index {_spelled(wish.index)}: only a bucket "
            "index has buckets"
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
        index=_stated(wish.index),
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
    keys.record_keys(empty, stored)
    keys.partition_paths(empty, stored)


def _merge_mode(wish: Wish) -> table_config.MergeMode:
    if len(wish.ordering) > 1:
        raise errors.ConfigurationError(
            f"--ordering {','.join(wish.ordering)}: expected one column"
        )
    if wish.merge is table_config.MergeMode.COMMIT_TIME and wish.ordering:
        # Apache Hudi 1.2.0 turns such a table into event time and then refuses the next write.
        raise errors.ConfigurationError(
            f"--ordering {wish.ordering[0]} with --merge commit-time: a table merged by commit "
            "time has no ordering column, expected one of the two options"
        )
    if wish.merge is table_config.MergeMode.EVENT_TIME and not wish.ordering:
        raise errors.ConfigurationError(
            "--merge event-time without --ordering: expected an ordering column"
        )
    if wish.merge is not None:
        return wish.merge
    return (
        table_config.MergeMode.EVENT_TIME if wish.ordering else table_config.MergeMode.COMMIT_TIME
    )
