"""What is in the way of a pod: of a run's that has not begun, of a server's that does not answer.

A server is a lock server or an observer: one pod that a StatefulSet or a Deployment makes again.

What scheduler, kubelet and controllers say stands in messages on one line, cut to a length, and
without the credentials and queries of addresses: a registry's may open what it stores.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from hoodie_operator.api import resources, times
from hoodie_operator.api.resources import Manifest
from hoodie_operator.manifests import naming
from hoodie_operator.reconcile import facts
from hoodie_operator.reconcile.facts import Obstacle

_TOLD_LENGTH_MAX: Final = 500
_OF_ADDRESSES: Final = re.compile(r"(?<=://)[^\s/@\"']*@|(?<=[\w/])\?[^\s\"']*[^\s\"':;,.]")
_IMAGE_REASONS: Final = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "ImageInspectError",
        "ErrImageNeverPull",
        "RegistryUnavailable",
        "InvalidImageName",
        "SignatureValidationFailed",
    }
)
_BEGINNING_REASONS: Final = frozenset({"ContainerCreating", "PodInitializing", ""})
_BEGINS_AGAIN: Final = "CrashLoopBackOff"
_NEVER_BEGAN: Final = frozenset({"StartError", "ContainerCannotRun"})
"""Ends of containers whose message is the node's."""
_OBSTACLES: Final = {
    Obstacle.NO_NODE: "its pod {} cannot be scheduled",
    Obstacle.NO_IMAGE: "the image of its pod {} has not been pulled",
    Obstacle.NO_CONTAINER: "the container of its pod {} cannot be created",
}


def condition(found: Manifest, condition_type: str) -> Manifest | None:
    """Return a condition of a pod or a Deployment; None where it is not told."""
    conditions = (found.get("status") or {}).get("conditions") or ()
    return next((each for each in conditions if each["type"] == condition_type), None)


def waiting(pod: Manifest, state: Manifest) -> facts.Waiting:
    """Return what a container that has not begun waits for.

    Args:
        pod: Whose container it is.
        state: The container's; empty where nothing is told of it.
    """
    scheduled = condition(pod, "PodScheduled") or {}
    since = scheduled.get("lastTransitionTime") or pod["metadata"]["creationTimestamp"]
    since_ms = times.epoch_ms(since)
    if scheduled.get("status") != "True":
        told = scheduled.get("message") or "the scheduler has not processed it yet"
        return facts.Waiting(obstacle=Obstacle.NO_NODE, message=_told(told), since_ms=since_ms)
    reason = _waits_for(state)
    told = _reason_and_message(state.get("waiting") or {})
    if reason in _IMAGE_REASONS:
        obstacle = Obstacle.NO_IMAGE
    elif reason in _BEGINNING_REASONS:
        obstacle, told = Obstacle.BEGINNING, ""
    else:
        obstacle = Obstacle.NO_CONTAINER
    return facts.Waiting(obstacle=obstacle, message=_told(told), since_ms=since_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A lock server or an observer.

    Attributes:
        resource: Of what makes its pod.
        namespace: Of all that belongs to it.
        name: Of what makes its pod, and of all else but the pod.
        container: The name of its container.
    """

    resource: resources.Resource
    namespace: str
    name: str
    container: str

    @property
    def labels(self) -> str:
        """Return the selector of what belongs to it, pods included."""
        return f"{resources.MANAGED_SELECTOR},{naming.IDENTITY}={self.name}"


def without_pod(server: Server, made_by: Manifest | None) -> str:
    """Return why a server has no pod, as far as what makes it tells.

    Args:
        server: Which.
        made_by: Its Deployment; None where that is not known. A StatefulSet tells nothing.
    """
    kind = server.resource.kind
    refused = condition(made_by or {}, "ReplicaFailure")
    if refused is not None and refused["status"] == "True":
        return f"{kind} {server.name} has no pod: {_told(_reason_and_message(refused))}"
    return (
        f"{kind} {server.name} has no pod: "
        f"see kubectl describe {kind.lower()} -n {server.namespace} {server.name}"
    )


def silence(server: Server, pods: Sequence[Manifest]) -> str:
    """Return what keeps the pod of a silent server from answering.

    No counts and times are in it, since a message that changes is written to all who wait.

    Args:
        server: Which.
        pods: Of the server, at least one. Where a new one takes the place of an old one, it is the
            one that is nearest to answering.
    """
    pod = max(pods, key=_nearness)
    metadata = pod["metadata"]
    name = metadata["name"]
    node = (pod.get("spec") or {}).get("nodeName")
    place = f" on node {node}" if node else ""
    if metadata.get("deletionTimestamp") is not None:
        return f"its pod {name}{place} is terminating"
    if _is_ready(pod):
        return f"its pod {name}{place} is ready"
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    ours: Manifest = next((each for each in statuses if each["name"] == server.container), {})
    state: Manifest = ours.get("state") or {}
    ended = state.get("terminated") or (ours.get("lastState") or {}).get("terminated")
    is_running = "running" in state
    # Whether it runs, has just ended or waits for its next beginning changes all the time.
    is_at_it = is_running or "terminated" in state or _waits_for(state) == _BEGINS_AGAIN
    if ended and is_at_it:
        return (
            f"container {server.container} of its pod {name} ended with exit code "
            f"{ended.get('exitCode')} ({_end(ended)}) and is restarted: "
            f"see kubectl logs -n {server.namespace} {name} -c {server.container}"
        )
    if is_running:
        told = _told((condition(pod, "Ready") or {}).get("message") or "")
        return f"its pod {name}{place} is running and not ready: {told}".rstrip(": ")
    waits = waiting(pod, state)
    if waits.obstacle is Obstacle.BEGINNING:
        # A volume that is not mounted, for one: only events tell of it.
        return (
            f"its pod {name}{place} is starting: "
            f"see kubectl describe pod -n {server.namespace} {name}"
        )
    return f"{_OBSTACLES[waits.obstacle].format(name)}: {waits.message}"


def _end(ended: Manifest) -> str:
    """Return why a container ended, never what it said: that may be anything."""
    reason = ended.get("reason") or "no reason given"
    return _told(_reason_and_message(ended)) if reason in _NEVER_BEGAN else reason


def _nearness(pod: Manifest) -> tuple[bool, bool, str, str]:
    metadata = pod["metadata"]
    is_to_stay = metadata.get("deletionTimestamp") is None
    return is_to_stay, _is_ready(pod), metadata["creationTimestamp"], metadata["name"]


def _waits_for(state: Manifest) -> str:
    return (state.get("waiting") or {}).get("reason") or ""


def _is_ready(pod: Manifest) -> bool:
    return (condition(pod, "Ready") or {}).get("status") == "True"


def _reason_and_message(found: Manifest) -> str:
    return f"{found.get('reason') or ''}: {found.get('message') or ''}".strip(": ")


def _told(text: str) -> str:
    """Return what others say as it may stand in a message."""
    line = _OF_ADDRESSES.sub("", " ".join(text.split()))
    return line if len(line) <= _TOLD_LENGTH_MAX else f"{line[: _TOLD_LENGTH_MAX - 3]}..."
