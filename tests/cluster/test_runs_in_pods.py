"""Attempts as real pods: what they do, what is read of them, and what ends them."""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest

from hoodie import environment, errors, table
from hoodie.clock import SystemClock
from hoodie.contract import job_specs
from hoodie.model import settings
from hoodie_jobs import opening
from hoodie_operator.api import configuration, execution, kinds, resources
from hoodie_operator.api.resources import Manifest
from hoodie_operator.cluster.adapters.fences import Fences
from hoodie_operator.cluster.adapters.runs import JobRuns
from hoodie_operator.cluster.client import api, logins
from hoodie_operator.cluster.control import ports
from hoodie_operator.manifests import naming
from hoodie_operator.reconcile import effective, effects, facts, retries
from hoodie_operator.reconcile.facts import Obstacle
from support.kube import images, programs, registry_server
from support.kube.clusters import Cluster
from support.operators import operator_world as ow
from support.operators import rule_examples
from support.operators.cluster_objects import make
from support.tables.job_workshop import Workshop, batches_of, rows_of

Result = TypeVar("Result")
CLOCK = SystemClock()
ACCOUNT = "hudi-jobs"
END_S = 150.0
REGISTRY_PORT = 5999


def sized(memory: str) -> execution.Runtime:
    return execution.Runtime(
        resources=execution.Resources(
            requests=execution.Amounts(cpu="50m", memory=memory),
            limits=execution.Amounts(memory=memory),
        )
    )


class Place:
    """A namespace with a volume, an account for runs, a HudiTable and a Writer."""

    def __init__(self, cluster: Cluster, namespace: str, folder: Path, image: str) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.lake = folder
        text = f"dataRoots: [/data]\nimage: {{name: '{image}', pullPolicy: Never}}\n"
        accounts = f"serviceAccounts: {{default: {ACCOUNT}}}\n"
        self.told = configuration.parse((text + accounts).encode(), "operator.yaml")
        self.workshop = Workshop(folder)
        storage = {
            "path": "table",
            "volumes": [{"name": "lake", "persistentVolumeClaim": "lake", "mountPath": "/data"}],
        }
        spec = rule_examples.edited(ow.TABLE, storage=storage)
        self.table: Any = make(cluster, namespace, kinds.HUDI_TABLE, "flights", spec)
        self.writer = make(cluster, namespace, kinds.WRITER, "orders", ow.writer_spec())
        self._attempts = 0

    def start(
        self, work: job_specs.Work, runtime: execution.Runtime | None = None
    ) -> effects.StartRun:
        """Return the start of the Writer's next attempt."""
        self._attempts += 1
        return effects.StartRun(
            id=facts.RunId(
                kind="Writer",
                namespace=self.writer.key.namespace,
                name="orders",
                uid=self.writer.uid,
                attempt=self._attempts,
            ),
            fence_number=self._attempts,
            table=effective.EffectiveTable(
                uri="file:///data/table",
                config=self.workshop.config,
                settings=settings.WriteSettings(clock_wait_ms=0),
                lock="filesystem",
                protocol_hash="h",
            ),
            work=work,
            runtime=runtime or sized("1Gi"),
            run_hash="r",
            memory_percent=100,
            writer_id="orders",
            action_id=None,
        )

    def file(self, name: str, rows: str) -> str:
        """Write an input file and return its path in pods."""
        self.workshop.file(name, rows)
        return f"/data/{name}"

    def create(self) -> None:
        """Create the table from here, for pods to write into."""
        self.workshop.create()
        for path in [self.lake, *self.lake.rglob("*")]:
            path.chmod(0o777 if path.is_dir() else 0o666)

    def rows(self) -> set[tuple[object, ...]]:
        """Return the table's rows."""
        opened = table.open_table(str(self.lake / "table"), environment.system(parallelism=1))
        return set(rows_of(opened.read().read_all()))


@pytest.fixture
def place(
    cluster: Cluster,
    namespace: str,
    operator_image: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Place]:
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    label = "pod-security.kubernetes.io/enforce=restricted"
    cluster.kubectl("label", "namespace", namespace, label)
    folder = tmp_path / "lake"
    folder.mkdir()
    for path in (*folder.parents, folder):
        if path.is_relative_to("/tmp") and path != Path("/tmp"):
            path.chmod(0o777)
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": namespace},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteMany"],
            "hostPath": {"path": str(folder)},
            "claimRef": {"namespace": namespace, "name": "lake"},
        },
    }
    cluster.api.create("/api/v1/persistentvolumes", volume)
    claim = {
        "metadata": {"name": "lake"},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "",
            "volumeName": namespace,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    claims = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
    cluster.api.create(claims, claim)
    # The scheduler looks at a pod seldom again that it saw before its claim was bound.
    programs.wait_until(
        lambda: cluster.api.get(f"{claims}/lake")["status"].get("phase") == "Bound",
        "the claim is bound",
    )
    rules = "--resource=pods,services,configmaps,persistentvolumeclaims"
    verbs = "--verb=get,list,watch,create,patch,update,delete,deletecollection"
    cluster.kubectl("create", "serviceaccount", ACCOUNT, "-n", namespace)
    cluster.kubectl("create", "role", ACCOUNT, "-n", namespace, rules, verbs)
    bound = (f"--role={ACCOUNT}", f"--serviceaccount={namespace}:{ACCOUNT}")
    cluster.kubectl("create", "rolebinding", ACCOUNT, "-n", namespace, *bound)
    yield Place(cluster, namespace, folder, operator_image)
    cluster.api.delete(f"/api/v1/persistentvolumes/{namespace}")


@dataclasses.dataclass
class Watched:
    """One attempt, followed from outside."""

    runs: JobRuns
    server: api.Api
    place: Place
    start: effects.StartRun
    job: Manifest

    @property
    def owner(self) -> ports.RunOwner:
        return ports.RunOwner(found=self.place.writer, table=self.start.table)

    async def look(self) -> tuple[facts.Run, Sequence[Manifest]]:
        """Return what the attempt is now, and its pods."""
        namespace = self.place.namespace
        found = await self.server.get(resources.JOB, namespace, naming.run(self.start.id))
        labels = (
            f"{resources.OWNER_UID}={self.start.id.uid},{resources.ATTEMPT}={self.start.id.attempt}"
        )
        pods = (await self.server.list(resources.POD, namespace, labels)).items
        self.job = found or self.job
        told = await self.runs.progress(self.job, pods)
        run = self.runs.read(self.job, pods, told, CLOCK.now_ms())
        assert run is not None
        return run, pods

    async def until(
        self, is_so: Callable[[facts.Run], bool]
    ) -> tuple[facts.Run, Sequence[Manifest]]:
        """Wait until something is so of the attempt."""
        deadline_s = CLOCK.monotonic_s() + END_S
        while True:
            run, pods = await self.look()
            if is_so(run):
                return run, pods
            if CLOCK.monotonic_s() > deadline_s:
                raise AssertionError(f"after {END_S} s: {run}; {[p['status'] for p in pods]}")
            await asyncio.sleep(0.3)

    async def to_end(self) -> facts.Run:
        """Wait until the attempt has ended."""
        run, _ = await self.until(lambda run: not run.is_running)
        return run


def follow(
    place: Place, start: effects.StartRun, act: Callable[[Watched], Awaitable[Result]]
) -> Result:
    """Start an attempt, and do something with it."""

    async def followed() -> Result:
        server = api.Api(logins.Logins())
        runs = JobRuns(server, Fences(lambda: 1, CLOCK), place.told, CLOCK)
        try:
            (job,) = await runs.start(start, place.writer, place.table)
            return await act(Watched(runs=runs, server=server, place=place, start=start, job=job))
        finally:
            await runs.close()
            await server.close()

    return asyncio.run(followed())


def test_table_is_created_and_written_by_pods(place: Place) -> None:
    created = follow(place, place.start(job_specs.CreateTable()), Watched.to_end)
    assert (created.exit_code, created.result and created.result.error) == (0, None)
    work = batches_of(place.file("1", "a,eu,1,x\n"), place.file("2", "b,us,2,y\n"))
    written = follow(place, place.start(work), Watched.to_end)
    assert written.result is not None
    assert (written.result.error, written.result.commit_count) == (None, 2)
    assert (written.cause, written.waiting, written.unknown_after_ms) == (None, None, None)
    assert place.rows() == {("a", "eu", 1, "x"), ("b", "us", 2, "y")}
    # What is written is not written again, and the earlier attempt's fence is no other's.
    again = follow(place, place.start(work), Watched.to_end)
    assert again.result is not None
    assert (again.result.commit_count, again.result.skipped_count) == (0, 2)
    # By PyIceberg, which the image has.
    mirrored = follow(place, place.start(job_specs.Mirror(kept=2)), Watched.to_end)
    assert mirrored.result is not None
    assert mirrored.result.error is None
    assert "1 snapshot kept, 0 dropped" in mirrored.result.reason
    assert (place.lake / "table" / "metadata" / "v1.metadata.json").is_file()


def test_index_is_built_by_a_pod(place: Place) -> None:
    place.create()
    work = batches_of(place.file("1", "a,eu,1,x\n"))
    assert follow(place, place.start(work), Watched.to_end).exit_code == 0
    alone = job_specs.ConfigureTable(has_chain=True, has_foreign_writers=False)
    place.workshop.run(place.workshop.spec(alone, attempt=100))
    options = opening.transaction_of(place.workshop.spec(job_specs.RollBack(), attempt=100))
    place.workshop.table().initialise_metadata(options, has_statistics=False)
    for path in [place.lake, *place.lake.rglob("*")]:
        path.chmod(0o777 if path.is_dir() else 0o666)
    build = job_specs.BuildIndexes(
        names=("column_stats",), validation=job_specs.IndexValidation.SAMPLE
    )
    start = place.start(build)
    beside = settings.WriteSettings(
        concurrency=settings.ConcurrencyMode.NON_BLOCKING, clock_wait_ms=0
    )
    told = dataclasses.replace(start.table, settings=beside)
    built = follow(place, dataclasses.replace(start, table=told), Watched.to_end)
    assert built.result is not None
    assert built.result.error is None
    assert [each.action for each in built.result.instants] == ["indexing"]
    opened = place.workshop.table()
    assert "column_stats" in opened.config.metadata_partitions
    assert opened.validate_metadata().is_right


def test_run_out_of_memory_is_told_and_gets_more(place: Place) -> None:
    place.create()
    work = batches_of(place.file("1", "a,eu,1,x\n"))
    killed = follow(place, place.start(work, sized("40Mi")), Watched.to_end)
    assert killed.result is None
    assert killed.cause is not None
    assert killed.cause.kind == errors.OutOfMemoryError.kind
    more = dataclasses.replace(place.start(work, sized("40Mi")), memory_percent=1000)
    assert follow(place, more, Watched.to_end).exit_code == 0
    assert place.rows() == {("a", "eu", 1, "x")}


def test_run_tells_its_progress_and_stops_when_told(place: Place) -> None:
    place.create()
    work = dataclasses.replace(
        batches_of(place.file("1", "a,eu,1,x\n")), commit_interval_ms=600_000
    )

    async def act(watched: Watched) -> tuple[facts.Run, facts.Run]:
        def is_writing(run: facts.Run) -> bool:
            return run.progress is not None and "writing" in run.progress.phase

        writing, pods = await watched.until(is_writing)
        stop = effects.StopRun(id=watched.start.id, is_killed=False, reason="suspended")
        await watched.runs.stop(stop, watched.owner, watched.job, pods)
        return writing, await watched.to_end()

    writing, ended = follow(place, place.start(work), act)
    assert writing.progress is not None
    assert writing.progress.total == 1
    assert ended.stop_reason == "suspended"
    assert place.rows() == set()
    # What it had begun it has taken back itself, or left for the next to take back.
    follow(place, place.start(batches_of("/data/1")), Watched.to_end)
    assert place.rows() == {("a", "eu", 1, "x")}


def test_evicted_run_was_taken_by_the_infrastructure(place: Place) -> None:
    place.create()
    work = dataclasses.replace(
        batches_of(place.file("1", "a,eu,1,x\n")), commit_interval_ms=600_000
    )

    async def act(watched: Watched) -> facts.Run:
        _, pods = await watched.until(lambda run: run.progress is not None)
        name = pods[0]["metadata"]["name"]
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": place.namespace},
        }
        path = f"/api/v1/namespaces/{place.namespace}/pods/{name}/eviction"
        place.cluster.api.create(path, eviction)
        return await watched.to_end()

    run = follow(place, place.start(work), act)
    assert run.cause is not None
    assert run.cause.kind == retries.INFRASTRUCTURE


@pytest.mark.parametrize(
    ("runtime", "secrets", "obstacle"),
    [
        ({"image": "hudi.test/nowhere:1"}, (), Obstacle.NO_IMAGE),
        ({}, ("nowhere",), Obstacle.NO_CONTAINER),
        ({"node_selector": {"disk": "none"}}, (), Obstacle.NO_NODE),
    ],
)
def test_run_that_cannot_begin_says_why_and_is_stopped(
    place: Place, runtime: dict[str, object], secrets: tuple[str, ...], obstacle: Obstacle
) -> None:
    storage = place.table.spec.storage.model_copy(update={"secrets": secrets or None})
    spec = place.table.spec.model_copy(update={"storage": storage})
    place.table = dataclasses.replace(place.table, spec=spec)

    async def act(watched: Watched) -> facts.Run:
        run, pods = await watched.until(
            lambda run: run.waiting is not None and run.waiting.obstacle is obstacle
        )
        stop = effects.StopRun(id=watched.start.id, is_killed=False, reason=retries.too_slow(run))
        await watched.runs.stop(stop, watched.owner, watched.job, pods)
        return await watched.to_end()

    start = place.start(job_specs.CreateTable(), sized("1Gi").model_copy(update=runtime))
    run = follow(place, start, act)
    assert run.stop_reason.startswith(retries.TOO_SLOW[obstacle])
    assert not run.is_running


@pytest.fixture
def registry(
    cluster: Cluster, namespace: str, operator_image: str, image_archive: Path, tmp_path: Path
) -> Iterator[str]:
    """The name of our image at a registry that wants a password; it is in Secret `password`."""
    home = f"{namespace}-registry"
    cluster.kubectl("create", "namespace", home)
    told = {**images.registry_files(image_archive), "password": b"open sesame"}
    script = Path(registry_server.__file__)
    for name, content in {**told, script.name: script.read_bytes()}.items():
        (tmp_path / name).write_bytes(content)
    files = [f"--from-file={tmp_path / name}" for name in (*told, script.name)]
    cluster.kubectl("-n", home, "create", "configmap", "registry", *files)
    command = ["python3", f"/registry/{script.name}", str(REGISTRY_PORT), "/registry"]
    container = {
        "name": "registry",
        "image": operator_image,
        "args": command,
        "volumeMounts": [{"name": "files", "mountPath": "/registry"}],
        "readinessProbe": {"tcpSocket": {"host": "127.0.0.1", "port": REGISTRY_PORT}},
    }
    volume = {"name": "files", "configMap": {"name": "registry"}}
    spec = {"hostNetwork": True, "containers": [container], "volumes": [volume]}
    pods = f"/api/v1/namespaces/{home}/pods"
    account = f"/api/v1/namespaces/{home}/serviceaccounts/default"
    programs.wait_until(lambda: cluster.api.is_there(account), "pods can be made")
    cluster.api.create(pods, {"metadata": {"name": "registry"}, "spec": spec})
    cluster.kubectl(
        "-n", home, "wait", "--for=condition=Ready", "pod/registry", f"--timeout={END_S:g}s"
    )
    login = (f"--docker-username={registry_server.USER}", "--docker-password=open sesame")
    server = f"127.0.0.1:{REGISTRY_PORT}"
    cluster.kubectl(
        "-n", namespace, "create", "secret", "docker-registry", "password",
        f"--docker-server={server}", *login,
    )  # fmt: skip
    yield f"{server}/private/hudi-operator:1"
    cluster.kubectl("delete", "namespace", home, "--wait=false")


def test_image_of_a_private_registry_is_had_with_its_secret_alone(
    place: Place, registry: str
) -> None:
    def start(secrets: tuple[str, ...]) -> effects.StartRun:
        # Names of 127.0.0.1 are asked for without TLS.
        update = {"image": registry, "image_pull_secrets": secrets}
        return place.start(job_specs.CreateTable(), sized("1Gi").model_copy(update=update))

    async def refused(watched: Watched) -> facts.Run:
        run, pods = await watched.until(
            lambda run: run.waiting is not None and run.waiting.obstacle is Obstacle.NO_IMAGE
        )
        stop = effects.StopRun(id=watched.start.id, is_killed=False, reason=retries.too_slow(run))
        await watched.runs.stop(stop, watched.owner, watched.job, pods)
        await watched.to_end()
        return run

    always = configuration.PullPolicy.ALWAYS
    place.told = place.told.model_copy(
        update={"image": place.told.image.model_copy(update={"pull_policy": always})}
    )
    without = follow(place, start(()), refused)
    assert without.waiting is not None
    assert "open sesame" not in without.waiting.message
    assert follow(place, start(("password",)), Watched.to_end).exit_code == 0
    assert place.rows() == set()
