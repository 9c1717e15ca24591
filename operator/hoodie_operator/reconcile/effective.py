"""The effective configuration of a table: rendered once, the same for every run, and hashed.

The protocol hash covers what all writers of a table must agree on: its location, lock, concurrency,
keys, merging, index and who runs its services. A run with another hash than the current one may not
commit. How files are coded is no part of it: that may change from run to run.
"""

import functools
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

import pyarrow as pa

from hoodie import errors
from hoodie.model import schemas, settings, table_config
from hoodie.services import definition
from hoodie.storage import uris
from hoodie.transaction.locks import addresses
from hoodie_operator.api import fields, hudi_table, lock_provider, objects
from hoodie_operator.api.reasons import Reason

HASH_LENGTH = 16
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
_TYPES = {
    hudi_table.TableType.MERGE_ON_READ: table_config.TableType.MERGE_ON_READ,
    hudi_table.TableType.COPY_ON_WRITE: table_config.TableType.COPY_ON_WRITE,
}
_MERGE_MODES = {
    hudi_table.MergeMode.COMMIT_TIME: table_config.MergeMode.COMMIT_TIME,
    hudi_table.MergeMode.EVENT_TIME: table_config.MergeMode.EVENT_TIME,
}
_ARROW = {
    "string": pa.string(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "bytes": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveTable:
    """What every run of a table is told.

    Attributes:
        uri: The root, normalised.
        config: What the table's properties are, or become.
        settings: For writers and services alike.
        lock: Address of the table lock.
        protocol_hash: See the module.
    """

    uri: str
    config: table_config.TableConfig
    settings: settings.WriteSettings
    lock: str
    protocol_hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a spec has no effective configuration; only its author can mend that."""

    reason: Reason
    message: str


def location(spec: hudi_table.HudiTableSpec, data_root: str) -> str | Refusal:
    """Return the normalised URI of a table."""
    path = spec.storage.path
    root = uris.parse(data_root, working_directory="/")
    try:
        if root.scheme == uris.LOCAL or "://" in path:
            found = uris.parse(path, working_directory=f"/{root.path}")
        else:
            found = uris.parse(f"{root}/{path}", working_directory="/")
    except errors.HoodieError as error:
        return Refusal(reason=Reason.INVALID_SPEC, message=f"storage.path: {error}")
    if found == root or not found.is_within(root):
        return Refusal(
            reason=Reason.PATH_NOT_ALLOWED,
            message=f"storage.path leads to {found}, expected a place below {root}",
        )
    return str(found)


def table_name(table: objects.Table) -> str:
    """Return the name that the table carries in its properties."""
    return table.spec.table_name or table.name.replace("-", "_")


def writer_id(writer: objects.Writer) -> str:
    """Return the id that a Writer's commits carry."""
    return writer.spec.writer_id or writer.name


def config(table: objects.Table) -> table_config.TableConfig | Refusal:
    """Return the properties that a table is to have."""
    return _config(table.spec, table_name(table))


@functools.lru_cache(maxsize=4096)
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
        create_schema=schema.avro,
        bucket_count=bucket.count if bucket else None,
        hash_fields=(bucket.hash_fields or ()) if bucket else (),
    )
    try:
        definition.check(wanted, schema)
    except errors.HoodieError as error:
        return Refusal(reason=Reason.INVALID_SPEC, message=f"keys: {error}")
    return wanted


def _schema(schema: hudi_table.Schema, name: str) -> schemas.TableSchema:
    if schema.avro is not None:
        return schemas.from_avro(schema.avro)
    columns = [(column.name, _arrow_type(column.type)) for column in schema.columns or ()]
    return schemas.from_arrow(pa.schema(columns), name)


def _arrow_type(text: str) -> pa.DataType:
    if text in _ARROW:
        return _ARROW[text]
    precision, _, scale = text.removeprefix("decimal(").rstrip(")").partition(",")
    try:
        return pa.decimal128(int(precision), int(scale))
    except ValueError as error:
        raise errors.InvalidInputError(f"type {text}: {error}") from error


def write_settings(
    spec: hudi_table.HudiTableSpec, lock: lock_provider.LockProviderSpec | None
) -> settings.WriteSettings:
    """Return the settings of everything that writes a table."""
    skew_ms = fields.duration_ms(spec.concurrency.clock_skew)
    retries = spec.concurrency.conflict_retries
    return settings.WriteSettings(
        concurrency=_MODES[spec.concurrency.mode],
        log_block_format=_FORMATS[spec.files.log_block_format],
        log_file_bytes_max=max(1, fields.size_bytes(spec.files.log_file_size)),
        parquet_codec=spec.files.codec.value.lower(),
        heartbeat_interval_ms=fields.duration_ms(spec.concurrency.heartbeat_interval),
        clock_skew_ms_max=skew_ms,
        clock_wait_ms=skew_ms if spec.concurrency.external_writers else 0,
        lock_wait_ms=fields.duration_ms(lock.acquire_timeout if lock else LOCK_WAIT_DEFAULT),
        acknowledges_order_dependence=spec.concurrency.acknowledge_order_dependence,
        conflict_retries_max=CONFLICT_RETRIES_DEFAULT if retries is None else retries,
    )


def lock_address(
    table: objects.Table,
    uri: str,
    lock: lock_provider.LockProviderSpec | None,
    servers: Sequence[str],
) -> str | Refusal:
    """Return the address of a table's lock.

    Args:
        table: Whose.
        uri: The table's root, normalised.
        lock: The provider that it refers to; None when it refers to none.
        servers: `host:port` of each, of a ZooKeeper or a Hive Metastore.
    """
    try:
        address = _lock_address(table, lock, servers)
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


def _lock_address(
    table: objects.Table, lock: lock_provider.LockProviderSpec | None, servers: Sequence[str]
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
                table=table_name(table),
            )
        case lock_provider.LockType.ZOOKEEPER:
            base = lock.zookeeper.base_path if lock is not None and lock.zookeeper else None
            path = None if base is None else f"{base}/{table_name(table)}"
            address = addresses.ZooKeeperAddress(servers=tuple(servers), path=path)
        case _:
            assert_never(kind)
    return address


def protocol_hash(
    uri: str, wanted: table_config.TableConfig, lock: str, spec: hudi_table.HudiTableSpec
) -> str:
    """Return the hash of what all writers must agree on."""
    agreed = {
        "uri": uri,
        "lock": lock,
        "properties": table_config.to_properties(wanted),
        # How often a loser tries again concerns nobody else.
        "concurrency": spec.concurrency.model_dump(mode="json", exclude={"conflict_retries"}),
        "services": spec.services.model_dump(mode="json"),
    }
    text = json.dumps(agreed, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:HASH_LENGTH]
