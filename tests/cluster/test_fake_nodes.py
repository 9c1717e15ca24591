"""Fake nodes do with pods and Jobs what a kubelet would, as far as controllers can tell."""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from support.kube import api, binaries, control_plane, programs
from support.kube.fake_nodes import Ending, FakeNodes


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A namespace of one test, beside fake nodes."""

    api: api.Api
    nodes: FakeNodes
    namespace: str

    @property
    def pods(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    @property
    def jobs(self) -> str:
        return f"/apis/batch/v1/namespaces/{self.namespace}/jobs"

    def start(self, job: str) -> None:
        """Create a Job of one pod."""
        pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none:1"}]}
        spec = {"backoffLimit": 0, "podReplacementPolicy": "Failed", "template": {"spec": pod}}
        self.api.create(self.jobs, {"metadata": {"name": job}, "spec": spec})

    def running(self) -> list[dict[str, Any]]:
        pods = self.api.get(self.pods)["items"]
        return [pod for pod in pods if pod["status"].get("phase") == "Running"]

    def wait_for(self, count: int) -> None:
        programs.wait_until(lambda: len(self.running()) == count, f"{count} pods run")


@pytest.fixture(scope="module")
def plane_with_nodes(
    built: binaries.Binaries, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[control_plane.ControlPlane, FakeNodes]]:
    plane = control_plane.ControlPlane(built, tmp_path_factory.mktemp("fake") / "plane")
    try:
        plane.start()
        nodes = FakeNodes(plane, count=2)
        yield plane, nodes
        nodes.stop()
    finally:
        plane.stop()


@pytest.fixture
def place(plane_with_nodes: tuple[control_plane.ControlPlane, FakeNodes]) -> Place:
    plane, nodes = plane_with_nodes
    made = Place(api=plane.api, nodes=nodes, namespace=f"test-{uuid.uuid4().hex[:10]}")
    plane.api.create("/api/v1/namespaces", {"metadata": {"name": made.namespace}})
    account = f"/api/v1/namespaces/{made.namespace}/serviceaccounts/default"
    programs.wait_until(lambda: plane.api.is_there(account), "pods can be made")
    return made


@pytest.mark.parametrize(
    ("ending", "condition"),
    [
        (Ending(message='{"instant": "1"}'), "Complete"),
        (Ending(exit_code=137, reason="OOMKilled"), "Failed"),
    ],
)
def test_job_ends_as_its_pod_is_told_to(place: Place, ending: Ending, condition: str) -> None:
    place.start("a")
    place.wait_for(1)
    job = f"{place.jobs}/a"
    assert not api.is_true(place.api.get(job), condition)
    (pod,) = place.running()
    name = pod["metadata"]["name"]
    place.nodes.finish(place.namespace, name, ending)
    programs.wait_until(
        lambda: api.is_true(place.api.get(job), condition), f"the Job is {condition}"
    )
    (container,) = place.api.get(f"{place.pods}/{name}")["status"]["containerStatuses"]
    ended = container["state"]["terminated"]
    told = Ending(
        exit_code=ended["exitCode"], reason=ended["reason"], message=ended.get("message", "")
    )
    assert told == ending


def test_deleted_job_takes_its_pod_along(place: Place) -> None:
    place.start("a")
    place.wait_for(1)
    place.api.delete(f"{place.jobs}/a?propagationPolicy=Background")
    programs.wait_until(lambda: not place.api.get(place.pods)["items"], "the pod is gone")


def test_lost_node_says_nothing_of_its_pods(place: Place) -> None:
    place.start("a")
    place.wait_for(1)
    (pod,) = place.running()
    node, path = pod["spec"]["nodeName"], f"{place.pods}/{pod['metadata']['name']}"
    place.nodes.lose(node)
    place.api.delete(path)
    # Marked, but there: only the node could say that its containers have ended.
    found = place.api.get(path)
    assert found["metadata"]["deletionTimestamp"]
    assert found["status"]["phase"] == "Running"
    place.nodes.find(node)
    programs.wait_until(lambda: not place.api.is_there(path), "the pod is gone")


def test_hundreds_of_pods_run_at_once(place: Place) -> None:
    for number in range(200):
        place.start(f"many-{number}")
    place.wait_for(200)
