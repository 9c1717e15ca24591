"""A leader that cannot begin yet is one all the same: its lease is kept, or the process ends."""

import asyncio
from typing import cast

import pytest

from hoodie import clock, identity
from hoodie_operator.api import configuration
from hoodie_operator.cluster import (
    api,
    controller,
    health,
    leases,
    logins,
    metrics,
    ports,
    running,
    starting,
)
from hoodie_operator.reconcile import effective
from support import cluster_helpers
from support.api_server import ApiServer

TOLD = configuration.parse(b"dataRoots: [/data]\nimage: {name: 'hudi:1'}", "operator.yaml")


class Election:
    """A leadership that ends when the test says so."""

    number = 7
    is_held = True

    def __init__(self) -> None:
        self.lost = asyncio.Event()

    async def keep(self) -> None:
        await self.lost.wait()
        raise leases.LostError("somebody else holds the lease")


def _helpers(server: api.Api, election: leases.Election, our_clock: clock.Clock) -> running.Helpers:
    del server, election
    runs = cast("ports.Runs", cluster_helpers.FakeRuns)
    return running.Helpers(
        runs=runs,
        observers=cast("ports.Observers", None),
        locks=cluster_helpers.FakeLocks(our_clock),
    )


def test_lease_that_is_lost_while_the_kinds_are_missing_ends_the_leader() -> None:
    probes = health.Health(clock.SystemClock())
    election = Election()

    async def lead(server: api.Api) -> None:
        parts = running.Parts(
            server=server,
            login=logins.connection,
            election=election,  # type: ignore[arg-type]  # what a leader asks of it
            counted=metrics.Metrics(),
            probes=probes,
            clock=clock.SystemClock(),
            random=identity.SystemRandom(),
        )
        settings: controller.Settings = starting.settings(TOLD)
        leading = asyncio.create_task(
            running.lead("one", settings, effective.locator(TOLD.data_roots), _helpers, parts=parts)
        )
        async with asyncio.timeout(10):
            await leading

    def look_for_kinds(method: str, path: str) -> bool:
        del method, path
        election.lost.set()
        return False

    empty = ApiServer()
    empty.refused = look_for_kinds
    with pytest.raises(leases.LostError, match="somebody else"):
        empty.use(lead)
