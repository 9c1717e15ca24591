"""Taking over a table that does not say how its records are spread over buckets.

Apache Hudi keeps the number of buckets, and what is hashed, in the options of its writers. Who is
to write beside it has to know both: with another number a key would be in two places. So what is
declared is held to every record that is there, and then put where all who write here see it. A
bucket index never changes its number, so that what is written meanwhile proves nothing else.
"""

import dataclasses

from hoodie import environment, errors
from hoodie.engine import protocol
from hoodie.model import table_config
from hoodie.services import checking
from hoodie.timeline import partition_buckets
from hoodie.transaction import client, configuration, manager


def lacks_buckets(stored: table_config.TableConfig, declared: table_config.TableConfig) -> bool:
    """Return whether a table does not say what is declared of its buckets."""
    return stored.bucket_count is None and declared.bucket_count is not None


def with_buckets(
    stored: table_config.TableConfig, declared: table_config.TableConfig
) -> table_config.TableConfig:
    """Return a table's configuration with the buckets that are declared."""
    return dataclasses.replace(
        stored, bucket_count=declared.bucket_count, hash_fields=declared.bucket_fields
    )


def check(
    target: manager.Target,
    env: environment.Environment,
    progress: protocol.Progress | None = None,
) -> None:
    """Hold the buckets that a table is to have to every record of it; reads all their keys.

    Args:
        target: The table, as `with_buckets` has it.
        env: The engine that reads file groups.
        progress: Told of file groups that were read.

    Raises:
        ConfigurationError: Some are in other buckets; the first finding is named.
        UnsupportedError: The table has bucket counts by partition.
    """
    partition_buckets.check_none(target.storage)
    found = checking.errors_of(checking.check_buckets(target, env, progress))
    if found:
        more = f", and {len(found) - 1} more findings" if len(found) > 1 else ""
        raise errors.ConfigurationError(
            f"{target.storage.uri} is not distributed over {target.config.bucket_count} buckets by "
            f"{', '.join(target.config.bucket_fields)}: {found[0].subject} {found[0].message}{more}"
        )


def record(target: manager.Target, transaction: client.Client) -> None:
    """Put the buckets into the table's properties, for all who write it. Idempotent.

    Args:
        target: The table, after `check`.
        transaction: Whose change it is.

    Raises:
        ConflictError: Somebody changes the properties without our lock, or has put other buckets.
    """
    wanted = (target.config.bucket_count, target.config.bucket_fields)

    def decide(stored: table_config.TableConfig) -> configuration.Changes:
        if stored.bucket_count is None:
            return {
                table_config.BUCKET_COUNT_KEY: str(target.config.bucket_count),
                table_config.HASH_FIELDS_KEY: ",".join(target.config.bucket_fields),
            }
        if (stored.bucket_count, stored.bucket_fields) != wanted:
            raise errors.ConflictError(
                f"{target.storage.uri}: its buckets were changed concurrently"
            )
        return {}

    configuration.change(transaction, decide)
