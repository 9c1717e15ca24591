"""Metadata of savepoints in Avro, against what Apache Hudi 1.2.0 wrote."""

import io
import json
from pathlib import Path

import fastavro
import pytest

from hoodie import errors
from hoodie.format import savepoint_avro, timeline_avro, timeline_schemas
from hoodie.model import commits, plans

STORED = json.loads(
    (Path(__file__).parent / "data" / "HoodieSavepointMetadata.json").read_text(encoding="utf-8")
)
SAVEPOINT = plans.Savepoint(
    by="ops",
    comment="before the ü migration",
    saved_at_ms=1795245710586,
    file_names={
        "": ("a-0_0-1-2_20261121072149370.parquet",),
        "b/c": (".a-0_20261121072149370.log.1_0-1-2", "a-0_0-1-2_20261121072149370.parquet"),
    },
)


def container(value: object) -> bytes:
    stream = io.BytesIO()
    fastavro.writer(stream, STORED["schema"], [value])
    return stream.getvalue()


def test_savepoint_of_hudi_is_read_and_written_the_same() -> None:
    content = container(STORED["value"])
    savepoint = savepoint_avro.decode(content)
    assert (savepoint.by, savepoint.comment, savepoint.saved_at_ms) == ("", "", 1795245710586)
    assert savepoint.paths == {
        "a/3c91b218-e33d-4f97-962c-be50073f6b6e-0_0-288-462_20261121072149370.parquet",
        "b/513c7ba2-1fb1-4476-ad03-0f6f6b298f31-0_1-264-419_20261121072147636.parquet",
    }
    (record,) = fastavro.reader(io.BytesIO(savepoint_avro.encode(savepoint)))
    assert record == STORED["value"]


def test_schema_has_the_fields_that_hudi_embeds() -> None:
    ours = json.loads(timeline_schemas.SAVEPOINT_METADATA.text)
    theirs = STORED["schema"]
    assert [each["name"] for each in ours["fields"]] == [each["name"] for each in theirs["fields"]]
    parsing = fastavro.schema.to_parsing_canonical_form
    java = json.loads(json.dumps(theirs).replace('"avro.java.string": "String", ', ""))
    assert parsing(ours) == parsing(java)


def test_savepoint_is_read_as_written() -> None:
    content = savepoint_avro.encode(SAVEPOINT)
    assert savepoint_avro.decode(content) == SAVEPOINT
    assert savepoint_avro.encode(SAVEPOINT) == content


@pytest.mark.parametrize(
    ("partition_path", "name"),
    [
        ("a", "../b/f.parquet"),
        ("a", ".."),
        ("a", ""),
        ("a", "b/f.parquet"),
        ("..", "f.parquet"),
        ("a/../..", "f.parquet"),
        ("/etc", "passwd"),
        ("a//b", "f.parquet"),
        ("", ".hoodie"),
        (".hoodie/timeline", "f.parquet"),
        ("a", "f\0.parquet"),
    ],
)
def test_file_outside_its_partition_is_refused(partition_path: str, name: str) -> None:
    value = STORED["value"] | {
        "partitionMetadata": {
            partition_path: {"partitionPath": partition_path, "savepointDataFile": [name]}
        }
    }
    with pytest.raises(errors.FormatError, match=r"S: names .* expected the bare name"):
        savepoint_avro.decode(container(value), "S")


def test_partition_of_two_names_is_refused() -> None:
    value = STORED["value"] | {
        "partitionMetadata": {"a": {"partitionPath": "b", "savepointDataFile": ["f.parquet"]}}
    }
    with pytest.raises(errors.FormatError, match="partition 'a' is called 'b' as well"):
        savepoint_avro.decode(container(value))


def test_what_is_no_savepoint_is_a_format_error() -> None:
    content = savepoint_avro.encode(SAVEPOINT)
    for length in range(len(content)):
        with pytest.raises(errors.FormatError):
            savepoint_avro.decode(content[:length])


def test_metadata_of_another_action_keeps_nothing_silently() -> None:
    commit = timeline_avro.encode_commit(commits.CommitMetadata(operation="UPSERT", stats=()))
    with pytest.raises(errors.FormatError, match="partitionMetadata"):
        savepoint_avro.decode(commit)
