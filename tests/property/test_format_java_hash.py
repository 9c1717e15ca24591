"""Hashes of whole columns against Java's definition, text by text."""

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from hoodie.format import java_hash

TEXTS = st.none() | st.text(st.characters(exclude_categories=["Cs"]))


def _hash_code(text: str | None) -> int:
    content = (text or "").encode("utf-16-be")
    number = 0
    for at in range(0, len(content), 2):
        number = (31 * number + int.from_bytes(content[at : at + 2])) & 0xFFFFFFFF
    return _signed(number)


def _signed(number: int) -> int:
    return number - (1 << 32) if number >> 31 else number


@given(st.lists(TEXTS), st.data())
@settings(deadline=None)  # The machine is shared.
def test_column_has_the_hashes_of_its_texts(texts: list[str | None], data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(texts)))
    column = pa.array(texts, pa.string()).slice(first)
    assert java_hash.string_hash(column).tolist() == [_hash_code(text) for text in texts[first:]]


@given(st.lists(st.tuples(TEXTS, TEXTS, TEXTS)))
@settings(deadline=None)  # The machine is shared.
def test_rows_have_the_hashes_of_their_lists(
    rows: list[tuple[str | None, str | None, str | None]],
) -> None:
    columns = [pa.array([row[index] for row in rows], pa.string()) for index in range(3)]
    expected = []
    for row in rows:
        number = 1
        for text in row:
            number = (31 * number + _hash_code(text)) & 0xFFFFFFFF
        expected.append(_signed(number))
    assert java_hash.list_hash(columns).tolist() == expected
