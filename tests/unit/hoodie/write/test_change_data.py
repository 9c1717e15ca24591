"""Change data that writes keep: logs beside base files, as Apache Hudi 1.2.0 writes them."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from hoodie import table
from hoodie.filegroup import snapshots
from hoodie.format import avro_records, log_blocks
from hoodie.maintenance.cleaning import retention
from hoodie.model import commits, results, schemas, settings, table_config
from hoodie.model.change_data import LoggingMode
from hoodie.model.table_config import IndexKind, MergeMode, TableType
from hoodie.timeline import contents
from hoodie.write import sessions
from support.tables.tables import CONFIG, Rows, SmallTable

SINGLE = settings.ConcurrencyMode.SINGLE_WRITER
COW = replace(
    CONFIG,
    table_type=TableType.COPY_ON_WRITE,
    has_partial_updates=False,
    bucket_count=1,
    change_data=LoggingMode.DATA_BEFORE_AFTER,
)
MOR = replace(COW, table_type=TableType.MERGE_ON_READ)
FIRST = [{"id": str(n), "part": "p", "a": n} for n in range(3)]


class Captured(SmallTable):
    """A table of a single writer, and what its commits say of changes."""

    def __init__(self, path: Path, config: table_config.TableConfig = COW, **types: str) -> None:
        super().__init__(path / "t", config, **types)

    def write(self, rows: Rows, operation: str = "UPSERT", **options: object) -> None:
        if operation != "DELETE":
            rows = [{"b": None} | dict(row) for row in rows]
        chosen = {"concurrency": SINGLE, "operation": commits.Operation[operation]} | options
        result = self.upsert(rows, **chosen)
        assert isinstance(result, results.CommitResult)

    def newest(self) -> commits.CommitMetadata:
        """What the newest commit says, as read from the timeline."""
        storage = self.env.open_storage(str(self.path))
        return contents.read_commit(storage, self.table.timeline().completed_writes[-1])

    def logged(self) -> list[dict[str, object]]:
        """The records of the newest commit's change data, from the files that it names."""
        found: list[dict[str, object]] = []
        for stat in self.newest().stats:
            for each in stat.change_data:
                content = (self.path / each.path).read_bytes()
                assert len(content) == each.size_bytes
                for block in log_blocks.scan(pa.py_buffer(content)):
                    assert isinstance(block, log_blocks.Block)
                    assert block.type is log_blocks.BlockType.CDC_DATA
                    schema = block.header[log_blocks.HeaderKey.SCHEMA]
                    found += avro_records.decode(block.content, schema).to_pylist()
        return found

    def change_files(self) -> list[str]:
        return sorted(each.name for each in self.path.rglob("*.cdc"))


def image(key: str, a: int | None) -> dict[str, object]:
    return {"id": key, "part": "p", "a": a, "b": None}


def changed(rows: Rows) -> list[tuple[object, object, object]]:
    return [(row["op"], value(row.get("before")), value(row.get("after"))) for row in rows]


def value(found: object) -> object:
    return found["a"] if isinstance(found, Mapping) else None


class TestCopyOnWrite:
    def test_new_file_groups_say_nothing(self, tmp_path: Path) -> None:
        """All of their rows are inserted, as everyone can see."""
        small = Captured(tmp_path)
        small.write(FIRST)
        assert small.change_files() == []
        (stat,) = small.newest().stats
        assert (stat.change_data, stat.records, stat.inserts, stat.updates) == ((), 3, 3, 0)

    def test_images_before_and_after(self, tmp_path: Path) -> None:
        small = Captured(tmp_path)
        small.write(FIRST)
        small.write([{"id": "0", "part": "p", "a": 10}, {"id": "9", "part": "p", "a": 9}])
        time = small.table.timeline().completed_writes[-1].requested_time
        assert small.logged() == [
            {"op": "u", "ts_ms": time, "before": image("0", 0), "after": image("0", 10)},
            {"op": "i", "ts_ms": time, "before": None, "after": image("9", 9)},
        ]
        (stat,) = small.newest().stats
        (log,) = stat.change_data
        assert log.path == f"p/.{stat.file_id}_{time}.log.1_0-0-0.cdc"
        small.write([{"id": "1", "part": "p"}, {"id": "77", "part": "p"}], "DELETE")
        assert changed(small.logged()) == [("d", 1, None)]
        assert small.rows(columns=["id"]) == [{"id": "0"}, {"id": "2"}, {"id": "9"}]
        assert small.problems() == []

    def test_columns_that_are_never_null(self, tmp_path: Path) -> None:
        """A row that is new, or gone, has no image all the same."""
        small = Captured(tmp_path)
        record = json.loads(small.table.schema.avro)
        for each in record["fields"]:
            if each["name"] != "b":
                each["type"] = each["type"][1]
                del each["default"]
        schema = schemas.from_avro(json.dumps(record))
        small.path = tmp_path / "never-null"
        small.table = table.create_table(str(small.path), COW, schema, small.env)
        small.write(FIRST)
        small.write([{"id": "9", "part": "p", "a": 9}])
        assert changed(small.logged()) == [("i", None, 9)]
        small.write([{"id": "1", "part": "p"}], "DELETE")
        assert changed(small.logged()) == [("d", 1, None)]

    @pytest.mark.parametrize("mode", [LoggingMode.OP_KEY_ONLY, LoggingMode.DATA_BEFORE])
    def test_shorter_modes(self, mode: LoggingMode, tmp_path: Path) -> None:
        small = Captured(tmp_path, replace(COW, change_data=mode))
        small.write(FIRST)
        small.write([{"id": "0", "part": "p", "a": 10}, {"id": "9", "part": "p", "a": 9}])
        logged = small.logged()
        assert [(row["op"], row["record_key"]) for row in logged] == [("u", "0"), ("i", "9")]
        if mode is LoggingMode.DATA_BEFORE:
            assert [row["before"] for row in logged] == [image("0", 0), None]
        assert set(logged[0]) == set(mode.columns)

    def test_rows_that_lose_do_not_change(self, tmp_path: Path) -> None:
        config = replace(COW, merge_mode=MergeMode.EVENT_TIME, ordering_fields=("ts",))
        small = Captured(tmp_path, config, ts="int64")
        small.write([{**row, "ts": 100} for row in FIRST])
        small.write([{**FIRST[0], "a": 7, "ts": 99}, {**FIRST[1], "a": 8, "ts": 100}])
        assert changed(small.logged()) == [("u", 1, 8)]
        small.write([{**FIRST[0], "a": 7, "ts": 99}])
        # Apache Hudi's readers of changes fail without the log, though there is nothing in it.
        assert len(small.newest().stats[0].change_data) == 1
        assert small.logged() == []

    def test_partial_updates_show_whole_rows(self, tmp_path: Path) -> None:
        small = Captured(tmp_path, replace(COW, has_partial_updates=True))
        small.write([{**row, "b": "x"} for row in FIRST])
        small.write([{"id": "0", "part": "p", "a": 10}])
        ((before, after),) = [(row["before"], row["after"]) for row in small.logged()]
        assert before == image("0", 0) | {"b": "x"}
        assert after == image("0", 10) | {"b": "x"}

    def test_inserts_beside_rows_of_their_keys(self, tmp_path: Path) -> None:
        """Apache Hudi leaves two rows with one key there, too."""
        small = Captured(tmp_path)
        small.write(FIRST)
        small.write([{"id": "0", "part": "p", "a": 10}], "INSERT")
        assert changed(small.logged()) == [("i", None, 10)]
        small.write([{"id": "0", "part": "p", "a": 11}], "INSERT", merges_inserts=True)
        assert changed(small.logged()) == [("u", 0, 11)]

    def test_all_rows_deleted(self, tmp_path: Path) -> None:
        small = Captured(tmp_path)
        small.write(FIRST)
        small.write([{"id": row["id"], "part": "p"} for row in FIRST], "DELETE")
        assert changed(small.logged()) == [("d", 0, None), ("d", 1, None), ("d", 2, None)]

    def test_replaced_file_groups_say_nothing(self, tmp_path: Path) -> None:
        small = Captured(tmp_path)
        small.write(FIRST)
        small.write([{"id": "5", "part": "p", "a": 5}], "INSERT_OVERWRITE")
        assert small.change_files() == []

    def test_blocks_and_files_are_bounded(self, tmp_path: Path) -> None:
        """One record a block, and one block a file, in the order of the rows."""
        small = Captured(tmp_path)
        rows = [{"id": f"{n:04d}", "part": "p", "a": n} for n in range(3)]
        small.write(rows)
        small.write(rows, log_block_bytes_max=1, log_file_bytes_max=1)
        small.write([{**rows[0], "a": 7}], log_block_bytes_max=1, log_file_bytes_max=1)
        assert changed(small.logged()) == [("u", 0, 7)]
        small.write([{"id": "x", "part": "p", "a": 1}, rows[1]], log_file_bytes_max=1)
        assert changed(small.logged()) == [("u", 1, 1), ("i", None, 1)]
        assert [name.partition(".log.")[2][0] for name in small.change_files()][-2:] == ["1", "1"]

    def test_looked_up_keys(self, tmp_path: Path) -> None:
        config = replace(COW, index=IndexKind.GLOBAL_SIMPLE, bucket_count=None)
        small = Captured(tmp_path, config)
        small.write(FIRST)
        small.write([{**FIRST[0], "part": "q"}, {**FIRST[1], "a": 8}])
        assert sorted(changed(small.logged()), key=str) == [("d", 0, None), ("u", 1, 8)]


class TestMergeOnRead:
    def test_logs_say_what_they_stand_on(self, tmp_path: Path) -> None:
        """Apache Hudi computes from that what they change."""
        small = Captured(tmp_path, MOR)
        small.write(FIRST)
        (first,) = small.newest().stats
        small.write([{"id": "0", "part": "p", "a": 10}])
        small.write([{"id": "0", "part": "p", "a": 11}])
        (stat,) = small.newest().stats
        assert stat.base_file == first.path.removeprefix("p/")
        assert len(stat.log_files) == len(stat.logs_before) == 1
        assert stat.path == f"p/{stat.log_files[0]}"
        assert stat.log_files[0] > stat.logs_before[0]
        assert small.change_files() == []

    def test_compactions_say_what_logs_changed(self, tmp_path: Path) -> None:
        small = Captured(tmp_path, MOR)
        small.write(FIRST)
        small.write([{"id": "0", "part": "p", "a": 10}, {"id": "9", "part": "p", "a": 9}])
        small.write([{"id": "1", "part": "p"}], "DELETE")
        assert small.compact() is not None
        expected = [("d", 1, None), ("i", None, 9), ("u", 0, 10)]
        assert sorted(changed(small.logged()), key=str) == expected
        assert small.problems() == []

    def test_compactions_in_little_memory(self, tmp_path: Path) -> None:
        small = Captured(tmp_path, MOR)
        rows = [{"id": f"{n:04d}", "part": "p", "a": n} for n in range(200)]
        small.write(rows)
        small.write([{**row, "a": -1} for row in rows[:100]])
        small.write([{"id": row["id"], "part": "p"} for row in rows[50:150]], "DELETE")
        service = small.options(compaction_memory_bytes=1).transaction
        planned = small.table.schedule_compaction(service)
        assert planned is not None
        small.table.compact(planned, service)
        ops = [row["op"] for row in small.logged()]
        assert (ops.count("u"), ops.count("d"), ops.count("i")) == (50, 100, 0)


class TestLeftovers:
    def test_cleaning_takes_change_data_with_its_slice(self, tmp_path: Path) -> None:
        small = Captured(tmp_path)
        for number in range(4):
            small.write([{"id": "0", "part": "p", "a": number}])
        assert len(small.change_files()) == 3
        small.table.clean(
            retention.Retention(retained=1, grace_ms=0),
            small.options(concurrency=SINGLE).transaction,
        )
        assert len(small.change_files()) < 3
        assert small.problems() == []

    def test_failed_writes_leave_none(self, tmp_path: Path) -> None:
        small = Captured(tmp_path)
        small.write(FIRST)
        options = small.options(concurrency=SINGLE)
        session = small.table.begin_write(options, ["id", "part", "a", "b"])
        assert isinstance(session, sessions.WriteSession)
        small.write_files(session, [{"id": "0", "part": "p", "a": 7, "b": None}])
        (name,) = small.change_files()
        assert session.requested_time in name
        session.abort(has_tasks_left=False)
        assert small.change_files() == []
        assert small.problems() == []

    def test_what_comes_after_a_rollback_is_swept(self, tmp_path: Path) -> None:
        """A task that was paused for long puts its files there once nobody expects them."""
        small = Captured(tmp_path)
        small.write(FIRST)
        options = small.options(concurrency=SINGLE)
        session = small.table.begin_write(options, ["id", "part", "a", "b"])
        assert isinstance(session, sessions.WriteSession)
        small.write_files(session, [{"id": "0", "part": "p", "a": 7, "b": None}])
        (path,) = small.path.rglob("*.cdc")
        content = path.read_bytes()
        session.abort(has_tasks_left=False)
        path.write_bytes(content)
        small.table.roll_back_failed(options.transaction)
        assert small.change_files() == []

    def test_metadata_tables_list_them(self, tmp_path: Path) -> None:
        small = Captured(tmp_path)
        small.write(FIRST)
        small.table.initialise_metadata(small.options(concurrency=SINGLE).transaction)
        made = table.open_table(str(small.path), small.env)
        made.write(
            small.data([{"id": "0", "part": "p", "a": 7, "b": None}]),
            small.options(concurrency=SINGLE),
        )
        assert small.change_files()
        assert made.validate_metadata().is_right
        listed = snapshots.take(
            small.env.open_storage(str(small.path)), made.config, has_committed_only=True
        ).listing.change_data("p")
        assert [each.name for each in listed] == small.change_files()
