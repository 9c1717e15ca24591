"""Savepoints in a simulated world: the library's own, created, listed, deleted and expired."""

from collections.abc import Callable

from hoodie import errors
from hoodie.maintenance import savepoints
from hoodie.timeline import chain
from hoodie.transaction.client import Client
from support.simulation.schedule_world import World

EXPIRY_MS = 8_000
PAUSE_S = 3.0


def act(
    world: World,
    saver: Client,
    transient: tuple[type[errors.HoodieError], ...],
    is_done: Callable[[], bool],
) -> None:
    """Do one thing after the other, until the others are done."""
    acts = (_create, _create, _create_of_any, _list, _delete, _expire)
    while not is_done():
        saver.clock.sleep_s(PAUSE_S * saver.random.uniform())
        try:
            acts[int(saver.random.uniform() * len(acts))](world, saver)
        except (*transient, errors.AlreadyExistsError, errors.NotFoundError) as error:
            world.time.note(f"{saver.author}: {error.kind}: {error}")


def create(world: World, saver: Client, wanted: savepoints.Wanted) -> None:
    """Create a savepoint, and take down that it is there."""
    found = savepoints.create(saver, world.config, wanted)
    world.time.note(f"{saver.author}: {found.instant}")
    world.keepers.see_savepoint(found, world.whole)


def delete(world: World, saver: Client, doomed: savepoints.Doomed) -> None:
    """Delete savepoints, and take down that this has begun."""
    with world.keepers.deleting(doomed):
        deleted = savepoints.delete(saver, world.config, doomed)
    for each in deleted:
        world.keepers.count("deleted")
        world.time.note(f"{saver.author}: deleted {each}")


def delete_all(world: World, saver: Client) -> None:
    """Delete all that there are, and what is left of those that died."""
    found = chain.load(saver.storage, world.config).savepoints
    commits = frozenset(each.requested_time for each in found)
    delete(world, saver, savepoints.Doomed(commits=commits))


def _create(world: World, saver: Client) -> None:
    create(world, saver, savepoints.Wanted())


def _create_of_any(world: World, saver: Client) -> None:
    """Keep a commit that is on the timeline, perhaps one that is cleaned meanwhile."""
    writes = chain.load(saver.storage, world.config).completed_writes
    if writes:
        commit = writes[int(saver.random.uniform() * len(writes))]
        create(world, saver, savepoints.Wanted(commit=commit.requested_time))


def _list(world: World, saver: Client) -> None:
    savepoints.listed(saver.storage, chain.load(saver.storage, world.config))


def _delete(world: World, saver: Client) -> None:
    found = chain.load(saver.storage, world.config).savepoints
    if found:
        commit = found[int(saver.random.uniform() * len(found))].requested_time
        delete(world, saver, savepoints.Doomed(commits=frozenset({commit})))


def _expire(world: World, saver: Client) -> None:
    delete(world, saver, savepoints.Doomed(older_than_ms=EXPIRY_MS))
