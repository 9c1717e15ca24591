"""What a table is made of: its columns, and whether its configuration fits them."""

import functools

from hoodie import errors
from hoodie.index import bucket
from hoodie.model import schemas, table_config
from hoodie.storage import protocol
from hoodie.timeline import active, schema_history
from hoodie.transaction import stored_schemas
from hoodie.write import keys


def check(config: table_config.TableConfig, schema: schemas.TableSchema) -> None:
    """Refuse a new table that could not be written, or not be read by Apache Hudi afterwards.

    Raises:
        InvalidInputError: A field is no column, or of a type that has no one text; or the settings
            contradict each other.
        ConfigurationError: The bucket is computed from a field that is not in the record key.
    """
    if not config.record_key_fields:
        raise errors.InvalidInputError("a table needs a record key, at least one column")
    _check_merging(config)
    if config.bucket_count is not None and config.bucket_count > bucket.COUNT_MAX:
        raise errors.InvalidInputError(
            f"{config.bucket_count} buckets are too many, expected {bucket.COUNT_MAX} at most: "
            "each is a file group in each partition"
        )
    for role, names in (
        ("record key", config.record_key_fields),
        ("partition", config.partition_fields),
        ("ordering", config.ordering_fields),
    ):
        for name in names:
            if name not in schema.arrow.names:
                raise errors.InvalidInputError(
                    f"{role} field {name!r} is no column; the columns are "
                    f"{', '.join(schema.arrow.names)}"
                )
    # Keys of no rows: what is refused is refused for its type.
    empty = schema.arrow.empty_table()
    keys.record_keys(empty, config)
    keys.partition_paths(empty, config)


def load_schema(storage: protocol.Storage, config: table_config.TableConfig) -> schemas.TableSchema:
    """Return the table's columns: of its newest write, or else as it was created.

    Raises:
        FormatError: Neither tells.
        NotFoundError: The table lacks the file of its newest write.
        UnsupportedError: Columns were renamed since files were written.
    """
    stored = active.with_contents(
        storage, functools.partial(stored_schemas.as_of, storage), active.listed
    )
    if stored is not None:
        if stored.has_history:
            schema_history.check_names(storage)
        return stored.columns
    if config.create_schema is None:
        raise errors.FormatError(
            f"table {config.name!r} has no schema: no commit and no hoodie.table.create.schema"
        )
    return schemas.from_avro(config.create_schema)


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
