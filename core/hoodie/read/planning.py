"""Which file slices a read needs: a snapshot, less what the filter excludes by name.

Of a slice whose logs hold nothing but kept deletes the base file alone is read: they change none of
its rows, and without them it has no changes to merge.
"""

from collections.abc import Sequence
from dataclasses import replace

from hoodie import errors
from hoodie.filegroup import reading, snapshots
from hoodie.index import foreign_groups, tables
from hoodie.model import files, predicates, schemas, table_config
from hoodie.read import pruning, tasks


def plan(
    table_uri: str,
    config: table_config.TableConfig,
    schema: schemas.TableSchema,
    snapshot: snapshots.Snapshot,
    query: tasks.Query,
) -> list[tasks.ReadTask]:
    """Return one task for each file slice that may hold rows of the query.

    Raises:
        NotFoundError: The query names a column that the table has not.
        InvalidInputError: The filter compares a column with a value of another type.
        UnsupportedError: The rows of a slice are in a file outside the table.
    """
    _check(schema, query)
    view = snapshot.view
    arrow = schema.arrow

    paths = pruning.matching_partitions(view.partitions(), query.where, config, arrow)
    index = tables.index_of(config, snapshot.bucket_counts)
    buckets = index.matching_buckets(query.where, arrow)
    planned = []
    foreign: list[files.FileGroupId] = []
    for path in paths:
        for file_slice in view.latest_slices(path):
            number = index.bucket_of(file_slice.group.file_id)
            if number is None:
                foreign.append(file_slice.group)
            elif buckets is not None and number not in buckets:
                continue
            if file_slice.base_file is not None:
                reading.check_is_whole(file_slice.base_file)
            planned.append(
                tasks.ReadTask(
                    table_uri=table_uri,
                    config=config,
                    schema=schema,
                    committed=snapshots.committed_instants(snapshot.timeline),
                    file_slice=file_slice if file_slice.is_changed else _base_alone(file_slice),
                    query=query,
                )
            )
    if foreign and config.bucket_count is not None:
        foreign_groups.warn(table_uri, foreign)
    return planned


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
