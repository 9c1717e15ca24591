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

BUILDABLE = (
    file_statistics.COLUMN_STATS,
    file_statistics.PARTITION_STATS,
    file_statistics.BLOOM_FILTERS,
    key_changes.RECORD_INDEX,
)
"""In the order of building."""

_VERSION_WITH_PARTITIONED = 9

_NOT_BUILT = {
    metadata_table.FILES: "every metadata table has it: make one by `hoodie metadata init`",
}


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
class Nothing:
    """All is ready."""


Step: TypeAlias = Schedule | Execute | GiveUp | Nothing


def request_refusal(
    names: Sequence[str],
    config: table_config.TableConfig,
    write_settings: settings.WriteSettings,
    *,
    is_partitioned: bool = False,
) -> errors.HoodieError | None:
    """Return why indexes cannot be built in a table, whatever is on its timeline.

    Args:
        names: As they were asked for.
        config: The table's configuration.
        write_settings: Of the process that builds.
        is_partitioned: Whether a record index is to be one of each partition.
    """
    refusal = names_refusal(names) or _partitioned_refusal(names, config, is_partitioned)
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
    return _partition_stats_refusal(names, config)


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


def _partitioned_refusal(
    names: Sequence[str], config: table_config.TableConfig, is_partitioned: bool
) -> errors.HoodieError | None:
    name = key_changes.RECORD_INDEX
    if not is_partitioned:
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
    return None


def kind_refusal(
    names: Sequence[str],
    config: table_config.TableConfig,
    *,
    is_partitioned: bool,
    has_partitioned: bool,
) -> errors.HoodieError | None:
    """Return why a table that has a record index cannot have another.

    Args:
        names: As they were asked for.
        config: The table's configuration.
        is_partitioned: Whether a record index was asked for that is one of each partition.
        has_partitioned: Whether the one that the table has is.
    """
    name = key_changes.RECORD_INDEX
    is_there = name in names and name in config.metadata_partitions
    if not is_there or is_partitioned is has_partitioned:
        return None
    return errors.InvalidInputError(
        f"{config.name} has a {name} {kind_text(is_partitioned=has_partitioned)}, and a table has "
        f"one: drop it by `hoodie index drop {name}`, and build one "
        f"{kind_text(is_partitioned=is_partitioned)} then"
    )


def kind_text(*, is_partitioned: bool) -> str:
    """Return what a record index is of."""
    return "of each partition" if is_partitioned else "of the whole table"


def _expected() -> str:
    return f"{', '.join(BUILDABLE[:-1])} or {BUILDABLE[-1]}"


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


def next_step(
    names: Sequence[str],
    config: table_config.TableConfig,
    builds: Sequence[Build],
    *,
    is_partitioned: bool = False,
) -> Step:
    """Return what is done next so that indexes become ready.

    What is ready is left out, so that a request that broke off goes on with the rest. A plan of
    what is ready, or is not asked for any more by anybody, is never executed.

    Args:
        names: Wanted, as of `request_refusal`.
        config: The table's configuration, read after the timeline.
        builds: Pending there.
        is_partitioned: Whether a record index is to be one of each partition.

    Raises:
        ConflictError: Other indexes are being built, or another engine builds.
    """
    ready = set(config.metadata_partitions)
    missing = tuple(name for name in BUILDABLE if name in names and name not in ready)
    for build in builds:
        if config.has_foreign_writers and not build.is_of_ours:
            raise errors.ConflictError(
                f"{build.instant} of {config.name} was planned by another engine, which builds "
                f"{', '.join(build.plan.names)}: wait until it has, or give the plan up by `hoodie "
                "index drop`"
            )
        if build.is_given_up or ready.intersection(build.plan.names):
            return GiveUp(build)
        if not missing:
            continue
        has_record_index = key_changes.RECORD_INDEX in build.plan.names
        is_other = has_record_index and build.plan.is_partitioned is not is_partitioned
        if set(build.plan.names) <= set(missing) and not is_other:
            return Execute(build)
        kind = f" {kind_text(is_partitioned=build.plan.is_partitioned)}" if is_other else ""
        raise errors.ConflictError(
            f"{build.instant} of {config.name} builds {', '.join(build.plan.names)}{kind}, "
            "expected no other index: finish it by `hoodie index build`, or give it up by `hoodie "
            "index drop`"
        )
    return Schedule(missing) if missing else Nothing()


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
    changes: dict[str, str | None] = {}
    for key, there in (
        (table_config.METADATA_PARTITIONS_KEY, config.metadata_partitions),
        (table_config.METADATA_PARTITIONS_INFLIGHT_KEY, config.metadata_partitions_inflight),
    ):
        if not set(names).isdisjoint(there):
            changes[key] = names_text(set(there) - set(names))
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
