"""Tables as strangers have them: drawn at random, with columns, keys and histories of any kind.

`drawn` makes a `Stranger` of a seed: a table as Apache Hudi is told to make it, its columns, and
what both engines do to it. Values follow from a row's number and a time, so that rows are made
again at any step. What Apache Hudi cannot write (docs/limits.md) is not drawn.

Seeds of `WIDENED` have a second throw of dice (`_widened`): tables of version 6 or without meta
columns, which Apache Hudi upgrades, or copies, in the middle of their history; tables without key
fields; tables that capture change data; writers of either engine that are killed.

`traits` has a third one.
"""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from support.peer import change_data
from support.peer.peer_options import RECORD_INDEX, PeerTable

Value = Callable[[int, int], Any]
"""Makes the value of a row's number at a time."""

_POINT = pa.struct([("x", pa.int32()), ("label", pa.string())])
TEXTS = (
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
START = datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC)


def _point(n: int, ts: int) -> dict[str, Any]:
    return {"x": n - ts, "label": None if n % 3 == 0 else TEXTS[(n + ts) % len(TEXTS)]}


COLUMNS: Mapping[str, tuple[pa.DataType, Value]] = {
    "flag": (pa.bool_(), lambda n, ts: (n + ts) % 2 == 0),
    "small": (pa.int32(), lambda n, ts: (-1) ** n * (2**31 - 1 - n - ts)),
    "large": (pa.int64(), lambda n, ts: 2**62 + n * ts),
    "single": (pa.float32(), lambda n, ts: (n - ts) / 4),
    "double": (pa.float64(), lambda n, ts: (n - 3) * 1e200 + ts),
    "text": (pa.string(), lambda n, ts: TEXTS[(n * 7 + ts) % len(TEXTS)]),
    "raw": (pa.binary(), lambda n, ts: bytes([0, 255, n % 256, ts % 256])),
    "day": (pa.date32(), lambda n, ts: date(1969, 12, 30) + timedelta(days=n * 40 + ts)),
    "moment": (
        pa.timestamp("us", "UTC"),
        lambda n, ts: START + timedelta(days=n * 400, microseconds=ts),
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
    "odd text": (pa.string(), lambda n, _: f"{TEXTS[1 + n % (len(TEXTS) - 1)]}~{n}"),
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
    "time": (pa.timestamp("us", "UTC"), lambda _, ts: START + timedelta(minutes=ts)),
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
BUCKETS = ("bucket", "consistent hashing")
NO_META_COLUMNS = "hoodie.populate.meta.fields"
CAPTURES = "hoodie.table.cdc.enabled"
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


WIDENED = range(600, 100_000)
"""Seeds with the second throw: those of others stay the tables that they were before there was one.
"""
UPGRADED_BY = ("upgrade by a write", "upgrade by a procedure")
COPIED = "copy"
KILLED = "killed upsert"
_KEYLESS_INDEXES = ("default", "simple", "bloom")
ADDING = {
    "upsert": "insert",
    "delete": "update",
    "delete nothing": "empty upsert",
    KILLED: "killed insert",
}
"""What is done to a table without key fields instead."""


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
    """What one engine does: ours or theirs; its rows, and their time.

    A writer that is killed is so many milliseconds after its write has begun. Rows that come late
    have an ordering value that is so much less. Settings are options of this step alone.
    """

    who: str
    what: str
    numbers: range
    ts: int
    delay_ms: int = 0
    late_by: int = 0
    settings: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        first, last = self.numbers.start, self.numbers.stop
        late = f", late by {self.late_by}" if self.late_by else ""
        others = "".join(f", {key}={value}" for key, value in self.settings.items())
        return f"{self.who}: {self.what} of {first} to {last} at {self.ts}{late}{others}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stranger:
    """A table and its history.

    Attributes:
        table: As Apache Hudi is told to make it.
        index: The name of its index, of INDEXES.
        columns: All of them.
        steps: What is done: first by Apache Hudi alone, then by both.
        before: The table as it is made at first, where that is one that we refuse; it becomes the
            other one by a step of Apache Hudi. None for the same table.
        traits: What the third throw of dice brought, of `traits.TRAITS`.
        zone: The time zone of Apache Hudi's JVMs.
    """

    table: PeerTable
    index: str
    columns: Sequence[Column]
    steps: Sequence[Step]
    before: PeerTable | None = None
    traits: Sequence[str] = ()
    zone: str = "UTC"

    def __str__(self) -> str:
        made = self.table
        types = ", ".join(f"{each.name} {each.type}" for each in self.columns)
        kind = "merge-on-read" if made.merge_on_read else "copy-on-write"
        key, parts = ("+".join(each) or "none" for each in (made.record_key, made.partition_by))
        return (
            f"{kind}, version {made.table_version}, index {self.index}, key {key}, partitions "
            f"{parts}, "
            f"ordering {made.ordering}, {'partial, ' if made.partial_updates else ''}"
            f"{'parquet' if made.parquet_logs else 'avro'} logs, "
            f"metadata {made.metadata_table}{self._more()}; {types}"
        )

    def _more(self) -> str:
        found = ""
        if self.before is not None:
            has_meta = self.before.extra.get(NO_META_COLUMNS) is None
            found += f", at first {'of version 6' if has_meta else 'without meta columns'}"
        if CAPTURES in self.table.extra:
            found += ", captures change data"
        found += ", killed writers" if self.has_kills else ""
        found += f", {self.zone}" if self.zone != "UTC" else ""
        return found + "".join(f", {each}" for each in self.traits)

    @property
    def has_kills(self) -> bool:
        """Whether a writer is killed."""
        return any(each.what.startswith("killed") for each in self.steps)

    @property
    def row_key(self) -> tuple[str, ...]:
        """The columns that tell rows of a partition apart: the key, if there is one."""
        return self.table.record_key or ("id",)

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
            options += ["--time-zone", self.zone]
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
        drawn_column(source, "id", KEYS if index not in BUCKETS else _hashed()),
        *(drawn_column(source, name, {"int": KEYS["int"]}) for name in key_names[1:]),
        *(drawn_column(source, name, PARTS) for name in part_names),
        drawn_column(source, "ts", ORDERINGS),
    ]
    kinds = source.sample(list(COLUMNS), source.randint(2, 7))
    columns += [
        replace(drawn_column(source, kind, {kind: COLUMNS[kind]}), has_nulls=source.random() < 0.6)
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
    if index in BUCKETS:
        # By rows, its default, Apache Hudi makes second file groups of the same buckets.
        extra["hoodie.datasource.write.row.writer.enable"] = "false"
    table = PeerTable(
        name=f"stranger_{seed}",
        record_key=tuple(key_names),
        partition_by=tuple(part_names),
        ordering=ordering,
        merge_on_read=is_mor,
        table_version=version,
        buckets=source.choice((1, 2, 4)) if index in BUCKETS else None,
        parquet_logs=version == 9 and source.random() < 0.4,
        codec=source.choice(("snappy", "gzip", "zstd")),
        bloom_filter=index not in BUCKETS,
        metadata_table=has_metadata,
        extra=extra,
    )
    stranger = Stranger(table=table, index=index, columns=columns, steps=())
    stranger = replace(stranger, steps=_steps(source, stranger))
    return _widened(random.Random(f"widened {seed}"), stranger) if seed in WIDENED else stranger


def _widened(source: random.Random, stranger: Stranger) -> Stranger:
    """Return the stranger of a second throw of dice."""
    kind = source.choice(
        ("plain", "plain", "version 6", "version 6", "no meta columns", "no key", "no key")
    )
    table = stranger.table
    if source.random() < 0.35:
        modes = ("data_before_after", "data_before", "op_key_only")
        captured = change_data.captured(source.choice(modes[: 3 if table.table_version > 8 else 2]))
        table = replace(table, extra={**table.extra, **captured})
    if kind == "no key":
        table, index = _without_key(source, table, stranger.index)
        stranger = replace(stranger, index=index)
    stranger = replace(stranger, table=table)
    steps = _steps(source, stranger, (*OUR_STEPS, "update"))
    first = next(number for number, each in enumerate(steps) if each.who == "ours")
    steps = _with_kills(source, steps, first)
    if kind == "no key":
        steps = [replace(each, what=ADDING.get(each.what, each.what)) for each in steps]
    if kind == "version 6":
        before = replace(table, table_version=6, parquet_logs=False)
        if table.merge_on_read:
            # Its restore upgrades the table, and leaves the rows that it takes back (limits.md).
            steps = [
                replace(each, what="upsert")
                if (each.what, n < first) == ("savepoint", True)
                else each
                for n, each in enumerate(steps)
            ]
        becomes = Step(who="theirs", what=source.choice(UPGRADED_BY), numbers=range(3, 9), ts=50)
    elif kind == "no meta columns":
        before = replace(table, extra={**table.extra, NO_META_COLUMNS: "false"})
        becomes = Step(who="theirs", what=COPIED, numbers=range(0), ts=50)
    else:
        return replace(stranger, steps=steps)
    # Times stay in their order, which event time goes by.
    later = [replace(each, ts=each.ts + 50) for each in steps[first:]]
    return replace(stranger, before=before, steps=[*steps[:first], becomes, *later])


def _without_key(source: random.Random, table: PeerTable, index: str) -> tuple[PeerTable, str]:
    """Return a table without key fields, and its index."""
    gone = INDEXES[index].keys() | {"hoodie.datasource.write.row.writer.enable"}
    if index not in _KEYLESS_INDEXES:
        index = source.choice(_KEYLESS_INDEXES)
    extra = {key: value for key, value in table.extra.items() if key not in gone}
    changed = replace(
        table,
        record_key=(),
        ordering=None,
        buckets=None,
        bloom_filter=True,
        extra={**extra, **INDEXES[index]},
    )
    return changed, index


def _with_kills(source: random.Random, steps: Sequence[Step], first: int) -> list[Step]:
    """Return a history in which some writers of one engine, or of both, are killed.

    At most one is a JVM, which takes its time to start.
    """
    found = list(steps)
    killed = source.choice(((), (), ("ours", "ours"), ("theirs",), ("ours", "theirs")))
    for number, who in enumerate(killed):
        step = Step(
            who=who,
            what=KILLED,
            numbers=range(2 + number, 9),
            ts=30 + number,
            delay_ms=source.choice((0, 30, 100, 300, 600)),
        )
        found.insert(source.randint(first + 1, len(found)), step)
    return [replace(each, ts=place + 1) for place, each in enumerate(found)]


def _hashed() -> Mapping[str, tuple[pa.DataType, Value]]:
    return {name: KEYS[name] for name in ("text", "int", "long")}


def drawn_column(
    source: random.Random, name: str, kinds: Mapping[str, tuple[pa.DataType, Value]]
) -> Column:
    """Return a column of one of some kinds."""
    kind, value = kinds[source.choice(list(kinds))]
    return Column(name=name, type=kind, value=value)


def _steps(
    source: random.Random, stranger: Stranger, ours: Sequence[str] = OUR_STEPS
) -> list[Step]:
    """Return a history: Apache Hudi first, then both, each at least twice."""
    alone = source.randint(1, 4)
    both = source.randint(4, 8)
    found = [Step(who="theirs", what="upsert", numbers=range(14), ts=1)]
    for number in range(alone + both):
        who = "theirs" if number < alone else source.choice(("theirs", "ours"))
        if number == alone:
            who = "ours"
        steps = THEIR_STEPS if who == "theirs" else ours
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
            return stranger.index not in BUCKETS
        case "insert_overwrite":
            return stranger.index != "consistent hashing" and bool(stranger.table.partition_by)
        case "bulk_insert":
            return stranger.index != "consistent hashing" or who == "ours"
        case _:
            return True
