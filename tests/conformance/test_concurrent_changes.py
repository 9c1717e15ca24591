"""What Apache Hudi does to a table while a write of ours is under way: columns, clustering."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from hoodie import environment, table
from hoodie.format import timeline_avro
from hoodie.model import commits, settings
from hoodie.transaction import authors, manager
from hoodie.transaction.locks import address_texts
from hoodie.write import sessions
from support.peer import peer_ours, peer_sessions
from support.peer.judge import Judge
from support.peer.peer_cases import BASE, DEFAULTS, SCHEMA, row
from support.peer.peer_options import filesystem_lock

TABLE = replace(BASE, name="evolving", partition_by=(), buckets=2)
WIDER = SCHEMA.append(pa.field("note", pa.string()))


def test_column_that_apache_hudi_adds_meanwhile_is_kept(judge: Judge, tmp_path: Path) -> None:
    """T-O17, S0 = W: ours commits last, with the columns that it had begun with."""
    path = tmp_path / "table"
    first = pa.Table.from_pylist([row(n, ts=1) for n in range(4)], SCHEMA)
    peer_ours.Hoodie(table=TABLE).write(path, first, "upsert")
    mine = pa.Table.from_pylist([row(1, ts=3)], SCHEMA)
    session, stats = peer_sessions.begun(path, mine, peer_sessions.NON_BLOCKING)
    theirs = pa.Table.from_pylist([row(n, ts=2, note=f"note {n}") for n in (0, 1)], WIDER)
    judge.write(path, theirs, TABLE.nbcc_options(filesystem_lock()))
    session.commit(stats)

    for found in (peer_ours.read(path), judge.read(path)):
        notes = {each["id"]: (each["ts"], each["note"]) for each in found.to_pylist()}
        assert notes == {
            row(0, ts=2)["id"]: (2, "note 0"),
            row(1, ts=3)["id"]: (3, None),
            row(2, ts=1)["id"]: (1, None),
            row(3, ts=1)["id"]: (1, None),
        }


def test_columns_that_ours_add_at_once_are_read_by_apache_hudi(
    judge: Judge, tmp_path: Path
) -> None:
    """T-O17: two writers that opened the table before either wrote; then Apache Hudi adds one."""
    path = tmp_path / "table"
    first = pa.Table.from_pylist([row(n, ts=1) for n in range(3)], SCHEMA)
    peer_ours.Hoodie(table=TABLE).write(path, first, "upsert")
    early = table.open_table(str(path), environment.system())
    for number, name in enumerate(("left", "right")):
        wider = SCHEMA.append(pa.field(name, pa.int32()))
        data = pa.Table.from_pylist([row(number, ts=2, **{name: 7})], wider)
        early.write(data, adding(name))
    theirs = pa.Table.from_pylist(
        [row(2, ts=2, left=None, right=8, note="theirs")],
        pa.schema([*SCHEMA, ("left", pa.int32()), ("right", pa.int64()), ("note", pa.string())]),
    )
    judge.write(path, theirs, TABLE.nbcc_options(filesystem_lock()))
    for is_compacted in (False, True):
        if is_compacted:
            service = replace(adding("service").transaction, author=authors.Author())
            planned = early.schedule_compaction(service)
            assert planned is not None
            early.compact(planned, service)
        for found in (peer_ours.read(path), judge.read(path)):
            rows = {each["id"]: each for each in found.to_pylist()}
            assert [
                (rows[row(n, ts=1)["id"]]["left"], rows[row(n, ts=1)["id"]]["right"])
                for n in range(3)
            ] == [(7, None), (None, 7), (None, 8)]
            assert rows[row(2, ts=1)["id"]]["note"] == "theirs"


def test_columns_that_commands_add_at_once_are_read_by_apache_hudi(
    judge: Judge, tmp_path: Path
) -> None:
    """T-O17: two processes beside each other, a parquet file and a column each.

    Apache Hudi takes the columns of the write that was requested last, which may be the first to
    complete: then it finds the other column after the next write.
    """
    path = tmp_path / "table"
    first = pa.Table.from_pylist([row(n, ts=1) for n in range(3)], SCHEMA)
    peer_ours.Hoodie(table=TABLE).write(path, first, "upsert")

    def start(name: str, rows: pa.Table) -> subprocess.Popen[str]:
        pq.write_table(rows, tmp_path / f"{name}.parquet")
        arguments = peer_ours.write_arguments(
            path, tmp_path / f"{name}.parquet", "upsert", {settings.ADDS_COLUMNS_KEY: "true"}
        )
        writer = ("--concurrency", "nbcc", "--lock", "filesystem", "--writer-id", name)
        return peer_ours.start(*arguments, *writer)

    def end(process: subprocess.Popen[str]) -> None:
        told, _ = process.communicate(timeout=60)
        assert process.returncode == 0, told

    started = [
        start(
            name,
            pa.Table.from_pylist(
                [row(number, ts=2, **{name: 7})], SCHEMA.append(pa.field(name, pa.int64()))
            ),
        )
        for number, name in enumerate(("left", "right"))
    ]
    for process in started:
        end(process)
    by_ours = peer_ours.read(path)
    end(start("later", pa.Table.from_pylist([row(2, ts=2)], SCHEMA)))
    for found in (by_ours, peer_ours.read(path), judge.read(path)):
        rows_by_id = {each["id"]: each for each in found.to_pylist()}
        assert [
            (rows_by_id[row(n, ts=1)["id"]]["left"], rows_by_id[row(n, ts=1)["id"]]["right"])
            for n in range(3)
        ] == [(7, None), (None, 7), (None, None)]


def adding(writer_id: str) -> sessions.WriteOptions:
    """Return how a writer of ours adds columns."""
    return sessions.WriteOptions(
        operation=commits.Operation.UPSERT,
        transaction=manager.TransactionOptions(
            settings=settings.WriteSettings(
                concurrency=settings.ConcurrencyMode.NON_BLOCKING, adds_columns=True
            ),
            lock=address_texts.parse("filesystem"),
            author=authors.Author(writer_id=writer_id),
        ),
    )


def test_file_groups_of_a_clustering_plan_are_read(judge: Judge, tmp_path: Path) -> None:
    path = tmp_path / "table"
    options = replace(DEFAULTS, name="clustered").write_options()
    for ts in (1, 2):
        rows = pa.Table.from_pylist([row(n, ts=ts) for n in range(6)], SCHEMA)
        judge.write(path, rows, options)
    judge.sql(f"CALL run_clustering(path => '{path}', op => 'schedule')")
    (requested,) = (path / ".hoodie" / "timeline").glob("*.clustering.requested")
    opened = table.open_table(str(path), environment.system())
    groups = {each.group for each in opened.slices()}
    assert timeline_avro.decode_clustered_groups(requested.read_bytes()) == groups
    assert len(groups) == 3
