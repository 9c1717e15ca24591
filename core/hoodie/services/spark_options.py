"""The options by which a Spark writer of Apache Hudi 1.2 writes a table of ours beside our writers.

Apache Hudi stores few of them with the table, and its defaults would make groups of no bucket,
indexes that the table does not have, and commits without the record of our writers' batches. What
each option is for is told in docs/spark-writers.md.
"""

from collections.abc import Iterable, Sequence

from hoodie import errors
from hoodie.filegroup import metadata_records
from hoodie.model import (
    expression_indexes,
    file_statistics,
    key_changes,
    key_generators,
    secondary_indexes,
    settings,
    table_config,
)
from hoodie.services import table_facts
from hoodie.timeline import partition_buckets
from hoodie.transaction import writer_batches
from hoodie.transaction.locks import addresses, hudi_options
from hoodie.write import compatibility, keys

_PAYLOADS = "org.apache.hudi.common.model"
_BY_BUCKET, _BY_FILE_GROUP = (
    f"org.apache.hudi.client.transaction.{name}ConcurrentFileWritesConflictResolutionStrategy"
    for name in ("BucketIndex", "Simple")
)


def mode_of(
    config: table_config.TableConfig,
    hashing_config: partition_buckets.HashingConfig | None = None,
) -> settings.ConcurrencyMode:
    """Return the mode in which several writers write a table of its type and index.

    Args:
        config: The table's configuration.
        hashing_config: Bucket counts by partition; None for one of all.
    """
    has_fixed_buckets = (
        config.index_kind is table_config.IndexKind.BUCKET and hashing_config is None
    )
    if config.is_copy_on_write or not has_fixed_buckets:
        return settings.ConcurrencyMode.OPTIMISTIC
    return settings.ConcurrencyMode.NON_BLOCKING


def options(
    config: table_config.TableConfig,
    mode: settings.ConcurrencyMode,
    lock: addresses.LockAddress,
    *,
    has_instants_in_keys: bool = False,
    has_partitioned_record_index: bool = False,
    hashing_config: partition_buckets.HashingConfig | None = None,
) -> dict[str, str]:
    """Return the options of a writer, without the operation.

    Args:
        config: The table's configuration.
        mode: The one of all writers of the table.
        lock: The table lock of all of them.
        has_instants_in_keys: Whether a bulk insert by rows would print other keys than updates.
        has_partitioned_record_index: Whether a record index is one of each partition.
        hashing_config: Bucket counts by partition; None for one of all.

    Raises:
        ConfigurationError: The table is not for that mode.
        UnsupportedError: The table is not one that we write, or the lock not one of Apache Hudi's.
    """
    compatibility.check_table(config, mode)
    if config.time_zone is None:
        raise errors.UnsupportedError(
            f"the timeline of table {config.name} has the local times of its writers, and nothing "
            "says of which time zone: declare it by `hoodie adopt --time-zone`"
        )
    return (
        _table(config)
        | ({keys.ROW_WRITER_KEY: _flag(False)} if has_instants_in_keys else {})
        | _merging(config)
        | _index(config, hashing_config)
        | _metadata(config, has_partitioned_record_index=has_partitioned_record_index)
        | _concurrency(config, mode)
        | hudi_options.to_options(lock)
    )


def _table(config: table_config.TableConfig) -> dict[str, str]:
    kind = key_generators.kind(config)
    class_name = key_generators.CLASSES.get(kind)
    partitions = ",".join(config.partition_fields)
    if kind == "CUSTOM":
        partitions = config.properties.get("hoodie.table.partition.fields", partitions)
    found = {
        "hoodie.table.name": config.name,
        "hoodie.table.type": config.table_type.value,
        "hoodie.datasource.write.table.type": config.table_type.value,
        "hoodie.datasource.write.recordkey.field": ",".join(config.record_key_fields),
        "hoodie.datasource.write.partitionpath.field": partitions,
        "hoodie.datasource.write.keygenerator.class": f"org.apache.hudi.keygen.{class_name}"
        if class_name
        else config.properties.get("hoodie.table.keygenerator.class", kind),
        "hoodie.datasource.write.hive_style_partitioning": _flag(config.is_hive_style),
        "hoodie.datasource.write.partitionpath.urlencode": _flag(config.is_url_encoded),
        "hoodie.write.table.version": str(config.version),
        # Version 9 is not read by 1.0; whoever wants it upgrades the table on purpose.
        "hoodie.write.auto.upgrade": "false",
    }
    if config.change_data is not None:
        found[table_config.CHANGE_DATA_CAPTURE_KEY] = "true"
        found[table_config.CHANGE_DATA_MODE_KEY] = config.change_data.value
    if config.drops_partition_columns:
        found[table_config.DROPS_PARTITION_COLUMNS_KEY] = "true"
    if not config.record_key_fields:
        # Named, it would be a key without a name.
        del found["hoodie.datasource.write.recordkey.field"]
    if config.version < table_config.VERSION_NAMING_KEYS and kind == "COMPLEX":
        # Their validation knows tables of unknown keys alone.
        found["hoodie.write.complex.keygen.validation.enable"] = "false"
        is_named = key_generators.names_fields(config) is not False
        found["hoodie.write.complex.keygen.new.encoding"] = _flag(not is_named)
    if key_generators.has_slashed_dates(config):
        found[key_generators.SLASHES_KEY] = "true"
    # By which a timestamp-based generator makes paths.
    return found | {
        key: value for key, value in config.properties.items() if key.startswith("hoodie.keygen.")
    }


def _merging(config: table_config.TableConfig) -> dict[str, str]:
    is_event_time = config.merge_mode is table_config.MergeMode.EVENT_TIME
    found: dict[str, str] = {}
    if config.ordering_fields:
        fields = ",".join(config.ordering_fields)
        found["hoodie.table.ordering.fields"] = fields
        found["hoodie.datasource.write.precombine.field"] = fields
    if config.has_partial_updates:
        # Only the class means it: hoodie.table.partial.update.mode is no option of a writer.
        name = (
            "PartialUpdateAvroPayload"
            if is_event_time
            else "OverwriteNonDefaultsWithLatestAvroPayload"
        )
        found["hoodie.datasource.write.payload.class"] = f"{_PAYLOADS}.{name}"
    else:
        found["hoodie.record.merge.mode"] = config.merge_mode.value
    return found


def _index(
    config: table_config.TableConfig, hashing_config: partition_buckets.HashingConfig | None
) -> dict[str, str]:
    if config.looks_keys_up:
        assert config.index is not None
        found = {"hoodie.index.type": config.index.value}
        if config.has_global_index:
            found |= dict.fromkeys(table_facts.PARTITION_UPDATES, _flag(config.updates_partitions))
        return found
    has_rings = config.index is table_config.IndexKind.CONSISTENT_HASHING
    found = {
        "hoodie.index.type": "BUCKET",
        "hoodie.index.bucket.engine": "CONSISTENT_HASHING" if has_rings else "SIMPLE",
        table_config.BUCKET_COUNT_KEY: str(config.bucket_count),
        table_config.HASH_FIELDS_KEY: ",".join(config.bucket_fields),
    }
    if hashing_config is not None:
        found["hoodie.bucket.index.partition.expressions"] = hashing_config.expressions
    return found


_INDEXES = {
    file_statistics.BLOOM_FILTERS: ("hoodie.metadata.index.bloom.filter.enable",),
    file_statistics.COLUMN_STATS: ("hoodie.metadata.index.column.stats.enable",),
    file_statistics.PARTITION_STATS: ("hoodie.metadata.index.partition.stats.enable",),
}
_EXPRESSIONS = "hoodie.metadata.index.expression.enable"
_STATISTICS_COLUMNS = "hoodie.metadata.index.column.stats.column.list"
_RECORD_INDEX = (
    # Its name since 1.1, and before.
    "hoodie.metadata.global.record.level.index.enable",
    "hoodie.metadata.record.index.enable",
)
_PARTITIONED_RECORD_INDEX = ("hoodie.metadata.record.level.index.enable",)


def options_of_indexes(
    names: Iterable[str],
    *,
    is_partitioned: bool = False,
    statistics_columns: Sequence[str] | None = None,
) -> dict[str, str]:
    """Return the options by which writers of other engines keep indexes up.

    Args:
        names: Partitions of a metadata table; a secondary index stays for as long as the record
            index is kept up.
        is_partitioned: Whether a record index is one of each partition.
        statistics_columns: Those of statistics, if they were chosen.
    """
    named = list(names)
    of_keys = _PARTITIONED_RECORD_INDEX if is_partitioned else _RECORD_INDEX
    known = {**_INDEXES, key_changes.RECORD_INDEX: of_keys}
    wanted = (
        key_changes.RECORD_INDEX if secondary_indexes.is_one(each) else each for each in named
    )
    found = {key: _flag(True) for name in wanted for key in known.get(name, ())}
    if any(map(expression_indexes.is_one, named)):
        found[_EXPRESSIONS] = _flag(True)
    if statistics_columns is not None:
        found[_STATISTICS_COLUMNS] = ",".join(statistics_columns)
    return found


def _metadata(
    config: table_config.TableConfig, *, has_partitioned_record_index: bool
) -> dict[str, str]:
    """Return options by which a writer keeps the indexes up that a table has, and makes no other.

    A metadata table that this project does not keep up goes by the next write with them.
    """
    # One that is being built beside their writers is kept up, or made, by those whose option is on.
    own = set(config.metadata_partitions_own)
    ready = own.union(config.metadata_partitions)
    building = set(config.metadata_partitions_inflight) - own
    is_kept = all(map(metadata_records.is_kept_up, ready)) and not building
    found = {
        "hoodie.metadata.enable": _flag(bool(ready) and is_kept),
        "hoodie.metadata.auto.delete.partitions": _flag(not is_kept),
        "hoodie.write.rolling.metadata.keys": ",".join(writer_batches.CARRIED_KEYS),
    }
    if ready and is_kept:
        for name, own_options in _INDEXES.items():
            found |= dict.fromkeys(own_options, _flag(name in ready))
        has_expressions = any(map(expression_indexes.is_one, ready))
        found[_EXPRESSIONS] = _flag(has_expressions)
        if config.statistics_columns is not None and file_statistics.COLUMN_STATS in ready:
            found[_STATISTICS_COLUMNS] = ",".join(config.statistics_columns)
        has_record_index = key_changes.RECORD_INDEX in ready
        of_table = has_record_index and not has_partitioned_record_index
        found |= dict.fromkeys(_RECORD_INDEX, _flag(of_table))
        of_partitions = has_record_index and has_partitioned_record_index
        found |= dict.fromkeys(_PARTITIONED_RECORD_INDEX, _flag(of_partitions))
        if of_partitions or has_expressions or any(map(secondary_indexes.is_one, ready)):
            # Without it writers fail: a task reads the metadata table by what the driver opened.
            found["hoodie.embed.timeline.server"] = _flag(True)
        if any(map(secondary_indexes.is_one, ready)):
            # Bulk inserts by rows, its default, add nothing to a secondary index (limits.md).
            found[keys.ROW_WRITER_KEY] = _flag(False)
    return found


def _concurrency(
    config: table_config.TableConfig, mode: settings.ConcurrencyMode
) -> dict[str, str]:
    found = {"hoodie.write.concurrency.mode": mode.value}
    if mode is not settings.ConcurrencyMode.SINGLE_WRITER:
        found["hoodie.clean.failed.writes.policy"] = "LAZY"
    if mode is settings.ConcurrencyMode.OPTIMISTIC:
        found["hoodie.write.lock.conflict.resolution.strategy"] = (
            _BY_BUCKET if config.index_kind is table_config.IndexKind.BUCKET else _BY_FILE_GROUP
        )
    return found


def _flag(value: bool) -> str:
    return "true" if value else "false"
