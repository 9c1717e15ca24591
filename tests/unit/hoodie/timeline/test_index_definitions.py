"""The definition of a table's statistics, as Apache Hudi writes it."""

import json

import pytest

from hoodie import errors
from hoodie.model import file_statistics, table_config
from hoodie.model.file_statistics import Definition
from hoodie.storage import memory
from hoodie.timeline import index_definitions
from support.tables import every_type

STORED = {
    "indexName": "column_stats",
    "indexType": "column_stats",
    "indexFunction": "column_stats",
    "sourceFields": ["_hoodie_record_key", "name", "small"],
    "indexOptions": {},
    "version": "V2",
}


def storage_with(content: object) -> memory.MemoryStorage:
    storage = memory.MemoryStorage()
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    storage.create(index_definitions.PATH, raw)
    return storage


def read(**definitions: object) -> Definition | None:
    return index_definitions.of_statistics(storage_with({"indexDefinitions": definitions}))


def test_definition_has_columns_and_version() -> None:
    columns = ("_hoodie_record_key", "name", "small")
    assert read(column_stats=STORED) == Definition(columns=columns, has_value_types=True)
    older = {name: each for name, each in STORED.items() if name != "version"}
    assert read(column_stats=older) == Definition(columns=columns)
    first = STORED | {"version": "V1"}
    assert read(partition_stats=first) == Definition(columns=columns, has_value_types=False)
    assert read(column_stats=STORED, partition_stats=first) == read(column_stats=STORED)


def test_table_without_definitions_has_none() -> None:
    assert index_definitions.of_statistics(memory.MemoryStorage()) is None
    assert read(record_index=STORED) is None


@pytest.mark.parametrize(
    ("options", "expected"),
    [({"isPartitioned": "true"}, True), ({"isPartitioned": "false"}, False), ({}, False)],
)
def test_record_index_is_of_each_partition_if_its_definition_says_so(
    options: dict[str, str], *, expected: bool
) -> None:
    stored = storage_with({"indexDefinitions": {"record_index": {"indexOptions": options}}})
    assert index_definitions.is_partitioned(stored) is expected
    assert not index_definitions.is_partitioned(storage_with({"indexDefinitions": {}}))
    assert not index_definitions.is_partitioned(memory.MemoryStorage())


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff",
        b"[" * 100_000,
        [],
        {},
        {"indexDefinitions": []},
        {"indexDefinitions": {"column_stats": None}},
        {"indexDefinitions": {"column_stats": {"version": "V2"}}},
        {"indexDefinitions": {"column_stats": STORED | {"sourceFields": [1]}}},
        {"indexDefinitions": {"column_stats": STORED | {"version": 2}}},
        b" " * (index_definitions.BYTES_MAX + 1),
    ],
)
def test_damaged_definitions_are_named(content: object) -> None:
    with pytest.raises(errors.FormatError, match=index_definitions.PATH):
        index_definitions.of_statistics(storage_with(content))


def test_unknown_version_is_not_supported() -> None:
    with pytest.raises(errors.UnsupportedError, match="'V3', expected V1 or V2"):
        read(column_stats=STORED | {"version": "V3"})


def test_only_tables_with_statistics_are_asked() -> None:
    storage = storage_with({"indexDefinitions": {"column_stats": STORED}})
    config = table_config.TableConfig(name="t", record_key_fields=("id",))
    schema = every_type.SCHEMA
    nothing = index_definitions.wanted_statistics(storage_with(b"broken"), config, schema)
    assert nothing == file_statistics.NOTHING
    config = table_config.TableConfig(
        name="t", record_key_fields=("id",), metadata_partitions=("files", "partition_stats")
    )
    wanted = index_definitions.wanted_statistics(storage, config, schema)
    assert list(wanted.kinds) == [*file_statistics.META_COLUMNS, "name", "small"]


def test_columns_inside_others_are_refused() -> None:
    stored = STORED | {"sourceFields": ["at.hour", "gone.x"]}
    storage = storage_with({"indexDefinitions": {"column_stats": stored}})
    config = table_config.TableConfig(
        name="t", record_key_fields=("id",), metadata_partitions=("files", "column_stats")
    )
    with pytest.raises(errors.UnsupportedError, match=r"has at\.hour, inside columns"):
        index_definitions.wanted_statistics(storage, config, every_type.SCHEMA)
