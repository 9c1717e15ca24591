"""The contract between operator and jobs."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from hoodie import errors
from hoodie.contract import attempt_fences, engine_specs, input_sources, job_results, job_specs
from hoodie.model import commits, instants, settings


def _spec(work: job_specs.Work) -> job_specs.JobSpec:
    return job_specs.JobSpec(
        table_uri="file:///data/flights",
        allowed_roots=("file:///data",),
        table_properties={"hoodie.table.name": "flights"},
        settings=settings.WriteSettings(concurrency=settings.ConcurrencyMode.NON_BLOCKING),
        lock="zookeeper://127.0.0.1:2181/hudi/flights",
        protocol_hash="abc",
        writer_id="schedules",
        action_id=None,
        attempt=2,
        fence=None,
        work=work,
        engine=engine_specs.EngineSpec(
            kind=engine_specs.EngineKind.SPARK, spark_conf={"spark.ui.enabled": "x"}
        ),
        progress_path=None,
        result_path="/state/result.json",
    )


WRITE = job_specs.WriteBatches(
    operation=commits.Operation.UPSERT,
    source=input_sources.Source(
        format=input_sources.SourceFormat.CSV,
        columns=(input_sources.ColumnMapping(name="origin", source="Origin"),),
        null_text="NA",
    ),
    batches=(input_sources.Batch(id="01.csv-10-ab", files=("/in/01.csv",)),),
    commit_interval_ms=5000,
)
WORKS = (
    job_specs.CreateTable(),
    job_specs.DropTable(),
    job_specs.DropTable(table_uid="0b5e", deletion_policy=job_specs.DELETE, is_protected=False),
    job_specs.RollBack(),
    job_specs.RollBack(instant_time="20250101000000000"),
    WRITE,
    job_specs.Compact(step=job_specs.CompactionStep.SCHEDULE_AND_EXECUTE),
    job_specs.Compact(step=job_specs.CompactionStep.EXECUTE, instant_time="20250101000000000"),
    job_specs.Compact(
        step=job_specs.CompactionStep.SCHEDULE,
        options={"hoodie.compaction.strategy": "day-based,log-size"},
    ),
)


@pytest.mark.parametrize(
    "fence",
    [
        attempt_fences.FenceFile(path="/state/fence.json"),
        attempt_fences.FenceNode(servers=("zk:2181",), path="/hudi/flights.fences/writer.w.u"),
    ],
)
def test_spec_of_a_pod_is_read_back_as_written(fence: attempt_fences.FenceAddress) -> None:
    executors = engine_specs.KubernetesExecutors(
        namespace="sales",
        instances=2,
        name_prefix="w",
        image="hudi:1",
        template_path="/etc/executor.yaml",
        cores=1,
        cpu_request=None,
        heap_mib=512,
        overhead_mib=384,
        labels={"hudi.dev/attempt": "3"},
    )
    spec = replace(
        _spec(WRITE),
        fence=fence,
        engine=engine_specs.EngineSpec(kind=engine_specs.EngineKind.SPARK, executors=executors),
        result_path=None,
        termination_path="/dev/termination-log",
        progress_port=8090,
    )
    assert job_specs.decode_spec(job_specs.encode_spec(spec), "spec") == spec


@pytest.mark.parametrize("work", WORKS, ids=lambda work: type(work).__name__)
def test_spec_is_read_back_as_written(work: job_specs.Work) -> None:
    spec = _spec(work)
    assert job_specs.decode_spec(job_specs.encode_spec(spec), "spec") == spec


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("attempt",), "2", 'spec.attempt: is "2", expected a whole number'),
        (("attempt",), True, "spec.attempt: is true, expected a whole number"),
        (("attempt",), 0, "spec.attempt: is 0, expected 1 or more"),
        (("tabel_uri",), "x", "spec.tabel_uri: unknown field"),
        (("work", "kind"), "Drop", 'spec.work.kind: is "Drop", expected one of CreateTable, '),
        (("work", "operation"), "MERGE", 'spec.work.operation: is "MERGE", expected one of '),
        (("work", "batches"), {}, "spec.work.batches: is {}, expected a list"),
        (("work", "batches"), [3], "spec.work.batches[0]: is 3, expected an object"),
        (("work", "batches"), [{"id": "a"}], "spec.work.batches[0].files: is missing"),
        (
            ("work", "batches"),
            [{"id": "a", "files": []}, {"id": "a", "files": []}],
            "spec.work.batches: id 'a' is given twice",
        ),
        (("work", "source", "delimiter"), ";;", "spec.work.source.delimiter: is ';;'"),
        (("settings", "lock_wait_ms"), None, "spec.settings.lock_wait_ms: is null"),
        (("table_properties",), {"a": 1}, "spec.table_properties.a: is 1, expected a text"),
        (("writer_id",), None, "spec.writer_id: is missing"),
    ],
)
def test_spec_that_does_not_fit_is_refused_by_name(
    path: tuple[str, ...], value: object, message: str
) -> None:
    data = json.loads(job_specs.encode_spec(_spec(WRITE)))
    place = data
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(errors.InvalidInputError) as caught:
        job_specs.decode_spec(json.dumps(data).encode(), "spec")
    assert str(caught.value).startswith(message)


def test_execution_without_its_instant_is_refused() -> None:
    spec = _spec(job_specs.Compact(step=job_specs.CompactionStep.EXECUTE))
    with pytest.raises(errors.InvalidInputError, match="expected an instant exactly with step"):
        job_specs.decode_spec(job_specs.encode_spec(spec), "spec")


def test_file_name_that_is_no_utf8_survives() -> None:
    name = b"/in/\xff.csv".decode(errors="surrogateescape")
    work = replace(WRITE, batches=(input_sources.Batch(id="a", files=(name,)),))
    assert job_specs.decode_spec(job_specs.encode_spec(_spec(work)), "spec").work == work


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b"[" * 100_000])
def test_text_that_is_no_spec_is_refused(content: bytes) -> None:
    with pytest.raises(errors.InvalidInputError, match=r"^spec"):
        job_specs.decode_spec(content, "spec")


@hypothesis_settings(deadline=None)
@given(
    instants_count=st.integers(0, 60),
    message=st.text(max_size=5000),
    findings=st.lists(st.text(max_size=400), max_size=20),
)
def test_result_fits_a_termination_message(
    instants_count: int, message: str, findings: list[str]
) -> None:
    time = instants.InstantTime("20250101000000000")
    result = job_results.JobResult(
        attempt=1,
        error=job_results.JobError(kind="Conflict", message=message),
        instants=tuple(
            job_results.CommittedInstant(
                requested_time=time, completion_time=time, action="deltacommit", batch_id=str(n)
            )
            for n in range(instants_count)
        ),
        commit_count=instants_count,
        findings=tuple(findings),
    )
    content = job_results.encode_result(result)
    assert len(content) <= job_results.RESULT_BYTES_MAX
    read = job_results.decode_result(content, "result")
    assert read.commit_count == instants_count
    assert not read.instants or read.instants[-1] == result.instants[-1]
    assert read.exit_code == errors.ConflictError.exit_code


def test_exit_code_follows_the_class_of_error() -> None:
    assert job_results.JobResult(attempt=1).exit_code == 0
    unknown = job_results.JobResult(
        attempt=1, error=job_results.JobError(kind="Unheard", message="")
    )
    assert unknown.exit_code == errors.EXIT_INTERNAL


@pytest.mark.parametrize("options", [{"hoodie.compaction.strategy": "mine"}, {"mine": "1"}])
def test_compaction_of_unknown_options_is_refused(options: dict[str, str]) -> None:
    spec = _spec(job_specs.Compact(step=job_specs.CompactionStep.SCHEDULE, options=options))
    with pytest.raises(errors.ConfigurationError, match="mine"):
        job_specs.decode_spec(job_specs.encode_spec(spec), "spec.json")
