"""What Apache Hudi must be told to write the tables that we support, option by option.

A `PeerTable` describes a table; `write_options` turns it into `hoodie.*` options for Spark's data
source and for the write client. Measured on Apache Hudi 1.2.0:

- `hoodie.table.type` is needed beside `hoodie.datasource.write.table.type`: the check for
  non-blocking concurrency control reads only the former.
- A batch write through the data source compacts inline unless `hoodie.compact.inline` is false.
- Partial updates come only from a payload class. Version 9 turns the class into merge mode and
  `hoodie.table.partial.update.mode`; that property given as an option is ignored.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

LOCK_PROVIDERS = "org.apache.hudi.client.transaction.lock"
MODELS = "org.apache.hudi.common.model"


RECORD_INDEX: Mapping[str, str] = {
    # Without it Apache Hudi 1.2.0 fails with a NullPointerException after it has replaced all file
    # groups.
    "hoodie.embed.timeline.server": "true",
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
    # Ten by default, each of which costs time.
    "hoodie.metadata.global.record.level.index.min.filegroup.count": "2",
}
"""Options of a writer that looks keys up in a record index of the whole table."""


class Merge(StrEnum):
    """How records of one key are merged."""

    EVENT_TIME = "EVENT_TIME_ORDERING"
    COMMIT_TIME = "COMMIT_TIME_ORDERING"


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerTable:
    """A table as Apache Hudi is told to make it. The defaults are what our own tables look like.

    Ordering fields mean merging by event time, none means by commit time. `buckets=None` leaves the
    index to `extra` (Apache Hudi's default is the bloom index). `codec` is parquet's. No record key
    means that Apache Hudi generates keys.
    """

    name: str
    record_key: tuple[str, ...] = ("id",)
    partition_by: tuple[str, ...] = ()
    ordering: str | None = None
    merge_on_read: bool = True
    table_version: int = 9
    buckets: int | None = 2
    partial_updates: bool = False
    parquet_logs: bool = True
    codec: str = "snappy"
    bloom_filter: bool = False
    metadata_table: bool = False
    parallelism: int = 2
    extra: Mapping[str, str] = field(default_factory=dict)

    @property
    def merge(self) -> Merge:
        """The merge mode that the ordering field implies."""
        return Merge.COMMIT_TIME if self.ordering is None else Merge.EVENT_TIME

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The partition fields without the types that a custom key generator has with them."""
        return tuple(name.partition(":")[0] for name in self.partition_by)

    def write_options(self) -> dict[str, str]:
        """Return the options of a single writer without a lock."""
        table_type = "MERGE_ON_READ" if self.merge_on_read else "COPY_ON_WRITE"
        options = {
            "hoodie.table.name": self.name,
            "hoodie.table.type": table_type,
            "hoodie.datasource.write.table.type": table_type,
            "hoodie.datasource.write.recordkey.field": ",".join(self.record_key),
            "hoodie.datasource.write.partitionpath.field": ",".join(self.partition_by),
            "hoodie.write.table.version": str(self.table_version),
            "hoodie.write.auto.upgrade": "false",
            "hoodie.table.timeline.timezone": "UTC",
            "hoodie.metadata.enable": str(self.metadata_table).lower(),
            "hoodie.compact.inline": "false",
            "hoodie.clean.automatic": "false",
            "hoodie.archive.automatic": "false",
            "hoodie.embed.timeline.server": "false",
            "hoodie.write.markers.type": "DIRECT",
            "hoodie.parquet.compression.codec": self.codec,
            "hoodie.parquet.bloom.filter.enabled": str(self.bloom_filter).lower(),
            "hoodie.logfile.data.block.format": "parquet" if self.parquet_logs else "avro",
        }
        if not self.record_key:
            # An empty one would be a key field without a name.
            del options["hoodie.datasource.write.recordkey.field"]
        if not self.bloom_filter:
            # Bulk insert writes one all the same: of one hash a key, at least.
            options["hoodie.index.bloom.fpp"] = "0.5"
        for step in ("bulkinsert", "insert", "upsert", "delete"):
            options[f"hoodie.{step}.shuffle.parallelism"] = str(self.parallelism)
        return options | self._ordering() | self._bucket_index() | dict(self.extra)

    def nbcc_options(self, lock: Mapping[str, str]) -> dict[str, str]:
        """Return the options of one of several writers that do not block each other."""
        return (
            self.write_options()
            | {
                "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
                "hoodie.clean.failed.writes.policy": "LAZY",
            }
            | dict(lock)
        )

    def occ_options(self, lock: Mapping[str, str]) -> dict[str, str]:
        """Return the options of one of several writers of which the first to commit wins."""
        compared = "Simple" if self.buckets is None else "BucketIndex"
        strategy = f"{compared}ConcurrentFileWritesConflictResolutionStrategy"
        return self.nbcc_options(lock) | {
            "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
            "hoodie.write.lock.conflict.resolution.strategy": (
                f"org.apache.hudi.client.transaction.{strategy}"
            ),
        }

    def shared_options(self, lock: Mapping[str, str]) -> dict[str, str]:
        """Return the options of one of several writers, in the mode that the table type has."""
        return self.nbcc_options(lock) if self.merge_on_read else self.occ_options(lock)

    def _ordering(self) -> dict[str, str]:
        options: dict[str, str] = {}
        if self.ordering is not None:
            options["hoodie.table.ordering.fields"] = self.ordering
            options["hoodie.datasource.write.precombine.field"] = self.ordering
        if self.partial_updates:
            name = "OverwriteNonDefaultsWithLatestAvroPayload"
            if self.ordering is not None:
                name = "PartialUpdateAvroPayload"
            options["hoodie.datasource.write.payload.class"] = f"{MODELS}.{name}"
        elif "hoodie.datasource.write.payload.class" not in self.extra:
            options["hoodie.record.merge.mode"] = self.merge.value
        return options

    def _bucket_index(self) -> dict[str, str]:
        if self.buckets is None:
            return {}
        return {
            "hoodie.index.type": "BUCKET",
            "hoodie.index.bucket.engine": "SIMPLE",
            "hoodie.bucket.index.num.buckets": str(self.buckets),
            "hoodie.bucket.index.hash.field": ",".join(self.record_key),
        }


def filesystem_lock(*, skew_ms: int = 20) -> dict[str, str]:
    """Return the options of the lock file below `.hoodie/`, without ownership or expiry."""
    return _retries(skew_ms) | {
        "hoodie.write.lock.provider": f"{LOCK_PROVIDERS}.FileSystemBasedLockProvider",
    }


def in_process_lock(*, skew_ms: int = 1) -> dict[str, str]:
    """Return the options of the lock that holds within one JVM."""
    return _retries(skew_ms) | {
        "hoodie.write.lock.provider": f"{LOCK_PROVIDERS}.InProcessLockProvider",
    }


def zookeeper_lock(
    connect: str, *, base_path: str, lock_key: str, skew_ms: int = 20
) -> dict[str, str]:
    """Return the options of the ZooKeeper lock at `base_path/lock_key`; `connect` is host:port."""
    return _retries(skew_ms) | {
        "hoodie.write.lock.provider": f"{LOCK_PROVIDERS}.ZookeeperBasedLockProvider",
        # The port is required by name but only the one inside the url is used.
        "hoodie.write.lock.zookeeper.url": connect,
        "hoodie.write.lock.zookeeper.port": connect.rpartition(":")[2],
        "hoodie.write.lock.zookeeper.base_path": base_path,
        "hoodie.write.lock.zookeeper.lock_key": lock_key,
    }


def implicit_zookeeper_lock(connect: str, *, skew_ms: int = 20) -> dict[str, str]:
    """Return the options of the ZooKeeper lock whose path follows from the table's own path."""
    provider = "ZookeeperBasedImplicitBasePathLockProvider"
    return _retries(skew_ms) | {
        "hoodie.write.lock.provider": f"{LOCK_PROVIDERS}.{provider}",
        "hoodie.write.lock.zookeeper.url": connect,
        "hoodie.write.lock.zookeeper.port": connect.rpartition(":")[2],
    }


def hive_lock(servers: str, *, database: str, table: str, skew_ms: int = 20) -> dict[str, str]:
    """Return the options of a Hive Metastore's lock of a table; `servers` is host:port."""
    provider = "org.apache.hudi.hive.transaction.lock.HiveMetastoreBasedLockProvider"
    return _retries(skew_ms) | {
        "hoodie.write.lock.provider": provider,
        "hoodie.write.lock.hivemetastore.uris": f"thrift://{servers}",
        "hoodie.write.lock.hivemetastore.database": database,
        "hoodie.write.lock.hivemetastore.table": table,
    }


def table_properties(path: Path) -> dict[str, str]:
    """Return `hoodie.properties` of the table at `path` (values unescaped)."""
    text = (path / ".hoodie" / "hoodie.properties").read_text()
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    pairs = (line.partition("=") for line in lines)
    return {key: value.replace("\\:", ":").replace("\\=", "=") for key, _, value in pairs}


def _retries(skew_ms: int) -> dict[str, str]:
    return {
        "hoodie.time.generator.max_expected_clock_skew_ms": str(skew_ms),
        "hoodie.write.lock.wait_time_ms_between_retry": "50",
        "hoodie.write.lock.num_retries": "400",
        "hoodie.write.lock.client.wait_time_ms_between_retry": "50",
        "hoodie.write.lock.client.num_retries": "400",
    }
