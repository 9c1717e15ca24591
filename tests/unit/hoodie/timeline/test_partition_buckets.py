"""Hashing configs: what they say, which count, and what is no such file."""

import json

import pytest

from hoodie import errors
from hoodie.storage import memory
from hoodie.timeline import partition_buckets

STORED = {
    "expressions": "north,5; south , 3",
    "defaultBucketNumber": 2,
    "rule": "regex",
    "version": 1,
    "instant": "20261123084734892",
}
PATH = f"{partition_buckets.DIRECTORY}/20261123084734892.hashing_config"


def storage_with(*files: tuple[str, bytes]) -> memory.MemoryStorage:
    storage = memory.MemoryStorage(memory.MemoryStore())
    for path, content in files:
        storage.create(path, content)
    return storage


def read(content: bytes) -> tuple[partition_buckets.HashingConfig, ...]:
    storage = storage_with((PATH, content))
    return partition_buckets.read(storage, partition_buckets.listed(storage), lambda _: True)


def test_counts_are_those_of_the_expressions_and_the_default() -> None:
    (found,) = read(json.dumps(STORED | {"added_later": 1}, indent=2).encode())
    assert found.counts == (2, 3, 5)
    assert found.expressions == STORED["expressions"]
    assert found.path == PATH


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{}",
        json.dumps(STORED | {"expressions": "north"}).encode(),
        json.dumps(STORED | {"expressions": "north,five"}).encode(),
        json.dumps(STORED | {"expressions": "a,b,5"}).encode(),
        json.dumps(STORED | {"expressions": "north,0"}).encode(),
        json.dumps(STORED | {"defaultBucketNumber": None}).encode(),
    ],
)
def test_damaged_file_is_refused_by_its_name(content: bytes) -> None:
    with pytest.raises(errors.FormatError, match=PATH):
        read(content)


@pytest.mark.parametrize("change", [{"rule": "prefix"}, {"version": 2}])
def test_unknown_rules_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(errors.UnsupportedError, match=PATH):
        read(json.dumps(STORED | change).encode())


def test_file_of_an_instant_that_has_not_completed_does_not_count() -> None:
    storage = storage_with((PATH, b""))
    paths = partition_buckets.listed(storage)
    assert paths == [PATH]
    assert partition_buckets.read(storage, paths, lambda _: False) == ()


def test_file_that_was_archived_since_it_was_listed_is_passed_over() -> None:
    assert partition_buckets.read(storage_with(), [PATH], lambda _: True) == ()


def test_other_files_are_no_hashing_configs() -> None:
    archived = PATH.replace("configs", "archive")
    storage = storage_with((archived, b""), (f"{partition_buckets.DIRECTORY}/.x.crc", b""))
    assert partition_buckets.listed(storage) == []
    partition_buckets.check_none(storage)
