"""Building an index in a table that other engines write as well.

    look       without the lock: what is in the files that a timeline counts, as base files in
               memory; then in those of changes that completed since
    wait       without the lock: no write of another engine is pending
    begin      in a lock scope, if one is, and the indexes are of files, or a record index: the
               partitions are made empty, and named as inflight (`_begin`); from now on the writes
               alone are waited for that were pending once that was done. A plan of which that is
               so of some is divided
    follow     unless a write has completed that was requested later than the action: a commit
               without rows (`index_following`)
    publish    in a lock scope in which that is still so: what is left of earlier partitions goes,
               the partitions are written, by a delta commit of a new time; then the table's
               properties name them as inflight, as ready for other engines, as ready (`_publish`),
               and the action completes

Writers of Apache Hudi log into the partitions that the properties name when they open the metadata
table, after their requested file is there: what is not pending when the partitions are named keeps
them up, or drops them. Other indexes are inflight for a moment only, and nothing of them is on
storage before.

Requests under the lock: some 50; for each of the last changes one, and those of a look into its
files; two for each write that is pending. Memory: that of the statistics and bloom filters. Source:
ADR 0032, ADR 0051 to 0053; protocol.md: Indexes built beside writers.
"""

import functools
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from hoodie import errors
from hoodie.engine import local
from hoodie.engine.protocol import Engine
from hoodie.filegroup import (
    index_groups,
    key_footers,
    metadata_merging,
    metadata_records,
    metadata_table,
    metadata_writing,
    snapshots,
)
from hoodie.format import bloom_filters, hfile_writing, indexing_avro, metadata_schemas
from hoodie.format.metadata_avro import Value
from hoodie.metadata import (
    build_outlook,
    build_progress,
    index_decisions,
    index_following,
    index_steps,
    initial_filters,
    initial_keys,
    initial_parts,
    initial_statistics,
    late_changes,
    partition_bases,
    partition_making,
    shared_keys,
    shared_pairs,
)
from hoodie.model import (
    expression_indexes,
    file_statistics,
    files,
    instants,
    key_changes,
    plans,
    schemas,
    secondary_indexes,
    table_config,
)
from hoodie.timeline import active, contents, index_definitions, table_properties, true_time
from hoodie.transaction import (
    admission,
    heartbeats,
    lifecycle,
    markers,
    metadata_commits,
    stored_schemas,
    table_lock,
)
from hoodie.transaction.client import Client, Completion, OpenAction

logger = logging.getLogger(__name__)

FILTER_BYTES_MAX = 512 << 20
"""Bloom filters of this length are held in memory, and uploaded under the lock."""

CHANGES_UNDER_LOCK_MAX = 10

_POLL_S = 1.0
_LOOKS_MAX = 5


class WaitedInVainError(errors.ConflictError):
    """Other engines were at work all the time: the build is given up."""


class ReadyError(errors.ConflictError):
    """Another has made a partition ready meanwhile."""


class DividedError(errors.ConflictError):
    """Some of the indexes need not wait for all writes of other engines: they are planned apart."""


class _NotYetError(errors.ConflictError):
    """The partitions cannot be published in this scope.

    Attributes:
        is_waited: Whether nothing can be done but wait.
        is_beside: Whether writes of other engines are pending.
    """

    def __init__(self, text: str, *, is_waited: bool = True, is_beside: bool = False) -> None:
        super().__init__(text)
        self.is_waited = is_waited
        self.is_beside = is_beside


def others_at_work(client: Client, timeline: active.ActiveTimeline) -> list[instants.Instant]:
    """Return what is pending and may complete without knowing of a partition that is made now.

    These are writes of other engines, and services with an inflight file that no live process of
    this project executes, whichever engine planned them: each may have opened the metadata table
    already. Writes of this project complete by the properties at that time. Two requests for each
    pending one.
    """
    pending = [
        each
        for each in timeline.pending
        if each.action.is_write
        and (each.action in instants.WRITES or each.state is instants.State.INFLIGHT)
    ]
    seen = client.heartbeats.look_at(each.requested_time for each in pending) if pending else {}
    return [each for each in pending if not _is_of_ours(client, each, seen[each.requested_time])]


def _is_of_ours(
    client: Client, pending: instants.Instant, seen: heartbeats.HeartbeatStatus
) -> bool:
    if pending.action in instants.WRITES:
        return seen.owner is not None or contents.is_of_ours(client.storage, pending)
    # Another engine executes a plan of ours again whose executor has died.
    return seen.owner is not None and seen.liveness.is_alive


class Building:
    """Builds the indexes of one plan, which this process executes."""

    def __init__(
        self,
        client: Client,
        schema: schemas.TableSchema,
        engine: Engine,
        reporter: build_progress.Reporter,
    ) -> None:
        """Put the parts together.

        Args:
            client: Whose build it is.
            schema: The table's columns, if no commit has them.
            engine: Looks into several files at once.
            reporter: Is told what is done next.
        """
        self._client = client
        self._schema = schema
        self._engine = engine
        self._reporter = reporter
        self._deadline_s: float | None = None

    def build(self, opened: OpenAction, plan: plans.Indexing) -> Completion:
        """Build the indexes and publish them.

        Raises:
            WaitedInVainError: Other engines were at work all the time.
            ReadyError: Another has made a partition.
            DividedError: Some of the indexes need not wait for all writes of other engines.
            InvalidInputError: What the indexes stand on was dropped.
            ConflictError: The table changes faster than its files can be read.
            UnsupportedError: The bloom filters are too long.
            FormatError: A data file is broken, or the metadata table lacks a change.
            HoodieError: Lock or storage failed.
        """
        for _ in range(_LOOKS_MAX):
            try:
                look = _Look(self._client, self._schema, self._engine, self._reporter, plan)
                return self._publish(look, opened, plan)
            except (late_changes.OutdatedError, errors.NotFoundError) as outdated:
                # Its timeline may be archived by now.
                logger.info("%s: looking again: %s", self._client.storage.uri, outdated)
        raise errors.ConflictError(
            f"{self._client.storage.uri} changed during each of {_LOOKS_MAX} looks into its files, "
            "its columns or its configuration, or its timeline was archived; retry"
        )

    def _publish(self, look: "_Look", opened: OpenAction, plan: plans.Indexing) -> Completion:
        def content(scope: table_lock.LockScope) -> bytes:
            return indexing_avro.encode_done(index_decisions.reached(plan, scope.timeline))

        begun: index_decisions.Begun | None = None
        has_waited = False
        while True:
            try:
                timeline = active.listed(self._client.storage)
                look.catch_up(timeline)
                _refuse_beside(self._client, timeline, begun)
                if not timeline.is_followed(opened.requested_time):
                    index_following.follow(self._client, look.config, self._schema)
                    look.catch_up(active.listed(self._client.storage))
                if begun is not None:
                    look.grow()
                    look.settle()
                self._reporter("publishing")
                make = functools.partial(_make, self._client, look, opened, begun)
                return lifecycle.complete(self._client, opened, content, effects=[make])
            except _NotYetError as reason:
                self._wait(reason, opened)
                if reason.is_beside and begun is None and has_waited:
                    if look.may_begin:
                        begun = self._begin(look, opened)
                    elif {*index_decisions.first_of(look.names, look.config)} != {*look.names}:
                        raise DividedError(str(reason)) from reason
                # A write that ends in a moment is waited for once.
                has_waited = has_waited or reason.is_beside

    def _begin(self, look: "_Look", opened: OpenAction) -> index_decisions.Begun | None:
        """Have others log in the partitions; None where that is not possible yet."""
        self._reporter(f"naming {', '.join(look.names)} as being built")
        try:
            config = self._client.lock.decide(functools.partial(_begin, self._client, look, opened))
        except _NotYetError as reason:
            self._wait(reason, opened)
            return None
        # Not in the scope: its lock may have been lost right before the properties changed.
        at_work = others_at_work(self._client, active.listed(self._client.storage))
        return index_decisions.Begun(
            config=config, awaited=frozenset(each.requested_time for each in at_work)
        )

    def _wait(self, reason: _NotYetError, opened: OpenAction) -> None:
        """Wait a moment for other engines, but not for ever."""
        clock, wait_s = self._client.clock, self._client.settings.index_wait_s
        now_s = clock.monotonic_s()
        if self._deadline_s is None:
            self._deadline_s = now_s + wait_s
        if now_s >= self._deadline_s:
            raise WaitedInVainError(
                f"{opened.inflight} of {self._client.storage.uri} is given up after {wait_s} s: "
                f"{reason}. Build the index when writes of other engines pause, or have one of "
                "them build it"
            )
        opened.heartbeat.check()
        self._reporter(f"waiting: {reason}")
        if reason.is_waited:
            clock.sleep_s(_POLL_S)


def _nearby(engine: Engine) -> Engine:
    """Return an engine of this process: a task elsewhere takes longer to begin than a file."""
    if not engine.is_distributed:
        return engine
    return local.LocalEngine(min(engine.parallelism, local.processors()))


class _Look:
    """What was found without the lock."""

    def __init__(
        self,
        client: Client,
        schema: schemas.TableSchema,
        engine: Engine,
        reporter: build_progress.Reporter,
        plan: plans.Indexing,
    ) -> None:
        """Look into the files that count.

        Raises:
            InvalidInputError: What the indexes stand on was dropped.
            NotFoundError: The timeline was archived meanwhile, or there is no metadata table.
            HoodieError: As `Building.build`.
        """
        self.names = names = plan.names
        self.is_partitioned = plan.is_partitioned
        self.config = table_properties.load(client.storage, client.clock)
        request = index_decisions.Request(names, is_partitioned=plan.is_partitioned)
        refusal = index_decisions.request_refusal(request, self.config, client.settings)
        if refusal is not None:
            raise refusal  # What it stands on was dropped since it was planned.
        self._client = client
        self._timeline = active.listed(client.storage)
        self._changes: list[metadata_records.Changes] = []
        self._filters: dict[str, bloom_filters.StoredFilter] = {}
        snapshot = snapshots.take(client.storage, self.config, self._timeline)
        data_files = initial_statistics.data_files(snapshot)
        slices = snapshot.newest_slices()
        columns = stored_schemas.columns_of(client.storage, self.config, self._timeline, schema)
        record_groups = index_steps.NO_RECORD_GROUPS
        self.may_begin = index_decisions.may_begin(names, self.config)
        if key_changes.RECORD_INDEX in names or any(map(secondary_indexes.is_one, names)):
            record_groups = initial_keys.count_file_groups(
                client, snapshot, engine, is_partitioned=plan.is_partitioned
            )
        if plan.is_partitioned:
            # Not of a partition that a pending write brings, which makes them itself.
            paths = index_steps.partition_paths(client, self._timeline)
            record_groups = {path: record_groups.get(path, 1) for path in paths}
        if self.may_begin and index_decisions.keeps_files(names, self.config):
            # By their number writers divide keys that have a write pending.
            there = index_steps.record_groups_of(client, is_partitioned=plan.is_partitioned)
            record_groups = {
                key_space: there.get(key_space, count) for key_space, count in record_groups.items()
            }
        secondary = index_steps.secondary_of(
            client, plan, self.config, columns, record_groups.get(None, 0)
        )
        reporter.expect(build_outlook.phases(names, [*secondary], data_files, slices))
        self.since = index_steps.with_columns(
            replace(self.config, metadata_partitions=(*self.config.metadata_partitions, *names)),
            plan,
        )
        self._plan = plan
        wanted = index_steps.wanted_statistics(
            client.storage, self.config, self.since, columns, plan
        )
        reading = initial_statistics.Reading(
            columns,
            engine,
            count=functools.partial(reporter.count, build_outlook.STATISTICS),
            scratch_folder=client.settings.scratch_folder,
        )
        # Files of later changes are few, and may be looked into under the lock.
        nearby = replace(reading, engine=_nearby(engine))
        statistics = late_changes.Statistics(
            schema=columns, wanted=wanted, reading=nearby, bases={}
        )
        counts = {
            **initial_statistics.FILE_GROUPS,
            **index_steps.groups_of_expressions(client, wanted.expressions),
        }
        self._has_statistics = not counts.keys().isdisjoint(names)
        if self._has_statistics:
            bases = initial_statistics.gather(
                snapshot,
                data_files,
                statistics.source(client.storage, self._timeline),
                reading,
                client.clock.now_ms(),
                counts,
            )
            statistics = replace(statistics, bases=bases)
        self._statistics = statistics
        self._has_filters = file_statistics.BLOOM_FILTERS in names
        self._filter_bases: Sequence[metadata_writing.PreparedBase | None] = ()
        if self._has_filters:
            self._filter_bases = _filter_bases(
                client,
                [
                    initial_filters.pieces(client.storage, engine, group, count)
                    for group, count in build_progress.counted_by_group(
                        reporter, initial_filters.by_group(data_files)
                    )
                ],
            )

        runner = initial_parts.Runner(client=client, engine=engine, reporter=reporter)
        self._pairs = [
            shared_pairs.SharedPairs(client, self.config, columns, snapshot, each, runner)
            for each in secondary.items()
        ]
        self._keys = None
        if key_changes.RECORD_INDEX in names:
            layout = initial_keys.Layout.of(record_groups, is_partitioned=plan.is_partitioned)
            self._keys = shared_keys.SharedKeys(
                client, self.config, columns, snapshot, layout, runner
            )

    @property
    def of_columns(
        self,
    ) -> Sequence[secondary_indexes.Definition | expression_indexes.Definition]:
        """The secondary and expression indexes."""
        return [*self.secondary, *self.wanted.expressions]

    @property
    def columns(self) -> Mapping[str, str]:
        """What the properties say of these while they are built."""
        return {
            secondary_indexes.column_key(each.partition): (
                each.column
                if isinstance(each, secondary_indexes.Definition)
                else index_definitions.expression_text(each)
            )
            for each in self.of_columns
        }

    @property
    def secondary(self) -> Sequence[secondary_indexes.Definition]:
        """The secondary indexes."""
        return [each.definition for each in self._pairs]

    @property
    def wanted(self) -> file_statistics.Wanted:
        """Which statistics files have."""
        return self._statistics.wanted

    def catch_up(self, timeline: active.ActiveTimeline, changes_max: int | None = None) -> None:
        """Look into the files of changes that completed since the last look.

        Args:
            timeline: Read since.
            changes_max: So many at most; None for any number.

        Raises:
            OutdatedError: One took others back, or some may have been archived meanwhile; or the
                table has other columns by now.
            _NotYetError: There are more.
        """
        storage = self._client.storage
        known = set(self._timeline.completed)
        number = sum(each not in known for each in timeline.completed)
        if changes_max is not None and number > changes_max:
            raise _NotYetError(f"{number} changes have completed meanwhile", is_waited=False)
        found = list(late_changes.since(storage, self._timeline, timeline))
        if self._keys is not None or self._pairs:
            new = [each for each in timeline.completed if each not in known]
            for each in new:
                if each.action is instants.Action.REPLACE_COMMIT:
                    raise late_changes.OutdatedError(f"{each} retired file groups")
            self._catch_up_keys(timeline, found, is_under_lock=changes_max is not None)
        if self._has_statistics:
            if found:
                # Before its files are read as if it had not.
                self._statistics.check_columns(storage, self.config, timeline)
            self._statistics.look_into(storage, timeline, found)
        if self._has_filters:
            paths = metadata_records.base_files(
                stat.path for each in found for stat in each.written
            )
            self._filters |= key_footers.read_or_made_filters(
                storage, paths, self._client.parallelism
            )
        self._changes += found
        self._timeline = timeline

    def _catch_up_keys(
        self,
        timeline: active.ActiveTimeline,
        changes: Sequence[metadata_records.Changes],
        *,
        is_under_lock: bool,
    ) -> None:
        """Look into the files of changes for keys, and for pairs of secondary indexes."""
        length = shared_keys.length_of(changes)
        if is_under_lock and length > shared_keys.BYTES_UNDER_LOCK_MAX:
            raise _NotYetError(f"files of {length >> 20} MiB have come meanwhile", is_waited=False)
        if self._keys is not None:
            self._keys.catch_up(timeline, changes)
        for each in self._pairs:
            each.catch_up(timeline, changes)

    def settle(self, bytes_max: int | None = None) -> None:
        """Bring what changes have decided of keys into base files.

        Args:
            bytes_max: Of base files of this length at most; None for any.

        Raises:
            _NotYetError: There are more.
        """
        if self._keys is None:
            return
        if bytes_max is not None and (length := self._keys.unsettled_bytes) > bytes_max:
            raise _NotYetError(
                f"changes have come meanwhile that {length >> 20} MiB of base files lack",
                is_waited=False,
            )
        self._keys.settle()

    def grow(self, timeline: active.ActiveTimeline | None = None) -> None:
        """Give partitions that came into being since file groups in a record index of each.

        As many as there are of some by now: their writers have made them, and divide keys by that.

        Args:
            timeline: By which there are partitions; that of the last look by default.
        """
        if self._keys is None or not self.is_partitioned:
            return
        there = index_steps.record_groups_of(self._client, is_partitioned=True)
        paths = index_steps.partition_paths(self._client, timeline or self._timeline)
        self._keys.grow({path: there.get(path, 1) for path in paths})

    def groups_of(self, name: str) -> Sequence[files.FileGroupId]:
        """Return the file groups of a partition, in the order of their places."""
        if name == key_changes.RECORD_INDEX and self._keys is not None:
            return self._keys.groups
        return index_steps.groups(name)

    def others(self, name: str, ids: Iterable[str]) -> Collection[str]:
        """Return which of some file groups are not among those that a partition is made with.

        Those of partitions that came into being since the last `grow` are left out.
        """
        found = {*ids} - {each.file_id for each in self.groups_of(name)}
        if found and self._keys is not None and self.is_partitioned:
            key_spaces = index_groups.of(self._client.storage, found).key_spaces
            known = self._keys.key_spaces
            found = {each for each in found if key_spaces.get(each) in known}
        return found

    def is_redefined(self) -> bool:
        """Return whether there are statistics of other columns by now; a request if there are any.

        Raises:
            HoodieError: As `index_definitions.wanted_statistics`.
        """
        statistics = self._statistics
        now = index_steps.wanted_statistics(
            self._client.storage, self.config, self.since, statistics.schema, self._plan
        )
        return now != statistics.wanted

    def check_columns(self) -> None:
        """Refuse what was found if the table has other columns by now.

        Raises:
            OutdatedError: It has.
        """
        self._statistics.check_columns(self._client.storage, self.config, self._timeline)

    def contents(
        self, time: instants.InstantTime, *, is_begun: bool
    ) -> Mapping[str, partition_making.Content]:
        """Return what the partitions begin with, as of the last look.

        Args:
            time: Of the delta commit that makes them.
            is_begun: Whether others have logged in them since they were made.
        """
        found: dict[str, partition_making.Content] = {}
        if self._has_statistics:
            statistics = self._statistics
            names = [name for name in self.names if name in statistics.bases]
            records = metadata_records.of_changes(statistics.completed(self._changes), names)
            for name in names:
                found[name] = partition_making.Content(statistics.bases[name], records[name])
        if file_statistics.PARTITION_STATS in found:
            # What others log may come before the log file here in the order of merging.
            merged = _merged(found[file_statistics.PARTITION_STATS], self._client.clock.now_ms())
            found[file_statistics.PARTITION_STATS] = merged
        for each in self.wanted.expressions:
            found[each.partition] = _with_partitions(
                found[each.partition], self._client.clock.now_ms()
            )
        if self._keys is not None and is_begun:
            found[key_changes.RECORD_INDEX] = self._keys.whole_content()
        elif self._keys is not None:
            found[key_changes.RECORD_INDEX] = self._keys.content()
        found |= {each.definition.partition: each.content() for each in self._pairs}
        if self._has_filters:
            late = metadata_records.Changes(
                written=[
                    stat
                    for each in self._changes
                    for stat in each.written
                    if stat.path in self._filters
                ],
                deleted=[path for each in self._changes for path in each.deleted],
                filters=self._filters,
            )
            found[file_statistics.BLOOM_FILTERS] = partition_making.Content(
                self._filter_bases, metadata_records.bloom_filters(late, time)
            )
        return found


def _filter_bases(
    client: Client, runs: Sequence[Iterable[hfile_writing.Run]]
) -> Sequence[metadata_writing.PreparedBase | None]:
    """Return the base file of each file group of `bloom_filters`.

    Raises:
        UnsupportedError: They are too long.
    """
    found: list[metadata_writing.PreparedBase | None] = []
    size_bytes = 0
    for of_group in runs:
        group: list[hfile_writing.Run] = []
        for run in of_group:
            size_bytes += len(run.content)
            if size_bytes > FILTER_BYTES_MAX:
                raise errors.UnsupportedError(
                    f"the bloom filters of {client.storage.uri} have more than "
                    f"{FILTER_BYTES_MAX >> 20} MiB, which is the most in a table that other "
                    "engines write, since they are uploaded under its lock: have a writer of "
                    "Apache Hudi build them by hoodie.metadata.index.bloom.filter.enable=true"
                )
            group.append(run)
        now_ms = client.clock.now_ms()
        found.append(metadata_writing.prepare_base(group, now_ms) if group else None)
    return found


def _merged(content: partition_making.Content, now_ms: int) -> partition_making.Content:
    """Return what `partition_stats` begins with, all of it in its base file."""
    schema = metadata_schemas.RECORD.text
    logged = {key.encode(): [Value(each, schema)] for key, each in content.records.items()}
    bases = [base.content for base in content.bases if base is not None]
    return partition_making.Content([partition_bases.with_logged(bases, logged, now_ms)])


def _with_partitions(content: partition_making.Content, now_ms: int) -> partition_making.Content:
    """Return what an expression index begins with, with all of partitions in its base files."""
    schema = metadata_schemas.RECORD.text
    parts = content.later()
    bases = []
    for place, base in enumerate(content.bases):
        rows = parts[place].table.to_pylist() if place in parts else []
        logged = {row["key"]: [Value(row["value"], schema)] for row in rows}
        there = [] if base is None else [base.content]
        merge = metadata_merging.merged_expressions
        bases.append(partition_bases.with_logged(there, logged, now_ms, merge))
    return partition_making.Content(bases)


def _make(
    client: Client,
    look: _Look,
    opened: OpenAction,
    begun: index_decisions.Begun | None,
    scope: table_lock.LockScope,
    is_ours: markers.Check,
) -> None:
    """Make the partitions, in the scope that completes the action; a `lifecycle.Effect`.

    Raises:
        ReadyError: Another has made one.
        OutdatedError: What was found cannot be brought up to date.
        _NotYetError: Another engine is at work, or more has completed than is looked into here.
        FormatError: The metadata table lacks a change.
    """
    config = table_properties.load(client.storage, client.clock)
    _check_unmade(client, look, opened, scope, config, is_ours)
    if config != (look.config if begun is None else begun.config) or look.is_redefined():
        raise late_changes.OutdatedError("the table's configuration has changed")
    _refuse_beside(client, scope.timeline, begun)
    if not scope.timeline.is_followed(opened.requested_time):
        raise _NotYetError("no later write has completed", is_waited=False)
    metadata_commits.refuse_behind(client, scope)
    look.catch_up(scope.timeline, CHANGES_UNDER_LOCK_MAX)
    look.check_columns()
    defined: Mapping[str, str | None] = {}
    if begun is None:
        config = _emptied(client, look, scope, config, is_ours)
        defined = index_steps.define_statistics(client.storage, config, look.since, look.wanted)
    elif _has_other_groups(client, look):
        raise late_changes.OutdatedError("others have changed the file groups")
    look.grow()
    if begun is not None:
        look.settle(shared_keys.BYTES_SETTLED_UNDER_LOCK_MAX)
    defined = {**defined, **_define_record_index(client, look, is_ours)}
    time = client.time_after(scope, true_time.Parity.EPOCH)
    made = look.contents(time, is_begun=begun is not None)
    partition_making.make_all(client, scope, index_steps.beside(client), time, made, is_ours)
    if begun is None:
        config = _name(client, look, config, defined, is_ours)
    _publish(client, scope, config, look, opened.requested_time, is_ours)


def _begin(
    client: Client, look: _Look, opened: OpenAction, scope: table_lock.LockScope
) -> table_config.TableConfig:
    """Make empty file groups, and have others log there; return the table's configuration then.

    What they log is hidden by the base files of `_make`, or lies above them, as it completes before
    or after that. What earlier builders have left is deleted here, and nothing later on: from now
    on there are files of writes that are pending. Of a record index that was inflight already there
    may be some before, which stay.

    Raises:
        HoodieError: As `_make`.
    """
    config = admission.admit_table(client, scope, opened.prepared_for)
    is_ours = admission.holding(scope, opened.heartbeat)
    is_ours()
    if not scope.timeline.has_file(opened.inflight) or not opened.heartbeat.is_own():
        raise errors.ConflictError(
            f"{opened.inflight} of {client.storage.uri} was given up, or taken over by another"
        )
    _check_unmade(client, look, opened, scope, config, is_ours)
    if config != look.config or look.is_redefined():
        raise late_changes.OutdatedError("the table's configuration has changed")
    metadata_commits.refuse_behind(client, scope)
    # What a dead builder has published has its time: from now on it is another's.
    defined: dict[str, str | None] = {table_config.METADATA_PARTITIONS_BUILT_BY_KEY: None}
    if index_decisions.keeps_files(look.names, config) and not _has_other_groups(client, look):
        metadata_commits.take_off_left(client, scope, look.names, is_ours)
        names_text = index_decisions.names_text({*config.metadata_partitions})
        defined[table_config.METADATA_PARTITIONS_KEY] = names_text  # Without unconfirmed ones.
    else:
        config = _emptied(client, look, scope, config, is_ours)
        defined |= index_steps.define_statistics(client.storage, config, look.since, look.wanted)
    look.grow(scope.timeline)
    defined |= _define_record_index(client, look, is_ours)
    made = {name: content for name in look.names if (content := _unseen(client, scope, look, name))}
    if made:
        time = client.time_after(scope, true_time.Parity.EPOCH)
        partition_making.make_all(client, scope, index_steps.beside(client), time, made, is_ours)
    return _name(client, look, config, defined, is_ours)


def _unseen(
    client: Client, scope: table_lock.LockScope, look: _Look, name: str
) -> partition_making.Content | None:
    """Return the file groups of a partition, without records, that others do not see; a listing.

    None if they see all.
    """
    found = metadata_table.data_files(index_steps.beside(client), name)
    shown = metadata_commits.groups_shown(scope, found)
    groups = [each for each in look.groups_of(name) if each.file_id not in shown]
    if shown and not groups:
        return None
    return partition_making.Content(bases=[None] * len(groups), groups=groups)


def _define_record_index(
    client: Client, look: _Look, is_ours: markers.Check
) -> Mapping[str, str | None]:
    """Write the definition of a record index, if one is built; return what properties change."""
    if key_changes.RECORD_INDEX not in look.names:
        return {}
    index_definitions.put_of_record_index(
        client.storage, is_ours, is_partitioned=look.is_partitioned
    )
    return {table_config.INDEX_DEFINITIONS_PATH_KEY: index_definitions.PATH}


def _check_unmade(
    client: Client,
    look: _Look,
    opened: OpenAction,
    scope: table_lock.LockScope,
    config: table_config.TableConfig,
    is_ours: markers.Check,
) -> None:
    """Refuse to make what another has made.

    Raises:
        ReadyError: Another has made a partition, which is used from now on.
        ConflictError: The plan was given up.
    """
    made = index_decisions.made_by_others(look.names, config, opened.requested_time)
    if made:
        own = {*config.metadata_partitions_own} - {*made}
        names_text = index_decisions.names_text(own)
        if own != {*config.metadata_partitions_own}:
            changes = {table_config.METADATA_PARTITIONS_OWN_KEY: names_text}
            table_properties.update(client.storage, changes, client.clock, is_ours)
        raise ReadyError(f"{', '.join(made)} of {client.storage.uri} was made by another")
    if not scope.timeline.has_file(opened.requested):
        # Who was paused while the plan was taken over has made it inflight after it was given up.
        raise errors.ConflictError(f"{opened.inflight} of {client.storage.uri} was given up")


def _emptied(
    client: Client,
    look: _Look,
    scope: table_lock.LockScope,
    config: table_config.TableConfig,
    is_ours: markers.Check,
) -> table_config.TableConfig:
    """Delete what is left of earlier partitions; return the configuration without them.

    Raises:
        _NotYetError: A pending compaction has some of it.
    """
    left = index_decisions.without(look.names, config)
    # By what is defined Apache Hudi's readers use what is about to be deleted.
    index_definitions.remove(client.storage, [each.partition for each in look.of_columns])
    if left:
        # Of a builder that died while it published, or may be about to go on: that fails now.
        config = table_properties.update(client.storage, left, client.clock, is_ours)
    try:
        index_steps.clear(client, scope, look.names, is_ours)
    except index_steps.CompactedError as error:
        raise _NotYetError(str(error)) from error
    is_ours()
    return config


def _has_other_groups(client: Client, look: _Look) -> bool:
    """Return whether the partitions have file groups that they are not made with; a listing each.

    Of a record index of each partition also if one has more that came into being since the look.
    """
    storage = index_steps.beside(client)
    return any(look.others(name, metadata_writing.group_ids(storage, name)) for name in look.names)


def _name(
    client: Client,
    look: _Look,
    config: table_config.TableConfig,
    defined: Mapping[str, str | None],
    is_ours: markers.Check,
) -> table_config.TableConfig:
    """Name partitions as inflight, built by this project; return the configuration since.

    Args:
        client: Whose they are.
        look: What they are made of.
        config: The table's configuration, without them.
        defined: Properties that change with them.
        is_ours: Called before.
    """
    names_text = index_decisions.names_text
    inflight = {*config.metadata_partitions_inflight, *look.names}
    changes = {
        **defined,
        **look.columns,
        table_config.METADATA_PARTITIONS_INFLIGHT_KEY: names_text(inflight),
        table_config.METADATA_PARTITIONS_OWN_KEY: names_text(set(look.names)),
    }
    return table_properties.update(client.storage, changes, client.clock, is_ours)


def _publish(
    client: Client,
    scope: table_lock.LockScope,
    config: table_config.TableConfig,
    look: _Look,
    requested_time: instants.InstantTime,
    is_ours: markers.Check,
) -> None:
    """Name partitions as ready that have all that a scope's timeline shows.

    A lock may be lost right before a change of the properties. So they become ready by three:

    1. inflight, built by this project (`_name`): each process that takes the lock later logs there.
       Then the lock must still be held, and nothing be new on the timeline: nothing has completed
       that they lack. Then indexes of columns are defined: by that readers of other engines use
       them, and their writers know their columns; those of this project know them by the
       properties.
    2. ready for other engines: a writer of theirs whose option is off did not log, and drops them.
    3. ready for this project as well, if the lock is still held.

    None is by an epoch: if it was finished later, others would have logged nothing until then. Each
    fails if the properties were changed since they were read, as they are by whoever deletes the
    partitions' files.

    Args:
        client: Whose they are.
        scope: In which they were made.
        config: The table's configuration, in which they are inflight.
        look: What they are made of.
        requested_time: The action's: if this process dies once they are ready, the next one
            completes the action by that.
        is_ours: Called before each change.

    Raises:
        OutdatedError: Something is new on the timeline.
        ConflictError: The properties were changed by another.
        LockLostError: It was; what is published by then stays so, and the plan pending.
    """

    def change(changes: Mapping[str, str | None]) -> None:
        table_properties.update(client.storage, changes, client.clock, is_ours)

    names_text = index_decisions.names_text
    names, columns = {*look.names}, look.columns
    begun = _seen(active.listed(client.storage)) - _seen(scope.timeline)
    if begun:
        raise late_changes.OutdatedError(f"{', '.join(map(str, begun))} came without the lock")
    if columns:
        is_ours()
        index_definitions.put_of_columns(client.storage, lambda: look.of_columns)
    inflight = {*config.metadata_partitions_inflight} - names
    change(
        {
            table_config.METADATA_PARTITIONS_BUILT_BY_KEY: requested_time,
            table_config.METADATA_PARTITIONS_KEY: names_text({*config.metadata_partitions, *names}),
            table_config.METADATA_PARTITIONS_INFLIGHT_KEY: names_text(inflight),
        }
    )
    change({table_config.METADATA_PARTITIONS_OWN_KEY: None, **dict.fromkeys(columns)})


def _seen(timeline: active.ActiveTimeline) -> set[instants.Instant]:
    """Return what a timeline has, but for writes that became inflight, which takes no lock."""
    return {
        each
        for each in timeline.files
        if each.state is not instants.State.INFLIGHT or each.action not in instants.WRITES
    }


def _refuse_beside(
    client: Client, timeline: active.ActiveTimeline, begun: index_decisions.Begun | None
) -> None:
    at_work = index_decisions.waited_for(others_at_work(client, timeline), begun)
    if at_work:
        more = f", and {len(at_work) - 1} more" if len(at_work) > 1 else ""
        raise _NotYetError(
            f"{at_work[0]} is pending{more}, of another engine by all that shows, and may not know "
            "of the index when it completes; if its writer has died, roll it back by `hoodie "
            "rollback` once `hoodie heartbeats` shows that",
            is_beside=True,
        )
