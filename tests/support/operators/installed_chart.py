"""The chart on a control plane of a test's own: kinds and policies are real, no pod runs."""

from collections.abc import Sequence
from pathlib import Path

from hoodie_operator.api import group, kinds
from support.kube import clusters, control_plane, programs
from support.operators import chart


def empty(plane: control_plane.ControlPlane, namespaces: Sequence[str]) -> clusters.Cluster:
    """Return a cluster with nothing of ours but namespaces."""
    found = clusters.of_kubeconfig(plane.kubeconfig)
    for name in namespaces:
        found.api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    return found


def helm(cluster: clusters.Cluster, folder: Path) -> chart.Helm:
    """Return Helm on a cluster.

    Args:
        cluster: Where it installs.
        folder: Of the test, for what Helm reads and keeps.
    """
    return chart.Helm(program=cluster.binaries.helm, folder=folder, kubeconfig=cluster.kubeconfig)


def await_kinds(cluster: clusters.Cluster, namespace: str) -> None:
    """Return once every kind is served.

    One that is deleted before it is served keeps the API server busy for minutes.
    """
    for kind in kinds.KINDS:
        path = f"/apis/{group.API_VERSION}/namespaces/{namespace}/{kind.plural}"
        programs.wait_until(
            lambda path=path: cluster.api.is_there(path), f"the API server serves {kind.plural}"
        )
