"""Columns and their types, as people write them."""

import re

import pyarrow as pa
import pytest

from hoodie import errors
from hoodie.model import column_types


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("long", pa.int64()),
        ("BIGINT", pa.int64()),
        ("text", pa.string()),
        ("Timestamp", pa.timestamp("us", tz="UTC")),
        ("decimal(10,2)", pa.decimal128(10, 2)),
        ("DECIMAL( 10 , 2 )", pa.decimal128(10, 2)),
        ("numeric(5, 0)", pa.decimal128(5, 0)),
    ],
)
def test_types_have_a_name_of_ours_and_of_sql(text: str, kind: pa.DataType) -> None:
    assert column_types.named(text) == kind


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("lnog", "type 'lnog' is not known, expected .*; did you mean long?"),
        ("bigimt", "did you mean long?"),
        ("decimal", "type 'decimal' is not known"),
        ("decimal(99, 2)", re.escape("type decimal(99, 2): ")),
        ("", "type '' is not known"),
    ],
)
def test_unknown_type_is_named(text: str, complaint: str) -> None:
    with pytest.raises(errors.InvalidInputError, match=complaint):
        column_types.named(text)


def test_columns_stand_in_a_list() -> None:
    text = "id long, price decimal(10, 2),born: date ,  zip  string"
    assert list(column_types.columns(text).items()) == [
        ("id", pa.int64()),
        ("price", pa.decimal128(10, 2)),
        ("born", pa.date32()),
        ("zip", pa.string()),
    ]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("id", "expected NAME TYPE in place of 'id'"),
        ("id long,", "expected NAME TYPE in place of ''"),
        ("id long, id int", "'id' is given twice"),
        ("id long, b decimal(3", r"type 'decimal\(3' is not known"),
    ],
)
def test_malformed_list_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(errors.InvalidInputError, match=complaint):
        column_types.columns(text)
