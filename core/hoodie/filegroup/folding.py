"""Folding the changes of a slice, in log order, into one version of each key.

The version of a key is known by events, not by values: by the event that won, and where columns
are merged, for each column by the event that its value comes from. Values are taken once, at the
end.

Merging is pairwise: changes of one key are applied one after the other. All keys advance at once:
round n applies the n-th change of each key that has so many.

Merging is not associative. A delete takes away what came before it, a base row as well, and is
itself forgotten once a later row has won; an older partial update that lost still fills gaps, but
only of the version that it met. So the changes of such keys are not folded on their own and then
merged with the base row: they are folded onto it. What a slice holds is then what its base row
becomes by one change after the other, and does not depend on how many of them a compaction has
merged already. Apache Hudi 1.2.0 folds first, always (docs/limits.md).

Source: `BufferedRecordMergerFactory.java`, `PartialUpdateHandler.java` and
`SparkRecordMergingUtils.java` (1.2.0); format.md: Merging.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from hoodie import errors
from hoodie.filegroup import changes, ordering
from hoodie.filegroup.changes import Events, Flags
from hoodie.model import table_config

NO_VALUE = -1
"""In place of an event: no event, the value is null."""

BASE_ROW = -2
"""In place of an event: the base row."""

_RADIX_BITS = 16
_RADIX_MASK = (1 << _RADIX_BITS) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What a table says about merging.

    Attributes:
        ordering_fields: Columns that decide by event time; empty when commit time decides.
        fills_nulls: Whether a null in the version that wins takes the loser's value
            (IGNORE_DEFAULTS; a column's default is null in every table that is written here).
        orders_deletes: Whether a delete has a place in event time; otherwise it wins over whatever
            came before it in the log, and whatever comes after wins over it.
    """

    ordering_fields: tuple[str, ...]
    fills_nulls: bool
    orders_deletes: bool = True


def rules_of(config: table_config.TableConfig) -> Rules:
    """Return the rules of a table; without ordering fields commit time decides in any mode.

    Raises:
        UnsupportedError: An ordering field lies inside a struct.
    """
    if inner := [name for name in config.ordering_fields if "." in name]:
        raise errors.UnsupportedError(
            f"log files of table {config.name!r} are merged by {inner[0]}, a field inside a "
            "struct, which is not supported"
        )
    by_event_time = config.merge_mode is table_config.MergeMode.EVENT_TIME
    # `PartialUpdateAvroPayload`: natural order for deletes.
    has_payload = config.version == table_config.VERSION_WITH_PAYLOADS
    return Rules(
        ordering_fields=config.ordering_fields if by_event_time else (),
        fills_nulls=config.has_partial_updates,
        orders_deletes=not (has_payload and config.has_partial_updates),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """The merged version of each of some keys.

    Attributes:
        winner: The event that decides whether the key is deleted, and its ordering value.
        sources: By column, the event that its value comes from, NO_VALUE where it has none. Columns
            that are not in here come from the winner.
        is_in_order: Whether each change of the key won over those before it.
    """

    winner: Events
    sources: Mapping[str, Events]
    is_in_order: Flags


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseRows:
    """Rows of a base file that the changes are about.

    Attributes:
        table: The base file's rows, with the columns that are merged.
        rows: Positions of these rows among them.
        keys: Positions of their keys in the changes.
        ordering_values: Theirs; None where commit time decides.
    """

    table: pa.Table
    rows: Events
    keys: Events
    ordering_values: ordering.OrderingValues | None

    def only(self, which: Events) -> "BaseRows":
        """Return some of them."""
        values = self.ordering_values
        return replace(
            self,
            rows=self.rows[which],
            keys=self.keys[which],
            ordering_values=None if values is None else values.only(which),
        )


@dataclass(frozen=True, slots=True)
class _Column:
    """What the events say of a column.

    Attributes:
        counts: Whether an event has something to say about the column.
        carried: Whether the event's block has the column at all.
    """

    counts: Flags
    carried: Flags


@dataclass(frozen=True, slots=True, kw_only=True)
class _Events:
    """The events that are folded; every array has an element for each, in log order of a key.

    Attributes:
        key_ids: Which of the keys it is about.
        key_count: How many keys there are.
        is_alive: Whether it is a row that does not delete.
        always_wins: Whether it wins over whatever came before it, and loses to whatever comes
            after: a delete that takes place in commit order.
        ordering_values: None where commit time decides.
        keeps_nulls: Whether from here on nulls that a block carries count; None where no block
            is partial.
        columns: Those that may come from another event than the winner.
    """

    key_ids: Events
    key_count: int
    is_alive: Flags
    always_wins: Flags
    ordering_values: ordering.OrderingValues | None
    keeps_nulls: Flags | None
    columns: Mapping[str, _Column]


class Fold:
    """The changes of a slice, folded: on their own, and onto base rows where that differs."""

    def __init__(self, found: changes.Changes, rules: Rules) -> None:
        """Fold the changes on their own."""
        self._rules = rules
        self._is_whole = not rules.fills_nulls and found.partial_from is None
        self._columns = {} if self._is_whole else _columns(found, rules)
        self._events = _events(found, self._columns)
        # By commit time the last whole row of a key, or its delete, decides alone.
        self._is_simple = self._is_whole and found.ordering_values is None
        if self._is_simple:
            self._versions = _last_events(found)
            return
        self._by_key = _ByKey.of(found.key_ids, len(found.keys))
        self._has_delete = np.zeros(len(found.keys), np.bool_)
        self._has_delete[found.key_ids[found.is_deleted]] = True
        self._versions = _fold_in_rounds(self._events, self._by_key, rules)

    @property
    def alone(self) -> Versions:
        """The version of each key without a base row, in the order of the changes' keys."""
        return self._versions

    def needs_base(self, base: "BaseRows") -> Flags:
        """Return for which base rows `alone`, merged with the row, is not what it becomes."""
        keys, values = base.keys, base.ordering_values
        if self._is_simple:
            return np.zeros(len(keys), np.bool_)
        if self._rules.fills_nulls and self._events.keeps_nulls is not None:
            # What a null means depends on when it came.
            return np.ones(len(keys), np.bool_)
        is_several = self._by_key.counts[keys] > 1
        found = is_several & self._has_delete[keys]
        if values is None:
            # By commit time a delete that came last takes everything away.
            return found & self._events.is_alive[self._versions.winner[keys]]
        if self._is_whole:
            return found
        first = self._by_key.order[self._by_key.starts[keys]]
        assert self._events.ordering_values is not None
        is_first_newer = self._events.ordering_values.at_least(first, values, np.arange(len(keys)))
        return found | (is_several & ~(is_first_newer & self._versions.is_in_order[keys]))

    def onto(self, base: "BaseRows") -> Versions:
        """Return what base rows become by the changes; BASE_ROW stands for each among sources."""
        count = len(base.keys)
        places, events = self._by_key.spread(base.keys)
        behind = self._events_behind(base, places, events)
        folded = _fold_in_rounds(behind, _ByKey.of(behind.key_ids, count), self._rules)
        codes = np.concatenate([np.full(count, BASE_ROW), events, [NO_VALUE]])
        return Versions(
            winner=codes[folded.winner],
            sources={name: codes[each] for name, each in folded.sources.items()},
            is_in_order=folded.is_in_order,
        )

    def _events_behind(self, base: "BaseRows", places: Events, events: Events) -> _Events:
        """Return base rows as the first events of their keys, and some changes behind them."""
        count = len(base.keys)
        own, values = self._events, base.ordering_values
        if values is not None:
            assert own.ordering_values is not None
            values = values.with_behind(own.ordering_values, events)
        present = np.ones(count, np.bool_)
        absent = ~present
        columns = {}
        for name, column in self._columns.items():
            there = base.table.column(name)
            has_value = present
            if self._rules.fills_nulls and there.null_count:
                has_value = ordering.flags(there.is_valid())[base.rows]
            counts = np.concatenate([has_value, column.counts[events]])
            if not counts.all():
                carried = np.concatenate([present, column.carried[events]])
                columns[name] = _Column(counts, carried)
        return _Events(
            key_ids=np.concatenate([np.arange(count), places]),
            key_count=count,
            is_alive=np.concatenate([present, own.is_alive[events]]),
            always_wins=np.concatenate([absent, own.always_wins[events]]),
            ordering_values=values,
            keeps_nulls=(
                None
                if own.keeps_nulls is None
                else np.concatenate([absent, own.keeps_nulls[events]])
            ),
            columns=columns,
        )


def _events(found: changes.Changes, columns: Mapping[str, _Column]) -> _Events:
    keeps_nulls = None
    if found.partial_from is not None:
        keeps_nulls = np.arange(len(found.key_ids)) >= found.partial_from
    is_row = ~found.is_key_only
    return _Events(
        key_ids=found.key_ids,
        key_count=len(found.keys),
        is_alive=~found.is_deleted,
        always_wins=found.is_default | found.is_foreign,
        ordering_values=found.ordering_values,
        keeps_nulls=keeps_nulls,
        columns={
            name: column for name, column in columns.items() if not column.counts[is_row].all()
        },
    )


def _last_events(found: changes.Changes) -> Versions:
    winner = np.full(len(found.keys), NO_VALUE, np.int64)
    # Of several values for one place numpy keeps the last: the last event.
    winner[found.key_ids] = np.arange(len(found.key_ids))
    return Versions(winner=winner, sources={}, is_in_order=np.ones(len(winner), np.bool_))


def _columns(found: changes.Changes, rules: Rules) -> dict[str, _Column]:
    """Return what the changes say of each column."""
    events = len(found.key_ids)
    is_row = ~found.is_key_only
    partial_from = events if found.partial_from is None else found.partial_from
    is_kept = np.arange(events) >= partial_from
    columns = {}
    for name in found.rows.column_names:
        carried = found.carried.get(name, is_row)
        counts = carried
        column = found.rows.column(name)
        if rules.fills_nulls and column.null_count:
            has_value = np.zeros(events, np.bool_)
            has_value[is_row] = ordering.flags(column.is_valid())
            counts = np.where(is_kept, carried, has_value)
        columns[name] = _Column(counts=counts, carried=carried)
    return columns


def _fold_in_rounds(events: _Events, by_key: "_ByKey", rules: Rules) -> Versions:
    winner = np.full(events.key_count, NO_VALUE, np.int64)
    is_in_order = np.ones(events.key_count, np.bool_)
    sources = {name: np.full(events.key_count, NO_VALUE, np.int64) for name in events.columns}
    is_alive = events.is_alive
    for new in by_key.rounds(events.key_ids):
        keys = events.key_ids[new]
        old = winner[keys]
        if (old < 0).all():  # The first round, where every key has its first event.
            winner[keys] = new
            for name, column in events.columns.items():
                sources[name][keys] = np.where(column.counts[new] & is_alive[new], new, NO_VALUE)
            continue
        wins = _newer_wins(events, new, old)
        combines = is_alive[new] & is_alive[old] & _combines(events, rules, new)
        for name, column in events.columns.items():
            before = sources[name][keys]
            if events.keeps_nulls is not None:
                before = _before(column, events.keeps_nulls[new], old, before)
            after = np.where(column.counts[new] & is_alive[new], new, NO_VALUE)
            kept = np.where(combines, before, NO_VALUE)
            filled = np.where(combines & (before < 0), after, before)
            sources[name][keys] = np.where(wins, np.where(after < 0, kept, after), filled)
        winner[keys[wins]] = new[wins]
        is_in_order[keys[~wins]] = False
    if events.keeps_nulls is not None:
        for name, column in events.columns.items():
            end = np.ones(events.key_count, np.bool_)
            sources[name] = _before(column, end, winner, sources[name])
    return Versions(winner=winner, sources=sources, is_in_order=is_in_order)


def _newer_wins(events: _Events, new: Events, old: Events) -> Flags:
    """Return for each pair of events of one key whether the later one replaces the earlier."""
    values = events.ordering_values
    if values is None:
        return np.ones(len(new), np.bool_)
    comes_after = values.at_least(new, values, old)
    return comes_after | events.always_wins[new] | events.always_wins[old]


def _combines(events: _Events, rules: Rules, new: Events) -> Flags:
    """Return whether an event's columns are merged with those of the version it meets."""
    if rules.fills_nulls or events.keeps_nulls is None:
        return np.full(len(new), rules.fills_nulls)
    return events.keeps_nulls[new]


def _before(column: _Column, keeps_nulls: Flags, old: Events, sources: Events) -> Events:
    """Return where the column's values of the earlier versions come from.

    From the first partial block on, what a block carries counts, nulls included: a version that won
    before then has its nulls by right. (One that won later has a source for all that it carries.)
    """
    is_null_by_right = (sources < 0) & keeps_nulls & column.carried[old]
    return np.where(is_null_by_right, old, sources)


@dataclass(frozen=True, slots=True)
class _ByKey:
    """Events in the order of their keys, those of a key in log order.

    Attributes:
        order: The events.
        starts: Where the events of each key begin among them.
        counts: How many each key has.
    """

    order: Events
    starts: Events
    counts: Events

    @classmethod
    def of(cls, key_ids: Events, key_count: int) -> "_ByKey":
        """Return the order of events."""
        counts = np.bincount(key_ids, minlength=key_count)
        return cls(_stable_order(key_ids, key_count), np.cumsum(counts) - counts, counts)

    def rounds(self, key_ids: Events) -> Iterator[Events]:
        """Yield events so that each round has a key at most once, and a key's come in order."""
        occurrence = np.arange(len(self.order)) - self.starts[key_ids[self.order]]
        deepest = int(self.counts.max(initial=0))
        by_round = self.order[_stable_order(occurrence, deepest)]
        sizes = np.bincount(occurrence, minlength=deepest)
        for end, size in zip(np.cumsum(sizes), sizes, strict=True):
            yield by_round[end - size : end]

    def spread(self, keys: Events) -> tuple[Events, Events]:
        """Return the events of each of some keys, repeated ones too, and the place of their key."""
        lengths = self.counts[keys]
        places = np.repeat(np.arange(len(keys)), lengths)
        offsets = np.arange(len(places)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        return places, self.order[np.repeat(self.starts[keys], lengths) + offsets]


def _stable_order(numbers: Events, limit: int) -> Events:
    """Return the order of numbers below a limit; linear, since numpy sorts two bytes by radix."""
    order = np.argsort((numbers & _RADIX_MASK).astype(np.uint16), kind="stable")
    rest, limit = numbers >> _RADIX_BITS, limit >> _RADIX_BITS
    while limit:
        step = (rest[order] & _RADIX_MASK).astype(np.uint16)
        order = order[np.argsort(step, kind="stable")]
        rest, limit = rest >> _RADIX_BITS, limit >> _RADIX_BITS
    return order
