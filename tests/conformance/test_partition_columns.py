"""Tables whose data files lack the partition columns, changed by Apache Hudi and by us in turn.

After each step both engines read the same rows, with filters too, and they are those of a model by
key. Partition values are null, negative, before 1970, and have characters that are escaped.

Of a copy-on-write table that its data source makes, Apache Hudi has texts for all partition
columns, so they are compared as texts. A merge-on-read table is made by Spark SQL: the data source
stores that it does not leave them out, and then refuses its own next write.
"""

import datetime
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from support.peer import peer_ours
from support.peer.judge import RELEASE, Judge, Query
from support.peer.peer_options import PeerTable
from support.peer.peer_rows import assert_same_rows

DROPPED = {"hoodie.datasource.write.drop.partition.columns": "true"}
HIVE = {"hoodie.datasource.write.hive_style_partitioning": "true"}
ENCODED = {"hoodie.datasource.write.partitionpath.urlencode": "true"}
STATISTICS = {
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.partition.stats.enable": "true",
}
DAYS = [datetime.date(2024, 3, 15), datetime.date(1969, 12, 31), None, datetime.date(2024, 12, 1)]
VALUES: Mapping[str, list[object]] = {
    "region": ["eu", "x y", None, "007"],
    "n": [1, -2, None, 7],
    "day": list(DAYS),
}
TYPES = {"region": pa.string(), "n": pa.int32(), "day": pa.date32()}
ENCODED_REGIONS = ["a=b", "a/b", None, "a%41b"]


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A table, and who makes it."""

    made: PeerTable
    by_ours: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """The partition columns."""
        return self.made.partition_by

    def schema(self) -> pa.Schema:
        others = [name for name in TYPES if name not in self.columns]
        named = [pa.field(name, TYPES[name]) for name in (*others, *self.columns)]
        plain = [("id", pa.string()), ("ts", pa.int64()), ("v", pa.float64())]
        return pa.schema([*(pa.field(*each) for each in plain), *named])

    def rows(self, numbers: range, ts: int) -> pa.Table:
        """Return rows whose partition follows from their number."""
        values = dict(VALUES)
        if "hoodie.datasource.write.partitionpath.urlencode" in self.made.extra:
            values["region"] = list(ENCODED_REGIONS)
        found = [
            {"id": f"k{number}", "ts": ts, "v": number + ts / 10}
            | {name: values[name][number % 4] for name in TYPES}
            for number in numbers
        ]
        return pa.Table.from_pylist(found, self.schema())


def kind(columns: str, *more: Mapping[str, str], by_ours: bool = False, **how: object) -> Kind:
    extra = {**DROPPED, **({} if "buckets" in how else {"hoodie.index.type": "SIMPLE"})}
    for each in more:
        extra |= each
    plain = PeerTable(
        name="dropped",
        ordering="ts",
        buckets=None,
        bloom_filter=True,
        partition_by=tuple(columns.split(",")),
        extra=extra,
    )
    return Kind(made=replace(plain, **how), by_ours=by_ours)  # type: ignore[arg-type]


COW = {"merge_on_read": False}
KINDS = {
    "cow, text": kind("region", **COW),
    "cow, number, hive style, version 8": kind("n", HIVE, table_version=8, **COW),
    "cow, date and text": kind("day,region", HIVE, **COW),
    "cow, encoded text, by ours": kind("region", ENCODED, by_ours=True, **COW),
    "cow, number, by ours, version 8": kind("n", by_ours=True, table_version=8, **COW),
    "cow, date, statistics, by ours": kind(
        "day", HIVE, STATISTICS, by_ours=True, metadata_table=True, **COW
    ),
    "mor, number": kind("n"),
    "mor, date, hive style, version 8": kind("day", HIVE, table_version=8, parquet_logs=False),
    "mor, text and number, buckets": kind("region,n", HIVE, buckets=2),
    "mor, number, by ours, buckets": kind("n", by_ours=True, buckets=2, parquet_logs=False),
    "mor, encoded text, by ours, version 8": kind(
        "region", HIVE, ENCODED, by_ours=True, table_version=8
    ),
    "mor, number and date, statistics": kind("n,day", STATISTICS, metadata_table=True),
}
if RELEASE.startswith("1.0."):
    KINDS = {name: each for name, each in KINDS.items() if each.made.table_version == 8}


class Turns:
    """A table that both change, and what should be in it."""

    def __init__(self, judge: Judge, path: Path, kind: Kind) -> None:
        self.judge, self.path = judge, path
        # Spark SQL names a table as its catalogue does.
        self.kind = kind = replace(kind, made=replace(kind.made, name=path.name))
        self.ours = peer_ours.Hoodie(table=kind.made, concurrency="single-writer")
        self.options = kind.made.write_options()
        self.rows: dict[str, dict[str, object]] = {}

    def theirs(self, numbers: range, ts: int, operation: str = "upsert") -> None:
        rows = self.kind.rows(numbers, ts)
        self.judge.write(self.path, rows, self.options, operation=operation)
        self._learn(rows, operation)

    def write(self, numbers: range, ts: int, operation: str = "upsert") -> None:
        before = set(self.path.rglob("*.parquet"))
        rows = self.kind.rows(numbers, ts)
        types = (
            peer_ours.read(self.path).schema if (self.path / ".hoodie").exists() else rows.schema
        )
        stored = [types.field(name) for name in rows.column_names]
        self.ours.write(self.path, rows.cast(pa.schema(stored)), operation)
        self._learn(rows, operation)
        for each in set(self.path.rglob("*.parquet")) - before:
            if ".hoodie" not in each.parts:
                assert set(pq.read_schema(each).names).isdisjoint(self.kind.columns)

    def make(self) -> None:
        if self.kind.by_ours:
            self.write(range(8), 1)
            if self.kind.made.metadata_table:
                peer_ours.hoodie("metadata", "init", self.path, "--lock", "filesystem")
            return
        if self.kind.made.merge_on_read:
            self._create_by_sql()
        self.theirs(range(8), 1)
        index = ("simple",)
        if self.kind.made.buckets is not None:
            index = ("bucket", "--buckets", str(self.kind.made.buckets))
        peer_ours.hoodie("adopt", self.path, "--index", *index)

    def _create_by_sql(self) -> None:
        made = self.kind.made
        sql = {pa.int64(): "bigint", pa.int32(): "int", pa.float64(): "double"}
        sql |= {pa.string(): "string", pa.date32(): "date"}
        columns = ", ".join(f"{each.name} {sql[each.type]}" for each in self.kind.schema())
        properties = {
            "type": "mor",
            "primaryKey": "id",
            "preCombineField": "ts",
            "hoodie.write.table.version": str(made.table_version),
            "hoodie.table.timeline.timezone": "UTC",
            "hoodie.metadata.enable": "false",
            "hoodie.datasource.write.hive_style_partitioning": "false",
            **made.extra,
        }
        listed = ", ".join(f"'{key}'='{value}'" for key, value in properties.items())
        self.judge.execute(
            f"create table {self.path.name} ({columns}) using hudi partitioned by "
            f"({','.join(made.partition_by)}) location '{self.path}' tblproperties ({listed})"
        )

    def _learn(self, rows: pa.Table, operation: str) -> None:
        for each in rows.to_pylist():
            if operation == "delete":
                self.rows.pop(each["id"], None)
            else:
                self.rows[each["id"]] = each

    def steps(self) -> Iterator[str]:
        self.make()
        yield "made"
        self.write(range(4, 12), 2)
        yield "upserted by ours"
        self.theirs(range(2, 7), 3)
        yield "upserted by theirs"
        self.write(range(2), 4, "delete")
        yield "deleted by ours"
        self.theirs(range(7, 8), 5, "delete")
        yield "deleted by theirs"
        self.write(range(5, 14), 6)
        yield "upserted by ours again"
        if self.kind.made.merge_on_read:
            peer_ours.hoodie("compact", self.path)
            yield "compacted by ours"
            self.theirs(range(8, 10), 7)
            self.write(range(9, 11), 8)
            self.judge.compact(self.path, self.options)
            yield "compacted by theirs"
        self.theirs(range(8, 12), 9)
        yield "upserted by theirs again"
        self.write(range(11, 13), 10)
        yield "upserted by ours at last"


def as_texts(rows: pa.Table, kind: Kind) -> pa.Table:
    """Return rows whose partition columns are texts, in the order of the model's columns."""
    fields = [
        field.with_type(pa.string()) if field.name in kind.columns else field
        for field in rows.schema
    ]
    return rows.cast(pa.schema(fields)).select(kind.schema().names)


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", KINDS)
def test_values_of_paths_are_read_and_written_beside_apache_hudi(
    name: str, judge: Judge, tmp_path: Path
) -> None:
    kind = KINDS[name]
    turns = Turns(judge, tmp_path / f"dropped_{list(KINDS).index(name)}", kind)
    query = Query(use_metadata_table=kind.made.metadata_table)
    for step in turns.steps():
        model = pa.Table.from_pylist(list(turns.rows.values()), kind.schema())
        expected = as_texts(model, kind)
        assert_same_rows(as_texts(peer_ours.read(turns.path), kind), expected, ["id"])
        assert_same_rows(as_texts(judge.read(turns.path, query), kind), expected, ["id"])
        for column in kind.columns:
            found = peer_ours.read(turns.path, "--where", f"{column} is not null and ts > 1")
            newer = pc.and_(pc.is_valid(model.column(column)), pc.greater(model.column("ts"), 1))
            assert_same_rows(as_texts(found, kind), as_texts(model.filter(newer), kind), ["id"])
            alone = peer_ours.read(turns.path, "--columns", column).column(column)
            assert sorted(map(str, alone.cast(pa.string()).to_pylist())) == sorted(
                map(str, expected.column(column).to_pylist())
            ), step
    peer_ours.hoodie("check", turns.path)
    if kind.made.metadata_table:
        peer_ours.hoodie("metadata", "validate", turns.path)
