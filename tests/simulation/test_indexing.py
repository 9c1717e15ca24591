"""An index is built beside writers, whatever happens at whichever call of its builder."""

import contextlib
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from hoodie import errors
from hoodie.filegroup import metadata_table, snapshots
from hoodie.format import properties as hudi_properties
from hoodie.metadata import (
    index_decisions,
    index_dropping,
    index_steps,
    initial_statistics,
    initialising,
)
from hoodie.model import commits, instants, secondary_indexes, settings, table_config
from hoodie.storage.protocol import Storage
from hoodie.timeline import (
    active,
    index_definitions,
    metadata_timelines,
    table_properties,
    transitions,
)
from hoodie.transaction import lifecycle
from hoodie.transaction.client import Client, OpenAction
from hoodie.write import conflicts, replacements
from support.parameters import covering
from support.simulation import (
    faulty_storage,
    schedule,
    schedule_files,
    schedule_lookups,
    schedule_rollback,
    schedule_streaming,
)
from support.simulation.faulty_storage import Fault
from support.simulation.schedule_world import (
    ANOTHER_PARTITION,
    CONFIG,
    COPY_ON_WRITE,
    PARTITION,
    SETTINGS,
    World,
    metadata,
)

CRASHES = (Fault.CRASH_BEFORE, Fault.CRASH_AFTER)
SIMPLE, GLOBAL = table_config.IndexKind.SIMPLE, table_config.IndexKind.GLOBAL_SIMPLE
MOR, COW = table_config.TableType.MERGE_ON_READ, table_config.TableType.COPY_ON_WRITE


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What table an index is built in.

    Attributes:
        config: The table's.
        has_keys: Whether it is of rows, whose keys are built the record index of.
        is_partitioned: Whether that is one of each partition.
        has_values: Whether a secondary index of their values is built with it.
        has_statistics: Whether statistics of files and partitions are built instead.
        is_shared: Whether other engines write it as well; then by a lock that works.
        has_chain: Whether such a table has a chain.
    """

    config: table_config.TableConfig
    has_keys: bool = False
    is_partitioned: bool = False
    has_values: bool = False
    has_statistics: bool = False
    is_shared: bool = False
    has_chain: bool = False

    @property
    def world(self) -> type[World]:
        if self.has_values:
            return schedule_lookups.ValueWorld
        if self.has_statistics:
            return schedule_lookups.StatisticsWorld
        return schedule_lookups.LookupWorld if self.has_keys else World

    @property
    def mode(self) -> settings.ConcurrencyMode:
        if self.config.is_copy_on_write or self.has_keys:
            return settings.ConcurrencyMode.OPTIMISTIC
        return settings.ConcurrencyMode.NON_BLOCKING


ALONE = {
    "mor": Kind(config=CONFIG),
    "cow": Kind(config=COPY_ON_WRITE),
    # Of which some rows move to another partition.
    "keys mor": Kind(config=schedule_lookups.config_of(MOR, SIMPLE), has_keys=True),
    "keys cow": Kind(config=schedule_lookups.config_of(COW, GLOBAL), has_keys=True),
    "keys of partitions mor": Kind(
        config=schedule_lookups.config_of(MOR, SIMPLE), has_keys=True, is_partitioned=True
    ),
    "keys of partitions cow": Kind(
        config=schedule_lookups.config_of(COW, GLOBAL), has_keys=True, is_partitioned=True
    ),
    "values mor": Kind(
        config=schedule_lookups.config_of(MOR, GLOBAL), has_keys=True, has_values=True
    ),
}
SHARED = {
    "shared-mor": Kind(config=CONFIG, is_shared=True),
    "shared-cow": Kind(config=COPY_ON_WRITE, is_shared=True),
    "shared-cow-chained": Kind(config=COPY_ON_WRITE, is_shared=True, has_chain=True),
}
SHARED_KEYS = {
    "shared-keys-mor": Kind(
        config=schedule_lookups.config_of(MOR, SIMPLE), has_keys=True, is_shared=True
    ),
    "shared-keys-cow": Kind(
        config=schedule_lookups.config_of(COW, GLOBAL), has_keys=True, is_shared=True
    ),
    "shared-keys-of-partitions-cow": Kind(
        config=schedule_lookups.config_of(COW, SIMPLE),
        has_keys=True,
        is_partitioned=True,
        is_shared=True,
    ),
}
MORE = {
    "statistics mor": Kind(
        config=schedule_lookups.config_of(MOR, SIMPLE), has_keys=True, has_statistics=True
    ),
    "statistics cow": Kind(
        config=schedule_lookups.config_of(COW, GLOBAL), has_keys=True, has_statistics=True
    ),
}
MORE_SHARED = {
    "shared-values-mor": Kind(
        config=schedule_lookups.config_of(MOR, GLOBAL),
        has_keys=True,
        has_values=True,
        is_shared=True,
    ),
    "shared-statistics-mor": Kind(
        config=schedule_lookups.config_of(MOR, SIMPLE),
        has_keys=True,
        has_statistics=True,
        is_shared=True,
    ),
}
NO_CONTEXT = contextlib.nullcontext()
LOST = (
    errors.ConflictError,
    errors.HeartbeatExpiredError,
    errors.LockLostError,
    errors.OutcomeUnknownError,
)
"""What a builder may end with that has lost its lock."""

KINDS = {**ALONE, **SHARED, **SHARED_KEYS, **MORE, **MORE_SHARED}
SAMPLED = 3
"""So many kinds of a test are in a sample, others of each: `kinds_from`."""


def kinds_from(place: int) -> list[str]:
    """Return all kinds, those of a place of `KINDS` and after it first."""
    names = list(KINDS)
    return names[place:] + names[:place]


class At:
    """Something else happens, once, right before one mutating call of the builder, or a writer.

    Not while it has a lock that works, unless it loses that, or they take none: others would wait
    until it has given it back.
    """

    def __init__(
        self,
        number: int,
        happening: Callable[[World], object],
        name: str = "builder",
        *,
        loses_lock: bool = False,
        takes_no_lock: bool = False,
    ) -> None:
        self._left = number
        self._happening = happening
        self._name = name
        self._loses_lock = loses_lock
        self._takes_no_lock = takes_no_lock
        self.lost_at: str | None = None  # The call at which the lock was lost.
        self.world: World | None = None

    @property
    def has_left(self) -> bool:
        """Whether the process has made fewer calls."""
        return self._left >= 0

    def at(self, process: schedule.Process, call: str, *, is_mutation: bool) -> Fault:
        if is_mutation and process.name == self._name and self.world is not None:
            self._left -= 1
            if self._left == -1 and self._loses_lock and self.world.lock.holder is not None:
                self.world.lock.lose_of(process)
                self.lost_at = call
            is_free = self.world.is_lying or self.world.lock.holder is None
            if self._left == -1 and (is_free or self._takes_no_lock):
                try:
                    with self.world.lock.ignored() if self._takes_no_lock else NO_CONTEXT:
                        self._happening(self.world)
                except errors.HoodieError as error:
                    raise AssertionError(f"before {call}: {error}") from error
        return Fault.NONE


def made(
    faults: faulty_storage.Faults,
    kind: str,
    make: Callable[..., World] | None = None,
    index_wait_s: int = SETTINGS.index_wait_s,
    *,
    has_metadata: bool = True,
) -> World:
    """Return a world whose table has base files, and a metadata table of `files`, or none."""
    found = KINDS[kind]
    world = (make or found.world)(
        schedule.Schedule(),
        faults=faults,
        write_settings=settings.WriteSettings(
            concurrency=found.mode,
            heartbeat_interval_ms=SETTINGS.heartbeat_interval_ms,
            heartbeat_misses_max=SETTINGS.heartbeat_misses_max,
            clock_wait_ms=SETTINGS.clock_skew_ms_max if found.is_shared else 0,
            index_wait_s=index_wait_s,
        ),
        config=replace(found.config, properties={schedule_files.FILTERED_KEY: "true"}),
        is_lying=not found.is_shared,
        has_chain=found.has_chain,
        has_metadata=has_metadata,
    )
    world.has_engines = found.is_shared
    world.builds_partitioned = found.is_partitioned
    world.write(world.writer("first"), "b0")
    compact(world, "early")
    if isinstance(faults, At):
        faults.world = world
    return world


def compact(world: World, name: str) -> None:
    """Merge the log files, if there are any."""
    service = world.writer(name)
    if world.config.is_copy_on_write:
        return
    pending = world.timeline.pending_compactions
    instant = pending[0] if pending else world.schedule_compaction(service)
    if instant is not None:
        world.compact(service, instant.requested_time)


def check(world: World, *, builds_min: int = 1, builds_max: int = 1) -> None:
    """Check that the index is used, and equals one that is made again; and every invariant."""
    world.check_index(builds_min=builds_min, builds_max=builds_max)
    world.check()
    world.check_metadata()
    assert world.filters or world.located or world.stated
    for name in world.indexed_columns:
        assert world.valued
        # Its column is in the definitions alone.
        assert secondary_indexes.column_key(name) not in world.config.properties
        config = replace(world.config, properties={})
        assert index_definitions.of_secondary_indexes(world.storage, config, [name])


def is_being_built(world: World) -> bool:
    config = table_properties.load(world.storage, world.process("judge").clock)
    return bool(config.metadata_partitions_inflight)


def is_ready(world: World) -> bool:
    config = table_properties.load(world.storage, world.process("judge").clock)
    return world.index in config.metadata_partitions


def mutations(kind: str) -> int:
    recorder = faulty_storage.NoFaults()
    world = made(recorder, kind)
    before = len(recorder.mutations)
    world.build_index(world.writer("builder"))
    return len(recorder.mutations) - before


def take_for_dead(world: World, name: str) -> None:
    """Let everybody take a process for dead that is only paused."""
    world.witness.may_misjudge = True
    world.misjudged.add(name)


def later_changes(world: World) -> None:
    """Change the table after all."""
    world.write(world.writer("later"), "l0")
    compact(world, "late")


@pytest.mark.sample(SAMPLED)
@covering("kind, fault", kinds_from(0), CRASHES, first=SAMPLED)
def test_builder_killed_at_any_call_is_continued(kind: str, fault: Fault) -> None:
    """T-I03, T-I04, T-I07: and what is written meanwhile is in the index.

    Another engine, where there may be one, knows of no chain.
    """
    other = "engine" if KINDS[kind].is_shared else "other"
    for number in range(mutations(kind)):
        world = made(faulty_storage.FaultAt("builder", number, fault), kind)
        with pytest.raises(schedule.Crash):
            world.build_index(world.writer("builder"))
        world.write(world.writer(other), "b1")
        compact(world, "service")
        world.time.advance(world.lock.session_ms + 1)
        world.build_index(world.writer("successor"))
        later_changes(world)
        check(world)


def initialise(world: World, admin: Client) -> None:
    """Make a metadata table of files, and of statistics that are there at once."""
    reading = initial_statistics.Reading(world.schema, world.process_of(admin).engine)
    initialising.initialise_by(admin, world.config, reading)


def look_again(world: World) -> None:
    """Let writers begin by the table's configuration as it is now."""
    with world.writer("looker").lock.scope():
        pass  # What the dead have decided is published.
    world.config = table_properties.load(world.storage, world.process("judge").clock)


@pytest.mark.sample(1)
@covering("kind, fault", ["statistics mor", "statistics cow"], CRASHES)
def test_statistics_whose_maker_is_killed_at_any_call_are_made(kind: str, fault: Fault) -> None:
    """T-M05: at once, without a build; writers keep up what there is."""
    recorder = faulty_storage.NoFaults()
    world = made(recorder, kind, has_metadata=False)
    before = len(recorder.mutations)
    initialise(world, world.writer("maker"))
    left = set()
    for number in range(len(recorder.mutations) - before):
        fault_at = faulty_storage.FaultAt("maker", number, fault)
        world = made(fault_at, kind, has_metadata=False)
        with pytest.raises(schedule.Crash):
            initialise(world, world.writer("maker"))
        world.time.advance(world.lock.session_ms + 1)
        look_again(world)
        world.write(world.writer("other"), "b1")
        compact(world, "service")
        left.add(is_ready(world))
        if not is_ready(world):
            initialise(world, world.writer("successor"))
            look_again(world)
        later_changes(world)
        check(world, builds_min=0, builds_max=0)
    assert False in left


class Refused(At):
    """As `At`, where a process that is refused changes nothing."""

    def at(self, process: schedule.Process, call: str, *, is_mutation: bool) -> Fault:
        assert not (is_mutation and process.name == "refused"), call
        return super().at(process, call, is_mutation=is_mutation)


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", kinds_from(3))
def test_single_writer_cannot_build_at_any_call_of_another(kind: str) -> None:
    """T-I01: by its mode it has no lock that others take."""

    def build(world: World) -> None:
        single = replace(world.settings, concurrency=settings.ConcurrencyMode.SINGLE_WRITER)
        with pytest.raises(errors.ConfigurationError, match="is built beside writers"):
            world.build_index(world.writer("refused", write_settings=single))
        refusals.append(world)

    refusals: list[World] = []
    for number in itertools.count():
        fault = Refused(number, build, "other")
        world = made(fault, kind)
        world.write(world.writer("other"), "b1")
        if fault.has_left:
            break
        world.build_index(world.writer("builder"))
        later_changes(world)
        check(world)
    assert refusals


@pytest.mark.sample(2)
@covering("kind, fault", kinds_from(8), CRASHES, first=2)
def test_write_killed_at_any_call_is_not_in_the_index(kind: str, fault: Fault) -> None:
    """T-R09, T-I06: whether the metadata table has its part or not; no compaction of that has it.

    The index is built, or is one already, while the write is pending.
    """
    has_part = set()
    for number in itertools.count():
        world = made(faulty_storage.FaultAt("other", number, fault), kind)
        is_built_before = number % 2 == 0
        if is_built_before:
            world.build_index(world.writer("builder"))
        try:
            world.write(world.writer("other"), "b1")
        except schedule.Crash:
            pass
        else:
            break
        beside = active.listed(metadata_timelines.opened(world.storage))
        has_part.update(
            beside.find(each.requested_time) is not None
            for each in world.timeline.pending_of(*instants.WRITES)
        )
        world.keep_up_metadata(world.writer("upkeeper"))
        if not is_built_before:
            world.time.advance(world.lock.session_ms + 1)
            world.build_index(world.writer("builder"))
        world.time.advance(SETTINGS.heartbeat_expiry_ms + 1)
        schedule_rollback.roll_back_dead(world, world.writer("janitor"))
        later_changes(world)
        check(world)
    assert has_part == {False, True}


@pytest.mark.sample(SAMPLED)
@pytest.mark.parametrize("kind", kinds_from(5))
def test_changes_at_any_call_of_builder_are_in_the_index(kind: str) -> None:
    """T-I08, T-I09, T-I10: whether they complete before or after a step of the builder.

    The clock of the writer lags.
    """

    def change(world: World) -> None:
        process = world.process("other", offset_ms=-SETTINGS.clock_skew_ms_max // 2)
        world.write(world.client(process), "b1")
        compact(world, "service")

    for number in range(mutations(kind)):
        world = made(At(number, change), kind)
        world.build_index(world.writer("builder"))
        later_changes(world)
        check(world)


class Ahead(At):
    """As `At`, of a builder who takes a while until the build begins, but no longer."""

    calls = 4

    def at(self, process: schedule.Process, call: str, *, is_mutation: bool) -> Fault:
        if is_mutation and process.name == "builder" and self.calls and self.world is not None:
            self.calls -= 1
            self.world.time.advance(SETTINGS.clock_skew_ms_max // 4)
        return super().at(process, call, is_mutation=is_mutation)


@pytest.mark.parametrize("kind", ["mor", "cow"])
def test_changes_by_a_clock_behind_the_time_of_the_build_are_in_the_index(kind: str) -> None:
    """IB1: what was decided after it began has a later time, whatever clocks say."""

    def change(world: World) -> None:
        process = world.process("other", offset_ms=-SETTINGS.clock_skew_ms_max // 2)
        world.write(world.client(process), "b1")
        compact(world, "service")

    for number in range(mutations(kind)):
        world = made(Ahead(number, change), kind)
        world.build_index(world.writer("builder"))
        check(world)


@pytest.mark.sample(SAMPLED)
@pytest.mark.parametrize("kind", kinds_from(10))
def test_write_during_which_an_index_is_built_is_in_it(kind: str) -> None:
    """T-I07, T-I09: at whichever call of the writer, whose batch is not refused."""

    def build(world: World) -> None:
        world.build_index(world.writer("builder"))

    for number in range(30):
        world = made(At(number, build, "other"), kind)
        world.write(world.writer("other"), "b1")
        compact(world, "service")
        world.build_index(world.writer("successor"))  # A write may make fewer calls.
        later_changes(world)
        check(world)


class Rebuilt(At):
    """As `At`, at any call of a writer once the index was built beside its first data file."""

    is_built = False

    @property
    def has_happened(self) -> bool:
        return self._left < 0

    def at(self, process: schedule.Process, call: str, *, is_mutation: bool) -> Fault:
        if process.name != self._name or self.world is None:
            return Fault.NONE
        if not self.is_built and is_mutation and not call.partition(" ")[2].startswith("."):
            self.is_built = True
            self.world.build_index(self.world.writer("builder"))
        return super().at(process, call, is_mutation=self.is_built)


@pytest.mark.parametrize("kind", ["statistics mor", "shared-statistics-mor", "cow", "keys cow"])
def test_write_that_was_rolled_back_while_it_was_paused_is_a_conflict(kind: str) -> None:
    """C1: it looks for what the new index has of its files, which are gone."""
    ends: set[type[errors.HoodieError]] = set()

    def roll_back(world: World) -> None:
        take_for_dead(world, "other")
        world.process("other").pause(2 * SETTINGS.heartbeat_expiry_ms)
        world.time.advance(SETTINGS.heartbeat_expiry_ms + 1)
        schedule_rollback.roll_back_dead(world, world.writer("janitor"))

    for number in range(100):
        fault = Rebuilt(number, roll_back, "other")
        world = made(fault, kind)
        try:
            world.write(world.writer("other"), "b1")
        except (errors.ConflictError, errors.HeartbeatExpiredError) as error:
            ends.add(type(error))
        world.time.advance(SETTINGS.heartbeat_expiry_ms + 1)
        later_changes(world)
        schedule_rollback.roll_back_dead(world, world.writer("sweeper"))
        check(world)
        if not fault.has_happened:
            break
    assert ends


@pytest.mark.sample(SAMPLED)
@covering("kind, is_built_again", kinds_from(15), (False, True), first=SAMPLED)
def test_write_during_which_an_index_is_dropped_completes(kind: str, is_built_again: bool) -> None:
    """Whatever it has looked up in the index, which may be another by the end."""

    def drop(world: World) -> None:
        world.drop_index(world.writer("dropper"))
        world.write(world.writer("meanwhile"), "m0")
        if is_built_again:
            world.build_index(world.writer("builder"))

    for number in range(30):
        world = made(At(number, drop, "other"), kind)
        world.build_index(world.writer("first builder"))
        with contextlib.suppress(errors.WriteConflictError):
            world.write(world.writer("other"), "b1")
        compact(world, "service")
        world.build_index(world.writer("successor"))
        later_changes(world)
        check(world, builds_max=3)


@pytest.mark.sample(SAMPLED)
@pytest.mark.parametrize("kind", kinds_from(3))
def test_builder_that_was_taken_for_dead_changes_nothing(kind: str) -> None:
    """T-I16: another has built the index while it was paused, and others have written."""

    def change(world: World) -> None:
        take_for_dead(world, "builder")
        world.build_index(world.writer("successor"))
        world.write(world.writer("other"), "b1")

    for number in range(mutations(kind)):
        world = made(At(number, change), kind)
        with contextlib.suppress(errors.ConflictError):
            world.build_index(world.writer("builder"))
        later_changes(world)
        check(world)


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", ["shared-cow", "mor", "keys cow", "shared-keys-mor"])
def test_index_that_is_asked_for_again_at_any_call_of_its_builder_is_built_once(kind: str) -> None:
    """T-I05: one of the two builds it; the other finds it ready, or says who builds it."""
    heard: set[str] = set()

    def ask(world: World) -> None:
        try:
            heard.add("built" if world.build_index(world.writer("another")) else "ready")
        except errors.ConflictError as error:
            heard.add("builder is alive" if "builder" in str(error) else str(error))

    for number in range(mutations(kind)):
        world = made(At(number, ask), kind)
        # By a lock that lies both may take the plan over.
        with contextlib.suppress(errors.ConflictError) if world.is_lying else NO_CONTEXT:
            world.build_index(world.writer("builder"))
        ask(world)
        later_changes(world)
        check(world)
    assert heard - {"built"} == {"builder is alive", "ready"}
    # Else it does not come between the plan and its execution.
    assert ("built" in heard) is world.is_lying


@pytest.mark.sample(SAMPLED)
@pytest.mark.parametrize("kind", kinds_from(8))
def test_build_that_is_dropped_meanwhile_can_be_built_again(kind: str) -> None:
    """T-I19, T-I22: whenever the builder is paused."""

    def change(world: World) -> None:
        take_for_dead(world, "builder")
        world.drop_index(world.writer("dropper"))
        world.write(world.writer("other"), "b1")

    for number in range(mutations(kind)):
        world = made(At(number, change), kind)
        try:
            world.build_index(world.writer("builder"))
        except (errors.ConflictError, errors.HeartbeatExpiredError):
            assert not is_being_built(world)
        world.time.advance(world.lock.session_ms + 1)
        world.build_index(world.writer("successor"))
        later_changes(world)
        check(world, builds_max=2)  # It may have been ready before it was dropped.


@pytest.mark.sample(SAMPLED)
@covering("kind, fault", kinds_from(13), CRASHES, first=SAMPLED)
def test_drop_killed_at_any_call_is_continued(kind: str, fault: Fault) -> None:
    for number in range(20):
        world = made(faulty_storage.FaultAt("dropper", number, fault), kind)
        world.build_index(world.writer("builder"))
        try:
            world.drop_index(world.writer("dropper"))
        except schedule.Crash:
            world.time.advance(world.lock.session_ms + 1)
            world.drop_index(world.writer("another"))
        assert not is_being_built(world)
        later_changes(world)
        world.build_index(world.writer("successor"))
        check(world, builds_max=2)


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", ALONE)
def test_drop_that_is_paused_leaves_no_half_of_what_another_has_built(kind: str) -> None:
    """IB4: who gives a plan up is paused anywhere, and another executes it, if it still may."""

    def build(world: World) -> None:
        take_for_dead(world, "dropper")
        world.build_index(world.writer("another"))

    half = mutations(kind) // 2
    for number in range(20):
        world = made(faulty_storage.FaultAt("builder", half, Fault.CRASH_BEFORE), kind)
        with pytest.raises(schedule.Crash):
            world.build_index(world.writer("builder"))
        world.time.advance(world.lock.session_ms + 1)
        world.faults = paused = At(number, build, "dropper")
        paused.world = world
        with contextlib.suppress(errors.ConflictError, errors.HeartbeatExpiredError):
            world.drop_index(world.writer("dropper"))
        world.faults = faulty_storage.NoFaults()
        world.build_index(world.writer("successor"))
        later_changes(world)
        check(world, builds_max=2)


def test_plan_that_is_given_up_and_made_inflight_late_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another has listed it before, does not find it, and lists it once more."""
    world = made(faulty_storage.FaultAt("builder", mutations("mor") // 2, CRASHES[0]), "mor")
    with pytest.raises(schedule.Crash):
        world.build_index(world.writer("builder"))
    world.time.advance(world.lock.session_ms + 1)
    another = world.writer("another")
    (found,) = index_steps.pending(another.storage, active.listed(another.storage))
    world.drop_index(world.writer("dropper"))
    late = transitions.path(found.instant.pending_in(instants.State.INFLIGHT))
    take_over = lifecycle.take_over

    def before_late(*arguments: Any) -> Any:  # noqa: ANN401 - passed on
        try:
            return take_over(*arguments)
        finally:
            world.storage.create(late, b"")

    monkeypatch.setattr(lifecycle, "take_over", before_late)
    assert index_steps.taken_over(another, world.config, found) is None
    monkeypatch.undo()
    world.build_index(another)
    assert not active.listed(world.storage).pending_of(instants.Action.INDEXING)
    check(world)


@pytest.mark.parametrize("kind", ALONE)
def test_drop_of_what_was_not_there_leaves_what_was_built_meanwhile(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has read the properties before the build, and lists files after it."""
    world = made(faulty_storage.NoFaults(), kind)
    take_out = index_dropping._take_out

    def after_build(*arguments: Any) -> Any:  # noqa: ANN401 - passed on
        monkeypatch.setattr(index_dropping, "_take_out", take_out)
        world.build_index(world.writer("builder"))
        return take_out(*arguments)

    monkeypatch.setattr(index_dropping, "_take_out", after_build)
    world.drop_index(world.writer("dropper"))
    config = table_properties.load(world.storage, world.process("judge").clock)
    assert world.index not in config.metadata_partitions, "it was there when the drop was decided"
    world.build_index(world.writer("successor"))
    later_changes(world)
    check(world, builds_max=2)


def as_others_see_it(world: World) -> table_config.TableConfig:
    """Return the configuration as another engine reads it: what is not confirmed is ready."""
    stored = dict(world.stored_properties())
    stored.pop(table_config.METADATA_PARTITIONS_OWN_KEY, None)
    return table_config.from_properties(stored)


def as_we_see_it(world: World) -> table_config.TableConfig:
    """Return the configuration as it is."""
    return table_config.from_properties(world.stored_properties())


def check_for_all(world: World, judged: Callable[[World], table_config.TableConfig]) -> bool:
    """Check every ready index, as somebody sees it; return whether there is one.

    Writers of Apache Hudi fail where the properties name a partition without files.
    """
    before, world.config = world.config, judged(world)
    world.check_filters()
    beside = metadata_timelines.opened(world.storage)
    for name in (*world.config.metadata_partitions, *world.config.metadata_partitions_inflight):
        assert list(metadata_table.data_files(beside, name)), name
    is_there = world.index in world.config.metadata_partitions
    if is_there and isinstance(world, schedule_lookups.LookupWorld):
        timeline = active.listed(world.storage)
        world.judge_index(world.config, snapshots.take(world.storage, world.config, timeline))
    world.config = before
    return is_there


@pytest.mark.parametrize("kind", SHARED)
@pytest.mark.parametrize("meanwhile", ["written", "built", "dropped"])
def test_changes_after_the_builder_has_lost_its_lock_are_in_the_index(
    kind: str, meanwhile: str
) -> None:
    """T-I15: at whichever call, also at that by which other engines take the index for ready."""
    places: dict[str, set[bool]] = {}

    def change(world: World) -> None:
        world.write(world.writer("other"), "b1")
        compact(world, "service")
        if meanwhile == "written":
            return
        take_for_dead(world, "builder")
        if meanwhile == "built":
            world.build_index(world.writer("another"))
        else:
            world.drop_index(world.writer("dropper"))
        world.write(world.writer("third"), "b2")

    for number in range(mutations(kind)):
        fault = At(number, change, loses_lock=True)
        world = made(fault, kind)
        with contextlib.suppress(*LOST):
            world.build_index(world.writer("builder"))
        if fault.lost_at is None:
            continue
        is_there = check_for_all(world, as_others_see_it)
        places.setdefault(fault.lost_at.partition(" ")[2], set()).add(is_there)
        world.write(world.writer("later"), "l0")
        check_for_all(world, as_others_see_it)
        world.time.advance(world.lock.session_ms + 1)
        world.build_index(world.writer("successor"))
        later_changes(world)
        schedule_rollback.roll_back_dead(world, world.writer("janitor"))
        check(world, builds_min=0, builds_max=2)
    assert any(each.startswith(table_properties.PATH) for each in places)


def call_that_publishes(kind: str) -> int:
    """Return the last call at which a builder may die so that its index is ready for others alone.

    Those are readers of other engines: this project takes it for being built.
    """
    for number in reversed(range(mutations(kind))):
        world = made(faulty_storage.FaultAt("builder", number, Fault.CRASH_AFTER), kind)
        with pytest.raises(schedule.Crash):
            world.build_index(world.writer("builder"))
        if world.index in as_others_see_it(world).metadata_partitions and not is_ready(world):
            return number
    raise AssertionError(f"an index of {kind} is ready for all at once")


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", [*SHARED, *SHARED_KEYS, *MORE_SHARED])
def test_builder_killed_while_it_makes_again_what_is_ready_for_others_is_continued(
    kind: str,
) -> None:
    """T-I03: the properties do not name it as ready before its files are deleted."""
    published = call_that_publishes(kind)
    for number in itertools.count():
        world = made(faulty_storage.FaultAt("builder", published, Fault.CRASH_AFTER), kind)
        with pytest.raises(schedule.Crash):
            world.build_index(world.writer("builder"))
        assert check_for_all(world, as_others_see_it)
        world.time.advance(world.lock.session_ms + 1)
        world.faults = faulty_storage.FaultAt("successor", number, Fault.CRASH_AFTER)
        with contextlib.suppress(schedule.Crash):
            world.build_index(world.writer("successor"))
            break
        check_for_all(world, as_others_see_it)
        world.time.advance(world.lock.session_ms + 1)
        world.build_index(world.writer("third"))
        later_changes(world)
        check(world, builds_min=0, builds_max=2)
    assert number


class JvmWorld(World):
    """A world in which processes whose names say so are writers of Apache Hudi that stream."""

    def storage_of(self, process: schedule.Process) -> Storage:
        inner = super().storage_of(process)
        if not process.name.startswith("engine"):
            return inner
        return schedule_streaming.streaming(inner, lambda: self.opened(process))

    def opened(self, process: schedule.Process) -> bytes:
        """Return the properties by which such a writer goes that begins now."""
        del process
        return self.storage.read(table_properties.PATH)


class JvmLookupWorld(JvmWorld, schedule_lookups.LookupWorld):
    """The same of rows, with a record index.

    Those that have numbers put a key of their own, and put or delete that of one that has ended:
    no two that overlap change one file group.
    """

    BEFORE = 4

    def changes_of(
        self, writer: Client, opened: OpenAction, source: random.Random
    ) -> schedule_lookups.Changes:
        number = _number_of(writer)
        if number is None:
            return super().changes_of(writer, opened, source)
        earlier = f"key {number - self.BEFORE}"
        # The first ones take longer than that.
        is_first = number <= self.BEFORE + Overlapping.LONG
        changed = {} if is_first else {earlier: number if number % 2 else None}
        return {f"key {number}": number, **changed}

    def small_file_bytes(self, writer: Client, source: random.Random) -> int:
        return 0 if _number_of(writer) else super().small_file_bytes(writer, source)

    def part_of(self, key: str, source: random.Random) -> str:
        if self.builds_partitioned and key.startswith("key "):
            # Two of four writes bring a partition, to which a later one writes again.
            fours, is_new = divmod((int(key[4:]) + 1) // 2, 2)
            return f"new-{fours}" if is_new else PARTITION
        is_moved = key.startswith("key ") and self.config.has_global_index
        paths = (PARTITION, ANOTHER_PARTITION)
        return source.choice(paths) if is_moved else super().part_of(key, source)


def _number_of(writer: Client) -> int | None:
    """Return the number of one of several writers of Apache Hudi."""
    text = writer.author.writer_id.removeprefix("engine")
    return int(text) if text.isdecimal() else None


class JvmValueWorld(JvmLookupWorld, schedule_lookups.ValueWorld):
    """With a secondary index of values, too."""


class JvmStatisticsWorld(JvmLookupWorld, schedule_lookups.StatisticsWorld):
    """With statistics."""


def jvm_world(kind: Kind) -> type[World]:
    """Return a world of a kind whose engines are writers of Apache Hudi that stream."""
    if kind.has_values:
        return JvmValueWorld
    if kind.has_statistics:
        return JvmStatisticsWorld
    return JvmLookupWorld if kind.has_keys else JvmWorld


@pytest.mark.sample(SAMPLED)
@pytest.mark.parametrize("kind", [*SHARED, *SHARED_KEYS, *MORE_SHARED])
@pytest.mark.parametrize("lasts_ms", [300, 3_000])
def test_write_of_another_engine_at_any_call_of_builder_is_in_the_index(
    kind: str, lasts_ms: int
) -> None:
    """T-I02, T-I09, T-I11: it began before or meanwhile, and does not know of the index."""
    was_ready: set[tuple[bool, bool]] = set()

    def begin(world: World) -> None:
        process = world.process("engine", offset_ms=-SETTINGS.clock_skew_ms_max // 2)
        writer = world.client(process)
        begun_ready = is_ready(world)
        opened = world.begin(writer)
        stats = world.write_files(writer, opened, world.groups)

        def complete() -> None:
            written = [each for each in stats if isinstance(each, commits.WriteStat)]
            operation = commits.Operation.UPSERT
            told = metadata(written, operation, world.schema)
            replaced = world.replaced(writer, opened, operation, written)
            keys = world.settling(writer, opened, replaced, stats)
            lifecycle.commit(writer, opened, told, [], lifecycle.Adjustment(keys=keys))
            was_ready.add((begun_ready, is_ready(world)))

        world.time.later(lasts_ms, complete)

    for number in range(mutations(kind)):
        world = made(At(number, begin), kind, jvm_world(KINDS[kind]))
        world.build_index(world.writer("builder"))
        world.time.advance(lasts_ms)
        world.check_index(builds_max=1)
        world.check_metadata()
        assert world.filters or world.located or world.stated
    assert was_ready == {(False, False), (True, True)}


@pytest.mark.parametrize("kind", SHARED)
def test_write_of_another_engine_that_takes_no_lock_is_in_the_index(kind: str) -> None:
    """T-I15: whatever it does between two calls of the builder, which has the lock."""

    def write(world: World) -> None:
        world.write(world.client(world.process("engine")), "b1")

    for number in range(mutations(kind)):
        world = made(At(number, write, takes_no_lock=True), kind, JvmWorld)
        with contextlib.suppress(*LOST):
            world.build_index(world.writer("builder"))
        check_for_all(world, as_others_see_it)
        world.time.advance(SETTINGS.heartbeat_expiry_ms + 1)
        world.build_index(world.writer("successor"))
        world.check_index(builds_min=0, builds_max=2)
        world.check_filters()


def without_index(properties: bytes, name: str) -> bytes:
    """Return properties as a writer of Apache Hudi sees them whose option for an index is off."""
    found = dict(hudi_properties.decode(properties))
    for key in (
        table_config.METADATA_PARTITIONS_KEY,
        table_config.METADATA_PARTITIONS_INFLIGHT_KEY,
        table_config.METADATA_PARTITIONS_OWN_KEY,
    ):
        left = [each for each in found.get(key, "").split(",") if each and each != name]
        found[key] = ",".join(left)
    return hudi_properties.encode(found)


class _Off(JvmWorld):
    """A world in which they have the index's option off: what is ready is dropped by them."""

    def opened(self, process: schedule.Process) -> bytes:
        config = as_others_see_it(self)
        if self.index in config.metadata_partitions:
            changes = index_decisions.without([self.index], config)
            table_properties.update(self.storage, changes, process.clock, lambda: None)
            self.storage.delete_directory(f".hoodie/metadata/{self.index}")
        return without_index(super().opened(process), self.index)


class OffWorld(_Off):
    """The same of lines of text."""


class OffLookupWorld(_Off, JvmLookupWorld):
    """The same of rows."""


def off_world(kind: Kind) -> type[World]:
    """Return a world of a kind whose engines have the index's option off."""
    return OffLookupWorld if kind.has_keys else OffWorld


@pytest.mark.parametrize("kind", SHARED)
@pytest.mark.parametrize("lasts_ms", [0, 300])
@pytest.mark.parametrize("make", [JvmWorld, OffWorld])
def test_write_of_another_engine_after_the_builder_has_lost_its_lock_is_in_the_index(
    kind: str, lasts_ms: int, make: type[World]
) -> None:
    """T-I15: one whose option is on logs there; one whose option is off drops it when it can.

    Until then the index is ready for its own readers alone.
    """
    judged = as_others_see_it if make is JvmWorld else as_we_see_it
    ready: set[bool] = set()

    def begin(world: World) -> None:
        process = world.process("engine", offset_ms=-SETTINGS.clock_skew_ms_max // 2)
        writer = world.client(process)
        opened = world.begin(writer)
        stats = world.write_files(writer, opened, world.groups)

        def complete() -> None:
            if world.lock.holder is not None:
                # The builder that waits for its next scope's clock would not give it back.
                world.time.later(lasts_ms, complete)
                return
            written = [each for each in stats if isinstance(each, commits.WriteStat)]
            told = metadata(written, commits.Operation.UPSERT, world.schema)
            lifecycle.commit(writer, opened, told)
            check_for_all(world, judged)

        world.time.later(lasts_ms, complete) if lasts_ms else complete()

    for number in range(mutations(kind)):
        fault = At(number, begin, loses_lock=True)
        world = made(fault, kind, make)
        with contextlib.suppress(*LOST):
            world.build_index(world.writer("builder"))
        ready.add(check_for_all(world, judged))
        world.time.advance(SETTINGS.heartbeat_expiry_ms + 1)
        check_for_all(world, judged)
        world.build_index(world.writer("successor"))
        world.check_index(builds_min=0, builds_max=2)
        schedule_rollback.roll_back_dead(world, world.writer("janitor"))
        world.check_metadata()
    assert ready == {False, True}


BUILDS_MAX = 10
"""Writers whose option is off drop the index again, which is built again meanwhile."""


class Overlapping(At):
    """Writes of other engines, of which one is pending at any time until the index is ready.

    The first has begun before the builder; the next begin from one of its calls on. The first two
    last until others have completed: the second may begin right before an index is inflight, and
    end after all that were listed before.
    """

    STEP_MS = 1_000
    LONG = 2
    FIRST_LASTS_MS = 5_900
    LASTS_MS = 1_500
    WRITES_MAX = 60

    def __init__(self, number: int, *, loses_lock: bool = False) -> None:
        super().__init__(number, self._next, loses_lock=loses_lock)
        self._keeps_lock = not loses_lock
        self.streamed = 0  # How many have logged in a record index before they completed.
        self.pending = 0
        self.begun = 0
        self.is_over = False
        self.judged: Callable[[World], table_config.TableConfig] = as_others_see_it

    def begin(self, world: World) -> None:
        self.begun += 1
        name = f"engine{self.begun}"
        process = world.process(name, offset_ms=-SETTINGS.clock_skew_ms_max // 2)
        writer = world.client(process)
        opened = world.begin(writer)
        groups = [world.groups[self.begun % len(world.groups)]]
        stats = world.write_files(writer, opened, groups)
        written = [each for each in stats if isinstance(each, commits.WriteStat)]
        streamed = None
        if isinstance(world, JvmLookupWorld):
            streamed = schedule_streaming.Streamed.by(writer, opened, written)
        self.pending += 1

        def complete() -> None:
            if world.lock.holder is not None:
                # The builder that waits for its next scope's clock would not give it back.
                world.time.later(100, complete)
                return
            if isinstance(world, _Off):
                world.opened(process)  # J8: its commit drops what has become ready.
            if streamed is not None and self._keeps_lock:
                streamed.check(world.storage)
                self.streamed += 1
            told = metadata(written, commits.Operation.UPSERT, world.schema)
            checks: list[lifecycle.CommitCheck] = []
            adjustment = lifecycle.AS_IT_IS
            if world.has_rows:
                checks = [conflicts.commit_check(writer), *world.key_checks(writer, stats)]
                keys = world.settling(writer, opened, replacements.NOTHING, stats)
                adjustment = lifecycle.Adjustment(keys=keys)
            lifecycle.commit(writer, opened, told, checks, adjustment)
            self.pending -= 1
            check_for_all(world, self.judged)

        lasts_ms = self.FIRST_LASTS_MS if self.begun <= self.LONG else self.LASTS_MS
        world.time.later(lasts_ms, complete)

    def _next(self, world: World) -> None:
        if self.is_over or self.begun >= self.WRITES_MAX:
            return
        if world.lock.holder is None:
            self.begin(world)
            world.time.later(self.STEP_MS, lambda: self._next(world))
        else:
            world.time.later(100, lambda: self._next(world))


MAKES = [jvm_world, off_world]
BEGUN = [*SHARED, *SHARED_KEYS]
"""The kinds whose indexes are inflight while others write."""


@pytest.mark.sample(SAMPLED)
@pytest.mark.parametrize("kind", BEGUN)
@pytest.mark.parametrize("make", MAKES)
def test_index_becomes_ready_while_writes_of_another_engine_overlap(
    kind: str, make: Callable[[Kind], type[World]]
) -> None:
    """ADR 0051, ADR 0052: those are waited for alone that began before it was inflight."""
    beside: set[int] = set()
    streamed = 0
    for number in itertools.count():
        fault = Overlapping(number)
        world = made(fault, kind, make(KINDS[kind]))
        fault.begin(world)
        world.build_index(world.writer("builder"))
        assert fault.begun < Overlapping.WRITES_MAX, "it was built after they had ended"
        beside.add(fault.pending)
        assert check_for_all(world, as_others_see_it)
        fault.is_over = True
        world.time.advance(Overlapping.FIRST_LASTS_MS + 3 * Overlapping.LASTS_MS)
        assert not fault.pending
        streamed += fault.streamed
        if make is off_world and not is_ready(world):
            world.build_index(world.writer("successor"))
        later_changes(world)
        check(world, builds_max=BUILDS_MAX)
        if fault.has_left:
            break
    assert max(beside) > 0
    assert bool(streamed) is (KINDS[kind].has_keys and make is jvm_world)


class KilledBeside(Overlapping):
    """The same, while the builder dies at one of its calls."""

    WRITES_MAX = 200

    def __init__(self, number: int) -> None:
        super().__init__(0)
        self._calls = number
        self.has_died = False

    def at(self, process: schedule.Process, call: str, *, is_mutation: bool) -> Fault:
        found = super().at(process, call, is_mutation=is_mutation)
        if is_mutation and process.name == "builder":
            self._calls -= 1
            if self._calls == -1:
                self.has_died = True
                return Fault.CRASH_AFTER
        return found


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", ["shared-cow", *SHARED_KEYS])
def test_builder_killed_while_writes_of_another_engine_overlap_is_continued(kind: str) -> None:
    """ADR 0052: what these have logged in a record index stays, and the successor needs no pause.

    Other partitions are made again: nothing is logged there before a write completes.
    """
    for number in itertools.count():
        fault = KilledBeside(number)
        world = made(fault, kind, jvm_world(KINDS[kind]))
        fault.begin(world)
        with contextlib.suppress(schedule.Crash):
            world.build_index(world.writer("builder"))
        if not fault.has_died:
            break
        world.time.advance(SETTINGS.heartbeat_expiry_ms + 1)
        with world.writer("janitor").lock.scope():
            pass  # The writes look whether somebody has it, and the dead builder may have.
        world.build_index(world.writer("successor"))
        assert fault.begun < KilledBeside.WRITES_MAX, "it was built after they had ended"
        fault.is_over = True
        world.time.advance(Overlapping.FIRST_LASTS_MS + 3 * Overlapping.LASTS_MS)
        assert not fault.pending
        later_changes(world)
        schedule_rollback.roll_back_dead(world, world.writer("janitor"))
        check(world, builds_min=0, builds_max=2)
    assert number


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "kind", ["shared-cow", "shared-keys-mor", "shared-values-mor", "shared-statistics-mor"]
)
def test_build_that_waits_in_vain_leaves_nothing_whenever_it_dies(kind: str) -> None:
    """T-I13: a write of another engine is pending all the time, and the same command is repeated.

    Writers of this project continue, and once that write is rolled back the index is built.
    """
    for number in itertools.count():
        fault = faulty_storage.FaultAt("builder", number, Fault.CRASH_AFTER)
        world = made(fault, kind, jvm_world(KINDS[kind]), index_wait_s=2)
        engine = world.process("engine")
        writer = world.client(engine)
        world.write_files(writer, world.begin(writer), world.groups[:1])
        with pytest.raises((schedule.Crash, errors.ConflictError)) as ended:
            world.build_index(world.writer("builder"))
        has_died = isinstance(ended.value, schedule.Crash)
        if has_died:
            world.time.advance(SETTINGS.heartbeat_expiry_ms + 1)
            with pytest.raises(errors.ConflictError, match="is given up after 2 s"):
                world.build_index(world.writer("successor"))
        assert not is_ready(world)
        assert not is_being_built(world)
        assert not world.timeline.pending_of(instants.Action.INDEXING)
        assert not any(map(secondary_indexes.is_column_key, world.stored_properties()))
        world.write(world.writer("other"), "b1")
        with contextlib.suppress(schedule.Crash):
            engine.crash()
        world.time.advance(SETTINGS.heartbeat_expiry_ms + 1)
        schedule_rollback.roll_back_dead(world, world.writer("janitor"))
        world.build_index(world.writer("last"))
        later_changes(world)
        check(world)
        if not has_died:
            break
    assert number


@pytest.mark.sample(SAMPLED)
@pytest.mark.parametrize("kind", BEGUN[::-1])
@pytest.mark.parametrize("make", MAKES)
def test_writes_that_overlap_while_the_builder_loses_its_lock_are_in_the_index(
    kind: str, make: Callable[[Kind], type[World]]
) -> None:
    """ADR 0051: one may begin right before the properties change, and go on after it."""
    judged = as_others_see_it if make is jvm_world else as_we_see_it
    ready: set[bool] = set()
    for number in itertools.count():
        fault = Overlapping(number, loses_lock=True)
        fault.judged = judged
        world = made(fault, kind, make(KINDS[kind]))
        fault.begin(world)
        with contextlib.suppress(*LOST):
            world.build_index(world.writer("builder"))
        ready.add(check_for_all(world, judged))
        fault.is_over = True
        world.time.advance(Overlapping.FIRST_LASTS_MS + 3 * Overlapping.LASTS_MS)
        assert not fault.pending
        check_for_all(world, judged)
        world.time.advance(SETTINGS.heartbeat_expiry_ms + 1)
        world.build_index(world.writer("successor"))
        world.check_index(builds_min=0, builds_max=BUILDS_MAX)
        schedule_rollback.roll_back_dead(world, world.writer("janitor"))
        world.check_metadata()
        if fault.has_left:
            break
    assert ready == {False, True}
