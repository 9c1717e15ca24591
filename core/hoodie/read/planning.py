"""Which file slices a read needs: a snapshot, less what the filter excludes.

A filter excludes partitions by the values in their paths, file slices by the bucket of a key, and
file slices by the statistics and the bloom filters of the metadata table.

Of a slice whose logs hold nothing but kept deletes the base file alone is read: they change none of
its rows, and without them it has no changes to merge.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hoodie import errors
from hoodie.filegroup import column_statistics, reading, snapshots
from hoodie.index import foreign_groups, tables
from hoodie.model import file_statistics, files, predicates, schemas, table_config
from hoodie.read import key_lookups, pruning, tasks

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a read does.

    Attributes:
        tasks: One for each file slice that may hold rows of the query.
        has_metadata_table: Whether the files were taken from the metadata table.
        partitions: How many partitions the table has.
        partitions_read: Those that the filter does not exclude by their values.
        slices: File slices of those partitions.
        slices_left_by_index: Those whose bucket may hold a key of the filter; all without an index.
        slices_left_by_statistics: Those of them whose column statistics do not exclude the filter.
        slices_left_by_bloom_filters: Those of them whose bloom filters do not exclude its keys.
    """

    tasks: tuple[tasks.ReadTask, ...]
    has_metadata_table: bool
    partitions: int
    partitions_read: int
    slices: int
    slices_left_by_index: int
    slices_left_by_statistics: int
    slices_left_by_bloom_filters: int


def plan(
    table_uri: str,
    config: table_config.TableConfig,
    schema: schemas.TableSchema,
    snapshot: snapshots.Snapshot,
    query: tasks.Query,
) -> Plan:
    """Return one task for each file slice that may hold rows of the query.

    Raises:
        NotFoundError: The query names a column that the table has not.
        InvalidInputError: The filter compares a column with a value of another type.
        UnsupportedError: The rows of a slice are in a file outside the table.
    """
    _check(schema, query)
    view = snapshot.view
    arrow = schema.arrow

    partitions = view.partitions()
    paths = pruning.matching_partitions(partitions, query.where, config, arrow)
    index = tables.index_of(config, snapshot.bucket_counts)
    buckets = index.matching_buckets(query.where, arrow)
    count = 0
    left: list[files.FileSlice] = []
    foreign: list[files.FileGroupId] = []
    for path in paths:
        for file_slice in view.latest_slices(path):
            count += 1
            number = index.bucket_of(file_slice.group.file_id)
            if number is None:
                foreign.append(file_slice.group)
            elif buckets is not None and number not in buckets:
                continue
            left.append(file_slice)
    if foreign and config.bucket_count is not None:
        foreign_groups.warn(table_uri, foreign)
    by_statistics = _by_statistics(table_uri, config, schema, snapshot, query, left)
    keys = key_lookups.keys_of(query.where, config, arrow)
    wanted = key_lookups.that_may_hold(by_statistics, keys, snapshot, config, table_uri)
    committed = snapshots.committed_instants(snapshot.timeline)
    planned = []
    for file_slice in wanted:
        if file_slice.base_file is not None:
            reading.check_is_whole(file_slice.base_file)
        planned.append(
            tasks.ReadTask(
                table_uri=table_uri,
                config=config,
                schema=schema,
                committed=committed,
                file_slice=file_slice if file_slice.is_changed else _base_alone(file_slice),
                query=query,
            )
        )
    return Plan(
        tasks=tuple(planned),
        has_metadata_table=snapshot.metadata is not None,
        partitions=len(partitions),
        partitions_read=len(paths),
        slices=count,
        slices_left_by_index=len(left),
        slices_left_by_statistics=len(by_statistics),
        slices_left_by_bloom_filters=len(wanted),
    )


def _by_statistics(
    table_uri: str,
    config: table_config.TableConfig,
    schema: schemas.TableSchema,
    snapshot: snapshots.Snapshot,
    query: tasks.Query,
    slices: list[files.FileSlice],
) -> list[files.FileSlice]:
    """Return the slices that a filter does not exclude by statistics; all without any."""
    has_statistics = file_statistics.COLUMN_STATS in config.metadata_partitions
    metadata = snapshot.metadata if has_statistics else None
    # Of a single slice the statistics cost as much as it does.
    if metadata is None or query.where is None or len(slices) <= 1:
        return slices
    try:
        is_wanted = column_statistics.may_match(
            metadata, slices, query.where, tasks.full_schema(schema)
        )
    except (errors.FormatError, errors.NotFoundError, errors.UnsupportedError) as error:
        logger.warning("%s: column statistics are not used: %s", table_uri, error)
        return slices
    return [each for each, is_read in zip(slices, is_wanted, strict=True) if is_read]


def _base_alone(file_slice: files.FileSlice) -> files.FileSlice:
    return replace(file_slice, log_files=())


def _check(schema: schemas.TableSchema, query: tasks.Query) -> None:
    known = {*schemas.META_COLUMNS, *schema.arrow.names}
    for name in query.columns:
        if name not in known:
            raise errors.NotFoundError(
                f"there is no column {name!r}; the columns are {_names(schema.arrow.names)}"
            )
    if query.where is not None:
        predicates.to_expression(query.where, tasks.full_schema(schema))


def _names(names: Sequence[str]) -> str:
    return ", ".join(names)
