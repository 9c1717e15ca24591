"""One operator process in a cluster, from waiting for the lease to the end.

A standby is alive and ready, and does nothing. A leader that is told to stop finishes what it is
doing and lets the lease go; one that lost the lease ends at once.
"""

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from hoodie import clock, identity
from hoodie_operator.api import resources
from hoodie_operator.api.resources import Manifest
from hoodie_operator.cluster import health
from hoodie_operator.cluster.client import api, api_errors, logins
from hoodie_operator.cluster.control import actor, controller, events, metrics, ports, statuses
from hoodie_operator.cluster.informer import resync, store, watching
from hoodie_operator.cluster.process import leases, rivals
from hoodie_operator.reconcile import catalog

logger = logging.getLogger(__name__)

_T = TypeVar("_T")

_LEASE_PATIENCE = api.Patience(timeout_s=4.0, tries=1)
_LOST_EXIT_CODE = 1
_FINISH_S = 10.0
_PAUSE_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Who and where this process is.

    Attributes:
        namespace: Of the Lease.
        lease: Its name.
        instance: This process's name, as its pod's.
        host: Where probes and metrics are answered.
        port: At which port; 0 for any.
    """

    namespace: str
    lease: str
    instance: str
    host: str = "0.0.0.0"  # noqa: S104 - probes come from the node
    port: int = 8080


MakeAdapters = Callable[[api.Api, leases.Election, clock.Clock], ports.Adapters]
"""Makes a leader's adapters from the API server, the election that it has won, and its clock."""


async def run(
    place: Place,
    settings: controller.Settings,
    locate: catalog.Locate,
    make_adapters: MakeAdapters,
    login: logins.Login | None = None,
) -> None:
    """Run an operator until it is told to stop by SIGTERM or SIGINT.

    Args:
        place: Who and where we are.
        settings: How the controller works.
        locate: Tells where a table is.
        make_adapters: Makes a leader's adapters.
        login: Gives the connection to the API server; by default as the environment says.

    Raises:
        InvalidInputError: No API server is known.
        OSError: The port cannot be had.
    """
    our_clock, random = clock.ForwardClock(clock.SystemClock()), identity.SystemRandom()
    counted = metrics.Metrics()
    probes = health.Health(our_clock, settings.late_s)
    login = login or logins.Logins(our_clock=our_clock)
    await login()
    runner = await health.serve(probes, counted.registry, host=place.host, port=place.port)
    stop = _stop_signal()
    async with contextlib.AsyncExitStack() as connections:
        # With a connection of its own, so that nothing keeps the lease from being renewed.
        lease_server = api.Api(
            login, patience=_LEASE_PATIENCE, on_answer=_counting(counted, probes)
        )
        connections.push_async_callback(lease_server.close)
        election = leases.Election(
            lease_server,
            namespace=place.namespace,
            name=place.lease,
            candidate=f"{place.instance}_{random.uuid()}",
            our_clock=our_clock,
            random=random,
        )
        server = api.Api(
            login,
            on_answer=_counting(counted, probes),
            change_s=election.change_s,
            creator=rivals.creator(place.namespace, place.lease),
        )
        connections.push_async_callback(server.close)
        probes.problem = ""
        try:
            if await _unless(stop, election.win()):
                counted.leader.set(1)
                leading = lead(
                    place.instance,
                    settings,
                    locate,
                    make_adapters,
                    parts=LeaderContext(
                        server=server, login=login, election=election, counted=counted,
                        probes=probes, clock=our_clock, random=random,
                    ),
                )  # fmt: skip
                await _unless(stop, leading)
        except leases.LostError as error:
            logger.error("leaving: %s", error)  # noqa: TRY400 - how it came about is no matter
            # At once: whatever is still being asked for must not be.
            os._exit(_LOST_EXIT_CODE)
        except (watching.EndedError, resync.KindGoneError) as error:
            # The next one waits until all kinds are there, and watches them.
            logger.error("leaving: %s", error)  # noqa: TRY400 - how it came about was told
            await _release(election, server)
            # Not by returning: Kopf's thread may never end.
            os._exit(_LOST_EXIT_CODE)
        await _release(election, server)
    await runner.cleanup()


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderContext:
    """What a leader works with."""

    server: api.Api
    login: logins.Login
    election: leases.Election
    counted: metrics.Metrics
    probes: health.Health
    clock: clock.Clock
    random: identity.Random


async def lead(
    instance: str,
    settings: controller.Settings,
    locate: catalog.Locate,
    make_adapters: MakeAdapters,
    *,
    parts: LeaderContext,
) -> None:
    """Do a leader's work until cancelled; what is being done then is finished.

    Args:
        instance: This process's name.
        settings: How the controller works.
        locate: Tells where a table is.
        make_adapters: Makes the leader's adapters.
        parts: What to work with.

    Raises:
        LostError: The lease is not held any more.
        EndedError: The watch ended.
        KindGoneError: A kind is gone.
    """
    parts.probes.problem = "it begins to lead, and lists everything first"
    adapters = make_adapters(parts.server, parts.election, parts.clock)
    known = store.Store(locate, adapters.runs.read, parts.clock)
    keeping = asyncio.create_task(parts.election.keep())
    try:
        known_statuses = await _while_leading(keeping, _statuses_known(parts))
        services = actor.Services(
            api=parts.server,
            statuses=statuses.Statuses(parts.server, known_statuses),
            adapters=adapters,
            recorder=events.Recorder(parts.server, parts.clock, instance),
            counted=parts.counted,
            clock=parts.clock,
        )
        working = controller.Controller(
            known,
            services,
            settings,
            probes=parts.probes,
            random=parts.random,
        )
        collector = metrics.Known(known, working.states.tables, working.handler.queue, parts.clock)
        parts.counted.registry.register(collector)
        others = rivals.Rivals(parts.server.creator, services.recorder)

        def hear(change: str | None, manifest: Manifest) -> None:
            others.hear(change, manifest)
            working.handler.on_watch_event(change, manifest)

        watch = watching.watch(hear, parts.login, settings.namespaces)
        tasks = [
            keeping,
            asyncio.create_task(watch),
            asyncio.create_task(services.recorder.run()),
            asyncio.create_task(working.run()),
            asyncio.create_task(working.handler.listings.await_end_of_a_kind()),
        ]
        await _first_failure(tasks, keeping, working)
    finally:
        keeping.cancel()


async def _first_failure(
    tasks: list[asyncio.Task[None]], keeping: asyncio.Task[None], working: controller.Controller
) -> None:
    """Wait until a task ends, and end the others; what is being done is finished under the lease.

    Raises:
        Exception: As the task that ended did.
    """
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            if task is not keeping:
                task.cancel()
        if not keeping.done():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_FINISH_S):
                    await working.finish()
    for task in done:
        task.result()


async def _while_leading(keeping: asyncio.Task[None], doing: Coroutine[Any, Any, _T]) -> _T:
    """Return what something comes to, unless the lease is lost first.

    Raises:
        LostError: It was.
    """
    task = asyncio.create_task(doing)
    try:
        await asyncio.wait((task, keeping), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            keeping.result()
        return task.result()
    finally:
        task.cancel()


async def _statuses_known(parts: LeaderContext) -> statuses.Known:
    """Return what the API server knows of statuses, once all our kinds are there.

    One that comes later would not be watched: Kopf looks once for what there is.
    """
    told = ""
    while True:
        try:
            known = await statuses.known_fields(parts.server)
        except api_errors.ApiError as error:
            parts.probes.problem = f"the schemas of the API server cannot be read: {error}"
        else:
            missing = [each.kind for each in resources.OURS if each.kind not in known]
            if not missing:
                unknown = statuses.unknown_fields(known)
                if unknown:
                    logger.warning(
                        "the CustomResourceDefinitions are older than the operator, and statuses "
                        "lack %s: apply those of this release",
                        ", ".join(unknown),
                    )
                return known
            parts.probes.problem = (
                f"the CustomResourceDefinitions of {', '.join(missing)} are missing: apply those "
                "of this release"
            )
        if parts.probes.problem != told:
            told = parts.probes.problem
            logger.warning("%s", told)
        await asyncio.sleep(_PAUSE_S)


async def _release(election: leases.Election, server: api.Api) -> None:
    """Let another lead at once, unless something may still be done that was asked for."""
    if server.is_changing:
        logger.warning("the lease is left to expire: not everything that was begun has ended")
        return
    await election.release()


def _counting(counted: metrics.Metrics, probes: health.Health) -> Callable[[str, int], None]:
    """Return what counts the answers of the API server."""

    def answered(method: str, status: int) -> None:
        counted.requests.labels(method, str(status)).inc()
        probes.watches.answered(status)

    return answered


def _stop_signal() -> asyncio.Event:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop


async def _unless(stop: asyncio.Event, doing: Coroutine[Any, Any, object]) -> bool:
    """Do something unless told to stop first, then end it; return whether it was done.

    Raises:
        Exception: As it does.
    """
    task = asyncio.create_task(doing)
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait((task, stopping), return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if task.done():
        task.result()
        return True
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    return False
