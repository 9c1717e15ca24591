"""How a dialogue shows what it sees: short times, short file groups, cells below each other.

t21, t21.5   seconds since the dialogue began, for an instant time of 17 digits
fg0          the file group of bucket 0
[t21, t40]   requested and completion time of what wrote a file, as in RFC-66's demo
"""

import re
import textwrap
from collections.abc import Iterable

import pyarrow as pa

from hoodie.format import file_names
from hoodie.model import commits, files, instants, results, schemas
from hoodie.timeline import active
from support.simulation import schedule

NULL = "-"
OK = "ok"
_WIDTH = 100
_TIME = re.compile(r"(?<!\d)20\d{15}(?!\d)")
_FILE_ID = re.compile(r"(\d{8})-0000-0000-0000-000000000000-0")
_STAGE = re.compile(r"(?<=_)(\d+)-\d{4,}-(\d+)(?=_|$)")

DataFile = files.BaseFile | files.LogFile


def milliseconds(time: str) -> int:
    """Return the milliseconds since the beginning that `t21` or `t21.5` means."""
    return round(float(time.removeprefix("t")) * 1000)


def instant_time(time: str) -> instants.InstantTime:
    """Return the instant time that `t21` means."""
    return instants.format_time(schedule.EPOCH_MS + milliseconds(time))


def readable(line: str) -> list[str]:
    """Return a line, or several that are not too long, with short names."""
    text = _FILE_ID.sub(lambda match: f"fg{int(match[1])}", _with_short_times(line))
    # The number of an execution is drawn by lot.
    text = _STAGE.sub(r"\1-N-\2", text)
    return textwrap.wrap(
        text,
        _WIDTH,
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def columns(rows: Iterable[Iterable[str]]) -> list[str]:
    """Return rows as lines with their cells below each other."""
    cells = [[_with_short_times(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]


def parse_rows(lines: Iterable[str], schema: schemas.TableSchema) -> pa.Table:
    """Return the rows of a command's input: a key and `column=value` each, `-` for null."""
    rows: list[dict[str, str]] = []
    for line in lines:
        key, *values = line.split()
        rows.append({"id": key, **dict(value.split("=", 1) for value in values)})
    names = list(dict.fromkeys(name for row in rows for name in row))
    texts = [[row.get(name, NULL) for row in rows] for name in names]
    return pa.table(
        [
            pa.array([None if text == NULL else text for text in column], pa.string()).cast(
                schema.arrow.field(name).type
            )
            for name, column in zip(names, texts, strict=True)
        ],
        names=names,
    )


def show_rows(data: pa.Table) -> list[str]:
    """Return rows in the form in which `parse_rows` takes them, by key."""
    rows = data.sort_by("id").to_pylist()
    return columns(
        (
            row.pop("id"),
            *(f"{name}={NULL if value is None else value}" for name, value in row.items()),
        )
        for row in rows
    )


def outcome(result: results.WriteResult) -> list[str]:
    """Return what a writer or a compaction is told."""
    if isinstance(result, results.AlreadyCommitted):
        return [f"batch {result.batch_id} is there already"]
    interval = f"[{result.instant.requested_time}, {result.instant.completion_time}]"
    return [interval, *result.findings]


def rollback(result: results.RollbackResult) -> str:
    """Return what was taken back."""
    deleted = ", ".join(result.deleted) or "no files"
    return f"{result.action.value} {result.target} is taken back, with {deleted}"


def group(group_id: files.FileGroupId) -> str:
    """Return the path of a file group."""
    return files.join(group_id.partition_path, group_id.file_id)


def data_files(names: Iterable[str | None]) -> list[DataFile]:
    """Return the data files of a plan; None stands for a base file that is not there."""
    found = [file_names.parse(name, 0) for name in names if name is not None]
    assert None not in found, names
    return [each for each in found if each is not None]


def contents(found: Iterable[DataFile], timeline: active.ActiveTimeline) -> str:
    """Return the files of a slice."""
    texts = []
    for each in found:
        kind = "base" if isinstance(each, files.BaseFile) else "log"
        completed = timeline.completion_time(each.instant_time) or NULL
        texts.append(f"{kind} [{each.instant_time}, {completed}]")
    return ", ".join(texts) or "nothing yet"


def instant(found: instants.Instant, metadata: commits.CommitMetadata | None) -> tuple[str, ...]:
    """Return the cells of an instant on the timeline, its writer last."""
    extra = metadata.extra if metadata else {}
    return (
        found.requested_time,
        found.completion_time or NULL,
        found.action.value,
        found.state.value,
        extra.get(commits.WRITER_ID_KEY, NULL),
    )


def pending(found: results.PendingInstant) -> tuple[str, ...]:
    """Return the cells of a pending instant and of what is known of its owner."""
    return (
        found.instant.requested_time,
        found.instant.action.value,
        found.instant.state.value,
        found.liveness,
        NULL if found.silence_ms is None else f"silent for {found.silence_ms / 1000:g} s",
        NULL if found.remedy is None else f"to {found.remedy.value}",
    )


def _with_short_times(text: str) -> str:
    return _TIME.sub(lambda match: _short(match[0]), text)


def _short(time: str) -> str:
    seconds = (instants.parse_time(time) - schedule.EPOCH_MS) / 1000
    return "t" + f"{seconds:.3f}".rstrip("0").rstrip(".")
