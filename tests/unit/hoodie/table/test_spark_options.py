"""What a Spark writer of Apache Hudi is told of exactly this table."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from hoodie import errors
from hoodie.model import settings, table_config, time_zones
from hoodie.services import spark_options
from hoodie.transaction.locks import address_texts

LOCK = address_texts.parse("filesystem")
CONFIG = table_config.TableConfig(
    name="orders",
    record_key_fields=("id", "line"),
    partition_fields=("day",),
    ordering_fields=("ts",),
    merge_mode=table_config.MergeMode.EVENT_TIME,
    bucket_count=4,
    hash_fields=("id",),
    is_hive_style=True,
)


def options_of(config: table_config.TableConfig) -> dict[str, str]:
    # As it is read back, with the properties that it is stored by.
    stored = table_config.from_properties(table_config.to_properties(config))
    return spark_options.options(stored, spark_options.mode_of(stored), LOCK)


def test_options_of_a_table_in_local_time_are_the_same_once_it_says_its_zone() -> None:
    berlin = replace(CONFIG, time_zone=time_zones.TimeZone("Europe/Berlin"))
    assert options_of(berlin) == options_of(CONFIG)


def test_options_are_those_of_the_table() -> None:
    assert options_of(CONFIG) == {
        "hoodie.table.name": "orders",
        "hoodie.table.type": "MERGE_ON_READ",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.datasource.write.recordkey.field": "id,line",
        "hoodie.datasource.write.partitionpath.field": "day",
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.ComplexKeyGenerator",
        "hoodie.datasource.write.hive_style_partitioning": "true",
        "hoodie.datasource.write.partitionpath.urlencode": "false",
        "hoodie.write.table.version": "9",
        "hoodie.write.auto.upgrade": "false",
        "hoodie.table.ordering.fields": "ts",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
        "hoodie.index.type": "BUCKET",
        "hoodie.index.bucket.engine": "SIMPLE",
        "hoodie.bucket.index.num.buckets": "4",
        "hoodie.bucket.index.hash.field": "id",
        "hoodie.metadata.enable": "false",
        "hoodie.metadata.auto.delete.partitions": "false",
        "hoodie.write.rolling.metadata.keys": (
            "hoodie.operator.batches,hoodie.operator.batches.through"
        ),
        "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
        "hoodie.clean.failed.writes.policy": "LAZY",
        "hoodie.write.lock.provider": (
            "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider"
        ),
    }


def test_copy_on_write_is_optimistic_by_bucket() -> None:
    found = options_of(replace(CONFIG, table_type=table_config.TableType.COPY_ON_WRITE))
    assert found["hoodie.write.concurrency.mode"] == "OPTIMISTIC_CONCURRENCY_CONTROL"
    strategy = found["hoodie.write.lock.conflict.resolution.strategy"]
    assert strategy.endswith(".BucketIndexConcurrentFileWritesConflictResolutionStrategy")


def test_partial_updates_go_by_their_class() -> None:
    found = options_of(
        replace(
            CONFIG,
            ordering_fields=(),
            merge_mode=table_config.MergeMode.COMMIT_TIME,
            has_partial_updates=True,
        )
    )
    payload = found["hoodie.datasource.write.payload.class"]
    assert payload.endswith(".OverwriteNonDefaultsWithLatestAvroPayload")
    assert "hoodie.record.merge.mode" not in found


@pytest.mark.parametrize(
    ("partitions", "expected"),
    [
        ("", ("false", "false", None)),
        ("files", ("true", "false", "false")),
        ("files,column_stats", ("true", "false", "true")),
        ("files,record_index", ("true", "false", "false")),
        ("files,record_index,secondary_index_x", ("true", "false", "false")),
        ("files,expr_index_x", ("true", "false", "false")),
        ("files,vector_index_x", ("false", "true", None)),
    ],
)
def test_indexes_of_a_metadata_table(
    partitions: str, expected: tuple[str, str, str | None]
) -> None:
    """One that our writers do not keep up is removed by the next write."""
    stored = {
        **table_config.to_properties(CONFIG),
        table_config.METADATA_PARTITIONS_KEY: partitions,
    }
    config = table_config.from_properties(stored)
    found = spark_options.options(config, spark_options.mode_of(config), LOCK)
    keys = ("enable", "auto.delete.partitions", "index.column.stats.enable")
    assert tuple(found.get(f"hoodie.metadata.{key}") for key in keys) == expected


def test_columns_of_statistics_are_those_that_were_chosen() -> None:
    """Also while they are being built, and not once they are dropped."""
    key = "hoodie.metadata.index.column.stats.column.list"
    stored = {
        **table_config.to_properties(CONFIG),
        table_config.METADATA_PARTITIONS_KEY: "files,column_stats",
    }
    chosen = {**stored, table_config.STATISTICS_COLUMNS_KEY: "b,a"}
    building = {
        **chosen,
        table_config.METADATA_PARTITIONS_KEY: "files",
        table_config.METADATA_PARTITIONS_INFLIGHT_KEY: "column_stats",
        table_config.METADATA_PARTITIONS_OWN_KEY: "column_stats",
    }
    dropped = {**chosen, table_config.METADATA_PARTITIONS_KEY: "files"}
    found = []
    for each in (stored, chosen, building, dropped):
        config = table_config.from_properties(each)
        options = spark_options.options(config, spark_options.mode_of(config), LOCK)
        found.append(options.get(key))
    assert found == [None, "b,a", "b,a", None]


def test_bulk_inserts_of_times_in_keys_write_no_rows() -> None:
    """Their updates would not find the keys that rows are given."""
    mode = spark_options.mode_of(CONFIG)
    plain = spark_options.options(CONFIG, mode, LOCK)
    found = spark_options.options(CONFIG, mode, LOCK, has_instants_in_keys=True)
    assert found == plain | {"hoodie.datasource.write.row.writer.enable": "false"}


@pytest.mark.parametrize("is_partitioned", [False, True])
def test_record_index_of_its_kind_is_kept_up(*, is_partitioned: bool) -> None:
    stored = {
        **table_config.to_properties(CONFIG),
        table_config.METADATA_PARTITIONS_KEY: "files,record_index",
    }
    config = table_config.from_properties(stored)
    found = spark_options.options(
        config,
        spark_options.mode_of(config),
        LOCK,
        has_partitioned_record_index=is_partitioned,
    )
    keys = ("global.record.level.index", "record.index", "record.level.index")
    flags = [found[f"hoodie.metadata.{key}.enable"] for key in keys]
    expected = ["false", "false", "true"] if is_partitioned else ["true", "true", "false"]
    assert flags == expected
    assert ("hoodie.embed.timeline.server" in found) is is_partitioned


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({table_config.BUCKET_COUNT_KEY: ""}, "hoodie adopt"),
        ({"hoodie.table.timeline.timezone": "LOCAL"}, "adopt --time-zone"),
        ({table_config.BOOTSTRAP_BASE_PATH_KEY: "/data"}, "bootstrapped"),
    ],
)
def test_table_that_we_do_not_write_has_none(change: dict[str, str], message: str) -> None:
    stored = {**table_config.to_properties(CONFIG), **change}
    config = table_config.from_properties({key: value for key, value in stored.items() if value})
    with pytest.raises(errors.HoodieError, match=message):
        spark_options.options(config, settings.ConcurrencyMode.OPTIMISTIC, LOCK)


def options_beside_record_index(more: str) -> Mapping[str, str]:
    """Return the options for a table with a record index, and more indexes."""
    stored = {
        **table_config.to_properties(CONFIG),
        table_config.METADATA_PARTITIONS_KEY: f"files,record_index{more}",
    }
    config = table_config.from_properties(stored)
    return spark_options.options(config, spark_options.mode_of(config), LOCK)


@pytest.mark.parametrize(("more", "expected"), [("", None), (",secondary_index_x", "true")])
def test_writers_of_a_secondary_index_have_the_server_without_which_they_fail(
    more: str, expected: str | None
) -> None:
    found = options_beside_record_index(more)
    assert found.get("hoodie.embed.timeline.server") == expected


@pytest.mark.parametrize(("more", "expected"), [("", None), (",secondary_index_x", "false")])
def test_bulk_inserts_into_a_table_with_a_secondary_index_are_not_by_rows(
    more: str, expected: str | None
) -> None:
    found = options_beside_record_index(more)
    assert found.get("hoodie.datasource.write.row.writer.enable") == expected


def test_secondary_index_stays_where_the_record_index_is_kept_up() -> None:
    found = spark_options.options_of_indexes(["secondary_index_a", "bloom_filters"])
    assert found == {
        "hoodie.metadata.global.record.level.index.enable": "true",
        "hoodie.metadata.record.index.enable": "true",
        "hoodie.metadata.index.bloom.filter.enable": "true",
    }
