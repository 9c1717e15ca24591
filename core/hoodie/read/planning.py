"""Which file slices a read needs: a snapshot, less what the filter excludes.

A filter excludes partitions by the values in their paths and by their statistics, and file slices
by the bucket of a key, by the record index, by secondary indexes, by the statistics of their files
and by bloom filters of keys. All but the first of each are those of the metadata table. As of an
earlier moment only those are asked that hold for a file whenever it is read.

Of a slice whose logs hold nothing but kept deletes the base file alone is read: they change none of
its rows, and without them it has no changes to merge.
"""

from __future__ import annotations

import contextlib
import enum
import gc
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import compress
from typing import TypeAlias, TypeVar

import pyarrow as pa

from hoodie import deferred, errors
from hoodie.filegroup import snapshots
from hoodie.index import tables
from hoodie.model import (
    column_names,
    file_statistics,
    files,
    key_changes,
    moments,
    partition_columns,
    predicates,
    schemas,
    table_config,
)
from hoodie.read import pruning, tasks

with deferred.imports():
    from hoodie.filegroup import (
        data_skipping,
        key_filters,
        metadata_table,
        reading,
        record_index,
        secondary_index,
    )
    from hoodie.format import secondary_keys
    from hoodie.index import foreign_groups
    from hoodie.model import expression_indexes, secondary_indexes
    from hoodie.read import key_lookups
    from hoodie.timeline import index_definitions

logger = logging.getLogger(__name__)

Skipped = TypeVar("Skipped", str, files.FileSlice)
_Matching: TypeAlias = """Callable[
    [metadata_table.MetadataTable, Sequence[Skipped], predicates.Predicate, pa.Schema], list[bool]
]"""
"""Returns which partitions or file slices a filter does not exclude; one of `data_skipping`."""

_MayHold: TypeAlias = """Callable[
    [metadata_table.MetadataTable, Sequence[files.FileSlice], pa.Array], list[bool]
]"""
"""Returns which file slices may hold one of some keys."""

_OF_FILES = frozenset((file_statistics.COLUMN_STATS, file_statistics.BLOOM_FILTERS))
"""Indexes of the metadata table that hold for a file as long as it is there. All others are those
of the table as it is now."""

_NOT_THEN = "it is of the table as it is now, not as it was"

_NOT_KEPT_UP = (
    "Apache Hudi's writers with a bucket index do not add to it what they insert into log files"
)


_NOT_OF_BASE_FILES = "a read of base files alone has older values than the index"
_NO_METADATA_TABLE = "the metadata table cannot be used"


def _in_record_index(
    table: metadata_table.MetadataTable, found: Sequence[files.FileSlice], keys: pa.Array
) -> list[bool]:
    return record_index.may_hold(table, found, keys)


def _by_key_filters(
    table: metadata_table.MetadataTable, found: Sequence[files.FileSlice], keys: pa.Array
) -> list[bool]:
    return key_filters.may_hold(table, found, keys)


class Means(enum.Enum):
    """What leaves out partitions or file slices; in this order."""

    PARTITION_VALUES = "partition values"
    PARTITION_STATISTICS = "partition statistics"
    KEY_BUCKETS = "buckets of keys"
    RECORD_INDEX = "look-ups in a record index"
    SECONDARY_INDEX = "look-ups in secondary indexes"
    EXPRESSION_INDEX = "expression indexes"
    COLUMN_STATISTICS = "column statistics"
    BLOOM_FILTERS = "bloom filters"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What a filter leaves out by some means.

    Attributes:
        means: By what.
        considered: How many partitions or file slices were left before.
        left: How many of them may hold rows of the query.
        unused: Why statistics were not used, though there is a filter and something to leave out.
        is_named: Whether only partitions that the filter names were considered, and not all.
    """

    means: Means
    considered: int
    left: int
    unused: str | None = None
    is_named: bool = False

    @property
    def skipped(self) -> int:
        """How many were left out."""
        return self.considered - self.left


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a read does.

    Attributes:
        slices: Those that may hold rows of the query.
        task: Returns what a process needs to know to read one of them.
        has_metadata_table: Whether the files were taken from the metadata table.
        steps: What was left out, for each means once that the table has.
        columns: Those of the result.
        moment: As of which the table is read; None for now.
    """

    slices: tuple[files.FileSlice, ...]
    task: Callable[[files.FileSlice], tasks.ReadTask]
    has_metadata_table: bool
    steps: tuple[Step, ...]
    columns: pa.Schema
    moment: moments.Moment | None = None

    @property
    def tasks(self) -> tuple[tasks.ReadTask, ...]:
        """A task for each slice, made anew."""
        return tuple(map(self.task, self.slices))

    def relies_on(self, config: table_config.TableConfig) -> set[str]:
        """Return the indexes that left something out and do not hold once they were dropped.

        Those of single files hold whatever was written since.

        Args:
            config: With which it was planned.
        """
        found = set[str]()
        means = {each.means for each in self.steps if each.skipped}
        if Means.PARTITION_STATISTICS in means:
            found.add(file_statistics.PARTITION_STATS)
        if not means.isdisjoint((Means.RECORD_INDEX, Means.SECONDARY_INDEX)):
            found.add(key_changes.RECORD_INDEX)
        if Means.SECONDARY_INDEX in means:
            found.update(filter(secondary_indexes.is_one, config.metadata_partitions))
        return found

    def step(self, means: Means) -> Step:
        """Return what was left out by some means."""
        return next(each for each in self.steps if each.means is means)


def plan(
    table_uri: str,
    config: table_config.TableConfig,
    schema: schemas.TableSchema,
    snapshot: snapshots.Snapshot,
    query: tasks.Query,
    places: pruning.Places | None = None,
) -> Plan:
    """Return which file slices may hold rows of the query, and what was left out.

    Args:
        table_uri: The table's root.
        config: The table's configuration.
        schema: The table's columns.
        snapshot: The table.
        query: The query.
        places: In which partitions rows of some values are; None where that is not known.

    Raises:
        NotFoundError: The query names a column that the table has not.
        InvalidInputError: The filter compares a column with a value of another type.
        UnsupportedError: The rows of a slice are in a file outside the table, or partition values
            cannot be read from paths.
    """
    of_paths = partition_columns.of_paths(config, schema.arrow, query.source)
    seen = partition_columns.seen(schema.arrow, of_paths)
    _check(seen, query)
    skipping = _Skipping(table_uri, config, seen, of_paths, snapshot, query, places)
    with _no_garbage():
        wanted = skipping.slices(skipping.partitions())
        for file_slice in wanted:
            if file_slice.base_file is not None:
                reading.check_is_whole(file_slice.base_file)
        slices = tuple(each if each.is_changed else _base_alone(each) for each in wanted)
    known = snapshot.known
    full = tasks.full_schema(seen)

    def task_of(file_slice: files.FileSlice) -> tasks.ReadTask:
        return tasks.ReadTask(
            table_uri=table_uri,
            config=config,
            schema=schema,
            committed=known if snapshot.moment is None else known.with_files_of(file_slice),
            file_slice=file_slice,
            query=query,
        )

    return Plan(
        slices=slices,
        task=task_of,
        has_metadata_table=snapshot.metadata is not None,
        steps=tuple(skipping.steps),
        columns=pa.schema([full.field(name) for name in query.columns]),
        moment=snapshot.moment,
    )


def holding(
    table_uri: str,
    config: table_config.TableConfig,
    schema: schemas.TableSchema,
    snapshot: snapshots.Snapshot,
    where: predicates.Predicate,
    found: Sequence[files.FileSlice],
) -> set[files.FileGroupId]:
    """Return the file groups of some slices that a filter does not exclude, as `plan` does.

    Args:
        table_uri: The table's root.
        config: The table's configuration.
        schema: The table's columns.
        snapshot: The table.
        where: The filter, of values as data files show them.
        found: The slices, one of a file group at most.
    """
    query = tasks.Query(columns=(), where=where)
    of_paths = partition_columns.of_paths(config, schema.arrow, query.source)
    seen = partition_columns.seen(schema.arrow, of_paths)
    skipping = _Skipping(table_uri, config, seen, of_paths, snapshot, query, None)
    paths = sorted({each.group.partition_path for each in found})
    kept = set(pruning.matching_partitions(paths, where, config, seen, of_paths))
    left = skipping.left_of([each for each in found if each.group.partition_path in kept])
    return {each.group for each in left}


def with_ready_indexes(
    planned: Callable[[table_config.TableConfig], Plan],
    config: table_config.TableConfig,
    ready: Callable[[], Sequence[str]],
) -> Plan:
    """Return a plan that relies on no index that was dropped since a configuration was read.

    Properties that were read before may name one: it lacks what was written since, and some of its
    files may be gone when it is asked. So it counts if it is still ready afterwards.

    Args:
        planned: Returns the plan by a configuration.
        config: The configuration, as it was read.
        ready: Returns the partitions of the metadata table that are ready by the properties of now;
            called if an index has left something out.
    """
    while True:
        found = planned(config)
        relied_on = found.relies_on(config)
        if not relied_on:
            return found
        now = ready()
        if relied_on <= set(now):
            return found
        # Fewer each time, until none of them is left.
        kept = tuple(name for name in config.metadata_partitions if name in now)
        config = replace(config, metadata_partitions=kept)


@contextlib.contextmanager
def _no_garbage() -> Iterator[None]:
    """Do not look for garbage: among values of many files, which stay, that takes a third of all.

    Threads may be here at the same time: the first to come is the one to end it.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@dataclass(frozen=True, slots=True)
class _Skipping:
    """Leaves out what a filter excludes, step by step.

    Attributes:
        table_uri: The table's root.
        config: The table's configuration.
        columns: The table's, as the query shows them.
        of_paths: Those of which it takes the values from paths.
        snapshot: The table.
        query: The query.
        places: In which partitions rows of some values are; None where that is not known.
        steps: What was left out until now.
    """

    table_uri: str
    config: table_config.TableConfig
    columns: pa.Schema
    of_paths: pa.Schema
    snapshot: snapshots.Snapshot
    query: tasks.Query
    places: pruning.Places | None
    steps: list[Step] = field(default_factory=list)

    @property
    def _about_files(self) -> predicates.Predicate | None:
        """The part of the filter that is about values in files, keys and statistics among them."""
        where = self.query.where
        return None if where is None else predicates.without(where, self.of_paths.names)

    def partitions(self) -> list[str]:
        """Return the paths of the partitions that may hold rows of the query."""
        where, columns = self.query.where, self.columns
        # A metadata table has all of them in one record.
        is_listed = not self.config.has_metadata_table
        named = pruning.named_partitions(where, self.config, columns) if is_listed else None
        view = self.snapshot.view
        paths = view.partitions() if named is None else view.partitions_among(named)
        left = pruning.matching_partitions(paths, where, self.config, columns, self.of_paths)
        if self.places is not None and not self.of_paths.names:
            left = pruning.partitions_of_values(left, where, self.config, columns, self.places)
        step = Step(
            means=Means.PARTITION_VALUES,
            considered=len(paths),
            left=len(left),
            is_named=named is not None,
        )
        self.steps.append(step)
        return self._by_statistics(
            Means.PARTITION_STATISTICS,
            file_statistics.PARTITION_STATS,
            left,
            lambda metadata, some, where, full: data_skipping.matching_partitions(
                metadata, some, where, full, is_shared=self.config.has_foreign_writers
            ),
        )

    def slices(self, paths: Iterable[str]) -> list[files.FileSlice]:
        """Return the file slices of partitions that may hold rows of the query."""
        view = self.snapshot.view
        return self.left_of([each for path in paths for each in view.latest_slices(path)])

    def left_of(self, found: list[files.FileSlice]) -> list[files.FileSlice]:
        """Return which of some file slices may hold rows of the query."""
        left = self._by_index(found)
        self._add(Means.KEY_BUCKETS, found, left)
        where = self._about_files
        keys = None if where is None else key_lookups.keys_of(where, self.config, self.columns)
        left = self._by_keys(
            Means.RECORD_INDEX,
            key_changes.RECORD_INDEX,
            left,
            keys,
            _in_record_index,
            self._is_in_record_index,
        )
        left = self._by_secondary_indexes(left)
        left = self._by_expressions(left)
        left = self._by_statistics(
            Means.COLUMN_STATISTICS,
            file_statistics.COLUMN_STATS,
            left,
            lambda metadata, some, where, full: data_skipping.matching_slices(
                metadata, some, where, full, is_shared=self.config.has_foreign_writers
            ),
        )
        return self._by_keys(
            Means.BLOOM_FILTERS,
            file_statistics.BLOOM_FILTERS,
            left,
            keys,
            _by_key_filters,
        )

    def _is_in_record_index(self, file_slice: files.FileSlice) -> bool:
        """Return whether the record index has every key of a slice, as it is read."""
        if self.query.is_read_optimized and file_slice.log_files:
            return False  # The base file may have keys that log files have deleted.
        return tables.is_in_record_index(self.config, file_slice.group.file_id)

    def _by_secondary_indexes(self, found: list[files.FileSlice]) -> list[files.FileSlice]:
        """Return the slices that may hold a row with the values that a filter names.

        It is a step of tables alone that have such an index. Rows as a base file has them may have
        values that the index has no more.
        """
        names = sorted(filter(secondary_indexes.is_one, self.config.metadata_partitions))
        where = self._about_files
        if not names:
            return found
        left, unused = found, None
        if where is not None and len(found) > 1:
            if self.query.is_read_optimized and not self.config.is_copy_on_write:
                unused = _NOT_OF_BASE_FILES
            else:
                left, unused = self._looked_up(names, found, where)
        self._add(Means.SECONDARY_INDEX, found, left, unused)
        return left

    def _looked_up(
        self,
        names: Sequence[str],
        found: list[files.FileSlice],
        where: predicates.Predicate,
    ) -> tuple[list[files.FileSlice], str | None]:
        """Return what secondary indexes do not exclude, or why one is not used."""
        metadata = self.snapshot.metadata
        if metadata is None:
            return found, _NO_METADATA_TABLE
        if key_changes.RECORD_INDEX not in self.config.metadata_partitions:
            return found, "the table has no record index, by which the rows of keys are found"
        if self.config.has_foreign_writers:
            return found, secondary_indexes.UNUSED_BESIDE_OTHERS
        left, unused = found, None
        try:
            # Before any file is listed: those of one that was dropped are gone before its name is
            # given again.
            definitions = index_definitions.of_secondary_indexes(
                metadata.data_storage, self.config, names
            )
        except (errors.FormatError, errors.UnsupportedError) as error:
            return found, str(error)
        for each in definitions:
            if secondary_indexes.column_refusal(each, self.columns, self.config.name) is not None:
                continue
            values = key_lookups.values_of(where, each.column, self.columns)
            if values is not None:
                left, unused = self._with_values(each, secondary_keys.texts(values), left)
        return left, unused

    def _with_values(
        self,
        definition: secondary_indexes.Definition,
        values: pa.Array,
        found: list[files.FileSlice],
    ) -> tuple[list[files.FileSlice], str | None]:
        """Return the slices that may hold a row with some values, or why all are left."""
        return self._asked(
            Means.SECONDARY_INDEX,
            definition.partition,
            found,
            lambda table, few: secondary_index.may_hold(table, definition, few, values),
        )

    def _by_expressions(self, found: list[files.FileSlice]) -> list[files.FileSlice]:
        """Return the slices that may hold a row with what a function makes by a filter.

        It is a step of tables alone that have an index of bounds. They hold for a file as long as
        it is there.
        """
        names = list(filter(expression_indexes.is_one, self.config.metadata_partitions))
        if not names:
            return found
        where = self._about_files
        conditions = [
            each
            for each in (() if where is None else predicates.conjuncts(where))
            if isinstance(each, predicates.Applied) and data_skipping.is_excludable(each)
        ]
        left, unused = found, None
        if conditions and len(found) > 1:
            left, unused = self._by_conditions(names, found, conditions)
        self._add(Means.EXPRESSION_INDEX, found, left, unused)
        return left

    def _by_conditions(
        self,
        names: Sequence[str],
        found: list[files.FileSlice],
        conditions: Sequence[predicates.Applied],
    ) -> tuple[list[files.FileSlice], str | None]:
        """Return what expression indexes do not exclude, or why one is not used."""
        metadata = self.snapshot.metadata
        if metadata is None:
            return found, _NO_METADATA_TABLE
        left, unused = found, None
        try:
            definitions = index_definitions.of_expressions(
                metadata.data_storage, self.config, names
            )
        except (errors.FormatError, errors.UnsupportedError) as error:
            return found, str(error)
        for definition in definitions:
            own = [each for each in conditions if each.call == str(definition)]
            if own and left:
                ask = partial(_by_expression, definition, own, tasks.full_schema(self.columns))
                left, unused = self._asked(Means.EXPRESSION_INDEX, definition.partition, left, ask)
        return left, unused

    def _by_keys(
        self,
        means: Means,
        partition: str,
        found: list[files.FileSlice],
        keys: pa.Array | None,
        may_hold: _MayHold,
        is_kept_up: Callable[[files.FileSlice], bool] = lambda each: True,
    ) -> list[files.FileSlice]:
        """Return the slices that may hold a key of the filter, if that names keys.

        It is no step of a table that does not have the index, as few have. Slices for which every
        writer may not have kept it up are all left.
        """
        if partition not in self.config.metadata_partitions:
            return found
        left, unused = found, None
        # Of a single slice an index costs as much as it does.
        if keys is not None and len(found) > 1:
            asked = [each for each in found if is_kept_up(each)]
            some, unused = asked, _NOT_KEPT_UP
            if asked:
                some, unused = self._asked(
                    means, partition, asked, lambda metadata, few: may_hold(metadata, few, keys)
                )
            holding = {each.group for each in some}
            left = [each for each in found if each.group in holding or not is_kept_up(each)]
        self._add(means, found, left, unused)
        return left

    def _by_index(self, slices: Sequence[files.FileSlice]) -> list[files.FileSlice]:
        index = tables.index_of(self.config, self.snapshot.bucket_counts)
        buckets = index.matching_buckets(self._about_files, self.columns)
        left: list[files.FileSlice] = []
        foreign: list[files.FileGroupId] = []
        for file_slice in slices:
            number = index.bucket_of(file_slice.group.file_id)
            if number is None:
                foreign.append(file_slice.group)
            elif buckets is not None and number not in buckets:
                continue
            left.append(file_slice)
        if foreign and self.config.index_kind is table_config.IndexKind.BUCKET:
            foreign_groups.warn(self.table_uri, foreign)
        return left

    def _by_statistics(
        self,
        means: Means,
        partition: str,
        found: list[Skipped],
        matching: _Matching[Skipped],
    ) -> list[Skipped]:
        """Return what a filter does not exclude by statistics; all without any."""
        where = self._about_files
        left, unused = found, None
        # Of one alone the statistics cost as much as it does.
        if where is not None and len(found) > 1:
            full = tasks.full_schema(self.columns)
            left, unused = self._asked(
                means,
                partition,
                found,
                lambda metadata, some: matching(metadata, some, where, full),
            )
        self._add(means, found, left, unused)
        return left

    def _asked(
        self,
        means: Means,
        partition: str,
        found: list[Skipped],
        ask: Callable[[metadata_table.MetadataTable, list[Skipped]], list[bool]],
    ) -> tuple[list[Skipped], str | None]:
        """Return what a partition of the metadata table does not exclude, or why it is not used."""
        metadata = self.snapshot.metadata
        if partition not in self.config.metadata_partitions:
            return found, "the table does not have them"
        if metadata is None:
            return found, _NO_METADATA_TABLE
        is_of_files = partition in _OF_FILES or expression_indexes.is_one(partition)
        if self.snapshot.moment is not None and not is_of_files:
            return found, _NOT_THEN
        try:
            return list(compress(found, ask(metadata, found))), None
        except (errors.FormatError, errors.NotFoundError, errors.UnsupportedError) as error:
            logger.warning("%s: %s are not used: %s", self.table_uri, means.value, error)
            return found, str(error)

    def _add(
        self,
        means: Means,
        found: Sequence[object],
        left: Sequence[object],
        unused: str | None = None,
    ) -> None:
        step = Step(means=means, considered=len(found), left=len(left), unused=unused)
        self.steps.append(step)


def _by_expression(
    definition: expression_indexes.Definition,
    conditions: Sequence[predicates.Applied],
    schema: pa.Schema,
    table: metadata_table.MetadataTable,
    slices: Sequence[files.FileSlice],
) -> list[bool]:
    return data_skipping.matching_by_expression(table, slices, definition, conditions, schema)


def _base_alone(file_slice: files.FileSlice) -> files.FileSlice:
    return replace(file_slice, log_files=()) if file_slice.log_files else file_slice


def _check(columns: pa.Schema, query: tasks.Query) -> None:
    known = {*schemas.META_COLUMNS, *columns.names}
    for name in query.columns:
        if name not in known:
            raise errors.NotFoundError(column_names.absence(name, columns.names))
    if query.where is not None:
        predicates.to_expression(query.where, tasks.full_schema(columns))
