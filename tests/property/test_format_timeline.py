"""Round trips of the timeline's Avro, and what broken bytes do."""

import contextlib
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hoodie import errors
from hoodie.format import timeline_avro
from hoodie.model import commits, files, plans

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
NAMES = TEXTS.map(lambda text: text.replace("/", "")).filter(bool)
LONGS = st.integers(0, 2**63 - 1)

BASE_STATS = st.builds(
    commits.WriteStat,
    file_id=TEXTS,
    partition_path=TEXTS,
    path=TEXTS,
    prev_commit=TEXTS.filter(bool),
    records=LONGS,
    inserts=LONGS,
    updates=LONGS,
    deletes=LONGS,
    size_bytes=LONGS,
    log_blocks=LONGS,
    change_data=st.dictionaries(TEXTS, LONGS).map(
        lambda sizes: tuple(
            commits.ChangeDataLog(path=path, size_bytes=size) for path, size in sizes.items()
        )
    ),
)
LOG_STATS = st.builds(
    commits.WriteStat,
    file_id=TEXTS,
    partition_path=TEXTS,
    path=TEXTS,
    prev_commit=TEXTS.filter(bool),
    records=LONGS,
    inserts=LONGS,
    updates=LONGS,
    deletes=LONGS,
    size_bytes=LONGS,
    base_file=st.none() | NAMES,
    log_files=st.lists(NAMES, min_size=1).map(tuple),
    log_version=st.integers(1, 2**31 - 1),
    log_blocks=LONGS,
)
COMMITS = st.builds(
    commits.CommitMetadata,
    operation=st.none() | TEXTS,
    # Stats of one partition stay together, as they do in Avro's map.
    stats=st.lists(BASE_STATS | LOG_STATS).map(
        lambda stats: tuple(sorted(stats, key=lambda stat: stat.partition_path))
    ),
    extra=st.dictionaries(TEXTS, TEXTS),
    is_compacted=st.booleans(),
)
PLANS = st.builds(
    plans.CompactionPlan,
    operations=st.lists(
        st.builds(
            plans.CompactionOperation,
            group=st.builds(files.FileGroupId, TEXTS, TEXTS),
            base_instant_time=TEXTS,
            base_file_name=st.none() | NAMES,
            # Those of change data are not read as log files.
            log_file_names=st.lists(NAMES.filter(lambda name: not name.endswith(".cdc"))).map(
                tuple
            ),
            metrics=st.dictionaries(TEXTS, st.floats(allow_nan=False)),
        )
    ).map(tuple),
    extra=st.dictionaries(TEXTS, TEXTS),
)


def _stat(partition_path: str, number: int) -> commits.WriteStat:
    return commits.WriteStat(
        file_id=f"f{number}",
        partition_path=partition_path,
        path=f"{partition_path}/f{number}",
        prev_commit="null",
        records=1,
        inserts=1,
        updates=0,
        deletes=0,
        size_bytes=100,
        log_files=("f",),
    )


CONTENT = timeline_avro.encode_commit(
    commits.CommitMetadata(
        operation="UPSERT",
        stats=(_stat("p", 0),),
        extra={"schema": "{}"},
    )
)


@given(COMMITS)
@settings(deadline=None)  # The machine is shared.
def test_commit_is_read_as_written(metadata: commits.CommitMetadata) -> None:
    assert timeline_avro.decode_commit(timeline_avro.encode_commit(metadata)) == metadata


@given(COMMITS)
def test_parts_of_a_commit_are_read_as_the_whole(metadata: commits.CommitMetadata) -> None:
    content = timeline_avro.encode_commit(metadata)
    assert timeline_avro.decode_commit_head(content) == replace(metadata, stats=())
    found = timeline_avro.decode_schema(content, without="latest_schema")
    assert found in (None, (metadata.operation, metadata.extra.get("schema")))
    partitions = timeline_avro.decode_written_partitions(content)
    assert partitions == {each.partition_path for each in metadata.stats}


@pytest.mark.parametrize(
    ("path", "extra", "found"),
    [
        ("2026", {"a": "1", "schema": "{}", "z": ""}, "{}"),
        ("2026", {"schema": ""}, ""),
        ("2026", {"a": "schema"}, None),
        ("\x0cschema", {"schema": "{}"}, None),
        ("\x0cschema", {"a": "1"}, None),
        ("2026", {"a": "\x0cschema\x04{}", "schema": "{}"}, None),
        ("2026", {"schema": "{}", "latest_schema": "1"}, None),
        ("latest_schema", {"schema": "{}"}, None),
        ("2026", {"schema": "{}", "": "1"}, None),
        ("2026", {}, None),
    ],
)
def test_schema_is_found_where_that_is_certain(
    path: str, extra: dict[str, str], found: str | None
) -> None:
    metadata = commits.CommitMetadata(
        operation="UPSERT", stats=tuple(_stat(path, number) for number in range(3)), extra=extra
    )
    content = timeline_avro.encode_commit(metadata)
    expected = None if found is None else ("UPSERT", found)
    assert timeline_avro.decode_schema(content, without="latest_schema") == expected


def test_schema_of_broken_content_is_not_found() -> None:
    metadata = commits.CommitMetadata(operation="UPSERT", stats=(), extra={"schema": "{}"})
    content = timeline_avro.encode_commit(metadata)
    with pytest.raises(errors.FormatError):
        timeline_avro.decode_schema(content[:-20], without="latest_schema")


@given(PLANS)
@settings(deadline=None)  # The machine is shared.
def test_compaction_plan_is_read_as_written(plan: plans.CompactionPlan) -> None:
    content = timeline_avro.encode_compaction_plan(plan)
    assert timeline_avro.decode_compaction_plan(content) == plan


@given(st.integers(0, len(CONTENT) - 1), st.binary(min_size=1, max_size=12))
@settings(deadline=None)  # The machine is shared.
def test_changed_bytes_are_a_commit_or_a_format_error(at: int, change: bytes) -> None:
    broken = CONTENT[:at] + change + CONTENT[at + len(change) :]
    with contextlib.suppress(errors.FormatError):
        timeline_avro.decode_commit(broken)


@given(st.binary())
@settings(deadline=None)  # The machine is shared.
def test_any_bytes_after_the_magic_are_a_commit_or_a_format_error(content: bytes) -> None:
    with contextlib.suppress(errors.FormatError):
        timeline_avro.decode_commit(b"Obj\x01" + content)
