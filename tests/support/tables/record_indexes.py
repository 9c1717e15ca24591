"""Record indexes of tables without rows: file groups without records."""

from contextlib import closing

from hoodie import environment, table
from hoodie.metadata import partition_making
from hoodie.model import key_changes, table_config
from hoodie.timeline import metadata_timelines, table_properties
from hoodie.transaction import configuration, manager, table_lock
from hoodie.transaction.client import Client

_TIME = metadata_timelines.FIRST_TIMES[-1]


def with_record_index(
    opened: table.Table, transaction: manager.TransactionOptions, env: environment.Environment
) -> table.Table:
    """Return a table without rows whose metadata table has one."""
    storage = env.open_storage(opened.uri)
    target = manager.Target(storage=storage, config=opened.config, schema=opened.schema)
    with closing(manager.open_client(target, transaction, env)) as client:
        add(client)
    return table.open_table(opened.uri, env)


def add(client: Client, count: int = 3) -> None:
    """Add an index of so many file groups to the metadata table of a table that has no rows."""

    def decide(scope: table_lock.LockScope) -> None:
        config = table_properties.load(client.storage, client.clock)
        beside = partition_making.make(
            client,
            scope,
            metadata_timelines.opened(client.storage),
            _TIME,
            key_changes.RECORD_INDEX,
            partition_making.Content([None] * count),
        )
        partitions = ",".join(sorted((*config.metadata_partitions, key_changes.RECORD_INDEX)))
        changes = {table_config.METADATA_PARTITIONS_KEY: partitions}
        configuration.put(client, scope, changes, beside)

    client.lock.decide(decide)
