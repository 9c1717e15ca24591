"""The figures of `indexes.py`: kept from run to run, and shown on a page.

A figure stands in a file of JSON lines until another run measures the same again, so a run of some
indexes replaces theirs and leaves the others. The page names the run that each figure is of.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

LOOK_UP = "look-up"
STEPS: Mapping[str, str] = {
    LOOK_UP: "the file groups of the batch's keys are found, nine of ten keys being in the table, "
    "and nothing is written. Apache Hudi does it as its write client tags records; on Spark the "
    "driver does it: in threads where it reads few file slices or a record index, else by tasks",
    "insert": "new rows by the operation `insert`, which looks nothing up and fills small base "
    "files first. The table has no log files yet",
    "upsert": "nine of ten keys are in the table",
    "upsert of new rows": "the keys are looked up, and none is in the table",
    "move": "as `upsert`, and one of ten rows changes its partition",
}
"""What is measured, in this order."""
_TITLES = ("table", "index", "step", "Apache Hudi s", "Spark s", "ratio", "local s", "ratio", "run")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """What a step took, at best, in seconds.

    Attributes:
        rows: Of the table.
        batch: Rows of a batch.
        table_type: The kind of table.
        index: The index.
        step: What was measured.
        peer_s: Of Apache Hudi.
        spark_s: Of our engine on Spark; None where it was not measured.
        local_s: Of our engine on local threads.
        run: When and where this was.
    """

    rows: int
    batch: int
    table_type: str
    index: str
    step: str
    peer_s: float
    spark_s: float | None
    local_s: float
    run: str

    @property
    def subject(self) -> tuple[int, int, str, str, str]:
        """What was measured, whatever came of it."""
        return (self.rows, self.batch, self.table_type, self.index, self.step)

    def __str__(self) -> str:
        spark = "" if self.spark_s is None else f", on Spark {self.spark_s:.2f} s"
        return (
            f"{self.table_type}, {self.index}, {self.step}: Apache Hudi {self.peer_s:.2f} s"
            f"{spark}, on local threads {self.local_s:.2f} s"
        )


def read(path: Path) -> list[Figure]:
    """Return the figures that a file keeps; none where there is no file."""
    if not path.exists():
        return []
    return [Figure(**json.loads(line)) for line in path.read_text().splitlines()]


def write(path: Path, figures: Iterable[Figure]) -> None:
    """Keep figures."""
    path.write_text("".join(json.dumps(asdict(each)) + "\n" for each in figures))


def replaced(kept: Sequence[Figure], measured: Sequence[Figure]) -> list[Figure]:
    """Return the figures with those that were measured again in the place of older ones."""
    newest = {each.subject: each for each in [*kept, *measured]}
    return list(newest.values())


def page(figures: Sequence[Figure], indexes: Sequence[str]) -> str:
    """Return the page of figures: a table of each size, in the order of these indexes."""
    runs = list(dict.fromkeys(each.run for each in figures))
    steps = list(STEPS)
    sections = []
    for rows, batch in sorted({(each.rows, each.batch) for each in figures}):
        of_size = [each for each in figures if (each.rows, each.batch) == (rows, batch)]
        of_size.sort(
            key=lambda each: (each.table_type, indexes.index(each.index), steps.index(each.step))
        )
        lines = [_TITLES, ["---"] * 3 + ["---:"] * 5 + ["---"]]
        lines += [_cells(each, runs.index(each.run) + 1) for each in of_size]
        sections.append(f"## A batch of {batch:,} rows into {rows:,}\n\n" + _table(lines))
    tables = "\n".join(sections)
    told = "".join(f"- `{name}`: {what}.\n" for name, what in STEPS.items())
    numbered = "".join(f"{number}. {run}\n" for number, run in enumerate(runs, start=1))
    return f"""# Look-ups and writes by each index

Made by `benchmarks/indexes.py` of the figures that INDEXES.jsonl keeps. Apache Hudi made the
tables: random keys in four partitions; the bucket indexes have four buckets in each. Seconds, the
best of some repetitions; a ratio is Apache Hudi's time over ours, on Spark or on local threads.
Compare figures of one run; the runs are listed below.

{told}
{tables}
## Runs

{numbered}"""


def _cells(figure: Figure, run: int) -> list[str]:
    cells = [figure.table_type, figure.index, figure.step, f"{figure.peer_s:.2f}"]
    for seconds in (figure.spark_s, figure.local_s):
        if seconds is None:
            cells += ["", ""]
        else:
            cells += [f"{seconds:.2f}", f"{figure.peer_s / seconds:.1f}"]
    return [*cells, str(run)]


def _table(lines: Iterable[Sequence[str]]) -> str:
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
