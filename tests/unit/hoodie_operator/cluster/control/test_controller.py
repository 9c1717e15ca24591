"""What an act comes to concerns the version that was decided about, whatever has come meanwhile.

A controller on an API server in memory: the test holds acts back, edits objects while they are
under way, and has them refused.
"""

import asyncio
import copy
import math
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from hoodie import clock, identity
from hoodie_operator.api import configuration, kinds, objects, resources, schemas
from hoodie_operator.api.resources import Manifest
from hoodie_operator.cluster import health
from hoodie_operator.cluster.client import api, api_errors
from hoodie_operator.cluster.control import actor, controller, events, metrics, ports, statuses
from hoodie_operator.cluster.informer import store
from hoodie_operator.reconcile import effective, effects, world
from support.operators import cluster_helpers, rule_examples
from support.operators.api_server import ApiServer

CLOCK = clock.SystemClock()
ROOTS = ("file:///data",)
KEY = objects.ObjectKey(kind="HudiTable", namespace="n", name="flights")
PATH = resources.BY_KIND["HudiTable"].path("n", "flights")
WAIT_S = 20.0


def _refused() -> api_errors.ApiError:
    return api_errors.of(403, "Forbidden", "exceeded quota", [])


class Server(ApiServer):
    """Objects by path, with statuses, and Jobs that a finalizer of others keeps."""

    def __init__(self) -> None:
        super().__init__()
        self.is_keeping_jobs = False
        self.statuses: list[dict[str, Any]] = []

    def declare(self, *, generation: int = 1, uid: str = "uid-of-table", **edits: object) -> None:
        """Make a HudiTable, or have it edited."""
        metadata: dict[str, Any] = {"name": "flights", "namespace": "n", "uid": uid}
        metadata |= {"generation": generation, "creationTimestamp": "2026-01-01T00:00:00Z"}
        spec = rule_examples.edited(rule_examples.TABLE, **edits)
        declared = {"apiVersion": "hudi.dev/v1alpha1", "kind": "HudiTable", "metadata": metadata}
        self.objects.setdefault(PATH, {})
        self.change(PATH, {**declared, "spec": spec})

    def add(self, kind: str, name: str, spec: dict[str, Any]) -> Manifest:
        """Make another object, and return it."""
        path = resources.BY_KIND[kind].path("n", name)
        metadata: dict[str, Any] = {"name": name, "namespace": "n", "uid": f"uid-of-{name}"}
        metadata |= {"generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z"}
        self.objects[path] = {}
        self.change(
            path,
            {"apiVersion": "hudi.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec},
        )
        return copy.deepcopy(self.objects[path])

    async def handle(self, request: web.Request) -> web.Response:
        path = request.path.removesuffix("/status")
        if request.method == "PATCH" and path != request.path:
            body = await request.json()
            if body["metadata"]["resourceVersion"] != self.version(path):
                return web.json_response({"reason": "Conflict"}, status=409)
            self.objects[path].pop("status", None)
            self.change(path, {"status": body["status"]})
            self.statuses.append(body["status"])
            return web.json_response(self.objects[path])
        if request.method == "DELETE" and self.is_keeping_jobs and path in self.objects:
            self.deletions.append((path, {}))
            self.change(path, {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
            return web.json_response(self.objects[path])
        return await super().handle(request)

    def version(self, path: str) -> str:
        return str(self.objects[path]["metadata"]["resourceVersion"])

    def reasons(self, generation: int) -> set[str]:
        """Return the reasons of the Ready conditions that a generation had."""
        return {
            each["reason"]
            for status in self.statuses
            if status["observedGeneration"] == generation
            for each in status["conditions"]
            if each["type"] == "Ready"
        }

    @property
    def table(self) -> Manifest:
        return copy.deepcopy(self.objects[PATH])


class Runs(cluster_helpers.FakeRuns):
    """Runs whose starts are held, and the first of which are refused, as the test says."""

    def __init__(self, server: api.Api, lake: cluster_helpers.Lake) -> None:
        super().__init__(server, lake)
        self.begun: asyncio.Queue[effects.StartRun] = asyncio.Queue()
        self.may_go_on = asyncio.Event()
        self.refused_max = 0.0

    async def await_begun(self) -> None:
        """Wait until a run is being started."""
        async with asyncio.timeout(WAIT_S):
            await self.begun.get()

    async def start(
        self, start: effects.StartRun, owner: objects.AnyObject, table: objects.Table
    ) -> Sequence[Manifest]:
        self.begun.put_nowait(start)
        await self.may_go_on.wait()
        if self.refused_max > 0:
            self.refused_max -= 1
            raise _refused()
        return await super().start(start, owner, table)


class Here:
    """A controller, its server and its runs."""

    def __init__(
        self,
        client: api.Api,
        server: Server,
        folder: Path,
        *,
        creations_kept_s: float = 3600.0,
        known_statuses: statuses.Known | None = None,
        slots: configuration.Slots | None = None,
    ) -> None:
        lake = cluster_helpers.Lake(folder / "lake")
        self.server = server
        self.lake = lake
        self.runs = Runs(client, lake)
        self.known = store.Store(effective.locator(ROOTS), self.runs.read, CLOCK)
        services = actor.Services(
            api=client,
            statuses=statuses.Statuses(client, known_statuses or {}),
            adapters=ports.Adapters(
                runs=self.runs,
                locks=cluster_helpers.FakeLocks(CLOCK),
                observers=cluster_helpers.FakeObservers(lake, CLOCK),
            ),
            recorder=events.Recorder(client, CLOCK, "one"),
            counted=metrics.Metrics(),
            clock=CLOCK,
        )
        self.controller = controller.Controller(
            self.known,
            services,
            controller.Settings(
                limits=world.Limits(data_roots=ROOTS, slots=slots),
                runs_kept=2,
                creations_kept_s=creations_kept_s,
            ),
            probes=health.Health(CLOCK),
            random=identity.SystemRandom(),
        )

    def watch(self, change: str = "MODIFIED") -> None:
        """Have the watch bring the table as it is."""
        self.controller.handler.on_watch_event(change, self.server.table)

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(WAIT_S):
            while not holds():  # noqa: ASYNC110 - the server in memory signals no change
                await asyncio.sleep(0.01)

    def ready(self) -> tuple[int, str]:
        """Return the generation that the status is about, and the reason of its Ready condition."""
        status = self.server.objects[PATH].get("status") or {}
        conditions = {each["type"]: each["reason"] for each in status.get("conditions") or ()}
        return status.get("observedGeneration", 0), conditions.get("Ready", "")


def play(
    folder: Path,
    scene: Callable[[Here], Awaitable[None]],
    *,
    server: Server | None = None,
    creations_kept_s: float = 3600.0,
    known_statuses: statuses.Known | None = None,
    slots: configuration.Slots | None = None,
) -> Server:
    """Have a controller at work on a server while a scene plays."""
    there = Server() if server is None else server

    async def run(client: api.Api) -> None:
        here = Here(
            client,
            there,
            folder,
            creations_kept_s=creations_kept_s,
            known_statuses=known_statuses,
            slots=slots,
        )
        working = asyncio.create_task(here.controller.run())
        try:
            scened = asyncio.ensure_future(scene(here))
            await asyncio.wait((working, scened), return_when=asyncio.FIRST_COMPLETED)
            assert scened.done(), working.exception()
            scened.result()
        finally:
            working.cancel()
            here.runs.may_go_on.set()
            await here.controller.finish()

    there.use(run)
    return there


def test_refusal_of_an_older_generation_is_not_held_against_a_newer_one(tmp_path: Path) -> None:
    async def scene(here: Here) -> None:
        here.runs.refused_max = 1
        here.server.declare()
        here.watch("ADDED")
        await here.runs.await_begun()
        here.server.declare(generation=2, services__deletesKept="2h")
        here.watch()
        here.runs.may_go_on.set()
        await here.until(lambda: here.ready() == (2, "Ready"))

    server = play(tmp_path, scene)
    assert "ApiRefused" not in server.reasons(2)


def test_edit_that_is_refused_too_is_told_at_once(tmp_path: Path) -> None:
    async def scene(here: Here) -> None:
        here.runs.refused_max = math.inf
        here.runs.may_go_on.set()
        here.server.declare()
        here.watch("ADDED")
        # Until the next try of what was refused is seconds away.
        async with asyncio.timeout(WAIT_S):
            for _ in range(4):
                await here.runs.begun.get()
        await here.until(lambda: here.ready() == (1, "ApiRefused"))
        here.server.declare(generation=2, services__deletesKept="2h")
        here.watch()
        async with asyncio.timeout(2.0):
            await here.until(lambda: here.ready() == (2, "ApiRefused"))

    play(tmp_path, scene)


def test_refusal_of_an_object_that_is_gone_is_not_told_on_its_successor(tmp_path: Path) -> None:
    async def scene(here: Here) -> None:
        here.runs.refused_max = 1
        here.server.declare()
        here.watch("ADDED")
        await here.runs.await_begun()
        here.watch("DELETED")
        del here.server.objects[PATH]
        here.server.declare(uid="uid-of-successor")
        here.watch("ADDED")
        here.runs.may_go_on.set()
        await here.until(lambda: here.ready() == (1, "Ready"))

    server = play(tmp_path, scene)
    assert "ApiRefused" not in server.reasons(1)


def test_edit_during_an_act_is_decided_about_when_it_has_ended(tmp_path: Path) -> None:
    async def scene(here: Here) -> None:
        here.server.declare()
        here.watch("ADDED")
        await here.runs.await_begun()
        for generation in range(2, 6):
            here.server.declare(generation=generation, services__deletesKept=f"{generation}h")
            here.watch()
            await asyncio.sleep(0.05)
        here.runs.may_go_on.set()
        await here.until(lambda: here.ready() == (5, "Ready"))

    server = play(tmp_path, scene)
    assert len(server.of("jobs")) == 1


def test_job_that_does_not_go_is_not_asked_again_and_again(tmp_path: Path) -> None:
    server = Server()
    server.is_keeping_jobs = True

    async def scene(here: Here) -> None:
        here.runs.may_go_on.set()
        here.server.declare()
        here.watch("ADDED")
        await here.until(lambda: bool(server.deletions))
        for _ in range(5):
            # As each look at the storage does that has news.
            here.controller.handler.enqueue([KEY])
            await asyncio.sleep(0.2)

    # The watch never brings what became of the Job.
    play(tmp_path, scene, server=server, creations_kept_s=0.0)
    assert 1 <= len(server.deletions) < 20


@pytest.mark.parametrize("is_told", [True, False])
def test_what_fails_for_days_waits_as_long_as_ever(tmp_path: Path, *, is_told: bool) -> None:
    server = Server()

    async def fail() -> None:
        raise _refused() if is_told else RuntimeError("a bug")

    async def run(client: api.Api) -> float | None:
        here = Here(client, server, tmp_path)
        server.declare()
        here.known.take(server.table)
        stored = here.known.stored[KEY]
        for _ in range(3000):
            here.controller.handler.queue.pop(float("inf"))
            here.controller.handler.queue.begin(KEY)
            await here.controller._act(KEY, stored, fail())
        # Where a refusal is told, that is done at once.
        here.controller.handler.queue.pop(CLOCK.monotonic_s() + 1)
        here.controller.handler.queue.begin(KEY)
        await here.controller._act(KEY, stored, fail())
        return here.controller.handler.queue.next_due_s()

    due_s = server.use(run)
    assert due_s is not None
    assert 90 < due_s - CLOCK.monotonic_s() < 150


def test_what_comes_to_nothing_for_days_waits_as_long_as_ever(tmp_path: Path) -> None:
    server = Server()

    async def act() -> None:
        """Do what was done before."""

    async def run(client: api.Api) -> float | None:
        here = Here(client, server, tmp_path)
        server.declare()
        here.known.take(server.table)
        stored = here.known.stored[KEY]
        for _ in range(3000):
            here.controller.handler.queue.pop(float("inf"))
            here.controller.handler.queue.begin(KEY)
            await here.controller._act(KEY, stored, act())
        return here.controller.handler.queue.next_due_s()

    due_s = server.use(run)
    assert due_s is not None
    assert 110 < due_s - CLOCK.monotonic_s() < 130


def test_job_of_a_creation_goes_once_the_table_is_there_and_no_leader_creates_it_again(
    tmp_path: Path,
) -> None:
    server = Server()

    async def create(here: Here) -> None:
        here.runs.may_go_on.set()
        here.server.declare()
        here.watch("ADDED")
        await here.until(lambda: here.ready() == (1, "Ready"))
        await here.until(lambda: not here.server.of("jobs"))

    async def lead(here: Here) -> None:
        here.runs.may_go_on.set()
        # An edit is decided about, so that all that was to be started is.
        here.server.declare(generation=2, services__deletesKept="2h")
        here.watch()
        await here.until(lambda: here.ready() == (2, "Ready"))
        assert here.runs.begun.empty()

    play(tmp_path, create, server=server, creations_kept_s=0.0)
    (recorded,) = server.objects[PATH]["status"]["runs"]["history"]
    assert recorded["outcome"] == "Succeeded"
    play(tmp_path, lead, server=server, creations_kept_s=0.0)
    assert server.objects[PATH]["status"]["runs"]["attempts"] == 1
    assert not server.of("jobs")


def test_job_of_a_creation_that_failed_is_kept(tmp_path: Path) -> None:
    async def scene(here: Here) -> None:
        here.lake.ends_at_once = False
        here.runs.may_go_on.set()
        here.server.declare()
        here.watch("ADDED")
        await here.until(lambda: bool(here.server.of("jobs")))
        (job,) = here.server.of("jobs")
        here.controller.handler.on_watch_event("MODIFIED", await here.runs.end(job, "InvalidInput"))
        await here.until(lambda: here.ready() == (1, "RunFailed"))

    server = play(tmp_path, scene, creations_kept_s=0.0)
    assert len(server.of("jobs")) == 1
    assert not server.deletions


def test_status_that_older_kinds_do_not_keep_is_not_applied_for_ever(tmp_path: Path) -> None:
    known = dict(schemas.structural(kinds.HUDI_TABLE.status))
    properties: Any = known["properties"]
    known["properties"] = {name: each for name, each in properties.items() if name != "runs"}
    applied = []

    async def scene(here: Here) -> None:
        here.lake.ends_at_once = False
        here.runs.may_go_on.set()
        here.server.declare()
        here.watch("ADDED")
        await here.until(lambda: bool(here.server.of("jobs")))
        (job,) = here.server.of("jobs")
        here.controller.handler.on_watch_event("MODIFIED", await here.runs.end(job, "Storage"))
        await here.until(lambda: here.ready() == (1, "BackingOff"))
        applied.append(len(here.server.statuses))
        for _ in range(10):
            here.controller.handler.enqueue([KEY])
            await asyncio.sleep(0.05)
        applied.append(len(here.server.statuses))

    server = play(tmp_path, scene, known_statuses={"HudiTable": known})
    assert "runs" not in server.objects[PATH]["status"]
    assert applied[0] == applied[1]


def test_action_that_waits_for_a_slot_starts_when_there_is_one(tmp_path: Path) -> None:
    server = Server()
    names = [f"t{number}" for number in range(6)]

    def at_work() -> list[Manifest]:
        return [
            job
            for job in server.of("jobs")
            if job["metadata"]["ownerReferences"][0]["kind"] == "TableAction"
            and cluster_helpers.ENDED not in (job["metadata"].get("annotations") or {})
        ]

    async def scene(here: Here) -> None:
        here.runs.may_go_on.set()
        for name in names:
            spec = rule_examples.edited(rule_examples.TABLE, storage={"path": name})
            here.controller.handler.on_watch_event("ADDED", server.add("HudiTable", name, spec))
        await here.until(lambda: len(here.lake.started) == len(names))
        here.lake.ends_at_once = False
        for name in names:
            spec = {"tableRef": {"name": name}, "type": "Archive"}
            made = server.add("TableAction", f"a-{name}", spec)
            here.controller.handler.on_watch_event("ADDED", made)
        for _ in names:
            await here.until(lambda: bool(at_work()))
            (job,) = at_work()
            here.controller.handler.on_watch_event("MODIFIED", await here.runs.end(job))

    play(tmp_path, scene, server=server, slots=configuration.Slots(total=1))
