"""`like 'text%'` keeps exactly the texts that begin so, whatever characters there are."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from hoodie.model import predicates
from hoodie.read import where

TEXTS = st.text("ab'\ud7ff\ue000\U0010ffff", max_size=4)


@given(values=st.lists(st.none() | TEXTS, max_size=8), prefix=TEXTS)
def test_prefix_is_a_range_of_texts(values: list[str | None], prefix: str) -> None:
    rows = pa.table({"a": pa.array(values, pa.string())})
    quoted = prefix.replace("'", "''")
    for text, is_kept in (
        (f"a like '{quoted}%'", lambda value: value.startswith(prefix)),
        (f"a not like '{quoted}%'", lambda value: not value.startswith(prefix)),
    ):
        kept = rows.filter(predicates.to_expression(where.parse(text), rows.schema))
        expected = [value for value in values if value is not None and is_kept(value)]
        assert kept.column("a").to_pylist() == expected
