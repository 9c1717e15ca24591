"""Two releases over one namespace, and the fences of its runs in a real ZooKeeper."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hoodie.clock import SystemClock
from hoodie_operator.api import kinds, resources
from hoodie_operator.standalone.embedded_zookeeper import EmbeddedZooKeeper
from support.kube import clusters, objects, programs
from support.operators import (
    cluster_helpers,
    cluster_operator,
    cluster_place,
    pretended_kubelet,
    rule_examples,
)

WAIT_S = cluster_place.WAIT_S


@pytest.fixture
def zookeeper(tmp_path: Path) -> Iterator[str]:
    server = EmbeddedZooKeeper(tmp_path / "zookeeper", SystemClock())
    yield server.start()
    server.stop()


@pytest.fixture
def home(cluster: clusters.Cluster, namespace: str) -> Iterator[str]:
    """Where the second release has its Lease."""
    name = f"{namespace}-second"
    cluster.api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    yield name
    cluster.api.delete(f"/api/v1/namespaces/{name}")


def test_release_of_an_older_lease_is_fenced_off_until_its_lease_is_made_again(
    cluster: clusters.Cluster, namespace: str, home: str, zookeeper: str, tmp_path: Path
) -> None:
    place = cluster_place.Place(cluster, namespace)
    lake = cluster_helpers.Lake(tmp_path / "lake")
    kubelet = pretended_kubelet.PretendedKubelet(place, lake)
    pods = cluster_operator.Runs.PODS
    lease = resources.LEASE.path(namespace, cluster_operator.LEASE)
    writer = objects.path(kinds.WRITER, namespace, "next")

    def is_ready() -> bool:
        kubelet.work()
        return place.ready(kinds.HUDI_TABLE, "flights") == ("Ready", "Ready")

    def is_begun() -> bool:
        return any(job["metadata"]["name"].startswith("next-") for job in place.jobs())

    lock = {"type": "ZooKeeper", "zookeeper": {"servers": [zookeeper]}}
    place.create(kinds.LOCK_PROVIDER, "zk", lock)
    storage = {"path": "flights", "volumes": [pretended_kubelet.MISSING_VOLUME]}
    concurrency = {"mode": "SingleWriter", "lockRef": {"name": "zk"}}
    spec = rule_examples.edited(rule_examples.TABLE, storage=storage, concurrency=concurrency)
    place.create(kinds.HUDI_TABLE, "flights", spec)
    with cluster_operator.leading(cluster.kubeconfig, namespace, lake.folder, runs=pods):
        programs.wait_until(is_ready, "the table is ready", WAIT_S)
    with cluster_operator.leading(cluster.kubeconfig, namespace, lake.folder, runs=pods, home=home):
        place.create(kinds.WRITER, "next", rule_examples.WRITER)
        programs.wait_until(is_begun, "the second release has a run", WAIT_S)
        place.await_state(kinds.WRITER, "next", "Starting", "Starting")
    with cluster_operator.leading(cluster.kubeconfig, namespace, lake.folder, runs=pods):
        place.api.merge(writer, {"spec": {"suspend": True}})
        found = place.await_state(kinds.WRITER, "next", "Blocked", "FencedOff")
        (ready,) = [each for each in found["status"]["conditions"] if each["type"] == "Ready"]
        assert "delete this operator's Lease" in ready["message"]
        (job,) = [each for each in place.jobs() if each["metadata"]["name"].startswith("next-")]
        assert "deletionTimestamp" not in job["metadata"]
        # As the message says.
        place.api.delete(lease)
        place.await_state(kinds.WRITER, "next", "Suspended", "Suspended")
