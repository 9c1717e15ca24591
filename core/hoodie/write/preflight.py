"""What a write finds in the lock scope in which it begins, and what it must not find there.

What can be decided then is decided before anything of the write is on the timeline: a refused
write leaves nothing behind, neither an instant nor a rollback of it. The commit that the ledger was
read from usually has the columns; bucket counts are a listing, where another engine may give them;
definitions of indexes are read where there are any whose columns may be missing.

Source: protocol.md: A write (W2, W3).
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from hoodie import deferred
from hoodie.filegroup import snapshots
from hoodie.model import file_statistics, schemas, secondary_indexes, settings, table_config
from hoodie.storage import protocol
from hoodie.timeline import active, index_definitions
from hoodie.transaction import manager, stored_schemas, writer_batches
from hoodie.write import compatibility

with deferred.imports():
    from hoodie.timeline import partition_buckets
    from hoodie.write import schema_conflicts


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a write found.

    Attributes:
        begun: The table's columns; None if no write has them.
        stored: The columns of its data files: the table's, and those that the write adds.
        counts: Bucket counts by partition; None for one count of all.
    """

    begun: stored_schemas.StoredSchema | None
    stored: schemas.TableSchema
    counts: partition_buckets.HashingConfig | None


def look(
    target: manager.Target,
    mode: settings.ConcurrencyMode,
    timeline: active.ActiveTimeline,
    config: table_config.TableConfig,
    ledger: writer_batches.Ledger,
) -> Found:
    """Return what a write finds, if it can work.

    Args:
        target: The table as it was opened, and what the write adds.
        mode: Of the write.
        timeline: Of the scope.
        config: The table's configuration as of then.
        ledger: Read in the scope.

    Raises:
        ConfigurationError: The table has bucket counts by partition, and the writer is
            non-blocking.
        ConflictError: It is being given some.
        InvalidInputError: The columns that the write adds do not go with the table's; or an
            expression index is of a column that is not there.
        UnsupportedError: The bucket counts are not understood, the table keeps a history of its
            columns, which the write is to add to, or an index is of what is not kept up.
    """
    storage = target.storage
    counts = _counts(storage, mode, timeline, config)
    begun = stored_schemas.as_of_or_newer(storage, target.config, timeline, ledger.found_in)
    stored = target.schema if begun is None else schema_conflicts.with_added(begun, target.added)
    _check_indexes(storage, config, stored.arrow)
    return Found(begun=begun, stored=stored, counts=counts)


def may_have_own_counts(config: table_config.TableConfig) -> bool:
    """Return whether partitions may have bucket counts of their own, which Apache Hudi gives."""
    return config.has_foreign_writers and config.index_kind is table_config.IndexKind.BUCKET


def _counts(
    storage: protocol.Storage,
    mode: settings.ConcurrencyMode,
    timeline: active.ActiveTimeline,
    config: table_config.TableConfig,
) -> partition_buckets.HashingConfig | None:
    if not may_have_own_counts(config):
        return None
    committed = snapshots.CommittedFiles.of(storage, timeline)
    found = partition_buckets.in_force(storage, committed.is_committed)
    if found is None:
        return None
    found.check()
    refusal = compatibility.counts_refusal(storage.uri, mode)
    if refusal is not None:
        raise refusal
    return found


def _check_indexes(
    storage: protocol.Storage, config: table_config.TableConfig, columns: pa.Schema
) -> None:
    """Refuse columns of which an index is not kept up; a request for each kind that there is."""
    kept_up = config.metadata_partitions_kept_up
    for each in index_definitions.of_secondary_indexes(storage, config, kept_up):
        refusal = secondary_indexes.upkeep_refusal(each, columns, config.name)
        if refusal is not None:
            raise refusal
    if file_statistics.expressions_of(config):
        index_definitions.wanted_statistics(storage, config, columns)
