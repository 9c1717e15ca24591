"""Writes beside file groups of no bucket: no key is there twice, and a delete deletes."""

import logging
from dataclasses import replace
from pathlib import Path

import pytest

from hoodie import errors
from hoodie.model import commits, results, settings, table_config
from hoodie.write import sessions
from support.peer.replacements import Replacements
from support.tables.tables import CONFIG, SmallTable

MODES = list(settings.ConcurrencyMode)
KINDS = list(table_config.TableType)
NON_BLOCKING = settings.ConcurrencyMode.NON_BLOCKING
COPY_ON_WRITE = table_config.TableType.COPY_ON_WRITE
OLD = [{"id": str(n), "part": "p", "a": n, "b": "old"} for n in range(8)]
NEW = [{"id": str(n), "part": "p", "a": n, "b": "new"} for n in range(5, 12)]
CASES = [
    (kind, mode)
    for kind in KINDS
    for mode in MODES
    if (kind, mode) != (COPY_ON_WRITE, NON_BLOCKING)
]


def clustered(path: Path, kind: table_config.TableType) -> tuple[SmallTable, Replacements, str]:
    small = SmallTable(path / "t", replace(CONFIG, table_type=kind))
    small.upsert(OLD, concurrency=settings.ConcurrencyMode.OPTIMISTIC)
    others = Replacements(small)
    return small, others, others.cluster("p")


@pytest.mark.parametrize(("kind", "mode"), CASES)
def test_table_is_written_on_after_a_clustering(
    tmp_path: Path, kind: table_config.TableType, mode: settings.ConcurrencyMode
) -> None:
    small, _, _ = clustered(tmp_path, kind)
    small.upsert(NEW, concurrency=mode)
    assert small.rows() == sorted([*OLD[:5], *NEW], key=lambda row: str(row["id"]))
    small.delete([{"id": "0", "part": "p"}, {"id": "6", "part": "p"}], concurrency=mode)
    small.upsert(NEW[1:2], concurrency=mode)
    if kind is not COPY_ON_WRITE:
        small.compact()
    small.upsert([{"id": "0", "part": "p", "a": 70, "b": "again"}], concurrency=mode)
    left = [{"id": "0", "part": "p", "a": 70, "b": "again"}, *OLD[1:5], *NEW]
    assert small.rows() == sorted(left, key=lambda row: str(row["id"]))
    # Check names the group; it finds nothing else.
    assert all("does not begin with a bucket" in each for each in small.problems())


@pytest.mark.parametrize(("kind", "mode"), CASES)
def test_insert_that_drops_duplicates_knows_clustered_keys(
    tmp_path: Path, kind: table_config.TableType, mode: settings.ConcurrencyMode
) -> None:
    small, _, _ = clustered(tmp_path, kind)
    insert = commits.Operation.INSERT
    small.upsert(NEW, operation=insert, concurrency=mode, drops_duplicates=True)
    assert small.rows() == sorted([*OLD, *NEW[3:]], key=lambda row: str(row["id"]))


def test_delete_reaches_both_places_of_a_key_that_is_there_twice(tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "t")
    small.upsert(OLD)
    Replacements(small).add_group("p", OLD[:3])
    assert len(small.rows()) == len(OLD) + 3
    small.delete([{"id": "1", "part": "p"}])
    assert [row["id"] for row in small.rows()] == ["0", "0", "2", "2", "3", "4", "5", "6", "7"]


@pytest.mark.parametrize("mode", [each for each in MODES if "SINGLE" not in each.name])
def test_writes_of_one_group_of_no_bucket_conflict(
    tmp_path: Path, mode: settings.ConcurrencyMode
) -> None:
    """Of a key that one deletes there and the other updates, each would choose another group."""
    small, _, file_id = clustered(tmp_path, table_config.TableType.MERGE_ON_READ)
    options = small.options("slow", concurrency=mode, acknowledges_order_dependence=True)
    slow = small.table.begin_write(options, ["id", "part", "a", "b"])
    assert isinstance(slow, sessions.WriteSession)
    stats = small.write_files(slow, NEW)
    small.delete([{"id": "6", "part": "p"}], concurrency=mode, acknowledges_order_dependence=True)
    with pytest.raises(errors.WriteConflictError, match=file_id):
        slow.commit(stats)


def test_two_base_files_of_one_group_are_not_published(tmp_path: Path) -> None:
    """As of two tasks of a Spark job, each with rows of other buckets."""
    small, _, file_id = clustered(tmp_path, COPY_ON_WRITE)
    options = small.options(concurrency=settings.ConcurrencyMode.OPTIMISTIC)
    session = small.table.begin_write(options, ["id", "part", "a", "b"])
    assert isinstance(session, sessions.WriteSession)
    stats = small.write_files(session, NEW)
    again = [each for each in stats if each.file_id == file_id]
    with pytest.raises(errors.SharedGroupError, match="2 base files"):
        session.commit([*stats, *again])
    assert small.rows() == OLD


def test_write_warns_of_groups_of_no_bucket(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    small, _, file_id = clustered(tmp_path, table_config.TableType.MERGE_ON_READ)
    with caplog.at_level(logging.WARNING, "hoodie.index"):
        assert isinstance(small.upsert(NEW), results.CommitResult)
        small.upsert(NEW)
    # On a busy machine heartbeats warn as well.
    (record,) = [each for each in caplog.records if each.name.startswith("hoodie.index")]
    assert f"p/{file_id}" in record.getMessage()
