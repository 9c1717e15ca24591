"""Another engine in a simulated world: what Apache Hudi does to a table that ours write as well.

It takes the same lock and writes the same timeline, but has no heartbeats, and looks at none of
ours. Nothing befalls it: what its own deaths and lost locks do to a table is not ours to judge.

    restore    to what the table is: requested in one lock scope, completed in a later one
    configure  a metadata table, which ours do not maintain, is made, and is removed later
    compact    planned and begun in one lock scope, executed without a heartbeat, completed
    archive    rollbacks that have ended are taken off the timeline, and no write is
"""

from collections.abc import Callable
from dataclasses import replace

from hoodie.filegroup import snapshots
from hoodie.format import timeline_avro
from hoodie.maintenance.compaction import planning
from hoodie.model import commits, instants, table_config
from hoodie.model.compaction_options import CompactionOptions
from hoodie.timeline import active, contents, table_properties, transitions
from hoodie.transaction import heartbeats, table_lock, writer_batches
from hoodie.transaction.client import Client, OpenAction
from support.simulation import schedule_world
from support.simulation.schedule_world import World

ACTS_MAX = 4
PAUSE_S = 2.0


def act(world: World, engine: Client, is_done: Callable[[], bool]) -> None:
    """Do one thing after the other, until the others are done."""
    acts = [_restore, _configure, _archive, _archive]
    if not world.config.is_copy_on_write:
        acts += [_compact, _compact]
    for _ in range(ACTS_MAX):
        engine.clock.sleep_s(PAUSE_S * engine.random.uniform())
        if is_done():
            break
        acts[int(engine.random.uniform() * len(acts))](world, engine)


def _restore(world: World, engine: Client) -> None:
    with engine.lock.scope() as scope:
        requested = transitions.request(
            engine.storage,
            engine.times.generate(scope.timeline),
            instants.Action.RESTORE,
            b"plan",
            lambda: False,
        )
    engine.clock.sleep_s(PAUSE_S * engine.random.uniform())
    with engine.lock.scope() as scope:
        _complete(engine, scope, requested.pending_in(instants.State.INFLIGHT), b"done")


def _configure(world: World, engine: Client) -> None:
    def change(partitions: str | None) -> None:
        with engine.lock.scope() as scope:
            properties = {table_config.METADATA_PARTITIONS_KEY: partitions}
            table_properties.update(engine.storage, properties, engine.clock, scope.check)
            world.witness.see_configuration(is_ours_to_write=partitions is None)

    change("files")
    engine.clock.sleep_s(PAUSE_S * engine.random.uniform())
    change(None)


def _compact(world: World, engine: Client) -> None:
    with engine.lock.scope() as scope:
        opened = _begin_compaction(world, engine, scope)
    if opened is None:
        return
    stats = world.write_compacted(engine, opened)
    metadata = schedule_world.metadata(stats, commits.Operation.COMPACT)
    content = timeline_avro.encode_commit(replace(metadata, is_compacted=True))
    with engine.lock.scope() as scope:
        completed = _complete(engine, scope, opened.inflight, content)
    world.acknowledge(engine, completed)


def _begin_compaction(
    world: World, engine: Client, scope: table_lock.LockScope
) -> OpenAction | None:
    """Plan a compaction, and make it inflight at once; None where there is nothing to compact.

    It leaves alone what another compaction or a rollback is at.
    """
    at_work = (instants.Action.COMPACTION, instants.Action.ROLLBACK, instants.Action.RESTORE)
    if scope.timeline.pending_of(*at_work):
        return None
    requested_time = engine.times.generate(scope.timeline)
    snapshot = snapshots.take(engine.storage, world.config, scope.timeline)
    found = planning.decide(snapshot, requested_time, CompactionOptions()).plan
    if found is None:
        return None
    requested = transitions.request(
        engine.storage,
        requested_time,
        instants.Action.COMPACTION,
        timeline_avro.encode_compaction_plan(found),
        lambda: False,
    )
    transitions.start(engine.storage, requested, b"", lambda: False)
    owner = heartbeats.Owner(
        name="another engine", write_id=engine.random.uuid(), process=engine.process
    )
    path = heartbeats.path_of(requested_time)
    return OpenAction(
        requested_time=requested_time,
        action=instants.Action.COMPACTION,
        batch_id=None,
        heartbeat=heartbeats.Heartbeat(engine.storage, engine.clock, path, owner, 0),
        timeline=active.listed(engine.storage),
        epoch=None,
        config=world.config,
        prepared_for=world.config,
        ledger=writer_batches.Ledger(),
        lock_times_before=engine.lock.times,
    )


def _complete(
    engine: Client, scope: table_lock.LockScope, inflight: instants.Instant, content: bytes
) -> instants.Instant:
    return transitions.complete(
        engine.storage,
        inflight,
        content,
        timeline=scope.timeline,
        times=engine.times,
        check=scope.check,
    )


def _archive(world: World, engine: Client) -> None:
    """Take rollbacks off the timeline whose targets are younger than a write that stays there.

    An older one would count as archived itself, whose files Apache Hudi takes for committed.
    """
    with engine.lock.scope() as scope:
        first = min(scope.timeline.write_completion_times, default=None)
        for rollback in scope.timeline.instants:
            if rollback.action is not instants.Action.ROLLBACK or rollback.is_pending:
                continue
            target = contents.read_rollback_target(engine.storage, rollback)
            if target is None or first is None or target < first:
                continue
            if scope.timeline.find(target) is not None:
                continue
            world.time.note(f"archives {rollback}")
            for each in scope.timeline.files:
                if each.requested_time == rollback.requested_time:
                    engine.storage.delete(transitions.path(each))
