"""The history of a row through the table's door."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

import hoodie
from hoodie import errors
from hoodie.maintenance.archiving import planning as archive_planning
from hoodie.maintenance.cleaning import retention
from hoodie.model import commits, settings, table_config
from hoodie.model.change_data import LoggingMode
from support.tables import restores
from support.tables.tables import CONFIG, SmallTable

PLAIN = replace(CONFIG, has_partial_updates=False)
COW = replace(PLAIN, table_type=table_config.TableType.COPY_ON_WRITE)
STORED = replace(COW, change_data=LoggingMode.DATA_BEFORE_AFTER)
KEYS = replace(COW, change_data=LoggingMode.OP_KEY_ONLY)
LOOKED_UP = replace(COW, bucket_count=None, index=table_config.IndexKind.SIMPLE)
KINDS = pytest.mark.parametrize(
    "config",
    [PLAIN, CONFIG, COW, STORED, KEYS, LOOKED_UP],
    ids=["mor", "partial", "cow", "stored", "keys", "looked-up"],
)
NOW = retention.Retention(retained=1, grace_ms=0)
Told = tuple[str, object, object]


class Kept(SmallTable):
    """A table, and short forms of the history of its rows."""

    def __init__(self, path: Path, config: table_config.TableConfig = PLAIN) -> None:
        super().__init__(path / "t", config)
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

    def drop(self, *keys: str, part: str = "p") -> None:
        self.delete([{"id": key, "part": part} for key in keys], **self.more)

    def whole(self, key: str, **how: object) -> list[dict[str, object]]:
        found: list[dict[str, object]] = (
            self.table.history(key, **how).read().read_all().to_pylist()
        )
        return found

    def told(self, key: str, **how: object) -> list[Told]:
        return [
            (str(row["event"]), value(row["before"]), value(row["after"]))
            for row in self.whole(key, **how)
        ]


def value(image: object) -> object:
    return image["a"] if isinstance(image, Mapping) else None


@KINDS
def test_each_write_that_changed_the_row(config: table_config.TableConfig, tmp_path: Path) -> None:
    small = Kept(tmp_path, config)
    first = small.put(("1", 1), ("2", 2))
    small.put(("2", 20), ("3", 3))
    small.put(("1", 10))
    small.drop("1")
    small.put(("1", 11), batch_id="b7")
    expected = [
        ("insert", None, 1),
        ("update", 1, 10),
        ("delete", 10, None),
        ("insert", None, 11),
    ]
    assert small.told("1") == expected
    assert small.told("1", partition="p") == expected
    assert small.told("1", since=first) == expected[1:]
    assert small.told("1", until=first) == expected[:1]
    assert small.told("2") == [("insert", None, 2), ("update", 2, 20)]
    assert small.told("4") == small.told("1", partition="q") == []
    rows = small.whole("1")
    assert [row["operation"] for row in rows] == ["upsert", "upsert", "delete", "upsert"]
    writes = small.table.timeline().completed_writes
    told = [(row["instant"], row["completed"], row["writer"]) for row in rows]
    assert told == [
        (str(writes[i].requested_time), writes[i].completion_time, "w") for i in (0, 2, 3, 4)
    ]


@KINDS
def test_compactions_and_rows_that_lose_change_nothing(
    config: table_config.TableConfig, tmp_path: Path
) -> None:
    ordered = replace(
        config,
        has_partial_updates=False,
        merge_mode=table_config.MergeMode.EVENT_TIME,
        ordering_fields=("a",),
    )
    small = Kept(tmp_path, ordered)
    small.put(("1", 5))
    small.put(("1", 4))
    if not config.is_copy_on_write:
        small.compact()
    small.put(("1", 6))
    assert small.told("1") == [("insert", None, 5), ("update", 5, 6)]


def test_partial_updates(tmp_path: Path) -> None:
    small = Kept(tmp_path, CONFIG)
    small.put(("1", 5))
    small.upsert([{"id": "1", "part": "p", "b": "new"}], **small.more)
    (_, row) = small.whole("1")
    assert row["before"] == {"id": "1", "part": "p", "a": 5, "b": "x"}
    assert row["after"] == {"id": "1", "part": "p", "a": 5, "b": "new"}


def test_one_key_in_two_partitions(tmp_path: Path) -> None:
    small = Kept(tmp_path, COW)
    small.put(("1", 1))
    small.put(("1", 2), part="q")
    rows = [(row["event"], row["partition_path"]) for row in small.whole("1")]
    assert rows == [("insert", "p"), ("insert", "q")]
    assert small.told("1", partition="q") == [("insert", None, 2)]


def test_replaced_file_groups(tmp_path: Path) -> None:
    small = Kept(tmp_path, COW)
    small.put(("1", 1), ("2", 2))
    small.put(("1", 9), operation=commits.Operation.INSERT_OVERWRITE)
    assert small.told("1") == [("insert", None, 1), ("update", 1, 9)]
    assert small.told("2") == [("insert", None, 2), ("delete", 2, None)]


def test_file_groups_of_other_buckets_and_partitions_are_not_read(tmp_path: Path) -> None:
    small = Kept(tmp_path, COW)
    small.put(*((str(number), 1) for number in range(8)))
    small.put(("1", 1), part="q")
    rows = small.table.read(["id", "part", "_hoodie_file_name"]).read_all().to_pylist()
    (mine,) = (row["_hoodie_file_name"] for row in rows if (row["id"], row["part"]) == ("1", "p"))
    for path in small.path.rglob("*.parquet"):
        if path.name != mine:
            path.write_bytes(b"broken")
    assert small.told("1", partition="p") == [("insert", None, 1)]
    with pytest.raises(errors.FormatError):
        small.told("1", partition="q")


class TestGone:
    @pytest.mark.parametrize("config", [PLAIN, COW, LOOKED_UP])
    def test_what_was_cleaned_is_said(
        self, config: table_config.TableConfig, tmp_path: Path
    ) -> None:
        small = Kept(tmp_path, config)
        times = []
        for number in range(5):
            times.append(small.put(("1", number)))
            if not config.is_copy_on_write:
                small.compact()
        assert small.table.clean(NOW, small.options(**small.more).transaction).done
        unknown, known, *changes = small.whole("1")
        assert unknown["event"] == "unknown"
        assert "not known any more: " in str(unknown["note"])
        assert "deleted p/" in str(unknown["note"])
        assert (known["event"], value(known["after"])) == ("known", 4 - len(changes))
        assert known["instant"] == times[4 - len(changes)]
        assert known["completed"] is not None
        assert [value(row["after"]) for row in changes] == list(range(5))[5 - len(changes) :]

    def test_stored_changes_outlive_the_rows_before(self, tmp_path: Path) -> None:
        small = Kept(tmp_path, STORED)
        for number in range(3):
            small.put(("1", number))
        small.table.clean(NOW, small.options(**small.more).transaction)
        assert small.told("1")[-2:] == [("update", 0, 1), ("update", 1, 2)]

    def test_row_that_was_deleted_meanwhile(self, tmp_path: Path) -> None:
        small = Kept(tmp_path, replace(COW, bucket_count=1))
        for number in range(3):
            small.put(("1", number), ("2", 1))
        small.drop("1")
        small.put(("2", 5))
        small.table.clean(NOW, small.options(**small.more).transaction)
        unknown, known, *rest = small.whole("1")
        assert "what 4 writes did" in str(unknown["note"])
        assert (known["event"], known["after"], rest) == ("known", None, [])
        assert "the table has no such row as of" in str(known["note"])

    def test_restores_are_said(self, tmp_path: Path) -> None:
        small = Kept(tmp_path, COW)
        small.put(("1", 1))
        small.put(("1", 2))
        restore = restores.put(small.path, small.table.timeline().completed_writes[-1])
        _, unknown, known = small.whole("1")
        assert f"{restore} rolled back what was written since" in str(unknown["note"])
        assert (known["event"], value(known["after"])) == ("known", 1)
        assert f"as of {restore.completion_time}" in str(known["note"])
        small.put(("1", 3))
        events = [event for event, _, _ in small.told("1")]
        assert events == ["insert", "unknown", "known", "update"]
        assert small.told("1")[-1] == ("update", 1, 3)

    def test_archived_writes_are_there_as_long_as_their_files_are(self, tmp_path: Path) -> None:
        small = Kept(tmp_path, COW)
        for number in range(8):
            small.put(("1", number))
        policy = archive_planning.Policy(commits_min=2, commits_max=3)
        assert small.table.archive(small.options(**small.more).transaction, policy).archived
        assert [after for _, _, after in small.told("1")] == list(range(8))


def test_keys_of_several_fields_by_their_values(tmp_path: Path) -> None:
    config = replace(COW, record_key_fields=("id", "a"), bucket_count=1)
    small = Kept(tmp_path, config)
    small.put(("1", 1))
    found = small.table.history({"id": "1", "a": 1}).read().read_all()
    assert found.column("record_key").to_pylist() == ["id:1,a:1"]
    assert small.table.history({"id": "1", "a": "1"}).read().read_all() == found
    for wrong in ({"id": "1"}, {"id": "1", "a": "x"}, {}, 1):
        with pytest.raises(errors.InvalidInputError):
            small.table.history(wrong)
    with pytest.raises(errors.NotFoundError):
        small.table.history("id:1,a:1", columns=["c"])


def test_key_that_is_a_number_is_given_as_one(tmp_path: Path) -> None:
    made = hoodie.create_table(tmp_path / "t", {"id": "int64"}, "id", foreign_writers=False)
    made.insert([{"id": 1}, {"id": 2}])
    for key in (1, "1", {"id": 1}):
        (found,) = made.history(key).read().read_all().to_pylist()
        assert (found["event"], found["after"]) == ("insert", {"id": 1})
    with pytest.raises(errors.InvalidInputError, match=r"1\.5 is not a value of key field 'id'"):
        made.history(1.5)
