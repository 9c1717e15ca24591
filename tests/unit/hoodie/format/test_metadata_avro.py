"""Records of metadata tables: which files they leave."""

import contextlib
import io
import json
from collections.abc import Mapping

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodie import errors
from hoodie.format import metadata_avro
from hoodie.format.metadata_avro import Value

FILE_INFO = {
    "type": "record",
    "name": "HoodieMetadataFileInfo",
    "fields": [{"name": "size", "type": "long"}, {"name": "isDeleted", "type": "boolean"}],
}
SCHEMA = {
    "type": "record",
    "name": "HoodieMetadataRecord",
    "fields": [
        {"name": "key", "type": "string"},
        {"name": "type", "type": "int"},
        {
            "name": "filesystemMetadata",
            "type": ["null", {"type": "map", "values": FILE_INFO}],
            "default": None,
        },
    ],
}
Sizes = Mapping[str, int | None]
"""Sizes by name; None stands for a deleted file."""


def value(sizes: Sizes | None, record_type: int = 2) -> Value:
    infos = None
    if sizes is not None:
        infos = {
            name: {"size": size or 0, "isDeleted": size is None} for name, size in sizes.items()
        }
    stream = io.BytesIO()
    record = {"key": "", "type": record_type, "filesystemMetadata": infos}
    fastavro.schemaless_writer(stream, fastavro.parse_schema(dict(SCHEMA)), record)
    return Value(stream.getvalue(), json.dumps(SCHEMA).encode())


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
        (Value(b"\x00", json.dumps(SCHEMA).encode()), "broken Avro"),
        (Value(value({"a": 1}).content + b"x", json.dumps(SCHEMA).encode()), "not one record"),
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
    broken = Value(content, json.dumps(SCHEMA).encode())
    with contextlib.suppress(errors.FormatError):
        metadata_avro.merged_sizes([broken], "key p")
