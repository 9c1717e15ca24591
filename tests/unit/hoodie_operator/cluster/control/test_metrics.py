"""What Prometheus is told of tables, attempts and interlocks."""

import dataclasses

from prometheus_client.samples import Sample

from hoodie.contract import job_results
from hoodie.model import instants
from hoodie_operator.api import configuration, kinds, objects
from hoodie_operator.cluster.control import metrics, work_queue
from hoodie_operator.cluster.informer import store
from hoodie_operator.reconcile import effective, facts
from support.operators import cluster_helpers
from support.operators import operator_world as ow
from support.operators.flights_world import Flights
from support.operators.rule_examples import edited
from support.simulation.moved_clock import MovedClock


class Counted:
    """A world whose changes of status are counted."""

    def __init__(self, table: dict[str, object] | None = None) -> None:
        self.here = Flights(table)
        self.metrics = metrics.Metrics()

    def settle(self) -> None:
        """Settle, and count each status that has changed by it."""
        here = self.here
        before = {key: found.status for key, found in here.by_key.items()}
        here.settle()
        for key, found in here.by_key.items():
            status = before.get(key, type(found.status)())
            if found.status != status:
                runs = facts.of_owner(here.runs, found)
                self.metrics.changed(status, found, runs, here.now_ms)

    def value(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(name, labels)


def _end(here: Flights, key: objects.ObjectKey) -> None:
    """End an attempt that waited for the lock for two seconds and held it for one."""
    here.end(here.uid(key), is_told=True)
    run = here.run(here.uid(key))
    result = job_results.JobResult(attempt=run.id.attempt, lock_wait_ms=2000, lock_hold_ms=1000)
    here.put_run(dataclasses.replace(run, result=result))
    here.see_table(here.table_key)


def test_end_of_an_attempt_is_counted_once_with_its_times_at_the_lock() -> None:
    counted = Counted()
    key = counted.here.add_writer("left")
    counted.settle()
    assert counted.value("hudi_lock_wait_seconds_count") == 0
    _end(counted.here, key)
    counted.settle()
    counted.settle()
    assert counted.value("hudi_writer_attempts_total", **{"class": "Succeeded"}) == 1
    assert counted.value("hudi_lock_wait_seconds_sum") == 2
    assert counted.value("hudi_lock_hold_seconds_sum") == 1


def test_error_of_a_kind_that_only_its_run_knows_makes_no_series_of_its_own() -> None:
    counted = Counted()
    key = counted.here.add_writer("left")
    counted.settle()
    counted.here.end(counted.here.uid(key), error="x" * 5000)
    counted.settle()
    assert counted.value("hudi_writer_attempts_total", **{"class": "Other"}) == 1


def test_wait_of_an_action_for_its_first_attempt_is_counted() -> None:
    counted = Counted()
    here = counted.here
    here.add_policy()
    here.see_table(here.table_key, [ow.commit(1), ow.commit(2)])
    here.now_ms += 60_000
    counted.settle()
    (action,) = here.compactions()
    created_ms = here.by_key[action].created_ms
    waited_s = (here.run(here.uid(action)).started_ms - created_ms) // 1000
    assert counted.value("hudi_action_queue_seconds_sum", type="Compaction") == waited_s
    assert counted.value("hudi_action_queue_seconds_count", type="Compaction") == 1


def test_what_an_interlock_holds_is_counted_when_it_begins_to() -> None:
    counted = Counted(
        edited(ow.TABLE, concurrency={"mode": "SingleWriter", "lockRef": {"name": "zk"}})
    )
    counted.here.add_writer("left")
    counted.here.add_writer("right", "b")
    counted.settle()
    counted.here.now_ms += 1000
    counted.settle()
    assert counted.value("hudi_interlock_denied_total", reason="SecondWriter") == 1
    assert counted.value("hudi_interlock_denied_total", reason="TableBusy") is None


def test_index_is_told_with_whether_readers_use_it() -> None:
    here = Flights()
    here.change_stored(
        metadata_partitions=("files", "column_stats"),
        metadata_partitions_inflight=("bloom_filters",),
    )
    here.settle()
    told = {
        sample.labels["index"]: sample.value
        for sample in _told(here, work_queue.WorkQueue())
        if sample.name == "hudi_table_index_ready"
    }
    assert told == {"files": 1, "column_stats": 1, "bloom_filters": 0}


def test_progress_of_an_active_action_is_told() -> None:
    here = Flights()
    here.add_policy()
    here.see_table(here.table_key, [ow.commit(1), ow.commit(2)])
    here.settle()
    (action,) = here.compactions()

    def ratios() -> list[float]:
        name = "hudi_action_progress_ratio"
        told = [each for each in _told(here, work_queue.WorkQueue()) if each.name == name]
        assert all(each.labels["type"] == "Compaction" for each in told)
        return [each.value for each in told]

    assert not ratios()
    here.progress(here.uid(action), "merging", 3, 12)
    here.settle()
    assert ratios() == [0.25]
    here.end(here.uid(action))
    here.settle()
    assert not ratios()


def test_lag_of_consumers_is_told() -> None:
    here = Flights()
    here.see_table(here.table_key, [ow.commit(1), ow.commit(2)])
    uid = here.uid(here.table_key)
    found = (
        facts.Consumer(name="billing", consumed=ow.time(1), unread=1, unread_since=ow.time(2)),
        facts.Consumer(name="audit", consumed=ow.time(2)),
    )
    here.tables[uid] = dataclasses.replace(here.tables[uid], consumers=found)
    here.settle()
    told = {
        (sample.name.removeprefix("hudi_table_consumer_"), sample.labels["consumer"]): sample.value
        for sample in _told(here, work_queue.WorkQueue())
        if sample.name.startswith("hudi_table_consumer_")
    }
    assert told == {
        ("unread_commits", "billing"): 1,
        ("unread_commits", "audit"): 0,
        ("unread_since_timestamp_seconds", "billing"): instants.parse_time(ow.time(2)) / 1000,
    }


def _told(here: Flights, due: work_queue.WorkQueue, now_s: float = 0.0) -> list[Sample]:
    our_clock = MovedClock(now_s)
    known = store.Store(effective.locator([ow.DATA_ROOT]), cluster_helpers.read_run, our_clock)
    for found in here.by_key.values():
        known.by_key.put(found)
    collector = metrics.Known(known, here.tables, due, our_clock)
    return [sample for family in collector.collect() for sample in family.samples]


def test_table_is_told_with_what_it_is_and_its_state() -> None:
    told = {sample.name: sample.labels for sample in _told(Flights(), work_queue.WorkQueue())}
    place = {"namespace": "default", "table": "flights"}
    assert told["hudi_table_info"] == place | {
        "type": "MergeOnRead",
        "version": "9",
        "mode": "NonBlocking",
    }
    assert told["hudi_table_state"] == place | {"state": "Ready"}


def test_table_that_was_refused_before_it_was_looked_at_has_its_state_told() -> None:
    here = Flights(edited(ow.TABLE, storage__path="/etc"), is_ready=False)
    here.settle()
    assert not here.tables
    told = [
        sample
        for sample in _told(here, work_queue.WorkQueue())
        if sample.name == "hudi_table_state"
    ]
    assert [sample.labels["state"] for sample in told] == ["Stalled"]


def test_depth_of_the_queue_is_what_waits_now() -> None:
    here = Flights()
    due = work_queue.WorkQueue()
    for at_s, key in enumerate(here.by_key):
        due.add(key, 60.0 * at_s)
    depths = {
        now_s: sample.value
        for now_s in (0.0, 60.0, 3600.0)
        for sample in _told(here, due, now_s)
        if sample.name == "hudi_workqueue_depth"
    }
    assert depths == {0.0: 1, 60.0: 2, 3600.0: len(here.by_key)}


def test_place_in_the_queue_is_that_of_the_first_action_of_a_table_and_type() -> None:
    here = Flights()
    here.limits = dataclasses.replace(here.limits, slots=configuration.Slots(total=1))
    for name, action_type in (
        ("a", "Archive"),
        ("b", "CreateSavepoint"),
        ("c", "Rollback"),
        ("d", "Rollback"),
    ):
        spec = {"tableRef": {"name": "flights"}, "type": action_type}
        here.add(kinds.TABLE_ACTION, name, spec)
    here.settle()
    places = {
        sample.labels["type"]: sample.value
        for sample in _told(here, work_queue.WorkQueue())
        if sample.name == "hudi_action_queue_place"
    }
    assert places == {"CreateSavepoint": 1, "Rollback": 2}


def test_lag_of_a_mirror_is_told() -> None:
    here = Flights()
    here.see_table(here.table_key, [ow.commit(1), ow.commit(2)])
    uid = here.uid(here.table_key)
    mirror = facts.Mirror(
        completion_time=ow.commit(1).completion_time,
        instant=ow.time(1),
        snapshots=1,
        unmirrored_groups=4,
        unmirrored_log_bytes=9,
    )
    here.tables[uid] = dataclasses.replace(here.tables[uid], mirror=mirror)
    here.settle()
    told = {
        sample.name.removeprefix("hudi_table_mirror_"): sample.value
        for sample in _told(here, work_queue.WorkQueue())
        if sample.name.startswith("hudi_table_mirror_")
    }
    since_s = instants.parse_time(ow.time(2)) // 1000
    assert told == {
        "unmirrored_commits": 1,
        "unmirrored_since_timestamp_seconds": since_s,
        "unmirrored_file_groups": 4,
    }
