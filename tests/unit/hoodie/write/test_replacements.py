"""Writes that replace file groups: insert_overwrite, insert_overwrite_table, delete_partition."""

from dataclasses import replace
from pathlib import Path

import pytest

from hoodie import errors
from hoodie.maintenance.cleaning import retention
from hoodie.model import commits, instants, results, settings, table_config
from hoodie.write import sessions
from support.peer.replacements import Replacements
from support.tables.record_indexes import Indexed
from support.tables.tables import CONFIG, Rows, SmallTable

OVERWRITE = commits.Operation.INSERT_OVERWRITE
OVERWRITE_TABLE = commits.Operation.INSERT_OVERWRITE_TABLE
DELETE_PARTITION = commits.Operation.DELETE_PARTITION
OPTIMISTIC = settings.ConcurrencyMode.OPTIMISTIC
TABLES = [
    pytest.param(replace(CONFIG, table_type=kind, index=index, bucket_count=count), id=name)
    for kind, short in (
        (table_config.TableType.COPY_ON_WRITE, "cow"),
        (table_config.TableType.MERGE_ON_READ, "mor"),
    )
    for index, count, name in (
        (None, 2, f"{short}-bucket"),
        (table_config.IndexKind.SIMPLE, None, f"{short}-simple"),
        (table_config.IndexKind.BLOOM, None, f"{short}-bloom"),
    )
]

SIMPLE = replace(CONFIG, index=table_config.IndexKind.SIMPLE, bucket_count=None)


def rows(part: str, *ids: str, b: str = "old") -> list[dict[str, object]]:
    return [{"id": f"{part}{each}", "part": part, "a": 1, "b": b} for each in ids]


OLD = [*rows("p", *"123456"), *rows("q", *"123")]


def table_of(path: Path, config: table_config.TableConfig) -> SmallTable:
    small = SmallTable(path / "t", config)
    small.upsert(OLD, concurrency=OPTIMISTIC)
    return small


def overwrite(small: SmallTable, found: Rows, **options: object) -> results.WriteResult:
    more = {"operation": OVERWRITE, "concurrency": OPTIMISTIC, **options}
    # A batch has its columns also without rows.
    data = small.data([*found, *OLD]).slice(0, len(found))
    return small.table.write(data, small.options(**more))


def delete_partitions(small: SmallTable, *paths: str, **changes: object) -> results.WriteResult:
    more = {"operation": DELETE_PARTITION, "concurrency": OPTIMISTIC, **changes}
    return small.table.delete_partitions(small.options(partitions=paths, **more))


def begin(small: SmallTable, **options: object) -> sessions.WriteSession:
    found = small.options(**{"concurrency": OPTIMISTIC, "writer_id": "slow", **options})
    session = small.table.begin_write(found, ["id", "part", "a", "b"])
    assert isinstance(session, sessions.WriteSession)
    return session


@pytest.mark.parametrize("config", TABLES)
def test_partitions_of_the_rows_are_overwritten(
    tmp_path: Path, config: table_config.TableConfig
) -> None:
    small = table_of(tmp_path, config)
    new = rows("p", "2", "9", b="new")
    done = overwrite(small, new)
    assert isinstance(done, results.CommitResult)
    assert done.instant.action is instants.Action.REPLACE_COMMIT
    assert small.rows() == [*new, *rows("q", *"123")]
    # Whatever comes next finds the rows.
    small.upsert(rows("p", "2", "3", b="newer"), concurrency=OPTIMISTIC)
    small.delete(rows("p", "9"), concurrency=OPTIMISTIC)
    small.compact() if not config.is_copy_on_write else None
    assert small.rows() == [*rows("p", "2", "3", b="newer"), *rows("q", *"123")]
    assert small.problems() == []


@pytest.mark.parametrize("config", TABLES)
def test_whole_table_is_overwritten(tmp_path: Path, config: table_config.TableConfig) -> None:
    small = table_of(tmp_path, config)
    new = rows("p", "1", b="new")
    overwrite(small, new, operation=OVERWRITE_TABLE)
    assert small.rows() == new
    overwrite(small, [], operation=OVERWRITE_TABLE)
    assert small.rows() == []
    small.upsert(OLD, concurrency=OPTIMISTIC)
    assert small.rows() == OLD
    assert small.problems() == []


@pytest.mark.parametrize("config", TABLES)
def test_partitions_are_deleted(tmp_path: Path, config: table_config.TableConfig) -> None:
    small = table_of(tmp_path, config)
    delete_partitions(small, "p")
    assert small.rows() == rows("q", *"123")
    with pytest.raises(errors.NotFoundError, match=r"no rows in partition p"):
        delete_partitions(small, "p", "q")
    assert small.rows() == rows("q", *"123")
    small.upsert(rows("p", "1"), concurrency=OPTIMISTIC)
    assert small.rows() == [*rows("p", "1"), *rows("q", *"123")]
    assert small.problems() == []


def test_table_without_partitions_is_deleted_by_its_own_path(tmp_path: Path) -> None:
    small = table_of(tmp_path, replace(CONFIG, partition_fields=()))
    delete_partitions(small, "")
    assert small.rows() == []


def test_given_partitions_are_overwritten_with_rows_or_without(tmp_path: Path) -> None:
    small = table_of(tmp_path, CONFIG)
    new = rows("q", "7")
    overwrite(small, new, partitions=("p", "q"))
    assert small.rows() == new
    with pytest.raises(errors.InvalidInputError, match="rows are of partition p, expected"):
        overwrite(small, rows("p", "1"), partitions=("q",))
    overwrite(small, [], partitions=("q", "none"))
    assert small.rows() == []


def test_rows_that_tasks_write_elsewhere_are_not_published(tmp_path: Path) -> None:
    small = table_of(tmp_path, CONFIG)
    session = begin(small, operation=OVERWRITE, partitions=("q",))
    written = small.run_task(session, rows("p", "1"))
    with pytest.raises(errors.InvalidInputError, match="rows are of partition p"):
        session.commit(written)
    assert small.rows() == OLD


@pytest.mark.parametrize("operation", [OVERWRITE, OVERWRITE_TABLE, DELETE_PARTITION])
def test_non_blocking_writers_replace_nothing(tmp_path: Path, operation: commits.Operation) -> None:
    """T-N15: they are refused."""
    small = table_of(tmp_path, CONFIG)
    mode = settings.ConcurrencyMode.NON_BLOCKING
    paths = ("p",) if operation is DELETE_PARTITION else ()
    with pytest.raises(errors.ConfigurationError, match="is refused in mode"):
        begin(small, operation=operation, partitions=paths, concurrency=mode)
    assert small.rows() == OLD


def test_partitions_go_with_some_operations_alone(tmp_path: Path) -> None:
    small = table_of(tmp_path, CONFIG)
    with pytest.raises(errors.InvalidInputError, match="upsert is given partition p"):
        small.upsert(OLD, partitions=("p",))
    with pytest.raises(errors.InvalidInputError, match="is given no partitions"):
        delete_partitions(small)
    with pytest.raises(errors.InvalidInputError, match="takes no rows"):
        small.upsert(OLD, operation=DELETE_PARTITION, partitions=("p",))


@pytest.mark.parametrize("config", TABLES)
def test_update_that_was_faster_is_a_conflict(
    tmp_path: Path, config: table_config.TableConfig
) -> None:
    """T-O12: the update is not lost."""
    small = table_of(tmp_path, config)
    slow = begin(small, operation=DELETE_PARTITION, partitions=("p",))
    small.upsert(rows("p", "1", b="new"), concurrency=OPTIMISTIC)
    with pytest.raises(errors.WriteConflictError, match="both wrote to"):
        slow.commit([])
    assert len(small.rows()) == len(OLD)


@pytest.mark.parametrize("config", TABLES)
def test_update_that_is_slower_is_a_conflict(
    tmp_path: Path, config: table_config.TableConfig
) -> None:
    small = table_of(tmp_path, config)
    slow = begin(small)
    written = small.run_task(slow, rows("p", "1", b="new"))
    delete_partitions(small, "p")
    with pytest.raises(errors.WriteConflictError, match="both wrote to"):
        slow.commit(written)
    assert small.rows() == rows("q", *"123")


def test_new_file_group_of_another_stays(tmp_path: Path) -> None:
    """T-O13: both succeed."""
    small = table_of(tmp_path, SIMPLE)
    slow = begin(small, operation=DELETE_PARTITION, partitions=("p",))
    small.upsert(rows("p", "7"), operation=commits.Operation.BULK_INSERT, concurrency=OPTIMISTIC)
    slow.commit([])
    assert small.rows() == [*rows("p", "7"), *rows("q", *"123")]


def test_key_that_another_inserted_meanwhile_is_not_there_twice(tmp_path: Path) -> None:
    small = table_of(tmp_path, SIMPLE)
    slow = begin(small, operation=OVERWRITE)
    written = small.run_task(slow, rows("p", "7", "8"))
    small.upsert(rows("p", "7"), operation=commits.Operation.BULK_INSERT, concurrency=OPTIMISTIC)
    with pytest.raises(errors.WriteConflictError, match="has inserted 'p7' into partition 'p'"):
        slow.commit(written)
    slow = begin(small, small_file_bytes=0)
    written = small.run_task(slow, rows("p", "9"))
    overwrite(small, rows("p", "9"))
    with pytest.raises(errors.WriteConflictError, match="has inserted 'p9' into partition 'p'"):
        slow.commit(written)


@pytest.mark.parametrize("is_cleaned", [False, True])
@pytest.mark.parametrize("second", [OVERWRITE, OVERWRITE_TABLE, DELETE_PARTITION])
def test_first_of_two_replacements_of_a_partition_wins(
    tmp_path: Path, second: commits.Operation, is_cleaned: bool
) -> None:
    small = table_of(tmp_path, SIMPLE)
    paths = ("p",) if second is DELETE_PARTITION else ()
    slow = begin(small, operation=second, partitions=paths)
    written = [] if second is DELETE_PARTITION else small.run_task(slow, rows("p", "8"))
    first = rows("p", "7")
    overwrite(small, first)
    if is_cleaned:
        Replacements(small).clean()
    with pytest.raises((errors.WriteConflictError, errors.NotFoundError)):
        slow.commit(written)
    assert small.rows() == [*first, *rows("q", *"123")]


def test_replacements_of_two_partitions_are_no_conflict(tmp_path: Path) -> None:
    small = table_of(tmp_path, CONFIG)
    slow = begin(small, operation=OVERWRITE)
    written = small.run_task(slow, rows("p", "8"))
    overwrite(small, rows("q", "7"))
    slow.commit(written)
    assert small.rows() == [*rows("p", "8"), *rows("q", "7")]


def test_compaction_of_a_retired_file_group_brings_nothing_back(tmp_path: Path) -> None:
    small = table_of(tmp_path, CONFIG)
    small.upsert(rows("p", "1", b="new"), concurrency=OPTIMISTIC)
    service = replace(small.options().transaction, author=small.options().transaction.author)
    planned = small.table.schedule_compaction(service)
    assert planned is not None
    overwrite(small, rows("p", "8"))
    small.table.clean(retention.Retention(grace_ms=0, retained=1), service)
    small.table.compact(planned, service)
    assert small.rows() == [*rows("p", "8"), *rows("q", *"123")]
    small.upsert(rows("p", "9"), concurrency=OPTIMISTIC)
    small.table.clean(retention.Retention(grace_ms=0, retained=1), service)
    assert small.rows() == [*rows("p", "8", "9"), *rows("q", *"123")]
    assert small.problems() == []


def test_write_that_failed_is_rolled_back(tmp_path: Path) -> None:
    small = table_of(tmp_path, CONFIG)
    session = begin(small, operation=OVERWRITE)
    small.run_task(session, rows("p", "8"))
    session.abort(has_tasks_left=False)
    assert small.rows() == OLD
    assert small.problems() == []
    assert not [each for each in small.table.timeline().pending if each.action.is_write]


def test_rows_that_say_that_they_are_deleted_are_left_out(tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "t", CONFIG, _hoodie_is_deleted="bool")
    small.upsert(OLD, concurrency=OPTIMISTIC)
    new = [{**rows("p", "1")[0], "_hoodie_is_deleted": True}]
    kept = [{**rows("p", "2")[0], "_hoodie_is_deleted": False}]
    overwrite(small, [*new, *kept])
    assert [row["id"] for row in small.rows()] == ["p2", "q1", "q2", "q3"]


@pytest.mark.parametrize("is_partitioned", [False, True])
@pytest.mark.parametrize("kind", table_config.TableType)
def test_record_index_learns_what_is_gone(
    tmp_path: Path, kind: table_config.TableType, is_partitioned: bool
) -> None:
    config = replace(
        CONFIG, table_type=kind, bucket_count=None, index=table_config.IndexKind.SIMPLE
    )
    indexed = Indexed(tmp_path / "t", config, is_partitioned=is_partitioned)
    keys = [f"{part}{number}" for part in "pq" for number in range(1, 10)]
    indexed.write(OLD)
    indexed.write([*rows("p", "1", "9")], operation=OVERWRITE)
    assert indexed.located(keys) == indexed.rows_located()
    assert set(indexed.rows()) == {"p1", "p9", "q1", "q2", "q3"}
    options = indexed.options(operation=DELETE_PARTITION, partitions=("q",))
    indexed.small.table.delete_partitions(options)
    assert indexed.located(keys) == indexed.rows_located()
    indexed.write([*rows("p", "3"), *rows("q", "3")])
    indexed.write([*rows("p", "3", "4")], operation=OVERWRITE_TABLE)
    assert indexed.located(keys) == indexed.rows_located()
    assert set(indexed.rows()) == {"p3", "p4"}
    assert indexed.small.problems() == []
