"""Which TableActions may start a run now, when more want to than there are slots.

    all that wait, in order of priority and then of age -> one slot after the other, within limits

An action that exceeds a limit of its own (namespace, policy, lock) is passed over and holds up no
others. The order by age lets no table starve: what a large one asks for next is younger than what
waits already.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hoodie_operator.api import kinds, objects
from hoodie_operator.api.reasons import Reason
from hoodie_operator.api.states import State
from hoodie_operator.reconcile import dependents
from hoodie_operator.reconcile.verdicts import Verdict
from hoodie_operator.reconcile.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A run that wants to start, or that is at work.

    Attributes:
        uid: Of its action.
        order: Smaller goes first.
        holders: What it takes slots of, each with its limit: `total`, a namespace, a lock, a
            policy.
    """

    uid: str
    order: tuple[int, int, str]
    holders: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The place of a request that is not admitted.

    Attributes:
        number: From 1, among all that wait.
        waiting: How many wait.
        full: What has no slot for it.
        limit: How many slots that has.
    """

    number: int
    waiting: int
    full: str
    limit: int


def place(waiting: Iterable[Request], at_work: Iterable[Request], uid: str) -> Place | None:
    """Return the place of one of those that wait; None when it is admitted.

    Args:
        waiting: All that want to start, it included.
        at_work: All that run.
        uid: Whose place.
    """
    taken: Counter[str] = Counter(name for each in at_work for name, _ in each.holders)
    number = 0
    queue = sorted(waiting, key=lambda each: each.order)
    for each in queue:
        full = next(((name, limit) for name, limit in each.holders if taken[name] >= limit), None)
        if full is None:
            taken.update(name for name, _ in each.holders)
            if each.uid == uid:
                return None
            continue
        number += 1
        if each.uid == uid:
            return Place(number=number, waiting=len(queue), full=full[0], limit=full[1])
    raise AssertionError(f"{uid} does not wait")


def check(world: World, me: objects.Action) -> Verdict | None:
    """Return why a TableAction waits for a slot; None when it may start."""
    if world.limits.slots is None:
        return None
    queued = [each for each in world.queued_actions() if each.uid != me.uid]
    waiting = [_request(world, each) for each in (*queued, me)]
    found = place(waiting, _at_work(world), me.uid)
    if found is None:
        return None
    return Verdict(
        state=State.QUEUED,
        reason=Reason.QUEUED,
        message=f"place {found.number} of {found.waiting} in the queue: {found.full} has "
        f"{found.limit} slot{'' if found.limit == 1 else 's'}, all taken",
    )


def _at_work(world: World) -> Sequence[Request]:
    owners = (run.id.owner for run in world.runs_at_work())
    actions = (world.action(each) for each in owners if each.kind == kinds.TABLE_ACTION.name)
    # A run whose action is gone is soon gone too.
    return [_request(world, each) for each in actions if each is not None]


def _request(world: World, action: objects.Action) -> Request:
    slots = world.limits.slots
    assert slots is not None
    namespace = action.key.namespace
    holders = [
        ("the operator", slots.total),
        (f"namespace {namespace}", slots.per_namespace),
    ]
    lock = dependents.lock_of(world.by_key, action)
    if lock is not None:
        holders.append((str(lock), slots.per_lock))
    policy = None if action.owner is None else world.owning_policy(action)
    if policy is not None and policy.spec.max_runs is not None:
        holders.append((str(policy.key), policy.spec.max_runs))
    return Request(
        uid=action.uid,
        order=(-action.spec.priority, action.created_ms, action.uid),
        holders=tuple(holders),
    )
