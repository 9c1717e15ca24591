"""Tables with a global index: a key is once in the table, and its record may change partitions."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from hoodie import errors
from hoodie.filegroup import held_keys
from hoodie.model import commits, settings, table_config
from hoodie.read import where as filters
from hoodie.write import sessions
from support.tables import record_indexes
from support.tables.tables import CONFIG, QUICK, SmallTable

KINDS = list(table_config.TableType)
GLOBAL = [each for each in table_config.IndexKind if each.is_global]
OPTIMISTIC = settings.ConcurrencyMode.OPTIMISTIC
SINGLE = settings.ConcurrencyMode.SINGLE_WRITER
INSERT, UPSERT, DELETE = (commits.Operation[name] for name in ("INSERT", "UPSERT", "DELETE"))
PLACE = ["_hoodie_partition_path", "id", "b"]
Row = Mapping[str, object]


def row(key: str, part: str, b: str = "", **more: object) -> dict[str, object]:
    return {"id": key, "part": part, "a": 1, "b": b or f"{key} of {part}", **more}


def made(
    path: Path,
    kind: table_config.TableType,
    index: table_config.IndexKind = table_config.IndexKind.GLOBAL_SIMPLE,
    types: Mapping[str, str] | None = None,
    **changes: object,
) -> SmallTable:
    plain = {"bucket_count": None, "has_partial_updates": False}
    config = replace(CONFIG, table_type=kind, index=index, **{**plain, **changes})
    return SmallTable(path / "t", config, **(types or {}))


def by_event_time(path: Path, kind: table_config.TableType, **changes: object) -> SmallTable:
    ordered = {"ordering_fields": ("ts",), "merge_mode": table_config.MergeMode.EVENT_TIME}
    return made(path, kind, types={"ts": "int64"}, **ordered, **changes)


def places(small: SmallTable) -> list[tuple[str, str]]:
    """Return the partition and the content of each row."""
    found = small.rows(columns=PLACE)
    return [(str(each["_hoodie_partition_path"]), str(each["b"])) for each in found]


def groups(small: SmallTable, path: str) -> int:
    return sum(each.group.partition_path == path for each in small.table.slices())


@pytest.mark.parametrize("index", GLOBAL)
@pytest.mark.parametrize("kind", KINDS)
def test_record_moves_to_the_partition_of_its_newest_row(
    tmp_path: Path, kind: table_config.TableType, index: table_config.IndexKind
) -> None:
    small = made(tmp_path, kind, index)
    small.upsert([row("1", "p"), row("2", "p"), row("3", "q")], concurrency=SINGLE)
    small.upsert([row("1", "q"), row("2", "p", "new"), row("4", "r")], concurrency=SINGLE)
    assert places(small) == [("q", "1 of q"), ("p", "new"), ("q", "3 of q"), ("r", "4 of r")]
    small.upsert([row("1", "p", "back")], concurrency=SINGLE)
    assert places(small)[0] == ("p", "back")
    small.delete([{"id": "1", "part": "elsewhere"}], concurrency=SINGLE)
    assert [content for _, content in places(small)] == ["new", "3 of q", "4 of r"]
    if kind is table_config.TableType.MERGE_ON_READ:
        small.compact()
        assert [content for _, content in places(small)] == ["new", "3 of q", "4 of r"]
    assert small.problems() == []


@pytest.mark.parametrize("kind", KINDS)
def test_record_stays_in_its_partition_where_the_table_says_so(
    tmp_path: Path, kind: table_config.TableType
) -> None:
    """Its column has the new value, as with Apache Hudi."""
    small = made(tmp_path, kind, updates_partitions=False)
    small.upsert([row("1", "p"), row("2", "q")], concurrency=SINGLE)
    small.upsert([row("1", "q", "new"), row("3", "p")], concurrency=SINGLE)
    assert places(small) == [("p", "new"), ("q", "2 of q"), ("p", "3 of p")]
    assert [each["part"] for each in small.rows()] == ["q", "q", "p"]
    found = small.rows(where=filters.parse("part = 'q'"))
    assert [each["id"] for each in found] == ["1", "2"]
    # No folder is made for a partition in which nothing is.
    small.upsert([row("1", "empty")], concurrency=SINGLE)
    assert not (small.path / "empty").exists()


@pytest.mark.parametrize("kind", KINDS)
def test_older_row_moves_nothing(tmp_path: Path, kind: table_config.TableType) -> None:
    small = by_event_time(tmp_path, kind)
    small.upsert([row("1", "p", ts=5), row("2", "p", ts=5)], concurrency=SINGLE)
    small.upsert([row("1", "q", ts=4), row("2", "q", ts=5)], concurrency=SINGLE)
    assert places(small) == [("p", "1 of p"), ("q", "2 of q")]
    assert groups(small, "q") == 1


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_one_key_in_a_batch_are_one_record(
    tmp_path: Path, kind: table_config.TableType
) -> None:
    """The last one counts, or the newest by event time."""
    small = made(tmp_path, kind)
    small.upsert([row("1", "p"), row("2", "q"), row("1", "q"), row("2", "p")], concurrency=SINGLE)
    assert places(small) == [("q", "1 of q"), ("p", "2 of p")]
    timed = by_event_time(tmp_path / "timed", kind)
    timed.upsert(
        [row("1", "p", ts=9), row("1", "q", ts=8), row("1", "r", ts=7)], concurrency=SINGLE
    )
    assert places(timed) == [("p", "1 of p")]


@pytest.mark.parametrize("kind", KINDS)
def test_row_that_says_that_it_is_deleted_deletes_in_any_partition(
    tmp_path: Path, kind: table_config.TableType
) -> None:
    small = made(tmp_path, kind, types={"_hoodie_is_deleted": "bool"})
    small.upsert([row("1", "p"), row("2", "p")], concurrency=SINGLE)
    small.upsert([row("1", "q", _hoodie_is_deleted=True)], concurrency=SINGLE)
    assert places(small) == [("p", "2 of p")]
    assert groups(small, "q") == 0


@pytest.mark.parametrize("kind", KINDS)
def test_insert_leaves_keys_of_all_partitions_out(
    tmp_path: Path, kind: table_config.TableType
) -> None:
    small = made(tmp_path, kind)
    small.upsert([row("1", "p"), row("2", "p")], concurrency=SINGLE)
    small.delete([{"id": "2", "part": "p"}], concurrency=SINGLE)
    options = {"operation": INSERT, "drops_duplicates": True, "concurrency": SINGLE}
    small.upsert([row("1", "q"), row("2", "q"), row("3", "q")], **options)
    assert places(small) == [("p", "1 of p"), ("q", "2 of q"), ("q", "3 of q")]


@pytest.mark.parametrize("kind", KINDS)
def test_key_in_two_partitions_becomes_one_record(
    tmp_path: Path, kind: table_config.TableType
) -> None:
    """Two inserts that asked nobody have made it."""
    small = made(tmp_path, kind)
    for part in ("p", "q"):
        small.upsert([row("1", part)], operation=INSERT, concurrency=SINGLE)
    assert len(small.rows()) == 2
    notes = [each for each in small.table.check(QUICK) if "in several file groups" in each.message]
    assert [each.subject for each in notes] == ["the table"]
    small.upsert([row("1", "q", "new")], concurrency=SINGLE)
    assert places(small) == [("q", "new")]
    assert small.table.check(QUICK) == []


@pytest.mark.parametrize("has_record_index", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_record_index_learns_where_a_key_moved(
    tmp_path: Path,
    kind: table_config.TableType,
    monkeypatch: pytest.MonkeyPatch,
    *,
    has_record_index: bool,
) -> None:
    small = made(tmp_path, kind)
    transaction = small.options().transaction
    small.table = small.table.initialise_metadata(transaction)
    if has_record_index:
        small.table = record_indexes.with_record_index(small.table, transaction, small.env)
    for part in ("p", "q", "p", "r"):
        small.upsert([row("1", part), row("2", "p")], concurrency=SINGLE, small_file_bytes=0)
        assert places(small) == [(part, f"1 of {part}"), ("p", "2 of p")]
        assert small.problems() == []
    if has_record_index and kind is table_config.TableType.COPY_ON_WRITE:
        monkeypatch.setattr(held_keys, "held", None)
    small.upsert([row("1", "q")], concurrency=SINGLE)
    small.delete([{"id": "2", "part": "q"}], concurrency=SINGLE)
    assert places(small) == [("q", "1 of q")]
    assert small.problems() == []


def begin(small: SmallTable, operation: commits.Operation) -> sessions.WriteSession:
    options = small.options("slow", operation, concurrency=OPTIMISTIC)
    session = small.table.begin_write(options, small.table.schema.arrow.names)
    assert isinstance(session, sessions.WriteSession)
    return session


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("operation", [UPSERT, DELETE])
def test_first_of_two_that_bring_a_key_to_different_partitions_wins(
    tmp_path: Path, kind: table_config.TableType, operation: commits.Operation
) -> None:
    small = made(tmp_path, kind)
    slow = begin(small, operation)
    written = small.run_task(
        slow, [row("1", "p") if operation is UPSERT else {"id": "1", "part": "p"}]
    )
    small.upsert([row("1", "q")], writer_id="fast", concurrency=OPTIMISTIC)
    with pytest.raises(errors.WriteConflictError, match="has inserted '1' into partition 'q'"):
        slow.commit(written)
    assert places(small) == [("q", "1 of q")]


@pytest.mark.parametrize("fast", ["moves", "updates", "deletes"])
@pytest.mark.parametrize("kind", KINDS)
def test_moves_conflict_with_what_changes_the_record_where_it_was(
    tmp_path: Path, kind: table_config.TableType, fast: str
) -> None:
    small = made(tmp_path, kind)
    small.upsert([row("1", "p"), row("2", "p")], concurrency=OPTIMISTIC)
    slow = begin(small, UPSERT)
    written = small.run_task(slow, [row("1", "q", "slow")])
    match fast:
        case "moves":
            small.upsert([row("1", "r")], writer_id="fast", concurrency=OPTIMISTIC)
        case "updates":
            small.upsert([row("1", "p", "new")], writer_id="fast", concurrency=OPTIMISTIC)
        case _:
            small.delete([{"id": "1", "part": "x"}], writer_id="fast", concurrency=OPTIMISTIC)
    before = places(small)
    with pytest.raises(errors.WriteConflictError):
        slow.commit(written)
    assert places(small) == before


@pytest.mark.parametrize("kind", KINDS)
def test_older_row_conflicts_with_the_deletion_of_the_newer_one(
    tmp_path: Path, kind: table_config.TableType
) -> None:
    """It had been left out because of a row that is gone now."""
    small = by_event_time(tmp_path, kind)
    small.upsert([row("1", "p", ts=5)], concurrency=OPTIMISTIC)
    slow = begin(small, UPSERT)
    written = small.run_task(slow, [row("1", "q", ts=4)])
    small.delete([{"id": "1", "part": "p"}], writer_id="fast", concurrency=OPTIMISTIC)
    with pytest.raises(errors.WriteConflictError, match=r"'slow'.*'fast'"):
        slow.commit(written)


def test_move_conflicts_with_what_brings_back_a_deleted_key(tmp_path: Path) -> None:
    small = made(tmp_path, table_config.TableType.MERGE_ON_READ)
    small.upsert([row("1", "p"), row("2", "p")], concurrency=OPTIMISTIC)
    small.delete([{"id": "1", "part": "p"}], concurrency=OPTIMISTIC)
    slow = begin(small, UPSERT)
    written = small.run_task(slow, [row("1", "q", "slow")])
    small.upsert([row("1", "p", "fast")], writer_id="fast", concurrency=OPTIMISTIC)
    with pytest.raises(errors.WriteConflictError, match=r"'slow'.*'fast'"):
        slow.commit(written)
    assert places(small) == [("p", "fast"), ("p", "2 of p")]


def test_first_of_two_wins_that_bring_back_a_key_which_files_of_both_partitions_have(
    tmp_path: Path,
) -> None:
    """Each logs it where it was once (built-beside:950212)."""
    small = made(tmp_path, table_config.TableType.MERGE_ON_READ)
    small.upsert([row("1", "p")], concurrency=SINGLE)
    small.delete([{"id": "1", "part": "p"}], concurrency=SINGLE)
    small.upsert([row("1", "q")], concurrency=SINGLE)
    small.delete([{"id": "1", "part": "q"}], concurrency=SINGLE)
    slow = begin(small, UPSERT)
    written = small.run_task(slow, [row("1", "q")])
    small.upsert([row("1", "p")], writer_id="fast", concurrency=OPTIMISTIC)
    with pytest.raises(errors.WriteConflictError, match="has inserted '1' into partition 'p'"):
        slow.commit(written)
    assert places(small) == [("p", "1 of p")]


@pytest.mark.parametrize("operation", [UPSERT, DELETE])
def test_first_of_two_that_bring_back_a_deleted_key_to_different_partitions_wins(
    tmp_path: Path, operation: commits.Operation
) -> None:
    """Files still have the key in one of them: a write there finds it (built-beside:900093)."""
    small = made(tmp_path, table_config.TableType.MERGE_ON_READ)
    small.upsert([row("1", "q")], concurrency=SINGLE)
    small.delete([{"id": "1", "part": "q"}], concurrency=SINGLE)
    slow = begin(small, operation)
    written = small.run_task(
        slow, [row("1", "q") if operation is UPSERT else {"id": "1", "part": "q"}]
    )
    small.upsert([row("1", "p")], writer_id="fast", concurrency=OPTIMISTIC)
    with pytest.raises(errors.WriteConflictError, match="has inserted '1' into partition 'p'"):
        slow.commit(written)
    assert places(small) == [("p", "1 of p")]


def test_what_a_global_index_cannot_be_is_refused(tmp_path: Path) -> None:
    kind = table_config.TableType.MERGE_ON_READ
    partial = made(tmp_path / "partial", kind, has_partial_updates=True)
    with pytest.raises(errors.UnsupportedError, match="records that stay in their partition"):
        partial.upsert([row("1", "p")], concurrency=SINGLE)
    kept = made(tmp_path / "kept", kind, has_partial_updates=True, updates_partitions=False)
    kept.upsert([row("1", "p")], concurrency=SINGLE)
    kept.upsert([{"id": "1", "part": "q", "b": None, "a": 7}], concurrency=SINGLE)
    assert [(each["a"], each["b"]) for each in kept.rows()] == [(7, "1 of p")]
    with pytest.raises(errors.ConfigurationError, match=r"simple bucket index.*GLOBAL_SIMPLE"):
        kept.upsert([row("1", "p")])
