"""Tables without buckets, as Apache Hudi makes them by default, changed by both engines in turn.

Its writers have the simple or the bloom index, or a record index; ours the one that the table was
adopted with. After each step both read the same rows, by listing and by metadata table, no key is
in two file groups, and the rows are those of a model.
"""

import shutil
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from hoodie import errors
from support.peer import peer_ours, peer_sessions, peer_turns
from support.peer.judge import RELEASE, Gate, Judge, JudgeError, Query
from support.peer.peer_cases import BASE, COMMIT_TIME, rows_of
from support.peer.peer_indexes import ASYNC
from support.peer.peer_options import PeerTable, filesystem_lock, table_properties
from support.peer.peer_rows import assert_same_rows

KEY = ["part", "id"]
SIMPLE = replace(BASE, name="found", buckets=None, bloom_filter=True)
BLOOM = replace(SIMPLE, extra={"hoodie.index.type": "BLOOM"})
RECORD_INDEX = {
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
}
OFTEN = {"hoodie.metadata.compact.max.delta.commits": "4"}


def with_metadata(made: PeerTable, **more: str) -> PeerTable:
    return replace(made, metadata_table=True, extra={**made.extra, **OFTEN, **more})


TABLES: Mapping[str, tuple[PeerTable, str]] = {
    "mor, simple": (SIMPLE, "simple"),
    "cow, bloom": (replace(BLOOM, merge_on_read=False), "bloom"),
    "mor, bloom, metadata, avro logs": (
        with_metadata(replace(BLOOM, parquet_logs=False)),
        "bloom",
    ),
    "cow, simple, metadata": (with_metadata(replace(SIMPLE, merge_on_read=False)), "simple"),
    # With their simple index in such a table Apache Hudi forgets, in the record index, keys that
    # come back after their deletion.
    "mor, theirs record index and ours simple": (
        replace(
            with_metadata(SIMPLE),
            extra={**OFTEN, **RECORD_INDEX, "hoodie.index.type": "RECORD_INDEX"},
        ),
        "simple",
    ),
    "cow, theirs bloom and ours simple, without partitions": (
        replace(BLOOM, merge_on_read=False, partition_by=()),
        "simple",
    ),
    "mor, simple, by commit time, version 8": (
        replace(COMMIT_TIME, name="found", buckets=None, bloom_filter=True, table_version=8),
        "simple",
    ),
}
if RELEASE.startswith("1.0."):
    TABLES = {kind: each for kind, each in TABLES.items() if each[0].table_version == 8}


def steps(turns: peer_turns.Turns, index: str) -> Iterator[str]:
    small = {"hoodie.parquet.small.file.limit": "0"}
    turns.theirs(range(12), 1)
    yield "created by theirs"
    turns.adopt("--index", index)
    turns.write(range(6, 20), 2)
    yield "upserted by ours, to small files"
    turns.theirs(range(10, 24), 3)
    yield "upserted by theirs"
    turns.write(range(15, 33), 4, **small)
    yield "upserted by ours, to new file groups"
    turns.write(range(12, 18), 5, "delete")
    yield "deleted by ours"
    turns.theirs(range(22, 28), 6, "delete")
    yield "deleted by theirs"
    turns.write(range(14, 26), 7)
    yield "partly brought back by ours"
    turns.theirs(range(12, 36), 8)
    yield "partly brought back by theirs"
    if turns.made.merge_on_read:
        turns.compact()
        yield "compacted by ours"
        turns.write(range(3), 9)
        turns.judge.compact(turns.path, turns.options)
        yield "compacted by theirs"
    turns.write(range(40, 44), 10, "insert")
    yield "inserted by ours"
    turns.theirs(range(44, 48), 11, "insert")
    yield "inserted by theirs"
    turns.write(range(48, 52), 12, "bulk_insert")
    yield "bulk inserted by ours"
    clean = ["clean", turns.path, "--keep-commits", "1", "--grace", "0", "--lock", "filesystem"]
    peer_ours.hoodie(*clean)
    yield "cleaned by ours"
    turns.theirs(range(30, 50), 13)
    turns.judge.clean(turns.path, turns.options)
    yield "cleaned by theirs"
    turns.write(range(44, 60), 14)
    turns.theirs(range(50, 64), 15)
    yield "upserted by both"


@pytest.mark.parametrize("kind", TABLES)
def test_both_engines_find_rows_by_their_keys(kind: str, judge: Judge, tmp_path: Path) -> None:
    made, index = TABLES[kind]
    path = tmp_path / "table"
    turns = peer_turns.Turns(judge, path, made, settings=OFTEN)
    for step in steps(turns, index):
        try:
            expected = turns.model.content()
            assert_same_rows(judge.read(path), expected, KEY)
            assert_same_rows(peer_ours.read(path), expected, KEY)
            if made.metadata_table:
                by_metadata = Query(use_metadata_table=True)
                assert_same_rows(judge.read(path, by_metadata), expected, KEY)
        except AssertionError as error:
            raise AssertionError(f"{step}: {error}") from error
    if made.metadata_table:
        validated = peer_ours.hoodie("metadata", "validate", path)
        found = [validated[name] for name in ("differences", "statistics", "filters", "keys")]
        assert found == [[], [], [], []]
    assert table_properties(path)["hoodie.operator.index"] == index.upper()


@pytest.mark.parametrize("merge_on_read", [True, False])
def test_key_that_they_insert_meanwhile_is_not_inserted_twice(
    judge: Judge, tmp_path: Path, *, merge_on_read: bool
) -> None:
    path = tmp_path / "table"
    turns = peer_turns.Turns(judge, path, replace(SIMPLE, merge_on_read=merge_on_read))
    turns.theirs(range(6), 1)
    peer_ours.hoodie("adopt", path, "--index", "simple")
    to_new_groups = replace(peer_sessions.OPTIMISTIC, small_file_bytes=0)
    session, written = peer_sessions.begun(path, rows_of(range(8, 9), 2), to_new_groups)
    turns.theirs(range(8, 9), 3)
    with pytest.raises(errors.WriteConflictError, match="key-008"):
        session.commit(written)
    turns.write(range(8, 9), 4)
    assert_same_rows(judge.read(path), turns.model.content(), KEY)


@pytest.mark.parametrize("is_compacted", [True, False])
def test_key_that_they_brought_back_is_there_twice_if_the_index_is_dropped_before_a_compaction(
    judge: Judge, tmp_path: Path, *, is_compacted: bool
) -> None:
    """By the simple index they find it in two base files, though a log file has deleted one."""
    path = tmp_path / "table"
    made, index = TABLES["mor, theirs record index and ours simple"]
    turns = peer_turns.Turns(judge, path, made)
    turns.theirs(range(12), 1)
    turns.theirs(range(2), 2, "delete")
    turns.theirs(range(2), 3)
    turns.adopt("--index", index)
    if is_compacted:
        turns.compact()
    peer_ours.hoodie("index", "drop", path, "record_index", "--lock", "filesystem")
    turns.options |= dict.fromkeys(RECORD_INDEX, "false") | {"hoodie.index.type": "SIMPLE"}
    turns.theirs(range(2), 4)
    found = judge.read(path)
    if is_compacted:
        assert_same_rows(found, turns.model.content(), KEY)
        return
    assert found.num_rows == 12 + 2
    assert_same_rows(peer_ours.read(path), found, KEY)


LOOKED_UP = {
    "of the table": ("RECORD_INDEX", "hoodie.metadata.global.record.level.index.enable"),
    "of each partition": ("RECORD_LEVEL_INDEX", "hoodie.metadata.record.level.index.enable"),
}


def with_record_index(
    judge: Judge, path: Path, index: str, *, merge_on_read: bool = False
) -> tuple[dict[str, str], dict[str, str]]:
    """Make a table with a record index; return options of writers that drop and that keep it."""
    index_type, option = LOOKED_UP[index]
    made = replace(with_metadata(SIMPLE), merge_on_read=merge_on_read)
    options = made.occ_options(filesystem_lock()) | {"hoodie.embed.timeline.server": "true"}
    indexed = options | {option: "true", "hoodie.index.type": index_type}
    judge.write(path, rows_of(range(12), 1), indexed)
    return options, indexed


def drop_record_index(path: Path, *, is_deleted: bool = True) -> None:
    """Drop it ourselves; the files stay if only the table's properties change."""
    folder, aside = path / ".hoodie/metadata/record_index", path.parent / "aside"
    if not is_deleted:
        shutil.copytree(folder, aside)
    peer_ours.hoodie("index", "drop", path, "record_index", "--lock", "filesystem")
    if not is_deleted:
        shutil.rmtree(folder)
        aside.rename(folder)


@pytest.mark.parametrize("index", LOOKED_UP)
@pytest.mark.parametrize("is_dropped_by_ours", [True, False], ids=["ours", "theirs"])
def test_write_of_theirs_whose_record_index_is_dropped_before_it_looks_keys_up_fails(
    index: str, judge: Judge, second_judge: Judge, tmp_path: Path, *, is_dropped_by_ours: bool
) -> None:
    """Whichever engine drops it; nothing is written, and the batch can be written again."""
    path = tmp_path / "table"
    options, indexed = with_record_index(judge, path, index)
    before = judge.read(path)
    gate = Gate(path=tmp_path / "gate")
    batch = rows_of(range(6, 15), 7)
    with ThreadPoolExecutor(1) as threads:
        slow = threads.submit(second_judge.write, path, batch, indexed, gate=gate)
        with gate.holding(slow):
            if is_dropped_by_ours:
                drop_record_index(path)
            else:
                judge.write(path, rows_of(range(1), 2), options)
                before = judge.read(path)
        with pytest.raises(JudgeError, match="Record index is not initialized in MDT"):
            slow.result()
    assert_same_rows(judge.read(path), before, KEY)
    judge.write(path, batch, options)
    found = judge.read(path)
    assert sorted(found.column("id").to_pylist()) == [f"key-{each:03d}" for each in range(15)]
    assert_same_rows(peer_ours.read(path), found, KEY)


@pytest.mark.parametrize("index", LOOKED_UP)
@pytest.mark.parametrize("is_deleted", [True, False], ids=["deleted", "left"])
def test_look_up_of_theirs_falls_back_only_if_the_files_of_a_dropped_index_are_gone(
    index: str, second_judge: Judge, tmp_path: Path, *, is_deleted: bool
) -> None:
    """Of a write that has opened the table before: it counts file groups, and its tasks look up.

    Thus a drop leaves no files when it has changed the properties (protocol.md, IF5).
    """
    path = tmp_path / "table"
    _, indexed = with_record_index(second_judge, path, index)
    gate = Gate(path=tmp_path / "gate")
    rows = rows_of(range(6, 15), 7)
    keys = pa.table({"key": rows.column("id"), "partition": rows.column("part")})
    with ThreadPoolExecutor(1) as threads:
        slow = threads.submit(second_judge.tag, path, keys, indexed, gate=gate)
        with gate.holding(slow):
            drop_record_index(path, is_deleted=is_deleted)
        if is_deleted:
            assert slow.result()[1] == len(range(6, 12))
            return
        with pytest.raises(JudgeError, match="Record index is not initialized in MDT"):
            slow.result()


@pytest.mark.parametrize("index", LOOKED_UP)
@pytest.mark.parametrize("writer", ["of another index", "that waits for it", "that makes it"])
def test_writes_of_theirs_that_begin_where_files_of_a_dropped_record_index_are_left_succeed(
    writer: str, index: str, judge: Judge, tmp_path: Path
) -> None:
    """As a drop leaves them that is killed right after it has changed the properties."""
    path = tmp_path / "table"
    options, indexed = with_record_index(judge, path, index, merge_on_read=True)
    drop_record_index(path, is_deleted=False)
    chosen = {
        "of another index": options,
        "that waits for it": indexed | ASYNC,
        "that makes it": indexed,
    }[writer]
    for step in range(3):
        judge.write(path, rows_of(range(6 + 3 * step, 15 + 3 * step), 7 + step), chosen)
    names = table_properties(path)["hoodie.table.metadata.partitions"].split(",")
    assert ("record_index" in names) == (writer == "that makes it")
    found = judge.read(path, Query(use_metadata_table=True))
    assert sorted(found.column("id").to_pylist()) == [f"key-{each:03d}" for each in range(21)]
    assert_same_rows(peer_ours.read(path), found, KEY)
    validated = peer_ours.hoodie("metadata", "validate", path)
    assert not any(validated[each] for each in ("differences", "statistics", "filters", "keys"))
    drop_record_index(path)
    assert not [*(path / ".hoodie/metadata/record_index").glob("*record-index*")]
    judge.write(path, rows_of(range(12, 24), 10), options)
    found = judge.read(path)
    assert sorted(found.column("id").to_pylist()) == [f"key-{each:03d}" for each in range(24)]
