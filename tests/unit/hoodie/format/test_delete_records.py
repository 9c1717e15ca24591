"""The content of delete blocks: format.md: Log files; blocks by Apache Hudi 1.2.0."""

import struct
from datetime import date
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from hoodie import errors
from hoodie.format import delete_cuts, delete_records, delete_rows
from hoodie.model.value_wrappers import Wrapper

KEYS = pa.array(["k3", "k4"])

# HoodieDeleteBlock.getContentBytes of the bundle, deleting k3 and k4 in p1 with one ordering value.
HUDI = {
    "int 0": "00000003000000160402046b3302047031040002046b3402047031040000",
    "int": "00000003000000160402046b3302047031040a02046b3402047031040a00",
    "long": "00000003000000160402046b3302047031060e02046b3402047031060e00",
    "float": "000000030000001c0402046b3302047031080000c03f02046b3402047031080000c03f00",
    "double": "00000003000000240402046b33020470310a00000000000004c0"
    "02046b34020470310a00000000000004c000",
    "boolean": "00000003000000160402046b3302047031020102046b3402047031020100",
    "string": "000000030000001c0402046b33020470310e0673c3a902046b34020470310e0673c3a900",
    "decimal": "00000003000000240402046b3302047031120e2bdbb64bc09000"
    "02046b3402047031120e2bdbb64bc0900000",
    "timestamp": "00000003000000240402046b330204703116f081818283898506"
    "02046b340204703116f08181828389850600",
    "date": "000000030000001a0402046b330204703110f0a80202046b340204703110f0a80200",
    "bytes": "000000030000001a0402046b33020470310c04010202046b34020470310c04010200",
    "array": "00000003000000240402046b3302047031180204060a0e0278000"
    "2046b3402047031180204060a0e02780000",
    "null": "00000003000000140402046b33020470310002046b3402047031000" + "0",
}
WRITTEN: dict[str, pa.Array | tuple[pa.Array, ...] | None] = {
    "int 0": None,
    "int": pa.array([5, 5], pa.int32()),
    "long": pa.array([7, 7], pa.int64()),
    "float": pa.array([1.5, 1.5], pa.float32()),
    "double": pa.array([-2.5, -2.5]),
    "boolean": pa.array([True, True]),
    "string": pa.array(["sé", "sé"]),
    "decimal": pa.array([Decimal("12.345")] * 2, pa.decimal128(10, 3)),
    "bytes": pa.array([b"\x01\x02"] * 2),
    "array": (pa.array([5, 5], pa.int64()), pa.array(["x", "x"])),
}
READ: dict[str, tuple[Wrapper, pa.Array]] = {
    "int": (Wrapper.INT, WRITTEN["int"]),
    "long": (Wrapper.LONG, WRITTEN["long"]),
    "float": (Wrapper.FLOAT, WRITTEN["float"]),
    "double": (Wrapper.DOUBLE, WRITTEN["double"]),
    "boolean": (Wrapper.BOOLEAN, WRITTEN["boolean"]),
    "string": (Wrapper.STRING, WRITTEN["string"]),
    "decimal": (Wrapper.DECIMAL, pa.array([Decimal("12.345")] * 2, pa.decimal128(30, 15))),
    "timestamp": (
        Wrapper.TIMESTAMP_MICROS,
        pa.array([1_700_000_000_123_000] * 2, pa.timestamp("us", "UTC")),
    ),
    "date": (Wrapper.DATE, pa.array([date(2022, 1, 8)] * 2)),
    "bytes": (Wrapper.BYTES, WRITTEN["bytes"]),
}


def decoded(content: bytes) -> delete_records.Deletes:
    return delete_records.decode(pa.py_buffer(content))


def hudi(name: str) -> bytes:
    return bytes.fromhex(HUDI[name])


@pytest.mark.parametrize("name", WRITTEN)
def test_deletes_are_written_as_hudi_does(name: str) -> None:
    assert delete_records.encode(KEYS, "p1", WRITTEN[name]) == hudi(name)


@pytest.mark.parametrize("name", READ)
def test_deletes_of_hudi_are_read_with_their_wrapper(name: str) -> None:
    deletes = decoded(hudi(name))
    wrapper, values = READ[name]
    assert deletes.keys.equals(KEYS)
    assert deletes.ordering == ({wrapper: values},)
    assert not deletes.is_default.any()


@pytest.mark.parametrize("name", ["int 0", "null"])
def test_delete_without_ordering_value_is_a_default(name: str) -> None:
    deletes = decoded(hudi(name))
    assert deletes.keys.equals(KEYS)
    assert deletes.ordering == ()
    assert deletes.is_default.all()


def test_several_ordering_values_are_read_by_field() -> None:
    deletes = decoded(hudi("array"))
    assert deletes.ordering == (
        {Wrapper.LONG: pa.array([5, 5], pa.int64())},
        {Wrapper.STRING: pa.array(["x", "x"])},
    )
    assert not deletes.is_default.any()


@pytest.mark.parametrize("name", HUDI)
def test_both_readers_read_the_same(name: str) -> None:
    datum = pa.py_buffer(hudi(name)).slice(8)
    cut = delete_cuts.decode(datum)
    assert cut is not None
    keys, ordering = delete_rows.decode(datum)
    assert cut[0].equals(keys)
    if name != "null":
        assert cut[1].columns == ordering.columns
    assert (cut[1].is_array == ordering.is_array).all()


@pytest.mark.parametrize(
    ("content", "keys"),
    [
        # A delete by Spark SQL in a table of version 9, and the block of a new metadata table.
        ("000000030000000e02020 86b303033020465750400 00", ["k003"]),
        ("000000030000000100", []),
    ],
)
def test_blocks_of_hudi_are_read(content: str, keys: list[str]) -> None:
    deletes = decoded(bytes.fromhex(content.replace(" ", "")))
    assert deletes.keys.to_pylist() == keys
    assert deletes.is_default.tolist() == [True] * len(keys)


def test_no_deletes_are_a_block_too() -> None:
    content = delete_records.encode(pa.array([], pa.string()), "p1")
    assert content.hex() == "000000030000000100"


@pytest.mark.parametrize("type_", [pa.large_string(), pa.string_view()])
def test_keys_may_be_of_any_text_type_and_chunked(type_: pa.DataType) -> None:
    keys = pa.chunked_array([KEYS.slice(0, 1).cast(type_), KEYS.slice(1).cast(type_)])
    values = pa.chunked_array([pa.array([7], pa.int64())] * 2)
    assert delete_records.encode(keys, "p1", values) == hudi("long")


def test_dates_and_timestamps_are_written_as_spark_holds_them() -> None:
    dates = delete_records.encode(KEYS, "p1", pa.array([1, 2], pa.date32()))
    assert decoded(dates).ordering == ({Wrapper.INT: pa.array([1, 2], pa.int32())},)
    times = delete_records.encode(KEYS, "p1", pa.array([1, 2], pa.timestamp("us", "UTC")))
    assert decoded(times).ordering == ({Wrapper.LONG: pa.array([1, 2], pa.int64())},)


def test_integer_zero_among_others_is_a_default() -> None:
    deletes = decoded(delete_records.encode(KEYS, "", pa.array([0, 3], pa.int32())))
    assert deletes.is_default.tolist() == [True, False]
    assert deletes.ordering == ({Wrapper.INT: pa.array([None, 3], pa.int32())},)
    longs = decoded(delete_records.encode(KEYS, "", pa.array([0, 3], pa.int64())))
    assert longs.is_default.tolist() == [False, False]


def records(*parts: str) -> bytes:
    """Return a block of delete records given in hexadecimal."""
    datum = bytes([2 * len(parts)]) + b"".join(map(bytes.fromhex, parts)) + b"\x00"
    return struct.pack(">ii", 3, len(datum)) + datum


def test_mixed_wrappers_are_read_one_by_one() -> None:
    content = records(
        "02026b 0202 70 0400",  # k in p: int 0
        "02026c 0202 70 060e",  # l in p: long 7
        "02026d 0202 71 0406",  # m in q: int 3
        "02026e 00 00",  # n without partition path and ordering value
        "02026f 0202 70 18 02 02 0602 00",  # o in p: an array of long 1
    )
    assert delete_cuts.decode(pa.py_buffer(content).slice(8)) is None
    deletes = decoded(content)
    assert deletes.keys.to_pylist() == ["k", "l", "m", "n", "o"]
    assert deletes.is_default.tolist() == [True, False, False, True, False]
    assert deletes.ordering == (
        {
            Wrapper.LONG: pa.array([None, 7, None, None, 1], pa.int64()),
            Wrapper.INT: pa.array([None, None, 3, None, None], pa.int32()),
        },
    )


def test_key_that_looks_like_a_record_is_read() -> None:
    # The key holds what stands between keys and values: it is cut too often, and read one by one.
    keys = pa.array(["a", "b\x02\x04p1\x04\x00\x02", "c"])
    content = delete_records.encode(keys, "p1")
    assert delete_cuts.decode(pa.py_buffer(content).slice(8)) is None
    assert decoded(content).keys.equals(keys)


def test_null_is_refused() -> None:
    with pytest.raises(errors.InvalidInputError, match="1 of 2 deleted keys are null"):
        delete_records.encode(pa.array(["a", None]), "p")
    with pytest.raises(errors.InvalidInputError, match="1 of 2 deletes have a null ordering value"):
        delete_records.encode(KEYS, "p", pa.array([1, None]))


def test_value_without_wrapper_is_refused() -> None:
    for values in (
        pa.array([[1], [2]]),
        pa.array([1, 2], pa.uint64()),
        pa.array([1, 2], pa.time64("us")),
    ):
        with pytest.raises(errors.UnsupportedError, match="ordering values of type"):
            delete_records.encode(KEYS, "p", values)
    with pytest.raises(errors.InvalidInputError, match="does not fit decimal"):
        delete_records.encode(KEYS, "p", pa.array([Decimal(10**20)] * 2, pa.decimal128(38, 0)))


def test_kryo_is_refused() -> None:
    with pytest.raises(errors.UnsupportedError, match="delete block version 2 is not read"):
        decoded(struct.pack(">ii", 2, 1) + b"\x00")


@pytest.mark.parametrize("name", HUDI)
def test_every_truncation_is_a_format_error(name: str) -> None:
    content = hudi(name)
    for length in range(len(content)):
        with pytest.raises(errors.FormatError):
            decoded(content[:length])
        datum = content[8:length]
        with pytest.raises(errors.FormatError):
            decoded(struct.pack(">ii", 3, len(datum)) + datum)
    with pytest.raises(errors.FormatError):
        decoded(struct.pack(">ii", 3, len(content) - 7) + content[8:] + b"\x00")


def test_delete_without_key_is_a_format_error() -> None:
    with pytest.raises(errors.FormatError, match="delete record 0 has no key"):
        decoded(records("00 0202 70 0400"))


def test_ordering_value_beyond_its_wrapper_is_a_format_error() -> None:
    beyond = "02026b 00 04 8080808010"  # k: int 2147483648
    with pytest.raises(errors.FormatError, match="does not fit its IntWrapper"):
        decoded(records(beyond, "02026c 0202 70 0400"))


def test_many_deletes_are_read_as_written() -> None:
    count = 1000
    keys = pa.array([f"key-{row}" * (row % 30 + 1) for row in range(count)])
    values = pa.array(np.arange(count) * 10**12 - 5)
    deletes = decoded(delete_records.encode(keys, "a/b=c", values))
    assert deletes.keys.equals(keys)
    assert deletes.ordering == ({Wrapper.LONG: values},)
