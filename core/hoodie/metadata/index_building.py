"""Building an index beside running writers (RFC-45).

    schedule   in a lock scope: the plan, as a requested indexing action
    begin      in a lock scope (`index_steps`), by the process that has the plan's heartbeat: a time
               of the build's own, above all that has completed; the file groups; the table's
               properties name the partitions as inflight, so that every change that completes later
               is logged there
    build      without the lock: base files of that time, of what had completed before it
    publish    in a lock scope, by one epoch: the metadata table's delta commit of that time, the
               properties, the completed action
    give up    `index_dropping`

A log file belongs to the base file of that time if its delta commit completed after it, so that
base files and logs have each change once, and nothing has to be caught up with. A builder that dies
leaves a plan that is executed again with a later time: its base files hide what was logged before,
and no reader counts what is left of the dead one.

The record index is built by `record_index_building`, which also has a check before the publication,
secondary indexes by `secondary_index_building`; their definitions are written once they are ready.
In a table that other engines write as well begin, build and publish are others (`index_sharing`).

Requests: of each scope some ten, and one for each file group. Memory: that of the statistics, of 64
bloom filters or eight of each core, and of the keys of one file group of the record index.

Source: `ScheduleIndexActionExecutor.java`, `RunIndexActionExecutor.java`; protocol.md: Indexes
built beside writers.
"""

import functools
import itertools
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TypeAlias

from hoodie import environment, errors
from hoodie.engine.protocol import Engine
from hoodie.filegroup import (
    listing,
    metadata_writing,
    snapshots,
    statistics_reading,
)
from hoodie.format import file_names, indexing_avro
from hoodie.metadata import (
    build_outlook,
    build_progress,
    index_decisions,
    index_dropping,
    index_following,
    index_sharing,
    index_steps,
    initial_filters,
    initial_keys,
    initial_parts,
    initial_statistics,
    partition_making,
    record_index_building,
    secondary_index_building,
)
from hoodie.model import (
    commits,
    expression_indexes,
    file_statistics,
    instants,
    key_changes,
    plans,
    results,
    secondary_indexes,
    table_config,
)
from hoodie.timeline import active, index_definitions, table_properties
from hoodie.transaction import lifecycle, manager, stored_schemas, table_lock
from hoodie.transaction.client import Client, Completion, OpenAction

logger = logging.getLogger(__name__)

_STEPS_MAX = 16
_ROUNDS_MAX = 5

_HOPELESS = (
    errors.FormatError,
    errors.UnsupportedError,
    errors.InvalidInputError,
    index_sharing.WaitedInVainError,
)
"""Failures that an execution of the same plan meets again, or that has lasted long enough."""

Hear = Callable[[str], object]
"""Hears what is done next."""
_DataFiles: TypeAlias = Mapping[str, Sequence[listing.DataFile]]
"""Those that count, by partition path."""


def build(
    target: manager.Target,
    request: index_decisions.Request,
    transaction: manager.TransactionOptions,
    env: environment.Environment,
    hear: Hear = lambda what: None,
) -> results.IndexResult:
    """Build indexes of a table that it does not have, and finish what somebody has left.

    Args:
        target: The table.
        request: The indexes.
        transaction: On whose behalf; with the lock of the table's writers.
        env: Time, ids, threads.
        hear: Hears what is done next.

    Raises:
        InvalidInputError: They are not built, or not in this table, or not of these columns; or its
            record index is of the other kind.
        ConfigurationError: The settings are those of a single writer.
        NotFoundError: The table has no metadata table.
        UnsupportedError: Their files have what is not read; or their bloom filters are too long for
            a table that other engines write.
        ConflictError: Somebody alive builds them, or others are being built; or writes of other
            engines overlapped all the time, and the build is given up.
        HoodieError: Lock or storage failed: the same call goes on with it. If a data file is
            broken, the build is given up.
    """
    with closing(manager.open_client(target, transaction, env)) as client:
        return build_by(client, target, request, env.engine, hear)


def build_by(
    client: Client,
    target: manager.Target,
    request: index_decisions.Request,
    engine: Engine,
    hear: Hear = lambda what: None,
) -> results.IndexResult:
    """Build indexes of a table by a client of it; as `build`."""
    refusal = index_decisions.request_refusal(request, target.config, client.settings)
    if refusal is None and request.columns is not None:
        stored = stored_schemas.newest(client.storage, target.config)
        schema = target.schema if stored is None else stored.columns
        refusal = file_statistics.columns_refusal(request.columns, target.config, schema.arrow)
    if refusal is not None:
        raise refusal
    return _Builder(client, target, engine, hear).build(request)


def _result(
    before: results.IndexResult, found: index_decisions.Build, completion: Completion
) -> results.IndexResult:
    """Return what was done by now, with a build that was completed."""
    return results.IndexResult(
        instant=completion.instant,
        built=(*before.built, *found.plan.names),
        lock_wait_ms=before.lock_wait_ms + completion.lock_times.wait_ms,
        lock_hold_ms=before.lock_hold_ms + completion.lock_times.hold_ms,
        findings=(*before.findings, *completion.findings),
    )


def _unused(built: Sequence[str], config: table_config.TableConfig) -> Iterator[str]:
    """Yield which of some indexes reads here do not ask, though they are ready."""
    if config.has_foreign_writers:
        for name in filter(secondary_indexes.is_one, built):
            yield (
                f"{name} is for readers of Apache Hudi, and reads of this project do not ask it: "
                f"{secondary_indexes.UNUSED_BESIDE_OTHERS}. They do if no other engine may write "
                "(`hoodie configure --no-foreign-writers`)"
            )


class _Builder:
    """Builds indexes of one table by one client."""

    def __init__(
        self,
        client: Client,
        target: manager.Target,
        engine: Engine,
        hear: Hear,
    ) -> None:
        self._client = client
        self._target = target
        self._engine = engine
        self._listener = hear
        self._is_divided = False  # Whether a plan had to wait that was of several indexes.
        self._hear = build_progress.Reporter(client.storage, client.clock, hear)

    def build(self, request: index_decisions.Request) -> results.IndexResult:
        """Take steps until all is ready."""
        done = results.IndexResult()
        for _ in range(_STEPS_MAX):
            storage = self._client.storage
            builds = index_steps.pending(storage, active.listed(storage))
            config = table_properties.load(storage, self._client.clock)
            known = index_steps.columns_of(storage, config, builds, request.names)
            columns = self._target.schema.arrow
            refusal = index_decisions.secondary_columns_refusal(
                request, known, config, columns
            ) or index_decisions.expressions_refusal(
                request,
                _expressions(config, known, index_definitions.expression_of),
                _expressions(config, request.secondary, index_definitions.by_call),
                config,
                columns,
            )
            if refusal is not None:
                raise refusal
            self._refuse_other_kind(request, config)
            match index_decisions.next_step(request, config, builds):
                case index_decisions.Nothing():
                    index_steps.define(self._client, request.names)
                    if config.has_foreign_writers:
                        index_following.follow_last(
                            self._client, self._target.config, self._target.schema
                        )
                    return replace(done, findings=(*done.findings, *_unused(done.built, config)))
                case index_decisions.Finish(found):
                    done = self._finish(found, done)
                case index_decisions.GiveUp(found):
                    index_dropping.give_up(self._client, self._target.config, found)
                case index_decisions.Drop(old):
                    self._hear(f"dropping {', '.join(old)}")
                    index_dropping.drop_by(self._client, self._target.config, old)
                case index_decisions.Schedule(missing):
                    self._schedule(self._first_of(missing, config), request)
                case index_decisions.Execute(found):
                    done = self._execute(found, done)
        raise errors.ConflictError(
            f"indexes of {self._client.storage.uri} are built and dropped by others at the same "
            "time; retry"
        )

    def _refuse_other_kind(
        self, request: index_decisions.Request, config: table_config.TableConfig
    ) -> None:
        """Refuse a record index where there is one of the other kind; a request if there is one.

        Raises:
            InvalidInputError: There is.
        """
        name = key_changes.RECORD_INDEX
        if name not in request.names or name not in config.metadata_partitions:
            return
        refusal = index_decisions.kind_refusal(
            request,
            config,
            has_partitioned=index_definitions.is_partitioned(self._client.storage),
        )
        if refusal is not None:
            raise refusal

    def _first_of(self, names: Sequence[str], config: table_config.TableConfig) -> Sequence[str]:
        """Return which indexes are built first: beside writes of other engines not all together."""
        if not config.has_foreign_writers:
            return names
        timeline = active.listed(self._client.storage)
        if self._is_divided or index_sharing.others_at_work(self._client, timeline):
            return index_decisions.first_of(names, config)
        return names

    def _schedule(self, names: Sequence[str], request: index_decisions.Request) -> None:
        """Put a plan on the timeline, unless there is one by now."""

        def planner(
            timeline: active.ActiveTimeline, _: instants.InstantTime, extra: Mapping[str, str]
        ) -> bytes | None:
            config = table_properties.load(self._client.storage, self._client.clock)
            is_ready = not set(names).isdisjoint(config.metadata_partitions)
            if is_ready or timeline.pending_of(index_steps.ACTION):
                return None
            through = index_decisions.base_instant(timeline)
            if request.columns is not None and file_statistics.COLUMN_STATS in names:
                extra = {**extra, index_decisions.COLUMNS_KEY: ",".join(request.columns)}
            partitions = tuple(
                plans.IndexedPartition(
                    name=name,
                    through=through,
                    extra={**extra, **_extra_of(name, request, config)},
                )
                for name in names
            )
            return indexing_avro.encode_plan(plans.Indexing(partitions=partitions))

        self._hear(f"planning {', '.join(names)}")
        lifecycle.plan(self._client, index_steps.ACTION, self._target.config, planner)

    def _execute(
        self, found: index_decisions.Build, before: results.IndexResult
    ) -> results.IndexResult:
        """Execute a plan, and publish what it builds."""
        client = self._client
        opened = index_steps.taken_over(client, self._target.config, found)
        if opened is None:
            return before
        self._hear = build_progress.Reporter(
            client.storage, client.clock, self._listener, opened.requested_time
        )
        try:
            lifecycle.start(client, opened)
            completion = self._build(opened, found.plan)
        except index_sharing.ReadyError as error:
            logger.info("%s: %s is not needed: %s", client.storage.uri, found.instant, error)
            lifecycle.abort(client, opened)
            return before
        except index_sharing.DividedError as error:
            logger.info("%s: %s is divided: %s", client.storage.uri, found.instant, error)
            lifecycle.abort(client, opened)
            index_dropping.give_up(client, self._target.config, found)
            self._is_divided = True
            return before
        except _HOPELESS as error:
            if not isinstance(error, index_sharing.WaitedInVainError):  # It says so itself.
                logger.warning("%s: %s is given up", client.storage.uri, found.instant)
            lifecycle.abort(client, opened)
            index_dropping.give_up(client, self._target.config, found)
            raise
        except errors.ConflictError:
            lifecycle.abort(client, opened)
            self._refuse_dropped(found)
            raise
        except BaseException:
            lifecycle.abort(client, opened)
            raise
        finally:
            self._hear.end()
        return _result(before, found, completion)

    def _refuse_dropped(self, found: index_decisions.Build) -> None:
        """Refuse to go on where there is no metadata table any more.

        Raises:
            ConflictError: There is none.
        """
        config = table_properties.load(self._client.storage, self._client.clock)
        if not config.has_metadata_table:
            raise errors.ConflictError(
                f"the metadata table of {config.name} was dropped while "
                f"{', '.join(found.plan.names)} of it was built: make one by `hoodie metadata "
                "init`, and build it then"
            )

    def _finish(
        self, found: index_decisions.Build, before: results.IndexResult
    ) -> results.IndexResult:
        """Complete an action whose indexes are ready, and whose builder has died."""
        client = self._client
        opened = index_steps.taken_over(client, self._target.config, found)
        if opened is None:
            return before
        self._hear("completing what has been published")

        def content(scope: table_lock.LockScope) -> bytes:
            return indexing_avro.encode_done(index_decisions.reached(found.plan, scope.timeline))

        def check(scope: table_lock.LockScope, _: Callable[[], None]) -> None:
            config = table_properties.load(client.storage, client.clock)
            is_there = scope.timeline.has_file(opened.requested)
            is_followed = scope.timeline.is_followed(opened.requested_time)
            if not (is_there and is_followed and index_decisions.is_published(found, config)):
                raise errors.ConflictError(
                    f"{opened.inflight} of {client.storage.uri} was given up, or its indexes "
                    "dropped, or the write after it rolled back; retry"
                )

        try:
            if not active.listed(client.storage).is_followed(opened.requested_time):
                index_following.follow(client, self._target.config, self._target.schema)
            completion = lifecycle.complete(client, opened, content, effects=[check])
        except BaseException:
            lifecycle.abort(client, opened)
            raise
        return _result(before, found, completion)

    def _build(self, opened: OpenAction, plan: plans.Indexing) -> Completion:
        client = self._client
        if opened.config.has_foreign_writers:
            schema = self._target.schema
            shared = index_sharing.Building(client, schema, self._engine, self._hear)
            return shared.build(opened, plan)
        for _ in range(_ROUNDS_MAX):
            begin = functools.partial(
                index_steps.begin,
                client,
                self._target.schema,
                opened,
                plan,
                record_groups=self._record_groups(plan),
            )
            begun = client.lock.decide(begin)
            runner = initial_parts.Runner(client=client, engine=self._engine, reporter=self._hear)
            record_index = record_index_building.RecordIndexBuild(client, begun, runner)
            checks: list[lifecycle.Effect] = []
            try:
                snapshot = snapshots.take(client.storage, begun.config, begun.timeline)
                data_files = initial_statistics.data_files(snapshot)
                slices = snapshot.newest_slices()
                self._hear.expect(
                    build_outlook.phases(plan.names, [*begun.secondary], data_files, slices)
                )
                stats = [
                    *self._statistics(begun, snapshot, data_files),
                    *self._filters(begun, data_files),
                ]
                stats += secondary_index_building.write(client, begun, snapshot, slices, runner)
                if key_changes.RECORD_INDEX in plan.names:
                    stats += record_index.write(snapshot, slices)
                    record_index.look_ahead()
                    checks.append(record_index.check)
            except errors.NotFoundError as error:
                # Its timeline is archived by now.
                logger.info("%s: beginning again: %s", client.storage.uri, error)
                continue

            def content(scope: table_lock.LockScope) -> bytes:
                return indexing_avro.encode_done(index_decisions.reached(plan, scope.timeline))

            publish = functools.partial(index_steps.publish, client, begun, stats)
            self._hear("publishing")
            return lifecycle.complete(client, opened, content, effects=[publish, *checks])
        raise errors.ConflictError(
            f"the timeline of {client.storage.uri} is archived faster than its files can be read; "
            "retry, or keep more of it"
        )

    def _record_groups(self, plan: plans.Indexing) -> index_steps.RecordGroups:
        """Return how many file groups indexes of keys get, if the plan has any."""
        has_pairs = any(map(secondary_indexes.is_one, plan.names))
        if not has_pairs and key_changes.RECORD_INDEX not in plan.names:
            return index_steps.NO_RECORD_GROUPS
        snapshot = snapshots.take(self._client.storage, self._target.config)
        return initial_keys.count_file_groups(
            self._client, snapshot, self._engine, is_partitioned=plan.is_partitioned
        )

    def _statistics(
        self, begun: index_steps.Begun, snapshot: snapshots.Snapshot, data_files: _DataFiles
    ) -> Iterator[commits.WriteStat]:
        """Write the base files of statistics."""
        counts = {**initial_statistics.FILE_GROUPS, **begun.expressions}
        names = [name for name in begun.plan.names if name in counts]
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
            count=functools.partial(self._hear.count, build_outlook.STATISTICS),
            scratch_folder=self._client.settings.scratch_folder,
        )
        bases = initial_statistics.gather(
            snapshot, data_files, source, reading, self._client.clock.now_ms(), counts
        )
        for name in names:
            groups = partition_making.groups(name, counts[name])
            for group, base in zip(groups, bases[name], strict=True):
                if base is not None:
                    yield metadata_writing.write_prepared(
                        index_steps.beside(self._client), group, begun.time, _token(begun), base
                    )

    def _filters(
        self, begun: index_steps.Begun, data_files: _DataFiles
    ) -> Iterator[commits.WriteStat]:
        """Write the base files of bloom filters, some filters at a time, since they are long."""
        if file_statistics.BLOOM_FILTERS not in begun.plan.names:
            return
        groups = index_steps.groups(file_statistics.BLOOM_FILTERS)
        own = initial_filters.by_group(data_files)
        counted = build_progress.counted_by_group(self._hear, own)
        for group, (base_files, count) in zip(groups, counted, strict=True):
            pieces = initial_filters.pieces(self._client.storage, self._engine, base_files, count)
            first = next(pieces, None)
            if first is not None:
                yield metadata_writing.write_base(
                    index_steps.beside(self._client),
                    group,
                    begun.time,
                    _token(begun),
                    itertools.chain([first], pieces),
                    self._client.clock.now_ms(),
                )


def _token(begun: index_steps.Begun) -> str:
    return file_names.write_token(0, begun.opened.stage, 0)


def _expressions(
    config: table_config.TableConfig,
    texts: Mapping[str, str],
    parse: Callable[[table_config.TableConfig, str, str], expression_indexes.Definition | None],
) -> Mapping[str, expression_indexes.Definition]:
    """Return the expression indexes among indexes of columns, by name, from their texts."""
    found = {
        name: parse(config, name, text)
        for name, text in texts.items()
        if expression_indexes.is_one(name)
    }
    return {name: each for name, each in found.items() if each is not None}


def _extra_of(
    name: str, request: index_decisions.Request, config: table_config.TableConfig
) -> Mapping[str, str]:
    """Return what a plan says of a partition besides."""
    if name == key_changes.RECORD_INDEX and request.is_partitioned:
        return {plans.IS_PARTITIONED: "true"}
    column = request.secondary.get(name)
    if column is not None and expression_indexes.is_one(name):
        column = index_definitions.expression_text(index_definitions.by_call(config, name, column))
    return {} if column is None else {secondary_indexes.COLUMN_KEY: column}
