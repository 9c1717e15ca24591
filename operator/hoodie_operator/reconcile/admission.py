"""Which TableActions may start a run now, when more want to than there are slots.

    all that wait, in order of priority and then of age -> one slot after the other, within limits

An action that exceeds a limit of its own (namespace, policy, lock) is passed over and holds up no
others. The order by age lets no table starve: what a large one asks for next is younger than what
waits already.

A place changes with each run that starts or ends. So a status has only a bound of it, which is
true for as long as nothing goes before, and changes a few times on the way to the front; metrics
have the place.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from hoodie_operator.api import kinds, objects
from hoodie_operator.api.reasons import Reason
from hoodie_operator.api.states import State
from hoodie_operator.reconcile import dependents
from hoodie_operator.reconcile.verdicts import Verdict
from hoodie_operator.reconcile.world import World

_FRONT: Final = 4
"""So many at the front of the queue are decided about at each change."""


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
        full: What has no slot for it.
        limit: How many slots that has.
    """

    number: int
    full: str
    limit: int


def places(
    waiting: Iterable[Request], at_work: Iterable[Request]
) -> Iterator[tuple[Request, Place | None]]:
    """Yield those that wait, in their order, each with its place; None of one that is admitted.

    Args:
        waiting: All that want to start.
        at_work: All that run.
    """
    taken: Counter[str] = Counter(name for each in at_work for name, _ in each.holders)
    number = 0
    for each in sorted(waiting, key=lambda each: each.order):
        full = next(((name, limit) for name, limit in each.holders if taken[name] >= limit), None)
        if full is None:
            taken.update(name for name, _ in each.holders)
            yield each, None
        else:
            number += 1
            yield each, Place(number=number, full=full[0], limit=full[1])


def check(world: World, me: objects.Action) -> Verdict | None:
    """Return why a TableAction waits for a slot; None when it may start."""
    if world.limits.slots is None:
        return None
    waiting = [*(each for each in _queued(world) if each.uid != me.uid), me]
    requests = [_request(world, each) for each in waiting]
    found = next(found for each, found in places(requests, _at_work(world)) if each.uid == me.uid)
    if found is None:
        return None
    plural = "" if found.limit == 1 else "s"
    return Verdict(
        state=State.QUEUED,
        reason=Reason.QUEUED,
        message=f"{_bound(found.number)} in the queue: {found.full} has {found.limit} "
        f"slot{plural}, all taken",
    )


def to_decide(world: World) -> list[objects.ObjectKey]:
    """Return the TableActions that wait and may start now, and the first of those that may not."""
    if world.limits.slots is None:
        return []
    queued = {each.uid: each.key for each in _queued(world)}
    requests = [_request(world, each) for each in _queued(world)]
    return [
        queued[each.uid]
        for each, found in places(requests, _at_work(world))
        if found is None or found.number <= _FRONT
    ]


def order(action: objects.Action) -> tuple[int, int, str]:
    """Return the sort key of TableActions that wait: smaller goes first."""
    return (-action.spec.priority, action.created_ms, action.uid)


def _bound(number: int) -> str:
    """Return a place as a status has it: a bound that doubles."""
    return "next" if number == 1 else f"one of the next {1 << (number - 1).bit_length()}"


def _queued(world: World) -> list[objects.Action]:
    """Return those whose status says that they wait, and that have not started since."""
    return [each for each in world.queued_actions() if not world.has_run_at_work(each)]


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
        order=order(action),
        holders=tuple(holders),
    )
