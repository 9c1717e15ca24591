"""What inserts do about keys that are there twice: in the batch, or in the table and the batch."""

from dataclasses import replace
from pathlib import Path

import pytest

from hoodie import errors
from hoodie.model import commits, results, settings, table_config
from hoodie.write import sessions
from support.tables.tables import CONFIG, Rows, SmallTable

MERGE_ON_READ = table_config.TableType.MERGE_ON_READ
COPY_ON_WRITE = table_config.TableType.COPY_ON_WRITE
INSERT, BULK_INSERT = commits.Operation.INSERT, commits.Operation.BULK_INSERT
COMBINE = {"hoodie.combine.before.insert": "true"}
DROP = {"hoodie.datasource.write.insert.drop.duplicates": "true"}
ONE_BUCKET = replace(CONFIG, has_partial_updates=False, bucket_count=1)
COW = replace(ONE_BUCKET, table_type=COPY_ON_WRITE)
EVENT_TIME = replace(COW, merge_mode=table_config.MergeMode.EVENT_TIME, ordering_fields=("ts",))


def row(key: str, a: int | None, b: str | None = None, **more: object) -> dict[str, object]:
    return {"id": key, "part": "p", "a": a, "b": b, **more}


def insert(
    small: SmallTable,
    rows: Rows,
    properties: dict[str, str],
    operation: commits.Operation = INSERT,
    mode: settings.ConcurrencyMode = settings.ConcurrencyMode.SINGLE_WRITER,
) -> tuple[commits.WriteStat, ...]:
    changes = settings.from_properties(properties)
    done = small.upsert(
        rows,
        operation=operation,
        concurrency=mode,
        combines_inserts=changes.combines_inserts,
        drops_duplicates=changes.drops_duplicates,
    )
    assert isinstance(done, results.CommitResult)
    return done.stats


def upsert(small: SmallTable, rows: Rows) -> None:
    small.upsert(rows, concurrency=settings.ConcurrencyMode.SINGLE_WRITER)


def values(small: SmallTable) -> list[tuple[object, object]]:
    return sorted((found["id"], found["a"]) for found in small.rows())


@pytest.mark.parametrize("properties", [COMBINE, DROP])
@pytest.mark.parametrize("operation", [INSERT, BULK_INSERT])
@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (COW, [("1", 2, "y"), ("2", 4, None)]),
        (EVENT_TIME, [("1", 1, "x"), ("2", 4, None)]),
        (replace(COW, has_partial_updates=True), [("1", 2, "y"), ("2", 4, "z")]),
    ],
    ids=["commit time", "event time", "partial updates"],
)
def test_rows_of_one_key_become_one_as_the_table_merges(
    tmp_path: Path,
    config: table_config.TableConfig,
    expected: list[tuple[str, int, str | None]],
    operation: commits.Operation,
    properties: dict[str, str],
) -> None:
    """As Apache Hudi 1.2.0; by event time, of equal values the later row wins."""
    small = SmallTable(tmp_path / "t", config, ts="int64")
    batch = [
        *(row("1", 1, "x", ts=10), row("1", 2, "y", ts=5)),
        *(row("2", 3, "z", ts=1), row("2", 4, None, ts=1)),
    ]
    (stat,) = insert(small, batch, properties, operation)
    assert (stat.records, stat.inserts) == (2, 2)
    assert [(found["id"], found["a"], found["b"]) for found in small.rows()] == expected


def test_combining_leaves_rows_of_the_table_alone(tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "t", COW)
    insert(small, [row("1", 1), row("1", 2)], {})
    insert(small, [row("1", 3), row("1", 4)], COMBINE)
    assert values(small) == [("1", 1), ("1", 2), ("1", 4)]


@pytest.mark.parametrize("table_type", [MERGE_ON_READ, COPY_ON_WRITE])
def test_rows_whose_keys_are_there_are_left_out_and_no_others(
    tmp_path: Path, table_type: table_config.TableType
) -> None:
    """Apache Hudi, with a bucket index, leaves out every row of a bucket that has a file group."""
    small = SmallTable(tmp_path / "t", replace(ONE_BUCKET, table_type=table_type))
    upsert(small, [row("1", 1), row("2", 2)])
    upsert(small, [row("3", 3)])
    small.delete([row("2", 0)], concurrency=settings.ConcurrencyMode.SINGLE_WRITER)
    elsewhere = {**row("1", 10), "part": "q"}
    stats = insert(small, [row("1", 10), row("2", 20), row("3", 30), row("4", 40), elsewhere], DROP)
    assert [stat.inserts for stat in stats] == [2, 1]
    assert values(small) == [("1", 1), ("1", 10), ("2", 20), ("3", 3), ("4", 40)]
    assert insert(small, [row("1", 11), row("4", 41)], DROP) == ()
    assert len(values(small)) == 5
    assert small.problems() == []


def test_bulk_insert_leaves_them_out_as_well(tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "t", ONE_BUCKET)
    upsert(small, [row("1", 1)])
    (stat,) = insert(small, [row("1", 10), row("2", 20)], DROP, BULK_INSERT)
    assert stat.inserts == 1
    assert values(small) == [("1", 1), ("2", 20)]


@pytest.mark.parametrize(
    ("table_type", "operation"),
    [(MERGE_ON_READ, INSERT), (MERGE_ON_READ, BULK_INSERT), (COPY_ON_WRITE, INSERT)],
)
def test_batch_that_is_sent_twice_leaves_no_duplicates(
    tmp_path: Path, table_type: table_config.TableType, operation: commits.Operation
) -> None:
    """T-O16: with both options."""
    small = SmallTable(tmp_path / "t", replace(ONE_BUCKET, table_type=table_type))
    batch = [row("1", 1), row("2", 2), row("1", 3)]
    for _ in range(2):
        insert(small, batch, COMBINE | DROP, operation)
    assert values(small) == [("1", 3), ("2", 2)]
    assert len(small.table.timeline().completed_writes) == 2


def test_upserts_are_not_concerned(tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "t", COW)
    upsert(small, [row("1", 1)])
    insert(small, [row("1", 2)], DROP, commits.Operation.UPSERT)
    assert values(small) == [("1", 2)]


def test_of_two_optimistic_inserts_of_a_key_one_is_left_out(tmp_path: Path) -> None:
    """The slower one did not know of it, so it loses, and is written again on what there is."""
    small = SmallTable(tmp_path / "t", COW)
    optimistic = settings.ConcurrencyMode.OPTIMISTIC
    options = small.options("slow", INSERT, concurrency=optimistic, drops_duplicates=True)
    rows = [row("1", 2), row("2", 2)]
    session = small.table.begin_write(options, ["id", "part", "a", "b"])
    assert isinstance(session, sessions.WriteSession)
    insert(small, [row("1", 1)], DROP, mode=optimistic)
    stats = small.write_files(session, rows)
    with pytest.raises(errors.WriteConflictError):
        session.commit(stats)
    insert(small, rows, DROP, mode=optimistic)
    assert values(small) == [("1", 1), ("2", 2)]


def test_combining_of_upserts_is_not_switched_off() -> None:
    """Apache Hudi 1.2.0 gives the same rows either way."""
    for text in ("true", "false"):
        found = settings.from_properties({"hoodie.combine.before.upsert": text})
        assert found == settings.WriteSettings()
    with pytest.raises(errors.ConfigurationError, match="is 'no', expected true or false"):
        settings.from_properties({"hoodie.combine.before.upsert": "no"})
