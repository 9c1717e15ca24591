"""Lock servers and observers whose pods do not start, on a real API server with a fake node."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from hoodie_operator.api import configuration, kinds, objects, resources
from hoodie_operator.api.resources import Manifest
from hoodie_operator.manifests import naming
from hoodie_operator.manifests import observers as manifests
from support.kube import binaries, clusters, control_plane, programs
from support.kube.fake_nodes import FakeNodes
from support.operators import cluster_place, rule_examples, silent_servers
from support.operators.cluster_objects import make
from support.operators.rule_examples import edited

CONFIG = b"dataRoots: [/data]\nimage: {name: 'hudi:1'}"
TOLD = configuration.parse(CONFIG, "operator.yaml")
UNBOUND = (
    "cannot be scheduled: 0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims"
)
VOLUME = {"name": "lake", "persistentVolumeClaim": "lake", "mountPath": "/data"}


@pytest.fixture(scope="module")
def cluster(
    built: binaries.Binaries, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[clusters.Cluster]:
    """A cluster of our own with a node: volumes have no storage class there, wherever this runs."""
    plane = control_plane.ControlPlane(built, tmp_path_factory.mktemp("silent") / "plane")
    try:
        plane.start()
        nodes = FakeNodes(plane)
        found = clusters.of_kubeconfig(plane.kubeconfig)
        clusters.install_crds(found)
        yield found
        nodes.stop()
    finally:
        plane.stop()


@pytest.fixture
def operator(cluster: clusters.Cluster, namespace: str, tmp_path: Path) -> Iterator[None]:
    """The operator as it is installed."""
    config = tmp_path / "operator.yaml"
    config.write_bytes(CONFIG + f"\nwatchNamespaces: [{namespace}]".encode())
    command = [sys.executable, "-m", "hoodie_operator", "run", "--config", str(config)]
    place = {"KUBECONFIG": str(cluster.kubeconfig), "POD_NAMESPACE": namespace}
    with (tmp_path / "operator.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--port", "0"], env={**os.environ, **place}, stderr=log
        )
    try:
        yield
    finally:
        process.terminate()
        process.wait()


@pytest.mark.usefixtures("operator")
def test_lock_provider_tells_why_the_pod_of_its_server_has_no_node(
    cluster: clusters.Cluster, namespace: str
) -> None:
    place = cluster_place.Place(cluster, namespace)
    place.create(kinds.LOCK_PROVIDER, "zk", rule_examples.LOCK)

    def told() -> str:
        status = place.get(kinds.LOCK_PROVIDER, "zk").get("status") or {}
        conditions = {each["type"]: each for each in status.get("conditions") or ()}
        return str(conditions.get("Ready", {}).get("message", ""))

    programs.wait_until(lambda: UNBOUND in told(), "it tells of the volume", cluster_place.WAIT_S)
    (pod,) = place.items(resources.POD.path(namespace))
    assert f"; its pod {pod['metadata']['name']} cannot be scheduled" in told()


@pytest.fixture
def logged_in(cluster: clusters.Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have this process log in as an operator does."""
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))


def table_of(cluster: clusters.Cluster, namespace: str, **edits: object) -> objects.Table:
    made = make(
        cluster, namespace, kinds.HUDI_TABLE, "flights", edited(rule_examples.TABLE, **edits)
    )
    return cast("objects.Table", made)


@pytest.mark.usefixtures("logged_in")
def test_observer_whose_volume_is_missing_tells_so(
    cluster: clusters.Cluster, namespace: str
) -> None:
    table = table_of(cluster, namespace, storage__volumes=[VOLUME])
    message = silent_servers.observed(TOLD, table, "cannot be scheduled")
    assert 'persistentvolumeclaim "lake" not found' in message
    assert f"Deployment {manifests.identity(table, TOLD).name} of namespace {namespace}" in message


@pytest.mark.usefixtures("logged_in")
def test_observer_whose_pod_is_ready_is_silent_for_another_reason(
    cluster: clusters.Cluster, namespace: str
) -> None:
    message = silent_servers.observed(TOLD, table_of(cluster, namespace), "is ready")
    assert message.endswith(" on node fake-0 is ready")


def refuse_pods(cluster: clusters.Cluster, namespace: str) -> None:
    """Have a quota refuse every pod of a namespace."""
    quotas = f"/api/v1/namespaces/{namespace}/resourcequotas"
    cluster.api.create(quotas, {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}})
    programs.wait_until(
        lambda: "hard" in cluster.api.get(f"{quotas}/none").get("status", {}), "the quota holds"
    )


def leave_evicted_pod(cluster: clusters.Cluster, deployment: Manifest) -> None:
    """Have a pod that a Deployment had left behind, as it is when a node has evicted it."""
    namespace = deployment["metadata"]["namespace"]
    pods = resources.POD.path(namespace)
    account = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
    programs.wait_until(lambda: cluster.api.is_there(account), "pods can be made")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    spec = {"containers": [{"name": "observer", "image": "none"}]}
    cluster.api.create(pods, {"metadata": {"name": "evicted", "labels": labels}, "spec": spec})
    programs.wait_until(
        lambda: cluster.api.get(f"{pods}/evicted")["status"].get("phase") == "Running",
        "the pod runs",
    )
    status = {"phase": "Failed", "reason": "Evicted"}
    cluster.api.merge(f"{pods}/evicted/status", {"status": status})


@pytest.mark.usefixtures("logged_in")
def test_observer_without_a_living_pod_tells_of_the_quota(
    cluster: clusters.Cluster, namespace: str
) -> None:
    table = table_of(cluster, namespace)
    identity = manifests.identity(table, TOLD)
    leave_evicted_pod(cluster, manifests.deployment(identity, TOLD, [table]))
    refuse_pods(cluster, namespace)
    message = silent_servers.observed(TOLD, table, "FailedCreate")
    assert f"; Deployment {identity.name} has no pod: FailedCreate: pods " in message
    assert "exceeded quota: none" in message


@pytest.mark.usefixtures("logged_in")
def test_lock_server_without_a_pod_tells_where_to_look(
    cluster: clusters.Cluster, namespace: str
) -> None:
    made = make(cluster, namespace, kinds.LOCK_PROVIDER, "zk", rule_examples.LOCK)
    lock = cast("objects.Lock", made)
    name = naming.lock_server(lock)
    refuse_pods(cluster, namespace)
    message = silent_servers.served(TOLD, lock, "has no pod")
    assert message.endswith(f"see kubectl describe statefulset -n {namespace} {name}")
    # It is there that it is told.
    programs.wait_until(
        lambda: "exceeded quota" in cluster.kubectl("describe", "sts", "-n", namespace, name),
        "the StatefulSet tells of the quota",
    )
