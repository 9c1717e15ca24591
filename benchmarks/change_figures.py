"""The figures of `changes.py`: kept from run to run, and shown on a page."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

SNAPSHOT = "snapshot"
TRAVEL = "time travel over 100 commits"
LAST = "increment of the last commit"
LAST_100 = "increment of the last 100 commits"
STORED = "changes of the last 100 commits, stored"
COMPUTED = "changes of the last 100 commits, computed"
STORED_LAST = "changes of the last commit, stored"
COMPUTED_LAST = "changes of the last commit, computed"
HISTORY = "history of a row over 100 commits"
STEPS: Mapping[str, str] = {
    SNAPSHOT: "all rows, as they are now",
    TRAVEL: "all rows, as they were 100 commits ago",
    LAST: "rows that the last commit changed, as they are now",
    LAST_100: "rows that the last 100 commits changed, as they are now",
    STORED_LAST: "what the last commit changed, the rows before and after, from its log of change "
    "data",
    STORED: "the same of each of the last 100 commits",
    COMPUTED_LAST: "the same of the last commit, from base and log files. Apache Hudi computes it "
    "of merge-on-read tables alone",
    COMPUTED: "the same of each of the last 100 commits",
    HISTORY: "each change of one row; Apache Hudi has no such query",
}
"""What is measured, in this order."""
_TITLES = ("table", "step", "rows", "Apache Hudi s", "ours s", "ratio", "run")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """What a step took, at best, in seconds.

    Attributes:
        commits: Of the table.
        rows: Of the table.
        batch: Rows of a commit.
        table_type: The kind of table.
        step: What was measured.
        found: How many rows it returned.
        peer_s: Of Apache Hudi; None where it has no such query.
        local_s: Of our engine on local threads.
        run: When and where this was.
    """

    commits: int
    rows: int
    batch: int
    table_type: str
    step: str
    found: int
    peer_s: float | None
    local_s: float
    run: str

    @property
    def subject(self) -> tuple[int, int, int, str, str]:
        """What was measured, whatever came of it."""
        return (self.commits, self.rows, self.batch, self.table_type, self.step)

    def __str__(self) -> str:
        peer = "" if self.peer_s is None else f"Apache Hudi {self.peer_s:.2f} s, "
        return f"{self.table_type}, {self.step}: {peer}ours {self.local_s:.3f} s"


def read(path: Path) -> list[Figure]:
    """Return the figures that a file keeps; none where there is no file."""
    if not path.exists():
        return []
    return [Figure(**json.loads(line)) for line in path.read_text().splitlines()]


def keep(path: Path, measured: Sequence[Figure]) -> None:
    """Keep figures in the place of older ones of the same, and write the page beside the file."""
    newest = {each.subject: each for each in [*read(path), *measured]}
    path.write_text("".join(json.dumps(asdict(each)) + "\n" for each in newest.values()))
    path.with_suffix(".md").write_text(page(list(newest.values())))


def page(figures: Sequence[Figure]) -> str:
    """Return the page of figures: a table of each size."""
    runs = list(dict.fromkeys(each.run for each in figures))
    steps = list(STEPS)
    sections = []
    for size in sorted({each.subject[:3] for each in figures}):
        of_size = [each for each in figures if each.subject[:3] == size]
        of_size.sort(key=lambda each: (each.table_type, steps.index(each.step)))
        commits, rows, batch = size
        lines = [_TITLES, ("---", "---", "---:", "---:", "---:", "---:", "---")]
        lines += [_cells(each, runs.index(each.run) + 1) for each in of_size]
        title = f"## {commits:,} commits of {batch:,} rows to {rows:,}"
        sections.append(f"{title}\n\n{_table(lines)}")
    tables = "\n".join(sections)
    told = "".join(f"- `{name}`: {what}.\n" for name, what in STEPS.items())
    numbered = "".join(f"{number}. {run}\n" for number, run in enumerate(runs, start=1))
    return f"""# Queries through time

Made by `benchmarks/changes.py` of the figures that CHANGES.jsonl keeps. Our engine made the tables:
four partitions with four buckets each, commits to one partition after the other, compacted, cleaned
and archived on the way. Both engines read the same table and make every row; that they find the
same number of rows is asserted. Seconds, the best of some repetitions; a ratio is Apache Hudi's
time over ours. Compare figures of one run; the runs are listed below.

{told}
{tables}
## Runs

{numbered}"""


def _cells(figure: Figure, run: int) -> list[str]:
    cells = [figure.table_type, figure.step, f"{figure.found:,}"]
    if figure.peer_s is None:
        cells += ["", f"{figure.local_s:.3f}", ""]
    else:
        ratio = figure.peer_s / figure.local_s
        cells += [f"{figure.peer_s:.2f}", f"{figure.local_s:.3f}", f"{ratio:.1f}"]
    return [*cells, str(run)]


def _table(lines: Iterable[Sequence[str]]) -> str:
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
