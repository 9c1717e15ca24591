"""A read that leaves out what statistics exclude returns the rows of one that reads everything."""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import hypothesis
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given

from hoodie import environment, table
from hoodie.model import commits, predicates, schemas, settings, table_config
from hoodie.read import where
from hoodie.read.planning import Means
from hoodie.transaction import authors, manager
from hoodie.transaction.locks import address_texts
from hoodie.write import sessions
from support.tables import metadata_tables
from support.tables.random_filters import FILTERS, SCHEMA
from support.tables.tables import CONFIG

COLUMNS = pa.schema([("id", pa.string()), ("part", pa.string()), *SCHEMA])
WIDER = {"i": pa.int64(), "f": pa.float64()}
ENV = environment.system(parallelism=1)
CHAIN = table_config.ChainName(id="c")
KINDS: Mapping[str, table_config.TableConfig] = {
    "merge on read": CONFIG,
    "copy on write": replace(CONFIG, table_type=table_config.TableType.COPY_ON_WRITE),
    "ours alone": replace(CONFIG, chain=CHAIN, has_foreign_writers=False),
    "version 8": replace(CONFIG, version=8),
}
CONCURRENCY = {
    table_config.TableType.MERGE_ON_READ: settings.ConcurrencyMode.NON_BLOCKING,
    table_config.TableType.COPY_ON_WRITE: settings.ConcurrencyMode.OPTIMISTIC,
}
VALUES: Mapping[str, Sequence[Any]] = {
    "i": range(-3, 4),
    "f": [-0.0, 0.0, 0.1, 1.5, -2.0, math.nan],
    "d": [-0.0, 0.0, 0.1, 1.5, -2.0, math.nan],
    "s": ["", "a", "b", "\ue000", "\U0001f600", "ab", "x" * 5000],
    "day": [20454 + day for day in range(5)],
    "n": [-2, -1, 0, 1, 2],
    "t": [(20454 + day) * 86_400_000_000 + day for day in range(5)],
}


class _Writer:
    """Writes random rows to a table, and whatever else changes its statistics."""

    def __init__(self, path: Path, config: table_config.TableConfig, seed: int) -> None:
        schema = schemas.from_arrow(COLUMNS, config.name)
        made = table.create_table(str(path), config, schema, ENV)
        self._path = path
        self._random = random.Random(seed)
        self._schema = COLUMNS
        self._settings = settings.WriteSettings(
            concurrency=CONCURRENCY[config.table_type],
            clock_wait_ms=0,
            metadata_delta_commits_max=4,
            adds_columns=True,
        )
        made.initialise_metadata(self._transaction())

    def upsert(self) -> None:
        parts = self._random.sample("pqrs", self._random.randint(1, 3))
        rows = [self._row(self._random.choice(parts)) for _ in range(self._random.randint(1, 6))]
        self._write(pa.Table.from_pylist(rows, self._schema), commits.Operation.UPSERT)

    def delete(self) -> None:
        keys = [{"id": f"p{number}", "part": "p"} for number in self._random.sample(range(9), 3)]
        schema = pa.schema([COLUMNS.field("id"), COLUMNS.field("part")])
        self._write(pa.Table.from_pylist(keys, schema), commits.Operation.DELETE)

    def widen(self) -> None:
        for name, kind in WIDER.items():
            place = self._schema.get_field_index(name)
            self._schema = self._schema.set(place, pa.field(name, kind))
        self.upsert()

    def compact(self) -> None:
        service = replace(self._transaction(), author=authors.Author())
        opened = table.open_table(str(self._path), ENV)
        if opened.config.is_copy_on_write:
            return
        planned = opened.schedule_compaction(service)
        assert planned is not None
        opened.compact(planned, service)

    def _write(self, rows: pa.Table, operation: commits.Operation) -> None:
        options = sessions.WriteOptions(operation=operation, transaction=self._transaction())
        table.open_table(str(self._path), ENV).write(rows, options)

    def _transaction(self) -> manager.TransactionOptions:
        return manager.TransactionOptions(
            settings=self._settings,
            lock=address_texts.parse("in-process"),
            author=authors.Author(writer_id="w"),
        )

    def _row(self, part: str) -> dict[str, object]:
        # Each partition has a range of its own, so that there is something to leave out.
        chosen = {
            name: self._random.choice([None, *values[len(values) * "pqrs".index(part) // 4 :][:2]])
            for name, values in VALUES.items()
        }
        return {"id": f"{part}{self._random.randint(0, 8)}", "part": part, **chosen}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], table.Table]:
    """Return what makes a table of a kind, once."""
    made: dict[str, table.Table] = {}

    def make(kind: str) -> table.Table:
        if kind not in made:
            path = tmp_path_factory.mktemp("skipping") / "table"
            writer = _Writer(path, KINDS[kind], seed=1)
            write, delete, widen, compact = (
                writer.upsert,
                writer.delete,
                writer.widen,
                writer.compact,
            )
            begun = (write, write, write, compact, write, delete)
            for step in (*begun, write, widen, write, write, compact, write, delete, write):
                step()
            made[kind] = table.open_table(str(path), ENV)
        return made[kind]

    return make


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_random_filters_are_those_of_a_read_by_listing(
    kind: str, written: Callable[[str], table.Table]
) -> None:
    made = written(kind)

    @hypothesis.settings(
        max_examples=25, deadline=None, suppress_health_check=[HealthCheck.nested_given]
    )
    @given(FILTERS)
    def compare(predicate: predicates.Predicate) -> None:
        expected = metadata_tables.rows_by_listing(made, predicate)
        assert metadata_tables.rows_by_statistics(made, predicate) == expected

    compare()


@pytest.mark.parametrize("kind", KINDS)
def test_statistics_leave_out_partitions_and_slices(
    kind: str, written: Callable[[str], table.Table]
) -> None:
    made = written(kind)
    filters = [where.parse(f"i = {number} and day is not null") for number in VALUES["i"]]
    plans = [made.explain_read(where=each) for each in filters]
    assert all(step.unused is None for plan in plans for step in plan.steps)
    for means in (Means.PARTITION_STATISTICS, Means.COLUMN_STATISTICS):
        assert sum(plan.step(means).skipped for plan in plans) > 0, means
