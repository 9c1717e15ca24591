"""Plans and results of indexing in Avro, against what Apache Hudi 1.2.0 wrote."""

import io
import json
from collections.abc import Callable
from pathlib import Path

import fastavro
import pytest

from hoodie import errors
from hoodie.format import indexing_avro, timeline_avro, timeline_schemas
from hoodie.format.avro_container import Schema
from hoodie.model import commits, plans

DATA = Path(__file__).parent / "data"
KINDS = {
    "HoodieIndexPlan": (indexing_avro.encode_plan, timeline_schemas.INDEX_PLAN),
    "HoodieIndexCommitMetadata": (indexing_avro.encode_done, timeline_schemas.INDEX_METADATA),
}
EACH = pytest.mark.parametrize("name", KINDS)
INDEXING = plans.Indexing(
    partitions=(
        plans.IndexedPartition(name="column_stats", through="20261121072149370"),
        plans.IndexedPartition(name="bloom_filters", through="", extra={"ü": "x"}),
    )
)


def stored(name: str) -> dict[str, dict[str, object]]:
    text = (DATA / f"{name}.json").read_text(encoding="utf-8")
    found: dict[str, dict[str, object]] = json.loads(text)
    return found


def container(schema: object, value: object) -> bytes:
    stream = io.BytesIO()
    fastavro.writer(stream, schema, [value])
    return stream.getvalue()


@EACH
def test_indexing_of_hudi_is_read_and_written_the_same(name: str) -> None:
    theirs, encode = stored(name), KINDS[name][0]
    indexing = indexing_avro.decode(container(theirs["schema"], theirs["value"]))
    partition = plans.IndexedPartition(name="record_index", through="20261127190540025")
    assert indexing == plans.Indexing(partitions=(partition,))
    (record,) = fastavro.reader(io.BytesIO(encode(indexing)))
    assert record == theirs["value"]


@EACH
def test_schema_has_the_fields_that_hudi_embeds(name: str) -> None:
    ours: Schema = KINDS[name][1]
    parsing = fastavro.schema.to_parsing_canonical_form
    java = json.dumps(stored(name)["schema"]).replace(', "avro.java.string": "String"', "")
    assert parsing(json.loads(ours.text)) == parsing(json.loads(java))


@pytest.mark.parametrize("encode", [indexing_avro.encode_plan, indexing_avro.encode_done])
def test_indexing_is_read_as_written(encode: Callable[[plans.Indexing], bytes]) -> None:
    content = encode(INDEXING)
    assert indexing_avro.decode(content) == INDEXING
    assert encode(INDEXING) == content


@pytest.mark.parametrize("partition", [None, "", ".hoodie", "a/b", "..", "a\0"])
def test_what_is_no_partition_of_a_metadata_table_is_refused(partition: str | None) -> None:
    theirs = stored("HoodieIndexPlan")
    info = {"version": 1, "metadataPartitionPath": partition, "indexUptoInstant": "1"}
    value = {"version": 1, "indexPartitionInfos": [{**info, "extraMetadata": None}]}
    with pytest.raises(errors.FormatError, match="I: "):
        indexing_avro.decode(container(theirs["schema"], value), "I")


def test_plan_of_a_later_version_is_not_read() -> None:
    theirs = stored("HoodieIndexPlan")
    content = container(theirs["schema"], {**theirs["value"], "version": 2})
    with pytest.raises(errors.UnsupportedError, match="indexing plan version 2 is not read"):
        indexing_avro.decode(content)


def test_what_is_no_indexing_is_a_format_error() -> None:
    content = indexing_avro.encode_plan(INDEXING)
    for length in range(len(content)):
        with pytest.raises(errors.FormatError):
            indexing_avro.decode(content[:length])
    commit = timeline_avro.encode_commit(commits.CommitMetadata(operation="UPSERT", stats=()))
    with pytest.raises(errors.FormatError, match="indexPartitionInfos"):
        indexing_avro.decode(commit)
