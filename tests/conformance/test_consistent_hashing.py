"""Tables with consistent hashing, written by Apache Hudi and by us in turn, and resized by it."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from support.peer import peer_ours
from support.peer.judge import Judge
from support.peer.peer_cases import BASE, newest, rows_of, without
from support.peer.peer_rows import assert_same_rows

KEY = ["part", "id"]
TABLE = replace(
    BASE, name="rings", buckets=3, extra={"hoodie.index.bucket.engine": "CONSISTENT_HASHING"}
)
TABLES = {
    "9": TABLE,
    "8": replace(TABLE, table_version=8, parquet_logs=False),
    "unpartitioned": replace(TABLE, partition_by=()),
    "two keys": replace(TABLE, record_key=("part", "id")),
    "partial": replace(TABLE, ordering=None, partial_updates=True),
}
_CLUSTERING = "org.apache.hudi.client.clustering"
RESIZE = {
    "hoodie.clustering.inline": "true",
    "hoodie.clustering.inline.max.commits": "1",
    "hoodie.clustering.plan.strategy.class": (
        f"{_CLUSTERING}.plan.strategy.SparkConsistentBucketClusteringPlanStrategy"
    ),
    "hoodie.clustering.execution.strategy.class": (
        f"{_CLUSTERING}.run.strategy.SparkConsistentBucketClusteringExecutionStrategy"
    ),
    "hoodie.clustering.updates.strategy": (
        f"{_CLUSTERING}.update.strategy.SparkConsistentBucketDuplicateUpdateStrategy"
    ),
    "hoodie.bucket.index.max.num.buckets": "12",
    "hoodie.bucket.index.min.num.buckets": "2",
    "hoodie.parquet.max.file.size": "1000",
}


def assert_read_by_both(judge: Judge, path: Path, expected: pa.Table) -> None:
    assert_same_rows(judge.read(path), expected, KEY)
    assert_same_rows(peer_ours.read(path), expected, KEY)
    for each in expected.slice(0, 3).to_pylist():
        found = peer_ours.read(path, "--where", f"id = '{each['id']}'")
        assert_same_rows(found, expected.filter(pc.equal(expected["id"], each["id"])), KEY)


def sound(path: Path) -> None:
    assert peer_ours.hoodie("check", path)["findings"] == []


@pytest.mark.parametrize("maker", ["ours", "theirs"])
@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.sample(1)
def test_both_write_one_table_in_turn(kind: str, maker: str, judge: Judge, tmp_path: Path) -> None:
    table, path = TABLES[kind], tmp_path / "table"
    ours = peer_ours.Hoodie(table=table, concurrency="occ")
    first = rows_of(range(24), 1000)
    if maker == "ours":
        ours.write(path, first, "upsert")
    else:
        judge.write(path, first, table.write_options())
        peer_ours.hoodie("adopt", path, "--index", "consistent-hashing", "--buckets", "3")
    assert_read_by_both(judge, path, first)
    rings = files_of_rings(path)

    second = rows_of(range(12, 36), 2000)
    ours.write(path, second, "upsert")
    third = rows_of(range(30, 42), 3000)
    judge.write(path, third, table.write_options())
    expected = newest(first, second, third)
    assert_read_by_both(judge, path, expected)
    sound(path)
    # What stands in them is the same for all.
    assert {name: content for name, content in files_of_rings(path).items() if name in rings} == (
        rings
    )

    gone = rows_of(range(10, 16), 4000)
    ours.write(path, gone, "delete")
    also = rows_of(range(16, 20), 4000)
    judge.write(path, also, table.write_options(), operation="delete")
    expected = without(without(expected, gone), also)
    assert_read_by_both(judge, path, expected)
    peer_ours.hoodie("compact", path)
    last = rows_of(range(8, 20), 5000)
    judge.write(path, last, table.write_options())
    ours.write(path, rows_of(range(3), 5000), "upsert")
    assert_read_by_both(judge, path, newest(expected, last, rows_of(range(3), 5000)))
    sound(path)


@pytest.mark.parametrize("kind", ["9", "8"])
@pytest.mark.sample(1)
def test_ring_that_apache_hudi_resizes_is_followed(kind: str, judge: Judge, tmp_path: Path) -> None:
    table, path = TABLES[kind], tmp_path / "table"
    ours = peer_ours.Hoodie(table=table, concurrency="occ")
    first, second = rows_of(range(60), 1000), rows_of(range(30, 90), 2000)
    ours.write(path, first, "upsert")
    peer_ours.hoodie("compact", path)
    judge.write(path, second, table.write_options() | RESIZE)
    assert [name for name in files_of_rings(path) if "00000000000000" not in name]
    expected = newest(first, second)
    assert_read_by_both(judge, path, expected)
    sound(path)

    third = rows_of(range(80, 100), 3000)
    ours.write(path, third, "upsert")
    fourth = rows_of(range(95, 110), 4000)
    judge.write(path, fourth, table.write_options())
    expected = newest(expected, third, fourth)
    assert_read_by_both(judge, path, expected)
    gone = rows_of(range(50, 99), 5000)
    ours.write(path, gone, "delete")
    assert_read_by_both(judge, path, without(expected, gone))
    sound(path)


def files_of_rings(path: Path) -> Mapping[str, bytes]:
    folder = path / ".hoodie" / ".bucket_index"
    return {
        str(each.relative_to(folder)): each.read_bytes()
        for each in folder.rglob("*.hashing_meta")
        if not each.name.startswith(".")
    }


def test_table_with_another_number_of_buckets_is_not_adopted(judge: Judge, tmp_path: Path) -> None:
    path = tmp_path / "table"
    judge.write(path, rows_of(range(12), 1000), TABLE.write_options())
    for index, buckets in (("consistent-hashing", "4"), ("bucket", "3")):
        with pytest.raises(peer_ours.CommandFailedError, match=r"buckets|consistent"):
            peer_ours.hoodie("adopt", path, "--index", index, "--buckets", buckets)


def test_table_that_both_have_replaced_is_refused(judge: Judge, tmp_path: Path) -> None:
    """Apache Hudi 1.2.0 shows nothing of what it writes to a partition that it has overwritten."""
    path = tmp_path / "table"
    ours = peer_ours.Hoodie(table=TABLE, concurrency="occ")
    rows = rows_of(range(12), 1000)
    judge.write(path, rows, TABLE.write_options())
    peer_ours.hoodie("adopt", path, "--index", "consistent-hashing", "--buckets", "3")
    judge.write(path, rows, TABLE.write_options(), operation="insert_overwrite")
    judge.write(path, rows_of(range(12), 2000), TABLE.write_options())
    assert set(judge.read(path)["ts"].to_pylist()) == {1000}
    with pytest.raises(peer_ours.CommandFailedError, match="retired that group"):
        ours.write(path, rows_of(range(12), 3000), "upsert")
    with pytest.raises(peer_ours.CommandFailedError, match="consistent hashing"):
        ours.write(path, rows, "insert_overwrite")
