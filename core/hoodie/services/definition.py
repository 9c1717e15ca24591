"""What a table is made of: its columns, and whether its configuration fits them."""

from __future__ import annotations

import contextlib
from dataclasses import replace

from hoodie import deferred, environment, errors
from hoodie.filegroup import listing
from hoodie.format import timeline_avro
from hoodie.index import tables
from hoodie.model import commits, moments, partition_columns, schemas, table_config
from hoodie.storage import locations, protocol
from hoodie.storage import paths as storage_paths
from hoodie.timeline import active, archived, contents, schema_history, table_properties
from hoodie.transaction import stored_schemas
from hoodie.write import keys

with deferred.imports():
    from hoodie.timeline import partition_buckets


def check(
    config: table_config.TableConfig,
    schema: schemas.TableSchema,
    hashing_config: partition_buckets.HashingConfig | None = None,
) -> None:
    """Refuse a new table that could not be written, or not be read by Apache Hudi afterwards.

    Args:
        config: Its configuration.
        schema: Its columns.
        hashing_config: Bucket counts by partition; None for one count of all.

    Raises:
        InvalidInputError: A field is no column, or of a type that has no one text; or the settings
            contradict each other.
        ConfigurationError: The bucket is computed from a field that is not in the record key.
        UnsupportedError: Partition columns are left out of data files that are needed there.
    """
    if not config.record_key_fields and (not config.looks_keys_up or config.has_global_index):
        raise errors.InvalidInputError(
            "a table whose record key has no column, so that keys are generated, needs the index "
            "simple or bloom: expected one of these, or a record key of at least one column"
        )
    _check_merging(config)
    partition_columns.whole(schema, config)
    of_paths = partition_columns.write_refusal(config)
    if of_paths is not None:
        raise errors.UnsupportedError(f"writing table {config.name!r} needs {of_paths}")
    tables.index_of(config).check()
    if hashing_config is not None:
        _check_counts(config, hashing_config)
    for role, names in (
        ("record key", config.record_key_fields),
        ("partition", config.partition_fields),
        ("ordering", config.ordering_fields),
    ):
        for name in names:
            if name not in schema.arrow.names:
                raise errors.InvalidInputError(
                    f"{role} field {name!r} is not a column; the columns are "
                    f"{', '.join(schema.arrow.names)}"
                )
    # Keys of no rows: what is refused is refused for its type.
    empty = schema.arrow.empty_table()
    if config.record_key_fields:
        keys.record_keys(empty, config)
    keys.partition_paths(empty, config)


def check_place(storage: protocol.Storage, env: environment.Environment) -> None:
    """Refuse a place in another table, or one with another table in it.

    The files of the inner table would be the outer one's, too: its partitions for Apache Hudi's
    readers, and leftovers of failed writes for rollbacks. One listing of the place, and
    two requests for each folder above it; those that may not be looked at are passed by.

    Raises:
        AlreadyExistsError: There is another table, which the message names.
    """
    for other in listing.other_tables(info.path for info in storage.list("", is_recursive=True)):
        raise errors.AlreadyExistsError(
            f"another table is in {storage.uri}, at {other}: expected a place without tables"
        )
    location = locations.resolve(storage.uri)
    while location.path:
        location = replace(location, path=storage_paths.parent(location.path))
        with contextlib.suppress(errors.InvalidInputError, errors.StorageError):
            above = env.open_storage(str(location))
            if table_properties.is_table(above):
                raise errors.AlreadyExistsError(
                    f"{storage.uri} is in another table, {above.uri}: expected a place of its own"
                )


def load_schema(storage: protocol.Storage, config: table_config.TableConfig) -> schemas.TableSchema:
    """Return the table's columns: of its newest write, or else as it was created.

    Raises:
        FormatError: Neither tells.
        NotFoundError: The table lacks the file of its newest write.
        UnsupportedError: Columns were renamed since files were written; or as
            `partition_columns.whole`.
    """
    stored = stored_schemas.newest(storage, config)
    if stored is not None:
        if stored.history is not None:
            schema_history.check_names(storage, stored.history)
        return stored.columns
    return _created_schema(config)


def schema_as_of(
    storage: protocol.Storage,
    config: table_config.TableConfig,
    timeline: active.ActiveTimeline,
    moment: moments.Moment,
) -> schemas.TableSchema:
    """Return the columns that a table had as of a moment: of the last write that counts then.

    A request for that write, and where it was archived some of the archive; the schema of the
    table's creation where no write counts.

    Raises:
        FormatError: Nothing tells.
        NotFoundError: A write was archived or taken back since the timeline was read.
        UnsupportedError: As `partition_columns.whole`.
    """
    times = timeline.write_completion_times
    there = (
        each
        for each in timeline.completed_writes
        if moment.has(each.requested_time, times.get(each.requested_time))
    )
    stored = stored_schemas.as_of(storage, config, active.from_files(there))
    if stored is not None:
        return stored.columns
    for found in archived.ArchivedTimeline(storage).newest_first():
        instant = found.instant
        if not instant.action.is_write or not found.metadata:
            continue
        if not moment.has(instant.requested_time, instant.completion_time):
            continue
        head = timeline_avro.decode_commit_head(found.metadata, str(instant))
        columns = contents.stored_columns(head)
        if columns.schema and columns.operation != commits.Operation.COMPACT.value:
            return partition_columns.whole(schemas.from_avro(columns.schema), config)
    return _created_schema(config)


def _created_schema(config: table_config.TableConfig) -> schemas.TableSchema:
    if config.create_schema is None:
        raise errors.FormatError(
            f"table {config.name!r} has no schema: no commit and no hoodie.table.create.schema"
        )
    return partition_columns.whole(schemas.from_avro(config.create_schema), config)


def _check_counts(
    config: table_config.TableConfig, hashing_config: partition_buckets.HashingConfig
) -> None:
    lacking = None
    if config.index_kind is not table_config.IndexKind.BUCKET:
        lacking = "the index bucket"
    elif not config.partition_fields:
        lacking = "partitions"
    elif not config.has_foreign_writers:
        # Its writers do not look for counts, which Apache Hudi changes.
        lacking = "a table that other engines may write"
    if lacking is not None:
        raise errors.InvalidInputError(
            f"bucket counts by partition ({hashing_config.expressions}): expected {lacking}"
        )


def _check_merging(config: table_config.TableConfig) -> None:
    is_event_time = config.merge_mode is table_config.MergeMode.EVENT_TIME
    if is_event_time and not config.ordering_fields:
        raise errors.InvalidInputError("merging by event time needs an ordering field")
    if not is_event_time and config.ordering_fields:
        # Apache Hudi 1.2.0 turns such a table into event time and then refuses the next write.
        raise errors.InvalidInputError(
            f"an ordering field ({', '.join(config.ordering_fields)}) goes with merging by event "
            "time, not by commit time"
        )
    if config.version == table_config.VERSION_WITH_PAYLOADS and len(config.ordering_fields) > 1:
        raise errors.InvalidInputError("a table of version 8 has one ordering field at most")
