"""examples/flights/kubernetes: it declares what the demo declares, and fits the kinds."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from hoodie_operator.api import group, manifests

FLIGHTS = Path(__file__).parents[2] / "examples" / "flights"
VOLUME = FLIGHTS / "kubernetes" / "volume"
RESOURCES = [path for path in sorted(VOLUME.glob("*.yaml")) if path.name != "kustomization.yaml"]


def _ours(*folders: Path) -> Mapping[tuple[str, str], dict[str, Any]]:
    """Return the specs of our kinds in folders."""
    return {
        (document["kind"], document["metadata"]["name"]): document["spec"]
        for folder in folders
        for path in sorted(folder.glob("*.yaml"))
        for document in yaml.safe_load_all(path.read_text())
        if document["apiVersion"] == group.API_VERSION
    }


def _without_places(spec: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in spec.items() if name not in {"storage", "runtime"}}


def test_cluster_has_what_the_demo_has() -> None:
    demo, cluster = _ours(FLIGHTS / "manifests"), _ours(VOLUME)
    assert {key: _without_places(spec) for key, spec in cluster.items()} == {
        key: _without_places(spec) for key, spec in demo.items()
    }


@pytest.mark.parametrize("path", RESOURCES, ids=lambda path: path.name)
def test_manifests_are_valid(path: Path) -> None:
    ours = "---\n".join(
        yaml.safe_dump(document)
        for document in yaml.safe_load_all(path.read_text())
        if document["apiVersion"] == group.API_VERSION
    )
    _, problems = manifests.parse(ours.encode(), path.name)
    assert problems == []


def test_kustomization_names_every_file() -> None:
    listed = yaml.safe_load((VOLUME / "kustomization.yaml").read_text())["resources"]
    assert sorted(listed) == [path.name for path in RESOURCES]
