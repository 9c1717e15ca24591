"""Indexes that we build beside our writers, used and kept up by Apache Hudi."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from pyarrow import parquet as pq

from hoodie import environment, table
from hoodie.model import results
from hoodie.model.file_statistics import BLOOM_FILTERS, COLUMN_STATS, PARTITION_STATS
from hoodie.model.key_changes import RECORD_INDEX
from hoodie.transaction import authors
from hoodie.transaction.locks import address_texts
from hoodie.transaction.manager import TransactionOptions
from support.peer import peer_ours
from support.peer.judge import QUICK_JVM, InstantState, Judge, JudgeError, Query, Settings
from support.peer.peer_cases import BASE, SCHEMA, rows_of
from support.peer.peer_listings import assert_same_files
from support.peer.peer_options import PeerTable
from support.peer.peer_rows import assert_same_rows
from support.tables.tables import QUICK

KEY = ["part", "id"]
MADE = replace(
    BASE,
    name="indexed",
    metadata_table=True,
    bloom_filter=True,
    extra={"hoodie.metadata.index.bloom.filter.enable": "true"},
)
TABLES = {
    "mor": MADE,
    "mor, version 8": replace(MADE, table_version=8),
    "cow": replace(MADE, merge_on_read=False),
    "cow, without partitions": replace(MADE, merge_on_read=False, partition_by=()),
}
SKIPPING = {"hoodie.enable.data.skipping": "true"}
LOCK = ("--lock", "filesystem")


def built(path: Path, made: PeerTable, names: Sequence[str] = ()) -> peer_ours.Hoodie:
    """Make a table whose indexes are built while it is written; return its writer."""
    ours = peer_ours.Hoodie(table=made, concurrency="occ" if made.buckets is None else None)
    peer_ours.create(path, made, SCHEMA)
    peer_ours.hoodie("configure", path, "--no-foreign-writers", *LOCK)
    ours.write(path, rows_of(range(12), 1), "upsert")
    peer_ours.hoodie("metadata", "init", path, "--files-only", *LOCK)
    if made.merge_on_read and made.buckets is not None:
        plan = ours.schedule_compaction(path)
        assert plan is not None
        ours.execute_compaction(path, plan)
    ours.write(path, rows_of(range(6, 18), 2), "upsert")
    heard: list[str] = []

    def hear(what: str) -> None:
        heard.append(what)
        if len(heard) in (2, 3):
            ours.write(path, rows_of(range(10, 14 + len(heard)), 2 + len(heard)), "upsert")

    if not names:
        names = [COLUMN_STATS, *([PARTITION_STATS] if made.partition_by else []), BLOOM_FILTERS]
    done = build(path, names, hear)
    assert done.built == tuple(names)
    assert len(heard) > 3
    ours.write(path, rows_of(range(3), 9), "upsert")
    return ours


def build(path: Path, names: Sequence[str], hear: object) -> results.IndexResult:
    env = environment.system(parallelism=2)
    transaction = TransactionOptions(
        settings=QUICK, lock=address_texts.parse("filesystem"), author=authors.Author()
    )
    assert callable(hear)
    return table.open_table(str(path), env).build_index(names, transaction, hear)


def by_metadata(where: str, options: Mapping[str, str] = SKIPPING) -> Query:
    return Query(use_metadata_table=True, where=where, options=options)


@pytest.mark.parametrize("kind", TABLES)
def test_apache_hudi_reads_by_our_index_and_keeps_it_up(
    kind: str, judge: Judge, tmp_path: Path
) -> None:
    made = TABLES[kind]
    path = tmp_path / "table"
    ours = built(path, made)
    indexing = [each for each in judge.timeline(path) if each.action == "indexing"]
    assert [each.state for each in indexing] == [InstantState.COMPLETED]
    listed = judge.read(path)
    assert_same_rows(judge.read(path, Query(use_metadata_table=True)), listed, KEY)
    for where in ("ts > 5", "id = 'key-003'", "id = 'none'"):
        found = judge.read(path, by_metadata(where))
        assert_same_rows(found, judge.read(path, Query(where=where)), KEY)
        assert_same_rows(peer_ours.read(path, "--where", where), found, KEY)
    assert not judge.read(path, by_metadata("ts > 1000")).num_rows
    peer_ours.hoodie("configure", path, "--foreign-writers", *LOCK)
    judge.write(path, rows_of(range(8, 20), 20), made.write_options())
    ours.write(path, rows_of(range(16, 24), 21), "upsert")
    validated = peer_ours.hoodie("metadata", "validate", path)
    for each in ("differences", "statistics", "filters"):
        assert validated[each] == [], each
    assert validated["filters_compared"]
    assert_same_files(path)
    status = peer_ours.hoodie("index", "status", path)
    ready = {each["name"] for each in status["indexes"] if each["state"] == "ready"}
    assert {COLUMN_STATS, BLOOM_FILTERS} <= ready
    found = judge.read(path, by_metadata("ts > 19"))
    assert_same_rows(found, judge.read(path, Query(where="ts > 19")), KEY)
    assert_same_rows(peer_ours.read(path, "--where", "ts > 19"), found, KEY)


def test_apache_hudi_leaves_files_out_by_our_index(judge: Judge, tmp_path: Path) -> None:
    """It does not open what has no matching row: such a file may be broken."""
    path = tmp_path / "table"
    built(path, TABLES["cow"])
    found = judge.read(path, by_metadata("ts = 9"))
    assert found.num_rows == 3
    broken = [
        each
        for each in path.glob("*/*.parquet")
        if 9 not in pq.read_table(each, columns=["ts"]).column("ts").to_pylist()
    ]
    assert broken
    for each in broken:
        each.write_bytes(b"broken")
        each.with_name(f".{each.name}.crc").unlink(missing_ok=True)
    assert_same_rows(judge.read(path, by_metadata("ts = 9")), found, KEY)
    with pytest.raises(JudgeError):
        judge.read(path, Query(where="ts = 9"))


def test_bloom_index_of_apache_hudi_finds_keys_by_filters_that_we_built(tmp_path: Path) -> None:
    """It throws where a base file has no filter in the metadata table."""
    made = replace(TABLES["cow"], buckets=None)
    by_filters = made.write_options() | {
        "hoodie.index.type": "BLOOM",
        "hoodie.bloom.index.use.metadata": "true",
    }
    path = tmp_path / "table"
    built(path, made)
    peer_ours.hoodie("configure", path, "--foreign-writers", *LOCK)
    opens = "--add-opens=java.base/java.util.concurrent.locks=ALL-UNNAMED"
    with Judge(tmp_path / "judge", Settings(jvm_options=(*QUICK_JVM, opens))) as judge:
        judge.write(path, rows_of(range(5, 9), 30), by_filters)
        found = judge.read(path)
    assert found.num_rows == 18
    assert found.column("ts").to_pylist().count(30) == 4


BY_RECORD_INDEX = {
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "false",
    "hoodie.metadata.index.partition.stats.enable": "false",
}
INDEXED = replace(MADE, buckets=None, bloom_filter=False, extra=BY_RECORD_INDEX)
RECORD_INDEXED = {
    "mor": INDEXED,
    "cow, version 8": replace(INDEXED, merge_on_read=False, table_version=8),
    "cow, without partitions": replace(INDEXED, merge_on_read=False, partition_by=()),
}


@pytest.mark.parametrize("kind", RECORD_INDEXED)
def test_apache_hudi_finds_keys_by_a_record_index_that_we_built_and_keeps_it_up(
    kind: str, judge: Judge, tmp_path: Path
) -> None:
    """Its upserts go to the file groups that the index names, and add their keys to it."""
    made = RECORD_INDEXED[kind]
    path = tmp_path / "table"
    ours = built(path, made, [RECORD_INDEX])
    indexing = [each for each in judge.timeline(path) if each.action == "indexing"]
    assert [each.state for each in indexing] == [InstantState.COMPLETED]
    listed = judge.read(path)
    assert_same_rows(judge.read(path, Query(use_metadata_table=True)), listed, KEY)
    peer_ours.hoodie("configure", path, "--foreign-writers", *LOCK)
    options = {**made.write_options(), "hoodie.index.type": "RECORD_INDEX"}
    judge.write(path, rows_of(range(8, 22), 20), options)
    ours.write(path, rows_of(range(16, 26), 21), "upsert")
    judge.write(path, rows_of(range(24, 28), 22), options)
    assert judge.read(path).num_rows == 28
    for number in (3, 9, 17, 23, 27):
        where = f"id = 'key-{number:03d}'"
        found = judge.read(path, by_metadata(where))
        assert found.num_rows == 1
        assert_same_rows(found, judge.read(path, Query(where=where)), KEY)
        assert_same_rows(peer_ours.read(path, "--where", where), found, KEY)
    validated = peer_ours.hoodie("metadata", "validate", path)
    assert validated["keys"] == []
    assert validated["differences"] == []
    assert_same_files(path)
    status = peer_ours.hoodie("index", "status", path)
    assert "ready" in {each["state"] for each in status["indexes"] if each["name"] == RECORD_INDEX}


def test_apache_hudi_leaves_files_out_by_our_record_index(judge: Judge, tmp_path: Path) -> None:
    """It does not open what has no matching key: such a file may be broken."""
    path = tmp_path / "table"
    built(path, replace(INDEXED, merge_on_read=False), [RECORD_INDEX])
    where = "id = 'key-003'"
    found = judge.read(path, by_metadata(where))
    assert found.num_rows == 1
    broken = [
        each
        for each in path.glob("*/*.parquet")
        if "key-003" not in pq.read_table(each, columns=["id"]).column("id").to_pylist()
    ]
    assert broken
    for each in broken:
        each.write_bytes(b"broken")
        each.with_name(f".{each.name}.crc").unlink(missing_ok=True)
    assert_same_rows(judge.read(path, by_metadata(where)), found, KEY)
    with pytest.raises(JudgeError):
        judge.read(path, Query(where=where))
