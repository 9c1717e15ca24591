"""What a read holds at once, whatever the table's size."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from hoodie.filegroup import parquet_reading
from hoodie.model import commits
from hoodie.read import streams
from support.tables.tables import CONFIG, SmallTable

MIB = 1 << 20
ROWS = 400_000
AHEAD_BYTES = 4 * MIB
PIECE_BYTES = MIB


def rows_of(numbers: np.ndarray, text: str) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(numbers).cast(pa.string()),
            "part": pa.array(["p"] * len(numbers)),
            "a": pa.array(numbers),
            "b": pa.array([f"{text} {number:0150}" for number in numbers.tolist()]),
        }
    )


@pytest.fixture
def large(tmp_path: Path) -> SmallTable:
    config = replace(CONFIG, bucket_count=8, has_partial_updates=False)
    made = SmallTable(tmp_path / "large", config)
    inserted = made.options(operation=commits.Operation.BULK_INSERT)
    made.table.write(rows_of(np.arange(ROWS), "old"), inserted)
    made.table.write(rows_of(np.arange(0, ROWS, 40), "new"), made.options())
    return made


def test_read_holds_some_row_groups_and_what_is_ahead_of_the_caller(
    large: SmallTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = large.table.read().read_all().sort_by("a")
    assert whole.nbytes > 64 * MIB
    monkeypatch.setattr(streams, "_AHEAD_BYTES", AHEAD_BYTES)
    monkeypatch.setattr(parquet_reading, "_PIECE_BYTES", PIECE_BYTES)
    before_bytes = pa.total_allocated_bytes()
    peak_bytes = 0
    keys = []
    for batch in large.table.read():
        keys.append(batch.column("a").to_numpy().copy())
        peak_bytes = max(peak_bytes, pa.total_allocated_bytes() - before_bytes)
    assert np.array_equal(np.sort(np.concatenate(keys)), np.arange(ROWS))
    # Of two slices that are read: their changes, and a piece, before and after it was merged.
    assert peak_bytes < AHEAD_BYTES + 20 * MIB
    assert large.table.read().read_all().sort_by("a").equals(whole)
