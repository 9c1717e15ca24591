"""Small models of the chain alone, explored exhaustively, with no lock at all (T-P09).

Actors make changes by the calls of `timeline.chain.Chain`, and the explorer lets any of them
continue at each call of the storage: one that does not is paused, for as long as the others need.
Each change is one completed instant, whose completion time is the number of its epoch; its
requested time is the author's own. So one number that two have published shows as two instants.

    publisher  makes a change; another actor may kill it at any call
    zombie     makes a change that it may have decided on long ago
    collector  makes changes until the boundary has moved above the first, and deletes their epochs
"""

import functools
from collections.abc import Sequence
from dataclasses import replace

from hoodie import errors
from hoodie.format import instant_names
from hoodie.model import instants, settings
from hoodie.storage.protocol import Storage
from hoodie.timeline import active, chain, epochs, transitions
from hoodie.transaction.client import Client
from support.simulation.schedule_exploration import Model
from support.simulation.schedule_world import World

ACKNOWLEDGED, REFUSED = "acknowledged", "refused"
_NAMES = ("before", "publisher", "finisher", "zombie", "collector", "last")


def go_on() -> None:
    """Be no check: nobody asks for a lock."""


def opened(world: World, storage: Storage) -> chain.Chain:
    assert world.config.chain is not None
    return chain.Chain(storage, world.config.chain.id, has_foreign_writers=False)


def change_once(world: World, client: Client) -> None:
    change(world, client, opened(world, client.storage))


def prepare(world: World, client: Client) -> None:
    change_until(world, client, 2)


def change_twice_more(world: World, client: Client) -> None:
    change_until(world, client, 4)


def move_boundary(world: World, client: Client) -> None:
    """Make changes until the first numbers are deleted."""
    change_until(world, client, 3)


def archive(world: World, client: Client) -> None:
    """Take the first instant off the timeline once its number is deleted, and make a change."""
    own = change_until(world, client, 3)
    first = chain.load(client.storage, world.config).completed[0]
    client.storage.delete(transitions.path(first))
    client.storage.delete(transitions.path(first.pending_in(instants.State.INFLIGHT)))
    while not change(world, client, own):
        pass


def change_until(world: World, client: Client, last: int) -> chain.Chain:
    """Make changes until the epoch of a number is made; decide again after being overtaken."""
    own = opened(world, client.storage)
    while change(world, client, own) < last:
        pass
    return own


def change(world: World, client: Client, own: chain.Chain) -> int:
    """Make a change, and file what its author is told; return its number, 0 if it is refused."""
    view = own.look(go_on)
    number = view.head.epoch.number + 1
    completed = instant(number, client.author.writer_id)
    path = transitions.path(completed)
    wanted = epochs.Change(
        id=path,
        time=completed.completion_time or "",
        author=str(client.author),
        files={path: b"commit"},
    )
    client.storage.touch(transitions.path(completed.pending_in(instants.State.INFLIGHT)))
    try:
        head = own.append(view, wanted, go_on)
    except errors.OvertakenError:
        client.storage.touch(told(REFUSED, path))
        return 0
    own.publish(head, go_on)
    client.storage.touch(told(ACKNOWLEDGED, path))
    own.collect(head)
    return number


def instant(number: int, author: str | None) -> instants.Instant:
    """Return what an author completes by the epoch of a number.

    They are requested in another order, so that pages of a listing may show the later one alone.
    """
    requested = f"20250101{number % 3:03d}{number:03d}{_NAMES.index(author or ''):03d}"
    return instants.Instant(
        requested_time=instants.InstantTime(requested),
        action=instants.Action.DELTA_COMMIT,
        state=instants.State.COMPLETED,
        completion_time=instants.InstantTime(f"20260101{number:06d}000"),
    )


def kill_publisher(world: World, client: Client) -> None:
    del client
    next(each for each in world.time.processes.values() if each.name == "publisher").crash()


def read(world: World, client: Client) -> None:
    """Read: all that was acknowledged before is seen, in the order of the chain."""
    known = client.storage.names(ACKNOWLEDGED)
    seen = shown(world, client.storage)
    check_order(seen)
    assert set(known) <= set(seen), f"{client.author} sees {seen}, expected {known}"


def check(world: World, first: int = 1) -> None:
    """Check what is there in the end, and after one more change.

    Args:
        world: The table.
        first: The number whose instant is the first that is not archived.
    """
    storage = world.storage
    readable = shown(world, storage)
    last = opened(world, storage)
    head = last.look(go_on).head
    seen = shown(world, storage)
    check_order(seen, first)
    assert len(seen) == head.epoch.number - first + 1, f"{seen} of {head.epoch.number} are seen"
    assert readable in (seen, seen[:-1]), f"{readable} was seen before {seen}"
    lost = {each for each in storage.names(ACKNOWLEDGED) if number_of(each) >= first} - set(seen)
    assert not lost, f"{lost} is acknowledged, and not seen"
    refused = active.names(storage) & set(storage.names(REFUSED))
    assert not refused, f"{refused} is refused, and there"
    assert change(world, world.writer("last"), last)
    check_order(shown(world, storage), first)


def check_order(seen: Sequence[str], first: int = 1) -> None:
    """Check that each number is there once, in order."""
    found = [number_of(each) for each in seen]
    assert found == list(range(first, first + len(found))), f"{seen} is seen"


def shown(world: World, storage: Storage) -> list[str]:
    """Return the names of what our readers see, in the order of completion."""
    found = chain.load(storage, world.config).completed
    return [instant_names.file_name(each) for each in found]


def number_of(name: str) -> int:
    """Return the number of the epoch that publishes an instant."""
    return int(active.completion_of(name)[8:14])


def told(what: str, path: str) -> str:
    """Return the file that says what the author of an instant is told."""
    return f"{what}/{path.rpartition('/')[2]}"


MODEL = Model(
    mode=settings.ConcurrencyMode.OPTIMISTIC, actors={}, is_lying=True, epochs_kept=1, check=check
)
"""The third change moves the boundary to 2, so that the numbers 0 and 1 are free again."""

MODELS: dict[str, Model] = {
    "chain: publisher and finisher": replace(
        MODEL,
        actors={"publisher": change_once, "finisher": change_once, "death": kill_publisher},
        is_reducible=False,
    ),
    "chain: creation and collection": replace(
        MODEL, actors={"zombie": change_once, "collector": move_boundary}
    ),
    "chain: publisher and reader of pages": replace(
        MODEL,
        actors={"publisher": change_twice_more, "reader": read},
        prepare=prepare,
        page_names=1,
    ),
    "chain: creation, collection and archive": replace(
        MODEL,
        actors={"zombie": change_once, "collector": archive},
        check=functools.partial(check, first=2),
    ),
}
