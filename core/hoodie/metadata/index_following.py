"""A commit without rows after an indexing action, so that this is not a table's last action.

A writer of Apache Hudi that makes an index itself takes the requested time of the last action that
has completed, in the order of requested times. It makes no time of its own from that if it is an
indexing action, of either engine, and rolls back what the metadata table has of that time before
each index: of two that it makes the first is lost, and so is one that its own indexer has built. So
where other engines may write a table, a build completes only once a later action has completed.
Where there is none it makes one, as Apache Hudi's writers make of no rows
(`hoodie.allow.empty.commit`).

Invariant: beside a completed indexing action of this project, in a table that other engines may
write, there is a completed write that was requested later, whenever its builder dies. A write, as
cleans and rollbacks are archived apart.

Source: `HoodieBackedTableMetadataWriter.java` (initializeIfNeeded, generateUniqueInstantTime), ADR
0050; protocol.md: Indexes built beside writers (IF12).
"""

import logging
from collections.abc import Mapping
from dataclasses import replace

from hoodie.maintenance.rollback import failed_writes
from hoodie.model import commits, instants, schemas, settings, table_config
from hoodie.timeline import active, schema_history
from hoodie.transaction import lifecycle, stored_schemas, table_lock
from hoodie.transaction.client import Client, OpenAction

logger = logging.getLogger(__name__)


def follow_last(
    client: Client, expected: table_config.TableConfig, otherwise: schemas.TableSchema
) -> None:
    """Make a commit without rows if an indexing action, of either engine, is the last one.

    A listing. Args and Raises as `follow`.
    """
    last = active.listed(client.storage).last_indexing
    if last is not None:
        logger.info("%s: nothing has completed that is later than %s", client.storage.uri, last)
        follow(client, expected, otherwise)


def follow(
    client: Client, expected: table_config.TableConfig, otherwise: schemas.TableSchema
) -> None:
    """Make a commit without rows.

    Its schema is that of the newest write, so that readers which take it from the last commit find
    it there.

    Args:
        client: Whose it is; it has no write open.
        expected: The table's configuration.
        otherwise: The table's columns, if no commit has them.

    Raises:
        HoodieError: As `lifecycle.begin` and `lifecycle.commit`; there is no such commit then.
    """

    def columns(timeline: active.ActiveTimeline) -> Mapping[str, str]:
        stored = stored_schemas.as_of(client.storage, expected, timeline)
        if stored is None:
            return {commits.SCHEMA_KEY: otherwise.avro}
        history = {} if stored.history is None else {schema_history.LATEST_KEY: stored.history}
        return {commits.SCHEMA_KEY: stored.columns.avro, **history}

    def with_columns(
        scope: table_lock.LockScope, _: OpenAction, metadata: commits.CommitMetadata
    ) -> commits.CommitMetadata:
        return replace(metadata, extra=columns(scope.timeline))

    is_rewritten = expected.is_copy_on_write
    action = instants.Action.COMMIT if is_rewritten else instants.Action.DELTA_COMMIT
    operation = commits.Operation.UPSERT
    opened = lifecycle.begin(client, action, expected)
    assert isinstance(opened, OpenAction), "it has the identity of no batch"
    try:
        lifecycle.start(client, opened, operation)
        extra = active.with_contents(client.storage, columns)
        completion = lifecycle.commit(
            client,
            opened,
            commits.CommitMetadata(operation=operation.value, stats=(), extra=extra),
            adjustment=lifecycle.Adjustment(metadata=with_columns),
            may_have_failed_tasks=False,
        )
    except BaseException:
        is_emptied = lifecycle.abort(client, opened)
        policy = client.settings.effective_failed_writes_policy
        if is_emptied and policy is not settings.FailedWritesPolicy.NEVER:
            failed_writes.roll_back_aborted(client, expected, opened)
        raise
    logger.info(
        "%s: %s is without rows, so that no indexing action is the last one",
        client.storage.uri,
        completion.instant,
    )
