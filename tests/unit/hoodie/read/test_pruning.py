"""Partitions and buckets that a filter leaves out."""

import dataclasses
from collections.abc import Collection, Sequence

import pyarrow as pa
import pytest

from hoodie.index import bucket, tables
from hoodie.model import table_config
from hoodie.read import pruning, where

SCHEMA = pa.schema([("id", pa.string()), ("month", pa.int32()), ("city", pa.string())])
CONFIG = table_config.TableConfig(
    name="t",
    record_key_fields=("id",),
    partition_fields=("month", "city"),
    bucket_count=8,
    is_hive_style=True,
    is_url_encoded=True,
)
PATHS = [
    "month=1/city=Ulm",
    "month=2/city=Ulm",
    "month=2/city=Bad%20Urach",
    "month=2/city=__HIVE_DEFAULT_PARTITION__",
]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("month = 1", [0, 3]),
        ("month > 1 and id = 'x'", [1, 2, 3]),
        ("city = 'Bad Urach'", [2, 3]),
        ("month = 1 or id = 'x'", [0, 1, 2, 3]),
        ("not (month = 1 or city = 'Ulm')", [2, 3]),
        ("month = 7", [3]),
    ],
)
def test_partitions_that_cannot_match_are_left_out(text: str, kept: list[int]) -> None:
    found = pruning.matching_partitions(PATHS, where.parse(text), CONFIG, SCHEMA)
    assert found == [PATHS[index] for index in kept]


def test_without_filter_all_partitions_are_kept() -> None:
    assert pruning.matching_partitions(PATHS, None, CONFIG, SCHEMA) == PATHS


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("month = 1 and city = 'Ulm'", ["month=1/city=Ulm"]),
        ("city in ('b', 'a') and month = 7 and id > 'x'", ["month=7/city=a", "month=7/city=b"]),
        ("month = 1", None),
        ("month > 1 and city = 'Ulm'", None),
        ("month = 1 or city = 'Ulm'", None),
        # Paths may spell these in several ways, or have them elsewhere.
        ("month = 1 and city = 'Bad Urach'", None),
        ("month = 1 and city = ''", None),
        ("month = 1 and city = 'a/b'", None),
        ("month = 1.0 and city = 'Ulm'", None),
        ("month = 1 and city = '__HIVE_DEFAULT_PARTITION__'", None),
        (f"month in ({', '.join(map(str, range(17)))}) and city = 'Ulm'", None),
    ],
)
def test_filter_that_names_partitions(text: str, named: list[str] | None) -> None:
    assert pruning.named_partitions(where.parse(text), CONFIG, SCHEMA) == named


def test_filter_names_no_partition_if_paths_have_other_values() -> None:
    wanted = where.parse("month = 1 and city = 'Ulm'")
    plain = dataclasses.replace(CONFIG, is_hive_style=False)
    assert pruning.named_partitions(wanted, plain, SCHEMA) == ["1/Ulm"]
    for config in (
        dataclasses.replace(CONFIG, properties={"hoodie.table.keygenerator.type": "TIMESTAMP"}),
        dataclasses.replace(CONFIG, updates_partitions=False),
        dataclasses.replace(CONFIG, partition_fields=()),
    ):
        assert pruning.named_partitions(wanted, config, SCHEMA) is None
    assert pruning.named_partitions(None, CONFIG, SCHEMA) is None


@pytest.mark.parametrize("is_adopted", [True, False])
def test_dates_may_have_slashes_in_paths_until_the_table_states_how_it_is_written(
    is_adopted: bool,
) -> None:
    index = table_config.IndexKind.SIMPLE if is_adopted else None
    config = dataclasses.replace(CONFIG, partition_fields=("city",), index=index, bucket_count=None)
    named = ["city=2024-03-15"] if is_adopted else ["city=2024-03-15", "city=2024/03/15"]
    wanted = where.parse("city = '2024-03-15'")
    assert pruning.named_partitions(wanted, config, SCHEMA) == named


ONE_PARTITION_FIELD = dataclasses.replace(CONFIG, partition_fields=("month",))


def buckets_left(
    text: str,
    config: table_config.TableConfig = ONE_PARTITION_FIELD,
    counts: Sequence[int] = (8,),
) -> Collection[int] | None:
    index = tables.index_of(config, lambda: tuple(counts))
    return index.matching_buckets(where.parse(text), SCHEMA)


def test_equality_on_the_key_leaves_its_bucket() -> None:
    wanted = set(bucket.buckets([pa.array(["a", "b"])], 8).tolist())
    assert buckets_left("id in ('a', 'b') and month = 1") == wanted


def test_equality_on_the_key_leaves_its_bucket_of_each_count() -> None:
    wanted = {int(bucket.buckets([pa.array(["a"])], count)[0]) for count in (3, 8, 50)}
    assert buckets_left("id = 'a'", counts=(3, 8, 50)) == wanted


def test_key_that_some_releases_write_with_its_field_leaves_all_buckets() -> None:
    upgraded = dataclasses.replace(CONFIG, properties={"hoodie.table.initial.version": "8"})
    assert buckets_left("id = 'a'", upgraded) is None


def test_key_that_is_written_with_its_field_is_hashed_with_it() -> None:
    wanted = set(bucket.buckets([pa.array(["id:a"])], 8).tolist())
    assert buckets_left("id = 'a'", CONFIG) == wanted
    assert buckets_left("id = 'a,b'", CONFIG) is None


@pytest.mark.parametrize("key", ["a:1,b:2", "", "__null__"])
def test_keys_that_are_not_hashed_as_they_are_leave_all_buckets(key: str) -> None:
    assert buckets_left(f"id in ('a', '{key}')") is None


@pytest.mark.parametrize(
    "properties",
    [
        {"hoodie.table.keygenerator.type": "TIMESTAMP"},
        {
            "hoodie.table.keygenerator.type": "CUSTOM",
            "hoodie.table.partition.fields": "month:TIMESTAMP,city:SIMPLE",
        },
    ],
)
def test_paths_of_a_generator_that_transforms_values_are_kept(properties: dict[str, str]) -> None:
    config = dataclasses.replace(CONFIG, properties=properties)
    assert pruning.matching_partitions(PATHS, where.parse("month = 1"), config, SCHEMA) == PATHS


@pytest.mark.parametrize("text", ["id > 'a'", "id = 'a' or month = 1", "month = 1"])
def test_other_filters_leave_all_buckets(text: str) -> None:
    assert buckets_left(text) is None
