"""What a table has to hold of one key: its history, applied one change after the other.

A model without anything of the product in it. `after` is the promise, whenever compaction runs;
`as_hudi_reads` is what Apache Hudi 1.2.0 makes of a base row and the changes in the logs above it:
it merges the changes with each other first, and what comes out with the base row.
"""

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

Value: TypeAlias = object
Ordering: TypeAlias = object
"""Anything that compares; None is of a change that takes place in commit order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Put:
    """A row is written; a value of None is a column that the row does not have, or a null."""

    values: Mapping[str, Value]
    ordering: Ordering = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Remove:
    """The key is deleted.

    Attributes:
        ordering: As the type says.
        is_row: Whether a row says so, and no delete block; makes no difference to the promise.
    """

    ordering: Ordering = None
    is_row: bool = False


Change: TypeAlias = Put | Remove


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What is there of a key.

    Attributes:
        values: The row; None where there is none.
        ordering: What a change has to reach to count; None where every one does.
    """

    values: Mapping[str, Value] | None = None
    ordering: Ordering = None


NOTHING = State()


def after(state: State, change: Change, *, fills_nulls: bool) -> State:
    """Return what a key is once a change was applied."""
    is_newer = None in (state.ordering, change.ordering) or change.ordering >= state.ordering  # type: ignore[operator]
    if isinstance(change, Remove):
        return State(ordering=change.ordering) if is_newer else state
    new = State(values=change.values, ordering=change.ordering)
    if state.values is None:
        return new if is_newer else state
    winner, loser = (new, state) if is_newer else (state, new)
    if not fills_nulls:
        return winner
    assert winner.values is not None
    assert loser.values is not None
    filled = {
        name: loser.values[name] if value is None else value
        for name, value in winner.values.items()
    }
    return replace(winner, values=filled)


def after_all(changes: Iterable[Change], *, fills_nulls: bool, state: State = NOTHING) -> State:
    """Return what a key is once all changes were applied."""
    step = functools.partial(after, fills_nulls=fills_nulls)
    return functools.reduce(step, changes, state)


def as_hudi_reads(base: State, changes: Iterable[Change], *, fills_nulls: bool) -> State:
    """Return what Apache Hudi reads of a base row, or none, and changes in the logs above it."""
    merged: State | None = None
    is_commit_time_delete = False
    for change in changes:
        if is_commit_time_delete and isinstance(change, Remove) and not change.is_row:
            continue
        merged = after(merged or NOTHING, change, fills_nulls=fills_nulls)
        is_commit_time_delete = merged == NOTHING
    if merged is None or base.values is None:
        return base if merged is None else merged
    if merged.values is None:
        return after(base, Remove(ordering=merged.ordering), fills_nulls=fills_nulls)
    whole = Put(values=merged.values, ordering=merged.ordering)
    return after(base, whole, fills_nulls=fills_nulls)
