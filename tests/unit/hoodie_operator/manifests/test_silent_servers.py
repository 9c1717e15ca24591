"""What keeps the pod of a lock server or an observer from answering, by what is told of it."""

import pytest

from hoodie_operator.api import resources
from hoodie_operator.api.resources import Resource
from hoodie_operator.manifests import obstacles
from support.operators import pod_shapes as shapes

LOGS = "see kubectl logs -n n zk-lock-a1b2c3-0 -c lock-server"


def server(resource: Resource = resources.STATEFUL_SET) -> obstacles.Server:
    return obstacles.Server(
        resource=resource, namespace="n", name="zk-lock-a1b2c3", container="lock-server"
    )


def silence(*pods: shapes.Shape) -> str:
    return obstacles.silence(server(), pods)


def waits(reason: str, message: str = "", *, last: shapes.Shape | None = None) -> shapes.Shape:
    return shapes.server({"waiting": {"reason": reason, "message": message}}, last=last)


@pytest.mark.parametrize(
    ("pod", "told"),
    [
        (
            shapes.unplaced_server(),
            (
                "its pod zk-lock-a1b2c3-0 cannot be scheduled: 0/1 nodes are available: pod has "
                "unbound immediate "
                "PersistentVolumeClaims. not found preemption: 0/1 nodes are available: "
                "1 Preemption is not helpful for scheduling."
            ),
        ),
        (
            waits("ImagePullBackOff", 'Back-off pulling image "hudi:2"'),
            (
                "the image of its pod zk-lock-a1b2c3-0 has not been pulled: "
                'ImagePullBackOff: Back-off pulling image "hudi:2"'
            ),
        ),
        (
            waits("CreateContainerConfigError", 'secret "s3" not found'),
            (
                "the container of its pod zk-lock-a1b2c3-0 cannot be created: "
                'CreateContainerConfigError: secret "s3" not found'
            ),
        ),
        (
            waits("ContainerCreating"),
            (
                "its pod zk-lock-a1b2c3-0 on node node-7 is starting: "
                "see kubectl describe pod -n n zk-lock-a1b2c3-0"
            ),
        ),
        (
            shapes.server({"running": {"startedAt": shapes.at(5)}}),
            (
                "its pod zk-lock-a1b2c3-0 on node node-7 is running and not ready: "
                "containers with unready status: [lock-server]"
            ),
        ),
        (shapes.ready_server(), "its pod zk-lock-a1b2c3-0 on node node-7 is ready"),
        (
            shapes.to_be_gone(shapes.ready_server(), 30),
            "its pod zk-lock-a1b2c3-0 on node node-7 is terminating",
        ),
    ],
)
def test_pod_that_does_not_answer_says_why(pod: shapes.Shape, told: str) -> None:
    assert silence(pod) == told


BACK_OFF = "back-off 40s restarting failed container=lock-server pod=zk-lock-a1b2c3-0_n(u)"


@pytest.mark.parametrize(
    "pod",
    [
        waits("CrashLoopBackOff", BACK_OFF, last=shapes.crashed(3)),
        shapes.server({"running": {"startedAt": shapes.at(9)}}, last=shapes.crashed(3)),
        shapes.server(shapes.crashed(3)),
    ],
)
def test_container_that_ends_again_and_again_is_told_of_in_one_way(pod: shapes.Shape) -> None:
    assert silence(pod) == (
        "container lock-server of its pod zk-lock-a1b2c3-0 ended with exit code 3 (Error) and is "
        f"restarted: {LOGS}"
    )


def test_what_a_container_said_at_its_end_is_told_by_its_log_alone() -> None:
    ended = shapes.crashed(1, "Error", "AWS_SECRET_ACCESS_KEY=abc is not taken")
    assert "abc" not in silence(waits("CrashLoopBackOff", BACK_OFF, last=ended))


def test_why_a_container_never_began_is_told() -> None:
    ended = shapes.crashed(128, "StartError", 'exec: "hudi-operator": not found in $PATH')
    told = silence(waits("CrashLoopBackOff", BACK_OFF, last=ended))
    assert '(StartError: exec: "hudi-operator": not found in $PATH)' in told


def test_container_that_ended_before_its_image_was_gone_waits_for_the_image() -> None:
    assert "has not been pulled" in silence(waits("ErrImagePull", "x", last=shapes.crashed()))
    assert "is starting: see kubectl describe pod" in silence(
        waits("ContainerCreating", last=shapes.crashed())
    )


def test_container_that_others_have_put_into_the_pod_is_not_the_server() -> None:
    pod = waits("ErrImageNeverPull")
    sidecar = {"name": "a-proxy", "state": {"running": {}}, "lastState": shapes.crashed()}
    pod["status"]["containerStatuses"].insert(0, sidecar)
    assert "has not been pulled: ErrImageNeverPull" in silence(pod)


def test_pod_that_is_nearest_to_answering_is_told_of() -> None:
    old = waits("ErrImagePull")
    young = shapes.unplaced_server()
    young["metadata"] |= {"name": "young", "creationTimestamp": shapes.at(9)}
    going = shapes.to_be_gone(shapes.ready_server(name="going"), 99)
    serving = shapes.ready_server(name="serving", creationTimestamp=shapes.at(0))
    assert silence(going, young, old).startswith("its pod young cannot be scheduled")
    assert silence(young, serving, old) == "its pod serving on node node-7 is ready"


def test_pod_that_nothing_is_told_of_yet_has_no_node() -> None:
    pod = shapes.unplaced_server()
    pod["status"] = {}
    assert silence(pod).endswith("cannot be scheduled: the scheduler has not processed it yet")


def test_stateful_set_without_a_pod_says_where_its_events_are() -> None:
    assert obstacles.without_pod(server(), None) == (
        "StatefulSet zk-lock-a1b2c3 has no pod: "
        "see kubectl describe statefulset -n n zk-lock-a1b2c3"
    )


def test_deployment_without_a_pod_says_who_refuses_it() -> None:
    observer = server(resources.DEPLOYMENT)
    refusing = shapes.refusing_deployment(observer.name, "exceeded quota: pods, limited: pods=0")
    assert obstacles.without_pod(observer, refusing) == (
        "Deployment zk-lock-a1b2c3 has no pod: FailedCreate: exceeded quota: pods, limited: pods=0"
    )
    refusing["status"]["conditions"][1]["status"] = "False"
    for made_by in (refusing, None):
        told = obstacles.without_pod(observer, made_by)
        assert told.endswith("see kubectl describe deployment -n n zk-lock-a1b2c3")


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            'failed to do request: Get "https://cdn.example/v2/blob?verify=17-Fq%3D": i/o timeout',
            'failed to do request: Get "https://cdn.example/v2/blob": i/o timeout',
        ),
        (
            "Head https://robot:t0ken@registry.example/v2/hudi?ns=x: 401 Unauthorized",
            "Head https://registry.example/v2/hudi: 401 Unauthorized",
        ),
        ("is it there? no", "is it there? no"),
    ],
)
def test_what_opens_a_registry_is_not_told(said: str, told: str) -> None:
    assert silence(waits("ErrImagePull", said)).endswith(
        f"has not been pulled: ErrImagePull: {told}"
    )


def test_what_others_say_is_cut() -> None:
    told = silence(waits("ErrImagePull", "word " * 1000))
    assert len(told) < 600
    assert told.endswith("...")
