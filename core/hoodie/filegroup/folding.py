"""Folding the changes of a slice, in log order, into one version of each key.

The version of a key is known by events, not by values: by the event that won, and where columns
are merged, for each column by the event that its value comes from. Values are taken once, at the
end.

Merging is pairwise and not associative (an older partial update that lost still fills gaps, and
only of the version it met), so changes of one key are applied one after the other. All keys advance
at once: round n applies the n-th change of each key that has so many.

Source: `BufferedRecordMergerFactory.java`, `PartialUpdateHandler.java` and
`SparkRecordMergingUtils.java` (1.2.0); format-files 3.3 and 3.4.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from hoodie import errors
from hoodie.filegroup import changes, ordering
from hoodie.filegroup.changes import Events, Flags
from hoodie.model import table_config

_NOTHING = -1
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
    """The merged version of each key that the changes name.

    Attributes:
        winner: The event that decides whether the key is deleted, and its ordering value.
        sources: By column, the event that its value comes from, -1 where it has none. Columns that
            are not in here come from the winner.
    """

    winner: Events
    sources: Mapping[str, Events]


def fold(found: changes.Changes, rules: Rules) -> Versions:
    """Return the merged versions of all keys, in the order of the changes' keys."""
    key_count = len(found.keys)
    is_whole = not rules.fills_nulls and found.partial_from is None
    if is_whole and found.ordering_values is None:
        winner = np.full(key_count, _NOTHING, np.int64)
        # Of several values for one place numpy keeps the last: the last event.
        winner[found.key_ids] = np.arange(len(found.key_ids))
        return Versions(winner=winner, sources={})
    columns = {} if is_whole else _merged_columns(found, rules)
    return _fold_in_rounds(found, rules, columns)


def newer_wins(found: changes.Changes, new: Events, old: Events) -> Flags:
    """Return for each pair of events of one key whether the later one replaces the earlier."""
    values = found.ordering_values
    if values is None:
        return np.ones(len(new), np.bool_)
    comes_after = values.at_least(new, values, old) | found.is_foreign[new] | found.is_foreign[old]
    row_wins = comes_after | found.is_default[new] | found.is_default[old]
    key_wins = (comes_after | found.is_default[new]) & ~found.is_default[old]
    return np.where(found.is_key_only[new], key_wins, row_wins)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    """What the fold has to know of a column.

    Attributes:
        counts: Whether an event has something to say about the column.
        carried: Whether the event's block has the column at all.
    """

    counts: Flags
    carried: Flags


def _merged_columns(found: changes.Changes, rules: Rules) -> dict[str, _Column]:
    """Return the columns that may come from another event than the winner."""
    events = len(found.key_ids)
    is_row = ~found.is_key_only
    partial_from = events if found.partial_from is None else found.partial_from
    is_kept = np.arange(events) >= partial_from
    merged = {}
    for name in found.rows.column_names:
        carried = found.carried.get(name, is_row)
        counts = carried
        column = found.rows.column(name)
        if rules.fills_nulls and column.null_count:
            has_value = np.zeros(events, np.bool_)
            has_value[is_row] = ordering.flags(column.is_valid())
            counts = np.where(is_kept, carried, has_value)
        if not counts[is_row].all():
            merged[name] = _Column(counts=counts, carried=carried)
    return merged


def _fold_in_rounds(
    found: changes.Changes, rules: Rules, columns: Mapping[str, _Column]
) -> Versions:
    key_count = len(found.keys)
    winner = np.full(key_count, _NOTHING, np.int64)
    sources = {name: np.full(key_count, _NOTHING, np.int64) for name in columns}
    is_alive = ~found.is_deleted
    for new in _rounds(found.key_ids, key_count):
        keys = found.key_ids[new]
        old = winner[keys]
        if (old < 0).all():  # The first round, where every key has its first event.
            winner[keys] = new
            for name, column in columns.items():
                sources[name][keys] = np.where(column.counts[new] & is_alive[new], new, _NOTHING)
            continue
        wins = newer_wins(found, new, old)
        combines = is_alive[new] & is_alive[old] & _combines(found, rules, new)
        for name, column in columns.items():
            before = _before(found, column, new, old, sources[name][keys])
            after = np.where(column.counts[new] & is_alive[new], new, _NOTHING)
            kept = np.where(combines, before, _NOTHING)
            filled = np.where(combines & (before < 0), after, before)
            sources[name][keys] = np.where(wins, np.where(after < 0, kept, after), filled)
        winner[keys[wins]] = new[wins]
    if found.partial_from is not None:
        for name, column in columns.items():
            end = np.full(key_count, found.partial_from)
            sources[name] = _before(found, column, end, winner, sources[name])
    return Versions(winner=winner, sources=sources)


def _combines(found: changes.Changes, rules: Rules, new: Events) -> Flags:
    """Return whether an event's columns are merged with those of the version it meets."""
    if rules.fills_nulls or found.partial_from is None:
        return np.full(len(new), rules.fills_nulls)
    return new >= found.partial_from


def _before(
    found: changes.Changes, column: _Column, new: Events, old: Events, sources: Events
) -> Events:
    """Return where the column's values of the earlier versions come from.

    From the first partial block on, what a block carries counts, nulls included: a version that won
    before then has its nulls by right. (One that won later has a source for all that it carries.)
    """
    if found.partial_from is None:
        return sources
    is_null_by_right = (sources < 0) & (new >= found.partial_from) & column.carried[old]
    return np.where(is_null_by_right, old, sources)


def _rounds(key_ids: Events, key_count: int) -> Iterator[Events]:
    """Yield events so that each round has a key at most once, and every key's come in order."""
    order = _stable_order(key_ids, key_count)
    sorted_ids = key_ids[order]
    counts = np.bincount(key_ids, minlength=key_count)
    starts = np.cumsum(counts) - counts
    occurrence = np.arange(len(order)) - starts[sorted_ids]
    deepest = int(counts.max(initial=0))
    by_round = order[_stable_order(occurrence, deepest)]
    sizes = np.bincount(occurrence, minlength=deepest)
    for end, size in zip(np.cumsum(sizes), sizes, strict=True):
        yield by_round[end - size : end]


def _stable_order(numbers: Events, limit: int) -> Events:
    """Return the order of numbers below a limit; linear, since numpy sorts two bytes by radix."""
    order = np.argsort((numbers & _RADIX_MASK).astype(np.uint16), kind="stable")
    rest, limit = numbers >> _RADIX_BITS, limit >> _RADIX_BITS
    while limit:
        step = (rest[order] & _RADIX_MASK).astype(np.uint16)
        order = order[np.argsort(step, kind="stable")]
        rest, limit = rest >> _RADIX_BITS, limit >> _RADIX_BITS
    return order
