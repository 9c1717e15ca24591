"""Names of data files of one write."""

from pathlib import Path

import pytest

from hoodie.model import commits, results
from support.tables.tables import SmallTable

ROWS = [{"id": str(n), "part": f"p{n % 3}", "a": n, "b": "x"} for n in range(12)]


@pytest.mark.parametrize("operation", [commits.Operation.UPSERT, commits.Operation.BULK_INSERT])
def test_files_of_a_write_have_different_names_in_all_partitions(
    operation: commits.Operation, tmp_path: Path
) -> None:
    """Apache Hudi finds the column statistics of a file by its name alone."""
    small = SmallTable(tmp_path / "t")
    written = small.table.write(small.data(ROWS), small.options(operation=operation))
    assert isinstance(written, results.CommitResult)
    names = [stat.path.rpartition("/")[2] for stat in written.stats]
    assert len({stat.path.partition("/")[0] for stat in written.stats}) == 3
    assert len(set(names)) == len(names)
