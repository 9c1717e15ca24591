"""Small tables with a history, each with its content as Apache Hudi reads it.

A recipe works on a `Bench`: it lets a `Maker` write, delete and compact, and calls `stage` wherever
the table is worth reading. A stage is a frozen copy of the table's folder with two contents:
`expected`, what Apache Hudi read there, and `model`, what a dumb dictionary says. With Apache Hudi
as the maker (`RECIPES`), the peer's own test proves that both agree, and our reader is held to it;
with us as the maker, or both in turns, Apache Hudi judges what we wrote.

Cases are small (a dozen rows, a few commits) and differ in one idea each. Apache Hudi takes one to
two seconds a write, so they are made on demand, once a session.
"""

import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from support.peer.judge import Judge
from support.peer.peer_options import MODELS, Merge, PeerTable, filesystem_lock

Row = Mapping[str, Any]

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("part", pa.string()),
        ("name", pa.string()),
        ("amount", pa.float64()),
        ("quantity", pa.int32()),
        ("ts", pa.int64()),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One state of a table: a copy of its folder and its content, without meta columns."""

    name: str
    path: Path
    expected: pa.Table
    model: pa.Table


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerCase:
    """A finished case."""

    name: str
    table: PeerTable
    stages: tuple[Stage, ...]

    @property
    def key(self) -> list[str]:
        """The columns that identify a row."""
        return [*self.table.partition_by, *self.table.record_key]

    def stage(self, name: str) -> Stage:
        """Return the stage of that name."""
        return next(stage for stage in self.stages if stage.name == name)


@dataclass(slots=True, kw_only=True)
class Model:
    """What the table should hold: rows by key, merged one after the other."""

    table: PeerTable
    schema: pa.Schema
    rows: dict[tuple[Any, ...], dict[str, Any]] = field(default_factory=dict)

    def upsert(self, rows: Iterable[Row]) -> None:
        """Merge each row into what is there."""
        for row in rows:
            key = self._key(row)
            old = self.rows.get(key)
            self.rows[key] = dict(row) if old is None else self._merged(old, row)

    def delete(self, keys: Iterable[Row]) -> None:
        """Remove rows by key, whatever their ordering value."""
        for row in keys:
            self.rows.pop(self._key(row), None)

    def content(self) -> pa.Table:
        """Return the rows as a table."""
        return pa.Table.from_pylist(list(self.rows.values()), self.schema)

    def _key(self, row: Row) -> tuple[Any, ...]:
        return tuple(row[name] for name in (*self.table.partition_columns, *self.table.record_key))

    def _order(self, row: Row) -> tuple[Any, ...]:
        """Return a row's ordering values: of several fields the first counts first."""
        return tuple(row[name] for name in (self.table.ordering or "").split(","))

    def _merged(self, old: Row, new: Row) -> dict[str, Any]:
        ordering = self.table.ordering
        later = (
            self.table.merge is Merge.COMMIT_TIME
            or ordering is None
            or self._order(new) >= self._order(old)
        )
        first, second = (old, new) if later else (new, old)
        if not self.table.partial_updates:
            return dict(second)
        return dict(first) | {name: value for name, value in second.items() if value is not None}


class Maker(Protocol):
    """Who writes a table and looks after it."""

    def write(self, path: Path, rows: pa.Table, operation: str) -> None:
        """Write rows; the first write may create the table."""
        ...

    def schedule_compaction(self, path: Path) -> str | None:
        """Write a plan; return its instant."""
        ...

    def execute_compaction(self, path: Path, instant: str) -> None:
        """Execute a plan."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ApacheHudi:
    """Apache Hudi as the maker."""

    judge: Judge
    options: Mapping[str, str]

    def write(self, path: Path, rows: pa.Table, operation: str) -> None:
        """Write rows."""
        self.judge.write(path, rows, self.options, operation=operation)

    def schedule_compaction(self, path: Path) -> str | None:
        """Write a plan; return its instant."""
        return self.judge.schedule_compaction(path, self.options)

    def execute_compaction(self, path: Path, instant: str) -> None:
        """Execute a plan."""
        self.judge.execute_compaction(path, instant, self.options)


@dataclass(slots=True, kw_only=True)
class Bench:
    """Where one case is made: maker and judge, the table's folder, the model, the stages so far.

    `options` are what Apache Hudi is told when a recipe asks it for what only it can do.
    """

    maker: Maker
    judge: Judge
    folder: Path
    table: PeerTable
    options: Mapping[str, str]
    model: Model
    stages: list[Stage] = field(default_factory=list)

    @property
    def path(self) -> Path:
        """The root of the table that is being made."""
        return self.folder / "table"

    def upsert(self, rows: Sequence[Row], *, operation: str = "upsert") -> None:
        """Write rows and merge them into the model."""
        table = pa.Table.from_pylist([dict(row) for row in rows], self.model.schema)
        self.maker.write(self.path, table, operation)
        self.model.upsert(table.to_pylist())

    def delete(self, rows: Sequence[Row]) -> None:
        """Delete by key; other columns of the rows are sent as they are."""
        table = pa.Table.from_pylist([dict(row) for row in rows], self.model.schema)
        self.maker.write(self.path, table, "delete")
        self.model.delete(table.to_pylist())

    def compact(self) -> str:
        """Schedule and execute a compaction."""
        instant = self.schedule_compaction()
        self.maker.execute_compaction(self.path, instant)
        return instant

    def schedule_compaction(self) -> str:
        """Schedule a compaction, of which there must be something to do."""
        instant = self.maker.schedule_compaction(self.path)
        assert instant is not None, f"nothing to compact in {self.path}"
        return instant

    def stage(self, name: str) -> Stage:
        """Freeze the table as it is."""
        copy = self.folder / name
        shutil.copytree(self.path, copy)
        stage = Stage(
            name=name,
            path=copy,
            expected=self.judge.read(copy),
            model=self.model.content(),
        )
        self.stages.append(stage)
        return stage


def row(number: int, *, ts: int, part: str | None = None, **values: object) -> dict[str, Any]:
    """Return a row of SCHEMA; what is not given follows from the number."""
    full: dict[str, Any] = {
        "id": f"key-{number:03d}",
        "part": part or ("north", "south", "west")[number % 3],
        "name": f"name {number} of {ts}",
        "amount": number + ts / 1000,
        "quantity": number * 10 + ts % 7,
        "ts": ts,
    }
    return full | values


def rows_of(numbers: range, ts: int) -> pa.Table:
    """Return rows of SCHEMA."""
    return pa.Table.from_pylist([row(n, ts=ts) for n in numbers], SCHEMA)


def newest(*batches: pa.Table) -> pa.Table:
    """Return the row of each partition and key in the last batch that has one."""
    found = {_place(each): each for one in batches for each in one.to_pylist()}
    return pa.Table.from_pylist(list(found.values()), SCHEMA)


def without(rows: pa.Table, gone: pa.Table) -> pa.Table:
    """Return rows without those of the partitions and keys of others."""
    places = set(map(_place, gone.to_pylist()))
    left = [each for each in rows.to_pylist() if _place(each) not in places]
    return pa.Table.from_pylist(left, SCHEMA)


def _place(of: Row) -> tuple[object, object]:
    return of["part"], of["id"]


def key_of(number: int) -> dict[str, Any]:
    """Return the columns that a delete needs; the others are null."""
    only = row(number, ts=0)
    return {"id": only["id"], "part": only["part"], "ts": 1}


def one_commit(bench: Bench) -> None:
    """A table that is only there to be refused."""
    bench.upsert([row(n, ts=1000) for n in range(3)])
    bench.stage("end")


def update_and_delete(bench: Bench) -> None:
    """The least that makes base files with logs."""
    bench.upsert([row(n, ts=1000) for n in range(6)])
    bench.upsert([row(n, ts=2000) for n in range(4, 8)])
    bench.delete([key_of(0), key_of(4)])
    bench.stage("logs")


def write_and_compact(bench: Bench) -> None:
    """Upserts (late and new rows among them) and deletes, read before and after a compaction."""
    bench.upsert([row(n, ts=1000) for n in range(12)])
    late = [row(n, ts=500) for n in (4, 5)]
    bench.upsert([*(row(n, ts=2000) for n in range(4)), *late, row(12, ts=2000)])
    bench.delete([key_of(0), key_of(7)])
    bench.stage("logs")
    bench.compact()
    bench.stage("compacted")
    bench.upsert([row(0, ts=3000), row(1, ts=3000), row(13, ts=3000)])
    bench.delete([key_of(2)])
    bench.stage("logs_over_base")


def partial_updates(bench: Bench) -> None:
    """Two column streams: each leaves the other's columns null, and null never overwrites."""
    names = {"amount": None, "quantity": None}
    numbers: dict[str, Any] = {"name": None}
    bench.upsert([row(n, ts=1000, **names) for n in range(6)])
    bench.upsert([row(n, ts=2000, **numbers) for n in range(3, 9)])
    bench.stage("logs")
    bench.compact()
    bench.stage("compacted")
    bench.upsert([row(n, ts=3000, **names) for n in (5, 6, 9)])
    bench.upsert([row(n, ts=4000, quantity=None, **numbers) for n in (0, 5, 9)])
    bench.delete([key_of(1)])
    bench.stage("logs_over_base")


def composite_keys(bench: Bench) -> None:
    """Two key fields, two partition fields in Hive style, and text that must be escaped."""
    places = [("a b", "x/y"), ("é=1", "ünï"), ("50%", "#?:")]

    def entry(number: int, ts: int) -> dict[str, Any]:
        region, city = places[number % 3]
        line = {"account": f"acc:{number}", "line": str(number % 2), "region": region, "city": city}
        return line | {"value": number * 1.5, "ts": ts}

    bench.upsert([entry(n, 1000) for n in range(9)])
    bench.upsert([entry(n, 2000) for n in range(3)])
    bench.delete([entry(4, 1)])
    bench.stage("logs")
    bench.compact()
    bench.stage("compacted")


def every_type(bench: Bench) -> None:
    """One column of each type, with nulls and extreme values."""

    def entry(number: int, **values: object) -> dict[str, Any]:
        full: dict[str, Any] = {
            "id": f"key-{number}",
            "flag": number % 2 == 0,
            "small": -number,
            "large": 2**62 + number,
            "single": number / 4,
            "double": number * 1e300,
            "text": "Grüße, 世界 🌍\n",
            "raw": bytes([0, 255, number]),
            "day": date(1969, 12, 30),
            "moment": datetime(2024, 2, 29, 23, 59, 59, 999_999, tzinfo=UTC),
            "price": Decimal("-12345678.90"),
        }
        return full | values

    nothing = dict.fromkeys(name for name in bench.model.schema.names if name != "id")
    bench.upsert([entry(n) for n in range(4)])
    bench.upsert([entry(1, double=float("-inf"), text=""), entry(2) | nothing, entry(5) | nothing])
    bench.delete([entry(3)])
    bench.stage("end")


def nested_types(bench: Bench) -> None:
    """Lists, structs and maps (two-level lists in files of Hudi's Avro writer)."""

    def entry(number: int, tags: list[str | None] | None) -> dict[str, Any]:
        place = {"lat": number / 2, "lon": None}
        return {"id": f"key-{number}", "tags": tags, "place": place, "counts": [("a", number)]}

    bench.upsert([entry(0, ["x", "y"]), entry(1, []), entry(2, None)])
    bench.upsert([entry(1, ["z"]), entry(3, ["w"])])
    bench.stage("end")


def pending_compaction(bench: Bench) -> None:
    """A plan that nobody has executed, with writes before and after it."""
    bench.upsert([row(n, ts=1000) for n in range(6)])
    instant = bench.schedule_compaction()
    bench.upsert([row(n, ts=2000) for n in range(3, 8)])
    bench.delete([key_of(0)])
    bench.stage("pending")
    bench.maker.execute_compaction(bench.path, instant)
    bench.stage("executed")


def unfinished_write(bench: Bench) -> None:
    """A writer that died before its commit: the files are there, the completed instant is not."""
    bench.upsert([row(n, ts=1000) for n in range(6)])
    before = bench.model.content()
    bench.upsert([row(n, ts=2000) for n in range(3, 9)])
    completed = max((bench.path / ".hoodie" / "timeline").glob("*_*.*commit"))
    completed.unlink()
    bench.model.rows.clear()
    bench.model.upsert(before.to_pylist())
    bench.stage("end")


def rolled_back(bench: Bench) -> None:
    """A commit that was taken back by a rollback."""
    bench.upsert([row(n, ts=1000) for n in range(6)])
    before = bench.model.content()
    bench.upsert([row(n, ts=2000) for n in range(3, 9)])
    last = bench.judge.timeline(bench.path)[-1].requested_time
    bench.judge.rollback(bench.path, last, bench.options)
    bench.model.rows.clear()
    bench.model.upsert(before.to_pylist())
    bench.upsert([row(n, ts=3000) for n in range(2)])
    bench.stage("end")


def replaced_files(bench: Bench) -> None:
    """Replace commits: file groups that are still on disk but no longer in the table."""
    bench.upsert([row(n, ts=1000) for n in range(9)])
    # Replaces only the partitions that the new rows are in.
    news = [row(n, ts=2000) for n in (0, 12)]
    bench.judge.write(
        bench.path,
        pa.Table.from_pylist(news, SCHEMA),
        bench.options,
        operation="insert_overwrite",
    )
    kept = {key: value for key, value in bench.model.rows.items() if value["part"] != "north"}
    bench.model.rows = kept
    bench.model.upsert(news)
    bench.stage("insert_overwrite")
    bench.judge.sql(f"CALL run_clustering(path => '{bench.path}')")
    bench.stage("clustered")
    bench.upsert([row(n, ts=3000) for n in (1, 3)])
    bench.stage("written_after")


def evolved_schema(bench: Bench) -> None:
    """A column that came later, and two whose types were widened: older files and logs differ."""
    narrow, wide = SCHEMA, SCHEMA.append(pa.field("note", pa.string()))
    for name, before, after in (
        ("amount", pa.float32(), pa.float64()),
        ("quantity", pa.int32(), pa.int64()),
    ):
        position = SCHEMA.get_field_index(name)
        narrow = narrow.set(position, pa.field(name, before))
        wide = wide.set(position, pa.field(name, after))
    bench.model.schema = narrow
    bench.upsert([row(n, ts=1000, amount=n + 0.1) for n in range(6)])
    bench.compact()
    bench.upsert([row(n, ts=2000, amount=0.7) for n in range(2)])
    bench.model.schema = wide
    for each in bench.model.rows.values():
        # A float becomes the double that reads alike.
        each["amount"] = round(each["amount"], 6)
    bench.upsert([row(n, ts=3000, quantity=2**40, note=f"note {n}") for n in (1, 2, 7)])
    bench.stage("logs")
    bench.compact()
    bench.stage("compacted")


def merged_into(bench: Bench) -> None:
    """MERGE INTO writes log blocks that hold only the assigned columns (IS_PARTIAL)."""
    bench.upsert([row(n, ts=1000) for n in range(6)], operation="bulk_insert")
    bench.judge.execute(f"CREATE TABLE merge_target USING hudi LOCATION '{bench.path}'")
    wanted = ("metadata.enable", "write.auto.upgrade", "compact.inline", "clean.automatic")
    for option in (f"hoodie.{name}" for name in wanted):
        bench.judge.execute(f"SET {option}={bench.options[option]}")
    # The partition belongs to the condition: Hudi looks a key up only in the row's own partition.
    bench.judge.execute(
        "MERGE INTO merge_target t USING (SELECT * FROM VALUES"
        " ('key-001', 'south', 'merged 1', 2000L), ('key-002', 'west', 'merged 2', 2000L)"
        " AS v(id, part, new_name, ts)) s ON t.id = s.id AND t.part = s.part"
        " WHEN MATCHED THEN UPDATE SET t.name = s.new_name, t.ts = s.ts"
    )
    for name in wanted:
        bench.judge.execute(f"RESET hoodie.{name}")
    bench.judge.execute("DROP TABLE merge_target")
    for number in (1, 2):
        old = row(number, ts=1000)
        bench.model.upsert([old | {"name": f"merged {number}", "ts": 2000}])
    bench.stage("logs")


def rewritten(bench: Bench) -> None:
    """A copy-on-write table: late and new rows, deletes of some rows and of all of a file group."""
    bench.upsert([row(n, ts=1000) for n in range(12)])
    late = [row(n, ts=500) for n in (4, 5)]
    bench.upsert([*(row(n, ts=2000) for n in range(4)), *late, row(12, ts=2000)])
    bench.delete([key_of(0), key_of(7), key_of(99)])
    bench.stage("merged")
    bench.delete([key_of(n) for n in (2, 5, 8, 11)])
    bench.stage("emptied")
    bench.upsert([row(n, ts=1) for n in (2, 14, 15)], operation="insert")
    bench.upsert([row(n, ts=3000) for n in (1, 15)])
    bench.stage("inserted")


def partially_rewritten(bench: Bench) -> None:
    """A copy-on-write table of two column streams: null never overwrites."""
    names = {"amount": None, "quantity": None}
    numbers: dict[str, Any] = {"name": None}
    bench.upsert([row(n, ts=1000, **names) for n in range(6)])
    bench.upsert([row(n, ts=2000, **numbers) for n in range(3, 9)])
    bench.stage("merged")
    bench.upsert([row(n, ts=1500, **names) for n in (5, 6, 9)])
    bench.upsert([row(n, ts=4000, quantity=None, **numbers) for n in (0, 5, 9)])
    bench.delete([key_of(1)])
    bench.stage("end")


def bulk_inserted(bench: Bench) -> None:
    """Base files of a bulk insert, and what comes on top: on a merge-on-read table another one."""
    bench.upsert([row(n, ts=1000) for n in range(6)], operation="bulk_insert")
    bench.stage("base_files")
    again = "bulk_insert" if bench.table.merge_on_read else "upsert"
    bench.upsert([row(n, ts=2000) for n in range(3, 9)], operation=again)
    bench.delete([key_of(0), key_of(4)])
    bench.stage("end")


def deleted_by_column(bench: Bench) -> None:
    """Deletes as rows with `_hoodie_is_deleted`, which carry their ordering value."""
    bench.model.schema = SCHEMA.append(pa.field("_hoodie_is_deleted", pa.bool_()))
    bench.upsert([row(n, ts=1000, _hoodie_is_deleted=False) for n in range(6)])
    late = row(1, ts=500, _hoodie_is_deleted=True)
    timely = row(2, ts=2000, _hoodie_is_deleted=True)
    flagged = pa.Table.from_pylist([late, timely], bench.model.schema)
    bench.maker.write(bench.path, flagged, "upsert")
    bench.model.delete([timely])
    bench.stage("logs")
    bench.compact()
    bench.stage("compacted")


def long_history(bench: Bench) -> None:
    """So many commits that the oldest are archived and their files cleaned."""
    for commit in range(8):
        bench.upsert([row(n, ts=1000 + commit) for n in range(commit, commit + 3)])
    archive = bench.path / ".hoodie" / "timeline" / "history"
    assert any(archive.glob("*.parquet")), "nothing was archived"
    bench.stage("end")


def upgraded(bench: Bench) -> None:
    """A table of version 6, as 0.14 to 0.15 make it, that a later write makes one of version 9."""
    bench.upsert([row(n, ts=1000) for n in range(9)])
    bench.upsert([row(n, ts=2000) for n in range(3, 6)])
    bench.delete([key_of(0), key_of(4)])
    newer = {"hoodie.write.table.version": "9", "hoodie.write.auto.upgrade": "true"}
    bench.maker = ApacheHudi(judge=bench.judge, options=dict(bench.options) | newer)
    bench.upsert([row(n, ts=3000) for n in (1, 5, 10)])
    bench.stage("upgraded")
    bench.upsert([row(n, ts=1500) for n in (2, 3)])
    bench.delete([key_of(6)])
    bench.stage("end")


def typed_keys(bench: Bench) -> None:
    """Record key, partition and ordering field are no text: a number, a date and a time."""

    def entry(number: int, second: int, text: str) -> dict[str, Any]:
        moment = datetime(2024, 2, 29, 23, 59, second, 999_999, tzinfo=UTC)
        day = date(1969 + number % 3, 12, 31)
        return {"number": number - 2, "day": day, "moment": moment, "text": text}

    bench.upsert([entry(n, 10, "first") for n in range(9)])
    bench.upsert([entry(n, 5 + n * 2, "second") for n in range(6)])
    bench.delete([entry(7, 59, "")])
    bench.stage("written")
    bench.upsert([entry(n, 15, "third") for n in range(9)])
    bench.stage("end")


TYPES = pa.schema(
    [
        ("id", pa.string()),
        ("flag", pa.bool_()),
        ("small", pa.int32()),
        ("large", pa.int64()),
        ("single", pa.float32()),
        ("double", pa.float64()),
        ("text", pa.string()),
        ("raw", pa.binary()),
        ("day", pa.date32()),
        ("moment", pa.timestamp("us", tz="UTC")),
        ("price", pa.decimal128(12, 2)),
    ]
)
TYPED_KEYS = pa.schema(
    [
        ("number", pa.int64()),
        ("day", pa.date32()),
        ("moment", pa.timestamp("us", tz="UTC")),
        ("text", pa.string()),
    ]
)
NESTED = pa.schema(
    [
        ("id", pa.string()),
        ("tags", pa.list_(pa.string())),
        ("place", pa.struct([("lat", pa.float64()), ("lon", pa.float64())])),
        ("counts", pa.map_(pa.string(), pa.int32())),
    ]
)
COMPOSITE = pa.schema(
    [
        ("account", pa.string()),
        ("line", pa.string()),
        ("region", pa.string()),
        ("city", pa.string()),
        ("value", pa.float64()),
        ("ts", pa.int64()),
    ]
)

BASE = PeerTable(name="base", partition_by=("part",), ordering="ts")
COMMIT_TIME = replace(BASE, ordering=None)
PARTIAL = replace(COMMIT_TIME, partial_updates=True)
COW_BUCKETS = replace(BASE, merge_on_read=False)
COW = replace(COW_BUCKETS, buckets=None, codec="gzip", bloom_filter=True)
DEFAULTS = replace(BASE, buckets=None, parquet_logs=False, codec="gzip", bloom_filter=True)
ARCHIVE = {
    "hoodie.clean.automatic": "true",
    "hoodie.clean.commits.retained": "1",
    "hoodie.archive.automatic": "true",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.commits.archival.batch": "1",
}
TYPED: dict[str, Any] = {
    "record_key": ("number",),
    "partition_by": ("day",),
    "ordering": "moment",
}
BY_RECORDS = {"hoodie.datasource.write.row.writer.enable": "false"}
"""By rows, its default, a second bulk insert makes second file groups of the same buckets."""
ESCAPED = {
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.datasource.write.partitionpath.urlencode": "true",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How a case is made. `non_blocking`: with NBCC and a lock, as several writers would."""

    table: PeerTable
    make: Callable[[Bench], None]
    schema: pa.Schema = SCHEMA
    non_blocking: bool = True


def _recipe(table: PeerTable, make: Callable[[Bench], None], schema: pa.Schema = SCHEMA) -> Recipe:
    return Recipe(table=table, make=make, schema=schema)


def _single(table: PeerTable, make: Callable[[Bench], None], schema: pa.Schema = SCHEMA) -> Recipe:
    return Recipe(table=table, make=make, schema=schema, non_blocking=False)


RECIPES: dict[str, Recipe] = {
    "event_time": _recipe(BASE, write_and_compact),
    "event_time_avro_v8": _recipe(
        replace(BASE, parquet_logs=False, table_version=8), write_and_compact
    ),
    "commit_time": _recipe(replace(COMMIT_TIME, partition_by=()), write_and_compact),
    "partial": _recipe(PARTIAL, partial_updates),
    "partial_v8": _recipe(replace(PARTIAL, table_version=8), partial_updates),
    "partial_event_time_avro": _recipe(
        replace(PARTIAL, ordering="ts", parquet_logs=False), partial_updates
    ),
    "partial_event_time_avro_v8": _recipe(
        replace(PARTIAL, ordering="ts", parquet_logs=False, table_version=8), partial_updates
    ),
    "composite_key": _recipe(
        PeerTable(
            name="base",
            record_key=("account", "line"),
            partition_by=("region", "city"),
            ordering="ts",
            extra=ESCAPED,
        ),
        composite_keys,
        COMPOSITE,
    ),
    "every_type": _recipe(PeerTable(name="base"), every_type, TYPES),
    "every_type_avro": _recipe(PeerTable(name="base", parquet_logs=False), every_type, TYPES),
    "every_type_cow": _single(replace(COW, partition_by=(), ordering=None), every_type, TYPES),
    "nested_cow": _single(replace(COW, partition_by=(), ordering=None), nested_types, NESTED),
    "cow": _single(COW_BUCKETS, rewritten),
    "cow_v8": _single(replace(COW_BUCKETS, table_version=8), rewritten),
    "cow_partial": _single(
        replace(COW_BUCKETS, ordering=None, partial_updates=True), partially_rewritten
    ),
    "cow_partial_event_time": _single(
        replace(COW_BUCKETS, partial_updates=True), partially_rewritten
    ),
    "cow_partial_event_time_v8": _single(
        replace(COW_BUCKETS, partial_updates=True, table_version=8), partially_rewritten
    ),
    "bulk_insert": _single(replace(BASE, extra=BY_RECORDS), bulk_inserted),
    "cow_bulk_insert_v8": _single(
        replace(COW_BUCKETS, table_version=8, extra=BY_RECORDS), bulk_inserted
    ),
    "every_type_cow_buckets": _single(
        PeerTable(name="base", merge_on_read=False), every_type, TYPES
    ),
    "pending_compaction": _recipe(BASE, pending_compaction),
    "unfinished_write": _recipe(BASE, unfinished_write),
    "rolled_back": _recipe(BASE, rolled_back),
    "cow_unfinished_write": _single(COW_BUCKETS, unfinished_write),
    "cow_rolled_back": _single(COW_BUCKETS, rolled_back),
    "replaced": _single(COW, replaced_files),
    "evolved": _recipe(BASE, evolved_schema),
    "deleted_by_column": _recipe(BASE, deleted_by_column),
    "merged_into": _single(DEFAULTS, merged_into),
    "defaults": _single(replace(DEFAULTS, metadata_table=True), update_and_delete),
    "single_writer_buckets": _single(
        replace(BASE, extra={"hoodie.partition.metafile.use.base.format": "true"}),
        write_and_compact,
    ),
    "long_history": _single(replace(COW, extra=ARCHIVE), long_history),
    "upgraded": _single(replace(DEFAULTS, table_version=6), upgraded),
    "upgraded_cow": _single(replace(COW, table_version=6), upgraded),
    "typed_keys": _recipe(replace(BASE, **TYPED), typed_keys, TYPED_KEYS),
    "typed_keys_cow": _single(replace(COW_BUCKETS, **TYPED), typed_keys, TYPED_KEYS),
}
"""Tables that we read."""

REFUSED: dict[str, Recipe] = {
    "version_6": _single(replace(DEFAULTS, table_version=6), one_commit),
    "custom_payload": _single(
        replace(
            DEFAULTS,
            table_version=8,
            extra={"hoodie.datasource.write.payload.class": f"{MODELS}.AWSDmsAvroPayload"},
        ),
        one_commit,
    ),
}
"""Tables that we refuse by name."""


def build(
    name: str, recipe: Recipe, judge: Judge, folder: Path, maker: Maker | None = None
) -> PeerCase:
    """Make the case in `folder`, which must not exist; Apache Hudi makes it if nobody else does."""
    table = replace(recipe.table, name=name)
    options = table.write_options()
    if recipe.non_blocking:
        options = table.nbcc_options(filesystem_lock())
    bench = Bench(
        maker=maker or ApacheHudi(judge=judge, options=options),
        judge=judge,
        folder=folder,
        table=table,
        options=options,
        model=Model(table=table, schema=recipe.schema),
    )
    folder.mkdir(parents=True)
    recipe.make(bench)
    return PeerCase(name=name, table=table, stages=tuple(bench.stages))
