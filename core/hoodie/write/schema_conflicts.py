"""Which columns a write publishes, others changing them meanwhile.

A table is opened with the columns that it has then. Another writer may have added or widened some
before a write of ours begins, or while it is at work; published with the older ones, ours would
take them back: the newest commit tells a table's columns. So the newer ones are kept, and what the
write itself adds (`model.schema_evolution`) is added to them; readers bring its rows into these
columns as they do with all older files.

That is `SimpleSchemaConflictResolutionStrategy.java` where a writer changes no columns. Where two
do, Apache Hudi's second one is refused; ours is only if the two cannot both be had, which is one
column in two types of which neither is wider. Source: RFC-82;
protocol.md: Conflicts of optimistic writers.
"""

from dataclasses import replace

import pyarrow as pa

from hoodie import errors
from hoodie.model import commits, schema_evolution, schemas
from hoodie.storage import protocol
from hoodie.timeline import schema_history
from hoodie.transaction import lifecycle, stored_schemas, table_lock
from hoodie.transaction.client import OpenAction
from hoodie.write import conflicts


def with_added(now: stored_schemas.StoredSchema, added: pa.Schema) -> schemas.TableSchema:
    """Return a table's columns and those that a write adds.

    Raises:
        InvalidInputError: They do not go together.
        UnsupportedError: The table keeps a history of its columns, which is not written.
    """
    columns = schema_evolution.merged(now.columns, added)
    if now.history is not None and columns != now.columns:
        raise errors.UnsupportedError(
            "columns are not added to a table with a history of them (hoodie.schema.on.read.enable)"
        )
    return columns


def published(mine: schemas.TableSchema, now: schemas.TableSchema | None) -> schemas.TableSchema:
    """Return the columns to publish.

    Args:
        mine: That the rows were written with.
        now: The table's as of the publication, with what the write adds; None where no write tells.
    """
    return mine if now is None or now.arrow.equals(mine.arrow) else now


def amendment(
    storage: protocol.Storage,
    columns_begun: stored_schemas.StoredSchema | None,
    mine: schemas.TableSchema,
    added: pa.Schema,
) -> lifecycle.Amendment:
    """Return the choice of columns that is made when a write completes.

    In the lock scope it makes no request but where others have completed meanwhile.

    Args:
        storage: The table's.
        columns_begun: The table's columns when the write began.
        mine: That the rows were written with.
        added: What the write adds or widens, as of when the table was opened.
    """

    def keep_newer_columns(
        scope: table_lock.LockScope, write: OpenAction, metadata: commits.CommitMetadata
    ) -> commits.CommitMetadata:
        now = columns_begun
        known, own = write.timeline.write_completion_times, write.requested_time
        table_type = write.config.table_type
        if now is None or conflicts.candidates(known, scope.timeline, own, table_type):
            now = stored_schemas.as_of(storage, write.config, scope.timeline)
        try:
            columns = published(mine, None if now is None else with_added(now, added))
        except errors.InvalidInputError as error:
            raise errors.ConflictError(
                f"another writer changed columns during {write.inflight}: {error}"
            ) from error
        extra = {**metadata.extra, commits.SCHEMA_KEY: columns.avro}
        if now is not None and now.history is not None:
            # From a newest commit without it, ALTER TABLE would begin with other ids.
            extra[schema_history.LATEST_KEY] = now.history
        return replace(metadata, extra=extra)

    return keep_newer_columns
