"""Trimming the archive, killed at every mutating call, or paused before each of its calls.

Whatever becomes of a run, reads and cleans find the same, and a successor finishes it.
"""

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import pytest

from hoodie import errors
from hoodie.filegroup import snapshots
from hoodie.maintenance.archiving import planning, service, trimming
from hoodie.maintenance.cleaning import retention
from hoodie.maintenance.cleaning import service as cleaning
from hoodie.maintenance.rollback import orphan_files
from hoodie.model import files, instants, settings, table_config
from hoodie.timeline import active, archived, chain, history_tree
from hoodie.transaction.client import Client
from support.simulation import faulty_storage, schedule
from support.simulation.faulty_storage import Fault
from support.simulation.schedule_world import CONFIG, COPY_ON_WRITE, PARTITION, SETTINGS, World

KEPT = planning.Policy(commits_min=2, commits_max=3, compaction_delta_commits=1)
POLICY = replace(KEPT, history_days=7)
OPTIMISTIC = replace(SETTINGS, concurrency=settings.ConcurrencyMode.OPTIMISTIC)
CLEAN = retention.Retention(retained=1, grace_ms=0)
WRITES = 3
DAY_MS = 86_400_000

KINDS = [
    pytest.param({"is_lying": True}, id="chain"),
    pytest.param({"has_chain": True}, id="chain, others write"),
    pytest.param({}, id="lock"),
]


@dataclass(frozen=True)
class Found:
    """What of a table must not change when its history is trimmed."""

    slices: list[tuple[files.FileSlice, ...]]
    removals: tuple[object, ...]
    timeline: tuple[instants.Instant, ...]
    completion_times: Mapping[instants.InstantTime, instants.InstantTime | None]
    committed: Mapping[instants.InstantTime, bool]


def write(world: World, count: int = WRITES) -> None:
    writer = world.writer("other")
    for _ in range(count):
        world.write(writer, None)
        world.time.advance(1_000)


def compact(world: World) -> None:
    compactor = world.writer("compactor")
    planned = world.schedule_compaction(compactor)
    if planned is not None:
        world.compact(compactor, planned.requested_time)


def archive(world: World, client: Client, policy: planning.Policy = POLICY) -> None:
    service.archive_by(client, world.config, policy)


def world_with(
    faults: faulty_storage.Faults,
    kind: Mapping[str, bool],
    config: table_config.TableConfig = COPY_ON_WRITE,
) -> World:
    """Return a world with a history of which a part is old; the next run does no more than trim.

    Archiving that is killed or paused is `test_archiving`'s.
    """
    world = World(faults=faults, write_settings=OPTIMISTIC, config=config, **kind)
    for _ in range(3):
        write(world)
        if not config.is_copy_on_write:
            compact(world)
        world.clean(world.writer("cleaner"), CLEAN)
        archive(world, world.writer("earlier"), KEPT)
        world.time.advance(5 * DAY_MS)
    write(world)
    if not config.is_copy_on_write:
        compact(world)
    world.clean(world.writer("cleaner"), CLEAN)
    write(world, 1)
    archive(world, world.writer("earlier"), KEPT)
    return world


def found_in(world: World) -> Found:
    snapshot = snapshots.take(world.storage, world.config)
    proposal = cleaning.propose(world.storage, world.config, CLEAN)
    there = snapshot.listing.files(PARTITION)
    times = {each.instant_time for each in there}
    logs = {each.instant_time for each in there if isinstance(each, files.LogFile)}
    timeline = snapshot.timeline
    return Found(
        slices=snapshot.view.slices(PARTITION),
        removals=proposal.removals,
        timeline=timeline.completed_writes[-KEPT.commits_min :],
        completion_times={time: timeline.completion_time(time) for time in logs},
        committed={time: snapshot.committed.is_committed(time) for time in times},
    )


def history(world: World) -> tuple[history_tree.TreeFile, ...]:
    """Return the files of the newest manifest, all of which are there."""
    listed = archived.newest_files(world.storage)
    for each in listed:
        assert world.storage.stat(each.path).size_bytes == each.size_bytes
    return listed


def oldest_in(world: World) -> list[instants.InstantTime]:
    old = archived.ArchivedTimeline(world.storage).newest_first()
    return sorted(each.instant.requested_time for each in old)


def loaded(world: World) -> active.ActiveTimeline:
    return chain.load(world.storage, world.config)


def check_trimmed(world: World, before: list[instants.InstantTime]) -> None:
    """Check that what is older than is kept is gone, and nothing else."""
    newest = loaded(world).completed[-1].completion_time or ""
    limit = instants.format_time(instants.parse_time(newest) - 7 * DAY_MS)
    assert before[0] < limit
    assert set(oldest_in(world)) >= {each for each in before if each >= limit}
    assert all(each.last >= limit for each in history(world))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("config", [COPY_ON_WRITE, CONFIG], ids=["copy-on-write", "merge-on-read"])
def test_history_that_is_old_goes_and_nothing_else_changes(
    kind: Mapping[str, bool], config: table_config.TableConfig
) -> None:
    world = world_with(faulty_storage.NoFaults(), kind, config)
    before, there = oldest_in(world), found_in(world)
    files_before = history(world)
    archive(world, world.writer("archiver"))
    assert found_in(world) == there
    check_trimmed(world, before)
    assert len(history(world)) < len(files_before)
    write(world)
    assert not loaded(world).pending


@pytest.mark.parametrize("kind", KINDS)
def test_trimmed_files_are_deleted_once_no_kept_manifest_lists_them(
    kind: Mapping[str, bool],
) -> None:
    """AR7: a reader may have read an older manifest."""
    world = world_with(faulty_storage.NoFaults(), kind)
    oldest = min(history(world), key=lambda each: each.first)
    for left in (True, True, False):
        archive(world, world.writer("archiver"))
        assert oldest not in history(world)
        assert (oldest.name in world.storage.names(history_tree.DIRECTORY)) is left
        write(world)
        world.clean(world.writer("cleaner"), CLEAN)
        write(world, 1)


@pytest.mark.parametrize("kind", KINDS)
def test_archive_that_is_trimmed_to_nothing_is_continued(kind: Mapping[str, bool]) -> None:
    world = world_with(faulty_storage.NoFaults(), kind)
    archive(world, world.writer("archiver"), KEPT)
    world.time.advance(30 * DAY_MS)
    write(world, 1)
    world.clean(world.writer("cleaner"), CLEAN)
    write(world, 1)
    there = found_in(world)
    archive(world, world.writer("archiver"), replace(POLICY, commits_min=90, commits_max=100))
    assert history(world) == ()
    assert found_in(world) == there
    write(world)
    archive(world, world.writer("archiver"), KEPT)
    assert oldest_in(world)
    write(world)


def mutations(kind: Mapping[str, bool]) -> int:
    recorder = faulty_storage.NoFaults()
    world = world_with(recorder, kind)
    before = len(recorder.mutations)
    archive(world, world.writer("victim"))
    return len(recorder.mutations) - before


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE, Fault.CRASH_AFTER])
def test_run_killed_at_any_call_is_continued(kind: Mapping[str, bool], fault: Fault) -> None:
    for number in range(mutations(kind)):
        world = world_with(faulty_storage.FaultAt("victim", number, fault), kind)
        before, there = oldest_in(world), found_in(world)
        with pytest.raises(schedule.Crash):
            archive(world, world.writer("victim"))
        assert found_in(world) == there, number
        assert not loaded(world).pending, number
        world.time.advance(world.lock.session_ms + 1)
        archive(world, world.writer("successor"))
        assert found_in(world) == there, number
        check_trimmed(world, before)
        history(world)
        write(world, 1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fault", [Fault.FAIL_BEFORE, Fault.FAIL_AFTER, Fault.LOST_ANSWER])
def test_run_whose_storage_fails_at_any_call_succeeds_on_retry(
    kind: Mapping[str, bool], fault: Fault
) -> None:
    for number in range(mutations(kind)):
        world = world_with(faulty_storage.FaultAt("victim", number, fault), kind)
        before, there = oldest_in(world), found_in(world)
        victim = world.writer("victim")
        with contextlib.suppress(errors.StorageError, errors.OutcomeUnknownError):
            archive(world, victim)
        assert found_in(world) == there, number
        archive(world, victim)
        assert found_in(world) == there, number
        check_trimmed(world, before)


class Paused:
    """Something happens once, right before the n-th call of one process, reads included."""

    def __init__(self, process_name: str, number: int) -> None:
        self._process_name = process_name
        self._left = number
        self.meanwhile: Callable[[], None] = lambda: None

    @property
    def is_over(self) -> bool:
        return self._left < 0

    def at(self, process: schedule.Process, call: str, *, is_mutation: bool) -> Fault:
        del call, is_mutation
        if process.name == self._process_name:
            self._left -= 1
            if self._left == -1:
                self.meanwhile()
        return Fault.NONE


def paused_at_every_call(
    kind: Mapping[str, bool],
    work: Callable[[World, Client], None],
    meanwhile: Callable[[World], None],
) -> int:
    """Let a process be paused before each of its calls in turn; return how many these are."""
    number = 0
    while True:
        paused = Paused("victim", number)
        world = world_with(paused, kind)
        before: list[instants.InstantTime] = []

        def others(world: World = world, before: list[instants.InstantTime] = before) -> None:
            world.lock.lose()  # It was paused for so long.
            meanwhile(world)
            before.extend(each.requested_time for each in loaded(world).completed_writes)

        paused.meanwhile = others
        work(world, world.writer("victim"))
        if not paused.is_over:
            return number
        archive(world, world.writer("last"))
        timeline = loaded(world)
        assert all(timeline.is_committed(time) for time in before), number
        for slices in found_in(world).slices:
            newest = timeline.completed_writes[-1].requested_time
            assert slices[0].base_instant_time == newest, number
        history(world)
        write(world, 1)
        number += 1


@pytest.mark.parametrize("kind", KINDS)
def test_run_paused_before_any_call_while_others_write_and_trim(kind: Mapping[str, bool]) -> None:
    """Whether the lock excludes nobody, or it has lost the lock right before that call."""

    def trim(world: World, client: Client) -> None:
        # It looks for what another has archived, or asks for its lock.
        with contextlib.suppress(errors.LockLostError, errors.NotFoundError):
            archive(world, client)

    def others(world: World) -> None:
        write(world)
        world.clean(world.writer("another cleaner"), CLEAN)
        archive(world, world.writer("another"))

    assert paused_at_every_call(kind, trim, others) > 20


def test_writer_paused_before_any_call_while_others_trim() -> None:
    def work(world: World, client: Client) -> None:
        for _ in range(10):
            with contextlib.suppress(errors.ConflictError):
                world.write(client, "late")
                return
        raise AssertionError("the write is refused for ever")

    def others(world: World) -> None:
        write(world)
        archive(world, world.writer("another"))

    assert paused_at_every_call({"is_lying": True}, work, others) > 5


@pytest.mark.parametrize("kind", KINDS)
def test_reader_paused_before_any_call_while_others_trim(kind: Mapping[str, bool]) -> None:
    """A file of the archive that is gone has it look at the newest manifest."""
    number = 0
    while True:
        paused = Paused("reader", number)
        world = world_with(paused, kind)
        there = found_in(world).slices

        def others(world: World = world) -> None:
            for _ in range(3):
                archive(world, world.writer("another"))
                write(world)

        paused.meanwhile = others
        reader = world.writer("reader")
        snapshot = snapshots.take(reader.storage, world.config)
        seen = snapshot.view.latest_slices(PARTITION)
        old = list(archived.ArchivedTimeline(reader.storage).newest_first())
        if not paused.is_over:
            return
        assert old
        assert [each.base_instant_time for each in seen] >= [
            each[0].base_instant_time for each in there
        ]
        number += 1


@pytest.mark.parametrize("kind", KINDS)
def test_removal_of_orphan_files_removes_nothing_more(kind: Mapping[str, bool]) -> None:
    world = world_with(faulty_storage.NoFaults(), kind)
    archive(world, world.writer("archiver"))
    there = found_in(world)
    assert orphan_files.sweep(world.writer("sweeper")) == 0
    assert found_in(world) == there


def test_what_came_onto_the_timeline_since_the_listing_holds_trimming_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = world_with(faulty_storage.NoFaults(), {})
    proposal = trimming.propose(world.storage, world.config, 7)
    assert proposal.files
    monkeypatch.setattr(trimming, "propose", lambda *_: proposal)
    late = instants.next_time(oldest_in(world)[0])
    world.storage.create(f"{active.DIRECTORY}/{late}.commit.requested", b"")
    before = history(world)
    archive(world, world.writer("archiver"))
    assert history(world) == before
