"""Tables of ours whose file groups Apache Hudi retires: every acknowledged row is read by both."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from support.peer import peer_ours
from support.peer.judge import Judge
from support.peer.peer_cases import BASE, newest, rows_of
from support.peer.peer_options import filesystem_lock
from support.peer.peer_rows import assert_same_rows

MERGE_ON_READ = replace(BASE, name="replaced")
COPY_ON_WRITE = replace(MERGE_ON_READ, merge_on_read=False)
TABLES = {"mor": MERGE_ON_READ, "cow": COPY_ON_WRITE}
CLEAN = {
    "hoodie.clean.automatic": "true",
    "hoodie.cleaner.policy": "KEEP_LATEST_FILE_VERSIONS",
    "hoodie.cleaner.fileversions.retained": "1",
}
KEY = ["part", "id", "ts"]


def in_partition(rows: pa.Table, partition: str, *, is_in: bool = True) -> pa.Table:
    is_wanted = pc.equal(rows.column("part"), partition)
    return rows.filter(is_wanted if is_in else pc.invert(is_wanted))


def assert_read_by_both(judge: Judge, path: Path, expected: pa.Table) -> None:
    assert_same_rows(judge.read(path), expected, KEY)
    assert_same_rows(peer_ours.read(path), expected, KEY)


def assert_filters_lose_nothing(path: Path) -> None:
    """Compare reads by key and partition with a full read that is filtered then."""
    whole = peer_ours.read(path)
    for each in whole.select(["part", "id"]).to_pylist():
        key, partition = each["id"], each["part"]
        by_key = whole.filter(pc.equal(whole.column("id"), key))
        texts = {
            f"id = '{key}'": by_key,
            f"id in ('{key}', 'none')": by_key,
            f"part = '{partition}' and id = '{key}'": in_partition(by_key, partition),
            f"part = '{partition}'": in_partition(whole, partition),
        }
        for text, expected in texts.items():
            assert_same_rows(peer_ours.read(path, "--where", text), expected, KEY)


@contextmanager
def without_metadata_table(judge: Judge) -> Iterator[None]:
    judge.execute("SET hoodie.metadata.enable=false")
    try:
        yield
    finally:
        judge.execute("RESET hoodie.metadata.enable")


@pytest.mark.parametrize("kind", TABLES)
def test_rows_written_after_delete_partition_and_clean_are_read(
    kind: str, judge: Judge, tmp_path: Path
) -> None:
    table, path = TABLES[kind], tmp_path / "table"
    ours = peer_ours.Hoodie(table=table)
    options = table.shared_options(filesystem_lock())
    first = rows_of(range(9), 1000)
    ours.write(path, first, "upsert")
    deleted = {"hoodie.datasource.write.partitions.to.delete": "north"}
    judge.write(path, first.slice(0, 1), options | deleted, operation="delete_partition")
    left = in_partition(first, "north", is_in=False)
    assert_read_by_both(judge, path, left)
    second = rows_of(range(3, 12), 2000)
    ours.write(path, in_partition(second, "north"), "upsert")
    assert_read_by_both(judge, path, newest(left, in_partition(second, "north")))
    # Their writer finds the new group, and their cleaner removes the retired one.
    third = rows_of(range(6, 15), 3000)
    judge.write(path, third, options | CLEAN)
    expected = newest(left, in_partition(second, "north"), third)
    assert_read_by_both(judge, path, expected)
    judge.write(path, first.slice(0, 1), options | deleted, operation="delete_partition")
    judge.write(path, rows_of(range(15, 16), 3000), options | CLEAN)
    ours.write(path, rows_of(range(18), 4000), "upsert")
    assert_read_by_both(judge, path, rows_of(range(18), 4000))
    assert_filters_lose_nothing(path)
    assert peer_ours.hoodie("check", path)["findings"] == []


@pytest.mark.parametrize("kind", TABLES)
def test_rows_written_after_insert_overwrite_are_read(
    kind: str, judge: Judge, tmp_path: Path
) -> None:
    table, path = TABLES[kind], tmp_path / "table"
    ours = peer_ours.Hoodie(table=table, concurrency="occ")
    options = table.occ_options(filesystem_lock())
    first = rows_of(range(9), 1000)
    ours.write(path, first, "upsert")
    overwriting = in_partition(rows_of(range(20, 26), 1500), "north")
    judge.write(path, overwriting, options, operation="insert_overwrite")
    left = newest(in_partition(first, "north", is_in=False), overwriting)
    assert_read_by_both(judge, path, left)
    ours.write(path, rows_of(range(3, 24), 2000), "upsert")
    expected = newest(left, rows_of(range(3, 24), 2000))
    assert_read_by_both(judge, path, expected)
    judge.write(path, rows_of(range(2), 3000), options | CLEAN)
    expected = newest(expected, rows_of(range(2), 3000))
    assert_read_by_both(judge, path, expected)
    assert_filters_lose_nothing(path)
    assert peer_ours.hoodie("check", path)["findings"] == []


@pytest.mark.parametrize("kind", TABLES)
def test_clustered_table_is_read_by_key_and_written_on(
    kind: str, judge: Judge, tmp_path: Path
) -> None:
    table, path = TABLES[kind], tmp_path / "table"
    ours = peer_ours.Hoodie(table=table)
    first = rows_of(range(9), 1000)
    ours.write(path, first, "upsert")
    with without_metadata_table(judge):
        judge.sql(f"CALL run_clustering(path => '{path}')")
    assert_read_by_both(judge, path, first)
    assert_filters_lose_nothing(path)
    # Rows of clustered keys go where these keys are, and new ones into their buckets.
    second = rows_of(range(6, 15), 2000)
    ours.write(path, second, "upsert")
    assert_read_by_both(judge, path, newest(first, second))
    ours.write(path, second.slice(0, 2), "delete")
    assert_read_by_both(judge, path, newest(first.slice(0, 6), second.slice(2)))
    assert_filters_lose_nothing(path)


def test_rows_that_apache_hudi_wrote_by_its_default_index_are_found_by_key(
    judge: Judge, tmp_path: Path
) -> None:
    """Its writer was not given the bucket index: new keys are in file groups of no bucket.

    On a copy-on-write table it mixes up partitions by itself (docs/spark-writers.md).
    """
    table, path = MERGE_ON_READ, tmp_path / "table"
    ours = peer_ours.Hoodie(table=table)
    first = rows_of(range(9), 1000)
    ours.write(path, first, "upsert")
    second = rows_of(range(12, 21), 2000)
    judge.write(path, second, replace(table, buckets=None).write_options())
    expected = newest(first, second)
    assert_read_by_both(judge, path, expected)
    assert_filters_lose_nothing(path)
    third = rows_of(range(6, 24), 3000)
    ours.write(path, third, "upsert")
    assert_read_by_both(judge, path, newest(expected, third))
    assert_filters_lose_nothing(path)
