"""Slices that DuckDB and Polars read by themselves: which they are, and that rows are the same."""

import gc
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie import errors
from hoodie.door import plain_files, scans
from support.tables.every_type import ROWS, SCHEMA

OTHER_KINDS = ("coarse_at",)
"""Columns of types that not every engine takes alike from parquet and from Arrow."""
NAMES = [name for name in SCHEMA.names if name not in OTHER_KINDS]
COLUMNS = pa.schema([("id", pa.string()), ("city", pa.string()), ("f", pa.float64())])


def created(
    path: Path,
    columns: pa.Schema = COLUMNS,
    **options: Any,  # noqa: ANN401 - as of `create_table`
) -> hoodie.Table:
    return hoodie.create_table(
        path, columns, "id", **({"foreign_writers": False, "buckets": 2} | options)
    )


def rows(first: int, last: int, f: float = 0.5) -> list[dict[str, object]]:
    cities = ("Oslo", "Rome")
    return [{"id": f"{n}", "city": cities[n % 2], "f": f} for n in range(first, last)]


@pytest.fixture
def trips(tmp_path: Path) -> hoodie.Table:
    """Two partitions of two slices each; a log file changes one."""
    made = created(tmp_path / "t", partition_by="city", hive_style=True)
    made.insert([*rows(0, 40), {"id": "nan", "city": "Rome", "f": float("nan")}], bulk=True)
    made.upsert([{"id": "1", "city": "Rome", "f": -1.0}])
    return made


def by_duckdb(scan: scans.Scan, sql: str) -> list[tuple[object, ...]]:
    connection = duckdb.connect()
    scan.to_duckdb(connection, "found")
    gc.collect()  # What the name stands for outlives the call.
    return connection.sql(sql).fetchall()


def plain(scan: scans.Scan) -> int:
    """Return how many files both engines read by themselves, having compared what they read."""
    connection = duckdb.connect()
    connection.register("found", scan.dataset())
    for sql in (
        "select * from found order by id",
        "describe from found",
        "select count(*) from found",
        "select count(id) from found where id = '1'",
    ):
        assert repr(by_duckdb(scan, sql)) == repr(connection.sql(sql).fetchall())
    lazy, whole = scan.to_polars(lazy=True), scan.to_polars()
    assert isinstance(lazy, pl.LazyFrame)
    assert lazy.collect_schema() == whole.schema
    assert lazy.sort("id").collect().equals(whole.sort("id"))
    assert lazy.filter(pl.col("id") == whole["id"][0]).select("id").collect().height == 1
    return len(scan._divided()[0])


def test_slices_that_nothing_has_changed_are_files(trips: hoodie.Table) -> None:
    """Paths of hive style give no columns."""
    assert plain(trips.scan()) == 3
    assert plain(trips.scan(["f", "id"])) == 3
    assert plain(trips.scan(["_hoodie_record_key", "id"])) == 3
    assert plain(trips.scan(read_optimized=True)) == 4
    assert plain(trips.scan(as_of=trips.timeline().completed_writes[0].requested_time)) == 4
    assert plain(trips.scan(["id"], "f > 0 and city = 'Oslo'")) == 2
    trips.maintain.compact()
    assert plain(trips.scan()) == 4


def test_name_is_given_to_other_rows_and_taken_away(trips: hoodie.Table) -> None:
    connection = duckdb.connect()
    for scan, count in (
        (trips.scan(), 41),
        (trips.scan(["id"], "id = '1'"), 1),
        (trips.scan(), 41),
    ):
        assert scan.to_duckdb(connection, 'a "b"') is connection
        assert connection.sql('select count(*) from "a ""b"""').fetchall() == [(count,)]
    connection.unregister('a "b"')
    with pytest.raises(duckdb.CatalogException):
        connection.sql('from "a ""b"""')


def test_connection_that_opens_no_files_gets_a_dataset(trips: hoodie.Table) -> None:
    connection = duckdb.connect(config={"enable_external_access": "false"})
    trips.scan().to_duckdb(connection, "found")
    assert connection.sql("select count(*) from found").fetchall() == [(41,)]


def test_snapshot_stays_what_it_was(trips: hoodie.Table) -> None:
    connection = duckdb.connect()
    trips.scan().to_duckdb(connection, "found")
    lazy = trips.scan().to_polars(lazy=True)
    trips.delete("f >= 0")
    assert connection.sql("select count(*) from found").fetchall() == [(41,)]
    assert lazy.select(pl.len()).collect().item() == 41


def test_types_that_engines_take_alike(tmp_path: Path) -> None:
    made = created(tmp_path / "t", SCHEMA, table_type="cow", buckets=1)
    made.insert(pa.Table.from_pylist(ROWS, SCHEMA))
    assert len(made.scan()._divided()[0]) == 0
    assert len(made.scan(NAMES)._divided()[0]) == 1
    connection = duckdb.connect()
    connection.execute("set timezone = 'UTC'")
    for number, names in enumerate((SCHEMA.names, NAMES)):
        scan = made.scan(names)
        scan.to_duckdb(connection, f"by_file_{number}")
        connection.register(f"by_arrow_{number}", scan.dataset())
        for sql in ("select * from by_{} order by id", "describe from by_{}"):
            found = [
                connection.sql(sql.format(f"{how}_{number}")).fetchall()
                for how in ("file", "arrow")
            ]
            assert found[0] == found[1]
        lazy = scan.to_polars(lazy=True)
        assert lazy.collect_schema() == scan.to_polars().schema
        assert lazy.collect().sort("id").equals(scan.to_polars().sort("id"))


def test_columns_that_files_lack_or_have_in_another_type(tmp_path: Path) -> None:
    """A file of before a column was added, or widened, is read here."""
    made = created(
        tmp_path / "t",
        pa.schema([("id", pa.string()), ("n", pa.int32())]),
        table_type="cow",
        settings={"hoodie.datasource.write.reconcile.schema": "true"},
    )
    made.insert([{"id": f"{n}", "n": n} for n in range(20)])
    assert plain(made.scan()) == 2
    made.upsert(pa.table({"id": ["1"], "n": [1 << 40], "more": ["x"]}))
    assert plain(made.scan(["id"])) == 2
    assert plain(made.scan(["id", "n"])) == 1
    assert plain(made.scan()) == 1


def test_values_of_paths_are_not_in_files(tmp_path: Path) -> None:
    made = created(
        tmp_path / "t",
        partition_by="city",
        table_type="cow",
        drop_partition_columns=True,
    )
    made.insert(rows(0, 20))
    assert plain(made.scan()) == 0


@pytest.mark.parametrize("city", ["a*", "a[b]c", "a?", "{a,b}", "a\\b"])
def test_path_that_may_be_a_pattern_is_read_here(tmp_path: Path, city: str) -> None:
    made = created(tmp_path / "t", partition_by="city", table_type="cow")
    made.insert([{"id": "1", "city": city, "f": 1.0}, {"id": "2", "city": "100%", "f": 1.0}])
    assert plain(made.scan()) == 1


def test_of_many_files_none_is_looked_at(
    trips: hoodie.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plain_files, "_FILES_MAX", 3)
    assert plain(trips.scan()) == 0


def test_table_without_rows(tmp_path: Path) -> None:
    assert created(tmp_path / "t").scan().to_polars(lazy=True).collect().height == 0


def test_limit_is_refused(trips: hoodie.Table) -> None:
    with pytest.raises(errors.InvalidInputError, match="a scan with limit 3 is not a dataset"):
        trips.scan(limit=3).to_polars(lazy=True)


def test_file_of_another_type_is_read_here(trips: hoodie.Table) -> None:
    (path, *_), _ = trips.scan()._divided()
    kept = pq.read_table(path)
    position = kept.schema.get_field_index("f")
    other = kept.set_column(position, "f", kept.column("f").cast(pa.float32()))
    pq.write_table(other, path)
    assert len(trips.scan()._divided()[0]) == 2


NAN_SQL = ("f > 1000", "f = 'nan'", "f >= 'nan'", "f <> 'nan'", "f < 'nan'", "isnan(f)", "f < 7")
NAN = float("nan")
NAN_POLARS = tuple(
    compared(pl.col("f"))
    for compared in (
        lambda f: f > 1000,
        lambda f: f == NAN,
        lambda f: f >= NAN,
        lambda f: f != NAN,
        lambda f: f < NAN,
        lambda f: f.is_nan(),
        lambda f: f < 7,
    )
)


@pytest.mark.sample(4)  # Of each parameter both values.
@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
@pytest.mark.parametrize("greatest", [float("inf"), 9.0])
@pytest.mark.parametrize("changed", [0, 3])
def test_nan_is_greater_than_all_numbers_for_both_engines(
    tmp_path: Path, kind: pa.DataType, changed: int, greatest: float
) -> None:
    """Statistics of parquet leave it out, and Arrow says that it is not equal to itself."""
    made = created(tmp_path / "t", pa.schema([("id", pa.string()), ("f", kind)]), buckets=3)
    given = [NAN, 0.0, -0.0, 5.5, greatest, float("-inf"), None]
    made.insert([{"id": f"{n}", "f": given[n % 7]} for n in range(70)], bulk=True)
    made.upsert([{"id": f"{n}", "f": given[n % 5]} for n in range(changed)])
    whole, lazy = made.scan().to_polars(), made.scan().to_polars(lazy=True)
    assert lazy.collect_schema() == whole.schema
    for condition in NAN_POLARS:
        assert lazy.filter(condition).collect().height == whole.filter(condition).height
    rows = made.scan().to_arrow()
    connection = duckdb.connect()
    connection.register("whole", rows)
    assert by_duckdb(made.scan(), "describe from found") == by_duckdb(
        made.scan(where="id <> ''"), "describe from found"
    )
    for sql in NAN_SQL:
        expected = connection.sql(f"select count(*) from whole where {sql}").fetchall()
        assert by_duckdb(made.scan(), f"select count(*) from found where {sql}") == expected, sql
    every = "select id, f from found order by id"
    expected = connection.sql(every.replace("found", "whole")).fetchall()
    assert repr(by_duckdb(made.scan(), every)) == repr(expected)  # With the sign of zeros.


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
@pytest.mark.parametrize("value", [0.0, 0.1, float("inf")])
def test_nan_is_found_beside_one_value(tmp_path: Path, kind: pa.DataType, value: float) -> None:
    """Whose bounds in parquet are the same, as if all rows had it."""
    made = created(tmp_path / "t", pa.schema([("id", pa.string()), ("f", kind)]), buckets=1)
    made.insert([{"id": f"{n}", "f": [NAN, value][n % 2]} for n in range(10)], bulk=True)
    whole, lazy = made.scan().to_polars(), made.scan().to_polars(lazy=True)
    for condition in (*NAN_POLARS, pl.col("f") != value, pl.col("f") > value, pl.col("f").is_nan()):
        assert lazy.filter(condition).collect().height == whole.filter(condition).height
    connection = duckdb.connect()
    connection.register("whole", made.scan().to_arrow())
    for sql in (*NAN_SQL, f"f <> '{value!r}'::{kind}", f"not (f in ('{value!r}'::{kind}))"):
        expected = connection.sql(f"select count(*) from whole where {sql}").fetchall()
        assert by_duckdb(made.scan(), f"select count(*) from found where {sql}") == expected, sql
