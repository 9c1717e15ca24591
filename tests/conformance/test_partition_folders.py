"""Partition folders of any name, as Apache Hudi makes them of the values it is given."""

from pathlib import Path

import pyarrow as pa
import pytest

from support.peer import peer_ours
from support.peer.judge import Judge
from support.peer.peer_cases import BASE, SCHEMA, row
from support.peer.peer_options import filesystem_lock
from support.peer.peer_rows import assert_same_rows

FOLDERS = (
    "tab\tbed",
    "line\nfeed",
    "return\rs",
    "\x1b[31mred",
    "del\x7f",
    " spaces ",
    ".hidden",
    "_hidden",
    "50%",
    "q\"uo'te",
    "back\\slash",
    "{[*?]}",
    "x" * 250,
)
KEY = ["part", "id"]


def rows_of(numbers: range, ts: int) -> pa.Table:
    """Return a row of each key in each folder."""
    rows = [row(n, ts=ts, part=folder) for n in numbers for folder in FOLDERS]
    return pa.Table.from_pylist(rows, SCHEMA)


def test_folders_of_any_name_are_read_compacted_and_not_made(judge: Judge, tmp_path: Path) -> None:
    path = tmp_path / "table"
    ours = peer_ours.Hoodie(table=BASE)
    plain = pa.Table.from_pylist([row(n, ts=1000) for n in range(6)], SCHEMA)
    ours.write(path, plain, "upsert")
    options = BASE.nbcc_options(filesystem_lock())
    judge.write(path, rows_of(range(2), 1000), options)
    judge.write(path, rows_of(range(1, 3), 2000), options)
    expected = pa.concat_tables([plain, rows_of(range(1), 1000), rows_of(range(1, 3), 2000)])

    def assert_sound() -> None:
        assert_same_rows(judge.read(path), expected, KEY)
        assert_same_rows(peer_ours.read(path), expected, KEY)
        assert peer_ours.hoodie("check", path)["findings"] == []

    assert_sound()
    plan = ours.schedule_compaction(path)
    assert plan is not None
    ours.execute_compaction(path, plan)
    assert_sound()
    assert_same_rows(peer_ours.read(path, "--read-optimized"), expected, KEY)
    with pytest.raises(peer_ours.CommandFailedError, match="control character"):
        ours.write(path, rows_of(range(1), 3000), "upsert")
    assert_sound()
