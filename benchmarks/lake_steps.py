"""One step of one side of `lakes.py`, in a process of its own, which prints what it found as JSON.

    python benchmarks/lake_steps.py SIDE STEP FOLDER [ROWS]

A side is a format with its own library: `hoodie`, `delta` (delta-rs), `iceberg` (PyIceberg) or
`parquet`, the rows in plain files. Each is used as its documentation does it. Only what a step
needs is imported, since processes are measured as wholes; `seconds` are those of the step alone,
the table opened in them.
"""

import importlib
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

FILES = 16
"""Into which a table of each side is divided, as far as that can be said."""
KEY = "id"
_BATCH_ROWS = 1 << 17
# A filter that DuckDB pushes: of fractions, and of a truth value alone, it pushes none.
_SQL = (
    "select region, count(*) as orders, round(sum(amount), 2) as amount, max(ts) as ts"
    " from lake where quantity >= 19 and paid = true group by region order by region"
)
_COLUMNS = ("region", "amount", "ts", "quantity", "paid")

Rows = list[tuple[object, ...]]


class Side(Protocol):
    """A format, and the library that reads and writes it."""

    def load(self, rows: Path) -> int:
        """Make the table."""

    def upsert(self, rows: Path) -> int:
        """Update rows by their key, and insert new ones."""

    def compact(self) -> int:
        """Have reads merge nothing, if there is something."""

    def duckdb(self) -> Rows:
        """Scan with a filter and an aggregate."""

    def polars(self) -> Rows:
        """Scan with the same."""

    def count(self) -> int:
        """Count the rows."""

    def look_up(self, key: str) -> int:
        """Return the `ts` of a row."""


def _query(make: Callable[[Any], object]) -> Rows:
    """Query what is registered as `lake`: what `make` returns, if that has not done it."""
    connection = importlib.import_module("duckdb").connect()
    lake = make(connection)
    if lake is not None:
        connection.register("lake", lake)
    found: Rows = connection.sql(_SQL).fetchall()
    return found


def _aggregate(lazy: Any) -> Rows:  # noqa: ANN401 - a polars.LazyFrame
    pl = importlib.import_module("polars")
    found = (
        lazy.filter((pl.col("quantity") >= 19) & pl.col("paid"))
        .group_by("region")
        .agg(
            pl.len().alias("orders"),
            pl.col("amount").sum().round(2),
            pl.col("ts").max(),
        )
        .sort("region")
        .collect()
    )
    rows: Rows = found.rows()
    return rows


def _batches(rows: Path) -> pa.RecordBatchReader:
    def read() -> Iterator[pa.RecordBatch]:
        with pq.ParquetFile(rows) as file:
            yield from file.iter_batches(_BATCH_ROWS)

    with pq.ParquetFile(rows) as file:
        return pa.RecordBatchReader.from_batches(file.schema_arrow, read())


class Hoodie:
    """This project."""

    def __init__(self, folder: Path) -> None:
        self._uri = str(folder / "hoodie")
        self._hoodie = importlib.import_module("hoodie")

    def load(self, rows: Path) -> int:
        """Make the table; bucket index, merge-on-read, written by this project alone."""
        made = self._hoodie.create_table(
            self._uri,
            pq.read_schema(rows),
            record_key=KEY,
            buckets=FILES,
            foreign_writers=False,
        )
        found: int = made.insert(_batches(rows), bulk=True).rows
        return found

    def upsert(self, rows: Path) -> int:
        """Update and insert rows."""
        found: int = self._open().upsert(_batches(rows)).rows
        return found

    def compact(self) -> int:
        """Compact all file groups."""
        self._open().maintain.compact()
        return 0

    def duckdb(self) -> Rows:
        """Scan what a connection was given."""

        def make(connection: Any) -> None:  # noqa: ANN401 - a connection of DuckDB
            self._open().scan().to_duckdb(connection, "lake")

        return _query(make)

    def polars(self) -> Rows:
        """Scan a lazy frame."""
        return _aggregate(self._open().scan().to_polars(lazy=True))

    def count(self) -> int:
        """Count rows."""
        found: int = self._open().scan().count()
        return found

    def look_up(self, key: str) -> int:
        """Read a row."""
        return _only(self._open().scan(["ts"], where=[(KEY, "=", key)]).to_arrow())

    def _open(self) -> Any:  # noqa: ANN401 - a hoodie.Table, which is not imported above
        return self._hoodie.open_table(self._uri)


class Delta:
    """delta-rs."""

    def __init__(self, folder: Path) -> None:
        self._uri = str(folder / "delta")
        self._delta = importlib.import_module("deltalake")

    def load(self, rows: Path) -> int:
        """Append all rows."""
        self._delta.write_deltalake(self._uri, _batches(rows))
        return pq.read_metadata(rows).num_rows

    def upsert(self, rows: Path) -> int:
        """Merge by the key."""
        done = (
            self._open()
            .merge(
                _batches(rows),
                predicate=f"target.{KEY} = source.{KEY}",
                source_alias="source",
                target_alias="target",
            )
            .when_matched_update_all()
            .when_not_matched_insert_all()
            .execute()
        )
        return int(done["num_target_rows_inserted"] + done["num_target_rows_updated"])

    def compact(self) -> int:
        """Nothing: a merge has rewritten the files."""
        return 0

    def duckdb(self) -> Rows:
        """Scan by a dataset, since DuckDB's own extension is fetched from a server."""
        return _query(lambda _: self._open().to_pyarrow_dataset())

    def polars(self) -> Rows:
        """Scan by Polars' own reader."""
        return _aggregate(importlib.import_module("polars").scan_delta(self._uri))

    def count(self) -> int:
        """Count rows."""
        return int(self._open().count())

    def look_up(self, key: str) -> int:
        """Read a row by its own engine: Arrow compares no views of texts, which a merge leaves."""
        query = self._delta.QueryBuilder().register("lake", self._open())
        found = query.execute(f"select ts from lake where {KEY} = '{key}'")
        return _only(pa.table(found))

    def _open(self) -> Any:  # noqa: ANN401 - a deltalake.DeltaTable
        return self._delta.DeltaTable(self._uri)


class Iceberg:
    """PyIceberg, with a catalog in a file of SQLite."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "iceberg"
        self._folder.mkdir(exist_ok=True)
        catalogs = importlib.import_module("pyiceberg.catalog.sql")
        self._catalog = catalogs.SqlCatalog(
            "lake",
            uri=f"sqlite:///{self._folder}/catalog.db",
            warehouse=f"file://{self._folder}",
        )

    def load(self, rows: Path) -> int:
        """Append all rows, some at a time: it takes tables, not streams."""
        schema = pq.read_schema(rows)
        self._catalog.create_namespace("bench")
        made = self._catalog.create_table("bench.orders", schema=schema)
        count = 0
        with pq.ParquetFile(rows) as file, made.transaction() as transaction:
            wanted = max(1, file.metadata.num_rows // FILES)
            for batch in file.iter_batches(wanted):
                transaction.append(pa.Table.from_batches([batch]))
                count += batch.num_rows
        return count

    def upsert(self, rows: Path) -> int:
        """Upsert by the key."""
        done = self._open().upsert(pq.read_table(rows), join_cols=[KEY])
        return int(done.rows_updated + done.rows_inserted)

    def compact(self) -> int:
        """Nothing: an upsert has rewritten the files."""
        return 0

    def duckdb(self) -> Rows:
        """Scan with filter and columns, which DuckDB does not push here, then the query."""
        scan = self._open().scan(row_filter=_iceberg_filter(), selected_fields=_COLUMNS)
        return _query(lambda _: scan.to_arrow_batch_reader())

    def polars(self) -> Rows:
        """Scan by Polars' own reader."""
        return _aggregate(importlib.import_module("polars").scan_iceberg(self._open()))

    def count(self) -> int:
        """Count rows."""
        return int(self._open().scan().count())

    def look_up(self, key: str) -> int:
        """Read a row."""
        expressions = importlib.import_module("pyiceberg.expressions")
        wanted = expressions.EqualTo(KEY, key)
        return _only(self._open().scan(row_filter=wanted, selected_fields=("ts",)).to_arrow())

    def _open(self) -> Any:  # noqa: ANN401 - a pyiceberg.table.Table
        return self._catalog.load_table("bench.orders")


class Parquet:
    """Files of parquet, and nothing beside them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "parquet"

    def load(self, rows: Path) -> int:
        """Divide the rows into files."""
        self._folder.mkdir()
        with pq.ParquetFile(rows) as file:
            count = file.metadata.num_rows
            for number, batch in enumerate(file.iter_batches(-(-count // FILES))):
                path = self._folder / f"{number:02}.parquet"
                pq.write_table(pa.Table.from_batches([batch]), path, compression="snappy")
        return count

    def upsert(self, rows: Path) -> int:
        """Files have no upsert."""
        raise NotImplementedError

    def compact(self) -> int:
        """Nothing."""
        return 0

    def duckdb(self) -> Rows:
        """Scan by DuckDB's own reader."""

        def make(connection: Any) -> None:  # noqa: ANN401 - a duckdb.DuckDBPyConnection
            files = f"{self._folder}/*.parquet"
            connection.sql(f"create view lake as from read_parquet('{files}')")

        return _query(make)

    def polars(self) -> Rows:
        """Scan by Polars' own reader."""
        return _aggregate(importlib.import_module("polars").scan_parquet(self._folder))

    def count(self) -> int:
        """Count rows by the footers."""
        return int(ds.dataset(self._folder).count_rows())

    def look_up(self, key: str) -> int:
        """Read a row."""
        found = ds.dataset(self._folder).to_table(columns=["ts"], filter=ds.field(KEY) == key)
        return _only(found)


class Arrow(Parquet):
    """The same files, read as a dataset of Arrow, which is how engines read ours."""

    def duckdb(self) -> Rows:
        """Scan by the dataset."""
        return _query(lambda _: ds.dataset(self._folder))

    def polars(self) -> Rows:
        """Scan by the dataset."""
        pl = importlib.import_module("polars")
        return _aggregate(pl.scan_pyarrow_dataset(ds.dataset(self._folder)))


SIDES: Mapping[str, Callable[[Path], Side]] = {
    "hoodie": Hoodie,
    "delta": Delta,
    "iceberg": Iceberg,
    "parquet": Parquet,
    "arrow": Arrow,
}


def _iceberg_filter() -> object:
    expressions = importlib.import_module("pyiceberg.expressions")
    return expressions.And(
        expressions.GreaterThanOrEqual("quantity", 19), expressions.EqualTo("paid", True)
    )


def _only(found: pa.Table) -> int:
    (row,) = found["ts"].to_pylist()
    return int(row)


def _peak_kib() -> int:
    """Return the peak of resident memory; that of `getrusage` has the parent's in it."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])


def main(side: str, step: str, folder: Path, *given: str) -> None:
    """Take the step."""
    begun = time.perf_counter()
    subject = SIDES[side](folder)
    work = getattr(subject, step)
    arguments = [Path(each) if "/" in each else each for each in given]
    answer = work(*arguments)
    seconds = time.perf_counter() - begun
    found = {"seconds": seconds, "answer": answer, "peak_kib": _peak_kib()}
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), *sys.argv[4:])
