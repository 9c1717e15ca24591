"""Fixtures of clusters, from tests/support. Only `make test-cluster` runs this folder."""

from support.flights_example import flights
from support.installed_operator import real_lake
from support.kube.clusters import built, cluster, namespace, own_control_plane, turn
from support.operator_image import image_archive, operator_image

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
