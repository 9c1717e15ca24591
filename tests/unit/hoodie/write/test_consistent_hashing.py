"""Writes to tables with consistent hashing, whose buckets clusterings of others split."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from hoodie import errors
from hoodie.index import consistent_hashing
from hoodie.model import commits, settings, table_config
from hoodie.timeline import hash_rings
from hoodie.write import sessions
from support.peer.replacements import Replacements
from support.tables.tables import CONFIG, SmallTable

RINGS = replace(CONFIG, index=table_config.IndexKind.CONSISTENT_HASHING, bucket_count=3)
ROWS: list[dict[str, object]] = [
    {"id": str(number), "part": part, "a": number, "b": "x"}
    for part in ("p", "q")
    for number in range(30)
]
SINGLE, OPTIMISTIC, NON_BLOCKING = (
    settings.ConcurrencyMode.SINGLE_WRITER,
    settings.ConcurrencyMode.OPTIMISTIC,
    settings.ConcurrencyMode.NON_BLOCKING,
)
Row = dict[str, object]


@pytest.fixture
def small(tmp_path: Path) -> SmallTable:
    found = SmallTable(tmp_path / "t", RINGS)
    found.upsert(ROWS, concurrency=SINGLE)
    return found


def by_key(rows: list[Row]) -> dict[tuple[object, object], Row]:
    found = {(row["part"], row["id"]): row for row in rows}
    assert len(found) == len(rows)
    return found


def live_ids(small: SmallTable, partition: str) -> set[str]:
    return {each.file_id for each in Replacements(small).live_groups(partition)}


@pytest.mark.parametrize("mode", [SINGLE, OPTIMISTIC])
def test_upserts_inserts_and_deletes_go_to_the_nodes_of_the_ring(
    small: SmallTable, mode: settings.ConcurrencyMode
) -> None:
    changed: list[Row] = [{**row, "a": 100} for row in ROWS[::2]]
    new: Row = {"id": "new", "part": "r", "a": 1, "b": "y"}
    small.upsert([*changed, new], concurrency=mode)
    small.upsert([{**new, "id": "other"}], operation=commits.Operation.INSERT, concurrency=mode)
    small.delete([{"id": row["id"], "part": row["part"]} for row in ROWS[:3]], concurrency=mode)
    assert small.compact() is not None
    small.delete([{"id": "5", "part": "q"}], concurrency=mode)
    expected = by_key(ROWS) | by_key(changed) | {("r", "new"): new}
    expected["r", "other"] = {**new, "id": "other"}
    for row in ROWS[:3]:
        del expected[row["part"], row["id"]]
    del expected["q", "5"]
    assert by_key(small.rows()) == expected
    assert small.problems() == []
    assert live_ids(small, "p") == set(hash_rings.initial("p", 3).file_ids)
    assert (small.path / hash_rings.DIRECTORY / "r" / "00000000000000.hashing_meta").exists()


def test_table_without_partitions_has_one_ring(tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "t", replace(RINGS, partition_fields=()))
    rows = ROWS[:30]
    small.upsert(rows, concurrency=SINGLE)
    small.upsert(rows[:3], concurrency=OPTIMISTIC)
    assert by_key(small.rows()) == by_key(rows)
    assert live_ids(small, "") == set(hash_rings.initial("", 3).file_ids)
    assert (small.path / hash_rings.DIRECTORY / "00000000000000.hashing_meta").exists()
    assert small.problems() == []


def test_writes_follow_a_ring_that_was_split(small: SmallTable) -> None:
    retired = Replacements(small).split("p")
    assert by_key(small.rows()) == by_key(ROWS)
    changed = [{**row, "a": 100} for row in ROWS]
    small.upsert(changed, concurrency=OPTIMISTIC)
    assert by_key(small.rows()) == by_key(changed)
    assert retired not in live_ids(small, "p")
    assert small.problems() == []


def test_write_to_a_node_that_is_split_meanwhile_is_a_conflict(small: SmallTable) -> None:
    options = small.options(concurrency=OPTIMISTIC)
    session = small.table.begin_write(options, ["id", "part", "a", "b"])
    assert isinstance(session, sessions.WriteSession)
    written = small.write_files(session, ROWS)
    Replacements(small).split("p")
    with pytest.raises(errors.WriteConflictError):
        session.commit(written)
    assert by_key(small.rows()) == by_key(ROWS)


def test_first_rows_of_a_node_that_is_split_meanwhile_are_a_conflict(tmp_path: Path) -> None:
    """There was no file group yet that the clustering could have retired."""
    small = SmallTable(tmp_path / "t", RINGS)
    index = consistent_hashing.ConsistentHashingIndex(RINGS, hash_rings.initial("p", 3))
    tags = index.tag(pa.array([str(row["id"]) for row in ROWS[:30]])).tolist()
    first = [row for row, tag in zip(ROWS, tags, strict=False) if tag == 0]
    others = [row for row, tag in zip(ROWS, tags, strict=False) if tag == 1]
    small.upsert(first, concurrency=SINGLE)
    session = small.table.begin_write(small.options(concurrency=SINGLE), ["id", "part", "a", "b"])
    assert isinstance(session, sessions.WriteSession)
    written = small.write_files(session, others)
    Replacements(small).split("p", 1)
    with pytest.raises(errors.WriteConflictError, match="split or merged"):
        session.commit(written)
    small.upsert(others, concurrency=SINGLE)
    small.upsert(others, concurrency=SINGLE)
    assert by_key(small.rows()) == by_key(first) | by_key(others)
    assert small.problems() == []


def test_write_to_a_node_that_is_to_be_split_waits_for_that(small: SmallTable) -> None:
    here = Replacements(small)
    here.plan_clustering(here.live_groups("p")[:1])
    with pytest.raises(errors.WriteConflictError, match="to retire"):
        small.upsert(ROWS, concurrency=OPTIMISTIC)
    small.upsert([row for row in ROWS if row["part"] == "q"], concurrency=OPTIMISTIC)


def test_non_blocking_writers_are_refused(small: SmallTable) -> None:
    with pytest.raises(errors.ConfigurationError, match="simple bucket index"):
        small.upsert(ROWS, concurrency=NON_BLOCKING)


@pytest.mark.parametrize(
    "operation", [commits.Operation.INSERT_OVERWRITE, commits.Operation.INSERT_OVERWRITE_TABLE]
)
def test_replacements_are_refused(small: SmallTable, operation: commits.Operation) -> None:
    with pytest.raises(errors.UnsupportedError, match="consistent hashing"):
        small.upsert(ROWS, operation=operation, concurrency=SINGLE)


def test_partition_that_another_engine_has_overwritten_is_refused(small: SmallTable) -> None:
    """Apache Hudi 1.2.0 writes there, and shows nothing of it."""
    Replacements(small).retire(Replacements(small).live_groups("p"))
    with pytest.raises(errors.UnsupportedError, match="was retired"):
        small.upsert(ROWS, concurrency=SINGLE)
    small.upsert([row for row in ROWS if row["part"] == "q"], concurrency=SINGLE)


def test_keys_in_file_groups_of_no_node_are_updated_there(small: SmallTable) -> None:
    other = {"id": "far", "part": "p", "a": 1, "b": "x"}
    Replacements(small).add_group("p", [other])
    small.upsert([{**other, "a": 2}], concurrency=SINGLE)
    assert [row["a"] for row in small.rows() if row["id"] == "far"] == [2]


def test_check_names_records_of_another_node(small: SmallTable) -> None:
    one, other = hash_rings.initial("p", 3).file_ids[:2]
    (first,) = small.path.glob(f"p/{one}_*.parquet")
    (second,) = small.path.glob(f"p/{other}_*.parquet")
    content = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(content)
    assert any("belong to a bucket other than" in each for each in small.problems())
