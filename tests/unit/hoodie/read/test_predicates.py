"""Literals are of their column's type; what a number means as a time nothing says."""

import pyarrow as pa
import pytest

from hoodie import errors
from hoodie.model import predicates
from hoodie.read import where


@pytest.mark.parametrize(
    "kind", [pa.date32(), pa.timestamp("us"), pa.timestamp("ms", tz="UTC")], ids=str
)
@pytest.mark.parametrize("condition", ["at = 18262", "at in (1577836800)", "at > 1.5"])
def test_time_is_not_compared_with_a_number(kind: pa.DataType, condition: str) -> None:
    schema = pa.schema([("at", kind)])
    with pytest.raises(errors.InvalidInputError, match=r"^column 'at' is of type .* compared with"):
        predicates.to_expression(where.parse(condition), schema)
