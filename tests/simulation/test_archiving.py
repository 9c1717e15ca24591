"""Archiving, killed at every mutating call, or paused before each of its calls (T-X07, T-X08).

However it ends, a successor finishes it, and every instant is found exactly as before: on the
timeline or in the archive, with its completion time, never pending.
"""

import contextlib
import functools
import io
from collections.abc import Callable, Mapping
from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from hoodie import errors
from hoodie.format import instant_names
from hoodie.maintenance.archiving import planning, service
from hoodie.maintenance.cleaning import retention
from hoodie.maintenance.rollback import failed_writes
from hoodie.model import files, instants, settings, table_config
from hoodie.storage.memory import MemoryStorage, MemoryStore
from hoodie.timeline import (
    active,
    archived,
    chain,
    history_tree,
    history_writing,
    transitions,
)
from hoodie.transaction import lifecycle, markers, writer_batches
from hoodie.transaction.client import AlreadyWritten, Client, Completion
from support.simulation import faulty_storage, schedule
from support.simulation.faulty_storage import Fault
from support.simulation.schedule_world import (
    CONFIG,
    COPY_ON_WRITE,
    GROUPS,
    SETTINGS,
    World,
    metadata,
    write_data,
)

POLICY = planning.Policy(commits_min=2, commits_max=3, compaction_delta_commits=1)
OPTIMISTIC = replace(SETTINGS, concurrency=settings.ConcurrencyMode.OPTIMISTIC)
WRITES = 6
SEEDS = 20
LATE_MS = 30
Found = dict[instants.InstantTime, instants.InstantTime | None]
Seen = Mapping[files.FileGroupId, tuple[instants.InstantTime, ...]]

KINDS = [
    pytest.param({"is_lying": True}, id="chain"),
    pytest.param({"has_chain": True}, id="chain, others write"),
    pytest.param({}, id="lock"),
]


@pytest.fixture(autouse=True)
def _small_levels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have nearly each run merge files, so that it is killed and paused there as well."""
    if "levels" not in request.node.name:
        to_merge = history_tree.to_merge
        monkeypatch.setattr(history_tree, "to_merge", lambda files, _: to_merge(files, 2))


def world_with(
    faults: faulty_storage.Faults, kind: Mapping[str, bool], *, archives: bool = True
) -> World:
    """Return a world with some writes, and with one run of the archiver."""
    world = World(
        faults=faults,
        write_settings=OPTIMISTIC,
        config=COPY_ON_WRITE,
        **kind,
    )
    write(world, WRITES)
    if archives:
        archive(world, world.writer("earlier"))
        write(world, WRITES)
    return world


def write(world: World, count: int) -> None:
    writer = world.writer("other")
    for _ in range(count):
        world.write(writer, None)


def archive(world: World, client: Client) -> None:
    service.archive_by(client, world.config, POLICY)


def roll_back(world: World, client: Client) -> None:
    failed_writes.roll_back_all(client, world.config, active.listed(client.storage))


def loaded(world: World) -> active.ActiveTimeline:
    return chain.load(world.storage, world.config)


def instants_of(world: World) -> Found:
    """Return the completion times of all that was ever completed, as readers find them."""
    timeline = loaded(world)
    old = archived.ArchivedTimeline(world.storage).newest_first()
    found = {each.requested_time: each for each in timeline.completed}
    found = {each.instant.requested_time: each.instant for each in old} | found
    for time, each in found.items():
        if each.action.is_write:
            assert timeline.completion_time(time) == each.completion_time, time
            assert timeline.is_committed(time), time
    return {time: each.completion_time for time, each in found.items()}


def seen_by_a_reader(world: World) -> Seen:
    return world.read(world.writer("reader")).seen


def check_tree(storage: MemoryStorage) -> None:
    """Check that each file of the newest manifest is there, and holds its range in order."""
    number = archived.newest_manifest(storage)
    assert number is not None
    assert storage.read(history_tree.VERSION_PATH) == str(number).encode()
    for each in archived.files_of_manifest(storage, number):
        content = storage.read(each.path)
        assert len(content) == each.size_bytes
        times = pq.read_table(io.BytesIO(content)).column("instantTime").to_pylist()
        assert (times[0], times[-1]) == (each.first, each.last)
        assert times == sorted(set(times))


def mutations(kind: Mapping[str, bool]) -> int:
    recorder = faulty_storage.NoFaults()
    world = world_with(recorder, kind)
    before = len(recorder.mutations)
    archive(world, world.writer("victim"))
    return len(recorder.mutations) - before


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE, Fault.CRASH_AFTER])
def test_archiver_killed_at_any_call_is_continued(kind: Mapping[str, bool], fault: Fault) -> None:
    """T-X07."""
    count = mutations(kind)
    assert count > WRITES
    for number in range(count):
        world = world_with(faulty_storage.FaultAt("victim", number, fault), kind)
        before, seen = instants_of(world), seen_by_a_reader(world)
        with pytest.raises(schedule.Crash):
            archive(world, world.writer("victim"))
        assert instants_of(world) == before, number
        assert seen_by_a_reader(world) == seen, number
        assert not loaded(world).pending, number
        world.time.advance(world.lock.session_ms + 1)
        archive(world, world.writer("successor"))
        assert instants_of(world) == before, number
        assert seen_by_a_reader(world) == seen, number
        assert len(loaded(world).completed_writes) == POLICY.commits_min, number
        check_tree(world.storage)
        write(world, 1)
        assert before.items() <= instants_of(world).items()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fault", [Fault.FAIL_BEFORE, Fault.FAIL_AFTER, Fault.LOST_ANSWER])
def test_archiver_whose_storage_fails_at_any_call_succeeds_on_retry(
    kind: Mapping[str, bool], fault: Fault
) -> None:
    for number in range(mutations(kind)):
        world = world_with(faulty_storage.FaultAt("victim", number, fault), kind)
        before, seen = instants_of(world), seen_by_a_reader(world)
        victim = world.writer("victim")
        with contextlib.suppress(errors.StorageError, errors.OutcomeUnknownError):
            archive(world, victim)
        assert instants_of(world) == before, number
        archive(world, victim)
        assert instants_of(world) == before, number
        assert seen_by_a_reader(world) == seen, number
        assert len(loaded(world).completed_writes) == POLICY.commits_min, number
        check_tree(world.storage)


class PausedAt(faulty_storage.Interruption):
    """Something happens once, right before one call of one process."""

    def __init__(self, process_name: str, call: str) -> None:
        self.meanwhile: Callable[[], None] = lambda: None
        super().__init__(process_name, call, self._happen)

    def _happen(self) -> None:
        self.meanwhile()


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
    work: Callable[[World, Client], None], meanwhile: Callable[[World], None]
) -> int:
    """Let a process be paused before each of its calls in turn; return how many these are."""
    number = 0
    while True:
        paused = Paused("victim", number)
        world = world_with(paused, {"is_lying": True})
        before: Found = {}

        def others(world: World = world, before: Found = before) -> None:
            meanwhile(world)
            before.update(instants_of(world))

        paused.meanwhile = others
        work(world, world.writer("victim"))
        if not paused.is_over:
            return number
        found = instants_of(world)
        assert before.items() <= found.items(), number
        invisible = [each for each in loaded(world).pending if each.action.is_write]
        assert not invisible, number
        check_tree(world.storage)
        groups = seen_by_a_reader(world)
        newest = max(loaded(world).completed_writes, key=lambda each: each.completion_time or "")
        assert all(times[-1] == newest.requested_time for times in groups.values()), number
        archive(world, world.writer("last"))
        assert instants_of(world) == found, number
        assert len(loaded(world).completed_writes) <= POLICY.commits_max, number
        check_tree(world.storage)
        number += 1


def test_archiver_paused_before_any_call_loses_nothing_that_others_do() -> None:
    """The lock excludes nobody: others write and archive, until its number has been deleted."""

    def others(world: World) -> None:
        for _ in range(3):
            write(world, WRITES)
            archive(world, world.writer("another"))

    assert paused_at_every_call(archive, others) > 20


def test_archiver_paused_before_any_call_while_another_archives_the_same() -> None:
    """Both put the same instants into a file of the same name."""

    def others(world: World) -> None:
        archive(world, world.writer("another"))

    assert paused_at_every_call(archive, others) > 20


def test_writer_paused_before_any_call_while_others_archive_past_it() -> None:
    """Its requested file may come late, and its completed file again."""

    def work(world: World, client: Client) -> None:
        for _ in range(10):
            try:
                world.write(client, "late")
            except errors.ConflictError:
                continue
            return
        raise AssertionError("the write is refused for ever")

    def others(world: World) -> None:
        for _ in range(3):
            write(world, WRITES)
            archive(world, world.writer("another"))

    number = 0
    while True:
        paused = Paused("victim", number)
        world = world_with(paused, {"is_lying": True})
        before: Found = {}

        def meanwhile(world: World = world, before: Found = before) -> None:
            others(world)
            before.update(instants_of(world))

        paused.meanwhile = meanwhile
        work(world, world.writer("victim"))
        if not paused.is_over:
            break
        assert before.items() <= instants_of(world).items(), number
        write(world, 1)
        assert before.items() <= instants_of(world).items(), number
        number += 1
    assert number > 20


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_completed", [False, True])
def test_file_that_appears_after_its_write_was_archived_takes_nothing_back(
    kind: Mapping[str, bool], is_completed: bool
) -> None:
    """A retried request may take effect as late as that; what was acknowledged stays."""
    world = world_with(faulty_storage.NoFaults(), kind)
    *_, oldest = archived.ArchivedTimeline(world.storage).newest_first()
    late = oldest.instant if is_completed else oldest.instant.pending_in(instants.State.REQUESTED)
    world.storage.create(transitions.path(late), oldest.metadata if is_completed else b"")
    before, seen = instants_of(world), seen_by_a_reader(world)
    assert late.requested_time not in {each.requested_time for each in loaded(world).instants}
    world.time.now_ms += SETTINGS.heartbeat_expiry_ms + 1
    janitor = world.writer("janitor")
    assert failed_writes.roll_back_all(janitor, world.config, loaded(world)).done == ()
    assert (instants_of(world), seen_by_a_reader(world)) == (before, seen)
    write(world, 1)
    archive(world, janitor)
    assert instant_names.file_name(late) not in active.names(world.storage)
    assert before.items() <= instants_of(world).items()


@pytest.mark.parametrize("kind", KINDS)
def test_write_that_was_taken_back_and_appears_again_hides_nothing(
    kind: Mapping[str, bool],
) -> None:
    """Taken for the beginning of the timeline, it would hide what was archived after it."""
    world = world_with(faulty_storage.NoFaults(), kind, archives=False)
    victim = world.writer("victim")
    opened = world.begin(victim)
    requested = opened.requested
    content = world.storage.read(transitions.path(requested))
    lifecycle.abort(victim, opened)
    janitor = world.writer("janitor")
    roll_back(world, janitor)
    assert loaded(world).find(requested.requested_time) is None
    write(world, WRITES)
    archive(world, janitor)
    before, seen = instants_of(world), seen_by_a_reader(world)
    assert loaded(world).is_archived(requested.requested_time)
    world.storage.create(transitions.path(requested), content)
    assert loaded(world).late == {requested.requested_time}
    assert (instants_of(world), seen_by_a_reader(world)) == (before, seen)
    world.time.now_ms += SETTINGS.heartbeat_expiry_ms + 1
    roll_back(world, janitor)
    assert not loaded(world).late
    assert before.items() <= instants_of(world).items()
    assert seen_by_a_reader(world) == seen


def test_compaction_that_was_taken_back_once_counts_when_it_is_archived() -> None:
    """It is executed again; the rollback that took it back is still on the timeline."""
    world = World(write_settings=OPTIMISTIC)
    write(world, 2)
    compactor = world.writer("compactor")
    planned = world.schedule_compaction(compactor)
    assert planned is not None
    write(world, WRITES)
    stopped = lifecycle.take_over(
        compactor, instants.Action.COMPACTION, planned.requested_time, world.config
    )
    assert stopped is not None
    lifecycle.start(compactor, stopped)
    lifecycle.abort(compactor, stopped)
    failed_writes.roll_back(compactor, world.config, planned.requested_time)
    world.compact(compactor, planned.requested_time)
    world.time.advance(SETTINGS.heartbeat_expiry_ms)
    write(world, POLICY.commits_min)
    newest_alone = retention.Retention(policy=retention.Policy.VERSIONS, retained=1, grace_ms=0)
    world.clean(compactor, newest_alone)
    before = seen_by_a_reader(world)
    archive(world, world.writer("archiver"))
    timeline = loaded(world)
    assert timeline.is_archived(planned.requested_time)
    assert [each.action for each in timeline.instants].count(instants.Action.ROLLBACK) == 1
    assert seen_by_a_reader(world) == before


def test_batch_of_a_commit_that_appeared_late_and_was_archived_is_held() -> None:
    """No ledger holds it: those of later commits were made before it appeared."""
    world = world_with(faulty_storage.NoFaults(), {}, archives=False)
    late = world.writer("late")
    world.write(late, "b1")
    written = loaded(world).completed_writes[-1]
    path = transitions.path(written)
    content = world.storage.read(path)
    world.storage.delete(path)
    write(world, WRITES)
    world.storage.create(path, content)
    archive(world, world.writer("archiver"))
    timeline = loaded(world)
    assert timeline.is_archived(written.requested_time)
    assert writer_batches.read(world.storage, timeline).last("late") is None
    assert isinstance(world.write(late, "b1"), AlreadyWritten)
    assert isinstance(world.write(late, "b2"), Completion)


def test_claim_that_comes_after_its_time_was_archived_is_taken_again() -> None:
    """E5: another write had the time, and is archived."""
    paused = PausedAt("victim", "create .hoodie/.heartbeat")
    world = world_with(paused, {"is_lying": True})

    def others() -> None:
        write(world, WRITES)
        archive(world, world.writer("another"))

    paused.meanwhile = others
    opened = world.begin(world.writer("victim"))
    timeline = loaded(world)
    assert not timeline.late
    assert all(each.requested_time < opened.requested_time for each in timeline.completed_writes)


def test_late_claim_is_refused_and_counts_for_nothing() -> None:
    """E5: the table is archived for the first time while its creator is paused."""
    paused = PausedAt("victim", "create .hoodie/.heartbeat")
    world = world_with(paused, {"is_lying": True}, archives=False)

    def others() -> None:
        world.time.advance(LATE_MS)  # So that nobody else has its time.
        for _ in range(2):
            write(world, WRITES)
            archive(world, world.writer("another"))

    paused.meanwhile = others
    victim = world.writer("victim")
    opened = world.begin(victim)
    late = opened.requested_time
    stats = write_data(victim, opened, GROUPS)
    timeline = loaded(world)
    assert timeline.late == {late}
    assert not timeline.is_committed(late)
    found = instants_of(world)
    assert late not in found
    assert all(late not in times for times in seen_by_a_reader(world).values())
    with pytest.raises(errors.ConflictError, match="archived past that time"):
        lifecycle.commit(victim, opened, metadata(stats))
    lifecycle.abort(victim, opened)
    assert instants_of(world) == found


def test_files_of_a_claim_whose_time_another_had_are_deleted() -> None:
    """E5: the table is archived for the first time meanwhile, so that it does not look."""
    paused = PausedAt("victim", "create .hoodie/.heartbeat")
    world = world_with(paused, {"is_lying": True}, archives=False)

    def others() -> None:
        for _ in range(2):
            write(world, WRITES)
            archive(world, world.writer("another"))

    paused.meanwhile = others
    victim = world.writer("victim")
    opened = world.begin(victim)
    found = instants_of(world)
    assert opened.requested_time in found
    stats = write_data(victim, opened, GROUPS)
    with pytest.raises(errors.ConflictError):
        lifecycle.commit(victim, opened, metadata(stats))
    lifecycle.abort(victim, opened)
    assert instants_of(world) == found
    assert not world.storage.list(markers.directory_of(opened.requested_time))
    left = {info.path for info in world.storage.list("p")}
    assert left.isdisjoint(stat.path for stat in stats)


@pytest.mark.parametrize("kind", KINDS)
def test_levels_are_merged_and_old_files_deleted(kind: Mapping[str, bool]) -> None:
    world = world_with(faulty_storage.NoFaults(), kind)
    for _ in range(22):
        write(world, 2)
        archive(world, world.writer("archiver"))
    found = instants_of(world)
    assert len(found) == 2 * WRITES + 44
    check_tree(world.storage)
    names = world.storage.names(history_tree.DIRECTORY)
    levels = [each.level for each in map(history_tree.parse_file, names) if each is not None]
    assert max(levels) == 1
    manifests = [each for each in names if each.startswith("manifest_")]
    assert len(manifests) == history_tree.MANIFESTS_KEPT
    number = archived.newest_manifest(world.storage)
    assert number is not None
    listed = archived.files_of_manifest(world.storage, number)
    assert len(listed) < 12
    assert len(levels) < 25


def test_more_than_a_head_lists_is_brought_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """E14: of a timeline of any length."""
    world = world_with(faulty_storage.NoFaults(), {"is_lying": True})
    monkeypatch.setattr(chain.epochs, "KNOWN_MAX", 2)
    first = loaded(world).completed_writes[0]
    path = f"{active.DIRECTORY}/{first.requested_time}_{first.completion_time}.commit"
    content = world.storage.read(path)
    loose = planning.Policy(commits_min=5, commits_max=6)
    write(world, 8)
    service.archive_by(world.writer("archiver"), world.config, loose)
    write(world, 3)
    assert len(loaded(world).completed) > 4
    before = instants_of(world)
    world.storage.create(path, content)
    assert instants_of(world) == before
    assert first not in loaded(world).completed
    write(world, 1)
    assert not world.storage.names(active.DIRECTORY).count(path.rpartition("/")[2])


def test_slow_writer_beside_an_archiver_is_found_where_it_completed() -> None:
    """T-N18, T-P08: it takes two days, and its completion time decides its file slice."""
    world = World(has_chain=True, write_settings=SETTINGS)
    writer, service_client = world.writer("other"), world.writer("compactor")
    slow_client = world.writer("slow")
    world.write(writer, "first")
    slow = world.begin(slow_client)
    stats = write_data(slow_client, slow, GROUPS)
    beaten = slow.heartbeat.is_alive
    for day in range(2):
        for _ in range(WRITES):
            world.write(writer, None)
        world.time.advance(86_400_000)
        assert beaten()
        planned = world.schedule_compaction(service_client)
        assert planned is not None, day
        world.compact(service_client, planned.requested_time)
        archive(world, world.writer("archiver"))
        assert loaded(world).find(slow.requested_time) is not None
    completed = lifecycle.commit(slow_client, slow, metadata(stats)).instant
    for _ in range(2):
        seen = seen_by_a_reader(world)
        assert all(slow.requested_time in times for times in seen.values())
        for _ in range(WRITES):
            world.write(writer, None)
        archive(world, world.writer("archiver"))
    assert loaded(world).find(slow.requested_time) is None
    assert loaded(world).completion_time(slow.requested_time) == completed.completion_time
    seen = seen_by_a_reader(world)
    assert all(slow.requested_time in times for times in seen.values())


@pytest.mark.parametrize("kind", KINDS)
def test_staged_file_of_a_dead_archiver_with_other_instants_is_not_taken_for_ours(
    kind: Mapping[str, bool],
) -> None:
    """Without a lock it may be published yet: it stays, and less is archived under another name."""
    world = world_with(faulty_storage.NoFaults(), kind)
    before, seen = instants_of(world), seen_by_a_reader(world)
    writes = [each for each in loaded(world).instants if each.is_completed]
    rows = history_writing.rows_of(
        world.storage, loaded(world), writes[: len(writes) - POLICY.commits_min]
    )
    others = rows.take([0, len(rows) - 1])
    staged = history_writing.stage(world.storage, others, lambda: None, may_replace=False)
    content = world.storage.read(staged.path)
    archive(world, world.writer("successor"))
    assert instants_of(world) == before
    assert seen_by_a_reader(world) == seen
    check_tree(world.storage)
    if "is_lying" in kind:
        assert world.storage.read(staged.path) == content


@pytest.mark.parametrize("kind", KINDS)
def test_later_runs_archive_more_at_once(
    kind: Mapping[str, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "COUNT_MAX", 1)
    world = world_with(faulty_storage.NoFaults(), kind, archives=False)
    write(world, WRITES)
    before, seen = instants_of(world), seen_by_a_reader(world)
    archive(world, world.writer("archiver"))
    assert len(loaded(world).completed_writes) == POLICY.commits_min
    assert archived.newest_manifest(world.storage) == 3
    assert instants_of(world) == before
    assert seen_by_a_reader(world) == seen


class Torn(MemoryStorage):
    """A storage with one listing that shows files which vanished while it lasted."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store)
        self.vanished: list[str] = []

    def names(self, directory: str) -> list[str]:
        found = [*super().names(directory)]
        if directory == active.DIRECTORY:
            found += self.vanished
            self.vanished = []
        return found


def test_reader_whose_listing_lasts_while_others_archive_sees_no_gap() -> None:
    """It has the oldest instant, lacks the next ones, and has read the head before."""
    world = world_with(faulty_storage.NoFaults(), {"is_lying": True})
    before = instants_of(world)
    first = loaded(world).completed_writes[0]
    names = [each for each in world.storage.names(active.DIRECTORY) if first.requested_time in each]
    storage = Torn(world.store)
    assert world.config.chain is not None
    reader = chain.Chain(storage, world.config.chain.id, has_foreign_writers=False)
    head = reader.head()
    archive(world, world.writer("archiver"))
    storage.vanished = names
    heads = iter([head])
    now = reader.head
    reader.head = lambda: next(heads, None) or now()  # type: ignore[method-assign]
    timeline = reader.timeline()
    assert all(timeline.is_committed(time) for time in before)
    assert all(timeline.completion_time(time) == before[time] for time in before)


def test_policy_that_contradicts_itself_changes_nothing() -> None:
    world = world_with(faulty_storage.NoFaults(), {"is_lying": True})
    with pytest.raises(errors.ConfigurationError, match=r"hoodie\.keep\.min\.commits=5"):
        service.archive_by(
            world.writer("a"), world.config, replace(POLICY, commits_min=5, commits_max=5)
        )


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("config", [COPY_ON_WRITE, CONFIG], ids=["copy-on-write", "merge-on-read"])
def test_archivers_writers_and_readers_at_once_without_a_lock(
    config: table_config.TableConfig, seed: int
) -> None:
    """Each read has all that was acknowledged before it began, wherever its instant is by then."""
    world = World(
        schedule.Schedule(seed, steps_max=200_000),
        write_settings=OPTIMISTIC,
        config=config,
        is_lying=True,
    )
    world.page_names = 5  # Listings are not of one moment.
    write(world, WRITES)
    acknowledged = list(loaded(world).completed_writes)
    working = {"w1", "w2"}

    def write_some(client: Client) -> None:
        for _ in range(WRITES):
            with contextlib.suppress(errors.ConflictError):
                completion = world.write(client, None)
                assert isinstance(completion, Completion)
                acknowledged.append(completion.instant)
        working.discard(world.process_of(client).name)

    def archive_some(client: Client) -> None:
        while working:
            roll_back(world, client)
            archive(world, client)

    def read_some(client: Client) -> None:
        for _ in range(WRITES):
            before = {each.requested_time for each in acknowledged}
            seen = world.read(client).seen
            for group in GROUPS if before else ():
                assert before <= set(seen[group]), group

    for name, work in [
        ("w1", write_some),
        ("w2", write_some),
        ("a1", archive_some),
        ("a2", archive_some),
        ("r", read_some),
    ]:
        process = world.process(name)
        client = world.client(process)
        world.time.spawn(name, process, functools.partial(work, client))
    world.time.run()
    found = instants_of(world)
    for each in acknowledged:
        assert found[each.requested_time] == each.completion_time
    check_tree(world.storage)
    last = world.writer("last")
    world.time.advance(OPTIMISTIC.heartbeat_expiry_ms)
    roll_back(world, last)
    before, seen = instants_of(world), seen_by_a_reader(world)
    archive(world, last)
    assert instants_of(world) == before
    assert seen_by_a_reader(world) == seen
    assert len(loaded(world).completed_writes) <= POLICY.commits_max
