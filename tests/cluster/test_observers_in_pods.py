"""Observers as real pods that do not start: what a kubelet says of them, and what is told."""

import contextlib
from pathlib import Path
from typing import Final, cast

import pytest

from hoodie_operator.api import configuration, kinds, objects
from support.kube import images, programs
from support.kube.clusters import Cluster
from support.operators import rule_examples, silent_servers
from support.operators.cluster_objects import make

NOWHERE: Final = "localhost/none:1"
HOLLOW: Final = "hudi.test/hollow:1"
ENDING: Final = "hudi.test/ending:1"


@pytest.fixture
def hollow_image(cluster: Cluster, tmp_path: Path) -> str:
    """An image without the program that it names."""
    layer = images.write_layer(tmp_path / "layer.tar", {"file": Path(__file__)}, {})
    config = {"Entrypoint": ["/hollow"]}
    cluster.load_image(images.write_archive(tmp_path / "hollow.tar", HOLLOW, config, [layer]))
    return HOLLOW


@pytest.fixture
def ending_image(cluster: Cluster, tmp_path: Path) -> str:
    """An image whose program ends at once, and says why."""
    layer = images.write_layer(
        tmp_path / "layer.tar", {"bin/busybox": Path("/bin/busybox")}, {"bin/sh": "busybox"}
    )
    config = {"Entrypoint": ["/bin/sh", "-c", "echo no storage here; exit 127"]}
    cluster.load_image(images.write_archive(tmp_path / "ending.tar", ENDING, config, [layer]))
    return ENDING


def told(cluster: Cluster, namespace: str, image: str, awaited: str, **edits: object) -> str:
    """Return what a table tells of its observer, once what is awaited is told."""
    text = f"dataRoots: [/data]\nimage: {{name: '{image}', pullPolicy: Never}}"
    config = configuration.parse(text.encode(), "operator.yaml")
    spec = rule_examples.edited(rule_examples.TABLE, **edits)
    table = make(cluster, namespace, kinds.HUDI_TABLE, "flights", spec)
    return silent_servers.observed(config, cast("objects.Table", table), awaited)


@pytest.fixture(autouse=True)
def logged_in(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have this process log in as an operator does."""
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))


def test_observer_whose_image_is_nowhere_tells_so(cluster: Cluster, namespace: str) -> None:
    message = told(cluster, namespace, NOWHERE, "has not been pulled")
    assert f'has not been pulled: ErrImageNeverPull: Container image "{NOWHERE}"' in message


def test_observer_whose_secret_is_missing_tells_so(
    cluster: Cluster, namespace: str, operator_image: str
) -> None:
    message = told(cluster, namespace, operator_image, "cannot be created", storage__secrets=["s3"])
    assert message.endswith('cannot be created: CreateContainerConfigError: secret "s3" not found')


def test_observer_that_ends_again_and_again_tells_how_and_where_its_log_is(
    cluster: Cluster, namespace: str, ending_image: str
) -> None:
    message = told(cluster, namespace, ending_image, "exit code")
    assert " ended with exit code 127 (Error) and is restarted: see kubectl logs -n " in message
    # As it is told, it can be typed.
    words = message.rpartition("kubectl ")[2].split()

    def shows_the_log() -> bool:
        # While the kubelet replaces a container, it has neither log.
        with contextlib.suppress(AssertionError):
            return "no storage here" in cluster.kubectl(*words)
        return False

    programs.wait_until(shows_the_log, "kubectl shows the log")


def test_observer_whose_program_is_not_in_the_image_tells_so(
    cluster: Cluster, namespace: str, hollow_image: str
) -> None:
    message = told(cluster, namespace, hollow_image, "StartError")
    assert " ended with exit code 128 (StartError: failed to create containerd task" in message
    assert "/hollow" in message
