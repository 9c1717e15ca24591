"""Liveness fails when the API server answers and a watch does not follow; not when it is silent."""

import asyncio

import aiohttp
import prometheus_client
import pytest

from hoodie_operator.api import resources
from hoodie_operator.api.resources import Manifest
from hoodie_operator.cluster import health
from support.simulation.moved_clock import MovedClock

TABLES = resources.BY_KIND["HudiTable"]


def _pass(clock: MovedClock, watches: health.Watches, seconds: float) -> None:
    """Let time pass in which the API server answers."""
    end_s = clock.now_s + seconds
    while clock.now_s < end_s:
        clock.now_s += 1
        watches.answered(200)


def _version(version: int, uid: str = "u") -> Manifest:
    return {
        "apiVersion": TABLES.api_version,
        "kind": TABLES.kind,
        "metadata": {"uid": uid, "resourceVersion": str(version)},
    }


def test_watch_that_does_not_bring_what_is_there_is_dead() -> None:
    clock = MovedClock()
    watches = health.Watches(clock)
    watches.expect(_version(5))
    _pass(clock, watches, health.LATE_S - 1)
    assert watches.late() == []
    _pass(clock, watches, 2)
    (why,) = watches.late()
    assert "huditables.hudi.dev" in why
    watches.heard(_version(5), is_gone=False)
    assert watches.late() == []


def test_watch_that_has_nothing_to_bring_is_alive() -> None:
    clock = MovedClock()
    watches = health.Watches(clock)
    _pass(clock, watches, 10 * health.LATE_S)
    assert watches.late() == []


def test_watch_that_is_late_but_advances_is_alive() -> None:
    clock = MovedClock()
    watches = health.Watches(clock)
    for version in range(10, 20):
        watches.expect(_version(version))
        _pass(clock, watches, health.LATE_S - 20)
        watches.heard(_version(version - 1), is_gone=False)
    assert watches.late() == []


def test_what_changes_all_the_time_is_no_excuse() -> None:
    clock = MovedClock()
    watches = health.Watches(clock)
    for version in range(10):
        watches.expect(_version(version))
        _pass(clock, watches, health.LATE_S / 5)
    assert watches.late()


def test_end_of_an_object_is_no_fault_of_the_watch() -> None:
    clock = MovedClock()
    watches = health.Watches(clock)
    watches.expect(_version(5, "a"))
    watches.expect(_version(6, "b"))
    watches.heard(_version(4, "a"), is_gone=True)
    watches.forget(TABLES, "b")
    _pass(clock, watches, 2 * health.LATE_S)
    assert watches.late() == []


def test_silent_api_server_proves_nothing_and_its_watches_have_time_when_it_is_back() -> None:
    clock = MovedClock()
    watches = health.Watches(clock)
    watches.expect(_version(5))
    clock.now_s += 10 * health.LATE_S
    assert watches.late() == []
    watches.answered(200)
    assert watches.late() == []
    _pass(clock, watches, health.LATE_S + 1)
    assert watches.late()


@pytest.mark.parametrize("status", [0, 401, 403, 429, 500, 503])
def test_api_server_that_refuses_everything_proves_nothing(status: int) -> None:
    clock = MovedClock()
    watches = health.Watches(clock)
    watches.expect(_version(5))
    for _ in range(int(2 * health.LATE_S)):
        clock.now_s += 1
        watches.answered(status)
    assert watches.late() == []


def test_probes_answer_by_http() -> None:
    clock = MovedClock()
    probes = health.Health(clock)
    registry = prometheus_client.CollectorRegistry()
    prometheus_client.Gauge("some", "Thing.", registry=registry).set(3)

    async def ask() -> list[tuple[int, str]]:
        runner = await health.serve(probes, registry, host="127.0.0.1", port=0)
        host, port = runner.addresses[0][:2]
        found = []
        async with aiohttp.ClientSession(f"http://{host}:{port}") as session:
            for path in ("/healthz", "/readyz", "/metrics"):
                async with session.get(path) as answer:
                    found.append((answer.status, await answer.text()))
            probes.problem = ""
            probes.watches.expect(_version(5))
            _pass(clock, probes.watches, health.LATE_S + 1)
            for path in ("/healthz", "/readyz"):
                async with session.get(path) as answer:
                    found.append((answer.status, await answer.text()))
        await runner.cleanup()
        return found

    before_live, before_ready, metrics, late, ready = asyncio.run(ask())
    assert before_live == (200, "ok\n")
    assert before_ready == (503, "it has not begun\n")
    assert "some 3.0" in metrics[1]
    assert late == (503, "the watch of huditables.hudi.dev is 181 s behind the API server\n")
    assert ready == (200, "ok\n")
