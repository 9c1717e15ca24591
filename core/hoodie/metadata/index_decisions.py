"""Which indexes are built beside writers, and what is done next: decisions on values, no I/O.

    missing        nothing of it is in the table's properties
    scheduled      a pending indexing action plans it
    being built    the properties name it as inflight: every change keeps it up, no reader uses it
    ready          the properties name it as a partition of the metadata table

Source: RFC-45; the user's rules IX1 to IX7; protocol.md: Indexes built beside writers.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import pyarrow as pa

from hoodie import errors
from hoodie.filegroup import metadata_table
from hoodie.model import (
    commits,
    expression_indexes,
    file_statistics,
    instants,
    key_changes,
    partition_columns,
    plans,
    secondary_indexes,
    settings,
    table_config,
)
from hoodie.timeline import active

COLUMNS_KEY = "hoodie.operator.index.columns"
"""In the extra metadata of a plan: the columns of its statistics; those by default without it."""

BUILDABLE = (
    file_statistics.COLUMN_STATS,
    file_statistics.PARTITION_STATS,
    file_statistics.BLOOM_FILTERS,
    key_changes.RECORD_INDEX,
)
"""In the order of building; indexes of columns come after them, by their names."""

_OF_FILES = frozenset(
    (file_statistics.COLUMN_STATS, file_statistics.PARTITION_STATS, file_statistics.BLOOM_FILTERS)
)
_VERSION_WITH_PARTITIONED = 9
_PREFIXES = (secondary_indexes.PREFIX, expression_indexes.PREFIX)


@dataclass(frozen=True, slots=True)
class Request:
    """Indexes that a table should have.

    Attributes:
        names: Partitions of the metadata table.
        columns: Those that statistics are of: if they are of others they are dropped, and built
            again. None for those that there are or, without any, those by default.
        secondary: The columns of secondary indexes, and of expression indexes calls such as
            `lower(name)`, by the names of these; of those that are ready or planned they may be
            left out.
        is_partitioned: Whether a record index is to be one of each partition.
    """

    names: Sequence[str]
    columns: Sequence[str] | None = None
    secondary: Mapping[str, str] = field(default_factory=dict)
    is_partitioned: bool = False

    def takes_statistics_of(self, columns: Sequence[str] | None) -> bool:
        """Return whether statistics of columns are those that it asks for.

        Args:
            columns: Of statistics that there are, or are planned; None for those by default.
        """
        wanted = self.columns
        return wanted is None or (columns is not None and set(columns) == set(wanted))


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """A pending indexing action.

    Attributes:
        instant: Requested or inflight.
        plan: Its plan; without partitions where it was given up, and one that was paused has made
            it inflight since.
    """

    instant: instants.Instant
    plan: plans.Indexing

    @property
    def is_of_ours(self) -> bool:
        """Whether a process of ours has made the plan; true where there is none any more."""
        return self.is_given_up or commits.WRITE_ID_KEY in self.plan.extra

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The columns of its statistics; None for those by default."""
        return columns_of(self.plan)

    @property
    def is_given_up(self) -> bool:
        """Whether there is no plan any more."""
        return not self.plan.partitions


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A build whose partitions were inflight before they are published, beside other engines.

    Attributes:
        config: The table's configuration since.
        awaited: The requested times of what was pending of other engines, on a timeline that was
            listed once the properties had changed: all else began later, and logs in the
            partitions, or drops them once they are ready.
    """

    config: table_config.TableConfig
    awaited: Collection[instants.InstantTime]


@dataclass(frozen=True, slots=True)
class Schedule:
    """A plan is made for these partitions."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Execute:
    """A pending plan is executed, perhaps again."""

    build: Build


@dataclass(frozen=True, slots=True)
class Finish:
    """A pending action is completed whose dead builder has named its partitions as ready."""

    build: Build


@dataclass(frozen=True, slots=True)
class GiveUp:
    """A pending plan is given up."""

    build: Build


@dataclass(frozen=True, slots=True)
class Drop:
    """Ready partitions are dropped that are built again."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Nothing:
    """All is ready."""


Step: TypeAlias = Schedule | Execute | Finish | GiveUp | Drop | Nothing


def columns_of(plan: plans.Indexing) -> tuple[str, ...] | None:
    """Return the columns of a plan's statistics; None for those by default."""
    text = plan.extra.get(COLUMNS_KEY)
    return None if text is None else tuple(text.split(","))


def request_refusal(
    request: Request, config: table_config.TableConfig, write_settings: settings.WriteSettings
) -> errors.HoodieError | None:
    """Return why indexes cannot be built in a table, whatever is on its timeline.

    Args:
        request: The indexes.
        config: The table's configuration.
        write_settings: Of the process that builds.
    """
    names = request.names
    refusal = names_refusal(names) or _partitioned_refusal(request, config)
    if refusal is not None:
        return refusal
    if write_settings.concurrency is settings.ConcurrencyMode.SINGLE_WRITER:
        return errors.ConfigurationError(
            f"an index of {config.name} is built beside writers, and the concurrency mode is "
            f"{write_settings.concurrency.value}: expected the mode and the lock of its writers, "
            "such as --set hoodie.write.concurrency.mode=NON_BLOCKING_CONCURRENCY_CONTROL"
        )
    if not config.metadata_partitions:
        return errors.NotFoundError(
            f"{config.name} has no metadata table, which its indexes are in: make one by "
            "`hoodie metadata init`, or `table.maintain.make_metadata_table()`"
        )
    return (
        _record_index_refusal(names, config)
        or _secondary_index_refusal(names, config)
        or _partition_stats_refusal(names, config)
        or _statistics_columns_refusal(request, config)
    )


def asked_refusal(
    request: Request, config: table_config.TableConfig, write_settings: settings.WriteSettings
) -> errors.HoodieError | None:
    """Return why indexes that people ask for are not built: `request_refusal`, or for readers."""
    refusal = request_refusal(request, config, write_settings)
    return refusal or readers_refusal(request.names, config)


def readers_refusal(
    names: Sequence[str], config: table_config.TableConfig
) -> errors.HoodieError | None:
    """Return why an index that is kept up would have readers of other engines miss rows.

    Apache Hudi 1.2.0 leaves a file slice out if the bloom filter of its base file has no key of a
    condition, whatever its log files have (`tests/conformance/test_bloom_filters.py`).
    """
    name = file_statistics.BLOOM_FILTERS
    is_new = name in names and name not in config.metadata_partitions
    if not is_new or config.is_copy_on_write or not config.has_foreign_writers:
        return None
    return errors.UnsupportedError(
        f"{config.name} is merge-on-read, and once such a table has {name} a filter on keys by "
        "Apache Hudi with data skipping, its default, leaves rows out that are in log files alone: "
        f"expected {key_changes.RECORD_INDEX}, or no index for keys with buckets, which lead to "
        "their file groups; or that no other engine uses the table (`hoodie configure "
        "--no-foreign-writers`)"
    )


def names_refusal(names: Sequence[str]) -> errors.HoodieError | None:
    """Return why names are not those of indexes that are built."""
    for name in names:
        if name == metadata_table.FILES:
            return errors.InvalidInputError(
                f"every metadata table has {name}: make one by `hoodie metadata init`"
            )
        prefix = next((each for each in _PREFIXES if name.startswith(each)), None)
        if prefix is not None and not is_buildable(name):
            return errors.InvalidInputError(
                f"{name!r} is not the name of an index, expected 1 to 100 letters, digits and "
                f"underscores after {prefix}"
            )
        if not is_buildable(name):
            return errors.InvalidInputError(
                f"{name!r} is not an index that is built, expected {_expected()}"
            )
    return _number_refusal(names)


def is_buildable(name: str) -> bool:
    """Return whether a name is one of an index that is built here."""
    return name in BUILDABLE or is_buildable_of_column(name)


def _number_refusal(names: Sequence[str]) -> errors.HoodieError | None:
    """Return why there are too few names, or too many."""
    if not names:
        return errors.InvalidInputError(f"no index is named, expected {_expected()}")
    twice = next((name for name in names if names.count(name) > 1), None)
    return None if twice is None else errors.InvalidInputError(f"index {twice} is named twice")


def is_buildable_of_column(name: str) -> bool:
    """Return whether a name is one of an index of a column, in characters that SQL takes."""
    return secondary_indexes.is_buildable(name) or expression_indexes.is_buildable(name)


def _partitioned_refusal(
    request: Request, config: table_config.TableConfig
) -> errors.HoodieError | None:
    name, names = key_changes.RECORD_INDEX, request.names
    if not request.is_partitioned:
        return None
    if name not in names:
        return errors.InvalidInputError(
            f"of {', '.join(names)} none can be one of each partition, expected {name} among them"
        )
    if config.version < _VERSION_WITH_PARTITIONED:
        return errors.UnsupportedError(
            f"{config.name} has table version {config.version}, and Apache Hudi 1.0, which may "
            f"read it, takes a {name} of each partition for one of the whole table: expected table "
            f"version {_VERSION_WITH_PARTITIONED}"
        )
    secondary = [each for each in names if secondary_indexes.is_one(each)]
    if secondary:
        return errors.InvalidInputError(
            f"{secondary[0]} needs a {name} that has each key once in the table, and one of each "
            "partition is asked for: expected one of the two"
        )
    return None


def kind_refusal(
    request: Request, config: table_config.TableConfig, *, has_partitioned: bool
) -> errors.HoodieError | None:
    """Return why a table that has a record index cannot have another.

    Args:
        request: What is asked for.
        config: The table's configuration.
        has_partitioned: Whether the one that the table has is one of each partition.
    """
    name = key_changes.RECORD_INDEX
    is_partitioned = request.is_partitioned
    is_there = name in request.names and name in config.metadata_partitions
    if not is_there or is_partitioned is has_partitioned:
        return None
    return errors.InvalidInputError(
        f"{config.name} has a {name} {kind_text(is_partitioned=has_partitioned)}, and a table has "
        f"one: drop it by `hoodie index drop TABLE {name}`, and build one "
        f"{kind_text(is_partitioned=is_partitioned)} then"
    )


def kind_text(*, is_partitioned: bool) -> str:
    """Return what a record index is of."""
    return "of each partition" if is_partitioned else "of the whole table"


def _expected() -> str:
    named = f"{secondary_indexes.PREFIX}NAME or {expression_indexes.PREFIX}NAME"
    return f"{', '.join(BUILDABLE)}, {named}"


def in_order(names: Sequence[str]) -> tuple[str, ...]:
    """Return names of indexes in the order of building."""
    known = [name for name in BUILDABLE if name in names]
    return (*known, *sorted(set(names) - set(known)))


def _record_index_refusal(
    names: Sequence[str], config: table_config.TableConfig
) -> errors.HoodieError | None:
    name = key_changes.RECORD_INDEX
    if name not in names:
        return None
    has_buckets = config.index_kind is not None and config.index_kind.has_buckets
    if config.has_foreign_writers and not config.is_copy_on_write and has_buckets:
        return errors.UnsupportedError(
            f"other engines may write {config.name}, and writers of Apache Hudi do not add keys to "
            f"a {name} that they insert into log files of buckets, so that its readers miss rows: "
            "if no other engine writes the table, say so by `hoodie configure "
            "--no-foreign-writers`"
        )
    if not config.record_key_fields:
        return errors.InvalidInputError(
            f"{config.name} has no record key, expected one: no filter or write names the keys of "
            f"its rows, and {name} is not built"
        )
    return None


def _secondary_index_refusal(
    names: Sequence[str], config: table_config.TableConfig
) -> errors.HoodieError | None:
    found = [name for name in names if secondary_indexes.is_one(name)]
    if not found:
        return None
    every = {*found, *filter(secondary_indexes.is_one, config.metadata_partitions)}
    if config.has_foreign_writers and not config.is_copy_on_write and len(every) > 1:
        return errors.UnsupportedError(
            f"other engines may write {config.name}, a merge-on-read table, of which writers of "
            f"Apache Hudi keep one secondary index up, and there would be "
            f"{', '.join(sorted(every))}: expected one, or that no other engine writes the table "
            "(`hoodie configure --no-foreign-writers`)"
        )
    if key_changes.RECORD_INDEX not in (*names, *config.metadata_partitions):
        return errors.InvalidInputError(
            f"{config.name} has no {key_changes.RECORD_INDEX}, expected one: {found[0]} says which "
            "record keys have a value, and not where their rows are. Build "
            f"{key_changes.RECORD_INDEX} first, or both"
        )
    return None


def secondary_columns_refusal(
    request: Request,
    known: Mapping[str, str],
    config: table_config.TableConfig,
    schema: pa.Schema,
) -> errors.HoodieError | None:
    """Return why secondary indexes cannot be of the columns that they are asked for.

    Args:
        request: What is asked for.
        known: The columns of indexes that are ready, or planned, by name.
        config: The table's configuration.
        schema: Its columns.
    """
    for name, column in request.secondary.items():
        is_of_column = secondary_indexes.is_one(name) or expression_indexes.is_one(name)
        if name not in request.names or not is_of_column:
            return errors.InvalidInputError(
                f"the column {column} is that of {name}, expected a secondary or expression index "
                f"among {', '.join(request.names)}"
            )
    for name in filter(secondary_indexes.is_one, request.names):
        asked, there = request.secondary.get(name), known.get(name)
        if asked is None and there is None:
            return errors.InvalidInputError(
                f"{name} was given no column, expected one, as by --column"
            )
        if asked is not None and there is not None and asked != there:
            return errors.InvalidInputError(
                f"{name} is of the column {there}, and not of {asked}: drop it first by `hoodie "
                f"index drop TABLE {name}`, or give the other one another name"
            )
        wanted = secondary_indexes.Definition(partition=name, column=asked or there or "")
        if wanted.column in partition_columns.left_out(config):
            return errors.UnsupportedError(
                f"the data files of {config.name} do not have the column {wanted.column}, of which "
                f"{name} is: expected a column of data files"
            )
        refusal = secondary_indexes.column_refusal(wanted, schema, config.name)
        if refusal is not None:
            return refusal
    return None


def expressions_refusal(
    request: Request,
    known: Mapping[str, expression_indexes.Definition],
    wanted: Mapping[str, expression_indexes.Definition],
    config: table_config.TableConfig,
    schema: pa.Schema,
) -> errors.HoodieError | None:
    """Return why expression indexes cannot be of what they are asked for.

    Args:
        request: What is asked for.
        known: Those that are ready, or planned, by name.
        wanted: Those that were asked for with an expression.
        config: The table's configuration.
        schema: Its columns.
    """
    for name in filter(expression_indexes.is_one, request.names):
        asked, there = wanted.get(name), known.get(name)
        found = asked or there
        if found is None:
            return errors.InvalidInputError(
                f"{name} was given no expression, expected one, as by --column 'lower(name)'"
            )
        if there is not None and str(found) != str(there):
            return errors.InvalidInputError(
                f"{name} is of {there}, and not of {found}: drop it first by `hoodie index drop "
                f"TABLE {name}`, or give the other one another name"
            )
        if found.column in partition_columns.left_out(config):
            return errors.UnsupportedError(
                f"the data files of {config.name} do not have the column {found.column}, of which "
                f"{name} is: expected a column of data files"
            )
        refusal = expression_indexes.column_refusal(found, schema, config.name)
        if refusal is not None:
            return refusal
    return None


def _partition_stats_refusal(
    names: Sequence[str], config: table_config.TableConfig
) -> errors.HoodieError | None:
    name, of_files = file_statistics.PARTITION_STATS, file_statistics.COLUMN_STATS
    if name not in names:
        return None
    if not config.partition_fields:
        return errors.InvalidInputError(f"{config.name} has no partitions: {name} is not built")
    if of_files not in (*names, *config.metadata_partitions):
        return errors.InvalidInputError(
            f"{name} of {config.name} has the columns of {of_files}, which is missing: build both"
        )
    return None


def _statistics_columns_refusal(
    request: Request, config: table_config.TableConfig
) -> errors.HoodieError | None:
    names, columns = request.names, request.columns
    of_files, of_partitions = file_statistics.COLUMN_STATS, file_statistics.PARTITION_STATS
    if columns is None:
        return None
    if not columns:
        return errors.InvalidInputError(f"no column of {of_files} is named, expected some")
    if of_files not in names:
        return errors.InvalidInputError(
            f"columns are those of {of_files}, which is not among {', '.join(names)}: name both"
        )
    if of_partitions in config.metadata_partitions and of_partitions not in names:
        return errors.InvalidInputError(
            f"{of_partitions} of {config.name} has the columns of {of_files}: build both"
        )
    return None


def next_step(request: Request, config: table_config.TableConfig, builds: Sequence[Build]) -> Step:
    """Return what is done next so that indexes become ready.

    What is ready is left out, so that a request that broke off goes on with the rest. A plan of
    what is ready, or is not asked for any more by anybody, is never executed, nor one of what
    stands on an index that was dropped since; one that has made its indexes ready is completed.

    Args:
        request: As of `request_refusal`.
        config: The table's configuration, read after the timeline.
        builds: Pending there.

    Raises:
        ConflictError: Other indexes are being built, or another engine builds.
    """
    names = request.names
    ready = set(config.metadata_partitions)
    missing = tuple(name for name in in_order(names) if name not in ready)
    for build in builds:
        if config.has_foreign_writers and not build.is_of_ours:
            raise errors.ConflictError(
                f"{build.instant} of {config.name} was planned by another engine, which builds "
                f"{', '.join(build.plan.names)}: wait until it has, or give the plan up by `hoodie "
                "index drop`"
            )
        if is_published(build, config):
            return Finish(build)
        has_others = file_statistics.COLUMN_STATS in build.plan.names and not (
            request.takes_statistics_of(build.columns)
        )
        is_left = build.is_given_up or ready.intersection(build.plan.names)
        if is_left or has_others or _lacks_basis(build.plan.names, ready):
            return GiveUp(build)
        if not missing:
            continue
        has_record_index = key_changes.RECORD_INDEX in build.plan.names
        is_other = has_record_index and build.plan.is_partitioned is not request.is_partitioned
        if set(build.plan.names) <= set(missing) and not is_other:
            return Execute(build)
        kind = f" {kind_text(is_partitioned=build.plan.is_partitioned)}" if is_other else ""
        raise errors.ConflictError(
            f"{build.instant} of {config.name} builds {', '.join(build.plan.names)}{kind}, "
            "expected no other index: finish it by `hoodie index build`, or give it up by `hoodie "
            "index drop`"
        )
    if not request.takes_statistics_of(config.statistics_columns):
        old = ready.intersection((file_statistics.COLUMN_STATS, file_statistics.PARTITION_STATS))
        if old:
            return Drop(tuple(sorted(old)))
    return Schedule(missing) if missing else Nothing()


def is_published(build: Build, config: table_config.TableConfig) -> bool:
    """Return whether a build has named all its partitions as ready, and they still are.

    It does so before its action completes in a table that other engines write as well.
    """
    time = config.properties.get(table_config.METADATA_PARTITIONS_BUILT_BY_KEY)
    is_by_it = not build.is_given_up and time == build.instant.requested_time
    return is_by_it and set(build.plan.names) <= set(config.metadata_partitions)


def may_begin(names: Collection[str], config: table_config.TableConfig) -> bool:
    """Return whether the partitions of a plan may be inflight while other engines write.

    They may if it does not matter in which order what a pending write logs is merged with what the
    build has: a record is of one file, which one write made, or all that the build has is in base
    files. While `partition_stats` is inflight, and `column_stats` not ready, no write of Apache
    Hudi 1.2.0 completes whose option is on (ADR 0051). A record index is alone in its plan (ADR
    0052).

    Args:
        names: The partitions.
        config: The table's configuration.
    """
    if key_changes.RECORD_INDEX in names:
        return len(names) == 1
    is_stated = file_statistics.COLUMN_STATS in config.metadata_partitions
    return _OF_FILES.issuperset(names) and (
        file_statistics.PARTITION_STATS not in names or is_stated
    )


def first_of(names: Sequence[str], config: table_config.TableConfig) -> Sequence[str]:
    """Return which of some indexes are built first while writes of other engines are pending.

    Those that need not wait for all of these to end, if there are any; those of files come first.
    """
    found = [name for name in names if may_begin([name], config)]
    return [name for name in found if name in _OF_FILES] or found or names


def keeps_files(names: Collection[str], config: table_config.TableConfig) -> bool:
    """Return whether what is in the folders of inflight partitions stays when a build begins.

    A record index that builders of this project have begun may have log files of pending writes of
    other engines, which name them when they complete. Of other indexes these log nothing before.
    """
    return key_changes.RECORD_INDEX in names and set(names) <= {*config.metadata_partitions_own}


def waited_for(at_work: Iterable[instants.Instant], begun: Begun | None) -> list[instants.Instant]:
    """Return which writes of other engines a publication has to wait for.

    Args:
        at_work: Those that are pending.
        begun: How the build has begun; None if it has not.
    """
    return [each for each in at_work if begun is None or each.requested_time in begun.awaited]


def made_by_others(
    names: Collection[str], config: table_config.TableConfig, requested_time: instants.InstantTime
) -> Sequence[str]:
    """Return which partitions another has made, of those that an action is to build; sorted.

    A writer of Apache Hudi whose option is on makes one that is inflight. One that builders of the
    action have published, and not confirmed, has the action's time in the properties.
    """
    made = set(config.metadata_partitions)
    built_by = config.properties.get(table_config.METADATA_PARTITIONS_BUILT_BY_KEY)
    if built_by != requested_time:
        made.update(config.metadata_partitions_unconfirmed)
    return sorted(made.intersection(names))


def _lacks_basis(names: Sequence[str], ready: Collection[str]) -> bool:
    """Return whether indexes stand on one that is neither ready nor built with them."""
    needed = set()
    if file_statistics.PARTITION_STATS in names:
        needed.add(file_statistics.COLUMN_STATS)
    if any(map(secondary_indexes.is_one, names)):
        needed.add(key_changes.RECORD_INDEX)
    return not needed.issubset((*names, *ready))


def drop_refusal(
    names: Sequence[str], config: table_config.TableConfig
) -> errors.HoodieError | None:
    """Return why indexes cannot be dropped.

    What the table has is dropped, also if a later release of Apache Hudi made it.
    """
    there = {*config.metadata_partitions, *config.metadata_partitions_inflight}
    for name in names:
        if name == metadata_table.FILES:
            return errors.InvalidInputError(
                f"the other indexes stand on {name}: drop the metadata table by `hoodie metadata "
                "drop`"
            )
        is_of_column = secondary_indexes.is_one(name) or expression_indexes.is_one(name)
        # The name is that of a folder, whose files are deleted.
        is_of_table = name in there and "/" not in name and not name.startswith(".")
        if not (name in BUILDABLE or is_of_column or is_of_table):
            return errors.InvalidInputError(
                f"{config.name} has no index {name!r}, expected one of those that `hoodie index "
                "status` shows"
            )
    refusal = _number_refusal(names)
    if refusal is not None:
        return refusal
    of_files, of_partitions = file_statistics.COLUMN_STATS, file_statistics.PARTITION_STATS
    left = {*config.metadata_partitions, *config.metadata_partitions_inflight} - set(names)
    if of_files in names and of_partitions in left:
        return errors.InvalidInputError(
            f"{of_partitions} of {config.name} has the columns of {of_files}: drop both"
        )
    of_values = sorted(filter(secondary_indexes.is_one, left))
    if key_changes.RECORD_INDEX in names and of_values:
        return errors.InvalidInputError(
            f"{', '.join(of_values)} of {config.name} cannot be used without "
            f"{key_changes.RECORD_INDEX}, which says where a key is: drop them as well"
        )
    return None


def without(names: Sequence[str], config: table_config.TableConfig) -> Mapping[str, str | None]:
    """Return the change of a table's properties that drops partitions; empty for none."""
    unconfirmed = set(config.metadata_partitions_unconfirmed)
    ready, building = set(config.metadata_partitions), set(config.metadata_partitions_inflight)
    changes: dict[str, str | None] = {}
    for key, there, others in (
        (table_config.METADATA_PARTITIONS_KEY, ready | unconfirmed, set[str]()),
        (table_config.METADATA_PARTITIONS_INFLIGHT_KEY, building, unconfirmed),
        (table_config.METADATA_PARTITIONS_OWN_KEY, set(config.metadata_partitions_own), set()),
    ):
        if not there.isdisjoint(names):
            changes[key] = names_text(there - others - set(names))
    if changes and file_statistics.COLUMN_STATS in names and config.statistics_columns:
        changes[table_config.STATISTICS_COLUMNS_KEY] = None
    for key in map(secondary_indexes.column_key, names):
        if key in config.properties:
            changes[key] = None
    return changes


def names_text(names: set[str]) -> str | None:
    """Return names of partitions as a property has them; None for none."""
    return ",".join(sorted(names)) or None


def reached(plan: plans.Indexing, timeline: active.ActiveTimeline) -> plans.Indexing:
    """Return what a completed action says: its plan, with the instant that the indexes reach."""
    through = base_instant(timeline)
    return plans.Indexing(
        partitions=tuple(replace(each, through=through) for each in plan.partitions)
    )


def base_instant(timeline: active.ActiveTimeline) -> str:
    """Return the requested time of the last write without a hole before it; empty for none.

    Up to it all is in an index that is built on this timeline. What began later, or is pending,
    is kept up by whoever completes it.
    """
    pending = (each.requested_time for each in timeline.pending if each.action.is_write)
    first = min(pending, default=None)
    below = (
        each.requested_time
        for each in timeline.completed_writes
        if first is None or each.requested_time < first
    )
    return max(below, default="")
