"""Why a write may not begin, and why it may not be published: decisions on facts, no I/O.

A refusal is the error that it would be raised as. Rules stand in tables, are asked in their order,
and the first that objects is the answer. Publication is rule C1 of protocol.md:
everything here must hold in the lock scope, right before the completed file is created; a refusal
publishes nothing. Lock and heartbeat are asked once more right before the creation itself
(`admission.holding`), the lock only then.
"""

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hoodie import deferred, errors
from hoodie.model import instants, key_generators, table_config, time_zones
from hoodie.timeline import active, contents
from hoodie.transaction import authors, fencing

with deferred.imports():
    from hoodie.filegroup import metadata_records, metadata_table

Refusal = errors.HoodieError | None

_DAY_MS = 86_400_000

_FIXED: Mapping[str, Callable[[table_config.TableConfig], object]] = {
    "table version": lambda config: config.version,
    "table type": lambda config: config.table_type.value,
    "record key": lambda config: config.record_key_fields,
    "partition fields": lambda config: config.partition_fields,
    "key generator": key_generators.texts_of_paths,
    "Hive style of partition paths": lambda config: config.is_hive_style,
    "URL encoding of partition paths": lambda config: config.is_url_encoded,
    "ordering fields": lambda config: config.ordering_fields,
    "merge mode": lambda config: config.merge_mode.value,
    "partial update mode": lambda config: config.has_partial_updates,
    "partition columns in paths alone": lambda config: config.drops_partition_columns,
    "index": lambda config: config.index_kind,
    "move of records to other partitions": lambda config: config.updates_partitions,
    "bucket count": lambda config: config.bucket_count,
    "bucket fields": lambda config: config.bucket_fields,
    "chain": lambda config: config.chain,
    "foreign writers": lambda config: config.has_foreign_writers,
    "change data": lambda config: config.change_data and config.change_data.value,
    "presence of a metadata table": lambda config: bool(config.metadata_partitions),
    "time zone": lambda config: config.time_zone and config.time_zone.name,
}
"""What data files were made by: a write that began under one value cannot end under another.

Of the metadata table's partitions what a write did not gather is found in its files."""


def name_refusal(instant: instants.Instant) -> Refusal:
    """Return why a pending instant of another writer is not carried on or taken back by us.

    What we write names it in 17 digits, and Apache Hudi would not find it by them.
    """
    if instant.short_name is None:
        return None
    return errors.UnsupportedError(
        f"{instant} is named {instant.short_name} in its files, expected 17 digits: a writer "
        "before Apache Hudi 0.10 left it pending; complete it or roll it back with Apache Hudi"
    )


def table_refusal(config: table_config.TableConfig, expected: table_config.TableConfig) -> Refusal:
    """Return why a table, as it is configured now, cannot be written.

    Args:
        config: As read under the lock.
        expected: What the data was made for.
    """
    refusal = _metadata_refusal(config)
    if refusal is not None:
        return refusal
    if config.chain is not None and config.chain.version > table_config.CHAIN_VERSION:
        return errors.UnsupportedError(
            f"table {config.name} has a chain of version {config.chain.version}, expected "
            f"{table_config.CHAIN_VERSION} at most: write it with a later release of this project"
        )
    if config.time_zone is None:
        return errors.UnsupportedError(
            f"the timeline of table {config.name} has the local times of its writers, and nothing "
            "says of which time zone: declare it by `hoodie adopt --time-zone`, or in timeZone of "
            "a HudiTable"
        )
    for name, value_of in _FIXED.items():
        if value_of(config) != value_of(expected):
            return errors.ConflictError(
                f"{name} of table {config.name} is {_shown(value_of(config))}, expected "
                f"{_shown(value_of(expected))}, as when this write began: write the batch again"
            )
    return None


def _shown(value: object) -> str:
    match value:
        case None | ():
            return "none"
        case enum.Enum():
            return str(value.value)
        case tuple():
            return ", ".join(map(str, value))
        case _:
            return str(value)


def coming_repetition(
    config: table_config.TableConfig, clock_ms: int, time: instants.InstantTime
) -> time_zones.Repetition | None:
    """Return the repeated times that other engines may give again; None if there are none.

    Args:
        config: The table's.
        clock_ms: What no right clock lags now, since the epoch.
        time: The greatest on the timeline: the clock that gave it may be ahead of ours.
    """
    if not config.has_foreign_writers:
        return None
    found = config.zone.repetition(clock_ms)
    if found is None and (ahead_ms := _ahead_ms(config.zone, clock_ms, time)) is not None:
        found = config.zone.repetition(ahead_ms)
    return None if found is None or found.ends_ms <= clock_ms else found


def _ahead_ms(zone: time_zones.TimeZone, clock_ms: int, time: instants.InstantTime) -> int | None:
    """Return when clocks show a time that they soon will, since the epoch; None for any other."""
    try:
        at_ms = zone.epoch_ms(time)
    except errors.InvalidInputError:
        return None
    return at_ms if clock_ms < at_ms < clock_ms + _DAY_MS else None


def repetition_refusal(
    config: table_config.TableConfig, clock_ms: int, time: instants.InstantTime
) -> Refusal:
    """Return why nothing is planned now that hides what completes later with an earlier time.

    Other engines give the times of an hour twice when clocks are put back. What they complete in
    the second hour would lie below the base file of a compaction that was planned in the first, and
    a clean would count it as older than what it retains.

    Args:
        config: The table's.
        clock_ms: What no right clock lags now, since the epoch.
        time: Of the plan.
    """
    repetition = coming_repetition(config, clock_ms, time)
    if repetition is None:
        return None
    first, end = (f"{time[8:10]}:{time[10:12]}" for time in (repetition.first, repetition.end))
    wait_min = max(1, round((repetition.ends_ms - clock_ms) / 60_000))
    return errors.RepeatedTimeError(
        f"clocks of {config.zone.name} show the times from {first} to {end} of "
        f"{repetition.first[:8]} twice, and other engines may give table {config.name} times that "
        f"go back: no compaction or clean is planned for {wait_min} min. Retry then; tables in UTC "
        "have no such hour"
    )


def _metadata_refusal(config: table_config.TableConfig) -> Refusal:
    """Return why a table's metadata table cannot be kept up."""
    ready = set(config.metadata_partitions)
    building = set(config.metadata_partitions_inflight) - set(config.metadata_partitions_own)
    if building and config.has_foreign_writers:
        return errors.UnsupportedError(
            f"another engine builds {', '.join(sorted(building))} of the metadata table of "
            f"{config.name}, which this version cannot keep up until it is ready: wait for that "
            "engine, or drop the metadata table by `hoodie metadata drop`"
        )
    if ready and metadata_table.FILES not in ready:
        return errors.FormatError(
            f"the metadata table of {config.name} has {', '.join(sorted(ready))} without "
            f"{metadata_table.FILES}, on which the others stand: drop it by `hoodie metadata drop`"
        )
    kept_up = config.metadata_partitions_kept_up
    others = sorted({each for each in kept_up if not metadata_records.is_kept_up(each)})
    if others:
        return errors.UnsupportedError(
            f"the metadata table of {config.name} has {', '.join(others)}, which this version does "
            f"not keep up, expected {', '.join(sorted(metadata_records.KEPT))} and secondary "
            f"indexes only: drop them by `hoodie index drop TABLE {' '.join(others)}`, or the "
            "metadata table by `hoodie metadata drop`"
        )
    return None


def restore_refusal(
    timeline: active.ActiveTimeline, begun_on: active.ActiveTimeline | None = None
) -> Refusal:
    """Return why a restore forbids to change the table.

    Args:
        timeline: Read under the lock.
        begun_on: The timeline on which the action began; a restore that had not completed there
            forbids in any state. A plan is older than its execution: one requested since the plan
            may have completed before that.
    """
    for instant in timeline.instants:
        if instant.action is instants.Action.RESTORE and (
            instant.is_pending or (begun_on is not None and not begun_on.has_file(instant))
        ):
            return errors.ConflictError(f"the table is being restored, or was: {instant}")
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicationFacts:
    """What a decision to publish stands on, all of it found under the lock.

    Attributes:
        inflight: The instant to complete.
        author: Whose it is.
        write_id: By which the author's attempt record names the write; None for an action that it
            does not name.
        begun_on: The timeline on which the action, or this execution of a plan, began.
        timeline: Read in the scope.
        is_heartbeat_alive: It never expired, by our clock.
        is_heartbeat_own: Its file is there and names us.
        rollback_targets: What rollbacks requested since take back; None for what is not known.
        attempt: The author's record.
        config: The table's, now.
        expected: The table's, when the write began.
    """

    inflight: instants.Instant
    author: authors.Author
    write_id: str | None
    begun_on: active.ActiveTimeline
    timeline: active.ActiveTimeline
    is_heartbeat_alive: bool
    is_heartbeat_own: bool
    rollback_targets: contents.RollbackTargets
    attempt: fencing.StoredRecord | None
    config: table_config.TableConfig
    expected: table_config.TableConfig


def publication_refusal(facts: PublicationFacts) -> Refusal:
    """Return why an instant must not be completed; None when it may (C1)."""
    return next((refusal for rule in _RULES if (refusal := rule(facts)) is not None), None)


def _heartbeat(facts: PublicationFacts) -> Refusal:
    if not facts.is_heartbeat_alive:
        return errors.HeartbeatExpiredError(
            f"the heartbeat of {facts.inflight} expired: others may have removed its files"
        )
    if not facts.is_heartbeat_own:
        return errors.HeartbeatExpiredError(
            f"the heartbeat file of {facts.inflight} was removed, or taken over by another"
        )
    return None


def _completed(facts: PublicationFacts) -> Refusal:
    for instant in facts.timeline.instants:
        if (
            instant.is_completed
            and instant.requested_time == facts.inflight.requested_time
            and instant.action is facts.inflight.action.completed
        ):
            return errors.ConflictError(
                f"{facts.inflight} was already completed at {instant.completion_time}"
            )
    return None


def _inflight(facts: PublicationFacts) -> Refusal:
    if facts.timeline.has_file(facts.inflight):
        return None
    return errors.ConflictError(f"{facts.inflight} is no longer on the timeline")


def _late(facts: PublicationFacts) -> Refusal:
    if facts.inflight.requested_time not in facts.timeline.late:
        return None
    return errors.ConflictError(
        f"{facts.inflight} came to the timeline after it had been archived past that time: a "
        "rollback removes it; write the batch again"
    )


def _rollback(facts: PublicationFacts) -> Refusal:
    rollback = rollback_of(facts.inflight.requested_time, facts.rollback_targets)
    if rollback is None:
        return None
    return errors.ConflictError(f"{facts.inflight} is being rolled back by rollback {rollback}")


def rollback_of(
    requested_time: instants.InstantTime,
    targets: contents.RollbackTargets,
) -> instants.InstantTime | None:
    """Return a rollback of an instant, or one whose plan does not tell what it takes back."""
    return next(
        (time for time, target in targets.items() if target is None or target == requested_time),
        None,
    )


_RULES: tuple[Callable[[PublicationFacts], Refusal], ...] = (
    lambda facts: fencing.publication_refusal(facts.attempt, facts.author, facts.write_id),
    _completed,
    _rollback,
    _inflight,
    _late,
    _heartbeat,
    lambda facts: restore_refusal(facts.timeline, facts.begun_on),
    lambda facts: table_refusal(facts.config, facts.expected),
)
