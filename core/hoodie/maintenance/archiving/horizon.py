"""How much of the archived timeline is needed: decisions without I/O.

Terms:
    horizon   a time; no decision depends on what the archive says of instants that were requested
              and completed before it

The archive is asked for completion times, and the horizon is not above anything that it is asked
about:

    by slicing         of log files and change data: it is not above the oldest of them
    by cleaning        of base files, whether they have replaced an older slice: of each file group
                       the oldest base file alone may be older. It has replaced nothing, since the
                       log files of the group completed after it
    by the timeline    of times from its first write on, of which savepoints may keep some, and of
                       files that its archiver has not deleted: it is not above any of these
    by the removal     of targets of rollbacks on the timeline: it is not above them
    of orphan files
    by consumers       of the commit that a clean of Apache Hudi retained: it is not above it
    by savepoints      whether a file of an older write belongs to a commit on the timeline: it does
                       if the write completed before the horizon, as the archive then does not say

What is older than the first write on the timeline counts as committed, which is not looked up. So
all that reads, cleans or plans finds the same without the instants below the horizon.

Files are listed without the lock, on a timeline read before; what appears later is younger than the
horizon. Its write was pending on that timeline, which holds the horizon back, or began later, with
a greater requested time than all on it (TrueTime). The exception is a task that was taken for dead,
and goes on after its write has ended: the removal of orphan files deletes its file before the
archive passes the write (AR1). A task that is paused for longer than the history is kept is a known
limit, as is a request of an object store that takes effect so late: hence `HISTORY_DAYS_MIN`.

Source: protocol.md: Archiving (AR-G, AR-H).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from hoodie.maintenance.archiving.planning import Hold, Reason
from hoodie.model import files, instants
from hoodie.timeline import active

_DAY_MS = 86_400_000
_NEVER = instants.InstantTime("")
"""Below every time: nothing is older."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a horizon stands on.

    Attributes:
        timeline: The active one.
        rolled_back: The target of each rollback on it; None for one that cannot be read.
        retained: The first commit whose files each clean on it left alone; None for a clean that
            says up to which completion time it deleted.
        data_files: Base files, log files and those of change data, whether they count or not.
    """

    timeline: active.ActiveTimeline
    rolled_back: Mapping[instants.InstantTime, instants.InstantTime | None]
    retained: Mapping[instants.InstantTime, instants.InstantTime | None]
    data_files: Collection[files.BaseFile | files.LogFile] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Horizon:
    """How much of the archive is needed.

    Attributes:
        time: What was requested and completed before is not.
        holds: What keeps it from being later, the lowest first.
    """

    time: instants.InstantTime
    holds: tuple[Hold, ...] = ()


def wanted(now: instants.InstantTime, days: int) -> instants.InstantTime:
    """Return the horizon that a policy asks for at a time that has certainly passed."""
    return instants.format_time(max(0, instants.parse_time(now) - days * _DAY_MS))


def horizon_of(facts: Facts, latest: instants.InstantTime) -> Horizon:
    """Return the horizon, and what keeps it below the latest one that is asked for."""
    found = [each for each in _holds(facts) if each.below is not None and each.below < latest]
    ordered = sorted(found, key=lambda hold: hold.below or "")
    time = ordered[0].below if ordered else latest
    assert time is not None, ordered
    return Horizon(time=time, holds=tuple(ordered))


def _holds(facts: Facts) -> Iterator[Hold]:
    yield _of_timeline(facts.timeline)
    yield from _of_pending(facts.timeline)
    yield from _of_rollbacks(facts.rolled_back)
    yield from _of_cleans(facts.retained)
    yield from _of_logs(each for each in facts.data_files if isinstance(each, files.LogFile))
    yield from _of_bases(each for each in facts.data_files if isinstance(each, files.BaseFile))


def _of_timeline(timeline: active.ActiveTimeline) -> Hold:
    first = timeline.first
    if first is None:
        text = "the active timeline has no write: what is archived is not known to have completed"
    else:
        text = f"the active timeline begins with {first}"
    return Hold(reason=Reason.TIMELINE, below=first or _NEVER, text=text)


def _of_pending(timeline: active.ActiveTimeline) -> Iterator[Hold]:
    """Yield a hold of what is not over, and of files of archived instants."""
    for each in (*timeline.pending, *timeline.remains):
        yield Hold(
            reason=Reason.PENDING,
            below=each.requested_time,
            text=f"{each} is on the active timeline",
        )


def _of_rollbacks(
    rolled_back: Mapping[instants.InstantTime, instants.InstantTime | None],
) -> Iterator[Hold]:
    for rollback, target in rolled_back.items():
        what = target or "an instant that is not known"
        yield Hold(
            reason=Reason.ROLLBACK,
            below=target or _NEVER,
            text=f"rollback {rollback} of {what} is on the active timeline",
        )


def _of_cleans(
    retained: Mapping[instants.InstantTime, instants.InstantTime | None],
) -> Iterator[Hold]:
    for clean, commit in retained.items():
        if commit is None:
            continue
        yield Hold(
            reason=Reason.CLEAN_RETAINS,
            below=commit,
            text=f"clean {clean} on the active timeline retains the files of commits from {commit} "
            "on",
        )


def _of_logs(log_files: Iterable[files.LogFile]) -> Iterator[Hold]:
    oldest = min(log_files, key=lambda each: each.instant_time, default=None)
    if oldest is not None:
        yield Hold(
            reason=Reason.LOG_FILE,
            below=oldest.instant_time,
            text=f"log file {oldest.path} is not compacted, or not cleaned",
        )


def _of_bases(base_files: Iterable[files.BaseFile]) -> Iterator[Hold]:
    """Yield a hold of the base files but the oldest of each file group."""
    oldest: dict[files.FileGroupId, instants.InstantTime] = {}
    newer: files.BaseFile | None = None
    for each in sorted(base_files, key=lambda base: base.instant_time):
        first = oldest.setdefault(each.group, each.instant_time)
        if each.instant_time > first:
            newer = each
            break
    if newer is not None:
        yield Hold(
            reason=Reason.BASE_FILES,
            below=newer.instant_time,
            text=f"base file {newer.path} has replaced an older one that is not cleaned",
        )
