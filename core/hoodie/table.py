"""Table: the door to a Hudi table.

A `Table` knows where the table is and how it is configured. Every read takes a snapshot of its own;
every change goes through a transaction of its own, so one Table serves any number of threads.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Self, TypeVar

import pyarrow as pa

from hoodie import deferred, environment, errors, guesses
from hoodie.door import front
from hoodie.filegroup import snapshots
from hoodie.model import (
    instants,
    moments,
    partition_columns,
    predicates,
    schemas,
    table_config,
)
from hoodie.services import definition
from hoodie.storage import protocol
from hoodie.timeline import active, chain, table_properties, transitions
from hoodie.write import keys

with deferred.imports():
    from hoodie.door import columns as arrow_columns
    from hoodie.door import writers
    from hoodie.filegroup import past
    from hoodie.format import timeline_avro
    from hoodie.maintenance import consumers as consumer_files
    from hoodie.maintenance import savepoints as savepoint_service
    from hoodie.maintenance import table_service
    from hoodie.maintenance.archiving import planning as archive_planning
    from hoodie.maintenance.archiving import service as archiving
    from hoodie.maintenance.cleaning import planning as cleaning_plans
    from hoodie.maintenance.cleaning import retention
    from hoodie.maintenance.cleaning import service as cleaning
    from hoodie.maintenance.compaction import planning as compaction_planning
    from hoodie.maintenance.compaction import service as compaction
    from hoodie.maintenance.rollback import service as rollback
    from hoodie.metadata import (
        build_progress,
        index_building,
        index_decisions,
        index_dropping,
        index_following,
        index_steps,
        initialising,
    )
    from hoodie.model import change_data as change_logs
    from hoodie.model import (
        column_names,
        commits,
        compaction_options,
        file_statistics,
        files,
        key_changes,
        results,
        settings,
    )
    from hoodie.read import (
        change_data,
        changed_rows,
        increments,
        micro_batches,
        planning,
        positions,
        streams,
        travel,
    )
    from hoodie.read import changes as row_changes
    from hoodie.read import history as row_history
    from hoodie.read import tasks as read_tasks
    from hoodie.read import where as where_text
    from hoodie.services import (
        adoption,
        checking,
        lock_breaking,
        metadata_tables,
        mirroring,
        table_stats,
    )
    from hoodie.services.mirrors import values as mirrors
    from hoodie.timeline import archived, epochs, index_definitions, partition_buckets
    from hoodie.transaction import configuration, liveness, manager, writer_batches
    from hoodie.transaction.locks import addresses
    from hoodie.write import replacements, sessions

logger = logging.getLogger(__name__)

Found = TypeVar("Found")


class Table(front.Front):
    """A table that exists. Open it with `hoodie.open_table` or `hoodie.create_table`."""

    @guesses.of_arguments("hoodie.open_table(uri) opens a table")
    def __init__(
        self,
        storage: protocol.Storage,
        config: table_config.TableConfig,
        schema: schemas.TableSchema,
        env: environment.Environment,
        writer: writers.Writer | None = None,
    ) -> None:
        """Put the parts together; nothing is requested.

        Args:
            storage: Its storage.
            config: Its configuration.
            schema: Its columns.
            env: Time, ids, threads.
            writer: On whose behalf it is changed where no options are given; None for a single
                unnamed writer.
        """
        self._storage = storage
        self._given_writer = writer
        self._env = env
        self.config = config
        self.schema = schema
        self._chain = chain.opened(storage, config)

    @functools.cached_property
    def _writer(self) -> writers.Writer:
        """On whose behalf the table is changed; readers need none."""
        return self._given_writer or writers.writer_of(self._storage.uri, self._env.random)

    @property
    def uri(self) -> str:
        """The table's root."""
        return self._storage.uri

    def refresh(self) -> Self:
        """Take up columns and configuration that others have changed; return the table itself."""
        self.config = table_properties.load(self._storage, self._env.clock)
        self.schema = definition.load_schema(self._storage, self.config)
        self._chain = chain.opened(self._storage, self.config)
        return self

    def timeline(self) -> active.ActiveTimeline:
        """Return the active timeline; see `timeline.chain.load`."""
        return chain.load(self._storage, self.config)

    def epochs(self) -> list[epochs.Epoch]:
        """Return the newest changes in the order of the table's chain; a read each.

        Raises:
            ConfigurationError: The table has no chain.
        """
        if self._chain is None:
            raise errors.ConfigurationError(
                f"{self.uri} has no chain: `hoodie configure {self.uri} --chain` gives it one"
            )
        return [each.epoch for each in self._chain.all()]

    def slices(self) -> list[files.FileSlice]:
        """Return the newest slice of each file group, as a snapshot read merges it."""
        view = snapshots.take(self._storage, self.config, has_committed_only=True).view
        return [found for path in view.partitions() for found in view.latest_slices(path)]

    def stats(self, small_file_bytes: int | None = None) -> table_stats.TableStats:
        """Return how the table's rows lie in files, and what a compaction would do now.

        Args:
            small_file_bytes: Base files below that count as small; None for
                `table_stats.SMALL_FILE_BYTES`.
        """
        clock_ms = self._env.clock.now_ms()
        small = table_stats.SMALL_FILE_BYTES if small_file_bytes is None else small_file_bytes
        return table_stats.of_table(self._storage, self.config, clock_ms, small)

    def metadata_status(self) -> metadata_tables.Status:
        """Return what the table's metadata table has; nothing for a table without one."""
        return metadata_tables.status(self._storage, self.config)

    def validate_metadata(
        self,
        hear: Callable[[str], object] = lambda partition_path: None,
        partitions_max: int | None = None,
        groups_max: int | None = None,
    ) -> metadata_tables.Validation:
        """Compare the table's metadata table with its committed files.

        Args:
            hear: Hears of each partition before it is compared.
            partitions_max: So many partitions are compared, spread over all; None for all.
            groups_max: Into the files of so many file groups of each of these is looked; None for
                all.

        Raises:
            NotFoundError: The table has no metadata table.
            FormatError: It is behind, or damaged.
        """
        return metadata_tables.validate(
            self._storage,
            self.config,
            self.schema,
            self._env.engine,
            hear,
            metadata_tables.Sample(partitions_max, groups_max),
        )

    def planned_compactions(self) -> Mapping[files.FileGroupId, instants.InstantTime]:
        """Return the pending compaction of each file group that is in one; a read each."""
        return {
            operation.group: requested_time
            for requested_time, plan in snapshots.take(
                self._storage, self.config
            ).compactions.items()
            for operation in plan.operations
        }

    def hashing_config(self) -> partition_buckets.HashingConfig | None:
        """Return the bucket counts by partition that another engine gave the table; None for none.

        Takes a snapshot and lists the table.
        """
        configs = snapshots.take(self._storage, self.config).hashing_configs()
        return configs[-1] if configs else None

    def has_partitioned_record_index(self) -> bool:
        """Return whether the metadata table has a record index of each partition; a request."""
        if key_changes.RECORD_INDEX not in self.config.metadata_partitions:
            return False
        return index_definitions.is_partitioned(self._storage)

    @guesses.of_arguments("inspect.timeline() has what writes say of themselves, config the table")
    def metadata(
        self, wanted: Sequence[instants.Instant]
    ) -> Mapping[instants.Instant, commits.CommitMetadata]:
        """Return what those instants that are writes say of themselves; a read each.

        An inflight one tells its author and what it will write, or nothing at all. One that was
        archived or taken back since the timeline was read is left out.
        """
        found = {
            instant: self._metadata(instant)
            for instant in wanted
            if instant.action.is_write and instant.state is not instants.State.REQUESTED
        }
        return {instant: metadata for instant, metadata in found.items() if metadata is not None}

    def committed_batches(self, writer_id: str) -> frozenset[str]:
        """Return the ids of the writer's batches that the table holds (WR1)."""
        return active.with_contents(
            self._storage,
            lambda timeline: writer_batches.committed(self._storage, timeline, writer_id),
            lambda storage: chain.load(storage, self.config),
        )

    def plan_read(
        self,
        columns: Sequence[str] | None = None,
        where: predicates.Predicate | None = None,
        *,
        is_read_optimized: bool = False,
        partition_values: str = partition_columns.Source.FILE,
        as_of: travel.Given | None = None,
    ) -> list[read_tasks.ReadTask]:
        """Return one task for each file slice that a read needs; `read.tasks.run` runs one.

        Args:
            columns: In the order of the result, meta columns allowed; None for all without them.
            where: Rows to return; None for all.
            is_read_optimized: Read base files alone: faster, without what is still in logs.
            partition_values: `file` to take values of partition columns from data files, `path` to
                take them from partition paths: of times and dates with slashes the texts there.
            as_of: An earlier moment: an instant, a savepoint or a time (`read.travel`); None for
                the table as it is now.

        Raises:
            InvalidInputError: The filter is not a Predicate, the columns are not a list,
                partition values are to be taken from elsewhere, or the moment is none, is in the
                future, or is of an hour that clocks show twice.
            NotFoundError: A column is named that the table has not; or there is no such savepoint.
            UnsupportedError: Partition values cannot be read from paths.
            GoneError: Files of that moment were cleaned, or a restore took it back.
        """
        found = self.explain_read(
            columns,
            where,
            is_read_optimized=is_read_optimized,
            partition_values=partition_values,
            as_of=as_of,
        )
        return list(found.tasks)

    def explain_read(
        self,
        columns: Sequence[str] | None = None,
        where: predicates.Predicate | None = None,
        *,
        is_read_optimized: bool = False,
        partition_values: str = partition_columns.Source.FILE,
        as_of: travel.Given | None = None,
    ) -> planning.Plan:
        """Return the plan of a read, and what of the table it leaves out; as `plan_read`."""
        if isinstance(columns, str):
            raise errors.InvalidInputError(
                f"columns is the text {columns!r}, expected a list of names, such as [{columns!r}]"
            )
        if where is not None:
            predicates.check(where)
        moment, schema = self._as_of(as_of)
        query = read_tasks.Query(
            columns=tuple(schema.arrow.names if columns is None else columns),
            where=where,
            is_read_optimized=is_read_optimized,
            source=partition_columns.source_of(partition_values),
        )

        places = keys.Places(self.config, schema.arrow)

        def plan(snapshot: snapshots.Snapshot) -> planning.Plan:
            return self._planned(self._then(snapshot, moment), schema, query, places)

        return snapshots.consistent(self._storage, self.config, plan)

    def pinned(
        self, *, is_read_optimized: bool = False, as_of: travel.Given | None = None
    ) -> Callable[[Sequence[str], predicates.Predicate | None], planning.Plan]:
        """Return what plans any number of reads of one snapshot; lists the whole table, once.

        It takes columns and a filter; arguments and errors as of `plan_read`.
        """
        moment, schema = self._as_of(as_of)
        places = keys.Places(self.config, schema.arrow)

        def planned(
            pinned: snapshots.Snapshot, names: Sequence[str], where: predicates.Predicate | None
        ) -> planning.Plan:
            query = read_tasks.Query(
                columns=tuple(names), where=where, is_read_optimized=is_read_optimized
            )
            return self._planned(pinned, schema, query, places)

        def listed(snapshot: snapshots.Snapshot) -> snapshots.Snapshot:
            found = self._then(snapshot, moment)
            planned(found, (schemas.RECORD_KEY,), None)
            return found

        return partial(planned, snapshots.consistent(self._storage, self.config, listed))

    def _planned(
        self,
        snapshot: snapshots.Snapshot,
        schema: schemas.TableSchema,
        query: read_tasks.Query,
        places: keys.Places,
    ) -> planning.Plan:
        """Return the plan of a read; a request if an index of now left something out."""

        def planned(config: table_config.TableConfig) -> planning.Plan:
            return planning.plan(self.uri, config, schema, snapshot, query, places)

        def ready() -> Sequence[str]:
            return table_properties.load(self._storage, self._env.clock).metadata_partitions

        return planning.with_ready_indexes(planned, self.config, ready)

    def _then(
        self, snapshot: snapshots.Snapshot, moment: moments.Moment | None
    ) -> snapshots.Snapshot:
        """Return the snapshot as of a moment."""
        if moment is None:
            return snapshot
        past.check_as_of(self._storage, snapshot, moment)
        if past.is_before_first(self._storage, snapshot.timeline, moment):
            logger.warning("%s: had no commit yet as of %s", self.uri, moment.time)
        return snapshots.as_of(snapshot, moment)

    def read(
        self,
        columns: Sequence[str] | None = None,
        where: predicates.Predicate | None = None,
        *,
        is_read_optimized: bool = False,
        partition_values: str = partition_columns.Source.FILE,
        as_of: travel.Given | None = None,
    ) -> pa.RecordBatchReader:
        """Return the rows of a snapshot; arguments and errors as of `plan_read`.

        Slices are read by threads of this process, some ahead of the caller; their order is by
        partition and file id. Memory: of each slice that is read now its changes and some row
        groups, and 256 MiB that are read ahead, however much larger the table is.
        """
        plan = self.explain_read(
            columns,
            where,
            is_read_optimized=is_read_optimized,
            partition_values=partition_values,
            as_of=as_of,
        )
        rows = streams.batches(plan.tasks, self._env.engine.parallelism)
        return pa.RecordBatchReader.from_batches(plan.columns, rows)

    @guesses.of_arguments()
    def changes(  # noqa: PLR0913 - a parameter an option
        self,
        since: travel.Given | positions.Position | None = None,
        *,
        consumer: str | None = None,
        columns: Sequence[str] | None = None,
        where: predicates.Predicate | str | None = None,
        until: travel.Given | positions.Position | None = None,
        has_deletes: bool = True,
        is_ordered: bool = False,
        falls_back: bool = False,
    ) -> row_changes.Changes:
        """Return what changed since a position: each changed row once, as it is at the end.

        `Changes.read` reads it; keep the text of `Changes.position`, from which the next read
        begins. Rows that lost against others by their order did not change.

        Args:
            since: A position, an instant or a time; None for all rows of the table. An `AsOf` with
                the rule of requested times asks for what was requested since, as Apache Hudi did
                before 1.0: up to the first write that is pending. `Changes.position` is a requested
                time then.
            consumer: A declared consumer, to begin where it says that it is; all rows of the table
                if it is not declared. `advance_consumer` records the new position.
            columns: In the order of the result, meta columns allowed; None for all without them.
                With deletes of a table without key fields those have `_hoodie_record_key` first:
                nothing else shows which rows are gone.
            where: Which changes to return, by the row as it is at the end, of any of its columns;
                of deleted rows those of key and partition alone are not null. A row that does not
                meet it any more is not among them. A text is one of SQL (`"city = 'Oslo'"`); None
                for all.
            until: The last completion time to read up to, or a position that was returned before;
                None for the newest.
            has_deletes: Whether keys that are gone are returned; without them the versions of then
                are not needed.
            is_ordered: End below the first write that was requested after one that is pending.
            falls_back: Return all rows (`Changes.is_snapshot`) where the changes since the position
                cannot be found any more, instead of an error.

        Raises:
            InvalidInputError: The position is of another table, or names no moment; or the filter
                compares a column with a value of another type; or `since` and `consumer` are both
                given; or by requested times `until` is a position, or `falls_back` is asked for.
            GoneError: Files or history are gone that are needed, or writes were rolled back since.
            NotFoundError: A column is named that the table has not.
            ConflictError: A write was rolled back while this looked.
        """
        _check_one_begin(since, consumer)
        if isinstance(where, str):
            where = where_text.parse(where)
        if where is not None:
            predicates.check(where)
            predicates.to_expression(where, read_tasks.full_schema(self.schema.arrow))
        source = self._changed_source()
        rule = since.rule if isinstance(since, travel.AsOf) else moments.Rule.COMPLETION
        if rule is moments.Rule.REQUESTED and falls_back:
            raise errors.InvalidInputError(
                "by requested times there is no position of all rows: read without falls_back"
            )
        if columns is None:
            columns = changed_rows.default_columns(
                self.config, self.schema, has_deletes=has_deletes
            )
        wanted = row_changes.Wanted(
            begin=self._since(since, rule) if consumer is None else self._where_is(consumer),
            until=self._until(until, rule),
            columns=self._checked_columns(columns),
            has_deletes=has_deletes,
            is_ordered=is_ordered,
            falls_back=falls_back,
            rule=rule,
            where=where,
        )
        return snapshots.consistent(
            self._storage,
            self.config,
            lambda snapshot: row_changes.plan(source, snapshot, wanted),
        )

    @guesses.of_arguments()
    def change_data(
        self,
        since: str | positions.Position | None = None,
        *,
        consumer: str | None = None,
        columns: Sequence[str] | None = None,
        until: travel.Given | positions.Position | None = None,
        is_ordered: bool = False,
        is_net: bool = False,
    ) -> change_data.ChangeData:
        """Return what each write since a position changed (CDC): operations, rows before and after.

        `ChangeData.read` reads it, in the order in which the writes completed; keep the text of
        `ChangeData.position`, from which the next read begins. Rows that lost against others by
        their order are no change. `changes` returns each changed row once instead.

        Args:
            since: A position, an instant or a time; None for the table's first write.
            consumer: As of `changes`; from the first write if it is not declared.
            columns: Of the rows before and after, meta columns allowed; None for all without them.
            until: The last completion time to read up to, or a position that was returned before;
                None for the newest.
            is_ordered: End below the first write that was requested after one that is pending.
            is_net: Return one change of each key, of all writes together.

        Raises:
            InvalidInputError: The position is of another table, or names no moment.
            GoneError: Files or history are gone that are needed, or writes were rolled back since;
                the message says from when on changes can be read.
            NotFoundError: A column is named that the table has not.
            ConflictError: A write was rolled back while this looked.
        """
        _check_one_begin(since, consumer)
        begin = self._since(since) if consumer is None else self._where_is(consumer)
        wanted = change_data.Wanted(
            since=positions.BEGINNING if begin is None else begin,
            until=self._until(until),
            columns=self._checked_columns(columns),
            is_ordered=is_ordered,
            is_net=is_net,
            record_keys=keys.maker(self.config, self.schema.arrow),
        )
        return snapshots.consistent(
            self._storage,
            self.config,
            lambda snapshot: change_data.plan(self._changed_source(), snapshot, wanted),
        )

    def row_counts(self, write: results.CommitResult) -> results.RowCounts:
        """Return how many rows of a write were new, and how many replaced others.

        Looked up when it has completed: of the file groups that it wrote to, the keys are read as
        they are and as they were before.

        Args:
            write: What the write returned.

        Raises:
            HoodieError: As `change_data`, of this write.
        """
        found = snapshots.consistent(
            self._storage,
            self.config,
            lambda snapshot: change_data.operations_of(
                self._changed_source(), snapshot, write.instant
            ),
        )
        inserted, updated = found[change_logs.Op.INSERT], found[change_logs.Op.UPDATE]
        return results.RowCounts(
            inserted=inserted,
            updated=updated,
            unchanged=max(0, write.records - inserted - updated) + write.lost,
        )

    @guesses.of_arguments("key is that of one row; inspect.timeline() has the history of the table")
    def history(
        self,
        key: object,
        *,
        partition: str | None = None,
        since: travel.Given | None = None,
        until: travel.Given | None = None,
        columns: Sequence[str] | None = None,
    ) -> row_history.History:
        """Return what became of one row: each write that changed it, the row before and after.

        `History.read` reads it, the newest last; `read.history.schema_of` has its columns. What
        cannot be read any more is said there, with its reason, and is no error.

        Args:
            key: The record key as meta columns have it, if it is a text; else the value of the key
                field, or a dict of the values of the key fields by name.
            partition: Path of the partition that the row is in; None to look into all.
            since: An instant or a time after which it begins; None for the first write.
            until: The last one that it has; None for the newest.
            columns: Of the rows before and after, meta columns allowed; None for all without them.

        Raises:
            InvalidInputError: The key is none of the table's, or a time names no moment.
            NotFoundError: A column is named that the table has not.
            ConflictError: A write was rolled back while this looked.
        """
        wanted = row_history.Wanted(
            key=keys.given(key, self.config, self.schema.arrow),
            partition_path=partition,
            since=positions.BEGINNING if since is None else self._time_of(since),
            until=None if until is None else self._time_of(until),
            columns=self._checked_columns(columns),
            record_keys=keys.maker(self.config, self.schema.arrow),
        )
        return snapshots.consistent(
            self._storage,
            self.config,
            lambda snapshot: row_history.plan(self._changed_source(), snapshot, wanted),
        )

    def next_position(
        self,
        since: str | datetime | positions.Position | None,
        limit: micro_batches.Limit | None = None,
        *,
        until: positions.Position | None = None,
        is_ordered: bool = False,
    ) -> positions.Position | None:
        """Return up to where a stream reads next, by `changes` or `change_data` with `until`.

        Args:
            since: Where it is; None for the table's first write.
            limit: How much it reads at most; None for all.
            until: A position beyond which it does not go.
            is_ordered: As of `changes`.

        Returns:
            A position; None if no write has completed since.

        Raises:
            HoodieError: As `changes`.
        """
        begin = self._since(since)
        wanted = micro_batches.Wanted(
            since=positions.BEGINNING if begin is None else begin,
            limit=limit or micro_batches.NO_LIMIT,
            until=until,
            is_ordered=is_ordered,
        )
        source = self._changed_source()
        return self._of_timeline(
            lambda timeline: micro_batches.next_position(source, timeline, wanted)
        )

    def position(
        self, until: travel.Given | positions.Position | None = None
    ) -> positions.Position:
        """Return the position of a reader that has seen all of the table.

        Args:
            until: A moment up to which it has; None for now.

        Raises:
            InvalidInputError: It names no moment.
        """
        return self._position(self._until(until))

    def consumer_position(self, consumer: str) -> positions.Position | None:
        """Return where a declared consumer is; None if it is not declared.

        Raises:
            FormatError: Its file is damaged.
        """
        where = self._where_is(consumer)
        return None if where is None else self._position(where)

    def _position(
        self, end: positions.Position | instants.InstantTime | None
    ) -> positions.Position:
        source = self._changed_source()
        return self._of_timeline(lambda timeline: increments.ending_of(source, timeline, end)[1])

    def _of_timeline(self, read: Callable[[active.ActiveTimeline], Found]) -> Found:
        return active.with_contents(
            self._storage, read, lambda storage: chain.load(storage, self.config)
        )

    def _changed_source(self) -> increments.Source:
        return increments.Source(
            storage=self._storage,
            config=self.config,
            schema=self.schema,
            engine=self._env.engine,
            clock_ms=self._env.clock.now_ms(),
        )

    def _checked_columns(self, columns: Sequence[str] | None) -> tuple[str, ...]:
        """Return the columns of changes."""
        if isinstance(columns, str):
            raise errors.InvalidInputError(
                f"columns is the text {columns!r}, expected a list of names, such as [{columns!r}]"
            )
        names = tuple(self.schema.arrow.names if columns is None else columns)
        known = read_tasks.full_schema(self.schema.arrow).names
        for name in names:
            if name not in known:
                raise errors.NotFoundError(column_names.absence(name, known))
        return names

    def _where_is(self, consumer: str) -> positions.Position | instants.InstantTime | None:
        """Return where a declared consumer is; None if it is not declared."""
        record = consumer_files.record_of(self._storage, consumer)
        if record is None:
            return None
        return positions.parse(record.position) or instants.InstantTime(record.consumed)

    def _since(
        self,
        since: travel.Given | positions.Position | None,
        rule: moments.Rule = moments.Rule.COMPLETION,
    ) -> positions.Position | instants.InstantTime | None:
        """Return where a reader of changes is."""
        if since is None or isinstance(since, positions.Position):
            return since
        position = positions.parse(since) if isinstance(since, str) else None
        return position or self._time_of(since, rule)

    def _until(
        self,
        until: travel.Given | positions.Position | None,
        rule: moments.Rule = moments.Rule.COMPLETION,
    ) -> positions.Position | instants.InstantTime | None:
        """Return up to where changes are read."""
        if until is None:
            return None
        if isinstance(until, str):
            until = positions.parse(until) or until
        if isinstance(until, positions.Position) and rule is moments.Rule.COMPLETION:
            return until
        return self._time_of(until, rule)

    def _time_of(
        self,
        given: travel.Given | positions.Position,
        rule: moments.Rule = moments.Rule.COMPLETION,
    ) -> instants.InstantTime:
        """Return the time of a moment by a rule, which what is given may name, too."""
        text = given.time if isinstance(given, travel.AsOf) else given
        if isinstance(given, positions.Position) or positions.parse(str(text)):
            raise errors.InvalidInputError(
                f"{text} is a position of completion times: by {rule.value} times expected an "
                "instant or a time"
            )
        wanted = travel.as_of(given)
        if wanted.rule not in {rule, moments.Rule.COMPLETION}:
            raise errors.InvalidInputError(
                f"these changes go by {rule.value} times, not by the rule {wanted.rule.value}"
            )
        moment, _ = self._as_of(travel.AsOf(time=wanted.time, rule=rule))
        assert moment is not None, given
        return moment.time

    def columns_of(self, partition_values: str, as_of: travel.Given | None = None) -> pa.Schema:
        """Return the table's columns as a read shows them that takes partition values from there.

        Args:
            partition_values: `file` or `path`.
            as_of: As of `plan_read`.

        Raises:
            InvalidInputError: There is no such source.
            UnsupportedError: Partition values cannot be read from paths.
            HoodieError: The moment cannot be read, as of `plan_read`.
        """
        _, schema = self._as_of(as_of)
        source = partition_columns.source_of(partition_values)
        taken = partition_columns.of_paths(self.config, schema.arrow, source)
        return partition_columns.seen(schema.arrow, taken)

    def _as_of(
        self, given: travel.Given | None
    ) -> tuple[moments.Moment | None, schemas.TableSchema]:
        """Return the moment that is meant, and the columns that its rows are shown with.

        No request for the table as it is now, or else a timeline.
        """
        if given is None:
            return None, self.schema
        wanted = travel.as_of(given)

        def found(
            timeline: active.ActiveTimeline,
        ) -> tuple[moments.Moment, schemas.TableSchema]:
            moment = travel.moment_of(wanted, timeline, self.config, self._env.clock.now_ms())
            if wanted.columns is travel.Columns.NOW:
                return moment, self.schema
            return moment, definition.schema_as_of(self._storage, self.config, timeline, moment)

        return self._of_timeline(found)

    def begin_write(
        self,
        options: sessions.WriteOptions,
        columns: Sequence[str],
        schema: schemas.TableSchema | None = None,
    ) -> sessions.WriteSession | results.AlreadyCommitted:
        """Begin a write whose data files any number of processes write; see `write.sessions`.

        Args:
            options: What to do with the rows, and how.
            columns: The input's columns.
            schema: The columns that the batch is prepared in: the table's, and those that the
                write adds; None where it adds none.

        Raises:
            HoodieError: Nothing was begun.
        """
        target = self._target.grown_to(schema or self.schema)
        return sessions.begin(target, options, columns, self._env)

    @guesses.of_arguments("rows and no options are for upsert, insert and overwrite")
    def write(
        self, data: pa.Table | arrow_columns.ArrowStream, options: sessions.WriteOptions
    ) -> results.WriteResult:
        """Write a batch in one commit.

        Args:
            data: The table's columns in any order; see `write.batches.prepare`. A table of Arrow,
                or anything that gives a stream of Arrow's, such as a reader or a data frame. What a
                stream gives need not fit into memory.
            options: What to do with it, and how.

        Raises:
            InvalidInputError: The data is of another kind, or does not fit the table.
            HoodieError: Nothing was published; only an OutcomeUnknownError leaves open whether it
                was.
        """
        return sessions.write(self._target, _arrow_data(data), options, self._env)

    def delete_where(
        self, where: predicates.Predicate, options: sessions.WriteOptions
    ) -> results.WriteResult | None:
        """Delete the records that a filter keeps, in one commit; None, and no commit, for none.

        Args:
            where: The filter, on any columns.
            options: Of a delete, by a single or an optimistic writer. A record that another writer
                changes meanwhile is a conflict.

        Raises:
            ConfigurationError: The writer is non-blocking.
            NotFoundError: The filter names a column that the table does not have.
            InvalidInputError: It compares a column with a value of another type.
            HoodieError: Nothing was published; only an OutcomeUnknownError leaves open whether it
                was.
        """
        columns = [schemas.RECORD_KEY, schemas.PARTITION_PATH]
        sessions.check_selected(self._target, options)
        # A write that finds nothing would be rolled back.
        if not any(batch.num_rows for batch in self.read(columns, where)):
            return None
        return sessions.delete_selected(
            self._target, lambda: self.read(columns, where).read_all(), options, self._env
        )

    def delete_partitions(self, options: sessions.WriteOptions) -> results.WriteResult:
        """Delete all rows of some partitions, in one commit that writes no data file.

        Nor does it read one, unless the table has a record index: that learns which keys are gone.

        Args:
            options: Of a delete_partition with the partitions' paths, by a single or an optimistic
                writer. What another writer changes there meanwhile is a conflict; what it adds in
                new file groups stays.

        Raises:
            ConfigurationError: The writer is non-blocking.
            NotFoundError: There is no such partition, or nothing in it.
            HoodieError: Nothing was published; only an OutcomeUnknownError leaves open whether it
                was.
        """
        return sessions.delete_partitions(self._target, options, self._env)

    def preview_delete_partitions(self, partitions: Sequence[str]) -> frozenset[files.FileGroupId]:
        """Return the file groups that `delete_partitions` would retire now.

        Raises:
            NotFoundError: There is no such partition, or nothing in it.
        """
        replacement = replacements.of(commits.Operation.DELETE_PARTITION, partitions)
        assert replacement is not None
        found = replacements.replaced(replacement, self._storage, self.config, self.timeline(), ())
        return found.groups

    def schedule_compaction(
        self, transaction: manager.TransactionOptions
    ) -> instants.InstantTime | None:
        """Plan a compaction and return its instant; None when there is nothing to compact."""
        return self.plan_compaction(transaction, compaction_options.DEFAULTS).instant

    def plan_compaction(
        self,
        transaction: manager.TransactionOptions,
        options: compaction_options.CompactionOptions,
    ) -> results.ScheduleResult:
        """Plan a compaction by its trigger, strategies and bounds, or return why none is planned.

        Raises:
            ConfigurationError: The table is copy-on-write.
            HoodieError: Nothing was planned.
        """
        return compaction.schedule(self._target, options, transaction, self._env)

    def preview_compaction(
        self, options: compaction_options.CompactionOptions
    ) -> compaction_planning.Decision:
        """Return what `plan_compaction` would plan now, and why not; nothing is written.

        Raises:
            ConfigurationError: As `plan_compaction`.
        """
        return compaction.preview(self._target, options, self._env)

    @guesses.of_arguments("maintain.compact() plans and executes a compaction")
    def compact(
        self, requested_time: instants.InstantTime, transaction: manager.TransactionOptions
    ) -> results.CommitResult:
        """Execute a planned compaction.

        Raises:
            NotFoundError: There is no such plan.
            ConflictError: It was executed, or is being executed.
        """
        return table_service.execute(
            compaction.Compaction(), self._target, requested_time, transaction, self._env
        )

    def roll_back(
        self, requested_time: instants.InstantTime, transaction: manager.TransactionOptions
    ) -> results.RollbackResult:
        """Take back a pending write or compaction whose owner is dead.

        Raises:
            NotFoundError: There is no such instant.
            ConflictError: It has completed, or somebody alive works on it or takes it back.
        """
        return rollback.roll_back(self._target, requested_time, transaction, self._env)

    def roll_back_failed(self, transaction: manager.TransactionOptions) -> results.RollbackResults:
        """Take back every write whose owner is dead, and remove what ended ones left behind."""
        return rollback.roll_back_failed(self._target, transaction, self._env)

    def propose_clean(self, how: retention.Retention) -> cleaning_plans.Proposal:
        """Return what a clean would delete, with the sizes of the files; nothing is changed.

        See `cleaning.service.propose`.
        """
        return cleaning.propose(self._storage, self.config, how, has_sizes=True)

    def clean(
        self, how: retention.Retention, transaction: manager.TransactionOptions
    ) -> results.CleanResults:
        """Take failed writes back, finish pending cleans, and delete what no reader needs any more.

        Args:
            how: How much of the past stays readable.
            transaction: On whose behalf.

        Raises:
            ConflictError: The table is being restored, or changes faster than a clean is planned.
        """
        return cleaning.clean(self._target, how, transaction, self._env)

    def savepoints(self) -> list[results.SavepointResult]:
        """Return the table's savepoints, in the order of their completion; a read each."""
        return active.with_contents(
            self._storage,
            lambda timeline: savepoint_service.listed(self._storage, timeline),
            lambda storage: chain.load(storage, self.config),
        )

    def initialise_metadata(
        self,
        transaction: manager.TransactionOptions,
        *,
        is_rebuilt: bool = False,
        has_statistics: bool = True,
        hear: Callable[[str], object] = lambda partition_path: None,
        hear_left_out: Callable[[str], object] = logger.warning,
    ) -> Table:
        """Make the table's metadata table from what is on storage; return the table with it.

        Of one that is rebuilt all other indexes are built again beside writers, once the rest is
        there, and statistics of the columns that were chosen. If that breaks off, `build_index`
        builds them.

        Args:
            transaction: On whose behalf.
            is_rebuilt: Whether one that is there is dropped first.
            has_statistics: Whether it gets statistics of files and partitions, and of one that is
                rebuilt the other indexes; else files alone.
            hear: Hears of partitions before their files are looked into.
            hear_left_out: Hears which indexes are not built again, and why.

        Raises:
            AlreadyExistsError: It has one.
            ConflictError: The table is being restored, or changes faster than it can be listed.
            HoodieError: As `build_index`; the metadata table is there.
        """
        without, again = self, list[index_decisions.Request]()
        if is_rebuilt:
            if has_statistics:
                again = self._requests_again(hear_left_out)
            self.drop_metadata(transaction)
            without = open_table(self.uri, self._env, self._writer)
        initialising.initialise(
            without._target, transaction, self._env, has_statistics=has_statistics, hear=hear
        )
        made = open_table(self.uri, self._env, self._writer)
        for request in again:
            refusal = index_decisions.asked_refusal(request, made.config, transaction.settings)
            if refusal is None:
                index_building.build(made._target, request, transaction, self._env, hear)
                made = open_table(self.uri, self._env, self._writer)
            else:
                names = ", ".join(request.names)
                hear_left_out(f"{names} of {self.uri} is not built again: {refusal}")
        return made

    def _requests_again(
        self, hear_left_out: Callable[[str], object]
    ) -> list[index_decisions.Request]:
        """Return what is asked for so that a new metadata table has the indexes of this one."""
        there = self.config.metadata_partitions
        found = list[index_decisions.Request]()
        if self.config.statistics_columns and file_statistics.COLUMN_STATS in there:
            of_partitions = (
                [file_statistics.PARTITION_STATS] if self.config.partition_fields else []
            )
            names = (file_statistics.COLUMN_STATS, *of_partitions)
            found.append(index_decisions.Request(names, self.config.statistics_columns))
        if file_statistics.BLOOM_FILTERS in there:
            found.append(index_decisions.Request((file_statistics.BLOOM_FILTERS,)))
        if key_changes.RECORD_INDEX in there:
            name, is_partitioned = key_changes.RECORD_INDEX, self.has_partitioned_record_index()
            found.append(index_decisions.Request((name,), is_partitioned=is_partitioned))
        for of_names in (
            index_definitions.columns_of_secondary_indexes,
            index_definitions.calls_of_expressions,
        ):
            for name, column in of_names(self._storage, self.config, hear_left_out).items():
                found.append(index_decisions.Request((name,), secondary={name: column}))
        return found

    def build_index(
        self,
        names: Sequence[str],
        transaction: manager.TransactionOptions,
        hear: Callable[[str], object] = lambda what: None,
        *,
        columns: Sequence[str] | None = None,
        secondary: Mapping[str, str] | None = None,
        is_partitioned: bool = False,
    ) -> results.IndexResult:
        """Build indexes that the table does not have, beside its writers (RFC-45).

        Args:
            names: Partitions of the metadata table, of `index_decisions.BUILDABLE`, or secondary
                indexes, whose names begin with `secondary_indexes.PREFIX`.
            transaction: On whose behalf; with the lock of the table's writers.
            hear: Hears what is done next.
            columns: As of `index_decisions.Request`.
            is_partitioned: Whether a record index is one of each partition, which has a key once in
                each of them, and not of the whole table.
            secondary: The columns of secondary indexes, and of expression indexes calls such as
                `lower(name)`, by the names of these.

        Raises:
            InvalidInputError: They are not built, or not in this table, or not of these columns; or
                its record index is of the other kind.
            NotFoundError: The table has no metadata table, or no such column.
            ConflictError: Somebody alive builds them, or others are being built; or other engines
                wrote all the time.
            HoodieError: As `index_building.build`.
        """
        request = index_decisions.Request(
            names, columns, secondary=secondary or {}, is_partitioned=is_partitioned
        )
        return index_building.build(self._target, request, transaction, self._env, hear)

    def drop_index(
        self, names: Sequence[str], transaction: manager.TransactionOptions
    ) -> tuple[str, ...]:
        """Drop indexes, and give up what is being built of them; return which there were.

        Raises:
            HoodieError: As `index_dropping.drop`.
        """
        return index_dropping.drop(self._target, names, transaction, self._env)

    def pending_indexes(self) -> list[index_decisions.Build]:
        """Return the indexes that are planned, or being built; a read each."""
        return index_steps.pending(self._storage, active.load(self._storage))

    def index_columns(self, builds: Sequence[index_decisions.Build]) -> Mapping[str, str]:
        """Return of what indexes of columns are that are ready, or planned, by name.

        That is a column, a function of one, or the columns of statistics if they were chosen. What
        is not defined in a way that is read here is left out. A read for each that is ready.

        Args:
            builds: The indexes that are planned, or being built.
        """
        return index_steps.described(self._storage, self.config, builds)

    def index_progress(
        self, builds: Iterable[index_decisions.Build]
    ) -> Mapping[str, build_progress.Progress]:
        """Return how far builds are, by the requested times of their actions; a read each.

        Nothing is known of one that has begun some seconds ago.
        """
        times = [each.instant.requested_time for each in builds]
        found = {time: build_progress.read(self._storage, time) for time in times}
        return {time: each for time, each in found.items() if each is not None}

    def drop_metadata(self, transaction: manager.TransactionOptions) -> bool:
        """Drop the table's metadata table; return whether there was one."""
        return initialising.drop(self._target, transaction, self._env)

    def create_savepoint(
        self, wanted: savepoint_service.Wanted, transaction: manager.TransactionOptions
    ) -> results.SavepointResult:
        """Keep the files of a commit until the savepoint is deleted.

        Raises:
            NotFoundError: There is no such commit on the timeline.
            AlreadyExistsError: It has a savepoint with another comment.
            ConflictError: Files of it were cleaned, are about to be, or are missing.
        """
        with closing(manager.open_client(self._target, transaction, self._env)) as client:
            return savepoint_service.create(client, self.config, wanted)

    def delete_savepoints(
        self, doomed: savepoint_service.Doomed, transaction: manager.TransactionOptions
    ) -> tuple[instants.Instant, ...]:
        """Delete savepoints and return them; what they kept is cleaned as other files are.

        Raises:
            NotFoundError: A commit that is named has no savepoint.
        """
        with closing(manager.open_client(self._target, transaction, self._env)) as client:
            return savepoint_service.delete(client, self.config, doomed)

    def mirror(self, options: mirrors.Options, *, is_dry_run: bool = False) -> mirrors.Mirrored:
        """Register the table's base files in an Iceberg table beside it, or bring it up to date.

        Raises:
            HoodieError: As of `services.mirroring`.
        """
        return mirroring.mirror(self._target, options, self._env, is_dry_run=is_dry_run)

    def advance_consumer(
        self, name: str, progress: consumer_files.Progress
    ) -> consumer_files.Advanced:
        """Record how far a consumer has read, which holds cleaning back; a new name declares one.

        Raises:
            InvalidInputError: The name is none; the time is later than all that completed, or would
                move the consumer back; or a new one begins before what is certainly there.
            RepeatedTimeError: Other engines may give the time again, and earlier ones.
            ConflictError: It is elsewhere than expected, or a clean began meanwhile.
            FormatError: Its file is damaged.
        """
        return consumer_files.advance(
            self._storage, self.timeline, name, progress, self._env, self.config
        )

    def consumers(self) -> list[table_stats.ConsumerStats]:
        """Return the declared consumers, by name, and whether cleaning waits for them."""
        clock_ms = self._env.clock.now_ms()
        return table_stats.of_consumers(self._storage, self.config, self.timeline(), clock_ms)

    def remove_consumer(self, name: str) -> bool:
        """Remove a consumer: cleaning does not wait for it any more; False if there is none."""
        return consumer_files.remove(self._storage, name)

    def archive(
        self,
        transaction: manager.TransactionOptions,
        policy: archive_planning.Policy | None = None,
    ) -> results.ArchiveResult:
        """Move old instants into the table's history, and trim that if the policy says so.

        Raises:
            ConfigurationError: The policy's bounds contradict each other.
            ConflictError: The table is being restored, or its configuration has changed.
        """
        wanted = policy or archive_planning.Policy()
        return archiving.archive(self._target, wanted, transaction, self._env)

    def preview_archive(
        self, policy: archive_planning.Policy | None = None
    ) -> archive_planning.Plan:
        """Return what `archive` would move and trim now, and what keeps the rest."""
        return archiving.preview(self._target, policy or archive_planning.Policy(), self._env)

    def archived_instants(self, before: str | None = None) -> Iterator[archived.ArchivedInstant]:
        """Yield the archived instants, the newest first; a file of the history is read on demand.

        Args:
            before: Only instants with smaller requested times.
        """
        return archived.ArchivedTimeline(self._storage).newest_first(before)

    def configure_chain(
        self, transaction: manager.TransactionOptions, *, has_chain: bool, has_foreign_writers: bool
    ) -> Table:
        """Change who may write the table; return it as it is then.

        Args:
            transaction: On whose behalf.
            has_chain: Whether a chain is to order all changes of ours.
            has_foreign_writers: Whether other engines may write it; if not, it has a chain.

        Raises:
            ConflictError: A write is pending; or the configuration changed meanwhile.
        """
        with closing(manager.open_client(self._target, transaction, self._env)) as client:
            if has_foreign_writers or not has_chain:
                index_following.follow_last(client, self.config, self.schema)
            if has_chain:
                config = configuration.switch_on(
                    client, self.config, has_foreign_writers=has_foreign_writers
                )
            else:
                config = configuration.switch_off(client, self.config)
        return Table(self._storage, config, self.schema, self._env, self._writer)

    def capture_change_data(
        self, transaction: manager.TransactionOptions, mode: change_logs.LoggingMode | None
    ) -> Table:
        """Have writes store what they change (CDC), or no longer; return the table as it is then.

        What was written before stays as it is: changes of it are computed, or read from what was
        stored of them.

        Args:
            transaction: On whose behalf.
            mode: What they are to store; None for nothing.

        Raises:
            ConflictError: A write is pending; or the configuration changed meanwhile.
        """
        with closing(manager.open_client(self._target, transaction, self._env)) as client:
            config = configuration.capture(client, self.config, mode)
        return Table(self._storage, config, self.schema, self._env)

    def adopt(
        self,
        declared: table_config.TableConfig,
        transaction: manager.TransactionOptions,
        *,
        hashing_config: partition_buckets.HashingConfig | None = None,
        is_preview: bool = False,
    ) -> Mapping[str, str]:
        """Have the table state its index and its time zone; return the properties that it lacked.

        A table without an id is given one as well, by which positions know it from one that is
        made again under its name.

        Args:
            declared: The table's configuration, with the index, and the zone of local times.
            transaction: On whose behalf.
            hashing_config: Bucket counts by partition that its writers have, and it does not say.
            is_preview: Whether the table is only compared with them.

        Raises:
            ConfigurationError: The table contradicts them.
            UnsupportedError: The table is not written, for another reason.
            ConflictError: Others were stated meanwhile.
        """
        declared = adoption.with_key_encoding(declared, self._target, self._env)
        changes = adoption.lacking(self.config, declared)
        target = replace(self._target, config=adoption.adopted(self.config, declared))
        if changes or hashing_config is not None:
            adoption.check(target, changes, self._env, hashing_config=hashing_config)
        if (changes or self.config.table_id is None) and not is_preview:
            with closing(manager.open_client(target, transaction, self._env)) as client:
                adoption.record(target, changes, client, hashing_config)
        return changes

    def pending(self, heartbeat_settings: settings.WriteSettings) -> list[results.PendingInstant]:
        """Return what is pending and who works on it; two requests each and some more.

        Args:
            heartbeat_settings: By which owners count as alive or dead.
        """
        return liveness.pending(self._storage, self.timeline(), heartbeat_settings, self._env)

    def explain_lock(
        self, address: addresses.LockAddress, watch_s: float = 0.0
    ) -> lock_breaking.LockState:
        """Return who has the table's lock, and what proves that; see `services.lock_breaking`."""
        return lock_breaking.explain(self._storage, address, self._env, watch_s)

    def break_lock(
        self, address: addresses.LockAddress, watch_s: float = 0.0, holder_id: str | None = None
    ) -> lock_breaking.LockState:
        """Take the table's lock from a holder that is proved dead, or that is named.

        Raises:
            ConflictError: The holder may be alive, or is another than was named.
        """
        return lock_breaking.break_lock(self._storage, address, self._env, watch_s, holder_id)

    def check(self, heartbeat_settings: settings.WriteSettings) -> list[results.Finding]:
        """Return what is wrong with the table, and what is worth a note; reads all of it.

        Args:
            heartbeat_settings: By which pending instants count as alive or dead.
        """
        return checking.check(self._target, heartbeat_settings, self._env)

    @property
    def _target(self) -> manager.Target:
        return manager.Target(
            storage=self._storage,
            config=self.config,
            schema=self.schema,
            known_chain=self._chain,
        )

    def _metadata(self, instant: instants.Instant) -> commits.CommitMetadata | None:
        path = transitions.path(instant)
        try:
            content = self._storage.read(path)
        except errors.NotFoundError:
            return None
        # Only an inflight one may be empty.
        is_told = content or instant.is_completed
        return timeline_avro.decode_commit(content, path) if is_told else None


def _check_one_begin(since: object, consumer: str | None) -> None:
    if since is not None and consumer is not None:
        raise errors.InvalidInputError(
            f"changes were asked for since {since} and for consumer {consumer}: expected one of "
            "them"
        )


def _arrow_data(data: object) -> pa.Table | pa.RecordBatchReader:
    """Return data as a table of Arrow, or a stream as a reader.

    Raises:
        InvalidInputError: It is none, and gives no stream.
    """
    # A reader stays itself: by Arrow's C interface all that it raises becomes a text, also an
    # interrupt.
    if isinstance(data, pa.Table | pa.RecordBatchReader):
        return data
    if isinstance(data, arrow_columns.ArrowStream):
        return pa.RecordBatchReader.from_stream(data)
    raise errors.InvalidInputError(
        f"data to write is a {type(data).__name__}, expected a pyarrow.Table or something with "
        "__arrow_c_stream__, such as a data frame of polars or pandas"
    )


def create_table(
    uri: str,
    config: table_config.TableConfig,
    schema: schemas.TableSchema,
    env: environment.Environment,
    hashing_config: partition_buckets.HashingConfig | None = None,
) -> Table:
    """Create a table.

    Args:
        uri: Its root; a directory of it may be there.
        config: Its configuration; the schema is put into it.
        schema: Its columns.
        env: The environment.
        hashing_config: Bucket counts by partition; None for one count of all.

    Raises:
        AlreadyExistsError: There is a table, or one above or below that place.
        InvalidInputError: A key, partition or ordering field is no column, or of a type that has
            no one text; or bucket counts by partition do not go with the rest.
        UnsupportedError: A column has a logical type that readers would ignore.
    """
    definition.check(config, schema, hashing_config)
    schemas.check_logical_types(schema)
    storage = env.open_storage(uri)
    definition.check_place(storage, env)
    if table_properties.is_table(storage):
        raise errors.AlreadyExistsError(f"there already is a table in {storage.uri}")
    stored = replace(
        config,
        create_schema=schemas.with_fixed_decimals(schema).avro,
        table_id=env.random.uuid(),
    )
    if hashing_config is not None:
        partition_buckets.create(storage, hashing_config)
    stored = chain.begin(storage, stored, "creation")
    table_properties.create(storage, stored, env.clock)
    return open_table(uri, env)


def open_table(
    uri: str, env: environment.Environment, writer: writers.Writer | None = None
) -> Table:
    """Open a table; `hoodie.open_table` is the same without an environment.

    Cost: two requests for its properties; two more when they hold no schema.

    Args:
        uri: Its root.
        env: Time, ids, threads, and what opens storage.
        writer: As of `Table`.

    Raises:
        NotFoundError: There is none.
        UnsupportedError: It is of a version, or merges in a way, that is not read.
        FormatError: Its properties are damaged.
    """
    storage = env.open_storage(uri)
    config = table_properties.load(storage, env.clock)
    return Table(storage, config, definition.load_schema(storage, config), env, writer)
