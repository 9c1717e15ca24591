"""Writes to tables whose writers look keys up: the simple and the bloom index."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from hoodie import errors
from hoodie.filegroup import held_keys, key_footers
from hoodie.model import commits, results, settings, table_config
from hoodie.write import sessions
from support.tables import record_indexes
from support.tables.tables import CONFIG, SmallTable

KINDS = list(table_config.TableType)
LOOKED_UP = (table_config.IndexKind.SIMPLE, table_config.IndexKind.BLOOM)
MODES = [each for each in settings.ConcurrencyMode if "NON" not in each.name]
MERGE_ON_READ = table_config.TableType.MERGE_ON_READ
COPY_ON_WRITE = table_config.TableType.COPY_ON_WRITE
OPTIMISTIC = settings.ConcurrencyMode.OPTIMISTIC
INSERT = commits.Operation.INSERT
OLD = [{"id": str(n), "part": "p", "a": n, "b": "old"} for n in range(8)]
NEW = [{"id": str(n), "part": "p", "a": n, "b": "new"} for n in range(5, 12)]


class LookedUp(SmallTable):
    """A table with one writer at a time, unless a test says otherwise."""

    def options(
        self,
        writer_id: str = "w",
        operation: commits.Operation = commits.Operation.UPSERT,
        batch_id: str | None = None,
        **changes: object,
    ) -> sessions.WriteOptions:
        alone = {"concurrency": settings.ConcurrencyMode.SINGLE_WRITER}
        return super().options(writer_id, operation, batch_id, **{**alone, **changes})


def made(
    path: Path,
    kind: table_config.TableType = MERGE_ON_READ,
    index: table_config.IndexKind = table_config.IndexKind.SIMPLE,
    **more: str,
) -> SmallTable:
    config = replace(CONFIG, table_type=kind, bucket_count=None, index=index)
    return LookedUp(path / "t", config, **more)


def group_ids(small: SmallTable) -> list[str]:
    return [each.group.file_id for each in small.table.slices()]


def repeated(small: SmallTable) -> list[results.Finding]:
    found = small.table.check(settings.WriteSettings())
    return [each for each in found if "in several file groups" in each.message]


def log_files(small: SmallTable) -> int:
    return sum(len(each.log_files) for each in small.table.slices())


def sorted_by_id(*rows: dict[str, object]) -> list[dict[str, object]]:
    return sorted(rows, key=lambda row: str(row["id"]))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("index", LOOKED_UP)
@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_found_by_their_keys(
    tmp_path: Path,
    kind: table_config.TableType,
    index: table_config.IndexKind,
    mode: settings.ConcurrencyMode,
) -> None:
    small = made(tmp_path, kind, index)
    # Without small files each write makes a file group of its new rows.
    small.upsert(OLD, concurrency=mode, small_file_bytes=0)
    small.upsert(NEW, concurrency=mode, small_file_bytes=0)
    assert len(group_ids(small)) == 2
    assert small.rows() == sorted_by_id(*OLD[:5], *NEW)
    small.delete([{"id": "0", "part": "p"}, {"id": "9", "part": "p"}], concurrency=mode)
    small.delete([{"id": "77", "part": "p"}, {"id": "1", "part": "q"}], concurrency=mode)
    assert small.rows() == sorted_by_id(*OLD[1:5], *NEW[:4], *NEW[5:])
    again = {"id": "0", "part": "p", "a": 70, "b": "again"}
    small.upsert([again, *NEW[:2]], concurrency=mode, small_file_bytes=0)
    assert small.rows() == sorted_by_id(again, *OLD[1:5], *NEW[:4], *NEW[5:])
    if kind is MERGE_ON_READ:
        assert log_files(small)
        small.compact()
        assert small.rows() == sorted_by_id(again, *OLD[1:5], *NEW[:4], *NEW[5:])
    assert small.problems() == []


@pytest.mark.parametrize("has_metadata", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_new_rows_go_to_small_files_first(
    tmp_path: Path, kind: table_config.TableType, *, has_metadata: bool
) -> None:
    small = made(tmp_path, kind)
    if has_metadata:
        small.table = small.table.initialise_metadata(small.options().transaction)
    small.upsert(OLD[:3])
    (group,) = group_ids(small)
    small.upsert(OLD[3:])
    assert group_ids(small) == [group]
    assert log_files(small) == 0
    assert small.rows() == OLD
    small.upsert(NEW[3:], small_file_bytes=0)
    assert len(group_ids(small)) == 2
    assert small.problems() == []


def test_file_group_with_log_files_takes_no_new_rows(tmp_path: Path) -> None:
    small = made(tmp_path)
    small.upsert(OLD)
    small.upsert(NEW)  # Three of its rows are logged, four are new.
    assert len(group_ids(small)) == 2
    assert log_files(small) == 1
    assert small.rows() == sorted_by_id(*OLD[:5], *NEW)
    small.compact()
    small.upsert([{"id": "99", "part": "p", "a": 1, "b": "x"}])
    assert len(group_ids(small)) == 2


@pytest.mark.parametrize("kind", KINDS)
def test_files_do_not_grow_beyond_their_size(tmp_path: Path, kind: table_config.TableType) -> None:
    """Without their footers, in which a bloom filter alone takes 431 kB."""
    small = made(tmp_path, kind)
    storage = small.env.open_storage(str(small.path))

    def data_bytes() -> list[int]:
        bases = [each.base_file for each in small.table.slices()]
        footers = [key_footers.read(storage, each.path) for each in bases if each is not None]
        return [each.data_bytes for each in footers if each is not None]

    rows = [{"id": f"{n:05}", "part": "p", "a": n, "b": "x"} for n in range(3000)]
    small.upsert(rows, base_file_bytes_max=20_000)
    before = data_bytes()
    assert len(before) > 3
    assert max(before) < min(20_000, 2 * min(before))
    more = [{**row, "id": f"x{row['id']}"} for row in rows]
    small.upsert(more, base_file_bytes_max=20_000)
    assert len(data_bytes()) > len(before)
    assert max(data_bytes()) < 30_000
    assert len(small.rows()) == 6000


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_one_new_key_become_one(tmp_path: Path, kind: table_config.TableType) -> None:
    small = made(tmp_path, kind)
    rows = [{"id": str(n % 50), "part": "p", "a": n, "b": "x"} for n in range(500)]
    small.upsert(rows, base_file_bytes_max=500)
    assert len(group_ids(small)) > 1
    assert [row["a"] for row in small.rows()] == sorted(range(450, 500), key=lambda n: str(n % 50))


@pytest.mark.parametrize("kind", KINDS)
def test_row_that_is_deleted_and_nowhere_is_left_out(
    tmp_path: Path, kind: table_config.TableType
) -> None:
    small = made(tmp_path, kind, _hoodie_is_deleted="bool")
    rows = [{**row, "_hoodie_is_deleted": n % 2 == 0} for n, row in enumerate(OLD)]
    small.upsert(rows, small_file_bytes=0)
    assert [row["id"] for row in small.rows()] == ["1", "3", "5", "7"]
    small.upsert([{**row, "_hoodie_is_deleted": True} for row in OLD[:4]], small_file_bytes=0)
    assert [row["id"] for row in small.rows()] == ["5", "7"]
    assert len(group_ids(small)) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_insert_adds_rows_without_a_look_up(tmp_path: Path, kind: table_config.TableType) -> None:
    """S86, S87: a key may be there twice, as with Apache Hudi; a later upsert changes both."""
    small = made(tmp_path, kind)
    small.upsert(OLD[:4], operation=INSERT)
    small.upsert(OLD[3:6], operation=INSERT, small_file_bytes=0)
    small.upsert(OLD[5:], operation=commits.Operation.BULK_INSERT)
    assert Counter(row["id"] for row in small.rows()) == Counter("012334556" + "7")
    assert len(group_ids(small)) == 3
    (note,) = repeated(small)
    assert note.subject == "p"
    assert note.message.startswith("2 keys are in several file groups, such as '")
    assert sum(each in note.message for each in group_ids(small)) == 2
    small.upsert([{**OLD[3], "b": "again"}])
    assert [row["b"] for row in small.rows() if row["id"] == "3"] == ["again", "again"]
    small.delete([{"id": each, "part": "p"} for each in ("3", "5")])
    assert {"3", "5"}.isdisjoint(row["id"] for row in small.rows())
    assert repeated(small) == []


@pytest.mark.parametrize("operation", [INSERT, commits.Operation.BULK_INSERT])
@pytest.mark.parametrize("kind", KINDS)
def test_insert_that_drops_duplicates_leaves_known_keys_out(
    tmp_path: Path, kind: table_config.TableType, operation: commits.Operation
) -> None:
    small = made(tmp_path, kind)
    small.upsert(OLD)
    small.upsert(NEW, operation=operation, drops_duplicates=True)
    assert small.rows() == sorted_by_id(*OLD, *NEW[3:])


def test_key_of_another_partition_is_another_key(tmp_path: Path) -> None:
    small = made(tmp_path)
    small.upsert(OLD[:2])
    small.upsert([{**OLD[0], "part": "q", "b": "other"}])
    assert [(row["part"], row["b"]) for row in small.rows() if row["id"] == "0"] == [
        ("p", "old"),
        ("q", "other"),
    ]


def test_key_whose_row_a_log_deleted_stays_in_its_file_group(tmp_path: Path) -> None:
    """A reader of base files alone would find it in two."""
    small = made(tmp_path)
    small.upsert(OLD)
    small.delete([{"id": "0", "part": "p"}])
    small.upsert([{**OLD[0], "b": "again"}], small_file_bytes=0)
    assert len(group_ids(small)) == 1
    assert len(small.rows(is_read_optimized=True)) == len(OLD)
    assert small.rows()[0]["b"] == "again"


def test_key_that_is_live_in_one_of_two_file_groups_is_written_there_alone(
    tmp_path: Path,
) -> None:
    """As of a writer with a record index, which forgets a key that was deleted."""
    small = made(tmp_path)
    small.upsert(OLD)
    small.delete([{"id": "0", "part": "p"}])
    small.upsert([{**OLD[0], "b": "elsewhere"}], operation=INSERT, small_file_bytes=0)
    assert len(group_ids(small)) == 2
    small.upsert([{**OLD[0], "b": "again"}])
    assert [row["b"] for row in small.rows() if row["id"] == "0"] == ["again"]
    small.delete([{"id": "0", "part": "p"}])
    small.upsert([{**OLD[0], "b": "at last"}])
    assert [row["b"] for row in small.rows() if row["id"] == "0"] == ["at last"]
    small.compact()
    assert [row["b"] for row in small.rows() if row["id"] == "0"] == ["at last"]


def begin(
    small: SmallTable, writer_id: str, operation: commits.Operation, **changes: object
) -> sessions.WriteSession:
    options = small.options(writer_id, operation, concurrency=OPTIMISTIC, **changes)
    session = small.table.begin_write(options, ["id", "part", "a", "b"])
    assert isinstance(session, sessions.WriteSession)
    return session


KEY = {"id": "k", "part": "p"}
ROW = {**KEY, "a": 1, "b": "slow"}
FAST = {**KEY, "a": 2, "b": "fast"}
UPSERT, DELETE = commits.Operation.UPSERT, commits.Operation.DELETE


@pytest.mark.parametrize("fills_up", ["slow", "fast", "neither"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("operation", [UPSERT, DELETE, INSERT])
def test_first_of_two_that_find_a_key_nowhere_wins(
    tmp_path: Path, kind: table_config.TableType, operation: commits.Operation, fills_up: str
) -> None:
    """Both inserted it, each into a file group of its own; or the delete had removed it."""
    small = made(tmp_path, kind)
    small.upsert(OLD)
    limits = {name: (1 << 20) * (name == fills_up) for name in ("slow", "fast")}
    slow = begin(small, "slow", operation, drops_duplicates=True, small_file_bytes=limits["slow"])
    written = small.run_task(slow, [ROW if operation is not DELETE else KEY])
    fast = {"concurrency": OPTIMISTIC, "small_file_bytes": limits["fast"]}
    small.upsert([FAST], writer_id="fast", **fast)
    assert len(group_ids(small)) == 1 + (fills_up != "fast")
    with pytest.raises(errors.WriteConflictError, match="k"):
        slow.commit(written)
    assert [row["b"] for row in small.rows() if row["id"] == "k"] == ["fast"]
    assert not small.table.timeline().pending
    assert small.problems() == []


@pytest.mark.parametrize("operation", [UPSERT, DELETE, INSERT])
def test_first_of_two_wins_that_bring_back_a_key_which_is_compacted_away_meanwhile(
    tmp_path: Path, operation: commits.Operation
) -> None:
    """Its file group had it for the slow one, and not for the fast one (built-beside:950430)."""
    small = made(tmp_path)
    small.upsert([*OLD, FAST])
    small.delete([KEY])
    slow = begin(small, "slow", operation, drops_duplicates=True)
    written = small.run_task(slow, [ROW if operation is not DELETE else KEY])
    small.compact()
    small.upsert([FAST], writer_id="fast", concurrency=OPTIMISTIC, small_file_bytes=0)
    assert len(group_ids(small)) == 2
    with pytest.raises(errors.WriteConflictError, match="has inserted 'k' into partition 'p'"):
        slow.commit(written)
    assert [row["b"] for row in small.rows() if row["id"] == "k"] == ["fast"]
    assert small.problems() == []


@pytest.mark.parametrize("kind", KINDS)
def test_writes_of_different_new_keys_both_commit(
    tmp_path: Path, kind: table_config.TableType
) -> None:
    small = made(tmp_path, kind)
    small.upsert(OLD)
    slow = begin(small, "slow", UPSERT, small_file_bytes=0)
    written = small.run_task(slow, [ROW, {**KEY, "id": "q", "part": "q"}])
    other = {**FAST, "id": "j"}
    small.upsert([other, {**FAST, "part": "r"}], writer_id="fast", concurrency=OPTIMISTIC)
    slow.commit(written)
    assert {row["id"] for row in small.rows()} == {*"01234567", "j", "k", "q"}


@pytest.mark.parametrize("kind", KINDS)
def test_insert_without_a_look_up_is_not_held_to_it(
    tmp_path: Path, kind: table_config.TableType
) -> None:
    """T-O14: both succeed."""
    small = made(tmp_path, kind)
    slow = begin(small, "slow", INSERT)
    written = small.run_task(slow, [ROW])
    small.upsert([FAST], writer_id="fast", concurrency=OPTIMISTIC)
    slow.commit(written)
    assert [row["b"] for row in small.rows()] in (["slow", "fast"], ["fast", "slow"])


@pytest.mark.parametrize("kind", KINDS)
def test_insert_that_left_out_rows_conflicts_with_their_deletion(
    tmp_path: Path, kind: table_config.TableType
) -> None:
    small = made(tmp_path, kind)
    small.upsert([FAST])
    slow = begin(small, "slow", INSERT, drops_duplicates=True)
    written = small.run_task(slow, [ROW])
    small.delete([KEY], writer_id="fast", concurrency=OPTIMISTIC)
    with pytest.raises(errors.WriteConflictError, match=r"'slow'.*'fast'"):
        slow.commit(written)
    assert small.rows() == []


@pytest.mark.parametrize("kind", KINDS)
def test_updates_of_one_file_group_conflict(tmp_path: Path, kind: table_config.TableType) -> None:
    small = made(tmp_path, kind)
    small.upsert(OLD)
    slow = begin(small, "slow", UPSERT)
    written = small.run_task(slow, [{**OLD[0], "b": "slow"}])
    small.upsert([{**OLD[1], "b": "fast"}], writer_id="fast", concurrency=OPTIMISTIC)
    with pytest.raises(errors.WriteConflictError, match=r"'slow'.*'fast'"):
        slow.commit(written)


@pytest.mark.parametrize("kind", KINDS)
def test_writer_of_the_same_small_file_is_found_before_data_is_written(
    tmp_path: Path, kind: table_config.TableType
) -> None:
    small = made(tmp_path, kind)
    small.upsert(OLD)
    first = begin(small, "first", UPSERT)
    small.run_task(first, [ROW])
    later = begin(small, "later", UPSERT, detects_conflicts_early=True)
    with pytest.raises(errors.WriteConflictError, match="no data of it was written"):
        small.run_task(later, [{**FAST, "id": "j"}])
    later.abort(has_tasks_left=False)
    first.abort(has_tasks_left=False)


def test_retry_of_a_lost_insert_updates_the_row(tmp_path: Path) -> None:
    """The look-up of the retry finds the key where the faster write has put it."""
    small = made(tmp_path)
    small.upsert(OLD)
    slow = begin(small, "slow", UPSERT, small_file_bytes=0)
    written = small.run_task(slow, [ROW])
    small.upsert([FAST], writer_id="fast", concurrency=OPTIMISTIC, small_file_bytes=0)
    with pytest.raises(errors.WriteConflictError):
        slow.commit(written)
    small.upsert([ROW], writer_id="slow", concurrency=OPTIMISTIC)
    assert [row["b"] for row in small.rows() if row["id"] == "k"] == ["slow"]


def test_non_blocking_writers_need_buckets(tmp_path: Path) -> None:
    small = made(tmp_path)
    with pytest.raises(errors.ConfigurationError, match=r"simple bucket index.*SIMPLE"):
        small.upsert(OLD, concurrency=settings.ConcurrencyMode.NON_BLOCKING)


def with_record_index(small: SmallTable) -> None:
    transaction = small.options().transaction
    opened = small.table.initialise_metadata(transaction)
    small.table = record_indexes.with_record_index(opened, transaction, small.env)


@pytest.mark.parametrize("kind", KINDS)
def test_record_index_says_where_keys_are(
    tmp_path: Path, kind: table_config.TableType, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = made(tmp_path, kind)
    with_record_index(small)
    small.upsert(OLD[:4], small_file_bytes=0)
    small.upsert(OLD[4:])  # To the same file group.
    small.upsert([{**NEW[0], "id": "new"}], small_file_bytes=0)
    monkeypatch.setattr(held_keys, "held", None)
    small.upsert(NEW, small_file_bytes=0)
    monkeypatch.undo()
    assert len(group_ids(small)) == 3
    again = {**OLD[0], "b": "again"}
    small.upsert([again, *OLD[2:5]], small_file_bytes=0)
    small.delete([{"id": "9", "part": "p"}, {"id": "77", "part": "p"}])
    assert len(group_ids(small)) == 3
    left = [row for row in NEW if row["id"] != "9"]
    assert small.rows() == sorted_by_id(again, *OLD[1:5], *left, {**NEW[0], "id": "new"})
    with pytest.raises(errors.InvalidInputError, match=r"record index.*holds a key once"):
        small.upsert([{**OLD[0], "part": "q"}])
    assert small.problems() == []


def test_key_that_a_record_index_forgot_stays_in_its_file_group(tmp_path: Path) -> None:
    """Writers of Apache Hudi with a simple index find it in the base file, and write it there."""
    small = made(tmp_path)
    with_record_index(small)
    small.upsert(OLD)
    small.delete([{"id": "0", "part": "p"}])
    small.upsert([{**OLD[0], "b": "again"}, {**OLD[0], "id": "new"}], small_file_bytes=0)
    assert len(group_ids(small)) == 2
    optimized = [row["id"] for row in small.rows(is_read_optimized=True)]
    assert len(optimized) == len(set(optimized)) == 9
    assert small.rows()[0]["b"] == "again"
    assert small.problems() == []
