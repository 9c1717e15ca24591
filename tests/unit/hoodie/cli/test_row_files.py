"""Rows out of the program: what a file holds, and that it is there whole or not at all."""

import datetime
import decimal
import io
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from hoodie import errors
from hoodie.cli import row_files
from hoodie.format import json_lines

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


def test_nested_columns_are_json_in_csv_as_in_json_lines(tmp_path: Path) -> None:
    value = {"b": [decimal.Decimal("1.0")], "c": datetime.date(2013, 1, 1), "d": 'x", y'}
    data = pa.table({"id": [1, 2], "a": [value, None], "nan": [float("nan"), 1.0]})
    stream = io.BytesIO()
    row_files.write_json_lines(reader(data), stream, ignore)
    whole = [json.loads(line)["a"] for line in stream.getvalue().splitlines()]
    assert whole == [{"b": ["1.0"], "c": "2013-01-01", "d": 'x", y'}, None]
    row_files.write_file(reader(data), str(tmp_path / "out.csv"), ignore)
    row_files.write_file(reader(data.drop_columns(["nan"])), str(tmp_path / "more.csv"), ignore)
    for place in tmp_path.iterdir():
        fields = csv.read_csv(place)["a"].to_pylist()
        assert [text and json.loads(text) for text in fields] == [whole[0], ""]


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


@pytest.mark.parametrize("has_others", [True, False])
def test_nan_is_spelled_as_most_who_read_csv_expect_it(*, has_others: bool) -> None:
    """And all else of its rows as in rows without one."""
    columns = {
        "id": ["a,1", 'q"x', None, "", "line\nbreak", "nan"],
        "count": [1, None, 3, -4, 5, 6],
        "ratio": [1.5, float("nan"), None, float("inf"), 1e300, 0.1],
        "late": [True, None, False, True, None, False],
        "day": [datetime.date(2020, 1, 2)] * 5 + [None],
        "at": [datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)] * 6,
        "price": [decimal.Decimal("1.20")] * 6,
        "raw": [b"ab", b'"', None, b"", b"z", b"-"],
    }
    [batch] = pa.table(columns).to_batches()
    batches = [batch.slice(0, 1), batch, batch.slice(2, 4)] if has_others else [batch]
    found, expected = io.BytesIO(), io.BytesIO()
    rows = pa.RecordBatchReader.from_batches(batch.schema, batches)
    row_files.write_csv(rows, found, lambda count: None)
    with csv.CSVWriter(expected, batch.schema) as writer:
        for each in batches:
            writer.write_batch(each)
    assert found.getvalue() == expected.getvalue().replace(b",nan,", b",NaN,")
    read = csv.read_csv(io.BytesIO(found.getvalue()))
    assert pa.types.is_floating(read.schema.field("ratio").type)


@pytest.mark.parametrize("ratio", [0.5, float("nan")])
@pytest.mark.parametrize("kind", [pa.binary(), pa.binary(2)], ids=str)
def test_bytes_that_are_no_text_have_no_csv(
    tmp_path: Path, kind: pa.DataType, ratio: float
) -> None:
    path = tmp_path / "out.csv"
    schema = pa.schema({"raw": kind, "ratio": pa.float64()})
    texts = pa.Table.from_pylist([{"raw": b"ab", "ratio": ratio}, {"ratio": ratio}], schema)
    assert row_files.write_file(reader(texts), str(path), ignore) == 2
    data = pa.Table.from_pylist([{"raw": b"\x00\xff", "ratio": ratio}], schema)
    with pytest.raises(errors.UnsupportedError, match=r"column 'raw' holds bytes .* --json"):
        row_files.write_file(reader(data), str(path), ignore)
    assert path.read_bytes().startswith(b'"raw","ratio"\n"ab",')
    assert list(tmp_path.iterdir()) == [path]
