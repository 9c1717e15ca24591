"""Bloom filters by Apache Hudi and by us: of keys alone, and of tables that both write in turn."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from hoodie import environment, table
from hoodie.filegroup import key_footers, listing, metadata_table
from hoodie.format import bloom_filters, metadata_avro
from hoodie.format.bloom_filters import Filter, NewFilter, Size, StoredFilter, TypeCode
from hoodie.model import file_statistics, files
from hoodie.timeline import active
from support.peer import peer_ours, peer_turns
from support.peer.judge import QUICK_JVM, Judge, Query, Settings
from support.peer.peer_cases import BASE, SCHEMA, rows_of
from support.peer.peer_listings import assert_same_files, look
from support.peer.peer_options import PeerTable
from support.peer.peer_rows import assert_same_rows

KEY = ["part", "id"]
TYPES = pytest.mark.parametrize("type_code", TypeCode)
SIZES = {
    "default": bloom_filters.DEFAULT,
    "full, and its rows in turn": Size(entries=20, error_rate=0.001, entries_max=50),
    "of more keys than it grows to": Size(entries=20, error_rate=0.5, entries_max=10),
}
KEYS = [f"key {number:03}" * (number % 4 + 1) for number in range(150)] + [
    "é",
    "😀",
    "a",
    "abc",
    "abé",
]
OTHERS = [f"other {number}" for number in range(150)]


@TYPES
@pytest.mark.parametrize("name", SIZES)
def test_filter_of_same_keys_is_the_same(name: str, type_code: TypeCode, judge: Judge) -> None:
    size = SIZES[name]
    ours = NewFilter(type_code, size)
    ours.add(pa.array(KEYS))
    theirs, found = judge.bloom_filter(
        KEYS,
        type_code=type_code.value,
        size=(size.entries, size.error_rate, size.entries_max),
        asked=[*KEYS, *OTHERS],
        read=ours.stored().text.decode(),
    )
    assert ours.stored().text.decode() == theirs
    read = Filter.decode(StoredFilter(type_code=type_code.value, text=theirs.encode()), "theirs")
    assert read.may_contain(pa.array([*KEYS, *OTHERS])).tolist() == found
    assert all(found[: len(KEYS)])


INDEXED = replace(
    BASE,
    name="filtered",
    metadata_table=True,
    bloom_filter=True,
    extra={
        "hoodie.metadata.index.bloom.filter.enable": "true",
        "hoodie.metadata.compact.max.delta.commits": "4",
        "hoodie.clean.commits.retained": "1",
        "hoodie.cleaner.commits.retained": "1",
    },
)
TABLES = {
    "mor": INDEXED,
    "cow, version 8": replace(INDEXED, merge_on_read=False, table_version=8),
    "cow, without partitions": replace(INDEXED, merge_on_read=False, partition_by=()),
}
BY_METADATA = Query(use_metadata_table=True)


def stages(judge: Judge, path: Path, made: PeerTable) -> Iterator[str]:
    """Change a table by both engines, in all ways that change which base files it has."""
    ours = peer_ours.Hoodie(table=made, settings={"hoodie.metadata.compact.max.delta.commits": "4"})
    peer_ours.create(path, made, SCHEMA)
    yield from peer_turns.changes(judge, path, made, ours, last=18)


def assert_filters_are_those_of_footers(path: Path) -> None:
    """Check that the metadata table has the filter of each base file, and of no other one."""
    storage = environment.system(parallelism=1).open_storage(str(path))
    config = table.open_table(str(path), environment.system(parallelism=1)).config
    assert file_statistics.BLOOM_FILTERS in config.metadata_partitions
    looked = look(path)
    beside = metadata_table.MetadataTable(storage, active.load(storage))
    filters = beside.partition(file_statistics.BLOOM_FILTERS)
    by_storage = listing.of_table(storage, config)
    bases = [
        each
        for found in looked.committed(by_storage).values()
        for each in found
        if isinstance(each, files.BaseFile)
    ]
    assert bases
    for each in bases:
        key = metadata_avro.bloom_filter_key(each.group.partition_path, each.name)
        value = filters.values(key)[-1]
        stored = metadata_avro.decode_bloom_filter(value, each.path)
        assert stored == key_footers.read_filter(storage, each.path), each.path
        assert stored is not None, each.path
        record = metadata_avro.decode(value, each.path, metadata_avro.RecordType.BLOOM_FILTER)
        inner = record.record("BloomFilterMetadata")
        assert inner is not None
        assert inner.fields["timestamp"] == each.instant_time
    there = [
        key
        for key, values in filters.with_prefixes([""]).items()
        if metadata_avro.decode_bloom_filter(values[-1], repr(key)) is not None
    ]
    assert len(there) == len(bases)


@pytest.mark.parametrize("kind", TABLES)
def test_both_engines_keep_bloom_filters_up(kind: str, judge: Judge, tmp_path: Path) -> None:
    path = tmp_path / "table"
    for stage in stages(judge, path, TABLES[kind]):
        try:
            assert_same_files(path)
            assert_filters_are_those_of_footers(path)
            listed = judge.read(path)
            assert_same_rows(judge.read(path, BY_METADATA), listed, KEY)
            assert_same_rows(peer_ours.read(path), listed, KEY)
            for key in ("key-003", "key-015", "none"):
                where = f"id = '{key}'"
                found = judge.read(path, Query(where=where))
                assert_same_rows(peer_ours.read(path, "--where", where), found, KEY)
        except AssertionError as error:
            raise AssertionError(f"{stage}: {error}") from error
    validated = peer_ours.hoodie("metadata", "validate", path)
    assert validated["differences"] == []


def test_base_files_of_same_keys_have_the_same_footers(judge: Judge, tmp_path: Path) -> None:
    """Also where Apache Hudi's bloom index looks keys up in the metadata table: it throws where a
    base file has no filter there.
    """
    made = replace(INDEXED, merge_on_read=False, partition_by=(), buckets=1)
    rows = rows_of(range(300), 1)
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    for path in (theirs, ours):
        peer_ours.create(path, made, SCHEMA)
        # The first write makes the metadata table, of both.
        judge.write(path, rows.slice(0, 1), made.write_options())
    judge.write(theirs, rows, made.write_options())
    peer_ours.Hoodie(table=made).write(ours, rows, "upsert")
    footers = []
    for path in (theirs, ours):
        newest = max(path.glob("*.parquet"), key=lambda each: each.name.rpartition("_")[2])
        storage = environment.system(parallelism=1).open_storage(str(path))
        footers.append(key_footers.read_filter(storage, newest.name))
    assert footers[0] is not None
    assert footers[0] == footers[1]


def test_apache_hudi_misses_keys_of_log_files_by_filters_of_its_own(
    judge: Judge, tmp_path: Path
) -> None:
    """So `index_decisions.readers_refusal` has none built of such a table."""
    path = tmp_path / "table"
    options = INDEXED.write_options()
    compacted = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
    peer_ours.create(path, INDEXED, SCHEMA)
    judge.write(path, rows_of(range(50), 1), options | compacted)
    judge.write(path, rows_of(range(50, 60), 2), options)
    where = Query(use_metadata_table=True, where="id IN ('key-001', 'key-055')")
    assert judge.read(path, where, columns=["id"]).column("id").to_pylist() == ["key-001"]
    all_slices = replace(where, options={"hoodie.enable.data.skipping": "false"})
    assert judge.read(path, all_slices).num_rows == 2
    assert peer_ours.read(path, "--where", "id = 'key-055'").num_rows == 1


def test_bloom_index_finds_keys_by_filters_of_ours(tmp_path: Path) -> None:
    """Apache Hudi's bloom index throws where a base file has no filter in the metadata table."""
    made = replace(INDEXED, merge_on_read=False)
    by_filters = replace(made, buckets=None).write_options() | {
        "hoodie.index.type": "BLOOM",
        "hoodie.bloom.index.use.metadata": "true",
    }
    path = tmp_path / "table"
    peer_ours.create(path, made, SCHEMA)
    # Its tasks take a view of the table along, and a lock in it.
    opens = "--add-opens=java.base/java.util.concurrent.locks=ALL-UNNAMED"
    with Judge(tmp_path / "judge", Settings(jvm_options=(*QUICK_JVM, opens))) as judge:
        judge.write(path, rows_of(range(4), 1), made.write_options())
        peer_ours.Hoodie(table=made).write(path, rows_of(range(20), 2), "upsert")
        judge.write(path, rows_of(range(10, 15), 3), by_filters)
        found = judge.read(path)
    assert found.num_rows == 20
    assert sorted(found.column("ts").to_pylist()) == [2] * 15 + [3] * 5
