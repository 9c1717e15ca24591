"""A leader that cannot begin yet is one all the same: its lease is kept, or the process ends."""

import asyncio
import logging
from typing import cast

import pytest
from aiohttp import web

from hoodie import clock, identity
from hoodie_operator.api import configuration, resources
from hoodie_operator.cluster import health
from hoodie_operator.cluster.client import api, logins
from hoodie_operator.cluster.control import controller, metrics, ports
from hoodie_operator.cluster.informer import resync, store
from hoodie_operator.cluster.process import leader, leases, wiring
from hoodie_operator.reconcile import effective
from support.operators import cluster_helpers
from support.operators.api_server import ApiServer, Served

TOLD = configuration.parse(b"dataRoots: [/data]\nimage: {name: 'hudi:1'}", "operator.yaml")
LOCATE = effective.locator(TOLD.data_roots)


class Election:
    """A leadership that ends when the test says so."""

    number = 7
    is_held = True

    def __init__(self) -> None:
        self.lost = asyncio.Event()

    async def keep(self) -> None:
        await self.lost.wait()
        raise leases.LostError("another process holds the lease")


def _adapters(server: api.Api, election: leases.Election, our_clock: clock.Clock) -> ports.Adapters:
    del server, election
    runs = cast("ports.Runs", cluster_helpers.FakeRuns)
    return ports.Adapters(
        runs=runs,
        observers=cast("ports.Observers", None),
        locks=cluster_helpers.FakeLocks(our_clock),
    )


def test_lease_that_is_lost_while_the_kinds_are_missing_ends_the_leader() -> None:
    probes = health.Health(clock.SystemClock())
    election = Election()

    async def lead(server: api.Api) -> None:
        parts = leader.LeaderContext(
            server=server,
            login=logins.Logins(),
            election=election,  # type: ignore[arg-type]  # what a leader asks of it
            counted=metrics.Metrics(),
            probes=probes,
            clock=clock.SystemClock(),
            random=identity.SystemRandom(),
        )
        settings: controller.Settings = wiring.settings(TOLD)
        leading = asyncio.create_task(leader.lead("one", settings, LOCATE, _adapters, parts=parts))
        async with asyncio.timeout(10):
            await leading

    def look_for_kinds(method: str, path: str) -> bool:
        del method, path
        election.lost.set()
        return False

    empty = ApiServer()
    empty.refused = look_for_kinds
    with pytest.raises(leases.LostError, match="another process"):
        empty.use(lead)


def _schemas(*missing: str) -> dict[str, object]:
    """Return what an API server tells of our kinds, but for some."""
    return {
        "components": {
            "schemas": {
                each.kind: {
                    "x-kubernetes-group-version-kind": [
                        {"group": each.group, "version": each.version, "kind": each.kind}
                    ],
                    "properties": {"status": {"properties": {}}},
                }
                for each in resources.OURS
                if each.kind not in missing
            }
        }
    }


class Kinds(Served):
    """An API server that tells of one more kind at each question, and lists none of one."""

    def __init__(self, *answers: dict[str, object]) -> None:
        self.answers = list(answers)

    async def handle(self, request: web.Request) -> web.Response:
        if request.path.startswith("/openapi/"):
            return web.json_response(self.answers.pop(0))
        return web.json_response({"kind": "Status", "reason": "NotFound", "code": 404}, status=404)


def test_leader_begins_when_all_kinds_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader, "_PAUSE_S", 0.01)
    probes = health.Health(clock.SystemClock())
    told = []
    server = Kinds(_schemas(), _schemas())
    server.answers[0:0] = [_schemas("HudiTable"), _schemas("HudiTable", "Writer")]

    async def wait(client: api.Api) -> None:
        parts = leader.LeaderContext(
            server=client,
            login=logins.Logins(),
            election=Election(),  # type: ignore[arg-type]  # what a leader asks of it
            counted=metrics.Metrics(),
            probes=probes,
            clock=clock.SystemClock(),
            random=identity.SystemRandom(),
        )
        known = await leader._statuses_known(parts)
        told.extend(known)

    server.use(wait)
    assert set(told) == {each.kind for each in resources.OURS}
    assert "HudiTable, Writer are missing" in probes.problem
    assert len(server.answers) == 1


def test_kind_that_is_gone_for_good_ends_the_leader(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(resync, "_PAUSE_S", 0.001)
    probes = health.Health(clock.SystemClock())
    caplog.set_level(logging.INFO, resync.__name__)

    async def lead(client: api.Api) -> None:
        known = store.Store(
            effective.locator(TOLD.data_roots),
            cluster_helpers.FakeRuns.read,  # type: ignore[arg-type]  # nothing is read
            clock.SystemClock(),
        )
        listing = resync.Resync(client, known, probes, resync.Scope(), lambda changed, gone: None)
        async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
            running_on = tasks.create_task(listing.run())
            try:
                await listing.await_end_of_a_kind()
            finally:
                running_on.cancel()

    with pytest.raises(ExceptionGroup) as raised:
        Kinds().use(lead)
    assert raised.group_contains(resync.KindGoneError, match="cannot be listed")
    # Each problem is told once, not at each try.
    told = [each for each in caplog.records if "cannot be listed" in each.message]
    assert len(told) == len(resources.WATCHED)
