"""DuckDB with its extension for Iceberg, in a process of its own: another release than ours."""

import subprocess
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet as pq

from support.peer import judge

PYTHON = judge.ROOT / ".peers" / "duckdb" / ".venv" / "bin" / "python"
_PROGRAM = """
import importlib.resources, sys
import duckdb
connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
connection.execute("set timezone = 'UTC'")
for name in ("avro", "iceberg"):
    files = importlib.resources.files(f"duckdb_extension_{name}") / "extensions"
    path = files / f"v{duckdb.__version__}" / f"{name}.duckdb_extension"
    connection.execute(f"load '{path}'")
connection.execute(f"copy ({sys.argv[1]}) to '{sys.argv[2]}' (format parquet)")
"""


def query(statement: str, scratch: Path) -> pa.Table:
    """Return the rows of a query, by way of a file in a folder."""
    result = scratch / "duckdb.parquet"
    done = subprocess.run(
        [PYTHON, "-c", _PROGRAM, statement, result],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return pq.read_table(result)


def mirrored(folder: Path, scratch: Path) -> pa.Table:
    """Return the rows of a mirror."""
    return query(f"select * from iceberg_scan('{folder}')", scratch)
