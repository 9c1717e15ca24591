"""Changes as the data source gives them, without a session: options, columns, micro-batches."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import datasource
from pyspark.sql.datasource import EqualTo, GreaterThan, IsNotNull, IsNull, Not
from pyspark.sql.streaming import datasource as limits

from hoodie import errors
from hoodie.maintenance.cleaning import retention
from hoodie.model import commits, table_config
from hoodie.model.change_data import LoggingMode
from hoodie.model.moments import Rule
from hoodie.model.settings import KEYS, ConcurrencyMode
from hoodie.read.micro_batches import Limit
from hoodie_jobs.spark import changed, data_source, read_options
from hoodie_jobs.spark.changed import ChangesPartition
from hoodie_jobs.spark.read_options import Query, Start
from support.tables import every_type
from support.tables.indexed_tables import BESIDE
from support.tables.job_workshop import write_typed
from support.tables.streams import Kill, Rows, read_batch
from support.tables.streams import Query as Stream
from support.tables.tables import CONFIG, SmallTable

PLAIN = replace(CONFIG, has_partial_updates=False)
COW = replace(PLAIN, table_type=table_config.TableType.COPY_ON_WRITE)
INCREMENTAL = {"hoodie.datasource.query.type": "incremental"}
CDC = {read_options.FORMAT: "cdc"}
DELETES = {"deletes": "true"}
REQUESTED = {"rule": "requested"}


@pytest.fixture
def small(tmp_path: Path) -> SmallTable:
    return SmallTable(tmp_path / "t", PLAIN)


def put(small: SmallTable, *ids: str, a: int = 0, part: str = "p") -> None:
    rows = [{"id": each, "part": part, "a": a, "b": "x"} for each in ids]
    small.upsert(rows, concurrency=mode(small))


def drop(small: SmallTable, *ids: str) -> None:
    small.delete([{"id": each, "part": "p"} for each in ids], concurrency=mode(small))


def mode(small: SmallTable) -> ConcurrencyMode:
    is_alone = small.table.config.is_copy_on_write
    return ConcurrencyMode.OPTIMISTIC if is_alone else ConcurrencyMode.NON_BLOCKING


def source(small: SmallTable, **options: str) -> data_source.HoodieDataSource:
    return data_source.HoodieDataSource({"path": str(small.path), **options})


def read(small: SmallTable, options: Mapping[str, str]) -> Rows:
    """Return the rows of an incremental query."""
    return read_batch(source(small, **INCREMENTAL, **options))


def stream(small: SmallTable, **options: str) -> Stream:
    made = source(small, **options)
    schema = made.schema()
    return Stream(lambda: made.streamReader(schema))


def ids(rows: Rows) -> list[str]:
    return sorted(str(row["id"]) for row in rows)


class TestOptions:
    def test_all_of_them(self) -> None:
        found = read_options.parse(
            {
                "PATH": "/t",
                "hoodie.datasource.query.type": "INCREMENTAL",
                "hoodie.datasource.streaming.startoffset": "2026-01-02",
                "maxCommitsPerTrigger": "2",
                "maxfilespertrigger": "3",
                "maxBytesPerTrigger": "4",
                "columns": "a, b",
                "ordered": "True",
                "consumer": "c",
                read_options.FALL_BACK: "true",
            }
        )
        assert found == read_options.Options(
            uri="/t",
            query=Query.INCREMENTAL,
            start="2026-01-02",
            limit=Limit(writes=2, files=3, size_bytes=4),
            columns=("a", "b"),
            is_ordered=True,
            consumer="c",
            falls_back=True,
        )

    @pytest.mark.parametrize(
        ("options", "query"),
        [
            ({"query": "read-optimized"}, Query.READ_OPTIMIZED),
            ({"hoodie.datasource.query.type": "read_optimized"}, Query.READ_OPTIMIZED),
            ({"hoodie.datasource.view.type": "incremental"}, Query.INCREMENTAL),
            ({"query": "snapshot", "hoodie.datasource.query.type": "snapshot"}, Query.SNAPSHOT),
            ({}, Query.SNAPSHOT),
        ],
    )
    def test_queries_by_each_name(self, options: dict[str, str], query: Query) -> None:
        assert read_options.parse({"path": "/t", **options}).query is query

    @pytest.mark.parametrize("begin", ["0", "000", "earliest", "00000000000000000"])
    def test_begins_before_everything(self, begin: str) -> None:
        found = read_options.parse({"path": "/t", read_options.BEGIN: begin})
        assert found.begin is None
        started = read_options.parse({"path": "/t", read_options.START: begin})
        assert started.start is Start.EARLIEST

    @pytest.mark.parametrize(
        ("options", "rule"),
        [
            ({}, Rule.COMPLETION),
            ({"rule": "Requested"}, Rule.REQUESTED),
            ({read_options.INCREMENTAL_VERSION: "6"}, Rule.REQUESTED),
            ({read_options.INCREMENTAL_VERSION: "8"}, Rule.COMPLETION),
            ({read_options.INCREMENTAL_VERSION: "7", "rule": "requested"}, Rule.REQUESTED),
        ],
    )
    def test_rules_by_each_name(self, options: dict[str, str], rule: Rule) -> None:
        assert read_options.parse({"path": "/t", **options}).rule is rule

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"query": "changes"}, "option query is 'changes', expected snapshot or"),
            ({"query": "snapshot", **INCREMENTAL}, "name different queries"),
            ({read_options.FORMAT: "x"}, "expected latest_state or cdc"),
            ({"deletes": "yes"}, "option deletes is 'yes', expected true or false"),
            ({"maxCommitsPerTrigger": "0"}, "expected a positive number"),
            ({"maxBytesPerTrigger": "1 GB"}, "expected a positive number"),
            ({**CDC, **DELETES}, "do not go with hoodie.datasource.query.incremental.format=cdc"),
            ({**CDC, read_options.FALL_BACK: "true"}, "where these are gone there are none"),
            ({"path": ""}, "no table is named"),
            ({"rule": "requests"}, "option rule is 'requests', expected completion or requested"),
            ({read_options.INCREMENTAL_VERSION: "six"}, "expected a positive number"),
            (
                {read_options.INCREMENTAL_VERSION: "6", "rule": "completion"},
                "name different rules",
            ),
            ({**CDC, "where": "id = '1'"}, "choose them by a condition on the DataFrame"),
            ({"where": "id ="}, "expected"),
            ({**CDC, **REQUESTED}, "by requested times there are the changed rows alone"),
            ({**REQUESTED, read_options.FALL_BACK: "true"}, "do not go with rule=requested"),
            (
                {"hoodie.datasource.query.typ": "incremental"},
                "query.typ is not known; did you mean hoodie.datasource.query.type?",
            ),
            ({"wher": "id = '1'"}, "option wher is not known; did you mean where?"),
            ({"MaxFilePerTrigger": "1"}, "did you mean maxFilesPerTrigger?"),
        ],
    )
    def test_bad_values(self, options: dict[str, str], message: str) -> None:
        with pytest.raises(errors.InvalidInputError, match=message):
            read_options.parse({"path": "/t", **options})

    def test_options_of_writers_and_of_other_readers_are_ignored(self) -> None:
        others = [key.name for key in KEYS]
        others += [
            "hoodie.datasource.write.operation",
            "hoodie.datasource.write.table.type",
            "hoodie.datasource.read.incr.skip_cluster",
            "hoodie.datasource.read.file.index.listing.mode",
            "mergeSchema",
        ]
        options = {"path": "/t", **dict.fromkeys(others, "x")}
        assert read_options.parse(options) == read_options.Options(uri="/t")

    @pytest.mark.parametrize(
        "options",
        [
            {"hoodie.datasource.read.incr.path.glob": "p/*"},
            {"hoodie.datasource.merge.type": "skip_merge"},
            {"hoodie.datasource.read.schema.use.end.instanttime": "TRUE"},
        ],
    )
    def test_options_of_apache_hudi_that_are_not_known(self, options: dict[str, str]) -> None:
        with pytest.raises(errors.UnsupportedError, match="of Apache Hudi is not supported"):
            read_options.parse({"path": "/t", **options})

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (DELETES, "hoodie.datasource.query.type=incremental"),
            (CDC, "hoodie.datasource.query.type=incremental"),
            ({read_options.END: "2026"}, "hoodie.datasource.query.type=incremental"),
            ({"ordered": "true"}, "hoodie.datasource.query.type=incremental"),
            (REQUESTED, "hoodie.datasource.query.type=incremental"),
            ({**INCREMENTAL, "as.of.instant": "2026-01-01"}, "does not go with changes"),
            ({**INCREMENTAL, "partition_values": "path"}, "partition values of changes"),
            ({**INCREMENTAL, read_options.START: "latest"}, "go with readStream"),
            ({"consumer": "c"}, "go with readStream"),
            ({"maxFilesPerTrigger": "1"}, "go with readStream"),
        ],
    )
    def test_options_that_do_not_go_with_a_batch(
        self, options: dict[str, str], message: str, small: SmallTable
    ) -> None:
        made = source(small, **options)
        with pytest.raises(errors.InvalidInputError, match=message):
            made.reader(made.schema())

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"query": "read_optimized"}, "a stream reads changes"),
            ({read_options.BEGIN: "2026-01-01"}, "go with spark.read"),
            ({read_options.END: "2026-01-01"}, "go with spark.read"),
            ({"as.of.instant": "2026-01-01", **DELETES}, "does not go with changes"),
            ({read_options.STREAM_VERSION: "6"}, "a stream reads by completion times"),
        ],
    )
    def test_options_that_do_not_go_with_a_stream(
        self, options: dict[str, str], message: str, small: SmallTable
    ) -> None:
        made = source(small, **options)
        with pytest.raises(errors.InvalidInputError, match=message):
            made.streamReader(made.schema())


class TestBatch:
    def test_rows_are_those_of_the_table(self, small: SmallTable) -> None:
        put(small, "1", "2")
        begin = str(small.table.position())
        put(small, "1", "3", a=1)
        drop(small, "2")
        expected = small.table.changes(begin).read().read_all().to_pylist()
        by_id = {row["id"]: row for row in expected}
        with_deletes = read(small, {read_options.BEGIN: begin, **DELETES})
        assert {row["id"]: row for row in with_deletes} == by_id
        assert ids(with_deletes) == ["1", "2", "3"]
        without = read(small, {read_options.BEGIN: begin})
        assert without[0].keys() == {"id", "part", "a", "b"}
        assert ids(without) == ["1", "3"]
        assert ids(read(small, {})) == ["1", "3"]
        narrow = read(small, {read_options.BEGIN: begin, "columns": "_hoodie_record_key,a"})
        assert sorted(row["_hoodie_record_key"] for row in narrow) == ["1", "3"]
        with pytest.raises(errors.NotFoundError, match="there is no column 'x'"):
            read(small, {"columns": "x"})

    def test_end_is_included(self, small: SmallTable) -> None:
        put(small, "1")
        put(small, "2")
        put(small, "3")
        times = [str(each.completion_time) for each in small.table.timeline().completed_writes]
        found = read(small, {read_options.BEGIN: times[0], read_options.END: times[1]})
        assert ids(found) == ["2"]
        assert read(small, {read_options.BEGIN: times[1], read_options.END: times[0]}) == []

    def test_range_by_requested_times(self, small: SmallTable) -> None:
        """Row 2 is written before row 3, and committed after it."""
        put(small, "1")
        first = small.table.timeline().completed_writes[-1]
        row = {"id": "2", "part": "p", "a": 0, "b": "x"}
        options = small.options("late", concurrency=mode(small), **BESIDE)
        session = small.table.begin_write(options, list(row))
        written = small.write_files(session, [row])
        small.upsert([{**row, "id": "3"}], concurrency=mode(small), **BESIDE)
        since = {read_options.BEGIN: first.requested_time}
        version = {read_options.INCREMENTAL_VERSION: "6"}
        assert ids(read(small, {**since, **version})) == []
        session.commit(written)
        last, late = small.table.timeline().completed_writes[-2:]
        assert late.requested_time < last.requested_time
        for rule in (REQUESTED, version):
            assert ids(read(small, {**since, **rule})) == ["2", "3"]
            assert ids(read(small, rule)) == ["1", "2", "3"]
            up_to = {read_options.END: late.requested_time}
            assert ids(read(small, {**since, **rule, **up_to})) == ["2"]
        after = str(last.completion_time)
        assert ids(read(small, {read_options.BEGIN: after})) == ["2"]
        assert read(small, {read_options.BEGIN: after, **REQUESTED}) == []

    def test_change_data_is_text_or_struct(self, small: SmallTable) -> None:
        put(small, "1")
        begin = str(small.table.position())
        small.upsert([{"id": "1", "part": "p", "a": None, "b": 'quoted "ü"'}])
        drop(small, "1")
        first, second = small.table.timeline().completed_writes[-2:]
        found = read(small, {read_options.BEGIN: begin, **CDC})
        updated = '{"id":"1","part":"p","b":"quoted \\"ü\\""}'
        assert found == [
            {
                "op": "u",
                "ts_ms": first.requested_time,
                "before": '{"id":"1","part":"p","a":0,"b":"x"}',
                "after": updated,
            },
            {"op": "d", "ts_ms": second.requested_time, "before": updated, "after": None},
        ]
        structs = read(small, {read_options.BEGIN: begin, **CDC, "images": "struct"})
        assert structs == small.table.change_data(begin).read().read_all().to_pylist()
        narrow = read(small, {read_options.BEGIN: begin, **CDC, "columns": "a"})
        assert [row["before"] for row in narrow] == ['{"a":0}', "{}"]

    def test_images_have_the_values_that_sparks_rows_hold(self, tmp_path: Path) -> None:
        opened = write_typed(str(tmp_path / "typed"), [every_type.ROWS])
        options = read_options.parse({"path": opened.uri, **INCREMENTAL, **CDC})
        schema = changed.schema_of(opened, options)
        rows = [
            row
            for partition in changed.partitions(
                changed.parts_of(changed.plan(opened, options, None, None))
            )
            for batch in changed.read(partition, schema, options.images)
            for row in batch.to_pylist()
        ]
        texts = {json.loads(row["after"])["id"]: json.loads(row["after"]) for row in rows}
        at = 1357095845678901
        assert texts == {
            1: {
                "id": 1,
                "flag": True,
                "small": 7,
                "ratio": 0.5,
                "score": 1.25,
                "price": "12.50",
                "day": 15707,
                "at": at,
                "local_at": at,
                "raw": "AP8=",
                "coarse_at": at // 1000 * 1000,
                "name": "ü",
            },
            2: {"id": 2},
        }

    def test_range_that_is_gone_is_an_error_or_all_rows(self, tmp_path: Path) -> None:
        small = SmallTable(tmp_path / "c", COW)
        put(small, "1", "2")
        begin = str(small.table.position())
        for number in range(3):
            put(small, "1", a=number)
        gone = retention.Retention(retained=1, grace_ms=0)
        small.table.clean(gone, small.options().transaction)
        options = {read_options.BEGIN: begin, **DELETES}
        with pytest.raises(errors.GoneError, match="earliest time after it that can be read"):
            read(small, options)
        with pytest.raises(errors.GoneError, match="earliest time after it that can be read"):
            read(small, {read_options.BEGIN: begin, **CDC})
        assert ids(read(small, {**options, read_options.FALL_BACK: "true"})) == ["1", "2"]


ONES = [f"u{id_}{part}" for id_, part in ("1p", "1q", "2q", "3p", "3q")]


class TestConditions:
    """What Spark pushes down leaves out file groups, writes and deletes before they are read."""

    @pytest.fixture
    def filled(self, small: SmallTable) -> str:
        return self.fill(small)

    @staticmethod
    def fill(small: SmallTable) -> str:
        """Keys of both buckets in two partitions, of which one key each is gone again."""
        keys = [str(number) for number in range(6)]
        for part in "pq":
            put(small, *keys, part=part)
        begin = str(small.table.position())
        for part in "pq":
            put(small, *keys[:4], a=1, part=part)
        put(small, "2", a=9)
        drop(small, "0", "5")
        return begin

    @staticmethod
    def pushed(
        small: SmallTable, options: Mapping[str, str], *conditions: datasource.Filter
    ) -> tuple[Rows, int, int]:
        """Return the rows, how many parts are read, and how many conditions are left to Spark."""
        made = source(small, **INCREMENTAL, **options)
        reader = made.reader(made.schema())
        left = list(reader.pushFilters(list(conditions)))
        partitions = reader.partitions()
        counts = [len(each.parts) for each in partitions if isinstance(each, ChangesPartition)]
        rows = [
            row for each in partitions for batch in reader.read(each) for row in batch.to_pylist()
        ]
        return rows, sum(counts), len(left)

    @pytest.mark.parametrize(
        ("conditions", "found", "parts"),
        [
            ([], ["d0p", "d5p", "u1p", "u1q", "u2p", "u2q", "u3p", "u3q", "u0q"], 8),
            ([EqualTo(("part",), "q")], ["u0q", "u1q", "u2q", "u3q"], 4),
            ([EqualTo(("id",), "2")], ["u2p", "u2q"], 4),
            ([EqualTo(("id",), "2"), EqualTo(("part",), "p")], ["u2p"], 2),
            ([EqualTo(("id",), "0"), EqualTo(("part",), "p")], ["d0p"], 2),
            ([GreaterThan(("a",), 1)], ["u2p"], 4),
            ([IsNull(("a",))], ["d0p", "d5p"], 8),
            ([Not(GreaterThan(("a",), 1)), IsNotNull(("part",))], ["u0q", *ONES], 4),
        ],
        ids=["none", "partition", "key", "both", "deleted key", "value", "null", "not"],
    )
    def test_of_rows(
        self,
        conditions: list[datasource.Filter],
        found: list[str],
        parts: int,
        small: SmallTable,
        filled: str,
    ) -> None:
        options = {read_options.BEGIN: filled, **DELETES}
        rows, read_parts, left = self.pushed(small, options, *conditions)
        shown = [f"{row['_change'][0]}{row['id']}{row['part']}" for row in rows]
        assert sorted(shown) == sorted(found)
        assert (read_parts, left) == (parts, 0)

    def test_of_the_change_itself_is_left_to_spark(self, small: SmallTable, filled: str) -> None:
        options = {read_options.BEGIN: filled, **DELETES}
        assert self.pushed(small, options, EqualTo(("_change",), "delete"))[1:] == (8, 1)

    def test_of_change_data(self, small: SmallTable, filled: str) -> None:
        options = {read_options.BEGIN: filled, **CDC, "images": "struct"}
        everything, parts, _ = self.pushed(small, options)
        last = small.table.timeline().completed_writes[-1].requested_time
        of_key, key_parts, left = self.pushed(small, options, EqualTo(("record_key",), "2"))
        assert of_key == [row for row in everything if row["record_key"] == "2"]
        assert (key_parts, left) == (parts, 1)
        for condition, kept in (
            (EqualTo(("partition_path",), "q"), lambda row: row["partition_path"] == "q"),
            (EqualTo(("ts_ms",), last), lambda row: row["ts_ms"] == last),
        ):
            found, fewer, left = self.pushed(small, options, condition)
            assert found == list(filter(kept, everything))
            assert 0 < fewer < parts
            assert left == 1
        twice = [EqualTo(("record_key",), each) for each in "23"]
        assert self.pushed(small, options, *twice)[:2] == ([], 0)

    def test_of_stored_change_data(self, tmp_path: Path) -> None:
        """What writes stored in small logs is one part, of which as much is left out."""
        stored = replace(COW, change_data=LoggingMode.DATA_BEFORE_AFTER)
        small = SmallTable(tmp_path / "t", stored)
        options = {read_options.BEGIN: self.fill(small), **CDC, "images": "struct"}
        everything, parts, _ = self.pushed(small, options)
        assert parts == 1
        assert len({row["ts_ms"] for row in everything}) == 4
        last = everything[-1]
        for name in ("record_key", "partition_path", "ts_ms"):
            found, parts, left = self.pushed(small, options, EqualTo((name,), last[name]))
            assert found == [row for row in everything if row[name] == last[name]]
            assert (parts, left) == (1, 1)

    def test_option(self, small: SmallTable, filled: str) -> None:
        found = read(small, {read_options.BEGIN: filled, "where": "a > 1 or part = 'x'"})
        assert [(row["id"], row["a"]) for row in found] == [("2", 9)]
        whole = source(small, where="a > 1")
        assert [row["id"] for row in read_batch(whole)] == ["2"]

    @pytest.mark.parametrize("limit", [{}, {"maxFilesPerTrigger": "1"}])
    def test_option_of_a_stream(
        self, limit: dict[str, str], small: SmallTable, filled: str
    ) -> None:
        assert filled
        query = stream(small, where="a = 1 and part = 'p'", **limit, **DELETES)
        query.drain()
        put(small, "7", a=1)
        put(small, "8", a=2)
        query.drain()
        assert sorted(row["id"] for rows in query.batches for row in rows) == ["1", "3", "7"]


class TestPartitions:
    def test_file_groups_are_read_in_parallel(
        self, small: SmallTable, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """With buckets of their own deletes are settled in each, too."""
        keys = [str(number) for number in range(8)]
        put(small, *keys)
        begin = small.table.position()
        put(small, *keys[4:], a=1)
        drop(small, *keys[:4])
        planned = small.table.changes(begin)
        assert len(planned.units) == 2
        assert [len(part.deletes) for part in planned.parts()] == [0, 0, 1, 1]
        monkeypatch.setattr(changed.packing, "TASK_BYTES_MIN", 1)
        assert len(changed.partitions(planned.parts())) == 4

    @pytest.mark.parametrize("is_looked_up", [False, True], ids=["buckets", "looked up"])
    def test_keys_that_come_back_in_another_file_group_are_settled_together(
        self, tmp_path: Path, *, is_looked_up: bool
    ) -> None:
        looked_up = replace(COW, bucket_count=None, index=table_config.IndexKind.SIMPLE)
        small = SmallTable(tmp_path / "s", looked_up if is_looked_up else COW)
        put(small, "1", "3")
        begin = small.table.position()
        retired = small.options(
            operation=commits.Operation.DELETE_PARTITION,
            partitions=("p",),
            concurrency=ConcurrencyMode.OPTIMISTIC,
        )
        small.table.delete_partitions(retired)
        put(small, "1", "2", a=1)
        planned = small.table.changes(begin)
        assert len(planned.units) > 1
        rows = [row for part in planned.parts() for each in part.read() for row in each.to_pylist()]
        assert sorted((row["_change"], row["id"]) for row in rows) == [
            ("delete", "3"),
            ("upsert", "1"),
            ("upsert", "2"),
        ]
        # Row 1 is there, though the filter does not keep it.
        filtered = small.table.changes(begin, where="a is null")
        by_parts = [row for part in filtered.parts() for each in part.read() for row in each["id"]]
        assert [str(each) for each in by_parts] == ["3"]
        assert [str(each) for each in filtered.read().read_all()["id"]] == ["3"]


class TestStream:
    @pytest.mark.parametrize("kill", list(Kill))
    @pytest.mark.parametrize("start", ["latest", "time"])
    def test_start_that_dies_with_its_first_micro_batch(
        self, start: str, kill: Kill, small: SmallTable
    ) -> None:
        """Spark asks for it again, and gets a later one."""
        put(small, "1")
        begin = small.table.position().time if start == "time" else start
        query = stream(small, **{read_options.START: str(begin)})
        query.step()
        assert query.batches == [[]]
        put(small, "2")
        query.step(kill)
        put(small, "3")
        query.drain()
        assert [each for rows in query.batches for each in ids(rows)] == ["2", "3"]

    def test_first_micro_batch_of_latest_is_not_lost(self, small: SmallTable) -> None:
        put(small, "1")
        query = stream(small, **{read_options.START: "latest"})
        query.reader = query.source()
        begin = query.reader.initialOffset()
        put(small, "2")
        end = query.reader.latestOffset(begin, limits.ReadAllAvailable())
        put(small, "3")
        again = query.source()
        asked_again = again.initialOffset()
        assert asked_again != begin
        query.reader = again
        assert ids(query.read(asked_again, end)) == ["2"]
        rest = again.latestOffset(end, limits.ReadAllAvailable())
        assert rest.keys() == {"position"}
        assert ids(query.read(end, rest)) == ["3"]

    def test_earliest_is_all_rows_and_then_changes(self, small: SmallTable) -> None:
        put(small, "1", "2")
        put(small, "2", a=1)
        query = stream(small, **DELETES)
        query.drain()
        drop(small, "1")
        put(small, "3")
        query.drain()
        shown = [[(row["_change"], row["id"]) for row in rows] for rows in query.batches]
        assert [sorted(each) for each in shown] == [
            [("upsert", "1"), ("upsert", "2")],
            [("delete", "1"), ("upsert", "3")],
        ]
        assert not query.step()

    @pytest.mark.parametrize(
        ("limit", "sizes"),
        [
            ({"maxCommitsPerTrigger": "2"}, [2, 2, 1]),
            ({"maxFilesPerTrigger": "1"}, [1, 1, 1, 1, 1]),
            ({"maxFilesPerTrigger": "3"}, [3, 2]),
            ({"maxBytesPerTrigger": "1"}, [1, 1, 1, 1, 1]),
            ({"maxBytesPerTrigger": "1000000"}, [5]),
        ],
    )
    def test_micro_batches_are_limited(
        self, limit: dict[str, str], sizes: list[int], small: SmallTable
    ) -> None:
        query = stream(small, **limit, **CDC)
        for number in range(5):
            put(small, "1", a=number)
        query.drain()
        assert [len(rows) for rows in query.batches] == sizes
        whole = stream(small, **limit, **CDC)
        whole.step(is_limited=False)
        assert [len(rows) for rows in whole.batches] == [5]

    @pytest.mark.parametrize(
        ("limit", "sizes"),
        [
            ({"maxFilesPerTrigger": "1"}, [1, 1, 1, 1]),
            ({"maxFilesPerTrigger": "3"}, [3, 1]),
            ({"maxBytesPerTrigger": "1"}, [1, 1, 1, 1]),
            ({"maxCommitsPerTrigger": "1"}, [4]),
        ],
    )
    def test_whole_table_comes_in_micro_batches(
        self, limit: dict[str, str], sizes: list[int], small: SmallTable
    ) -> None:
        """As of one moment, whatever is written and compacted meanwhile."""
        for number, part in enumerate("pqrs"):
            put(small, str(number), part=part)
        query = stream(small, **limit, **DELETES)
        query.step()
        put(small, "0", a=1)
        assert small.compact() is not None
        for kill in Kill:
            query.step(kill)
        query.drain()
        assert [len(rows) for rows in query.batches[: len(sizes)]] == sizes
        assert [row["a"] for rows in query.batches for row in rows] == [0, 0, 0, 0, 1]
        assert not query.step()

    def test_available_now_ends_where_it_began_to_look(self, small: SmallTable) -> None:
        query = stream(small, maxCommitsPerTrigger="1", **CDC)
        for number in range(2):
            put(small, "1", a=number)
        query.reader = query.source()
        query.reader.prepareForTriggerAvailableNow()
        query.step()
        put(small, "1", a=9)
        query.drain()
        assert [len(rows) for rows in query.batches] == [1, 1]
        query.die()
        query.drain()
        assert [len(rows) for rows in query.batches] == [1, 1, 1]

    def test_compactions_make_no_micro_batch(self, small: SmallTable) -> None:
        put(small, "1")
        query = stream(small)
        query.drain()
        put(small, "1", a=1)
        query.drain()
        assert small.compact() is not None
        assert not query.step()
        assert len(query.batches) == 2

    def test_consumer_holds_cleaning_back_and_goes_on_without_a_checkpoint(
        self, small: SmallTable
    ) -> None:
        put(small, "1")
        query = stream(small, consumer="c")
        query.drain()
        (declared,) = small.table.consumers()
        assert declared.consumer.name == "c"
        put(small, "2")
        again = stream(small, consumer="c", **{read_options.START: "latest"})
        again.drain()
        assert ids(again.batches[0]) == ["2"]

    def test_range_that_is_gone(self, tmp_path: Path) -> None:
        small = SmallTable(tmp_path / "c", COW)
        put(small, "1")
        refused, falls_back = (
            stream(small, **DELETES),
            stream(small, **DELETES, **{read_options.FALL_BACK: "true"}),
        )
        for query in (refused, falls_back):
            query.drain()
        small_again = SmallTable(tmp_path / "other", COW)
        put(small_again, "7")
        for query in (refused, falls_back):
            query.source = stream(small_again, **DELETES, **falling(query is falls_back)).source
            query.die()
        with pytest.raises(errors.GoneError, match="made again"):
            refused.step()
        falls_back.step()
        assert ids(falls_back.batches[-1]) == ["7"]

    def test_checkpoint_of_another_source(self, small: SmallTable) -> None:
        put(small, "1")
        query = stream(small)
        query.ends.append('{"commit": "7"}')
        with pytest.raises(errors.InvalidInputError, match="begin a query with a new checkpoint"):
            query.step()

    def test_limits_are_those_that_spark_has(self, small: SmallTable) -> None:
        def limit(**options: str) -> limits.ReadLimit:
            return stream(small, **options).source().getDefaultReadLimit()

        assert limit() == limits.ReadAllAvailable()
        assert limit(maxFilesPerTrigger="5") == limits.ReadMaxFiles(5)
        assert limit(maxCommitsPerTrigger="5") == limits.ReadMaxFiles((1 << 31) - 1)
        assert limit(maxBytesPerTrigger="5") == limits.ReadMaxBytes(5)


def falling(is_wanted: bool) -> dict[str, str]:
    return {read_options.FALL_BACK: str(is_wanted).lower()}


def test_schema_of_changes(small: SmallTable) -> None:
    def names(**options: str) -> list[str]:
        return source(small, **options).schema().names

    assert names() == ["id", "part", "a", "b"]
    assert names(**INCREMENTAL) == ["id", "part", "a", "b"]
    assert names(**INCREMENTAL, **DELETES) == ["_change", "id", "part", "a", "b"]
    assert names(**CDC) == ["op", "ts_ms", "before", "after"]
    structs = source(small, **CDC, images="struct").schema()
    expected = "struct<id:string,part:string,a:bigint,b:string>"
    assert structs["before"].dataType.simpleString() == expected
