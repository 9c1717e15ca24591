"""Records of metadata tables: which files they leave."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodie import errors
from hoodie.format import metadata_avro
from hoodie.format.metadata_avro import Value
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
