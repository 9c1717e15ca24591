"""Parquet as it is read: filters that leave rows out early, and texts that a file has once."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hoodie.filegroup import parquet_reading
from hoodie.model import predicates
from hoodie.model.predicates import And, Comparator, Compare, IsNull

COUNT = 4000
COLUMNS = pa.schema(
    [("id", pa.string()), ("city", pa.string()), ("size", pa.int64()), ("later", pa.float64())]
)
ROWS = pa.table(
    {
        "id": [f"key-{number}" for number in range(COUNT)],
        "city": [("Oslo", "Rome", None)[number % 3] for number in range(COUNT)],
        "size": pa.array([number % 10 for number in range(COUNT)], pa.int32()),
    }
)


def file_of(rows: pa.Table, **options: object) -> pa.BufferReader:
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, row_group_size=1500, **options)
    return pa.BufferReader(sink.getvalue())


def read(source: pa.NativeFile, where: predicates.Predicate, *output: str) -> pa.Table:
    found = parquet_reading.ParquetInput(source).kept(COLUMNS, where, output)
    schema = pa.schema([COLUMNS.field(each) for each in output])
    return pa.concat_tables([schema.empty_table(), *found])


@pytest.mark.parametrize(
    "where",
    [
        Compare("size", Comparator.LT, 2),
        Compare("city", Comparator.EQ, "Rome"),
        Compare("id", Comparator.EQ, "key-17"),
        And((Compare("size", Comparator.GE, 9), IsNull("city"))),
        IsNull("later"),
        Compare("later", Comparator.GT, 1.0),
        Compare("size", Comparator.GT, 99),
    ],
    ids=str,
)
@pytest.mark.parametrize("output", [("id", "city"), ("later",), ("size", "later", "city")])
def test_rows_that_a_filter_keeps_are_those_of_all_rows(
    where: predicates.Predicate, output: tuple[str, ...]
) -> None:
    whole = parquet_reading.ParquetInput(file_of(ROWS)).read(COLUMNS)
    expected = whole.filter(predicates.to_expression(where, COLUMNS)).select(output)
    assert read(file_of(ROWS), where, *output).equals(expected)
    assert predicates.kept(where, whole, output).equals(expected)


@pytest.mark.parametrize("has_dictionary", [True, False])
def test_texts_that_repeat_are_texts(has_dictionary: bool) -> None:
    source = file_of(ROWS, use_dictionary=["city"] if has_dictionary else False)
    (column,) = (each for each in COLUMNS if each.name == "city")
    (rows,) = parquet_reading.ParquetInput(source).pieces(pa.schema([column]))
    assert rows.schema.field("city").type == pa.string()
    assert rows["city"].to_pylist() == ROWS["city"].to_pylist()


def test_field_within_a_column_is_not_taken_for_a_column_of_its_name() -> None:
    inner = pa.StructArray.from_arrays([pa.array(["a", "b"])], ["city"])
    rows = pa.table({"place": inner, "city": ["x", "y"], "place.city": ["p", "q"]})
    for name in ("city", "place.city"):
        source = file_of(rows)
        (found,) = parquet_reading.ParquetInput(source).pieces(pa.schema([(name, pa.string())]))
        assert found[name].to_pylist() == rows[name].to_pylist()


def test_mask_of_a_filter_on_no_column_is_as_long_as_the_rows() -> None:
    assert predicates.mask(And(()), ROWS).to_pylist() == [True] * COUNT
