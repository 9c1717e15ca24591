"""Building an index beside running writers (RFC-45), in tables that no other engine writes.

    schedule   in a lock scope: the plan, as a requested indexing action
    begin      in a lock scope, by whoever has its heartbeat: a time of the build's own, above all
               that has completed; the file groups; the table's properties name the partitions as
               inflight, so that every change that completes later is logged there
    build      without the lock: base files of that time, of what had completed before it
    publish    in a lock scope, by one epoch: the metadata table's delta commit of that time, the
               properties, the completed action
    give up    by whoever has the heartbeat: the properties first, then the plan, then files

A log file belongs to the base file of that time if its delta commit completed after it, so that
base files and logs have each change once, and nothing has to be caught up with. A builder that dies
leaves a plan that is executed again with a later time: its base files hide what was logged before,
and what is left of the dead one counts for nobody.

Files are deleted by names that are never made again, as their times show: a process that was paused
meanwhile deletes nothing of a later build. Requests: of each scope some ten, and one for each file
group. Memory: that of the statistics, and of 64 bloom filters.

Source: `ScheduleIndexActionExecutor.java`, `RunIndexActionExecutor.java`; protocol.md: Indexes
built beside writers.
"""

import functools
import itertools
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TypeAlias

import pyarrow as pa

from hoodie import environment, errors
from hoodie.engine.protocol import Engine
from hoodie.filegroup import (
    key_footers,
    listing,
    metadata_merging,
    metadata_records,
    metadata_table,
    metadata_writing,
    snapshots,
    statistics_reading,
)
from hoodie.format import file_names, indexing_avro, metadata_avro
from hoodie.metadata import index_decisions, initial_statistics, partition_making
from hoodie.model import (
    commits,
    file_statistics,
    files,
    instants,
    plans,
    results,
    schemas,
    table_config,
)
from hoodie.storage.protocol import Storage
from hoodie.timeline import (
    active,
    contents,
    epochs,
    index_definitions,
    metadata_timelines,
    table_properties,
    transitions,
    true_time,
)
from hoodie.transaction import (
    admission,
    configuration,
    lifecycle,
    manager,
    markers,
    metadata_commits,
    publication,
    stored_schemas,
    table_lock,
)
from hoodie.transaction.client import Client, Completion, OpenAction

logger = logging.getLogger(__name__)

FILE_GROUPS: Mapping[str, int] = {
    **initial_statistics.FILE_GROUPS,
    file_statistics.BLOOM_FILTERS: 4,
}
"""How many file groups each partition of a metadata table is made with, as Apache Hudi does."""

_STEPS_MAX = 10
_ROUNDS_MAX = 5
_FILTERS_AT_ONCE = 64
_ACTION = instants.Action.INDEXING

_HOPELESS = (errors.FormatError, errors.UnsupportedError, errors.InvalidInputError)
"""Failures that an execution of the same plan meets again."""

Hear = Callable[[str], object]
"""Hears what is done next."""

_DataFiles: TypeAlias = Mapping[str, Sequence[listing.DataFile]]
"""Those that count, by partition path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Begun:
    """A build that has begun.

    Attributes:
        opened: The action, which this process executes.
        plan: Its plan.
        time: Of its base files.
        timeline: The table's: what has completed there is in the base files.
        config: The table's configuration since.
        schema: Its columns.
        wanted: Which statistics.
    """

    opened: OpenAction
    plan: plans.Indexing
    time: instants.InstantTime
    timeline: active.ActiveTimeline
    config: table_config.TableConfig
    schema: schemas.TableSchema
    wanted: file_statistics.Wanted


def pending(storage: Storage, timeline: active.ActiveTimeline) -> list[index_decisions.Build]:
    """Return the pending indexing actions; a read for each.

    Raises:
        FormatError: A plan is damaged.
        UnsupportedError: One is of a version that is not known.
    """
    found = []
    for each in timeline.pending_of(_ACTION):
        try:
            plan = contents.read_indexing_plan(storage, each)
        except errors.NotFoundError:
            continue  # It was given up since.
        found.append(index_decisions.Build(instant=each, plan=plan))
    return found


def build(
    target: manager.Target,
    names: Sequence[str],
    transaction: manager.TransactionOptions,
    env: environment.Environment,
    hear: Hear = lambda what: None,
) -> results.IndexResult:
    """Build indexes of a table that it does not have, and finish what somebody has left.

    Args:
        target: The table.
        names: Partitions of the metadata table.
        transaction: On whose behalf; with the lock of the table's writers.
        env: Time, ids, threads.
        hear: Hears what is done next.

    Raises:
        InvalidInputError: They are not built, or not in this table.
        ConfigurationError: The settings are those of a single writer.
        NotFoundError: The table has no metadata table.
        UnsupportedError: Other engines may write it.
        ConflictError: Somebody alive builds them, or others are being built.
        HoodieError: Lock or storage failed: the same call goes on with it. If a data file is
            broken, the build is given up.
    """
    with closing(manager.open_client(target, transaction, env)) as client:
        return build_by(client, target, names, env.engine, hear)


def build_by(
    client: Client,
    target: manager.Target,
    names: Sequence[str],
    engine: Engine,
    hear: Hear = lambda what: None,
) -> results.IndexResult:
    """Build indexes of a table by a client of it; as `build`."""
    refusal = index_decisions.request_refusal(names, target.config, client.settings)
    if refusal is not None:
        raise refusal
    return _Builder(client, target, engine, hear).build(names)


def drop(
    target: manager.Target,
    names: Sequence[str],
    transaction: manager.TransactionOptions,
    env: environment.Environment,
) -> tuple[str, ...]:
    """Drop indexes of a table, and give up what is being built of them; return which there were.

    A plan is given up with all that it builds.

    Raises:
        InvalidInputError: They are not dropped, or one that stays needs them.
        UnsupportedError: Other engines may write the table.
        ConflictError: Somebody alive builds one.
        HoodieError: Lock or storage failed; files that are left do no harm.
    """
    with closing(manager.open_client(target, transaction, env)) as client:
        return drop_by(client, target.config, names)


def drop_by(
    client: Client, expected: table_config.TableConfig, names: Sequence[str]
) -> tuple[str, ...]:
    """Drop indexes of a table by a client of it; as `drop`."""
    refusal = index_decisions.drop_refusal(names, expected)
    if refusal is not None:
        raise refusal
    given_up = [
        name
        for each in pending(client.storage, active.listed(client.storage))
        if not set(names).isdisjoint(each.plan.names)
        for name in _give_up(client, expected, each)
    ]
    return tuple(sorted({*given_up, *_drop(client, names)}))


class _Builder:
    """Builds indexes of one table by one client."""

    def __init__(self, client: Client, target: manager.Target, engine: Engine, hear: Hear) -> None:
        self._client = client
        self._target = target
        self._engine = engine
        self._hear = hear

    def build(self, names: Sequence[str]) -> results.IndexResult:
        """Take steps until all is ready."""
        done = results.IndexResult()
        for _ in range(_STEPS_MAX):
            storage = self._client.storage
            builds = pending(storage, active.listed(storage))
            config = table_properties.load(storage, self._client.clock)
            match index_decisions.next_step(names, config, builds):
                case index_decisions.Nothing():
                    return done
                case index_decisions.GiveUp(found):
                    _give_up(self._client, self._target.config, found)
                case index_decisions.Schedule(missing):
                    self._schedule(missing)
                case index_decisions.Execute(found):
                    done = self._execute(found, done)
        raise errors.ConflictError(
            f"indexes of {self._client.storage.uri} are built and dropped by others at the same "
            "time; retry"
        )

    def _schedule(self, names: tuple[str, ...]) -> None:
        """Put a plan on the timeline, unless there is one by now."""

        def planner(
            timeline: active.ActiveTimeline, _: instants.InstantTime, extra: Mapping[str, str]
        ) -> bytes | None:
            config = table_properties.load(self._client.storage, self._client.clock)
            is_ready = not set(names).isdisjoint(config.metadata_partitions)
            if is_ready or timeline.pending_of(_ACTION):
                return None
            through = index_decisions.base_instant(timeline)
            partitions = tuple(
                plans.IndexedPartition(name=name, through=through, extra=extra) for name in names
            )
            return indexing_avro.encode_plan(plans.Indexing(partitions=partitions))

        self._hear(f"planning {', '.join(names)}")
        lifecycle.plan(self._client, _ACTION, self._target.config, planner)

    def _execute(
        self, found: index_decisions.Build, before: results.IndexResult
    ) -> results.IndexResult:
        """Execute a plan, and publish what it builds."""
        client = self._client
        opened = _taken_over(client, self._target.config, found)
        if opened is None:
            return before
        try:
            lifecycle.start(client, opened)
            completion = self._build(opened, found.plan)
        except _HOPELESS as error:
            logger.warning("%s: %s is given up: %s", client.storage.uri, found.instant, error)
            lifecycle.abort(client, opened)
            _give_up(client, self._target.config, found)
            raise
        except BaseException:
            lifecycle.abort(client, opened)
            raise
        return results.IndexResult(
            instant=completion.instant,
            built=(*before.built, *found.plan.names),
            lock_wait_ms=before.lock_wait_ms + completion.lock_times.wait_ms,
            lock_hold_ms=before.lock_hold_ms + completion.lock_times.hold_ms,
            findings=(*before.findings, *completion.findings),
        )

    def _build(self, opened: OpenAction, plan: plans.Indexing) -> Completion:
        client = self._client
        for _ in range(_ROUNDS_MAX):
            begin = functools.partial(_begin, client, self._target.schema, opened, plan)
            begun = client.lock.decide(begin)
            try:
                snapshot = snapshots.take(client.storage, begun.config, begun.timeline)
                data_files = initial_statistics.data_files(snapshot)
                stats = [
                    *self._statistics(begun, snapshot, data_files),
                    *self._filters(begun, data_files),
                ]
            except errors.NotFoundError as error:
                # Its timeline is archived by now.
                logger.info("%s: beginning again: %s", client.storage.uri, error)
                continue

            def content(scope: table_lock.LockScope) -> bytes:
                through = index_decisions.base_instant(scope.timeline)
                reached = tuple(replace(each, through=through) for each in plan.partitions)
                return indexing_avro.encode_done(plans.Indexing(partitions=reached))

            publish = functools.partial(_publish, client, begun, stats)
            self._hear("publishing")
            return lifecycle.complete(client, opened, content, effects=[publish])
        raise errors.ConflictError(
            f"the timeline of {client.storage.uri} is archived faster than its files can be read; "
            "retry, or keep more of it"
        )

    def _statistics(
        self, begun: _Begun, snapshot: snapshots.Snapshot, data_files: _DataFiles
    ) -> Iterator[commits.WriteStat]:
        """Write the base files of statistics."""
        names = [name for name in begun.plan.names if name in initial_statistics.FILE_GROUPS]
        if not names:
            return
        source = statistics_reading.Source(
            self._client.storage,
            begun.schema.arrow,
            begun.wanted,
            snapshot.committed.is_committed,
        )
        reading = initial_statistics.Reading(
            begun.schema,
            self._engine,
            lambda path: self._hear(f"reading statistics of {path or '.'}"),
        )
        bases = initial_statistics.gather(
            snapshot, data_files, source, reading, self._client.clock.now_ms()
        )
        for name in names:
            for group, base in zip(_groups(name), bases[name], strict=True):
                if base is not None:
                    yield metadata_writing.write_prepared(
                        self._beside, group, begun.time, _token(begun), base
                    )

    def _filters(self, begun: _Begun, data_files: _DataFiles) -> Iterator[commits.WriteStat]:
        """Write the base files of bloom filters, some filters at a time, since they are long."""
        if file_statistics.BLOOM_FILTERS not in begun.plan.names:
            return
        by_key = {
            metadata_avro.bloom_filter_key(each.group.partition_path, each.name): each
            for found in data_files.values()
            for each in found
            if isinstance(each, files.BaseFile)
        }
        keys = sorted(by_key, key=str.encode)
        groups = _groups(file_statistics.BLOOM_FILTERS)
        places = metadata_records.places(pa.array(keys, pa.string()), len(groups)).tolist()
        for number, group in enumerate(groups):
            own = [by_key[key] for key, place in zip(keys, places, strict=True) if place == number]
            pieces = self._pieces(own)
            first = next(pieces, None)
            if first is not None:
                yield metadata_writing.write_base(
                    self._beside,
                    group,
                    begun.time,
                    _token(begun),
                    itertools.chain([first], pieces),
                    self._client.clock.now_ms(),
                )

    def _pieces(self, base_files: Sequence[files.BaseFile]) -> Iterator[pa.Table]:
        """Yield the records of base files, which are in the order of their keys."""
        read = functools.partial(_filter_record, self._client.storage)
        for first in range(0, len(base_files), _FILTERS_AT_ONCE):
            some = base_files[first : first + _FILTERS_AT_ONCE]
            self._hear(f"reading bloom filters: {first} of {len(base_files)} files")
            found = self._engine.map(read, some)
            records = {key: record for key, record in found if record is not None}
            if records:
                yield metadata_merging.table(records)

    @property
    def _beside(self) -> Storage:
        return _beside(self._client)


def _taken_over(
    client: Client, expected: table_config.TableConfig, found: index_decisions.Build
) -> OpenAction | None:
    """Return a pending action whose execution is ours now; None where it is not pending any more.

    Raises:
        ConflictError: Somebody alive executes it.
    """
    time = found.instant.requested_time
    try:
        return lifecycle.take_over(client, _ACTION, time, expected)
    except (errors.ConflictError, errors.NotFoundError):
        if time in active.listed(client.storage).pending_times:
            raise
        return None


def _begin(
    client: Client,
    schema: schemas.TableSchema,
    opened: OpenAction,
    plan: plans.Indexing,
    scope: table_lock.LockScope,
) -> _Begun:
    """Have every change that completes from now on logged in the partitions of a plan.

    The epoch that does so takes the build's time, so that all later ones are greater (CH4), and
    fails where another change was made on which nothing here was decided.

    Raises:
        ConflictError: The plan was given up, or a partition is ready by now.
    """
    config = admission.admit_table(client, scope, opened.prepared_for)
    is_ours = admission.holding(scope, opened.heartbeat)
    if not opened.heartbeat.is_own() or not scope.timeline.has_file(opened.inflight):
        raise errors.ConflictError(
            f"{opened.inflight} of {client.storage.uri} was given up, or taken over by another"
        )
    there = set(plan.names).intersection(config.metadata_partitions)
    if there or not config.metadata_partitions:
        raise errors.ConflictError(
            f"the metadata table of {client.storage.uri} was made again, or dropped, since "
            f"{opened.inflight} was planned; build the index again"
        )
    inflight = {*config.metadata_partitions_inflight, *plan.names}
    changes: dict[str, str | None] = {
        table_config.METADATA_PARTITIONS_INFLIGHT_KEY: index_decisions.names_text(inflight)
    }
    since = replace(config, metadata_partitions_inflight=tuple(sorted(inflight)))
    stored = stored_schemas.as_of(client.storage, config, scope.timeline)
    columns = schema if stored is None else stored.columns
    _refuse_grown(plan, config, columns)
    wanted = index_definitions.wanted_statistics(client.storage, config, columns.arrow)
    if file_statistics.is_needed(since) and not file_statistics.is_needed(config):
        # Definitions that are there may be of what was dropped.
        wanted = file_statistics.wanted(since, columns.arrow, None)
        index_definitions.put_of_statistics(client.storage, config, wanted, is_only=False)
        changes[table_config.INDEX_DEFINITIONS_PATH_KEY] = index_definitions.PATH
    time = client.time_after(scope, true_time.Parity.EPOCH)
    for name in plan.names:
        partition_making.begin(_beside(client), _groups(name), time, is_ours)
    change = epochs.Change(
        id=client.random.uuid(), time=time, author=str(client.author), properties=changes
    )
    publication.make(client, scope, change, is_ours)
    logger.info("%s: %s begins at %s", client.storage.uri, opened.inflight, time)
    return _Begun(
        opened=opened,
        plan=plan,
        time=time,
        timeline=scope.timeline,
        config=since,
        schema=columns,
        wanted=wanted,
    )


def _refuse_grown(
    plan: plans.Indexing, config: table_config.TableConfig, columns: schemas.TableSchema
) -> None:
    """Refuse to build statistics of partitions in a table whose columns have grown.

    A write looks for an older record of another type, which is not there yet (M-J).

    Raises:
        UnsupportedError: They have, or it is not known.
    """
    created = config.create_schema
    if file_statistics.PARTITION_STATS not in plan.names:
        return
    if created is None or schemas.from_avro(created).arrow != columns.arrow:
        raise errors.UnsupportedError(
            f"the columns of {config.name} are not those that it was created with, and this "
            f"version does not build {file_statistics.PARTITION_STATS} of such a table beside "
            "writers: make the metadata table again by `hoodie metadata init --rebuild`"
        )


def _publish(
    client: Client,
    begun: _Begun,
    stats: Sequence[commits.WriteStat],
    scope: table_lock.LockScope,
    is_ours: markers.Check,
) -> publication.Accompaniment:
    """Return what makes the partitions ready, in the scope that completes the action.

    Raises:
        ConflictError: They are not being built any more.
        FormatError: The metadata table lacks a change.
    """
    config = table_properties.load(client.storage, client.clock)
    names, inflight = set(begun.plan.names), set(config.metadata_partitions_inflight)
    if not names <= inflight:
        raise errors.ConflictError(
            f"the metadata table of {client.storage.uri} was made again, or dropped, while "
            f"{', '.join(sorted(names - inflight))} was built; build the index again"
        )
    stored = stored_schemas.as_of(client.storage, config, scope.timeline)
    if stored is not None:
        _refuse_grown(begun.plan, config, stored.columns)
    metadata_commits.refuse_behind(client, scope)
    is_ours()
    return publication.Accompaniment(
        beside=partition_making.whole_instant(client, scope, begun.time, stats),
        properties={
            table_config.METADATA_PARTITIONS_KEY: index_decisions.names_text(
                {*config.metadata_partitions, *names}
            ),
            table_config.METADATA_PARTITIONS_INFLIGHT_KEY: index_decisions.names_text(
                inflight - names
            ),
        },
    )


def _give_up(
    client: Client, expected: table_config.TableConfig, found: index_decisions.Build
) -> tuple[str, ...]:
    """Give a plan up that nobody alive executes, with what is there of it; return its partitions.

    Raises:
        ConflictError: Somebody alive executes it.
    """
    opened = _taken_over(client, expected, found)
    if opened is None:
        return ()
    try:

        def decide(scope: table_lock.LockScope) -> Sequence[str]:
            is_ours = admission.holding(scope, opened.heartbeat)
            is_ours()
            config = table_properties.load(client.storage, client.clock)
            names = [each for each in found.plan.names if each not in config.metadata_partitions]
            left = _take_out(client, scope, names, config)
            if not index_decisions.without(names, config):
                # Else the plan, if it is what the head publishes, comes again.
                publication.take_number(client, scope, is_ours)
            return left

        left = client.lock.decide(decide)
        with client.lock.scope() as scope:
            for each in (opened.inflight, opened.requested):
                admission.holding(scope, opened.heartbeat)()
                client.storage.delete(transitions.path(each))
        client.storage.delete_unordered(left)
    finally:
        lifecycle.abort(client, opened)
    logger.info("%s: %s is given up", client.storage.uri, found.instant)
    return found.plan.names


def _drop(client: Client, names: Sequence[str]) -> set[str]:
    """Drop ready partitions, and what is left of builds without a plan; return which there were."""
    there: set[str] = set()

    def decide(scope: table_lock.LockScope) -> Sequence[str]:
        config = table_properties.load(client.storage, client.clock)
        refusal = index_decisions.drop_refusal(names, config)
        if refusal is not None:
            raise refusal
        there.update(
            set(names).intersection(
                (*config.metadata_partitions, *config.metadata_partitions_inflight)
            )
        )
        return _take_out(client, scope, names, config)

    left = client.lock.decide(decide)
    client.storage.delete_unordered(left)
    return there


def _take_out(
    client: Client,
    scope: table_lock.LockScope,
    names: Sequence[str],
    config: table_config.TableConfig,
) -> Sequence[str]:
    """Take partitions out of the properties; return the paths of their files.

    They are listed before, so that none of a later build is among them.
    """
    client.check_guards()
    left = [
        f"{metadata_timelines.DIRECTORY}/{name}/{each}"
        for name in names
        for each in _beside(client).names(name)
        if file_names.parse_new(each, 0, metadata_table.EXTENSION) is not None
    ]
    changes = index_decisions.without(names, config)
    if changes:
        configuration.put(client, scope, changes)
    return left


def _filter_record(storage: Storage, base_file: files.BaseFile) -> tuple[str, bytes | None]:
    """Return key and record of a base file's bloom filter; no record of a file that is gone."""
    key = metadata_avro.bloom_filter_key(base_file.group.partition_path, base_file.name)
    stored = key_footers.read_or_make_filter(storage, base_file.path)
    if stored is None:
        return key, None
    return key, metadata_avro.encode_bloom_filter(stored, base_file.instant_time)


def _beside(client: Client) -> Storage:
    return metadata_timelines.opened(client.storage)


def _groups(name: str) -> Sequence[files.FileGroupId]:
    return partition_making.groups(name, FILE_GROUPS[name])


def _token(begun: _Begun) -> str:
    return file_names.write_token(0, begun.opened.stage, 0)
