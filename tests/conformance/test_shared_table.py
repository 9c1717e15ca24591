"""One table of ours with a JVM writer and our writers at once: no acknowledged write is lost.

Whole rows with distinct ordering values (design.md section 5, case (a)): the content is then the
newest row of each key, however the writers and the compactions fell together.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hoodie import environment, table
from hoodie.model import settings
from hoodie.services import checking
from support.peer import peer_ours
from support.peer.judge import Gate, InstantState, Judge, Query
from support.peer.peer_cases import BASE, SCHEMA, row
from support.peer.peer_hudi_rs import read_with_hudi_rs
from support.peer.peer_listings import assert_same_files
from support.peer.peer_options import PeerTable, filesystem_lock, zookeeper_lock
from support.peer.peer_rows import assert_same_rows

TABLE = replace(BASE, name="shared", partition_by=(), buckets=2)
WITH_METADATA = replace(
    TABLE,
    metadata_table=True,
    extra={"hoodie.metadata.compact.max.delta.commits": "5"},
)
KEYS = 60
ROUNDS = 4


def batch(writer: int, number: int) -> pa.Table:
    """Return a batch of a writer: every second or third key, at a time that no other batch has."""
    step = 2 + writer % 2
    ts = 1000 + number * 10 + writer
    return pa.Table.from_pylist([row(n, ts=ts) for n in range(writer, KEYS, step)], SCHEMA)


def newest(batches: Sequence[pa.Table]) -> pa.Table:
    rows: dict[str, dict[str, object]] = {}
    for one in batches:
        for each in one.to_pylist():
            old = rows.get(each["id"])
            if old is None or each["ts"] >= old["ts"]:
                rows[each["id"]] = each
    return pa.Table.from_pylist(list(rows.values()), SCHEMA)


class OurWriter:
    """Runs each write as a process of its own; counts those that were acknowledged."""

    def __init__(self, path: Path, lock: str, number: int) -> None:
        self._path = path
        self._lock = lock
        self._number = number
        self.acknowledged: list[pa.Table] = []

    def run(self) -> None:
        for number in range(ROUNDS):
            rows = batch(self._number, number)
            source = self._path.parent / f"input-{self._number}-{number}.parquet"
            pq.write_table(rows, source)
            arguments = peer_ours.write_arguments(self._path, source, "upsert", {})
            arguments += ["--concurrency", "nbcc", "--writer-id", f"writer-{self._number}"]
            with peer_ours.start(*arguments, "--lock", self._lock) as process:
                answer, _ = process.communicate(timeout=120)
            assert process.returncode == 0, answer
            self.acknowledged.append(rows)


def lock_of(kind: str, zookeeper: str) -> tuple[str, dict[str, str]]:
    if kind == "filesystem":
        return "filesystem", filesystem_lock(skew_ms=200)
    options = zookeeper_lock(zookeeper, base_path="/hudi", lock_key=TABLE.name, skew_ms=200)
    return f"zookeeper://{zookeeper}/hudi/{TABLE.name}", options


@pytest.mark.parametrize(
    ("kind", "shared"),
    [("zookeeper", TABLE), ("filesystem", TABLE), ("zookeeper", WITH_METADATA)],
    ids=["zookeeper", "filesystem", "with metadata table"],
)
def test_jvm_writer_and_ours_and_a_compactor_lose_nothing(
    kind: str, shared: PeerTable, judge: Judge, zookeeper: str, tmp_path: Path
) -> None:
    """T-N02; T-M01 with a metadata table."""
    path = tmp_path / "table"
    lock, options = lock_of(kind, zookeeper)
    options = shared.nbcc_options(options)
    peer_ours.create(path, shared, SCHEMA)
    if shared.metadata_table:
        peer_ours.hoodie("metadata", "init", path, "--lock", lock)
    ours = [OurWriter(path, lock, number) for number in (1, 2)]
    theirs: list[pa.Table] = []
    compactions: list[str] = []

    def write_theirs() -> None:
        for number in range(ROUNDS):
            judge.write(path, batch(3, number), options)
            theirs.append(batch(3, number))

    def compact() -> None:
        maker = peer_ours.Hoodie(table=TABLE, lock=lock)
        for _ in range(ROUNDS // 2):
            instant = maker.schedule_compaction(path)
            if instant is not None:
                maker.execute_compaction(path, instant)
                compactions.append(instant)

    with ThreadPoolExecutor() as threads:
        work = [threads.submit(writer.run) for writer in ours]
        work += [threads.submit(write_theirs), threads.submit(compact)]
        for each in work:
            each.result()

    acknowledged = [*theirs, *(rows for writer in ours for rows in writer.acknowledged)]
    expected = newest(acknowledged)
    assert len(acknowledged) == 3 * ROUNDS
    assert_same_rows(judge.read(path), expected, ["id"])
    assert_same_rows(peer_ours.read(path), expected, ["id"])
    if not shared.metadata_table:  # By one it leaves out file groups without base files.
        assert_same_rows(read_with_hudi_rs(path), expected, ["id"])
    judge.compact(path, options)
    assert_same_rows(judge.read(path), expected, ["id"])
    assert_same_rows(peer_ours.read(path, "--read-optimized"), expected, ["id"])
    if shared.metadata_table:
        assert_same_files(path)
        by_metadata = Query(use_metadata_table=True)
        assert_same_rows(judge.read(path, by_metadata), expected, ["id"])
        assert_same_rows(read_with_hudi_rs(path), expected, ["id"])
    instants = judge.timeline(path)
    assert all(instant.state is InstantState.COMPLETED for instant in instants)
    times = [i.completion_time for i in instants] + [i.requested_time for i in instants]
    assert len(set(times)) == len(times)
    assert peer_ours.hoodie("check", path)["findings"] == []
    # The chain knows whose each is: three of ours by a commit of theirs each round, and the rest.
    maker = peer_ours.Hoodie(table=TABLE, lock=lock)
    maker.write(path, batch(1, ROUNDS), "upsert")
    epochs = peer_ours.hoodie("timeline", path, "--chain")["epochs"]
    foreign = {name.partition("_")[0] for each in epochs for name in each["foreign"]}
    authors = {each["author"] for each in epochs}
    assert len(foreign) == len(instants) - len(ours) * ROUNDS - len(compactions)
    assert {"writer writer-1", "writer writer-2"} < authors


def test_jvm_writer_of_a_table_that_excludes_it_is_reported(judge: Judge, tmp_path: Path) -> None:
    """CH13: by the next commit, by the check, and no row of either is lost here."""
    path = tmp_path / "table"
    maker = peer_ours.Hoodie(table=TABLE, creation=["--no-foreign-writers"])
    maker.write(path, batch(1, 0), "upsert")
    judge.write(path, batch(2, 0), TABLE.nbcc_options(filesystem_lock()))
    expected = "was completed by another engine, expected none to write a table with"
    for _ in range(2):  # Found before our next commit, and kept since.
        checked = table.open_table(str(path), environment.system()).check(settings.WriteSettings())
        # Until then their commit is hidden, so that it is noted as in progress.
        (finding,) = checking.errors_of(checked)
        assert expected in finding.message
        maker.write(path, batch(1, 1), "upsert")
    assert_same_rows(peer_ours.read(path), newest([batch(1, 0), batch(2, 0), batch(1, 1)]), ["id"])


def test_our_compaction_leaves_out_a_jvm_writer_in_flight(
    judge: Judge, second_judge: Judge, tmp_path: Path
) -> None:
    """T-N10."""
    path = tmp_path / "table"
    options = TABLE.nbcc_options(filesystem_lock())
    maker = peer_ours.Hoodie(table=TABLE)
    maker.write(path, batch(1, 0), "upsert")
    gate = Gate(path=tmp_path / "gate")
    late = batch(2, 1)
    with ThreadPoolExecutor() as threads:
        slow = threads.submit(second_judge.write, path, late, options, gate=gate)
        try:
            while all(i.state is InstantState.COMPLETED for i in judge.timeline(path)):
                assert not slow.done(), slow.result()
            maker.write(path, batch(1, 2), "upsert")
            plan = maker.schedule_compaction(path)
            assert plan is not None
            maker.execute_compaction(path, plan)
            assert_same_rows(judge.read(path), newest([batch(1, 0), batch(1, 2)]), ["id"])
        finally:
            gate.open()
        slow.result()
    expected = newest([batch(1, 0), late, batch(1, 2)])
    assert_same_rows(judge.read(path), expected, ["id"])
    assert_same_rows(peer_ours.read(path), expected, ["id"])


def test_default_metadata_table_of_another_engine_is_kept_up(judge: Judge, tmp_path: Path) -> None:
    path = tmp_path / "table"
    maker = peer_ours.Hoodie(table=TABLE)
    maker.write(path, batch(1, 0), "upsert")
    options = replace(TABLE, metadata_table=True).nbcc_options(filesystem_lock())
    judge.write(path, batch(2, 0), options)
    maker.write(path, batch(1, 1), "upsert")
    expected = newest([batch(1, 0), batch(2, 0), batch(1, 1)])
    assert_same_files(path)
    assert_same_rows(judge.read(path, Query(use_metadata_table=True)), expected, ["id"])
    assert_same_rows(peer_ours.read(path), expected, ["id"])
