"""The Job, the ConfigMap and the executors' template of an attempt."""

import dataclasses
import json

import pytest

from hoodie.contract import attempt_fences, input_sources, job_specs
from hoodie.maintenance.compaction import memory
from hoodie.model import commits, settings
from hoodie_operator.api import configuration, execution, hudi_table, kinds
from hoodie_operator.api.resources import Manifest
from hoodie_operator.manifests import naming, observed, pods, runs
from hoodie_operator.reconcile import effects, facts
from support.operators import operator_world as ow

TOLD = configuration.parse(
    b"""
dataRoots: [/data]
image: {name: "hudi:1", pullPolicy: Never, pullSecrets: [registry]}
serviceAccounts: {default: hudi-jobs}
""",
    "operator.yaml",
)
STORAGE = hudi_table.Storage.model_validate(
    {
        "path": "flights",
        "serviceAccount": "lake",
        "secrets": ("s3",),
        "env": {"AWS_REGION": "eu-west-1", "HUDI_OPERATOR_POD_IP": "8.8.8.8"},
        "volumes": (
            {"name": "lake", "persistentVolumeClaim": "lake", "mountPath": "/data"},
            {
                "name": "in",
                "persistentVolumeClaim": "in",
                "mountPath": "/in",
                "readOnly": True,
            },
        ),
    }
)
LOCAL = execution.Runtime()
SPARK = execution.Runtime(
    engine=execution.Engine.SPARK,
    executors=execution.Executors(instances=3),
    node_selector={"disk": "fast"},
    tolerations=(execution.Toleration(key="spot", operator=execution.TolerationOperator.EXISTS),),
    env={"AWS_REGION": "eu-west-2"},
)


def attempt(
    runtime: execution.Runtime = LOCAL,
    *,
    memory_percent: int = 100,
    lock: str = "zookeeper://zk:2181/hudi/flights",
    work: job_specs.Work | None = None,
    name: str = "schedules",
    plan_size: memory.PlanSize | None = None,
) -> runs.Attempt:
    here = ow.Outside()
    lock_key = here.add(kinds.LOCK_PROVIDER, "zk", ow.LOCK)
    table_key = here.add(kinds.HUDI_TABLE, "flights", ow.TABLE)
    writer_key = here.add(kinds.WRITER, name, ow.writer_spec())
    here.see_lock(lock_key)
    here.see_table(table_key)
    here.settle()
    table = here.world.table("default", "flights")
    assert table is not None
    spec = table.spec.model_copy(update={"storage": STORAGE})
    (create,) = here.started
    owner = here.by_key[writer_key]
    start = effects.StartRun(
        id=facts.RunId(
            kind="Writer", namespace=owner.key.namespace, name=name, uid=owner.uid, attempt=4
        ),
        fence_number=1_000_004,
        table=dataclasses.replace(create.table, lock=lock),
        work=work or _write(1),
        runtime=runtime,
        run_hash="r",
        memory_percent=memory_percent,
        writer_id=name,
        action_id=None,
        plan_size=plan_size,
    )
    return runs.Attempt(
        start=start, owner=owner, table=dataclasses.replace(table, spec=spec), told=TOLD
    )


def _write(count: int) -> job_specs.WriteBatches:
    files = [f"/in/{number:06d}-{'x' * 80}.csv" for number in range(count)]
    return job_specs.WriteBatches(
        operation=commits.Operation.UPSERT,
        source=input_sources.Source(format=input_sources.SourceFormat.CSV),
        batches=tuple(input_sources.Batch(id=file, files=(file,)) for file in files),
    )


def pod_of(job: Manifest) -> Manifest:
    template = job["spec"]["template"]
    return {"metadata": template["metadata"], "spec": template["spec"]}


def variables(pod: Manifest) -> dict[str, object]:
    (container,) = pod["spec"]["containers"]
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in container["env"]}


def test_job_makes_one_pod_and_never_another() -> None:
    job = runs.job(attempt())
    assert job["spec"]["backoffLimit"] == 0
    assert job["spec"]["podReplacementPolicy"] == "Failed"
    assert pod_of(job)["spec"]["restartPolicy"] == "Never"
    (owner,) = job["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("Writer", "schedules")


@pytest.mark.parametrize("runtime", [execution.Runtime(), SPARK], ids=["local", "spark"])
def test_every_pod_keeps_to_the_restricted_standard(runtime: execution.Runtime) -> None:
    made = attempt(runtime)
    found = [pod_of(runs.job(made))]
    if runs.TEMPLATE in (data := runs.config_map(made)["data"]):
        found.append(json.loads(data[runs.TEMPLATE]))
    for pod in found:
        spec, (container,) = pod["spec"], pod["spec"]["containers"]
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        security = container["securityContext"]
        assert security["capabilities"] == {"drop": ["ALL"]}
        assert security["readOnlyRootFilesystem"] is True
        assert security["allowPrivilegeEscalation"] is False
        names = [volume["name"] for volume in spec["volumes"]]
        assert len(names) == len(set(names))
        mounted = {mount["name"] for mount in container["volumeMounts"]}
        assert mounted == set(names)


def test_only_a_driver_of_executors_has_a_token() -> None:
    assert pod_of(runs.job(attempt()))["spec"]["automountServiceAccountToken"] is False
    made = attempt(SPARK)
    assert pod_of(runs.job(made))["spec"]["automountServiceAccountToken"] is True
    template = json.loads(runs.config_map(made)["data"][runs.TEMPLATE])
    assert template["spec"]["automountServiceAccountToken"] is False


def test_pods_get_what_storage_and_runtime_say_and_ours_goes_before() -> None:
    pod = pod_of(runs.job(attempt(SPARK)))
    told = variables(pod)
    assert told["AWS_REGION"] == "eu-west-2"
    assert told["HUDI_OPERATOR_POD_IP"] == {"fieldRef": {"fieldPath": "status.podIP"}}
    (container,) = pod["spec"]["containers"]
    assert container["envFrom"] == [{"secretRef": {"name": "s3"}}]
    mounts = {each["mountPath"]: each.get("readOnly") for each in container["volumeMounts"]}
    assert (mounts["/data"], mounts["/in"]) == (False, True)
    assert pod["spec"]["serviceAccountName"] == "lake"
    assert pod["spec"]["nodeSelector"] == {"disk": "fast"}
    assert pod["spec"]["tolerations"] == [{"key": "spot", "operator": "Exists"}]
    assert pod["spec"]["imagePullSecrets"] == [{"name": "registry"}]


def test_spec_of_the_job_is_read_as_written() -> None:
    made = attempt(SPARK)
    spec = job_specs.decode_spec(runs.config_map(made)["data"][runs.SPEC].encode(), "spec")
    assert spec == runs.job_spec(made)
    assert (spec.attempt, spec.allowed_roots) == (1_000_004, ("/data",))
    assert spec.termination_path == runs.TERMINATION_PATH


def test_memory_is_halved_between_heap_and_the_rest_and_grows() -> None:
    once = runs.job_spec(attempt(SPARK)).engine
    more = runs.job_spec(attempt(SPARK, memory_percent=150)).engine
    assert once.executors is not None
    assert more.executors is not None
    assert (once.executors.heap_mib, once.executors.overhead_mib) == (1024, 1024)
    assert more.executors.heap_mib == 1536
    assert more.spark_conf["spark.driver.memory"] == "1536m"
    (container,) = pod_of(runs.job(attempt(memory_percent=150)))["spec"]["containers"]
    assert container["resources"]["limits"] == {"memory": "3072Mi"}
    assert container["resources"]["requests"] == {"cpu": "500m", "memory": "1536Mi"}


@pytest.mark.parametrize(
    ("cpu", "cores", "requested"), [("500m", 1, "500m"), (2, 2, "2"), ("1.5", 1, "1.5")]
)
def test_executors_take_as_many_tasks_as_they_have_whole_cores(
    cpu: str | int, cores: int, requested: str
) -> None:
    given = execution.Resources(requests=execution.Amounts(cpu=cpu))
    runtime = execution.Runtime(
        engine=execution.Engine.SPARK, executors=execution.Executors(resources=given)
    )
    found = runs.job_spec(attempt(runtime)).engine.executors
    assert found is not None
    assert (found.cores, found.cpu_request) == (cores, requested)


@pytest.mark.parametrize(
    ("lock", "fence"),
    [
        (
            "zookeeper://zk:2181/hudi/flights",
            attempt_fences.FenceNode(
                servers=("zk:2181",), path="/hudi/flights.fences/1e1a62755692fa27.writer.schedules"
            ),
        ),
        ("storage", None),
        ("filesystem", None),
    ],
)
def test_fence_is_where_the_lock_is(lock: str, fence: attempt_fences.FenceNode | None) -> None:
    made = attempt(lock=lock)
    assert runs.job_spec(made).fence == fence
    assert runs.fence_of(made.owner, made.start.table) == fence


def test_tables_that_share_a_lock_share_no_fence() -> None:
    made = attempt(lock="zookeeper://zk:2181/hudi/flights").start
    elsewhere = dataclasses.replace(made.table, uri="file:///data/other/flights")
    fence, other = runs.fence(made), runs.fence(dataclasses.replace(made, table=elsewhere))
    assert isinstance(fence, attempt_fences.FenceNode)
    assert isinstance(other, attempt_fences.FenceNode)
    assert fence.path != other.path
    assert runs.fence(made) == fence


def test_creation_of_a_table_needs_no_fence() -> None:
    assert runs.job_spec(attempt(work=job_specs.CreateTable())).fence is None


def test_too_many_batches_are_left_to_the_next_attempt() -> None:
    made = attempt(work=_write(20_000))
    content = runs.config_map(made)["data"][runs.SPEC]
    assert len(content) < 1_000_000
    work = runs.job_spec(made).work
    assert isinstance(work, job_specs.WriteBatches)
    assert 1_000 < len(work.batches) < 20_000
    assert work.batches == _write(20_000).batches[: len(work.batches)]


@pytest.mark.parametrize("name", ["w", "a" * 63, f"{'b' * 61}-c"])
def test_names_fit_and_belong_to_one_attempt_alone(name: str) -> None:
    made = attempt(SPARK, name=name)
    assert len(made.name) <= naming.LENGTH_MAX
    executors = naming.executors(made.start.id)
    assert len(executors) <= naming.EXECUTOR_LENGTH_MAX
    for change in ({"attempt": 5}, {"uid": "other-uid"}, {"name": f"{name[:-1]}x"}):
        other = dataclasses.replace(made.start.id, **change)  # type: ignore[arg-type]
        assert naming.run(other) != made.name
        assert naming.executors(other) != executors


def _started(made: runs.Attempt) -> Manifest:
    """Return the Job of an attempt as it is once it was resumed."""
    job = runs.job(made)
    job["metadata"] |= {"creationTimestamp": "2027-01-15T08:00:00Z", "uid": "of-the-job"}
    patch = runs.start_request(job, ow.START_MS)
    assert patch["metadata"]["uid"] == "of-the-job"
    job["metadata"]["annotations"] |= patch["metadata"]["annotations"]
    job["spec"] |= patch["spec"]
    return job


def test_job_that_was_just_made_makes_no_pod_and_is_no_attempt_yet() -> None:
    job = runs.job(attempt())
    assert job["spec"]["suspend"]
    assert observed.read(job, [], None, ow.START_MS) is None


def test_job_that_was_just_resumed_is_an_attempt_that_waits_for_its_pod() -> None:
    made = attempt()
    job = _started(made)
    assert not job["spec"]["suspend"]
    found = observed.read(job, [], None, ow.START_MS)
    assert found is not None
    assert found.id == made.start.id
    assert (found.protocol_hash, found.run_hash) == (made.start.table.protocol_hash, "r")
    assert found.waiting is not None


def test_request_to_stop_is_read_from_the_job_it_was_put_into() -> None:
    job = _started(attempt())
    stop = effects.StopRun(id=attempt().start.id, is_killed=False, reason="suspended")
    patch = runs.stop_request(stop, 17)
    job["metadata"]["annotations"] |= patch["metadata"]["annotations"]
    found = observed.read(job, [], None, ow.START_MS)
    assert found is not None
    assert (found.stop_requested_ms, found.stop_reason) == (17, "suspended")


COMPACT = job_specs.Compact(step=job_specs.CompactionStep.EXECUTE, instant_time=ow.time(1))
SMALL_PLAN = memory.PlanSize(file_groups=1, log_bytes_max=1 << 20)
LARGE_PLAN = memory.PlanSize(file_groups=40, log_bytes_max=10 << 30)


def compactor(
    plan_size: memory.PlanSize | None,
    runtime: execution.Runtime = LOCAL,
    memory_percent: int = 100,
) -> tuple[int, int, job_specs.JobSpec]:
    """Return the memory in MiB that a pod asks for and may take, and what its job is told."""
    made = attempt(runtime, work=COMPACT, plan_size=plan_size, memory_percent=memory_percent)
    (container,) = pod_of(runs.job(made))["spec"]["containers"]
    amounts = [container["resources"][each]["memory"] for each in ("requests", "limits")]
    asked, allowed = (pods.mebibytes(amount) for amount in amounts)
    spec = runs.job_spec(made)
    at_once = spec.engine.parallelism
    assert at_once is not None
    # What all slices together may take fits beside the process.
    taken = at_once * spec.settings.compaction_memory_bytes + memory.PROCESS_BYTES
    assert taken <= allowed << 20
    return asked, allowed, spec


def test_pod_of_a_small_plan_is_small() -> None:
    asked, allowed, spec = compactor(SMALL_PLAN)
    assert asked == allowed == 192 + 512 + 8
    assert spec.engine.parallelism == 1


def test_pod_of_a_large_plan_takes_the_limit_of_runs_and_its_slices_what_fits() -> None:
    asked, allowed, spec = compactor(LARGE_PLAN)
    assert 1024 < asked == allowed <= 2048
    assert spec.settings.compaction_memory_bytes >= 1 << 30


def test_pod_whose_plan_is_not_made_yet_takes_the_default() -> None:
    asked, allowed, _ = compactor(None)
    assert (asked, allowed) == (1024, 2048)


@pytest.mark.parametrize("threads", [None, 1, 3, 64])
def test_memory_of_a_runtime_stands_and_is_divided(threads: int | None) -> None:
    amounts = execution.Amounts(memory="4Gi")
    given = execution.Resources(requests=amounts, limits=amounts)
    runtime = execution.Runtime(resources=given, parallelism=threads)
    asked, allowed, spec = compactor(LARGE_PLAN, runtime)
    assert (asked, allowed) == (4096, 4096)
    expected = {None: 3, 1: 1, 3: 3, 64: (4096 - 192) // 512}
    assert spec.engine.parallelism == expected[threads]


def test_compactor_that_ran_out_of_memory_gets_more_for_each_slice() -> None:
    _, once, before = compactor(SMALL_PLAN)
    _, more, after = compactor(SMALL_PLAN, memory_percent=150)
    assert more > once
    assert after.settings.compaction_memory_bytes > before.settings.compaction_memory_bytes


def test_other_runs_keep_their_memory_and_threads() -> None:
    spec = runs.job_spec(attempt())
    assert spec.engine.parallelism is None
    assert spec.settings.compaction_memory_bytes == settings.WriteSettings().compaction_memory_bytes
