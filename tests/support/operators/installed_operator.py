"""The operator as a user has it: the chart installed, its image in pods, a lake on a volume.

The node's folder under the volume is the test's, so that it sees what pods wrote.
"""

import subprocess
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from hoodie_operator.api import group, kinds
from support.kube import api, clusters, programs
from support.operators import chart

DEADLINE_S: Final = 300.0
BUCKET: Final = "s3://lake"
"""What tables may lie in beside the volume."""

_OURS = f"/apis/{group.API_VERSION}"
_GROUPS = {"pods": "/api/v1", "jobs": "/apis/batch/v1"}
_READABLE = (
    "hudi", "pods", "jobs", "configmaps", "deployments", "statefulsets", "services", "events",
)  # fmt: skip
_RESTRICTED = "pod-security.kubernetes.io/enforce=restricted"
# Small, so that two drivers with their executors fit beside all else on one node of two cores.
_RUNS = {"requests": {"cpu": "50m", "memory": "512Mi"}, "limits": {"memory": "2Gi"}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Lake:
    """A namespace with tables, and the operator beside it.

    Attributes:
        cluster: Where.
        namespace: Of the tables.
        release_namespace: Of the operator.
        folder: On the node: what pods see as /data.
        helm: The program.
        values: Of the release.
    """

    cluster: clusters.Cluster
    namespace: str
    release_namespace: str
    folder: Path
    helm: chart.Helm
    values: Mapping[str, Any]

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl on the namespace of the tables."""
        return self.cluster.kubectl("--namespace", self.namespace, *arguments, stdin=stdin)

    def list(self, plural: str, labels: str = "") -> Sequence[dict[str, Any]]:
        """Return objects; asked again and again, so not by kubectl, which takes long to start."""
        path = f"{_GROUPS.get(plural, _OURS)}/namespaces/{self.namespace}/{plural}"
        found = self.cluster.api.get(f"{path}?labelSelector={labels}")
        kind = found["kind"].removesuffix("List")
        return [
            {"kind": kind, "apiVersion": found["apiVersion"], **each} for each in found["items"]
        ]

    def declared(self) -> Sequence[dict[str, Any]]:
        """Return all objects of our kinds."""
        return [each for kind in kinds.KINDS for each in self.list(kind.plural)]

    def roll_out(self) -> None:
        """Return once the operator's pods are ready, all of them by the newest release."""
        place = ("--namespace", self.release_namespace)
        waiting = ("rollout", "status", f"deployment/{chart.RELEASE}", f"--timeout={DEADLINE_S}s")
        self.cluster.kubectl(*place, *waiting)

    def holder(self) -> str:
        """Return the process that leads, which is like no other ever; empty for none."""
        leases = f"/apis/coordination.k8s.io/v1/namespaces/{self.release_namespace}/leases"
        holder: str = self.cluster.api.get(f"{leases}/{chart.RELEASE}")["spec"]["holderIdentity"]
        return holder

    def leader(self) -> str:
        """Return the name of the operator's pod that leads."""
        return self.holder().partition("_")[0]

    def are_ready(self) -> bool:
        """Return whether everything that is declared is as declared, by its conditions."""
        found = self.declared()
        told = self.cluster.kstatus(*found)
        return all(each["status"] == "Current" for each in told) and all(
            api.is_true(each, "Ready") for each in found
        )

    def await_ready(self) -> None:
        """Return once everything is ready."""
        programs.wait_until(self.are_ready, "everything is ready", DEADLINE_S)

    def show(self) -> None:
        """Print what a user would look at."""
        for what in ("hudi", "pods", "jobs", "events"):
            print(self.kubectl("get", what, "-o", "wide"))
        place = ("--namespace", self.release_namespace)
        print(self.cluster.kubectl(*place, "logs", f"deployment/{chart.RELEASE}", "--all-pods"))

    def told(self) -> Mapping[str, str]:
        """Return all that can be read of us but Secrets: objects and logs, by what they are of."""
        found: dict[str, str] = {}
        for namespace in (self.namespace, self.release_namespace):
            place = ("--namespace", namespace)
            for kind in _READABLE:
                found[f"{kind} of {namespace}"] = self.cluster.kubectl(
                    *place, "get", kind, "-o", "yaml", "--show-managed-fields"
                )
            for pod in self.cluster.api.get(f"/api/v1/namespaces/{namespace}/pods")["items"]:
                name = pod["metadata"]["name"]
                found[f"log of {name}"] = self.cluster.kubectl(
                    *place, "logs", name, "--all-containers"
                )
        return found


@pytest.fixture
def real_lake(cluster: clusters.Cluster, operator_image: str, tmp_path: Path) -> Iterator[Lake]:
    """A namespace for tables of one test, with an operator of its own."""
    with installed(cluster, operator_image, tmp_path) as found:
        yield found


@contextmanager
def installed(cluster: clusters.Cluster, image: str, folder: Path) -> Iterator[Lake]:
    """Install the chart for a namespace, and give that a lake; take all of it away at the end.

    Args:
        cluster: Where.
        image: Of everything.
        folder: Of the test, on the node.
    """
    namespace = f"lake-{uuid.uuid4().hex[:10]}"
    release_namespace = f"{namespace}-op"
    volumes = {"lake": folder / "lake", "locks": folder / "locks"}
    _open(folder, *volumes.values())
    for each in (namespace, release_namespace):
        cluster.kubectl("create", "namespace", each)
        cluster.kubectl("label", "namespace", each, _RESTRICTED)
    for name, place in volumes.items():
        cluster.api.create("/api/v1/persistentvolumes", _volume(namespace, name, place))
    lake = Lake(
        cluster=cluster,
        namespace=namespace,
        release_namespace=release_namespace,
        folder=volumes["lake"],
        helm=chart.Helm(
            program=cluster.binaries.helm, folder=folder, kubeconfig=cluster.kubeconfig
        ),
        values=_values(namespace, image),
    )
    try:
        lake.helm.run("install", "--namespace", release_namespace, values=lake.values)
        lake.roll_out()
        yield lake
    finally:
        lake.helm.tried("uninstall", "--namespace", release_namespace, values=lake.values)
        namespaces = (namespace, release_namespace)
        cluster.kubectl("delete", "namespace", *namespaces, "--wait=false")
        # A namespace that finds pods comes back to them after half of their time to end, 16 s.
        for each in namespaces:
            cluster.kubectl("--namespace", each, "delete", "pods", "--all", "--grace-period=1")
        cluster.kubectl("delete", "namespace", *namespaces, "--ignore-not-found", "--timeout=120s")
        for name in volumes:
            cluster.kubectl("delete", "persistentvolume", f"{namespace}-{name}")


def copy_in(lake: Lake, source: Path) -> None:
    """Put input into the volume as a user does: beside, and then at its place at once."""
    lake.kubectl("wait", "--for=condition=Ready", "pod/lake", f"--timeout={DEADLINE_S}s")
    lake.kubectl("cp", f"{source}/.", "lake:/data/arriving")
    lake.kubectl("exec", "lake", "--", "sh", "-c", "mv /data/arriving/* /data")


def _open(*folders: Path) -> None:
    """Make folders into which pods may write, whoever they are, and that they may reach."""
    for folder in folders:
        folder.mkdir(exist_ok=True)
        folder.chmod(0o777)
    for parent in folders[0].parents:
        if parent.is_relative_to("/tmp") and parent != Path("/tmp"):
            subprocess.run(["chmod", "a+rx", str(parent)], check=True)


def _volume(namespace: str, name: str, folder: Path) -> dict[str, Any]:
    """Return a volume: `lake` for the claim of that name, `locks` for who asks for that class."""
    is_lake = name == "lake"
    claim = {"claimRef": {"namespace": namespace, "name": "lake"}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"{namespace}-{name}"},
        "spec": {
            "capacity": {"storage": "2Gi"},
            "accessModes": ["ReadWriteMany" if is_lake else "ReadWriteOnce"],
            "hostPath": {"path": str(folder)},
            **(claim if is_lake else {"storageClassName": namespace}),
        },
    }


def _values(namespace: str, image: str) -> Mapping[str, Any]:
    repository, _, tag = image.rpartition(":")
    return {
        "image": {"repository": repository, "tag": tag, "pullPolicy": "Never"},
        "config": {
            "dataRoots": ["file:///data", BUCKET],
            "allowed": {"claims": ["lake"], "secrets": ["lake"]},
            "watchNamespaces": [namespace],
            "resources": {"runs": _RUNS, "executors": _RUNS},
            "lockServers": {"storageClass": namespace},
            # Beside other work a JVM may take minutes to start.
            "limits": {"startDeadline": "10m"},
        },
        "crds": {"install": False},
        "deletionProtection": {"enabled": False},
    }
