"""What --set, --lock and --concurrency mean together, and which of it contradicts."""

import re
from dataclasses import replace

import pytest

from hoodie import errors
from hoodie.cli import options, run_settings
from hoodie.model import settings, table_config
from hoodie.transaction.locks import addresses

URI = "/data/trips"
NBCC = options.Concurrency.NON_BLOCKING
CONFIG = table_config.TableConfig(
    name="trips", record_key_fields=("id", "day"), bucket_count=8, hash_fields=("id",)
)


def test_defaults_are_a_single_writer_and_a_lock_file() -> None:
    assert run_settings.parse(URI, None, None) == run_settings.RunSettings(
        settings=settings.WriteSettings(), lock=addresses.FileSystemAddress(), facts={}
    )


def test_default_lock_of_a_table_in_a_bucket_is_a_lease_there() -> None:
    for parse in (
        run_settings.parse,
        run_settings.parse_for_service,
        run_settings.parse_beside_writers,
    ):
        assert parse("s3://lake/trips", None, None).lock == addresses.StorageAddress()
        assert parse("s3://lake/trips", None, "filesystem").lock == addresses.FileSystemAddress()


def test_set_gives_settings_by_hudis_keys() -> None:
    run = run_settings.parse(
        URI,
        ["hoodie.write.lock.wait_time_ms = 5", "hoodie.parquet.compression.codec=zstd"],
        None,
        NBCC,
    )
    assert run.settings == settings.WriteSettings(
        concurrency=settings.ConcurrencyMode.NON_BLOCKING, lock_wait_ms=5, parquet_codec="zstd"
    )


def test_set_gives_a_lock_by_hudis_keys() -> None:
    run = run_settings.parse(
        URI,
        [
            "hoodie.write.lock.provider=org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider",
            "hoodie.write.lock.zookeeper.url=zk",
            "hoodie.write.lock.zookeeper.base_path=/hudi",
            "hoodie.write.lock.zookeeper.lock_key=trips",
        ],
        None,
    )
    assert isinstance(run.lock, addresses.ZooKeeperAddress)
    assert (run.lock.servers, run.lock.path) == (("zk:2181",), "/hudi/trips")


@pytest.mark.parametrize(
    ("set_texts", "lock", "concurrency", "complaint"),
    [
        (["k"], None, None, "--set 'k': expected KEY=VALUE"),
        (["=v"], None, None, "--set '=v': expected KEY=VALUE"),
        (["a=1", "a=2"], None, None, "--set a is given twice"),
        (["hoodie.wirte=1"], None, None, "--set hoodie.wirte: unknown setting"),
        (
            ["hoodie.write.lock.wait_time_ms=soon"],
            None,
            None,
            "hoodie.write.lock.wait_time_ms is 'soon', expected a whole number of 0 or more",
        ),
        (
            ["hoodie.write.concurrency.mode=SINGLE_WRITER"],
            None,
            NBCC,
            "--concurrency nbcc with --set hoodie.write.concurrency.mode=SINGLE_WRITER",
        ),
        ([], "in-process", NBCC, "--lock in-process with several writers (nbcc)"),
        (
            ["hoodie.write.concurrency.mode=NON_BLOCKING_CONCURRENCY_CONTROL"],
            "in-process",
            None,
            "--lock in-process with several writers (nbcc)",
        ),
        ([], "redis://host", None, "'redis://host' is not a lock"),
        ([], "zookeeper://host:2181", None, "'' is not a lock path"),
        (["hoodie.write.lock.zookeeper.url=zk"], "filesystem", None, "--lock filesystem with"),
        (["hoodie.write.lock.zookeeper.url=zk"], None, None, "zookeeper.base_path is not set"),
        (
            ["hoodie.write.lock.filesystem.expire=1"],
            None,
            None,
            "--set hoodie.write.lock.filesystem.expire without hoodie.write.lock.provider",
        ),
    ],
)
def test_what_is_malformed_or_contradicts_is_refused(
    set_texts: list[str],
    lock: str | None,
    concurrency: options.Concurrency | None,
    complaint: str,
) -> None:
    with pytest.raises(errors.HoodieError, match=re.escape(complaint)) as raised:
        run_settings.parse(URI, set_texts, lock, concurrency)
    assert isinstance(raised.value, errors.InvalidInputError | errors.ConfigurationError)


@pytest.mark.parametrize(
    "facts",
    [
        {"hoodie.bucket.index.num.buckets": "8", "hoodie.index.type": "bucket"},
        {"hoodie.table.type": "MERGE_ON_READ", "hoodie.table.recordkey.fields": "id, day"},
        {"hoodie.bucket.index.hash.field": "id", "hoodie.write.table.version": "9"},
        # The second pipeline of the blog on non-blocking concurrency control (S168), T-N17.
        {
            "table.type": "MERGE_ON_READ",
            "index.type": "BUCKET",
            "metadata.enabled": "false",
            "compaction.schedule.enabled": "false",
            "compaction.async.enabled": "false",
            "clean.async.enabled": "false",
        },
    ],
)
def test_facts_that_the_table_agrees_with_are_fine(facts: dict[str, str]) -> None:
    texts = [f"{key}={value}" for key, value in facts.items()]
    run_settings.check_facts(run_settings.parse(URI, texts, None).facts, CONFIG)


def test_metadata_table_is_a_fact_of_the_table() -> None:
    facts = {"hoodie.metadata.enable": "true", "hoodie.metadata.index.column.stats.enable": "false"}
    run_settings.check_facts(facts, replace(CONFIG, metadata_partitions=("files",)))
    with pytest.raises(errors.ConfigurationError, match="metadata table differs"):
        run_settings.check_facts(facts, CONFIG)


@pytest.mark.parametrize(
    ("key", "value", "complaint"),
    [
        ("hoodie.bucket.index.num.buckets", "16", "bucket count differs: "),
        ("hoodie.index.type", "BLOOM", "index type differs: "),
        ("hoodie.table.type", "COPY_ON_WRITE", "table type differs: "),
        ("hoodie.table.recordkey.fields", "id", "record key differs: "),
    ],
)
def test_facts_that_the_table_contradicts_are_refused(key: str, value: str, complaint: str) -> None:
    with pytest.raises(errors.ConfigurationError, match=complaint) as raised:
        run_settings.check_facts({key: value}, CONFIG)
    assert f"--set {key}={value}, the table has " in str(raised.value)
