"""DuckDB with its extension for Iceberg, in a process of its own: another release than ours."""

import json
import subprocess
from pathlib import Path
from typing import Any

from support.peer import judge

PYTHON = judge.ROOT / ".peers" / "duckdb" / ".venv" / "bin" / "python"
_PROGRAM = """
import importlib.resources, json, sys
import duckdb
connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
connection.execute("set timezone = 'UTC'")
for name in ("avro", "iceberg"):
    files = importlib.resources.files(f"duckdb_extension_{name}") / "extensions"
    path = files / f"v{duckdb.__version__}" / f"{name}.duckdb_extension"
    connection.execute(f"load '{path}'")
for each in json.load(sys.stdin):
    found = connection.execute(each)
    names = [column[0] for column in found.description]
    rows = [dict(zip(names, row)) for row in found.fetchall()]
    print(json.dumps(rows, default=str))
"""


def query(*statements: str) -> list[list[dict[str, Any]]]:
    """Return the rows of each statement; what JSON has no type for is text."""
    done = subprocess.run(
        [PYTHON, "-c", _PROGRAM],
        input=json.dumps(statements),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def mirrored(folder: Path, what: str = "*", where: str = "true") -> list[dict[str, Any]]:
    """Return the rows of a mirror, sorted."""
    (found,) = query(f"select {what} from iceberg_scan('{folder}') where {where}")
    return sorted(found, key=repr)
