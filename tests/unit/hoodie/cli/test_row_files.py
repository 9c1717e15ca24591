"""Rows out of the program: what a file holds, and that it is there whole or not at all."""

import datetime
import decimal
import io
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from hoodie import errors
from hoodie.cli import json_lines, row_files

DATA = pa.table(
    {
        "id": ["a", 'b "x", y', None],
        "count": pa.array([1, None, -3], pa.int32()),
        "ratio": [0.5, float("nan"), float("inf")],
        "day": [datetime.date(2013, 1, 31), None, None],
        "at": pa.array([0, None, 1_000_001], pa.timestamp("us", "UTC")),
        "price": [decimal.Decimal("1.50"), None, None],
        "raw": [b"\x00\xff", b"", None],
        "is_late": [True, False, None],
    }
)


def reader(data: pa.Table = DATA, rows: int = 2) -> pa.RecordBatchReader:
    return data.to_reader(max_chunksize=rows)


def ignore(count: int) -> None:
    del count


def test_parquet_file_holds_all_rows(tmp_path: Path) -> None:
    path = tmp_path / "out.parquet"
    told: list[int] = []
    data = DATA.drop_columns(["ratio"])  # NaN equals nothing.
    assert row_files.write_file(reader(data), str(path), told.append) == 3
    assert parquet.read_table(path).equals(data)
    assert told == [2, 3]
    assert list(tmp_path.iterdir()) == [path]


def test_csv_tells_null_from_empty(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    data = DATA.select(["id", "count", "day", "at", "price"])
    assert row_files.write_file(reader(data), str(path), ignore) == 3
    assert path.read_text() == (
        '"id","count","day","at","price"\n'
        '"a",1,2013-01-31,1970-01-01 00:00:00.000000Z,1.50\n'
        '"b ""x"", y",,,,\n'
        ",-3,,1970-01-01 00:00:01.000001Z,\n"
    )


def test_json_lines_hold_every_type() -> None:
    stream = io.BytesIO()
    assert row_files.write_json_lines(reader(), stream, ignore) == 3
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert lines == [
        {
            "id": "a",
            "count": 1,
            "ratio": 0.5,
            "day": "2013-01-31",
            "at": "1970-01-01 00:00:00.000000Z",
            "price": "1.50",
            "raw": "AP8=",
            "is_late": True,
        },
        {
            "id": 'b "x", y',
            "count": None,
            "ratio": None,
            "day": None,
            "at": None,
            "price": None,
            "raw": "",
            "is_late": False,
        },
        {
            "id": None,
            "count": -3,
            "ratio": None,
            "day": None,
            "at": "1970-01-01 00:00:01.000001Z",
            "price": None,
            "raw": None,
            "is_late": None,
        },
    ]


def test_nested_rows_have_json_lines_and_no_csv(tmp_path: Path) -> None:
    data = pa.table({"a": [{"b": [decimal.Decimal("1.0")], "c": datetime.date(2013, 1, 1)}]})
    stream = io.BytesIO()
    row_files.write_json_lines(reader(data), stream, ignore)
    assert json.loads(stream.getvalue()) == {"a": {"b": ["1.0"], "c": "2013-01-01"}}
    with pytest.raises(errors.UnsupportedError, match="column 'a' of type struct"):
        row_files.write_file(reader(data), str(tmp_path / "out.csv"), ignore)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["out.parquet", "out.csv"])
def test_file_is_left_as_it_was_when_reading_fails(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text("before")
    schema = pa.schema({"id": pa.string()})

    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"id": ["a"]})
        raise errors.FormatError("the table is corrupt")

    rows = pa.RecordBatchReader.from_batches(schema, batches())
    with pytest.raises(errors.FormatError, match="the table is corrupt"):
        row_files.write_file(rows, str(path), ignore)
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["out.parquet", "out.csv"])
def test_no_rows_make_a_file_of_columns(tmp_path: Path, name: str) -> None:
    empty = DATA.select(["id"]).slice(0, 0)
    assert row_files.write_file(reader(empty), str(tmp_path / name), ignore) == 0
    assert (tmp_path / name).stat().st_size > 0


def test_head_stops_reading() -> None:
    read = 0

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal read
        for value in range(100):
            read += 1
            yield pa.record_batch({"id": [value, value]})

    def numbers() -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(pa.schema({"id": pa.int64()}), batches())

    assert row_files.head(numbers(), 3).read_all().to_pydict() == {"id": [0, 0, 1]}
    assert read <= 3
    assert row_files.head(numbers(), 0).read_all().num_rows == 0
    assert row_files.head(numbers(), 1000).read_all().num_rows == 200


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("out.xlsx", "expected a file named .parquet or .csv, or - for standard output"),
        ("none/out.csv", "there is no such folder"),
        ("folder.csv", "is a folder"),
    ],
)
def test_place_that_takes_no_rows_is_refused(tmp_path: Path, name: str, complaint: str) -> None:
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(errors.InvalidInputError, match=complaint):
        row_files.check_path(str(tmp_path / name))


def test_numbers_that_json_has_not_are_null_inside_nested_columns_too() -> None:
    rows = [{"a": [1.5, float("nan")], "b": {"c": float("-inf")}}]
    [batch] = pa.Table.from_pylist(rows).to_batches()
    assert json.loads(json_lines.encode(batch)) == {"a": [1.5, None], "b": {"c": None}}
