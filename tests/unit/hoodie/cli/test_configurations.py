"""What `hoodie create` was told becomes a configuration, or is refused."""

import re
from dataclasses import replace

import pyarrow as pa
import pytest

from hoodie import errors
from hoodie.cli import configurations
from hoodie.model import schemas, table_config
from hoodie.services import new_tables

EVENT_TIME = table_config.MergeMode.EVENT_TIME
COMMIT_TIME = table_config.MergeMode.COMMIT_TIME
SCHEMA = schemas.from_arrow(
    pa.schema(
        {
            "id": pa.string(),
            "number": pa.int64(),
            "city": pa.string(),
            "day": pa.date32(),
            "at": pa.timestamp("us", "UTC"),
            "fare": pa.float64(),
        }
    ),
    "trips",
)


def new_table(**wishes: object) -> table_config.TableConfig:
    wish = new_tables.Wish(**{"name": "trips", "record_key": ("id",), **wishes})  # type: ignore[arg-type] # what a test varies
    return new_tables.new_table(wish, SCHEMA, configurations.spelled)


def test_defaults_merge_by_commit_time_over_buckets_of_the_record_key() -> None:
    config = new_table()
    assert config.merge_mode is COMMIT_TIME
    assert (config.version, config.table_type) == (9, table_config.TableType.MERGE_ON_READ)
    assert (config.bucket_count, config.bucket_fields) == (8, ("id",))
    assert config.create_schema == SCHEMA.avro


def test_ordering_means_event_time() -> None:
    config = new_table(ordering=("at",))
    assert (config.merge_mode, config.ordering_fields) == (EVENT_TIME, ("at",))
    assert new_table(ordering=("at",), merge=EVENT_TIME) == config


def test_every_wish_is_in_the_configuration() -> None:
    config = new_table(
        record_key=("id", "number"),
        partition_by=("city", "day"),
        version=8,
        buckets=3,
        has_partial_updates=True,
        is_hive_style=True,
        is_url_encoded=True,
    )
    assert config.record_key_fields == ("id", "number")
    assert config.partition_fields == ("city", "day")
    assert (config.version, config.bucket_count) == (8, 3)
    assert config.has_partial_updates
    assert config.is_hive_style
    assert config.is_url_encoded


@pytest.mark.parametrize(
    ("wishes", "error", "complaint"),
    [
        (
            {"record_key": ("no",)},
            errors.InvalidInputError,
            "--record-key 'no': the schema has no such column; its columns are id, number,",
        ),
        ({"partition_by": ("no",)}, errors.InvalidInputError, "--partition-by 'no': the schema"),
        ({"ordering": ("no",)}, errors.InvalidInputError, "--ordering 'no': the schema has no"),
        ({"record_key": ("id", "fare")}, errors.InvalidInputError, "record key column 'fare'"),
        ({"partition_by": ("at",)}, errors.InvalidInputError, "partition column 'at'"),
        ({"ordering": ("at", "day")}, errors.ConfigurationError, "--ordering at,day: expected one"),
        (
            {"ordering": ("at",), "merge": COMMIT_TIME},
            errors.ConfigurationError,
            "--ordering at with --merge commit-time",
        ),
        (
            {"merge": EVENT_TIME},
            errors.ConfigurationError,
            "--merge event-time without --ordering",
        ),
    ],
)
def test_wish_that_does_not_fit_is_refused(
    wishes: dict[str, object], error: type[Exception], complaint: str
) -> None:
    with pytest.raises(error, match=re.escape(complaint)):
        new_table(**wishes)


@pytest.mark.parametrize(
    ("uri", "name"),
    [
        ("/data/trips", "trips"),
        ("/data/trips/", "trips"),
        ("file:///data/a%20b", "a b"),
        ("s3://bucket/lake/trips", "trips"),
    ],
)
def test_table_is_named_by_the_last_part_of_its_uri(uri: str, name: str) -> None:
    assert new_tables.name_of(uri) == name


@pytest.mark.parametrize("uri", ["/", "s3://bucket"])
def test_uri_without_parts_names_no_table(uri: str) -> None:
    with pytest.raises(errors.InvalidInputError, match="has no last part to name the table by"):
        new_tables.name_of(uri)


@pytest.mark.parametrize("index", [table_config.IndexKind.SIMPLE, table_config.IndexKind.BLOOM])
def test_table_with_an_index_that_looks_keys_up_has_no_buckets(
    index: table_config.IndexKind,
) -> None:
    config = new_table(index=index)
    assert (config.index_kind, config.bucket_count, config.hash_fields) == (index, None, ())
    stored = table_config.to_properties(config)
    assert stored[table_config.INDEX_KEY] == index.value
    assert table_config.from_properties(stored).index_kind is index
    with pytest.raises(errors.ConfigurationError, match="--buckets 8 with --index"):
        new_table(index=index, buckets=8)


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        ({"index": table_config.IndexKind.BUCKET}, "without --buckets"),
        ({"index": table_config.IndexKind.BLOOM, "buckets": 2}, "--buckets with --index bloom"),
        (
            {"index": table_config.IndexKind.SIMPLE, "bucket_fields": ("id",)},
            "--bucket-fields with --index simple",
        ),
        ({"index": table_config.IndexKind.BUCKET, "buckets": 2}, "states index SIMPLE, not 2"),
        ({"index": table_config.IndexKind.BLOOM}, "states index SIMPLE, not index BLOOM"),
    ],
)
def test_adoption_that_contradicts_itself_or_the_table_is_refused(
    wish: dict[str, object], message: str
) -> None:
    stored = new_table(index=table_config.IndexKind.SIMPLE)
    with pytest.raises(errors.ConfigurationError, match=message):
        configurations.adopted(stored, configurations.Adoption(**wish))  # type: ignore[arg-type] # what a test varies


def test_adoption_declares_the_index_alone() -> None:
    stored = new_table()
    assert configurations.adopted(
        stored, configurations.Adoption(index=table_config.IndexKind.BUCKET, buckets=8)
    ) == replace(stored, hash_fields=())
