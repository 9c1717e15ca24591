"""The effective configuration of a table: rendered once, the same for every run, and hashed.

The protocol hash covers what all writers of a table must agree on: its location, lock, concurrency,
keys, merging, index and who runs its services (`protocols`). A run with another hash than the
current one may not commit. How files are coded is no part of it: that may change from run to run.
The run hash covers that, and what a run runs on: one that is at work with another than the current
one goes on, and the next one has it.
"""

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, assert_never

import pyarrow as pa

from hoodie import errors
from hoodie.model import column_types, schemas, settings, table_config
from hoodie.model.change_data import LoggingMode
from hoodie.services import definition
from hoodie.storage import uris
from hoodie.timeline import partition_buckets
from hoodie.transaction import heartbeats
from hoodie.transaction.locks import address_texts, addresses
from hoodie_operator.api import (
    execution,
    fields,
    hudi_table,
    lock_provider,
    objects,
    spec_memory,
)
from hoodie_operator.api.reasons import Reason
from hoodie_operator.reconcile import protocols

LOCK_WAIT_DEFAULT = "60s"
CONFLICT_RETRIES_DEFAULT = 3

_FORMATS = {
    hudi_table.LogBlockFormat.PARQUET: settings.LogBlockFormat.PARQUET,
    hudi_table.LogBlockFormat.AVRO: settings.LogBlockFormat.AVRO,
}
_MODES = {
    hudi_table.ConcurrencyMode.SINGLE_WRITER: settings.ConcurrencyMode.SINGLE_WRITER,
    hudi_table.ConcurrencyMode.OPTIMISTIC: settings.ConcurrencyMode.OPTIMISTIC,
    hudi_table.ConcurrencyMode.NON_BLOCKING: settings.ConcurrencyMode.NON_BLOCKING,
}
_ENGINES = {
    hudi_table.BucketEngine.SIMPLE: None,  # The number of buckets says it.
    hudi_table.BucketEngine.CONSISTENT_HASHING: table_config.IndexKind.CONSISTENT_HASHING,
}
_INDEXES = {
    hudi_table.IndexType.SIMPLE: table_config.IndexKind.SIMPLE,
    hudi_table.IndexType.BLOOM: table_config.IndexKind.BLOOM,
    hudi_table.IndexType.GLOBAL_SIMPLE: table_config.IndexKind.GLOBAL_SIMPLE,
    hudi_table.IndexType.GLOBAL_BLOOM: table_config.IndexKind.GLOBAL_BLOOM,
}
_STRATEGIES = {
    None: settings.ConflictStrategy.BUCKET_INDEX,
    hudi_table.ConflictResolution.SIMPLE: settings.ConflictStrategy.SIMPLE,
    hudi_table.ConflictResolution.BUCKET_INDEX: settings.ConflictStrategy.BUCKET_INDEX,
    hudi_table.ConflictResolution.PREFER_WRITER: settings.ConflictStrategy.PREFER_WRITER,
}
_DETECTIONS = {
    None: settings.EarlyDetection.SIMPLE,
    hudi_table.EarlyDetection.SIMPLE: settings.EarlyDetection.SIMPLE,
    hudi_table.EarlyDetection.TRANSACTIONAL: settings.EarlyDetection.TRANSACTIONAL,
}
_TYPES = {
    hudi_table.TableType.MERGE_ON_READ: table_config.TableType.MERGE_ON_READ,
    hudi_table.TableType.COPY_ON_WRITE: table_config.TableType.COPY_ON_WRITE,
}
_MERGE_MODES = {
    hudi_table.MergeMode.COMMIT_TIME: table_config.MergeMode.COMMIT_TIME,
    hudi_table.MergeMode.EVENT_TIME: table_config.MergeMode.EVENT_TIME,
}
_CHANGE_DATA = {
    hudi_table.ChangeData.OP_KEY_ONLY: LoggingMode.OP_KEY_ONLY,
    hudi_table.ChangeData.DATA_BEFORE: LoggingMode.DATA_BEFORE,
    hudi_table.ChangeData.DATA_BEFORE_AFTER: LoggingMode.DATA_BEFORE_AFTER,
}


_LOCAL: Final = f"{uris.LOCAL}://"
_HOUR_MS: Final = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveTable:
    """What every run of a table is told.

    Attributes:
        uri: The root, normalised.
        config: What the table's properties are, or become.
        settings: For writers and services alike.
        lock: Address of the table lock.
        protocol_hash: Of what all writers agree on, see `protocols`.
        earlier_hash: The same as a release before told it.
    """

    uri: str
    config: table_config.TableConfig
    settings: settings.WriteSettings
    lock: str
    protocol_hash: str
    earlier_hash: str = ""

    def agrees_with(self, run_hash: str) -> bool:
        """Return whether a run that was started with a protocol hash agrees with the table."""
        return run_hash in (self.protocol_hash, self.earlier_hash)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a spec has no effective configuration; only its author can mend that."""

    reason: Reason
    message: str


def location(spec: hudi_table.HudiTableSpec, data_roots: Sequence[str]) -> str | Refusal:
    """Return the normalised URI of a table, which lies below one of the roots.

    A relative path begins at the first of them.
    """
    return _location(spec, tuple(data_roots))


@spec_memory.remembered
def _location(spec: hudi_table.HudiTableSpec, data_roots: tuple[str, ...]) -> str | Refusal:
    path = spec.storage.path
    root, *others = (uris.parse(each, working_directory="/") for each in data_roots)
    try:
        if root.scheme == uris.LOCAL or "://" in path:
            found = uris.parse(path, working_directory=f"/{root.path}")
        else:
            found = uris.parse(f"{root}/{path}", working_directory="/")
    except errors.HoodieError as error:
        return Refusal(reason=Reason.INVALID_SPEC, message=f"storage.path: {error}")
    if not any(found != each and found.is_within(each) for each in (root, *others)):
        shown = " or ".join(str(each) for each in (root, *others))
        return Refusal(
            reason=Reason.PATH_NOT_ALLOWED,
            message=f"storage.path resolves to {found}, expected a path below {shown}",
        )
    return str(found)


def locator(data_roots: Sequence[str]) -> Callable[[hudi_table.HudiTableSpec], str | None]:
    """Return what tells the normalised URI of a table, or None where it has none."""

    def locate(spec: hudi_table.HudiTableSpec) -> str | None:
        found = location(spec, data_roots)
        return None if isinstance(found, Refusal) else found

    return locate


def spot(uri: str, table: objects.AnyObject) -> str:
    """Return the identity of a table's location in a cluster.

    A local path is a folder of the claim that is mounted above it, independent of the mount path,
    or of the pod if there is none. The same path in another namespace is another location.
    """
    if not uri.startswith(_LOCAL):
        return uri
    assert isinstance(table.spec, hudi_table.HudiTableSpec)
    path = uri.removeprefix(_LOCAL)
    mounted = [
        volume
        for volume in table.spec.storage.volumes or ()
        if f"{path}/".startswith(f"{volume.mount_path}/")
    ]
    if not mounted:
        return f"pods/{table.key.namespace}{path}"
    volume = max(mounted, key=lambda volume: len(volume.mount_path))
    folder = path.removeprefix(volume.mount_path)
    return f"claims/{table.key.namespace}/{volume.persistent_volume_claim}{folder}"


def table_name(table: objects.Table) -> str:
    """Return the name that the table carries in its properties."""
    return table.spec.table_name or table.name.replace("-", "_")


def writer_id(writer: objects.Writer) -> str:
    """Return the id that a Writer's commits carry."""
    return writer.spec.writer_id or writer.name


def config(table: objects.Table) -> table_config.TableConfig | Refusal:
    """Return the properties that a table is to have."""
    return _config(table.spec, table_name(table))


def change_data(spec: hudi_table.HudiTableSpec) -> LoggingMode | None:
    """Return what writes of a table are to store of what they change; None for nothing."""
    return None if spec.change_data is None else _CHANGE_DATA[spec.change_data]


@spec_memory.remembered
def _config(spec: hudi_table.HudiTableSpec, name: str) -> table_config.TableConfig | Refusal:
    try:
        schema = _schema(spec.schema_, name)
    except errors.HoodieError as error:
        return Refusal(reason=Reason.INVALID_SPEC, message=f"schema: {error}")
    bucket = spec.write_index.bucket
    wanted = table_config.TableConfig(
        name=name,
        database=spec.database or "",
        table_type=_TYPES[spec.table_type],
        version=spec.table_version,
        record_key_fields=spec.keys.record_fields,
        partition_fields=spec.keys.partition_fields,
        ordering_fields=spec.keys.ordering_fields,
        merge_mode=_MERGE_MODES[spec.merge.mode],
        has_partial_updates=spec.merge.partial_updates,
        is_hive_style=spec.keys.hive_style,
        is_url_encoded=spec.keys.url_encode,
        change_data=change_data(spec),
        create_schema=schema.avro,
        bucket_count=bucket.count if bucket else None,
        hash_fields=(bucket.hash_fields or ()) if bucket else (),
        index=_INDEXES[spec.write_index.type] if bucket is None else _ENGINES[bucket.engine],
        updates_partitions=spec.write_index.updates_partitions,
        has_foreign_writers=spec.concurrency.external_writers,
    )
    counts = None
    try:
        if bucket is not None and bucket.partition_counts:
            counts = partition_buckets.declared(bucket_counts(spec), bucket.count)
    except errors.HoodieError as error:
        message = f"writeIndex.bucket.partitionCounts: {error}"
        return Refusal(reason=Reason.INVALID_SPEC, message=message)
    try:
        definition.check(wanted, schema, counts)
    except errors.HoodieError as error:
        return Refusal(reason=Reason.INVALID_SPEC, message=f"keys: {error}")
    return wanted


def bucket_counts(spec: hudi_table.HudiTableSpec) -> str:
    """Return the bucket counts by partition, as `partition_buckets.declared` takes them."""
    bucket = spec.write_index.bucket
    counts = (bucket.partition_counts or ()) if bucket else ()
    return ";".join(f"{each.pattern},{each.count}" for each in counts)


def _schema(schema: hudi_table.Schema, name: str) -> schemas.TableSchema:
    if schema.avro is not None:
        return schemas.from_avro(schema.avro)
    columns = [(column.name, column_types.named(column.type)) for column in schema.columns or ()]
    return schemas.from_arrow(pa.schema(columns), name)


@spec_memory.remembered
def write_settings(
    spec: hudi_table.HudiTableSpec, lock: lock_provider.LockProviderSpec | None
) -> settings.WriteSettings:
    """Return the settings of everything that writes a table."""
    skew_ms = fields.duration_ms(spec.concurrency.clock_skew)
    retries = spec.concurrency.conflict_retries
    early = spec.concurrency.early_conflict_detection
    kept = spec.services.deletes_kept
    defaults = settings.WriteSettings()
    return settings.WriteSettings(
        concurrency=mode_of(spec),
        log_block_format=_FORMATS[spec.files.log_block_format],
        log_file_bytes_max=max(1, fields.size_bytes(spec.files.log_file_size)),
        parquet_codec=spec.files.codec.value.lower(),
        heartbeat_interval_ms=fields.duration_ms(spec.concurrency.heartbeat_interval),
        clock_skew_ms_max=skew_ms,
        clock_wait_ms=skew_ms if spec.concurrency.external_writers else 0,
        lock_wait_ms=fields.duration_ms(lock.acquire_timeout if lock else LOCK_WAIT_DEFAULT),
        acknowledges_order_dependence=spec.concurrency.acknowledge_order_dependence,
        conflict_retries_max=CONFLICT_RETRIES_DEFAULT if retries is None else retries,
        conflict_strategy=_STRATEGIES[spec.concurrency.conflict_resolution],
        detects_conflicts_early=early is not None,
        early_detection=_DETECTIONS[early],
        deletes_kept_hours=defaults.deletes_kept_hours if kept is None else _hours(kept),
    )


def _hours(duration: str) -> int:
    """Return the whole hours in which a duration fits."""
    return -(-fields.duration_ms(duration) // _HOUR_MS)


def _settings_refusal(found: settings.WriteSettings, lock: str) -> Refusal | None:
    """Return why no run could work by a table's settings and lock, as each would find out.

    Heartbeats must not expire while the lock's service still holds a session (H3).

    Args:
        found: The settings.
        lock: Address of the table lock.
    """
    session_ms = round(addresses.session_s(address_texts.parse(lock)) * 1000)
    try:
        settings.from_properties(settings.to_properties(found))
    except errors.ConfigurationError as error:
        return Refusal(reason=Reason.INVALID_SPEC, message=f"concurrency: {error}")
    refusal = heartbeats.settings_refusal(found, session_ms)
    if refusal is None:
        return None
    return Refusal(reason=Reason.INVALID_SPEC, message=f"concurrency.heartbeatInterval: {refusal}")


def locked(
    table: objects.Table,
    uri: str,
    wanted: table_config.TableConfig,
    lock: lock_provider.LockProviderSpec | None,
    servers: Sequence[str],
) -> EffectiveTable | Refusal:
    """Return the effective configuration of a table whose lock answers.

    Args:
        table: Whose.
        uri: Its root, normalised.
        wanted: Its properties.
        lock: The provider that it refers to; None when it refers to none.
        servers: `host:port` of each, of a ZooKeeper or a Hive Metastore.
    """
    return _locked(table.spec, uri, wanted, lock, tuple(servers))


@spec_memory.remembered
def _locked(
    spec: hudi_table.HudiTableSpec,
    uri: str,
    wanted: table_config.TableConfig,
    lock: lock_provider.LockProviderSpec | None,
    servers: tuple[str, ...],
) -> EffectiveTable | Refusal:
    address = _lock_address(wanted.name, uri, lock, servers)
    if isinstance(address, Refusal):
        return address
    found = write_settings(spec, lock)
    refusal = _settings_refusal(found, address)
    if refusal is not None:
        return refusal
    agreed = protocols.Agreed(uri=uri, lock=address, config=wanted, spec=spec)
    return EffectiveTable(
        uri=uri,
        config=wanted,
        settings=found,
        lock=address,
        protocol_hash=protocols.current(agreed),
        earlier_hash=protocols.earlier(agreed),
    )


def _lock_address(
    name: str,
    uri: str,
    lock: lock_provider.LockProviderSpec | None,
    servers: Sequence[str],
) -> str | Refusal:
    """Return the address of the lock of a table, which carries that name in its properties."""
    try:
        address = _address(name, lock, servers)
    except errors.InvalidInputError as error:
        return Refusal(reason=Reason.INVALID_SPEC, message=f"the lock: {error}")
    is_file = isinstance(address, addresses.FileSystemAddress)
    if is_file and uris.parse(uri, working_directory="/").scheme != uris.LOCAL:
        return Refusal(
            reason=Reason.INVALID_SPEC,
            message=(
                f"the lock: {uri} cannot hold a lock file, expected concurrency.lockRef of "
                "another LockProvider for a table in an object store"
            ),
        )
    return str(address)


def _address(
    name: str, lock: lock_provider.LockProviderSpec | None, servers: Sequence[str]
) -> addresses.LockAddress:
    kind = lock_provider.LockType.FILE_SYSTEM if lock is None else lock.type
    match kind:
        case lock_provider.LockType.FILE_SYSTEM:
            address: addresses.LockAddress = addresses.FileSystemAddress()
        case lock_provider.LockType.IN_PROCESS:
            address = addresses.InProcessAddress()
        case lock_provider.LockType.STORAGE:
            address = addresses.StorageAddress()
        case lock_provider.LockType.DYNAMODB:
            assert lock is not None
            assert lock.dynamodb is not None
            address = addresses.DynamoDbAddress(
                region=lock.dynamodb.region,
                table=lock.dynamodb.table,
                key=None,
                endpoint=lock.dynamodb.endpoint,
            )
        case lock_provider.LockType.HIVE_METASTORE:
            assert lock is not None
            assert lock.hive_metastore is not None
            address = addresses.HiveAddress(
                servers=tuple(servers),
                database=lock.hive_metastore.database,
                table=name,
            )
        case lock_provider.LockType.ZOOKEEPER:
            base = lock.zookeeper.base_path if lock is not None and lock.zookeeper else None
            path = None if base is None else f"{base}/{name}"
            address = addresses.ZooKeeperAddress(servers=tuple(servers), path=path)
        case _:
            assert_never(kind)
    return address


def run_hash(
    table: objects.Table, wanted: EffectiveTable, runtime: execution.Runtime, defaults: str
) -> str:
    """Return the hash of what may differ from run to run: image, resources, configuration.

    Args:
        table: What is worked on.
        wanted: What its runs are told.
        runtime: What is declared for the run.
        defaults: What the operator takes where nothing is declared (`world.Limits`).
    """
    return _run_hash(table.spec.storage, runtime, wanted.settings, defaults)


def mode_of(spec: hudi_table.HudiTableSpec) -> settings.ConcurrencyMode:
    """Return the concurrency mode of all runs of a table."""
    return _MODES[spec.concurrency.mode]


@spec_memory.remembered
def _run_hash(
    storage: hudi_table.Storage,
    runtime: execution.Runtime,
    write_settings: settings.WriteSettings,
    defaults: str,
) -> str:
    told = {
        "settings": dataclasses.asdict(write_settings),
        "storage": storage.model_dump(mode="json", exclude={"path"}),
        "runtime": runtime.model_dump(mode="json"),
        "defaults": defaults,
    }
    return _hash(told)


def _hash(told: Mapping[str, object]) -> str:
    text = json.dumps(told, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[: protocols.LENGTH]
