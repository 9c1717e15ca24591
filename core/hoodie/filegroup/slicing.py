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
from collections.abc import Callable, Iterable

from hoodie.model import files, instants

CompletionTime = Callable[[instants.InstantTime], instants.InstantTime | None]
"""Completion time by requested time; None for a pending or unknown instant."""

IsCommitted = Callable[[instants.InstantTime], bool]
"""Whether data files that carry this requested time count."""


def slices_of(
    group: files.FileGroupId,
    base_files: Iterable[files.BaseFile],
    log_files: Iterable[files.LogFile],
    completion_time: CompletionTime,
    is_committed: IsCommitted,
    pending_compactions: Iterable[instants.InstantTime],
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
    bases = {
        base.instant_time: base
        for base in sorted(base_files, key=lambda base: base.write_token)
        if is_committed(base.instant_time)
    }
    barriers = sorted({*bases, *pending_compactions})
    logs: dict[instants.InstantTime, list[files.LogFile]] = {barrier: [] for barrier in barriers}
    for log in sorted(log_files, key=lambda log: log.merge_order):
        if not is_committed(log.instant_time):
            continue
        barrier = _barrier_of(log, barriers, completion_time)
        if barrier not in logs:
            bisect.insort(barriers, barrier)
            logs[barrier] = []
        logs[barrier].append(log)
    return tuple(
        files.FileSlice(
            group=group,
            base_instant_time=barrier,
            base_file=bases.get(barrier),
            log_files=files.in_merge_order(logs[barrier], barrier),
        )
        for barrier in reversed(barriers)
    )


def _barrier_of(
    log: files.LogFile, barriers: list[instants.InstantTime], completion_time: CompletionTime
) -> instants.InstantTime:
    if not barriers:
        return log.instant_time
    completed = completion_time(log.instant_time)
    if completed is None:
        return barriers[-1]
    below = bisect.bisect_right(barriers, completed)
    return barriers[below - 1] if below else log.instant_time
