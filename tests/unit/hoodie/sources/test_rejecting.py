"""Rows that do not fit are told apart, in time that follows the values and not the rows."""

import pyarrow as pa
import pytest

from hoodie import errors
from hoodie.sources import casting, rejecting

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.float64())])


def test_value_that_many_rows_have_is_tried_once() -> None:
    tried = []

    def fit(rows: pa.Table) -> pa.Table:
        tried.append(rows.num_rows)
        return casting.cast(rows, SCHEMA, "f.csv")

    told: list[tuple[int, str, str]] = []
    texts = pa.table({"id": ["1", "2"] * 5000, "v": ["1", "oops"] * 5000})
    kept = rejecting.fitting(texts, fit, lambda *each: told.append(each))
    assert kept.to_pydict() == {"id": [1] * 5000, "v": [1.0] * 5000}
    assert [row for row, _, _ in told] == list(range(1, 10_000, 2))
    assert len(tried) < 20


@pytest.mark.parametrize("batches", [1, 3])
def test_each_row_is_told_once_by_its_first_column(batches: int) -> None:
    texts = pa.table(
        {
            "id": ["1", None, "x", "4", "5", None] * batches,
            "v": ["a", "b", None, "4.5", "", "6"] * batches,
        }
    )
    texts = pa.concat_tables([texts.slice(0, 4), texts.slice(4)])
    told: list[tuple[int, str, str]] = []

    def fit(rows: pa.Table) -> pa.Table:
        return casting.cast(rows, SCHEMA, "f.csv")

    kept = rejecting.fitting(texts, fit, lambda *each: told.append(each))

    def is_right(row: int) -> bool:
        try:
            fit(texts.slice(row, 1))
        except errors.InvalidInputError:
            return False
        return True

    wrong = [row for row in range(texts.num_rows) if not is_right(row)]
    assert sorted(row for row, _, _ in told) == wrong
    assert kept.num_rows == texts.num_rows - len(wrong)
    of_first = {row % 6 for row, column, _ in told if column == "id"}
    assert of_first == {1, 2, 5}
