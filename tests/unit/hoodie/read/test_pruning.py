"""Partitions and buckets that a filter leaves out."""

import dataclasses
from collections.abc import Collection, Sequence

import pyarrow as pa
import pytest

from hoodie.index import bucket, tables
from hoodie.model import partition_columns, table_config
from hoodie.read import pruning, where
from hoodie.write import keys

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


ONE_PARTITION_FIELD = dataclasses.replace(CONFIG, partition_fields=("month",))


def matching(
    paths: Sequence[str],
    text: str | None,
    config: table_config.TableConfig = CONFIG,
    source: partition_columns.Source = partition_columns.Source.FILE,
) -> list[str]:
    of_paths = partition_columns.of_paths(config, SCHEMA, source)
    seen = partition_columns.seen(SCHEMA, of_paths)
    wanted = None if text is None else where.parse(text)
    return pruning.matching_partitions(paths, wanted, config, seen, of_paths)


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
    found = matching(PATHS, text)
    assert found == [PATHS[index] for index in kept]


def test_without_filter_all_partitions_are_kept() -> None:
    assert matching(PATHS, None) == PATHS


SLASHED = dataclasses.replace(
    CONFIG,
    partition_fields=("city",),
    is_hive_style=False,
    properties={"hoodie.datasource.write.slash.separated.date.partitioning": "true"},
)
DAYS = ["2024/03/15", "2024/12/31", "__HIVE_DEFAULT_PARTITION__", "a%2Fb"]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("city = '2024/03/15'", [0]),
        ("city > '2024/04'", [1, 3]),
        ("city is null", [2]),
        ("city = 'a/b' or city is null", [2, 3]),
        ("not city = '2024/12/31'", [0, 3]),
        ("city = 'a/b' or id = 'x'", [0, 1, 2, 3]),
    ],
)
def test_values_of_paths_leave_partitions_out_exactly(text: str, kept: list[int]) -> None:
    found = matching(DAYS, text, SLASHED, partition_columns.Source.PATH)
    assert found == [DAYS[index] for index in kept]


def test_values_of_files_are_not_those_of_folders_inside_folders() -> None:
    # A writer of Apache Hudi may put 2024-03-15, or a//b, there.
    plain = dataclasses.replace(SLASHED, properties={})
    assert matching(DAYS[:2], "city = '2024-03-15'", plain) == DAYS[:2]


def test_values_of_paths_of_another_type_are_kept() -> None:
    numbers = dataclasses.replace(ONE_PARTITION_FIELD, is_hive_style=False)
    paths = ["1", "one"]
    assert matching(paths, "month = 2", numbers, partition_columns.Source.PATH) == paths


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
    assert matching(PATHS, "month = 1", config) == PATHS


@pytest.mark.parametrize("text", ["id > 'a'", "id = 'a' or month = 1", "month = 1"])
def test_other_filters_leave_all_buckets(text: str) -> None:
    assert buckets_left(text) is None


OPTIONS = {
    "hoodie.table.keygenerator.type": "TIMESTAMP",
    "hoodie.keygen.timebased.timestamp.type": "UNIX_TIMESTAMP",
    "hoodie.keygen.timebased.output.dateformat": "yyyy/MM/dd",
    "hoodie.keygen.timebased.output.timezone": "UTC",
}
TIMED = dataclasses.replace(CONFIG, partition_fields=("at",), is_url_encoded=False)
TIMED = dataclasses.replace(TIMED, is_hive_style=False, properties=OPTIONS)
TIMES = pa.schema([("id", pa.string()), ("at", pa.int64())])
DATES = ["1969/12/31", "1970/01/01", "2024/03/15", "2024/03/16", "2024-03-14", "other"]
OTHERS = [4, 5]


def of_times(
    text: str, config: table_config.TableConfig = TIMED, schema: pa.Schema = TIMES
) -> list[int]:
    places = keys.Places(config, schema)
    found = pruning.partitions_of_values(DATES, where.parse(text), config, schema, places)
    return [DATES.index(path) for path in found]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("at = 1710460800", [2]),
        ("at in (1710460799, 1710547200)", [3]),
        ("at >= 1710547199", [2, 3]),
        ("at > 1710547199 and at < 1710547200", [2, 3]),
        ("at < 0", [0, 1]),
        ("at <= -1", [0]),
        ("at > 0 and id = 'x'", [1, 2, 3]),
        # What does not say where a row is.
        ("at > 0 or id = 'x'", [0, 1, 2, 3]),
        ("not at = 0", [0, 1, 2, 3]),
        ("at != 0", [0, 1, 2, 3]),
        ("at is null", [0, 1, 2, 3]),
        ("at = 0.5", [0, 1, 2, 3]),
        ("at < 99999999999999", [0, 1, 2, 3]),
    ],
)
def test_times_are_where_their_texts_are(text: str, kept: list[int]) -> None:
    assert of_times(text) == [*kept, *OTHERS]


@pytest.mark.parametrize(
    "options",
    [
        {"output.timezone": "Europe/Berlin"},
        {"output.dateformat": "dd/MM/yyyy"},
        {"output.dateformat": "yyyy/M/d"},
        {"output.dateformat": "yyyy/MM/dd HH:MM"},
    ],
)
def test_texts_that_are_not_in_the_order_of_times_say_no_range(options: dict[str, str]) -> None:
    changed = {f"hoodie.keygen.timebased.{name}": value for name, value in options.items()}
    config = dataclasses.replace(TIMED, properties=OPTIONS | changed)
    assert of_times("at > 1710547200", config) == list(range(len(DATES)))


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"hoodie.table.keygenerator.type": "TIMESTAMP"},
        {"hoodie.table.keygenerator.class": "org.example.Own"},
    ],
)
def test_paths_of_rules_that_are_not_known_are_kept(properties: dict[str, str]) -> None:
    config = dataclasses.replace(TIMED, properties=properties)
    assert of_times("at = 1710460800", config) == list(range(len(DATES)))
    staying = dataclasses.replace(TIMED, updates_partitions=False)
    assert of_times("at = 1710460800", staying) == list(range(len(DATES)))


def test_dates_with_slashes_are_where_their_texts_are() -> None:
    texts = pa.schema([("id", pa.string()), ("at", pa.string())])
    key = "hoodie.datasource.write.slash.separated.date.partitioning"
    config = dataclasses.replace(TIMED, properties={key: "true"})
    assert of_times("at = '2024-03-15'", config, texts) == [2, *OTHERS]
    assert of_times("at > '2024-03-15'", config, texts) == list(range(len(DATES)))
