"""What is decided where runs are pods: obstacles, silent nodes, memory, accounts."""

import dataclasses

import pytest

from hoodie import errors
from hoodie.contract import job_results
from hoodie_operator.api import kinds, objects
from hoodie_operator.reconcile import facts, retries
from hoodie_operator.reconcile.facts import Obstacle
from support.operators import operator_world as ow
from support.operators.operator_world import Outside


class Place(Outside):
    """A ready table and a Writer of one file, whose first attempt was started."""

    def __init__(self, **table: object) -> None:
        super().__init__()
        self.lock_key = self.add(kinds.LOCK_PROVIDER, "zk", ow.LOCK)
        self.table_key = self.add(kinds.HUDI_TABLE, "flights", {**ow.TABLE, **table})
        self.see_lock(self.lock_key)
        self.see_table(self.table_key)
        self.settle()
        self.end(self.uid(self.table_key), is_told=True)
        self.see_table(self.table_key)
        self.writer: objects.ObjectKey = self.add(kinds.WRITER, "w", ow.writer_spec())
        self.see_source(self.writer, [["1"]], ["id", "a"])
        self.settle()

    def change(self, **changes: object) -> None:
        """Change what is known of the Writer's newest attempt."""
        run = self.run(self.uid(self.writer))
        self.put_run(dataclasses.replace(run, **changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("obstacle", "reason"),
    [
        (Obstacle.NO_POD, "PodNotCreated"),
        (Obstacle.NO_NODE, "Unschedulable"),
        (Obstacle.NO_IMAGE, "ImageNotPulled"),
        (Obstacle.NO_CONTAINER, "ContainerNotCreated"),
        (Obstacle.BEGINNING, "Starting"),
    ],
)
def test_each_obstacle_is_a_reason_and_after_a_while_a_failure(
    obstacle: Obstacle, reason: str
) -> None:
    here = Place()
    here.change(waiting=facts.Waiting(obstacle=obstacle, message="so", since_ms=here.now_ms))
    here.now_ms += 6_000
    here.settle()
    state, told, message = here.condition(here.writer)
    assert (state, told) == ("Starting", reason)
    assert "so" in message
    here.now_ms += 601_000
    here.settle()
    assert [stop.is_killed for stop in here.stopped] == [False]
    assert here.stopped[0].reason.startswith(retries.TOO_SLOW[obstacle])
    here.end(here.uid(here.writer))
    here.see_table(here.table_key)
    here.settle()
    assert here.condition(here.writer)[:2] == ("BackingOff", "BackingOff")
    assert "so" in here.condition(here.writer)[2]


def test_run_that_waits_for_its_executors_says_so_and_is_stopped_after_a_while() -> None:
    here = Place()
    told = job_results.JobProgress(
        phase="writing batch 1", done=0, total=12, updated_ms=here.now_ms
    )
    here.change(began_ms=here.now_ms, progress=told)
    here.settle()
    assert here.condition(here.writer)[:2] == ("Running", "Running")
    message = "executor w-exec-1: 1 Insufficient cpu"
    waiting = facts.Waiting(obstacle=Obstacle.NO_NODE, message=message, since_ms=here.now_ms)
    here.change(waiting=waiting)
    here.now_ms += 6_000
    here.settle()
    assert here.condition(here.writer) == (
        "Starting",
        "Unschedulable",
        f"attempt 1, pid 1 on test: writing batch 1 0/12: its pod cannot be scheduled: {message}",
    )
    here.change(waiting=None)
    here.settle()
    assert here.condition(here.writer)[:2] == ("Running", "Running")
    here.change(waiting=waiting)
    here.now_ms += 601_000
    here.settle()
    assert [stop.reason for stop in here.stopped] == [
        f"{retries.UNSCHEDULABLE}: its pod cannot be scheduled: {message}"
    ]


@pytest.mark.parametrize("is_begun", [False, True])
@pytest.mark.parametrize("obstacle", list(Obstacle))
def test_run_that_is_kept_back_begins_anew_when_what_it_runs_on_is_mended(
    obstacle: Obstacle, *, is_begun: bool
) -> None:
    here = Place()
    run_hash = here.started[-1].run_hash
    waiting = facts.Waiting(obstacle=obstacle, message="so", since_ms=here.now_ms)
    began_ms = here.now_ms if is_begun else None
    here.change(run_hash=run_hash, waiting=waiting, began_ms=began_ms)
    here.settle()
    assert not here.stopped
    here.edit(here.writer, runtime={"image": "mended:1"})
    here.settle()
    if obstacle is Obstacle.BEGINNING:
        assert not here.stopped
        return
    assert [(stop.is_killed, stop.reason) for stop in here.stopped] == [
        (False, "its image, resources or configuration changed while it could not start")
    ]
    cause = facts.Cause(kind=retries.INFRASTRUCTURE, message="its pod was deleted")
    here.change(ended_ms=here.now_ms, waiting=None, cause=cause)
    here.see_table(here.table_key)
    here.see_source(here.writer, [["1"]], ["id", "a"])
    here.settle()
    # At once, and nothing has failed.
    assert here.started[-1].run_hash != run_hash
    assert here.started[-1].id.attempt == 2


def test_run_at_work_goes_on_with_what_it_has_when_that_is_edited() -> None:
    here = Place()
    here.change(run_hash=here.started[-1].run_hash, began_ms=here.now_ms)
    here.edit(here.writer, runtime={"image": "newer:1"})
    here.settle()
    assert not here.stopped


@pytest.mark.parametrize("obstacle", [Obstacle.NO_POD, Obstacle.NO_NODE])
def test_what_every_pod_waits_for_is_no_news(obstacle: Obstacle) -> None:
    here = Place()
    here.change(waiting=facts.Waiting(obstacle=obstacle, message="so", since_ms=here.now_ms))
    here.settle()
    assert here.condition(here.writer) == (
        "Starting",
        "Starting",
        "attempt 1, pid 1 on test is starting",
    )


def test_run_on_a_silent_node_is_stalled_and_nothing_is_started_beside_it() -> None:
    here = Place()
    started = len(here.started)
    here.change(unknown_after_ms=1000)
    here.settle()
    assert here.condition(here.writer)[0] == "Starting"
    here.now_ms += 24 * 3_600_000
    here.settle()
    assert here.condition(here.writer)[:2] == ("Stalled", "PodStateUnknown")
    assert len(here.started) == started
    # The node is back, and the pod gone.
    cause = facts.Cause(kind=retries.INFRASTRUCTURE, message="its pod was deleted")
    here.change(ended_ms=here.now_ms, cause=cause)
    here.see_table(here.table_key)
    here.settle()
    assert here.condition(here.writer)[0] == "BackingOff"


def test_attempt_after_one_out_of_memory_gets_more() -> None:
    here = Place()
    cause = facts.Cause(kind=errors.OutOfMemoryError.kind, message="OOMKilled")
    here.change(ended_ms=here.now_ms, cause=cause)
    here.settle()
    here.now_ms += 600_000
    here.see_table(here.table_key)
    here.settle()
    assert [start.memory_percent for start in here.started[-2:]] == [100, 150]


def test_attempt_that_was_not_made_is_followed_by_another_until_too_many_failed() -> None:
    here = Place()
    for _ in range(6):
        cause = facts.Cause(kind=retries.NOT_CREATED, message="exceeded quota: runs")
        here.change(ended_ms=here.now_ms, cause=cause)
        here.settle()
        here.now_ms += 3_600_000
        here.see_table(here.table_key)
        here.settle()
    state, reason, message = here.condition(here.writer)
    assert (state, reason) == ("Stalled", "RetriesExhausted")
    assert "exceeded quota" in message


def test_account_that_the_operator_does_not_allow_is_refused() -> None:
    here = Outside()
    here.limits = dataclasses.replace(here.limits, service_accounts=frozenset({"jobs", "lake"}))
    here.see_lock(here.add(kinds.LOCK_PROVIDER, "zk", ow.LOCK))
    for name, expected in (("lake", "Pending"), ("admin", "Stalled")):
        storage = {"path": name, "serviceAccount": name}
        key = here.add(kinds.HUDI_TABLE, name, {**ow.TABLE, "storage": storage})
        here.settle()
        assert here.condition(key)[0] == expected
    assert here.condition(key)[1] == "AccountNotAllowed"


def test_of_tables_made_in_one_second_at_one_place_one_is_refused_in_each_order() -> None:
    for names in (("a", "b"), ("b", "a")):
        here = Outside()
        here.see_lock(here.add(kinds.LOCK_PROVIDER, "zk", ow.LOCK))
        keys = [
            here.add(kinds.HUDI_TABLE, name, {**ow.TABLE, "storage": {"path": "same"}})
            for name in names
        ]
        for key in keys:
            here.by_key[key] = dataclasses.replace(here.by_key[key], created_ms=ow.START_MS)
            here.see_table(key, is_there=False)
        here.settle()
        refused = [key.name for key in keys if here.condition(key)[1] == "LocationConflict"]
        assert refused == ["b"]


def test_table_with_all_that_its_pods_need_is_made_and_written() -> None:
    storage = {
        "path": "flights",
        "secrets": ["s3"],
        "env": {"AWS_REGION": "eu-west-1"},
        "volumes": [{"name": "lake", "persistentVolumeClaim": "lake", "mountPath": "/data"}],
    }
    here = Place(storage=storage)
    assert here.condition(here.table_key)[0] == "Ready"
    assert here.started[-1].id.name == "w"
    # What pods need to get there is nothing that writers have to agree on.
    protocol_hash = here.started[-1].table.protocol_hash
    here.edit(here.table_key, storage__env={"AWS_REGION": "eu-west-2"})
    here.settle()
    assert not here.stopped
    assert here.started[-1].table.protocol_hash == protocol_hash
