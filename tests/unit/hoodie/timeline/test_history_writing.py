"""Files of the archived timeline in row groups: written, merged and read in parts."""

import random
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hoodie.model import instants
from hoodie.storage.memory import MemoryStorage
from hoodie.timeline import archived, history_files, history_tree, history_writing
from hoodie.timeline.history_tree import TreeFile
from support.tables import history

Row = dict[str, object]

SCHEMA = pa.schema(
    [
        ("instantTime", pa.string()),
        ("completionTime", pa.string()),
        ("action", pa.string()),
        ("metadata", pa.binary()),
        ("plan", pa.binary()),
        pa.field("version", pa.int32(), nullable=False),
    ]
)


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_writing, "PART_ROWS_MAX", 20)
    monkeypatch.setattr(history_writing, "_MERGED_AT_ONCE", 7)


def time(second: int) -> instants.InstantTime:
    return instants.format_time(1_800_000_000_000 + 1000 * second)


def row(second: int, action: str = "deltacommit", content: bytes = b"m") -> Row:
    return {
        "instantTime": time(second),
        "completionTime": time(second + 5),
        "action": action,
        "metadata": content,
        "plan": None,
        "version": 1,
    }


def staged(storage: MemoryStorage, rows: Sequence[Row], level: int = 0) -> TreeFile:
    table = pa.Table.from_pylist(list(rows), SCHEMA)
    return history_writing.stage(storage, table, lambda: None, level, may_replace=False)


def read(storage: MemoryStorage, file: TreeFile) -> pa.Table:
    return pq.read_table(pa.BufferReader(storage.read(file.path)))


def parts_of(storage: MemoryStorage, file: TreeFile) -> int:
    with history_files.HistoryFile(storage, file).opened() as opened:
        return len(opened.parts)


def merged_at_once(sources: Sequence[Sequence[Row]]) -> pa.Table:
    """The same as a merge that holds everything."""
    found: dict[tuple[object, object], Row] = {}
    for each in (row for rows in sources for row in rows):
        found.setdefault((each["instantTime"], each["action"]), each)
    ordered = sorted(found.items(), key=lambda item: (str(item[0][0]), str(item[0][1])))
    return pa.Table.from_pylist([each for _, each in ordered], SCHEMA)


@pytest.mark.parametrize("seed", range(8))
def test_merge_in_parts_is_the_merge_of_everything(seed: int) -> None:
    chance = random.Random(seed)
    storage = MemoryStorage()
    sources: list[list[Row]] = []
    for number in range(chance.randint(2, 5)):
        begin = chance.choice([0, number * 100])
        seconds = sorted(chance.sample(range(begin, begin + 150), chance.randint(1, 90)))
        actions = ("clean", "deltacommit")
        sources.append(
            [
                row(second, action, f"{number}".encode() * chance.randint(1, 50))
                for second in seconds
                for action in actions[: chance.randint(1, 2)]
            ]
        )
    files = [staged(storage, rows, level) for level, rows in enumerate(sources)]
    made = history_writing.merge(storage, files, lambda: None, may_replace=True)
    expected = merged_at_once(sources)
    assert read(storage, made).equals(expected)
    assert (made.first, made.last) == tuple(expected["instantTime"][at].as_py() for at in (0, -1))
    assert parts_of(storage, made) >= len(expected) // 20


def test_row_groups_are_limited_by_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_writing, "PART_BYTES_MAX", 10_000)
    storage = MemoryStorage()
    file = staged(storage, [row(second, content=b"x" * 1_000) for second in range(40)])
    assert 4 <= parts_of(storage, file) <= 6


def test_file_with_the_same_rows_in_one_row_group_is_used() -> None:
    """Left by a version that wrote no parts; one with other rows is not."""
    storage, rows = MemoryStorage(), [row(second) for second in range(50)]
    name = f"{time(0)}_{time(49)}_0.parquet"
    content = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), content)
    storage.create(f"{history_tree.DIRECTORY}/{name}", content.getvalue().to_pybytes())
    assert parts_of(storage, staged(storage, rows)) == 1
    with pytest.raises(history_writing.NameTakenError):
        staged(storage, [*rows[:30], row(30, content=b"other"), *rows[31:]])
    with pytest.raises(history_writing.NameTakenError):
        staged(storage, [*rows[:30], *rows[31:]])


@pytest.mark.parametrize("before", [None, time(33), time(60)])
def test_history_in_parts_is_walked_from_the_newest(before: str | None) -> None:
    storage = MemoryStorage()
    files = [
        staged(storage, [row(second) for second in range(0, 100, 2)]),
        staged(storage, [row(second) for second in range(41, 61, 2)]),
        staged(storage, [row(second) for second in range(101, 131)]),
    ]
    history.put_manifest(storage, 1, *(each.name for each in files))
    found = archived.ArchivedTimeline(storage).newest_first(before)
    seconds = [*range(0, 100, 2), *range(41, 61, 2), *range(101, 131)]
    expected = sorted((time(second) for second in seconds), reverse=True)
    assert [each.instant.requested_time for each in found] == [
        each for each in expected if before is None or each < before
    ]


def test_completion_time_is_read_from_one_part(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = MemoryStorage()
    file = staged(storage, [row(second) for second in range(0, 200, 2)])
    history.put_manifest(storage, 1, file.name)
    read_parts: list[int] = []
    rows = history_files.OpenedFile.rows

    def watched(
        opened: history_files.OpenedFile,
        parts: Sequence[history_files.Part],
        columns: Sequence[str],
    ) -> pa.Table:
        read_parts.extend(each.number for each in parts)
        return rows(opened, parts, columns)

    monkeypatch.setattr(history_files.OpenedFile, "rows", watched)
    archive = archived.ArchivedTimeline(storage)
    for second in (90, 90, 92):
        assert archive.completion_time(time(second)) == time(second + 5)
    assert len(read_parts) == 1
    assert archive.completion_time(time(91)) is None
    assert archive.completion_time(time(0)) == time(5)
    assert len(read_parts) == 2


def test_every_completion_time_is_found_however_many_are_asked_for() -> None:
    storage = MemoryStorage()
    file = staged(storage, [row(second) for second in range(0, 200, 2)])
    history.put_manifest(storage, 1, file.name)
    archive = archived.ArchivedTimeline(storage)
    for second in [*range(0, 200, 3), *range(200)]:
        expected = None if second % 2 or second > 198 else time(second + 5)
        assert archive.completion_time(time(second)) == expected


def test_times_of_14_digits_are_found_beside_those_of_17() -> None:
    """A time of 14 digits stands for the last millisecond of its second, and sorts first."""
    storage = MemoryStorage()
    short = row(20) | {"instantTime": time(20)[:14]}
    late = row(20) | {"instantTime": f"{time(20)[:14]}500"}
    file = staged(storage, [*(row(second) for second in range(20)), short, late, row(21)])
    history.put_manifest(storage, 1, file.name)
    archive = archived.ArchivedTimeline(storage)
    assert archive.completion_time(instants.InstantTime(f"{time(20)[:14]}500")) == time(25)
    assert archive.completion_time(instants.InstantTime(f"{time(20)[:14]}999")) == time(25)
