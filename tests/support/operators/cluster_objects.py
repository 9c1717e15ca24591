"""Objects of our kinds at the API server of a test."""

from typing import Any

from hoodie_operator.api import documents, kinds, objects
from support.kube.clusters import Cluster


def make(
    cluster: Cluster, namespace: str, kind: kinds.Kind, name: str, spec: dict[str, Any]
) -> objects.AnyObject:
    """Create an object and return it as it is stored."""
    path = f"/apis/hudi.dev/v1alpha1/namespaces/{namespace}/{kind.plural}"
    document = {
        "apiVersion": "hudi.dev/v1alpha1",
        "kind": kind.name,
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }
    return documents.from_document(cluster.api.create(path, document))
