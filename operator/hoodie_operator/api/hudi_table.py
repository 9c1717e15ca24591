"""HudiTable: one table, with everything that all its writers must agree on."""

import enum
from typing import Annotated, Final

from pydantic import Field, StringConstraints

from hoodie.services.mirrors import names as mirror_names
from hoodie_operator.api import execution, fields

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


class MirrorCatalog(fields.Block):
    """A place in an Iceberg catalog."""

    name: Annotated[
        str,
        StringConstraints(
            pattern=r"^[A-Za-z0-9_.+-]+(://([!-.0-9;-?A-~]+@)?[!-?A-~]*)?$", max_length=512
        ),
    ] = Field(
        description=(
            "The catalog: a name that PyIceberg is configured with by variables of storage.env "
            "(PYICEBERG_CATALOG__NAME__URI and others), or the URI of a REST or SQL catalog, "
            "without a password."
        )
    )
    table: Annotated[
        str,
        StringConstraints(pattern=r"^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)+$", max_length=255),
    ] = Field(description="The name of the mirror there: namespace and table, such as lake.trips.")

    @property
    def consumer(self) -> str:
        """The mirror's consumer."""
        return mirror_names.consumer_of(self.name, self.table)


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
    catalog: MirrorCatalog | None = Field(
        default=None,
        description=(
            "The catalog that the mirror is in; by default it is in the folder alone. One that was "
            "made elsewhere before is left as it is."
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

    @property
    def consumer(self) -> str:
        """The mirror's consumer."""
        return mirror_names.CONSUMER if self.catalog is None else self.catalog.consumer


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
