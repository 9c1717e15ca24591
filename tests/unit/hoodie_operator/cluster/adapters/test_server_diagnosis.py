"""Lock servers and observers that do not answer: when the API server is asked why, and what for."""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable
from typing import cast

import pytest
from aiohttp import web

from hoodie.model import json_values
from hoodie_operator.api import configuration, kinds, objects, resources
from hoodie_operator.cluster.adapters.lock_servers import LockServers
from hoodie_operator.cluster.adapters.observers import ClusterObservers
from hoodie_operator.cluster.client import api
from hoodie_operator.cluster.control.ports import TableLook
from hoodie_operator.manifests import lock_servers
from hoodie_operator.manifests import observers as manifests
from hoodie_operator.observing import dialogue
from hoodie_operator.reconcile import effective, facts
from support.operators import operator_world as ow
from support.operators import pod_shapes as shapes
from support.operators import rule_examples
from support.operators.api_server import ApiServer
from support.servers import http_server
from support.simulation.moved_clock import MovedClock

TOLD = configuration.parse(
    b"dataRoots: [/data]\nimage: {name: 'hudi:1'}\nlockServers: {allowed: [127.0.0.1]}",
    "operator.yaml",
)
PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
UNBOUND = "pod has unbound immediate PersistentVolumeClaims"
WHY = f"its pod zk-lock-a1b2c3-0 cannot be scheduled: {UNBOUND}"
LONG_S = 3600


class Counted(ApiServer):
    """An API server that remembers what it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.questions: list[str] = []
        self.heard = self._hear

    def _hear(self, method: str, path: str) -> None:
        if method == "GET":
            self.questions.append(path)


def server_with(*pods: shapes.Shape) -> Counted:
    made = Counted()
    made.objects = {f"{PODS}/{number}": pod for number, pod in enumerate(pods)}
    return made


def asked(server: Counted, path: str = PODS) -> int:
    return server.questions.count(path)


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no lock server answer."""
    monkeypatch.setattr(lock_servers, "address", lambda lock: "127.0.0.1:1")


def lock() -> objects.Lock:
    here = ow.Outside()
    key = here.add(kinds.LOCK_PROVIDER, "zk", rule_examples.LOCK)
    return cast("objects.Lock", here.by_key[key])


async def look_at_lock(
    locks: LockServers, before: facts.LockFacts | None = None
) -> facts.LockFacts:
    return await locks.look(lock(), before)


@pytest.mark.usefixtures("silent")
def test_lock_server_that_stays_silent_tells_what_its_pod_waits_for() -> None:
    server, clocked = server_with(shapes.unplaced_server(UNBOUND)), MovedClock()

    async def scenario(client: api.Api) -> None:
        locks = LockServers(client, TOLD, clocked)
        seen = await look_at_lock(locks)
        plain = seen.message
        assert plain == "127.0.0.1:1 does not answer, expected a ZooKeeper"
        clocked.now_s += 9
        seen = await look_at_lock(locks, seen)
        # Every server is silent for some seconds before it serves.
        assert (seen.message, asked(server)) == (plain, 0)
        clocked.now_s += 2
        for _ in range(3):
            seen = await look_at_lock(locks, seen)
            assert seen.message == f"{plain}; {WHY}"
        assert asked(server) == 1
        server.objects = {f"{PODS}/1": shapes.ready_server()}
        clocked.now_s += 20
        seen = await look_at_lock(locks, seen)
        assert seen.message == f"{plain}; its pod zk-lock-a1b2c3-0 on node node-7 is ready"
        assert asked(server) == 2

    server.use(scenario)


@pytest.mark.usefixtures("silent")
def test_lock_server_whose_pod_cannot_be_asked_about_is_silent_all_the_same() -> None:
    server, clocked = server_with(shapes.unplaced_server(UNBOUND)), MovedClock()
    server.refused = lambda method, path: path == PODS

    async def scenario(client: api.Api) -> None:
        locks = LockServers(client, TOLD, clocked)
        seen = await look_at_lock(locks)
        plain = seen.message
        clocked.now_s += LONG_S
        for _ in range(3):
            seen = await look_at_lock(locks, seen)
            assert (seen.is_ready, seen.message) == (False, plain)
        assert asked(server) == 1
        server.refused = lambda method, path: False
        clocked.now_s += 20
        assert (await look_at_lock(locks, seen)).message == f"{plain}; {WHY}"

    server.use(scenario)


@pytest.mark.usefixtures("silent")
def test_lock_server_without_a_pod_names_its_stateful_set() -> None:
    server, clocked = server_with(), MovedClock()

    async def scenario(client: api.Api) -> None:
        locks = LockServers(client, TOLD, clocked)
        first = await look_at_lock(locks)
        clocked.now_s += LONG_S
        seen = await look_at_lock(locks, first)
        name = lock_servers.server(lock()).name
        assert f"; StatefulSet {name} has no pod: see kubectl describe" in seen.message
        # The operator may make StatefulSets, and not read them.
        assert set(server.questions) == {PODS}

    server.use(scenario)


def test_nobody_is_asked_about_a_lock_server_that_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    server, clocked = server_with(shapes.unplaced_server()), MovedClock()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(4)
        writer.write(b"Zookeeper version: 3.9")
        writer.close()

    async def scenario(client: api.Api) -> None:
        listening = await asyncio.start_server(answer, "127.0.0.1")
        port = listening.sockets[0].getsockname()[1]
        monkeypatch.setattr(lock_servers, "address", lambda lock: f"127.0.0.1:{port}")
        locks = LockServers(client, TOLD, clocked)
        seen = None
        for _ in range(3):
            seen = await look_at_lock(locks, seen)
            assert seen.is_ready
            clocked.now_s += LONG_S
        assert server.questions == []
        listening.close()
        await listening.wait_closed()

    server.use(scenario)


def table(name: str) -> objects.Table:
    here = ow.Outside()
    found = cast("objects.Table", here.by_key[here.add(kinds.HUDI_TABLE, name, ow.TABLE)])
    return dataclasses.replace(found, uid=f"uid-of-{name}")


def look(found: objects.Table) -> TableLook:
    settings = effective.write_settings(found.spec, None)
    return TableLook(table=found, uri="file:///data/flights", settings=settings)


TABLE = table("flights")
OBSERVER = manifests.identity(TABLE, TOLD)


def use(
    server: Counted,
    scenario: Callable[[ClusterObservers], Awaitable[None]],
    clocked: MovedClock,
    address: Callable[[], str] = lambda: "http://127.0.0.1:1",
) -> None:
    """Ask an observer that was made long ago."""

    async def run(client: api.Api) -> None:
        observers = ClusterObservers(client, TOLD, clocked, address_of=lambda identity: address())
        try:
            await observers.keep([TABLE])
            clocked.now_s += LONG_S
            server.questions.clear()
            await scenario(observers)
        finally:
            await observers.close()

    server.use(run)


async def problem(observers: ClusterObservers, found: objects.Table = TABLE) -> str:
    seen = (await observers.look_at_tables([look(found)]))[found.uid]
    assert seen is not None
    assert seen.problem is not None
    assert seen.problem.is_transient
    return seen.problem.message


def test_silent_observer_tells_what_its_pod_waits_for_however_many_ask() -> None:
    server, clocked = server_with(shapes.unplaced_server(UNBOUND)), MovedClock()
    here = ow.Outside()
    writer = cast("objects.Writer", here.by_key[here.add(kinds.WRITER, "left", ow.writer_spec())])

    async def scenario(observers: ClusterObservers) -> None:
        tables = [table(f"t{number}") for number in range(20)]
        told = await asyncio.gather(*(problem(observers, each) for each in tables))
        assert all(each.endswith(f"; {WHY}") for each in told)
        assert f"Deployment {OBSERVER.name} of namespace default" in told[0]
        source = await observers.look_at_source(writer, TABLE)
        assert source is not None
        assert source.problem is not None
        assert source.problem.message == told[0]
        assert asked(server) == 1

    use(server, scenario, clocked)


def test_observer_without_a_pod_says_who_refuses_it() -> None:
    server, clocked = server_with(), MovedClock()

    async def scenario(observers: ClusterObservers) -> None:
        (path,) = (each for each in server.objects if each.startswith(DEPLOYMENTS))
        refusing = shapes.refusing_deployment(OBSERVER.name, "exceeded quota: pods")
        server.objects[path] |= {"status": refusing["status"]}
        told = await problem(observers)
        assert told.endswith(
            f"; Deployment {OBSERVER.name} has no pod: FailedCreate: exceeded quota: pods"
        )
        assert (asked(server), asked(server, DEPLOYMENTS)) == (1, 1)

    use(server, scenario, clocked)


def test_observer_whose_pods_cannot_be_asked_about_is_silent_all_the_same() -> None:
    server, clocked = server_with(shapes.unplaced_server(UNBOUND)), MovedClock()

    async def scenario(observers: ClusterObservers) -> None:
        server.refused = lambda method, path: path == PODS
        told = await problem(observers)
        assert "does not answer" in told
        assert "its pod" not in told

    use(server, scenario, clocked)


def test_nobody_is_asked_about_an_observer_that_answers() -> None:
    server, clocked = server_with(shapes.unplaced_server()), MovedClock()
    answer = dialogue.TablesAnswer(tables=(dialogue.told_table(facts.TableFacts(observed_ms=1)),))
    addresses: list[str] = []

    async def answered(request: web.Request) -> web.Response:
        del request
        return web.Response(body=json_values.encode(answer))

    async def scenario(observers: ClusterObservers) -> None:
        async with http_server.serving(web.post(http_server.ANY_PATH, answered)) as url:
            addresses.append(url)
            for _ in range(3):
                seen = (await observers.look_at_tables([look(TABLE)]))[TABLE.uid]
                assert seen is not None
                assert seen.problem is None
                clocked.now_s += LONG_S
        assert server.questions == []

    use(server, scenario, clocked, lambda: addresses[0])


def test_first_page_of_pods_is_asked_for_and_no_other() -> None:
    """Also where so many are evicted that a listing has several pages."""
    server = server_with()
    queries: list[dict[str, str]] = []
    plain = server.handle

    async def handle(request: web.Request) -> web.Response:
        queries.append(dict(request.query))
        answer = await plain(request)
        document = {"metadata": {"resourceVersion": "1", "continue": "more"}, "items": []}
        return web.json_response(document) if request.path == PODS else answer

    server.handle = handle  # type: ignore[method-assign]  # what a test answers

    async def scenario(client: api.Api) -> None:
        some = await client.some(resources.POD, "default", "a=b", "status.phase!=Failed")
        assert some == ()

    server.use(scenario)
    (query,) = queries
    assert query["labelSelector"] == "a=b"
    assert query["fieldSelector"] == "status.phase!=Failed"
    assert int(query["limit"]) <= 50
