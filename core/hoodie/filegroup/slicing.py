"""Cutting a file group into file slices, by completion time.

Terms:
    barrier   where a slice starts: requested time of a base file or of a pending compaction, or of
              the first log file that nothing precedes

A log file belongs to the greatest barrier at or below its completion time, so that what completes
after a compaction was planned lies on top of it, whenever it began. Source: RFC-66, "Pseudocode for
New File Slicing", with `<=` where it has `<`; `HoodieFileGroup.java`;
protocol.md: File slices and reads.

One deviation, in which Apache Hudi hides rows: a base file that is not committed is no barrier. Log
files that completed after a failed or unfinished write of one stay with the slice below.
"""

import bisect
import itertools
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from hoodie.model import files, instants

CompletionTime = Callable[[instants.InstantTime], instants.InstantTime | None]
"""Completion time by requested time; None for a pending or unknown instant."""

IsCommitted = Callable[[instants.InstantTime], bool]
"""Whether data files that carry this requested time count."""


class Slice(Protocol):
    """What is decided about slices needs to know of one; `files.FileSlice` is one."""

    @property
    def base_instant_time(self) -> instants.InstantTime:
        """The barrier that it starts at."""
        ...

    @property
    def has_base(self) -> bool:
        """Whether it has a base file."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class InstantsOfSlice:
    """A file slice by the instants that wrote its files.

    Attributes:
        base_instant_time: The barrier that it starts at, as in `files.FileSlice`.
        has_base: Whether the instant of the barrier wrote a base file.
        log_times: Requested times of those that wrote its log files; growing.
    """

    base_instant_time: instants.InstantTime
    has_base: bool
    log_times: tuple[instants.InstantTime, ...]


def cut(
    base_times: Collection[instants.InstantTime],
    log_times: Iterable[instants.InstantTime],
    completion_time: CompletionTime,
    pending_compactions: Iterable[instants.InstantTime],
) -> tuple[InstantsOfSlice, ...]:
    """Return the file slices of a group by the instants that wrote its files, newest first.

    Args:
        base_times: Requested times of the instants that wrote base files; all have committed.
        log_times: Of those that wrote log files; all have committed, and they grow.
        completion_time: As for `slices_of`.
        pending_compactions: As for `slices_of`.
    """
    barriers = sorted({*base_times, *pending_compactions})
    logs: dict[instants.InstantTime, list[instants.InstantTime]] = {each: [] for each in barriers}
    for time in log_times:
        barrier = _barrier_of(time, barriers, completion_time)
        if barrier not in logs:
            bisect.insort(barriers, barrier)
            logs[barrier] = []
        logs[barrier].append(time)
    return tuple(
        InstantsOfSlice(
            base_instant_time=each, has_base=each in base_times, log_times=tuple(logs[each])
        )
        for each in reversed(barriers)
    )


def merged_count(
    slices: Sequence[Slice], pending_compactions: Collection[instants.InstantTime]
) -> int:
    """Return how many of a file group's slices, newest first, a read merges.

    The newest one; and those below as well while a compaction is pending that starts it.
    """
    for count, each in enumerate(slices, start=1):
        if each.has_base or each.base_instant_time not in pending_compactions:
            return count
    return len(slices)


def slices_of(
    group: files.FileGroupId,
    base_files: Iterable[files.BaseFile],
    log_files: Iterable[files.LogFile],
    completion_time: CompletionTime,
    is_committed: IsCommitted,
    pending_compactions: Collection[instants.InstantTime],
) -> tuple[files.FileSlice, ...]:
    """Return the file slices of a group, newest first.

    Args:
        group: The group; all files are of it.
        base_files: In any order.
        log_files: In any order.
        completion_time: A log file without one belongs to the newest slice.
        is_committed: Files of other instants are left out.
        pending_compactions: Those that will write a base file of this group: each starts a slice,
            which stays empty until a log file completes behind it.
    """
    base_files, log_files = list(base_files), list(log_files)
    if len(base_files) == 1 and not log_files and not pending_compactions:
        return _of_base(base_files[0]) if is_committed(base_files[0].instant_time) else ()
    bases = {
        base.instant_time: base
        for base in sorted(base_files, key=lambda base: base.write_token)
        if is_committed(base.instant_time)
    }
    logs: dict[instants.InstantTime, list[files.LogFile]] = {}
    for log in sorted(log_files, key=lambda log: log.merge_order):
        if is_committed(log.instant_time):
            logs.setdefault(log.instant_time, []).append(log)
    return tuple(
        files.FileSlice(
            group=group,
            base_instant_time=each.base_instant_time,
            base_file=bases.get(each.base_instant_time),
            log_files=files.in_merge_order(
                itertools.chain.from_iterable(map(logs.__getitem__, each.log_times)),
                each.base_instant_time,
            ),
        )
        for each in cut(bases, logs, completion_time, pending_compactions)
    )


def _of_base(base_file: files.BaseFile) -> tuple[files.FileSlice]:
    """Return the only slice of a group with nothing but a base file, as most groups are."""
    only = files.FileSlice(
        group=base_file.group,
        base_instant_time=base_file.instant_time,
        base_file=base_file,
        log_files=(),
    )
    return (only,)


def _barrier_of(
    log_time: instants.InstantTime,
    barriers: list[instants.InstantTime],
    completion_time: CompletionTime,
) -> instants.InstantTime:
    if not barriers:
        return log_time
    completed = completion_time(log_time)
    if completed is None:
        return barriers[-1]
    below = bisect.bisect_right(barriers, completed)
    return barriers[below - 1] if below else log_time
