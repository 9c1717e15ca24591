"""What is to be done about a LockProvider: serve it if it is ours, tell whether it answers.

Its server is its tables', too: a LockProvider that is deleted while they use it takes the server
along only with the last of them, so that runs at work keep their locks to their end. It has no
finalizer, on which its namespace would hang where no operator is. Nothing new starts meanwhile: the
tables tell that it is missing, as those of a LockProvider that is not ours do.
"""

from collections.abc import Sequence
from typing import Final

from hoodie_operator.api import lock_provider, objects
from hoodie_operator.api.reasons import Reason
from hoodie_operator.api.states import State
from hoodie_operator.reconcile import allowances, facts, names
from hoodie_operator.reconcile.effects import Effect, RemoveObject, ServeLock, SetStatus
from hoodie_operator.reconcile.verdicts import TRIED_AGAIN, Verdict, broken_rule, stated
from hoodie_operator.reconcile.world import World

_OWNERS_MAX: Final = 32
"""So many tables are named as owners of a lock server; others take their place when they go."""

UNREACHABLE_MS = 60_000
"""A provider that did not answer for this long is a user's to look at."""


def decide(world: World, me: objects.Lock) -> Sequence[Effect]:
    """Return what to do about a LockProvider."""
    tables = _tables(world, me)
    users = [table.name for table in tables]
    if me.is_deleting:
        if not users:
            return [RemoveObject(key=me.key, uid=me.uid)]
        verdict = Verdict(
            state=State.DELETING,
            reason=Reason.IN_USE,
            message=f"HudiTable {', '.join(users[:5])} refers to it",
        )
        return [_set(world, me, users, verdict)]
    refused = broken_rule(me) or _host_refusal(world, me)
    if refused is not None:
        return [_set(world, me, users, refused)]
    effects: list[Effect] = [_set(world, me, users, _verdict(world, me))]
    if me.spec.embedded:
        owners = tuple(names.owner(table) for table in tables[:_OWNERS_MAX])
        effects.append(ServeLock(key=me.key, uid=me.uid, users=owners))
    return effects


def _host_refusal(world: World, me: objects.Lock) -> Verdict | None:
    """Return why nobody is to connect to a server that a LockProvider names."""
    allowed = world.limits.lock_hosts
    if allowed is None or me.spec.embedded:
        return None
    for server in me.spec.servers:
        why = allowances.refused_host(server, allowed)
        if why is not None:
            return Verdict(
                state=State.STALLED,
                reason=Reason.NOT_ALLOWED,
                message=f"{server} {why}: lockServers.allowed has {', '.join(allowed) or 'none'}",
            )
    return None


def _verdict(world: World, me: objects.Lock) -> Verdict:
    seen = world.seen.locks.get(me.uid)
    if seen is None or seen.generation != me.generation:
        return Verdict(state=State.PENDING, reason=Reason.NOT_OBSERVED, message="not connected yet")
    if seen.is_ready:
        return Verdict(state=State.READY, reason=Reason.READY, message=seen.message)
    message = f"{seen.message}; {TRIED_AGAIN}"
    if world.now_ms - seen.since_ms > UNREACHABLE_MS:
        return Verdict(state=State.STALLED, reason=Reason.LOCK_UNREACHABLE, message=message)
    reason = Reason.STARTING if me.spec.embedded else Reason.LOCK_UNREACHABLE
    return Verdict(state=State.PENDING, reason=reason, message=message)


def _tables(world: World, me: objects.Lock) -> list[objects.Table]:
    """Return the tables that refer to a LockProvider, by name."""
    found = [
        table
        for table in world.tables(me.key.namespace)
        if table.spec.concurrency.lock_ref is not None
        and table.spec.concurrency.lock_ref.name == me.name
    ]
    return sorted(found, key=lambda table: table.name)


def _set(world: World, me: objects.Lock, users: list[str], verdict: Verdict) -> SetStatus:
    seen: facts.LockFacts | None = world.seen.locks.get(me.uid)
    address = {
        lock_provider.LockType.ZOOKEEPER: ",".join(seen.servers) if seen else "",
        lock_provider.LockType.STORAGE: "a lease in each table",
        lock_provider.LockType.DYNAMODB: _dynamodb(me),
        lock_provider.LockType.HIVE_METASTORE: ",".join(seen.servers) if seen else "",
        lock_provider.LockType.FILE_SYSTEM: "a file beside each table",
        lock_provider.LockType.IN_PROCESS: "inside each process",
    }[me.spec.type]
    status = me.status.model_copy(
        update={"address": address or None, "tables": tuple(users[:100]) or None}
    )
    return SetStatus(key=me.key, uid=me.uid, status=stated(status, me, verdict, world.now(me)))


def _dynamodb(me: objects.Lock) -> str:
    place = me.spec.dynamodb
    return "" if place is None else f"{place.table} in {place.region}"
