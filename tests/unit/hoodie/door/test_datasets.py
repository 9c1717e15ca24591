"""Datasets: which columns and file slices each engine reads of a query."""

import re
import time
from collections.abc import Iterator
from pathlib import Path

import datafusion
import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import dataset

import hoodie
from hoodie import errors
from hoodie.door import datasets, scans

COLUMNS = {"id": pa.string(), "city": pa.string(), "n": pa.int64(), "f": pa.float64()}
CITIES = ["Oslo", "Rome", "Kyiv"]


class Watch:
    """What engines asked of datasets: columns, and the partitions of the slices that they got."""

    def __init__(self) -> None:
        self.asked: list[tuple[list[str], list[str], bool]] = []

    def __call__(self, found: scans.Scan, where: object) -> None:
        paths = [each.group.partition_path for each in found._plan.slices]
        self.asked.append((found.schema.names, paths, where is not None))

    @property
    def only(self) -> tuple[list[str], list[str], bool]:
        (found,) = self.asked
        return found


@pytest.fixture
def trips(tmp_path: Path) -> hoodie.Table:
    """Sixty rows in three partitions of two buckets; logs change ten, and delete one."""
    made = hoodie.create_table(
        tmp_path / "t", COLUMNS, "id", partition_by="city", buckets=2, foreign_writers=False
    )
    made.upsert([{"id": str(n), "city": CITIES[n % 3], "n": n, "f": n / 2} for n in range(60)])
    made.update({"f": -1.0}, "n >= 50")
    made.delete("n = 3")
    return made


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watch]:
    found = Watch()
    narrowed = scans.Scan.narrowed

    def watched(
        self: scans.Scan, columns: list[str] | None = None, where: object = None
    ) -> scans.Scan:
        made = narrowed(self, columns, where)
        found(made, where)
        return made

    monkeypatch.setattr(scans.Scan, "narrowed", watched)
    return found


ALL = ["Kyiv", "Kyiv", "Oslo", "Oslo", "Rome", "Rome"]


@pytest.mark.parametrize(
    ("query", "rows", "asked"),
    [
        ("select sum(f) from trips", [(601.0,)], (["f"], ALL, False)),
        # Of each partition the bucket of the key alone.
        (
            "select n from trips where id = '7'",
            [(7,)],
            (["n"], ["Kyiv", "Oslo", "Rome"], True),
        ),
        (
            "select id from trips where city = 'Oslo' and n < 9 order by n",
            [("0",), ("6",)],
            (["id", "n"], ["Oslo", "Oslo"], True),
        ),
        # The value is in a log file: the filter is applied to merged rows.
        (
            "select id from trips where city in ('Oslo', 'Rome') and f = -1 order by n limit 2",
            [("51",), ("52",)],
            (["id", "n"], ["Oslo", "Oslo", "Rome", "Rome"], True),
        ),
        ("select count(id) from trips where n between 2 and 5", [(3,)], (["id"], ALL, True)),
        # Floats are compared by DuckDB itself, whose NaN is the greatest.
        (
            "select count(id) from trips where f > 24.5 and n >= 50",
            [(0,)],
            (["id", "f"], ALL, True),
        ),
        ("select count(*) from trips where city like 'O%'", [(19,)], (["city"], ALL, False)),
    ],
)
def test_duckdb_reads_the_columns_and_slices_of_a_query(
    trips: hoodie.Table,
    watch: Watch,
    query: str,
    rows: list[tuple[object, ...]],
    asked: tuple[list[str], list[str], bool],
) -> None:
    connection = duckdb.connect()
    connection.register("trips", trips.dataset())
    assert connection.sql(query).fetchall() == rows
    assert watch.only == asked


def test_polars_reads_the_columns_and_slices_of_a_query(trips: hoodie.Table, watch: Watch) -> None:
    lazy = pl.scan_pyarrow_dataset(trips.dataset())
    found = lazy.filter((pl.col("city") == "Oslo") & (pl.col("f") == -1)).select("n", "f").collect()
    assert sorted(found["n"]) == [51, 54, 57]
    names, paths, has_filter = watch.only
    assert (sorted(names), paths, has_filter) == (["city", "f", "n"], ["Oslo", "Oslo"], True)


def test_datafusion_reads_file_slices_as_partitions(trips: hoodie.Table, watch: Watch) -> None:
    context = datafusion.SessionContext()
    context.register_dataset("trips", trips.dataset())
    query = "select n from trips where city = 'Oslo' and f = -1"
    plan = "".join(context.sql(f"explain {query}").to_pydict()["plan"])
    assert "number_of_fragments=2" in plan
    assert "projection=[n" in plan
    watch.asked.clear()
    assert sorted(context.sql(query).to_pydict()["n"]) == [51, 54, 57]
    assert {tuple(paths) for _, paths, _ in watch.asked} == {("Oslo", "Oslo")}
    assert context.sql("select count(*) as c, sum(f) as s from trips").to_pylist() == [
        {"c": 59, "s": 601.0}
    ]


def test_queries_of_one_dataset_see_one_snapshot(trips: hoodie.Table) -> None:
    connection = duckdb.connect()
    connection.register("whole", trips.dataset())
    trips.delete("n >= 0")
    trips.upsert([{"id": "new", "city": "Paris", "n": 1, "f": 1.0}])
    assert connection.sql("select count(*) from whole").fetchall() == [(59,)]
    assert connection.sql("select count(*) from whole where id = '7'").fetchall() == [(1,)]
    assert connection.sql("select count(*) from whole where city = 'Paris'").fetchall() == [(0,)]
    assert trips.dataset().count_rows() == 1


def test_earlier_moment_is_a_dataset(trips: hoodie.Table) -> None:
    first = trips.timeline().completed_writes[0].requested_time
    assert trips.dataset(as_of=first).count_rows() == 60
    assert trips.dataset(as_of=first).count_rows(filter=pc.field("f") == -1.0) == 0
    assert trips.dataset(read_optimized=True).count_rows() == 60


def test_scan_is_registered_with_its_filter(trips: hoodie.Table, watch: Watch) -> None:
    connection = duckdb.connect()
    assert trips.scan(["id", "n"], "n < 9").to_duckdb(connection, "few") is connection
    assert connection.sql("select count(*), max(n) from few where n > 4").fetchall() == [(4, 8)]
    assert watch.only[0] == ["n"]
    with pytest.raises(errors.InvalidInputError, match="a scan with limit 3 is not a dataset"):
        trips.scan(limit=3).to_duckdb(connection, "few")
    with pytest.raises(errors.InvalidInputError, match="takes a connection and a name, such as"):
        trips.scan().to_duckdb("few", connection)


def test_partitions_are_left_out_by_filters_that_are_not_understood(trips: hoodie.Table) -> None:
    """Lists of more members than Arrow prints, and functions."""
    many = pa.array(["Oslo", *map(str, range(40))])
    for where in (
        pc.field("city").isin(many),
        pc.starts_with(pc.field("city"), "O") & (pc.field("n") > 3),
    ):
        scan = trips.scan(["n"], where)
        assert [each.group.partition_path for each in scan._plan.slices] == ["Oslo", "Oslo"]
        full = trips.read(["n", "city"]).read_all().filter(where)
        assert sorted(scan.to_arrow()["n"].to_pylist()) == sorted(full["n"].to_pylist())
    assert trips.scan(["n"], pc.field("id").isin(many)).count() == 39


def test_dataset_does_what_arrows_do(trips: hoodie.Table) -> None:
    whole = trips.dataset()
    assert isinstance(whole, dataset.Dataset)
    assert whole.schema == pa.schema(COLUMNS)
    assert whole.head(2).num_rows == 2
    doubled = whole.to_table(columns={"x": pc.field("n") * 2}, filter=pc.field("n") > 57)
    assert sorted(doubled.to_pydict()["x"]) == [116, 118]
    assert whole.sort_by([("n", "descending")]).to_table()["n"][0].as_py() == 59
    assert whole.take([0, 1]).num_rows == 2
    other = dataset.dataset(pa.table({"n": [1, 2], "name": ["a", "b"]}))
    assert whole.join(other, "n", join_type="inner").count_rows() == 2
    assert sum(batch.num_rows for batch in whole.to_batches(columns=["n"])) == 59
    assert repr(whole).startswith("<HoodieDataset of <Scan of file:///")
    with pytest.raises(errors.UnsupportedError, match="cannot be replaced by n, as a union of dat"):
        whole.replace_schema(pa.schema([("n", pa.int8())]))


def test_what_arrow_cannot_do_with_a_dataset_ends_no_process(trips: hoodie.Table) -> None:
    whole = trips.dataset()
    other = dataset.dataset(pa.table({"n": [1, 2], "name": ["a", "b"]}))
    assert whole.join(whole, "n", join_type="inner", right_suffix="_2").count_rows() == 59
    times = trips.scan(["n", "city"]).dataset()
    near = whole.sort_by("n").join_asof(times.sort_by("n"), "n", "city", 0)
    assert near.count_rows() == 59
    with pytest.raises(pa.ArrowInvalid, match="out-of-order on-key values"):
        times.join_asof(times, "n", "city", 0)
    with pytest.raises(FileNotFoundError, match=r"give it to_table\(\) of it"):
        other.join(whole, "n")
    with pytest.raises(errors.UnsupportedError, match=r"take its to_table\(\)"):
        dataset.dataset([whole, other])
    with pytest.raises(FileNotFoundError, match="a dataset of hoodie"):
        dataset.Scanner.from_dataset(whole).to_table()


def test_dataset_is_written_by_arrow(trips: hoodie.Table, tmp_path: Path) -> None:
    """Arrow's own writer asks a dataset's C++, unless it gives a stream: the process died."""
    dataset.write_dataset(trips.dataset(), tmp_path / "copy", format="parquet")
    assert dataset.dataset(tmp_path / "copy").count_rows() == 59
    assert pl.DataFrame(trips.dataset()).height == 59


def test_fragment_is_a_file_slice(trips: hoodie.Table) -> None:
    fragments = list(trips.dataset().get_fragments(pc.field("city") == "Oslo"))
    assert len(fragments) == 2
    assert all(isinstance(each, dataset.Fragment) for each in fragments)
    assert sum(each.count_rows() for each in fragments) == 19
    assert sum(each.count_rows(pc.field("f") == -1) for each in fragments) == 3
    one = fragments[0]
    assert one.physical_schema == pa.schema(COLUMNS)
    assert one.head(1).num_rows == 1
    assert one.take([0]).num_rows == 1
    assert one.to_table(pa.schema([("n", pa.int64())])).column_names == ["n"]
    assert one.to_table(columns=["n"], filter=pc.field("n") < 0).num_rows == 0
    assert re.fullmatch(r"<HoodieFragment Oslo/0000000\d-.*>", repr(one))
    with pytest.raises(errors.NotFoundError, match="there is no column 'no'"):
        one.to_table(columns=["no"])
    with pytest.raises(errors.NotFoundError, match="there is no column 'no'"):
        trips.dataset().to_table(columns=["no"])
    with pytest.raises(errors.NotFoundError, match="there is no column 'no'"):
        trips.dataset().to_table(filter=pc.field("no") == 1)
    assert isinstance(one.rows, datasets.Slice)


class Counted:
    """Rows that tell how many batches were asked for."""

    schema = pa.schema([("id", pa.int64())])

    def __init__(self) -> None:
        self.asked = 0

    def narrowed(self, columns: object = None, where: object = None) -> "Counted":
        return self

    def to_batches(self) -> pa.RecordBatchReader:
        def batches() -> Iterator[pa.RecordBatch]:
            for number in range(100):
                self.asked += 1
                yield pa.record_batch({"id": pa.array([number], pa.int64())}, self.schema)

        return pa.RecordBatchReader.from_batches(self.schema, batches())

    def count(self) -> int:
        return 100

    def fragments(self) -> list[datasets.HoodieFragment]:
        return []


@pytest.mark.parametrize("columns", [None, {"twice": pc.field("id") * 2}])
def test_no_batch_is_asked_for_that_nobody_takes(columns: dict[str, pc.Expression] | None) -> None:
    # A thread of Arrow that still asked for some when the process ended would abort it.
    rows = Counted()
    reader = datasets.HoodieDataset(rows).scanner(columns).to_reader()
    assert reader.read_next_batch().num_rows == 1
    time.sleep(0.05)
    assert rows.asked == 1
    assert rows.asked + reader.read_all().num_rows == 100
