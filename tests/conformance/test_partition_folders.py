"""Partition folders of any name, as Apache Hudi makes them of the values it is given."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from support.peer import peer_ours
from support.peer.judge import Judge, Query
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


@pytest.mark.parametrize("has_metadata", [True, False], ids=["metadata table", "listed"])
@pytest.mark.parametrize("is_hive_style", [True, False], ids=["hive style", "values"])
def test_folders_with_the_metadata_folder_in_their_names_are_written_by_both(
    judge: Judge, tmp_path: Path, *, is_hive_style: bool, has_metadata: bool
) -> None:
    """Only a folder of that very name is the table's, or another table's."""
    path = tmp_path / "table"
    hive_style = {"hoodie.datasource.write.hive_style_partitioning": str(is_hive_style).lower()}
    kind = replace(BASE, extra=hive_style, metadata_table=has_metadata)
    folders = ["x.hoodie.y", ".hoodie_x", *([".hoodie"] if is_hive_style else [])]
    expected: dict[int, int] = {}

    def rows_of(numbers: range, ts: int) -> pa.Table:
        expected.update(dict.fromkeys(numbers, ts))
        return made_of(dict.fromkeys(numbers, ts))

    def made_of(times: dict[int, int]) -> pa.Table:
        rows = [row(n, ts=ts, part=part) for n, ts in times.items() for part in folders]
        return pa.Table.from_pylist(rows, SCHEMA)

    def assert_sound() -> None:
        assert_same_rows(peer_ours.read(path), made_of(expected), KEY)
        theirs = judge.read(path, Query(use_metadata_table=has_metadata))
        assert_same_rows(theirs, made_of(expected), KEY)
        assert peer_ours.hoodie("check", path)["findings"] == []

    options = kind.write_options()
    judge.write(path, rows_of(range(4), 1000), options)
    peer_ours.hoodie("adopt", path, "--index", "bucket", "--buckets", str(kind.buckets))
    ours = peer_ours.Hoodie(table=kind, concurrency="single-writer")
    assert_sound()
    ours.write(path, rows_of(range(2, 6), 2000), "upsert")
    judge.write(path, rows_of(range(1, 4), 3000), options)
    assert_sound()
    peer_ours.hoodie("compact", path)
    assert_same_rows(peer_ours.read(path, "--read-optimized"), made_of(expected), KEY)
    assert_sound()
    ours.write(path, rows_of(range(4, 5), 4000), "upsert")
    judge.write(path, rows_of(range(1), 5000), options)
    judge.compact(path, options)
    assert_sound()
    if not is_hive_style:
        with pytest.raises(peer_ours.CommandFailedError, match="folder of the table's metadata"):
            ours.write(
                path, pa.Table.from_pylist([row(1, ts=9000, part=".hoodie")], SCHEMA), "upsert"
            )
        assert_sound()
