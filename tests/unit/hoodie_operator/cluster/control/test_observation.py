"""Looks at tables and sources: whom they are kept from, and whom nobody keeps them from."""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import pytest

from hoodie import clock, identity
from hoodie_operator.api import configuration, kinds, objects, resources
from hoodie_operator.api.resources import Manifest
from hoodie_operator.cluster.adapters.lock_servers import LockServers
from hoodie_operator.cluster.client import api
from hoodie_operator.cluster.control import metrics, object_states, observation, ports, snapshots
from hoodie_operator.cluster.informer import store
from hoodie_operator.manifests import naming
from hoodie_operator.reconcile import effective, facts, world
from support.operators import cluster_helpers, operator_world, rule_examples
from support.simulation import moved_clock

LIMITS = world.Limits(data_roots=("file:///data",), service_accounts=frozenset({"lake"}))
CLOCK = clock.SystemClock()
TOLD = configuration.parse(
    b"""
dataRoots: [/data]
image: {name: 'hudi:1'}
lockServers: {allowed: ["*.nowhere", 127.0.0.1]}
""",
    "operator.yaml",
)
HANGING = "hanging"


class Observers:
    """Observers by namespace, of which one hangs; remembers who was looked at."""

    def __init__(self) -> None:
        self.tables: set[str] = set()
        self.sources: set[str] = set()
        self.heard = asyncio.Event()

    def observer_of(self, table: objects.Table) -> str:
        return table.key.namespace

    async def look_at_tables(
        self, looks: Sequence[ports.TableLook]
    ) -> Mapping[str, facts.TableFacts | None]:
        if any(look.table.key.namespace == HANGING for look in looks):
            await asyncio.Event().wait()
        self.tables.update(look.table.uid for look in looks)
        self.heard.set()
        return {look.table.uid: facts.TableFacts(observed_ms=1) for look in looks}

    async def look_at_source(
        self, writer: objects.Writer, table: objects.Table
    ) -> facts.SourceFacts | None:
        if table.key.namespace == HANGING:
            await asyncio.Event().wait()
        self.sources.add(writer.uid)
        self.heard.set()
        return facts.SourceFacts(generation=1, observed_ms=1)

    async def keep(self, tables: Sequence[objects.Table]) -> None:
        del tables


def manifest(
    kind: kinds.Kind, name: str, spec: rule_examples.Spec, namespace: str = "n"
) -> Manifest:
    return {
        "apiVersion": "hudi.dev/v1alpha1",
        "kind": kind.name,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{namespace}-{name}",
            "generation": 1,
            "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": spec,
    }


def table(name: str, *, namespace: str = "n", **edits: object) -> Manifest:
    place = {"storage__path": f"{namespace}/{name}", **edits}
    return manifest(
        kinds.HUDI_TABLE, name, rule_examples.edited(rule_examples.TABLE, **place), namespace
    )


def writer(of: str, name: str = "w", *, namespace: str = "n") -> Manifest:
    spec = operator_world.writer_spec(tableRef={"name": of})
    return manifest(kinds.WRITER, name, spec, namespace)


def observation_of(
    declared: Iterable[Manifest],
    observers: Observers,
    locks: ports.Locks,
    changed: Callable[[Iterable[objects.ObjectKey]], None] = lambda keys: None,
    *,
    runs: ports.Runs | None = None,
    our_clock: clock.Clock = CLOCK,
) -> observation.Observation:
    """Return what looks at what is declared."""
    known = store.Store(effective.locator(LIMITS.data_roots), cluster_helpers.read_run, our_clock)
    for each in declared:
        known.take(each)

    states = object_states.ObjectStates()
    return observation.Observation(
        known,
        states,
        snapshots.Snapshots(known, states, LIMITS, our_clock),
        ports.Adapters(observers=observers, locks=locks, runs=cast("ports.Runs", runs)),
        changed,
        pace=observation.Pace(),
        counted=metrics.Metrics(),
        our_clock=our_clock,
        random=identity.SystemRandom(),
    )


def watched(*declared: Manifest, until: Callable[[Observers], bool]) -> Observers:
    """Look at what is declared until something was seen, for two rounds of all at least."""
    observers = Observers()

    async def run() -> None:
        looking = observation_of(declared, observers, cluster_helpers.FakeLocks(CLOCK))
        rounds = asyncio.create_task(looking.run())
        async with asyncio.timeout(10):
            while not until(observers):
                await observers.heard.wait()
                observers.heard.clear()
        rounds.cancel()

    asyncio.run(run())
    return observers


@pytest.mark.parametrize(
    "edits",
    [
        {"storage__serviceAccount": "cluster-admin"},
        {"storage__path": "/etc/other"},
    ],
)
def test_nobody_looks_at_a_table_that_is_refused(edits: dict[str, object]) -> None:
    seen = watched(
        table("refused", **edits),
        writer("refused", "of-refused"),
        table("good", storage__serviceAccount="lake"),
        writer("good", "of-good"),
        until=lambda observers: bool(observers.tables and observers.sources),
    )
    assert seen.tables == {"uid-n-good"}
    assert seen.sources == {"uid-n-of-good"}


def test_observer_that_hangs_blinds_nobody_to_what_others_see() -> None:
    hanging = [table(f"t{number}", namespace=HANGING) for number in range(3)]
    # More than are looked at by one observer at once.
    hanging += [writer("t0", f"w{number}", namespace=HANGING) for number in range(40)]
    seen = watched(
        *hanging,
        table("good"),
        writer("good"),
        until=lambda observers: bool(observers.tables and observers.sources),
    )
    assert (seen.tables, seen.sources) == ({"uid-n-good"}, {"uid-n-w"})


def test_crowd_of_tables_in_one_namespace_is_not_ahead_of_another() -> None:
    crowd = [table(f"t{number}", namespace="crowd") for number in range(300)]
    seen = watched(*crowd, table("good"), until=lambda seen: "uid-n-good" in seen.tables)
    assert len(seen.tables) < len(crowd)


@pytest.fixture
def silent_resolver(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have names of `nowhere` neither resolve nor fail, until the test has ended."""
    ended = threading.Event()
    resolve = socket.getaddrinfo

    def hang(
        host: str, port: int, family: int = 0, kind: int = 0, protocol: int = 0, flags: int = 0
    ) -> list[Any]:
        if host.endswith(".nowhere"):
            ended.wait()
        return resolve(host, port, family, kind, protocol, flags)

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    yield
    ended.set()


def lock(name: str, server: str, namespace: str = "n") -> Manifest:
    spec = {"type": "HiveMetastore", "hiveMetastore": {"servers": [server], "database": "lake"}}
    return manifest(kinds.LOCK_PROVIDER, name, spec, namespace=namespace)


@pytest.mark.usefixtures("silent_resolver")
def test_lock_hosts_that_do_not_resolve_keep_nobody_from_another() -> None:
    silent = [
        lock(f"silent-{number}", f"host-{number}.nowhere:9083", f"hostile-{number % 3}")
        for number in range(150)
    ]

    async def look() -> tuple[bool, list[str]]:
        listening = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1")
        port = listening.sockets[0].getsockname()[1]
        declared = [*silent, lock("good", f"127.0.0.1:{port}")]
        changed = asyncio.Event()
        locks = LockServers(cast("api.Api", None), TOLD, CLOCK)
        looking = observation_of(declared, Observers(), locks, lambda keys: changed.set())
        rounds = asyncio.create_task(looking.run())
        # What answers is known before what is silent is taken for that.
        async with asyncio.timeout(20):
            await changed.wait()
        first = list(looking._states.locks)
        async with asyncio.timeout(20):
            while len(looking._states.locks) < len(declared):
                changed.clear()
                await changed.wait()
        rounds.cancel()
        listening.close()
        # Whoever else needs a thread of the loop has one.
        async with asyncio.timeout(20):
            is_free = await asyncio.to_thread(lambda: True)
        told = {seen.message for seen in looking._states.locks.values() if not seen.is_ready}
        assert all("does not answer, expected a Hive Metastore" in each for each in told)
        return is_free, first

    assert asyncio.run(look()) == (True, ["uid-n-good"])


class Runs:
    """Runs that tell nothing, and count how often they are asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.heard = asyncio.Event()

    async def progress(self, job: Manifest, pods: Sequence[Manifest]) -> None:
        del job, pods
        self.asked += 1
        self.heard.set()


def test_forgetting_what_is_gone_asks_no_run_that_is_at_work_early() -> None:
    runs, moved = Runs(), moved_clock.MovedClock()
    run_id = facts.RunId(kind="Writer", namespace="n", name="w", uid="uid-n-w", attempt=1)
    locks = cluster_helpers.FakeLocks(moved)

    async def asked_by_then() -> int:
        looking = observation_of(
            [job_of(run_id)],
            Observers(),
            locks,
            runs=cast("ports.Runs", runs),
            our_clock=moved,
        )
        moved.now_s += 59.5
        rounds = asyncio.create_task(looking.run())
        async with asyncio.timeout(10):
            await runs.heard.wait()
        # What is gone is forgotten now, and the run is due in some seconds.
        moved.now_s += 1.0
        await asyncio.sleep(1.0)
        rounds.cancel()
        return runs.asked

    assert asyncio.run(asked_by_then()) == 1


def job_of(run: facts.RunId) -> Manifest:
    """Return the Job of an attempt at work."""
    owner = {
        "apiVersion": "hudi.dev/v1alpha1",
        "kind": run.kind,
        "name": run.name,
        "uid": run.uid,
        "controller": True,
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": naming.run(run),
            "namespace": run.namespace,
            "uid": "uid-of-job",
            "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": {naming.PROTOCOL: "h"},
            "ownerReferences": [owner],
            "labels": {
                resources.OWNER_KIND: run.kind,
                resources.OWNER_NAME: run.name,
                resources.OWNER_UID: run.uid,
                resources.ATTEMPT: str(run.attempt),
            },
        },
    }


class SlowObservers(Observers):
    """Observers whose first look takes until the test lets it end; counts looks."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = 0
        self.may_end = asyncio.Event()

    async def look_at_tables(
        self, looks: Sequence[ports.TableLook]
    ) -> Mapping[str, facts.TableFacts | None]:
        self.looks += 1
        self.heard.set()
        await self.may_end.wait()
        return await super().look_at_tables(looks)


@pytest.mark.parametrize("is_edited", [False, True])
def test_what_changes_during_a_look_is_looked_at_again_at_once(*, is_edited: bool) -> None:
    observers = SlowObservers()
    declared = table("orders")
    key = objects.ObjectKey(kind=kinds.HUDI_TABLE.name, namespace="n", name="orders")

    async def look() -> None:
        looking = observation_of([declared], observers, cluster_helpers.FakeLocks(CLOCK))
        rounds = asyncio.create_task(looking.run())
        async with asyncio.timeout(10):
            await observers.heard.wait()
        if is_edited:
            edited = table("orders", services__deletesKept="2h")
            edited["metadata"] |= {"generation": 2, "resourceVersion": "2"}
            looking._store.take(edited)
            # The next tick sees the edit while the first look is under way.
            await asyncio.sleep(2 * observation._TICK_S)
        else:
            looking._states.of(key, declared["metadata"]["uid"]).look.make_due()
        observers.may_end.set()
        # A table at rest is looked at every 30 s.
        async with asyncio.timeout(5):
            while observers.looks < 2:
                observers.heard.clear()
                await observers.heard.wait()
        # What was outdated once is not looked at for ever.
        await asyncio.sleep(4 * observation._TICK_S)
        rounds.cancel()

    asyncio.run(look())
    assert observers.looks == 2
