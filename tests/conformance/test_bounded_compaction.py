"""Compactions whose changes go through scratch space, beside Apache Hudi's of the same table."""

import random
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from hoodie import environment, table
from hoodie.model import commits, schemas, settings, table_config
from hoodie.transaction import authors, manager
from hoodie.transaction.locks import address_texts
from hoodie.write import sessions
from support.peer.judge import Judge
from support.peer.peer_options import PeerTable

COLUMNS = pa.schema(
    [
        ("id", pa.string()),
        ("at", pa.int64()),
        ("v", pa.string()),
        ("w", pa.float64()),
        ("_hoodie_is_deleted", pa.bool_()),
    ]
)
TRANSACTION = manager.TransactionOptions(
    settings=settings.WriteSettings(clock_wait_ms=0),
    lock=address_texts.parse("in-process"),
    author=authors.Author(writer_id="w"),
)


def rows_of(path: Path, judge: Judge) -> list[dict[str, object]]:
    """Return what Apache Hudi reads."""
    found = judge.read(path).select(["id", "at", "v", "w"]).to_pylist()
    return sorted(found, key=lambda row: str(row["id"]))


def made(path: Path, mode: table_config.MergeMode) -> table.Table:
    """Return a table with a base file and many changes."""
    by_time = mode is table_config.MergeMode.EVENT_TIME
    config = table_config.TableConfig(
        name="bounded",
        record_key_fields=("id",),
        ordering_fields=("at",) if by_time else (),
        merge_mode=mode,
        bucket_count=1,
    )
    schema = schemas.from_arrow(COLUMNS, config.name)
    opened = table.create_table(str(path), config, schema, environment.system())
    chance = random.Random(5)
    for number in range(8):
        cells = [
            {
                "id": f"k{key}",
                "at": chance.randrange(20),
                "v": chance.choice(["x", "é", None]),
                "w": chance.random(),
                "_hoodie_is_deleted": chance.random() < 0.05,
            }
            for key in chance.sample(range(600), 200)
        ]
        options = sessions.WriteOptions(operation=commits.Operation.UPSERT, transaction=TRANSACTION)
        opened.write(pa.Table.from_pylist(cells, COLUMNS), options)
        if number == 0:
            planned = opened.schedule_compaction(TRANSACTION)
            assert planned is not None
            opened.compact(planned, TRANSACTION)
    return opened


@pytest.mark.parametrize("mode", list(table_config.MergeMode)[:2])
def test_bounded_compaction_holds_the_rows_of_apache_hudis(
    mode: table_config.MergeMode, judge: Judge, tmp_path: Path
) -> None:
    opened = made(tmp_path / "ours", mode)
    before = rows_of(tmp_path / "ours", judge)
    shutil.copytree(tmp_path / "ours", tmp_path / "theirs")
    bounded = replace(TRANSACTION.settings, compaction_memory_bytes=1)
    transaction = replace(TRANSACTION, settings=bounded)
    planned = opened.schedule_compaction(transaction)
    assert planned is not None
    opened.compact(planned, transaction)
    ordering = "at" if mode is table_config.MergeMode.EVENT_TIME else None
    options = PeerTable(name="bounded", ordering=ordering, buckets=1).write_options()
    judge.compact(tmp_path / "theirs", options)
    assert rows_of(tmp_path / "ours", judge) == before
    assert rows_of(tmp_path / "theirs", judge) == before
    assert 100 < len(before) < 600
