"""A snapshot of a table: one timeline, one listing, and what follows from both.

Everything that reads, plans or checks a table starts here. The timeline is read first, so that
every file of a write that it shows as completed exists before the listing begins: pages of the
listing cannot miss it, and what else they show belongs to no write that the timeline shows.

A slow reader's files may be cleaned between timeline and listing, which then silently lacks their
slices. A pending instant holds cleaning back; a plain read does not, so it checks for a new clean
after the listing and repeats both (`consistent`).

Cost: two list requests for the timeline (one under the table lock) and one for the data files, and
a read for each pending compaction and completed replace commit; `consistent` lists the timeline
once more. Where a data file is older than the timeline's first write, a read for each rollback,
too. Where an instant has base files or log files of several write tokens in a file group, a read of
its commit.

A snapshot as of an earlier moment (`as_of`) is of the same timeline and listing, of which later
writes do not count: it returns what a snapshot taken then returned. `past` finds what of it is gone
since, and must not be read.
"""

from __future__ import annotations

import copy
import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Self, TypeVar

from hoodie import deferred, errors
from hoodie.filegroup import listing, view
from hoodie.format import timeline_avro
from hoodie.model import commits, files, instants, moments, sent_times, table_config
from hoodie.storage import protocol
from hoodie.timeline import active, chain, contents, transitions

with deferred.imports():
    from hoodie.filegroup import log_scanning, metadata_listing, metadata_table
    from hoodie.model import plans
    from hoodie.timeline import archived, partition_buckets

DataFile = TypeVar("DataFile", files.BaseFile, files.LogFile)
Found = TypeVar("Found")

_TRIES_MAX = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedInstants:
    """What a timeline tells of which data files count; it pickles. `CommittedFiles` answers.

    Attributes:
        completed: Completed writes on the active timeline: when, by requested time.
        gap: Where the timeline does not say whether a write was archived.
        late: Requested times of pending writes that came after it was archived past them.
        rollbacks: All that it holds.
        moment: As of which they count; None for all that is there. Of writes that are older than
            the timeline the archive then says when they completed.
        found: Requested times that count, whatever else is known of them.
    """

    completed: Mapping[instants.InstantTime, instants.InstantTime]
    gap: active.Gap
    late: frozenset[instants.InstantTime]
    rollbacks: tuple[instants.Instant, ...]
    moment: moments.Moment | None = None
    found: frozenset[instants.InstantTime] = frozenset()

    def as_of(self, moment: moments.Moment) -> Self:
        """Return what counted as of a moment; no request, and nothing that grows with writes."""
        return replace(self, moment=moment)

    def has(self, requested_time: instants.InstantTime) -> bool:
        """Return whether a write counts, as far as the timeline alone says so."""
        if requested_time in self.found:
            return True
        time = self.completed.get(requested_time)
        return time is not None and (self.moment is None or self.moment.has(requested_time, time))

    def with_files_of(self, file_slice: files.FileSlice) -> Self:
        """Return what counts in a slice whose files were found to count: no archive is asked."""
        found = {each.instant_time for each in file_slice.data_files}
        return replace(self, found=self.found | found)


def committed_instants(timeline: active.ActiveTimeline) -> CommittedInstants:
    """Return what tells which data files count as of a timeline; no request."""
    return CommittedInstants(
        completed=sent_times.CompletionTimes(timeline.write_completion_times),
        gap=active.Gap(first=timeline.first, start=timeline.start),
        late=timeline.late,
        rollbacks=tuple(
            each for each in timeline.instants if each.action is instants.Action.ROLLBACK
        ),
    )


class CommittedFiles:
    """Which data files count.

    Those of completed writes, and those older than the timeline, which were archived, or are
    orphans that Apache Hudi shows, too (format.md: Visibility). But not those of a write that a
    rollback on the timeline took back: a task that was paused meanwhile may have put them there
    after it, until they are swept. Whoever built on them would commit what was taken back.
    """

    def __init__(self, storage: protocol.Storage, known: CommittedInstants) -> None:
        """Take what the timeline tells, and the storage to read rollbacks from if need be."""
        self._storage = storage
        self.known = known
        self._taken_back: frozenset[instants.InstantTime | None] | None = None
        self._commits: dict[instants.InstantTime, commits.CommitMetadata | None] = {}
        self._of_others: dict[str, bool] = {}
        self._archive = archived.ArchivedTimeline(storage)

    def __reduce__(self) -> tuple[type[Self], tuple[protocol.Storage, CommittedInstants]]:
        """Pickle what it knows; what it has read since is read again."""
        return type(self), (self._storage, self.known)

    @classmethod
    def of(cls, storage: protocol.Storage, timeline: active.ActiveTimeline) -> Self:
        """Return those that count as of a timeline; no request."""
        return cls(storage, committed_instants(timeline))

    def as_of(self, moment: moments.Moment) -> Self:
        """Return those that counted as of a moment; they share what is read of the archive."""
        found = copy.copy(self)
        found.known = self.known.as_of(moment)
        return found

    def is_committed(self, requested_time: instants.InstantTime) -> bool:
        """Return whether data files of that requested time are part of the table.

        The first time that it is asked of one older than the timeline: a request for each rollback.
        Of one that a rollback took back, and of one among writes that savepoints keep, which may be
        left of older ones: the archive. As of a moment, of each that is older than the timeline.
        """
        if self.known.has(requested_time):
            return True
        gap, moment = self.known.gap, self.known.moment
        if requested_time in self.known.late:
            return False
        is_below = gap.is_below(requested_time)
        if is_below and requested_time not in self._targets():
            return moment is None or moment.has(
                requested_time, self._archive.completion_time(requested_time)
            )
        # A compaction that was taken back is executed again, and then archived as any other.
        is_in_doubt = is_below or gap.holds(requested_time)
        if not is_in_doubt:
            return False
        completion_time = self._archive.completion_time(requested_time)
        if completion_time is None:
            return False
        return moment is None or moment.has(requested_time, completion_time)

    def without_orphans(self, data_files: Iterable[DataFile]) -> list[DataFile]:
        """Return base files, or log files, without those that tasks of a completed instant left.

        A task that was taken for dead may finish its file after another has written the same one,
        and be broken off in doing so. Of files of one instant and file group with several write
        tokens those count that the commit names, and log files whose blocks are of other instants.
        That is asked only there: a listing of the timeline, and a request for each such instant,
        once, and for each log file that it does not name.

        Raises:
            FormatError: Such a commit cannot be read.
        """
        found = list(data_files)
        by_place: defaultdict[tuple[files.FileGroupId, instants.InstantTime], list[DataFile]]
        by_place = defaultdict(list)
        for each in found:
            by_place[each.group, each.instant_time].append(each)
        if len(by_place) == len(found):
            return found
        return [
            each
            for (_, instant_time), same in by_place.items()
            for each in (
                same
                if len({file.write_token for file in same}) == 1
                else self._named_of(same, instant_time)
            )
        ]

    def _named_of(self, same: list[DataFile], instant_time: instants.InstantTime) -> list[DataFile]:
        if not self.is_committed(instant_time):
            return same
        if instant_time not in self._commits:
            self._commits[instant_time] = _metadata(self._storage, instant_time)
        commit = self._commits[instant_time]
        # All of them where nothing tells: the commit was archived, or is of another program.
        if commit is None or not _names_all_like(same[0], commit):
            return same
        named = {path for stat in commit.stats for path in _paths_of(stat)}
        return [each for each in same if each.path in named or self._is_of_another(each)] or same

    def _is_of_another(self, data_file: listing.DataFile) -> bool:
        """Return whether another write has put a log file there under this one's time."""
        known = self._of_others.get(data_file.path)
        if known is None:
            known = log_scanning.is_of_another(self._storage, data_file)
            self._of_others[data_file.path] = known
        return known

    def _targets(self) -> frozenset[instants.InstantTime | None]:
        # Not a cached_property, whose lock all threads would share while one of them reads.
        if self._taken_back is None:
            self._taken_back = frozenset(
                contents.read_rollback_target(self._storage, each) for each in self.known.rollbacks
            )
        return self._taken_back


def _metadata(
    storage: protocol.Storage, instant_time: instants.InstantTime
) -> commits.CommitMetadata | None:
    """Return what a completed write says of itself; None for one that is not on the timeline."""
    completed = active.listed(storage).find(instant_time)
    if completed is None or not completed.is_completed:
        return None
    path = transitions.path(completed)
    try:
        content = storage.read(path)
    except errors.NotFoundError:
        return None  # It was archived just now.
    return timeline_avro.decode_commit(content, path)


def _names_all_like(data_file: listing.DataFile, commit: commits.CommitMetadata) -> bool:
    """Return whether a commit names every file of its kind that it wrote.

    Which log files a commit of another program names is its own to say.
    """
    return isinstance(data_file, files.BaseFile) or commits.WRITE_ID_KEY in commit.extra


def _paths_of(stat: commits.WriteStat) -> Iterator[str]:
    yield stat.path
    for name in stat.log_files:
        yield files.join(stat.partition_path, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retirement:
    """What a completed replace commit retired.

    Attributes:
        requested_time: Its requested time.
        completion_time: Its completion time.
        groups: The file groups.
    """

    requested_time: instants.InstantTime
    completion_time: instants.InstantTime
    groups: frozenset[files.FileGroupId]


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A table as of one moment.

    Attributes:
        timeline: The timeline.
        listing: The data files, listed when first asked for.
        committed: Which of them count.
        compactions: The plan of each pending compaction.
        replaced: When each file group that a completed replace commit retired was retired.
        retired: What each replace commit on the timeline retired, by completion time.
        bucket_count: The count of buckets in the table's properties; None where they have none.
        hashing_configs: Returns the bucket counts by partition; read when first asked for.
        touched: Returns the partitions that completed writes touched; a request for each write.
        executed_plan: Returns the plan of a completed compaction; a request.
        moment: As of which it is; None for the moment of its timeline.
        was_upgraded: Whether the table was made as one of version 6 or older.
    """

    timeline: active.ActiveTimeline
    listing: listing.Listing
    committed: CommittedFiles
    compactions: dict[instants.InstantTime, plans.CompactionPlan]
    replaced: Mapping[files.FileGroupId, instants.InstantTime]
    bucket_count: int | None
    hashing_configs: Callable[[], tuple[partition_buckets.HashingConfig, ...]]
    touched: Callable[[Iterable[instants.Instant]], frozenset[str]]
    executed_plan: Callable[[instants.InstantTime], plans.CompactionPlan]
    moment: moments.Moment | None = None
    retired: tuple[Retirement, ...] = ()
    was_upgraded: bool = False

    def bucket_counts(self) -> tuple[int, ...]:
        """Return the counts of buckets of which each partition has one; sorted.

        As of an earlier moment those are not known of a table that is given others: none.

        One request of an unpartitioned table, the first time; one more for each hashing config.

        Raises:
            FormatError: A hashing config is damaged.
            UnsupportedError: It follows rules that are not known.
        """
        counts = {count for each in self.hashing_configs() for count in each.counts}
        if counts and self.moment is not None:
            return ()
        return tuple(sorted(counts if self.bucket_count is None else {self.bucket_count, *counts}))

    @property
    def metadata(self) -> metadata_table.MetadataTable | None:
        """The metadata table, once files were taken from it; None if they are listed."""
        if isinstance(self.listing, listing.StorageListing):
            return None
        if isinstance(self.listing, metadata_listing.MetadataListing):
            return self.listing.table()
        return None

    @property
    def view(self) -> view.FileSystemView:
        """The file slices."""
        found = view.FileSystemView(
            self.timeline,
            self.listing,
            self.committed.is_committed,
            self.compactions,
            self.replaced,
            self.committed.without_orphans,
        )
        if self.was_upgraded:
            found = found.of_upgraded_table()
        if self.moment is None or self.moment.rule is moments.Rule.COMPLETION:
            return found
        return found.requested_until(self.moment.time)

    def newest_slices(self) -> list[files.FileSlice]:
        """Return the newest slice of each file group, by partition path."""
        view = self.view
        return [each for path in view.partitions() for each in view.latest_slices(path)]

    @property
    def known(self) -> CommittedInstants:
        """Which log blocks count, as a value for any process."""
        known = self.committed.known
        if self.moment is None or known.moment is not None:
            return known
        return known.as_of(self.moment)


def take(
    storage: protocol.Storage,
    config: table_config.TableConfig,
    timeline: active.ActiveTimeline | None = None,
    *,
    has_committed_only: bool = False,
) -> Snapshot:
    """Take a snapshot.

    Args:
        storage: The table's.
        config: Tells whether there are partitions.
        timeline: A timeline just read, inside a lock scope for instance. Without one it is read
            here, and again if a plan that it shows is taken back before it was read.
        has_committed_only: Whether files of writes that did not complete may be missing in the
            listing: it is taken from the table's metadata table then, if there is one.

    Raises:
        ConflictError: A plan on the timeline that was given was taken back since.
        NotFoundError: The table lacks the file of an instant on its timeline.
    """
    if timeline is None:
        return active.with_contents(
            storage,
            functools.partial(_taken, storage, config, has_committed_only=has_committed_only),
            functools.partial(chain.load, config=config),
        )
    try:
        return _taken(storage, config, timeline, has_committed_only=has_committed_only)
    except errors.NotFoundError as error:
        now = active.listed(storage)
        if all(now.find(each.requested_time) for each in timeline.pending_compactions):
            raise
        raise errors.ConflictError(
            f"{error}; it was rolled back while a snapshot of {storage.uri} was taken: retry"
        ) from error


def consistent(
    storage: protocol.Storage,
    config: table_config.TableConfig,
    use: Callable[[Snapshot], Found],
) -> Found:
    """Return what is made of a snapshot whose listing lacks no file that its timeline shows.

    A clean deletes what was replaced by writes that had completed before it was requested. If its
    own completion is on the timeline, these writes are, and it does no harm; nor if it was seen
    before the timeline was read.

    Args:
        storage: The table's.
        config: Tells whether there are partitions.
        use: Makes all its listings.

    Raises:
        StorageError: Cleans came during each of many tries.
    """
    known: set[instants.InstantTime] = set()
    for _ in range(_TRIES_MAX):
        snapshot = take(storage, config, has_committed_only=True)
        found = use(snapshot)
        cleans = _cleans(active.listed(storage).instants) - _cleans(snapshot.timeline.completed)
        if cleans <= known:
            return found
        known |= cleans
    raise errors.StorageError(
        f"{storage.uri} was cleaned during each of {_TRIES_MAX} looks at it: readers take longer "
        "than the clean's grace"
    )


def _cleans(found: Iterable[instants.Instant]) -> set[instants.InstantTime]:
    return {each.requested_time for each in found if each.action is instants.Action.CLEAN}


def _taken(
    storage: protocol.Storage,
    config: table_config.TableConfig,
    timeline: active.ActiveTimeline,
    *,
    has_committed_only: bool,
) -> Snapshot:
    found = listing.of_table(storage, config)
    if has_committed_only and config.has_metadata_table:
        found = metadata_listing.of_table(storage, config, timeline, found)
    committed = CommittedFiles.of(storage, timeline)
    retired = _retired(storage, timeline)
    return Snapshot(
        timeline=timeline,
        listing=found,
        committed=committed,
        compactions={
            pending.requested_time: contents.read_compaction_plan(storage, pending)
            for pending in timeline.pending_compactions
        },
        replaced=_last(retired),
        retired=retired,
        bucket_count=config.bucket_count,
        was_upgraded=config.was_upgraded,
        hashing_configs=functools.cache(
            lambda: partition_buckets.read(storage, found.hashing_configs(), committed.is_committed)
        ),
        touched=functools.partial(contents.read_touched_partitions, storage),
        executed_plan=lambda requested_time: contents.read_compaction_plan(
            storage,
            instants.Instant(
                requested_time=requested_time,
                action=instants.Action.COMPACTION,
                state=instants.State.REQUESTED,
            ),
        ),
    )


def as_of(snapshot: Snapshot, moment: moments.Moment) -> Snapshot:
    """Return a snapshot of the table as it was; compactions that were pending start no slices.

    The archive for each file of a write that is older than the timeline. What of it is gone since
    is not looked for (`past`).

    Args:
        snapshot: Of the table as it is now.
        moment: Which writes count.
    """
    then = snapshot.committed.as_of(moment)
    retired = (each for each in snapshot.retired if then.known.has(each.requested_time))
    # By requested times slices are those of now, and what came later is left out of them.
    is_cut = moment.rule is moments.Rule.COMPLETION
    return replace(
        snapshot,
        committed=then if is_cut else snapshot.committed,
        compactions={} if is_cut else snapshot.compactions,
        replaced=_last(retired),
        moment=moment,
    )


def replaced_groups(
    storage: protocol.Storage, timeline: active.ActiveTimeline
) -> Mapping[files.FileGroupId, instants.InstantTime]:
    """Return the file groups that replace commits on the timeline retired, and when.

    The time is the completion of the last replace commit that names the group. Replace commits are
    archived once the files of the groups that they retired are cleaned, so archived ones retire
    nothing, as one does that is archived while this is read.

    Raises:
        NotFoundError: The table lacks the file of one.
    """
    return _last(_retired(storage, timeline))


def _last(
    retired: Iterable[Retirement],
) -> Mapping[files.FileGroupId, instants.InstantTime]:
    found: dict[files.FileGroupId, instants.InstantTime] = {}
    for each in retired:
        found |= dict.fromkeys(each.groups, each.completion_time)
    return found


def _retired(storage: protocol.Storage, timeline: active.ActiveTimeline) -> tuple[Retirement, ...]:
    """Return what the replace commits on a timeline retired; a read for each."""
    found = []
    for instant in timeline.completed_writes:
        if instant.action is instants.Action.REPLACE_COMMIT and instant.completion_time:
            try:
                groups = contents.read_replaced_groups(storage, instant)
            except errors.NotFoundError:
                if active.listed(storage).has_file(instant):
                    raise
                continue
            found.append(
                Retirement(
                    requested_time=instant.requested_time,
                    completion_time=instant.completion_time,
                    groups=groups,
                )
            )
    return tuple(found)
