"""Objects in an array are found wherever chunks are cut, whatever their texts hold."""

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodie.sources import json_arrays

TEXTS = st.text('[]{},:"\\\\ \\n\\u20acab', max_size=8)
OBJECTS = st.dictionaries(
    TEXTS,
    st.recursive(
        TEXTS | st.integers() | st.none() | st.booleans(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
        max_leaves=6,
    ),
    max_size=4,
)


@given(
    rows=st.lists(OBJECTS, max_size=5),
    indent=st.sampled_from([None, 2]),
    is_ascii=st.booleans(),
    before=st.sampled_from(["", "\ufeff", " \n"]),
    chunk_bytes=st.integers(1, 40),
)
def test_array_is_its_objects(
    rows: list[object], indent: int | None, before: str, chunk_bytes: int, *, is_ascii: bool
) -> None:
    content = (before + json.dumps(rows, indent=indent, ensure_ascii=is_ascii)).encode()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(json_arrays, "_CHUNK_BYTES", chunk_bytes)
        assert json_arrays.is_array(lambda: io.BytesIO(content))
        left = json_arrays.objects(lambda: io.BytesIO(content))().read().decode("utf-8-sig").strip()
    found = []
    while left:
        row, end = json.JSONDecoder().raw_decode(left)
        found.append(row)
        left = left[end:].strip()
    assert found == rows


@pytest.mark.parametrize("content", ["", " ", '{"a": [1]}', "x", '"["'])
def test_lines_are_no_array(content: str) -> None:
    assert not json_arrays.is_array(lambda: io.BytesIO(content.encode()))
