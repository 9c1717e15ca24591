"""Which indexes are built beside writers, and what is done next: decisions on values, no I/O.

    missing        nothing of it is in the table's properties
    scheduled      a pending indexing action plans it
    being built    the properties name it as inflight: every change keeps it up, no reader uses it
    ready          the properties name it as a partition of the metadata table

Source: RFC-45; the user's rules IX1 to IX7; protocol.md: Indexes built beside writers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from hoodie import errors
from hoodie.filegroup import metadata_table
from hoodie.model import (
    commits,
    file_statistics,
    instants,
    key_changes,
    plans,
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
"""In the order of building."""

_NOT_BUILT = {
    metadata_table.FILES: "every metadata table has it: make one by `hoodie metadata init`",
}


@dataclass(frozen=True, slots=True)
class Request:
    """Indexes that a table should have.

    Attributes:
        names: Partitions of the metadata table.
        columns: Those that statistics are of: if they are of others they are dropped, and built
            again. None for those that there are or, without any, those by default.
    """

    names: Sequence[str]
    columns: Sequence[str] | None = None


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


@dataclass(frozen=True, slots=True)
class Schedule:
    """A plan is made for these partitions."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Execute:
    """A pending plan is executed, perhaps again."""

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


Step: TypeAlias = Schedule | Execute | GiveUp | Drop | Nothing


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
    refusal = names_refusal(names)
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
            "`hoodie metadata init`"
        )
    of_keys = _record_index_refusal(names, config)
    if of_keys is not None:
        return of_keys
    return _partition_stats_refusal(names, config) or _columns_refusal(request, config)


def names_refusal(names: Sequence[str]) -> errors.HoodieError | None:
    """Return why names are not those of indexes that are built."""
    if not names:
        return errors.InvalidInputError(f"no index is named, expected {_expected()}")
    for name in names:
        if names.count(name) > 1:
            return errors.InvalidInputError(f"index {name} is named twice")
        if name not in BUILDABLE:
            why = _NOT_BUILT.get(name, f"expected {_expected()}")
            return errors.InvalidInputError(f"index {name} is not built or dropped: {why}")
    return None


def _expected() -> str:
    return f"{', '.join(BUILDABLE[:-1])} or {BUILDABLE[-1]}"


def _record_index_refusal(
    names: Sequence[str], config: table_config.TableConfig
) -> errors.HoodieError | None:
    name = key_changes.RECORD_INDEX
    if name not in names:
        return None
    if config.has_foreign_writers:
        return errors.UnsupportedError(
            f"other engines may write {config.name}, and this version does not build {name} beside "
            "them: if none does, say so by `hoodie configure --no-foreign-writers`; else have "
            "Apache Hudi build it"
        )
    if not config.record_key_fields:
        return errors.InvalidInputError(
            f"{config.name} has no record key, expected one: no filter or write names the keys of "
            f"its rows, and {name} is not built"
        )
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


def _columns_refusal(
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
    what is ready, or is not asked for any more by anybody, is never executed.

    Args:
        request: As of `request_refusal`.
        config: The table's configuration, read after the timeline.
        builds: Pending there.

    Raises:
        ConflictError: Other indexes are being built, or another engine builds.
    """
    names, columns = request.names, request.columns
    ready = set(config.metadata_partitions)
    missing = tuple(name for name in BUILDABLE if name in names and name not in ready)
    for build in builds:
        if config.has_foreign_writers and not build.is_of_ours:
            raise errors.ConflictError(
                f"{build.instant} of {config.name} was planned by another engine, which builds "
                f"{', '.join(build.plan.names)}: wait until it has, or give the plan up by `hoodie "
                "index drop`"
            )
        has_others = file_statistics.COLUMN_STATS in build.plan.names and not _are_wanted(
            build.columns, columns
        )
        if build.is_given_up or has_others or ready.intersection(build.plan.names):
            return GiveUp(build)
        if not missing:
            continue
        if set(build.plan.names) <= set(missing):
            return Execute(build)
        raise errors.ConflictError(
            f"{build.instant} of {config.name} builds {', '.join(build.plan.names)}, expected no "
            f"other index: finish it by `hoodie index build`, or give it up by `hoodie index drop`"
        )
    if not _are_wanted(config.statistics_columns, columns):
        old = ready.intersection((file_statistics.COLUMN_STATS, file_statistics.PARTITION_STATS))
        if old:
            return Drop(tuple(sorted(old)))
    return Schedule(missing) if missing else Nothing()


def _are_wanted(there: Sequence[str] | None, columns: Sequence[str] | None) -> bool:
    return columns is None or (there is not None and set(there) == set(columns))


def drop_refusal(
    names: Sequence[str], config: table_config.TableConfig
) -> errors.HoodieError | None:
    """Return why indexes cannot be dropped."""
    refusal = names_refusal(names)
    if refusal is not None:
        return refusal
    of_files, of_partitions = file_statistics.COLUMN_STATS, file_statistics.PARTITION_STATS
    left = {*config.metadata_partitions, *config.metadata_partitions_inflight} - set(names)
    if of_files in names and of_partitions in left:
        return errors.InvalidInputError(
            f"{of_partitions} of {config.name} has the columns of {of_files}: drop both"
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
