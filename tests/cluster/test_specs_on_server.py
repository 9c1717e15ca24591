"""The API server refuses the specs that a folder's operator refuses, and no others.

Every field of specs that hold every field is removed, and replaced by values of every sort, one at
a time. Nothing of ours may be stored that the operator then cannot read, and what a folder's
operator takes, a cluster must take as well.
"""

import copy
import json
from collections.abc import Iterator
from typing import Any, Final

import pytest

from hoodie_operator.api import kinds, manifests
from support.kube import clusters, objects
from support.operators import full_specs

VALUES: Final = (
    None, True, -1, 0, 1, 8, 8.0, 1.5, 2**31, 2**63, 10**30,
    "", " ", "a", "A", "a b", "a/b", "ä", "a\n", "٣", "1_0", "x" * 3_000,
    "1h", "1 h", "0s", "9999999999h", "1Gi", "-1Gi",
    [], [""], ["a"], ["a", "a"], ["a"] * 1001, {}, {"a": "b"}, {"a": 1}, {"name": "a"}, [{}],
)  # fmt: skip
"""Of all types and forms, within and beyond bounds."""

Place = tuple[str | int, ...]


def _places(node: object, place: Place = ()) -> Iterator[Place]:
    if place:
        yield place
    if isinstance(node, dict):
        for name, part in node.items():
            yield from _places(part, (*place, name))
    elif isinstance(node, list):
        for position, part in enumerate(node):
            yield from _places(part, (*place, position))


def _parent(spec: object, place: Place) -> dict[str | int, object]:
    node: Any = spec
    for step in place[:-1]:
        node = node[step]
    parent: dict[str | int, object] = node
    return parent


def _variants(spec: full_specs.Spec) -> Iterator[tuple[str, full_specs.Spec]]:
    """Yield a spec's variants, each with what was done."""
    for place in _places(spec):
        removed = copy.deepcopy(spec)
        del _parent(removed, place)[place[-1]]
        yield f"{place} removed", removed
        for value in VALUES:
            changed = copy.deepcopy(spec)
            _parent(changed, place)[place[-1]] = value
            yield f"{place} = {value!r:.40}", changed
        if isinstance(place[-1], str):
            extended = copy.deepcopy(spec)
            _parent(extended, place)["unknown"] = "a"
            yield f"another beside {place}", extended


def _is_ours(kind: kinds.Kind, spec: full_specs.Spec) -> bool:
    """Return whether the operator that reads manifests from a folder takes it."""
    text = json.dumps(objects.document(kind, "a", spec))
    _, problems = manifests.parse(text.encode(), "a.yaml")
    return not problems


SPECS = [(kind, spec) for kind in kinds.KINDS for spec in full_specs.FULL[kind.name]]


@pytest.mark.parametrize(
    ("kind", "spec"), SPECS, ids=[f"{kind.name}-{number}" for number, (kind, _) in enumerate(SPECS)]
)
def test_server_and_types_take_the_same_specs(
    cluster: clusters.Cluster, kind: kinds.Kind, spec: full_specs.Spec
) -> None:
    differences = []
    with objects.proposing(cluster.api, kind) as propose:
        for what, variant in _variants(spec):
            answer = propose(variant)
            # Rules cannot compare a whole number that is written as 8.0: an API server says so.
            is_known = "expected int, got float64" in answer.message
            if answer.is_accepted != _is_ours(kind, variant) and not is_known:
                differences.append(f"{what}: the server says {answer.status} {answer.message:.300}")
    assert "\n".join(differences) == ""
