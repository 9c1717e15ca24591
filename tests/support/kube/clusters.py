"""Fixtures of clusters: one for the whole session, private ones for what disturbs others.

`cluster` is the one that the tests were started beside (`make test-cluster`: a real node; or the
one of a kubeconfig that was given), else a control plane of our own, in which no pod ever runs.
`own_control_plane` is of one test, which may kill and freeze its parts.
"""

import fcntl
import json
import os
import re
import signal
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from support.kube import api, binaries, control_plane, images, programs

KUBECONFIG: Final = "HUDI_TEST_KUBECONFIG"
"""The variable that names the cluster to test on. Never KUBECONFIG: that may be a real one."""
CONTAINERD: Final = "HUDI_TEST_CONTAINERD"
"""The variable that names the socket of the node's containerd, if it is ours."""
KEEPER: Final = "HUDI_TEST_KEEPER"
"""The variable that has the number of the process that begins the API server anew on SIGUSR1."""

CRDS: Final = Path(__file__).parents[3] / "crds"
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """An API server, by its administrator's eyes.

    Attributes:
        kubeconfig: The way to it.
        api: The same for requests of a test.
        binaries: kubectl and other programs.
    """

    kubeconfig: Path
    api: api.Api
    binaries: binaries.Binaries

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl and return what it prints.

        Raises:
            AssertionError: It failed; the message is what it said.
        """
        done = subprocess.run(
            [self.binaries.kube, "kubectl", "--kubeconfig", self.kubeconfig, *arguments],
            input=stdin, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}"
        return done.stdout

    def token(self, namespace: str, account: str) -> str:
        """Return a token of a service account, which is made if it is not there."""
        accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        if not self.api.is_there(f"{accounts}/{account}"):
            self.api.create(accounts, {"metadata": {"name": account}})
        granted = self.api.create(f"{accounts}/{account}/token", {"spec": {}})
        token: str = granted["status"]["token"]
        return token

    def load_image(self, archive: Path) -> None:
        """Make the image of an archive known to the nodes, so that pods can run it.

        On a cluster that is not ours, kind's own command does it.
        """
        if socket := os.environ.get(CONTAINERD):
            images.import_archive(Path(socket), archive)
            return
        name = self._kind()
        command = ["kind", "load", "image-archive", str(archive), "--name", name]
        subprocess.run(command, check=True)

    def restart_api_server(self) -> None:
        """Kill the API server, and return once another one answers in its place."""
        before = self._api_server_began()
        if keeper := os.environ.get(KEEPER):
            os.kill(int(keeper), signal.SIGUSR1)
        else:
            node = f"{self._kind()}-control-plane"
            killed = ["docker", "exec", node, "pkill", "-KILL", "kube-apiserver"]
            subprocess.run(killed, check=True)
        programs.wait_until(
            # It tells of itself before it serves all that it has to.
            lambda: self._api_server_began() not in ("", before) and self.api.is_there("/readyz"),
            "the API server begins anew",
        )

    def _api_server_began(self) -> str:
        """Return when its process began; empty while it does not answer."""
        told = self.api.request("GET", "/metrics")
        found = re.search(r"^process_start_time_seconds (\S+)$", told.message, re.MULTILINE)
        return "" if found is None else found[1]

    def _kind(self) -> str:
        """Return kind's name for a cluster that is not ours."""
        context = self.kubectl("config", "current-context").strip()
        name = context.removeprefix("kind-")
        assert name != context, f"no real node of ours (make test-cluster), no kind: {context}"
        return name

    def kstatus(self, *objects: dict[str, Any]) -> list[dict[str, str]]:
        """Return what the library that Flux uses computes of objects: status and message."""
        texts = "\n".join(json.dumps(each) for each in objects)
        done = subprocess.run(
            [self.binaries.kube, "kstatus"], input=texts, capture_output=True, text=True, check=True
        )
        return [json.loads(line) for line in done.stdout.splitlines()]


def of_kubeconfig(path: Path) -> Cluster:
    """Return the cluster of a kubeconfig."""
    return Cluster(kubeconfig=path, api=api.connect(path), binaries=binaries.ensure("kube"))


def install_crds(cluster: Cluster) -> None:
    """Apply all of crds/ and return once objects of each kind can be made."""
    for file in sorted(CRDS.glob("*.yaml")):
        definition = yaml.safe_load(file.read_text())
        path = f"{_DEFINITIONS}/{definition['metadata']['name']}"
        cluster.api.apply(path, definition)
        programs.wait_until(
            lambda path=path: api.is_true(cluster.api.get(path), "Established"),
            f"{path} is established",
        )


@pytest.fixture(scope="session")
def built() -> binaries.Binaries:
    """The programs of a cluster; each that a test asks for is built by then."""
    return binaries.ensure("kube")


@pytest.fixture(scope="session")
def cluster(
    built: binaries.Binaries, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """The session's cluster, with our kinds."""
    if given := os.environ.get(KUBECONFIG):
        found = of_kubeconfig(Path(given))
        install_crds(found)
        yield found
        return
    plane = control_plane.ControlPlane(built, tmp_path_factory.mktemp("cluster") / "plane")
    try:
        plane.start()
        found = of_kubeconfig(plane.kubeconfig)
        install_crds(found)
        yield found
    finally:
        plane.stop()


@pytest.fixture(autouse=True)
def turn(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """A test's time on the cluster that several processes test on: beside others, or `alone`."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        yield
        return
    is_alone = request.node.get_closest_marker("alone") is not None
    folder = tmp_path_factory.getbasetemp().parent
    with (folder / "door").open("w") as door, (folder / "room").open("w") as room:
        # Who has to be alone waits in the door, so that nobody else comes in meanwhile.
        fcntl.flock(door, fcntl.LOCK_EX)
        fcntl.flock(room, fcntl.LOCK_EX if is_alone else fcntl.LOCK_SH)
        fcntl.flock(door, fcntl.LOCK_UN)
        yield


@pytest.fixture
def own_control_plane(
    built: binaries.Binaries, tmp_path: Path
) -> Iterator[control_plane.ControlPlane]:
    """A control plane of one test, started."""
    plane = control_plane.ControlPlane(built, tmp_path / "plane")
    try:
        plane.start()
        yield plane
    finally:
        plane.stop()


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """A namespace of one test."""
    name = f"test-{uuid.uuid4().hex[:10]}"
    cluster.api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    yield name
    cluster.api.delete(f"/api/v1/namespaces/{name}")
