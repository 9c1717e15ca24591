"""What the operator makes for runs, observers and locks, at a real API server.

No pod runs here: what is shown is that the API server takes each manifest as it is, by the
restricted standard, and that what is done twice is done once.
"""

import asyncio
import dataclasses
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from hoodie import environment, errors
from hoodie.clock import SystemClock
from hoodie.contract import attempt_fences, job_specs
from hoodie.model import settings
from hoodie_operator.api import configuration, hudi_table, kinds, objects, resources
from hoodie_operator.api.resources import Manifest
from hoodie_operator.cluster.adapters.fences import Fences
from hoodie_operator.cluster.adapters.lock_servers import LockServers
from hoodie_operator.cluster.adapters.observers import ClusterObservers
from hoodie_operator.cluster.adapters.runs import JobRuns
from hoodie_operator.cluster.client import api, api_errors, logins
from hoodie_operator.cluster.control import ports
from hoodie_operator.manifests import lock_servers, naming, runs
from hoodie_operator.manifests import observers as observer_manifests
from hoodie_operator.observing.observer import Bounds, Observer
from hoodie_operator.reconcile import effective, effects, facts, names
from support.kube import objects as paths
from support.kube import programs
from support.kube.clusters import Cluster
from support.operators import operator_world as ow
from support.operators import rule_examples
from support.operators.cluster_objects import make
from support.operators.observer_served import Served
from support.tables.job_workshop import Workshop

Result = TypeVar("Result")
CLOCK = SystemClock()
TOLD = configuration.parse(b"dataRoots: [/data]\nimage: {name: 'hudi:1'}", "operator.yaml")
STORAGE: dict[str, Any] = {
    "path": "flights",
    "secrets": ["s3"],
    "env": {"AWS_REGION": "eu-west-1"},
    "volumes": [{"name": "lake", "persistentVolumeClaim": "lake", "mountPath": "/data"}],
}
SPARK = {
    "engine": "Spark",
    "executors": {"instances": 2},
    "nodeSelector": {"disk": "fast"},
    "tolerations": [{"key": "spot", "operator": "Exists"}],
}


@pytest.fixture(autouse=True)
def restricted(cluster: Cluster, namespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the API server refuse every pod that does not keep to the standard."""
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    label = "pod-security.kubernetes.io/enforce=restricted"
    cluster.kubectl("label", "namespace", namespace, label)


def run(act: Callable[[api.Api], Awaitable[Result]]) -> Result:
    """Do something with an API client."""

    async def acted() -> Result:
        server = api.Api(logins.Logins())
        try:
            return await act(server)
        finally:
            await server.close()

    return asyncio.run(acted())


@dataclasses.dataclass(frozen=True)
class Made:
    """A Writer, its table, and its first attempt."""

    writer: objects.AnyObject
    table: objects.Table
    start: effects.StartRun

    @property
    def owner(self) -> ports.RunOwner:
        return ports.RunOwner(found=self.writer, table=self.start.table)


@pytest.fixture
def made(cluster: Cluster, namespace: str) -> Made:
    spec = rule_examples.edited(ow.TABLE, storage=STORAGE)
    table = make(cluster, namespace, kinds.HUDI_TABLE, "flights", spec)
    writer = make(cluster, namespace, kinds.WRITER, "schedules", ow.writer_spec(runtime=SPARK))
    assert isinstance(table.spec, hudi_table.HudiTableSpec)
    config = effective.config(table)  # type: ignore[arg-type]  # a HudiTable
    assert not isinstance(config, effective.Refusal)
    start = effects.StartRun(
        id=facts.RunId(
            kind="Writer", namespace=namespace, name="schedules", uid=writer.uid, attempt=1
        ),
        fence_number=7,
        table=effective.EffectiveTable(
            uri="file:///data/flights",
            config=config,
            settings=settings.WriteSettings(),
            lock="filesystem",
            protocol_hash="h1",
        ),
        work=job_specs.DropTable(),
        runtime=writer.spec.runtime,  # type: ignore[attr-defined]  # a Writer's
        run_hash="r",
        memory_percent=100,
        writer_id="schedules",
        action_id=None,
    )
    return Made(writer=writer, table=table, start=start)  # type: ignore[arg-type]


def job_runs(server: api.Api) -> JobRuns:
    return JobRuns(server, Fences(lambda: 1, CLOCK), TOLD, CLOCK)


def test_attempt_is_started_once_however_often_it_is_asked_for(
    cluster: Cluster, namespace: str, made: Made
) -> None:
    async def start(server: api.Api) -> list[Manifest]:
        found = []
        for _ in range(3):
            found += await job_runs(server).start(made.start, made.writer, made.table)
        return found

    uids = {job["metadata"]["uid"] for job in run(start)}
    assert len(uids) == 1
    found = cluster.api.get(f"/apis/batch/v1/namespaces/{namespace}/jobs")["items"]
    assert [job["metadata"]["uid"] for job in found] == list(uids)
    name = runs.told_by(found[0])
    told = cluster.api.get(f"/api/v1/namespaces/{namespace}/configmaps/{name}")
    assert job_specs.decode_spec(told["data"]["spec.json"].encode(), "spec").attempt == 7
    template = json.loads(told["data"]["executor.json"])
    template["metadata"]["name"] = "executor"
    cluster.kubectl(
        "create", "--dry-run=server", "-n", namespace, "-f", "-", stdin=json.dumps(template)
    )


def test_operator_that_died_between_two_steps_goes_on(
    cluster: Cluster, namespace: str, made: Made
) -> None:
    class Dying(api.Api):
        async def create(self, manifest: Manifest) -> Manifest:
            if manifest["kind"] == "Job":
                raise api_errors.UnavailableError("killed")
            return await super().create(manifest)

    async def die() -> None:
        server = Dying(logins.Logins())
        try:
            with pytest.raises(api_errors.UnavailableError):
                await job_runs(server).start(made.start, made.writer, made.table)
        finally:
            await server.close()

    asyncio.run(die())
    assert cluster.api.get(f"/apis/batch/v1/namespaces/{namespace}/jobs")["items"] == []
    run(lambda server: job_runs(server).start(made.start, made.writer, made.table))
    assert len(cluster.api.get(f"/apis/batch/v1/namespaces/{namespace}/jobs")["items"]) == 1


def test_pod_of_a_run_is_taken_by_the_restricted_standard(
    cluster: Cluster, namespace: str, made: Made
) -> None:
    (job,) = run(lambda server: job_runs(server).start(made.start, made.writer, made.table))
    template = job["spec"]["template"]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "driver", "labels": template["metadata"]["labels"]},
        "spec": template["spec"],
    }
    cluster.api.create(
        f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "hudi-jobs"}}
    )
    cluster.kubectl("create", "--dry-run=server", "-n", namespace, "-f", "-", stdin=json.dumps(pod))


@pytest.mark.parametrize("is_suspended", [False, True])
def test_stopped_attempt_says_so_and_makes_no_pod_any_more(
    cluster: Cluster, namespace: str, made: Made, *, is_suspended: bool
) -> None:
    """Somebody may have suspended its Job, which then has no time limit, and never ends."""
    stop = effects.StopRun(id=made.start.id, is_killed=False, reason="the Writer is suspended")

    async def act(server: api.Api) -> list[facts.Run | None]:
        attempts = job_runs(server)
        (job,) = await attempts.start(made.start, made.writer, made.table)
        before = attempts.read(job, [], None, CLOCK.now_ms())
        if is_suspended:
            name = job["metadata"]["name"]
            job = await server.merge_patch(
                resources.JOB, namespace, name, {"spec": {"suspend": True}}
            )
        (job,) = await attempts.stop(stop, made.owner, job, [])
        (again,) = await attempts.stop(stop, made.owner, job, [])
        assert again["metadata"]["resourceVersion"] == job["metadata"]["resourceVersion"]
        for _ in range(200):
            found = await server.get(resources.JOB, namespace, naming.run(made.start.id))
            after = attempts.read(found, [], None, CLOCK.now_ms())
            if after is not None and not after.is_running:
                break
            await asyncio.sleep(0.1)
        # A late start is no second one.
        (late,) = await attempts.start(made.start, made.writer, made.table)
        assert late["metadata"]["uid"] == job["metadata"]["uid"]
        return [before, after]

    before, after = run(act)
    assert before is not None
    assert after is not None
    assert (before.is_running, before.stop_requested_ms) == (True, None)
    assert (after.is_running, after.stop_reason) == (False, "the Writer is suspended")


def test_attempt_is_stopped_though_its_fence_is_silent(
    cluster: Cluster, namespace: str, made: Made
) -> None:
    class Silent(Fences):
        async def admit(
            self, namespace: str, node: attempt_fences.FenceNode, attempt: int, protocol_hash: str
        ) -> None:
            """Take what is told as done."""

        async def close(self, namespace: str, node: attempt_fences.FenceNode, attempt: int) -> None:
            raise errors.StorageError("no ZooKeeper answers")

    effective_table = dataclasses.replace(
        made.start.table, lock="zookeeper://nowhere:2181/hudi/flights"
    )
    start = dataclasses.replace(made.start, table=effective_table)
    stop = effects.StopRun(id=made.start.id, is_killed=False, reason="the Writer is suspended")

    async def act(server: api.Api) -> Manifest:
        attempts = JobRuns(server, Silent(lambda: 1, CLOCK), TOLD, CLOCK)
        (job,) = await attempts.start(start, made.writer, made.table)
        (job,) = await attempts.stop(stop, made.owner, job, [])
        return job

    stopped = run(act)
    assert stopped["metadata"]["annotations"][naming.STOP_REASON] == "the Writer is suspended"


def test_forgotten_attempt_leaves_nothing(cluster: Cluster, namespace: str, made: Made) -> None:
    async def act(server: api.Api) -> None:
        attempts = job_runs(server)
        (job,) = await attempts.start(made.start, made.writer, made.table)
        for _ in range(2):
            await attempts.forget(made.start.id, made.owner, job)

    run(act)
    left = cluster.api.get(f"/api/v1/namespaces/{namespace}/configmaps")["items"]
    assert [each["metadata"]["name"] for each in left] in ([], ["kube-root-ca.crt"])


def test_job_of_somebody_else_is_not_taken_for_an_attempt(
    cluster: Cluster, namespace: str, made: Made
) -> None:
    foreign = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": naming.run(made.start.id), "namespace": namespace},
        "spec": {
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "c", "image": "busybox"}],
                }
            }
        },
    }
    cluster.api.create(f"/apis/batch/v1/namespaces/{namespace}/jobs", foreign)
    with pytest.raises(api_errors.AlreadyExistsError, match="another owner"):
        run(lambda server: job_runs(server).start(made.start, made.writer, made.table))


def test_lock_server_is_made_and_its_pod_taken_by_the_restricted_standard(
    cluster: Cluster, namespace: str
) -> None:
    lock: Any = make(cluster, namespace, kinds.LOCK_PROVIDER, "zk", rule_examples.LOCK)

    async def act(server: api.Api) -> facts.LockFacts:
        servers = LockServers(server, TOLD, CLOCK)
        for _ in range(2):
            await servers.serve(lock, ())
        return await servers.look(lock, None)

    seen = run(act)
    assert not seen.is_ready
    assert list(seen.servers) == [lock_servers.address(lock)]
    name = naming.lock_server(lock)
    found = cluster.api.get(f"/apis/apps/v1/namespaces/{namespace}/statefulsets/{name}")
    assert found["metadata"]["ownerReferences"][0]["uid"] == lock.uid
    assert found["spec"]["serviceName"] == name
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "lock", "labels": found["spec"]["template"]["metadata"]["labels"]},
        "spec": found["spec"]["template"]["spec"],
    }
    pod["spec"]["volumes"].append({"name": "data", "emptyDir": {}})
    cluster.kubectl("create", "--dry-run=server", "-n", namespace, "-f", "-", stdin=json.dumps(pod))


def test_lock_server_keeps_its_volume_when_another_is_configured(
    cluster: Cluster, namespace: str
) -> None:
    lock: Any = make(cluster, namespace, kinds.LOCK_PROVIDER, "zk", rule_examples.LOCK)
    larger = configuration.parse(
        b"dataRoots: [/data]\nimage: {name: 'hudi:2'}\n"
        b"lockServers: {volumeSize: 77Gi, storageClass: other}",
        "operator.yaml",
    )

    async def act(server: api.Api) -> list[str]:
        before, after = (LockServers(server, told, CLOCK) for told in (TOLD, larger))
        await before.serve(lock, ())
        for _ in range(2):
            await after.serve(lock, ())
        return [(await each.look(lock, None)).message for each in (before, after)]

    before, after = run(act)
    assert "volume" not in before
    assert "its volume is as it was made" in after
    path = f"/apis/apps/v1/namespaces/{namespace}/statefulsets/{naming.lock_server(lock)}"
    found = cluster.api.get(path)["spec"]
    assert found["updateStrategy"] == {"type": "OnDelete"}
    assert found["template"]["spec"]["containers"][0]["image"] == "hudi:2"
    (claim,) = found["volumeClaimTemplates"]
    size = TOLD.lock_servers.volume_size
    assert claim["spec"]["resources"]["requests"]["storage"] == size
    # As it was configured first, nothing is in the way any more.
    run(lambda server: LockServers(server, TOLD, CLOCK).serve(lock, ()))


def test_lock_server_stays_for_the_tables_of_a_provider_that_is_deleted(
    cluster: Cluster, namespace: str
) -> None:
    lock: Any = make(cluster, namespace, kinds.LOCK_PROVIDER, "zk", rule_examples.LOCK)
    table = make(cluster, namespace, kinds.HUDI_TABLE, "flights", ow.TABLE)
    run(lambda server: LockServers(server, TOLD, CLOCK).serve(lock, [names.owner(table)]))
    served = [
        resources.STATEFUL_SET.path(namespace, naming.lock_server(lock)),
        resources.SERVICE.path(namespace, naming.lock_server(lock)),
    ]

    def owners() -> list[list[str]]:
        found = [cluster.api.get(path)["metadata"]["ownerReferences"] for path in served]
        return [[owner["kind"] for owner in each] for each in found]

    assert owners() == [["LockProvider", "HudiTable"]] * 2
    cluster.api.delete(paths.path(kinds.LOCK_PROVIDER, namespace, "zk"))
    # The garbage collector has looked at it then, and let it be.
    programs.wait_until(lambda: owners() == [["HudiTable"]] * 2, "the provider is gone")
    cluster.api.delete(paths.path(kinds.HUDI_TABLE, namespace, "flights"))
    programs.wait_until(
        lambda: not any(cluster.api.is_there(path) for path in served), "the server is gone"
    )


def test_observers_are_kept_as_declared_asked_and_removed(
    cluster: Cluster, namespace: str, made: Made, tmp_path: Path
) -> None:
    workshop = Workshop(tmp_path)
    workshop.create()
    workshop.write(workshop.file("1", "a,eu,1,x\n"))
    env = environment.system(allowed_roots=(str(tmp_path),))
    served = Served(Observer(env, (str(tmp_path),), Bounds(threads=2)), tmp_path)
    identity = observer_manifests.identity(made.table, TOLD)
    deployments = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    look = ports.TableLook(
        table=made.table, uri=f"file://{workshop.uri}", settings=settings.WriteSettings()
    )

    addresses = [f"http://127.0.0.1:{served.server.server_port}"]

    async def act(server: api.Api) -> list[facts.TableFacts | None]:
        # Who keeps observers removes all others where he looks: those of other tests, too.
        place = TOLD.model_copy(update={"watch_namespaces": (namespace,)})
        observers = ClusterObservers(server, place, CLOCK, address_of=lambda _: addresses[-1])
        seen = []
        try:
            # Before anybody saw to it that there is one, it only starts.
            seen.append((await observers.look_at_tables([look]))[made.table.uid])
            for _ in range(2):
                await observers.keep([made.table])
            secret = await server.get(resources.SECRET, namespace, identity.name)
            assert secret is not None
            (tmp_path / "token").write_text(observer_manifests.token_of(secret) or "")
            seen.append((await observers.look_at_tables([look]))[made.table.uid])
            seen.append((await observers.look_at_tables([look]))[made.table.uid])
            workshop.write(workshop.file("2", "b,eu,2,y\n"))
            seen.append((await observers.look_at_tables([look]))[made.table.uid])
            addresses.append("http://127.0.0.1:1")
            seen.append((await observers.look_at_tables([look]))[made.table.uid])
            assert len(cluster.api.get(deployments)["items"]) == 1
            await observers.keep([])
        finally:
            await observers.close()
        return seen

    try:
        starting, first, same, changed, silent = run(act)
    finally:
        served.close()
    assert starting is None
    assert first is not None
    assert len(first.commits) == 1
    assert same is not None
    assert (same.commits, same.config) == (first.commits, first.config)
    assert same.observed_ms >= first.observed_ms
    assert changed is not None
    assert len(changed.commits) == 2
    assert silent is not None
    assert silent.problem is not None
    assert silent.problem.is_transient
    assert identity.name in silent.problem.message
    for path in (
        f"{deployments}/{identity.name}",
        f"/api/v1/namespaces/{namespace}/services/{identity.name}",
        f"/api/v1/namespaces/{namespace}/secrets/{identity.name}",
    ):
        assert not cluster.api.is_there(path), path


def test_pod_of_an_observer_has_no_token_of_the_api_server_and_only_reads(
    cluster: Cluster, namespace: str, made: Made
) -> None:
    identity = observer_manifests.identity(made.table, TOLD)
    template = observer_manifests.deployment(identity, TOLD, [])["spec"]["template"]
    assert template["spec"]["automountServiceAccountToken"] is False
    (container,) = template["spec"]["containers"]
    mounts = {each["mountPath"]: each.get("readOnly", False) for each in container["volumeMounts"]}
    assert mounts["/data"] is True
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "observer", "labels": template["metadata"]["labels"]},
        "spec": template["spec"],
    }
    cluster.kubectl("create", "--dry-run=server", "-n", namespace, "-f", "-", stdin=json.dumps(pod))
