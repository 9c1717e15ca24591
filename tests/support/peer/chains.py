"""Readers that pull what changes, step by step, and have to hold what a snapshot has.

A chain of increments, and one of change data, from any start: each goes on from the position that
it was given last. Where what changed since cannot be read any more, after cleans, restores and
rollbacks, it begins again with all rows, and says so. A table without an id of a row but its key
and partition holds a row of each. The row before a change is the one that the reader holds.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from hoodie import environment, errors, table
from hoodie.model import schemas
from hoodie.model.change_data import Op
from hoodie.read.changed_rows import CHANGE, DELETE

Key = tuple[str, str]
Row = Mapping[str, Any]

_META = (schemas.RECORD_KEY, schemas.PARTITION_PATH)


class Chain:
    """A reader of one table.

    Attributes:
        held: What it holds, by record key and partition path.
        counts: What it has pulled, and how often it began again.
    """

    def __init__(self, path: Path, *, has_images: bool) -> None:
        """Take the table, and whether changes of each write are pulled, or rows as they are now."""
        self._path = path
        self._has_images = has_images
        self._position: str | None = None
        self.held: dict[Key, Row] = {}
        self.counts: Counter[str] = Counter()

    def pull(self) -> None:
        """Pull what changed since the last time."""
        opened = table.open_table(str(self._path), environment.system(parallelism=2))
        try:
            if self._has_images and self._position is not None:
                self._follow(opened)
            else:
                self._catch_up(opened, falls_back=False)
        except errors.GoneError:
            self.counts["begun again"] += 1
            self._catch_up(opened, falls_back=True)

    def rows(self, schema: pa.Schema) -> pa.Table:
        """Return what it holds, in some columns: those that came later are null."""
        names = schema.names
        return pa.Table.from_pylist(
            [{name: row.get(name) for name in names} for row in self.held.values()], schema
        )

    def _catch_up(self, opened: table.Table, *, falls_back: bool) -> None:
        """Pull rows as they are now; all of them without a position."""
        columns = [*_META, *opened.schema.arrow.names]
        since = None if self._has_images else self._position
        found = opened.changes(since, columns=columns, falls_back=falls_back)
        if found.is_snapshot:
            self.held = {}
        for row in _rows(found.read()):
            change = row.pop(CHANGE)
            self._apply(row.pop(_META[0]), row.pop(_META[1]), None if change == DELETE else row)
            self.counts[str(change)] += 1
        self._position = str(found.position)

    def _follow(self, opened: table.Table) -> None:
        """Pull the changes of each write."""
        found = opened.change_data(self._position)
        for row in _rows(found.read()):
            key = row["record_key"], row["partition_path"]
            self._check(row["op"], key, row["before"])
            self._apply(*key, row["after"])
            self.counts[str(row["op"])] += 1
        self._position = str(found.position)

    def _check(self, op: str, key: Key, before: Row | None) -> None:
        """Check that a change begins at the row that is held."""
        held = self.held.get(key)
        said = f"{op} of {key}, from {before}, where {held} is held"
        assert (op == Op.INSERT.value) == (before is None) == (held is None), said
        if before is not None and held is not None:
            assert not [name for name in held if _differ(held[name], before.get(name))], said

    def _apply(self, key: str, partition_path: str, row: Row | None) -> None:
        if row is None:
            self.held.pop((key, partition_path), None)
        else:
            self.held[key, partition_path] = row


def _differ(one: object, other: object) -> bool:
    """Return whether two values of a column differ; of one whose type was widened they may."""
    is_nan = one != one and other != other  # noqa: PLR0124 - NaN is what is not itself
    return type(one) is type(other) and one != other and not is_nan


def _rows(reader: Iterable[pa.RecordBatch]) -> Iterable[dict[str, Any]]:
    for batch in reader:
        yield from batch.to_pylist()
