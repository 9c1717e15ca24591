"""Mirrors in Iceberg of tables that Apache Hudi made, as DuckDB and PyIceberg read them."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import hoodie
from support.peer import duckdb
from support.peer.judge import Judge
from support.peer.peer_cases import RECIPES, PeerCase
from support.peer.peer_rows import assert_same_rows
from support.tables import mirrors

GetCase = Callable[[str], PeerCase]


@pytest.mark.sample(3)
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
        assert mirrors.rows(path) == mirrors.optimized(table)
        (found,) = duckdb.query(f"select count(*) as n from iceberg_scan('{path}')")
        assert found == [{"n": len(mirrors.rows(path))}]
        for row in duckdb.mirrored(path)[:1]:
            assert set(row) == set(table.schema.arrow.names)
        if not done.unmirrored.groups:
            assert_same_rows(mirrors.opened(path).scan().to_arrow(), stage.expected, case.key)
    assert_same_rows(judge.read(path), case.stages[-1].expected, case.key)
