"""Lock servers and observers at a real API server that nobody reaches: what is told of them."""

import asyncio
from collections.abc import Awaitable, Callable

from hoodie.clock import SystemClock
from hoodie.model import settings
from hoodie_operator.api import configuration, objects
from hoodie_operator.cluster.adapters.lock_servers import LockServers
from hoodie_operator.cluster.adapters.observers import ClusterObservers
from hoodie_operator.cluster.client import api, logins
from hoodie_operator.cluster.control import ports
from support.operators import cluster_place


class Later(SystemClock):
    """The machine's clock, later by what a test says."""

    later_s = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.later_s * 1000

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self.later_s


async def later(look: Callable[[], Awaitable[str]], clocked: Later, told: str) -> str:
    """Return what is seen once that is told in it; all is looked at after a long time."""
    seen = ""
    try:
        async with asyncio.timeout(cluster_place.WAIT_S):
            while told not in seen:
                await asyncio.sleep(0.2)
                clocked.later_s += 3600
                seen = await look()
    except TimeoutError:
        raise AssertionError(f"{seen!r} is told, expected {told!r} in it") from None
    return seen


def observed(config: configuration.Configuration, table: objects.Table, told: str) -> str:
    """Return what the table tells of its observer, which is made, once that is told in it."""

    async def act() -> str:
        clocked, server = Later(), api.Api(logins.Logins())
        # Who keeps observers removes all others where he looks: those of other tests, too.
        place = config.model_copy(update={"watch_namespaces": (table.key.namespace,)})
        observers = ClusterObservers(
            server, place, clocked, address_of=lambda identity: "http://127.0.0.1:1"
        )
        look = ports.TableLook(
            table=table, uri="file:///data/flights", settings=settings.WriteSettings()
        )

        async def message() -> str:
            seen = (await observers.look_at_tables([look]))[table.uid]
            assert seen is not None
            assert seen.problem is not None
            assert seen.problem.is_transient
            return seen.problem.message

        try:
            await observers.keep([table])
            return await later(message, clocked, told)
        finally:
            await observers.close()
            await server.close()

    return asyncio.run(act())


def served(config: configuration.Configuration, lock: objects.Lock, told: str) -> str:
    """Return what is seen of a lock server, which is made, once that is told in it."""

    async def act() -> str:
        clocked, server = Later(), api.Api(logins.Logins())
        locks = LockServers(server, config, clocked)
        before = await locks.look(lock, None)

        async def message() -> str:
            seen = await locks.look(lock, before)
            assert not seen.is_ready
            return seen.message

        try:
            await locks.serve(lock, ())
            return await later(message, clocked, told)
        finally:
            await server.close()

    return asyncio.run(act())
