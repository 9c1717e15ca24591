"""A pipeline's session, typed as docs/spark-readers.md shows it."""

import ast
import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from hoodie.contract import job_specs
from hoodie.model import settings
from support.tables.job_workshop import Workshop

PAGE = Path(__file__).parents[2] / "docs" / "spark-readers.md"


def blocks(language: str) -> list[str]:
    pattern = rf"^```{language}\n(.*?)^```"
    return re.findall(pattern, PAGE.read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture
def page(workshop: Workshop) -> Workshop:
    """A table where the page has one; its columns have other names."""
    workshop.write(workshop.file("1", "a,eu,1,x\nb,eu,2,y\nc,us,3,\n"))
    return workshop


def typed(text: str, page: Workshop) -> str:
    newest = page.table().timeline().completed_writes[-1].completion_time
    replaced = {
        "file:///tmp/trips": page.uri,
        "/tmp/checkpoint": str(page.folder / "checkpoint"),
        "2026-11-28 09:00": str(newest),
        '"fare"': '"amount"',
        "$.fare": "$.amount",
        "/tmp/changes": str(page.folder / "changes"),
    }
    for old, new in replaced.items():
        text = text.replace(old, new)
    return text


def run(text: str, scope: dict[str, Any]) -> list[tuple[object, ...]]:
    """Run a block; return the rows of its last line, if that is a frame."""
    *statements, last = ast.parse(text).body
    exec(compile(ast.Module(statements, []), str(PAGE), "exec"), scope)
    if not isinstance(last, ast.Expr):
        exec(compile(ast.Module([last], []), str(PAGE), "exec"), scope)
        return []
    found = eval(compile(ast.Expression(last.value), str(PAGE), "eval"), scope)
    return rows(found) if isinstance(found, DataFrame) else []


def rows(frame: DataFrame) -> list[tuple[object, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def test_python(spark: SparkSession, page: Workshop) -> None:
    scope: dict[str, Any] = {"spark": spark}
    register, then, first, since, options, change_data, stream = blocks("python")
    run(register, scope)
    assert len(run(typed(then, page), scope)) == 3
    everything = run(typed(first, page), scope)
    assert [row[:2] for row in everything] == [("upsert", each) for each in "abc"]
    page.write(page.file("2", "a,eu,5,x\n"), attempt=2)
    page.mode = settings.ConcurrencyMode.OPTIMISTIC
    page.run(page.spec(job_specs.DeleteRows(where="id = 'b'")))
    changed = [("delete", "b", "eu", None, None), ("upsert", "a", "eu", 5, "x")]
    assert run(typed(since, page), scope) == changed
    assert run(typed(options, page), scope) == changed
    assert [row[0] for row in run(typed(change_data, page), scope)] == ["d", "u"]
    assert run(typed(stream, page), scope) == [
        ("upsert", "a", "eu", 5, "x"),
        ("upsert", "c", "us", 3, None),
    ]


def test_sql(spark: SparkSession, page: Workshop) -> None:
    run(blocks("python")[0], {"spark": spark})
    (text,) = blocks("sql")
    text = typed(text, page)
    page.write(page.file("2", "a,eu,5,x\n"), attempt=2)
    found = [rows(spark.sql(each)) for each in text.split(";") if each.strip()]
    assert found == [
        [],
        [],
        [("upsert", 1)],
        [],
        [("i", "1"), ("i", "2"), ("i", "3"), ("u", "5")],
    ]
    assert rows(spark.sql("SELECT sum(amount) FROM then")) == [(6,)]
