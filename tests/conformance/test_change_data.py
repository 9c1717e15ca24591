"""Change data: what each write of either side changed, as both readers return it.

Each table is written by both sides in turns, so that logs of one follow those of the other. What
Apache Hudi's own reader of changes returns of all writes is compared with what ours does, row by
row.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hoodie import environment, table
from support.peer import change_data, peer_ours
from support.peer.change_data import Change
from support.peer.judge import Judge, JudgeError
from support.peer.peer_cases import BASE, SCHEMA, row
from support.peer.peer_options import PeerTable, in_process_lock

Rows = list[dict[str, Any]]
Write = Callable[[str, Rows], None]
COW = replace(BASE, name="captured", merge_on_read=False)
MOR = replace(BASE, name="captured")
MODES = ("data_before_after", "data_before", "op_key_only")


def batch(rows: Rows) -> pa.Table:
    return pa.Table.from_pylist(rows, SCHEMA)


def ours(path: Path) -> table.Table:
    return table.open_table(str(path), environment.system(parallelism=2))


def changes_of(path: Path) -> list[Change]:
    return change_data.of_rows(ours(path).change_data().read().read_all())


def sides(
    judge: Judge, path: Path, peer: PeerTable, options: Mapping[str, str], mode: str
) -> tuple[Write, Write]:
    """Return how each side writes."""
    maker = peer_ours.Hoodie(
        table=peer,
        concurrency="single-writer",
        creation=["--change-data", mode.replace("_", "-")],
    )
    return (
        lambda operation, rows: maker.write(path, batch(rows), operation),
        lambda operation, rows: judge.write(path, batch(rows), options, operation=operation),
    )


def history(we: Write, they: Write, compact: Callable[[], None]) -> None:
    """Updates, also with equal rows; a row that is late; deletes, also of nothing; rows again."""
    we("upsert", [row(n, ts=10) for n in range(5)])
    they("upsert", [row(0, ts=20), row(1, ts=10), row(2, ts=5), row(6, ts=10)])
    we("upsert", [row(0, ts=21), row(1, ts=10), row(2, ts=5), row(7, ts=10)])
    they("delete", [row(3, ts=30), row(9, ts=30)])
    compact()
    we("delete", [row(4, ts=30), row(9, ts=30)])
    they("upsert", [row(0, ts=40), row(3, ts=40), row(4, ts=40)])
    we("upsert", [row(0, ts=50), row(8, ts=50)])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("version", [9, 8])
def test_copy_on_write(version: int, mode: str, judge: Judge, tmp_path: Path) -> None:
    if version == 8 and mode != MODES[0]:
        mode = MODES[1]
    peer, path = replace(COW, table_version=version), tmp_path / "table"
    options = peer.write_options() | change_data.captured(mode)
    we, they = sides(judge, path, peer, options, mode)
    history(we, they, lambda: None)
    # Where ours merges no rows, Apache Hudi cannot read the changes of its own insert.
    we("insert", [row(11, ts=60), row(10, ts=60)])
    we("insert_overwrite", [row(0, ts=70)])
    found = change_data.of_judge(judge, path)
    assert change_data.of_pairs(found) == change_data.of_pairs(changes_of(path))
    assert [each.op for each in found].count("d") >= 3, found
    assert judge.read(path).num_rows == peer_ours.read(path).num_rows


@pytest.mark.parametrize("mode", MODES[:2])
@pytest.mark.parametrize("version", [9, 8])
def test_merge_on_read(version: int, mode: str, judge: Judge, tmp_path: Path) -> None:
    """Compactions by ours and theirs lie between; their logs are there, and are no changes."""
    peer, path = replace(MOR, table_version=version), tmp_path / "table"
    options = peer.write_options() | change_data.captured(mode)
    we, they = sides(judge, path, peer, options, mode)
    if mode == MODES[0]:
        history(we, they, lambda: peer_ours.hoodie("compact", path, "--lock", "filesystem"))
    else:
        history(we, they, lambda: judge.compact(path, options))
    they("insert_overwrite", [row(0, ts=70)])
    found = change_data.of_judge(judge, path)
    assert change_data.of_pairs(found) == change_data.of_pairs(changes_of(path))
    assert sum(1 for _ in path.rglob("*.cdc")) >= 4


def test_pending_compactions(judge: Judge, tmp_path: Path) -> None:
    """Log files behind the plan of a compaction stand on those that it merges.

    A commit of Apache Hudi 1.2.0 does not say so: its reader of changes looks into the plan, and
    fails as soon as the compaction has completed.
    """
    peer, path = MOR, tmp_path / "table"
    options = peer.write_options() | change_data.captured(MODES[0])
    we, they = sides(judge, path, peer, options, MODES[0])
    we("upsert", [row(n, ts=10) for n in range(5)])
    we("upsert", [row(0, ts=20)])
    planned = peer_ours.hoodie("compact", path, "--schedule", "--lock", "filesystem")["instant"]
    we("upsert", [row(0, ts=30), row(1, ts=30)])
    we("upsert", [row(0, ts=40), row(2, ts=40)])
    assert change_data.of_judge(judge, path) == changes_of(path)
    judge.execute_compaction(path, planned, options)
    we("upsert", [row(0, ts=50)])
    assert change_data.of_judge(judge, path) == changes_of(path)
    planned = peer_ours.hoodie("compact", path, "--schedule", "--lock", "filesystem")["instant"]
    they("upsert", [row(0, ts=60)])
    expected = changes_of(path)
    assert change_data.of_judge(judge, path) == expected
    peer_ours.hoodie("compact", path, "--execute", planned, "--lock", "filesystem")
    with pytest.raises(JudgeError, match="No value present in Option"):
        change_data.of_judge(judge, path)
    assert changes_of(path) == expected


@pytest.mark.parametrize("is_planned", [False, True])
def test_replaced_beside_a_pending_compaction(
    is_planned: bool, judge: Judge, tmp_path: Path
) -> None:
    """Apache Hudi 1.2.0 has no deletes of the rows that a plan and a later log file are about."""
    peer, path = replace(MOR, buckets=None), tmp_path / "table"
    options = peer.write_options() | change_data.captured(MODES[0])
    judge.write(path, batch([row(n, ts=10, part="north") for n in range(3)]), options)
    judge.write(path, batch([row(0, ts=20, part="north")]), options)
    if is_planned:
        assert judge.schedule_compaction(path, options) is not None
    judge.write(path, batch([row(1, ts=30, part="north")]), options)
    overwriting = batch([row(7, ts=40, part="north")])
    judge.write(path, overwriting, options, operation="insert_overwrite")
    found = change_data.of_judge(judge, path)
    ours_found = changes_of(path)
    assert [each.op for each in ours_found].count("d") == 3
    if is_planned:
        ours_found = [each for each in ours_found if each.op != "d"]
    assert found == ours_found


def test_log_files_alone(judge: Judge, tmp_path: Path) -> None:
    """Buckets of non-blocking writers begin so: Apache Hudi does not read its own changes there."""
    options = MOR.nbcc_options(in_process_lock()) | change_data.captured(MODES[0])
    judge.write(tmp_path / "t", batch([row(0, ts=10), row(3, ts=10)]), options)
    judge.write(tmp_path / "t", batch([row(0, ts=20)]), options)
    with pytest.raises(JudgeError, match="No value present in Option"):
        change_data.of_judge(judge, tmp_path / "t")
    assert sorted(each.op for each in changes_of(tmp_path / "t")) == ["i", "i", "u"]


@pytest.mark.parametrize("mode", MODES)
def test_table_of_theirs_is_written_by_ours(mode: str, judge: Judge, tmp_path: Path) -> None:
    """With the bloom index, whose inserts go to base files that are there."""
    peer, path = replace(COW, buckets=None, name="theirs"), tmp_path / "table"
    options = peer.write_options() | change_data.captured(mode)
    judge.write(path, batch([row(n, ts=10) for n in range(5)]), options)
    peer_ours.hoodie("adopt", path, "--index", "bloom", "--lock", "filesystem")
    we, _ = sides(judge, path, peer, options, mode)
    we("upsert", [row(0, ts=21), row(1, ts=10), row(2, ts=5), row(7, ts=10)])
    # A writer needs no option: the table says it.
    judge.write(path, batch([row(0, ts=30), row(12, ts=10)]), peer.write_options())
    we("delete", [row(0, ts=40)])
    assert change_data.of_judge(judge, path) == changes_of(path)


def test_their_inserts_that_they_cannot_read(judge: Judge, tmp_path: Path) -> None:
    """Rows that are added to a base file have no change data there; ours compares."""
    peer, path = replace(COW, partition_by=(), buckets=1), tmp_path / "table"
    options = peer.write_options() | change_data.captured(MODES[0])
    judge.write(path, batch([row(0, ts=10)]), options)
    judge.write(path, batch([row(0, ts=20), row(1, ts=20)]), options, operation="insert")
    with pytest.raises(JudgeError, match="There should be a cdc log file"):
        change_data.of_judge(judge, path)
    assert [each.op for each in changes_of(path)] == ["i", "i", "i"]


def test_without_change_data_changes_are_computed(judge: Judge, tmp_path: Path) -> None:
    """What Apache Hudi refuses: It isn't a CDC hudi table."""
    with_logs, without = tmp_path / "with", tmp_path / "without"
    for path, more in ((with_logs, change_data.captured(MODES[0])), (without, {})):
        for operation, rows in (
            ("upsert", [row(n, ts=10) for n in range(5)]),
            ("upsert", [row(0, ts=20), row(2, ts=5), row(6, ts=10)]),
            ("delete", [row(3, ts=30)]),
        ):
            options = COW.write_options() | more
            judge.write(path, batch(rows), options, operation=operation)
    expected = [each._replace(time="") for each in change_data.of_judge(judge, with_logs)]
    found = [each._replace(time="") for each in changes_of(without)]
    assert sorted(found, key=repr) == sorted(expected, key=repr)
    with pytest.raises(JudgeError, match="CDC"):
        change_data.of_judge(judge, without)


@pytest.mark.parametrize("mode", MODES)
def test_captured_from_a_later_time_on(mode: str, judge: Judge, tmp_path: Path) -> None:
    """Apache Hudi's writers capture, too, once the table says so, and its reader reads from there.

    Where capturing ended its writers store nothing more, without an option.
    """
    peer, path = replace(COW, name="later"), tmp_path / "table"
    options = peer.write_options()
    judge.write(path, batch([row(n, ts=10) for n in range(5)]), options)
    judge.write(path, batch([row(0, ts=20)]), options)
    lock = ("--lock", "filesystem")
    peer_ours.hoodie("adopt", path, "--index", "bucket", "--buckets", str(peer.buckets), *lock)
    begun = ours(path).timeline().completed_writes[-1].requested_time
    peer_ours.hoodie("configure", path, "--change-data", mode.replace("_", "-"), *lock)
    we = peer_ours.Hoodie(table=peer, concurrency="single-writer")
    judge.write(path, batch([row(0, ts=30), row(7, ts=30)]), options)
    we.write(path, batch([row(0, ts=40), row(1, ts=40)]), "upsert")
    judge.write(path, batch([row(2, ts=50)]), options, operation="delete")
    assert len({each.name.split("_")[1].partition(".")[0] for each in path.rglob("*.cdc")}) == 3
    theirs = change_data.of_judge(judge, path, begin=begun)
    since = change_data.of_rows(ours(path).change_data(begun).read().read_all())
    assert theirs == since
    assert len(since) == 5
    assert len(changes_of(path)) == len(since) + 6
    peer_ours.hoodie("configure", path, "--change-data", "off", *lock)
    logs = set(path.rglob("*.cdc"))
    judge.write(path, batch([row(0, ts=60)]), options)
    we.write(path, batch([row(1, ts=60)]), "upsert")
    assert set(path.rglob("*.cdc")) == logs
    assert [each.op for each in changes_of(path)].count("u") == 6
