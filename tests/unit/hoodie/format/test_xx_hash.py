"""XXH32: vectors of its specification, and texts of all lengths beside each other."""

import pyarrow as pa
import pytest

from hoodie.format import xx_hash

PUBLISHED = [
    ("", 0x02CC5D05),
    ("a", 0x550D7456),
    ("abc", 0x32D153FF),
    ("Nobody inspects the spammish repetition", 0xE2293B2F),
]


@pytest.mark.parametrize(("text", "expected"), PUBLISHED)
def test_published_vectors(text: str, expected: int) -> None:
    assert xx_hash.hashes(pa.array([text])).tolist() == [expected]


def test_texts_of_all_lengths_are_hashed_as_they_are_alone() -> None:
    texts = [("é😀xyz" * 20)[:length] for length in (*range(40), 63, 64, 65, 100)]
    column = pa.chunked_array([pa.array(texts[:7]), pa.array(texts[7:])])
    alone = [xx_hash.hashes(pa.array([each])).tolist()[0] for each in texts]
    assert xx_hash.hashes(column).tolist() == alone
    assert len(set(alone)) == len(texts)


def test_slices_are_hashed_by_their_own_texts() -> None:
    column = pa.array(["other", "a", "abc"])
    assert xx_hash.hashes(column.slice(1)).tolist() == [0x550D7456, 0x32D153FF]


def test_no_texts() -> None:
    assert xx_hash.hashes(pa.array([], pa.string())).tolist() == []
