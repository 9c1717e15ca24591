"""Tables as strangers have them: drawn at random, with columns, keys and histories of any kind.

`drawn` makes a `Stranger` of a seed: a table as Apache Hudi is told to make it, its columns, and
what both engines do to it. Values follow from a row's number and a time, so that rows are made
again at any step. What Apache Hudi cannot write (docs/limits.md) is not drawn.
"""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from support.peer.peer_options import RECORD_INDEX, PeerTable

Value = Callable[[int, int], Any]
"""Makes the value of a row's number at a time."""

_POINT = pa.struct([("x", pa.int32()), ("label", pa.string())])
_TEXTS = (
    "",
    "a b",
    "x/y",
    "50%",
    "é=1",
    "Grüße, 世界 🌍",
    "line\nbreak",
    "'quoted'",
    "null",
    "a:b,c",
)
_START = datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC)


def _point(n: int, ts: int) -> dict[str, Any]:
    return {"x": n - ts, "label": None if n % 3 == 0 else _TEXTS[(n + ts) % len(_TEXTS)]}


COLUMNS: Mapping[str, tuple[pa.DataType, Value]] = {
    "flag": (pa.bool_(), lambda n, ts: (n + ts) % 2 == 0),
    "small": (pa.int32(), lambda n, ts: (-1) ** n * (2**31 - 1 - n - ts)),
    "large": (pa.int64(), lambda n, ts: 2**62 + n * ts),
    "single": (pa.float32(), lambda n, ts: (n - ts) / 4),
    "double": (pa.float64(), lambda n, ts: (n - 3) * 1e200 + ts),
    "text": (pa.string(), lambda n, ts: _TEXTS[(n * 7 + ts) % len(_TEXTS)]),
    "raw": (pa.binary(), lambda n, ts: bytes([0, 255, n % 256, ts % 256])),
    "day": (pa.date32(), lambda n, ts: date(1969, 12, 30) + timedelta(days=n * 40 + ts)),
    "moment": (
        pa.timestamp("us", "UTC"),
        lambda n, ts: _START + timedelta(days=n * 400, microseconds=ts),
    ),
    "price": (pa.decimal128(12, 3), lambda n, ts: Decimal(n * 1000 - ts).scaleb(-3)),
    "wide": (pa.decimal128(38, 9), lambda n, ts: Decimal(10**25 + n - ts).scaleb(-9)),
    "point": (_POINT, _point),
    "numbers": (pa.list_(pa.int64()), lambda n, ts: [n, -1, ts] if n % 4 else []),
    "points": (pa.list_(_POINT), lambda n, ts: [_point(n, ts), _point(ts, n)]),
    "by_name": (pa.map_(pa.string(), pa.float64()), lambda n, ts: [("a", n / 2), ("b", float(ts))]),
    "deep": (
        pa.map_(pa.string(), pa.list_(_POINT)),
        lambda n, ts: [("k", [_point(n, ts)]), ("none", [])],
    ),
}
"""Type and value of each kind of column that is no key."""

KEYS: Mapping[str, tuple[pa.DataType, Value]] = {
    "text": (pa.string(), lambda n, _: f"key-{n:03d}"),
    "odd text": (pa.string(), lambda n, _: f"{_TEXTS[1 + n % (len(_TEXTS) - 1)]}~{n}"),
    "int": (pa.int32(), lambda n, _: n - 20),
    "long": (pa.int64(), lambda n, _: 2**40 * n - 7),
    "date": (pa.date32(), lambda n, _: date(1960, 2, 29) + timedelta(days=97 * n)),
}
PARTS: Mapping[str, tuple[pa.DataType, Value]] = {
    "text": (pa.string(), lambda n, _: ("north", "south", "west")[n % 3]),
    "odd text": (pa.string(), lambda n, _: ("a b", "50%", "é")[n % 3]),
    "int": (pa.int32(), lambda n, _: n % 3 * 100 - 1),
    "date": (pa.date32(), lambda n, _: date(2024, 12, 30) + timedelta(days=n % 3)),
}
ORDERINGS: Mapping[str, tuple[pa.DataType, Value]] = {
    "long": (pa.int64(), lambda _, ts: ts),
    "int": (pa.int32(), lambda _, ts: ts),
    "time": (pa.timestamp("us", "UTC"), lambda _, ts: _START + timedelta(minutes=ts)),
}
INDEXES: Mapping[str, Mapping[str, str]] = {
    "default": {},
    "simple": {"hoodie.index.type": "SIMPLE"},
    "bloom": {"hoodie.index.type": "BLOOM"},
    "global simple": {"hoodie.index.type": "GLOBAL_SIMPLE"},
    "global bloom": {"hoodie.index.type": "GLOBAL_BLOOM"},
    "record": RECORD_INDEX,
    "bucket": {},
    "consistent hashing": {"hoodie.index.bucket.engine": "CONSISTENT_HASHING"},
}
_BUCKETS = ("bucket", "consistent hashing")
_STATISTICS = {
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
}
THEIR_STEPS = (
    "upsert",
    "upsert",
    "upsert",
    "insert",
    "bulk_insert",
    "delete",
    "update",
    "delete where",
    "merge",
    "insert_overwrite",
    "compact",
    "cluster",
    "clean",
    "archive",
    "add column",
    "savepoint",
    "rollback",
)
OUR_STEPS = (
    "upsert",
    "upsert",
    "upsert",
    "insert",
    "bulk_insert",
    "delete",
    "delete where",
    "insert_overwrite",
    "compact",
    "clean",
    "archive",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column: its type, the value of each row, and whether some rows have none."""

    name: str
    type: pa.DataType
    value: Value
    has_nulls: bool = False

    def of(self, number: int, ts: int) -> object:
        """Return the value of a row."""
        return None if self.has_nulls and (number + ts) % 5 == 0 else self.value(number, ts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What one engine does: ours or theirs; its rows, and their time."""

    who: str
    what: str
    numbers: range
    ts: int

    def __str__(self) -> str:
        first, last = self.numbers.start, self.numbers.stop
        return f"{self.who}: {self.what} of {first} to {last} at {self.ts}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stranger:
    """A table and its history.

    Attributes:
        table: As Apache Hudi is told to make it.
        index: The name of its index, of INDEXES.
        columns: All of them.
        steps: What is done: first by Apache Hudi alone, then by both.
    """

    table: PeerTable
    index: str
    columns: Sequence[Column]
    steps: Sequence[Step]

    def __str__(self) -> str:
        made = self.table
        types = ", ".join(f"{each.name} {each.type}" for each in self.columns)
        kind = "merge-on-read" if made.merge_on_read else "copy-on-write"
        return (
            f"{kind}, version {made.table_version}, index {self.index}, key "
            f"{'+'.join(made.record_key)}, partitions {'+'.join(made.partition_by) or 'none'}, "
            f"ordering {made.ordering}, {'partial, ' if made.partial_updates else ''}"
            f"{'parquet' if made.parquet_logs else 'avro'} logs, "
            f"metadata {made.metadata_table}; {types}"
        )

    @property
    def is_global(self) -> bool:
        """Whether a key is unique in the table, not in its partition."""
        return self.index.startswith("global") or self.index == "record"

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return pa.schema([(each.name, each.type) for each in self.columns])

    @property
    def adoption(self) -> Sequence[str]:
        """The options of `hoodie adopt`."""
        index = {"default": "simple", "record": "global-simple"}.get(self.index, self.index)
        options = ["--index", index.replace(" ", "-")]
        if self.table.buckets is not None:
            options += ["--buckets", str(self.table.buckets)]
        if self.index == "record":
            options += ["--keep-partitions"]
        if "hoodie.table.timeline.timezone" in self.table.extra:
            options += ["--time-zone", "UTC"]
        return options

    def rows(self, numbers: Iterable[int], ts: int) -> pa.Table:
        """Return rows at a time."""
        return pa.Table.from_pylist(
            [{each.name: each.of(n, ts) for each in self.columns} for n in numbers], self.schema
        )


def drawn(seed: int) -> Stranger:
    """Return the stranger of a seed."""
    source = random.Random(seed)
    index = source.choice(list(INDEXES))
    is_mor = index == "consistent hashing" or source.random() < 0.6
    version = source.choice((9, 9, 8))
    key_names = ["id", "line"] if source.random() < 0.25 else ["id"]
    part_names = source.choice(([], ["part"], ["part"], ["part"], ["part", "sub"]))
    columns = [
        _column(source, "id", KEYS if index not in _BUCKETS else _hashed()),
        *(_column(source, name, {"int": KEYS["int"]}) for name in key_names[1:]),
        *(_column(source, name, PARTS) for name in part_names),
        _column(source, "ts", ORDERINGS),
    ]
    kinds = source.sample(list(COLUMNS), source.randint(2, 7))
    columns += [
        replace(_column(source, kind, {kind: COLUMNS[kind]}), has_nulls=source.random() < 0.6)
        for kind in kinds
    ]
    ordering = "ts" if source.random() < 0.5 else None
    extra: dict[str, str] = dict(INDEXES[index])
    has_metadata = index == "record" or source.random() < 0.6
    if has_metadata and source.random() < 0.4:
        extra |= _STATISTICS
    if source.random() < 0.5:
        extra["hoodie.table.timeline.timezone"] = "LOCAL"
    if part_names and source.random() < 0.5:
        extra["hoodie.datasource.write.hive_style_partitioning"] = "true"
    if part_names:
        extra["hoodie.datasource.write.partitionpath.urlencode"] = "true"
    if is_mor and source.random() < 0.3:
        extra |= {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "3"}
    if len(part_names) > 1 and len(key_names) == 1:
        # What Apache Hudi warns of is that it writes such keys otherwise than 1.0.2.
        extra["hoodie.write.complex.keygen.validation.enable"] = "false"
    if index in _BUCKETS:
        # By rows, its default, Apache Hudi makes second file groups of the same buckets.
        extra["hoodie.datasource.write.row.writer.enable"] = "false"
    table = PeerTable(
        name=f"stranger_{seed}",
        record_key=tuple(key_names),
        partition_by=tuple(part_names),
        ordering=ordering,
        merge_on_read=is_mor,
        table_version=version,
        buckets=source.choice((1, 2, 4)) if index in _BUCKETS else None,
        parquet_logs=version == 9 and source.random() < 0.4,
        codec=source.choice(("snappy", "gzip", "zstd")),
        bloom_filter=index not in _BUCKETS,
        metadata_table=has_metadata,
        extra=extra,
    )
    stranger = Stranger(table=table, index=index, columns=columns, steps=())
    return replace(stranger, steps=_steps(source, stranger))


def _hashed() -> Mapping[str, tuple[pa.DataType, Value]]:
    return {name: KEYS[name] for name in ("text", "int", "long")}


def _column(
    source: random.Random, name: str, kinds: Mapping[str, tuple[pa.DataType, Value]]
) -> Column:
    kind, value = kinds[source.choice(list(kinds))]
    return Column(name=name, type=kind, value=value)


def _steps(source: random.Random, stranger: Stranger) -> Sequence[Step]:
    """Return a history: Apache Hudi first, then both, each at least twice."""
    alone = source.randint(1, 4)
    both = source.randint(4, 8)
    found = [Step(who="theirs", what="upsert", numbers=range(14), ts=1)]
    for number in range(alone + both):
        who = "theirs" if number < alone else source.choice(("theirs", "ours"))
        if number == alone:
            who = "ours"
        steps = THEIR_STEPS if who == "theirs" else OUR_STEPS
        what = source.choice([each for each in steps if _is_possible(each, who, stranger)])
        start = source.randrange(12)
        found.append(
            Step(
                who=who,
                what=what,
                numbers=range(start, start + source.randint(1, 9)),
                ts=number + 2,
            )
        )
    return found


def _is_possible(what: str, who: str, stranger: Stranger) -> bool:
    """Return whether Apache Hudi, or this project, does it to such a table."""
    match what:
        case "compact":
            return stranger.table.merge_on_read
        case "cluster":
            return stranger.index not in _BUCKETS
        case "insert_overwrite":
            return stranger.index != "consistent hashing" and bool(stranger.table.partition_by)
        case "bulk_insert":
            return stranger.index != "consistent hashing" or who == "ours"
        case _:
            return True
