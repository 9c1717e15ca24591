"""Bulk inserts that sort their rows: files hold ranges, and rows of one key are left in order."""

import datetime
import decimal
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hoodie import errors, table
from hoodie.filegroup import sorting
from hoodie.model import commits, schemas, settings, table_config
from hoodie.read import planning
from hoodie.read import where as where_text
from support.tables.tables import COLUMNS, CONFIG, Rows, SmallTable

KINDS = list(table_config.TableType)
VERSIONS = (8, 9)
BULK_INSERT = commits.Operation.BULK_INSERT
SINGLE = settings.ConcurrencyMode.SINGLE_WRITER
LOOKED_UP = replace(CONFIG, bucket_count=None, index=table_config.IndexKind.SIMPLE)
ONE_BUCKET = replace(CONFIG, bucket_count=1)
# A prime: the rows are in no order.
MIXED = [
    {"id": f"{n * 109 % 300:03}", "part": "p" if n % 3 else "q", "a": n * 71 % 300, "b": "x"}
    for n in range(300)
]


def bulk(small: SmallTable, rows: Rows, *sort_by: str, **changes: object) -> commits.CommitMetadata:
    alone = {"concurrency": SINGLE, "base_file_bytes_max": 700} | changes
    options = small.options(operation=BULK_INSERT, **alone)
    small.table.write(small.data(rows), replace(options, sort_by=sort_by))
    timeline = small.table.timeline()
    (metadata,) = small.table.metadata([timeline.instants[-1]]).values()
    return metadata


def base_files(small: SmallTable, partition: str = "p") -> list[pa.Table]:
    """Return the rows of a partition's base files, in the order of the write's file ids."""
    bases = [
        (int(each.group.file_id.rpartition("-")[2]), each.base_file)
        for each in small.table.slices()
        if each.group.partition_path == partition
    ]
    return [
        pq.read_table(small.path / base.path, partitioning=None)
        for _, base in sorted(bases, key=lambda pair: pair[0])
        if base is not None
    ]


def column(tables: Sequence[pa.Table], name: str) -> list[object]:
    return [value for each in tables for value in each.column(name).to_pylist()]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_new_files_of_a_partition_hold_ranges_of_the_order(
    tmp_path: Path, kind: table_config.TableType, version: int
) -> None:
    small = SmallTable(tmp_path / "t", replace(LOOKED_UP, table_type=kind, version=version))
    bulk(small, MIXED, "a")
    for partition in ("p", "q"):
        files = base_files(small, partition)
        assert len(files) > 3
        values = column(files, "a")
        assert values == sorted(row["a"] for row in MIXED if row["part"] == partition)
    assert small.rows() == sorted(MIXED, key=lambda row: str(row["id"]))
    assert small.problems() == []


@pytest.mark.parametrize("kind", KINDS)
def test_filter_on_the_sorted_column_reads_fewer_files(
    tmp_path: Path, kind: table_config.TableType
) -> None:
    where = where_text.parse("a >= 100 and a < 105")
    read: dict[tuple[str, ...], int] = {}
    for sort_by in ((), ("a",)):
        config = replace(LOOKED_UP, table_type=kind)
        small = SmallTable(tmp_path / "-".join(("t", *sort_by)), config)
        small.table = small.table.initialise_metadata(small.options().transaction)
        bulk(small, MIXED, *sort_by)
        plan = small.table.explain_read(where=where)
        step = plan.step(planning.Means.COLUMN_STATISTICS)
        assert step.considered > 6
        read[sort_by] = step.left
        found = {row["a"] for row in small.rows(where=where)}
        assert found == set(range(100, 105))
    assert read["a",] <= 4 < read[()]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_base_file_of_a_bucket_is_sorted(
    tmp_path: Path, kind: table_config.TableType, version: int
) -> None:
    small = SmallTable(tmp_path / "t", replace(CONFIG, table_type=kind, version=version))
    metadata = bulk(small, MIXED, "b", "a")
    assert len(metadata.stats) == 4
    for each in metadata.stats:
        values = pq.read_table(small.path / each.path, partitioning=None).column("a").to_pylist()
        assert values == sorted(values)
    assert small.rows() == sorted(MIXED, key=lambda row: str(row["id"]))


def test_log_file_stays_in_the_order_of_its_rows(tmp_path: Path) -> None:
    """It says which row of a key is the newer one."""
    small = SmallTable(tmp_path / "t", ONE_BUCKET)
    bulk(small, [{"id": "1", "part": "p", "a": 1, "b": "x"}])
    bulk(small, [{"id": "1", "part": "p", "a": a, "b": "x"} for a in (9, 2, 5)], "a")
    (file_slice,) = small.table.slices()
    assert len(file_slice.log_files) == 1
    assert [row["a"] for row in small.rows()] == [5]
    small.compact()
    assert [row["a"] for row in small.rows()] == [5]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("config", [LOOKED_UP, CONFIG], ids=["simple", "bucket"])
def test_later_row_of_a_key_wins_where_rows_are_combined(
    tmp_path: Path, config: table_config.TableConfig, kind: table_config.TableType
) -> None:
    small = SmallTable(tmp_path / "t", replace(config, table_type=kind))
    rows = [{"id": str(n % 50), "part": "p", "a": n * 811 % 1000, "b": "x"} for n in range(500)]
    bulk(small, rows, "a", combines_inserts=True, base_file_bytes_max=500)
    newest = {row["id"]: row["a"] for row in rows}
    assert {row["id"]: row["a"] for row in small.rows()} == newest
    assert len(small.rows()) == 50
    for each in small.table.slices():
        assert each.base_file is not None
        found = pq.read_table(small.path / each.base_file.path, partitioning=None)
        values = found.column("a").to_pylist()
        assert values == sorted(values)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_one_key_that_are_not_combined_go_to_one_file(
    tmp_path: Path, kind: table_config.TableType
) -> None:
    small = SmallTable(tmp_path / "t", replace(LOOKED_UP, table_type=kind))
    bulk(small, [*MIXED, {"id": "000", "part": "q", "a": 299, "b": "again"}], "a")
    named = small.rows(columns=["id", "a", schemas.FILE_NAME])
    twice = [row for row in named if row["id"] == "000"]
    assert sorted(row["a"] for row in twice) == [0, 299]
    assert len({row[schemas.FILE_NAME] for row in twice}) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_keys_that_are_there_are_left_out_of_a_sorted_insert(
    tmp_path: Path, kind: table_config.TableType
) -> None:
    small = SmallTable(tmp_path / "t", replace(LOOKED_UP, table_type=kind))
    bulk(small, MIXED[:150], "a")
    again = [{**row, "b": "again"} for row in MIXED]
    bulk(small, again, "a", drops_duplicates=True)
    assert {row["id"]: row["b"] for row in small.rows()} == {
        str(row["id"]): "x" if place < 150 else "again" for place, row in enumerate(MIXED)
    }
    assert small.problems() == []


def test_values_of_every_type_are_in_order_and_nan_and_null_come_last(tmp_path: Path) -> None:
    nan = math.nan
    day = datetime.date
    at = datetime.datetime
    in_order: dict[str, tuple[str, list[object]]] = {
        "flag": ("bool", [False, True, None]),
        "small": ("int32", [-(2**31), -1, 0, 2**31 - 1, None]),
        "real": ("double", [-math.inf, -1.5, 0.0, math.inf, nan, None]),
        "text": ("string", ["", "A", "Z", "a", "z", "ä", "\U0001f600", None]),
        "raw": ("binary", [b"", b"\x00", b"\x7f", b"\xff", b"\xff\x00", None]),
        "day": ("date32", [day(1, 1, 1), day(1970, 1, 1), day(9999, 12, 31), None]),
        "at": ("timestamp[us]", [at(1, 1, 1), at(1970, 1, 1, 0, 0, 0, 1), at(9999, 12, 31), None]),
    }
    types = [(name, pa.type_for_alias(kind)) for name, (kind, _) in in_order.items()]
    types.append(("amount", pa.decimal128(38, 2)))
    amounts = [decimal.Decimal(each) for each in ("-9.99", "-9.98", "2.00", "10.00", f"{10**35}")]
    in_order["amount"] = ("", [*amounts, None])
    schema = schemas.from_arrow(pa.schema([*COLUMNS, *types]), "small")
    small = SmallTable(tmp_path / "unused")
    for name, (_, values) in in_order.items():
        path = tmp_path / name
        small.table = table.create_table(str(path), LOOKED_UP, schema, small.env)
        small.path = path
        rows = [
            {"id": str(place), "part": "p", "a": 1, "b": "x", name: value}
            for place, value in enumerate(values)
        ]
        bulk(small, rows[::-1], name)
        (file,) = base_files(small)
        assert file.column("id").to_pylist() == [row["id"] for row in rows], name


def test_equal_rows_keep_their_order(tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "t", LOOKED_UP)
    rows = [{"id": str(n), "part": "p", "a": n % 3, "b": "y" if n % 2 else "x"} for n in range(99)]
    bulk(small, rows, "b", "a", base_file_bytes_max=1 << 24)
    (file,) = base_files(small)
    expected = sorted(rows, key=lambda row: (str(row["b"]), int(str(row["a"]))))
    assert file.column("id").to_pylist() == [row["id"] for row in expected]


NESTED = pa.schema(
    [
        *COLUMNS,
        ("place", pa.struct([("city", pa.string())])),
        ("tags", pa.list_(pa.string())),
        ("counts", pa.map_(pa.string(), pa.int64())),
    ]
)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (("a", "a"), "column 'a' twice"),
        (("place",), "'place', whose type struct<city: string> has no"),
        (("tags",), "'tags', whose type"),
        (("counts",), "'counts', whose type"),
        (("place.city",), "a field within column 'place'"),
        (("plcae",), "expected a column of the table; similar: place"),
        (("",), "they are id, part, a, b, place, tags, counts"),
        (("_hoodie_record_key",), "expected a column of the table"),
        (("A",), "by 'A'"),
    ],
)
def test_columns_without_an_order_are_refused(columns: tuple[str, ...], message: str) -> None:
    with pytest.raises(errors.InvalidInputError, match=message):
        sorting.check(columns, NESTED, BULK_INSERT)


def test_write_that_cannot_be_sorted_leaves_no_trace(tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "t", LOOKED_UP)
    with pytest.raises(errors.InvalidInputError, match="rows cannot be sorted by 'c'"):
        bulk(small, MIXED[:3], "c")
    options = replace(small.options(concurrency=SINGLE), sort_by=("a",))
    with pytest.raises(errors.InvalidInputError, match="operation upsert cannot be sorted by a"):
        small.table.write(small.data(MIXED[:3]), options)
    assert small.table.timeline().instants == ()


@pytest.mark.parametrize("index", [None, table_config.IndexKind.SIMPLE])
def test_column_that_is_in_paths_alone_sorts_nothing(
    tmp_path: Path, index: table_config.IndexKind | None
) -> None:
    config = replace(
        CONFIG,
        table_type=table_config.TableType.COPY_ON_WRITE,
        drops_partition_columns=True,
        index=index,
        bucket_count=None if index else CONFIG.bucket_count,
    )
    small = SmallTable(tmp_path / "t", config)
    rows = [{"id": str(each), "part": "p", "a": -each, "b": "x"} for each in range(6)]
    options = replace(
        small.options(
            operation=commits.Operation.BULK_INSERT,
            concurrency=settings.ConcurrencyMode.SINGLE_WRITER,
        ),
        sort_by=("part", "a"),
    )
    small.table.write(small.data(rows), options)
    assert small.rows() == rows
