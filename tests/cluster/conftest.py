"""Fixtures of clusters, from tests/support. Only `make test-cluster` runs this folder."""

from support.kube.clusters import built, cluster, namespace, own_control_plane, turn
from support.operators.flights_example import flights
from support.operators.installed_operator import real_lake
from support.operators.operator_image import image_archive, operator_image

__all__ = [
    "built",
    "cluster",
    "flights",
    "image_archive",
    "namespace",
    "operator_image",
    "own_control_plane",
    "real_lake",
    "turn",
]
