"""A filter as SQL of DuckDB keeps the rows that Arrow keeps, with bounds of parquet and without."""

import datetime
import decimal
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hoodie
from hoodie.door import duckdb_sql
from hoodie.model import predicates
from hoodie.model.predicates import Comparator, Compare, In, IsNull, Not
from hoodie.read import where as where_text
from support.tables.random_filters import filters_of

INF, NAN = float("inf"), float("nan")
SCHEMA = pa.schema(
    [
        ("yes", pa.bool_()),
        ("i", pa.int32()),
        ("long", pa.int64()),
        ("f", pa.float32()),
        ("d", pa.float64()),
        ("n", pa.decimal128(9, 2)),
        ("wide", pa.decimal128(38, 10)),
        ("s", pa.string()),
        ("raw", pa.binary()),
        ("day", pa.date32()),
        ("t", pa.timestamp("us")),
        ("at", pa.timestamp("us", "UTC")),
    ]
)
DAY = datetime.date(2026, 1, 3)
TIMES = [
    datetime.datetime(1, 1, 1),  # noqa: DTZ001 - as the column has it
    datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999),  # noqa: DTZ001
    datetime.datetime(2026, 1, 3, 9),  # noqa: DTZ001
]
LONGS = [-(1 << 63), -(1 << 31), 0, 1, 1 << 31, (1 << 63) - 1]
FLOATS = [-INF, -0.0, 0.0, 0.1, 1e-45, INF, NAN]
DECIMALS = [decimal.Decimal(each) for each in ("-2", "0", "1.5", "9999999.99")]
VALUES: dict[str, list[Any]] = {
    "yes": [True, False],
    "i": [-(1 << 31), 0, 1, (1 << 31) - 1],
    "long": LONGS,
    "f": FLOATS,
    "d": [*FLOATS, 5e-324],
    "n": DECIMALS,
    "wide": [*DECIMALS, decimal.Decimal("9" * 28 + "." + "9" * 10)],
    "s": ["", "a", "A", "'", "''", "\\", "%", "a\0", "\n", "ä", "\ue000", "\U0001f600"],
    "raw": [b"", b"a", b"'", b"\\x00", b"\0", b"\xff"],
    "day": [datetime.date(1, 1, 1), DAY, datetime.date(9999, 12, 31)],
    "t": TIMES,
    "at": [each.replace(tzinfo=datetime.UTC) for each in TIMES],
}
FRACTIONS = [0.5, decimal.Decimal("2.5"), decimal.Decimal("-0.001")]
LITERALS: dict[str, list[Any]] = {
    **VALUES,
    "i": [*LONGS, *FRACTIONS],
    "long": [*LONGS, *FRACTIONS],
    "f": [*FLOATS, *FRACTIONS, 1, 1e300],
    "n": [*DECIMALS, *FRACTIONS, 1, 1 << 40],
    "wide": [*VALUES["wide"], *FRACTIONS, decimal.Decimal("0.000000000001")],
}


def leaves(name: str) -> Iterator[predicates.Predicate]:
    """Yield filters of one condition on a column."""
    yield IsNull(name)
    yield In(name, ())
    yield In(name, tuple(LITERALS[name]))
    for literal in LITERALS[name]:
        yield In(name, (literal,))
        for comparator in Comparator:
            yield Compare(name, comparator, literal)


@pytest.fixture(scope="module")
def connections() -> Iterator[list[duckdb.DuckDBPyConnection]]:
    """Connections with settings that filters do not depend on."""
    found = []
    for setting in ("timezone = 'Asia/Tokyo'", "default_collation = 'nocase'"):
        found.append(duckdb.connect())
        found[-1].execute(f"set {setting}")
    yield found
    for connection in found:
        connection.close()


@pytest.mark.parametrize("name", SCHEMA.names)
def test_condition_keeps_the_rows_of_the_filter(
    tmp_path: Path, connections: list[duckdb.DuckDBPyConnection], name: str
) -> None:
    """Of each two values there is a row group, with their bounds."""
    values = [each for pair in itertools.product([*VALUES[name], None], repeat=2) for each in pair]
    fields = pa.schema([SCHEMA.field(name), ("key", pa.int64())])
    rows = pa.table([pa.array(values, SCHEMA.field(name).type), range(len(values))], schema=fields)
    path = tmp_path / "rows.parquet"
    pq.write_table(rows, path, row_group_size=2)
    columns = ", ".join(map(duckdb_sql.column, fields))
    count = 0
    for leaf in leaves(name):
        for where in (leaf, Not(leaf)):
            condition = duckdb_sql.condition(where, fields)
            if condition is None:
                continue
            count += 1
            expected = rows.filter(predicates.to_expression(where, fields)).column("key")
            for connection in connections:
                found = connection.from_parquet([str(path)]).project(columns).filter(condition)
                keys = sorted(key for (key,) in found.project("key").fetchall())
                assert keys == expected.to_pylist(), condition
    assert count > 8 * len(VALUES[name])


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> hoodie.Table:
    """Slices of files alone, and one with a log."""
    columns = pa.schema([("id", pa.string()), *SCHEMA])
    path = tmp_path_factory.mktemp("duckdb") / "t"
    made = hoodie.create_table(path, columns, "id", buckets=3, foreign_writers=False)
    rows = [
        {"id": str(n), **{name: [*of, None][n * 7 % (len(of) + 1)] for name, of in VALUES.items()}}
        for n in range(90)
    ]
    made.insert(pa.Table.from_pylist(rows, columns), bulk=True)
    made.upsert(pa.Table.from_pylist(rows[:1], columns))
    return made


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(where=filters_of({name: st.sampled_from(each) for name, each in LITERALS.items()}))
def test_scan_with_a_filter_has_its_rows_for_duckdb(
    table: hoodie.Table, where: predicates.Predicate
) -> None:
    scan = table.scan(["id", "f"], where)
    expected = scan.to_arrow().column("id").to_pylist()
    with duckdb.connect() as connection:
        scan.to_duckdb(connection, "found")
        for sql in ("select id from found", "select id from found where f = f or f is null"):
            found = connection.sql(sql).fetchall()
            assert sorted(key for (key,) in found) == sorted(expected)


@pytest.mark.parametrize(
    "text",
    [
        f"i in ({', '.join(map(str, range(1001)))})",
        "d in (0.0, 1.0)",
        "yes < true",
        "lower(s) = 'a'",
        "s = 'a' and not (i = 1 or lower(s) = 'a')",
    ],
)
def test_filter_that_means_something_else_there_is_none_of_its(text: str) -> None:
    assert duckdb_sql.condition(where_text.parse(text), SCHEMA) is None


def test_condition_is_pushed_into_the_files(table: hoodie.Table) -> None:
    with duckdb.connect() as connection:
        table.scan(["id"], "long > 5 and s = 'a' and n < 2 and day = '2026-01-02'").to_duckdb(
            connection, "found"
        )
        ((_, plan),) = connection.sql("explain select count(*) from found").fetchall()
    assert "PARQUET_SCAN" in plan
    for part in ("long > 5", "s = 'a'", "n < 2.00"):
        assert part in plan, plan
