"""`hoodie check`: every invariant of a table and its timeline, one after the other.

    timeline    each action completed once, times in order, metadata readable, its files there
    chain       its epochs are whole and in order; what other engines did beside it
    pending     a note while its owner lives, a finding after
    holds       savepoints and consumers readable, cleans not left empty
    files       none that no instant knows, a bucket has one file group, partitions are marked
    content     log blocks whole and of their file's instant, base files readable, records in the
                partition and bucket that their key says; a note of keys that several file groups
                have

Reads the whole table. A finding never stops the check; what cannot be read is a finding.
"""

import dataclasses
import functools
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie import environment, errors
from hoodie.engine import protocol as engines
from hoodie.filegroup import listing, log_scanning, reading, snapshots
from hoodie.format import file_names, log_blocks
from hoodie.index import partitions, tables
from hoodie.index import protocol as index_protocol
from hoodie.maintenance import consumers
from hoodie.maintenance.rollback import orphan_files
from hoodie.model import commits, files, instants, results, schemas, settings, table_config
from hoodie.services import metadata_statistics, metadata_tables, repeated_keys, table_stats
from hoodie.storage import paths, protocol
from hoodie.timeline import (
    active,
    archived,
    chain,
    clock_evidence,
    contents,
    epochs,
    metadata_timelines,
    partition_buckets,
    transitions,
)
from hoodie.transaction import heartbeats, layout, liveness, manager, markers

_CLOCKS_MAX = 20
"""Findings about clocks; a writer whose clock is wrong makes many."""

Findings = Iterator[results.Finding]
Commits = Mapping[instants.Instant, commits.CommitMetadata]


def check(
    target: manager.Target,
    write_settings: settings.WriteSettings,
    env: environment.Environment,
) -> list[results.Finding]:
    """Return what is wrong with a table, and what is worth a note.

    Args:
        target: The table.
        write_settings: By which heartbeats count as expired.
        env: Clock, and the engine that reads file groups.
    """
    snapshot = snapshots.take(target.storage, target.config)
    lives = heartbeats.Heartbeats(target.storage, env.clock, env.background, write_settings)
    read, unreadable = _commits(target, snapshot)
    found = [
        *unreadable,
        *_of_columns(target),
        *_of_bucket_counts(snapshot),
        *_of_timeline(target, snapshot, read),
        *_of_clocks(target, snapshot.timeline),
        *_of_chain(target),
        *_of_remains(snapshot.timeline),
        *_of_pending(liveness.pending(target.storage, snapshot.timeline, write_settings, env)),
        *_of_leftovers(target.storage, snapshot.timeline, lives),
        *_of_savepoints(target.storage, snapshot.timeline),
        *_of_cleans(target.storage, snapshot.timeline),
        *_of_consumers(target, snapshot.timeline, env.clock.now_ms()),
        *_of_files(snapshot, _index(target.config, snapshot)),
        *of_hidden_logs(target.storage, snapshot),
        *_of_orphans(target.storage, snapshot, read),
        *_of_all_files(target.storage, snapshot.timeline),
        *_of_metadata_table(target, env),
    ]
    return [
        *found,
        *_of_contents(target, snapshot, env, None),
        *_of_repeated_keys(target, snapshot, env.engine),
    ]


def check_buckets(
    target: manager.Target,
    env: environment.Environment,
    progress: engines.Progress | None = None,
    hashing_config: partition_buckets.HashingConfig | None = None,
) -> list[results.Finding]:
    """Return what is wrong with a table's buckets: file groups, and the records in them.

    Reads the keys of all records.

    Args:
        target: The table, with the number of buckets that it is to have.
        env: The engine that reads file groups.
        progress: Told of file groups that were read.
        hashing_config: Bucket counts by partition that it is to have as well.
    """
    snapshot = snapshots.take(target.storage, target.config)
    if hashing_config is not None:
        snapshot = dataclasses.replace(snapshot, hashing_configs=lambda: (hashing_config,))
    index = _index(target.config, snapshot)
    found: list[results.Finding] = []
    for path in snapshot.listing.partitions():
        groups: defaultdict[int, set[str]] = defaultdict(set)
        for data_file in snapshot.listing.files(path):
            if snapshot.committed.is_committed(data_file.instant_time):
                found += _of_bucket(data_file, index, groups)
    # Names that are no buckets tell enough.
    return found or _of_contents(target, snapshot, env, progress)


def _of_contents(
    target: manager.Target,
    snapshot: snapshots.Snapshot,
    env: environment.Environment,
    progress: engines.Progress | None,
) -> list[results.Finding]:
    slices = [
        file_slice
        for path in snapshot.view.partitions()
        for group in snapshot.view.slices(path)
        for file_slice in group
        if not file_slice.is_empty
    ]
    index_of = _indexes(target, snapshot)
    per_slice = env.engine.map(
        lambda file_slice: list(_of_content(target, snapshot, index_of, file_slice)),
        slices,
        progress=progress,
    )
    return [each for findings in per_slice for each in findings]


def _of_columns(target: manager.Target) -> Findings:
    for name in schemas.decimals_of_bytes(target.schema):
        yield _note(
            f"column {name}",
            "is a decimal of Avro bytes: Spark cannot read base files that Apache Hudi rewrites "
            "with it, hoodie can; new tables store it as fixed",
        )


def _of_metadata_table(target: manager.Target, env: environment.Environment) -> Findings:
    """Compare the metadata table with the storage, if there is one."""
    if not target.config.metadata_partitions:
        return
    rebuild = "rebuild it by `hoodie metadata init --rebuild`"
    try:
        found = metadata_tables.validate(target.storage, target.config, target.schema, env.engine)
    except errors.HoodieError as error:
        yield _error(metadata_timelines.DIRECTORY, f"{error}: reads list the storage; {rebuild}")
        return
    for each in found.differences:
        yield _error(
            each.path,
            f"has {_bytes(each.storage_bytes)} on storage, and {_bytes(each.metadata_bytes)} by "
            f"the metadata table: {rebuild}",
        )
    harmless: dict[str, list[metadata_statistics.WrongStatistics]] = {}
    for wrong in found.statistics:
        if not wrong.is_relied_on:
            harmless.setdefault(wrong.column, []).append(wrong)
            continue
        yield _error(
            wrong.path,
            f"has {wrong.file_range} in column {wrong.column}, and {wrong.metadata_range} by the "
            f"metadata table: {rebuild}",
        )
    for column, (first, *others) in harmless.items():
        more = f", and of {len(others)} more files or partitions" if others else ""
        yield _note(
            f"column {column}",
            f"the statistics of {first.path} say {first.metadata_range}, it has "
            f"{first.file_range}{more}: reads of this project do not rely on such statistics, "
            "which Apache Hudi writes; its own readers may leave rows out",
        )
    for path, problem in (
        *((each.path, each.problem) for each in found.filters),
        *((each.path, each.problem) for each in found.keys),
    ):
        yield _error(path, f"{problem}: {rebuild}")


def _bytes(size: int | None) -> str:
    return "no file" if size is None else f"{size} bytes"


def _of_bucket_counts(snapshot: snapshots.Snapshot) -> Findings:
    try:
        configs = snapshot.hashing_configs()
    except errors.HoodieError as error:
        yield _error(partition_buckets.DIRECTORY, str(error))
        return
    for each in configs[-1:]:
        yield _note(
            each.path,
            f"gives partitions bucket counts of their own ({each.expressions}): filters on the key "
            "look at each count's bucket, and non-blocking writers are refused",
        )


def _of_chain(target: manager.Target) -> Findings:
    """Read the epochs that are kept, and compare the timeline with the newest."""
    opened = chain.opened(target.storage, target.config)
    if opened is None:
        return
    try:
        kept = opened.all()
        found = opened.findings()
    except errors.HoodieError as error:
        yield _error(epochs.DIRECTORY, str(error))
        return
    for before, head in itertools.pairwise(kept):
        if head.epoch.previous != before.digest:
            text = f"does not follow epoch {before.epoch.number}: one of them was replaced"
            yield _error(epochs.path_of(head.epoch.number), text)
    for each in found:
        yield _error(epochs.path_of(each.number), each.text)


def _index(config: table_config.TableConfig, snapshot: snapshots.Snapshot) -> index_protocol.Index:
    # Asked for each data file; a hashing config that is broken is not read again for each.
    @functools.cache
    def counts() -> tuple[int, ...]:
        try:
            return snapshot.bucket_counts()
        except errors.HoodieError:
            return ()  # A finding says why.

    return tables.index_of(config, counts)


def _indexes(
    target: manager.Target, snapshot: snapshots.Snapshot
) -> Callable[[str], index_protocol.Index]:
    """Return what returns the index of each partition."""
    try:
        configs = snapshot.hashing_configs()
    except errors.HoodieError:
        # A finding says why. Any bucket may be right.
        return lambda _: tables.index_of(target.config, tuple)
    hashing_config = configs[-1] if configs else None
    is_committed = snapshot.committed.is_committed
    return partitions.PartitionIndexes(
        target.storage, target.config, hashing_config, is_committed
    ).of


def _commits(
    target: manager.Target, snapshot: snapshots.Snapshot
) -> tuple[Commits, list[results.Finding]]:
    """Read what completed writes tell; a finding for each that cannot be read."""
    read = {}
    unreadable = []
    for instant in snapshot.timeline.completed_writes:
        try:
            read[instant] = contents.read_commit(target.storage, instant)
        except errors.HoodieError as error:
            is_missing = isinstance(error, errors.NotFoundError)
            if is_missing and not active.listed(target.storage).has_file(instant):
                continue  # It was archived meanwhile.
            unreadable.append(_error(str(instant), str(error)))
    return read, unreadable


def _of_clocks(target: manager.Target, timeline: active.ActiveTimeline) -> Findings:
    """Yield findings about times that went back, or are of another zone; of the newest of each."""
    zone = target.config.time_zone
    if zone is None:
        return
    upgraded = target.config.was_upgraded
    found = clock_evidence.of_table(target.storage, timeline, was_upgraded=upgraded)
    for instant, text in clock_evidence.findings(found, zone)[-_CLOCKS_MAX:]:
        yield _error(str(instant), text)


def _of_timeline(target: manager.Target, snapshot: snapshots.Snapshot, read: Commits) -> Findings:
    timeline = snapshot.timeline
    for duplicates in timeline.duplicates:
        names = " and ".join(str(each.completion_time) for each in duplicates)
        yield _error(str(duplicates[0]), f"completed at {names}, expected once")
    seen: dict[str, instants.Instant] = {}
    for instant in timeline.instants:
        if instant.completion_time is None:
            continue
        if instant.completion_time < instant.requested_time:
            yield _error(str(instant), f"completed at {instant.completion_time}, before requested")
        if instant.completion_time in seen:
            other = seen[instant.completion_time]
            yield _error(str(instant), f"completed at {instant.completion_time}, as did {other}")
        seen[instant.completion_time] = instant
    sizes = {
        data_file.path: data_file.size_bytes
        for path in snapshot.listing.partitions()
        for data_file in snapshot.listing.files(path)
    }
    for instant, metadata in read.items():
        yield from _of_metadata(instant, metadata, sizes, snapshot)
    if target.config.is_copy_on_write:
        yield from _of_succession(read)


def _of_metadata(
    instant: instants.Instant,
    metadata: commits.CommitMetadata,
    sizes: dict[str, int],
    snapshot: snapshots.Snapshot,
) -> Findings:
    is_cleaned = any(each.action is instants.Action.CLEAN for each in snapshot.timeline.instants)
    for stat in metadata.stats:
        size_bytes = sizes.get(stat.path)
        group = files.FileGroupId(stat.partition_path, stat.file_id)
        if size_bytes is None:
            if not is_cleaned and group not in snapshot.replaced:
                yield _error(str(instant), f"its file {stat.path} is missing")
        elif not stat.log_files and size_bytes != stat.size_bytes:
            message = f"its file {stat.path} has {size_bytes} bytes, expected {stat.size_bytes}"
            yield _error(str(instant), message)


def _of_succession(read: Commits) -> Findings:
    """Find base files that were not made of the one before them, and hide what was written there.

    No protocol allows it; a writer that is paused for longer than its lock lasts, right before it
    publishes, may do it all the same, and is told that the outcome is not known.
    """
    writes: defaultdict[files.FileGroupId, dict[instants.Instant, str]] = defaultdict(dict)
    for instant in sorted(read, key=lambda each: each.requested_time):
        for stat in read[instant].stats:
            writes[files.FileGroupId(stat.partition_path, stat.file_id)][instant] = stat.prev_commit
    for group, prev_commits in writes.items():
        for before, (after, prev_commit) in zip(
            prev_commits, list(prev_commits.items())[1:], strict=False
        ):
            # Apache Hudi keeps an instant of 14 digits as it is named.
            if prev_commit not in (before.requested_time, before.short_name):
                yield _error(
                    str(before),
                    f"what it wrote to {group} is hidden by {after}, which was made of the base "
                    f"file of {prev_commit}",
                )


def _of_remains(timeline: active.ActiveTimeline) -> Findings:
    completed = {each.requested_time for each in timeline.remains if each.is_completed}
    for each in timeline.remains:
        if each.requested_time in completed:
            yield _note(str(each), "is archived: the next hoodie archive deletes its file")
        else:
            yield results.Finding(
                severity=results.Severity.ERROR,
                subject=str(each),
                message="was archived before, and looks pending to Apache Hudi, whose readers do "
                "not show what was archived after it",
                remedy=results.Remedy.ROLL_BACK,
            )


def _of_pending(found: Iterable[results.PendingInstant]) -> Findings:
    for each in found:
        is_plan = each.instant.state is instants.State.REQUESTED and each.instant.action in (
            instants.Action.COMPACTION,
            instants.Action.CLUSTERING,
            instants.Action.CLEAN,
        )
        severity, message = results.Severity.NOTE, "planned, and no process executes it"
        is_savepoint = each.instant.action is instants.Action.SAVEPOINT
        if each.is_alive:
            owner = f" by {each.owner}" if each.owner else ""
            message = f"in progress{owner}"
            if each.silence_ms is not None:
                message += f", last sign of life {each.silence_ms // 1000} s ago"
        elif is_savepoint:
            message = (
                "begun and not completed, so that it keeps no files: the next hoodie savepoint "
                "create or delete removes it"
            )
        elif not is_plan:
            owner = f"its owner {each.owner}" if each.owner else "its owner"
            severity = results.Severity.ERROR
            message = f"{owner} is dead (heartbeat {each.liveness}); its changes are invisible"
        yield results.Finding(
            severity=severity, subject=str(each.instant), message=message, remedy=each.remedy
        )


def _of_leftovers(
    storage: protocol.Storage, timeline: active.ActiveTimeline, lives: heartbeats.Heartbeats
) -> Findings:
    pending = timeline.pending_times
    for info in storage.list(layout.HEARTBEATS):
        time = orphan_files.instant_of(info.path)
        if time is not None and time not in pending and not lives.look(time).liveness.is_alive:
            yield _leftover(info.path, "is an orphan of an instant that is not pending")
    marked = {
        info.path.removeprefix(f"{layout.MARKERS}/").partition("/")[0]
        for info in storage.list(layout.MARKERS, is_recursive=True)
    }
    for name in sorted(marked - pending):
        yield _leftover(f"{layout.MARKERS}/{name}", "are markers of an instant that is not pending")


def _of_savepoints(storage: protocol.Storage, timeline: active.ActiveTimeline) -> Findings:
    for each in timeline.savepoints:
        try:
            contents.read_savepoint(storage, each)
        except errors.NotFoundError:
            continue  # It was deleted meanwhile.
        except errors.FormatError as error:
            yield _error(
                str(each),
                f"{error}: which files it keeps is not known, so that nothing is cleaned; run "
                f"hoodie savepoint delete --instant {each.requested_time}",
            )


def _of_cleans(storage: protocol.Storage, timeline: active.ActiveTimeline) -> Findings:
    """Find cleans that an engine left empty when it crashed."""
    for each in timeline.instants:
        if each.action is not instants.Action.CLEAN:
            continue
        requested = each.pending_in(instants.State.REQUESTED)
        named = each if each.is_completed else requested
        try:
            is_empty = not storage.stat(transitions.path(named)).size_bytes
        except errors.NotFoundError:
            # A completed one, or the whole of a pending one, is gone since the listing.
            is_empty = each.is_pending and timeline.has_file(each) and each != requested
        if is_empty and each.is_pending:
            yield _note(str(each), "has no plan, since its engine crashed: hoodie clean removes it")
        elif is_empty:
            yield _note(
                str(each),
                "is empty, since its engine crashed: the next hoodie clean looks at the whole "
                "table, and records a clean that says what it did",
            )


def _of_consumers(
    target: manager.Target, timeline: active.ActiveTimeline, clock_ms: int
) -> Findings:
    for each in table_stats.of_consumers(target.storage, target.config, timeline, clock_ms):
        subject = f"consumer {each.consumer.name}"
        if each.state is consumers.State.DAMAGED:
            yield _error(subject, f"{each.consumer.defect}; until then nothing is cleaned")
        elif each.passed_by is not None:
            yield _note(
                subject,
                f"{each.passed_by} deleted, or may delete, file versions that it has not read: "
                "it has to read the whole table",
            )
        elif _is_archived_unread(target.storage, timeline, each.consumer):
            yield _note(
                subject,
                "has not read instants that another engine has archived: what was cleaned of them "
                "is not known, so that it has to read the whole table",
            )
        elif each.state is consumers.State.EXPIRED:
            yield _note(
                subject, "was silent for longer than its limit, and does not hold back cleaning"
            )


def _is_archived_unread(
    storage: protocol.Storage, timeline: active.ActiveTimeline, consumer: consumers.Consumer
) -> bool:
    """Return whether the timeline begins after what a consumer has read last.

    Archiving of hoodie stops before that while the consumer holds.
    """
    first = min((each.completion_time or "" for each in timeline.completed_writes), default="")
    return first > consumer.consumed and archived.newest_manifest(storage) is not None


def _of_files(snapshot: snapshots.Snapshot, index: index_protocol.Index) -> Findings:
    timeline = snapshot.timeline
    pending = timeline.pending_times
    for path in snapshot.listing.partitions():
        groups: defaultdict[int, set[str]] = defaultdict(set)
        late: set[files.FileGroupId] = set()
        for data_file in snapshot.listing.files(path):
            time = data_file.instant_time
            if snapshot.committed.is_committed(time):
                retired_at = snapshot.replaced.get(data_file.group)
                if retired_at is not None and time > retired_at:
                    late.add(data_file.group)
                elif retired_at is None:
                    yield from _of_bucket(data_file, index, groups)
            elif time not in pending:
                yield results.Finding(
                    severity=results.Severity.ERROR,
                    subject=data_file.path,
                    message=f"is of instant {time}, which is not on the timeline",
                    remedy=results.Remedy.ROLL_BACK,
                )
        for group in sorted(late):
            yield _error(
                str(group),
                f"was retired at {snapshot.replaced[group]} and written later: Apache Hudi does "
                "not show these rows, and its cleaner removes them",
            )
        for number, file_ids in sorted(groups.items()):
            if len(file_ids) > 1:
                names = ", ".join(sorted(file_ids))
                yield _error(
                    path or ".", f"bucket {number} has the file groups {names}, expected one"
                )


def of_hidden_logs(storage: protocol.Storage, snapshot: snapshots.Snapshot) -> Findings:
    """Yield a finding for each log file of a version 6 table that a pending compaction hides.

    Such a log file had the time of the compaction that it was to lie on, and since the upgrade
    counts once that is complete. What a compaction itself logs has blocks of its own time.
    """
    planned = {each.requested_time for each in snapshot.timeline.pending_compactions}
    if not snapshot.was_upgraded or not planned:
        return
    for path in snapshot.listing.partitions():
        for each in snapshot.listing.files(path):
            if each.instant_time in planned and log_scanning.is_of_another(storage, each):
                yield _error(
                    each.path,
                    "was written before the table was upgraded from version 6, and its rows are "
                    f"hidden until compaction {each.instant_time} is complete: have Apache Hudi "
                    "execute that (CALL run_compaction(op => 'execute', ...))",
                )


def _of_orphans(storage: protocol.Storage, snapshot: snapshots.Snapshot, read: Commits) -> Findings:
    """Find files that carry a completed write's time, and that its commit does not name.

    Of other programs' writes base files only: which log files they name is theirs to say.
    """
    by_time = {instant.requested_time: instant for instant in read}
    named = {
        instant.requested_time: {path for stat in metadata.stats for path in markers.paths_of(stat)}
        for instant, metadata in read.items()
    }
    for path in snapshot.listing.partitions():
        for data_file in snapshot.listing.files(path):
            instant = by_time.get(data_file.instant_time)
            if instant is None or data_file.path in named[data_file.instant_time]:
                continue
            is_ours = commits.WRITE_ID_KEY in read[instant].extra
            if isinstance(data_file, files.BaseFile) or (
                is_ours and not log_scanning.is_of_another(storage, data_file)
            ):
                yield results.Finding(
                    severity=results.Severity.ERROR,
                    subject=data_file.path,
                    message=f"is of {instant}, whose commit does not name it: a task that was "
                    "judged dead, or repeated, left it; Apache Hudi may read it",
                    remedy=results.Remedy.ROLL_BACK,
                )


def _of_all_files(storage: protocol.Storage, timeline: active.ActiveTimeline) -> Findings:
    """Yield findings about what views do not show: unfinished files and tables in the table."""
    infos = storage.list("", is_recursive=True)
    others = listing.other_tables(info.path for info in infos)
    yield from _of_unfinished(listing.outside_of(others, infos), timeline)
    yield from _of_other_tables(others)


def _of_unfinished(infos: Iterable[protocol.FileInfo], timeline: active.ActiveTimeline) -> Findings:
    pending = timeline.pending_times
    for info in infos:
        finished = paths.finished(info.path)
        parsed = finished and file_names.parse(finished, info.size_bytes)
        if parsed and parsed.instant_time not in pending:
            yield _leftover(
                info.path,
                f"was never finished, and is of instant {parsed.instant_time}, which has ended",
            )


def _of_other_tables(others: Iterable[str]) -> Findings:
    for path in others:
        yield _error(
            path,
            "is a table of its own, whose files hoodie skips; Apache Hudi takes them for "
            "partitions of this one: move one of the tables elsewhere",
        )


def _of_bucket(
    data_file: listing.DataFile,
    index: index_protocol.Index,
    groups: defaultdict[int, set[str]],
) -> Findings:
    file_id = data_file.group.file_id
    defect = index.defect(file_id)
    if defect is not None:
        yield _error(data_file.path, defect)
        return
    number = index.bucket_of(file_id)
    if number is not None:
        groups[number].add(file_id)


def _of_content(
    target: manager.Target,
    snapshot: snapshots.Snapshot,
    index_of: Callable[[str], index_protocol.Index],
    file_slice: files.FileSlice,
) -> Findings:
    corrupt: list[results.Finding] = []

    def on_corrupt(log_file: files.LogFile, span: log_blocks.CorruptRange) -> None:
        corrupt.append(
            _error(
                log_file.path,
                f"{span.length} bytes from byte {span.offset} are not a block: {span.reason}",
            )
        )

    try:
        reader = reading.SliceReader(
            target.storage,
            target.config,
            target.schema,
            snapshot.committed.is_committed,
            on_corrupt,
        )
        rows = reader.read(file_slice, (schemas.RECORD_KEY, schemas.PARTITION_PATH))
        index = index_of(file_slice.group.partition_path)
    except errors.HoodieError as error:
        yield from corrupt
        yield _error(str(file_slice.group), str(error))
        return
    yield from corrupt
    yield from _of_records(index, file_slice, rows)


def _of_records(
    index: index_protocol.Index, file_slice: files.FileSlice, rows: pa.Table
) -> Findings:
    subject = str(file_slice.group)
    keys = rows.column(schemas.RECORD_KEY).combine_chunks()
    if keys.null_count:
        yield _error(subject, f"{keys.null_count} records have no key")
        return
    if len(keys) != len(pc.unique(keys)):
        # Bulk inserts, and inserts into base files, ask nobody whether a key is there.
        yield _note(subject, f"{len(keys) - len(pc.unique(keys))} records repeat a key")
    paths = pc.unique(rows.column(schemas.PARTITION_PATH)).to_pylist()
    strays = [path for path in paths if path != file_slice.group.partition_path]
    if strays:
        yield _error(subject, f"holds records of partition {strays[0]!r}")
    wrong = int(np.count_nonzero(~index.may_hold(file_slice.group.file_id, keys)))
    if wrong:
        _, own = index.conflict_key(file_slice.group)
        yield _error(subject, f"{wrong} records belong to a bucket other than {own}")


def _of_repeated_keys(
    target: manager.Target, snapshot: snapshots.Snapshot, engine: engines.Engine
) -> Findings:
    """Look for keys that several file groups have, where a key does not say which is its own."""
    index_of = _indexes(target, snapshot)
    is_committed = snapshot.committed.is_committed
    reader = reading.SliceReader(target.storage, target.config, target.schema, is_committed)
    paths = snapshot.view.partitions()
    by_place: Iterable[tuple[str, list[files.FileSlice]]] = (
        (path or ".", snapshot.view.latest_slices(path)) for path in paths
    )
    if target.config.has_global_index:
        by_place = [("the table", [each for _, found in by_place for each in found])]
    for place, slices in by_place:
        if all(_has_bucket(index_of, each.group) for each in slices):
            continue
        found = repeated_keys.among(reader, engine, slices)
        if found is not None:
            yield _note(
                place,
                f"{found.count} keys are in several file groups, such as {found.key!r} in "
                f"{' and '.join(map(str, found.groups))}: an insert that did not look them up, or "
                "two writers at once, wrote them twice; updates and deletes change each row",
            )


def _has_bucket(index_of: Callable[[str], index_protocol.Index], group: files.FileGroupId) -> bool:
    try:
        return index_of(group.partition_path).bucket_of(group.file_id) is not None
    except errors.HoodieError:
        return False  # A finding says why.


def _error(subject: str, message: str) -> results.Finding:
    return results.Finding(severity=results.Severity.ERROR, subject=subject, message=message)


def _note(subject: str, message: str) -> results.Finding:
    return results.Finding(severity=results.Severity.NOTE, subject=subject, message=message)


def _leftover(subject: str, message: str) -> results.Finding:
    return results.Finding(
        severity=results.Severity.NOTE,
        subject=subject,
        message=message,
        remedy=results.Remedy.ROLL_BACK,
    )


def errors_of(found: Iterable[results.Finding]) -> list[results.Finding]:
    """Return the findings that are no notes."""
    return [each for each in found if each.severity is results.Severity.ERROR]
