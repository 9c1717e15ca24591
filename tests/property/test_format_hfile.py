"""HFiles of any entries, whole and broken."""

import struct
import tracemalloc

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from hoodie import errors
from hoodie.format.hfile_blocks import Compression
from hoodie.format.hfile_reading import Reader
from support.tables.hfiles import Pairs, hfile, leveled, pairs_of

# Few letters, so that keys share prefixes; all bytes, so that orders differ.
KEYS = st.one_of(
    st.text("ab", max_size=6).map(str.encode),
    st.binary(max_size=20),
    st.text(st.sampled_from("a\u00e9\ue000\uff21\U0001f600"), max_size=4).map(str.encode),
)
ENTRIES = st.dictionaries(KEYS, st.binary(max_size=60), max_size=60)
COMPRESSIONS = st.sampled_from(Compression)
BLOCK_BYTES = st.sampled_from([1, 60, 200, 2**20])
PEAK_BYTES_MAX = 32 * 2**20

# What lengths and counts are most dangerous as.
WORDS = st.one_of(
    st.sampled_from([-1, 0, 1, 127, 128, 2**15, 2**28, 2**30, 2**31 - 1, -(2**31)]).map(
        struct.Struct(">i").pack
    ),
    st.binary(max_size=9),
)
CHANGES = st.lists(st.tuples(st.integers(0, 2**20), WORDS), min_size=1, max_size=4)


def files(pairs: Pairs, data: st.DataObject) -> bytes:
    """Return a file of some entries: ours, or of several index levels."""
    compression = data.draw(COMPRESSIONS)
    levels = data.draw(st.integers(1, 4))
    if levels > 1 and pairs:
        return leveled(pairs, levels, compression=compression)
    return hfile(pairs, compression=compression, block_bytes=data.draw(BLOCK_BYTES))


@given(ENTRIES, st.data())
@settings(deadline=None)  # The machine is shared.
def test_entries_are_read_as_written(entries: dict[bytes, bytes], data: st.DataObject) -> None:
    pairs = sorted(entries.items())
    reader = Reader.over("any.hfile", files(pairs, data))
    assert pairs_of(reader.scan()) == pairs
    assert reader.entry_count == len(pairs)


@given(ENTRIES, st.lists(KEYS, max_size=10), st.data())
@settings(deadline=None)  # The machine is shared.
def test_keys_are_found_as_in_a_dictionary(
    entries: dict[bytes, bytes], others: list[bytes], data: st.DataObject
) -> None:
    reader = Reader.over("any.hfile", files(sorted(entries.items()), data))
    present = data.draw(st.lists(st.sampled_from(sorted(entries)))) if entries else []
    asked = [*others, *present]
    expected = sorted((key, entries[key]) for key in set(asked) if key in entries)
    assert pairs_of([reader.lookup(asked)]) == expected
    assert pairs_of([reader.lookup(pa.array(asked, pa.binary()))]) == expected
    assert [reader.get(key) for key in others] == [entries.get(key) for key in others]


@given(ENTRIES, st.lists(KEYS, max_size=4), KEYS, st.none() | KEYS, st.data())
@settings(deadline=None)  # The machine is shared.
def test_prefixes_and_ranges_are_found_as_in_a_list(
    entries: dict[bytes, bytes],
    prefixes: list[bytes],
    low: bytes,
    high: bytes | None,
    data: st.DataObject,
) -> None:
    pairs = sorted(entries.items())
    reader = Reader.over("any.hfile", files(pairs, data))
    begins = [(key, value) for key, value in pairs if key.startswith(tuple(prefixes))]
    assert pairs_of(reader.with_prefixes(prefixes)) == begins
    within = [pair for pair in pairs if low <= pair[0] and (high is None or pair[0] < high)]
    assert pairs_of(reader.between(low, high)) == within


@given(st.sets(st.text(st.sampled_from("ab\u00e9\ue000\uff21\U0001f600\U0010ffff"), max_size=4)))
@settings(deadline=None)  # The machine is shared.
def test_keys_in_java_order_are_all_found(texts: set[str]) -> None:
    ordered = sorted(texts, key=lambda text: text.encode("utf-16-be"))
    pairs = [(text.encode(), b"") for text in ordered]
    reader = Reader.over("java.hfile", leveled(pairs, 2) if pairs else hfile([]))
    assert reader.lookup([key for key, _ in pairs]).num_rows == len(pairs)
    for key, _ in pairs:
        found = pairs_of(reader.with_prefixes([key]))
        assert found == [pair for pair in pairs if pair[0].startswith(key)]


@given(ENTRIES.filter(bool), CHANGES, st.data())
@settings(deadline=None, max_examples=300)  # The machine is shared; most changes hit the padding.
def test_broken_file_is_read_or_refused_in_little_memory(
    entries: dict[bytes, bytes], changes: list[tuple[int, bytes]], data: st.DataObject
) -> None:
    content = bytearray(files(sorted(entries.items()), data))
    # Of 4096 bytes of the trailer, most are padding.
    interesting = len(content) - 3900
    for at, change in changes:
        start = at % interesting
        content[start : start + len(change)] = change
    broken = bytes(content[: len(content) - data.draw(st.integers(0, 20))])
    tracemalloc.start()
    held = pa.total_allocated_bytes()
    try:
        reader = Reader.over("broken.hfile", broken)
        for batch in reader.scan():
            assert pa.total_allocated_bytes() - held < PEAK_BYTES_MAX
            assert batch.num_rows > 0
        reader.lookup(sorted(entries))
        list(reader.with_prefixes([b"a"]))
    except (errors.FormatError, errors.UnsupportedError):
        pass
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < PEAK_BYTES_MAX
