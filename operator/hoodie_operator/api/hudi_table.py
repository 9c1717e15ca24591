"""HudiTable: one table, with everything that all its writers must agree on."""

import enum
import re
from typing import Annotated, Final

from pydantic import Field, StringConstraints

from hoodie_operator.api import attempts, conditions, execution, fields, rules

TABLE_NAME_PATTERN: Final = r"^[A-Za-z_][A-Za-z0-9_]*$"
RESERVED_FOLDERS: Final = ("/tmp", "/work", "/etc/hudi-operator", "/opt")  # noqa: S108 - a container's
"""Folders that the operator's own pods use."""


class TableType(enum.Enum):
    """How updates are stored."""

    MERGE_ON_READ = "MergeOnRead"
    COPY_ON_WRITE = "CopyOnWrite"


class MergeMode(enum.Enum):
    """Which of two versions of a record wins."""

    COMMIT_TIME = "CommitTime"
    EVENT_TIME = "EventTime"


class ChangeData(enum.Enum):
    """What writes say of what they changed."""

    OP_KEY_ONLY = "OpKeyOnly"
    DATA_BEFORE = "DataBefore"
    DATA_BEFORE_AFTER = "DataBeforeAfter"


class IndexType(enum.Enum):
    """How the file group of a record is found."""

    BUCKET = "Bucket"
    SIMPLE = "Simple"
    BLOOM = "Bloom"
    GLOBAL_SIMPLE = "GlobalSimple"
    GLOBAL_BLOOM = "GlobalBloom"

    @property
    def is_global(self) -> bool:
        """Whether a key is unique in the table, and not only in its partition."""
        return self in (IndexType.GLOBAL_SIMPLE, IndexType.GLOBAL_BLOOM)


class BucketEngine(enum.Enum):
    """Whether the number of buckets is fixed, or each partition has a ring of its own."""

    SIMPLE = "Simple"
    CONSISTENT_HASHING = "ConsistentHashing"


class ConcurrencyMode(enum.Enum):
    """The concurrency control mode of the table's writers."""

    SINGLE_WRITER = "SingleWriter"
    OPTIMISTIC = "Optimistic"
    NON_BLOCKING = "NonBlocking"


class ConflictResolution(enum.Enum):
    """The conflict resolution strategy, by the first words of Apache Hudi's class."""

    SIMPLE = "Simple"
    BUCKET_INDEX = "BucketIndex"
    PREFER_WRITER = "PreferWriter"


class EarlyDetection(enum.Enum):
    """How optimistic writers detect conflicts before they write data."""

    SIMPLE = "SimpleDirectMarker"
    TRANSACTIONAL = "TransactionalDirectMarker"


class ServiceOwner(enum.Enum):
    """Whether the operator or another system runs a table service."""

    OPERATOR = "Operator"
    EXTERNAL = "External"
    DISABLED = "Disabled"


class Adoption(enum.Enum):
    """Whether a table is created or adopted."""

    CREATE_ONLY = "CreateOnly"
    CREATE_OR_ADOPT = "CreateOrAdopt"
    ADOPT_ONLY = "AdoptOnly"


class DeletionPolicy(enum.Enum):
    """What happens to the data when the object is deleted."""

    RETAIN = "Retain"
    DELETE = "Delete"


class LogBlockFormat(enum.Enum):
    """How records are stored in log files."""

    PARQUET = "Parquet"
    AVRO = "Avro"


class Codec(enum.Enum):
    """Compression of base files and parquet log blocks."""

    SNAPPY = "Snappy"
    ZSTD = "Zstd"
    GZIP = "Gzip"
    NONE = "None"


class Column(fields.Block):
    """One column of the table."""

    name: fields.ColumnName = Field(description="The column's name.")
    type: fields.ColumnType = Field(
        description=(
            "string, int, long, float, double, boolean, bytes, date, timestamp (microseconds, "
            "UTC) or decimal(precision, scale)."
        )
    )


class Schema(fields.Block):
    """The table's columns: a list, or an Avro schema."""

    columns: tuple[Column, ...] | None = Field(default=None, min_length=1, max_length=1000)
    avro: Annotated[str, StringConstraints(min_length=2, max_length=262_144)] | None = Field(
        default=None, description="An Avro record schema as JSON."
    )


class Volume(fields.Block):
    """A claim that every pod of the table mounts."""

    name: fields.ObjectName = Field(description="The volume's name within the pods.")
    persistent_volume_claim: fields.ObjectReference = Field(
        description="The claim, one that the operator allows."
    )
    mount_path: fields.Folder = Field(description="The folder at which pods see it.")
    read_only: bool | None = Field(
        default=None, description="Whether pods can only read it. Defaults to false."
    )


class Storage(fields.Block):
    """The table's location, and what pods need to access the table and its input."""

    path: fields.Path = Field(
        description="The table's root: a URI, or a path below the operator's data root."
    )
    service_account: fields.ObjectReference | None = Field(
        default=None,
        description=(
            "Service account of the pods, one that the operator allows. Default: "
            "serviceAccounts.default of the operator's configuration."
        ),
    )
    secrets: execution.Secrets | None = Field(
        default=None, description="Secrets whose keys become environment variables of the pods."
    )
    env: execution.Variables | None = Field(
        default=None, description="Environment variables of the pods, such as region and endpoint."
    )
    volumes: tuple[Volume, ...] | None = Field(default=None, min_length=1, max_length=16)


KeyOption = Annotated[
    str,
    StringConstraints(
        max_length=128,
        pattern=(
            r"^(hoodie\.keygen\.timebased\.[a-z.]+|hoodie\.table\.complex\.keygen\.encoding|"
            r"hoodie\.datasource\.write\.slash\.separated\.date\.partitioning)$"
        ),
    ),
]


class Keys(fields.Block):
    """The fields that identify, partition and order records."""

    record_fields: tuple[fields.ColumnName, ...] = Field(
        max_length=16,
        description=(
            "The columns that identify a record; of several the key has all. An empty list, with "
            "writeIndex Simple or Bloom, is for a table whose keys are generated: rows are added "
            "to it."
        ),
    )
    partition_fields: tuple[fields.ColumnName, ...] = Field(
        default=(), max_length=8, description="The columns whose values name a record's partition."
    )
    ordering_fields: tuple[fields.ColumnName, ...] = Field(
        default=(), max_length=8, description="With merge mode EventTime the greater value wins."
    )
    hive_style: bool = Field(default=False, description="Name partition folders field=value.")
    url_encode: bool = Field(default=False, description="Percent-encode partition values.")
    options: dict[KeyOption, Annotated[str, StringConstraints(max_length=256)]] | None = Field(
        default=None,
        min_length=1,
        max_length=32,
        description=(
            "Options of the key generator that an adopted table leaves to its Spark writers, such "
            "as hoodie.keygen.timebased.output.dateformat. Keys and paths of some records are "
            "compared with what they make before the table states them."
        ),
    )


class Merge(fields.Block):
    """How versions of a record are merged."""

    mode: MergeMode = MergeMode.COMMIT_TIME
    partial_updates: bool = Field(
        default=False, description="A null in the newer version keeps the value of the older one."
    )


class PartitionCount(fields.Block):
    """The number of buckets of some partitions."""

    pattern: str = Field(
        min_length=1,
        max_length=200,
        pattern="^[^,;]+$",
        description=(
            "A regular expression, of the kind that Java and Python read alike. It is of the "
            "partitions in whose paths it is found, unless an earlier one is."
        ),
    )
    count: int = Field(ge=1, le=100_000, description="Buckets in each of them.")


class Bucket(fields.Block):
    """The hash buckets of a partition."""

    engine: BucketEngine = Field(
        default=BucketEngine.SIMPLE,
        description=(
            "Simple: their number is fixed. ConsistentHashing: clusterings of Apache Hudi split "
            "and merge the buckets of a partition; for merge-on-read tables."
        ),
    )
    count: int = Field(
        ge=1,
        le=100_000,
        description=(
            "Buckets in each partition; with ConsistentHashing those with which it begins."
        ),
    )
    hash_fields: tuple[fields.ColumnName, ...] | None = Field(
        alias="fields",
        default=None,
        min_length=1,
        max_length=16,
        description="Fields that are hashed. Defaults to the record key.",
    )
    partition_counts: tuple[PartitionCount, ...] | None = Field(
        default=None,
        min_length=1,
        max_length=64,
        description=(
            "Partitions with another number of buckets than count: those with which a new table "
            "begins, or that an adopted one has. Apache Hudi's partition_bucket_index_manager "
            "changes them later."
        ),
    )


class WriteIndex(fields.Block):
    """How writers find a record's file group."""

    type: IndexType = Field(
        default=IndexType.BUCKET,
        description=(
            "Bucket: by hashing the key. Simple and Bloom, as "
            "tables of Apache Hudi have by default: by the keys in the files of the partition, "
            "Bloom with a bloom filter in each base file. GlobalSimple and GlobalBloom: by those "
            "of all partitions, so that a key is unique in the table."
        ),
    )
    bucket: Bucket | None = Field(default=None, description="Required with type Bucket alone.")
    updates_partitions: bool = Field(
        default=True,
        description=(
            "With a global index: whether a record whose partition changes moves there. If false, "
            "it is updated where it is."
        ),
    )


class Concurrency(fields.Block):
    """Concurrency control between the table's writers."""

    mode: ConcurrencyMode = ConcurrencyMode.SINGLE_WRITER
    lock_ref: fields.Reference | None = Field(
        default=None,
        description=(
            "The LockProvider of the table. Defaults to a lock file beside the table, on file "
            "systems only: a table in an object store needs a LockProvider."
        ),
    )
    conflict_retries: int | None = Field(
        default=None,
        ge=0,
        le=100,
        description=(
            "With mode Optimistic: how often a run retries a batch that lost a conflict, before "
            "the attempt fails. Defaults to 3."
        ),
    )
    conflict_resolution: ConflictResolution | None = Field(
        default=None,
        description=(
            "With mode Optimistic: the conflict resolution strategy, by default BucketIndex. With "
            "PreferWriter a write wins against a pending clustering."
        ),
    )
    early_conflict_detection: EarlyDetection | None = Field(
        default=None,
        description=(
            "With mode Optimistic: detect conflicts before data is written, too. By default only "
            "a completing write detects them."
        ),
    )
    external_writers: bool = Field(
        default=False,
        description=(
            "Whether processes outside the operator write the table too. If true, each commit "
            "waits for clockSkew. If false, a table with a chain stays right without its lock, "
            "and other engines must not write it. An existing table follows by a TableAction of "
            "type Configure."
        ),
    )
    acknowledge_order_dependence: bool = Field(
        default=False,
        description="Accept writers whose merged result depends on the time of compactions.",
    )
    clock_skew: fields.Duration = Field(
        default="200ms", description="Maximum difference between the clocks of writers."
    )
    heartbeat_interval: fields.Duration = Field(
        default="60s",
        description="Interval of heartbeats. A writer's heartbeat expires after ten intervals.",
    )


class Services(fields.Block):
    """How each table service is run."""

    compaction: ServiceOwner = ServiceOwner.OPERATOR
    cleaning: ServiceOwner | None = Field(
        default=None,
        description=(
            "Default: Operator, if the operator created the table and no external writers are "
            "admitted, or if a RetentionPolicy targets it. For other tables the operator only "
            "reports what its defaults would delete, until this is set."
        ),
    )
    archiving: ServiceOwner | None = Field(default=None, description="As cleaning.")
    deletes_kept: fields.Duration | None = Field(
        default=None,
        description=(
            "How long compactions keep a delete with an ordering value, in whole hours, so that "
            "the delete wins against older rows that arrive late. Defaults to 168h."
        ),
    )


class Files(fields.Block):
    """How data files are written."""

    log_block_format: LogBlockFormat = Field(
        default=LogBlockFormat.PARQUET,
        description="Format of log blocks. Parquet merges faster; Trino needs Avro.",
    )
    codec: Codec = Codec.SNAPPY
    log_file_size: fields.Size = Field(
        default="1Gi", description="Size at which a log file rolls over."
    )


class Metadata(fields.Block):
    """The table's metadata table, an index of its files beside the data."""

    enabled: bool | None = Field(
        default=None,
        description=(
            "If true, the table has a metadata table, which a TableAction makes where it is "
            "missing. If false, a TableAction drops it. By default it is left as it is, and an "
            "existing one is kept up by every run."
        ),
    )


class Mirror(fields.Block):
    """The table's mirror in Iceberg, for engines that do not read Hudi."""

    enabled: bool = Field(
        default=False,
        description=(
            "Whether TableActions keep an Iceberg table in the folder metadata of the table, which "
            "names the base files of the newest file slices. If false, an existing one is left as "
            "it is."
        ),
    )
    interval: fields.Duration = Field(
        default="1m",
        description="Time after which a commit is in the mirror at the latest, plus that of a run.",
    )
    keep_snapshots: int = Field(
        default=10,
        ge=1,
        le=1000,
        description="Number of snapshots that the mirror keeps. Their files are not cleaned.",
    )


class HudiTableSpec(fields.Block):
    """The desired state of the table."""

    table_name: (
        Annotated[str, StringConstraints(pattern=TABLE_NAME_PATTERN, max_length=128)] | None
    ) = Field(
        default=None,
        description="Defaults to the object's name with underscores in place of dashes.",
    )
    database: (
        Annotated[str, StringConstraints(pattern=TABLE_NAME_PATTERN, max_length=128)] | None
    ) = Field(default=None, description="The database that the table's properties name.")
    storage: Storage
    table_type: TableType = Field(
        default=TableType.MERGE_ON_READ,
        description=(
            "MergeOnRead appends log files, which compactions merge into base files. CopyOnWrite "
            "rewrites base files at each write."
        ),
    )
    table_version: int = Field(
        default=9,
        ge=8,
        le=9,
        description="Version of the format: 9 for Apache Hudi 1.1 and later, 8 for readers of 1.0.",
    )
    schema_: Schema = Field(alias="schema")
    keys: Keys
    merge: Merge = Merge()
    write_index: WriteIndex
    concurrency: Concurrency = Concurrency()
    services: Services = Services()
    files: Files = Files()
    metadata: Metadata = Metadata()
    mirror: Mirror = Mirror()
    change_data: ChangeData | None = Field(
        default=None,
        description=(
            "Have writes say what they changed, for readers of changes (CDC): operations with "
            "keys, with rows before, or with rows before and after. Default: they do not. An "
            "existing table follows by a TableAction of type Configure."
        ),
    )
    time_zone: fields.TimeZone | None = Field(
        default=None,
        description=(
            "Time zone of an existing table whose instants have the local times of Apache Hudi's "
            "JVMs (hoodie.table.timeline.timezone=LOCAL), such as Europe/Berlin. Tables that the "
            "operator creates are in UTC."
        ),
    )
    adoption: Adoption = Adoption.CREATE_OR_ADOPT
    deletion_policy: DeletionPolicy = DeletionPolicy.RETAIN
    deletion_protection: bool = Field(
        default=True,
        description=(
            "Keep the data even if the object is deleted. The chart's admission policy refuses to "
            "delete the object. Without that policy the object is deleted and the data is kept."
        ),
    )
    suspend: bool = Field(default=False, description="Start no runs on this table.")

    @property
    def is_protected(self) -> bool:
        """Whether the data stays although the policy is to delete it with the object."""
        return self.deletion_policy is DeletionPolicy.DELETE and self.deletion_protection

    @property
    def is_simple_bucket(self) -> bool:
        """Whether the index is the simple bucket index."""
        return (
            self.write_index.type is IndexType.BUCKET
            and self.write_index.bucket is not None
            and self.write_index.bucket.engine is BucketEngine.SIMPLE
        )

    @property
    def is_copy_on_write(self) -> bool:
        """Whether each write makes base files, so that nothing is ever left to compact."""
        return self.table_type is TableType.COPY_ON_WRITE

    @property
    def is_optimistic(self) -> bool:
        """Whether writers find conflicts when they complete."""
        return self.concurrency.mode is ConcurrencyMode.OPTIMISTIC

    @property
    def takes_many_writers(self) -> bool:
        """Whether several writers may be at work at one time."""
        return self.concurrency.mode is not ConcurrencyMode.SINGLE_WRITER

    @property
    def is_non_blocking(self) -> bool:
        """Whether writers join without waiting for each other."""
        return self.concurrency.mode is ConcurrencyMode.NON_BLOCKING


class LatestCommit(fields.Block):
    """The newest completed write."""

    instant: fields.Word
    completion_time: fields.Word
    action: fields.Word


class Backlog(fields.Block):
    """The delta commits that are not compacted yet."""

    delta_commits: int
    log_bytes: int
    pending_compactions: int


class PropertyMismatch(fields.Block):
    """A property of the stored table that differs from the spec."""

    property: fields.Word
    desired: fields.Text
    actual: fields.Text


class Origin(enum.Enum):
    """Where a table comes from."""

    CREATED = "Created"
    ADOPTED = "Adopted"


class ServiceRun(fields.Block):
    """A run of a service that has ended."""

    action: fields.Word = Field(description="The TableAction.")
    basis: fields.Word | None = Field(
        default=None, description="The newest commit at the time when the run became due."
    )
    time: fields.Word = Field(description="When it ended.")
    message: fields.Text | None = None


class ServiceStatus(fields.Block):
    """The state of one service of the table."""

    name: fields.Word
    owner: fields.Word = Field(description="Operator, External or Disabled.")
    policy: fields.Word | None = Field(
        default=None, description="The policy by which the service runs, or the default."
    )
    dry_run: bool | None = Field(
        default=None, description="Whether runs only report what they would do."
    )
    reason: fields.Word = Field(description="Why the service does not run now, or that it does.")
    message: fields.Text
    action: fields.Word | None = Field(default=None, description="The active TableAction.")
    due_since: fields.Word | None = Field(
        default=None, description="Since when the service is due and has not run."
    )
    next_due: fields.Word | None = Field(
        default=None, description="When the service is due or its window opens, if that is known."
    )
    overdue: bool | None = Field(
        default=None, description="Whether it is due for longer than overdueAfter of its policy."
    )
    last: ServiceRun | None = Field(default=None, description="The last successful run.")
    last_failure: ServiceRun | None = Field(
        default=None, description="The last failed run, until one succeeds."
    )


class StuckInstant(fields.Block):
    """An instant that is pending for longer than a policy wants."""

    instant: fields.Word
    type: fields.Word = Field(description="The action on the timeline, such as deltacommit.")
    since: fields.Word = Field(description="When it was requested.")
    owner: fields.Text
    process: fields.Text | None = Field(
        default=None, description="Process and host of the owner, by its last heartbeat."
    )
    policy: fields.Word = Field(description="The policy, or the default, whose stuck applies.")
    message: fields.Text = Field(description="What is done about it, or why nothing is.")
    action: fields.Word | None = Field(
        default=None, description="The TableAction that rolls it back."
    )


class ConsumerStatus(fields.Block):
    """A declared consumer of the table's increments."""

    name: fields.Word
    consumed: fields.Word = Field(description="Completion time up to which it has read.")
    holding: bool = Field(
        description="Whether cleaning waits for it; otherwise it was silent beyond its limit."
    )
    unread_commits: int = Field(description="Writes that it has not read.")
    unread_since: fields.Word | None = Field(
        default=None, description="When the first of them completed."
    )


class MetadataPartition(fields.Block):
    """A partition of the metadata table."""

    name: fields.Word
    ready: bool = Field(description="Whether readers may use it; otherwise it is being built.")


class MetadataStatus(fields.Block):
    """The table's metadata table."""

    partitions: tuple[MetadataPartition, ...] | None = Field(
        default=None,
        max_length=100,
        json_schema_extra={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
    )
    delta_commits: int | None = Field(
        default=None, description="Delta commits of the metadata table since its last compaction."
    )
    action: fields.Word | None = Field(
        default=None, description="The TableAction that makes or drops the metadata table."
    )
    message: fields.Text | None = Field(
        default=None, description="Why the metadata table is not yet as declared."
    )


class MirrorStatus(fields.Block):
    """The table's mirror in Iceberg."""

    instant: fields.Word | None = Field(
        default=None, description="The newest write that the mirror has."
    )
    snapshots: int | None = Field(default=None, description="Number of snapshots that it keeps.")
    unmirrored_commits: int | None = Field(
        default=None, description="Commits that the mirror has not followed."
    )
    unmirrored_since: fields.Word | None = Field(
        default=None, description="When the first of them completed."
    )
    unmirrored_file_groups: int | None = Field(
        default=None,
        description="File groups with rows in log files alone, which a compaction brings in.",
    )
    unmirrored_log_bytes: int | None = Field(
        default=None, description="The size of these log files."
    )
    action: fields.Word | None = Field(
        default=None, description="The TableAction that brings the mirror up to date."
    )
    message: fields.Text | None = Field(default=None, description="Why the mirror is behind.")


class HudiTableStatus(conditions.Status):
    """The observed state of the table."""

    uri: fields.Text | None = None
    lock: fields.Text | None = Field(
        default=None, description="Address of the lock that the table's writers acquire."
    )
    protocol_hash: fields.Word | None = Field(
        default=None, description="Hash of everything that the writers must agree on."
    )
    settings: fields.Settings | None = Field(
        default=None, description="Settings of every run, by Apache Hudi's keys."
    )
    provisioned: bool = Field(
        default=False, description="Whether the table was created or adopted."
    )
    origin: Origin | None = Field(
        default=None, description="Whether the operator created or adopted the table."
    )
    runs: attempts.Runs | None = Field(
        default=None,
        description="Runs that create the table, and that delete its data.",
    )
    version: int | None = None
    commits: int | None = None
    latest_commit: LatestCommit | None = None
    backlog: Backlog | None = None
    writers: tuple[fields.Word, ...] | None = Field(
        default=None, max_length=100, description="Writers with an active run."
    )
    mismatches: tuple[PropertyMismatch, ...] | None = Field(default=None, max_length=20)
    services: tuple[ServiceStatus, ...] | None = Field(
        default=None,
        max_length=16,
        description="What each table service does, and why it does not run now.",
        json_schema_extra={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
    )
    stuck: tuple[StuckInstant, ...] | None = Field(
        default=None,
        max_length=20,
        description="Instants that are pending for longer than stuck.after of a policy.",
        json_schema_extra={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["instant", "type"],
        },
    )
    consumers: tuple[ConsumerStatus, ...] | None = Field(
        default=None,
        max_length=20,
        description="Declared consumers, those first that are the furthest behind.",
        json_schema_extra={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
    )
    metadata: MetadataStatus | None = None
    mirror: MirrorStatus | None = None


_SIMPLE_BUCKET_CEL = (
    "self.writeIndex.type == 'Bucket' && has(self.writeIndex.bucket) "
    "&& self.writeIndex.bucket.engine == 'Simple'"
)

_GLOBAL_INDEX_CEL = "self.writeIndex.type in ['GlobalSimple', 'GlobalBloom']"

_HOURS_PATTERN = "^([0-9]+[dh])+$"

_IS_THERE = "cannot be changed once the table was created or adopted"

RULES: rules.Rules[HudiTableSpec] = rules.Rules(
    within=(
        rules.Rule(
            name="one-schema",
            field="schema",
            message="needs exactly one of columns and avro",
            cel="has(self.schema.columns) != has(self.schema.avro)",
            holds=lambda spec: (spec.schema_.columns is None) != (spec.schema_.avro is None),
        ),
        execution.variables_rule("storage.env", lambda spec: spec.storage.env),
        rules.Rule(
            name="key-options-of-adopted-tables",
            field="keys.options",
            message="needs adoption AdoptOnly: a new table has no such key generator",
            cel="!has(self.keys.options) || self.adoption == 'AdoptOnly'",
            holds=lambda spec: spec.keys.options is None or spec.adoption is Adoption.ADOPT_ONLY,
        ),
        rules.Rule(
            name="supported-index",
            field="writeIndex",
            message="must have a bucket with type Bucket, and none with another type",
            cel="(self.writeIndex.type == 'Bucket') == has(self.writeIndex.bucket)",
            holds=lambda spec: (
                (spec.write_index.type is IndexType.BUCKET) == (spec.write_index.bucket is not None)
            ),
        ),
        rules.Rule(
            name="table-of-rings",
            field="writeIndex.bucket.engine",
            message="ConsistentHashing needs tableType MergeOnRead",
            cel=(
                "!has(self.writeIndex.bucket) || self.writeIndex.bucket.engine == 'Simple' "
                "|| self.tableType == 'MergeOnRead'"
            ),
            holds=lambda spec: (
                spec.write_index.bucket is None
                or spec.write_index.bucket.engine is BucketEngine.SIMPLE
                or not spec.is_copy_on_write
            ),
        ),
        rules.Rule(
            name="counts-of-partitions",
            field="writeIndex.bucket.partitionCounts",
            message=(
                "needs engine Simple, keys.partitionFields, concurrency.externalWriters and a "
                "concurrency.mode other than NonBlocking"
            ),
            cel=(
                "!has(self.writeIndex.bucket) || !has(self.writeIndex.bucket.partitionCounts) "
                "|| (self.writeIndex.bucket.engine == 'Simple' "
                "&& self.keys.partitionFields.size() > 0 && self.concurrency.externalWriters "
                "&& self.concurrency.mode != 'NonBlocking')"
            ),
            holds=lambda spec: (
                spec.write_index.bucket is None
                or spec.write_index.bucket.partition_counts is None
                or (
                    spec.is_simple_bucket
                    and bool(spec.keys.partition_fields)
                    and spec.concurrency.external_writers
                    and not spec.is_non_blocking
                )
            ),
        ),
        rules.Rule(
            name="kept-partitions",
            field="writeIndex.updatesPartitions",
            message="may be false with type GlobalSimple or GlobalBloom only",
            cel=f"self.writeIndex.updatesPartitions || {_GLOBAL_INDEX_CEL}",
            holds=lambda spec: (
                spec.write_index.updates_partitions or spec.write_index.type.is_global
            ),
        ),
        rules.Rule(
            name="whole-records-that-move",
            field="writeIndex.updatesPartitions",
            message=(
                "must be false with merge.partialUpdates and a global index: a record that moves "
                "to another partition is written as a whole"
            ),
            cel=(
                "!self.merge.partialUpdates || !self.writeIndex.updatesPartitions || "
                f"!({_GLOBAL_INDEX_CEL})"
            ),
            holds=lambda spec: (
                not (
                    spec.merge.partial_updates
                    and spec.write_index.updates_partitions
                    and spec.write_index.type.is_global
                )
            ),
        ),
        rules.Rule(
            name="non-blocking-table",
            field="concurrency.mode",
            message=(
                "NonBlocking needs tableType MergeOnRead and writeIndex Bucket with engine Simple"
            ),
            cel=(
                "self.concurrency.mode != 'NonBlocking' || "
                f"(self.tableType == 'MergeOnRead' && {_SIMPLE_BUCKET_CEL})"
            ),
            holds=lambda spec: (
                not spec.is_non_blocking or (not spec.is_copy_on_write and spec.is_simple_bucket)
            ),
        ),
        rules.Rule(
            name="non-blocking-lock",
            field="concurrency.lockRef",
            message="is required with mode NonBlocking",
            cel="self.concurrency.mode != 'NonBlocking' || has(self.concurrency.lockRef)",
            holds=lambda spec: not spec.is_non_blocking or spec.concurrency.lock_ref is not None,
        ),
        rules.Rule(
            name="object-store-lock",
            field="concurrency.lockRef",
            message=(
                "is required if storage.path is in an object store, and must name a LockProvider "
                "of another type than FileSystem: object stores do not support lock files"
            ),
            cel=(
                "has(self.concurrency.lockRef) || !self.storage.path.contains('://') "
                "|| self.storage.path.startsWith('file://')"
            ),
            holds=lambda spec: (
                spec.concurrency.lock_ref is not None
                or "://" not in spec.storage.path
                or spec.storage.path.startswith("file://")
            ),
        ),
        rules.Rule(
            name="retries-of-optimistic",
            field="concurrency.conflictRetries",
            message="is valid with mode Optimistic only: no other mode has conflicts",
            cel=("!has(self.concurrency.conflictRetries) || self.concurrency.mode == 'Optimistic'"),
            holds=lambda spec: spec.concurrency.conflict_retries is None or spec.is_optimistic,
        ),
        rules.Rule(
            name="resolution-of-optimistic",
            field="concurrency.conflictResolution",
            message="is valid with mode Optimistic only: no other mode has conflicts",
            cel=(
                "!has(self.concurrency.conflictResolution) || self.concurrency.mode == 'Optimistic'"
            ),
            holds=lambda spec: spec.concurrency.conflict_resolution is None or spec.is_optimistic,
        ),
        rules.Rule(
            name="early-detection-of-optimistic",
            field="concurrency.earlyConflictDetection",
            message="is valid with mode Optimistic only: no other mode has conflicts",
            cel=(
                "!has(self.concurrency.earlyConflictDetection) "
                "|| self.concurrency.mode == 'Optimistic'"
            ),
            holds=lambda spec: (
                spec.concurrency.early_conflict_detection is None or spec.is_optimistic
            ),
        ),
        rules.Rule(
            name="acknowledgement-of-non-blocking",
            field="concurrency.acknowledgeOrderDependence",
            message="is not valid with mode Optimistic: its result never depends on compactions",
            cel=(
                "self.concurrency.mode != 'Optimistic' "
                "|| !self.concurrency.acknowledgeOrderDependence"
            ),
            holds=lambda spec: (
                not spec.is_optimistic or not spec.concurrency.acknowledge_order_dependence
            ),
        ),
        rules.Rule(
            name="deletes-kept-in-hours",
            field="services.deletesKept",
            message="must be in whole hours, in units of d and h, such as 12h or 7d",
            cel=(
                "!has(self.services.deletesKept) "
                f"|| self.services.deletesKept.matches('{_HOURS_PATTERN}')"
            ),
            holds=lambda spec: (
                spec.services.deletes_kept is None
                or re.fullmatch(_HOURS_PATTERN, spec.services.deletes_kept, re.ASCII) is not None
            ),
        ),
        rules.Rule(
            name="event-time-ordering",
            field="keys.orderingFields",
            message="needs at least one field with merge mode EventTime",
            cel="self.merge.mode != 'EventTime' || size(self.keys.orderingFields) > 0",
            holds=lambda spec: (
                spec.merge.mode is not MergeMode.EVENT_TIME or bool(spec.keys.ordering_fields)
            ),
        ),
        rules.Rule(
            name="commit-time-without-ordering",
            field="keys.orderingFields",
            message=(
                "must be empty with merge mode CommitTime: Apache Hudi would change such a table "
                "to event time"
            ),
            cel="self.merge.mode != 'CommitTime' || size(self.keys.orderingFields) == 0",
            holds=lambda spec: (
                spec.merge.mode is not MergeMode.COMMIT_TIME or not spec.keys.ordering_fields
            ),
        ),
        rules.Rule(
            name="partial-updates-by-commit-time",
            field="merge.partialUpdates",
            message=(
                "needs merge mode CommitTime with NonBlocking writers, or "
                "acknowledgeOrderDependence: with event time the result would depend on the time "
                "of compactions"
            ),
            cel=(
                "!self.merge.partialUpdates || self.merge.mode == 'CommitTime' "
                "|| self.concurrency.mode != 'NonBlocking' "
                "|| self.concurrency.acknowledgeOrderDependence"
            ),
            holds=lambda spec: (
                not spec.merge.partial_updates
                or spec.merge.mode is MergeMode.COMMIT_TIME
                or not spec.is_non_blocking
                or spec.concurrency.acknowledge_order_dependence
            ),
        ),
        rules.Rule(
            name="one-ordering-field-in-version-8",
            field="keys.orderingFields",
            message="must not have more than one field with tableVersion 8",
            cel="self.tableVersion != 8 || size(self.keys.orderingFields) <= 1",
            holds=lambda spec: spec.table_version != 8 or len(spec.keys.ordering_fields) <= 1,  # noqa: PLR2004 - the format's own number
        ),
        rules.Rule(
            name="distinct-record-fields",
            field="keys.recordFields",
            message="must not contain a name twice",
            cel="self.keys.recordFields.all(f, self.keys.recordFields.exists_one(g, g == f))",
            holds=lambda spec: rules.have_no_duplicates(spec.keys.record_fields),
        ),
        rules.Rule(
            name="distinct-partition-fields",
            field="keys.partitionFields",
            message="must not contain a name twice",
            cel=(
                "self.keys.partitionFields.all(f, self.keys.partitionFields.exists_one(g, g == f))"
            ),
            holds=lambda spec: rules.have_no_duplicates(spec.keys.partition_fields),
        ),
        rules.Rule(
            name="bucket-of-key",
            field="writeIndex.bucket.fields",
            message="must contain only fields of keys.recordFields",
            cel=(
                "!has(self.writeIndex.bucket) || !has(self.writeIndex.bucket.fields) "
                "|| self.writeIndex.bucket.fields.all(f, f in self.keys.recordFields)"
            ),
            holds=lambda spec: (
                spec.write_index.bucket is None
                or set(spec.write_index.bucket.hash_fields or ()) <= set(spec.keys.record_fields)
            ),
        ),
        rules.Rule(
            name="distinct-volumes",
            field="storage.volumes",
            message="must not contain a name or a mountPath twice",
            cel=(
                "!has(self.storage.volumes) || self.storage.volumes.all(v, "
                "self.storage.volumes.exists_one(w, w.name == v.name) && "
                "self.storage.volumes.exists_one(w, w.mountPath == v.mountPath))"
            ),
            holds=lambda spec: (
                rules.have_no_duplicates(volume.name for volume in spec.storage.volumes or ())
                and rules.have_no_duplicates(
                    volume.mount_path for volume in spec.storage.volumes or ()
                )
            ),
        ),
        rules.Rule(
            name="volumes-beside-ours",
            field="storage.volumes",
            message=f"may not be mounted at or below {' or '.join(RESERVED_FOLDERS)}",
            cel=(
                "!has(self.storage.volumes) || self.storage.volumes.all(v, "
                + " && ".join(
                    f"v.mountPath != '{folder}' && !v.mountPath.startsWith('{folder}/')"
                    for folder in RESERVED_FOLDERS
                )
                + ")"
            ),
            holds=lambda spec: (
                not any(
                    f"{volume.mount_path}/".startswith(f"{folder}/")
                    for volume in spec.storage.volumes or ()
                    for folder in RESERVED_FOLDERS
                )
            ),
        ),
    ),
    between=(
        rules.immutable("storage.path", lambda spec: spec.storage.path),
        rules.fixed_by_provisioning("tableName", lambda spec: spec.table_name, _IS_THERE),
        rules.fixed_by_provisioning("database", lambda spec: spec.database, _IS_THERE),
        rules.fixed_by_provisioning("tableType", lambda spec: spec.table_type, _IS_THERE),
        rules.fixed_by_provisioning("tableVersion", lambda spec: spec.table_version, _IS_THERE),
        rules.fixed_by_provisioning("keys", lambda spec: spec.keys, _IS_THERE),
        rules.fixed_by_provisioning("merge", lambda spec: spec.merge, _IS_THERE),
        rules.fixed_by_provisioning("writeIndex", lambda spec: spec.write_index, _IS_THERE),
        rules.fixed_by_provisioning("timeZone", lambda spec: spec.time_zone, _IS_THERE),
        rules.fixed_by_provisioning(
            "schema",
            lambda spec: spec.schema_,
            f"{_IS_THERE}: it describes the initial columns. A Writer with "
            "source.files.addColumns adds columns",
        ),
    ),
)
