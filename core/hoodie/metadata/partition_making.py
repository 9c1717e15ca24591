"""Making a partition of a metadata table (MDT): its file groups, by an instant of its own.

Each file group begins with an empty log file, which shows that it is there; a base file, if it has
records; and a log file for those that were found after the base file was made.

Source: `HoodieBackedTableMetadataWriter.java` (initializeFileGroups).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hoodie.filegroup import metadata_merging, metadata_records, metadata_table, metadata_writing
from hoodie.format import file_names, metadata_schemas, properties, timeline_avro
from hoodie.model import commits, files, instants
from hoodie.storage.protocol import Storage
from hoodie.timeline import transitions
from hoodie.transaction import metadata_commits, table_lock
from hoodie.transaction.client import Client

_TOKEN = file_names.write_token(0, 0, 0)
_LOG_TOKEN = file_names.write_token(1, 0, 0)


@dataclass(frozen=True, slots=True)
class Content:
    """What a partition of an MDT begins with.

    Attributes:
        bases: The base file of each file group; None for one without records.
        records: Later ones, by key.
    """

    bases: Sequence[metadata_writing.PreparedBase | None]
    records: Mapping[str, bytes] = field(default_factory=dict)


def make(
    client: Client,
    scope: table_lock.LockScope,
    storage: Storage,
    time: instants.InstantTime,
    name: str,
    content: Content,
) -> Mapping[str, bytes]:
    """Write a partition of an MDT by an instant that is complete in the end.

    Returns:
        What an epoch has to publish to complete it.
    """
    scope.check()
    storage.create(
        files.join(name, file_names.PARTITION_METADATA), properties.partition_metadata(time, 1)
    )
    requested = transitions.request(storage, time, instants.Action.DELTA_COMMIT, b"", lambda: True)
    inflight = transitions.start(storage, requested, b"", lambda: True)
    groups = [
        files.FileGroupId(partition_path=name, file_id=metadata_table.file_id(name, number))
        for number in range(len(content.bases))
    ]
    stats = []
    for group, base in zip(groups, content.bases, strict=True):
        scope.check()
        metadata_writing.write_empty_log(storage, group, time)
        if base is not None:
            stats.append(metadata_writing.write_prepared(storage, group, time, _TOKEN, base))
    added = metadata_records.Added(table=metadata_merging.table(content.records))
    now_ms = client.clock.now_ms()
    for place, records in added.split(len(groups)).items():
        scope.check()
        stats.append(
            metadata_writing.write_log(storage, groups[place], time, _LOG_TOKEN, records, now_ms)
        )
    done = commits.CommitMetadata(
        operation=commits.Operation.BULK_INSERT.value,
        stats=tuple(stats),
        extra={
            commits.SCHEMA_KEY: metadata_schemas.COMMITTED.text.decode(),
            commits.WRITE_ID_KEY: client.random.uuid(),
        },
    )
    completion_time = client.time_before_another(scope)
    return metadata_commits.complete(
        storage,
        scope,
        inflight,
        completion_time,
        timeline_avro.encode_commit(done),
        scope.check,
    )
