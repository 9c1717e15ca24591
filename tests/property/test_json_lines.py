"""JSON lines say what the rows hold, whatever is in them."""

import json

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from hoodie.format import json_lines

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
SCHEMA = pa.schema(
    {
        "id": pa.string(),
        'odd "name"\n': pa.int64(),
        "ratio": pa.float64(),
        "flag": pa.bool_(),
        "list": pa.list_(pa.string()),
    }
)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.none() | TEXTS,
            'odd "name"\n': st.none() | st.integers(-(2**63), 2**63 - 1),
            "ratio": st.none() | st.floats(allow_nan=False, allow_infinity=False),
            "flag": st.none() | st.booleans(),
            "list": st.none() | st.lists(st.none() | TEXTS, max_size=3),
        }
    ),
    max_size=6,
)


@given(ROWS, st.integers(0, 3))
@settings(deadline=None)  # The machine is shared.
def test_rows_are_read_back_from_their_lines(rows: list[dict[str, object]], skipped: int) -> None:
    batch = pa.RecordBatch.from_pylist(rows, SCHEMA).slice(skipped)
    text = json_lines.encode(batch).decode()
    assert [json.loads(line) for line in text.split("\n")[:-1]] == rows[skipped:]
