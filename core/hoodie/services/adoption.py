"""Taking over a table that does not say how its records are found.

Apache Hudi keeps the index, and of a bucket index the number of buckets and what is hashed, in the
options of its writers. Who writes beside it has to know them: with another index, or number, a key
would be in two places. So what is declared is compared with the table, and then put where all who
write here see it:

    bucket           every record is compared. A bucket index never changes its number, so that
                     what is written meanwhile proves nothing else
    simple, bloom    they find a record wherever it is, and writers of Apache Hudi with one of them
                     go well with the other. But in file groups that are all of buckets, writers
                     with a bucket index would not find what is put elsewhere
"""

import dataclasses

from hoodie import environment, errors
from hoodie.engine import protocol
from hoodie.filegroup import snapshots
from hoodie.index import tables
from hoodie.model import table_config
from hoodie.model.table_config import IndexKind
from hoodie.services import checking
from hoodie.timeline import partition_buckets
from hoodie.transaction import client, configuration, manager, preconditions
from hoodie.write import compatibility

_CONSISTENT_HASHING = ".hoodie/.bucket_index"


def lacks_index(stored: table_config.TableConfig, declared: table_config.TableConfig) -> bool:
    """Return whether a table does not say what is declared of its index."""
    return stored.index_kind is None and declared.index_kind is not None


def with_index(
    stored: table_config.TableConfig, declared: table_config.TableConfig
) -> table_config.TableConfig:
    """Return a table's configuration with the index that is declared."""
    if declared.index_kind is not IndexKind.BUCKET:
        return dataclasses.replace(stored, index=declared.index)
    return dataclasses.replace(
        stored, bucket_count=declared.bucket_count, hash_fields=declared.bucket_fields
    )


def properties(config: table_config.TableConfig) -> dict[str, str]:
    """Return the properties by which a table says what its index is."""
    if config.index_kind is not IndexKind.BUCKET:
        assert config.index is not None
        return {table_config.INDEX_KEY: config.index.value}
    return {
        table_config.BUCKET_COUNT_KEY: str(config.bucket_count),
        table_config.HASH_FIELDS_KEY: ",".join(config.bucket_fields),
    }


def check(
    target: manager.Target,
    env: environment.Environment,
    progress: protocol.Progress | None = None,
) -> None:
    """Compare the index that a table is to have with the table.

    Of buckets the keys of all records are read, else the names of all files.

    Args:
        target: The table, as `with_index` has it.
        env: The engine that reads file groups.
        progress: Told of file groups that were read.

    Raises:
        ConfigurationError: Some records are in other buckets, the first finding is named; or the
            file groups are all of buckets.
        UnsupportedError: The table has bucket counts by partition, or is not written for another
            reason.
    """
    partition_buckets.check_none(target.storage)
    compatibility.check_table(target.config)
    refusal = preconditions.table_refusal(target.config, target.config)
    if refusal is not None:
        raise refusal
    if target.config.looks_keys_up:
        _check_no_buckets(target)
        return
    found = checking.errors_of(checking.check_buckets(target, env, progress))
    if found:
        more = f", and {len(found) - 1} more findings" if len(found) > 1 else ""
        raise errors.ConfigurationError(
            f"{target.storage.uri} is not distributed over {target.config.bucket_count} buckets by "
            f"{', '.join(target.config.bucket_fields)}: {found[0].subject} {found[0].message}{more}"
        )


def _check_no_buckets(target: manager.Target) -> None:
    """Refuse a table whose writers have a bucket index, as far as that is seen."""
    assert target.config.index is not None
    kind = target.config.index.value.lower()
    for info in target.storage.list(_CONSISTENT_HASHING, is_recursive=True):
        raise errors.ConfigurationError(
            f"{target.storage.uri} has {info.path}, of a bucket index with consistent hashing, "
            f"expected a table without buckets for the index {kind}"
        )
    snapshot = snapshots.take(target.storage, target.config)
    names = [
        group[0].group.file_id
        for path in snapshot.view.partitions()
        for group in snapshot.view.slices(path)
    ]
    contradiction = tables.index_of(target.config).contradiction(names)
    if contradiction is not None:
        raise errors.ConfigurationError(
            f"{target.storage.uri} does not have the index {kind}: {contradiction}"
        )


def record(target: manager.Target, transaction: client.Client) -> None:
    """Put the index into the table's properties, for all who write it. Idempotent.

    Args:
        target: The table, after `check`.
        transaction: Whose change it is.

    Raises:
        ConflictError: Somebody changes the properties without our lock, or has put another index.
    """
    wanted = properties(target.config)

    def decide(stored: table_config.TableConfig) -> configuration.Changes:
        if stored.index_kind is None:
            return wanted
        if properties(stored) != wanted:
            raise errors.ConflictError(f"{target.storage.uri}: its index was changed concurrently")
        return {}

    configuration.change(transaction, decide)
