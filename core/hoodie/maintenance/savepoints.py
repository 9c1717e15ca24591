"""Savepoints: commits whose files are kept until the savepoint is deleted.

Terms:
    commit     the completed write that a savepoint keeps; both have one requested time
    protected  named by a completed savepoint: no cleaning deletes it, and no archiving passes it

    create     in a lock scope: the commit is completed and nothing of it was cleaned, or is about
               to be; inflight file, which claims nothing; completed file with the names of all
               files of the commit's slices: it counts
    delete     in a lock scope: completed file, then inflight file

In a table with a chain the completed file is published, and deleted, by an epoch: of a savepoint
and a cleaning plan that would delete its files the first to be an epoch wins, whatever the lock
says. A savepoint that was killed between its two files keeps nothing; the next creation or deletion
removes what is left of it. Whether its inflight file is there matters to nobody once it is
completed: a process that was paused may delete it late.

Source: `SavepointActionExecutor.java`, `SavepointHelpers.java` (1.2.0); protocol.md: Savepoints.
"""

import logging
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from hoodie import errors
from hoodie.filegroup import listing, snapshots
from hoodie.format import instant_names, savepoint_avro
from hoodie.model import files, instants, moments, plans, results, table_config, time_zones
from hoodie.storage import protocol
from hoodie.timeline import active, contents, epochs, transitions, true_time
from hoodie.transaction import admission, liveness, markers, publication, table_lock
from hoodie.transaction.client import Client

logger = logging.getLogger(__name__)

COMMENT_LENGTH_MAX = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A savepoint to create.

    Attributes:
        commit: Requested time of the commit to keep; None for the write that completed last.
        comment: Any text.
    """

    commit: instants.InstantTime | None = None
    comment: str = ""

    def __post_init__(self) -> None:
        if len(self.comment) > COMMENT_LENGTH_MAX:
            raise errors.InvalidInputError(
                f"the comment of a savepoint has {len(self.comment)} characters, expected "
                f"{COMMENT_LENGTH_MAX} at most"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Doomed:
    """Savepoints to delete.

    Attributes:
        commits: Requested times of the commits that they keep; each has to have one.
        older_than_ms: Beside them, those that completed so long before the newest instant on the
            timeline, or before now if that is earlier; None for no others.
    """

    commits: frozenset[instants.InstantTime] = frozenset()
    older_than_ms: int | None = None


def protected_paths(storage: protocol.Storage, timeline: active.ActiveTimeline) -> frozenset[str]:
    """Return the paths of all files that completed savepoints name; a read each.

    Args:
        storage: The table's.
        timeline: Of the table; who deletes files reads it in the scope that decides that.

    Raises:
        FormatError: A savepoint is damaged, or names files outside their partitions: nothing is
            known of what it protects.
        NotFoundError: One was deleted since the timeline was read.
    """
    return frozenset().union(
        *(contents.read_savepoint(storage, each).paths for each in timeline.savepoints)
    )


def listed(
    storage: protocol.Storage, timeline: active.ActiveTimeline
) -> list[results.SavepointResult]:
    """Return the savepoints of a timeline, in the order of their completion; a read each.

    Raises:
        FormatError: One is damaged.
        NotFoundError: One was deleted since the timeline was read.
    """
    return [
        results.SavepointResult(instant=each, savepoint=contents.read_savepoint(storage, each))
        for each in timeline.savepoints
    ]


def create(
    client: Client, config: table_config.TableConfig, wanted: Wanted
) -> results.SavepointResult:
    """Keep the files of a commit. If that has a savepoint with the same comment, it is returned.

    Two listings and a read for the newest commit, in the lock scope; a read for each clean that was
    planned, or has completed since an older one.

    Raises:
        NotFoundError: There is no such commit on the timeline.
        AlreadyExistsError: It has a savepoint with another comment.
        ConflictError: Files of it were cleaned, are about to be, or are missing; a restore is
            pending; or a pending rollback takes back what has completed.
        LockLostError: It was lost, and what was decided meanwhile by others deletes files of it.
        HoodieError: There is no savepoint; only an OutcomeUnknownError leaves open whether.
    """
    return _Creation(client, config, wanted).run()


def delete(
    client: Client, config: table_config.TableConfig, doomed: Doomed
) -> tuple[instants.Instant, ...]:
    """Delete savepoints, all of them or none in a table with a chain; return them.

    Raises:
        NotFoundError: A commit that is named has no savepoint.
        ConflictError: A restore is pending.
        HoodieError: Not deleted, or not all; only an OutcomeUnknownError leaves open which.
    """
    tried: set[instants.Instant] = set()

    def decide(scope: table_lock.LockScope) -> tuple[instants.Instant, ...]:
        admission.admit_table(client, scope, config)
        admission.admit_attempt(client)
        found = chosen(scope.timeline, doomed, client.clock.now_ms(), client.time_zone)
        left = _forget_dead(client, scope, only=doomed.commits)
        missing = doomed.commits - left - {each.requested_time for each in (*found, *tried)}
        if missing:
            raise errors.NotFoundError(
                f"commit {min(missing)} of {client.storage.uri} has no savepoint"
            )
        tried.update(found)
        _remove(client, scope, found)
        return tuple(sorted(tried, key=instant_names.file_name))

    deleted = client.lock.decide(decide)
    for each in deleted:
        logger.info("%s: %s was deleted", client.storage.uri, each)
    return deleted


class _Creation:
    """One creation, however often it is decided."""

    def __init__(self, client: Client, config: table_config.TableConfig, wanted: Wanted) -> None:
        self._client = client
        self._config = config
        self._wanted = wanted
        self._commit = wanted.commit
        self._begun: set[instants.InstantTime] = set()
        self._completed: instants.Instant | None = None

    def run(self) -> results.SavepointResult:
        found, is_certain = self._client.lock.decide(self._decide)
        if not is_certain:
            # Others had the lock when it was published, perhaps: it is looked at once more.
            found, is_certain = self._client.lock.decide(self._decide)
        if not is_certain:
            raise errors.OutcomeUnknownError(
                f"the {self._client.lock.description} was lost twice while {found.instant} was "
                f"created in {self._client.storage.uri}: a clean may have been planned without it; "
                "create it again, which looks whether all files exist"
            )
        logger.info("%s: %s", self._client.storage.uri, found.instant)
        return found

    def _decide(self, scope: table_lock.LockScope) -> tuple[results.SavepointResult, bool]:
        client = self._client
        admission.admit_table(client, scope, self._config)
        admission.admit_attempt(client)
        admission.admit_reliance(client, scope.timeline)
        commit = commit_to_keep(scope.timeline, self._commit)
        # Decided again, it is the same: another write may be the newest by then.
        self._commit = commit.requested_time
        _forget_dead(client, scope, but=commit.requested_time)
        known = [
            each
            for each in scope.timeline.savepoints
            if each.requested_time == commit.requested_time
        ]
        if known:
            return self._existing(scope, known[-1]), scope.is_held()
        try:
            return self._put(scope, commit), scope.is_held()
        except (errors.OvertakenError, errors.OutcomeUnknownError):
            raise
        except errors.HoodieError:
            if commit.requested_time in self._begun and scope.is_held():
                transitions.forget(client.storage, _inflight(commit.requested_time))
            raise

    def _existing(
        self, scope: table_lock.LockScope, instant: instants.Instant
    ) -> results.SavepointResult:
        """Return a savepoint that is there, if it is what is wanted and keeps what it names."""
        storage = self._client.storage
        with _just_listed(storage, instant):
            savepoint = contents.read_savepoint(storage, instant)
        if savepoint.comment != self._wanted.comment:
            raise errors.AlreadyExistsError(
                f"commit {instant.requested_time} of {storage.uri} has a savepoint, with the "
                f"comment {savepoint.comment!r}: delete that first, or use its comment"
            )
        snapshot = snapshots.take(storage, self._config, scope.timeline)
        there = _paths(snapshot.listing)
        refusal = _refusal(
            instant.requested_time, savepoint.paths, there, _planned_deletions(storage, scope)
        )
        is_new = instant == self._completed
        if refusal is not None:
            if is_new:
                # It was published after the lock was lost, and must not seem to keep anything.
                _remove(self._client, scope, [instant])
            raise refusal
        return results.SavepointResult(instant=instant, savepoint=savepoint, is_new=is_new)

    def _put(
        self, scope: table_lock.LockScope, commit: instants.Instant
    ) -> results.SavepointResult:
        client = self._client
        savepoint = plans.Savepoint(
            by=str(client.author) if client.author.record_name else "",
            comment=self._wanted.comment,
            saved_at_ms=client.clock.now_ms(),
            file_names=_file_names(client.storage, self._config, scope, commit),
        )
        content = savepoint_avro.encode(savepoint)
        scope.check()
        inflight = _inflight(commit.requested_time)
        if not scope.timeline.has_file(inflight):
            transitions.save(client.storage, commit.requested_time)
            self._begun.add(commit.requested_time)
        if scope.view is None:
            completed = transitions.complete(
                client.storage,
                inflight,
                content,
                timeline=scope.timeline,
                times=client.times,
                check=scope.check,
            )
        else:
            completed = transitions.completed(
                inflight, client.time_after(scope, true_time.Parity.EPOCH)
            )
            publication.put(client, scope, completed, content, scope.check)
        self._completed = completed
        return results.SavepointResult(instant=completed, savepoint=savepoint, is_new=True)


def commit_to_keep(
    timeline: active.ActiveTimeline, requested_time: instants.InstantTime | None
) -> instants.Instant:
    """Return the completed write to keep: the one of that time, or the last to complete.

    Raises:
        NotFoundError: There is none on the timeline.
        ConflictError: It is pending.
    """
    if requested_time is None:
        if not timeline.completed_writes:
            raise errors.NotFoundError(
                "there is no completed write on the timeline, of which a savepoint could keep files"
            )
        return timeline.completed_writes[-1]
    for each in reversed(timeline.completed_writes):
        if each.requested_time == requested_time:
            return each
    found = timeline.find(requested_time)
    if found is not None and found.is_pending:
        raise errors.ConflictError(f"{found} is pending, expected a completed write")
    if found is not None:
        raise errors.NotFoundError(f"{found} is not a write, expected a completed write")
    where = " any more: it was archived" if timeline.is_archived(requested_time) else ""
    raise errors.NotFoundError(f"there is no instant {requested_time} on the timeline{where}")


def _file_names(
    storage: protocol.Storage,
    config: table_config.TableConfig,
    scope: table_lock.LockScope,
    commit: instants.Instant,
) -> Mapping[str, tuple[str, ...]]:
    """Return the files of each slice as of a commit, by partition.

    Raises:
        ConflictError: Some were cleaned, are about to be, or are missing.
    """
    assert commit.completion_time is not None, commit
    snapshot = snapshots.take(storage, config, scope.timeline)
    cleaned = _cleaned(storage, scope.timeline, commit)
    there = _paths(snapshot.listing)
    # As the table would look if nothing had been cleaned since.
    as_it_was = listing.With(snapshot.listing, cleaned - there)
    moment = moments.Moment(time=commit.completion_time)
    view = snapshots.as_of(replace(snapshot, listing=as_it_was), moment).view
    names = {
        partition_path: {
            data_file.name
            for each in (
                *(slices[0] for slices in view.slices(partition_path)),
                *_by_requested_time(snapshot, partition_path, commit),
            )
            for data_file in each.data_files
        }
        for partition_path in view.partitions()
    }
    wanted = {files.join(path, name) for path, found in names.items() for name in found}
    # What the commit wrote itself is in its slices, so that it has to be there.
    for stat in contents.read_commit(storage, commit).stats:
        wanted.update(path for path in markers.data_paths_of(stat) if path)
    refusal = _refusal(
        commit.requested_time, wanted, there, _planned_deletions(storage, scope), cleaned
    )
    if refusal is not None:
        raise refusal
    return {path: tuple(sorted(found)) for path, found in names.items() if found}


def _by_requested_time(
    snapshot: snapshots.Snapshot, partition_path: str, commit: instants.Instant
) -> Iterator[files.FileSlice]:
    """Yield the slices that Apache Hudi takes for those as of a commit, which it reads as of it.

    It goes by requested times: a compaction that was requested before the commit and completed
    after it counts. What a log file added after the commit is of no use to it.
    """
    for slices in snapshot.view.slices(partition_path):
        for each in slices:
            if each.base_instant_time <= commit.requested_time and each.base_file is not None:
                logs = (
                    log
                    for log in each.log_files
                    if str(snapshot.timeline.completion_time(log.instant_time) or "")
                    <= str(commit.completion_time)
                )
                yield replace(each, log_files=tuple(logs))
                break


def _refusal(
    commit: instants.InstantTime,
    wanted: Collection[str],
    there: frozenset[str],
    planned: Mapping[str, instants.Instant],
    cleaned: frozenset[str] = frozenset(),
) -> errors.HoodieError | None:
    """Return why files cannot be kept; None if they can.

    Args:
        commit: Whose files they are.
        wanted: Paths of the files.
        there: Paths of all data files.
        planned: The pending clean that deletes a file, by the file's path.
        cleaned: Paths of files that cleans have deleted since.
    """
    for path in sorted(wanted):
        if path in planned:
            return errors.ConflictError(
                f"{planned[path]} is going to delete {path}, a file of commit {commit}: let it be "
                "executed and keep a later commit"
            )
        if path not in there and path in cleaned:
            return errors.ConflictError(
                f"{path}, a file of commit {commit}, was cleaned: keep a later commit"
            )
        if path not in there:
            return errors.ConflictError(
                f"{path}, a file of commit {commit}, is missing: run hoodie check"
            )
    return None


def _cleaned(
    storage: protocol.Storage, timeline: active.ActiveTimeline, commit: instants.Instant
) -> frozenset[str]:
    """Return the paths of the files that were cleaned since a commit; a read for each clean.

    Raises:
        ConflictError: The last clean keeps nothing of it (`earliestCommitToRetain`).
    """
    cleans = [each for each in timeline.completed if each.action is instants.Action.CLEAN]
    deleted: set[str] = set()
    for each in cleans:
        if each is not cleans[-1] and str(each.completion_time) < str(commit.completion_time):
            continue
        with _just_listed(storage, each):
            done = contents.read_clean(storage, each)
        earliest = done.earliest_retained or ""
        if each is cleans[-1] and commit.requested_time < earliest:
            raise errors.ConflictError(
                f"{each} has cleaned what is older than {earliest}: files of commit "
                f"{commit.requested_time} may be gone; keep a later commit"
            )
        deleted |= done.paths
    return frozenset(deleted)


def _planned_deletions(
    storage: protocol.Storage, scope: table_lock.LockScope
) -> Mapping[str, instants.Instant]:
    """Return which pending clean deletes a file, by its path; a read for each clean."""
    found: dict[str, instants.Instant] = {}
    for each in scope.timeline.pending_of(instants.Action.CLEAN):
        requested = each.pending_in(instants.State.REQUESTED)
        if not scope.timeline.has_file(requested):
            raise errors.ConflictError(
                f"{each} of {storage.uri} has no plan: run hoodie clean, which removes it once its "
                "owner is dead, then create the savepoint"
            )
        with _just_listed(storage, requested):
            try:
                plan = contents.read_clean_plan(storage, requested)
            except errors.FormatError as error:
                raise errors.ConflictError(
                    f"{error}: what it deletes is not known; if the file is empty, run hoodie "
                    "clean, which removes it once its owner is dead, then create the savepoint"
                ) from error
            found |= dict.fromkeys(plan.paths, each)
    return found


@contextmanager
def _just_listed(storage: protocol.Storage, instant: instants.Instant) -> Iterator[None]:
    """Read the file of an instant that was just listed.

    Raises:
        OvertakenError: It is gone: it is to be decided on a newer timeline.
    """
    try:
        yield
    except errors.NotFoundError as error:
        path = transitions.path(instant)
        raise errors.OvertakenError(f"{storage.uri}/{path} is gone since it was listed") from error


def _paths(table_listing: listing.Listing) -> frozenset[str]:
    return frozenset(
        each.path for path in table_listing.partitions() for each in table_listing.files(path)
    )


def _remove(
    client: Client, scope: table_lock.LockScope, found: Collection[instants.Instant]
) -> None:
    """Delete completed savepoints, by an epoch where the table has a chain, then what is left."""
    if found and scope.view is not None:
        change = epochs.Change(
            id=client.random.uuid(),
            time="",
            author=str(client.author),
            removals=tuple(transitions.path(each) for each in found),
        )
        publication.make(client, scope, change, scope.check)
    for each in found:
        if scope.view is None:
            scope.check()
            transitions.reopen(client.storage, each)
        scope.check()
        transitions.forget(client.storage, each.pending_in(instants.State.INFLIGHT))


def chosen(
    timeline: active.ActiveTimeline,
    doomed: Doomed,
    clock_ms: int,
    zone: time_zones.TimeZone = time_zones.UTC_ZONE,
) -> tuple[instants.Instant, ...]:
    """Return the completed savepoints to delete; their age is measured on the timeline.

    A clock that is ahead deletes nothing: only what the table itself has seen counts. Nor does an
    instant whose time is ahead of the clock, as another engine may have written it.

    Args:
        timeline: Read in the lock scope.
        doomed: What to choose.
        clock_ms: What our clock says, since the epoch.
        zone: The timeline's. Of a time that clocks show twice the later moment counts, so that no
            savepoint is older than it is.
    """
    newest_ms = zone.epoch_ms(timeline.greatest_time) if timeline.greatest_time else 0
    now_ms = min(newest_ms, clock_ms)
    return tuple(
        each
        for each in timeline.savepoints
        if each.requested_time in doomed.commits
        or (
            doomed.older_than_ms is not None
            and now_ms - zone.moments_ms(str(each.completion_time))[-1] > doomed.older_than_ms
        )
    )


def _forget_dead(
    client: Client,
    scope: table_lock.LockScope,
    *,
    but: instants.InstantTime | None = None,
    only: Collection[instants.InstantTime] = (),
) -> set[instants.InstantTime]:
    """Remove what creations left that died between their two files; return the commits' times.

    Apache Hudi's creations have no heartbeat and hold no lock: one counts as dead when nothing of
    it was written for as long as a heartbeat takes to expire. No request where there is none.

    Args:
        client: Who does it.
        scope: In which it looks.
        but: The commit of which a savepoint is being created.
        only: Commits whose savepoints are deleted even during their creation.
    """
    pending = [
        each
        for each in scope.timeline.pending_of(instants.Action.SAVEPOINT)
        if each.requested_time != but
    ]
    if not pending:
        return set()
    seen = liveness.look_at(client.heartbeats, client.storage, scope.timeline, pending)
    forgotten = set()
    for each, status in seen.items():
        if status.liveness.is_alive and each.requested_time not in only:
            continue
        scope.check()
        transitions.forget(client.storage, each)
        forgotten.add(each.requested_time)
        logger.info("%s: %s was never completed: removed", client.storage.uri, each)
    return forgotten


def _inflight(requested_time: instants.InstantTime) -> instants.Instant:
    return instants.Instant(
        requested_time=requested_time,
        action=instants.Action.SAVEPOINT,
        state=instants.State.INFLIGHT,
    )
