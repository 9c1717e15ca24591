"""Records of metadata tables: which files they leave."""

import contextlib
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodie import errors
from hoodie.format import metadata_avro, metadata_schemas
from hoodie.format.metadata_avro import Value
from hoodie.model.file_statistics import ColumnStatistics, ValueType
from hoodie.model.value_wrappers import Wrapper
from support.tables.metadata_tables import SCHEMA_JSON, Sizes, value


def merged(*records: Sizes) -> dict[str, int]:
    return metadata_avro.merged_sizes(map(value, records), "key p")


def test_later_records_add_and_delete() -> None:
    assert merged({"a": 1, "b": 2}, {"c": 3, "a": None}) == {"b": 2, "c": 3}
    assert merged({"a": None}, {"a": 5}) == {"a": 5}
    assert merged({"a": 5}, {"a": None}, {"a": 6}) == {"a": 6}
    assert merged() == {}


def test_of_two_sizes_the_greater_counts() -> None:
    assert merged({"a": 5}, {"a": 3}) == {"a": 5}


def test_record_without_files_changes_nothing() -> None:
    found = metadata_avro.merged_sizes([value({"a": 1}), value(None)], "key p")
    assert found == {"a": 1}


@given(
    st.lists(
        st.dictionaries(st.sampled_from("abc"), st.one_of(st.none(), st.integers(1, 9))),
        max_size=6,
    )
)
def test_applying_a_record_again_changes_nothing(records: list[Sizes]) -> None:
    twice = [each for record in records for each in (record, record)]
    assert merged(*twice) == merged(*records)


STATISTICS = ColumnStatistics(
    file_name="f", column="c", low=1, high=5, kind=Wrapper.INT, values=4, nulls=1
)


def told_by(*written: ColumnStatistics) -> ColumnStatistics | None:
    contents = [
        metadata_avro.encode_statistics(each, metadata_avro.RecordType.COLUMN_STATS)
        for each in written
    ]
    schema = metadata_schemas.RECORD.text
    values = [Value(content, schema) for content in contents]
    return metadata_avro.column_statistics(values, "key c")


def test_statistics_are_read_as_they_were_written() -> None:
    for each in (
        STATISTICS,
        replace(STATISTICS, value_type=ValueType.INT, is_tight=True),
        replace(STATISTICS, value_type=99),
        replace(STATISTICS, low="a", high="b", kind=Wrapper.STRING, nulls=None),
        replace(STATISTICS, low=None, high=None, kind=None, nulls=0),
        replace(
            STATISTICS, low=b"a", high=b"b", kind=Wrapper.BYTES, type_info="5,2", value_type=10
        ),
    ):
        assert told_by(each) == each
        assert told_by(each, each) == each


def test_statistics_that_differ_or_are_no_numbers_are_not_relied_on() -> None:
    assert told_by(STATISTICS, replace(STATISTICS, high=6)) is None
    nan = replace(STATISTICS, low=1.0, high=math.nan, kind=Wrapper.DOUBLE)
    assert told_by(nan) is None
    assert told_by() is None


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (Value(b"\x00", SCHEMA_JSON.encode()), "broken Avro"),
        (Value(value({"a": 1}).content + b"x", SCHEMA_JSON.encode()), "not one record"),
        (Value(value({"a": 1}).content, b"{"), "broken Avro"),
        (Value(value({"a": 1}).content, b""), "broken Avro"),
        (Value(value({"a": 1}).content, b'"null"'), "broken Avro"),
        (value({"a": 1}, record_type=5), "type 5"),
    ],
)
def test_broken_record_is_told_with_its_source(broken: Value, message: str) -> None:
    with pytest.raises(errors.FormatError, match=f"key p.*{message}"):
        metadata_avro.merged_sizes([broken], "key p")


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    broken = Value(content, SCHEMA_JSON.encode())
    with contextlib.suppress(errors.FormatError):
        metadata_avro.merged_sizes([broken], "key p")
