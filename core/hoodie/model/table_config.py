"""The table's own configuration: the content of `.hoodie/hoodie.properties` as a value.

Keys and their inference follow `HoodieTableConfig.java` (1.2.0). Bytes are read and written by
`hoodie.format.properties`, the update protocol is `hoodie.timeline.table_properties`.
"""

import enum
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from hoodie import errors
from hoodie.model import time_zones
from hoodie.model.change_data import LoggingMode

VERSION_WITH_PAYLOADS = 8
"""The older version: it stores a payload class and a strategy id beside the merge mode."""

VERSIONS_READABLE = (VERSION_WITH_PAYLOADS, 9)
VERSION_DEFAULT = 9
TIMELINE_LAYOUT = "2"

INDEX_KEY = "hoodie.operator.index"
"""Not Apache Hudi's `hoodie.index.type`: it refuses writers that name another one than the table's
properties, though those with a simple and with a bloom index go well together."""
PARTITION_UPDATES_KEY = "hoodie.operator.index.update.partition.path"

KEY_ENCODING_KEY = "hoodie.table.complex.keygen.encoding"
BUCKET_COUNT_KEY = "hoodie.bucket.index.num.buckets"
HASH_FIELDS_KEY = "hoodie.bucket.index.hash.field"
VERSION_NAMING_KEYS = 9
"""From this version on all releases name the one key field of COMPLEX in record keys."""
CHAIN_KEY = "hoodie.operator.chain"
FOREIGN_WRITERS_KEY = "hoodie.operator.foreign.writers"
EPOCH_KEY = "hoodie.operator.epoch"
"""The number of the epoch that was the last to change the properties."""
TIME_ZONE_KEY = "hoodie.operator.timeline.zone"
"""Of which zone the times of a timeline in local time are, by its name in the IANA database."""
TABLE_ID_KEY = "hoodie.operator.table.id"
"""Of this very table: one that is dropped and made again under its name has another."""
CHAIN_VERSION = 1
"""Of the epochs of a table that was never archived, and never lost a savepoint or a plan."""
CHAIN_VERSION_NEWEST = 4
"""Of the others; a greater one is for later releases.

A writer that does not know them would forget what was archived or deleted: what a paused process
brings back would count again.
"""
DROPS_PARTITION_COLUMNS_KEY = "hoodie.datasource.write.drop.partition.columns"
"""Whether partition columns count as in paths alone: `model.partition_columns`."""
CHANGE_DATA_CAPTURE_KEY = "hoodie.table.cdc.enabled"
CHANGE_DATA_MODE_KEY = "hoodie.table.cdc.supplemental.logging.mode"
CHANGE_DATA_IMAGES_SINCE_KEY = "hoodie.operator.cdc.images.since"
"""Writes that were requested up to this time have stored less than the mode says, of a table whose
mode was another before."""
BOOTSTRAP_BASE_PATH_KEY = "hoodie.bootstrap.base.path"
METADATA_FILES = "files"
"""The partition of a metadata table that lists files; no other is there without it."""

METADATA_PARTITIONS_KEY = "hoodie.table.metadata.partitions"
METADATA_PARTITIONS_INFLIGHT_KEY = "hoodie.table.metadata.partitions.inflight"
METADATA_PARTITIONS_OWN_KEY = "hoodie.operator.metadata.partitions.building"
"""Those that this project builds in a table that other engines write as well. One that is named as
ready, too, is published and not confirmed yet."""
METADATA_PARTITIONS_BUILT_BY_KEY = "hoodie.operator.metadata.partitions.built.by"
"""The requested time of the indexing action that named partitions there last: once they are ready,
its builder may have died before the action completed."""
INDEX_DEFINITIONS_PATH_KEY = "hoodie.table.index.defs.path"
STATISTICS_COLUMNS_KEY = "hoodie.operator.metadata.column.stats.columns"
"""The columns that statistics were asked for; all that Apache Hudi takes by default without it.

The definitions of indexes do not say whether columns that are added later are among them.
"""

_LAYOUT: Mapping[str, str] = {
    "hoodie.timeline.path": "timeline",
    "hoodie.timeline.history.path": "history",
    "hoodie.table.format": "native",
    "hoodie.table.multiple.base.file.formats.enable": "false",
}
"""Where and how a table keeps what is read here; what it leaves out has these values."""
_PAYLOADS = "org.apache.hudi.common.model."
_DELETE_FIELD_KEY = "hoodie.record.merge.property.hoodie.payload.delete.field"
_DELETE_MARKER_KEY = "hoodie.record.merge.property.hoodie.payload.delete.marker"


class TableType(enum.Enum):
    """How updates are stored."""

    MERGE_ON_READ = "MERGE_ON_READ"
    COPY_ON_WRITE = "COPY_ON_WRITE"


class IndexKind(enum.Enum):
    """How writers find the file group of a record key, by Apache Hudi's constant."""

    BUCKET = "BUCKET"  # The key alone says it.
    CONSISTENT_HASHING = "CONSISTENT_HASHING"  # Key and partition do; an engine of BUCKET.
    SIMPLE = "SIMPLE"  # The keys of its partition are read.
    BLOOM = "BLOOM"  # The same, but without files whose bloom filter has none of the keys.
    GLOBAL_SIMPLE = "GLOBAL_SIMPLE"  # As SIMPLE, in all partitions.
    GLOBAL_BLOOM = "GLOBAL_BLOOM"

    @property
    def has_buckets(self) -> bool:
        """Whether a file group is found without looking into files."""
        return self in (IndexKind.BUCKET, IndexKind.CONSISTENT_HASHING)

    @property
    def is_global(self) -> bool:
        """Whether a key is unique in the table, and not only in its partition."""
        return self in (IndexKind.GLOBAL_SIMPLE, IndexKind.GLOBAL_BLOOM)

    @property
    def asks_bloom_filters(self) -> bool:
        """Whether writers leave base files out by their bloom filters."""
        return self in (IndexKind.BLOOM, IndexKind.GLOBAL_BLOOM)


class KeyEncoding(enum.StrEnum):
    """What COMPLEX makes of a single key field, as `KEY_ENCODING_KEY` has it.

    Releases after 1.2 put it into a table that is upgraded from version 8, and obey it.
    """

    FIELD_PREFIXED = "FIELD_PREFIXED"
    VALUE_ONLY = "VALUE_ONLY"


class MergeMode(enum.Enum):
    """Which of two versions of a record wins."""

    COMMIT_TIME = "COMMIT_TIME_ORDERING"
    EVENT_TIME = "EVENT_TIME_ORDERING"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Merging:
    """One row of the table of merge properties: what they mean and how each version spells it."""

    mode: MergeMode
    has_partial_updates: bool
    payload: str
    strategy_id: str
    v8_mode: str


_EVENT_TIME_ID = "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"
_COMMIT_TIME_ID = "ce9acb64-bde0-424c-9b91-f6ebba25356d"
_PAYLOAD_BASED_ID = "00000000-0000-0000-0000-000000000000"

_MERGING = (
    _Merging(
        mode=MergeMode.EVENT_TIME,
        has_partial_updates=False,
        payload="DefaultHoodieRecordPayload",
        strategy_id=_EVENT_TIME_ID,
        v8_mode="EVENT_TIME_ORDERING",
    ),
    _Merging(
        mode=MergeMode.COMMIT_TIME,
        has_partial_updates=False,
        payload="OverwriteWithLatestAvroPayload",
        strategy_id=_COMMIT_TIME_ID,
        v8_mode="COMMIT_TIME_ORDERING",
    ),
    _Merging(
        mode=MergeMode.EVENT_TIME,
        has_partial_updates=True,
        payload="PartialUpdateAvroPayload",
        strategy_id=_PAYLOAD_BASED_ID,
        v8_mode="CUSTOM",
    ),
    _Merging(
        mode=MergeMode.COMMIT_TIME,
        has_partial_updates=True,
        payload="OverwriteNonDefaultsWithLatestAvroPayload",
        strategy_id=_PAYLOAD_BASED_ID,
        v8_mode="CUSTOM",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainName:
    """The value of `CHAIN_KEY`: which chain a table has (`hoodie.timeline.chain`).

    Attributes:
        id: Of this chain alone.
        version: Of its format.
    """

    id: str
    version: int = CHAIN_VERSION

    def __str__(self) -> str:
        return f"{self.version}:{self.id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableConfig:
    """A table's configuration.

    Attributes:
        name: The table's name.
        database: The database's name; empty for none.
        table_type: Merge-on-read or copy-on-write.
        version: Table version.
        record_key_fields: One or more column names.
        partition_fields: Column names; empty for a non-partitioned table.
        ordering_fields: Column names; at most one in version 8.
        merge_mode: Which version of a record wins.
        has_partial_updates: Whether a null in the newer version keeps the older value
            (IGNORE_DEFAULTS).
        is_hive_style: Whether partition paths read `field=value`.
        is_url_encoded: Whether partition values are percent-encoded.
        drops_partition_columns: Whether data files may lack the partition columns.
        create_schema: Avro JSON given at creation; None when it is only in the commits.
        index: How writers find records, as declared; None when the table does not say.
        updates_partitions: With a global index: whether a record whose partition changes moves
            there, or stays in its partition and is updated in it.
        bucket_count: Buckets of the simple bucket index, or those that a partition begins with
            under consistent hashing; None when the table does not say.
        hash_fields: Columns the bucket is computed from; the record key's by default.
        delete_marker: Column and value that mark a row as deleted; None when not configured.
        change_data: What writes say of what they changed, beside the data; None for nothing.
        metadata_partitions: Ready partitions of the metadata table.
        metadata_partitions_inflight: Those being built.
        metadata_partitions_own: Those of them that this project builds where other engines write,
            and which its writers keep up.
        time_zone: Of the timeline's times; None where they are local times of a zone that the table
            does not tell.
        table_id: Of this very table, drawn when it was made or adopted; None of one that was not.
        chain: The chain that orders all changes of the table; None for a table without one.
        has_foreign_writers: Whether other engines may change the table as well.
        properties: Every property as stored, for what has no field here.
    """

    name: str
    database: str = ""
    table_type: TableType = TableType.MERGE_ON_READ
    version: int = VERSION_DEFAULT
    record_key_fields: tuple[str, ...]
    partition_fields: tuple[str, ...] = ()
    ordering_fields: tuple[str, ...] = ()
    merge_mode: MergeMode = MergeMode.COMMIT_TIME
    has_partial_updates: bool = False
    is_hive_style: bool = False
    is_url_encoded: bool = False
    drops_partition_columns: bool = False
    create_schema: str | None = field(default=None, repr=False)
    index: IndexKind | None = None
    updates_partitions: bool = True
    bucket_count: int | None = None
    hash_fields: tuple[str, ...] = ()
    delete_marker: tuple[str, str] | None = None
    change_data: LoggingMode | None = None
    metadata_partitions: tuple[str, ...] = ()
    metadata_partitions_inflight: tuple[str, ...] = ()
    metadata_partitions_own: tuple[str, ...] = ()
    time_zone: time_zones.TimeZone | None = time_zones.UTC_ZONE
    table_id: str | None = None
    chain: ChainName | None = None
    has_foreign_writers: bool = True
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def zone(self) -> time_zones.TimeZone:
        """The time zone of the timeline; UTC where the table does not tell: ages may be wrong."""
        return self.time_zone or time_zones.UTC_ZONE

    @property
    def has_metadata_table(self) -> bool:
        """Whether it has one that is ready: that lists its files."""
        return METADATA_FILES in self.metadata_partitions

    @property
    def metadata_partitions_kept_up(self) -> tuple[str, ...]:
        """Partitions of the metadata table that every change keeps up: ready, or being built.

        Another engine keeps what it builds up by itself.
        """
        building = self.metadata_partitions_inflight
        if self.has_foreign_writers:
            building = self.metadata_partitions_own
        return (*self.metadata_partitions, *building)

    @property
    def metadata_partitions_unconfirmed(self) -> tuple[str, ...]:
        """Those that this project has published and not confirmed: ready for other engines."""
        stored = _names(self.properties, METADATA_PARTITIONS_KEY)
        return tuple(name for name in self.metadata_partitions_own if name in stored)

    @property
    def statistics_columns(self) -> tuple[str, ...] | None:
        """The columns that statistics were asked for; None for those by default."""
        return _names(self.properties, STATISTICS_COLUMNS_KEY) or None

    @property
    def is_copy_on_write(self) -> bool:
        """Whether each write makes base files; otherwise it may make log files."""
        return self.table_type is TableType.COPY_ON_WRITE

    def stores_images_of(self, requested_time: str) -> bool:
        """Return whether change data that a write stored has the rows before and after.

        The mode stays in the properties when change data is no longer captured.
        """
        mode = self.change_data or _logging_mode(self.properties)
        since = self.properties.get(CHANGE_DATA_IMAGES_SINCE_KEY, "")
        return mode is LoggingMode.DATA_BEFORE_AFTER and requested_time > since

    @property
    def bootstrap_base_path(self) -> str | None:
        """Where the files are that the table was bootstrapped from; None where it was not."""
        return self.properties.get(BOOTSTRAP_BASE_PATH_KEY) or None

    @property
    def index_kind(self) -> IndexKind | None:
        """How writers find records: as declared, or by buckets if their number is; else None."""
        if INDEX_KEY in self.properties and self.index is None:
            return None  # One that is not written.
        if self.index is None and self.bucket_count is not None:
            return IndexKind.BUCKET
        return self.index

    @property
    def states_index(self) -> bool:
        """Whether the table says how records are found, also if that is not written."""
        return INDEX_KEY in self.properties or self.index_kind is not None

    @property
    def was_upgraded(self) -> bool:
        """Whether it was made as one of a version that is not read here."""
        initial = self.properties.get("hoodie.table.initial.version", "")
        return initial.isdecimal() and int(initial) < min(VERSIONS_READABLE)

    @property
    def looks_keys_up(self) -> bool:
        """Whether writers find records by their keys in files, not by the keys alone."""
        return self.index is not None and not self.index.has_buckets

    @property
    def has_global_index(self) -> bool:
        """Whether a key is unique in the table, and not only in its partition."""
        return self.index is not None and self.index.is_global

    @property
    def bucket_fields(self) -> tuple[str, ...]:
        """The columns that decide a record's bucket."""
        return self.hash_fields or self.record_key_fields


def checksum(config: TableConfig) -> int:
    """Return the CRC32 that `hoodie.table.checksum` must hold: of database, a dot, and name."""
    return zlib.crc32(f"{config.database}.{config.name}".encode())


def to_properties(config: TableConfig) -> dict[str, str]:
    """Return the properties of a new table, as Apache Hudi spells them for its version."""
    merging = next(
        row
        for row in _MERGING
        if (row.mode, row.has_partial_updates) == (config.merge_mode, config.has_partial_updates)
    )
    properties = {
        "hoodie.table.name": config.name,
        "hoodie.table.type": config.table_type.value,
        "hoodie.table.version": str(config.version),
        "hoodie.table.initial.version": str(config.version),
        "hoodie.timeline.layout.version": TIMELINE_LAYOUT,
        "hoodie.timeline.path": "timeline",
        "hoodie.timeline.history.path": "history",
        "hoodie.table.timeline.timezone": "UTC",
        "hoodie.table.checksum": str(checksum(config)),
        **_record_key(config),
        "hoodie.table.partition.fields": ",".join(config.partition_fields),
        "hoodie.table.keygenerator.type": _key_generator(config),
        "hoodie.table.base.file.format": "PARQUET",
        "hoodie.populate.meta.fields": "true",
        "hoodie.datasource.write.hive_style_partitioning": _text(config.is_hive_style),
        "hoodie.datasource.write.partitionpath.urlencode": _text(config.is_url_encoded),
        DROPS_PARTITION_COLUMNS_KEY: _text(config.drops_partition_columns),
        "hoodie.archivelog.folder": "history",
    }
    if config.database:
        properties["hoodie.database.name"] = config.database
    is_complex = properties["hoodie.table.keygenerator.type"] == "COMPLEX"
    if is_complex and len(config.record_key_fields) == 1 and config.version < VERSION_NAMING_KEYS:
        properties[KEY_ENCODING_KEY] = KeyEncoding.FIELD_PREFIXED.value
    if config.create_schema is not None:
        properties["hoodie.table.create.schema"] = config.create_schema
    if config.index is not None:
        properties |= index_properties(config.index, updates_partitions=config.updates_partitions)
    if config.change_data is not None:
        properties[CHANGE_DATA_CAPTURE_KEY] = _text(True)
        properties[CHANGE_DATA_MODE_KEY] = config.change_data.value
    if config.bucket_count is not None:
        properties[BUCKET_COUNT_KEY] = str(config.bucket_count)
        properties[HASH_FIELDS_KEY] = ",".join(config.bucket_fields)
    properties |= {} if config.table_id is None else {TABLE_ID_KEY: config.table_id}
    properties |= chain_properties(config)
    if config.version == VERSION_WITH_PAYLOADS:
        properties["hoodie.record.merge.mode"] = merging.v8_mode
        properties["hoodie.record.merge.strategy.id"] = merging.strategy_id
        properties["hoodie.compaction.payload.class"] = _PAYLOADS + merging.payload
        ordering_key = "hoodie.table.precombine.field"
    else:
        properties["hoodie.table.format"] = "native"
        properties["hoodie.record.merge.mode"] = config.merge_mode.value
        if config.has_partial_updates:
            properties["hoodie.table.partial.update.mode"] = "IGNORE_DEFAULTS"
        ordering_key = "hoodie.table.ordering.fields"
    if config.ordering_fields:
        properties[ordering_key] = ",".join(config.ordering_fields)
    return properties


def _record_key(config: TableConfig) -> dict[str, str]:
    """Return the property that names the key fields; none for none, since it would name one."""
    names = ",".join(config.record_key_fields)
    return {"hoodie.table.recordkey.fields": names} if names else {}


def index_properties(index: IndexKind, *, updates_partitions: bool) -> dict[str, str]:
    """Return the properties that say how records are found, of a table without buckets."""
    properties = {INDEX_KEY: index.value}
    if index.is_global:
        properties[PARTITION_UPDATES_KEY] = _text(updates_partitions)
    return properties


def metadata_properties(config: TableConfig) -> dict[str, str]:
    """Return the properties of a table's metadata table, as Apache Hudi spells them."""
    name = f"{config.name}_metadata"
    return {
        "hoodie.table.name": name,
        "hoodie.table.type": TableType.MERGE_ON_READ.value,
        "hoodie.table.version": str(config.version),
        "hoodie.table.initial.version": str(config.version),
        "hoodie.timeline.layout.version": TIMELINE_LAYOUT,
        "hoodie.timeline.path": "timeline",
        "hoodie.timeline.history.path": "history",
        "hoodie.archivelog.folder": "history",
        "hoodie.table.checksum": str(zlib.crc32(f".{name}".encode())),
        "hoodie.table.recordkey.fields": "key",
        "hoodie.table.keygenerator.type": "HOODIE_TABLE_METADATA",
        "hoodie.table.base.file.format": "HFILE",
        "hoodie.populate.meta.fields": "false",
        DROPS_PARTITION_COLUMNS_KEY: _text(False),
        "hoodie.record.merge.mode": "CUSTOM",
        "hoodie.record.merge.strategy.id": _PAYLOAD_BASED_ID,
        "hoodie.compaction.payload.class": "org.apache.hudi.metadata.HoodieMetadataPayload",
    }


def change_data_properties(
    config: TableConfig, mode: LoggingMode | None, newest: str
) -> dict[str, str | None]:
    """Return what changes of a table's properties for it to capture change data so from now on.

    Args:
        config: The table's configuration.
        mode: What its writes are to store; None for nothing.
        newest: The greatest requested time; no older write is pending.

    Returns:
        New values by key, None to remove one; empty if it does so already.
    """
    if mode is config.change_data:
        return {}
    if mode is None:
        return {CHANGE_DATA_CAPTURE_KEY: _text(False)}
    found: dict[str, str | None] = {
        CHANGE_DATA_CAPTURE_KEY: _text(True),
        CHANGE_DATA_MODE_KEY: mode.value,
    }
    had = config.properties.get(CHANGE_DATA_MODE_KEY)
    if had is not None and had.upper() != mode.value:
        found[CHANGE_DATA_IMAGES_SINCE_KEY] = newest
    return found


def chain_properties(config: TableConfig) -> dict[str, str]:
    """Return the properties that say which chain a table has, and who writes it."""
    properties = {} if config.chain is None else {CHAIN_KEY: str(config.chain)}
    if not config.has_foreign_writers:
        properties[FOREIGN_WRITERS_KEY] = _text(config.has_foreign_writers)
    return properties


def epoch_of(properties: Mapping[str, str]) -> int:
    """Return the number of the epoch that changed properties last; -1 for none."""
    text = properties.get(EPOCH_KEY, "")
    return int(text) if text.isdecimal() else -1


def from_properties(properties: Mapping[str, str]) -> TableConfig:
    """Return the configuration that stored properties mean.

    Raises:
        FormatError: A needed property is missing or has an unknown value, or the checksum is wrong.
        UnsupportedError: The table's version, layout or payload is one we do not read.
    """
    name = _required(properties, "hoodie.table.name")
    version = _version(properties)
    mode, has_partial_updates = _merging(properties, version)
    delete_field = properties.get(_DELETE_FIELD_KEY)
    bucket_count = properties.get(BUCKET_COUNT_KEY)
    ready, building, own = _metadata_partitions(properties)
    config = TableConfig(
        name=name,
        database=properties.get("hoodie.database.name", ""),
        table_type=_table_type(properties),
        version=version,
        record_key_fields=_names(properties, "hoodie.table.recordkey.fields"),
        # A CUSTOM key generator's fields read `field:SIMPLE`.
        partition_fields=tuple(
            name.partition(":")[0] for name in _names(properties, "hoodie.table.partition.fields")
        ),
        ordering_fields=_names(properties, "hoodie.table.ordering.fields")
        or _names(properties, "hoodie.table.precombine.field"),
        merge_mode=mode,
        has_partial_updates=has_partial_updates,
        is_hive_style=_flag(properties, "hoodie.datasource.write.hive_style_partitioning"),
        is_url_encoded=_flag(properties, "hoodie.datasource.write.partitionpath.urlencode"),
        drops_partition_columns=_flag(properties, DROPS_PARTITION_COLUMNS_KEY),
        create_schema=properties.get("hoodie.table.create.schema"),
        index=_index(properties),
        updates_partitions=properties.get(PARTITION_UPDATES_KEY, "true").lower() == "true",
        bucket_count=_positive(BUCKET_COUNT_KEY, bucket_count) if bucket_count else None,
        hash_fields=_names(properties, HASH_FIELDS_KEY),
        delete_marker=(delete_field, properties.get(_DELETE_MARKER_KEY, ""))
        if delete_field
        else None,
        change_data=_change_data(properties),
        metadata_partitions=ready,
        metadata_partitions_inflight=building,
        metadata_partitions_own=own,
        time_zone=_time_zone(properties),
        table_id=properties.get(TABLE_ID_KEY) or None,
        chain=_chain(properties),
        has_foreign_writers=properties.get(FOREIGN_WRITERS_KEY, "").lower() != "false",
        properties=dict(properties),
    )
    _check(config)
    return config


def _check(config: TableConfig) -> None:
    stored = config.properties.get("hoodie.table.checksum")
    if stored is not None and stored != str(checksum(config)):
        raise errors.FormatError(
            f"hoodie.properties of table {config.name!r}: hoodie.table.checksum is {stored}, "
            f"expected {checksum(config)}"
        )
    for key, expected in _LAYOUT.items():
        value = config.properties.get(key) or expected
        if value.lower() != expected:
            # Another timeline would be taken for a table without rows.
            raise errors.UnsupportedError(
                f"table {config.name!r} has {key}={value}, expected {expected}: copy it with "
                "Apache Hudi to a table that has the default"
            )
    if config.properties.get("hoodie.populate.meta.fields", "").lower() == "false":
        raise errors.UnsupportedError(
            f"table {config.name!r} has hoodie.populate.meta.fields=false, expected rows with "
            "record keys of their own: copy them with Apache Hudi to a table that has meta fields"
        )
    base_format = config.properties.get("hoodie.table.base.file.format", "PARQUET")
    if base_format.upper() != "PARQUET":
        raise errors.UnsupportedError(
            f"table {config.name!r} has base files of format {base_format}, expected PARQUET"
        )


def _version(properties: Mapping[str, str]) -> int:
    text = _required(properties, "hoodie.table.version")
    if text not in {str(version) for version in VERSIONS_READABLE}:
        way_out = ""
        if text.isdecimal() and int(text) < min(VERSIONS_READABLE):
            way_out = (
                ": upgrade it by CALL upgrade_table(table => 'NAME', to_version => 'EIGHT') of "
                "Spark SQL with Apache Hudi 1 (docs/adopt.md, also where that returns false)"
            )
        raise errors.UnsupportedError(f"table version {text} is not read, expected 8 or 9{way_out}")
    layout = properties.get("hoodie.timeline.layout.version")
    if layout != TIMELINE_LAYOUT:
        raise errors.UnsupportedError(f"timeline layout {layout} is not read, expected 2")
    return int(text)


def _merging(properties: Mapping[str, str], version: int) -> tuple[MergeMode, bool]:
    has_ordering = any(
        properties.get(key)
        for key in ("hoodie.table.ordering.fields", "hoodie.table.precombine.field")
    )
    inferred = MergeMode.EVENT_TIME if has_ordering else MergeMode.COMMIT_TIME
    stored = properties.get("hoodie.record.merge.mode", inferred.value).upper()
    payload = properties.get("hoodie.compaction.payload.class", "")
    if stored == "CUSTOM":
        for row in _MERGING:
            if version == VERSION_WITH_PAYLOADS and payload == _PAYLOADS + row.payload:
                return row.mode, row.has_partial_updates
        strategy = properties.get("hoodie.record.merge.strategy.id", "")
        raise errors.UnsupportedError(
            f"custom merging by {payload or strategy} is not supported, expected commit time or "
            "event time ordering"
        )
    try:
        mode = MergeMode(stored)
    except ValueError:
        raise errors.FormatError(
            f"hoodie.record.merge.mode is {stored!r}, expected "
            "COMMIT_TIME_ORDERING, EVENT_TIME_ORDERING or CUSTOM"
        ) from None
    partial = properties.get("hoodie.table.partial.update.mode", "").upper()
    if partial not in ("", "IGNORE_DEFAULTS"):
        raise errors.UnsupportedError(
            f"partial update mode {partial} is not supported, expected IGNORE_DEFAULTS: read the "
            "table with Apache Hudi, or copy it with that to one of another merge mode"
        )
    return mode, partial == "IGNORE_DEFAULTS"


def _change_data(properties: Mapping[str, str]) -> LoggingMode | None:
    return _logging_mode(properties) if _flag(properties, CHANGE_DATA_CAPTURE_KEY) else None


def _logging_mode(properties: Mapping[str, str]) -> LoggingMode:
    text = properties.get(CHANGE_DATA_MODE_KEY) or LoggingMode.DATA_BEFORE_AFTER.value
    try:
        return LoggingMode(text.upper())
    except ValueError:
        names = ", ".join(mode.value for mode in LoggingMode)
        raise errors.FormatError(
            f"{CHANGE_DATA_MODE_KEY} is {text!r}, expected one of {names}"
        ) from None


def _chain(properties: Mapping[str, str]) -> ChainName | None:
    text = properties.get(CHAIN_KEY)
    if not text:
        return None
    version, _, chain_id = text.partition(":")
    if not version.isdecimal() or not chain_id:
        raise errors.FormatError(f"{CHAIN_KEY} is {text!r}, expected VERSION:ID")
    return ChainName(id=chain_id, version=int(version))


def _time_zone(properties: Mapping[str, str]) -> time_zones.TimeZone | None:
    if properties.get("hoodie.table.timeline.timezone", "LOCAL").upper() == "UTC":
        return time_zones.UTC_ZONE
    name = properties.get(TIME_ZONE_KEY)
    return time_zones.TimeZone(name) if name else None


def _table_type(properties: Mapping[str, str]) -> TableType:
    text = _required(properties, "hoodie.table.type")
    try:
        return TableType(text.upper())
    except ValueError:
        raise errors.FormatError(
            f"hoodie.table.type is {text!r}, expected MERGE_ON_READ or COPY_ON_WRITE"
        ) from None


def _index(properties: Mapping[str, str]) -> IndexKind | None:
    """Return the kind that a table declares; None of one that is not written, or for none."""
    text = properties.get(INDEX_KEY, "").upper()
    return next((kind for kind in IndexKind if kind.value == text), None)


def _key_generator(config: TableConfig) -> str:
    if not config.partition_fields:
        return "NON_PARTITION"
    if len(config.record_key_fields) <= 1 and len(config.partition_fields) == 1:
        return "SIMPLE"
    return "COMPLEX"


def _required(properties: Mapping[str, str], key: str) -> str:
    value = properties.get(key)
    if not value:
        raise errors.FormatError(f"hoodie.properties has no {key}")
    return value


def _names(properties: Mapping[str, str], key: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in properties.get(key, "").split(",") if name.strip())


def _metadata_partitions(
    properties: Mapping[str, str],
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Return the partitions of the metadata table: ready, being built, and those built by us.

    What is published and not confirmed is being built. What other engines have dropped since is
    named in a property of this project alone, and is not there.
    """
    ready = _names(properties, METADATA_PARTITIONS_KEY)
    inflight = _names(properties, METADATA_PARTITIONS_INFLIGHT_KEY)
    own = _names(properties, METADATA_PARTITIONS_OWN_KEY)
    doubtful = tuple(name for name in ready if name in own)
    building = tuple(dict.fromkeys((*inflight, *doubtful)))
    return (
        tuple(name for name in ready if name not in doubtful),
        building,
        tuple(name for name in own if name in building),
    )


def _flag(properties: Mapping[str, str], key: str) -> bool:
    return properties.get(key, "false").lower() == "true"


def _positive(key: str, text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise errors.FormatError(f"{key} is {text!r}, expected a number of 1 or more")
    return int(text)


def _text(flag: bool) -> str:
    return "true" if flag else "false"
