"""Real pods: the ground that the tests of the operator stand on."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.kube import clusters, images, programs

IMAGE = "hudi.test/busybox:1"
RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "runAsUser": 65_532,
    "seccompProfile": {"type": "RuntimeDefault"},
}
DEADLINE_S = 120

Run = Callable[..., dict[str, Any]]


@pytest.fixture(scope="session")
def image(cluster: clusters.Cluster, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A shell, and little else."""
    folder = tmp_path_factory.mktemp("busybox")
    layer = images.write_layer(
        folder / "layer.tar", {"bin/busybox": Path("/bin/busybox")}, {"bin/sh": "busybox"}
    )
    config = {"Env": ["PATH=/bin"], "Entrypoint": ["/bin/sh", "-c"]}
    cluster.load_image(images.write_archive(folder / "busybox.tar", IMAGE, config, [layer]))
    return IMAGE


@pytest.fixture
def restricted(cluster: clusters.Cluster, namespace: str) -> str:
    """A namespace that takes restricted pods only, and can hold a pod."""
    label = {"pod-security.kubernetes.io/enforce": "restricted"}
    cluster.api.merge(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": label}})
    account = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
    programs.wait_until(lambda: cluster.api.is_there(account), "pods can be made")
    return namespace


@pytest.fixture
def run(cluster: clusters.Cluster, restricted: str, image: str) -> Run:
    """Run a script in a pod to its end, and return the pod."""

    def to_end(name: str, script: str, **container: object) -> dict[str, Any]:
        pods = f"/api/v1/namespaces/{restricted}/pods"
        main = {"name": "main", "image": image, "args": [script], "securityContext": RESTRICTED}
        spec = {"restartPolicy": "Never", "containers": [main | container]}
        cluster.api.create(pods, {"metadata": {"name": name}, "spec": spec})
        programs.wait_until(
            lambda: (
                cluster.api.get(f"{pods}/{name}")["status"].get("phase") in {"Succeeded", "Failed"}
            ),
            f"pod {name} has ended",
            DEADLINE_S,
        )
        return cluster.api.get(f"{pods}/{name}")

    return to_end


def _terminated(pod: dict[str, Any]) -> dict[str, Any]:
    (container,) = pod["status"]["containerStatuses"]
    ended: dict[str, Any] = container["state"]["terminated"]
    return ended


def test_pod_runs_restricted_and_leaves_log_and_result(
    cluster: clusters.Cluster, restricted: str, run: Run
) -> None:
    # One stream: lines of two come in either order.
    pod = run("a", "exec 2>&1; busybox id -u; busybox touch /x; echo done >/dev/termination-log")
    assert pod["status"]["phase"] == "Succeeded"
    assert _terminated(pod)["message"] == "done\n"
    log = cluster.kubectl("-n", restricted, "logs", "a").splitlines()
    assert log == ["65532", "touch: /x: Read-only file system"]


def test_pod_that_takes_too_much_memory_is_killed(run: Run) -> None:
    # tail keeps the whole of an endless line.
    limits = {"limits": {"memory": "16Mi", "cpu": "1"}}
    pod = run("a", "busybox tail /dev/zero", resources=limits)
    assert (_terminated(pod)["reason"], _terminated(pod)["exitCode"]) == ("OOMKilled", 137)


def test_pod_reaches_the_api_server_by_its_service_name(run: Run) -> None:
    # Name, service address and token: cluster DNS, kube-proxy and kubelet each did their part.
    pod = run(
        "a",
        "busybox nslookup kubernetes.default.svc.cluster.local && "
        "busybox nc -w 5 kubernetes.default.svc 443 </dev/null && "
        "busybox test -s /var/run/secrets/kubernetes.io/serviceaccount/token",
    )
    assert pod["status"]["phase"] == "Succeeded", pod["status"]


def test_pod_that_is_not_restricted_is_refused(
    cluster: clusters.Cluster, restricted: str, image: str
) -> None:
    pods = f"/api/v1/namespaces/{restricted}/pods"
    spec = {"containers": [{"name": "main", "image": image}]}
    answer = cluster.api.request("POST", pods, {"metadata": {"name": "a"}, "spec": spec})
    assert (answer.status, "PodSecurity" in answer.message) == (403, True)
