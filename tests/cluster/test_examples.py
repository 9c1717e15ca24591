"""The examples for a cluster, as kubectl builds them and an API server takes them."""

from pathlib import Path

import pytest
import yaml

from hoodie_operator.api import group, hudi_table, manifests
from support.kube import clusters

EXAMPLES = Path(__file__).parents[2] / "examples" / "flights" / "kubernetes"


@pytest.mark.parametrize("name", ["volume", "s3"])
def test_example_is_taken(cluster: clusters.Cluster, namespace: str, name: str) -> None:
    built = cluster.kubectl("kustomize", str(EXAMPLES / name))
    documents = list(yaml.safe_load_all(built))
    told = cluster.kubectl(
        *("apply", "--namespace", namespace, "--dry-run=server", "-f", "-"),
        stdin=yaml.safe_dump_all(
            # No account is given to pods where no controller makes the default one in time.
            [each for each in documents if each["kind"] != "Pod"]
        ),
    )
    assert len(told.splitlines()) == len(documents) - 1


def test_table_on_s3_differs_in_its_place_only(cluster: clusters.Cluster) -> None:
    def table(name: str) -> manifests.Manifest:
        documents = yaml.safe_load_all(cluster.kubectl("kustomize", str(EXAMPLES / name)))
        ours = [each for each in documents if each["apiVersion"] == group.API_VERSION]
        found, problems = manifests.parse(yaml.safe_dump_all(ours).encode(), name)
        assert problems == []
        (only,) = (each for each in found if each.key.kind == "HudiTable")
        return only

    volume, store = table("volume").spec, table("s3").spec
    assert isinstance(volume, hudi_table.HudiTableSpec)
    assert isinstance(store, hudi_table.HudiTableSpec)
    assert store.storage.path == "s3://lake/flights"
    assert store.storage.volumes == volume.storage.volumes
    changed = {"storage": volume.storage, "concurrency": volume.concurrency}
    assert store.model_copy(update=changed) == volume
    assert store.concurrency.mode is volume.concurrency.mode
