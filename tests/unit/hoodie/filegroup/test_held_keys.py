"""Which keys a file slice holds: in its base file, and in its log files."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from hoodie import table
from hoodie.filegroup import held_keys, key_footers, snapshots
from hoodie.model import files, settings, table_config
from hoodie.timeline import table_properties
from support.tables.tables import CONFIG, SmallTable

BLOOM = table_config.IndexKind.BLOOM
COPY_ON_WRITE = replace(
    CONFIG,
    table_type=table_config.TableType.COPY_ON_WRITE,
    bucket_count=None,
    index=BLOOM,
)
ALONE = {"concurrency": settings.ConcurrencyMode.SINGLE_WRITER}


def rows(*keys: str) -> list[dict[str, object]]:
    return [{"id": key, "part": "p", "a": 1, "b": "x"} for key in keys]


def source_of(small: SmallTable) -> tuple[held_keys.KeySource, list[files.FileSlice]]:
    storage = small.env.open_storage(str(small.path))
    config = table_properties.load(storage, small.env.clock)
    snapshot = snapshots.take(storage, config)
    source = held_keys.KeySource(
        storage, config, small.table.schema, snapshot.committed.is_committed
    )
    return source, snapshot.view.latest_slices("p")


def held(small: SmallTable, keys: Sequence[str]) -> list[set[str]]:
    source, slices = source_of(small)
    array = pa.array(keys, pa.string())
    return [
        {keys[place] for place in held_keys.held(source, each, array).tolist()} for each in slices
    ]


def looked_up(small: SmallTable) -> None:
    """Make a table of buckets, which has inserts in log files, one whose keys are looked up."""
    storage = small.env.open_storage(str(small.path))
    changes = {
        table_config.BUCKET_COUNT_KEY: None,
        table_config.HASH_FIELDS_KEY: None,
        table_config.INDEX_KEY: "SIMPLE",
    }
    table_properties.update(storage, changes, small.env.clock, lambda: None)
    small.table = table.open_table(str(small.path), small.env)


def test_keys_of_base_files_and_of_logs_are_held(tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "t", replace(CONFIG, bucket_count=1))
    small.upsert(rows("a", "b", "c"), **ALONE)
    small.upsert(rows("d"), **ALONE)
    small.delete(rows("b", "z"), **ALONE)
    assert held(small, ["a", "b", "d", "e", "z"]) == [{"a", "b", "d", "z"}]
    assert held(small, []) == [set()]
    source, (file_slice,) = source_of(small)
    lives = held_keys.live(source, file_slice, pa.array(["a", "b", "d", "z"]))
    assert lives.tolist() == [True, False, True, False]


def test_inserts_in_log_files_are_found_by_writers(tmp_path: Path) -> None:
    """As of writers with another index, before the table was adopted."""
    small = SmallTable(tmp_path / "t")
    small.upsert(rows(*"abcdefgh"))
    small.upsert(rows(*"ij"))
    assert all(each.base_file is None for each in source_of(small)[1])
    looked_up(small)
    small.upsert([{**row, "b": "new"} for row in rows(*"hijk")], **ALONE)
    small.delete(rows("a"), **ALONE)
    assert [(row["id"], row["b"]) for row in small.rows()] == [
        *((key, "x") for key in "bcdefg"),
        *((key, "new") for key in "hijk"),
    ]
    assert sum(each.base_file is not None for each in source_of(small)[1]) == 1


def test_row_groups_that_hold_none_of_the_keys_are_not_needed(tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "t", COPY_ON_WRITE)
    small.upsert(rows("m", "n"), **ALONE)
    assert held(small, ["a", "b"]) == [set()]
    assert held(small, ["x", "é", "\U0001f600"]) == [set()]
    assert held(small, ["a", "n", "z"]) == [{"n"}]


def test_base_file_is_left_out_by_its_filter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = SmallTable(tmp_path / "t", COPY_ON_WRITE)
    small.upsert(rows(*(f"{number:04}" for number in range(0, 1000, 2))), **ALONE)
    source, (file_slice,) = source_of(small)
    assert file_slice.base_file is not None
    footer = key_footers.read(source.storage, file_slice.base_file.path)
    assert footer is not None
    assert (footer.rows, footer.filter is not None) == (500, True)
    assert 0 < footer.data_bytes < file_slice.base_file.size_bytes
    assert held(small, ["0002"]) == [{"0002"}]
    monkeypatch.setattr(held_keys.reading, "base_rows", None)
    assert held(small, ["0001"]) == [set()]
    with pytest.raises(TypeError):
        held(small, ["0002"])
    with pytest.raises(TypeError):
        # Of many keys the column is read at once.
        held(small, [f"{number:04}" for number in range(1, 1000, 2)])
