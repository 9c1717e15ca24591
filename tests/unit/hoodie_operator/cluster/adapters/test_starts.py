"""Starts of a leader whose changes the network delivers late, if at all: the next leader knows all.

The invariant: once the next leader has withdrawn what was not started, before it decides anything,
nothing is started any more but by itself.
"""

import asyncio
import contextlib
import dataclasses
import math
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

import pytest

from hoodie import clock
from hoodie_operator.api import resources
from hoodie_operator.api.resources import Manifest
from hoodie_operator.cluster.adapters.fences import Fences
from hoodie_operator.cluster.adapters.runs import JobRuns
from hoodie_operator.cluster.client import api, api_errors
from hoodie_operator.manifests import observed
from support.operators import attempts_world
from support.operators.api_server import ApiServer

SEEDS = 150
CLOCK = clock.SystemClock()

Result = TypeVar("Result")


@dataclasses.dataclass
class Network:
    """What becomes of the changes of Jobs that leaders ask for."""

    server: ApiServer
    chance: random.Random
    late: list[Callable[[], Awaitable[object]]] = dataclasses.field(default_factory=list)

    async def pass_on(self, change: Callable[[], Awaitable[Result]]) -> Result:
        """Have a change done, now or later or never, and its answer come or not.

        Raises:
            UnavailableError: There is no answer.
        """
        await self.deliver()
        fate = self.chance.choice(("done", "done", "unanswered", "late", "never"))
        if fate == "late":
            self.late.append(change)
        if fate in ("late", "never"):
            raise api_errors.UnavailableError("no answer")
        answer = await change()
        if fate == "unanswered":
            raise api_errors.UnavailableError("no answer")
        return answer

    async def deliver(self, share: float = 0.3) -> None:
        """Have some of what is late done."""
        for change in list(self.late):
            if self.chance.random() < share:
                self.late.remove(change)
                with contextlib.suppress(api_errors.ApiError):
                    await change()

    def started(self) -> set[str]:
        """Return the Jobs that make pods, whoever knows it."""
        found = self.server.of("jobs")
        return {job["metadata"]["uid"] for job in found if observed.is_started(job)}


class Leader(api.Api):
    """The way of a leader to the API server; it loses the lease or is killed at some time.

    Attributes:
        is_lost: Set then.
        asks: Whether it asks, before each change, whether it leads.
    """

    def __init__(self, client: api.Api, network: Network, *, asks: bool = True) -> None:
        super().__init__(
            client.login,
            patience=api.Patience(tries=1),
            change_s=lambda: 0.0 if self.is_lost.is_set() and asks else math.inf,
        )
        self.is_lost = asyncio.Event()
        self.asks = asks
        # What is under way is done whether its author still leads or not.
        self._wire = client
        self._network = network

    async def create(self, manifest: Manifest) -> Manifest:
        if manifest["kind"] != "Job":
            return await super().create(manifest)
        return await self._change(lambda: self._wire.create(manifest))

    async def merge_patch(
        self, resource: resources.Resource, namespace: str, name: str, patch: Mapping[str, object]
    ) -> Manifest:
        wire = self._wire
        return await self._change(lambda: wire.merge_patch(resource, namespace, name, patch))

    async def _change(self, change: Callable[[], Awaitable[Manifest]]) -> Manifest:
        if self._network.chance.random() < 0.2:
            self.is_lost.set()
        if not self._change_s():
            raise api_errors.NotLeadingError("the lease is lost")
        try:
            return await self._network.pass_on(change)
        except api_errors.UnavailableError:
            if self._network.chance.random() < 0.5:
                # It is killed while it waits for the answer.
                self.is_lost.set()
            raise


async def lead_until_lost(leader: Leader, attempt: attempts_world.Attempt) -> None:
    """Try to start an attempt until it is, or the lease is lost, with which the process ends."""
    runs = JobRuns(leader, Fences(lambda: 1, CLOCK), attempts_world.TOLD, CLOCK)

    async def start() -> None:
        while True:
            with contextlib.suppress(api_errors.ApiError):
                await runs.start(attempt.start, attempt.owner, attempt.table)
                return
            # The API server does not answer, or the process is about to end.
            await asyncio.sleep(0)

    starting = asyncio.create_task(start())
    losing = asyncio.create_task(leader.is_lost.wait())
    await asyncio.wait((starting, losing), return_when=asyncio.FIRST_COMPLETED)
    if not leader.asks:
        # It goes on for as long as it takes to find out.
        await asyncio.wait((starting,), timeout=0.05)
    for task in (starting, losing):
        task.cancel()
    await asyncio.gather(starting, losing, return_exceptions=True)


async def take_over(runs: JobRuns, client: api.Api, network: Network) -> set[str]:
    """Withdraw what was not started; return the Jobs that are known to be."""
    known = set()
    for job in (await client.list(resources.JOB, attempts_world.NAMESPACE)).items:
        await network.deliver()
        found = await runs.withdraw(job)
        if found is not None:
            known.add(found["metadata"]["uid"])
    return known


def is_kept(seed: int, *, asks: bool = True, withdraws: bool = True) -> bool:
    """Return whether the next leader knew of all that was ever started, in one run."""
    server = ApiServer()

    async def scenario(client: api.Api) -> bool:
        network = Network(server, random.Random(seed))
        attempt = attempts_world.attempt()
        stale = Leader(client, network, asks=asks)
        leading = asyncio.create_task(lead_until_lost(stale, attempt))
        if asks:
            await leading
        else:
            # It may as well have started the attempt, and never lose the lease.
            losing = asyncio.create_task(stale.is_lost.wait())
            await asyncio.wait((leading, losing), return_when=asyncio.FIRST_COMPLETED)
            losing.cancel()
        next_runs = JobRuns(client, Fences(lambda: 2, CLOCK), attempts_world.TOLD, CLOCK)
        if withdraws:
            known = await take_over(next_runs, client, network)
        else:
            known = network.started()
        await leading
        await network.deliver(share=1.0)
        is_known = network.started() <= known
        (job,) = await next_runs.start(attempt.start, attempt.owner, attempt.table)
        assert network.started() == {job["metadata"]["uid"]}
        await stale.close()
        return is_known

    return server.use(scenario)


@pytest.mark.parametrize("first", range(0, SEEDS, 50))
def test_nothing_is_started_that_the_next_leader_does_not_know_of(first: int) -> None:
    lost = [seed for seed in range(first, first + 50) if not is_kept(seed)]
    assert lost == []


@pytest.mark.parametrize("rule", ["asks", "withdraws"])
def test_without_either_rule_something_is(rule: str) -> None:
    assert not all(is_kept(seed, **{rule: False}) for seed in range(SEEDS))
