"""Which columns a write publishes that others were changing meanwhile.

Our writes take a table's columns as they were when the table was opened, and change none. Another
writer, of Apache Hudi, may have added or widened some since; published with the older ones, ours
would take them back: the newest commit tells a table's columns. So the newer ones are kept, and
readers bring our rows into them as they do with all older files.

That is the one case of `SimpleSchemaConflictResolutionStrategy.java` that there is for a writer
that changes no columns; the conflict of two that both do cannot happen to us. Source: RFC-82;
concurrency 2.6.
"""

from dataclasses import replace

from hoodie import errors
from hoodie.model import commits, schemas
from hoodie.storage import protocol
from hoodie.transaction import lifecycle, stored_schemas, table_lock
from hoodie.transaction.client import OpenWrite
from hoodie.write import conflicts


def published(mine: schemas.TableSchema, now: schemas.TableSchema | None) -> schemas.TableSchema:
    """Return the columns to publish.

    Args:
        mine: That the rows were written with.
        now: The table's, as of the publication; None where no write tells.
    """
    return mine if now is None or now.arrow.equals(mine.arrow) else now


def step(
    storage: protocol.Storage, write: OpenWrite, mine: schemas.TableSchema
) -> lifecycle.PreCompletion:
    """Return the choice of columns as a step of a write's completion.

    A request now, and in the lock scope none but where others have completed meanwhile.
    """
    try:
        begun = stored_schemas.as_of(storage, write.timeline)
    except errors.NotFoundError:
        begun = None  # Its newest write was archived; what is there now is asked below.

    def keep_newer_columns(
        scope: table_lock.LockScope, write: OpenWrite, metadata: commits.CommitMetadata
    ) -> commits.CommitMetadata:
        now = begun
        known, own = write.timeline.write_completion_times, write.requested_time
        table_type = write.config.table_type
        if begun is None or conflicts.candidates(known, scope.timeline, own, table_type):
            now = stored_schemas.as_of(storage, scope.timeline)
        columns = published(mine, None if now is None else now.columns)
        return replace(metadata, extra={**metadata.extra, commits.SCHEMA_KEY: columns.avro})

    return keep_newer_columns
