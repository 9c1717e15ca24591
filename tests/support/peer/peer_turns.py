"""Changes of a table by Apache Hudi and by us in turn, of each kind that changes its files."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from support.peer import peer_ours
from support.peer.judge import Judge
from support.peer.peer_cases import SCHEMA, row
from support.peer.peer_options import PeerTable


def rows_of(numbers: range, ts: int) -> pa.Table:
    return pa.Table.from_pylist([row(n, ts=ts) for n in numbers], SCHEMA)


def changes(
    judge: Judge, path: Path, made: PeerTable, ours: peer_ours.Hoodie, *, last: int = 8
) -> Iterator[str]:
    """Change a table that exists, and yield after each step what was done.

    Args:
        judge: Apache Hudi.
        path: The table.
        made: How Apache Hudi writes it.
        ours: Our writer.
        last: The rows of two steps end there: the more there are, the more files they touch.
    """
    options = made.write_options()
    judge.write(path, rows_of(range(12), 1), options)
    yield "written by theirs, which makes the metadata table if there is none"
    ours.write(path, rows_of(range(2, last), 2), "upsert")
    yield "written by ours"
    judge.write(path, rows_of(range(4, last + 2), 3), options)
    yield "written by theirs"
    ours.write(path, rows_of(range(4, 6), 4), "delete")
    yield "deleted by ours"
    for ts in range(5, 8):
        ours.write(path, rows_of(range(ts, ts + 9), ts), "upsert")
    yield "written by ours, often"
    if made.merge_on_read:
        plan = ours.schedule_compaction(path)
        assert plan is not None
        ours.execute_compaction(path, plan)
        yield "compacted by ours"
        ours.write(path, rows_of(range(3), 9), "upsert")
        judge.compact(path, options)
        yield "compacted by theirs"
    ours.write(path, rows_of(range(3), 10), "upsert")
    peer_ours.hoodie("clean", path, "--keep-commits", "1", "--grace", "0", "--lock", "filesystem")
    yield "cleaned by ours"
    judge.write(path, rows_of(range(3, 5), 11), options)
    judge.clean(path, options)
    yield "cleaned by theirs"
    ours.write(path, rows_of(range(14, 22), 12), "upsert")
    yield "written by ours at last"
