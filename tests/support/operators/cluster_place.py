"""A namespace of a real API server, by what tests of the controller do and look at in it."""

from typing import Any, Final

from hoodie_operator.api import kinds, resources
from support.kube import clusters, control_plane, objects, programs

WAIT_S: Final = 90.0
"""For what takes a second or two on a machine that has nothing else to do."""


def of_own(plane: control_plane.ControlPlane) -> "Place":
    """Return a namespace of a control plane that had nothing yet, with our kinds."""
    cluster = clusters.of_kubeconfig(plane.kubeconfig)
    clusters.install_crds(cluster)
    cluster.api.create("/api/v1/namespaces", {"metadata": {"name": "here"}})
    return Place(cluster, "here")


class Place:
    """A namespace, by what tests do in it."""

    def __init__(self, cluster: clusters.Cluster, namespace: str) -> None:
        self.api = cluster.api
        self.namespace = namespace
        self.cluster = cluster

    def create(self, kind: kinds.Kind, name: str, spec: object) -> dict[str, Any]:
        where = objects.collection(kind, self.namespace)
        return self.api.create(where, objects.document(kind, name, spec))

    def get(self, kind: kinds.Kind, name: str) -> dict[str, Any]:
        return self.api.get(objects.path(kind, self.namespace, name))

    def items(self, path: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.api.get(path)["items"]
        return found

    def all(self, kind: kinds.Kind) -> list[dict[str, Any]]:
        return self.items(objects.collection(kind, self.namespace))

    def jobs(self) -> list[dict[str, Any]]:
        return self.items(resources.JOB.path(self.namespace))

    def ready(self, kind: kinds.Kind, name: str) -> tuple[str, str]:
        """Return state and reason of an object."""
        status = self.get(kind, name).get("status") or {}
        conditions = {each["type"]: each for each in status.get("conditions") or ()}
        return status.get("state", ""), conditions.get("Ready", {}).get("reason", "")

    def await_state(self, kind: kinds.Kind, name: str, state: str, reason: str) -> dict[str, Any]:
        """Wait until an object is in a state for a reason, and return it."""
        programs.wait_until(
            lambda: self.ready(kind, name) == (state, reason),
            f"{kind.name} {name} is {state}, {reason}",
            WAIT_S,
        )
        return self.get(kind, name)

    def is_there(self, kind: kinds.Kind, name: str) -> bool:
        return self.api.is_there(objects.path(kind, self.namespace, name))

    def kstatus(self, kind: kinds.Kind, name: str) -> str:
        (found,) = self.cluster.kstatus(self.get(kind, name))
        return found["status"]
