"""Bulk inserts: base files of empty buckets, without looking at anything that is there."""

from dataclasses import replace
from pathlib import Path

import pytest

from hoodie import errors
from hoodie.model import commits, results, settings, table_config
from hoodie.write import sessions
from support.tables.tables import CONFIG, Rows, SmallTable

SINGLE = settings.ConcurrencyMode.SINGLE_WRITER
OPTIMISTIC = settings.ConcurrencyMode.OPTIMISTIC
NON_BLOCKING = settings.ConcurrencyMode.NON_BLOCKING
BULK_INSERT = commits.Operation.BULK_INSERT
COPY_ON_WRITE = table_config.TableType.COPY_ON_WRITE
MERGE_ON_READ = table_config.TableType.MERGE_ON_READ
ONE_BUCKET = replace(CONFIG, bucket_count=1)
MODES = (SINGLE, OPTIMISTIC, NON_BLOCKING)


def row(key: str, a: int | None, b: str | None = None, **more: object) -> dict[str, object]:
    return {"id": key, "part": "p", "a": a, "b": b, **more}


def bulk(
    small: SmallTable, rows: Rows, mode: settings.ConcurrencyMode = SINGLE, writer_id: str = "bulk"
) -> commits.WriteStat:
    done = small.upsert(rows, operation=BULK_INSERT, concurrency=mode, writer_id=writer_id)
    assert isinstance(done, results.CommitResult)
    (stat,) = done.stats
    return stat


def begin(
    small: SmallTable,
    columns: list[str],
    mode: settings.ConcurrencyMode,
    operation: commits.Operation,
) -> sessions.WriteSession:
    options = small.options(operation.value, operation, concurrency=mode)
    session = small.table.begin_write(options, columns)
    assert isinstance(session, sessions.WriteSession)
    return session


def values(small: SmallTable) -> list[tuple[object, object, object]]:
    return [(found["id"], found["a"], found["b"]) for found in small.rows()]


@pytest.mark.parametrize(
    ("table_type", "mode"),
    [*((MERGE_ON_READ, mode) for mode in MODES), *((COPY_ON_WRITE, mode) for mode in MODES[:2])],
)
def test_rows_of_an_empty_bucket_become_its_base_file_as_they_are(
    tmp_path: Path, table_type: table_config.TableType, mode: settings.ConcurrencyMode
) -> None:
    config = replace(ONE_BUCKET, table_type=table_type)
    small = SmallTable(tmp_path / "t", config, _hoodie_is_deleted="bool")
    gone = row("3", 3, _hoodie_is_deleted=True)
    stat = bulk(small, [row("1", 1), row("2", 2), row("1", 3), gone], mode)
    assert stat.path.endswith(f"{small.table.timeline().instants[0].requested_time}.parquet")
    assert (stat.records, stat.inserts, stat.updates, stat.deletes) == (3, 3, 0, 1)
    assert sorted(values(small)) == [("1", 1, None), ("1", 3, None), ("2", 2, None)]
    assert small.problems() == []


@pytest.mark.parametrize("mode", MODES)
def test_deleted_row_of_an_empty_bucket_holds_against_older_rows_that_come_later(
    tmp_path: Path, mode: settings.ConcurrencyMode
) -> None:
    by_event_time = replace(
        ONE_BUCKET,
        merge_mode=table_config.MergeMode.EVENT_TIME,
        ordering_fields=("a",),
        has_partial_updates=False,
    )
    small = SmallTable(tmp_path / "t", by_event_time, _hoodie_is_deleted="bool")
    bulk(small, [row("1", 1), row("2", 9, _hoodie_is_deleted=True)], mode)
    small.upsert([row("2", 5)], concurrency=mode)
    assert values(small) == [("1", 1, None)]
    assert small.compact() is not None
    assert values(small) == [("1", 1, None)]
    small.upsert([row("2", 8)], concurrency=mode)
    assert values(small) == [("1", 1, None)]
    assert small.problems() == []


@pytest.mark.parametrize("mode", MODES)
def test_rows_of_a_bucket_with_files_go_to_its_log(
    tmp_path: Path, mode: settings.ConcurrencyMode
) -> None:
    small = SmallTable(tmp_path / "t", ONE_BUCKET)
    bulk(small, [row("1", 1, "x")], mode)
    stat = bulk(small, [row("1", 2), row("2", 2)], mode)
    assert (len(stat.log_files), stat.inserts, stat.updates) == (1, 2, 0)
    assert values(small) == [("1", 2, "x"), ("2", 2, None)]


def test_base_file_of_a_copy_on_write_table_is_not_added_to(tmp_path: Path) -> None:
    """Apache Hudi refuses it as well, or makes a second file group and breaks the index."""
    small = SmallTable(tmp_path / "t", replace(ONE_BUCKET, table_type=COPY_ON_WRITE))
    stat = bulk(small, [row("1", 1)])
    with pytest.raises(errors.UnsupportedError, match=f"base file {Path(stat.path).name}"):
        bulk(small, [row("2", 2)])
    assert values(small) == [("1", 1, None)]
    assert not small.table.timeline().pending
    assert small.problems() == []


def test_of_two_optimistic_bulk_inserts_into_a_bucket_one_wins(tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "t", ONE_BUCKET)
    slow = begin(small, ["id", "part", "a", "b"], OPTIMISTIC, BULK_INSERT)
    stats = small.write_files(slow, [row("1", 1)])
    bulk(small, [row("2", 2)], OPTIMISTIC, "fast")
    with pytest.raises(errors.WriteConflictError):
        slow.commit(stats)
    assert values(small) == [("2", 2, None)]
    assert small.problems() == []


A = [{"id": "1", "part": "p", "a": 23}]
B = [{"id": "1", "part": "p", "b": "Danny"}]


class Writers:
    """A bulk insert and an insert of other columns of one row, not blocking each other."""

    def __init__(self, path: Path) -> None:
        self.small = SmallTable(path / "t", ONE_BUCKET)

    def bulk(self) -> sessions.WriteSession:
        return begin(self.small, ["id", "part", "b"], NON_BLOCKING, BULK_INSERT)

    def insert(self) -> sessions.WriteSession:
        return begin(self.small, ["id", "part", "a"], NON_BLOCKING, commits.Operation.INSERT)

    def both(self, starts_first: str) -> tuple[sessions.WriteSession, sessions.WriteSession]:
        """Return an insert and a bulk insert, begun in that order or the other."""
        if starts_first == "insert":
            insert = self.insert()
            return insert, self.bulk()
        bulk_insert = self.bulk()
        return self.insert(), bulk_insert

    def bulk_whole(self) -> None:
        session = self.bulk()
        session.commit(self.small.write_files(session, B))

    def insert_whole(self) -> None:
        session = self.insert()
        session.commit(self.small.write_files(session, A))

    def check_both(self) -> None:
        for _ in ("before", "after"):
            assert values(self.small) == [("1", 23, "Danny")]
            self.small.compact()
        assert self.small.problems() == []


def test_bulk_insert_after_an_insert_or_before_one_is_merged_with_it(tmp_path: Path) -> None:
    """T-N16, cases 1 and 6."""
    for number, first_is_bulk in enumerate((True, False)):
        writers = Writers(tmp_path / str(number))
        order = [writers.bulk_whole, writers.insert_whole]
        for write in order if first_is_bulk else reversed(order):
            write()
        writers.check_both()


@pytest.mark.parametrize("starts_first", ["insert", "bulk insert"])
def test_bulk_insert_that_completes_before_an_overlapping_insert_lies_below_it(
    tmp_path: Path, starts_first: str
) -> None:
    """T-N16, cases 4 and 5."""
    writers = Writers(tmp_path)
    insert, bulk_insert = writers.both(starts_first)
    bulk_stats = writers.small.write_files(bulk_insert, B)
    assert not bulk_stats[0].log_files
    insert_stats = writers.small.write_files(insert, A)
    bulk_insert.commit(bulk_stats)
    insert.commit(insert_stats)
    writers.check_both()


@pytest.mark.parametrize("starts_first", ["insert", "bulk insert"])
def test_bulk_insert_gives_way_to_an_insert_that_completed_meanwhile(
    tmp_path: Path, starts_first: str
) -> None:
    """T-N16, cases 2 and 3: its base file would hide the insert's log file."""
    writers = Writers(tmp_path)
    insert, bulk_insert = writers.both(starts_first)
    bulk_stats = writers.small.write_files(bulk_insert, B)
    insert.commit(writers.small.write_files(insert, A))
    with pytest.raises(errors.WriteConflictError, match=r"'BULK_INSERT'.*'INSERT'"):
        bulk_insert.commit(bulk_stats)
    assert values(writers.small) == [("1", 23, None)]
    writers.bulk_whole()
    writers.check_both()


def test_bulk_insert_logs_beside_a_file_of_an_insert_that_is_still_pending(tmp_path: Path) -> None:
    """Then nothing is hidden, whoever completes first."""
    for number, first_is_bulk in enumerate((True, False)):
        writers = Writers(tmp_path / str(number))
        insert, bulk_insert = writers.insert(), writers.bulk()
        insert_stats = writers.small.write_files(insert, A)
        bulk_stats = writers.small.write_files(bulk_insert, B)
        assert bulk_stats[0].log_files
        both = [(bulk_insert, bulk_stats), (insert, insert_stats)]
        for session, stats in both if first_is_bulk else reversed(both):
            session.commit(stats)
        writers.check_both()
