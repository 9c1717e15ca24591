"""Early conflict detection: a conflict found before data is written, instead of when it completes.

Before the marker of a data file is made, the markers of the optimistic writes that began earlier
and are alive are looked at: where one is of the same file group, this write gives way. So of two
writes it is always the later one that does. Only a saving: what it misses is found when the write
completes (`write.conflicts`), whatever is configured here.

    simple direct marker          look, then make the marker: two that do both at one time miss each
                                  other, and one of them loses when it completes
    transactional direct marker   both in one scope of the table lock, so that the later one sees
                                  the earlier one's marker, if that was first

Cost, for each data file: a listing of the timeline and one of the markers of each earlier write;
with `early_checks_commits` a request for each write that completed since this one began. Source:
RFC-56; `SimpleDirectMarkerBasedDetectionStrategy.java` and those beside it;
protocol.md: Conflicts of optimistic writers.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from hoodie import environment, errors
from hoodie.format import file_names
from hoodie.index import tables
from hoodie.model import files, instants, settings, table_config
from hoodie.storage import protocol
from hoodie.timeline import active, contents
from hoodie.transaction import (
    heartbeats,
    liveness,
    markers,
    table_lock,
)
from hoodie.transaction.locks import addresses, opening
from hoodie.write import conflicts

Mark = Callable[[files.FileGroupId, str], None]
"""Makes the marker of a file group's data file, by its path; raises WriteConflictError."""

_WRITES = (instants.Action.DELTA_COMMIT, instants.Action.COMMIT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Detection:
    """What a task needs to know to detect conflicts of its write; it pickles.

    Attributes:
        instant_time: The write's requested time.
        config: The table's configuration.
        known: Requested times of the writes that had completed when it began.
        settings: The writer's.
        lock: The table's.
        author: Whose write it is, for messages.
    """

    instant_time: instants.InstantTime
    config: table_config.TableConfig
    known: frozenset[instants.InstantTime]
    settings: settings.WriteSettings
    lock: addresses.LockAddress
    author: str


def marking(
    detection: Detection | None, storage: protocol.Storage, env: environment.Environment
) -> Mark | None:
    """Return what makes the markers of a write that detects conflicts early; None for any other."""
    if detection is None:
        return None

    def mark(group: files.FileGroupId, path: str) -> None:
        with _timeline(detection, storage, env) as timeline:
            _check(detection, storage, env, timeline, group)
            markers.mark(storage, detection.instant_time, path)

    return mark


@contextmanager
def _timeline(
    detection: Detection, storage: protocol.Storage, env: environment.Environment
) -> Iterator[active.ActiveTimeline]:
    """Yield the timeline as it is now; where the strategy asks for it, in the lock scope."""
    if detection.settings.early_detection is settings.EarlyDetection.SIMPLE:
        yield active.listed(storage)
        return
    name = f"marker of {detection.author}"
    provider = opening.open_for(name, detection.lock, storage, env)
    patience = table_lock.Patience.of(detection.settings)
    try:
        lock = table_lock.TableLock(provider, storage, env.clock, patience)
        with lock.scope() as scope:
            yield scope.timeline
    finally:
        provider.close()


def _check(
    detection: Detection,
    storage: protocol.Storage,
    env: environment.Environment,
    timeline: active.ActiveTimeline,
    group: files.FileGroupId,
) -> None:
    """Refuse to write to a file group that another write has, or had, before.

    Raises:
        WriteConflictError: The message names both.
    """
    lives = heartbeats.Heartbeats(storage, env.clock, env.background, detection.settings)
    for other in timeline.pending_of(*_WRITES):
        if other.requested_time >= detection.instant_time:
            continue
        if not _is_marked(detection, storage, other, group):
            continue
        seen = liveness.look_at(lives, storage, timeline, [other])[other]
        if seen.liveness.is_alive:
            raise errors.WriteConflictError(
                f"{detection.instant_time} of {detection.author} was about to write to file group "
                f"{group}, which {other} of {seen.owner or 'another writer'} is writing to and "
                "began earlier; no data of it was written"
            )
    if detection.settings.early_checks_commits:
        _check_commits(detection, storage, timeline, group)


def _check_commits(
    detection: Detection,
    storage: protocol.Storage,
    timeline: active.ActiveTimeline,
    group: files.FileGroupId,
) -> None:
    own, table_type = detection.instant_time, detection.config.table_type
    index = tables.index_of(detection.config)
    for other in conflicts.candidates(detection.known, timeline, own, table_type):
        metadata = contents.read_commit(storage, other)
        if conflicts.shared_groups(index, [group], conflicts.groups_of(metadata.stats)):
            raise errors.WriteConflictError(
                f"{own} of {detection.author} was about to write to file group {group}, which "
                f"{other} has written to since it began; no data of it was written"
            )


def _is_marked(
    detection: Detection,
    storage: protocol.Storage,
    other: instants.Instant,
    group: files.FileGroupId,
) -> bool:
    marked = markers.marked_files(storage, other.requested_time)
    parsed = [file_names.parse(path, 0) for path in marked]
    theirs = [each.group for each in parsed if each]
    return bool(conflicts.shared_groups(tables.index_of(detection.config), [group], theirs))
