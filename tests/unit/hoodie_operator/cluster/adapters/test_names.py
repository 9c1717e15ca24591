"""Hosts that tenants name: looked up for each namespace, and never the operator's own machine."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from typing import cast

import pytest

from hoodie import clock, errors
from hoodie.contract import attempt_fences
from hoodie_operator.api import configuration, kinds, objects
from hoodie_operator.cluster.adapters import guests
from hoodie_operator.cluster.adapters.fences import Fences
from hoodie_operator.cluster.adapters.lock_servers import LockServers
from hoodie_operator.cluster.adapters.names import Names, RefusedError
from hoodie_operator.cluster.client import api
from hoodie_operator.observing import locks
from hoodie_operator.reconcile import allowances, facts
from support.operators import operator_world as ow
from support.operators.flights_world import Flights

TOLD = configuration.parse(
    b"dataRoots: [/data]\nlockServers: {allowed: ['*.example', '*.nowhere']}", "operator.yaml"
)


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """Give names the addresses of a test; names of `nowhere` hang until it ends."""
    ended = threading.Event()
    addresses: dict[str, str] = {}

    def resolve(host: str, *_: object) -> list[tuple[object, ...]]:
        if host.endswith(".nowhere"):
            ended.wait()
        if host not in addresses:
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (addresses[host], 0))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    yield addresses
    ended.set()


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "169.254.169.254", "fe80::1", "0.0.0.0"],
)
def test_name_that_leads_to_the_operators_own_machine_is_refused(
    resolver: dict[str, str], address: str
) -> None:
    resolver["zk.example"] = address
    with pytest.raises(RefusedError, match="does not connect"):
        asyncio.run(Names(("*",)).addresses("n", "zk.example:2181"))
    assert asyncio.run(Names(("*", address)).addresses("n", "zk.example:2181"))


def test_name_is_looked_up_once_and_connected_to_by_its_address(resolver: dict[str, str]) -> None:
    resolver["zk.example"] = "192.0.2.7"
    assert asyncio.run(Names().addresses("n", "zk.example:2181")) == ("192.0.2.7:2181",)


def test_names_that_hang_in_one_namespace_keep_no_other_from_its_own(
    resolver: dict[str, str],
) -> None:
    resolver["zk.example"] = "192.0.2.7"
    names = Names()

    async def look_up() -> None:
        hanging = asyncio.gather(
            *(names.addresses("hostile", f"{number}.nowhere:1") for number in range(600)),
            return_exceptions=True,
        )
        await asyncio.sleep(0.1)
        assert await names.addresses("n", "zk.example:2181") == ("192.0.2.7:2181",)
        assert {type(each) for each in await hanging} == {errors.StorageError}

    asyncio.run(look_up())


def test_fence_is_never_written_to_the_operators_own_machine(resolver: dict[str, str]) -> None:
    resolver["zk.example"] = "127.0.0.1"
    fences = Fences(lambda: 1, clock.SystemClock())
    node = attempt_fences.FenceNode(servers=("zk.example:2181",), path="/locks/t.fences/w")
    with pytest.raises(errors.ConfigurationError, match="does not connect"):
        asyncio.run(fences.admit("n", node, 1, "h"))
    asyncio.run(fences.forget("n", node, 1))


def _look(spec: dict[str, object]) -> facts.LockFacts:
    here = ow.Outside()
    found = here.by_key[here.add(kinds.LOCK_PROVIDER, "zk", spec)]
    servers = LockServers(cast("api.Api", None), TOLD, clock.SystemClock())
    return asyncio.run(servers.look(cast("objects.Lock", found), None))


@pytest.mark.parametrize("kind", ["ZooKeeper", "HiveMetastore"])
def test_look_does_not_tell_open_from_closed_ports_of_what_is_refused(
    kind: str, resolver: dict[str, str]
) -> None:
    resolver["rebound.example"] = "127.0.0.1"
    told = set()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        open_port = listening.getsockname()[1]
        for port in (open_port, 1):
            for host in ("127.0.0.1", "10.96.0.1", "rebound.example"):
                block = {"servers": [f"{host}:{port}"]}
                spec: dict[str, object] = {"type": kind}
                if kind == "ZooKeeper":
                    spec["zookeeper"] = block
                else:
                    spec["hiveMetastore"] = {**block, "database": "lake"}
                seen = _look(spec)
                assert not seen.is_ready
                told.add(seen.message.replace(f"{host}:{port}", host))
        listening.settimeout(0.1)
        with pytest.raises(TimeoutError):
            listening.accept()
    assert len(told) == 3
    assert not any(locks.SILENT in each for each in told)


@pytest.mark.parametrize(
    ("server", "is_allowed"),
    [
        ("zk.example:2181", True),
        ("ZK.Example:2181", True),
        ("zk.other:2181", False),
        ("127.0.0.1:2181", False),
        ("localhost:2181", False),
        ("10.0.0.9:2181", False),
    ],
)
def test_lock_provider_that_names_another_host_is_stalled(server: str, *, is_allowed: bool) -> None:
    here = Flights(is_ready=False)
    here.limits = ow.limits(lock_hosts=("*.example",))
    key = here.add(
        kinds.LOCK_PROVIDER, "other", {"type": "ZooKeeper", "zookeeper": {"servers": [server]}}
    )
    here.see_lock(key)
    here.reconcile(key)
    state, reason, message = here.condition(key)
    assert (state, reason) == (("Ready", "Ready") if is_allowed else ("Stalled", "NotAllowed"))
    if not is_allowed:
        assert server in message
        assert "*.example" in message


def test_embedded_lock_server_needs_no_entry_in_the_configuration() -> None:
    here = Flights(is_ready=False)
    here.limits = ow.limits(lock_hosts=())
    key = here.add(kinds.LOCK_PROVIDER, "own", {"type": "ZooKeeper", "embedded": True})
    here.see_lock(key)
    here.reconcile(key)
    assert here.condition(key)[0] == "Ready"


@pytest.mark.parametrize("name", ["zk.example", "a.zk.example"])
def test_pattern_stands_for_any_letters(name: str) -> None:
    assert allowances.others((name,), ("*.example",)) == []
    assert allowances.others((name,), ("zk.*",)) == ([] if name == "zk.example" else [name])


def test_service_that_leads_to_the_operators_own_machine_is_not_asked(
    resolver: dict[str, str],
) -> None:
    resolver["hudi-observer-x.tenant.svc"] = "127.0.0.1"

    async def ask(port: int) -> None:
        session = guests.session(Names(), 5.0)
        try:
            async with session.get(f"http://hudi-observer-x.tenant.svc:{port}/v1/tables"):
                raise AssertionError("it was asked")
        finally:
            await session.close()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        with pytest.raises(OSError, match="does not connect"):
            asyncio.run(ask(listening.getsockname()[1]))
        listening.settimeout(0.1)
        with pytest.raises(TimeoutError):
            listening.accept()
