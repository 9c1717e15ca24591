"""Rows in scratch files."""

import resource
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from hoodie import errors
from hoodie.storage import scratch


def numbered(first: int, end: int) -> pa.Table:
    return pa.table({"n": np.arange(first, end), "text": [str(n) for n in range(first, end)]})


@pytest.fixture
def _small_files() -> Iterator[None]:
    """Let no file of this process grow, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("buffer_bytes", [1, 1000, 1 << 20])
def test_rows_of_a_part_are_read_in_the_order_in_which_they_were_added(
    tmp_path: Path, buffer_bytes: int
) -> None:
    with scratch.Parts(str(tmp_path), 3, buffer_bytes) as parts:
        for first in range(0, 1000, 100):
            rows = numbered(first, first + 100)
            parts.add(rows, np.arange(first, first + 100) % 2)
        parts.flush()
        odd = pa.concat_tables(parts.tables(1))
        assert odd.column("n").to_pylist() == list(range(1, 1000, 2))
        assert odd.column("text").to_pylist() == [str(n) for n in range(1, 1000, 2)]
        assert parts.size_bytes(1) == pytest.approx(odd.nbytes, rel=0.2)
        assert list(parts.tables(2)) == []


def test_scratch_files_have_no_names(tmp_path: Path) -> None:
    with scratch.Parts(str(tmp_path), 1, 1) as parts:
        parts.add(numbered(0, 10), np.zeros(10, np.int64))
        assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("_small_files")
def test_full_disk_is_an_error_with_the_folder_and_its_setting(tmp_path: Path) -> None:
    rows = numbered(0, 100_000)
    with (
        scratch.Parts(str(tmp_path), 1, 1) as parts,
        pytest.raises(errors.StorageError, match="cannot write to the scratch folder") as raised,
    ):
        parts.add(rows, np.zeros(rows.num_rows, np.int64))
    assert str(tmp_path) in str(raised.value)
    assert "hoodie.memory.spillable.map.path" in str(raised.value)


def test_missing_folder_is_an_error_with_its_setting(tmp_path: Path) -> None:
    with pytest.raises(errors.StorageError, match="absent: No such file") as raised:
        scratch.Parts(str(tmp_path / "absent"), 1, 1)
    assert "hoodie.memory.spillable.map.path" in str(raised.value)
