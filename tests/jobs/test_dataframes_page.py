"""A Spark user's session, typed as docs/spark-dataframes.md shows it."""

import ast
import re
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import hoodie

PAGE = Path(__file__).parents[2] / "docs" / "spark-dataframes.md"


def run(text: str, scope: dict[str, Any]) -> object:
    """Run a block; return the value of its last line, of a frame the rows."""
    *statements, last = ast.parse(text).body
    exec(compile(ast.Module(statements, []), str(PAGE), "exec"), scope)
    assert isinstance(last, ast.Expr)
    found = eval(compile(ast.Expression(last.value), str(PAGE), "eval"), scope)
    return sorted(map(tuple, found.collect())) if isinstance(found, DataFrame) else found


def test_page(spark: SparkSession, tmp_path: Path) -> None:
    text = PAGE.read_text().replace("/tmp/", f"{tmp_path}/")
    first, changes, distributed, stream = re.findall(
        r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL
    )
    scope: dict[str, Any] = {"spark": spark}
    assert run(first, scope) == [
        ("334e26e9", 19.1, "san_francisco"),
        ("9909a8b1", 33.9, "sao_paulo"),
        ("e3cf430c", 34.15, "sao_paulo"),
        ("e96c4396", 27.7, "san_francisco"),
    ]
    left = [("334e26e9", 19.1), ("9909a8b1", 339.0), ("e96c4396", 27.7)]
    assert run(changes, scope) == left
    rides_written = run(distributed, scope)
    rides = hoodie.open_table(str(tmp_path / "rides"))
    (instant,) = rides.inspect.timeline()["requested"].to_pylist()
    assert rides_written == (4, 2, instant)
    assert rides.scan().count() == 4
    assert run(stream, scope) == left
