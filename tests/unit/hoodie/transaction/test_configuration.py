"""Changes of who writes a table, and of its chain, beside writers (CH12, CH14)."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from hoodie import errors
from hoodie.model import commits, table_config
from hoodie.timeline import chain, epochs, table_properties
from hoodie.transaction import configuration, lifecycle
from hoodie.transaction.client import Client
from support.simulation.faulty_storage import Interruption
from support.simulation.schedule_world import CONFIG, GROUPS, World, metadata

EPOCH = "create .hoodie/.aux/epoch/"
KEY = "hoodie.operator.test"


def stored(world: World) -> table_config.TableConfig:
    return table_properties.load(world.storage, world.writer("look").clock)


def kept(world: World) -> list[epochs.Epoch]:
    """Return all epochs that are there, of whichever chain."""
    names = sorted(name for name in world.storage.names(epochs.DIRECTORY) if name.isdecimal())
    contents = (world.storage.read(f"{epochs.DIRECTORY}/{name}") for name in names)
    return [epochs.decoded(content, "epoch").epoch for content in contents]


def switched_on(world: World, client: Client, *, has_foreign_writers: bool = True) -> None:
    world.config = configuration.switch_on(
        client, world.config, has_foreign_writers=has_foreign_writers
    )


def switched_off(world: World, client: Client) -> None:
    world.config = configuration.switch_off(client, world.config)


def test_chain_is_switched_on_off_and_on_again() -> None:
    """Numbers go on, so that no process from before can win one that is used now."""
    world = World()
    world.write(world.writer("a"))
    switched_on(world, world.writer("admin"))
    first = world.config.chain
    assert first is not None
    assert world.config.has_foreign_writers
    world.write(world.writer("b"))
    switched_off(world, world.writer("admin-2"))
    assert (world.config.chain, stored(world).chain) == (None, None)
    world.write(world.writer("c"))
    switched_on(world, world.writer("admin-3"))
    assert world.config.chain is not None
    assert world.config.chain != first
    world.write(world.writer("d"))
    found = kept(world)
    assert [each.number for each in found] == list(range(len(found)))
    *_, beginning, newest = found
    assert {each.chain for each in (beginning, newest)} == {world.config.chain.id}
    assert beginning.earlier == newest.earlier == (first.id,)
    assert len(beginning.known) == 3
    assert not newest.foreign
    world.check()


def test_foreign_writers_are_excluded_and_admitted_again() -> None:
    """In the chain, which stays; from then on the lock is a courtesy, or counts again."""
    world = World(has_chain=True)
    begun = world.config.chain
    for has_foreign_writers in (False, True):
        admin = world.writer(f"admin-{has_foreign_writers}")
        switched_on(world, admin, has_foreign_writers=has_foreign_writers)
        assert world.config == stored(world)
        assert (world.config.chain, world.config.has_foreign_writers) == (
            begun,
            has_foreign_writers,
        )
        with world.writer(f"w-{has_foreign_writers}").lock.scope() as scope:
            assert scope.is_courtesy is not has_foreign_writers


@pytest.mark.parametrize("change", [switched_on, switched_off])
def test_pending_write_is_waited_for(change: Callable[[World, Client], None]) -> None:
    world = World(has_chain=change is switched_off)
    writer = world.writer("a")
    opened = world.begin(writer)
    before = stored(world)
    with pytest.raises(
        errors.ConflictError, match=f"{opened.requested_time}.* is pending, and began by the rules"
    ):
        change(world, world.writer("admin"))
    assert stored(world) == before


def test_write_that_began_unseen_is_refused_at_its_completion() -> None:
    """Its requested file was not listed, say: the configuration that it was begun with is."""
    world = World()
    writer = world.writer("a")
    opened = world.begin(writer)
    stats = world.write_files(writer, opened, GROUPS)
    chained = replace(CONFIG, chain=table_config.ChainName(id="c"))
    admin = world.writer("admin")
    with admin.lock.scope() as scope:
        chain.switch_on(admin.storage, chained, "admin", scope.timeline, scope.check)
    with pytest.raises(errors.ConflictError, match="chain"):
        lifecycle.commit(writer, opened, metadata(stats, commits.Operation.UPSERT))
    assert not world.timeline.completed_writes


def test_properties_that_change_during_a_write_refuse_its_completion() -> None:
    """C1: the chain tells that they have changed; where they have not they are not read."""
    world = World(is_lying=True)
    writer, other = world.writer("a"), world.writer("b")
    opened, others = world.begin(writer), world.begin(other)
    written, late = (
        metadata(world.write_files(client, each, GROUPS[:1]), commits.Operation.UPSERT)
        for client, each in ((writer, opened), (other, others))
    )
    world.faults = Interruption("a", f"read {table_properties.PATH}", pytest.fail)
    lifecycle.commit(writer, opened, written)
    changes = {table_config.BUCKET_COUNT_KEY: "7"}
    configuration.change(world.writer("admin"), lambda _: changes)
    with pytest.raises(errors.ConflictError, match="bucket count"):
        lifecycle.commit(other, others, late)


def test_writer_of_a_chain_that_ended_is_refused() -> None:
    """It has the chain open since before; its epoch finds the last one, or the next chain."""
    world = World(has_chain=True)
    old_config = world.config
    late = world.writer("late")
    switched_off(world, world.writer("admin"))
    with pytest.raises(errors.ConflictError, match="chain of table t is none, expected 1:chain"):
        lifecycle.begin(late, world.action(), old_config)
    switched_on(world, world.writer("admin-2"))
    with pytest.raises(errors.ConflictError, match="was switched off, and on again"):
        lifecycle.begin(late, world.action(), old_config)


def test_epoch_after_the_last_is_refused() -> None:
    world = World(is_lying=True)
    late = world.writer("late")
    assert late.chain is not None
    switched_off(world, world.writer("admin"))
    view = late.chain.look(lambda: None)
    assert view.head.epoch.is_last
    change = epochs.Change(id="x", time="", author="late")
    with pytest.raises(errors.ConflictError, match="was switched off by writer admin"):
        late.chain.append(view, change, lambda: None)


def test_properties_change_by_an_epoch_and_once() -> None:
    """CH14: one that was overtaken decides again, on what the other has put there."""
    world = World(is_lying=True)
    loser, winner = world.writer("loser"), world.writer("winner")

    def put(client: Client, value: str) -> None:
        def decide(config: table_config.TableConfig) -> configuration.Changes:
            return {KEY: config.properties.get(KEY, "") + value}

        configuration.change(client, decide)

    world.faults = Interruption("loser", EPOCH, lambda: put(winner, "1"))
    put(world.client(world.process_of(loser)), "2")
    assert stored(world).properties[KEY] == "12"
    assert [each.properties for each in kept(world)][1:] == [{KEY: "1"}, {KEY: "12"}]
    world.write(world.writer("a"))
    assert stored(world).properties[KEY] == "12"


def test_change_of_nothing_is_none() -> None:
    world = World(is_lying=True)
    configuration.change(world.writer("a"), lambda config: {})
    assert len(kept(world)) == 1
