"""Jobs and Pods in the shapes that Kubernetes 1.34 gives them, cut to what is read."""

import copy
from typing import Any

from hoodie_operator.api import times

Shape = dict[str, Any]

START_MS = 1_800_000_000_000
LABELS = {
    "app.kubernetes.io/managed-by": "hudi-operator",
    "hudi.dev/owner-kind": "Writer",
    "hudi.dev/owner-name": "orders",
    "hudi.dev/owner-uid": "a1b2c3d4-0000",
    "hudi.dev/attempt": "3",
    "hudi.dev/table": "orders",
}
NAMESPACE = "n"
JOB_UID = "j1"
DRIVER_UID = "p1"
RESULT = '{"attempt":3,"commit_count":2}'


def at(seconds: int) -> str:
    """Return a time that long after the Job was created."""
    return times.text(START_MS + seconds * 1000)


def _controller(api_version: str, kind: str, name: str, uid: str) -> Shape:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": name,
        "uid": uid,
        "controller": True,
    }


def job(*, ended: str | None = None, **annotations: str) -> Shape:
    """Return a Job, at work or `Complete` or `Failed`."""
    conditions = []
    if ended is not None:
        # A failing Job first says that it is going to have failed.
        first = {"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}[ended]
        conditions = [
            {"type": each, "status": "True", "lastTransitionTime": at(60)}
            for each in (first, ended)
        ]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "orders-a1b2c3-3",
            "namespace": NAMESPACE,
            "uid": JOB_UID,
            "creationTimestamp": at(0),
            "ownerReferences": [
                _controller("hudi.dev/v1alpha1", "Writer", "orders", LABELS["hudi.dev/owner-uid"])
            ],
            "labels": dict(LABELS),
            "annotations": {
                "hudi.dev/protocol-hash": "p",
                "hudi.dev/started-ms": str(START_MS),
                **annotations,
            },
        },
        "spec": {"suspend": False, "template": {"spec": {}}},
        "status": {"conditions": conditions} if conditions else {"active": 1},
    }


def unstarted_job() -> Shape:
    """Return a Job as it is before it is resumed for the first time."""
    made = job()
    del made["metadata"]["annotations"]["hudi.dev/started-ms"]
    suspended = {"type": "Suspended", "status": "True", "reason": "JobSuspended"}
    made["spec"]["suspend"] = True
    return {**made, "status": {"conditions": [suspended]}}


def pod(phase: str, state: Shape | None = None, **status: object) -> Shape:
    """Return a driver's pod, on a node unless the status says otherwise."""
    placed = {"type": "PodScheduled", "status": "True", "lastTransitionTime": at(2)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "orders-a1b2c3-3-x7k2p",
            "namespace": NAMESPACE,
            "uid": DRIVER_UID,
            "creationTimestamp": at(1),
            "ownerReferences": [_controller("batch/v1", "Job", "orders-a1b2c3-3", JOB_UID)],
            "labels": {**LABELS, "hudi.dev/role": "driver"},
            "annotations": {"hudi.dev/protocol-hash": "p"},
        },
        "status": {
            "phase": phase,
            "conditions": [placed],
            "containerStatuses": [{"name": "driver", "state": state}] if state else [],
            **status,
        },
    }


def unschedulable() -> Shape:
    """Return a pod that no node takes."""
    refused = _refused("0/2 nodes are available: 2 Insufficient memory.")
    return pod("Pending", conditions=[refused])


def waiting(reason: str, message: str = "") -> Shape:
    """Return a pod whose container waits."""
    return pod("Pending", {"waiting": {"reason": reason, "message": message}})


def running() -> Shape:
    """Return a pod at work since second 5."""
    return pod("Running", {"running": {"startedAt": at(5)}})


def ended(code: int, reason: str, message: str | None = None) -> Shape:
    """Return a pod whose container has ended."""
    terminated = {
        "exitCode": code,
        "reason": reason,
        "startedAt": at(5),
        "finishedAt": at(50),
    }
    if message is not None:
        terminated["message"] = message
    return pod("Succeeded" if code == 0 else "Failed", {"terminated": terminated})


def evicted_by_node() -> Shape:
    """Return a pod that a node in need of memory has evicted."""
    found = ended(137, "Error")
    found["status"] |= {
        "reason": "Evicted",
        "message": "The node was low on resource: memory. Threshold quantity: 100Mi.",
    }
    return found


def evicted_by_api() -> Shape:
    """Return a pod that somebody has evicted, whose job told that it was stopped."""
    message = '{"attempt":3,"error":{"kind":"Cancelled","message":"the run was asked to stop"}}'
    found = ended(41, "Error", message)
    found["status"]["conditions"].append(
        {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
        }
    )
    return found


def to_be_gone(found: Shape, seconds: int) -> Shape:
    """Return a pod that was deleted, and is to be gone by then."""
    changed = copy.deepcopy(found)
    changed["metadata"] |= {
        "deletionTimestamp": at(seconds),
        "deletionGracePeriodSeconds": 30,
    }
    return changed


def executor(phase: str = "Running") -> Shape:
    """Return an executor's pod, as Spark makes it."""
    return of_executor(pod(phase, {"running": {"startedAt": at(20)}}))


def of_executor(found: Shape) -> Shape:
    """Return an executor's pod in the state of a driver's."""
    driver = _controller("v1", "Pod", "orders-a1b2c3-3-x7k2p", DRIVER_UID)
    found["metadata"] |= {
        "name": "orders-a1b2c3-3-exec-1",
        "uid": "e1",
        "ownerReferences": [driver],
    }
    found["metadata"]["labels"] |= {
        "hudi.dev/role": "executor",
        "spark-role": "executor",
        "spark-app-selector": "spark-0123456789",
    }
    for status in found["status"]["containerStatuses"]:
        status["name"] = "executor"
    return found


UNBOUND = (
    "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found"
    "\npreemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
)


def server(state: Shape | None = None, *, last: Shape | None = None, **metadata: object) -> Shape:
    """Return the pod of a lock server on a node, whose container was in another state before."""
    placed = {"type": "PodScheduled", "status": "True", "lastTransitionTime": at(2)}
    unready = {
        "type": "Ready",
        "status": "False",
        "reason": "ContainersNotReady",
        "message": "containers with unready status: [lock-server]",
        "lastTransitionTime": at(2),
    }
    container = {"name": "lock-server", "ready": False, "state": state, "lastState": last or {}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "zk-lock-a1b2c3-0",
            "namespace": NAMESPACE,
            "creationTimestamp": at(1),
            "labels": {"hudi.dev/role": "lock-server", "hudi.dev/identity": "zk-lock-a1b2c3"},
            **metadata,
        },
        "spec": {"nodeName": "node-7"},
        "status": {
            "phase": "Pending" if state and "waiting" in state else "Running",
            "conditions": [placed, unready],
            "containerStatuses": [container] if state else [],
        },
    }


def ready_server(**metadata: object) -> Shape:
    """Return the pod of a lock server that says that it serves."""
    found = server({"running": {"startedAt": at(5)}}, **metadata)
    found["status"]["conditions"][1] |= {"status": "True", "reason": "", "message": ""}
    return found


def unplaced_server(message: str = UNBOUND) -> Shape:
    """Return the pod of a lock server that no node takes."""
    found = server()
    found["spec"] = {}
    found["status"] = {"phase": "Pending", "conditions": [_refused(message)]}
    return found


def _refused(message: str) -> Shape:
    """Return what the scheduler says of a pod that no node takes."""
    return {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": message,
        "lastTransitionTime": at(2),
    }


def crashed(code: int = 1, reason: str = "Error", message: str | None = None) -> Shape:
    """Return the state of a container that has ended."""
    told = {"exitCode": code, "reason": reason, "startedAt": at(5), "finishedAt": at(6)}
    return {"terminated": told if message is None else {**told, "message": message}}


def refusing_deployment(name: str, message: str) -> Shape:
    """Return a Deployment whose pods are refused."""
    condition = {
        "type": "ReplicaFailure",
        "status": "True",
        "reason": "FailedCreate",
        "message": message,
        "lastTransitionTime": at(2),
    }
    progressing = {"type": "Progressing", "status": "True", "reason": "NewReplicaSetCreated"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "status": {"conditions": [progressing, condition], "unavailableReplicas": 1},
    }
