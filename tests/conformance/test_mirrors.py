"""Mirrors in Iceberg of tables that Apache Hudi made, as DuckDB and PyIceberg read them."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import hoodie
from support.peer import duckdb
from support.peer.judge import Judge
from support.peer.peer_cases import RECIPES, PeerCase
from support.peer.peer_rows import assert_same_rows
from support.tables import mirrors

PAGE = Path(__file__).parents[2] / "docs" / "mirror.md"
SQL = re.compile(r"^```sql\n(.*?)^```", re.MULTILINE | re.DOTALL)
GetCase = Callable[[str], PeerCase]


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", RECIPES)
def test_engines_read_the_mirror_and_apache_hudi_the_table_as_before(
    name: str, judge: Judge, peer_case: GetCase, tmp_path: Path
) -> None:
    case = peer_case(name)
    path = tmp_path / "t"
    for stage in case.stages:
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(stage.path, path)
        table = hoodie.open_table(path)
        done = table.maintain.mirror().detail
        expected = table.scan(read_optimized=True).to_arrow()
        found = mirrors.opened(path).scan().to_arrow()
        assert _comparable(found, expected.schema) == _comparable(expected, expected.schema)
        # Of lists in the older layout of parquet, Apache Hudi's, DuckDB 1.5 finds no elements.
        plain = pa.schema([each for each in expected.schema if not pa.types.is_list(each.type)])
        found = duckdb.mirrored(path, tmp_path)
        assert _comparable(found, plain) == _comparable(expected, plain)
        if not done.unmirrored.groups:
            assert_same_rows(expected, stage.expected, case.key)
    assert_same_rows(judge.read(path), case.stages[-1].expected, case.key)


def _comparable(found: pa.Table, schema: pa.Schema) -> list[dict[str, object]]:
    """Return rows in one order and with the same types.

    A float that became a double is 0.1 for readers of Hudi, and what the float was for Iceberg.
    """
    floats = [
        each.with_type(pa.float32()) if pa.types.is_float64(each.type) else each for each in schema
    ]
    return mirrors.in_order(found.select(schema.names).cast(pa.schema(floats)))


def test_the_query_of_the_page_by_duckdb(tmp_path: Path) -> None:
    table = hoodie.create_table(
        tmp_path / "t",
        {"id": pa.string(), "city": pa.string(), "fare": pa.float64()},
        record_key="id",
        partition_by="city",
        table_type="cow",
    )
    table.upsert([{"id": str(n), "city": ["Oslo", "Rome"][n % 2], "fare": n} for n in range(4)])
    table.maintain.mirror()
    (statement,) = SQL.findall(PAGE.read_text())
    found = duckdb.query(statement.replace("/tmp/lake/trips", str(tmp_path / "t")), tmp_path)
    assert found.to_pydict() == {"city": ["Oslo", "Rome"], "fare": [2.0, 4.0]}
