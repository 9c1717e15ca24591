"""What else tables of strangers may have: a third throw of dice, of traits.

Seeds of `OPENED` have some traits of `TRAITS` each: columns, keys, partitions and ordering values
of further kinds, rows that come late, partial updates, and further steps. Those of `MORE_OPENED`
may have traits that came later, those of `LATEST_OPENED` and `NEWEST_OPENED` newer ones, and those
of the last JVMs of other time zones. Older seeds stay the tables that they were.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from support.peer import strangers
from support.peer.strangers import BUCKETS, KILLED, START, TEXTS, Column, Step, Stranger

OPENED = range(800, 100_000)
MORE_OPENED = range(1000, 100_000)
LATEST_OPENED = range(10_000, 100_000)
NEWEST_OPENED = range(30_000, 100_000)
ZONES = ("UTC", "America/New_York")
"""Of which the odd seeds of NEWEST_OPENED have the second."""
Value = Callable[[int, int], Any]
Kinds = Mapping[str, tuple[pa.DataType, Value]]
Columns = Sequence[Column]

_ODD_NUMBERS = (float("nan"), -0.0, 0.0, float("inf"), float("-inf"), 5e-324, -1.5)
_ODD_TEXTS = ("a\0b", "\uffff", "\U0010ffff~", "\tx\r", " ", "z" * 40_000, "e\u0301", "NULL")
ODD_COLUMNS: Kinds = {
    "strange": (pa.float64(), lambda n, ts: _ODD_NUMBERS[(n + ts) % len(_ODD_NUMBERS)]),
    "strange single": (pa.float32(), lambda n, ts: _ODD_NUMBERS[(n + ts) % 5]),
    "letters": (pa.string(), lambda n, ts: _ODD_TEXTS[(n + ts) % len(_ODD_TEXTS)]),
    "debt": (pa.decimal128(18, 0), lambda n, ts: Decimal(ts - n * 10**12)),
    "fraction": (pa.decimal128(5, 5), lambda n, ts: Decimal(n - ts).scaleb(-5)),
    "old day": (pa.date32(), lambda n, ts: date(1600, 3, 1) + timedelta(days=n % 30 * 4000 + ts)),
    "old moment": (
        pa.timestamp("us", "UTC"),
        lambda n, ts: (
            datetime(1583, 1, 1, tzinfo=UTC) + timedelta(days=n % 30 * 9000, microseconds=ts)
        ),
    ),
    "naive": (
        pa.timestamp("us"),
        lambda n, ts: START.replace(tzinfo=None) + timedelta(days=n, microseconds=ts),
    ),
    "moments": (
        pa.list_(pa.timestamp("us", "UTC")),
        lambda n, ts: [START + timedelta(days=n), START - timedelta(seconds=ts)],
    ),
    "prices": (
        pa.map_(pa.string(), pa.decimal128(20, 2)),
        lambda n, ts: [(TEXTS[1 + n % 4], Decimal(n - ts).scaleb(-2))],
    ),
    "nested": (
        pa.struct([("a", pa.struct([("b", pa.list_(pa.date32()))])), ("raw", pa.binary())]),
        lambda n, ts: {"a": {"b": [date(1969, 1, 1 + ts % 28)]} if n % 2 else None, "raw": b"\0"},
    ),
}
"""Further kinds of columns: numbers and texts at the ends of what there is, and nested ones."""
ODD_KEYS: Kinds = {
    "decimal": (pa.decimal128(12, 3), lambda n, _: Decimal(n * 250 - 2000).scaleb(-3)),
    "time": (pa.timestamp("us", "UTC"), lambda n, _: START + timedelta(days=n, microseconds=n)),
    "long text": (pa.string(), lambda n, _: f"{n:05d}" + "k" * 3000),
    "letters": (pa.string(), lambda n, _: f"{_ODD_TEXTS[1 + n % 4]}{n}"),
}
ODD_PARTS: Kinds = {
    "text or none": (pa.string(), lambda n, _: ("north", None, "west")[n % 3]),
    "int or none": (pa.int32(), lambda n, _: (None, 0, -7)[n % 3]),
    "date or none": (pa.date32(), lambda n, _: (date(1969, 12, 31), date(1583, 1, 1), None)[n % 3]),
    "flag": (pa.bool_(), lambda n, _: n % 3 == 1),
    "dots": (pa.string(), lambda n, _: (".a", "a=b", "__x")[n % 3]),
    "long text": (pa.string(), lambda n, _: "p" * 200 + str(n % 3)),
}
ODD_ORDERINGS: Kinds = {
    "date": (pa.date32(), lambda _, ts: date(1969, 12, 1) + timedelta(days=ts)),
    "text": (pa.string(), lambda _, ts: f"{ts:05d}"),
    "double": (pa.float64(), lambda _, ts: ts / 4 - 2.5),
    "decimal": (pa.decimal128(20, 4), lambda _, ts: Decimal(ts - 4).scaleb(-4)),
    "long": (pa.int64(), lambda _, ts: ts - 5),
}
EVOLVING = {
    "hoodie.schema.on.read.enable": "true",
    "hoodie.datasource.write.schema.allow.auto.evolution.column.drop": "true",
}
_RECORD_INDEX_OF_PARTITIONS = {
    "hoodie.index.type": "RECORD_LEVEL_INDEX",
    "hoodie.metadata.record.level.index.enable": "true",
    "hoodie.embed.timeline.server": "true",
}
FLAG, FLAGGED = "_hoodie_is_deleted", "flagged delete"
WIDER: Mapping[str, pa.DataType] = {"small": pa.int64(), "single": pa.float64()}
"""Columns that a write widens, and to what."""
STATEMENTS = {"retype", "drop column", "add column", "merge update"}
"""Steps of Apache Hudi's SQL alone."""
PLAN_CLUSTERING, RUN_CLUSTERING, CREATE_INDEX = (
    "plan clustering",
    "run clustering",
    "create index",
)
CREATE_EXPRESSION_INDEX, EXPRESSION_INDEX = "create expression index", "expression index"
EXPRESSION = "USING column_stats(place) OPTIONS(expr='lower')"
CALLS = {PLAN_CLUSTERING, RUN_CLUSTERING, CREATE_INDEX, CREATE_EXPRESSION_INDEX}
"""Services of Apache Hudi alone."""
_OPTIMISTIC = {"insert_overwrite", "insert_overwrite_table", "delete_partition", KILLED}
"""What non-blocking writers do not do."""
_DELETES = {"delete", "delete where", "merge", FLAGGED, "delete nothing"}
LATE, PARTIAL, FILTERED, NON_BLOCKING = (
    "late rows",
    "partial updates",
    "filters",
    "non-blocking writers",
)
ON_READ, OPTIONS, GROWING = "columns that evolve on read", "other options", "new columns"
MERGED, PLANS, SECONDARY_INDEX = "merged columns", "pending plans", "secondary index"


def _has_key(stranger: Stranger) -> bool:
    return bool(stranger.table.record_key)


def _odd_keys(stranger: Stranger) -> Kinds:
    """Return the kinds of keys: Apache Hudi misses some of these letters by two of its indexes."""
    kinds = {**ODD_KEYS}
    if stranger.index in {"record", "bloom", "global bloom"}:
        del kinds["letters"]
    return kinds


def _more_columns(source: random.Random, _: Stranger, columns: Columns) -> Columns:
    kinds = source.sample(list(ODD_COLUMNS), source.randint(1, 4))
    more = [
        replace(
            strangers.drawn_column(source, kind.replace(" ", "_"), {kind: ODD_COLUMNS[kind]}),
            has_nulls=source.random() < 0.5,
        )
        for kind in kinds
    ]
    return [*columns, *more]


def _instead(source: random.Random, columns: Columns, name: str, kinds: Kinds) -> Columns:
    """Return columns of which one is of another kind."""
    return [
        strangers.drawn_column(source, name, kinds) if each.name == name else each
        for each in columns
    ]


def _inserted(columns: Columns, more: Column) -> Columns:
    """Return columns with one more, which is not the last: that one is set to null by updates."""
    return [*columns[:-1], more, columns[-1]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trait:
    """What a table may have, or what may be done to it.

    Attributes:
        steps: Further steps that come with it, in this order, some of them twice.
        is_possible: Whether a stranger can have it.
        is_rare: Whether few can, which therefore have it more often.
        columns: Returns its columns.
        options: Of Apache Hudi's writers.
    """

    steps: Sequence[str] = ()
    is_possible: Callable[[Stranger], bool] = lambda _: True
    is_rare: bool = False
    columns: Callable[[random.Random, Stranger, Columns], Columns] = lambda _, __, columns: columns
    options: Mapping[str, str] = field(default_factory=dict)


TRAITS: Mapping[str, Trait] = {
    "odd columns": Trait(columns=_more_columns),
    "odd keys": Trait(
        is_possible=lambda stranger: _has_key(stranger) and stranger.index not in BUCKETS,
        is_rare=True,
        columns=lambda source, stranger, columns: _instead(
            source, columns, stranger.table.record_key[0], _odd_keys(stranger)
        ),
        # Its bulk insert prints times in keys in the zone of the JVM (limits.md).
        options={"hoodie.datasource.write.row.writer.enable": "false"},
    ),
    "odd partitions": Trait(
        is_possible=lambda stranger: bool(stranger.table.partition_by),
        columns=lambda source, stranger, columns: _instead(
            source, columns, source.choice(stranger.table.partition_by), ODD_PARTS
        ),
    ),
    LATE: Trait(
        is_possible=lambda stranger: _has_key(stranger) and stranger.table.ordering is not None,
        is_rare=True,
        columns=lambda source, _, columns: _instead(source, columns, "ts", ODD_ORDERINGS),
    ),
    PARTIAL: Trait(
        # Of tables with a global index those that keep partitions alone (limits.md).
        is_possible=lambda stranger: (
            _has_key(stranger) and (not stranger.is_global or stranger.index == "record")
        ),
    ),
    "replacements": Trait(
        steps=("insert_overwrite_table", "delete_partition"),
        is_possible=lambda stranger: stranger.index != "consistent hashing",
    ),
    PLANS: Trait(
        steps=("plan", "upsert", "finish"),
        is_possible=lambda stranger: stranger.table.merge_on_read,
    ),
    "empty writes": Trait(steps=("empty upsert", "delete nothing")),
    GROWING: Trait(steps=("grow", "widen")),
    "flagged deletes": Trait(
        steps=(FLAGGED, FLAGGED),
        # Without meta columns Apache Hudi 1.2.0 does not take such rows for deletes.
        is_possible=lambda stranger: (
            _has_key(stranger)
            and strangers.NO_META_COLUMNS not in (stranger.before or stranger.table).extra
        ),
        columns=lambda _, __, columns: _inserted(
            columns, Column(name=FLAG, type=pa.bool_(), value=lambda n, ts: False)
        ),
    ),
    OPTIONS: Trait(),
}
"""Of OPENED."""
MORE_TRAITS: Mapping[str, Trait] = {
    FILTERED: Trait(),
    NON_BLOCKING: Trait(
        is_possible=lambda stranger: (
            stranger.index == "bucket" and stranger.table.merge_on_read and stranger.before is None
        ),
        is_rare=True,
    ),
    ON_READ: Trait(
        # A table with a renamed column is refused, by the column's name.
        steps=("retype", "drop column", "add column"),
        is_possible=lambda stranger: stranger.before is None,
        options=EVOLVING,
    ),
    MERGED: Trait(steps=("merge update", "merge update"), is_possible=_has_key),
    "record index of partitions": Trait(
        is_possible=lambda stranger: (
            stranger.index in {"default", "simple"}
            and _has_key(stranger)
            and stranger.table.table_version == 9
            and stranger.table.metadata_table
        ),
        is_rare=True,
        options=_RECORD_INDEX_OF_PARTITIONS,
    ),
    "two ordering fields": Trait(
        is_possible=lambda stranger: (
            stranger.table.table_version == 9 and stranger.table.ordering is not None
        ),
        is_rare=True,
        columns=lambda _, __, columns: _inserted(
            columns, Column(name="turn", type=pa.int64(), value=lambda n, ts: n + ts)
        ),
    ),
}
"""Of MORE_OPENED, beside TRAITS."""
LATEST_TRAITS: Mapping[str, Trait] = {
    "pending clusterings": Trait(
        steps=(PLAN_CLUSTERING, "upsert", RUN_CLUSTERING),
        is_possible=lambda stranger: stranger.index not in BUCKETS and stranger.before is None,
        is_rare=True,
    ),
    SECONDARY_INDEX: Trait(
        steps=(CREATE_INDEX, "upsert"),
        is_possible=lambda stranger: (
            stranger.index == "record"
            and _has_key(stranger)
            and stranger.table.table_version == 9
            and stranger.before is None
        ),
        is_rare=True,
        columns=lambda _, __, columns: _inserted(
            columns, Column(name="place", type=pa.string(), value=lambda n, ts: TEXTS[1 + n % 4])
        ),
        # Its bulk inserts by rows add nothing to the index (limits.md).
        options={"hoodie.datasource.write.row.writer.enable": "false"},
    ),
}
"""Of LATEST_OPENED, beside the others."""
NEWEST_TRAITS: Mapping[str, Trait] = {
    EXPRESSION_INDEX: Trait(
        steps=(CREATE_EXPRESSION_INDEX, "upsert", "upsert"),
        is_possible=lambda stranger: stranger.table.metadata_table and stranger.before is None,
        is_rare=True,
        columns=lambda _, __, columns: _inserted(
            columns, Column(name="place", type=pa.string(), value=lambda n, ts: TEXTS[1 + n % 4])
        ),
        options={
            "hoodie.metadata.index.expression.enable": "true",
            # Without it 1.2.0 fails where a task reads the metadata table for the index.
            "hoodie.embed.timeline.server": "true",
        },
    ),
}
"""Of NEWEST_OPENED, beside the others."""


def drawn(seed: int) -> Stranger:
    """Return the stranger of a seed, of all throws of dice."""
    stranger = strangers.drawn(seed)
    if seed not in OPENED:
        return stranger
    known = dict(TRAITS)
    if seed in MORE_OPENED:
        known |= MORE_TRAITS
    if seed in LATEST_OPENED:
        known |= LATEST_TRAITS
    if seed in NEWEST_OPENED:
        known |= NEWEST_TRAITS
        stranger = _of_zone(stranger, ZONES[seed % len(ZONES)])
    found = _with_traits(random.Random(f"opened {seed}"), stranger, known)
    return _with_found_keys(found) if seed in NEWEST_OPENED else found


def _with_found_keys(stranger: Stranger) -> Stranger:
    """Return a stranger of texts and whole numbers in keys, as long as it has no meta columns.

    Of other types Apache Hudi finds no rows again there (limits.md).
    """
    if stranger.before is None or strangers.NO_META_COLUMNS not in stranger.before.extra:
        return stranger
    source, columns = random.Random(0), stranger.columns
    for names, kinds in (
        (stranger.row_key, strangers.KEYS),
        (stranger.table.partition_by, strangers.PARTS),
    ):
        for each in names:
            kind = stranger.schema.field(each).type
            if not pa.types.is_string(kind) and not pa.types.is_integer(kind):
                columns = _instead(source, columns, each, {"text": kinds["text"]})
    return replace(stranger, columns=columns)


def _of_zone(stranger: Stranger, zone: str) -> Stranger:
    """Return a stranger of JVMs of a time zone, whose timeline has their times.

    The zone of times, and the last one, are those of a JVM and not of a table in Apache Hudi: where
    it writes tables of both kinds it may wait for hours (limits.md).
    """
    if zone == "UTC":
        return stranger
    local = {"hoodie.table.timeline.timezone": "LOCAL"}
    table = replace(stranger.table, extra={**stranger.table.extra, **local})
    before = stranger.before
    if before is not None:
        before = replace(before, extra={**before.extra, **local})
    return replace(stranger, table=table, before=before, zone=zone)


def _with_traits(source: random.Random, stranger: Stranger, known: Mapping[str, Trait]) -> Stranger:
    names = _names(source, stranger, known)
    table, columns, steps = stranger.table, stranger.columns, stranger.steps
    for each in names:
        columns = known[each].columns(source, stranger, columns)
        table = replace(table, extra={**table.extra, **known[each].options})
    table = replace(table, partial_updates=PARTIAL in names)
    if "two ordering fields" in names:
        table = replace(table, ordering="ts,turn")
    for each in names:
        steps = _with_steps(source, known[each].steps, steps)
    has_merged = MERGED in names and EXPRESSION_INDEX in known
    has_partial = has_merged or bool({LATE, PARTIAL} & {*names})
    steps = _possible(stranger, names, steps, has_partial=has_partial)
    steps = _with_settings(source, stranger, names, steps)
    before = stranger.before
    if before is not None:
        before = replace(
            before, partial_updates=table.partial_updates, extra={**table.extra, **before.extra}
        )
    return replace(stranger, table=table, before=before, columns=columns, steps=steps, traits=names)


def _names(source: random.Random, stranger: Stranger, known: Mapping[str, Trait]) -> Sequence[str]:
    """Return the names of some traits that go together."""
    possible = [name for name, each in known.items() if each.is_possible(stranger)]
    names = source.sample(possible, source.randint(1, 3))
    rare = [each for each in possible if known[each].is_rare]
    if ON_READ in known and rare and source.random() < 0.5:
        names[0] = source.choice(rare)
    found = sorted(set(names))
    if {ON_READ, GROWING} <= {*found}:
        found.remove(GROWING)  # Our writers add no columns there (limits.md).
    if EXPRESSION_INDEX in known:
        found = [each for each in found if not _harms(each, stranger)]
        if {MERGED, "flagged deletes"} <= {*found} and stranger.table.merge_on_read:
            found.remove(MERGED)  # Its readers do not read the two together: limits.md.
    if {SECONDARY_INDEX, EXPRESSION_INDEX} <= {*found}:
        found.remove(EXPRESSION_INDEX)  # Both have the column.
    if {LATE, PARTIAL} <= {*found} and stranger.table.merge_on_read:
        found.remove(LATE)  # Gaps that late rows fill: limits.md.
    return found


def _harms(name: str, stranger: Stranger) -> bool:
    """Return whether Apache Hudi alone loses rows of a table with a trait (limits.md), or waits."""
    if name == PLANS:
        return stranger.before is not None  # `test_upgraded_tables` has that.
    if name in {EXPRESSION_INDEX, SECONDARY_INDEX}:
        return stranger.has_kills  # CREATE INDEX waits a quarter of an hour for what was killed.
    return name == MERGED and stranger.index == "consistent hashing"


def _with_steps(source: random.Random, more: Sequence[str], steps: Sequence[Step]) -> list[Step]:
    """Return a history with further steps in this order, of either engine, some of them twice."""
    found = list(steps)
    names = [*more, *(each for each in more if source.random() < 0.5)]
    first = next(number for number, each in enumerate(found) if each.who == "ours")
    for name in names:
        place = source.randint(1, len(found))
        is_alone = place <= first or name in STATEMENTS | CALLS
        who = "theirs" if is_alone else source.choice(("ours", "ours", "theirs"))
        start = source.randrange(12)
        numbers = range(start, start + source.randint(1, 6))
        found.insert(place, Step(who=who, what=name, numbers=numbers, ts=0))
        first += place <= first
    return found


def _possible(
    stranger: Stranger, names: Sequence[str], steps: Sequence[Step], *, has_partial: bool
) -> Sequence[Step]:
    """Return a history of upserts in place of what a table with traits does not go through."""
    gone: set[str] = set()
    if has_partial and stranger.table.merge_on_read:
        # Deletes in logs, and what follows them in Apache Hudi's readers: limits.md.
        gone |= _DELETES
    ours: set[str] = set()
    if NON_BLOCKING in names:
        gone |= _OPTIMISTIC
        ours = {"delete where", "update"}
    found = [
        replace(each, what="upsert")
        if each.what in gone or (each.who == "ours" and each.what in ours)
        else each
        for each in steps
    ]
    if stranger.table.record_key:
        return found
    return [replace(each, what=strangers.ADDING.get(each.what, each.what)) for each in found]


def _with_settings(
    source: random.Random, stranger: Stranger, names: Sequence[str], steps: Sequence[Step]
) -> Sequence[Step]:
    """Return a history in order, of which some rows come late, and writers have other options."""
    found = list(steps)
    if LATE in names:
        late = [source.choice((0, 0, 1, 3)) for _ in found]
        found = [
            replace(each, late_by=min(by, place)) if each.what == "upsert" else each
            for place, (each, by) in enumerate(zip(found, late, strict=True))
        ]
    if OPTIONS in names:
        found = [replace(each, settings=_options(source, stranger)) for each in found]
    return [replace(each, ts=place + 1) for place, each in enumerate(found)]


def _options(source: random.Random, stranger: Stranger) -> Mapping[str, str]:
    """Return options of one write, which another job may well have."""
    table = stranger.table
    found = {}
    if source.random() < 0.4:
        found["hoodie.parquet.compression.codec"] = source.choice(("gzip", "zstd", "uncompressed"))
    if source.random() < 0.4:
        found["hoodie.parquet.small.file.limit"] = "0"
    if source.random() < 0.4 and table.table_version == 9 and stranger.before is None:
        found["hoodie.logfile.data.block.format"] = source.choice(("avro", "parquet"))
    if source.random() < 0.3 and stranger.index != "record":
        found["hoodie.metadata.enable"] = source.choice(("true", "false"))
    return found
