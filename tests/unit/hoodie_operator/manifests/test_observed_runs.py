"""What Jobs and Pods mean: every shape that an attempt can be in."""

import copy
from typing import Any

import pytest

from hoodie import errors
from hoodie.contract import job_results
from hoodie_operator.manifests import observed
from hoodie_operator.reconcile import facts, retries
from hoodie_operator.reconcile.facts import Obstacle
from support.operators import pod_shapes as shapes

NOW_MS = shapes.START_MS + 100_000


def read(job: shapes.Shape | None, *pods: shapes.Shape, now_ms: int = NOW_MS) -> facts.Run:
    found = observed.read(job, pods, None, now_ms)
    assert found is not None
    return found


def test_what_is_not_ours_is_no_attempt() -> None:
    foreign = shapes.job()
    del foreign["metadata"]["labels"]["hudi.dev/attempt"]
    assert observed.read(foreign, [], None, NOW_MS) is None
    assert observed.read(None, [], None, NOW_MS) is None


def test_job_that_was_never_resumed_is_no_attempt() -> None:
    assert observed.read(shapes.unstarted_job(), [], None, NOW_MS) is None
    # Somebody's `kubectl patch` of one that was is no reason to start it a second time.
    paused = shapes.job()
    paused["spec"]["suspend"] = True
    assert read(paused).is_running


def test_pods_beside_a_job_that_was_never_resumed_are_those_of_an_earlier_one() -> None:
    found = read(shapes.unstarted_job(), shapes.running())
    assert (found.is_running, found.waiting) == (True, None)


def test_running_attempt() -> None:
    told = job_results.JobProgress(phase="writing", done=1, total=2, updated_ms=NOW_MS)
    found = observed.read(shapes.job(), [shapes.running()], told, NOW_MS)
    assert found is not None
    assert found.id == facts.RunId(
        kind="Writer", namespace="n", name="orders", uid="a1b2c3d4-0000", attempt=3
    )
    assert (found.protocol_hash, found.started_ms) == ("p", shapes.START_MS)
    assert (found.is_running, found.waiting, found.progress) == (True, None, told)
    assert found.began_ms == shapes.START_MS + 5000
    assert found.process == "pod orders-a1b2c3-3-x7k2p"


@pytest.mark.parametrize(
    ("pods", "obstacle", "told"),
    [
        ([], Obstacle.NO_POD, "see the events of Job orders-a1b2c3-3"),
        ([shapes.unschedulable()], Obstacle.NO_NODE, "2 Insufficient memory"),
        ([shapes.waiting("ContainerCreating")], Obstacle.BEGINNING, ""),
        (
            [shapes.waiting("ImagePullBackOff", 'Back-off pulling image "hudi:2"')],
            Obstacle.NO_IMAGE,
            'ImagePullBackOff: Back-off pulling image "hudi:2"',
        ),
        ([shapes.waiting("ErrImageNeverPull")], Obstacle.NO_IMAGE, "ErrImageNeverPull"),
        (
            [shapes.waiting("CreateContainerConfigError", 'secret "s3" not found')],
            Obstacle.NO_CONTAINER,
            'secret "s3" not found',
        ),
    ],
)
def test_attempt_that_has_not_begun_says_why(
    pods: list[shapes.Shape], obstacle: Obstacle, told: str
) -> None:
    found = read(shapes.job(), *pods)
    assert found.is_running
    assert found.waiting is not None
    assert found.waiting.obstacle is obstacle
    assert told in found.waiting.message
    assert shapes.START_MS <= found.waiting.since_ms <= shapes.START_MS + 2000


def test_what_is_kept_of_a_job_and_its_pods_tells_the_same() -> None:
    told = {"name": "told", "configMap": {"name": "orders-a1b2c3-3-0123456789"}}
    job = shapes.job(ended="Complete")
    job["spec"]["template"] = {"spec": {"containers": [{"name": "x"}], "volumes": [told]}}
    pod = {**shapes.ended(0, "Completed", shapes.RESULT), "spec": {"containers": [{"name": "x"}]}}
    kept = [observed.kept(each) for each in (job, pod)]
    assert [each["spec"] for each in kept] == [
        {"suspend": False, "template": {"spec": {"volumes": [told]}}},
        {},
    ]
    assert read(*kept) == read(job, pod)


def test_finished_attempt_tells_its_result() -> None:
    found = read(shapes.job(ended="Complete"), shapes.ended(0, "Completed", shapes.RESULT))
    assert (found.ended_ms, found.exit_code, found.cause) == (NOW_MS, 0, None)
    assert found.result is not None
    assert found.result.commit_count == 2


def test_container_that_others_have_put_into_the_pod_is_not_the_driver() -> None:
    ended = shapes.ended(0, "Completed", shapes.RESULT)
    sidecar = {"name": "a-proxy", "state": {"terminated": {"exitCode": 2, "reason": "OOMKilled"}}}
    ended["status"]["containerStatuses"].insert(0, sidecar)
    found = read(shapes.job(ended="Complete"), ended)
    assert (found.exit_code, found.cause) == (0, None)
    assert found.result is not None


@pytest.mark.parametrize("message", [None, "", "Traceback (most recent call last):", '{"a":1}'])
def test_garbage_is_no_result(message: str | None) -> None:
    found = read(shapes.job(ended="Failed"), shapes.ended(1, "Error", message))
    assert (found.ended_ms, found.exit_code, found.result, found.cause) == (NOW_MS, 1, None, None)


def test_attempt_killed_for_its_memory() -> None:
    found = read(shapes.job(ended="Failed"), shapes.ended(137, "OOMKilled"))
    assert found.cause is not None
    assert found.cause.kind == errors.OutOfMemoryError.kind


@pytest.mark.parametrize(
    ("pods", "told"),
    [
        ([shapes.evicted_by_node()], "low on resource: memory"),
        ([shapes.evicted_by_api()], "Eviction API"),
        ([], "was deleted"),
        ([shapes.pod("Failed", reason="NodeShutdown", message="shutting down")], "shutting down"),
        ([shapes.pod("Failed")], "has no exit code"),
    ],
)
def test_what_is_taken_from_an_attempt_is_the_infrastructure(
    pods: list[shapes.Shape], told: str
) -> None:
    found = read(shapes.job(ended="Failed"), *pods)
    assert not found.is_running
    assert found.cause is not None
    assert found.cause.kind == retries.INFRASTRUCTURE
    assert told in found.cause.message


def test_attempt_has_not_ended_before_all_its_pods_have() -> None:
    over = shapes.ended(0, "Completed", shapes.RESULT)
    assert read(shapes.job(ended="Complete"), over, shapes.executor()).is_running
    assert read(shapes.job(ended="Failed"), shapes.executor()).is_running
    assert read(shapes.job(), over).is_running
    assert not read(shapes.job(ended="Complete"), over, shapes.executor("Succeeded")).is_running


def test_pods_without_their_job_are_still_an_attempt() -> None:
    found = read(None, shapes.running())
    assert (found.is_running, found.protocol_hash, found.id.attempt) == (True, "p", 3)
    assert read(None, shapes.executor()).is_running


def test_pod_that_should_be_gone_is_in_a_state_that_nobody_knows() -> None:
    gone = shapes.to_be_gone(shapes.running(), 30)
    found = read(shapes.job(), gone)
    assert found.is_running
    assert found.unknown_after_ms == 30_000 + observed.OVERDUE_MS
    assert read(shapes.job(), shapes.running()).unknown_after_ms is None
    over = shapes.to_be_gone(shapes.ended(0, "Completed", shapes.RESULT), 30)
    assert read(shapes.job(ended="Complete"), over).unknown_after_ms is None
    assert read(shapes.job(), shapes.pod("Unknown")).unknown_after_ms == 0


def test_request_to_stop_is_in_the_job() -> None:
    annotations: dict[str, Any] = {
        "hudi.dev/stop-requested-ms": "1800000090000",
        "hudi.dev/stop-reason": "the Writer is suspended",
    }
    found = read(shapes.job(**annotations), shapes.running())
    assert found.stop_requested_ms == 1_800_000_090_000
    assert found.stop_reason == "the Writer is suspended"


@pytest.mark.parametrize(
    ("executor", "obstacle", "told"),
    [
        (shapes.unschedulable(), Obstacle.NO_NODE, "2 Insufficient memory"),
        (shapes.waiting("ErrImagePull", "no such image"), Obstacle.NO_IMAGE, "no such image"),
        (
            shapes.waiting("CreateContainerConfigError", "no secret"),
            Obstacle.NO_CONTAINER,
            "no secret",
        ),
    ],
)
def test_attempt_whose_executors_cannot_begin_says_why(
    executor: shapes.Shape, obstacle: Obstacle, told: str
) -> None:
    kept_back = shapes.of_executor(copy.deepcopy(executor))
    found = read(shapes.job(), shapes.running(), kept_back)
    assert found.began_ms is not None
    assert found.waiting is not None
    assert found.waiting.obstacle is obstacle
    assert found.waiting.message.startswith("executor orders-a1b2c3-3-exec-1: ")
    assert told in found.waiting.message
    # One that is at work has something to do.
    assert read(shapes.job(), shapes.running(), kept_back, shapes.executor()).waiting is None
    # What was not begun goes with its driver.
    assert read(None, shapes.to_be_gone(kept_back, 70), shapes.running()).waiting is None


def test_executors_that_begin_are_not_told_of() -> None:
    for state in (shapes.waiting("ContainerCreating"), shapes.executor("Succeeded")):
        beginning = shapes.of_executor(state)
        assert read(shapes.job(), shapes.running(), beginning).waiting is None


def test_executors_left_by_their_driver_are_found() -> None:
    over, executor = shapes.ended(137, "OOMKilled"), shapes.executor()
    failed = shapes.job(ended="Failed")
    assert read(failed, over, executor).is_abandoned
    assert read(failed, executor).is_abandoned
    assert read(None, executor).is_abandoned
    for job, pods in (
        (shapes.job(), [shapes.running(), executor]),
        (shapes.job(), [over, executor]),
        (None, [shapes.running(), executor]),
        (failed, [over, shapes.executor("Succeeded")]),
    ):
        assert not read(job, *pods).is_abandoned
