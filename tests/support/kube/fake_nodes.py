"""Nodes without machines, for tests with hundreds of pods: kwok plays the kubelet.

Pods are scheduled, run at once and go at once when they are deleted (tests/cluster/stages.yaml).
Whether and how one ends is what a test says: `finish`.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from support.kube import api, binaries, control_plane, programs

_STAGES: Final = binaries.MODULE.parent / "stages.yaml"
_ROOM: Final = {"cpu": "1000", "memory": "4Ti", "pods": "1000"}
_NODE_ADDRESS: Final = "10.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How the containers of a pod end, as a kubelet reports it.

    Attributes:
        exit_code: Of each container.
        reason: Completed, Error, OOMKilled, ...
        message: The termination message.
    """

    exit_code: int = 0
    reason: str = "Completed"
    message: str = ""


class FakeNodes:
    """Running kwok beside a control plane, of which all nodes are fake."""

    def __init__(self, plane: control_plane.ControlPlane, count: int = 1) -> None:
        """Start it, and return once all nodes are ready."""
        self._api = plane.api
        self._kwok = programs.Program("kwok", _command(plane), plane.logs / "kwok.log")
        self.names = [f"fake-{number}" for number in range(count)]
        for name in self.names:
            status = {"allocatable": _ROOM, "capacity": _ROOM}
            self._api.create("/api/v1/nodes", {"metadata": {"name": name}, "status": status})
        for name in self.names:
            programs.wait_until(lambda name=name: self._is_ready(name), f"{name} is ready")

    def finish(self, namespace: str, pod: str, ending: Ending = Ending()) -> None:
        """End all containers of a running pod."""
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}"
        found = self._api.get(path)
        ended = [_ended(each, ending) for each in found["status"]["containerStatuses"]]
        phase = "Succeeded" if ending.exit_code == 0 else "Failed"
        self._api.merge(f"{path}/status", {"status": {"phase": phase, "containerStatuses": ended}})

    def lose(self, name: str) -> None:
        """Have all nodes no longer answer, and one be known for it; pods stay as last seen."""
        self._kwok.pause()
        conditions = self._api.get(f"/api/v1/nodes/{name}")["status"]["conditions"]
        for each in conditions:
            if each["type"] == "Ready":
                each |= {"status": "Unknown", "reason": "NodeStatusUnknown"}
        self._api.merge(f"/api/v1/nodes/{name}/status", {"status": {"conditions": conditions}})

    def find(self, name: str) -> None:
        """Have a lost node answer again, and return once it is ready."""
        self._kwok.resume()
        programs.wait_until(lambda: self._is_ready(name), f"{name} is ready again")

    def stop(self) -> None:
        self._kwok.kill()

    def _is_ready(self, name: str) -> bool:
        return api.is_true(self._api.get(f"/api/v1/nodes/{name}"), "Ready")


def _command(plane: control_plane.ControlPlane) -> list[str | Path]:
    return [
        # It keeps files in the home folder.
        "env", f"HOME={plane.folder}",
        plane.binaries.kwok,
        f"--kubeconfig={plane.kubeconfig}",
        f"--config={_STAGES}",
        "--manage-all-nodes=true",
        f"--node-ip={_NODE_ADDRESS}",
        "--node-lease-duration-seconds=40",
    ]  # fmt: skip


def _ended(container: dict[str, Any], ending: Ending) -> dict[str, Any]:
    running = container["state"]["running"]
    return {
        **container,
        "ready": False,
        "started": False,
        "state": {
            "terminated": {
                "exitCode": ending.exit_code,
                "reason": ending.reason,
                "message": ending.message,
                "startedAt": running["startedAt"],
                "finishedAt": running["startedAt"],
            }
        },
    }
