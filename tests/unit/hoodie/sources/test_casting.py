"""Casting is exact, or an error that names origin, column, value and row."""

import datetime

import pyarrow as pa
import pytest

from hoodie import errors
from hoodie.sources import casting

SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("count", pa.int32()),
        pa.field("price", pa.decimal128(10, 2)),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("day", pa.date32()),
        pa.field("is_late", pa.bool_()),
        pa.field("tags", pa.list_(pa.string())),
    ]
)


def cast(**columns: pa.Array) -> pa.Table:
    return casting.cast(pa.table(columns), SCHEMA, "flights.csv")


def test_texts_become_the_types_of_the_table() -> None:
    result = cast(
        id=pa.array(["a"]),
        count=pa.array([" 7 "]),
        price=pa.array(["1.50"]),
        at=pa.array(["2013-01-01T10:00:00Z"]),
        day=pa.array(["2013-01-01"]),
        is_late=pa.array(["true"]),
    )
    assert result.schema == pa.schema([SCHEMA.field(name) for name in result.column_names])
    assert [str(value) for value in result.to_pylist()[0].values()] == [
        "a",
        "7",
        "1.50",
        "2013-01-01 10:00:00+00:00",
        "2013-01-01",
        "True",
    ]


@pytest.mark.parametrize("row", [0, 1, 499, 998, 999])
def test_first_text_that_does_not_fit_is_named(row: int) -> None:
    values: list[str | None] = ["7", None] * 500
    values[row] = "seven"
    with pytest.raises(
        errors.InvalidInputError,
        match=rf"flights.csv: column 'count' has the value 'seven' in row {row + 1}, "
        "expected one of type int32",
    ):
        cast(count=pa.chunked_array([values[:300], values[300:]]))


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("count", pa.array([5_000_000_000])),
        ("count", pa.array([1.5])),
        ("price", pa.array(["1.234"])),
        ("at", pa.array(["01.02.2013 10:00:00"])),
        ("day", pa.array(["01/02/2013"])),
        ("is_late", pa.array(["perhaps"])),
    ],
)
def test_value_that_would_be_changed_is_refused(name: str, values: pa.Array) -> None:
    with pytest.raises(errors.InvalidInputError, match=rf"column '{name}' has the value .* row 1"):
        cast(**{name: values})


def test_type_that_never_becomes_the_other_is_named() -> None:
    with pytest.raises(errors.InvalidInputError, match=r"'tags' is of type string, expected one"):
        cast(tags=pa.array(["a"]))


def test_null_in_a_column_that_must_not_be_null_is_named() -> None:
    with pytest.raises(errors.InvalidInputError, match="column 'id' is null in row 2"):
        cast(id=pa.array(["a", None]))


def test_long_value_is_shown_cut() -> None:
    with pytest.raises(errors.InvalidInputError) as caught:
        cast(count=pa.array(["x" * 1000]))
    assert len(str(caught.value)) < 200


def test_null_texts_become_null_in_text_columns_only() -> None:
    data = pa.table({"a": ["NA", "", "x", None], "b": [1, 2, 3, 4]})
    assert casting.texts_to_null(data, ["", "NA"]).to_pydict() == {
        "a": [None, None, "x", None],
        "b": [1, 2, 3, 4],
    }


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_times_with_and_without_a_zone_stand_in_one_column(kind: pa.DataType) -> None:
    texts = [
        "2026-01-01 10:00:00",
        "2026-01-01T10:00:00Z",
        "2026-01-01 12:00:00+02:00",
        None,
        "2026-01-01 05:00:00.5-0500",
        " 2026-01-01 11:00:00+01 ",
        "2026-01-01",
    ]
    schema = pa.schema([("seen", pa.timestamp("us", "UTC"))])
    found = casting.cast(pa.table({"seen": pa.array(texts, kind)}), schema, "f")
    ten = datetime.datetime(2026, 1, 1, 10, tzinfo=datetime.UTC)
    half = ten.replace(microsecond=500_000)
    assert found["seen"].to_pylist() == [ten, ten, ten, None, half, ten, ten.replace(hour=0)]


def test_text_that_is_no_time_is_found_among_times_with_and_without_a_zone() -> None:
    texts = ["2026-01-01 10:00:00", "2026-01-01T10:00:00Z", "tomorrow", "2026-01-01"]
    schema = pa.schema([("seen", pa.timestamp("us", "UTC"))])
    with pytest.raises(errors.InvalidInputError, match="'tomorrow' in row 3"):
        casting.cast(pa.table({"seen": texts}), schema, "f")
