"""Fleets on one table, with crashes, failures, pauses, lost locks and wrong clocks, by seed.

A failing seed says how to replay it; `make simulate` runs more of them, and shrinks what fails.
"""

import collections
import contextlib
import threading
from collections.abc import Callable, Collection

import pytest

from hoodie.metadata import index_decisions
from hoodie.model.instants import Action, Instant, InstantTime, State
from hoodie.timeline import history_writing, transitions
from hoodie.transaction import lifecycle
from hoodie.write import conflicts
from support.simulation import (
    chance,
    invariants,
    schedule,
    schedule_lookups,
    schedule_shrinking,
    schedule_world,
)
from support.simulation.invariants import LockEvent
from support.simulation.schedule_fleet import Fleet
from support.simulation.schedule_plans import (
    FILTERED,
    INDEXED_FROM,
    KEYED_FROM,
    KEYS_BUILT,
    OVERLAPPING,
    PARTITIONED_FROM,
    PARTS_BUILT_FROM,
    PULLED_FROM,
    ROWED_FROM,
    STATED_FROM,
    STATISTICS_BUILT,
    VALUED_FROM,
    Plan,
    Scenario,
    plan_of,
)

pytestmark = pytest.mark.simulation

SEEDS = {
    Scenario.NON_BLOCKING: 100,
    Scenario.OPTIMISTIC: 70,
    Scenario.FAILING: 30,
    Scenario.CLOCKS: 30,
    Scenario.COPY_ON_WRITE: 50,
    Scenario.DELETES: 40,
    Scenario.LOOKED_UP: 40,
    Scenario.EVERYWHERE: 40,
    Scenario.REPLACED: 40,
    Scenario.SELECTED: 40,
    Scenario.LATE: 30,
    Scenario.LATE_COPY_ON_WRITE: 30,
    Scenario.IN_PLACE: 30,
    Scenario.HELD_UP: 30,
    Scenario.MISJUDGED: 40,
    Scenario.RESTARTED: 40,
    Scenario.UNRELIABLE: 30,
    Scenario.AMBUSHED: 50,
    Scenario.FOREIGN: 40,
    Scenario.TRAPPED: 60,
    Scenario.CHAINED: 60,
    Scenario.LYING: 60,
    Scenario.CLEANED: 60,
    Scenario.RETAINED: 60,
    Scenario.KEPT: 40,
    Scenario.ARCHIVED: 40,
    Scenario.STORMY: 40,
    Scenario.AUTUMN: 40,
    Scenario.INDEXED: 20,
    Scenario.INDEXED_LYING: 20,
    Scenario.BUILT: 20,
    Scenario.BUILT_BESIDE: 20,
}
CHUNK = 10
CHUNKS = [
    pytest.param(scenario, first, id=f"{scenario.value}-{first}")
    for scenario, count in SEEDS.items()
    for first in range(0, count, CHUNK)
]


@pytest.mark.parametrize(("scenario", "first"), CHUNKS)
def test_every_invariant_holds(scenario: Scenario, first: int) -> None:
    """T-P02, T-P03, T-P05, T-P06, T-Q01, T-N02, T-C03, T-L21, T-O02, T-O04, T-O05, T-O06.

    T-R01, T-R02, T-H02, T-H04.

    I1 to I5 and I8 to I11 of protocol.md: Invariants.
    """
    for seed in range(first, first + CHUNK):
        assert_no_failure(scenario, seed)


_SEEDS = (INDEXED_FROM, FILTERED.start, KEYED_FROM, PARTITIONED_FROM, STATED_FROM)


@pytest.mark.parametrize("seed", _SEEDS)
@pytest.mark.parametrize("scenario", Scenario)
def test_every_invariant_holds_with_a_metadata_table(scenario: Scenario, seed: int) -> None:
    """I7, T-M01, T-M02, T-M04: alone, with bloom filters, record indexes, or statistics."""
    assert_no_failure(scenario, seed)


@pytest.mark.parametrize("scenario", Scenario)
def test_chains_of_increments_are_the_snapshot(scenario: Scenario) -> None:
    """I6, T-Q04, T-Q06, T-X09, T-Q02, T-Q03: beside everything else, by positions."""
    for seed in range(PULLED_FROM, PULLED_FROM + 2):
        assert_no_failure(scenario, seed)


def test_increments_are_judged() -> None:
    """Else that nothing is found would prove nothing."""
    pulls = []
    for scenario in (Scenario.DELETES, Scenario.LOOKED_UP, Scenario.REPLACED, Scenario.KEPT):
        fleet = Fleet(plan_of(scenario, PULLED_FROM + 1))
        fleet.run()
        pulls.append(fleet.world.pulls)
    assert min(pulls) > 2, pulls


def assert_no_failure(scenario: Scenario, seed: int) -> None:
    failure = schedule_shrinking.run(plan_of(scenario, seed))
    replay = f"make simulate REPLAY={scenario.value}:{seed}"
    assert failure is None, f"{failure.message}\nReplay: {replay}"


def test_bloom_filters_are_judged() -> None:
    """Else that nothing is found would prove nothing."""
    judged = []
    for scenario in (Scenario.COPY_ON_WRITE, Scenario.CLEANED, Scenario.INDEXED):
        fleet = Fleet(plan_of(scenario, FILTERED.start))
        fleet.run()
        judged.append(fleet.world.filters)
    assert all(judged), judged


@pytest.mark.parametrize(("scenario", "first"), [(Scenario.BUILT, 0), (Scenario.BUILT_BESIDE, 100)])
def test_indexes_are_built_and_judged_beside_everything_else(
    scenario: Scenario, first: int
) -> None:
    """T-I06, T-I12, T-I14, T-I17, T-I18, T-I20, T-I21.

    Else that nothing is found would prove nothing.
    """
    builds, filters, judgements = 0, 0, 0
    for seed in range(first, first + 10):
        fleet = Fleet(plan_of(scenario, seed))
        fleet.run()
        builds += fleet.builds
        filters += fleet.world.filters
        judgements += fleet.world.judgements
    assert builds > 2
    assert judgements > 3
    assert filters > 10


@pytest.mark.parametrize("first", [ROWED_FROM, PARTS_BUILT_FROM])
def test_record_indexes_are_built_and_judged_beside_everything_else(first: int) -> None:
    """Else that nothing is found would prove nothing."""
    builds, located = 0, 0
    for seed in range(first, first + 6):
        fleet = Fleet(plan_of(Scenario.BUILT, seed))
        fleet.run()
        builds += fleet.builds
        located += fleet.world.located
    assert builds > 3
    assert located > 10


def test_secondary_indexes_are_built_and_judged_beside_everything_else() -> None:
    """Else that nothing is found would prove nothing."""
    builds, valued = 0, 0
    for seed in range(VALUED_FROM, VALUED_FROM + 10):
        fleet = Fleet(plan_of(Scenario.BUILT, seed))
        fleet.run()
        builds += fleet.builds
        valued += fleet.world.valued
    assert builds > 3
    assert valued > 10


@pytest.mark.parametrize(
    ("scenario", "first", "count"),
    [(Scenario.BUILT, 600_011, 2), (Scenario.BUILT_BESIDE, 600_038, 4)],
)
def test_statistics_are_built_and_judged_beside_everything_else(
    scenario: Scenario, first: int, count: int
) -> None:
    """Else that nothing is found would prove nothing."""
    assert first in STATISTICS_BUILT
    builds, stated, left_out = 0, 0, 0
    for seed in range(first, first + count):
        fleet = Fleet(plan_of(scenario, seed))
        fleet.run()
        builds += fleet.builds
        stated += fleet.world.stated
        left_out += fleet.world.left_out
    assert builds > 2
    assert stated > 20
    assert left_out > 10


@pytest.mark.parametrize(
    ("seeds", "count"), [(OVERLAPPING[0], 6), (OVERLAPPING[1], 8), (KEYS_BUILT, 4)]
)
def test_indexes_are_published_beside_writes_of_another_engine_that_overlap(
    seeds: range, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else that nothing is found would prove nothing."""
    decide = index_decisions.waited_for
    passed: list[int] = []

    def waited_for(
        at_work: Collection[Instant], begun: index_decisions.Begun | None
    ) -> list[Instant]:
        found = decide(at_work, begun)
        passed.append(len(at_work) - len(found))
        return found

    monkeypatch.setattr(index_decisions, "waited_for", waited_for)
    judged, streamed = 0, 0
    for seed in seeds[:count]:
        fleet = Fleet(plan_of(Scenario.BUILT_BESIDE, seed))
        fleet.run()
        judged += fleet.world.filters + fleet.world.stated + fleet.world.located
        streamed += fleet.world.streamed
    assert sum(passed) > 2
    assert judged > 10
    assert (streamed > 5) is (seeds is KEYS_BUILT)


def test_dead_writes_are_rolled_back_as_long_as_a_build_may_wait_for_them() -> None:
    """Also for an indexer that was paused, and whose successor has ended before it."""
    assert_no_failure(Scenario.BUILT_BESIDE, 50_101)


def test_files_that_a_write_has_streamed_go_with_it_if_it_is_rolled_back() -> None:
    """It was paused for longer than its heartbeat lasts: nothing is lost that counts."""
    assert_no_failure(Scenario.BUILT_BESIDE, 901_041)


def test_write_that_was_rolled_back_and_is_published_late_is_in_no_increment() -> None:
    """It was requested before all that a position counts, in a table without a chain."""
    assert_no_failure(Scenario.BUILT_BESIDE, 950_745)


def test_secondary_indexes_are_built_and_judged_beside_other_engines() -> None:
    """Else that nothing is found would prove nothing."""
    builds, valued = 0, 0
    for seed in range(STATISTICS_BUILT.stop, STATISTICS_BUILT.stop + 9):
        fleet = Fleet(plan_of(Scenario.BUILT_BESIDE, seed))
        fleet.run()
        builds += fleet.builds
        valued += fleet.world.valued
    assert builds > 2
    assert valued > 10


def test_reads_by_statistics_are_judged() -> None:
    """Else that nothing is found would prove nothing."""
    judged = []
    for scenario in (Scenario.COPY_ON_WRITE, Scenario.DELETES, Scenario.INDEXED_LYING):
        fleet = Fleet(plan_of(scenario, STATED_FROM))
        fleet.run()
        judged.append(fleet.world.skips)
    assert all(judged), judged


@pytest.mark.parametrize("first", [KEYED_FROM, PARTITIONED_FROM])
def test_record_indexes_are_judged(first: int) -> None:
    """Else that nothing is found would prove nothing."""
    judged = []
    for scenario in (Scenario.COPY_ON_WRITE, Scenario.CLEANED, Scenario.INDEXED_LYING):
        fleet = Fleet(plan_of(scenario, first))
        fleet.run()
        judged.append(fleet.world.keys.judged)
    assert all(judged), judged


def test_deletes_by_a_filter_are_judged() -> None:
    """Else that the right rows are left would prove nothing: many delete some, many lose first."""
    deleted, lost = 0, 0
    for seed in range(40):
        fleet = Fleet(plan_of(Scenario.SELECTED, seed))
        fleet.run()
        assert isinstance(fleet.world, schedule_lookups.LookupWorld)
        found = fleet.world.selections
        completed = found.keys() & set(fleet.world.seen[-1].writes)
        deleted += sum(found[write].rows.num_rows > 0 for write in completed)
        lost += len(found) - len(completed)
    assert deleted > 20, (deleted, lost)
    assert lost > 5, (deleted, lost)


def test_reads_by_a_metadata_table_are_judged_while_it_is_compacted() -> None:
    """Else what they see would prove nothing; of either kind of lock."""
    for scenario in (Scenario.INDEXED, Scenario.INDEXED_LYING):
        counts = collections.Counter[str]()
        for seed in range(10):
            fleet = Fleet(plan_of(scenario, seed))
            fleet.run()
            counts["listings"] += fleet.world.listings
            counts["compactions"] += fleet.world.compacted
        assert counts["listings"] > 50, counts
        assert counts["compactions"] > 5, counts


def test_same_seed_is_the_same_history() -> None:
    histories = []
    for _ in range(2):
        fleet = Fleet(plan_of(Scenario.NON_BLOCKING, 7))
        fleet.run()
        histories.append(fleet.time.history)
    assert histories[0] == histories[1]


@pytest.mark.parametrize("scenario", Scenario)
def test_deviations_replay_the_run_that_they_were_taken_from(scenario: Scenario) -> None:
    plan = plan_of(scenario, 3)
    drawn = Fleet(plan)
    drawn.run()
    assert isinstance(drawn.chances, chance.SeededChance)
    replayed = Fleet(plan, chance.ScriptedChance(drawn.chances.deviations))
    replayed.run()
    assert replayed.time.history == drawn.time.history


def test_run_without_deviations_is_calm() -> None:
    fleet = Fleet(plan_of(Scenario.FAILING, 3), chance.ScriptedChance({}))
    fleet.run()
    assert not [event for event in fleet.time.history if "crash" in event or "paused" in event]


def test_readers_read_while_others_write() -> None:
    """What they see would otherwise prove nothing."""
    sizes: set[int] = set()
    for seed in range(10):
        fleet = Fleet(plan_of(Scenario.NON_BLOCKING, seed))
        fleet.run()
        sizes |= {len(read.writes) for read in fleet.world.reads}
    assert sizes >= {0, 1, 2, 3, 4}


def test_archivers_archive_while_others_work() -> None:
    """Else what is found of archived instants would prove nothing, of either kind of lock."""
    counts = collections.Counter[bool]()
    for seed in range(20):
        fleet = Fleet(plan_of(Scenario.RETAINED, seed))
        fleet.run()
        counts[fleet.plan.is_lying] += fleet.world.archived
    assert min(counts[True], counts[False]) > 20


def test_savepoints_and_consumers_hold_much() -> None:
    """T-N18, T-V05: else that nothing of theirs is deleted would prove nothing."""
    counts = collections.Counter[str]()
    for seed in range(20):
        fleet = Fleet(plan_of(Scenario.KEPT, seed))
        fleet.run()
        counts.update(fleet.world.keepers.counts)
        counts["cleaned"] += sum(
            each.action is Action.CLEAN for each in fleet.world.timeline.completed
        )
    for what in ("savepoints", "deleted", "advanced", "cleaned"):
        assert counts[what] > 20, counts


def test_times_of_jvms_go_back_while_others_work() -> None:
    """T4, T5: else that nothing is hidden, and all is found, would prove nothing."""
    counts = collections.Counter[str]()
    for seed in range(20):
        fleet = Fleet(plan_of(Scenario.AUTUMN, seed))
        fleet.run()
        counts["went back"] += len(fleet.world.behind)
        counts["archived"] += fleet.world.archived
        counts["advanced"] += fleet.world.keepers.counts.get("advanced", 0)
        counts["refused"] += sum("no compaction" in event for event in fleet.time.history)
        counts.update(each.action.value for each in fleet.world.timeline.completed)
    for what in ("went back", "archived", "advanced", "refused", "clean", "commit", "rollback"):
        assert counts[what] > 10, counts


def test_levels_of_the_archive_are_merged_with_a_chain_and_without() -> None:
    """Else the archives of this scenario would prove nothing about merges."""
    levels = collections.Counter[tuple[bool, int]]()
    for seed in range(20):
        fleet = Fleet(plan_of(Scenario.ARCHIVED, seed))
        fleet.run()
        tree = history_writing.read_tree(fleet.world.storage)
        is_ordered = fleet.plan.is_lying
        levels.update((is_ordered, each.level) for each in tree.files)
    for is_ordered in (True, False):
        assert any(levels[is_ordered, level] for level in (2, 3)), levels


def test_deletes_outlive_compactions_that_readers_read() -> None:
    """Else what the contents of keys are would prove nothing about kept deletes."""
    kept, compactions = 0, 0
    for seed in range(20):
        fleet = Fleet(plan_of(Scenario.DELETES, seed))
        fleet.run()
        names = schedule_world.data_files(fleet.world.storage)
        bases = {name.split("_")[2].removesuffix(".parquet") for name in names if name[0] != "."}
        compactions += len(bases)
        kept += sum(name.split("_")[1].split(".")[0] in bases for name in names if name[0] == ".")
    assert kept > 10
    assert compactions > 20


def test_history_of_the_lock_has_every_holding_and_every_change_of_the_timeline() -> None:
    """T-P06: else that each change lies in a holding of its author would say nothing."""
    fleet = Fleet(plan_of(Scenario.FAILING, 4))
    fleet.run()
    taken = [event for event in fleet.time.history if event.endswith(": lock")]
    changes = {what for event, _, what in fleet.world.lock.history if event is LockEvent.CHANGED}
    happened = collections.Counter(event for event, _, _ in fleet.world.lock.history)
    assert happened[LockEvent.TAKEN] == len(taken) > 0
    assert happened[LockEvent.LOST] > 0
    there = [each for each in fleet.world.timeline.files if each.state is not State.INFLIGHT]
    assert {transitions.path(each) for each in there} <= changes


@pytest.mark.parametrize(
    ("history", "complaint"),
    [
        ([(LockEvent.CHANGED, "a", "x")], "a changed x without the lock"),
        (
            [
                (LockEvent.TAKEN, "a", ""),
                (LockEvent.GIVEN_BACK, "a", ""),
                (LockEvent.TAKEN, "b", ""),
                (LockEvent.CHANGED, "a", "x"),
            ],
            "a changed x without the lock",
        ),
        (
            [(LockEvent.TAKEN, "a", ""), (LockEvent.TAKEN, "b", "")],
            "b took the lock that a has",
        ),
    ],
)
def test_change_outside_of_a_holding_is_told(
    history: list[tuple[LockEvent, str, str]], complaint: str
) -> None:
    """T-P06."""
    with pytest.raises(AssertionError, match=complaint):
        invariants.check_lock_history(history)


def test_run_that_never_ends_is_a_failure_and_leaves_no_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def sleep_forever(fleet: Fleet, *ignored: object) -> None:
        while True:
            fleet.time.processes[1].clock.sleep_s(1.0)

    monkeypatch.setattr(Fleet, "_read_until_done", sleep_forever)
    before = threading.active_count()
    failure = schedule_shrinking.run(Plan(seed=1))
    assert failure is not None
    assert "not ended after" in failure.message
    assert "reader0.1" in failure.message
    assert failure.history
    assert threading.active_count() == before


def test_what_fails_is_told_with_little_that_befell_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writers that do not look for conflicts: most of a run has no part in that."""
    monkeypatch.setattr(conflicts, "candidates", lambda *_: ())
    failure = first_failure(lambda seed: schedule_shrinking.run(plan_of(Scenario.OPTIMISTIC, seed)))
    smallest = schedule_shrinking.Shrinking(failure, runs_max=150).shrink()
    assert smallest.check == failure.check
    assert len(smallest.deviations) < len(failure.deviations) / 2
    replayed = schedule_shrinking.run(smallest.plan, chance.ScriptedChance(smallest.deviations))
    assert replayed is not None
    assert replayed.history == smallest.history


def first_failure(
    run: Callable[[int], schedule_shrinking.Failure | None],
) -> schedule_shrinking.Failure:
    return next(failure for seed in range(100) if (failure := run(seed)) is not None)


def test_actor_that_survives_its_crash_can_do_nothing_more() -> None:
    """A thread that outlives its process would slow down everything after it."""
    time = schedule.Schedule(1)
    process = schedule.Process(time, "p")
    calls_after_death = []

    def ignore_death() -> None:
        process.crash()
        for _ in range(2):
            with contextlib.suppress(schedule.Crash):
                time.switch(process)
                calls_after_death.append("made")

    time.spawn("p", process, ignore_death)
    time.run()
    assert calls_after_death == []
    assert "p" not in {thread.name for thread in threading.enumerate()}


def test_increment_that_misses_what_completed_before_is_found() -> None:
    """I6 of the invariants: by whoever goes on from the completion time that it has seen."""
    world = schedule_world.World()
    first, second = (world.writer(name) for name in ("first", "second"))
    opened = world.begin(first)
    world.write(second)
    lifecycle.commit(first, opened, schedule_world.metadata([]))
    early, late = (each.requested_time for each in world.timeline.completed_writes)

    def read(writes: tuple[InstantTime, ...]) -> invariants.Read:
        seen = {schedule_world.GROUPS[0]: writes}
        return invariants.Read(reader_id="r", begun_ms=0, ended_ms=0, seen=seen)

    invariants.check_increments(world.timeline, [read((early,)), read((early, late))], ())
    with pytest.raises(AssertionError, match="missed"):
        invariants.check_increments(world.timeline, [read((late,)), read((early, late))], ())
