"""All short histories of one key: what a slice holds is its history, whenever compaction runs.

Every history is the history of a key of its own, so that one table holds them all. After each step
the slice is read, and it may be compacted before the next; the model has no compaction.
"""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest

from hoodie.filegroup import changes, folding, merging
from hoodie.model import schemas
from support.tables import one_key

STEPS = 3
SCHEMA = pa.schema(
    [(schemas.RECORD_KEY, pa.string()), ("at", pa.int64()), ("a", pa.int64()), ("b", pa.int64())]
)


@dataclass(frozen=True, slots=True)
class Kind:
    """What can happen to a key in a step.

    Attributes:
        columns: Those that a row has values for; None for a delete block's entry.
        at: The ordering value; None for a delete without one.
        is_deleted: Whether it deletes.
    """

    columns: str | None
    at: int | None
    is_deleted: bool = False


KINDS = (
    Kind("ab", 2),
    *(Kind(columns, at) for columns in "ab" for at in (1, 2, 3)),
    *(Kind(None, at, is_deleted=True) for at in (None, 1, 2, 3)),
    *(Kind("a", at, is_deleted=True) for at in (2, 3)),
)
RULES = {
    "commit time": folding.Rules(ordering_fields=(), fills_nulls=False),
    "commit time, partial updates": folding.Rules(ordering_fields=(), fills_nulls=True),
    "event time": folding.Rules(ordering_fields=("at",), fills_nulls=False),
    "event time, partial updates": folding.Rules(ordering_fields=("at",), fills_nulls=True),
    "event time, partial updates by payload class": folding.Rules(
        ordering_fields=("at",), fills_nulls=True, orders_deletes=False
    ),
}

History = tuple[Kind, ...]


class Slice:
    """A file slice that holds a key for each history."""

    def __init__(self, rules: folding.Rules) -> None:
        self.rules = rules
        self.base = SCHEMA.empty_table()
        self.blocks: list[changes.Change] = []

    def write(self, step: int, kinds: Sequence[Kind]) -> None:
        """Put what happens to each key into a block of rows and one of deletes."""
        numbered = list(enumerate(kinds))
        rows = [(number, kind) for number, kind in numbered if kind.columns is not None]
        deletes = [(number, kind) for number, kind in numbered if kind.columns is None]
        table = pa.Table.from_pylist(
            [
                {schemas.RECORD_KEY: key_of(number), "at": kind.at, **values_of(kind, step)}
                for number, kind in rows
            ],
            SCHEMA,
        )
        is_deleted = np.array([kind.is_deleted for _, kind in rows], np.bool_)
        self.blocks.append(
            changes.ChangedRows(
                keys=table.column(schemas.RECORD_KEY), rows=table, is_deleted=is_deleted
            )
        )
        values = pa.array([kind.at for _, kind in deletes], pa.int64())
        self.blocks.append(
            changes.DeletedKeys(
                keys=pa.chunked_array([[key_of(number) for number, _ in deletes]], pa.string()),
                ordering=(pa.chunked_array([values]),) if self.rules.ordering_fields else None,
                is_default=np.asarray(values.is_null(), np.bool_),
                is_foreign=np.zeros(len(values), np.bool_),
            )
        )

    def read(self) -> pa.Table:
        return self._merged()[0]

    def compact(self) -> None:
        """Make one base file of all, and keep the deletes that outlive it."""
        self.base, kept = self._merged()
        self.blocks = [
            changes.DeletedKeys(
                keys=pa.chunked_array([kept.keys]),
                ordering=tuple(pa.chunked_array([each]) for each in kept.ordering),
                is_default=np.zeros(len(kept.keys), np.bool_),
                is_foreign=np.zeros(len(kept.keys), np.bool_),
            )
        ]

    def _merged(self) -> tuple[pa.Table, merging.OrderedDeletes]:
        merge = merging.SliceMerge(self.blocks, self.rules, SCHEMA, SCHEMA.names)
        rows = pa.concat_tables([merge.over(self.base), merge.inserts()])
        return rows.sort_by(schemas.RECORD_KEY), merge.ordered_deletes()


def key_of(number: int) -> str:
    return f"{number:06}"


def values_of(kind: Kind, step: int) -> dict[str, int | None]:
    return {name: step if name in (kind.columns or "") else None for name in "ab"}


def change_of(kind: Kind, step: int, rules: folding.Rules) -> one_key.Change:
    by_event_time = bool(rules.ordering_fields)
    if kind.is_deleted:
        return one_key.Remove(ordering=kind.at if by_event_time and rules.orders_deletes else None)
    return one_key.Put(
        values={"at": kind.at, **values_of(kind, step)}, ordering=kind.at if by_event_time else None
    )


def expected(histories: Iterable[History], rules: folding.Rules) -> list[pa.Table]:
    """Return what there is to read after each step."""
    states = [one_key.NOTHING for _ in histories]
    found = []
    for step, kinds in enumerate(zip(*histories, strict=True)):
        states = [
            one_key.after(state, change_of(kind, step, rules), fills_nulls=rules.fills_nulls)
            for state, kind in zip(states, kinds, strict=True)
        ]
        rows = [
            {schemas.RECORD_KEY: key_of(number), **state.values}
            for number, state in enumerate(states)
            if state.values is not None
        ]
        found.append(pa.Table.from_pylist(rows, SCHEMA))
    return found


def difference(rules: folding.Rules, kinds: Sequence[Kind], steps: int) -> str | None:
    """Return the first history that is not read as the model says, if there is one."""
    histories = list(itertools.product(kinds, repeat=steps))
    right = expected(histories, rules)
    for is_compacted in itertools.product((False, True), repeat=steps):
        there = Slice(rules)
        for step in range(steps):
            there.write(step, [history[step] for history in histories])
            for moment in ("written", "compacted")[: 1 + is_compacted[step]]:
                if moment == "compacted":
                    there.compact()
                if (found := there.read()) != right[step]:
                    return f"{moment} {is_compacted[:step]}: {first(found, right[step], histories)}"
    return None


def first(found: pa.Table, right: pa.Table, histories: Sequence[History]) -> str:
    """Return the first history that two tables differ in."""
    one, other = (
        {row[schemas.RECORD_KEY]: row for row in each.to_pylist()} for each in (found, right)
    )
    key = min(key for key in {*one, *other} if one.get(key) != other.get(key))
    return f"{histories[int(key)]} is {one.get(key)}, expected {other.get(key)}"


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
def test_content_is_the_history_whenever_compaction_runs(rules: folding.Rules) -> None:
    assert difference(rules, KINDS, STEPS) is None


def test_longer_histories_too() -> None:
    kinds = (Kind("a", 1), Kind("b", 3), Kind("b", 2), *(k for k in KINDS if k.is_deleted))
    assert difference(RULES["event time, partial updates"], kinds[:-2], STEPS + 1) is None


@pytest.mark.parametrize("rules", [rules for rules in RULES.values() if rules.fills_nulls])
def test_changes_that_are_folded_before_they_meet_the_base_row_are_found_out(
    rules: folding.Rules, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        folding.Fold, "needs_base", lambda self, base: np.zeros(len(base.keys), np.bool_)
    )
    assert difference(rules, KINDS, STEPS) is not None


def test_deletes_that_compaction_forgets_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    none = merging.OrderedDeletes(
        keys=pa.array([], pa.string()),
        ordering=(pa.array([], pa.int64()),),
        blocks=np.zeros(0, np.int64),
    )
    monkeypatch.setattr(merging.SliceMerge, "ordered_deletes", lambda self: none)
    assert difference(RULES["event time"], KINDS, STEPS) is not None


def test_updates_that_come_late_and_are_not_looked_at_are_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    right = folding.Fold.needs_base

    def deletes_alone(self: folding.Fold, base: folding.BaseRows) -> np.ndarray:
        return right(self, base) & self._has_delete[base.keys]

    monkeypatch.setattr(folding.Fold, "needs_base", deletes_alone)
    assert difference(RULES["event time, partial updates"], KINDS, STEPS) is not None
