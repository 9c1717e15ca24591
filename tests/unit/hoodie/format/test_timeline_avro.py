"""Commit metadata and compaction plans in Avro, against what Apache Hudi 1.2.0 wrote.

`data/*.json` hold the schema embedded in a real instant and that instant's value.
"""

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import fastavro
import pytest

from hoodie import errors
from hoodie.format import avro_container, timeline_avro, timeline_schemas
from hoodie.model import commits, files, plans

Json: TypeAlias = Any
"""A schema or value as the json module gives it."""

DATA = Path(__file__).parent / "data"
SCHEMA_TEXT = '{"type":"record","name":"t_record","fields":[]}'

LOG_WRITE = commits.WriteStat(
    file_id="00000001-0000-0000-0000-000000000000-0",
    partition_path="p1",
    path="p1/.00000001-0000-0000-0000-000000000000-0_20261121073953615.log.1_1-247-407",
    prev_commit="20261121073953615",
    records=3,
    inserts=2,
    updates=1,
    deletes=4,
    size_bytes=1208,
    log_files=(".00000001-0000-0000-0000-000000000000-0_20261121073953615.log.1_1-247-407",),
    log_version=1,
    log_blocks=2,
)
BASE_WRITE = commits.WriteStat(
    file_id="e9e66ec4-a8f4-48d7-bd8c-93943adfca5e-0",
    partition_path="",
    path="e9e66ec4-a8f4-48d7-bd8c-93943adfca5e-0_0-972-2149_20261121071426191.parquet",
    prev_commit="null",
    records=7,
    inserts=7,
    updates=0,
    deletes=0,
    size_bytes=434651,
)
COMMIT = commits.CommitMetadata(
    operation="UPSERT",
    stats=(BASE_WRITE, LOG_WRITE),
    extra={commits.SCHEMA_KEY: SCHEMA_TEXT, "é": "ü"},
)
PLAN = plans.CompactionPlan(
    operations=(
        plans.CompactionOperation(
            group=files.FileGroupId("us", "bc0a7919-5913-45fb-8d01-67d0a0b04e36-0"),
            base_instant_time="20261121074854513",
            base_file_name="bc0a7919-5913-45fb-8d01-67d0a0b04e36-0_1-216-333_20261121074854513.parquet",
            log_file_names=(
                ".bc0a7919-5913-45fb-8d01-67d0a0b04e36-0_20261121074856316.log.1_1-242-383",
                ".bc0a7919-5913-45fb-8d01-67d0a0b04e36-0_20261121074857913.log.1_1-275-434",
            ),
            metrics={"TOTAL_LOG_FILES": 2.0, "TOTAL_LOG_FILES_SIZE": 2104.0},
        ),
        plans.CompactionOperation(
            group=files.FileGroupId("", "00000000-0000-0000-0000-000000000000-0"),
            base_instant_time="20261121074856316",
            base_file_name=None,
            log_file_names=(
                ".00000000-0000-0000-0000-000000000000-0_20261121074856316.log.1_1-2-3",
            ),
        ),
    ),
    extra={"a": "b"},
)


def read_container(content: bytes) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return header, schema and only record as fastavro reads them."""
    reader = fastavro.reader(io.BytesIO(content))
    (record,) = list(reader)
    assert isinstance(record, dict)
    assert isinstance(reader.metadata, dict)
    return reader.metadata, json.loads(reader.metadata["avro.schema"]), record


def bare(schema: Json, namespace: str = "org.apache.hudi.avro.model") -> Json:
    """Return a schema without what means nothing on the wire: docs, Java's classes, namespaces."""
    if isinstance(schema, list):
        return [bare(branch) for branch in schema]
    if isinstance(schema, str):
        return schema.removeprefix(f"{namespace}.")
    ignored = {"doc", "avro.java.string", "namespace"}
    if schema.get("type") in ("array", "map"):
        ignored.add("default")  # Avro tools keep it there; it belongs to the field.
    plain = {
        key: bare(value) if key != "default" else value
        for key, value in schema.items()
        if key not in ignored
    }
    return plain["type"] if plain.keys() == {"type"} else plain


def stored(name: str) -> Json:
    return json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))


def container(schema: Json, *records: Json, codec: str = "null") -> bytes:
    stream = io.BytesIO()
    fastavro.writer(stream, schema, list(records), codec=codec)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("schema", "name"),
    [
        (timeline_schemas.COMMIT_METADATA, "HoodieCommitMetadata"),
        (timeline_schemas.COMPACTION_PLAN, "HoodieCompactionPlan"),
    ],
)
def test_schema_is_the_one_hudi_embeds(schema: avro_container.Schema, name: str) -> None:
    ours = json.loads(schema.text)
    assert ours["namespace"] == "org.apache.hudi.avro.model"
    assert bare(ours) == bare(stored(name)["schema"])


def test_header_holds_the_schema_alone() -> None:
    content = timeline_avro.encode_commit(COMMIT)
    metadata, schema, _ = read_container(content)
    assert list(metadata) == ["avro.schema"]
    assert schema == json.loads(timeline_schemas.COMMIT_METADATA.text)


def test_commit_is_written_as_hudi_does() -> None:
    _, _, record = read_container(timeline_avro.encode_commit(COMMIT))
    assert (record["operationType"], record["compacted"], record["version"]) == (
        "UPSERT",
        False,
        None,
    )
    assert record["extraMetadata"] == {"schema": SCHEMA_TEXT, "é": "ü"}
    (base,) = record["partitionToWriteStats"][""]
    (log,) = record["partitionToWriteStats"]["p1"]
    assert (base["baseFile"], base["logFiles"], base["logOffset"]) == (None, None, None)
    assert (base["prevCommit"], base["numWrites"], base["fileSizeInBytes"]) == ("null", 7, 434651)
    assert (log["baseFile"], log["logOffset"], log["logVersion"]) == ("", 0, 1)
    assert log["logFiles"] == [LOG_WRITE.path.removeprefix("p1/")]
    assert (log["partitionPath"], log["path"]) == ("p1", LOG_WRITE.path)
    assert (log["numWrites"], log["numInserts"], log["numUpdateWrites"]) == (3, 2, 1)
    assert (log["numDeletes"], log["totalWriteBytes"]) == (4, 1208)


def test_commit_is_read_as_written() -> None:
    assert timeline_avro.decode_commit(timeline_avro.encode_commit(COMMIT)) == COMMIT


def test_commit_of_nothing_has_empty_maps_and_no_nulls() -> None:
    empty = commits.CommitMetadata(operation="DELETE", stats=(), extra={"schema": SCHEMA_TEXT})
    content = timeline_avro.encode_commit(empty)
    _, _, record = read_container(content)
    assert record["partitionToWriteStats"] == {}
    assert timeline_avro.decode_commit(content) == empty


def test_same_commit_has_the_same_bytes() -> None:
    assert timeline_avro.encode_commit(COMMIT) == timeline_avro.encode_commit(COMMIT)


def test_workload_profile_of_hudi_is_read() -> None:
    instant = stored("HoodieCommitMetadata")
    metadata = timeline_avro.decode_commit(container(instant["schema"], instant["value"]))
    assert (metadata.operation, metadata.is_compacted, metadata.extra) == ("UPSERT", False, {})
    (stat,) = metadata.stats
    assert (stat.file_id, stat.path, stat.prev_commit) == ("", "", "null")
    assert (stat.partition_path, stat.inserts, stat.log_files) == ("", 30, ())


def test_compaction_plan_of_hudi_is_read() -> None:
    instant = stored("HoodieCompactionPlan")
    plan = timeline_avro.decode_compaction_plan(container(instant["schema"], instant["value"]))
    first = plan.operations[0]
    assert [operation.group.partition_path for operation in plan.operations] == ["us", "eu"]
    assert first.base_file_name == PLAN.operations[0].base_file_name
    assert first.log_file_names == PLAN.operations[0].log_file_names
    assert first.metrics["TOTAL_LOG_FILES_SIZE"] == 2104.0
    # And written again it is the same record.
    _, _, record = read_container(timeline_avro.encode_compaction_plan(plan))
    assert record == instant["value"]


def test_compaction_plan_is_read_as_written() -> None:
    content = timeline_avro.encode_compaction_plan(PLAN)
    assert timeline_avro.decode_compaction_plan(content) == PLAN


def test_log_only_slice_has_no_data_file_in_a_plan() -> None:
    _, _, record = read_container(timeline_avro.encode_compaction_plan(PLAN))
    assert record["operations"][1]["dataFilePath"] is None
    assert record["version"] == 2


def plan_with(version: int | None, **changes: object) -> bytes:
    instant = stored("HoodieCompactionPlan")
    value = instant["value"] | {"version": version}
    value["operations"] = [value["operations"][0] | changes]
    return container(instant["schema"], value)


@pytest.mark.parametrize("version", [1, None])
def test_full_paths_of_plan_version_1_become_bare_names(version: int | None) -> None:
    content = plan_with(
        version,
        dataFilePath="file:/tables/t/us/a-0_1-2-3_20261121074854513.parquet",
        deltaFilePaths=["hdfs://host/t/us/.a-0_20261121074856316.log.1_1-2-3"],
    )
    (operation,) = timeline_avro.decode_compaction_plan(content).operations
    assert operation.base_file_name == "a-0_1-2-3_20261121074854513.parquet"
    assert operation.log_file_names == (".a-0_20261121074856316.log.1_1-2-3",)


@pytest.mark.parametrize("logs", [(), (".a-0_20261121074856316.log.1_1-2-3",)])
def test_change_data_that_apache_hudi_plans_with_logs_is_none(logs: tuple[str, ...]) -> None:
    beside = ".a-0_20261121074854513.log.1_1-2-3.cdc"
    content = plan_with(2, deltaFilePaths=[beside, *logs])
    (operation,) = timeline_avro.decode_compaction_plan(content).operations
    assert operation.log_file_names == logs


def test_later_plan_version_is_refused() -> None:
    with pytest.raises(errors.UnsupportedError, match=r"^T: compaction plan version 3"):
        timeline_avro.decode_compaction_plan(plan_with(3), "T")


def test_plan_over_a_bootstrap_file_is_refused() -> None:
    with pytest.raises(errors.UnsupportedError, match="bootstrap"):
        timeline_avro.decode_compaction_plan(plan_with(2, bootstrapFilePath="hdfs://b"))


@pytest.mark.parametrize("name", ["fileId", "baseInstantTime"])
def test_plan_without_a_needed_field_is_a_format_error(name: str) -> None:
    with pytest.raises(errors.FormatError, match=f"p: {name} is 'None', expected text"):
        timeline_avro.decode_compaction_plan(plan_with(2, **{name: None}), "p")


def without_fields(schema: Json, names: set[str]) -> Json:
    """Return a schema as an older release had it."""
    if isinstance(schema, list):
        return [without_fields(branch, names) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    pruned = {
        key: without_fields(value, names) for key, value in schema.items() if key != "default"
    }
    if "fields" in pruned:
        pruned["fields"] = [field for field in pruned["fields"] if field["name"] not in names]
    return pruned


def test_commit_of_an_older_release_is_read() -> None:
    # Fields of 1.0.2 and later (format.md: Timeline), and a few that no release lacks.
    older = {"compacted", "runtimeStats", "prevBaseFile", "tempPath", "numUpdates", "minEventTime"}
    _, schema, record = read_container(timeline_avro.encode_commit(COMMIT))
    content = container(without_fields(schema, older | {"logVersion", "extraMetadata"}), record)
    decoded = timeline_avro.decode_commit(content)
    assert decoded.extra == {}
    assert [stat.log_version for stat in decoded.stats] == [None, None]
    assert [stat.path for stat in decoded.stats] == [BASE_WRITE.path, LOG_WRITE.path]


def test_other_name_and_deflate_are_read_as_java_does() -> None:
    _, schema, record = read_container(timeline_avro.encode_commit(COMMIT))
    content = container(schema | {"name": "Other", "namespace": "x"}, record, codec="deflate")
    assert timeline_avro.decode_commit(content) == COMMIT


def test_null_maps_are_read_as_empty() -> None:
    schema = stored("HoodieCommitMetadata")["schema"]
    decoded = timeline_avro.decode_commit(container(schema, {}))
    assert decoded == commits.CommitMetadata(operation=None, stats=())


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"Obj\x02", b"Obj\x01", timeline_avro.encode_commit(COMMIT) + b"x"]
)
def test_what_is_no_container_of_one_record_is_a_format_error(content: bytes) -> None:
    with pytest.raises(errors.FormatError, match=r"^T_C\.commit: "):
        timeline_avro.decode_commit(content, "T_C.commit")


@pytest.mark.parametrize("count", [0, 2])
def test_other_than_one_record_is_a_format_error(count: int) -> None:
    schema = stored("HoodieCommitMetadata")["schema"]
    with pytest.raises(errors.FormatError):
        timeline_avro.decode_commit(container(schema, *[{}] * count))


def test_every_truncation_is_a_format_error() -> None:
    content = timeline_avro.encode_commit(COMMIT)
    for length in range(len(content)):
        with pytest.raises(errors.FormatError):
            timeline_avro.decode_commit(content[:length])


def test_ill_typed_field_is_a_format_error_that_names_it() -> None:
    schema = {
        "type": "record",
        "name": "HoodieCommitMetadata",
        "fields": [{"name": "operationType", "type": "long"}],
    }
    with pytest.raises(errors.FormatError, match="operationType is '7', expected text"):
        timeline_avro.decode_commit(container(schema, {"operationType": 7}))


def hostile(schema: Json, body: bytes) -> bytes:
    """Return a container whose record is any bytes."""
    valid = avro_container.encode(timeline_schemas.COMMIT_METADATA, {})
    sync = valid[-16:]
    text = json.dumps(schema).encode()
    return b"".join(
        (
            b"Obj\x01\x02",
            avro_container._bytes(b"avro.schema"),
            avro_container._bytes(text),
            b"\x00",
            sync,
            b"\x02",
            avro_container._bytes(body),
            sync,
        )
    )


HUGE = b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"  # The varint of 2**63 - 1.


@pytest.mark.parametrize(
    "items",
    [
        "null",
        {"type": "fixed", "name": "f", "size": 0},
        {"type": "record", "name": "r", "fields": []},
        {"type": "record", "name": "r", "fields": [{"name": "a", "type": "null"}]},
    ],
)
def test_values_of_no_bytes_are_refused(items: object) -> None:
    schema = {
        "type": "record",
        "name": "r0",
        "fields": [{"name": "a", "type": {"type": "array", "items": items}}],
    }
    with pytest.raises(errors.FormatError):
        timeline_avro.decode_commit(hostile(schema, HUGE))


@pytest.mark.parametrize("type_", ["string", "bytes", {"type": "array", "items": "int"}])
def test_claimed_length_allocates_nothing(type_: object) -> None:
    schema = {"type": "record", "name": "r0", "fields": [{"name": "a", "type": type_}]}
    with pytest.raises(errors.FormatError):
        timeline_avro.decode_commit(hostile(schema, HUGE))


def test_recursive_and_deep_schemas_are_refused() -> None:
    node: Json = {"type": "record", "name": "n", "fields": [{"name": "a", "type": ["null", "n"]}]}
    with pytest.raises(errors.FormatError):
        timeline_avro.decode_commit(hostile(node, b"\x02" * 1_000_000 + b"\x00"))
    deep: Json = "int"
    for _ in range(100):
        deep = {"type": "array", "items": deep}
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": deep}]}
    with pytest.raises(errors.FormatError, match="levels"):
        timeline_avro.decode_commit(hostile(schema, b"\x00"))


def test_size_is_limited_as_stored_and_inflated() -> None:
    content = timeline_avro.encode_commit(COMMIT)
    with pytest.raises(errors.FormatError, match="at most"):
        timeline_avro.decode_commit(content, bytes_max=len(content) - 1)
    schema = json.loads(timeline_schemas.COMMIT_METADATA.text)
    bomb = container(schema, {"extraMetadata": {"a": "0" * 1_000_000}}, codec="deflate")
    assert len(bomb) < 20_000
    with pytest.raises(errors.FormatError, match="does not inflate to 20000 bytes"):
        timeline_avro.decode_commit(bomb, bytes_max=20_000)


def test_unknown_codec_is_a_format_error() -> None:
    schema = json.loads(timeline_schemas.COMMIT_METADATA.text)
    content = container(schema, {}).replace(b"\x08null", b"\x08lzma")
    with pytest.raises(errors.FormatError, match="codec b'lzma'"):
        timeline_avro.decode_commit(content)


def _deflated(content: bytes) -> bytes:
    found = fastavro.reader(io.BytesIO(content))
    stream = io.BytesIO()
    assert found.writer_schema is not None
    fastavro.writer(stream, found.writer_schema, list(found), codec="deflate")
    return stream.getvalue()


def test_commits_with_a_key_are_found_whatever_else_names_it() -> None:
    key = "operator.batch"
    with_key = replace(COMMIT, extra={key: "1"})
    with_value = replace(COMMIT, extra={"other": key})
    encoded = [timeline_avro.encode_commit(each) for each in (COMMIT, with_key, with_value)]
    contents = [*encoded, *map(_deflated, encoded)]
    found = timeline_avro.decode_commits_with(key, [(each, "commit") for each in contents])
    assert list(found) == [with_key, with_key]


@pytest.mark.parametrize("length", [0, 3, 10, 3_000])
def test_commit_that_is_not_whole_is_refused_though_its_key_was_not_found(length: int) -> None:
    content = timeline_avro.encode_commit(COMMIT)
    for broken in (content[:length], content[:-1], content + b"x"):
        with pytest.raises(errors.FormatError, match="commit 7"):
            list(timeline_avro.decode_commits_with("key", [(broken, "commit 7")]))
