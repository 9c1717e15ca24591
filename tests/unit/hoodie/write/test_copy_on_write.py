"""Writing copy-on-write tables: what Apache Hudi 1.2.0 was measured to do, step by step."""

from dataclasses import replace
from pathlib import Path

import pytest

from hoodie import errors
from hoodie.model import commits, instants, results, settings, table_config
from hoodie.write import conflicts, sessions
from support.tables.tables import CONFIG, Rows, SmallTable

SINGLE = settings.ConcurrencyMode.SINGLE_WRITER
COW = replace(
    CONFIG,
    table_type=table_config.TableType.COPY_ON_WRITE,
    has_partial_updates=False,
    bucket_count=1,
)
PARTIAL = replace(COW, has_partial_updates=True)
EVENT_TIME = replace(
    COW, merge_mode=table_config.MergeMode.EVENT_TIME, ordering_fields=("ts",), bucket_count=1
)


class CowTable(SmallTable):
    """A small table that a single writer writes."""

    def __init__(self, path: Path, config: table_config.TableConfig = COW, **types: str) -> None:
        super().__init__(path / "t", config, **types)

    def write(
        self, rows: Rows, operation: str = "UPSERT", **options: object
    ) -> results.WriteResult:
        chosen = {"concurrency": SINGLE, "operation": commits.Operation[operation]} | options
        return self.upsert(rows, **chosen)

    def stat(self, rows: Rows, operation: str = "UPSERT", **options: object) -> commits.WriteStat:
        result = self.write(rows, operation, **options)
        assert isinstance(result, results.CommitResult)
        (stat,) = result.stats
        assert result.records == stat.inserts + stat.updates, "not those that stay"
        return stat

    def values(self) -> list[tuple[object, object]]:
        return [(row["id"], row["a"]) for row in self.rows()]

    def files(self) -> list[str]:
        found = self.path.rglob("*")
        names = (str(each.relative_to(self.path)) for each in found if each.is_file())
        return sorted(name for name in names if not name.startswith(".hoodie/"))


def row(key: str, a: int | None, part: str = "p", **more: object) -> dict[str, object]:
    return {"id": key, "part": part, "a": a, "b": f"b{a}", **more}


def counts(stat: commits.WriteStat) -> tuple[int, int, int, int]:
    return stat.records, stat.inserts, stat.updates, stat.deletes


@pytest.mark.parametrize("version", [8, 9])
def test_each_write_is_a_commit_of_base_files(tmp_path: Path, version: int) -> None:
    small = CowTable(tmp_path, replace(COW, version=version))
    first = small.stat([row("1", 1), row("2", 2)])
    second = small.stat([row("2", 3), row("3", 4)])
    assert small.values() == [("1", 1), ("2", 3), ("3", 4)]
    assert small.files() == sorted(["p/.hoodie_partition_metadata", first.path, second.path])
    timeline = sorted(each.name for each in (small.path / ".hoodie/timeline").glob("2*"))
    assert [name.partition(".")[2] for name in timeline] == (
        ["commit.requested", "inflight", "commit"] * 2
    )
    assert (first.prev_commit, first.prev_base_file) == ("null", None)
    assert (second.prev_commit, second.prev_base_file) == (
        small.table.timeline().instants[0].requested_time,
        first.path.removeprefix("p/"),
    )
    assert small.problems() == []


def test_counts_are_those_of_apache_hudi(tmp_path: Path) -> None:
    """Five rows; then one newer, one late, one equal, one new, one new and twice; deletes."""
    small = CowTable(tmp_path, EVENT_TIME, ts="int64")
    assert counts(small.stat([row(str(n), n, ts=1000) for n in range(5)])) == (5, 5, 0, 0)
    mixed = [
        row("0", 10, ts=2000),
        row("1", 11, ts=500),
        row("2", 12, ts=1000),
        row("5", 15, ts=1),
        row("6", 16, ts=9),
        row("6", 17, ts=8),
    ]
    assert counts(small.stat(mixed)) == (7, 2, 2, 0)
    expected = [("0", 10), ("1", 1), ("2", 12), ("3", 3), ("4", 4), ("5", 15), ("6", 16)]
    assert small.values() == expected
    gone = [{"id": "0", "part": "p"}, {"id": "77", "part": "p"}]
    assert counts(small.stat(gone, "DELETE")) == (6, 0, 0, 2)
    late = [{"id": "2", "part": "p", "ts": 999}]
    assert counts(small.stat(late, "DELETE")) == (6, 0, 0, 0)
    assert small.values() == expected[1:]


def test_rows_that_stay_keep_their_meta_columns(tmp_path: Path) -> None:
    small = CowTable(tmp_path)
    small.write([row("1", 1), row("2", 2)])
    small.write([row("2", 3), row("3", 4)])
    first, second = (each.requested_time for each in small.table.timeline().instants)
    names = ["_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_file_name", "id"]
    stamped = [tuple(found.values()) for found in small.rows(columns=names)]
    (newest,) = (base.base_file for base in small.table.slices())
    assert newest is not None
    assert stamped == [
        (first, f"{first}_0_0", newest.name, "1"),
        (second, f"{second}_0_0", newest.name, "2"),
        (second, f"{second}_0_1", newest.name, "3"),
    ]


def test_late_row_that_fills_a_null_is_an_update_of_its_commit(tmp_path: Path) -> None:
    """Or readers of increments would never see the value; as Apache Hudi has it."""
    config = replace(EVENT_TIME, has_partial_updates=True)
    small = CowTable(tmp_path, config, ts="int64")
    small.write([row("1", None, ts=1000), row("2", 2, ts=1000)])
    stat = small.stat([row("1", 7, ts=500)])
    assert counts(stat) == (2, 0, 1, 0)
    found = small.rows(columns=["_hoodie_commit_time", "id", "a", "b", "ts"])
    first, second = (each.requested_time for each in small.table.timeline().instants)
    assert [tuple(each.values()) for each in found] == [
        (second, "1", 7, "bNone", 1000),
        (first, "2", 2, "b2", 1000),
    ]


def test_partial_updates_of_one_batch_are_merged_in_their_order(tmp_path: Path) -> None:
    small = CowTable(tmp_path, PARTIAL)
    small.write([{"id": "1", "part": "p", "a": 1, "b": "x"}])
    small.write(
        [
            {"id": "1", "part": "p", "a": None, "b": "y"},
            {"id": "1", "part": "p", "a": 2, "b": None},
            {"id": "2", "part": "p", "a": 3, "b": None},
        ]
    )
    assert [(each["id"], each["a"], each["b"]) for each in small.rows()] == [
        ("1", 2, "y"),
        ("2", 3, None),
    ]


def test_file_group_whose_rows_are_all_deleted_keeps_an_empty_base_file(tmp_path: Path) -> None:
    small = CowTable(tmp_path)
    small.write([row("1", 1), row("2", 2)])
    stat = small.stat([row("1", 0), row("2", 0)], "DELETE")
    assert counts(stat) == (0, 0, 0, 2)
    assert small.values() == []
    assert counts(small.stat([row("2", 3)])) == (1, 1, 0, 0)
    assert small.values() == [("2", 3)]
    assert small.problems() == []


def test_deletion_of_what_was_never_there_leaves_no_file(tmp_path: Path) -> None:
    small = CowTable(tmp_path)
    result = small.write([row("1", 0), row("2", 0, "q")], "DELETE")
    assert isinstance(result, results.CommitResult)
    assert result.stats == ()
    assert small.files() == []
    assert small.table.slices() == []


def test_rows_that_say_they_are_deleted_delete(tmp_path: Path) -> None:
    small = CowTable(tmp_path, COW, _hoodie_is_deleted="bool")
    small.write([row("1", 1), row("2", 2)])
    flagged = [row("1", 5, _hoodie_is_deleted=True), row("3", 3, _hoodie_is_deleted=None)]
    assert counts(small.stat(flagged)) == (2, 1, 0, 1)
    inserted = [row("4", 4, _hoodie_is_deleted=True), row("5", 5, _hoodie_is_deleted=False)]
    assert counts(small.stat(inserted, "INSERT")) == (3, 1, 0, 1)
    assert small.values() == [("2", 2), ("3", 3), ("5", 5)]


def test_insert_only_adds_rows_unless_it_is_told_to_merge(tmp_path: Path) -> None:
    small = CowTable(tmp_path)
    assert counts(small.stat([row("1", 1), row("1", 2)], "INSERT")) == (2, 2, 0, 0)
    assert counts(small.stat([row("1", 3)], "INSERT")) == (3, 1, 0, 0)
    assert sorted(a for _, a in small.values()) == [1, 2, 3]
    assert small.problems() == []
    # Of several base rows with one key the first alone is merged, as Apache Hudi does it.
    merging = settings.from_properties({"hoodie.merge.allow.duplicate.on.inserts": "false"})
    options = {"merges_inserts": merging.merges_inserts}
    assert counts(small.stat([row("1", 4), row("2", 5)], "INSERT", **options)) == (4, 1, 1, 0)
    assert sorted(small.values()) == [("1", 2), ("1", 3), ("1", 4), ("2", 5)]


def test_files_of_a_dead_writer_do_not_count_and_go_with_the_next_write(tmp_path: Path) -> None:
    small = CowTable(tmp_path)
    first = small.stat([row("1", 1)])
    session = begin(small, SINGLE)
    left = small.write_files(session, [row("1", 9), row("2", 9, "q")])
    session.abort(has_tasks_left=True)
    (small.path / ".hoodie/.heartbeat" / session.requested_time).unlink()
    assert {each.path for each in left} < set(small.files())
    assert small.values() == [("1", 1)]
    second = small.stat([row("3", 3)])
    assert second.prev_base_file == first.path.removeprefix("p/")
    assert not {each.path for each in left} & set(small.files())
    assert small.values() == [("1", 1), ("3", 3)]
    assert not small.table.timeline().pending
    assert small.problems() == []


@pytest.mark.parametrize("is_first_in_group", [False, True])
def test_late_file_of_a_write_that_was_taken_back_is_built_on_by_nobody(
    tmp_path: Path, *, is_first_in_group: bool
) -> None:
    """A task that was paused while its write was taken back, the write being the table's first.

    What is older than the timeline's first write counts as archived, unless a rollback tells.
    """
    small = CowTable(tmp_path)
    optimistic = settings.ConcurrencyMode.OPTIMISTIC
    paused = begin(small, optimistic, "paused")
    small.write_files(paused, [row("1", 8, "q")])  # So that the rollback deletes a file.
    paused.abort(has_tasks_left=True)
    (small.path / ".hoodie/.heartbeat" / paused.requested_time).unlink()
    part = "r" if is_first_in_group else "p"
    small.write([row("0", 0, part)], concurrency=optimistic, writer_id="other")
    assert not small.table.timeline().pending
    small.write_files(paused, [row("9", 9)])
    stat = small.stat([row("2", 2)], concurrency=optimistic)
    assert stat.prev_commit != paused.requested_time
    assert small.values() == [("0", 0), ("2", 2)]


def test_write_that_is_aborted_is_taken_back(tmp_path: Path) -> None:
    small = CowTable(tmp_path)
    small.write([row("1", 1)])
    before = small.files()
    session = begin(small, SINGLE)
    small.write_files(session, [row("1", 9)])
    assert len(small.files()) == len(before) + 1
    session.abort(has_tasks_left=False)
    assert small.files() == before
    assert [each.action for each in small.table.timeline().instants] == [
        instants.Action.COMMIT,
        instants.Action.ROLLBACK,
    ]
    stat = small.stat([row("1", 2)])
    assert stat.prev_commit == small.table.timeline().instants[0].requested_time
    assert small.values() == [("1", 2)]
    assert small.problems() == []


def test_slower_of_two_optimistic_writes_of_a_file_group_loses(tmp_path: Path) -> None:
    """T-O02: what the faster one wrote is not lost, though both made a base file of the group."""
    small = CowTable(tmp_path)
    optimistic = settings.ConcurrencyMode.OPTIMISTIC
    small.write([row("1", 1)], concurrency=optimistic)
    slow, other = begin(small, optimistic, "slow"), begin(small, optimistic, "other")
    stats = small.write_files(slow, [row("2", 2)])
    small.write([row("3", 3)], concurrency=optimistic, writer_id="fast")
    with pytest.raises(errors.WriteConflictError, match=r"'slow'.*'fast'"):
        slow.commit(stats)
    other.commit(small.write_files(other, [row("4", 4, "q")]))
    assert small.values() == [("1", 1), ("3", 3), ("4", 4)]
    assert small.problems() == []


def test_check_finds_a_base_file_that_hides_what_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a writer leaves it that is paused, right before it publishes, until its lock is lost."""
    small = CowTable(tmp_path)
    optimistic = settings.ConcurrencyMode.OPTIMISTIC
    small.write([row("1", 1)], concurrency=optimistic)
    slow = begin(small, optimistic, "slow")
    small.write([row("2", 2)], concurrency=optimistic, writer_id="fast")
    stats = small.write_files(slow, [row("3", 3)])
    assert small.problems() == []
    with monkeypatch.context() as patched:
        patched.setattr(conflicts, "check", lambda *_, **__: None)
        slow.commit(stats)
    (problem,) = small.problems()
    assert problem.startswith(f"{slow.requested_time} commit completed: what it wrote to p/0000")
    assert "is hidden by" in problem


def test_non_blocking_writers_are_refused(tmp_path: Path) -> None:
    small = CowTable(tmp_path)
    with pytest.raises(errors.ConfigurationError, match="MERGE_ON_READ, it is COPY_ON_WRITE"):
        small.upsert([row("1", 1)])
    assert small.table.timeline().instants == ()


def test_compaction_is_refused(tmp_path: Path) -> None:
    small = CowTable(tmp_path)
    small.write([row("1", 1)])
    with pytest.raises(errors.ConfigurationError, match="COPY_ON_WRITE: its writes leave no log"):
        small.compact()


def begin(
    small: SmallTable, mode: settings.ConcurrencyMode, writer_id: str = "w"
) -> sessions.WriteSession:
    options = small.options(writer_id=writer_id, concurrency=mode)
    session = small.table.begin_write(options, ["id", "part", "a", "b"])
    assert isinstance(session, sessions.WriteSession)
    return session
