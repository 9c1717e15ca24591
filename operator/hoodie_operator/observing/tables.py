"""Looking at tables: their properties, their timeline, and what their commits say of themselves.

Completed commits never change, so that each is read once.
"""

import functools
import logging
import sys
from collections import OrderedDict
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field

from hoodie import clock, environment, errors
from hoodie.format import timeline_avro
from hoodie.maintenance import consumers
from hoodie.maintenance.compaction import memory
from hoodie.model import commits, instants, settings, table_config
from hoodie.services import metadata_tables, table_stats
from hoodie.services.mirrors import names as mirror_names
from hoodie.services.mirrors import states
from hoodie.storage.protocol import Storage
from hoodie.timeline import (
    active,
    chain,
    clock_evidence,
    contents,
    epochs,
    partition_buckets,
    table_properties,
    transitions,
)
from hoodie.transaction import archived_batches, heartbeats, liveness, writer_batches
from hoodie_operator.reconcile import facts

logger = logging.getLogger(__name__)

_CACHED_MAX = 100_000
_FINDING_LENGTH_MAX = 1_000
_WRONG_TIMES_MAX = 3
_WATCHED = (
    *instants.WRITES,
    instants.Action.COMPACTION,
    instants.Action.ROLLBACK,
    instants.Action.INDEXING,
)
"""Actions of which it matters who works on them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableTarget:
    """A table to look at.

    Attributes:
        uri: Where.
        settings: By which heartbeats are judged.
        mirror: The consumer of the mirror that is looked at.
    """

    uri: str
    settings: settings.WriteSettings
    mirror: str = mirror_names.CONSUMER


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """What a completed instant says.

    Attributes:
        commit: Of itself.
        ledger: Of all writers' newest batches; None when it has none.
        batch_settings: Hash of those it was made under; None when it does not say.
    """

    commit: facts.Commit
    ledger: Mapping[str, tuple[str, ...]] | None
    batch_settings: str | None = None


class TableObserver:
    """Reads tables in this process."""

    def __init__(self, env: environment.Environment) -> None:
        """Take what the outside gives."""
        self._environment = env
        self._batches: dict[str, dict[str, archived_batches.Batches]] = {}
        self._commits: OrderedDict[tuple[str, str], _Seen] = OrderedDict()

    def look(self, target: TableTarget) -> facts.TableFacts:
        """Return what a table's storage tells now: a listing, and what is new since the last."""
        observed_ms = clock.monotonic_ms(self._environment.clock)
        try:
            return self._look(target, observed_ms)
        except errors.HoodieError as error:
            problem = facts.Problem(
                kind=error.kind, message=str(error), is_transient=error.is_transient
            )
            return facts.TableFacts(observed_ms=observed_ms, problem=problem)

    def _look(self, target: TableTarget, observed_ms: int) -> facts.TableFacts:
        storage = self._environment.open_storage(target.uri)
        if storage.uri != target.uri:
            # By a second name it would be a second table, with a lock of its own.
            raise errors.InvalidInputError(
                f"{target.uri} resolves through a link to {storage.uri}, expected that path itself"
            )
        try:
            config = table_properties.load(storage, _Impatient(self._environment.clock))
        except errors.NotFoundError:
            return facts.TableFacts(observed_ms=observed_ms)

        def read(timeline: active.ActiveTimeline) -> tuple[active.ActiveTimeline, list[_Seen]]:
            writes = timeline.completed_writes
            return timeline, [self._commit(storage, target.uri, each) for each in writes]

        timeline, seen = active.with_contents(
            storage, read, functools.partial(chain.load, config=config)
        )
        declared: Sequence[table_stats.ConsumerStats] = ()
        if timeline.consumers:
            now_ms = self._environment.clock.now_ms()
            declared = table_stats.of_consumers(storage, config, timeline, now_ms)
        return facts.TableFacts(
            observed_ms=observed_ms,
            config=config,
            commits=tuple(each.commit for each in seen),
            pending=self._pending(storage, target, timeline),
            last_clean=next(
                (
                    each.requested_time
                    for each in reversed(timeline.completed)
                    if each.action is instants.Action.CLEAN
                ),
                None,
            ),
            savepoints=tuple(
                facts.Savepoint(
                    requested_time=each.requested_time,
                    completion_time=each.completion_time or each.requested_time,
                )
                for each in timeline.savepoints
            ),
            archived=_digests(storage, self._batches.setdefault(target.uri, {})),
            ledger=next((each.ledger for each in reversed(seen) if each.ledger is not None), {}),
            batch_settings={
                each.commit.writer_id: each.batch_settings
                for each in seen
                if each.commit.writer_id is not None and each.batch_settings is not None
            },
            has_partition_buckets=bool(partition_buckets.listed(storage)),
            consumers=_consumers(declared),
            passed_consumers=_passed_consumers(declared),
            interference=(
                *_interference(storage, config),
                *_wrong_times(storage, timeline, config),
            ),
            metadata=_metadata(storage, config, timeline),
            mirror=_mirror(storage, timeline, target.mirror),
        )

    def _commit(self, storage: Storage, uri: str, instant: instants.Instant) -> _Seen:
        assert instant.completion_time is not None
        key = (uri, transitions.path(instant))
        known = self._commits.get(key)
        if known is not None:
            return known
        metadata = contents.read_commit(storage, instant)
        extra = metadata.extra
        ledger = extra.get(writer_batches.LEDGER_KEY)
        commit = facts.Commit(
            requested_time=instant.requested_time,
            completion_time=instant.completion_time,
            action=instant.action.value,
            is_compaction=metadata.is_compacted
            or metadata.operation == commits.Operation.COMPACT.value,
            writer_id=extra.get(commits.WRITER_ID_KEY),
            batch_id=extra.get(commits.BATCH_ID_KEY),
            files=commits.batch_files(extra),
            action_id=extra.get(commits.ACTION_ID_KEY),
            log_bytes=sum(stat.size_bytes for stat in metadata.stats if stat.log_files),
        )
        settings_hash = extra.get(commits.BATCH_SETTINGS_KEY)
        seen = _Seen(
            commit=commit,
            # All commits of a writer mostly have the same.
            batch_settings=None if settings_hash is None else sys.intern(settings_hash),
            ledger=None
            if ledger is None
            else {
                writer: tuple(batches)
                for writer, batches in writer_batches.decode(ledger, key[1]).items()
            },
        )
        self._commits[key] = seen
        if len(self._commits) > _CACHED_MAX:
            self._commits.popitem(last=False)
        return seen

    def _pending(
        self, storage: Storage, target: TableTarget, timeline: active.ActiveTimeline
    ) -> tuple[facts.Pending, ...]:
        """Return the pending instants and who works on them."""
        # Runs judge by the store's clock before they take anything for dead.
        beats = heartbeats.Heartbeats(
            storage,
            self._environment.clock,
            self._environment.background,
            target.settings,
            is_only_watching=True,
        )
        watched = [each for each in timeline.pending if each.action in _WATCHED]
        seen = liveness.look_at(beats, storage, timeline, watched)
        rollbacks = contents.read_rollback_targets(
            storage, timeline, instants.InstantTime(""), is_pending_only=True
        )
        found = []
        for each in timeline.pending:
            owner = seen[each].owner if each in seen else None
            told = _told(storage, each) if each in seen else _Told()
            ids = told.extra
            pending = facts.Pending(
                requested_time=each.requested_time,
                action=each.action.value,
                writer_id=ids.get(commits.WRITER_ID_KEY),
                action_id=ids.get(commits.ACTION_ID_KEY),
                attempt=_number(ids.get(commits.ATTEMPT_KEY)),
                target=rollbacks.get(each.requested_time),
                is_alive=each in seen and seen[each].liveness.is_alive,
                process="" if owner is None else str(owner.process),
                plan_size=told.size,
                indexes=told.indexes,
                is_partitioned=told.is_partitioned,
            )
            found.append(pending)
        return tuple(found)


def _digests(
    storage: Storage, known: MutableMapping[str, archived_batches.Batches]
) -> Mapping[str, str]:
    """Return the digests of the batches that archived commits held, by writer."""
    found = archived_batches.load(storage, known)
    return {writer_id: facts.digests(ids) for writer_id, ids in found.items()}


def _consumers(declared: Sequence[table_stats.ConsumerStats]) -> tuple[facts.Consumer, ...]:
    """Return consumers, those first that are the furthest behind; what a damaged file says is lost.

    A name is a series of the metrics, and whoever may write the table may declare any.
    """
    found = [
        facts.Consumer(
            name=each.consumer.name,
            consumed=each.consumer.consumed,
            is_holding=each.state is consumers.State.HOLDING,
            unread=each.lag.writes,
            unread_since=each.lag.since,
        )
        for each in declared
        if each.lag is not None
    ]
    return tuple(sorted(found, key=lambda each: (each.consumed, each.name))[: facts.CONSUMERS_MAX])


def _passed_consumers(
    declared: Sequence[table_stats.ConsumerStats],
) -> tuple[facts.PassedConsumer, ...]:
    """Return the consumers that a clean has passed.

    One that was silent beyond its limit is passed by right. What a damaged file says is not known.
    """
    return tuple(
        facts.PassedConsumer(
            name=each.consumer.name,
            consumed=each.consumer.consumed,
            clean=each.passed_by.requested_time,
        )
        for each in declared
        if each.state is consumers.State.HOLDING and each.passed_by is not None
    )


def _wrong_times(
    storage: Storage, timeline: active.ActiveTimeline, config: table_config.TableConfig
) -> tuple[str, ...]:
    """Return what is wrong with the times of a table in local time; no request for another."""
    if config.time_zone is None or config.time_zone.is_utc:
        return ()
    found = clock_evidence.of_table(storage, timeline)
    wrong = clock_evidence.findings(found, config.time_zone)[-_WRONG_TIMES_MAX:]
    return tuple(f"{instant} {text}" for instant, text in wrong)


def _interference(storage: Storage, config: table_config.TableConfig) -> tuple[str, ...]:
    opened = chain.opened(storage, config)
    found = () if opened is None else opened.findings()
    # What a tenant's chain holds is not bounded by us.
    return tuple(each.text[:_FINDING_LENGTH_MAX] for each in found[-epochs.FINDINGS_MAX :])


def _metadata(
    storage: Storage, config: table_config.TableConfig, timeline: active.ActiveTimeline
) -> facts.MetadataTable | None:
    """Return how the metadata table is; no request for a table without one."""
    found = metadata_tables.glance(storage, config, timeline)
    if found is None:
        return None
    return facts.MetadataTable(
        delta_commits=found.commits_since_compaction,
        problem=found.problem or "",
        behind=tuple(
            facts.IndexBehind(name=name, instant=instant) for name, instant in found.behind
        ),
        has_partitioned_record_index=found.has_partitioned_record_index,
    )


def _mirror(
    storage: Storage, timeline: active.ActiveTimeline, consumer: str
) -> facts.Mirror | None:
    """Return how far a mirror of the table is; no request for a table that has none."""
    if consumer not in timeline.consumers:
        return None
    try:
        found = states.glance(storage, consumer)
    except errors.FormatError as error:
        logger.debug("%s", error)  # The run that brings it up to date will tell.
        return None
    if found is None:
        return None
    return facts.Mirror(
        completion_time=found.completion_time,
        instant=instants.InstantTime(found.instant) if found.instant else None,
        snapshots=found.snapshots,
        unmirrored_groups=found.unmirrored.groups,
        unmirrored_log_bytes=found.unmirrored.log_bytes,
    )


class _Impatient:
    """A clock that does not wait: what is being changed now is looked at again soon anyway."""

    def __init__(self, system: clock.Clock) -> None:
        self._system = system

    def now_ms(self) -> int:
        return self._system.now_ms()

    def monotonic_s(self) -> float:
        return self._system.monotonic_s()

    def sleep_s(self, seconds: float) -> None:
        del seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """What a pending instant says.

    Attributes:
        extra: Of its author.
        size: Of a planned compaction.
        indexes: Of an indexing action.
        is_partitioned: Whether that has a record index of each partition.
    """

    extra: Mapping[str, str] = field(default_factory=dict)
    size: memory.PlanSize | None = None
    indexes: tuple[str, ...] = ()
    is_partitioned: bool = False


def _told(storage: Storage, instant: instants.Instant) -> _Told:
    """Return what a plan or an inflight write says of its author, and a plan of its work."""
    try:
        if instant.action is instants.Action.COMPACTION:
            plan = contents.read_compaction_plan(storage, instant)
            return _Told(extra=plan.extra, size=memory.size_of(plan.operations))
        if instant.action is instants.Action.INDEXING:
            indexing = contents.read_indexing_plan(storage, instant)
            return _Told(
                extra=indexing.extra,
                indexes=indexing.names,
                is_partitioned=indexing.is_partitioned,
            )
        if instant.action in instants.WRITES and instant.state is instants.State.INFLIGHT:
            path = transitions.path(instant)
            return _Told(extra=timeline_avro.decode_commit(storage.read(path), path).extra)
    except (errors.NotFoundError, errors.FormatError, errors.UnsupportedError) as error:
        # It has moved on, or another engine's is beyond us: its execution will tell.
        logger.debug("%s: %s", storage.uri, error)
    return _Told()


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None
