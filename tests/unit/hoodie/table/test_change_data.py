"""Change data through the table's door: what each write changed, stored or computed."""

import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from hoodie import environment, errors, table
from hoodie.filegroup import change_logs
from hoodie.maintenance.cleaning import retention
from hoodie.maintenance.consumers import Progress
from hoodie.model import commits, schemas, settings, table_config
from hoodie.model.change_data import LoggingMode
from hoodie.read import change_data, row_versions
from support.tables.tables import CONFIG, SmallTable

PLAIN = replace(CONFIG, has_partial_updates=False, bucket_count=1)
COW = replace(PLAIN, table_type=table_config.TableType.COPY_ON_WRITE)
STORED = replace(COW, change_data=LoggingMode.DATA_BEFORE_AFTER)
KEYS = replace(COW, change_data=LoggingMode.OP_KEY_ONLY)
BEFORE = replace(COW, change_data=LoggingMode.DATA_BEFORE)
KINDS = pytest.mark.parametrize(
    "config",
    [PLAIN, CONFIG, COW, STORED, BEFORE, KEYS],
    ids=["mor", "partial", "cow", "stored", "before", "keys"],
)
NOW = retention.Retention(retained=1, grace_ms=0)
Short = tuple[str, str, object, object]


class Watched(SmallTable):
    """A table, and short forms of its changes."""

    def __init__(self, path: Path, config: table_config.TableConfig = PLAIN, **types: str) -> None:
        super().__init__(path / "t", config, **types)
        mode = settings.ConcurrencyMode
        is_alone = config.is_copy_on_write
        self.more: dict[str, object] = {
            "concurrency": mode.OPTIMISTIC if is_alone else mode.NON_BLOCKING,
            "acknowledges_order_dependence": True,
        }

    def put(self, *pairs: tuple[str, int], part: str = "p", **options: object) -> str:
        rows = [{"id": key, "part": part, "a": a, "b": "x"} for key, a in pairs]
        self.upsert(rows, **self.more, **options)
        return self.table.timeline().completed_writes[-1].requested_time

    def drop(self, *keys: str) -> None:
        self.delete([{"id": key, "part": "p"} for key in keys], **self.more)

    def changes(self, since: str | None = None, **how: object) -> list[Short]:
        return short(self.table.change_data(since, **how))

    def base_files(self) -> list[Path]:
        return sorted(self.path.rglob("*.parquet"), key=lambda path: path.name[-25:])


def short(found: change_data.ChangeData) -> list[Short]:
    return [
        (row["op"], row["record_key"], value(row["before"]), value(row["after"]))
        for row in found.read().read_all().to_pylist()
    ]


def value(image: dict[str, object] | None) -> object:
    return None if image is None else image.get("a")


def by_write(rows: list[Short], *counts: int) -> list[list[Short]]:
    """Rows of each write, sorted."""
    found = []
    for count in counts:
        found.append(sorted(rows[:count]))
        rows = rows[count:]
    assert not rows
    return found


@KINDS
def test_changes_of_each_write_in_the_order_of_completion(
    config: table_config.TableConfig, tmp_path: Path
) -> None:
    small = Watched(tmp_path, config)
    first = small.put(("1", 1), ("2", 2))
    position = str(small.table.change_data().position)
    small.put(("1", 10), ("3", 3))
    small.drop("2", "77")
    small.put(("2", 20))
    expected = [
        [("i", "1", None, 1), ("i", "2", None, 2)],
        [("i", "3", None, 3), ("u", "1", 1, 10)],
        [("d", "2", 2, None)],
        [("i", "2", None, 20)],
    ]
    assert by_write(small.changes(), 2, 2, 1, 1) == expected
    for since in (first, position):
        assert by_write(small.changes(since), 2, 1, 1) == expected[1:]
    net = [("i", "3", None, 3), ("u", "1", 1, 10), ("u", "2", 2, 20)]
    assert sorted(small.changes(first, is_net=True)) == net
    newest = str(small.table.change_data(position).position)
    assert small.changes(newest) == small.changes(newest, is_net=True) == []


@KINDS
def test_rows_that_stay_are_no_change(config: table_config.TableConfig, tmp_path: Path) -> None:
    """A row that is written again as it was is an update all the same, as for Apache Hudi."""
    event_time = replace(
        config,
        merge_mode=table_config.MergeMode.EVENT_TIME,
        ordering_fields=("a",),
        has_partial_updates=False,
    )
    small = Watched(tmp_path, event_time)
    first = small.put(("1", 5), ("2", 5))
    small.put(("1", 4), ("2", 5))
    assert small.changes(first) == [("u", "2", 5, 5)]


def test_late_writes_come_when_they_complete(tmp_path: Path) -> None:
    """NBCC: one that was requested first completes last."""
    small = Watched(tmp_path)
    small.put(("1", 1))
    session = small.table.begin_write(small.options("late", **small.more), ["id", "part", "a", "b"])
    assert not isinstance(session, table.results.AlreadyCommitted)
    rows = [{"id": "2", "part": "p", "a": 2, "b": "x"}]
    written = small.write_files(session, rows)
    position = str(small.table.change_data().position)
    small.put(("2", 22))
    small.compact()
    session.commit(written)
    assert small.changes(position)[0] == ("i", "2", None, 22)
    assert [row[0] for row in small.changes(position)] == ["i", "u"]
    found = small.table.change_data(position)
    assert [each.requested_time for each in found.writes][-1] == session.requested_time


@pytest.mark.parametrize("config", [COW, STORED, PLAIN])
def test_replaced_file_groups(config: table_config.TableConfig, tmp_path: Path) -> None:
    """Keys that are written again are updated, the others are gone."""
    small = Watched(tmp_path, config)
    first = small.put(("1", 1), ("2", 2))
    small.more |= {"concurrency": settings.ConcurrencyMode.OPTIMISTIC}
    small.put(("1", 9), operation=commits.Operation.INSERT_OVERWRITE)
    assert sorted(small.changes(first)) == [("d", "2", 2, None), ("u", "1", 1, 9)]
    small.table.delete_partitions(
        small.options(operation=commits.Operation.DELETE_PARTITION, partitions=("p",), **small.more)
    )
    assert small.changes()[-1] == ("d", "1", 9, None)


def test_net_changes_over_replaced_file_groups(tmp_path: Path) -> None:
    """A key goes with its file group, and comes back into a new one of its bucket."""
    small = Watched(tmp_path, replace(COW, bucket_count=8))
    first = small.put(*((str(number), 0) for number in range(20)))
    small.put(("0", 1), operation=commits.Operation.INSERT_OVERWRITE)
    small.put(*((str(number), 2) for number in range(20)))
    net = small.changes(first, is_net=True)
    assert sorted(net) == sorted(("u", str(number), 0, 2) for number in range(20))


@pytest.mark.parametrize("mode", [None, LoggingMode.DATA_BEFORE_AFTER])
def test_net_changes_of_a_key_that_comes_back_elsewhere(
    mode: LoggingMode | None, tmp_path: Path
) -> None:
    """An index finds no row that was deleted: its next one is put into any file group."""
    index = table_config.IndexKind.SIMPLE
    small = Watched(tmp_path, replace(COW, bucket_count=None, index=index, change_data=mode))
    first = small.put(("1", 1), ("2", 2))
    small.drop("1")
    small.put(("1", 10), ("3", 3), operation=commits.Operation.BULK_INSERT)
    assert len(small.table.slices()) == 2
    net = [("i", "3", None, 3), ("u", "1", 1, 10)]
    assert sorted(small.changes(first, is_net=True)) == net
    assert [op for op, *_ in small.changes(first)] == ["d", "i", "i"]


def test_partial_updates_that_come_late(tmp_path: Path) -> None:
    """A row that is older fills a column, and leaves the version of the newer one as it is."""
    config = replace(
        CONFIG,
        bucket_count=1,
        merge_mode=table_config.MergeMode.EVENT_TIME,
        ordering_fields=("ts",),
    )
    small = Watched(tmp_path, config, ts="int64")
    small.upsert([{"id": "1", "part": "p", "a": 1, "ts": 5}], **small.more)
    first = small.table.timeline().completed_writes[-1].requested_time
    small.upsert([{"id": "1", "part": "p", "b": "late", "ts": 4}], **small.more)
    (row,) = small.table.change_data(first).read().read_all().to_pylist()
    whole = {"id": "1", "part": "p", "a": 1, "ts": 5}
    assert (row["op"], row["before"], row["after"]) == (
        "u",
        whole | {"b": None},
        whole | {"b": "late"},
    )


def test_stored_images_are_read_instead_of_base_files(tmp_path: Path) -> None:
    small = Watched(tmp_path, STORED)
    first = small.put(("1", 1), ("2", 2))
    small.put(("1", 10))
    small.drop("2")
    for path in small.base_files():
        path.write_bytes(b"broken")
    assert small.changes(first) == [("u", "1", 1, 10), ("d", "2", 2, None)]
    # Meta columns are in base files alone.
    with pytest.raises(errors.FormatError):
        small.changes(first, columns=["_hoodie_commit_time"])


def test_stored_keys_leave_rows_to_base_files(tmp_path: Path) -> None:
    small = Watched(tmp_path, KEYS)
    first = small.put(("1", 1), ("2", 2))
    small.put(("1", 10))
    small.base_files()[0].write_bytes(b"broken")
    with pytest.raises(errors.FormatError):
        small.changes(first)


def test_file_groups_that_no_write_touched_are_not_read(tmp_path: Path) -> None:
    small = Watched(tmp_path)
    small.put(("1", 1), part="q")
    first = small.put(("1", 1), part="p")
    small.put(("1", 2), part="p")
    for path in (*small.path.glob("q/*.parquet"), *small.path.glob("q/.*.log.*")):
        path.write_bytes(b"broken")
    assert small.changes(first) == [("u", "1", 1, 2)]


@pytest.mark.parametrize(
    "broken",
    [
        lambda whole: whole[:-1],
        lambda _: b"#HUDI#",
        lambda _: b"x" * 200,
        lambda whole: whole[:-20] + b"x" + whole[-19:],
    ],
    ids=["cut", "magic", "text", "last record"],
)
def test_broken_logs_are_refused(broken: Callable[[bytes], bytes], tmp_path: Path) -> None:
    """The error names the log, also where it is read together with others."""
    small = Watched(tmp_path, STORED)
    first = small.put(("1", 1))
    for number in range(3):
        small.put(("1", 10 + number))
    path = sorted(small.path.rglob("*.cdc"), key=lambda each: each.name[-30:])[1]
    path.write_bytes(broken(path.read_bytes()))
    with pytest.raises(errors.FormatError, match=path.name):
        small.changes(first)
    path.unlink()
    with pytest.raises(errors.NotFoundError, match=path.name):
        small.changes(first)


class TestTogether:
    """Stored images of several writes and file groups are read together."""

    def written(self, tmp_path: Path, config: table_config.TableConfig) -> tuple[Watched, str]:
        small = Watched(tmp_path, replace(config, bucket_count=2))
        first = small.put(*((str(number), 0) for number in range(8)))
        small.put(*((str(number), 1) for number in range(2, 12)))
        small.drop("0", "9")
        small.put(("0", 2), ("1", 2), ("5", 2))
        return small, first

    def expected(self) -> list[list[Short]]:
        return [
            sorted(
                [
                    *(("u", str(number), 0, 1) for number in range(2, 8)),
                    *(("i", str(number), None, 1) for number in range(8, 12)),
                ]
            ),
            [("d", "0", 0, None), ("d", "9", 1, None)],
            [("i", "0", None, 2), ("u", "1", 0, 2), ("u", "5", 1, 2)],
        ]

    @pytest.mark.parametrize("bytes_max", [1, 9000, 1 << 20])
    def test_writes_come_one_after_the_other(
        self, bytes_max: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        small, first = self.written(tmp_path, STORED)
        monkeypatch.setattr(change_logs, "_TOGETHER_BYTES_MAX", bytes_max)
        found = small.table.change_data(first)
        groups = [len(some) for some in row_versions.together(found.tasks())]
        assert sum(groups) == 6
        assert len(groups) == {1: 6, 9000: 3, 1 << 20: 1}[bytes_max]
        assert by_write(short(found), 10, 2, 3) == self.expected()
        times = [row["ts_ms"] for row in found.read().read_all().to_pylist()]
        writes = [each.requested_time for each in found.writes]
        assert times == [writes[0]] * 10 + [writes[1]] * 2 + [writes[2]] * 3

    def test_partitions_are_those_of_the_logs(self, tmp_path: Path) -> None:
        small, first = self.written(tmp_path, STORED)
        small.put(("1", 3), ("20", 3), part="q")
        small.put(("20", 4), part="q")
        small.put(("1", 4))
        rows = small.table.change_data(first).read().read_all().to_pylist()
        for row in rows:
            image = row["before"] or row["after"]
            assert row["partition_path"] == image["part"]
        assert {row["partition_path"] for row in rows} == {"p", "q"}

    def test_keys_that_are_asked_for_are_found_in_each(self, tmp_path: Path) -> None:
        small, _ = self.written(tmp_path, STORED)
        found = small.table.history("0", partition="p").read().read_all().to_pylist()
        assert [row["event"] for row in found] == ["insert", "delete", "insert"]

    def test_properties_that_say_more_than_logs_have(self, tmp_path: Path) -> None:
        """Another program has changed the mode, and does not say since when."""
        small, first = self.written(tmp_path, KEYS)
        path = small.path / ".hoodie" / "hoodie.properties"
        path.write_text(path.read_text().replace("OP_KEY_ONLY", "DATA_BEFORE_AFTER"))
        small.table = table.open_table(str(small.path), small.env)
        small.put(("1", 3))
        (*before, last) = by_write(small.changes(first), 10, 2, 3, 1)
        assert before == self.expected()
        assert last == [("u", "1", 2, 3)]


class TestCleaned:
    @KINDS
    def test_ranges_end_where_files_are_gone(
        self, config: table_config.TableConfig, tmp_path: Path
    ) -> None:
        small = Watched(tmp_path, config)
        times = []
        for number in range(4):
            times.append(small.put(("1", number)))
            if not config.is_copy_on_write:
                small.compact()
        options = small.options(**small.more).transaction
        assert small.table.clean(NOW, options).done
        with pytest.raises(errors.GoneError, match="the earliest time after it") as refused:
            small.changes(times[0])
        found = small.changes(refused.value.readable)
        assert found == [("u", "1", number - 1, number) for number in range(4)][4 - len(found) :]
        assert small.changes(times[-1]) == []

    def test_stored_images_outlive_the_rows_before(self, tmp_path: Path) -> None:
        """They go with the slice of their write, one clean later."""
        refusals = []
        for config in (COW, STORED):
            small = Watched(tmp_path / config.name / str(config.change_data), config)
            times = [small.put(("1", number)) for number in range(3)]
            small.table.clean(NOW, small.options(**small.more).transaction)
            try:
                refusals.append(small.changes(times[0]))
            except errors.GoneError:
                refusals.append([])
        assert refusals == [[], [("u", "1", 0, 1), ("u", "1", 1, 2)]]

    def test_consumers_hold_them(self, tmp_path: Path) -> None:
        small = Watched(tmp_path, STORED)
        small.put(("1", 0))
        found = small.table.change_data()
        to = Progress(to=found.position.time, position=str(found.position))
        small.table.advance_consumer("billing", to)
        for number in (1, 2):
            small.put(("1", number))
        small.table.clean(NOW, small.options(**small.more).transaction)
        kept = short(small.table.change_data(consumer="billing"))
        assert kept == [("u", "1", 0, 1), ("u", "1", 1, 2)]
        with pytest.raises(errors.InvalidInputError, match="expected one of"):
            small.table.change_data("20260101000000000", consumer="billing")


class TestSwitched:
    """Capturing begins, changes or ends while the table is in use."""

    def switch(self, small: Watched, mode: LoggingMode | None) -> None:
        transaction = small.options(**small.more).transaction
        small.table = small.table.capture_change_data(transaction, mode)

    @pytest.mark.parametrize("config", [PLAIN, COW], ids=["mor", "cow"])
    def test_changes_are_the_same_whatever_was_captured(
        self, config: table_config.TableConfig, tmp_path: Path
    ) -> None:
        small = Watched(tmp_path, config)
        small.put(("1", 0))
        for number, mode in enumerate([*LoggingMode, None, LoggingMode.DATA_BEFORE_AFTER], 1):
            self.switch(small, mode)
            assert table.open_table(str(small.path), small.env).config.change_data is mode
            small.put(("1", number))
        assert len(list(small.path.rglob("*.cdc"))) == 4 * config.is_copy_on_write
        expected = [("i", "1", None, 0), *(("u", "1", n - 1, n) for n in range(1, 6))]
        assert small.changes() == expected

    def test_stored_images_of_earlier_writes_are_still_read(self, tmp_path: Path) -> None:
        small = Watched(tmp_path, STORED)
        first = small.put(("1", 0))
        small.put(("1", 1))
        self.switch(small, None)
        for path in small.base_files():
            path.write_bytes(b"broken")
        assert small.changes(first) == [("u", "1", 0, 1)]

    def test_range_ends_where_less_was_stored_and_files_are_gone(self, tmp_path: Path) -> None:
        """Keys alone do not stand in for rows that were cleaned; rows that are stored do."""
        small = Watched(tmp_path, KEYS)
        times = [small.put(("1", number)) for number in range(2)]
        self.switch(small, LoggingMode.DATA_BEFORE_AFTER)
        times.append(small.put(("1", 2)))
        small.table.clean(NOW, small.options(**small.more).transaction)
        with pytest.raises(errors.GoneError) as refused:
            small.changes(times[0])
        assert small.changes(refused.value.readable) == [("u", "1", 1, 2)]
        small.put(("1", 3))
        small.table.clean(NOW, small.options(**small.more).transaction)
        assert small.changes(times[1]) == [("u", "1", 1, 2), ("u", "1", 2, 3)]

    def test_write_that_began_before_is_refused(self, tmp_path: Path) -> None:
        small = Watched(tmp_path, COW)
        small.put(("1", 0))
        stale = small.table
        self.switch(small, LoggingMode.OP_KEY_ONLY)
        small.table, now = stale, small.table
        with pytest.raises(errors.ConflictError, match="change data of table small is OP_KEY_ONLY"):
            small.put(("1", 1))
        small.table = now
        small.put(("1", 1))
        assert not small.problems()

    def test_pending_write_has_to_end_first(self, tmp_path: Path) -> None:
        small = Watched(tmp_path, COW)
        small.put(("1", 0))
        options = small.options("late", **small.more)
        session = small.table.begin_write(options, ["id", "part", "a", "b"])
        assert not isinstance(session, table.results.AlreadyCommitted)
        with pytest.raises(errors.ConflictError, match="is pending, and began by the rules"):
            self.switch(small, LoggingMode.OP_KEY_ONLY)
        self.switch(small, None)  # It is so already.


class TestColumns:
    def test_images_have_the_columns_asked_for(self, tmp_path: Path) -> None:
        small = Watched(tmp_path, STORED)
        time = small.put(("1", 1))
        small.put(("1", 2))
        for names in (["b"], ["_hoodie_commit_time", "a"]):
            found = small.table.change_data(time, columns=names).read().read_all()
            ((before, after),) = [(row["before"], row["after"]) for row in found.to_pylist()]
            assert list(before) == list(after) == names
            assert before.get("_hoodie_commit_time", time) == time
        with pytest.raises(errors.NotFoundError, match="no column 'x'"):
            small.table.change_data(columns=["x"])

    @pytest.mark.parametrize("config", [PLAIN, STORED, KEYS])
    def test_columns_that_came_later_are_null_before(
        self, config: table_config.TableConfig, tmp_path: Path
    ) -> None:
        small = Watched(tmp_path, config)
        first = small.put(("1", 1))
        small.put(("1", 2))
        data = pa.table({"id": ["1"], "part": ["p"], "a": [3], "b": ["x"], "c": ["new"]})
        small.table.write(data, small.options(adds_columns=True, **small.more))
        grown = table.open_table(str(small.path), small.env)
        rows = grown.change_data(first, columns=["a", "c"]).read().read_all().to_pylist()
        assert [(row["before"], row["after"]) for row in rows] == [
            ({"a": 1, "c": None}, {"a": 2, "c": None}),
            ({"a": 2, "c": None}, {"a": 3, "c": "new"}),
        ]

    @pytest.mark.parametrize("config", [PLAIN, CONFIG, STORED, BEFORE])
    def test_nested_columns_and_numbers_that_are_none(
        self, config: table_config.TableConfig, tmp_path: Path
    ) -> None:
        columns = pa.schema(
            [
                ("id", pa.string()),
                ("tags", pa.list_(pa.string())),
                ("place", pa.struct([("city", pa.string()), ("zip", pa.int32())])),
                ("price", pa.float64()),
            ]
        )
        config = replace(config, partition_fields=())
        made = table.create_table(
            str(tmp_path / "n"), config, schemas.from_arrow(columns, "n"), environment.system()
        )
        options = Watched(tmp_path, config).options(concurrency=settings.ConcurrencyMode.OPTIMISTIC)
        rows = [
            {"id": "1", "tags": ["x"], "place": {"city": "a", "zip": 1}, "price": float("nan")},
            {"id": "2", "tags": None, "place": None, "price": 1.5},
        ]
        made.write(pa.Table.from_pylist(rows, columns), options)
        first = made.timeline().completed_writes[-1].requested_time
        changed = {"id": "2", "tags": ["y", "z"], "place": {"city": None, "zip": 2}, "price": 2.5}
        made.write(pa.Table.from_pylist([changed], columns), options)
        found = made.change_data(first).read().read_all().to_pylist()
        assert [(row["op"], row["before"], row["after"]) for row in found] == [
            ("u", rows[1], changed)
        ]
        assert [row["op"] for row in made.change_data().read().read_all().to_pylist()] == [
            "i",
            "i",
            "u",
        ]

    @pytest.mark.parametrize("config", [PLAIN, STORED, BEFORE])
    def test_partition_columns_in_paths_alone(
        self, config: table_config.TableConfig, tmp_path: Path
    ) -> None:
        small = Watched(tmp_path, replace(config, drops_partition_columns=True))
        first = small.put(("1", 1))
        small.put(("1", 2))
        (row,) = small.table.change_data(first).read().read_all().to_pylist()
        assert (row["before"]["part"], row["after"]["part"]) == ("p", "p")


def test_moves_to_another_partition(tmp_path: Path) -> None:
    config = replace(COW, bucket_count=None, index=table_config.IndexKind.GLOBAL_SIMPLE)
    small = Watched(tmp_path, config)
    first = small.put(("1", 1), ("2", 2))
    small.put(("1", 3), part="q")
    found = small.table.change_data(first).read().read_all().to_pylist()
    places = {(row["op"], row["record_key"], row["partition_path"]) for row in found}
    assert places == {("d", "1", "p"), ("i", "1", "q")}


def test_two_rows_of_one_key(tmp_path: Path) -> None:
    """An insert adds a row beside another of its key; updates and deletes take the first."""
    small = Watched(tmp_path, COW)
    first = small.put(("1", 1))
    small.put(("1", 2), operation=commits.Operation.INSERT)
    small.put(("1", 3))
    small.drop("1")
    expected = [("i", "1", None, 2), ("u", "1", 1, 3), ("d", "1", 3, None)]
    assert small.changes(first) == expected


def test_tasks_can_be_run_by_other_processes(tmp_path: Path) -> None:
    small = Watched(tmp_path, STORED)
    first = small.put(("1", 1))
    small.put(("1", 2))
    found = small.table.change_data(first)
    parts = pickle.loads(pickle.dumps(list(row_versions.together(found.tasks()))))
    batches = [batch for each in parts for batch in row_versions.changes_of(each)]
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert rows == found.read().read_all().to_pylist()
    assert [row["after"]["a"] for row in rows] == [2]


@KINDS
@pytest.mark.parametrize("is_net", [False, True])
def test_changes_without_columns_have_operations_and_keys(
    tmp_path: Path, config: table_config.TableConfig, *, is_net: bool
) -> None:
    made = Watched(tmp_path, config)
    first = made.put(("1", 1), ("2", 1))
    made.put(("2", 2), ("3", 1))
    made.drop("1")
    for since in (None, first):
        how = {"since": since, "is_net": is_net}
        named = made.table.change_data(columns=["id"], **how).read().read_all()
        found = made.table.change_data(columns=[], **how).read().read_all()
        assert found.column_names == named.column_names
        names = [name for name in named.column_names if name not in ("before", "after")]
        assert found.select(names) == named.select(names)
        for name in ("before", "after"):
            assert found.schema.field(name).type == pa.struct([])
            assert found.column(name).is_valid() == named.column(name).is_valid()
