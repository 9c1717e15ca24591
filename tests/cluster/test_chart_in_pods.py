"""The chart's operator in real pods, with the rights of one namespace and nothing more."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hoodie_operator.api import group
from hoodie_operator.api.reasons import Reason
from support.kube import binaries, clusters, programs
from support.operators import chart, rule_examples

DEADLINE_S = 240


@pytest.fixture
def place(
    cluster: clusters.Cluster,
    built: binaries.Binaries,
    namespace: str,
    operator_image: str,
    tmp_path: Path,
) -> Iterator[str]:
    """A namespace for restricted pods with a release that sees nothing else."""
    label = {"pod-security.kubernetes.io/enforce": "restricted"}
    cluster.api.merge(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": label}})
    repository, _, tag = operator_image.rpartition(":")
    values = {
        **chart.namespaces_only(namespace),
        **chart.IN_RELEASE_NAMESPACE,
        "config": {"dataRoots": ["file:///data"], "watchNamespaces": [namespace]},
        "image": {"repository": repository, "tag": tag, "pullPolicy": "Never"},
    }
    helm = chart.Helm(program=built.helm, folder=tmp_path, kubeconfig=cluster.kubeconfig)
    helm.run("install", "--namespace", namespace, values=values)
    yield namespace
    helm.run("uninstall", "--namespace", namespace)


def _declare(cluster: clusters.Cluster, namespace: str, kind: str, spec: dict[str, Any]) -> str:
    path = f"/apis/{group.API_VERSION}/namespaces/{namespace}/{kind.lower()}s"
    document = {"apiVersion": group.API_VERSION, "kind": kind, "metadata": {"name": "one"}}
    cluster.api.create(path, {**document, "spec": spec})
    return f"{path}/one"


def _ready(cluster: clusters.Cluster, path: str) -> tuple[str, str]:
    """Return status and reason of the condition Ready, empty while there is none."""
    conditions = cluster.api.get(path).get("status", {}).get("conditions") or []
    found = [(each["status"], each["reason"]) for each in conditions if each["type"] == "Ready"]
    return found[0] if found else ("", "")


def _has_ready_pods(cluster: clusters.Cluster, path: str, count: int) -> bool:
    found: int = cluster.api.get(path).get("status", {}).get("readyReplicas", 0)
    return found == count


def test_operator_works_with_the_rights_that_the_chart_gives(
    cluster: clusters.Cluster, place: str
) -> None:
    deployments = f"/apis/apps/v1/namespaces/{place}/deployments"
    programs.wait_until(
        lambda: _has_ready_pods(cluster, f"{deployments}/{chart.RELEASE}", 2),
        "leader and standby are ready",
        DEADLINE_S,
    )
    lock = _declare(cluster, place, "LockProvider", {"type": "FileSystem"})
    programs.wait_until(
        lambda: _ready(cluster, lock) == ("True", Reason.READY.value), "the lock is ready"
    )
    writer = _declare(cluster, place, "Writer", rule_examples.WRITER)
    programs.wait_until(
        lambda: _ready(cluster, writer) == ("False", Reason.REFERENCE_NOT_FOUND.value),
        "the writer tells what it waits for",
    )
    # Its observer is a pod that the operator makes, with a Secret and a Service.
    _declare(cluster, place, "HudiTable", rule_examples.TABLE)

    def observers() -> list[str]:
        found = cluster.api.get(f"{deployments}?labelSelector={group.GROUP}/role=observer")
        return [each["metadata"]["name"] for each in found["items"]]

    programs.wait_until(lambda: len(observers()) == 1, "an observer is made", DEADLINE_S)
    (name,) = observers()
    programs.wait_until(
        lambda: _has_ready_pods(cluster, f"{deployments}/{name}", 1), "it is ready", DEADLINE_S
    )
    # It can show nobody a name at the API server.
    mounted = ("sh", "-c", "ls /var/run/secrets 2>&1 || true")
    told = cluster.kubectl("-n", place, "exec", f"deployment/{name}", "--", *mounted)
    assert "No such file" in told
    log = cluster.kubectl("-n", place, "logs", f"deployment/{chart.RELEASE}", "--all-pods")
    assert "orbidden" not in log
