"""Optimistic writers of Apache Hudi and of ours on one table: each finds the other's commit."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from hoodie import errors
from support.peer import peer_ours, peer_sessions
from support.peer.judge import Gate, Judge, JudgeError
from support.peer.peer_cases import BASE, SCHEMA, row
from support.peer.peer_options import PeerTable, filesystem_lock
from support.peer.peer_rows import assert_same_rows

MERGE_ON_READ = replace(BASE, name="optimistic", partition_by=(), buckets=1)
COPY_ON_WRITE = replace(MERGE_ON_READ, merge_on_read=False)


@pytest.fixture(params=[MERGE_ON_READ, COPY_ON_WRITE], ids=["merge-on-read", "copy-on-write"])
def shared(request: pytest.FixtureRequest) -> PeerTable:
    found: PeerTable = request.param
    return found


def rows(ts: int) -> pa.Table:
    return pa.Table.from_pylist([row(n, ts=ts) for n in range(5)], SCHEMA)


def write_ours(path: Path, shared: PeerTable, ts: int) -> None:
    peer_ours.Hoodie(table=shared, concurrency="occ").write(path, rows(ts), "upsert")


def test_apache_hudi_gives_way_to_our_commit(
    shared: PeerTable, judge: Judge, second_judge: Judge, tmp_path: Path
) -> None:
    """T-O02."""
    path = tmp_path / "table"
    write_ours(path, shared, 1)
    gate = Gate(path=tmp_path / "gate")
    with ThreadPoolExecutor() as threads:
        slow = threads.submit(
            second_judge.write, path, rows(9), shared.occ_options(filesystem_lock()), gate=gate
        )
        with gate.holding(slow):
            write_ours(path, shared, 2)
        with pytest.raises(JudgeError, match="HoodieWriteConflictException"):
            slow.result()
    assert_same_rows(judge.read(path), rows(2), ["id"])
    assert_same_rows(peer_ours.read(path), rows(2), ["id"])


def test_we_give_way_to_a_commit_of_apache_hudi(
    shared: PeerTable, judge: Judge, tmp_path: Path
) -> None:
    """T-O02."""
    path = tmp_path / "table"
    write_ours(path, shared, 1)
    session, stats = peer_sessions.begun(path, rows(9))
    judge.write(path, rows(2), shared.occ_options(filesystem_lock()))
    with pytest.raises(errors.WriteConflictError, match="a writer that gives no id"):
        session.commit(stats)
    assert_same_rows(judge.read(path), rows(2), ["id"])
    assert_same_rows(peer_ours.read(path), rows(2), ["id"])
