"""The options of `df.write` and `df.writeStream`, as values.

Options that Apache Hudi's data source has as well have its names, meanings and defaults: of a table
that does not exist yet it is copy-on-write, and records are found by the simple index, as all its
writers without further options do. An option is one of

    a fact            a property of the table: it makes a new table, and must agree with one there
    a setting         of the writer, of the compactions that it plans, or of the lock
    an order          what is written: operation, sorting, an id of the batch
    ignored           `IGNORED`: it cannot change what is written

Every other option is refused by its name.

Source: `DataSourceWriteOptions`, `HoodieWriteConfig`, `HoodieSparkSqlWriter` (1.2.0).
"""

import enum
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from hoodie import errors
from hoodie.model import (
    change_data,
    column_names,
    commits,
    compaction_options,
    settings,
    table_config,
)
from hoodie.services import new_tables, table_facts
from hoodie.transaction import authors
from hoodie.transaction.locks import addresses, hudi_options

OPERATION = "hoodie.datasource.write.operation"
STREAM_ID = "hoodie.datasource.write.streaming.checkpoint.identifier"
IF_EXISTS = "if_exists"
WRITER_ID = "writer_id"
BATCH_ID = "batch_id"
STAGED_MAX = "staged_bytes_max"

STAGED_BYTES_MAX = 16 << 30
"""What one process should write, rather than tasks: some minutes of it."""

_SORT_MODE = "hoodie.bulkinsert.sort.mode"
_SORT_COLUMNS = "hoodie.bulkinsert.user.defined.partitioner.sort.columns"
_PARTITIONER = "hoodie.bulkinsert.user.defined.partitioner.class"
_PAYLOADS = ("hoodie.datasource.write.payload.class", "hoodie.table.payload.class")
_MERGE_MODE = "hoodie.record.merge.mode"
_COMBINES_INSERTS = "hoodie.combine.before.insert"
_INDEX_TYPE = "hoodie.index.type"
_MOVES = table_facts.PARTITION_UPDATES

_OPERATIONS = {
    each.value.lower(): each
    for each in (
        commits.Operation.UPSERT,
        commits.Operation.INSERT,
        commits.Operation.BULK_INSERT,
        commits.Operation.DELETE,
        commits.Operation.INSERT_OVERWRITE,
        commits.Operation.INSERT_OVERWRITE_TABLE,
    )
}
_SORTS_BY_KEY = {
    "NONE": False,
    "PARTITION_PATH_REPARTITION": False,
    "GLOBAL_SORT": True,
    "PARTITION_SORT": True,
    "PARTITION_PATH_REPARTITION_AND_SORT": True,
}
_SORTING_PARTITIONERS = ("RDDCustomColumnsSortPartitioner", "RowCustomColumnsSortPartitioner")
_MERGE_MODES = {each.value: each for each in table_config.MergeMode}
_MERGING_OF_PAYLOADS = {
    "DefaultHoodieRecordPayload": (table_config.MergeMode.EVENT_TIME, False),
    "EventTimeAvroPayload": (table_config.MergeMode.EVENT_TIME, False),
    "OverwriteWithLatestAvroPayload": (table_config.MergeMode.COMMIT_TIME, False),
    "PartialUpdateAvroPayload": (table_config.MergeMode.EVENT_TIME, True),
    "OverwriteNonDefaultsWithLatestAvroPayload": (table_config.MergeMode.COMMIT_TIME, True),
}
"""Merge mode, and whether null changes nothing."""

_OF_TABLES = ("hoodie.bucket.index.partition.expressions", "hoodie.write.complex.keygen.")
"""Options that a table knows better where there is one, and that make no new one."""

_NEW_INDEXES = {
    each.value: each
    for each in table_config.IndexKind
    if each is not table_config.IndexKind.CONSISTENT_HASHING
}
_ENGINES = {
    "SIMPLE": table_config.IndexKind.BUCKET,
    "CONSISTENT_HASHING": table_config.IndexKind.CONSISTENT_HASHING,
}
_VERSIONS = {"8": 8, "9": 9}
_FLAGS = {"true": True, "false": False}

_SERVICES = (
    "a write does not do that: leave the option out, and use the commands `hoodie clean`, "
    "`archive` and `compact`, or the policies of a HudiTable"
)
SWITCHED_OFF: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "hoodie.archive.async",
            "hoodie.archive.automatic",
            "hoodie.clean.async",
            "hoodie.clean.async.enabled",
            "hoodie.clean.automatic",
            "hoodie.clustering.async.enabled",
            "hoodie.clustering.inline",
            "hoodie.clustering.schedule.inline",
            "hoodie.datasource.clustering.async.enable",
            "hoodie.datasource.clustering.inline.enable",
            "hoodie.datasource.compaction.async.enable",
        ),
        _SERVICES,
    ),
    **dict.fromkeys(
        ("hoodie.datasource.hive_sync.enable", "hoodie.datasource.meta.sync.enable"),
        "no metastore is kept up: leave the option out",
    ),
    "hoodie.metadata.auto.delete.partitions": "a write removes no index: leave the option out, and "
    "use `hoodie index` and `hoodie metadata`",
    "hoodie.datasource.write.streaming.ignore.failed.batch": "a stream that left a batch out would "
    "lose its rows: leave the option out",
}
"""Options that must be `false`, which they are without them, and why."""

IGNORED: Mapping[str, str] = {
    r".*\.parallelism": "a width of Apache Hudi's stages",
    r"hoodie\.(archive|clean|cleaner|keep|commits\.archival)\..*": "which old versions services "
    "keep, when they run",
    r"hoodie\.clustering\..*": "how a clustering is done, when one runs",
    r"hoodie\.datasource\.(hive_sync|meta\.sync)\..*|hoodie\.meta\.sync\..*": "of a metastore that "
    "is not kept up",
    r"hoodie\.datasource\.(query|read)\..*|hoodie\.datasource\.view\.type": "of readers",
    r"hoodie\.datasource\.write\.row\.writer\.enable": "the way of rows through its code",
    r"hoodie\.datasource\.write\.streaming\.(retry\..*|disable\.compaction)": "its retries; Spark "
    "runs a batch that failed again",
    r"hoodie\.(embed\.timeline|filesystem\.view|memory|metrics|rollback)\..*": "its caches and "
    "servers",
    r"hoodie\.metadata\.(index|record|global)\..*": "indexes of a metadata table: those "
    "that it has are kept up, and others are built by `hoodie index`",
    r"hoodie\.write\.(markers|buffer|executor)\..*": "its caches and servers",
    r"hoodie\.write\.rolling\.metadata\.keys": "what commits copy; ours copy it anyway",
    r"hoodie\.write\.auto\.upgrade": "tables stay in their version",
    r"checkpointlocation|outputmode|queryname": "of Spark",
}
"""Patterns of options that cannot change what is written, and what they are."""

_IGNORED = re.compile("|".join(f"(?:{each})" for each in IGNORED))
_SETTING_NAMES = frozenset(name for key in settings.KEYS for name in (key.name, *key.aliases))
_LOCK_NAMES = frozenset(key.name for key in hudi_options.KEYS)
OWN = frozenset(
    (
        "path",
        OPERATION,
        STREAM_ID,
        IF_EXISTS,
        WRITER_ID,
        BATCH_ID,
        STAGED_MAX,
        _SORT_MODE,
        _SORT_COLUMNS,
        _PARTITIONER,
        *_PAYLOADS,
    )
)
"""Options that are neither a property of the table nor a setting."""

Value = TypeVar("Value")


class IfExists(enum.Enum):
    """What becomes of rows for a table that exists: Spark's other save modes."""

    APPEND = "append"
    IGNORE = "ignore"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a writer asks for.

    Attributes:
        uri: The table's root.
        operation: What is done with the rows; in a new table never a replacement.
        replaces_table: Whether all rows of a table that exists are replaced.
        if_exists: What becomes of the rows otherwise, if it exists.
        facts: Properties of the table.
        has_partial_updates: Whether null, and a column that is not given, change nothing; None for
            what the table has.
        of_tables: Names of options that do not make a new table.
        settings: Of the writer and its compactions.
        lock: The table's; None for the one in its storage.
        sort_by: Columns that a bulk insert sorts by; None for those of the record key.
        writer_id: The writer; None for an unnamed one.
        batch_id: Its batch, which is written once; None for none.
        staged_bytes_max: More is not written by one process.
    """

    uri: str
    operation: commits.Operation = commits.Operation.UPSERT
    replaces_table: bool = False
    if_exists: IfExists = IfExists.APPEND
    facts: Mapping[str, str] = field(default_factory=dict)
    has_partial_updates: bool | None = None
    of_tables: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    lock: addresses.LockAddress | None = None
    sort_by: tuple[str, ...] | None = ()
    writer_id: str | None = None
    batch_id: str | None = None
    staged_bytes_max: int = STAGED_BYTES_MAX


def parse(options: Mapping[str, str], *, is_overwrite: bool) -> Options:
    """Return what options say; names in upper and lower case are the same.

    Args:
        options: As Spark gives them.
        is_overwrite: Whether the save mode is `overwrite`, or a stream's output mode `complete`.

    Raises:
        InvalidInputError: One has a value that it cannot have.
        ConfigurationError: Options contradict each other.
        UnsupportedError: One might change what is written, and is not known here.
    """
    given = {name.lower(): value.strip() for name, value in options.items()}
    uri = given.get("path")
    if not uri:
        raise errors.InvalidInputError("no table is named: expected its URI, save(uri)")
    facts = {name: text for name, text in given.items() if name in table_facts.FACTS}
    of_writer = {
        name: text
        for name, text in given.items()
        if name in _SETTING_NAMES or name in compaction_options.NAMES
    }
    of_lock = {
        name: text
        for name, text in given.items()
        if (name.startswith(hudi_options.PREFIX) or name in _LOCK_NAMES) and name not in of_writer
    }
    _check_known(given, facts.keys() | of_writer.keys() | of_lock.keys())
    merging, has_partial_updates = _merging(given, facts)
    operation = _one_of(given, OPERATION, _OPERATIONS, commits.Operation.UPSERT)
    if_exists = _one_of(given, IF_EXISTS, {each.value: each for each in IfExists}, IfExists.APPEND)
    _check_modes(operation, if_exists, is_overwrite=is_overwrite)
    if is_overwrite and operation is commits.Operation.UPSERT:
        # As an upsert of the emptied table would.
        of_writer.setdefault(_COMBINES_INSERTS, "true")
    _check_settings(of_writer)
    batch_id = given.get(BATCH_ID)
    writer_id = given.get(WRITER_ID, given.get(STREAM_ID))
    if batch_id is not None:
        authors.checked_batch_id(batch_id)
        if writer_id is None:
            raise errors.ConfigurationError(
                f"option {BATCH_ID} without {WRITER_ID}: a writer's batches have ids of their own"
            )
    return Options(
        uri=uri,
        operation=operation,
        replaces_table=is_overwrite or operation is commits.Operation.INSERT_OVERWRITE_TABLE,
        if_exists=if_exists,
        facts=facts | merging,
        has_partial_updates=has_partial_updates,
        of_tables=tuple(name for name in given if name.startswith(_OF_TABLES)),
        settings=of_writer,
        lock=_lock(of_lock, {**facts, **of_writer}),
        sort_by=_sort_by(given, operation),
        writer_id=authors.Author(writer_id=writer_id).writer_id,
        batch_id=batch_id,
        staged_bytes_max=_count(given, STAGED_MAX, STAGED_BYTES_MAX),
    )


def check_stream(options: Options) -> None:
    """Refuse options that do not go with `df.writeStream`.

    Raises:
        ConfigurationError: There is one.
    """
    if options.batch_id is not None or options.if_exists is not IfExists.APPEND:
        raise errors.ConfigurationError(
            f"options {BATCH_ID} and {IF_EXISTS} go with df.write: the batches of a stream are its "
            "micro-batches, and each is added"
        )


def wish(options: Options, chain: table_config.ChainName) -> new_tables.Wish:
    """Return the table that the options ask for where there is none, by Apache Hudi's defaults.

    Args:
        options: With its properties.
        chain: What orders the changes of the new table.

    Raises:
        InvalidInputError: A property has a value that it cannot have; or there is no record key.
    """
    facts = options.facts
    if options.of_tables:
        raise errors.UnsupportedError(
            f"there is no table in {options.uri}, and option {options.of_tables[0]} makes none: "
            "expected a table that `hoodie create` has made"
        )
    is_logged = _one_of(facts, table_config.CHANGE_DATA_CAPTURE_KEY, _FLAGS, default=False)
    modes = {each.value: each for each in change_data.LoggingMode}
    mode = _one_of(
        facts,
        table_config.CHANGE_DATA_MODE_KEY,
        modes,
        change_data.LoggingMode.DATA_BEFORE_AFTER,
    )
    key = _names(facts, "hoodie.datasource.write.recordkey.field", "hoodie.table.recordkey.fields")
    if not key:
        raise errors.InvalidInputError(
            f"there is no table in {options.uri}, and a new one needs the columns that identify a "
            "row: expected the option hoodie.datasource.write.recordkey.field"
        )
    types = {each.value: each for each in table_config.TableType}
    return new_tables.Wish(
        name=_first(facts, table_facts.NAME_KEY, "hoodie.datasource.write.table.name")
        or new_tables.name_of(options.uri),
        table_type=_one_of(
            facts,
            _present(facts, "hoodie.datasource.write.table.type", "hoodie.table.type"),
            types,
            table_config.TableType.COPY_ON_WRITE,
        ),
        version=_one_of(
            facts,
            _present(facts, "hoodie.write.table.version", "hoodie.table.version"),
            _VERSIONS,
            table_config.VERSION_DEFAULT,
        ),
        record_key=key,
        partition_by=_names(
            facts, "hoodie.datasource.write.partitionpath.field", "hoodie.table.partition.fields"
        ),
        ordering=_names(
            facts,
            "hoodie.table.ordering.fields",
            "hoodie.datasource.write.precombine.field",
            "hoodie.table.precombine.field",
        ),
        merge=_MERGE_MODES.get(facts.get(_MERGE_MODE, "").upper()),
        index=_index(facts),
        keeps_partitions=any(
            not _flag(facts, name, default=True) for name in facts if name in _MOVES
        ),
        has_partial_updates=options.has_partial_updates or False,
        buckets=_count(facts, table_config.BUCKET_COUNT_KEY, 0) or None,
        is_hive_style=_flag(facts, "hoodie.datasource.write.hive_style_partitioning"),
        is_url_encoded=_flag(facts, "hoodie.datasource.write.partitionpath.urlencode"),
        drops_partition_columns=_flag(facts, table_config.DROPS_PARTITION_COLUMNS_KEY),
        change_data=mode if is_logged else None,
        chain=chain,
    )


def spelled(parameter: str) -> str:
    """Return the option that a parameter of a new table stands for."""
    return f"option {_SPELLED.get(parameter, parameter)}"


_SPELLED = {
    "record_key": "hoodie.datasource.write.recordkey.field",
    "partition_by": "hoodie.datasource.write.partitionpath.field",
    "ordering": "hoodie.table.ordering.fields",
    "merge": _MERGE_MODE,
    "index": _INDEX_TYPE,
    "buckets": table_config.BUCKET_COUNT_KEY,
    "keep_partitions": _MOVES[0],
    "drop_partition_columns": table_config.DROPS_PARTITION_COLUMNS_KEY,
}


def check_facts(options: Options, config: table_config.TableConfig) -> None:
    """Refuse properties that a table does not agree with.

    Raises:
        ConfigurationError: One differs; the message has both values.
    """
    table_facts.check(options.facts, config, lambda key, value: f"option {key}={value}")
    wanted = options.has_partial_updates
    if wanted is not None and wanted is not config.has_partial_updates:
        has = "has" if config.has_partial_updates else "does not have"
        raise errors.ConfigurationError(
            f"option {_PAYLOADS[0]} differs: the table {has} partial updates; leave the option out"
        )


def _check_known(given: Mapping[str, str], known: Collection[str]) -> None:
    for name, value in given.items():
        if name in SWITCHED_OFF:
            if value.lower() != "false":
                raise errors.UnsupportedError(f"option {name}={value}: {SWITCHED_OFF[name]}")
        elif name in table_facts.REFUSED:
            raise errors.ConfigurationError(f"option {name}: {table_facts.REFUSED[name]}")
        elif name in known or name in OWN or name.startswith(_OF_TABLES):
            continue
        elif not _IGNORED.fullmatch(name):
            raise errors.UnsupportedError(
                f"option {name} might change what is written, and is not known here: leave it out "
                "if it does not; docs/spark-dataframes.md lists the options"
                f"{column_names.similar(name, (*known, *OWN))}"
            )


def _check_modes(operation: commits.Operation, if_exists: IfExists, *, is_overwrite: bool) -> None:
    if is_overwrite and operation is commits.Operation.DELETE:
        raise errors.ConfigurationError(
            f"{OPERATION}=delete with mode('overwrite'): expected mode('append')"
        )
    if is_overwrite and if_exists is not IfExists.APPEND:
        raise errors.ConfigurationError(
            f"option {IF_EXISTS}={if_exists.value} with mode('overwrite'): expected mode('append')"
        )


def _check_settings(of_writer: Mapping[str, str]) -> None:
    """Refuse a value that is not one of its setting: before any task runs.

    Raises:
        ConfigurationError: There is one.
    """
    planning = {key: text for key, text in of_writer.items() if key in compaction_options.NAMES}
    compaction_options.from_properties(planning)
    settings.from_properties({key: text for key, text in of_writer.items() if key not in planning})


def _merging(
    given: Mapping[str, str], facts: Mapping[str, str]
) -> tuple[dict[str, str], bool | None]:
    """Return the merge mode that the class of a payload stands for, and its partial updates."""
    found = _first(given, *_PAYLOADS)
    if found is None:
        mode = facts.get(_MERGE_MODE)
        if mode is not None and mode.upper() not in _MERGE_MODES:
            raise errors.UnsupportedError(
                f"option {_MERGE_MODE} is {mode!r}, expected {' or '.join(_MERGE_MODES)}"
            )
        return {}, None
    merging = _MERGING_OF_PAYLOADS.get(found.rpartition(".")[2])
    if merging is None:
        raise errors.UnsupportedError(
            f"{found} is not a payload that is written here: expected option {_MERGE_MODE}, "
            f"{' or '.join(_MERGE_MODES)}"
        )
    kind, has_partial_updates = merging
    if facts.get(_MERGE_MODE, kind.value).upper() != kind.value:
        raise errors.ConfigurationError(
            f"{found} with {_MERGE_MODE}={facts[_MERGE_MODE]}: expected one of them"
        )
    return {_MERGE_MODE: kind.value}, has_partial_updates


def _index(facts: Mapping[str, str]) -> table_config.IndexKind:
    kind = _one_of(facts, _INDEX_TYPE, _NEW_INDEXES, table_config.IndexKind.SIMPLE)
    if kind is not table_config.IndexKind.BUCKET:
        return kind
    return _one_of(facts, table_facts.BUCKET_ENGINE_KEY, _ENGINES, kind)


def _sort_by(given: Mapping[str, str], operation: commits.Operation) -> tuple[str, ...] | None:
    class_name = given.get(_PARTITIONER, "").rpartition(".")[2]
    if class_name and (class_name not in _SORTING_PARTITIONERS or _SORT_COLUMNS not in given):
        raise errors.UnsupportedError(
            f"option {_PARTITIONER}={class_name}: expected {' or '.join(_SORTING_PARTITIONERS)}, "
            f"and {_SORT_COLUMNS}"
        )
    columns = _names(given, _SORT_COLUMNS)
    sorts_by_key = _one_of(given, _SORT_MODE, _SORTS_BY_KEY, default=False)
    if operation is not commits.Operation.BULK_INSERT:
        return ()
    return None if sorts_by_key and not columns else columns


def _lock(of_lock: Mapping[str, str], others: Mapping[str, str]) -> addresses.LockAddress | None:
    if not of_lock:
        return None
    name = _first(others, table_facts.NAME_KEY, "hoodie.datasource.write.table.name")
    # Of some providers a setting of the writer is a part as well: its wait is their lease.
    lock = hudi_options.from_options({**others, **of_lock}, table_name=name)
    if lock is None:
        raise errors.ConfigurationError(
            f"option {min(of_lock)} without hoodie.write.lock.provider: expected both"
        )
    return lock


def _first(given: Mapping[str, str], *names: str) -> str | None:
    return next((given[name] for name in names if given.get(name)), None)


def _present(given: Mapping[str, str], *names: str) -> str:
    return next((name for name in names if name in given), names[0])


def _names(given: Mapping[str, str], *names: str) -> tuple[str, ...]:
    parts = (part.strip() for part in (_first(given, *names) or "").split(","))
    return tuple(part for part in parts if part)


def _flag(given: Mapping[str, str], name: str, *, default: bool = False) -> bool:
    return _one_of(given, name, _FLAGS, default)


def _one_of(
    given: Mapping[str, str], name: str, known: Mapping[str, Value], default: Value
) -> Value:
    text = given.get(name)
    if text is None:
        return default
    for each, value in known.items():
        if each.casefold() == text.casefold():
            return value
    raise errors.InvalidInputError(f"option {name} is {text!r}, expected {', '.join(known)}")


def _count(given: Mapping[str, str], name: str, default: int) -> int:
    text = given.get(name)
    if text is None:
        return default
    if not text.isascii() or not text.isdecimal() or not 0 < int(text) < 1 << 63:
        raise errors.InvalidInputError(f"option {name} is {text!r}, expected a positive number")
    return int(text)
