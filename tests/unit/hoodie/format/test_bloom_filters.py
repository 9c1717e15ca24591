"""Bloom filters of record keys, compared with an implementation of one key at a time.

That Apache Hudi makes the same bytes is judged in `tests/conformance/test_bloom_filters.py`.
"""

import base64
import struct
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hoodie import errors
from hoodie.format import bloom_filters, murmur_hash
from hoodie.format.bloom_filters import Filter, NewFilter, Size, StoredFilter, TypeCode

SMALL = Size(entries=4, error_rate=0.01, entries_max=10)
KEYS = st.lists(st.text(min_size=1, max_size=12), max_size=40)

# From Apache Hadoop's and Apache Hudi's MurmurHash.
MURMUR = {("k0", 0): 3497126913, ("hello", 0): 3848350155, ("hello", 3848350155): 2765680134}


def murmur(key: bytes, seed: int) -> int:
    """Return the hash of a key, byte by byte."""
    m, mask = 0x5BD1E995, 0xFFFFFFFF
    h = seed ^ len(key)
    whole = len(key) // 4 * 4
    for at in range(0, whole, 4):
        k = int.from_bytes(key[at : at + 4], "little") * m & mask
        k = (k ^ k >> 24) * m & mask
        h = h * m & mask ^ k
    for shift, byte in enumerate(reversed(key[whole:])):
        signed = byte - 256 if byte > 127 else byte
        h ^= signed << 8 * shift & mask
    if whole < len(key):
        h = h * m & mask
    h = (h ^ h >> 13) * m & mask
    return h ^ h >> 15


def slow(keys: list[str], type_code: TypeCode, size: Size) -> bytes:
    """Return the bytes of a filter, made key by key as Apache Hudi does."""
    header = struct.pack(">iibi", -1, size.hashes, 1, size.bits)
    rows = [bytearray(-(-size.bits // 8))]
    in_newest, beyond = 0, None
    for key in keys:
        row = rows[-1]
        if type_code is TypeCode.DYNAMIC:
            if beyond is not None:
                row = rows[beyond % len(rows)]
                beyond += 1
            elif in_newest >= size.entries and len(rows) * size.entries < size.entries_max:
                row = bytearray(len(row))
                rows.append(row)
                in_newest = 0
            elif in_newest >= size.entries:
                row, beyond = rows[0], 0
        in_newest += 1
        seed = 0
        for _ in range(size.hashes):
            seed = murmur(key.encode(), seed)
            signed = seed - (1 << 32) if seed >> 31 else seed
            position = abs(signed) % size.bits
            row[position // 8] |= 1 << position % 8
    if type_code is TypeCode.SIMPLE:
        return header + bytes(rows[0])
    counts = struct.pack(">iii", size.entries, in_newest, len(rows))
    return header + counts + b"".join(header + bytes(row) for row in rows)


def made(keys: list[str], type_code: TypeCode = TypeCode.DYNAMIC, size: Size = SMALL) -> NewFilter:
    new = NewFilter(type_code, size)
    new.add(pa.array(keys, pa.string()))
    return new


def test_hashes_are_those_of_apache_hudi() -> None:
    for (key, seed), expected in MURMUR.items():
        assert murmur(key.encode(), seed) == expected
    ((places, hashes),) = murmur_hash.chains(pa.array(["k0", "hello"]), 2)
    assert hashes[:, places.tolist().index(1)].tolist() == [3848350155, 2765680134]


@given(KEYS, st.integers(1, 4))
def test_chain_of_each_key_is_that_of_its_bytes(keys: list[str], count: int) -> None:
    found: dict[int, list[int]] = {}
    chunked = pa.chunked_array([keys[:7], keys[7:]], pa.string())
    for places, hashes in murmur_hash.chains(chunked, count):
        found |= {int(place): hashes[:, at].tolist() for at, place in enumerate(places)}
    for place, key in enumerate(keys):
        seed, expected = 0, []
        for _ in range(count):
            seed = murmur(key.encode(), seed)
            expected.append(seed)
        assert found[place] == expected
    assert len(found) == len(keys)


def test_default_size_is_that_of_apache_hudi() -> None:
    assert (bloom_filters.DEFAULT.bits, bloom_filters.DEFAULT.hashes) == (2_587_966, 30)


@given(KEYS, st.sampled_from(TypeCode), st.integers(1, 12), st.integers(1, 12), st.integers(0, 40))
def test_filter_is_that_made_key_by_key(
    keys: list[str], type_code: TypeCode, entries: int, entries_max: int, cut: int
) -> None:
    size = replace(SMALL, entries=entries, entries_max=entries_max)
    new = NewFilter(type_code, size)
    for part in (keys[:cut], keys[cut:]):
        new.add(pa.array(part, pa.string()))
    assert new.encode() == slow(keys, type_code, size)
    assert new.stored() == StoredFilter(
        type_code=type_code.value, text=base64.b64encode(new.encode())
    )


def test_a_hash_without_a_positive_number_has_the_position_of_apache_hudi() -> None:
    # Math.abs(Integer.MIN_VALUE % bits): there is no 2^31 among Java's numbers.
    hashes = np.array([1 << 31, (1 << 32) - 7, 7], np.uint32)
    assert bloom_filters.positions(hashes, 1000).tolist() == [(1 << 31) % 1000, 7, 7]


@given(KEYS, st.sampled_from(TypeCode))
def test_each_key_that_was_added_may_be_there(keys: list[str], type_code: TypeCode) -> None:
    found = Filter.decode(made(keys, type_code).stored(), "test")
    assert found.may_contain(pa.array(keys, pa.string())).all()


def test_other_keys_are_not_there() -> None:
    keys = [f"key {number}" for number in range(130_000)]
    new = made(keys[:65_000], size=bloom_filters.DEFAULT)
    found = Filter.decode(new.stored(), "test").may_contain(pa.array(keys))
    assert np.flatnonzero(found).tolist() == list(range(65_000))


def test_null_and_empty_text_are_no_keys() -> None:
    new = made(["a"])
    new.add(pa.array(["", None]))
    new.add(pa.chunked_array([], pa.string()))
    assert new.encode() == made(["a"]).encode()
    found = Filter.decode(new.stored(), "test")
    assert found.may_contain(pa.array(["", "a"])).tolist() == [True, True]


def test_keys_in_a_dictionary_are_added() -> None:
    new = NewFilter(size=SMALL)
    new.add(pa.chunked_array([["a", "b", "a"]], pa.string()).dictionary_encode())
    assert new.encode() == slow(["a", "b", "a"], TypeCode.DYNAMIC, SMALL)


@given(KEYS, st.sampled_from(TypeCode), st.data())
@settings(max_examples=200)
def test_broken_filter_is_refused_or_read_in_its_own_bounds(
    keys: list[str], type_code: TypeCode, data: st.DataObject
) -> None:
    content = bytearray(made(keys, type_code).encode())
    if data.draw(st.booleans()):
        content = content[: data.draw(st.integers(0, len(content)))]
    for _ in range(data.draw(st.integers(0, 3))):
        if content:
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    stored = StoredFilter(type_code=type_code.value, text=base64.b64encode(bytes(content)))
    try:
        found = Filter.decode(stored, "test")
    except (errors.FormatError, errors.UnsupportedError):
        pass
    else:
        assert len(found.may_contain(pa.array(["a", "key"]))) == 2


def header(bits: int, hashes: int = 3, version: int = -1, hash_type: int = 1) -> bytes:
    return struct.pack(">iibi", version, hashes, hash_type, bits)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "cut short"),
        (header(8, version=3) + b"\0", "version 3 and hash 1"),
        (header(8, hash_type=0) + b"\0", "version -1 and hash 0"),
        (header(2**31 - 1), "2147483647 bits each in 13 bytes, expected 268435469"),
        (header(-8), "3 positions a key in -8 bits"),
        (header(8, hashes=2**31 - 1) + b"\0", "2147483647 positions"),
        (header(8) + b"\0\0", "in 15 bytes, expected 14"),
    ],
)
def test_simple_filter_of_hostile_sizes_is_refused(content: bytes, message: str) -> None:
    stored = StoredFilter(type_code="SIMPLE", text=base64.b64encode(content))
    with pytest.raises((errors.FormatError, errors.UnsupportedError), match=message):
        Filter.decode(stored, "test")


@pytest.mark.parametrize(
    ("rows", "content", "message"),
    [
        (0, b"", "0 rows"),
        (-1, b"", "-1 rows"),
        (2**31 - 1, header(8) + b"\0", "2147483647 rows"),
        (2, header(8) + b"\0" + header(7) + b"\0", "rows of different sizes"),
    ],
)
def test_dynamic_filter_of_hostile_sizes_is_refused(
    rows: int, content: bytes, message: str
) -> None:
    whole = header(8) + struct.pack(">iii", 4, 0, rows) + content
    stored = StoredFilter(type_code="DYNAMIC_V0", text=base64.b64encode(whole))
    with pytest.raises(errors.FormatError, match=message):
        Filter.decode(stored, "test")


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        (StoredFilter(type_code="OTHER", text=b""), "of type 'OTHER', expected SIMPLE or DYNAMIC"),
        (StoredFilter(type_code="SIMPLE", text=b"*"), "not base64"),
        (StoredFilter(type_code="SIMPLE", text=bytes(bloom_filters.BYTES_MAX + 1)), "at most"),
    ],
)
def test_what_is_no_filter_is_refused(stored: StoredFilter, message: str) -> None:
    with pytest.raises((errors.FormatError, errors.UnsupportedError), match=message):
        Filter.decode(stored, "test")
