"""An attempt as a Job and the ConfigMap that tells it what to do.

The Job is made suspended, and the mark that it bears from when it was resumed is the record that
the attempt was started. It makes one pod and never another: that is the next attempt's affair,
which is another Job. With Spark's executors as pods of their own the Job's pod is the driver, and
alone has a token.
"""

import dataclasses
import json
import math
from dataclasses import dataclass
from typing import Final, cast

from hoodie.contract import attempt_fences, batch_settings, engine_specs, job_specs
from hoodie.model import table_config
from hoodie.transaction import fence_nodes
from hoodie.transaction.locks import address_texts, addresses
from hoodie_operator.api import configuration, execution, fields, kinds, objects
from hoodie_operator.api.resources import Manifest
from hoodie_operator.manifests import compactors, naming, pods
from hoodie_operator.reconcile import effective, effects

PROGRESS_PORT: Final = 8090
FOLDER: Final = "/etc/hudi-operator"
SPEC: Final = "spec.json"
BATCH_FOLDER: Final = "/opt/hudi-operator/batch"
BATCH_SETTINGS: Final = "settings.json"
TEMPLATE: Final = "executor.json"
TERMINATION_PATH: Final = "/dev/termination-log"
_SPEC_BYTES_MAX: Final = 900_000
"""A ConfigMap holds a mebibyte, its metadata included."""

_VOLUME: Final = "run"
_BATCH_VOLUME: Final = "batch"
_OVERHEAD_MIB_MIN: Final = 384


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """Everything that the manifests of an attempt are made of.

    Attributes:
        start: What is to be started.
        owner: Whose run it is.
        table: What it works on.
        told: The operator's configuration.
    """

    start: effects.StartRun
    owner: objects.AnyObject
    table: objects.Table
    told: configuration.Configuration

    @property
    def name(self) -> str:
        """Of the Job."""
        return naming.run(self.start.id)

    @property
    def labels(self) -> dict[str, str]:
        """Of everything."""
        return naming.run_labels(self.start.id, self.table.name)

    @property
    def image(self) -> str:
        """Of its pods."""
        return self.start.runtime.image or self.told.image.name

    @property
    def service_account(self) -> str:
        """As whom its pods run."""
        return self.table.spec.storage.service_account or self.told.service_accounts.default

    @property
    def has_batches(self) -> bool:
        """Whether it takes up settings at each batch."""
        return isinstance(self.start.work, job_specs.WriteBatches)

    @property
    def executors(self) -> execution.Executors | None:
        """Pods beside the Job's own."""
        return self.start.runtime.executors

    @property
    def resources(self) -> execution.Resources:
        """What the Job's pod gets."""
        declared = self.start.runtime.resources or self.told.resources.runs
        if compactors.is_local(self.start):
            declared = compactors.sized(self.start, self.told.resources.runs)
        return pods.scaled(declared, self.start.memory_percent)

    @property
    def executor_resources(self) -> execution.Resources:
        """What each executor gets."""
        told = self.executors.resources if self.executors else execution.Resources()
        declared = told if told != execution.Resources() else self.told.resources.executors
        return pods.scaled(declared, self.start.memory_percent)


def fence(start: effects.StartRun) -> attempt_fences.FenceNode | None:
    """Return where the operator says which attempt may commit; None where it cannot.

    A node, where the lock is in a ZooKeeper, which the operator reaches as well. Each attempt
    claims a record in the table beside it. A creation needs neither: it is one conditional write,
    of equal content.
    """
    if isinstance(start.work, job_specs.CreateTable):
        return None
    return _fence(start.table, _fenced(start.id.kind, start.id.name, start.writer_id))


def fence_of(
    owner: objects.AnyObject, table: effective.EffectiveTable
) -> attempt_fences.FenceNode | None:
    """Return where the fence of an object's attempts is, as its table is declared now.

    What an object of the API server notes of it may be anybody's, and is not believed.
    """
    is_writer = owner.key.kind == kinds.WRITER.name
    writer_id = effective.writer_id(cast("objects.Writer", owner)) if is_writer else None
    return _fence(table, _fenced(owner.key.kind, owner.name, writer_id))


def _fenced(kind: str, name: str, writer_id: str | None) -> str:
    """Return whose attempts a fence tells apart: the same for objects of one name, one by one."""
    if writer_id is not None:
        return f"writer.{writer_id}"
    return f"table.{name}" if kind == kinds.HUDI_TABLE.name else f"action.{name}"


def _fence(table: effective.EffectiveTable, owner: str) -> attempt_fences.FenceNode | None:
    lock = address_texts.parse(table.lock)
    if not isinstance(lock, addresses.ZooKeeperAddress):
        return None
    path = lock.path or addresses.implicit_path(table.uri)
    return fence_nodes.address(lock, path, table.uri, owner)


def job_spec(attempt: Attempt) -> job_specs.JobSpec:
    """Return what the job is told; of a long list of batches as many as a ConfigMap holds.

    The next attempt goes on with the rest, as after any other success.
    """
    start = attempt.start
    spec = job_specs.JobSpec(
        table_uri=start.table.uri,
        allowed_roots=attempt.told.data_roots,
        table_properties=table_config.to_properties(start.table.config),
        settings=start.table.settings,
        lock=start.table.lock,
        protocol_hash=start.table.protocol_hash,
        writer_id=start.writer_id,
        action_id=start.action_id,
        attempt=start.fence_number,
        fence=fence(start),
        work=start.work,
        engine=_engine(attempt),
        progress_path=None,
        result_path=None,
        termination_path=TERMINATION_PATH,
        progress_port=PROGRESS_PORT,
        batch_settings_path=f"{BATCH_FOLDER}/{BATCH_SETTINGS}" if attempt.has_batches else None,
    )
    if compactors.is_local(start):
        spec = compactors.divided(attempt.resources, spec, start)
    while isinstance(spec.work, job_specs.WriteBatches):
        excess = len(job_specs.encode_spec(spec)) / _SPEC_BYTES_MAX
        if excess <= 1 or len(spec.work.batches) == 1:
            break
        count = max(1, int(len(spec.work.batches) / excess * 0.9))
        work = dataclasses.replace(spec.work, batches=spec.work.batches[:count])
        spec = dataclasses.replace(spec, work=work)
    return spec


def _engine(attempt: Attempt) -> engine_specs.EngineSpec:
    engine = attempt.start.engine
    if engine.kind is not engine_specs.EngineKind.SPARK:
        return engine
    conf = {
        "spark.driver.memory": f"{_heap_mib(attempt.resources)}m",
        "spark.kubernetes.container.image.pullPolicy": attempt.told.image.pull_policy.value,
        **engine.spark_conf,
    }
    return dataclasses.replace(engine, spark_conf=conf, executors=_executors(attempt))


def _executors(attempt: Attempt) -> engine_specs.KubernetesExecutors | None:
    if attempt.executors is None:
        return None
    given = attempt.executor_resources
    heap_mib = _heap_mib(given)
    cpu = given.requests.cpu if given.requests.cpu is not None else given.limits.cpu
    return engine_specs.KubernetesExecutors(
        namespace=attempt.owner.key.namespace,
        instances=attempt.executors.instances,
        name_prefix=naming.executors(attempt.start.id),
        image=attempt.image,
        template_path=f"{FOLDER}/{TEMPLATE}",
        cores=max(1, math.floor(_cores(given.limits.cpu or cpu))),
        cpu_request=None if cpu is None else str(cpu),
        heap_mib=heap_mib,
        overhead_mib=max(_OVERHEAD_MIB_MIN, _memory_mib(given) - heap_mib),
        labels={**attempt.labels, naming.ROLE: naming.EXECUTOR},
    )


def _heap_mib(given: execution.Resources) -> int:
    """Return half of the memory: the rest is for Python and Arrow beside the JVM."""
    return max(1, _memory_mib(given) // 2)


def _memory_mib(given: execution.Resources) -> int:
    memory = given.limits.memory or given.requests.memory
    return 2 * 1024 if memory is None else pods.mebibytes(memory)


def _cores(cpu: str | int | None) -> float:
    text = "1" if cpu is None else str(cpu)
    return int(text[:-1]) / 1000 if text.endswith("m") else float(text)


def config_map(attempt: Attempt) -> Manifest:
    """Return the ConfigMap with the spec of the job, and the template of its executors."""
    data = {SPEC: job_specs.encode_spec(job_spec(attempt)).decode()}
    if attempt.executors is not None:
        data[TEMPLATE] = json.dumps(_executor_template(attempt))
    name = naming.run_spec(attempt.start.id, json.dumps(data, sort_keys=True))
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _metadata(attempt, name),
        "immutable": True,
        "data": data,
    }


def job(attempt: Attempt) -> Manifest:
    """Return the Job, which takes the ConfigMap of just this content, and makes no pod yet."""
    start = attempt.start
    hashes = {naming.PROTOCOL: start.table.protocol_hash, naming.RUN: start.run_hash}
    batch = {naming.BATCH_SETTINGS: start.batch_settings_hash} if attempt.has_batches else {}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {**_metadata(attempt, attempt.name), "annotations": {**hashes, **batch}},
        "spec": {
            "suspend": True,
            "backoffLimit": 0,
            "podReplacementPolicy": "Failed",
            "template": {
                "metadata": {
                    "labels": {**attempt.labels, naming.ROLE: naming.DRIVER},
                    # An autoscaler leaves the node of a run alone.
                    "annotations": {
                        **hashes,
                        "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
                    },
                },
                "spec": {
                    **pods.spec(_driver(attempt), attempt.told.image),
                    "restartPolicy": "Never",
                },
            },
        },
    }


def start_request(job: Manifest, now_ms: int) -> Manifest:
    """Return the change of a Job, and of no other of its name, that has it make its pod."""
    return {
        "metadata": {
            "uid": job["metadata"]["uid"],
            "annotations": {naming.STARTED: str(now_ms)},
        },
        "spec": {"suspend": False},
    }


def batch_settings_map(
    effect: effects.GiveBatchSettings, owner: objects.AnyObject, job: Manifest
) -> Manifest:
    """Return the ConfigMap with the batch settings of an attempt at work.

    Its pod has mounted it since its start, when it was not there: kubelets bring what is in it
    within a minute or two.
    """
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": naming.batch_settings(effect.id),
            "namespace": effect.id.namespace,
            "labels": dict(job["metadata"]["labels"]),
            "ownerReferences": [naming.owner_reference(owner)],
        },
        "data": {BATCH_SETTINGS: batch_settings.encode(effect.settings).decode()},
    }


def batch_settings_note(effect: effects.GiveBatchSettings, job: Manifest) -> Manifest:
    """Return the change of a Job that says which batch settings its attempt was given."""
    return {
        "metadata": {
            "uid": job["metadata"]["uid"],
            "annotations": {naming.GIVEN_BATCH_SETTINGS: effect.settings.hash},
        }
    }


def has_batch_settings_map(job: Manifest) -> bool:
    """Return whether an attempt was given batch settings while it was at work."""
    return naming.GIVEN_BATCH_SETTINGS in (job["metadata"].get("annotations") or {})


def told_by(job: Manifest) -> str | None:
    """Return the name of the ConfigMap that tells a Job what to do; None for none of ours."""
    run = naming.run_id(job)
    for volume in job["spec"]["template"]["spec"].get("volumes") or ():
        name = (volume.get("configMap") or {}).get("name", "")
        if run is not None and naming.is_run_spec(name, run):
            return str(name)
    return None


def _metadata(attempt: Attempt, name: str) -> Manifest:
    return {
        "name": name,
        "namespace": attempt.owner.key.namespace,
        "labels": attempt.labels,
        "ownerReferences": [naming.owner_reference(attempt.owner)],
    }


def _driver(attempt: Attempt) -> pods.Pod:
    told_by = config_map(attempt)["metadata"]["name"]
    container = pods.Container(
        name=naming.DRIVER,
        image=attempt.image,
        arguments=(*pods.PYTHON, attempt.start.program, f"{FOLDER}/{SPEC}"),
        resources=attempt.resources,
        storage=attempt.table.spec.storage,
        runtime=attempt.start.runtime,
        variables={
            "HUDI_OPERATOR_POD_IP": pods.field_of_pod("status.podIP"),
            "HUDI_OPERATOR_POD_NAME": pods.field_of_pod("metadata.name"),
            # Spark makes folders for what it spills, and does so before it is told where.
            "SPARK_LOCAL_DIRS": f"{pods.WORK_FOLDER}/spark",
        },
        mounts={_VOLUME: FOLDER, **({_BATCH_VOLUME: BATCH_FOLDER} if attempt.has_batches else {})},
        extra={
            "terminationMessagePath": TERMINATION_PATH,
            "ports": [{"name": "progress", "containerPort": PROGRESS_PORT}],
        },
    )
    return pods.Pod(
        container=container,
        service_account=attempt.service_account,
        has_token=attempt.executors is not None,
        grace_s=math.ceil(fields.duration_ms(attempt.told.limits.stop_grace) / 1000),
        volumes=(
            {"name": _VOLUME, "configMap": {"name": told_by}},
            *([_batch_volume(attempt)] if attempt.has_batches else []),
        ),
        pull_secrets=attempt.start.runtime.image_pull_secrets or (),
    )


def _batch_volume(attempt: Attempt) -> Manifest:
    name = naming.batch_settings(attempt.start.id)
    return {"name": _BATCH_VOLUME, "configMap": {"name": name, "optional": True}}


def _executor_template(attempt: Attempt) -> Manifest:
    """Return the pod that Spark makes executors from; names, image and resources are Spark's."""
    container = pods.Container(
        name=naming.EXECUTOR,
        image=attempt.image,
        resources=attempt.executor_resources,
        storage=attempt.table.spec.storage,
        runtime=attempt.start.runtime,
    )
    pod = pods.Pod(
        container=container,
        service_account=attempt.service_account,
        pull_secrets=attempt.start.runtime.image_pull_secrets or (),
        # Spark mounts its own there.
        has_work_folder=False,
    )
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"labels": {**attempt.labels, naming.ROLE: naming.EXECUTOR}},
        "spec": pods.spec(pod, attempt.told.image),
    }


def stop_request(effect: effects.StopRun, now_ms: int) -> Manifest:
    """Return the change of a Job that says that its attempt was told to stop, when and why.

    Its time is over with that, so that it makes no pod later where it could make none yet. That of
    one that somebody has suspended would never be.
    """
    return {
        "spec": {"activeDeadlineSeconds": 1, "suspend": False},
        "metadata": {
            "annotations": {
                naming.STOP_REQUESTED: str(now_ms),
                naming.STOP_REASON: effect.reason[:1000],
            }
        },
    }
