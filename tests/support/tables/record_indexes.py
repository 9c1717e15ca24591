"""Record indexes of tables without rows: file groups without records."""

from hoodie.filegroup import metadata_writing
from hoodie.format import file_names, metadata_schemas, properties, timeline_avro
from hoodie.model import commits, files, instants, key_changes, table_config
from hoodie.timeline import metadata_timelines, table_properties, transitions
from hoodie.transaction import configuration, metadata_commits, table_lock
from hoodie.transaction.client import Client

TIME = metadata_timelines.FIRST_TIMES[-1]


def file_id(number: int) -> str:
    return f"record-index-{number:04d}-0"


def add(client: Client, count: int = 3) -> None:
    """Add an index to the metadata table of a table that has no rows."""
    storage = metadata_timelines.opened(client.storage)
    groups = [
        files.FileGroupId(key_changes.RECORD_INDEX, file_id(number)) for number in range(count)
    ]

    def decide(scope: table_lock.LockScope) -> None:
        path = files.join(key_changes.RECORD_INDEX, file_names.PARTITION_METADATA)
        storage.create(path, properties.partition_metadata(TIME, 1))
        requested = transitions.request(
            storage, TIME, instants.Action.DELTA_COMMIT, b"", lambda: True
        )
        inflight = transitions.start(storage, requested, b"", lambda: True)
        done = commits.CommitMetadata(
            operation=commits.Operation.BULK_INSERT.value,
            stats=tuple(metadata_writing.write_empty_log(storage, each, TIME) for each in groups),
            extra={
                commits.SCHEMA_KEY: metadata_schemas.COMMITTED.text.decode(),
                commits.WRITE_ID_KEY: client.random.uuid(),
            },
        )
        beside = metadata_commits.complete(
            storage,
            scope,
            inflight,
            client.time_before_another(scope),
            timeline_avro.encode_commit(done),
            scope.check,
        )
        config = table_properties.load(client.storage, client.clock)
        partitions = ",".join(sorted((*config.metadata_partitions, key_changes.RECORD_INDEX)))
        properties_changed = {table_config.METADATA_PARTITIONS_KEY: partitions}
        configuration.put(client, scope, properties_changed, beside)

    client.lock.decide(decide)
