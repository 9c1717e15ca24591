"""Signs of life: who judges them, by which clock, and what a late one means (2.8, H1 to H3, C2)."""

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from hoodie import environment, errors, identity
from hoodie.model.instants import InstantTime
from hoodie.model.settings import WriteSettings
from hoodie.storage.local import LocalStorage
from hoodie.storage.memory import MemoryStorage
from hoodie.storage.protocol import FileInfo
from hoodie.transaction import heartbeats, layout
from hoodie.transaction.heartbeats import Heartbeat, Heartbeats, Liveness, Owner
from support.simulation import faulty_storage, schedule
from support.simulation.schedule_world import SETTINGS, World

TIME = InstantTime("20260528202640000")
PATH = f"{layout.HEARTBEATS}/{TIME}"
EXPIRY_MS = SETTINGS.heartbeat_expiry_ms


def owner(process: schedule.Process, write_id: str = "1") -> Owner:
    return Owner(name=process.name, write_id=write_id, process=process.process)


class Heart:
    """A process with a heartbeat on a storage that others see, too."""

    def __init__(
        self, faults: faulty_storage.Faults | None = None, *, host: str = "host", skew_ms: int = 0
    ) -> None:
        self.world = World()
        self.process = self.world.process("writer", host=host, offset_ms=skew_ms)
        self.storage = faulty_storage.FaultyStorage(
            self.world.storage, self.process, faults or faulty_storage.NoFaults()
        )
        self.heartbeat: Heartbeat = self.heartbeats(self.process, self.storage).start(
            TIME, owner(self.process)
        )

    def heartbeats(self, process: schedule.Process, storage: object | None = None) -> Heartbeats:
        return Heartbeats(
            storage or self.world.storage,  # type: ignore[arg-type] # a faulty one is a Storage
            process.clock,
            process.background,
            SETTINGS,
            self.world.time.is_proved_dead,
        )

    def seen(self) -> Liveness:
        """Return what another process knows of it, one whose own clock is hours ahead."""
        other = self.world.process("other", offset_ms=10 * 60_000)
        return self.heartbeats(other).look(TIME).liveness

    def beats(self) -> int:
        return sum(call == f"touch {PATH}" for call in self.storage.calls)


def test_first_beat_is_there_at_once_and_names_its_owner() -> None:
    heart = Heart()
    assert heart.heartbeat.is_alive()
    assert heart.heartbeat.is_own()
    assert heart.seen() is Liveness.BEATING
    status = heart.heartbeats(heart.process).look(TIME)
    assert status.owner == owner(heart.process)
    assert status.silence_ms == 0


def test_beats_go_on_for_as_long_as_the_work_takes() -> None:
    """T-H05: however long that is."""
    heart = Heart()
    heart.world.time.advance(20 * EXPIRY_MS)
    assert heart.heartbeat.is_alive()
    assert heart.seen() is Liveness.BEATING
    assert heart.beats() == 20 * SETTINGS.heartbeat_misses_max


def test_clock_of_whoever_looks_does_not_matter() -> None:
    """T-H07, H1: `seen` looks with a clock ten minutes ahead, the owner's is an hour behind."""
    heart = Heart(skew_ms=-3_600_000)
    heart.world.time.advance(EXPIRY_MS - 1)
    assert heart.seen() is Liveness.BEATING


def test_pause_of_whoever_looks_is_no_silence() -> None:
    """The owner beats on while the look lasts. The simulation found that."""
    heart = Heart()
    judge = heart.world.process("judge")

    def pause() -> None:
        heart.world.time.advance(2 * EXPIRY_MS)

    faults = faulty_storage.Interruption("judge", f"read {PATH}", pause)
    storage = faulty_storage.FaultyStorage(heart.world.storage, judge, faults)
    assert heart.heartbeats(judge, storage).look(TIME).liveness is Liveness.BEATING
    assert heart.heartbeat.is_alive()


def test_silence_for_the_expiry_is_death_for_everybody() -> None:
    heart = Heart(host="another")
    heart.process.pause(EXPIRY_MS)
    heart.world.time.advance(EXPIRY_MS - 1)
    assert heart.seen() is Liveness.BEATING
    heart.world.time.advance(1)
    assert heart.seen() is Liveness.EXPIRED
    assert not heart.heartbeat.is_alive()


def test_beat_that_comes_too_late_revives_nothing() -> None:
    """T-H04, C2: the timer runs first after the pause, and must not touch the file."""
    heart = Heart()
    heart.process.pause(2 * EXPIRY_MS)
    heart.world.time.advance(3 * EXPIRY_MS)
    assert heart.beats() == 0
    assert heart.seen() is Liveness.EXPIRED
    assert not heart.heartbeat.is_alive()
    heart.world.time.advance(EXPIRY_MS)
    assert heart.beats() == 0


def test_owner_that_notices_before_its_timer_is_dead_for_good() -> None:
    heart = Heart()
    heart.process.pause(EXPIRY_MS)
    heart.world.time.advance(EXPIRY_MS - 1)
    assert heart.heartbeat.is_alive()
    heart.process.paused_until_ms += 10
    heart.world.time.advance(1)
    assert not heart.heartbeat.is_alive()
    heart.world.time.advance(EXPIRY_MS)
    assert heart.beats() == 0


def test_heartbeat_is_dead_in_a_process_that_was_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """C2: its beats are those of the process that began it."""
    heart = Heart()
    forked = identity.process_id() + 1
    monkeypatch.setattr(identity, "process_id", lambda: forked)
    with pytest.raises(errors.HeartbeatExpiredError):
        heart.heartbeat.check()
    assert heart.seen() is Liveness.BEATING


def test_task_looks_for_the_heartbeat_once_an_interval_and_after_every_pause() -> None:
    """P1: without a request for each file."""
    heart = Heart()
    storage = faulty_storage.FaultyStorage(
        heart.world.storage, heart.process, faulty_storage.NoFaults()
    )
    interval_ms = SETTINGS.heartbeat_interval_ms
    watch = heartbeats.Watch(TIME, "1", interval_ms, heart.process.clock)
    for _ in range(10):
        watch.check(storage)
    assert storage.calls == [f"read {PATH}"]
    heart.world.time.advance(interval_ms)
    watch.check(storage)
    assert storage.calls == [f"read {PATH}"] * 2
    heart.process.crash()
    other = heart.world.process("other")
    heart.heartbeats(other).take_over(TIME, owner(other, "2"))
    heart.world.time.advance(interval_ms)
    with pytest.raises(errors.HeartbeatExpiredError, match=r"is now of other \(pid"):
        watch.check(heart.world.storage)
    heart.world.storage.delete(PATH)
    with pytest.raises(errors.HeartbeatExpiredError, match="was deleted"):
        watch.check(heart.world.storage)


class _SlowTouch(MemoryStorage):
    """A storage whose touches take long: the process is stopped in the middle of one."""

    def __init__(self, inner: object, stop: Callable[[], None]) -> None:
        super().__init__()
        self._inner = inner
        self._stop = stop

    def __getattribute__(self, name: str) -> object:
        if name in {"touch", "_inner", "_stop"}:
            return object.__getattribute__(self, name)
        return getattr(object.__getattribute__(self, "_inner"), name)

    def touch(self, path: str) -> FileInfo:
        self._stop()
        return self._inner.touch(path)  # type: ignore[attr-defined,no-any-return] # a storage


def test_beat_that_was_written_too_late_kills() -> None:
    """C2: the process is stopped between the look at the clock and the write."""
    world = World()
    process = world.process("writer")

    def stop() -> None:
        world.time.now_ms += EXPIRY_MS

    storage = _SlowTouch(world.storage, stop)
    beating = Heartbeats(storage, process.clock, process.background, SETTINGS)
    heartbeat = beating.start(TIME, owner(process))
    world.time.advance(SETTINGS.heartbeat_interval_ms)
    assert not heartbeat.is_alive()


class _SlowAnswer(_SlowTouch):
    """A storage whose touches take effect at once, and are answered late."""

    def touch(self, path: str) -> FileInfo:
        info = self._inner.touch(path)  # type: ignore[attr-defined] # a storage
        self._stop()
        return info  # type: ignore[no-any-return] # as above


def test_life_is_counted_from_the_begin_of_a_touch() -> None:
    """H1, C2: others count from when the file was changed, and may be at work after that."""
    world = World()
    process = world.process("writer")
    delay_ms = SETTINGS.heartbeat_interval_ms // 2

    def wait() -> None:
        world.time.now_ms += delay_ms

    storage = _SlowAnswer(world.storage, wait)
    beating = Heartbeats(storage, process.clock, process.background, SETTINGS)
    heartbeat = beating.start(TIME, owner(process))
    world.time.advance(SETTINGS.heartbeat_interval_ms)
    touched_ms = world.storage.stat(PATH).modified_ms
    process.pause(2 * EXPIRY_MS)
    world.time.advance(touched_ms + EXPIRY_MS - world.time.now_ms - 1)
    assert heartbeat.is_alive()
    world.time.advance(1)
    assert not heartbeat.is_alive()


def test_failed_beats_are_survived_below_the_limit() -> None:
    """T-H06."""

    class Failing:
        failures = SETTINGS.heartbeat_misses_max - 1

        def at(
            self, process: schedule.Process, call: str, *, is_mutation: bool
        ) -> faulty_storage.Fault:
            del process, is_mutation
            if call.startswith("touch") and self.failures > 0:
                self.failures -= 1
                return faulty_storage.Fault.FAIL_BEFORE
            return faulty_storage.Fault.NONE

    faults = Failing()
    heart = Heart(faults)
    heart.world.time.advance(EXPIRY_MS - 1)
    assert heart.heartbeat.is_alive()
    heart.world.time.advance(10 * EXPIRY_MS)
    # One beat short of the limit: at the very limit it is too late.
    assert not heart.heartbeat.is_alive()

    faults = Failing()
    faults.failures -= 1
    heart = Heart(faults)
    heart.world.time.advance(10 * EXPIRY_MS)
    assert heart.heartbeat.is_alive()


def test_missing_file_is_expired_and_noticed_by_its_owner() -> None:
    """T-H08."""
    heart = Heart()
    heart.world.storage.delete(PATH)
    assert heart.seen() is Liveness.MISSING
    assert not Liveness.MISSING.is_alive
    assert not heart.heartbeat.is_own()
    heart.world.time.advance(SETTINGS.heartbeat_interval_ms)
    assert not heart.heartbeat.is_alive()


def test_ended_heartbeat_leaves_nothing() -> None:
    heart = Heart()
    heart.heartbeat.end()
    heart.world.time.advance(EXPIRY_MS)
    assert heart.seen() is Liveness.MISSING
    assert not heart.heartbeat.is_alive()
    assert heart.beats() == 0


def test_stopped_heartbeat_expires_by_itself() -> None:
    heart = Heart()
    heart.heartbeat.stop()
    assert heart.seen() is Liveness.BEATING
    heart.world.time.advance(EXPIRY_MS)
    assert heart.seen() is Liveness.EXPIRED


def test_owner_proved_dead_on_this_machine_is_not_waited_for() -> None:
    heart = Heart()
    heart.process.crash()
    assert heart.seen() is Liveness.PROVED_DEAD


def test_owner_proved_dead_is_waited_for_while_its_last_request_may_take_effect() -> None:
    """As long as it may have lived after its last beat, and a request takes; not for the expiry."""
    heart = Heart()
    heart.process.crash()
    late = faulty_storage.LateStorage(heart.world.store)
    lives = heart.heartbeats(heart.world.process("other"), late)
    settled_ms = SETTINGS.heartbeat_interval_ms + late.request_time_ms
    assert settled_ms < EXPIRY_MS
    heart.world.time.advance(settled_ms - 1)
    assert lives.look(TIME).liveness is Liveness.BEATING
    heart.world.time.advance(1)
    assert lives.look(TIME).liveness is Liveness.PROVED_DEAD


def test_owner_on_another_machine_is_waited_for() -> None:
    heart = Heart(host="another")
    heart.process.crash()
    assert heart.seen() is Liveness.BEATING
    heart.world.time.advance(EXPIRY_MS)
    assert heart.seen() is Liveness.EXPIRED


class _WholeSeconds(MemoryStorage):
    """A storage that tells times in whole seconds, as S3 does."""

    def stat(self, path: str) -> FileInfo:
        return self._rounded(super().stat(path))

    def touch(self, path: str) -> FileInfo:
        return self._rounded(super().touch(path))

    def _rounded(self, info: FileInfo) -> FileInfo:
        whole_ms = info.modified_ms // 1000 * 1000
        return dataclasses.replace(info, modified_ms=whole_ms, modified_step_ms=1000)


@pytest.mark.parametrize("begun_ms", [0, 1, 500, 999])
def test_whole_seconds_never_make_a_silence_longer_than_it_is(begun_ms: int) -> None:
    """H1: nobody is expired for others before it is for itself."""
    heart = Heart(host="another")
    storage = _WholeSeconds(heart.world.store)
    heart.world.time.advance(begun_ms)
    storage.touch(PATH)
    heart.heartbeat.stop()
    other = heart.world.process("other")
    heart.world.time.advance(EXPIRY_MS - 1)
    assert heart.heartbeats(other, storage).look(TIME).liveness is Liveness.BEATING
    heart.world.time.advance(2000)
    assert heart.heartbeats(other, storage).look(TIME).liveness is Liveness.EXPIRED


def test_store_whose_clock_was_set_back_does_not_make_new_heartbeats_look_old(
    tmp_path: Path,
) -> None:
    """H1: the probe was touched while the clock was an hour ahead."""
    storage = LocalStorage(str(tmp_path))
    env = environment.system(parallelism=1)
    lives = Heartbeats(storage, env.clock, env.background, SETTINGS)
    storage.touch(layout.PROBE)
    ahead_s = env.clock.now_ms() / 1000 + 3600
    os.utime(tmp_path / layout.PROBE, (ahead_s, ahead_s))
    started = lives.start(TIME, Owner(name="writer", write_id="1", process=env.process))
    try:
        assert lives.look(TIME).liveness is Liveness.BEATING
    finally:
        started.end()


def test_live_owner_is_not_replaced() -> None:
    """P1, T-C04: the message names who it is."""
    heart = Heart()
    other = heart.world.process("other")
    with pytest.raises(errors.ConflictError, match=rf"{TIME}.*writer \(pid 1 on host\).* 0 ms"):
        heart.heartbeats(other).take_over(TIME, owner(other, "2"))
    assert heart.heartbeat.is_own()


def test_time_of_a_dead_owner_is_not_given_again() -> None:
    """A lock that lies may give a new write the time of one that is wrongly taken for dead."""
    heart = Heart()
    heart.process.pause(3 * EXPIRY_MS)
    heart.world.time.advance(EXPIRY_MS)
    other = heart.world.process("other")
    with pytest.raises(errors.AlreadyExistsError):
        heart.heartbeats(other).start(TIME, owner(other, "2"))
    assert heart.heartbeat.is_own()


def test_dead_owner_is_replaced_and_knows_it_when_it_comes_back() -> None:
    """P1, T-C05."""
    heart = Heart(host="another")
    heart.process.pause(3 * EXPIRY_MS)
    heart.world.time.advance(EXPIRY_MS)
    other = heart.world.process("other")
    successor = heart.heartbeats(other).take_over(TIME, owner(other, "2"))
    assert successor.is_own()
    assert not heart.heartbeat.is_own()
    heart.world.time.advance(5 * EXPIRY_MS)
    assert heart.beats() == 0
    assert successor.is_alive()


@pytest.mark.parametrize(
    "fault", [faulty_storage.Fault.FAIL_AFTER, faulty_storage.Fault.LOST_ANSWER]
)
def test_first_beat_whose_answer_was_lost_is_ours(fault: faulty_storage.Fault) -> None:
    assert Heart(faulty_storage.FaultAt("writer", 0, fault)).heartbeat.is_own()


def test_writers_of_apache_hudi_are_judged_by_time_alone() -> None:
    heart = Heart()
    heart.world.storage.delete(PATH)
    heart.world.storage.touch(PATH)  # Empty, as Java writes it.
    status = heart.heartbeats(heart.process).look(TIME)
    assert (status.liveness, status.owner) == (Liveness.BEATING, None)
    heart.heartbeat.stop()
    heart.world.time.advance(EXPIRY_MS)
    assert heart.seen() is Liveness.EXPIRED


def test_many_are_looked_at_with_one_probe() -> None:
    heart = Heart()
    storage = faulty_storage.FaultyStorage(
        heart.world.storage, heart.process, faulty_storage.NoFaults()
    )
    times = [TIME, *(InstantTime(f"2026052820264000{n}") for n in range(1, 9))]
    seen = heart.heartbeats(heart.process, storage).look_at(times)
    assert [each.liveness for each in seen.values()].count(Liveness.MISSING) == 8
    assert storage.calls.count(f"touch {layout.PROBE}") == 1


@pytest.mark.parametrize(
    ("interval_ms", "misses", "session_ms", "is_refused"),
    [
        (60_000, 10, 60_000, False),
        (60_000, 2, 20_000, False),
        (60_000, 2, 60_000, True),
        (1_000, 2, 0, False),
        (1_000, 1, 0, True),
        (1_000, 10, 20_000, True),
    ],
)
def test_expiry_must_outlast_interval_write_and_session(
    interval_ms: int, misses: int, session_ms: int, *, is_refused: bool
) -> None:
    """H3."""
    settings = WriteSettings(heartbeat_interval_ms=interval_ms, heartbeat_misses_max=misses)
    refusal = heartbeats.settings_refusal(settings, session_ms)
    assert (refusal is not None) == is_refused
    if refusal is not None:
        assert f"lock session {session_ms}" in str(refusal)


def test_this_very_process_is_not_proved_dead() -> None:
    assert not identity.is_proved_dead(identity.current_process())
