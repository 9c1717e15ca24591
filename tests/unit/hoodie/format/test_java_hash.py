"""Java's hashes of texts and lists, and XXH64, with values from Java and from Apache Hudi."""

import base64

import numpy as np
import pyarrow as pa
import pytest

from hoodie import errors
from hoodie.format import java_hash

# From a JVM: "...".hashCode().
JAVA = {
    "": 0,
    "a": 97,
    "hello": 99162322,
    "Aa": 2112,
    "BB": 2112,
    "polygenelubricants": -(2**31),
    "key-000000000001": 456572079,
    "é": 233,
    "€": 8364,
    "😀": 1772899,
}


@pytest.mark.parametrize(
    "type_",
    [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())],
)
def test_texts_have_the_hashes_of_java(type_: pa.DataType) -> None:
    hashes = java_hash.string_hash(pa.array(list(JAVA)).cast(type_))
    assert hashes.dtype == np.int32
    assert hashes.tolist() == list(JAVA.values())


def test_null_has_the_hash_0() -> None:
    texts = pa.array(["a", None, "é"])
    assert java_hash.string_hash(texts).tolist() == [97, 0, 233]
    assert java_hash.string_hash(texts.dictionary_encode()).tolist() == [97, 0, 233]
    assert java_hash.string_hash(pa.nulls(3, pa.string())).tolist() == [0, 0, 0]


def test_slices_and_chunks_are_hashed_where_they_begin() -> None:
    texts = pa.array(["x", "hello", "é", "a"])
    assert java_hash.string_hash(texts.slice(1, 2)).tolist() == [99162322, 233]
    assert java_hash.string_hash(pa.chunked_array([texts, texts.slice(3)])).tolist() == [
        120,
        99162322,
        233,
        97,
        97,
    ]
    assert java_hash.string_hash(pa.chunked_array([], pa.string())).tolist() == []


def test_column_longer_than_a_batch_is_hashed_whole() -> None:
    # Texts that end on, before and behind the batches' bounds, one of them longer than a batch.
    texts = ["k" * (index % 50) for index in range(30_000)] + ["k" * 600_000, "", "é"]
    hashes = java_hash.string_hash(pa.array(texts))
    expected = {text: _horner(text) for text in set(texts)}
    assert hashes.tolist() == [expected[text] for text in texts]


def _horner(text: str) -> int:
    units = np.frombuffer(text.encode("utf-16-le"), np.uint16)
    number = 0
    for unit in units.tolist():
        number = (31 * number + unit) & 0xFFFFFFFF
    return number - (1 << 32) if number >> 31 else number


def test_bytes_that_are_no_text_are_refused() -> None:
    broken = pa.array([b"\xff\xfe"]).cast(pa.binary()).view(pa.string())
    with pytest.raises(errors.InvalidInputError, match="not UTF-8"):
        java_hash.string_hash(broken)


def test_list_is_hashed_over_its_elements() -> None:
    # From a JVM: Arrays.asList("k3", "3").hashCode(), and with null.
    columns = [pa.array(["k3", None]), pa.array(["3", "hello"])]
    assert java_hash.list_hash(columns).tolist() == [105420, 99163283]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Names of the implicit ZooKeeper lock, by the 1.1.1 bundle: protocol.md: The table lock.
        ("s3://bucket/table", 0x4DCF035CB614089C),
        ("file:///tmp/t", 0x488FEFCCC7172A88),
        ("/tmp/hudi/trips_table_name_that_is_longer_than_32_bytes", 0x0A119570B904A8C6),
        ("", 0x0D6FDE68D55B45DA),
    ],
)
def test_name_has_the_hash_id_of_hudi(text: str, expected: int) -> None:
    assert java_hash.xxhash64(text.encode()) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Keys of the metadata table.
        ("name", "F5SYxeUa1U8="),
        ("p0", "Z+KNMU8CLlo="),
        ("_hoodie_commit_time", "JBBzUToHtLc="),
        (".", "FXThHwelITM="),
        ("__partition_stat__", "2CMHrhWVE9w="),
    ],
)
def test_name_has_the_key_of_the_metadata_table(text: str, expected: str) -> None:
    key = java_hash.xxhash64(text.encode()).to_bytes(8)
    assert base64.b64encode(key).decode() == expected


def test_hash_with_another_seed_is_the_published_one() -> None:
    # XXH64 of the empty text and of "abc" with seed 0, from the algorithm's description.
    assert java_hash.xxhash64(b"", 0) == 0xEF46DB3751D8E999
    assert java_hash.xxhash64(b"abc", 0) == 0x44BC2CF5AD770999
