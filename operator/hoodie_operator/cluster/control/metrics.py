"""Metrics for Prometheus: of the tables as they are known, and of the operator's own work.

A table's name is a label only where the figure is the table's. What is known anyway is read when it
is asked for; nothing is kept for it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, cast

import prometheus_client
from prometheus_client import core, registry

from hoodie import clock
from hoodie.model import instants
from hoodie_operator.api import (
    attempts,
    conditions,
    hudi_table,
    hudi_table_status,
    kinds,
    objects,
    table_action,
    times,
)
from hoodie_operator.api.conditions import Type
from hoodie_operator.api.reasons import Reason
from hoodie_operator.api.states import State
from hoodie_operator.cluster.control import work_queue
from hoodie_operator.cluster.informer import store
from hoodie_operator.reconcile import admission, facts, retries, timelines

_TABLE: Final = ("namespace", "table")
_FAST: Final = (0.0002, 0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0)
_SLOW: Final = (0.01, 0.05, 0.2, 0.5, 1.0, 2.0, 5.0, 20.0)
_LONG: Final = (1, 5, 20, 60, 300, 1200, 3600, 14_400)


_INTERLOCKS: Final = frozenset(
    reason.value
    for reason in (
        Reason.TABLE_BUSY,
        Reason.OWNED_ELSEWHERE,
        Reason.LOCK_NOT_READY,
        Reason.SECOND_WRITER,
        Reason.DUPLICATE_WRITER_ID,
        Reason.SHARED_COLUMNS,
        Reason.LOCATION_CONFLICT,
        Reason.DISABLED,
    )
)
"""Reasons of objects that may not run now, or not at all, because of others."""


class Metrics:
    """What the operator counts of its own work."""

    def __init__(self) -> None:
        """Count from zero."""
        self.registry = prometheus_client.CollectorRegistry()
        self.leader = self._gauge("hudi_operator_leader", "Whether this process leads.")
        self.decisions = self._counter("hudi_reconcile_total", "Decisions.", ("kind", "result"))
        self.decision_s = self._histogram(
            "hudi_reconcile_seconds", "Time that a decision took.", ("kind",), _FAST
        )
        self.waited_s = self._histogram(
            "hudi_workqueue_wait_seconds", "Time that a due key waited for its decision.", (), _SLOW
        )
        self.acts = self._counter("hudi_acts_total", "What was done.", ("act", "result"))
        self.requests = self._counter(
            "hudi_api_requests_total", "Answers of the API server.", ("method", "status")
        )
        self.observed_s = self._histogram(
            "hudi_observer_duration_seconds", "Time that a question to observers took.", (), _SLOW
        )
        self.unobserved = self._counter(
            "hudi_observer_errors_total", "Tables that could not be looked at.", ("class",)
        )
        self.actions = self._counter("hudi_action_total", "Ended TableActions.", ("type", "result"))
        self.action_s = self._histogram(
            "hudi_action_duration_seconds", "From creation to end.", ("type",), _LONG
        )
        self.action_waited_s = self._histogram(
            "hudi_action_queue_seconds", "From creation to the first attempt.", ("type",), _LONG
        )
        self.attempts = self._counter(
            "hudi_writer_attempts_total", "Ended attempts of Writers.", ("class",)
        )
        self.lock_wait_s = self._histogram(
            "hudi_lock_wait_seconds", "Waits of an attempt for the table's lock, summed.", (), _SLOW
        )
        self.lock_hold_s = self._histogram(
            "hudi_lock_hold_seconds", "Times that an attempt held it, summed.", (), _SLOW
        )
        self.denied = self._counter(
            "hudi_interlock_denied_total", "Objects that an interlock began to hold.", ("reason",)
        )

    def changed(
        self,
        before: conditions.Status,
        after: objects.AnyObject,
        runs: Iterable[facts.Run],
        now_ms: int,
    ) -> None:
        """Count what a change of status tells.

        Args:
            before: The status before.
            after: The object with its status now.
            runs: Its attempts that are known.
            now_ms: The operator's clock.
        """
        ended = _ended_attempts(before, after.status)
        if after.key.kind == kinds.WRITER.name:
            for each in ended:
                told = retries.known(each.error_kind) if each.error_kind else each.outcome.value
                self.attempts.labels(told).inc()
        if after.key.kind == kinds.TABLE_ACTION.name:
            self._action_began(before, after)
            if before.state != after.status.state:
                self._action_ended(after, now_ms)
        numbers = {each.number for each in ended}
        for run in runs:
            if run.id.attempt in numbers and run.result is not None:
                self.lock_wait_s.observe(run.result.lock_wait_ms / 1000)
                self.lock_hold_s.observe(run.result.lock_hold_ms / 1000)
        reason = _reason(after.status)
        if reason in _INTERLOCKS and reason != _reason(before):
            self.denied.labels(reason).inc()

    def _action_began(self, before: conditions.Status, after: objects.AnyObject) -> None:
        old, new = _runs(before), _runs(after.status)
        if new is None or not new.attempts or (old is not None and old.attempts):
            return
        first = new.history[0] if new.history else new.current
        if first is not None:
            # Both by the API server's clock: the one of the action, and of its Job.
            waited_ms = times.epoch_ms(first.start_time) - after.created_ms
            self.action_waited_s.labels(_type(after)).observe(waited_ms / 1000)

    def _action_ended(self, after: objects.AnyObject, now_ms: int) -> None:
        action_type = _type(after)
        if after.status.is_true(Type.STALLED) or after.status.state == State.SUCCEEDED.value:
            self.actions.labels(action_type, after.status.state).inc()
            self.action_s.labels(action_type).observe((now_ms - after.created_ms) / 1000)

    def _gauge(self, name: str, told: str) -> prometheus_client.Gauge:
        return prometheus_client.Gauge(name, told, registry=self.registry)

    def _counter(self, name: str, told: str, labels: tuple[str, ...]) -> prometheus_client.Counter:
        return prometheus_client.Counter(name, told, labels, registry=self.registry)

    def _histogram(
        self, name: str, told: str, labels: tuple[str, ...], buckets: tuple[float, ...]
    ) -> prometheus_client.Histogram:
        return prometheus_client.Histogram(
            name, told, labels, buckets=buckets, registry=self.registry
        )


class Known(registry.Collector):
    """What is known of the objects, read when it is asked for."""

    def __init__(
        self,
        known: store.Store,
        tables: Mapping[str, facts.TableFacts],
        due: work_queue.WorkQueue,
        our_clock: clock.Clock,
    ) -> None:
        """Take what is known: it is read, never changed; the clock is the one keys are due by."""
        self._store = known
        self._tables = tables
        self._queue = due
        self._clock = our_clock

    def describe(self) -> Iterator[core.Metric]:
        """Tell nothing beforehand: what there is depends on the objects."""
        yield from ()

    def collect(self) -> Iterator[core.Metric]:
        """Yield the figures as they are now."""
        yield from self._objects()
        yield from self._of_tables()
        yield self._places()
        yield self._progress()
        depth = core.GaugeMetricFamily(
            "hudi_workqueue_depth", "Keys that are due and wait for their decision."
        )
        depth.add_metric((), self._queue.waiting_count(self._clock.monotonic_s()))
        yield depth

    def _objects(self) -> Iterator[core.Metric]:
        family = core.GaugeMetricFamily(
            "hudi_objects", "Objects by kind and state.", labels=("kind", "state")
        )
        counts = Counter(
            (key.kind, found.status.state or "") for key, found in self._store.by_key.items()
        )
        for (kind, state), count in counts.items():
            family.add_metric((kind, state), count)
        yield family

    def _places(self) -> core.Metric:
        family = core.GaugeMetricFamily(
            "hudi_action_queue_place",
            "Place in the queue of the first action of a table that waits for a slot.",
            labels=(*_TABLE, "type"),
        )
        places: dict[tuple[str, ...], int] = {}
        queued = cast("Iterable[objects.Action]", self._store.by_key.queued())
        for place, found in enumerate(sorted(queued, key=admission.order), start=1):
            table = found.spec.table_ref.name
            places.setdefault((found.key.namespace, table, found.spec.type.value), place)
        for labels, place in places.items():
            family.add_metric(labels, place)
        return family

    def _progress(self) -> core.Metric:
        family = core.GaugeMetricFamily(
            "hudi_action_progress_ratio",
            "What the phase of an active TableAction has done, of 1; of several the least.",
            labels=(*_TABLE, "type"),
        )
        ratios: dict[tuple[str, str, str], float] = {}
        for found in self._store.by_key.values():
            if not isinstance(found.spec, table_action.TableActionSpec):
                continue
            status = cast("table_action.TableActionStatus", found.status)
            current = None if status.runs is None else status.runs.current
            if current is not None and current.total:
                spec = found.spec
                labels = (found.key.namespace, spec.table_ref.name, spec.type.value)
                ratio = (current.done or 0) / current.total
                ratios[labels] = min(ratio, ratios.get(labels, ratio))
        for place, least in ratios.items():
            family.add_metric(place, least)
        return family

    def _of_tables(self) -> Iterator[core.Metric]:
        families = {
            name: core.GaugeMetricFamily(name, told, labels=(*_TABLE, *more))
            for name, (told, more) in _TABLES.items()
        }
        for found in self._store.by_key.values():
            if not isinstance(found.spec, hudi_table.HudiTableSpec):
                continue
            seen = self._tables.get(found.uid)
            # One that was refused is never looked at, and has a state all the same.
            figures = () if seen is None else _figures(found, seen)
            for name, more, value in (*_told(found.spec, found.status), *figures):
                families[name].add_metric((found.key.namespace, found.name, *more), value)
        yield from families.values()


_TABLES: Final = {
    "hudi_table_info": ("1, with what the table is.", ("type", "version", "mode")),
    "hudi_table_state": ("1, with the state that it is in.", ("state",)),
    "hudi_table_commits": ("Completed writes and compactions on the active timeline.", ()),
    "hudi_table_last_commit_timestamp_seconds": ("When the newest was completed.", ()),
    "hudi_table_delta_commits_since_compaction": ("What a compaction would take in.", ()),
    "hudi_table_log_bytes": ("In log files since the last compaction.", ()),
    "hudi_table_pending_instants": ("Instants that are requested or inflight.", ("action",)),
    "hudi_table_oldest_pending_instant_timestamp_seconds": (
        "When the oldest of them was requested.",
        ("action",),
    ),
    "hudi_table_stuck_instants": (
        "Instants that are pending for longer than stuck.after of a policy.",
        ("action",),
    ),
    "hudi_table_service_due_timestamp_seconds": (
        "Since when a service is due and has not run.",
        ("service",),
    ),
    "hudi_table_service_overdue": (
        "Whether a service is due for longer than its policy wants.",
        ("service",),
    ),
    "hudi_table_service_failed": ("Whether its last run failed.", ("service",)),
    "hudi_table_service_last_success_timestamp_seconds": (
        "When its last successful run ended.",
        ("service",),
    ),
    "hudi_table_consumer_unread_commits": (
        "Writes that a declared consumer has not read.",
        ("consumer",),
    ),
    "hudi_table_consumer_unread_since_timestamp_seconds": (
        "When the first write completed that a declared consumer has not read.",
        ("consumer",),
    ),
    "hudi_table_passed_consumers": (
        "Consumers that a clean has passed: they have to read the whole table again.",
        (),
    ),
    "hudi_table_metadata_unusable": (
        "Whether readers list the storage because the metadata table is behind or damaged.",
        (),
    ),
    "hudi_table_index_ready": (
        "Whether readers may use a partition of the metadata table, which is an index.",
        ("index",),
    ),
    "hudi_table_mirror_unmirrored_commits": (
        "Commits that the mirror in Iceberg has not followed.",
        (),
    ),
    "hudi_table_mirror_unmirrored_since_timestamp_seconds": (
        "When the first commit completed that the mirror in Iceberg has not followed.",
        (),
    ),
    "hudi_table_mirror_unmirrored_file_groups": (
        "File groups with rows in log files alone, which the mirror in Iceberg lacks.",
        (),
    ),
    "hudi_table_interference": ("Whether another engine changed it as it must not.", ()),
}


def _told(
    spec: hudi_table.HudiTableSpec, status: conditions.Status
) -> Iterator[tuple[str, tuple[str, ...], float]]:
    mode = spec.concurrency.mode.value
    yield "hudi_table_info", (spec.table_type.value, str(spec.table_version), mode), 1
    yield "hudi_table_state", (status.state or "",), 1
    yield "hudi_table_interference", (), status.is_true(Type.INTERFERENCE)
    yield "hudi_table_metadata_unusable", (), status.is_true(Type.METADATA_TABLE_UNUSABLE)
    assert isinstance(status, hudi_table_status.HudiTableStatus)
    for action, count in Counter(each.type for each in status.stuck or ()).items():
        yield "hudi_table_stuck_instants", (action,), count
    for part in (None if status.metadata is None else status.metadata.partitions) or ():
        yield "hudi_table_index_ready", (part.name,), part.ready
    yield from _told_of_mirror(status.mirror)
    for each in status.services or ():
        labels = (each.name,)
        yield "hudi_table_service_overdue", labels, bool(each.overdue)
        yield "hudi_table_service_failed", labels, each.last_failure is not None
        if each.due_since is not None:
            due_s = times.epoch_ms(each.due_since) / 1000
            yield "hudi_table_service_due_timestamp_seconds", labels, due_s
        if each.last is not None:
            last_s = times.epoch_ms(each.last.time) / 1000
            yield "hudi_table_service_last_success_timestamp_seconds", labels, last_s


def _told_of_mirror(
    mirror: hudi_table_status.MirrorStatus | None,
) -> Iterator[tuple[str, tuple[str, ...], float]]:
    if mirror is None:
        return
    yield "hudi_table_mirror_unmirrored_commits", (), mirror.unmirrored_commits or 0
    if mirror.unmirrored_since is not None:
        since_s = times.epoch_ms(mirror.unmirrored_since) / 1000
        yield "hudi_table_mirror_unmirrored_since_timestamp_seconds", (), since_s
    if mirror.unmirrored_file_groups is not None:
        yield "hudi_table_mirror_unmirrored_file_groups", (), mirror.unmirrored_file_groups


def _figures(
    found: objects.AnyObject, seen: facts.TableFacts
) -> Iterator[tuple[str, tuple[str, ...], float]]:
    status = found.status
    assert isinstance(status, hudi_table_status.HudiTableStatus)
    yield "hudi_table_commits", (), len(seen.commits)
    if seen.commits:
        newest_s = timelines.epoch_ms(seen, seen.commits[-1].completion_time) / 1000
        yield "hudi_table_last_commit_timestamp_seconds", (), newest_s
    yield "hudi_table_passed_consumers", (), len(seen.passed_consumers)
    for consumer in seen.consumers:
        yield "hudi_table_consumer_unread_commits", (consumer.name,), consumer.unread
        if consumer.unread_since is not None:
            since_s = timelines.epoch_ms(seen, consumer.unread_since) / 1000
            yield "hudi_table_consumer_unread_since_timestamp_seconds", (consumer.name,), since_s
    if status.backlog is not None:
        yield "hudi_table_delta_commits_since_compaction", (), status.backlog.delta_commits
        yield "hudi_table_log_bytes", (), status.backlog.log_bytes
    pending: dict[str, list[instants.InstantTime]] = {}
    for each in seen.pending:
        pending.setdefault(each.action, []).append(each.requested_time)
    for action, requested in pending.items():
        yield "hudi_table_pending_instants", (action,), len(requested)
        # Of Apache Hudi's own instants, before all times, it is 0.
        oldest_s = timelines.epoch_ms(seen, min(requested)) / 1000
        yield "hudi_table_oldest_pending_instant_timestamp_seconds", (action,), oldest_s


def _ended_attempts(before: conditions.Status, after: conditions.Status) -> list[attempts.Attempt]:
    """Return the attempts that a status tells the end of and the one before did not."""
    old, new = _runs(before), _runs(after)
    known = {each.number for each in (old.history if old else None) or ()}
    return [each for each in (new.history if new else None) or () if each.number not in known]


def _runs(status: conditions.Status) -> attempts.Runs | None:
    found: attempts.Runs | None = getattr(status, "runs", None)
    return found


def _type(action: objects.AnyObject) -> str:
    assert isinstance(action.spec, table_action.TableActionSpec)
    return action.spec.type.value


def _reason(status: conditions.Status) -> str | None:
    ready = status.condition(Type.READY)
    return None if ready is None else ready.reason
