"""Tables that Apache Hudi made become the operator's: compared, taken over, and written by both."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from hoodie import clock, environment, errors
from hoodie.contract import engine_specs, job_specs
from hoodie.model import settings, table_config
from hoodie.timeline import table_properties
from hoodie_jobs import cancellation, create
from hoodie_jobs.run import Run
from hoodie_operator.api import kinds
from hoodie_operator.reconcile import comparisons, effective
from support.operators import operator_world
from support.peer import peer_ours
from support.peer.judge import Judge
from support.peer.peer_cases import PeerCase
from support.peer.peer_options import PeerTable
from support.peer.peer_rows import assert_same_rows

GetCase = Callable[[str], PeerCase]
_TYPES = {pa.string(): "string", pa.float64(): "double", pa.int32(): "int", pa.int64(): "long"}


def _declared(case: PeerCase, buckets: int) -> table_config.TableConfig:
    """Return what a HudiTable says that is declared as the case's table is."""
    here = operator_world.Outside()
    columns = [
        {"name": field.name, "type": _TYPES[field.type]}
        for field in case.stages[-1].expected.schema
    ]
    ordering = case.table.ordering
    key = here.add(
        kinds.HUDI_TABLE,
        "theirs",
        {
            "tableName": case.name,
            "tableType": "MergeOnRead" if case.table.merge_on_read else "CopyOnWrite",
            "tableVersion": case.table.table_version,
            "storage": {"path": "theirs"},
            "schema": {"columns": columns},
            "keys": {
                "recordFields": list(case.table.record_key),
                "partitionFields": list(case.table.partition_by),
                "orderingFields": [ordering] if ordering else [],
            },
            "merge": {
                "mode": "EventTime" if ordering else "CommitTime",
                "partialUpdates": case.table.partial_updates,
            },
            "writeIndex": {"bucket": {"count": buckets}},
        },
    )
    table = here.world.table("default", key.name)
    assert table is not None
    wanted = effective.config(table)
    assert isinstance(wanted, table_config.TableConfig)
    return wanted


def _take_over(path: Path, wanted: table_config.TableConfig) -> None:
    """Run the job by which a HudiTable is created."""
    spec = job_specs.JobSpec(
        table_uri=f"file://{path}",
        allowed_roots=(),
        table_properties=table_config.to_properties(wanted),
        settings=settings.WriteSettings(),
        lock="filesystem",
        protocol_hash="",
        writer_id=None,
        action_id="create",
        attempt=1,
        fence=None,
        work=job_specs.CreateTable(may_create=False),
        engine=engine_specs.EngineSpec(kind=engine_specs.EngineKind.LOCAL, parallelism=2),
        progress_path=None,
        result_path=None,
    )
    create.perform(Run(spec, clock.SystemClock(), cancellation.Cancellation()))


def _stored(path: Path) -> table_config.TableConfig:
    env = environment.system()
    return table_properties.load(env.open_storage(f"file://{path}"), env.clock)


@pytest.mark.parametrize(
    "name", ["event_time", "event_time_avro_v8", "commit_time", "partial", "partial_v8", "cow"]
)
def test_table_of_apache_hudi_is_taken_over_and_written_by_both(
    name: str, judge: Judge, peer_case: GetCase, tmp_path: Path
) -> None:
    case = peer_case(name)
    path = tmp_path / "theirs"
    shutil.copytree(case.stages[-1].path, path)
    rows = case.stages[-1].expected
    wanted = _declared(case, case.table.buckets)
    _take_over(path, wanted)
    assert comparisons.mismatches(wanted, _stored(path)) == ()
    assert_same_rows(judge.read(path), rows, case.key)
    ours = peer_ours.Hoodie(table=case.table, concurrency="single-writer")
    ours.write(path, rows.slice(0, 2), "delete")
    judge.write(path, rows.slice(2, 1), case.table.write_options(), operation="delete")
    assert_same_rows(judge.read(path), rows.slice(3), case.key)
    assert_same_rows(peer_ours.read(path), rows.slice(3), case.key)
    peer_ours.hoodie("check", path)


def test_table_of_apache_hudi_with_other_buckets_is_refused(
    peer_case: GetCase, tmp_path: Path
) -> None:
    case = peer_case("event_time")
    path = tmp_path / "theirs"
    shutil.copytree(case.stages[-1].path, path)
    buckets = case.table.buckets + 1
    with pytest.raises(errors.ConfigurationError, match=f"not distributed over {buckets} buckets"):
        _take_over(path, _declared(case, buckets))
    assert _stored(path).bucket_count is None


def test_table_with_log_compactions_is_adopted_once_it_is_compacted(
    judge: Judge, tmp_path: Path
) -> None:
    path = tmp_path / "logs"
    table = PeerTable(name="logs", buckets=None, extra={"hoodie.index.type": "SIMPLE"})
    rows = pa.table({"id": ["a", "b"], "n": [1, 2]})
    compacting = {
        "hoodie.log.compaction.enable": "true",
        "hoodie.log.compaction.inline": "true",
        "hoodie.log.compaction.blocks.threshold": "1",
    }
    for _ in range(4):
        judge.write(path, rows, table.write_options() | compacting)
    assert any(path.glob(".hoodie/timeline/*.logcompaction.inflight"))
    way_out = r"is of a log compaction.*have Apache Hudi compact it"
    with pytest.raises(peer_ours.CommandFailedError, match=way_out):
        peer_ours.hoodie("adopt", path, "--index", "simple")
    with pytest.raises(peer_ours.CommandFailedError, match=way_out):
        peer_ours.read(path)

    judge.compact(path, table.write_options())
    peer_ours.hoodie("adopt", path, "--index", "simple")
    peer_ours.Hoodie(table=table, concurrency="occ").write(path, rows.slice(1), "upsert")
    assert_same_rows(peer_ours.read(path), judge.read(path), ["id"])
