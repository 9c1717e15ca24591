"""What both sides of a benchmark are given: the same rows, and the same table to put them in.

A `Workload` is one line of the result: a table (keys, partitions, codec, log blocks) and the sizes
of its steps. `generate` writes its rows as parquet files, from a fixed seed, so that two runs on
two machines work on the same content; what is there already is used again.

The rows are orders: ten columns of mixed types. `id`, `region` and `customer` follow from the
order's number, so any subset of them can be key or partition and an update always meets its row.

Sketch for the default sizes (1,000,000 rows, five upserts of 100,000): 70 MB of input in snappy
parquet, 0.3 GB of Arrow while it is made, 2 s.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

SEED = 20130101
LATE_SHARE = 0.05
NEW_SHARE = 0.1
_PARQUET = {"compression": "snappy", "store_schema": False}
FORMAT = 1
"""Raise it when the generated content changes: files of another format are made anew."""

REGIONS = ("amer", "apac", "cis", "dach", "emea", "iberia", "india", "nordics")
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("region", pa.string()),
        ("customer", pa.string()),
        ("ts", pa.int64()),
        ("amount", pa.float64()),
        ("quantity", pa.int32()),
        ("paid", pa.bool_()),
        ("updated_at", pa.timestamp("us", tz="UTC")),
        ("note", pa.string()),
        ("score", pa.float64()),
    ]
)
AGGREGATED = ("region", "amount", "ts", "quantity", "score")
AGGREGATE = (
    "SELECT region, count(*) AS orders, sum(amount) AS amount, max(ts) AS ts,"
    " cast(sum(quantity) AS bigint) AS quantity, avg(score) AS score"
    " FROM scanned GROUP BY region ORDER BY region"
)
"""Touches 5 of the columns, and needs every row merged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How many rows each step has, and how many columns each row has beside those of `SCHEMA`."""

    rows: int = 1_000_000
    upserts: int = 5
    upsert_rows: int = 100_000
    delete_rows: int = 100_000
    more_columns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One table and what is done with it. Merge-on-read, simple bucket index, event time."""

    name: str
    sizes: Sizes = Sizes()
    record_key: tuple[str, ...] = ("id",)
    partition_by: tuple[str, ...] = ()
    ordering: str = "ts"
    buckets: int = 16
    codec: str = "snappy"
    parquet_logs: bool = True
    deletes: bool = False
    non_blocking: bool = False
    all_sinks: bool = False
    """Whether full scans go to each sink in turn, or to one."""
    is_large: bool = False
    """Whether it takes too long to be among the usual ones."""


PLAIN = Workload(name="plain")
WORKLOADS: Mapping[str, Workload] = {
    workload.name: workload
    for workload in (
        replace(PLAIN, all_sinks=True),
        # Apache Hudi's defaults.
        replace(PLAIN, name="gzip", codec="gzip", parquet_logs=False, all_sinks=True),
        replace(PLAIN, name="deletes", deletes=True),
        replace(PLAIN, name="composite", record_key=("id", "customer")),
        replace(PLAIN, name="avro", parquet_logs=False),
        replace(PLAIN, name="partitioned", partition_by=("region",), buckets=2),
        replace(PLAIN, name="non_blocking", non_blocking=True),
        # 200 columns, of which the aggregate reads 5.
        replace(
            PLAIN,
            name="wide",
            sizes=Sizes(rows=200_000, upserts=3, upsert_rows=20_000, more_columns=190),
        ),
        # More than Apache Hudi's heap holds.
        replace(
            PLAIN,
            name="large",
            sizes=Sizes(rows=20_000_000, upserts=1, upsert_rows=1_000_000),
            is_large=True,
        ),
    )
}
_CHUNK = 1_000_000


def shrunk(workload: Workload, divisor: int) -> Workload:
    """Return a workload with fewer rows, to try it."""
    sizes = workload.sizes
    smaller = replace(
        sizes,
        rows=sizes.rows // divisor,
        upsert_rows=sizes.upsert_rows // divisor,
        delete_rows=sizes.delete_rows // divisor,
    )
    return replace(workload, sizes=smaller)


def warm_up_of(sizes: Sizes) -> Sizes:
    """Return the sizes of a small table with the same columns, no larger than another."""
    return replace(
        sizes,
        rows=min(sizes.rows, 20_000),
        upserts=2,
        upsert_rows=min(sizes.upsert_rows, 2_000),
        delete_rows=min(sizes.delete_rows, 1_000),
    )


def schema_of(sizes: Sizes) -> pa.Schema:
    """Return the columns of rows."""
    kinds = (pa.float64(), pa.int64(), pa.string())
    more = [
        pa.field(f"more_{number:03}", kinds[number % len(kinds)])
        for number in range(sizes.more_columns)
    ]
    return pa.schema([*SCHEMA, *more])


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The generated files. Deletes hold only `id`, `region`, `customer` and `ts`."""

    rows: Path
    upserts: tuple[Path, ...]
    deletes: Path
    rows_after_upserts: int
    rows_after_deletes: int


def generate(folder: Path, sizes: Sizes) -> Inputs:
    """Return the input files for these sizes below `folder`; make them if they are not there."""
    columns = len(schema_of(sizes))
    root = folder / (
        f"{sizes.rows}-{sizes.upserts}x{sizes.upsert_rows}-{sizes.delete_rows}-{columns}"
    )
    upserts = tuple(root / f"upsert-{number}.parquet" for number in range(1, sizes.upserts + 1))
    new_rows = int(sizes.upsert_rows * NEW_SHARE) * sizes.upserts
    inputs = Inputs(
        rows=root / "rows.parquet",
        upserts=upserts,
        deletes=root / "deletes.parquet",
        rows_after_upserts=sizes.rows + new_rows,
        rows_after_deletes=sizes.rows + new_rows - sizes.delete_rows,
    )
    marker = root / "complete.json"
    wanted = asdict(sizes) | {"seed": SEED, "format": FORMAT}
    if marker.exists() and json.loads(marker.read_text()) == wanted:
        return inputs
    root.mkdir(parents=True, exist_ok=True)
    _write_all(inputs, sizes)
    marker.write_text(json.dumps(wanted))
    return inputs


def _write_all(inputs: Inputs, sizes: Sizes) -> None:
    random = np.random.default_rng(SEED)
    _write(inputs.rows, random.permutation(sizes.rows), sizes, commit=0, random=random)
    known = sizes.rows
    new = int(sizes.upsert_rows * NEW_SHARE)
    for commit, path in enumerate(inputs.upserts, start=1):
        old = random.choice(known, sizes.upsert_rows - new, replace=False)
        numbers = random.permutation(np.concatenate([old, np.arange(known, known + new)]))
        known += new
        _write(path, numbers, sizes, commit=commit, random=random)
    gone = orders(
        random.choice(known, sizes.delete_rows, replace=False),
        commit=len(inputs.upserts) + 1,
        random=random,
    )
    pq.write_table(gone.select(["id", "region", "customer", "ts"]), inputs.deletes, **_PARQUET)


def orders(numbers: np.ndarray, *, commit: int, random: np.random.Generator) -> pa.Table:
    """Return the orders of these numbers as commit number `commit` has them.

    Ordering values grow from commit to commit, but for the late rows of an upsert, which are older
    than anything before them and must lose.
    """
    count = len(numbers)
    ts = commit * 1_000_000 + random.integers(1, 1_000_000, count)
    if commit:
        ts = np.where(random.random(count) < LATE_SHARE, 0, ts)
    score = pa.array(random.normal(50, 15, count), mask=random.random(count) < 0.05)
    note_numbers = pa.array(random.integers(0, 100_000, count)).cast(pa.string())
    note = pc.binary_join_element_wise("left with the neighbour, parcel", note_numbers, " ")
    note = pc.if_else(pa.array(random.random(count) < 0.1), pa.scalar(None, pa.string()), note)
    seconds = 1_356_998_400 + commit * 86_400 + random.integers(0, 86_400, count)
    columns = {
        "id": _labels("order-", numbers, digits=10),
        "region": pa.array(REGIONS).take(pa.array(numbers % len(REGIONS))),
        "customer": _labels("c", numbers * 7919 % 50_021, digits=6),
        "ts": pa.array(ts),
        "amount": pa.array(np.round(random.gamma(2.0, 40.0, count), 2)),
        "quantity": pa.array(random.integers(1, 20, count).astype(np.int32)),
        "paid": pa.array(random.random(count) < 0.8),
        "updated_at": pa.array(seconds * 1_000_000).cast(pa.timestamp("us", tz="UTC")),
        "note": note,
        "score": score,
    }
    return pa.table(columns, schema=SCHEMA)


def _labels(prefix: str, numbers: np.ndarray, *, digits: int) -> pa.Array:
    text = pc.utf8_lpad(pa.array(numbers).cast(pa.string()), digits, "0")
    return pc.binary_join_element_wise(prefix, text, "")


def _more(table: pa.Table, schema: pa.Schema, random: np.random.Generator) -> pa.Table:
    """Return rows with the columns of a schema that they do not have: numbers, and short texts."""
    for field in schema.names[table.num_columns :]:
        kind = schema.field(field).type
        numbers = pa.array(random.integers(0, 1_000_000, table.num_rows))
        table = table.append_column(schema.field(field), numbers.cast(kind))
    return table


def _write(
    path: Path, numbers: np.ndarray, sizes: Sizes, *, commit: int, random: np.random.Generator
) -> None:
    """Write the orders of these numbers, some at a time."""
    schema = schema_of(sizes)
    # Some row groups, so that Spark can split the file between its cores.
    group_rows = max(min(len(numbers), _CHUNK) // 8, 10_000)
    with pq.ParquetWriter(path, schema, **_PARQUET) as writer:
        for first in range(0, len(numbers), _CHUNK):
            rows = orders(numbers[first : first + _CHUNK], commit=commit, random=random)
            writer.write_table(_more(rows, schema, random), row_group_size=group_rows)


def stored_bytes(table: Path) -> int:
    """Return the bytes of the table's data files: no `.hoodie/`, no checksum files."""
    files = (path for path in table.rglob("*") if path.is_file() and path.suffix != ".crc")
    return sum(
        path.stat().st_size for path in files if ".hoodie" not in path.relative_to(table).parts
    )
