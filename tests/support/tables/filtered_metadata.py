"""The partition `bloom_filters` of metadata tables that we make, which Apache Hudi alone makes."""

from collections.abc import Iterator
from contextlib import closing

from hoodie import environment, table
from hoodie.filegroup import (
    key_footers,
    metadata_merging,
    metadata_records,
    metadata_table,
    metadata_writing,
    snapshots,
)
from hoodie.format import file_names, metadata_avro, properties
from hoodie.format.bloom_filters import StoredFilter
from hoodie.model import file_statistics, files, table_config
from hoodie.storage.protocol import Storage
from hoodie.timeline import active, chain, metadata_timelines, table_properties
from hoodie.transaction import configuration, manager, table_lock
from hoodie.transaction.client import Client

PARTITION = file_statistics.BLOOM_FILTERS
_GROUPS = 2


def with_bloom_filters(
    opened: table.Table, transaction: manager.TransactionOptions, env: environment.Environment
) -> table.Table:
    """Return a table with a metadata table that has it."""
    made = opened.initialise_metadata(transaction, has_statistics=False)
    storage = env.open_storage(made.uri)
    target = manager.Target(storage=storage, config=made.config, schema=made.schema)
    with closing(manager.open_client(target, transaction, env)) as client:
        add_bloom_filters(client)
    return table.open_table(made.uri, env)


def add_bloom_filters(client: Client) -> None:
    """Add it, with the filter of each committed base file that has one, as Apache Hudi does."""
    client.lock.decide(lambda scope: _add(client, scope))


def _add(client: Client, scope: table_lock.LockScope) -> None:
    config = table_properties.load(client.storage, client.clock)
    storage = metadata_timelines.opened(client.storage)
    storage.create(
        files.join(PARTITION, file_names.PARTITION_METADATA),
        properties.partition_metadata(metadata_timelines.FIRST_TIMES[0], 1),
    )
    snapshot = snapshots.take(client.storage, config, scope.timeline, has_committed_only=True)
    records = {}
    for each in base_files(snapshot):
        stored = key_footers.read_filter(client.storage, each.path)
        if stored is not None:
            key = metadata_avro.bloom_filter_key(each.group.partition_path, each.name)
            records[key] = metadata_avro.encode_bloom_filter(stored, each.instant_time)
    parts = metadata_records.Added(table=metadata_merging.table(records)).split(_GROUPS)
    for number in range(_GROUPS):
        file_id = metadata_table.file_id(PARTITION, number)
        group = files.FileGroupId(partition_path=PARTITION, file_id=file_id)
        metadata_writing.write_empty_log(storage, group, metadata_timelines.FIRST_TIMES[0])
        if number in parts:
            token = file_names.write_token(1, 0, 0)
            metadata_writing.write_log(
                storage, group, metadata_timelines.FIRST_TIMES[0], token, parts[number], 1
            )
    partitions = ",".join((PARTITION, *config.metadata_partitions))
    configuration.put(client, scope, {table_config.METADATA_PARTITIONS_KEY: partitions})


def base_files(snapshot: snapshots.Snapshot) -> Iterator[files.BaseFile]:
    """Yield the committed base files of a table."""
    for path in snapshot.listing.partitions():
        for each in snapshot.listing.files(path):
            is_base = isinstance(each, files.BaseFile)
            if is_base and snapshot.committed.is_committed(each.instant_time):
                yield each


def recorded(storage: Storage, config: table_config.TableConfig) -> dict[str, StoredFilter | None]:
    """Return what a metadata table has, by key; None for a file that is gone."""
    timeline = active.listed(storage) if config.chain is None else chain.load(storage, config)
    beside = metadata_table.MetadataTable(storage, timeline)
    values = beside.partition(PARTITION).with_prefixes([""])
    return {
        key.decode(): metadata_avro.decode_bloom_filter(each[-1], repr(key))
        for key, each in values.items()
    }


def assert_filters_are_those_of_footers(
    storage: Storage, config: table_config.TableConfig, snapshot: snapshots.Snapshot
) -> int:
    """Check that it has the filter of each base file, and of no other; return how many."""
    expected = {}
    for each in base_files(snapshot):
        stored = key_footers.read_filter(storage, each.path)
        assert stored is not None, f"{each.path} has no bloom filter"
        key = metadata_avro.bloom_filter_key(each.group.partition_path, each.name)
        expected[key] = stored
    found = recorded(storage, config)
    there = {key: stored for key, stored in found.items() if stored is not None}
    assert sorted(there) == sorted(expected)
    assert there == expected
    return len(there)
