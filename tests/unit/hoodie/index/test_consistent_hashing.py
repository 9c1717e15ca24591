"""Consistent hashing: rings as Apache Hudi 1.2.0 makes and stores them, and the nodes of keys."""

import json

import pyarrow as pa
import pytest

from hoodie import errors
from hoodie.index import consistent_hashing
from hoodie.model import instants, table_config
from hoodie.storage import memory
from hoodie.timeline import hash_rings

CONFIG = table_config.TableConfig(
    name="t",
    record_key_fields=("id",),
    index=table_config.IndexKind.CONSISTENT_HASHING,
    bucket_count=3,
)
PATH = "süd%2Fa b"
STORED = """{
  "version" : 0,
  "partitionPath" : "süd%2Fa b",
  "instant" : "00000000000000",
  "numBuckets" : 3,
  "seqNo" : 0,
  "nodes" : [ {
    "value" : 715827883,
    "fileIdPrefix" : "c1ed0243-ceff-3712-a0f1-30f96ead593d",
    "tag" : "NORMAL"
  }, {
    "value" : 1431655766,
    "fileIdPrefix" : "18c8e4ed-3827-3d5b-8f43-20274ba9d856",
    "tag" : "NORMAL"
  }, {
    "value" : 2147483647,
    "fileIdPrefix" : "135d9d50-1e02-3505-bfc0-daf485c5fcf1",
    "tag" : "NORMAL"
  } ]
}"""
"""As Apache Hudi 1.2.0 wrote it."""
FOLDER = f"{hash_rings.DIRECTORY}/{PATH}"
LATER = "20261127102115475"


def storage_with(**files: str) -> memory.MemoryStorage:
    storage = memory.MemoryStorage(memory.MemoryStore())
    for name, content in files.items():
        storage.create(f"{FOLDER}/{name.replace('_at_', '.')[1:]}", content.encode())
    return storage


def resized() -> str:
    nodes = json.loads(STORED)["nodes"]
    return json.dumps({**json.loads(STORED), "instant": LATER, "nodes": nodes[1:]})


def read(storage: memory.MemoryStorage, *completed: str) -> hash_rings.Ring | None:
    return hash_rings.read(storage, PATH, lambda time: time in completed)


def test_initial_ring_has_the_bytes_of_apache_hudi() -> None:
    storage = memory.MemoryStorage(memory.MemoryStore())
    ring = hash_rings.initial(PATH, 3)
    hash_rings.create(storage, PATH, ring)
    hash_rings.create(storage, PATH, ring)  # Of another writer.
    assert storage.read(f"{FOLDER}/00000000000000.hashing_meta").decode() == STORED
    assert read(storage) == ring
    assert hash_rings.initial_count(storage, PATH) == 3


def test_partition_without_rows_has_no_ring() -> None:
    storage = memory.MemoryStorage(memory.MemoryStore())
    assert read(storage) is None
    assert hash_rings.initial_count(storage, PATH) is None


def test_ring_of_a_clustering_counts_once_that_has_completed() -> None:
    files = {"_00000000000000_at_hashing_meta": STORED, f"_{LATER}_at_hashing_meta": resized()}
    storage = storage_with(**files)
    assert read(storage) == hash_rings.initial(PATH, 3)
    found = read(storage, LATER)
    assert found is not None
    assert found.values == (1431655766, 2147483647)
    # Apache Hudi marks it after a while; what a write began with does not depend on that.
    marked = storage_with(**files, **{f"_{LATER}_at_commit": ""})
    assert read(marked) == hash_rings.initial(PATH, 3)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"version" : 0, "nodes" : []}',
        '{"version" : 0, "nodes" : [ {"value" : -1, "fileIdPrefix" : "a"} ]}',
        '{"version" : 0, "nodes" : [ {"value" : 2147483648, "fileIdPrefix" : "a"} ]}',
        '{"version" : 0, "nodes" : [ {"value" : 1, "fileIdPrefix" : "../a"} ]}',
        '{"version" : 0, "nodes" : [ {"value" : 1, "fileIdPrefix" : 7} ]}',
        "[" * 100_000,
    ],
)
def test_damaged_ring_is_refused_by_its_name(content: str) -> None:
    with pytest.raises(errors.FormatError, match="hashing_meta"):
        read(storage_with(_00000000000000_at_hashing_meta=content))


def test_ring_of_a_later_version_is_refused() -> None:
    with pytest.raises(errors.UnsupportedError, match="version 1"):
        read(storage_with(_00000000000000_at_hashing_meta='{"version" : 1}'))


def test_bounds_of_many_nodes_keep_within_the_greatest_hash() -> None:
    ring = hash_rings.initial("", 70_000)
    assert list(ring.values) == sorted(set(ring.values))
    assert ring.values[-1] == hash_rings.VALUE_MAX


def test_key_is_of_the_first_node_that_is_not_below_its_hash() -> None:
    # XXH32 of "a" is 0x550D7456, of "abc" 0x32D153FF.
    ring = hash_rings.Ring(values=(0x32D153FF, 0x550D7455), prefixes=("x", "y"))
    index = consistent_hashing.ConsistentHashingIndex(CONFIG, ring)
    keys = pa.array(["a", "abc"])
    assert index.tag(keys).tolist() == [0, 0]  # Past the last one the ring begins again.
    assert index.may_hold("x-0", keys).tolist() == [True, True]
    assert index.may_hold("y-0", keys).tolist() == [False, False]
    assert index.may_hold("z-0", keys).tolist() == [True, True]
    assert index.bucket_of("y-0") == 1
    assert index.bucket_of("z-0") is None


def test_retired_file_group_of_a_node_is_not_written_to() -> None:
    index = consistent_hashing.ConsistentHashingIndex(CONFIG, hash_rings.initial("p", 3))
    assert index.new_file_id(0, None) == hash_rings.initial("p", 3).file_ids[0]
    with pytest.raises(errors.UnsupportedError, match="was retired"):
        index.new_file_id(0, instants.InstantTime("20261127102115475"))


def test_copy_on_write_table_is_refused() -> None:
    with pytest.raises(errors.InvalidInputError, match="expected MERGE_ON_READ"):
        consistent_hashing.ConsistentHashingIndex(
            table_config.TableConfig(
                name="t",
                table_type=table_config.TableType.COPY_ON_WRITE,
                record_key_fields=("id",),
                index=table_config.IndexKind.CONSISTENT_HASHING,
                bucket_count=3,
            )
        ).check()
