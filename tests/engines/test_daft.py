"""Daft over tables: its filters and columns, and writes that fail."""

from pathlib import Path

import daft
import pytest

import hoodie
from hoodie import errors
from hoodie_jobs import daft_tables, staging


@pytest.fixture
def uri(tmp_path: Path) -> str:
    columns = {"id": "string", "city": "string", "fare": "float64"}
    table = hoodie.create_table(tmp_path / "trips", columns, "id", partition_by="city")
    rows = [{"id": str(n), "city": ("Oslo", "Rome")[n % 2], "fare": float(n)} for n in range(40)]
    table.upsert(rows)
    table.upsert([{"id": "3", "city": "Rome", "fare": 300.0}])
    return str(tmp_path / "trips")


CONDITIONS = {
    "equal": daft.col("id") == "3",
    "partition": daft.col("city") == "Oslo",
    "older version": daft.col("fare") == 3.0,
    "newer version": daft.col("fare") > 100,
    "and": (daft.col("city") == "Rome") & (daft.col("fare") < 10),
    "or": (daft.col("id") == "1") | (daft.col("id") == "2"),
    "in": daft.col("id").is_in(["1", "4", "x"]),
    "not": ~(daft.col("city") == "Rome"),
    "null": daft.col("fare").is_null(),
    "function": daft.col("id").length() == 1,
    "arithmetic": daft.col("fare") % 7 == 0,
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_filters_keep_the_rows_that_a_full_read_has(uri: str, name: str) -> None:
    everything = daft.from_arrow(hoodie.open_table(uri).scan().to_arrow())
    for columns in (["id"], ["fare", "id"]):
        found, expected = (
            frame.where(CONDITIONS[name]).select(*columns).sort("id").to_pydict()
            for frame in (daft_tables.read(uri), everything)
        )
        assert found == expected


def test_counts_limits_and_earlier_moments(uri: str) -> None:
    first = hoodie.open_table(uri).inspect.timeline()["requested"].to_pylist()[-1]
    frame = daft_tables.read(uri)
    assert frame.count_rows() == 40
    assert len(frame.limit(7).to_pydict()["id"]) == 7
    before = daft_tables.read(uri, as_of=first)
    assert before.where(daft.col("fare") > 100).count_rows() == 0


def test_operations(uri: str) -> None:
    rome = daft_tables.read(uri).where(daft.col("city") == "Rome")
    deleted = daft_tables.write(rome, uri, operation="delete")
    assert (deleted.deleted, daft_tables.read(uri).count_rows()) == (20, 20)
    daft_tables.write(daft_tables.read(uri).limit(2), uri, operation="overwrite")
    assert daft_tables.read(uri).count_rows() == 2
    with pytest.raises(errors.InvalidInputError, match="expected one of upsert"):
        daft_tables.write(rome, uri, operation="merge")  # type: ignore[arg-type] # What is tested.


def test_write_that_fails_publishes_nothing(uri: str) -> None:
    before = hoodie.open_table(uri).inspect.timeline().num_rows
    other = daft.from_pydict({"id": ["1"], "city": ["Oslo"], "fair": [1.0]})
    with pytest.raises(Exception, match="column 'fair' is not in the table"):
        daft_tables.write(other, uri)

    @daft.func(return_dtype=daft.DataType.float64())
    def broken(fare: float) -> float:
        if fare > 20:
            raise ValueError("the function is broken")
        return fare

    frame = daft_tables.read(uri).with_column("fare", broken(daft.col("fare")))
    with pytest.raises(Exception, match="the function is broken"):
        daft_tables.write(frame, uri)
    assert hoodie.open_table(uri).inspect.timeline().num_rows == before
    assert not list((Path(uri) / staging.FOLDER).rglob("*.arrow"))
