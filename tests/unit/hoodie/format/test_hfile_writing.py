"""Writing HFiles: the same bytes for the same entries, and what is refused."""

import io
import pickle
import struct
from pathlib import Path

import pyarrow as pa
import pytest

from hoodie import errors
from hoodie.format import hfile_blocks, hfile_writing
from hoodie.format.hfile_blocks import Compression
from hoodie.format.hfile_reading import Reader
from hoodie.format.hfile_writing import Options, Writer
from support.tables.hfiles import columns, hfile, pairs_of

PAIRS = [(b"key%05d" % number, b"value %d" % number) for number in range(3000)]


@pytest.mark.parametrize("step", [1, 7, 1000, 3000])
def test_bytes_do_not_depend_on_batches(step: int) -> None:
    sink = io.BytesIO()
    writer = Writer(sink, Options(created_ms=1, block_bytes=1000))
    for start in range(0, len(PAIRS), step):
        writer.append(*columns(PAIRS[start : start + step]))
    writer.finish()
    assert sink.getvalue() == hfile(PAIRS, block_bytes=1000)


def appended(*parts: list[tuple[bytes, bytes]], prepared: set[int]) -> bytes:
    """Return a file of parts, of which those with some numbers were prepared elsewhere."""
    options = Options(created_ms=1, block_bytes=1000)
    sink = io.BytesIO()
    writer = Writer(sink, options)
    for number, part in enumerate(parts):
        if number in prepared:
            run = hfile_writing.prepare(*columns(part), options)
            writer.append_run(pickle.loads(pickle.dumps(run)))
        else:
            writer.append(*columns(part))
    writer.finish()
    return sink.getvalue()


def test_entries_that_were_prepared_are_read_as_the_others() -> None:
    whole = appended(PAIRS[:1000], PAIRS[1000:1001], PAIRS[1001:], prepared={0, 1, 2})
    mixed = appended(PAIRS[:10], PAIRS[10:1500], PAIRS[1500:], prepared={1})
    for content in (whole, mixed):
        reader = Reader.over("x.hfile", content)
        assert pairs_of(reader.scan()) == PAIRS
        found = reader.lookup(pa.array([b"key00000", b"key01000", b"key02999"]))
        assert [key for key, _ in pairs_of([found])] == [b"key00000", b"key01000", b"key02999"]
    assert appended(PAIRS, prepared={0}) == hfile(PAIRS, block_bytes=1000)
    info, expected = (
        Reader.over("x", each).file_info for each in (whole, appended(PAIRS, prepared=set()))
    )
    assert info == expected


def test_entries_that_were_prepared_and_are_not_above_those_before_are_refused() -> None:
    for parts in ((PAIRS[:10], PAIRS[9:20]), (PAIRS[5:10], PAIRS[:5])):
        for prepared in ({0, 1}, {1}):
            with pytest.raises(errors.InvalidInputError, match="expected ascending keys"):
                appended(*parts, prepared=prepared)


def test_blocks_are_filled_up_to_their_size_and_no_further() -> None:
    # Each entry has 21 + 3 + 6 = 30 bytes.
    pairs = [(b"k%02d" % number, b"value!") for number in range(10)]
    content = hfile(pairs, compression=Compression.NONE, block_bytes=90)
    assert content.count(b"DATABLK*") == 4
    sizes = [
        struct.unpack_from(">i", content, at + 12)[0]
        for at in range(len(content))
        if content.startswith(b"DATABLK*", at)
    ]
    assert sizes == [90, 90, 90, 30]


def test_entry_larger_than_a_block_has_one_of_its_own() -> None:
    pairs = [(b"a", b"1"), (b"b", bytes(500)), (b"c", b"3")]
    content = hfile(pairs, compression=Compression.NONE, block_bytes=100)
    assert content.count(b"DATABLK*") == 3
    assert pairs_of(Reader.over("x.hfile", content).scan()) == pairs


def test_written_blocks_leave_memory() -> None:
    sink = io.BytesIO()
    writer = Writer(sink, Options(created_ms=1, block_bytes=1000))
    writer.append(*columns(PAIRS[:1500]))
    assert len(sink.getvalue()) > 1000
    assert sink.getvalue().startswith(b"DATABLK*")


def test_file_info_is_what_apache_hudi_says_of_a_file() -> None:
    given = {"schema": b"{}", "minRecordKey": PAIRS[0][0]}
    info = Reader.over("x.hfile", hfile(PAIRS, file_info=given)).file_info
    assert info == {
        **given,
        "hfile.LASTKEY": b"\x00\x08key02999",
        "hfile.AVG_KEY_LEN": b"\x00\x00\x00\x08",
        "hfile.AVG_VALUE_LEN": struct.pack(">i", sum(len(value) for _, value in PAIRS) // 3000),
        "hfile.CREATE_TIME_TS": b"\x00\x00\x00\x00\x00\x00\x00\x01",
        "KEY_VALUE_VERSION": b"\x00\x00\x00\x01",
        "MAX_MEMSTORE_TS_KEY": b"\x00\x00\x00\x00\x00\x00\x00\x00",
    }


def test_file_info_is_in_the_order_of_a_java_map() -> None:
    given = {
        "schema": b"",
        "minRecordKey": b"",
        "maxRecordKey": b"",
        "bloomFilterTypeCode": b"",
    }
    info = Reader.over("x.hfile", hfile(PAIRS, file_info=given)).file_info
    # As in a base file of Apache Hudi 1.2.0.
    assert list(info) == [
        "schema",
        "bloomFilterTypeCode",
        "hfile.LASTKEY",
        "hfile.AVG_VALUE_LEN",
        "minRecordKey",
        "hfile.AVG_KEY_LEN",
        "maxRecordKey",
        "KEY_VALUE_VERSION",
        "MAX_MEMSTORE_TS_KEY",
        "hfile.CREATE_TIME_TS",
    ]


def test_checksums_are_shorter_than_the_last_entry_of_a_block() -> None:
    # Apache Hudi's reader takes their length off the content of the block.
    pairs = [(b"key%03d" % number, bytes(970)) for number in range(900)] + [(b"last", b"1")]
    content = hfile(pairs, compression=Compression.NONE)
    (per_checksum,) = struct.unpack_from(">i", content, 25)
    after, _, framed = (struct.unpack_from(">i", content, at)[0] for at in (8, 12, 29))
    assert hfile_blocks.HEADER_BYTES + after - framed == 4
    assert -(-(hfile_blocks.HEADER_BYTES + after) // per_checksum) * 4 < 21 + len(b"last") + 1
    # Where the last entry is long enough, it is as Apache Hudi has it.
    assert struct.unpack_from(">i", hfile(pairs[:-1], compression=Compression.NONE), 25)[0] == 16384


@pytest.mark.parametrize(
    ("keys", "values", "what"),
    [
        ([b"b", b"a"], [b"", b""], "key b'a' of an HFile follows b'b'"),
        ([b"a", b"a"], [b"", b""], "key b'a' of an HFile follows b'a'"),
        ([b"a", None], [b"", b""], "a null"),
        ([b"a", b"b"], [b"", None], "a null"),
        ([b"a" * 32768], [b""], "longer than 32767 bytes"),
    ],
)
def test_entries_that_no_hfile_has_are_refused(
    keys: list[bytes | None], values: list[bytes | None], what: str
) -> None:
    writer = Writer(io.BytesIO(), Options(created_ms=1))
    with pytest.raises(errors.InvalidInputError, match=what):
        writer.append(pa.array(keys, pa.binary()), pa.array(values, pa.binary()))


def test_key_at_or_below_the_batch_before_is_refused() -> None:
    writer = Writer(io.BytesIO(), Options(created_ms=1))
    writer.append(*columns([(b"b", b"")]))
    with pytest.raises(errors.InvalidInputError, match="key b'b' of an HFile follows b'b'"):
        writer.append(*columns([(b"b", b"")]))


def test_entry_larger_than_a_reader_takes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hfile_blocks, "CONTENT_BYTES_MAX", 1000)
    with pytest.raises(errors.InvalidInputError, match="longer than 1000 bytes"):
        hfile([(b"a", bytes(1000))], block_bytes=500)


def test_file_longer_than_apache_hudi_reads_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hfile_writing, "FILE_BYTES_MAX", 10_000)
    with pytest.raises(errors.InvalidInputError, match="longer than 10000 bytes"):
        hfile(PAIRS, compression=Compression.NONE, block_bytes=1000)


def test_slices_of_arrays_are_written_as_they_read() -> None:
    keys, values = columns(PAIRS)
    sink = io.BytesIO()
    writer = Writer(sink, Options(created_ms=1))
    writer.append(keys[10:20], values[10:20])
    writer.finish()
    assert sink.getvalue() == hfile(PAIRS[10:20])


def test_file_may_be_written_to_a_disk(tmp_path: Path) -> None:
    path = tmp_path / "x.hfile"
    with path.open("wb") as sink:
        writer = Writer(sink, Options(created_ms=1))
        writer.append(*columns(PAIRS))
        writer.finish()
    assert path.read_bytes() == hfile(PAIRS)
