"""Clocks on the wall in a simulated world: tables in local time while clocks are changed.

Terms:
    change      the moment at which the clocks of a zone are put back, or forward
    JVM writer  writes as ours do, but takes its times from its own clock, and looks at no timeline;
                as Apache Hudi's writers it waits for the allowed skew while it holds the lock. Each
                of its batches is written by a new JVM
    went back   of an instant of a JVM writer: a time of it is below one that was there before

The hour that comes twice is long for a run. So the calendar lets the world work for some seconds
at each of its borders, and then leaps to the next one: heartbeats go on meanwhile, and what is open
stays open.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from hoodie import errors
from hoodie.model import instants, settings, table_config, time_zones
from hoodie.storage.protocol import Storage
from hoodie.timeline import active, clock_evidence, true_time
from hoodie.transaction.client import Client
from support.simulation import schedule

_PLANS = (instants.Action.COMPACTION, instants.Action.CLEAN)
_APART_MS = 10_000
"""Files whose times differ by more are told apart by stores, whatever the clocks of processes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of clocks.

    Attributes:
        zone: By its name.
        change_ms: When they are changed, since the epoch.
        back_ms: By how much they are put back; negative if they are put forward.
    """

    zone: str
    change_ms: int
    back_ms: int

    @property
    def borders_ms(self) -> tuple[int, ...]:
        """Moments at which what clocks show begins to be repeated, begins again, and is over."""
        if self.back_ms < 0:
            return (self.change_ms,)
        return (self.change_ms - self.back_ms, self.change_ms, self.change_ms + self.back_ms)


_HOUR_MS = 3_600_000

CHANGES = (
    Change(zone="Europe/Berlin", change_ms=1_792_890_000_000, back_ms=_HOUR_MS),
    Change(zone="America/New_York", change_ms=1_793_512_800_000, back_ms=_HOUR_MS),
    Change(zone="Australia/Lord_Howe", change_ms=1_775_314_800_000, back_ms=_HOUR_MS // 2),
    # Summer is its standard time, and winter an hour less.
    Change(zone="Europe/Dublin", change_ms=1_792_890_000_000, back_ms=_HOUR_MS),
    # Without daylight saving: it took another standard time, in 2020.
    Change(zone="Europe/Volgograd", change_ms=1_609_020_000_000, back_ms=_HOUR_MS),
    Change(zone="Europe/Berlin", change_ms=1_774_746_000_000, back_ms=-_HOUR_MS),
)


def zone_properties(zone: time_zones.TimeZone) -> Mapping[str, str]:
    """Return the properties of a table of Apache Hudi in the local time of a zone; none in UTC."""
    if zone.is_utc:
        return {}
    return {"hoodie.table.timeline.timezone": "LOCAL", table_config.TIME_ZONE_KEY: zone.name}


class JvmTimes(true_time.TimeGenerator):
    """Gives the times of one JVM: what its clock shows, above those that it gave before."""

    def __init__(
        self,
        clock: schedule.VirtualClock,
        write_settings: settings.WriteSettings,
        zone: time_zones.TimeZone,
    ) -> None:
        super().__init__(clock, write_settings, zone)
        self._jvm_clock = clock
        self._jvm_zone = zone
        self._wait_s = write_settings.clock_wait_ms / 1000
        self._last = ""

    def next(self, timeline: active.ActiveTimeline) -> instants.InstantTime:
        """Return a time.

        Raises:
            ClockSkewError: Clocks were put back since this JVM gave one: it would wait until they
                have passed it.
        """
        time = self._jvm_zone.format(self._jvm_clock.now_ms())
        taken = {each.requested_time for each in timeline.instants}
        taken |= {each.completion_time for each in timeline.completed if each.completion_time}
        # With a file of that time there it begins again, a moment later.
        while time in taken:
            time = instants.next_time(time)
        if time <= self._last:
            raise errors.ClockSkewError(f"a JVM that has given {self._last} waits, to give {time}")
        self._last = time
        return time

    def generate(self, timeline: active.ActiveTimeline) -> instants.InstantTime:
        """Return a time, after the skew.

        Raises:
            ClockSkewError: As `next`.
        """
        time = self.next(timeline)
        self._jvm_clock.sleep_s(self._wait_s)
        return time


def renew_jvm(client: Client) -> None:
    """Let a JVM writer go on in another JVM."""
    assert isinstance(client.clock, schedule.VirtualClock)
    client.times = JvmTimes(client.clock, client.settings, client.time_zone)


def follow_calendar(
    time: schedule.Schedule, lock: schedule.SessionLock, client: Client, change: Change
) -> None:
    """Let the world work for a while at each border of a change, and leap to the next.

    While the lock is held no long time passes: nobody has it for that long.
    """
    for border_ms in change.borders_ms[1:]:
        client.clock.sleep_s(4 + 8 * client.random.uniform())
        while lock.holder is not None:
            client.clock.sleep_s(0.01)
        before_ms = int(6_000 * client.random.uniform())
        leap_ms = border_ms - before_ms - time.now_ms
        if leap_ms > 0:
            time.note(f"the calendar leaps {leap_ms} ms")
            _leap(time, leap_ms)


def _leap(time: schedule.Schedule, leap_ms: int) -> None:
    """Let a long time pass in which heartbeats reach the storage."""
    exposed = [each for each in time.processes.values() if not each.is_spared]
    for each in exposed:
        each.is_spared = True
    time.advance(leap_ms)
    for each in exposed:
        each.is_spared = False


@dataclass(slots=True)
class WallJudge:
    """Judges each file of a timeline in local time when it is created.

    Attributes:
        time: The world's.
        storage: The table's, with the instants that were archived.
        zone: The timeline's.
            went_back: Requested times of those that went back.
    """

    time: schedule.Schedule
    storage: Callable[[], Storage]
    zone: time_zones.TimeZone
    went_back: set[instants.InstantTime] = field(default_factory=set)
    _given: list[tuple[int, instants.Instant, bool]] = field(default_factory=list)

    def see_creation(
        self,
        process: schedule.Process,
        instant: instants.Instant,
        archived: Collection[instants.InstantTime],
    ) -> None:
        """Judge a file of an author that has held the lock since it decided.

        T4: a time that ours give is above all that are there. T5: what a JVM gives is above all
        plans and all that was archived, or they would hide it.
        """
        if instant.state is instants.State.INFLIGHT:
            return
        time = instant.completion_time or instant.requested_time
        others = [each for each in self._timeline().files if each != instant]
        is_jvm = process.name.startswith("jvm")
        if is_jvm:
            self._see_jvm(process, instant, time, others, archived)
        elif instant.action is not instants.Action.SAVEPOINT:
            self._see_ours(process, instant, time, others)
        self._given.append((self.time.now_ms, instant, is_jvm))

    def _see_ours(
        self,
        process: schedule.Process,
        instant: instants.Instant,
        time: instants.InstantTime,
        others: Collection[instants.Instant],
    ) -> None:
        above = [
            str(each)
            for each in others
            if each.requested_time != instant.requested_time and active.latest_time(each) >= time
        ]
        assert not above, f"T4: {process.name} gives {instant} the time {time}, below {above}"

    def _see_jvm(
        self,
        process: schedule.Process,
        instant: instants.Instant,
        time: instants.InstantTime,
        others: Collection[instants.Instant],
        archived: Collection[instants.InstantTime],
    ) -> None:
        before = [each for each in others if each.requested_time != instant.requested_time]
        if any(active.latest_time(each) > time for each in before):
            self.time.note(f"{process.name}: {instant} goes back")
            self.went_back.add(instant.requested_time)
        for each in before:
            is_plan = each.action.completed in (instants.Action.COMMIT, instants.Action.CLEAN)
            is_plan = is_plan and each.state is instants.State.REQUESTED
            assert not is_plan or each.action not in _PLANS or each.requested_time < time, (
                f"T5: {process.name} has completed {instant} at {time}, below the plan {each}"
            )
        newest = max(archived, default="")
        assert newest < time, f"T5: {process.name} gives {instant} {time}, archived up to {newest}"

    def check_findings(self, late: Collection[instants.InstantTime]) -> None:
        """T5: what went back is found by the times of files, and nothing else is.

        Args:
            late: What was published after its lock was lost: it may have gone back as well.
        """
        timeline = self._timeline()
        found = clock_evidence.findings(
            clock_evidence.of_table(self.storage(), timeline), self.zone
        )
        named = {each.requested_time for each, _ in found}
        wrong = named - self.went_back - set(late)
        assert not wrong, f"findings on instants that did not go back: {dict(found)}"
        completed = timeline.write_completion_times.keys()
        missing = (self._certain() & completed) - named
        assert not missing, f"went back, and no finding names them: {sorted(missing)}"

    def _certain(self) -> set[instants.InstantTime]:
        """Return what JVMs have given a time well after another with a greater one completed."""
        completed = [each for each in self._given if each[1].is_completed]
        return {
            each.requested_time
            for at_ms, each, is_jvm in self._given
            if is_jvm
            and any(
                str(other.completion_time) > (each.completion_time or each.requested_time)
                and at_ms - other_ms > _APART_MS
                and _is_first_hour(self.zone, other_ms)
                for other_ms, other, _ in completed
            )
        }

    def _timeline(self) -> active.ActiveTimeline:
        return active.listed(self.storage())


def _is_first_hour(zone: time_zones.TimeZone, at_ms: int) -> bool:
    repetition = zone.repetition(at_ms)
    return repetition is not None and not repetition.ahead_ms
