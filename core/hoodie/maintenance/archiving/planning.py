"""Which instants are archived, and what holds the others back: decisions without I/O.

Invariants:
    - what is archived of the writes is a prefix of the timeline in the order of requested times, so
      that an older instant than the first write that is left counts as completed;
    - an instant that is not completed is never archived, and the archive never moves past a write
      that is pending, nor past one whose files a rollback has not removed;
    - a write that completed after a pending one had begun stays, since the pending one looks for
      conflicts with it;
    - what is as late as a time that other engines may give again stays, until none of them is;
    - the write that completed last stays: its record of batches is the one that writers go on from;
    - the last completed clean stays, from which Apache Hudi cleans on; savepoints, restores and
      indexing stay for ever.

Source: `TimelineArchiverV2.java`, `ArchivalUtils.java`, `CompactionUtils.java` (1.2.0);
format.md: Archived timeline, Visibility.
"""

import enum
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from hoodie import errors
from hoodie.maintenance import consumers as declared_consumers
from hoodie.model import instants, results
from hoodie.timeline import active, epochs, history_tree

MIN_KEY = "hoodie.keep.min.commits"
MAX_KEY = "hoodie.keep.max.commits"
RETAINED_KEY = "hoodie.clean.commits.retained"
DELTA_COMMITS_KEY = "hoodie.compact.inline.max.delta.commits"

HISTORY_DAYS_MIN = 7
"""History that is younger is never trimmed: no process that takes part in a change of the table is
expected to be paused for longer."""

FIELDS = {
    MIN_KEY: "commits_min",
    MAX_KEY: "commits_max",
    RETAINED_KEY: "clean_retained",
    DELTA_COMMITS_KEY: "compaction_delta_commits",
}
"""The fields of a policy by Hudi's keys."""

ARCHIVED = epochs.ARCHIVED

COUNT_MAX = 500
"""So many writes are archived by the first run: their metadata is in memory."""

HOLD_MS_MAX = 2_000
"""A later run archives more if it is not expected to hold the table lock for longer than this."""

SIZE_BYTES_MAX = 32 << 20
"""A later run archives more if their metadata and plans are not expected to exceed this."""

_GROWTH_MAX = 4


class Reason(enum.Enum):
    """What holds instants back."""

    TOO_FEW = "too few commits"
    PENDING = "pending write"
    OVERLAPPING = "commit that a pending write may conflict with"
    LAST_COMPLETED = "commit that completed last"
    NOT_SWEPT = "orphan files"
    SAVEPOINT = "savepoint"
    NOT_CLEANED = "replace commit that is not cleaned"
    COMPACTION = "delta commits until the next compaction"
    CLEAN_RETAINS = "clean that retains more"
    CONSUMER = "consumer that has not read them"
    TIMELINE = "active timeline"
    LOG_FILE = "log file"
    BASE_FILES = "base files of one file group"
    ROLLBACK = "rollback"
    REPEATED = "time that clocks show twice"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How many commits stay on the active timeline.

    Attributes:
        commits_min: So many are left by a run.
        commits_max: Nothing is archived unless there are more.
        clean_retained: How many commits the cleaner keeps readable; None if that is not known.
        compaction_delta_commits: So many delta commits have a compaction planned.
        merged_files: So many files of one level of the archive are merged into one of the next.
        history_days: So many days of the archived timeline stay; None for all of it.
    """

    commits_min: int = 20
    commits_max: int = 30
    clean_retained: int | None = None
    compaction_delta_commits: int = 5
    merged_files: int = history_tree.BATCH_SIZE
    history_days: int | None = None

    def check(self) -> None:
        """Refuse bounds that contradict each other.

        Raises:
            ConfigurationError: They do.
        """
        if not 1 <= self.commits_min < self.commits_max:
            raise errors.ConfigurationError(
                f"{MIN_KEY}={self.commits_min} and {MAX_KEY}={self.commits_max}: expected at least "
                "1, and the first smaller than the second"
            )
        if self.clean_retained is not None and self.clean_retained >= self.commits_min:
            raise errors.ConfigurationError(
                f"{RETAINED_KEY}={self.clean_retained} and {MIN_KEY}={self.commits_min}: expected "
                "the first to be smaller, since the cleaner reads the commits that it retains"
            )
        if self.history_days is not None and self.history_days < HISTORY_DAYS_MIN:
            raise errors.ConfigurationError(
                f"{self.history_days} days of history: expected {HISTORY_DAYS_MIN} or more"
            )


def policy_of(properties: Mapping[str, str]) -> Policy:
    """Return the policy that properties name, with defaults for the others.

    Raises:
        ConfigurationError: A value is no whole number.
    """
    fields: dict[str, int] = {}
    for key, value in properties.items():
        if not value.isdecimal() or not value.isascii():
            raise errors.ConfigurationError(f"{key}={value}: expected a whole number")
        fields[FIELDS[key]] = int(value)
    return Policy(**fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class LastClean:
    """What the last completed clean says.

    Attributes:
        requested_time: Its name.
        earliest_retained: Requested time of the first commit whose files it left alone; None where
            it kept a number of versions of each file.
        savepoints: Requested times of the savepoints that it kept files for.
        bound: Completion time: file groups that were replaced before are cleaned. None if another
            engine cleaned, which does not say.
    """

    requested_time: instants.InstantTime
    earliest_retained: instants.InstantTime | None
    savepoints: tuple[instants.InstantTime, ...] = ()
    bound: instants.InstantTime | None = None

    def has_cleaned(self, replacing: instants.Instant) -> bool:
        """Return whether what a replace commit retired is gone, unless savepoints keep it."""
        if self.bound is not None:
            return replacing.completion_time is not None and replacing.completion_time < self.bound
        return replacing.requested_time < min(
            (self.earliest_retained or self.requested_time, *self.savepoints)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a decision stands on.

    Attributes:
        timeline: The active one.
        is_copy_on_write: The table's type.
        last_clean: None if the table was never cleaned.
        not_swept: Requested times of instants that are over, and left data files.
        swept_rollbacks: Completed rollbacks whose leftovers are removed; None for all.
        consumers: The declared consumers within their limits.
        repeated_from: The first time that other engines may give again, since clocks are put back;
            None if they give none.
    """

    timeline: active.ActiveTimeline
    is_copy_on_write: bool
    last_clean: LastClean | None = None
    not_swept: Collection[instants.InstantTime] = ()
    swept_rollbacks: Collection[instants.InstantTime] | None = None
    consumers: Collection[declared_consumers.Consumer] = ()
    repeated_from: instants.InstantTime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """What holds instants back.

    Attributes:
        reason: The kind.
        below: Only instants with smaller requested times can be archived; None where it is a
            number of commits that stays.
        text: A sentence.
    """

    reason: Reason
    below: instants.InstantTime | None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be archived.

    Attributes:
        chosen: Completed instants, by requested time.
        holds: What holds back further ones that the numbers of commits would let go.
        archived_below: Requested time of the first write that stays; empty if nothing goes.
        is_partial: Whether another run has more to archive.
        size_bytes: Of the metadata and plans of the chosen ones, where they were read.
        trimmed: Files of the history that are too old.
    """

    chosen: tuple[instants.Instant, ...] = ()
    holds: tuple[Hold, ...] = field(default=())
    archived_below: str = ""
    is_partial: bool = False
    size_bytes: int = 0
    trimmed: tuple[results.HistoryFile, ...] = ()

    @property
    def write_count(self) -> int:
        """How many writes go."""
        return sum(each.action.is_write for each in self.chosen)


def plan_of(facts: Facts, policy: Policy, count_max: int = COUNT_MAX) -> Plan:
    """Return what is to be archived of a timeline, and what holds the rest back.

    Args:
        facts: What it stands on.
        policy: How many commits stay.
        count_max: So many writes are archived at once.

    Raises:
        ConfigurationError: The policy's bounds contradict each other.
    """
    policy.check()
    writes = [
        each for each in facts.timeline.instants if each.is_completed and each.action.is_write
    ]
    least, most, retaining = _bounds(writes, facts.last_clean, policy)
    if len(writes) <= most:
        text = f"the timeline has {len(writes)} commits, and up to {most} may stay"
        few = Hold(reason=Reason.TOO_FEW, below=None, text=text)
        return Plan(holds=(few, *retaining))
    wanted = writes[: len(writes) - least]
    holds = [hold for hold in _holds(facts, policy) if _bars(hold, wanted)]
    below = min((hold.below for hold in holds if hold.below is not None), default=None)
    free = [each for each in wanted if below is None or each.requested_time < below]
    going = free[:count_max]
    found = tuple(sorted(holds, key=lambda hold: hold.below or ""))
    if not going:
        return Plan(holds=(*found, *retaining))
    return Plan(
        chosen=tuple(
            sorted([*going, *_others(facts, going[-1])], key=lambda each: each.requested_time)
        ),
        holds=(*found, *retaining),
        archived_below=writes[len(going)].requested_time,
        is_partial=len(free) > len(going),
    )


def count_next(count: int, hold_ms: int, size_bytes: int) -> int:
    """Return how many writes the next run archives at most.

    Args:
        count: So many did the last run.
        hold_ms: For so long it held the table lock.
        size_bytes: Of their metadata and plans.
    """
    factor = min(_GROWTH_MAX, HOLD_MS_MAX // max(1, hold_ms), SIZE_BYTES_MAX // max(1, size_bytes))
    return count * max(1, factor)


def _bars(hold: Hold, wanted: Sequence[instants.Instant]) -> bool:
    """Return whether some of the instants, which are in their order, may not be archived."""
    return hold.below is not None and any(each.requested_time >= hold.below for each in wanted[-1:])


def _bounds(
    writes: list[instants.Instant], clean: LastClean | None, policy: Policy
) -> tuple[int, int, list[Hold]]:
    """Return how many commits stay at least and at most, raised where the cleaner keeps more."""
    least, most = policy.commits_min, policy.commits_max
    if clean is None or clean.earliest_retained is None:
        return least, most, []
    needed = sum(each.requested_time > clean.earliest_retained for each in writes) + 2
    if least >= needed:
        return least, most, []
    text = (
        f"clean {clean.requested_time} retains the files of commits from {clean.earliest_retained} "
        f"on, so that {needed} commits stay"
    )
    return (
        needed,
        needed + most - least,
        [Hold(reason=Reason.CLEAN_RETAINS, below=None, text=text)],
    )


def _holds(facts: Facts, policy: Policy) -> list[Hold]:
    timeline = facts.timeline
    found = [
        _pending(timeline),
        _overlapping(timeline),
        _last_completed(timeline),
        _not_swept(facts),
        _savepoint(timeline),
        _not_cleaned(facts),
        _repeated(facts),
        *(_unread(facts.timeline, each) for each in facts.consumers),
    ]
    if not facts.is_copy_on_write:
        found.append(_before_compaction(timeline, policy))
    return [each for each in found if each is not None]


def _oldest_pending(timeline: active.ActiveTimeline) -> instants.Instant | None:
    found = (each for each in timeline.instants if each.is_pending and each.action.is_write)
    return next(found, None)


def _last_completed_before(
    timeline: active.ActiveTimeline, time: instants.InstantTime
) -> instants.InstantTime:
    """Return the newest completed write before a time; the time itself if there is none.

    It stays, so that what is older than the first write that is left is older than that time.
    """
    times = (
        each.requested_time
        for each in timeline.instants
        if each.is_completed and each.action.is_write and each.requested_time < time
    )
    return max(times, default=time)


def _pending(timeline: active.ActiveTimeline) -> Hold | None:
    oldest = _oldest_pending(timeline)
    if oldest is None:
        return None
    return Hold(
        reason=Reason.PENDING,
        below=_last_completed_before(timeline, oldest.requested_time),
        text=f"{oldest} is the oldest pending write",
    )


def _overlapping(timeline: active.ActiveTimeline) -> Hold | None:
    """Keep what completed after a pending write had begun: it looks for conflicts with that."""
    oldest = _oldest_pending(timeline)
    if oldest is None:
        return None
    for each in timeline.instants:
        is_later = each.completion_time is not None and each.completion_time > oldest.requested_time
        if each.action.is_write and is_later:
            return Hold(
                reason=Reason.OVERLAPPING,
                below=each.requested_time,
                text=f"{each} completed after {oldest} had begun, which may conflict with it",
            )
    return None


def _last_completed(timeline: active.ActiveTimeline) -> Hold | None:
    """Keep what completed last, though others were requested later: it records all batches."""
    if not timeline.completed_writes:
        return None
    last = timeline.completed_writes[-1]
    return Hold(
        reason=Reason.LAST_COMPLETED,
        below=last.requested_time,
        text=f"{last} completed last: its record of batches is the newest",
    )


def _not_swept(facts: Facts) -> Hold | None:
    if not facts.not_swept:
        return None
    first = min(facts.not_swept)
    return Hold(
        reason=Reason.NOT_SWEPT,
        below=_last_completed_before(facts.timeline, first),
        text=f"files of {first} are left, whose owner may be alive: they would count as committed",
    )


def _repeated(facts: Facts) -> Hold | None:
    """Keep what other engines may begin before, though it is over: it would count as archived."""
    first = facts.repeated_from
    if first is None:
        return None
    return Hold(
        reason=Reason.REPEATED,
        below=_last_completed_before(facts.timeline, first),
        text=f"clocks show the times from {first} on twice, and other engines may give them again",
    )


def _savepoint(timeline: active.ActiveTimeline) -> Hold | None:
    for each in timeline.instants:
        if each.action is instants.Action.SAVEPOINT and each.is_completed:
            text = f"the table has a savepoint of {each.requested_time}"
            return Hold(reason=Reason.SAVEPOINT, below=each.requested_time, text=text)
    return None


def _unread(timeline: active.ActiveTimeline, consumer: declared_consumers.Consumer) -> Hold | None:
    """Keep what a consumer has not read, and what it has read last.

    Apache Hudi 1.2.0 returns no rows for an increment of archived delta commits. Of a damaged file
    everything counts as unread.
    """
    writes = timeline.completed_writes
    consumed = "" if consumer.record is None else consumer.consumed
    unread = [each for each in writes if (each.completion_time or "") > consumed]
    if not unread:
        return None
    read = [each for each in writes if (each.completion_time or "") <= consumed]
    kept = [each.requested_time for each in (*unread, *read[-1:])]
    text = consumer.defect or f"consumer {consumer.name} has read up to {consumed}"
    return Hold(reason=Reason.CONSUMER, below=min(kept), text=text)


def _not_cleaned(facts: Facts) -> Hold | None:
    """Keep replace commits whose replaced files may be there: only the active timeline hides them.

    A savepoint keeps what was replaced after the commit that it saves had completed.
    """
    clean = facts.last_clean
    saved = {each.requested_time for each in facts.timeline.savepoints}
    saved.update(clean.savepoints if clean is not None else ())
    times = facts.timeline.write_completion_times
    saved_from = min((times.get(each, each) for each in saved), default=None)
    for each in facts.timeline.instants:
        if each.action.completed is not instants.Action.REPLACE_COMMIT:
            continue
        is_saved = saved_from is not None and (each.completion_time or "") > saved_from
        if clean is None or is_saved or not clean.has_cleaned(each):
            text = f"no clean has removed the files that {each} replaced"
            return Hold(reason=Reason.NOT_CLEANED, below=each.requested_time, text=text)
    return None


def _before_compaction(timeline: active.ActiveTimeline, policy: Policy) -> Hold | None:
    """Keep the delta commits that a planner counts since the last compaction, and that one."""
    completed = [each for each in timeline.instants if each.is_completed]
    compactions = [each for each in completed if each.action is instants.Action.COMMIT]
    last = compactions[-1] if compactions else None
    deltas = [
        each
        for each in completed
        if each.action is instants.Action.DELTA_COMMIT
        and (last is None or each.requested_time > last.requested_time)
    ]
    if not deltas:
        return None
    if len(deltas) < policy.compaction_delta_commits:
        first = last or deltas[0]
    else:
        first = deltas[len(deltas) - policy.compaction_delta_commits]
    return Hold(
        reason=Reason.COMPACTION,
        below=first.requested_time,
        text=f"the delta commits from {first.requested_time} on count for the next compaction",
    )


def _others(facts: Facts, newest: instants.Instant) -> list[instants.Instant]:
    """Return the cleans and rollbacks that are older than the newest write that goes."""
    cleans = [
        each
        for each in facts.timeline.instants
        if each.action is instants.Action.CLEAN and each.is_completed
    ]
    rollbacks = [
        each
        for each in facts.timeline.instants
        if each.action is instants.Action.ROLLBACK
        and each.is_completed
        and (facts.swept_rollbacks is None or each.requested_time in facts.swept_rollbacks)
    ]
    return [
        each for each in (*cleans[:-1], *rollbacks) if each.requested_time < newest.requested_time
    ]
