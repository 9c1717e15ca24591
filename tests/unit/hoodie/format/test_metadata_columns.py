"""Records of statistics, all at once: the same as one by one, whatever their schema and bytes."""

import contextlib
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodie import errors
from hoodie.format import metadata_avro, metadata_columns, metadata_schemas
from hoodie.format.metadata_avro import RecordType, Value
from hoodie.format.metadata_columns import HIGH, LOW, bound
from hoodie.model.file_statistics import ColumnStatistics, ValueType
from hoodie.model.value_wrappers import Wrapper

SCHEMA = metadata_schemas.RECORD.text
PLAIN = ColumnStatistics(
    file_name="f", column="c", low=1, high=5, kind=Wrapper.INT, values=4, nulls=1
)
EVERY = (
    PLAIN,
    replace(PLAIN, value_type=ValueType.INT, is_tight=True),
    replace(PLAIN, value_type=99, column="another column"),
    replace(PLAIN, low="a", high="b", kind=Wrapper.STRING, nulls=None),
    replace(PLAIN, low=None, high=None, kind=None, nulls=0),
    replace(PLAIN, low=-(2**63), high=2**63 - 1, kind=Wrapper.LONG),
    replace(PLAIN, low=-0.5, high=float("inf"), kind=Wrapper.DOUBLE),
    replace(PLAIN, low=b"a", high=b"b", kind=Wrapper.BYTES, type_info="5,2", value_type=10),
)
KINDS: dict[Wrapper, st.SearchStrategy[Any]] = {
    Wrapper.BOOLEAN: st.booleans(),
    Wrapper.INT: st.integers(-(2**31), 2**31 - 1),
    Wrapper.LONG: st.integers(-(2**63), 2**63 - 1),
    Wrapper.FLOAT: st.floats(width=32, allow_nan=False),
    Wrapper.DOUBLE: st.floats(allow_nan=False),
    Wrapper.BYTES: st.binary(),
    Wrapper.STRING: st.text(),
    Wrapper.DATE: st.integers(-(2**31), 2**31 - 1),
    Wrapper.DECIMAL: st.decimals(-(10**14), 10**14, places=15),
    Wrapper.TIMESTAMP_MICROS: st.integers(-(2**63), 2**63 - 1),
    Wrapper.LOCAL_DATE: st.integers(-(2**31), 2**31 - 1),
}


@st.composite
def statistics(draw: st.DrawFn) -> ColumnStatistics:
    kind = draw(st.none() | st.sampled_from(list(KINDS)))
    numbers = st.none() | st.integers(0, 2**63 - 1)
    return ColumnStatistics(
        file_name=draw(st.text()),
        column=draw(st.text()),
        low=None if kind is None else draw(KINDS[kind]),
        high=None if kind is None else draw(KINDS[kind]),
        kind=kind,
        value_type=draw(st.none() | st.integers(0, 99)),
        values=draw(numbers),
        nulls=draw(numbers),
        size_bytes=draw(numbers),
        plain_bytes=draw(numbers),
        is_tight=draw(st.booleans()),
    )


def encoded(each: ColumnStatistics) -> bytes:
    return metadata_avro.encode_statistics(each, RecordType.COLUMN_STATS)


def decoded(contents: Sequence[bytes], schema: bytes = SCHEMA) -> pa.Table:
    # As a part of an array, as what a filter leaves of a block is.
    values = pa.array([b"before", *contents], pa.binary()).slice(1)
    return metadata_columns.decode(values, schema, RecordType.COLUMN_STATS)


def statistics_of(table: pa.Table) -> list[ColumnStatistics]:
    found = []
    for row in table.to_pylist():
        kind = None if row[metadata_columns.KIND] is None else Wrapper(row[metadata_columns.KIND])
        found.append(
            ColumnStatistics(
                file_name=row["fileName"],
                column=row["columnName"] or "",
                low=None if kind is None else row[bound(LOW, kind)],
                high=None if kind is None else row[bound(HIGH, kind)],
                kind=kind,
                value_type=row["valueType.typeOrdinal"],
                type_info=row["valueType.additionalInfo"],
                values=row["valueCount"],
                nulls=row["nullCount"],
                size_bytes=row["totalSize"],
                plain_bytes=row["totalUncompressedSize"],
                is_tight=row["isTightBound"],
            )
        )
    return found


def test_statistics_are_read_as_they_were_written() -> None:
    found = statistics_of(decoded(list(map(encoded, EVERY))))
    assert found == list(EVERY)
    assert decoded([]).num_rows == 0


@given(st.lists(statistics(), max_size=6))
def test_all_at_once_are_the_same_as_one_by_one(written: list[ColumnStatistics]) -> None:
    contents = [encoded(each) for each in written]
    one_by_one = [
        metadata_avro.decode_statistics(Value(each, SCHEMA), "one", RecordType.COLUMN_STATS)
        for each in contents
    ]
    assert statistics_of(decoded(contents)) == one_by_one == written


def test_deleted_files_are_said_to_be_deleted() -> None:
    contents = [encoded(PLAIN), metadata_avro.encode_no_statistics(PLAIN)]
    assert decoded(contents).column("isDeleted").to_pylist() == [False, True]


def test_records_of_older_releases_have_no_types_of_values() -> None:
    """1.0 writes neither the type of values nor, as the last branch of a bound, arrays."""
    older = json.loads(SCHEMA)
    (field,) = [each for each in older["fields"] if each["name"] == "ColumnStatsMetadata"]
    inner = field["type"][1]
    inner["fields"] = [each for each in inner["fields"] if each["name"] != "valueType"]
    for each in inner["fields"]:
        if each["name"] in (metadata_columns.LOW, metadata_columns.HIGH):
            each["type"].pop()
    # The type of values is the last field of the statistics, and absent here.
    place = encoded(PLAIN).rindex(b"\x00\x00\x00")
    content = encoded(PLAIN)[:place] + b"\x00\x00"
    (found,) = statistics_of(decoded([content], json.dumps(older).encode()))
    assert found == PLAIN


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (encoded(PLAIN)[:-1], "ends within|of bytes|left"),
        (encoded(PLAIN) + b"x", "bytes after its last field"),
        (
            metadata_avro.encode_statistics(PLAIN, RecordType.PARTITION_STATS),
            "a record of type 6, expected 3",
        ),
        (b"", "."),
    ],
)
def test_broken_records_are_refused(content: bytes, message: str) -> None:
    with pytest.raises(errors.FormatError, match=message):
        decoded([encoded(PLAIN), content])


def test_records_of_files_are_refused() -> None:
    with pytest.raises(errors.UnsupportedError, match="filesystemMetadata is a map"):
        decoded([metadata_avro.encode_sizes({"a": 1}, RecordType.FILES)])


@pytest.mark.parametrize("schema", [b"{", b"", b'"null"', b'{"type": "record"}'])
def test_broken_schemas_are_refused(schema: bytes) -> None:
    with pytest.raises(errors.FormatError, match="schema"):
        decoded([encoded(PLAIN)], schema)


@given(st.lists(st.binary(max_size=60), max_size=4))
def test_any_bytes_are_read_or_refused(contents: list[bytes]) -> None:
    with contextlib.suppress(errors.FormatError, errors.UnsupportedError):
        decoded(contents)


@given(st.integers(0, 40), st.binary(max_size=4))
def test_any_damage_is_read_or_refused(place: int, damage: bytes) -> None:
    content = encoded(EVERY[1])
    with contextlib.suppress(errors.FormatError, errors.UnsupportedError):
        decoded([content, content[:place] + damage + content[place + len(damage) :]])
