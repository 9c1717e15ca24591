"""A table's columns as its newest write has them."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass

from hoodie import errors
from hoodie.model import commits, instants, partition_columns, schemas, table_config
from hoodie.storage.protocol import Storage
from hoodie.timeline import active, contents


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSchema:
    """The schema in a write's metadata.

    Attributes:
        columns: The schema, with partition columns that the metadata leaves out.
        history: The newest version of the columns with their ids, as Apache Hudi's text, where the
            table keeps a history of them (`schema_history`).
    """

    columns: schemas.TableSchema
    history: str | None


def columns_of(
    storage: Storage,
    config: table_config.TableConfig,
    timeline: active.ActiveTimeline,
    otherwise: schemas.TableSchema,
) -> schemas.TableSchema:
    """Return the columns of the newest write that has a schema, or others if none has; `as_of`."""
    stored = as_of(storage, config, timeline)
    return otherwise if stored is None else stored.columns


def as_of(
    storage: Storage,
    config: table_config.TableConfig,
    timeline: active.ActiveTimeline,
    known: Mapping[instants.Instant, commits.CommitMetadata] | None = None,
) -> StoredSchema | None:
    """Return the schema of the newest write that has one; None for none.

    A request for the newest write, and one more for each that has none before it.

    Args:
        storage: The table's.
        config: Its configuration.
        timeline: Its writes.
        known: Metadata of writes that were read already; they are not read again.

    Raises:
        FormatError: The metadata or the schema is broken.
        NotFoundError: A write was archived or taken back since the timeline was read.
        UnsupportedError: As `partition_columns.whole`.
    """
    for instant in reversed(timeline.completed_writes):
        metadata = (known or {}).get(instant)
        found = (
            contents.read_stored_columns(storage, instant)
            if metadata is None
            else contents.stored_columns(metadata)
        )
        if found.schema and found.operation != commits.Operation.COMPACT.value:
            columns = partition_columns.whole(schemas.from_avro(found.schema), config)
            return StoredSchema(columns=columns, history=found.history)
    return None


def as_of_or_newer(
    storage: Storage,
    config: table_config.TableConfig,
    timeline: active.ActiveTimeline,
    known: Mapping[instants.Instant, commits.CommitMetadata] | None = None,
) -> StoredSchema | None:
    """Return the schema as of a timeline, or that of now where its writes were archived since.

    For readers without the table lock, who may have read the timeline long ago. Arguments and
    errors are those of `as_of`, but a NotFoundError, which says that the table lacks a file.
    """
    try:
        return as_of(storage, config, timeline, known)
    except errors.NotFoundError:
        return newest(storage, config)


def newest(storage: Storage, config: table_config.TableConfig) -> StoredSchema | None:
    """Return the schema of now, without the table lock; None for none; a listing and `as_of`.

    Raises:
        NotFoundError: The table lacks a file of its timeline.
        HoodieError: As `as_of`.
    """
    return active.with_contents(storage, functools.partial(as_of, storage, config), active.listed)
