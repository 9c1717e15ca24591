"""Two pipelines write different columns of the same rows of one table at the same time.

    make demo

336,776 real flights: `schedules` knows what was planned, `actuals` what happened. Both are Spark
applications; neither waits for the other, under one ZooKeeper lock; a compactor joins them while
they write. All of it is declared in the manifests beside this file.

Then it is proved, by program: that the two overlapped in one file group with a compaction planned
in between; that the table equals the source in every row and column, before and after the last
compaction; that file versions were cleaned; and that hudi-rs, which is not ours, reads the same.
"""

import argparse
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import hudi
import prepare
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.table import Table as RichTable

from hoodie import environment, table
from hoodie.model import commits, instants

HERE = Path(__file__).parent
BIN = Path(sys.executable).parent
KEY = [("time_hour", "ascending"), ("carrier", "ascending"), ("flight", "ascending")]
WRITERS = ("schedules", "actuals")

console = Console()


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One completed write.

    Attributes:
        writer: Who wrote it; `compaction` for one.
        requested_time: When it began.
        completion_time: When it took effect.
        groups: The file groups it touched.
    """

    writer: str
    requested_time: str
    completion_time: str
    groups: frozenset[tuple[str, str]]

    def overlaps(self, other: "Span") -> bool:
        """Return whether both were under way at one moment."""
        return (
            self.requested_time < other.completion_time
            and other.requested_time < self.completion_time
        )


def main() -> None:
    """Run the demo."""
    parser = argparse.ArgumentParser(description="Two writers, one table, one compactor.")
    parser.add_argument("--work", type=Path, default=HERE / "work")
    work = parser.parse_args().work.resolve()
    shutil.rmtree(work, ignore_errors=True)
    prepare.prepare(work)
    source = prepare.read_typed(prepare.source_path())
    start = time.monotonic()

    say("The operator takes the manifests and runs what they declare")
    operate(work, [HERE / "manifests"])
    opened = table.open_table(str(work / "flights"), environment.system())
    spans = spans_of(opened)
    show_timeline(spans)
    prove_overlap(spans)
    prove_content("before the last compaction", read(opened), source)

    say("One more compaction, declared as an object of its own, and a policy of retention")
    operate(work, [HERE / "manifests", HERE / "last-compaction", HERE / "retention"])
    prove_content("after the last compaction", read(opened), source)
    prove_cleaned(opened)
    prove_content("as hudi-rs reads it", read_with_hudi_rs(work / "flights"), source)
    say(f"All proved, {time.monotonic() - start:.0f} s after the input was ready")
    console.print(f"The table is {work / 'flights'}. Look at it:")
    for command in ("timeline", "slices", "check"):
        console.print(f"    .venv/bin/hoodie {command} {work / 'flights'}", highlight=False)


def say(text: str) -> None:
    """Print a headline."""
    console.print(f"\n[bold cyan]==>[/] [bold]{text}[/]")


def operate(work: Path, folders: Sequence[Path]) -> None:
    """Let the operator reconcile the manifests of some folders until nothing is left to do."""
    manifests = work / "manifests"
    manifests.mkdir(exist_ok=True)
    for folder in folders:
        for path in folder.glob("*.yaml"):
            shutil.copy(path, manifests / f"{folder.name}-{path.name}")
    operator = [str(BIN / "hudi-operator")]
    state = ["--state", str(work / "state")]
    run = [*operator, "standalone", "-f", str(manifests), *state, "--data", str(work)]
    ended = subprocess.run([*run, "--until-settled"], check=False)
    for kind in ("tables", "writers", "actions"):
        subprocess.run([*operator, "get", kind, *state], check=False)
    if ended.returncode:
        raise SystemExit(f"demo: the operator ended with {ended.returncode}")


def prove_cleaned(opened: table.Table) -> None:
    """Prove that a clean deleted what nobody reads any more."""
    cleans = [
        each
        for each in opened.timeline().instants
        if each.action is instants.Action.CLEAN and each.is_completed
    ]
    if not cleans:
        raise SystemExit("demo: no clean was completed")
    console.print(f"[green]proved[/] {len(cleans)} cleans have deleted replaced file versions")


def spans_of(opened: table.Table) -> list[Span]:
    """Return the completed writes and compactions, by requested time."""
    timeline = opened.timeline()
    return [
        Span(
            writer=metadata.extra.get(commits.WRITER_ID_KEY) or "compaction",
            requested_time=instant.requested_time,
            completion_time=str(instant.completion_time),
            groups=frozenset((stat.partition_path, stat.file_id) for stat in metadata.stats),
        )
        for instant, metadata in metadata_of(opened, timeline.instants)
    ]


def metadata_of(
    opened: table.Table, wanted: Sequence[instants.Instant]
) -> list[tuple[instants.Instant, commits.CommitMetadata]]:
    """Return the completed instants among these with their metadata, by requested time."""
    found = opened.metadata(wanted)
    return sorted(found.items(), key=lambda item: item[0].requested_time)


def show_timeline(spans: Sequence[Span]) -> None:
    """Print when each write began and took effect, side by side, and who was under way."""
    say("The timeline")
    grid = RichTable(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for name in ("requested", "completed", "who", "file groups", "at the same time"):
        grid.add_column(name, justify="right" if name == "file groups" else "left")
    for span in spans:
        beside = [other for other in spans if other is not span and span.overlaps(other)]
        counts = {
            writer: sum(other.writer == writer for other in beside)
            for writer in (*WRITERS, "compaction")
        }
        grid.add_row(
            clock(span.requested_time),
            clock(span.completion_time),
            span.writer,
            str(len(span.groups)),
            ", ".join(f"{count} {writer}" for writer, count in counts.items() if count),
        )
    console.print(grid)


def clock(time_text: str) -> str:
    """Return the time of day of an instant time."""
    return f"{time_text[8:10]}:{time_text[10:12]}:{time_text[12:14]}.{time_text[14:]}"


def prove_overlap(spans: Sequence[Span]) -> None:
    """Check that both writers were under way in one file group, with a plan in between.

    Raises:
        SystemExit: They were not.
    """
    for planned in (span for span in spans if span.writer == "compaction"):
        for first in (span for span in spans if span.writer == WRITERS[0]):
            for second in (span for span in spans if span.writer == WRITERS[1]):
                shared = first.groups & second.groups
                is_between = (
                    max(first.requested_time, second.requested_time)
                    < planned.requested_time
                    < max(first.completion_time, second.completion_time)
                )
                if shared and is_between and first.overlaps(second):
                    partition, file_id = min(shared)
                    console.print(
                        f"[green]proved[/] {first.writer} {clock(first.requested_time)} to "
                        f"{clock(first.completion_time)} and {second.writer} "
                        f"{clock(second.requested_time)} to {clock(second.completion_time)} wrote "
                        f"file group {file_id[:8]} of partition {partition} at the same time; a "
                        f"compaction was planned in between, at {clock(planned.requested_time)}"
                    )
                    return
    raise SystemExit("demo: the writers did not overlap in a file group around a compaction plan")


def read(opened: table.Table) -> pa.Table:
    """Return the table's content, as this library reads it."""
    return opened.read().read_all()


def read_with_hudi_rs(path: Path) -> pa.Table:
    """Return the table's content, as hudi-rs reads it."""
    return pa.Table.from_batches(hudi.HudiTableBuilder.from_base_uri(path.as_uri()).build().read())


def prove_content(when: str, found: pa.Table, source: pa.Table) -> None:
    """Check that every row and column equals the source.

    Raises:
        SystemExit: They differ; the message says where.
    """
    if found.num_rows != source.num_rows:
        raise SystemExit(f"demo: {found.num_rows:,} rows {when}, expected {source.num_rows:,}")
    found, expected = found.sort_by(KEY), source.sort_by(KEY)
    for name in source.column_names:
        left, right = found.column(name), expected.column(name)
        is_equal = pc.fill_null(pc.equal(left, right), fill_value=False)
        both_null = pc.and_(left.is_null(), right.is_null())
        wrong = pc.sum(pc.invert(pc.or_(is_equal, both_null))).as_py()
        if wrong:
            raise SystemExit(f"demo: {wrong:,} values of column {name} are wrong {when}")
    console.print(
        f"[green]proved[/] {source.num_rows:,} rows x {source.num_columns} columns equal the "
        f"source {when}"
    )


if __name__ == "__main__":
    main()
