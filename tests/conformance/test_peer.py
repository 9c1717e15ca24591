"""The peer alone: Apache Hudi reads what it wrote as the model says, so it can judge ours.

Needs none of our code. When a test here fails, the peer or its set-up has changed, and failures of
the other conformance tests say nothing yet.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from support.peer.judge import (
    Gate,
    InstantState,
    Judge,
    JudgeError,
    JudgeLostError,
    Query,
    QueryType,
    Settings,
    Sink,
)
from support.peer.peer_cases import BASE, RECIPES, REFUSED, SCHEMA, PeerCase, row
from support.peer.peer_hudi_rs import read_with_hudi_rs
from support.peer.peer_options import filesystem_lock, table_properties
from support.peer.peer_rows import assert_same_rows

GetCase = Callable[[str], PeerCase]


def rows_of(numbers: range, ts: int) -> pa.Table:
    return pa.Table.from_pylist([row(number, ts=ts) for number in numbers], SCHEMA)


@pytest.mark.parametrize("name", [*RECIPES, *REFUSED])
def test_apache_hudi_reads_its_table_as_the_model_says(name: str, peer_case: GetCase) -> None:
    case = peer_case(name)
    for stage in case.stages:
        assert_same_rows(stage.expected, stage.model, case.key)


@pytest.mark.parametrize("name", RECIPES)
def test_hudi_rs_reads_the_table_as_apache_hudi_does(name: str, peer_case: GetCase) -> None:
    case = peer_case(name)
    for stage in case.stages:
        merge_mode = table_properties(stage.path)["hoodie.record.merge.mode"]
        # Over logs hudi-rs has no merger for a payload class of version 8, nor does it widen types.
        if (merge_mode == "CUSTOM" or name == "evolved") and stage.name != "compacted":
            continue
        assert_same_rows(read_with_hudi_rs(stage.path), stage.expected, case.key)


def test_partial_updates_are_a_table_property_in_version_9(peer_case: GetCase) -> None:
    properties = table_properties(peer_case("partial").stages[0].path)
    assert properties["hoodie.table.version"] == "9"
    assert properties["hoodie.record.merge.mode"] == "COMMIT_TIME_ORDERING"
    assert properties["hoodie.table.partial.update.mode"] == "IGNORE_DEFAULTS"


def test_partial_updates_are_a_payload_class_in_version_8(peer_case: GetCase) -> None:
    properties = table_properties(peer_case("partial_v8").stages[0].path)
    assert properties["hoodie.table.version"] == "8"
    assert properties["hoodie.record.merge.mode"] == "CUSTOM"
    payload = properties["hoodie.compaction.payload.class"]
    assert payload.endswith(".OverwriteNonDefaultsWithLatestAvroPayload")


def test_read_optimized_query_sees_base_files_only(judge: Judge, peer_case: GetCase) -> None:
    stage = peer_case("event_time").stage("logs_over_base")
    compacted = peer_case("event_time").stage("compacted")
    table = judge.read(stage.path, Query(type=QueryType.READ_OPTIMIZED))
    assert_same_rows(table, compacted.expected, ["id"])


def test_incremental_query_returns_what_completed_later(judge: Judge, peer_case: GetCase) -> None:
    stage = peer_case("event_time").stage("logs_over_base")
    compaction = next(i for i in judge.timeline(stage.path) if i.action == "commit")
    since = Query(type=QueryType.INCREMENTAL, begin=compaction.completion_time)
    table = judge.read(stage.path, since, columns=["id"])
    assert sorted(table["id"].to_pylist()) == ["key-000", "key-001", "key-013"]


def test_every_sink_of_a_scan_works(judge: Judge, peer_case: GetCase) -> None:
    stage = peer_case("event_time").stage("logs")
    for sink in Sink:
        assert judge.scan(stage.path, sink, Query(where="quantity >= 0")) > 0


def test_two_jvm_writers_overlap_with_a_compaction_plan_between_them(
    judge: Judge, second_judge: Judge, tmp_path: Path
) -> None:
    path = tmp_path / "table"
    options = replace(BASE, name="two_writers", partition_by=()).nbcc_options(filesystem_lock())
    judge.write(path, rows_of(range(6), 1000), options)
    gate = Gate(path=tmp_path / "gate")
    with ThreadPoolExecutor() as threads:
        slow = threads.submit(second_judge.write, path, rows_of(range(3), 2000), options, gate=gate)
        try:
            while all(i.state is InstantState.COMPLETED for i in judge.timeline(path)):
                assert not slow.done(), slow.result()
            judge.write(path, rows_of(range(2, 5), 3000), options)
            plan = judge.schedule_compaction(path, options)
        finally:
            gate.open()
        slow.result()
    assert plan is not None
    judge.execute_compaction(path, plan, options)

    first, held, fast, compaction = judge.timeline(path)
    assert held.completion_time is not None
    assert fast.completion_time is not None
    assert held.requested_time < fast.requested_time < fast.completion_time < held.completion_time
    assert compaction.action == "commit"
    assert compaction.requested_time == plan < held.completion_time
    assert first.completion_time is not None
    expected = [row(n, ts=ts) for n, ts in enumerate([2000, 2000, 3000, 3000, 3000, 1000])]
    table = judge.read(path)
    assert_same_rows(table, pa.Table.from_pylist(expected, SCHEMA), ["id"])


def test_error_names_the_java_exception_and_its_causes(judge: Judge, tmp_path: Path) -> None:
    with pytest.raises(JudgeError, match="hudi") as caught:
        judge.read(tmp_path / "no_table")
    assert caught.value.causes[0].type
    assert judge.versions().hudi == "1.2.0"


def test_dead_judge_is_reported_with_its_log(tmp_path: Path) -> None:
    with Judge(tmp_path / "judge", Settings(name="mortal")) as mortal:
        mortal.kill()
        with pytest.raises(JudgeLostError, match="mortal"):
            mortal.versions()
