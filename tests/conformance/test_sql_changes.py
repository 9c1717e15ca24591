"""Rows that SQL of Apache Hudi deletes in file groups that have log files alone.

It puts the time of a row's commit into the name of the log file, though it is of another instant.
"""

from pathlib import Path

import pytest

from support.peer import peer_ours
from support.peer.judge import Judge
from support.peer.peer_cases import rows_of
from support.peer.peer_options import PeerTable, filesystem_lock
from support.peer.peer_rows import assert_same_rows

KEY = ["part", "id"]
ENGINES = {"simple": {}, "hashing": {"hoodie.index.bucket.engine": "CONSISTENT_HASHING"}}


@pytest.mark.sample(1)
@pytest.mark.parametrize("engine", ENGINES)
def test_deleted_rows_that_ours_wrote_stay_deleted(
    engine: str, judge: Judge, tmp_path: Path
) -> None:
    name = f"changed_by_sql_{engine}"
    path = tmp_path / name
    made = PeerTable(name=name, partition_by=("part",), extra=ENGINES[engine])
    options = made.occ_options(filesystem_lock())
    judge.write(path, rows_of(range(9), 1), options)
    index = "bucket" if engine == "simple" else "consistent-hashing"
    lock = ("--lock", "filesystem")
    peer_ours.hoodie("adopt", path, "--index", index, "--buckets", "2", *lock)
    ours = peer_ours.Hoodie(table=made, concurrency="occ")
    ours.write(path, rows_of(range(3, 12), 2), "upsert")
    judge.execute(f"CREATE TABLE {name} USING hudi LOCATION '{path}'")
    for key, value in options.items():
        judge.execute(f"SET {key}={value}")
    try:
        judge.execute(f"DELETE FROM {name} WHERE id IN ('key-001', 'key-004', 'key-010')")
    finally:
        for key in options:
            judge.execute(f"RESET {key}")
    expected = judge.read(path)
    # Of a table with consistent hashing Apache Hudi 1.2.0 misses some.
    assert expected.num_rows < 12
    for _ in range(2):
        assert_same_rows(peer_ours.read(path), expected, KEY)
        peer_ours.hoodie("check", path)
        peer_ours.hoodie("rollback", path, "--all", *lock)
    instant = ours.schedule_compaction(path)
    assert instant is not None
    ours.execute_compaction(path, instant)
    assert_same_rows(peer_ours.read(path), expected, KEY)
    assert_same_rows(judge.read(path), expected, KEY)
