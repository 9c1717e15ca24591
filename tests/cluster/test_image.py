"""The image, in real pods that may do nothing but what `restricted` allows."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from hoodie_operator import lock_server
from support.kube import clusters, programs

DEADLINE_S = 180
RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}
SPARK = """
import os
from pathlib import Path
from hoodie_jobs.spark import session

def daemon_of(_):
    return Path(f"/proc/{os.getppid()}/cmdline").read_text().split("\\0")[2]

context = session.open_session("image", 1, {}).sparkContext
print("daemons", context.parallelize(range(2), 2).map(daemon_of).collect())
"""

Start = Callable[..., str]


@pytest.fixture
def start(cluster: clusters.Cluster, namespace: str, operator_image: str) -> Start:
    """Start a pod of the image in a namespace that takes restricted ones only; its path."""
    label = {"pod-security.kubernetes.io/enforce": "restricted"}
    cluster.api.merge(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": label}})
    account = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
    programs.wait_until(lambda: cluster.api.is_there(account), "pods can be made")
    pods = f"/api/v1/namespaces/{namespace}/pods"

    def made(name: str, *arguments: str, **container: object) -> str:
        main = {
            "name": "main",
            "image": operator_image,
            "imagePullPolicy": "Never",
            "args": list(arguments),
            "securityContext": RESTRICTED,
            "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
            **container,
        }
        spec = {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            # No user is named: the image's own is to be one that is not root.
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [main],
            "volumes": [{"name": "tmp", "emptyDir": {}}],
        }
        cluster.api.create(pods, {"metadata": {"name": name}, "spec": spec})
        return f"{pods}/{name}"

    return made


@pytest.fixture
def output(cluster: clusters.Cluster, namespace: str, start: Start) -> Callable[..., str]:
    """Run a pod to its end, which has to be a good one, and return what it printed."""

    def printed(name: str, *arguments: str) -> str:
        path = start(name, *arguments)
        programs.wait_until(
            lambda: _phase(cluster, path) in {"Succeeded", "Failed"}, name, DEADLINE_S
        )
        text = cluster.kubectl("-n", namespace, "logs", name)
        assert _phase(cluster, path) == "Succeeded", text
        return text

    return printed


def _phase(cluster: clusters.Cluster, path: str) -> str:
    phase: str = cluster.api.get(path)["status"].get("phase", "")
    return phase


def test_process_is_nobody_and_finds_what_it_needs(output: Callable[..., str]) -> None:
    script = (
        "import json, os, sys, hoodie, hoodie_jobs, hoodie_operator, kopf, boto3, thriftpy2;"
        "print(json.dumps([os.getuid(), os.getgid(), sys.flags.safe_path, os.getcwd()]))"
    )
    assert json.loads(output("who", "python", "-c", script)) == [10001, 10001, True, "/tmp"]


@pytest.mark.parametrize("program", ["hudi-operator", "hoodie"])
def test_programs_are_on_the_path(output: Callable[..., str], program: str) -> None:
    assert "Usage:" in output(program, program, "--help")


def test_spark_runs_with_python_workers_of_our_daemon(output: Callable[..., str]) -> None:
    daemons = ["hoodie_jobs.spark.daemon"] * 2
    assert f"daemons {daemons}" in output("spark", "python", "-c", SPARK)


def test_executor_is_started_from_what_spark_says_in_the_environment(
    cluster: clusters.Cluster, namespace: str, start: Start
) -> None:
    told = {
        "SPARK_JAVA_OPT_0": "-Dtold=first",
        "SPARK_JAVA_OPT_1": "-Dtold.with=a space",
        "SPARK_EXECUTOR_MEMORY": "128m",
        "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@127.0.0.1:1",
        "SPARK_EXECUTOR_ID": "1",
        "SPARK_EXECUTOR_CORES": "1",
        "SPARK_APPLICATION_ID": "app",
        "SPARK_EXECUTOR_POD_IP": "127.0.0.1",
        "SPARK_RESOURCE_PROFILE_ID": "0",
        "SPARK_EXECUTOR_POD_NAME": "executor",
    }
    variables = [{"name": name, "value": value} for name, value in told.items()]
    path = start("executor", "executor", env=variables)
    programs.wait_until(lambda: _phase(cluster, path) == "Failed", "the executor ended", DEADLINE_S)
    # It got as far as to look for its driver, which is not there.
    text = cluster.kubectl("-n", namespace, "logs", "executor")
    assert "127.0.0.1:1" in text
    assert "Usage" not in text


def test_lock_server_serves(cluster: clusters.Cluster, start: Start) -> None:
    probe = {
        "exec": {"command": list(lock_server.probe())},
        "periodSeconds": 1,
        "timeoutSeconds": 5,
    }
    path = start("zk", "hudi-operator", "lock-server", "--folder", "/tmp/zk", readinessProbe=probe)

    def is_ready() -> bool:
        conditions: list[dict[str, Any]] = cluster.api.get(path)["status"].get("conditions") or []
        return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)

    programs.wait_until(is_ready, "the server is ready", DEADLINE_S)
