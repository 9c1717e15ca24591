"""What instants leave behind that are not pending any more: heartbeats, markers, late data files.

A crash after a completed file, or after a rollback's, leaves heartbeat and markers. A task that was
paused while its write was rolled back may even put a data file there later: nobody sees it while
the timeline tells that the write is none, but once the archive has moved past that time it would
count as committed (format.md: Visibility).

A task of an instant that completed all the same, because another had taken it over or repeated the
task, may leave one, too. It is known by its marker, or by its sibling: another file of the instant
in its file group. Which of them counts is what the commit names.

What there is is listed first and judged on a timeline read later, under the lock. A heartbeat is
older than its instant on the timeline, but made in the same lock scope; a data file is younger, so
that an instant which is neither pending, completed nor archived was rolled back. One older than the
timeline's first write counts as archived, unless a rollback on the timeline took it back. Source:
protocol.md: A write, Rollback, T-H09.
"""

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from hoodie import errors
from hoodie.filegroup import listing, log_scanning
from hoodie.format import file_names
from hoodie.model import instants
from hoodie.storage import paths as storage_paths
from hoodie.timeline import active, contents
from hoodie.transaction import layout, markers, metadata_commits
from hoodie.transaction.client import Client

logger = logging.getLogger(__name__)

_OWN_FOLDER = ".hoodie/"
_DIRECTORIES = (f"{layout.HEARTBEATS}/", f"{layout.MARKERS}/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """What a sweep has done.

    Attributes:
        count: Files removed.
        left: Requested times of instants with leftovers whose owner may be alive.
    """

    count: int = 0
    left: frozenset[instants.InstantTime] = frozenset()


def sweep(client: Client) -> int:
    """Remove leftovers and return how many files that were; see `sweep_all`."""
    return sweep_all(client).count


def sweep_all(client: Client) -> Sweep:
    """Remove leftovers and return what was done.

    One listing of the whole table, a request for each rollback on the timeline, and for each
    completed write with markers or with files of two tasks in a file group; if there is anything, a
    lock scope, two requests for each instant, and one for each file of it.

    Raises:
        LockTimeoutError: The lock was not acquired in time.
        StorageError: The storage failed; what is left is found again.
    """
    listed = _paths_by_instant(client)
    timeline = active.listed(client.storage)
    taken_back = _taken_back(client, timeline)
    orphans = {time: _orphans(client, timeline, time, paths) for time, paths in listed.items()}
    has_any = any(
        orphans[time] or _left(timeline, taken_back, time, paths) for time, paths in listed.items()
    )
    if not has_any and not _left_beside(client, timeline, taken_back):
        return Sweep()
    count = 0
    alive = set()
    with client.lock.scope() as scope:
        left = {
            time: _still(orphans[time], time, timeline, scope.timeline)
            + _left(scope.timeline, taken_back, time, paths)
            for time, paths in listed.items()
        }
        seen = client.heartbeats.look_at(time for time, paths in left.items() if paths)
        for time, status in seen.items():
            if status.liveness.is_alive:
                alive.add(time)
                continue
            for path in left[time]:
                scope.check()
                count += client.storage.delete(path)
            logger.info("%s: deleted orphan files of instant %s", client.storage.uri, time)
        for path in _left_beside(client, scope.timeline, taken_back, scope.beside):
            scope.check()
            count += client.storage.delete(path)
            logger.info("%s: deleted %s, which does not count", client.storage.uri, path)
    return Sweep(count=count, left=frozenset(alive))


def _left_beside(
    client: Client,
    timeline: active.ActiveTimeline,
    taken_back: Collection[instants.InstantTime | None],
    beside: active.ActiveTimeline | None = None,
) -> list[str]:
    """Return the paths of what is left over in the metadata table; see `metadata_commits`."""
    if client.beside is None:
        return []
    beside = beside or active.listed(client.beside)
    return metadata_commits.left_over(client, beside, timeline, taken_back)


def _taken_back(
    client: Client, timeline: active.ActiveTimeline
) -> frozenset[instants.InstantTime | None]:
    """Return what rollbacks on the timeline took back, or are about to."""
    first = instants.InstantTime("")
    return frozenset(contents.read_rollback_targets(client.storage, timeline, after=first).values())


def _left(
    timeline: active.ActiveTimeline,
    taken_back: Collection[instants.InstantTime | None],
    time: instants.InstantTime,
    paths: list[str],
) -> list[str]:
    """Return what of an instant's files nobody needs, by a timeline read after they were listed."""
    if time in timeline.pending_times:
        return []
    is_completed = time in timeline.write_completion_times
    counts_as_archived = timeline.is_archived(time) and time not in taken_back
    # The archive is asked last, and about the few that nothing else tells of.
    if is_completed or counts_as_archived or timeline.archive.completion_time(time) is not None:
        return [path for path in paths if _is_own(path) or storage_paths.finished(path)]
    return paths


def _still(
    orphans: list[str],
    time: instants.InstantTime,
    before: active.ActiveTimeline,
    now: active.ActiveTimeline,
) -> list[str]:
    """Return the orphans of a write, unless another file has completed it since they were found.

    Two executions of one plan may both be published, each after its lock was lost; what the first
    does not name may be what the second does, whose files count.
    """
    return orphans if _completed(now, time) == _completed(before, time) else []


def _completed(
    timeline: active.ActiveTimeline, time: instants.InstantTime
) -> instants.Instant | None:
    """Return the completed write of a time.

    None where an instant of another action shares its time: both write files that carry it. Whose
    planner lost the lock right before the plan was on the timeline may have a write's time.
    """
    found = [
        each
        for each in timeline.instants
        if each.requested_time == time and each.action is not instants.Action.SAVEPOINT
    ]
    is_write = len(found) == 1 and found[0].is_completed and found[0].action.is_write
    return found[0] if is_write else None


def _orphans(
    client: Client,
    timeline: active.ActiveTimeline,
    time: instants.InstantTime,
    paths: Iterable[str],
) -> list[str]:
    """Return the data files of a completed write that its commit does not name.

    Asked only where there is a suspicion; what is completed does not change any more.
    """
    completed = _completed(timeline, time)
    if completed is None:
        return []
    data_files = [path for path in paths if not _is_own(path) and not storage_paths.finished(path)]
    suspects = {*_marked(time, paths), *_siblings(data_files)}.intersection(data_files)
    if not suspects:
        return []
    stats = contents.read_commit(client.storage, completed).stats
    unclaimed = sorted(markers.unclaimed(suspects, stats))
    return [
        path
        for path in unclaimed
        if not log_scanning.is_of_another(client.storage, file_names.parse(path, 0))
    ]


def _marked(time: instants.InstantTime, paths: Iterable[str]) -> set[str]:
    directory = f"{markers.directory_of(time)}/"
    names = [path.removeprefix(directory) for path in paths if path.startswith(directory)]
    return {data_path for name in names if (data_path := file_names.marked_file(name))}


def _siblings(data_files: Iterable[str]) -> list[str]:
    """Return the files of an instant in whose file group there are those of several tasks."""
    by_group = defaultdict(list)
    for path in data_files:
        parsed = file_names.parse(path, 0)
        if parsed is not None:
            by_group[parsed.group].append(parsed)
    return [
        each.path
        for found in by_group.values()
        if len({each.write_token for each in found}) > 1
        for each in found
    ]


def _paths_by_instant(client: Client) -> dict[instants.InstantTime, list[str]]:
    """Return data files, markers and heartbeats by the instant they are of; data files first."""
    found = defaultdict(list)
    for path in listing.own_paths(client.storage):
        time = instant_of(path)
        if time is not None:
            found[time].append(path)
    return {time: sorted(paths, key=_is_own) for time, paths in sorted(found.items())}


def _is_own(path: str) -> bool:
    return path.startswith(_OWN_FOLDER)


def instant_of(path: str) -> instants.InstantTime | None:
    """Return the instant of a data file, a marker or a heartbeat; None for what is of none.

    Of none are the checksums that Hadoop keeps on a local disk: they go with their files.
    """
    if not path.startswith(_OWN_FOLDER):
        plain = file_names.as_log_file(storage_paths.finished(path) or path)
        parsed = file_names.parse(plain, 0)
        return parsed.instant_time if parsed else None
    for directory in _DIRECTORIES:
        if path.startswith(directory):
            name = path.removeprefix(directory).partition("/")[0]
            try:
                # After a point: the creation was broken off by a death (`storage.local`).
                return instants.checked_time(name.partition(".")[0])
            except errors.InvalidInputError:
                return None  # Nothing that we or Apache Hudi put there.
    return None
