"""How one writer or service is to work: settings as a value, with Hudi's keys for each.

`KEYS` lists every key that something honours; `from_properties` refuses any other `hoodie.*` key: a
misspelt one is not ignored in silence.
"""

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from hoodie import errors

ADDS_COLUMNS_KEY = "hoodie.datasource.write.reconcile.schema"
SCRATCH_FOLDER_KEY = "hoodie.memory.spillable.map.path"

COMPACTION_MEMORY_BYTES_MIN = 512 << 20
"""Less does not hold what a merge has in memory beside the changes: row groups, and Python."""


class ConcurrencyMode(enum.Enum):
    """How several writers of a table get along, by Hudi's constant."""

    SINGLE_WRITER = "SINGLE_WRITER"
    OPTIMISTIC = "OPTIMISTIC_CONCURRENCY_CONTROL"
    NON_BLOCKING = "NON_BLOCKING_CONCURRENCY_CONTROL"


class LogBlockFormat(enum.Enum):
    """How records are stored in log files."""

    PARQUET = "parquet"
    AVRO = "avro"


class FailedWritesPolicy(enum.Enum):
    """When the files of failed writes are removed, by Hudi's constant."""

    EAGER = "EAGER"
    LAZY = "LAZY"
    NEVER = "NEVER"


class ConflictStrategy(enum.Enum):
    """What of two optimistic writes that overlap in time is a conflict; see `write.conflicts`."""

    SIMPLE = "simple"
    BUCKET_INDEX = "bucket-index"
    PREFER_WRITER = "prefer-writer"


class EarlyDetection(enum.Enum):
    """How optimistic writers find a conflict before they write; see `write.early_conflicts`."""

    SIMPLE = "simple-direct-marker"
    TRANSACTIONAL = "transactional-direct-marker"


class FutureTime(enum.Enum):
    """What to do about times on the timeline that lie ahead of our clock by more than the skew."""

    FAIL = "fail"
    ADVANCE = "advance"


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSettings:
    """Settings of a writer or of a table service.

    Attributes:
        concurrency: The concurrency mode.
        failed_writes_policy: Eagerly, before a single writer's next write; lazily, after anybody's
            next one; or never. None is eagerly for a single writer and lazily for several.
        log_block_format: Format of data blocks in log files.
        log_file_bytes_max: A log file that has grown to this rolls over to the next version.
        log_block_bytes_max: A data block holds about this many bytes of Arrow data at most.
        base_file_bytes_max: A new base file of a table whose writers look keys up has about this
            size at most.
        small_file_bytes: Inserts there go to base files below this size first; 0 for to none.
        parquet_codec: Compression of base files and parquet blocks: snappy, zstd, gzip or none.
        heartbeat_interval_ms: Between two heartbeats.
        heartbeat_misses_max: So many intervals without a beat and the writer counts as dead.
        clock_skew_ms_max: How far the writers' clocks may differ.
        clock_wait_ms: How long to wait under the lock after reading the clock: the skew beside
            JVM writers, 0 when all writers are ours (the floor keeps times monotonic).
        future_time: What to do about a timeline ahead of our clock.
        lock_wait_ms: How long one try to acquire the table lock may take.
        lock_retries_max: So many further tries follow one that did not get the lock.
        lock_retry_wait_ms: Pause before each of them.
        acknowledges_order_dependence: Accept a combination of writers whose merged result depends
            on when compaction runs.
        conflict_retries_max: How often a batch that lost against another write is written again.
        merges_inserts: Whether an insert into a copy-on-write table looks for the keys of its rows
            and merges them, as an upsert does; otherwise it only adds rows.
        combines_inserts: Whether the rows of one key that are in one insert or bulk insert become
            one row.
        drops_duplicates: Whether an insert or bulk insert leaves out rows whose key the table held
            when it began; it then combines its own as well.
        conflict_strategy: What is a conflict, under optimistic concurrency control.
        keeps_newer_columns: Publish the columns that the table has by then, where another writer
            changed them while a write was at work.
        adds_columns: Add what columns a batch has and the table lacks, and widen types for it.
        detects_conflicts_early: Look for optimistic writers of the same file groups before writing.
        early_detection: How.
        early_checks_commits: Look for what such writers have committed, too.
        deletes_kept_hours: How long a delete with an ordering value outlives the compaction that
            merged it, so that it holds against rows that come late; 0 for not at all.
        compaction_memory_bytes: Memory that compacting one file slice may take.
        scratch_folder: Where a compaction, or the write of a stream, puts what does not fit.
        metadata_delta_commits_max: So many delta commits of the metadata table wait for compaction.
        index_wait_s: So long a build of an index waits for writes of other engines, in seconds.
    """

    concurrency: ConcurrencyMode = ConcurrencyMode.SINGLE_WRITER
    failed_writes_policy: FailedWritesPolicy | None = None
    log_block_format: LogBlockFormat = LogBlockFormat.PARQUET
    log_file_bytes_max: int = 1 << 30
    log_block_bytes_max: int = 256 << 20
    base_file_bytes_max: int = 120 << 20
    small_file_bytes: int = 100 << 20
    parquet_codec: str = "snappy"
    heartbeat_interval_ms: int = 60_000
    heartbeat_misses_max: int = 10
    clock_skew_ms_max: int = 200
    clock_wait_ms: int = 200
    future_time: FutureTime = FutureTime.FAIL
    lock_wait_ms: int = 60_000
    lock_retries_max: int = 0
    lock_retry_wait_ms: int = 5_000
    acknowledges_order_dependence: bool = False
    conflict_retries_max: int = 0
    merges_inserts: bool = False
    combines_inserts: bool = False
    drops_duplicates: bool = False
    conflict_strategy: ConflictStrategy = ConflictStrategy.BUCKET_INDEX
    keeps_newer_columns: bool = True
    adds_columns: bool = False
    detects_conflicts_early: bool = False
    early_detection: EarlyDetection = EarlyDetection.SIMPLE
    early_checks_commits: bool = False
    deletes_kept_hours: int = 168
    compaction_memory_bytes: int = 1 << 30
    scratch_folder: str = "/tmp"  # noqa: S108 - as Apache Hudi
    metadata_delta_commits_max: int = 10
    index_wait_s: int = 900

    @property
    def heartbeat_expiry_ms(self) -> int:
        """Silence of this length is death."""
        return self.heartbeat_interval_ms * self.heartbeat_misses_max

    @property
    def effective_failed_writes_policy(self) -> FailedWritesPolicy:
        """The policy for failed writes, where none is set the one of the concurrency mode."""
        if self.failed_writes_policy is not None:
            return self.failed_writes_policy
        if self.concurrency is ConcurrencyMode.SINGLE_WRITER:
            return FailedWritesPolicy.EAGER
        return FailedWritesPolicy.LAZY

    @property
    def combines_rows_of_inserts(self) -> bool:
        """Whether an insert makes one row of its rows of one key."""
        return self.combines_inserts or self.drops_duplicates

    @property
    def contradiction(self) -> str | None:
        """What of these settings excludes each other; None when nothing does."""
        is_single = self.concurrency is ConcurrencyMode.SINGLE_WRITER
        if self.failed_writes_policy is FailedWritesPolicy.EAGER and not is_single:
            return (
                f"hoodie.clean.failed.writes.policy is EAGER with {self.concurrency.value}, "
                "expected LAZY or NEVER: EAGER would roll back live writers"
            )
        is_optimistic = self.concurrency is ConcurrencyMode.OPTIMISTIC
        if self.detects_conflicts_early and not is_optimistic:
            return (
                "hoodie.write.concurrency.early.conflict.detection.enable is true with "
                f"{self.concurrency.value}, expected {ConcurrencyMode.OPTIMISTIC.value}: no other "
                "mode has conflicts"
            )
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One configuration key.

    Attributes:
        name: Its name, Hudi's where Hudi has it.
        field: The field of `WriteSettings` that it sets; None for one that changes nothing here.
        parse: Makes the field's value of the text; raises ValueError with what is expected.
        meaning: For the documentation.
        aliases: Other names, older ones.
        default: As the text of the key, where that is not the field's.
    """

    name: str
    field: str | None
    parse: Callable[[str], Any]
    meaning: str
    aliases: tuple[str, ...] = ()
    default: str | None = None


def _one_of(kind: type[enum.Enum]) -> Callable[[str], enum.Enum]:
    members = {str(member.value).lower(): member for member in kind}

    def parse(text: str) -> enum.Enum:
        if text.lower() not in members:
            raise ValueError(f"expected one of {', '.join(str(m.value) for m in kind)}")
        return members[text.lower()]

    return parse


def _at_least(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise ValueError(f"expected a whole number of {least} or more")
        return int(text)

    return parse


def _codec(text: str) -> str:
    codec = {"uncompressed": "none"}.get(text.lower(), text.lower())
    if codec not in ("snappy", "zstd", "gzip", "none"):
        raise ValueError("expected snappy, zstd, gzip or none")
    return codec


_STRATEGIES = {
    "SimpleConcurrentFileWritesConflictResolutionStrategy": ConflictStrategy.SIMPLE,
    "BucketIndexConcurrentFileWritesConflictResolutionStrategy": ConflictStrategy.BUCKET_INDEX,
    "PreferWriterConflictResolutionStrategy": ConflictStrategy.PREFER_WRITER,
    **{each.value: each for each in ConflictStrategy},
}
"""By Apache Hudi's class, without its package, and by our own short names."""


_DETECTIONS = {
    "SimpleDirectMarkerBasedDetectionStrategy": EarlyDetection.SIMPLE,
    "SimpleTransactionDirectMarkerBasedDetectionStrategy": EarlyDetection.TRANSACTIONAL,
    **{each.value: each for each in EarlyDetection},
}
"""As `_STRATEGIES`."""


def _early_detection(text: str) -> EarlyDetection:
    detection = _DETECTIONS.get(text.removeprefix("org.apache.hudi.table.marker."))
    if detection is None:
        raise ValueError(f"expected one of {', '.join(_DETECTIONS)}: our markers are direct")
    return detection


def _conflict_strategy(text: str) -> ConflictStrategy:
    strategy = _STRATEGIES.get(text.removeprefix("org.apache.hudi.client.transaction."))
    if strategy is None:
        raise ValueError(f"expected one of {', '.join(_STRATEGIES)}")
    return strategy


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("expected true or false")
    return text.lower() == "true"


def _opposite(text: str) -> bool:
    return not _flag(text)


def _folder(text: str) -> str:
    if not text.startswith("/") or "\0" in text:
        raise ValueError("expected the absolute path of a local folder")
    return text


KEYS = (
    Key(
        name="hoodie.write.concurrency.mode",
        field="concurrency",
        parse=_one_of(ConcurrencyMode),
        meaning="concurrency control between the writers of the table",
    ),
    Key(
        name="hoodie.clean.failed.writes.policy",
        field="failed_writes_policy",
        parse=_one_of(FailedWritesPolicy),
        meaning="when failed writes are rolled back",
        aliases=("hoodie.cleaner.policy.failed.writes",),
        default="by the concurrency mode",
    ),
    Key(
        name="hoodie.logfile.data.block.format",
        field="log_block_format",
        parse=_one_of(LogBlockFormat),
        meaning="format of data blocks in log files",
    ),
    Key(
        name="hoodie.logfile.max.size",
        field="log_file_bytes_max",
        parse=_at_least(1),
        meaning="bytes after which a log file rolls over to the next version",
    ),
    Key(
        name="hoodie.logfile.data.block.max.size",
        field="log_block_bytes_max",
        parse=_at_least(1),
        meaning="approximate maximum size of the data in a log block, in bytes",
    ),
    Key(
        name="hoodie.parquet.max.file.size",
        field="base_file_bytes_max",
        parse=_at_least(1),
        meaning="approximate maximum size of a new base file, in bytes, in tables with a simple or "
        "bloom index",
    ),
    Key(
        name="hoodie.parquet.small.file.limit",
        field="small_file_bytes",
        parse=_at_least(0),
        meaning="inserts into tables with a simple or bloom index go to base files below this "
        "size first, in bytes; 0 for none",
    ),
    Key(
        name="hoodie.parquet.compression.codec",
        field="parquet_codec",
        parse=_codec,
        meaning="compression of base files and parquet log blocks",
    ),
    Key(
        name="hoodie.client.heartbeat.interval_in_ms",
        field="heartbeat_interval_ms",
        parse=_at_least(1000),
        meaning="milliseconds between two heartbeats",
    ),
    Key(
        name="hoodie.client.heartbeat.tolerable.misses",
        field="heartbeat_misses_max",
        parse=_at_least(1),
        meaning="number of missed heartbeats after which a writer counts as dead",
    ),
    Key(
        name="hoodie.time.generator.max_expected_clock_skew_ms",
        field="clock_skew_ms_max",
        parse=_at_least(0),
        meaning="maximum difference between the clocks of the writers, in milliseconds",
    ),
    Key(
        name="hoodie.write.lock.wait_time_ms",
        field="lock_wait_ms",
        parse=_at_least(0),
        meaning="maximum wait of one attempt to acquire the table lock, in milliseconds",
    ),
    Key(
        name="hoodie.write.lock.client.num_retries",
        field="lock_retries_max",
        parse=_at_least(0),
        meaning="further attempts to acquire the table lock; the default of Apache Hudi is 50",
    ),
    Key(
        name="hoodie.write.lock.client.wait_time_ms_between_retry",
        field="lock_retry_wait_ms",
        parse=_at_least(0),
        meaning="pause between two attempts to acquire the table lock, in milliseconds",
        aliases=("hoodie.write.lock.client.wait_time_ms",),
    ),
    Key(
        name="hoodie.write.num.retries.on.conflict.failures",
        field="conflict_retries_max",
        parse=_at_least(0),
        meaning="retries of a batch that lost a write conflict",
    ),
    Key(
        name="hoodie.merge.allow.duplicate.on.inserts",
        field="merges_inserts",
        parse=_opposite,
        meaning="copy-on-write: an insert only adds rows, even if their keys exist",
        default="true",
    ),
    Key(
        name="hoodie.combine.before.insert",
        field="combines_inserts",
        parse=_flag,
        meaning="an insert or bulk insert combines its rows of the same key into one",
    ),
    Key(
        name="hoodie.combine.before.upsert",
        field=None,
        parse=_flag,
        meaning="accepted and ignored: an upsert always combines rows of the same key, as in "
        "Apache Hudi",
        default="true",
    ),
    Key(
        name="hoodie.upsert.shuffle.parallelism",
        field=None,
        parse=_at_least(0),
        meaning="accepted and ignored: a task writes one file group, whatever the number",
        aliases=(
            "hoodie.insert.shuffle.parallelism",
            "hoodie.bulkinsert.shuffle.parallelism",
            "hoodie.delete.shuffle.parallelism",
            "write.tasks",
        ),
        default="0",
    ),
    Key(
        name="hoodie.datasource.write.insert.drop.duplicates",
        field="drops_duplicates",
        parse=_flag,
        meaning="an insert or bulk insert skips rows whose key was in the table when it began, "
        "and combines its own rows of the same key",
    ),
    Key(
        name="hoodie.write.lock.conflict.resolution.strategy",
        field="conflict_strategy",
        parse=_conflict_strategy,
        meaning=(
            "the conflict resolution of optimistic writers: a class of Apache Hudi, or simple, "
            "bucket-index or prefer-writer; with a bucket index, simple also compares by bucket"
        ),
    ),
    Key(
        name="hoodie.write.concurrency.schema.conflict.resolution.enable",
        field="keeps_newer_columns",
        parse=_flag,
        meaning="keep columns that another writer changed during a write",
    ),
    Key(
        name=ADDS_COLUMNS_KEY,
        field="adds_columns",
        parse=_flag,
        meaning=(
            "a write adds the columns of its batch that the table lacks, and widens types; columns "
            "that the batch lacks are null. CSV and JSON carry no types: their unknown columns are "
            "refused"
        ),
    ),
    Key(
        name="hoodie.write.concurrency.early.conflict.detection.enable",
        field="detects_conflicts_early",
        parse=_flag,
        meaning="check for other optimistic writers of the same file groups before writing to them",
    ),
    Key(
        name="hoodie.write.concurrency.early.conflict.detection.strategy",
        field="early_detection",
        parse=_early_detection,
        meaning=(
            "a class of Apache Hudi, or simple-direct-marker, or transactional-direct-marker, "
            "which "
            "checks and creates markers under the table lock"
        ),
    ),
    Key(
        name="hoodie.write.concurrency.early.conflict.check.commit.conflict",
        field="early_checks_commits",
        parse=_flag,
        meaning="also check for commits to the same file groups before writing to them",
    ),
    Key(
        name="hoodie.operator.clock.wait_ms",
        field="clock_wait_ms",
        parse=_at_least(0),
        meaning="wait after reading the clock under the lock, in milliseconds; 0 if no JVM "
        "writes the table",
    ),
    Key(
        name="hoodie.operator.future.time",
        field="future_time",
        parse=_one_of(FutureTime),
        meaning="fail or advance when the timeline is ahead of the clock by more than the skew",
    ),
    Key(
        name="hoodie.operator.compaction.deletes.kept.hours",
        field="deletes_kept_hours",
        parse=_at_least(0),
        meaning=(
            "how long a delete with an ordering value outlives the compaction that merged it, and "
            "applies to rows that arrive late"
        ),
    ),
    Key(
        name="hoodie.memory.compaction.max.size",
        field="compaction_memory_bytes",
        parse=_at_least(COMPACTION_MEMORY_BYTES_MIN),
        meaning=(
            "bytes of memory that compacting one file group may take; log files that need more are "
            "merged through the scratch folder; may differ between processes"
        ),
    ),
    Key(
        name=SCRATCH_FOLDER_KEY,
        field="scratch_folder",
        parse=_folder,
        meaning="local scratch folder of compactions and of streams that are written; its files "
        "have no names, and are freed when the process ends",
    ),
    Key(
        name="hoodie.metadata.compact.max.delta.commits",
        field="metadata_delta_commits_max",
        parse=_at_least(1),
        meaning="number of delta commits of the metadata table after which a writer compacts it",
    ),
    Key(
        name="hoodie.metadata.index.check.timeout.seconds",
        field="index_wait_s",
        parse=_at_least(0),
        meaning=(
            "seconds that a build of an index waits for pending writes of other engines, "
            "before it is given up"
        ),
    ),
    Key(
        name="hoodie.operator.acknowledge.order.dependence",
        field="acknowledges_order_dependence",
        parse=_flag,
        meaning="accept writers whose merged result depends on when compaction runs",
    ),
)

_BY_NAME = {name: key for key in KEYS for name in (key.name, *key.aliases)}


def from_properties(
    properties: Mapping[str, str], defaults: WriteSettings | None = None
) -> WriteSettings:
    """Return the settings that `hoodie.*` properties mean, on top of the defaults.

    Raises:
        ConfigurationError: A key is unknown or a value is not one of its key.
    """
    values = {}
    for name, text in properties.items():
        key = _BY_NAME.get(name)
        if key is None:
            raise errors.ConfigurationError(f"{name} is not a setting of a writer")
        try:
            value = key.parse(text.strip())
        except ValueError as error:
            raise errors.ConfigurationError(f"{name} is {text!r}, {error}") from None
        if key.field is not None:
            values[key.field] = value
    return replace(defaults or WriteSettings(), **values)


def to_properties(found: WriteSettings) -> dict[str, str]:
    """Return the settings as they take effect, by Hudi's keys; `from_properties` reads them."""
    return {key.name: _text(found, key) for key in KEYS if key.field is not None}


def _text(found: WriteSettings, key: Key) -> str:
    assert key.field is not None, key.name
    value = getattr(found, key.field)
    if value is None:
        value = found.effective_failed_writes_policy
    if isinstance(value, bool):
        return "true" if value is not (key.parse is _opposite) else "false"
    return str(value.value if isinstance(value, enum.Enum) else value)
