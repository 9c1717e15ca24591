"""Options of `df.write`: those of Apache Hudi mean what they mean there, or are refused by name."""

from dataclasses import replace

import pyarrow as pa
import pytest

from hoodie import errors
from hoodie.door import columns
from hoodie.model import change_data, commits, schemas, settings, table_config
from hoodie.services import new_tables, spark_options
from hoodie.transaction.locks import addresses
from hoodie_jobs.spark import write_options
from hoodie_jobs.spark.write_options import IfExists, Options

WRITE = "hoodie.datasource.write"
URI = "file:///tmp/trips"
KEY = {f"{WRITE}.recordkey.field": "id"}
COLUMNS = pa.schema([("id", pa.string()), ("day", pa.string()), ("at", pa.int64())])
CHAIN = table_config.ChainName(id="c")


def parsed(options: dict[str, str], *, is_overwrite: bool = False) -> Options:
    return write_options.parse({"path": URI, **options}, is_overwrite=is_overwrite)


def new_table(options: dict[str, str]) -> table_config.TableConfig:
    found = parsed(options)
    wish = write_options.wish(found, CHAIN)
    schema = schemas.from_arrow(columns.schema_of(COLUMNS), wish.name)
    config = new_tables.new_table(wish, schema, write_options.spelled)
    stored = table_config.from_properties(table_config.to_properties(config))
    write_options.check_facts(found, stored)
    return stored


def test_defaults_are_those_of_apache_hudi() -> None:
    found = parsed({})
    assert found == Options(uri=URI)
    assert found.operation is commits.Operation.UPSERT
    config = new_table(KEY)
    assert config.name == "trips"
    assert config.is_copy_on_write
    assert config.index_kind is table_config.IndexKind.SIMPLE
    assert config.merge_mode is table_config.MergeMode.COMMIT_TIME
    assert (config.record_key_fields, config.partition_fields) == (("id",), ())


def test_properties_make_a_new_table() -> None:
    config = new_table(
        {
            "hoodie.table.name": "rides",
            f"{WRITE}.recordkey.field": "id, day",
            f"{WRITE}.partitionpath.field": "day",
            f"{WRITE}.precombine.field": "at",
            f"{WRITE}.table.type": "merge_on_read",
            f"{WRITE}.hive_style_partitioning": "true",
            "hoodie.index.type": "BUCKET",
            "hoodie.bucket.index.num.buckets": "4",
            "hoodie.write.table.version": "8",
            "hoodie.table.cdc.enabled": "true",
        }
    )
    assert (config.name, config.version, config.bucket_count) == ("rides", 8, 4)
    assert config.record_key_fields == ("id", "day")
    assert config.ordering_fields == ("at",)
    assert config.merge_mode is table_config.MergeMode.EVENT_TIME
    assert not config.is_copy_on_write
    assert config.is_hive_style
    assert config.change_data is change_data.LoggingMode.DATA_BEFORE_AFTER


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {f"{WRITE}.partitionpath.field": "day"},
        {f"{WRITE}.precombine.field": "at", "hoodie.index.type": "BLOOM"},
        {
            "hoodie.index.type": "GLOBAL_SIMPLE",
            "hoodie.simple.index.update.partition.path": "false",
        },
        {"hoodie.index.type": "BUCKET", f"{WRITE}.table.type": "MERGE_ON_READ"},
        {
            "hoodie.index.type": "BUCKET",
            "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
            f"{WRITE}.table.type": "MERGE_ON_READ",
        },
        {f"{WRITE}.payload.class": "a.b.OverwriteNonDefaultsWithLatestAvroPayload"},
        {
            f"{WRITE}.precombine.field": "at",
            f"{WRITE}.payload.class": "a.b.PartialUpdateAvroPayload",
        },
        {"hoodie.table.cdc.enabled": "true", "hoodie.write.table.version": "8"},
    ],
    ids=lambda changes: "-".join(sorted(name.rpartition(".")[2] for name in changes)),
)
def test_options_that_describe_prints_for_a_table_are_those_of_its_writer(
    changes: dict[str, str],
) -> None:
    """`hoodie describe --spark-options`, of a table that was made with such options."""
    stored = new_table({**KEY, **changes})
    mode = spark_options.mode_of(stored)
    printed = spark_options.options(stored, mode, addresses.FileSystemAddress())
    found = parsed(printed)
    write_options.check_facts(found, stored)
    assert found.lock == addresses.FileSystemAddress()
    assert settings.from_properties(found.settings).concurrency is mode
    # And they make the same table again, but for what only its creation has.
    if not found.of_tables:
        assert new_table(printed) == stored


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({f"{WRITE}.partitionpath.feild": "day"}, "partitionpath.feild might change"),
        (
            {"hoodie.datasource.write.recordkey.fields": "id"},
            "lists the options; did you mean 'hoodie.datasource.write.recordkey.field'?",
        ),
        ({"mergeSchema": "true"}, "option mergeschema might change what is written"),
        ({"hoodie.clean.automatic": "true"}, "hoodie.clean.automatic=true: a write does not"),
        ({"hoodie.datasource.hive_sync.enable": "true"}, "no metastore"),
        ({f"{WRITE}.operation": "delete_partition"}, "expected upsert, insert, bulk_"),
        ({"hoodie.index.type": "RECORD_INDEX"}, "expected BUCKET, SIMPLE, BLOOM, GLOBAL"),
        ({f"{WRITE}.payload.class": "com.me.Merge"}, "com.me.Merge is not a payload"),
        ({"hoodie.record.merge.mode": "CUSTOM"}, "expected COMMIT_TIME_ORDERING or EVENT"),
        (
            {f"{WRITE}.keygenerator.class": "a.b.ComplexKeyGenerator"},
            "key generator differs: option hoodie",
        ),
        ({"hoodie.metadata.enable": "true"}, "metadata table differs"),
        ({"hoodie.write.concurrency.mode": "many"}, "hoodie.write.concurrency.mode is 'many'"),
        (
            {"hoodie.write.lock.zookeeper.base_path": "/x", "hoodie.write.lock.provider": "a.Mine"},
            "provider is a.Mine",
        ),
        ({"hoodie.aws.secret.key": "hush"}, "credentials are read from the environment"),
        ({f"{WRITE}.partitions.to.delete": "day=1"}, "hoodie delete URI --partition"),
        ({"batch_id": "1"}, "batch_id without writer_id"),
        ({"staged_bytes_max": "-1"}, "expected a positive number"),
        ({"hoodie.bulkinsert.user.defined.partitioner.class": "Sorter"}, "=Sorter: expected"),
        ({"hoodie.write.complex.keygen.new.encoding": "true"}, "makes none"),
        ({"if_exists": "fail"}, "expected append, ignore, error"),
    ],
)
def test_what_might_change_what_is_written_is_refused_by_name(
    options: dict[str, str], complaint: str
) -> None:
    with pytest.raises(errors.HoodieError) as raised:
        new_table({**KEY, **options})
    assert complaint in str(raised.value)
    assert "hush" not in str(raised.value)


def test_what_cannot_matter_is_ignored() -> None:
    given = {
        "hoodie.upsert.shuffle.parallelism": "2",
        "hoodie.insert.shuffle.parallelism": "2",
        "hoodie.markers.parallelism": "4",
        "hoodie.cleaner.commits.retained": "10",
        "hoodie.keep.max.commits": "30",
        "hoodie.clean.automatic": "false",
        "hoodie.datasource.hive_sync.enable": "false",
        "hoodie.datasource.hive_sync.database": "default",
        "hoodie.datasource.query.type": "snapshot",
        f"{WRITE}.row.writer.enable": "true",
        "checkpointLocation": "/tmp/checkpoint",
    }
    found = parsed(given)
    # A width is a setting that does nothing; see docs/settings.md.
    assert replace(found, settings={}) == Options(uri=URI)
    assert settings.from_properties(found.settings) == settings.WriteSettings()


def test_new_table_needs_a_record_key() -> None:
    with pytest.raises(
        errors.InvalidInputError, match=r"the option hoodie\.datasource\.write\.recordkey"
    ):
        new_table({"hoodie.table.name": "trips"})


def test_new_table_of_a_column_that_is_not_there_names_the_option() -> None:
    with pytest.raises(errors.InvalidInputError, match=r"partitionpath\.field 'city'"):
        new_table({**KEY, f"{WRITE}.partitionpath.field": "city"})


def test_overwrite_of_an_upsert_combines_rows_of_one_key() -> None:
    found = parsed(KEY, is_overwrite=True)
    assert found.replaces_table
    assert settings.from_properties(found.settings).combines_inserts
    insert = {f"{WRITE}.operation": "insert"}
    assert not parsed(insert, is_overwrite=True).settings


@pytest.mark.parametrize(
    "options",
    [{f"{WRITE}.operation": "delete"}, {"if_exists": "ignore"}],
    ids=["delete", "if_exists"],
)
def test_overwrite_does_not_go_with(options: dict[str, str]) -> None:
    with pytest.raises(errors.ConfigurationError, match=r"expected mode\('append"):
        parsed(options, is_overwrite=True)


def test_overwrite_of_partitions_is_not_one_of_the_table() -> None:
    options = {f"{WRITE}.operation": "INSERT_OVERWRITE"}
    assert not parsed(options).replaces_table
    assert parsed({f"{WRITE}.operation": "insert_overwrite_table"}).replaces_table


def test_bulk_insert_sorts_as_it_is_asked_to() -> None:
    bulk = {f"{WRITE}.operation": "bulk_insert"}
    assert parsed(bulk).sort_by == ()
    assert parsed({**bulk, "hoodie.bulkinsert.sort.mode": "NONE"}).sort_by == ()
    assert parsed({**bulk, "hoodie.bulkinsert.sort.mode": "GLOBAL_SORT"}).sort_by is None
    columns_ = {"hoodie.bulkinsert.user.defined.partitioner.sort.columns": "day, at"}
    assert parsed({**bulk, **columns_}).sort_by == ("day", "at")
    assert parsed(columns_).sort_by == ()


def test_streams_have_no_batches_of_others() -> None:
    write_options.check_stream(parsed({"writer_id": "w"}))
    assert parsed({write_options.STREAM_ID: "w"}).writer_id == "w"
    for options in ({"writer_id": "w", "batch_id": "1"}, {"if_exists": "ignore"}):
        with pytest.raises(errors.ConfigurationError, match=r"go with df\.write"):
            write_options.check_stream(parsed(options))


def test_payload_must_be_that_of_the_table() -> None:
    config = new_table(KEY)
    partial = {f"{WRITE}.payload.class": "OverwriteNonDefaultsWithLatestAvroPayload"}
    with pytest.raises(errors.ConfigurationError, match="does not have partial updates"):
        write_options.check_facts(parsed(partial), config)
    latest = {f"{WRITE}.payload.class": "OverwriteWithLatestAvroPayload"}
    write_options.check_facts(parsed(latest), config)
    mode = {"hoodie.record.merge.mode": "EVENT_TIME_ORDERING"}
    with pytest.raises(errors.ConfigurationError, match="expected one of them"):
        parsed({**latest, **mode})


def test_names_in_any_case_and_without_a_table() -> None:
    found = parsed({"Hoodie.Datasource.Write.Operation": "INSERT", "IF_EXISTS": "Error"})
    assert (found.operation, found.if_exists) == (commits.Operation.INSERT, IfExists.ERROR)
    with pytest.raises(errors.InvalidInputError, match="no table is named"):
        write_options.parse({}, is_overwrite=False)
