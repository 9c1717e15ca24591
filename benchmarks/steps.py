"""The steps that each side of a benchmark takes a workload through, and what is measured of them.

A `Side` is an engine that is warm and measures; the `Subject` it makes is one table, with an
operation a step. The order of the steps and what is checked at their end stand here, once.
"""

import math
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import pyarrow as pa
from data import Inputs, Workload, generate, stored_bytes, warm_up_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One timed step; its peaks are those of `Measured`."""

    name: str
    seconds: float
    peak_bytes: int
    arrow_peak_bytes: int
    stored_bytes: int

    def __str__(self) -> str:
        return (
            f"{self.name:28} {self.seconds:8.3f} s {self.peak_bytes / 2**20:8.0f} MiB"
            f" {self.stored_bytes / 1e6:8.1f} MB"
        )


Totals = Sequence[Sequence[str | float]]
"""What the rows of a table come to: a row for each of some groups, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """All steps of one workload, once; `totals` is what the table's rows come to in the end."""

    side: str
    workload: str
    steps: tuple[Step, ...]
    totals: Totals


def are_same(one: Totals, other: Totals) -> bool:
    """Return whether totals are those of the same rows; sums of fractions depend on the order."""
    pairs = (pair for rows in zip(one, other, strict=True) for pair in zip(*rows, strict=True))
    return all(
        math.isclose(first, second, rel_tol=1e-9) if isinstance(first, float) else first == second
        for first, second in pairs
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a piece of work took.

    Attributes:
        seconds: Wall time.
        peak_bytes: The highest resident memory.
        arrow_peak_bytes: The highest memory of Arrow's, where that is known, or 0.
    """

    seconds: float
    peak_bytes: int
    arrow_peak_bytes: int = 0


class Subject(Protocol):
    """One table. The three full scans differ in where the rows go."""

    def bulk_insert(self, rows: Path) -> object:
        """Fill the new table."""

    def upsert(self, rows: Path) -> object:
        """Write changes."""

    def delete(self, keys: Path) -> object:
        """Delete keys."""

    def aggregate(self) -> object:
        """Evaluate `data.AGGREGATE`, the result as Arrow in the caller."""

    def scan(self) -> object:
        """Make every row of the table's own columns, and drop it."""

    def collect(self) -> object:
        """Collect all rows as Arrow in the caller."""

    def copy(self) -> object:
        """Write all rows to parquet files."""

    def schedule_compaction(self) -> object:
        """Plan a compaction of everything."""

    def compact(self) -> object:
        """Execute the plan."""

    def totals(self) -> pa.Table:
        """Return the result of `data.AGGREGATE`."""


class Side(Protocol):
    """One engine."""

    name: str
    warm_ups: int
    """How often a small table must go through all steps before the first that is measured."""

    def create(self, workload: Workload, inputs: Inputs, path: Path) -> Subject:
        """Return a new table at `path`, which does not exist."""

    def measured(self, work: Callable[[], object]) -> Measured:
        """Do the work."""


def warm_up(side: Side, workload: Workload, folder: Path, *, is_first: bool = True) -> None:
    """Take a small table through all steps of the workload.

    Args:
        side: As often as it wants before its first workload, and once before another.
        workload: The steps.
        folder: As of `run`.
        is_first: Whether the side did no other workload before.
    """
    small = replace(workload, sizes=warm_up_of(workload.sizes))
    for _ in range(side.warm_ups if is_first else 1):
        run(side, small, folder)


def run(side: Side, workload: Workload, folder: Path) -> Run:
    """Make the workload's table, take it through all steps, and delete it.

    Args:
        side: Does the work.
        workload: The work.
        folder: For inputs, which stay, and for tables.
    """
    inputs = generate(folder / "inputs", workload.sizes)
    path = folder / "tables" / side.name / workload.name
    shutil.rmtree(path, ignore_errors=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    subject = side.create(workload, inputs, path)
    steps = []
    for name, work in _plan(subject, workload, inputs):
        measured = side.measured(work)
        step = Step(
            name=name,
            seconds=measured.seconds,
            peak_bytes=measured.peak_bytes,
            arrow_peak_bytes=measured.arrow_peak_bytes,
            stored_bytes=stored_bytes(path),
        )
        steps.append(step)
    totals = subject.totals().select(["region", "orders", "amount", "ts", "quantity", "score"])
    rows = sum(totals.column("orders").to_pylist())
    expected = inputs.rows_after_deletes if workload.deletes else inputs.rows_after_upserts
    assert rows == expected, f"{rows} rows instead of {expected} in {workload.name} of {side.name}"
    shutil.rmtree(path)
    return Run(
        side=side.name,
        workload=workload.name,
        steps=tuple(steps),
        totals=[list(row.values()) for row in totals.sort_by("region").to_pylist()],
    )


def _plan(
    subject: Subject, workload: Workload, inputs: Inputs
) -> Iterator[tuple[str, Callable[[], object]]]:
    yield "bulk_insert", lambda: subject.bulk_insert(inputs.rows)
    for number, upsert in enumerate(inputs.upserts, start=1):
        yield f"upsert_{number}", lambda rows=upsert: subject.upsert(rows)
    if workload.deletes:
        yield "delete", lambda: subject.delete(inputs.deletes)
    yield from _scans(subject, workload, "logs")
    yield "schedule_compaction", subject.schedule_compaction
    yield "compaction", subject.compact
    yield from _scans(subject, workload, "compacted")


def _scans(
    subject: Subject, workload: Workload, state: str
) -> Iterator[tuple[str, Callable[[], object]]]:
    yield f"aggregate_{state}", subject.aggregate
    yield f"full_scan_noop_{state}", subject.scan
    if workload.all_sinks:
        yield f"full_scan_arrow_{state}", subject.collect
        yield f"full_scan_parquet_{state}", subject.copy
