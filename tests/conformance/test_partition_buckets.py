"""Tables of ours to which Apache Hudi gives bucket counts by partition (RFC-89)."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from support.peer import peer_ours
from support.peer.judge import Judge
from support.peer.peer_cases import BASE, SCHEMA, row
from support.peer.peer_options import PeerTable
from support.peer.peer_rows import assert_same_rows

MERGE_ON_READ = replace(BASE, name="by_partition")
TABLES = {"mor": MERGE_ON_READ, "cow": replace(MERGE_ON_READ, merge_on_read=False)}
KEY = ["part", "id"]
REFUSED = "bucket counts by partition"


def rows_of(numbers: range, ts: int) -> pa.Table:
    return pa.Table.from_pylist([row(n, ts=ts) for n in numbers], SCHEMA)


def manage(judge: Judge, name: str, arguments: str) -> None:
    """Call the procedure; without a metadata table, of which ours have none."""
    judge.execute("SET hoodie.metadata.enable=false")
    try:
        judge.sql(
            f"CALL partition_bucket_index_manager(table => '{name}', {arguments}, dry_run => false)"
        )
    finally:
        judge.execute("RESET hoodie.metadata.enable")


def assert_read_by_both(judge: Judge, path: Path, expected: pa.Table) -> None:
    assert_same_rows(judge.read(path), expected, KEY)
    assert_same_rows(peer_ours.read(path), expected, KEY)
    for each in expected.select(KEY).to_pylist():
        found = peer_ours.read(path, "--where", f"id = '{each['id']}'")
        assert_same_rows(found, expected.filter(pc.equal(expected["id"], each["id"])), KEY)


@pytest.mark.parametrize("kind", TABLES)
def test_table_with_bucket_counts_by_partition_is_read_and_not_written(
    kind: str, judge: Judge, tmp_path: Path
) -> None:
    table, path, name = TABLES[kind], tmp_path / "table", f"by_partition_{kind}"
    ours = peer_ours.Hoodie(table=table)
    first = rows_of(range(24), 1000)
    ours.write(path, first, "upsert")
    judge.execute(f"CREATE TABLE {name} USING hudi LOCATION '{path}'")
    manage(judge, name, "overwrite => 'north,5;south,3', bucket_number => 2")
    assert len(list(path.glob("north/*.parquet"))) > 2
    assert_read_by_both(judge, path, first)
    with pytest.raises(peer_ours.CommandFailedError, match=REFUSED):
        ours.write(path, rows_of(range(30), 2000), "upsert")
    assert_read_by_both(judge, path, first)

    second = rows_of(range(30), 3000)
    judge.write(path, second, options_of(table, "north,5;south,3"))
    assert_read_by_both(judge, path, second)
    manage(judge, name, "add => 'west,4'")
    assert_read_by_both(judge, path, second)
    with pytest.raises(peer_ours.CommandFailedError, match=REFUSED):
        ours.write(path, second, "insert")
    assert_read_by_both(judge, path, second)

    shown = peer_ours.hoodie("describe", path)
    assert shown["buckets_by_partition"] == "west,4;north,5;south,3"
    with pytest.raises(peer_ours.CommandFailedError, match=REFUSED):
        peer_ours.hoodie("describe", path, "--spark-options")
    checked = peer_ours.hoodie("check", path)
    assert checked["findings"] == []
    (note,) = [each for each in checked["notes"] if "hashing_config" in each["subject"]]
    assert "west,4;north,5;south,3" in note["message"]


def options_of(table: PeerTable, expressions: str) -> Mapping[str, str]:
    return table.write_options() | {"hoodie.bucket.index.partition.expressions": expressions}
