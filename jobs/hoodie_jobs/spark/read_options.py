"""The options of `spark.read` and `spark.readStream`, as values.

Options that Apache Hudi's data source has as well have its names and its meaning. Those of its
options that would change which rows come, and that are not known here, are refused, and so are
names that are like one of these. Other options are ignored: readers are given those of writers.

Source: `DataSourceReadOptions` (1.2.0).
"""

import difflib
import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from hoodie import errors
from hoodie.model import moments, partition_columns, predicates
from hoodie.read import micro_batches, travel, where

BEGIN = "hoodie.datasource.read.begin.instanttime"
END = "hoodie.datasource.read.end.instanttime"
FALL_BACK = "hoodie.datasource.read.incr.fallback.fulltablescan.enable"
FORMAT = "hoodie.datasource.query.incremental.format"
PATH_VALUES = "hoodie.datasource.read.extract.partition.values.from.path"
QUERY = "query"
INCREMENTAL_VERSION = "hoodie.datasource.read.incr.table.version"
STREAM_VERSION = "hoodie.datasource.read.streaming.table.version"
RULE = "rule"
QUERY_TYPES = ("hoodie.datasource.query.type", "hoodie.datasource.view.type")
START = "hoodie.datasource.streaming.startOffset"

_COMPLETION_VERSION = 8
"""The table version from which on Apache Hudi reads increments by completion times."""

_EARLIEST = re.compile(r"earliest|0+", re.IGNORECASE)
_LATEST = "latest"
_REFUSED = (
    "hoodie.datasource.read.incr.filters",
    "hoodie.datasource.read.incr.path.glob",
    "hoodie.datasource.read.paths",
)
_REFUSED_VALUES = {
    "hoodie.datasource.merge.type": "skip_merge",
    "hoodie.datasource.read.schema.use.end.instanttime": "true",
}
_KNOWN = (
    "as.of.columns",
    "as.of.instant",
    "as.of.rule",
    BEGIN,
    "columns",
    "consumer",
    "deletes",
    END,
    FALL_BACK,
    FORMAT,
    "images",
    INCREMENTAL_VERSION,
    "maxBytesPerTrigger",
    "maxCommitsPerTrigger",
    "maxFilesPerTrigger",
    "ordered",
    "partition_values",
    "path",
    PATH_VALUES,
    QUERY,
    *QUERY_TYPES,
    RULE,
    START,
    STREAM_VERSION,
    "where",
    *_REFUSED,
    *_REFUSED_VALUES,
)
_MISSPELT = {True: 0.93, False: 0.85}
"""How like one of them, by `difflib`, another name is that is an error, with dots and without."""
_TRUE_OR_FALSE = {"true": True, "false": False}

Member = TypeVar("Member", bound=enum.Enum)


class Query(enum.Enum):
    """What is read."""

    SNAPSHOT = "snapshot"
    READ_OPTIMIZED = "read_optimized"
    INCREMENTAL = "incremental"


class Format(enum.Enum):
    """How changes are shown: each changed row as it is at the end, or each change of each write."""

    LATEST_STATE = "latest_state"
    CDC = "cdc"


class Images(enum.Enum):
    """How rows before and after a change are shown: as texts of JSON, or as structs."""

    JSON = "json"
    STRUCT = "struct"


class Start(enum.Enum):
    """Where a stream begins that names no moment."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a reader asks for.

    Attributes:
        uri: The table's root.
        columns: Of rows; empty for all of the table's.
        where: Which rows, or changed rows, are read; None for all.
        query: What is read.
        partition_values: Where values of partition columns are taken from, as of
            `partition_columns.Source`.
        as_of: An earlier moment of a snapshot.
        format: How changes are shown.
        begin: A position, an instant or a time after which a batch reads changes; None for all.
        end: The last one that it reads; None for the newest.
        has_deletes: Whether deleted keys are among the changes, with a column that says so.
        falls_back: Whether all rows are read where the changes are gone.
        is_ordered: Whether changes end below what is in flight.
        rule: By which time of a write a batch has its changes; `begin` and `end` are such times.
        images: How rows before and after are shown.
        start: Where a stream begins: a `Start`, or what `begin` may be.
        limit: What a micro-batch reads at most.
        consumer: The consumer that a stream declares; None for none.
    """

    uri: str
    columns: tuple[str, ...] = ()
    where: predicates.Predicate | None = None
    query: Query = Query.SNAPSHOT
    partition_values: str = partition_columns.Source.FILE
    as_of: travel.AsOf | None = None
    format: Format = Format.LATEST_STATE
    begin: str | None = None
    end: str | None = None
    has_deletes: bool = False
    falls_back: bool = False
    is_ordered: bool = False
    rule: moments.Rule = moments.Rule.COMPLETION
    images: Images = Images.JSON
    start: Start | str = Start.EARLIEST
    limit: micro_batches.Limit = micro_batches.NO_LIMIT
    consumer: str | None = None

    @property
    def has_changes(self) -> bool:
        """Whether it is an option of changes that decides which columns there are."""
        return self.query is Query.INCREMENTAL or self.has_deletes or self.format is Format.CDC


def parse(options: Mapping[str, str]) -> Options:
    """Return what options say; names in upper and lower case are the same.

    Raises:
        InvalidInputError: One has a value that it cannot have, or a name that is like one.
        UnsupportedError: One of Apache Hudi's would change which rows come, and is not known here.
    """
    given = {name.lower(): value for name, value in options.items()}
    _check_supported(given)
    uri = given.get("path")
    if not uri:
        raise errors.InvalidInputError("no table is named: expected its URI, load(uri)")
    columns = (name.strip() for name in given.get("columns", "").split(","))
    found = Options(
        uri=uri,
        columns=tuple(name for name in columns if name),
        where=None if (text := given.get("where")) is None else where.parse(text),
        query=_query(given),
        partition_values=_partition_values(given),
        as_of=_as_of(given),
        format=_member(given, FORMAT, Format.LATEST_STATE),
        begin=_moment(given, BEGIN),
        end=given.get(END),
        has_deletes=_flag(given, "deletes"),
        falls_back=_flag(given, FALL_BACK),
        is_ordered=_flag(given, "ordered"),
        rule=_rule(given),
        images=_member(given, "images", Images.JSON),
        start=_start(given),
        limit=micro_batches.Limit(
            writes=_count(given, "maxCommitsPerTrigger"),
            files=_count(given, "maxFilesPerTrigger"),
            size_bytes=_count(given, "maxBytesPerTrigger"),
        ),
        consumer=given.get("consumer"),
    )
    if found.format is Format.CDC and (found.has_deletes or found.falls_back):
        raise errors.InvalidInputError(
            f"options deletes and {FALL_BACK} do not go with {FORMAT}=cdc: deletes are among its "
            "changes, and where these are gone there are none"
        )
    if found.rule is moments.Rule.REQUESTED and (found.format is Format.CDC or found.falls_back):
        raise errors.InvalidInputError(
            f"options {FORMAT}=cdc and {FALL_BACK} do not go with {RULE}={found.rule.value}: by "
            "requested times there are the changed rows alone"
        )
    if found.format is Format.CDC and found.where is not None:
        raise errors.InvalidInputError(
            f"option where does not go with {FORMAT}=cdc: it is about rows, and these are changes; "
            "choose them by a condition on the DataFrame"
        )
    return found


def check_batch(options: Options) -> None:
    """Refuse options that do not go with `spark.read`.

    Raises:
        InvalidInputError: They contradict each other, or are those of a stream.
    """
    is_incremental = options.query is Query.INCREMENTAL
    is_of_changes = options.begin or options.end or options.has_changes
    is_of_changes = is_of_changes or options.rule is not moments.Rule.COMPLETION
    if not is_incremental and (is_of_changes or options.falls_back or options.is_ordered):
        raise errors.InvalidInputError(
            f"the query is {options.query.value}, and there are options of changes: expected "
            f"{QUERY_TYPES[0]}={Query.INCREMENTAL.value}"
        )
    if is_incremental:
        _check_changes(options)
    if options.start is not Start.EARLIEST or options.consumer or options.limit.is_limited:
        raise errors.InvalidInputError(
            f"options {START}, consumer and limits of micro-batches go with readStream: expected "
            f"{BEGIN} for where a batch begins"
        )


def check_stream(options: Options) -> None:
    """Refuse options that do not go with `spark.readStream`.

    Raises:
        InvalidInputError: They contradict each other, or are those of a batch.
    """
    _check_changes(options)
    if options.query is Query.READ_OPTIMIZED:
        raise errors.InvalidInputError(
            f"the query is {options.query.value}, expected {Query.INCREMENTAL.value}: a stream "
            "reads changes"
        )
    if options.begin is not None or options.end is not None:
        raise errors.InvalidInputError(
            f"options {BEGIN} and {END} go with spark.read: expected {START} for where a stream "
            "begins; it has no end"
        )
    if options.rule is not moments.Rule.COMPLETION:
        raise errors.InvalidInputError(
            f"option {RULE}={options.rule.value} goes with spark.read: a stream reads by "
            "completion times"
        )


def _check_changes(options: Options) -> None:
    if options.as_of is not None:
        raise errors.InvalidInputError(
            f"option as.of.instant does not go with changes: expected {BEGIN} and {END}, or of a "
            f"stream {START}"
        )
    if options.partition_values != partition_columns.Source.FILE:
        raise errors.InvalidInputError(
            f"partition values of changes are those of files, not of {options.partition_values}: "
            "leave the option out"
        )


def _check_supported(given: Mapping[str, str]) -> None:
    for name, value in given.items():
        if (name in _REFUSED and value) or _REFUSED_VALUES.get(name) == value.lower():
            raise errors.UnsupportedError(
                f"option {name}={value} of Apache Hudi is not supported: leave it out, and choose "
                "rows by a condition on the DataFrame"
            )
    known = {each.lower(): each for each in _KNOWN}
    for name in given.keys() - known.keys():
        if close := difflib.get_close_matches(name, known, n=1, cutoff=_MISSPELT["." in name]):
            raise errors.InvalidInputError(
                f"option {name} is not known; did you mean {known[close[0]]}?"
            )


def _query(given: Mapping[str, str]) -> Query:
    found = {
        name: _as_member(name, given[name].replace("-", "_"), Query)
        for name in (QUERY, *QUERY_TYPES)
        if name in given
    }
    if len(set(found.values())) > 1:
        raise errors.InvalidInputError(
            f"options {' and '.join(found)} name different queries: expected one of them"
        )
    return next(iter(found.values()), Query.SNAPSHOT)


def _rule(given: Mapping[str, str]) -> moments.Rule:
    """Return by which time of a write it is read; Apache Hudi names a table version instead."""
    found = {
        name: moments.Rule.REQUESTED if version < _COMPLETION_VERSION else moments.Rule.COMPLETION
        for name in (INCREMENTAL_VERSION, STREAM_VERSION)
        if (version := _count(given, name)) is not None
    }
    if RULE in given:
        found[RULE] = _member(given, RULE, moments.Rule.COMPLETION)
    if len(set(found.values())) > 1:
        raise errors.InvalidInputError(
            f"options {' and '.join(found)} name different rules: expected one of them"
        )
    return next(iter(found.values()), moments.Rule.COMPLETION)


def _partition_values(given: Mapping[str, str]) -> str:
    source = partition_columns.Source
    default = source.PATH if _flag(given, PATH_VALUES) else source.FILE
    return given.get("partition_values", default).lower()


def _as_of(given: Mapping[str, str]) -> travel.AsOf | None:
    rule = given.get("as.of.rule", moments.Rule.COMPLETION.value).lower()
    columns = given.get("as.of.columns", travel.Columns.NOW.value).lower()
    try:
        found = moments.Rule(rule), travel.Columns(columns)
    except ValueError as error:
        raise errors.InvalidInputError(
            f"options as.of.rule and as.of.columns are {rule!r} and {columns!r}, expected "
            "completion or requested, and now or then"
        ) from error
    time = given.get("as.of.instant")
    if time is None:
        return None
    return travel.AsOf(time=time, rule=found[0], columns=found[1])


def _moment(given: Mapping[str, str], name: str) -> str | None:
    value = given.get(name)
    return None if value is None or _EARLIEST.fullmatch(value.strip()) else value


def _start(given: Mapping[str, str]) -> Start | str:
    value = given.get(START.lower(), Start.EARLIEST.value).strip()
    if value.lower() == _LATEST:
        return Start.LATEST
    return Start.EARLIEST if _EARLIEST.fullmatch(value) else value


def _flag(given: Mapping[str, str], name: str) -> bool:
    value = given.get(name, "false").lower()
    if value not in _TRUE_OR_FALSE:
        raise errors.InvalidInputError(f"option {name} is {value!r}, expected true or false")
    return _TRUE_OR_FALSE[value]


def _count(given: Mapping[str, str], name: str) -> int | None:
    value = given.get(name.lower())
    if value is None:
        return None
    if not value.isascii() or not value.isdecimal() or not 0 < int(value) < 1 << 63:
        raise errors.InvalidInputError(f"option {name} is {value!r}, expected a positive number")
    return int(value)


def _member(given: Mapping[str, str], name: str, default: Member) -> Member:
    return _as_member(name, given[name], type(default)) if name in given else default


def _as_member(name: str, value: str, kind: type[Member]) -> Member:
    for member in kind:
        if member.value == value.lower():
            return member
    raise errors.InvalidInputError(
        f"option {name} is {value!r}, expected {' or '.join(each.value for each in kind)}"
    )
