"""Properties of a table as options of its writers: they change nothing, and must agree with it.

So the options of a writer of Apache Hudi can be passed on as they are, and a wrong one does not go
unnoticed. Source: `DataSourceWriteOptions`, `HoodieTableConfig` (1.2.0); Flink's `FlinkOptions`.
"""

from collections.abc import Callable, Mapping

from hoodie import errors
from hoodie.model import file_statistics, key_generators, table_config

NAME_KEY = "hoodie.table.name"
BUCKET_ENGINE_KEY = "hoodie.index.bucket.engine"

PARTITION_UPDATES = (
    "hoodie.simple.index.update.partition.path",
    "hoodie.bloom.index.update.partition.path",
    "hoodie.record.index.update.partition.path",
)
"""Whether a record whose partition changes moves there, of each kind of global index."""

Spell = Callable[[str, str], str]
"""How a caller's user writes an option, from its key and its value."""


def check(facts: Mapping[str, str], config: table_config.TableConfig, spell: Spell) -> None:
    """Refuse properties that a table does not agree with.

    Args:
        facts: Keys of `FACTS`, and their values.
        config: The table's configuration.
        spell: Names options in messages.

    Raises:
        ConfigurationError: One differs; the message has both values.
    """
    for key, value in facts.items():
        what, actual = FACTS[key][0], FACTS[key][1](config)
        if value.replace(" ", "").upper() != actual.upper():
            raise errors.ConfigurationError(
                f"{what} differs: {spell(key, value)}, the table has {actual or 'none'}"
            )


def _index_type(config: table_config.TableConfig) -> str:
    kind = config.index_kind
    if kind is None:
        return ""
    # Of Apache Hudi's one index of buckets it is an engine.
    return table_config.IndexKind.BUCKET.value if kind.has_buckets else kind.value


def _bucket_engine(config: table_config.TableConfig) -> str:
    match config.index_kind:
        case table_config.IndexKind.BUCKET:
            return "SIMPLE"
        case table_config.IndexKind.CONSISTENT_HASHING:
            return table_config.IndexKind.CONSISTENT_HASHING.value
        case _:
            return ""


def _bucket_count(config: table_config.TableConfig) -> str:
    return "" if config.bucket_count is None else str(config.bucket_count)


def _bucket_fields(config: table_config.TableConfig) -> str:
    return ",".join(config.bucket_fields)


def _record_key(config: table_config.TableConfig) -> str:
    return ",".join(config.record_key_fields)


def _partition_fields(config: table_config.TableConfig) -> str:
    return ",".join(config.partition_fields)


def _ordering_fields(config: table_config.TableConfig) -> str:
    return ",".join(config.ordering_fields)


def _table_name(config: table_config.TableConfig) -> str:
    return config.name


def _table_type(config: table_config.TableConfig) -> str:
    return config.table_type.value


def _version(config: table_config.TableConfig) -> str:
    return str(config.version)


def _has_metadata_table(config: table_config.TableConfig) -> str:
    return _flag(bool(config.metadata_partitions))


def _has_column_statistics(config: table_config.TableConfig) -> str:
    return _flag(file_statistics.COLUMN_STATS in config.metadata_partitions)


def _updates_partitions(config: table_config.TableConfig) -> str:
    return _flag(config.updates_partitions)


def _merge_mode(config: table_config.TableConfig) -> str:
    return config.merge_mode.value


def _key_generator(config: table_config.TableConfig) -> str:
    kind = key_generators.kind(config)
    return f"org.apache.hudi.keygen.{key_generators.CLASSES.get(kind, kind)}"


def _is_hive_style(config: table_config.TableConfig) -> str:
    return _flag(config.is_hive_style)


def _is_url_encoded(config: table_config.TableConfig) -> str:
    return _flag(config.is_url_encoded)


def _drops_partition_columns(config: table_config.TableConfig) -> str:
    return _flag(config.drops_partition_columns)


def _has_change_data(config: table_config.TableConfig) -> str:
    return _flag(config.change_data is not None)


def _change_data_mode(config: table_config.TableConfig) -> str:
    return "" if config.change_data is None else config.change_data.value


def _flag(value: bool) -> str:
    return str(value).lower()


def _never(_: table_config.TableConfig) -> str:
    return "false"


# Key: what it is, and what it is of a table.
FACTS: Mapping[str, tuple[str, Callable[[table_config.TableConfig], str]]] = {
    NAME_KEY: ("table name", _table_name),
    "hoodie.datasource.write.table.name": ("table name", _table_name),
    "hoodie.table.type": ("table type", _table_type),
    "hoodie.datasource.write.table.type": ("table type", _table_type),
    "hoodie.table.version": ("table version", _version),
    "hoodie.write.table.version": ("table version", _version),
    "hoodie.index.type": ("index type", _index_type),
    BUCKET_ENGINE_KEY: ("engine of the bucket index", _bucket_engine),
    **dict.fromkeys(PARTITION_UPDATES, ("moves between partitions", _updates_partitions)),
    table_config.BUCKET_COUNT_KEY: ("bucket count", _bucket_count),
    table_config.HASH_FIELDS_KEY: ("bucket field", _bucket_fields),
    "hoodie.table.recordkey.fields": ("record key", _record_key),
    "hoodie.datasource.write.recordkey.field": ("record key", _record_key),
    "hoodie.table.partition.fields": ("partition columns", _partition_fields),
    "hoodie.datasource.write.partitionpath.field": ("partition columns", _partition_fields),
    "hoodie.table.ordering.fields": ("ordering column", _ordering_fields),
    "hoodie.datasource.write.precombine.field": ("ordering column", _ordering_fields),
    "hoodie.table.precombine.field": ("ordering column", _ordering_fields),
    "hoodie.record.merge.mode": ("merge mode", _merge_mode),
    "hoodie.datasource.write.keygenerator.class": ("key generator", _key_generator),
    "hoodie.datasource.write.hive_style_partitioning": ("style of paths", _is_hive_style),
    "hoodie.datasource.write.partitionpath.urlencode": ("encoding of paths", _is_url_encoded),
    table_config.DROPS_PARTITION_COLUMNS_KEY: (
        "partition columns in paths alone",
        _drops_partition_columns,
    ),
    table_config.CHANGE_DATA_CAPTURE_KEY: ("change data capture", _has_change_data),
    table_config.CHANGE_DATA_MODE_KEY: ("change data", _change_data_mode),
    "hoodie.metadata.enable": ("metadata table", _has_metadata_table),
    "hoodie.metadata.index.async": ("indexing beside writers", _never),
    "hoodie.metadata.index.column.stats.enable": ("index of column stats", _has_column_statistics),
    # As Flink's SQL names them.
    "table.type": ("table type", _table_type),
    "index.type": ("index type", _index_type),
    "metadata.enabled": ("metadata table", _has_metadata_table),
    "compaction.schedule.enabled": ("compactions planned by a writer", _never),
    "compaction.async.enabled": ("compactions executed by a writer", _never),
    "clean.async.enabled": ("cleaning by a writer", _never),
}

REFUSED: Mapping[str, str] = {
    **dict.fromkeys(
        ("hoodie.aws.access.key", "hoodie.aws.secret.key", "hoodie.aws.session.token"),
        "credentials are read from the environment, as AWS tools do",
    ),
    "hoodie.datasource.write.partitions.to.delete": "partitions are deleted by `hoodie delete URI "
    "--partition day=2024-12-30`, or by a TableAction of the kind DeletePartitions",
}
"""Keys that others honour and we do not, and why."""
