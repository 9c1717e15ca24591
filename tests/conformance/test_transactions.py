"""Transactions of several operations: one instant, of which Apache Hudi reads the same rows."""

from pathlib import Path
from random import Random
from typing import Any, Literal

import pyarrow as pa
import pytest

import hoodie
from hoodie.door import transactions
from support.peer.judge import Judge
from support.peer.peer_hudi_rs import read_with_hudi_rs

COLUMNS = {
    "id": pa.string(),
    "part": pa.string(),
    "ts": pa.int64(),
    "v": pa.string(),
}
KEYS = 12
Row = dict[str, Any]


def row(number: int, ts: int) -> Row:
    return {"id": str(number), "part": "pq"[number % 2], "ts": ts, "v": f"{number} at {ts}"}


def rows_by(table: pa.Table) -> dict[str, Row]:
    return {each["id"]: {name: each[name] for name in COLUMNS} for each in table.to_pylist()}


def do(tx: transactions.Transaction, random: Random, ts: int) -> None:
    """Do one operation: what comes back after its deletion is newer than all before.

    Of older rows Apache Hudi's readers show what they replace until these are compacted, whether
    they are of one commit or of several (docs/limits.md).
    """
    chosen = random.sample(range(KEYS), random.randint(1, 4))
    rows = [row(number, ts) for number in chosen]
    match random.randrange(6):
        case 0 | 1:
            tx.upsert(rows)
        case 2:
            tx.insert(rows)
        case 3:
            tx.delete([{"id": each["id"], "part": each["part"]} for each in rows])
        case 4:
            tx.delete([{name: each[name] for name in ("id", "part", "ts")} for each in rows])
        case _:
            if random.random() < 0.5:
                tx.update({"v": f"set at {ts}"}, [("id", "in", [each["id"] for each in rows])])
            else:
                tx.delete([("id", "in", [each["id"] for each in rows])])


@pytest.mark.parametrize("table_type", ["mor", "cow"])
@pytest.mark.parametrize("ordering", [None, "ts"])
@pytest.mark.parametrize("index", ["bucket", "simple"])
def test_transactions_are_read_alike(
    table_type: Literal["mor", "cow"],
    ordering: str | None,
    index: Literal["bucket", "simple"],
    judge: Judge,
    tmp_path: Path,
) -> None:
    path = tmp_path / "t"
    table = hoodie.create_table(
        path,
        COLUMNS,
        "id",
        partition_by="part",
        ordering=ordering,
        table_type=table_type,
        index=index,
        buckets=2 if index == "bucket" else None,
        foreign_writers=False,
        settings={"hoodie.compact.inline.max.delta.commits": "1"},
    )
    random = Random(f"{table_type} {ordering} {index}")
    table.upsert([row(number, 0) for number in range(0, KEYS, 2)])
    ts = 1
    for batch_id in range(3):
        with table.transaction("etl", batch_id) as tx:
            tx.upsert([row(number, ts) for number in random.sample(range(KEYS), 3)])
            for _ in range(6):
                ts += 1
                do(tx, random, ts)
        ours = rows_by(table.scan().to_arrow())
        assert rows_by(judge.read(path)) == ours, batch_id
        assert rows_by(read_with_hudi_rs(path)) == ours, batch_id
    assert len(table.timeline().completed_writes) == 4
    if table_type == "mor":
        table.maintain.compact()
        assert rows_by(table.scan().to_arrow()) == rows_by(judge.read(path)) == ours
