"""The API server and the types give the same answer, with the same sentence, to every spec.

The same examples test each rule's predicate in tests/unit/hoodie_operator/api/test_rules.py.
"""

import json
import uuid
from collections.abc import Iterable
from typing import Any

import pytest

from hoodie_operator.api import fields, kinds, rules
from support.kube import clusters, objects
from support.operators import rule_examples

WITHIN = [(kind, rule) for kind in kinds.KINDS for rule in kind.rules.within]
BETWEEN = [(kind, rule) for kind in kinds.KINDS for rule in kind.rules.between]


def _typed(kind: kinds.Kind, spec: rule_examples.Spec) -> fields.Block:
    return kind.spec.model_validate_json(json.dumps(spec))


def _expected(
    broken: Iterable[rules.Rule[Any] | rules.TransitionRule[Any]],
) -> objects.Sentences:
    return {(f"spec.{rule.field}", f"{rule.field} {rule.message}") for rule in broken}


def _ids(each: list[tuple[kinds.Kind, Any]]) -> list[str]:
    return [f"{kind.name}-{rule.name}" for kind, rule in each]


@pytest.mark.parametrize(("kind", "rule"), WITHIN, ids=_ids(WITHIN))
def test_rule_within_a_spec_is_the_same_on_the_server(
    cluster: clusters.Cluster, kind: kinds.Kind, rule: rules.Rule[Any]
) -> None:
    examples = rule_examples.WITHIN[kind.name, rule.name]
    (sentence,) = _expected([rule])
    for spec in (*examples.accepted, *examples.refused):
        told = objects.sentences(objects.propose(cluster.api, kind, spec))
        # An example of one rule may break another one as well: all of them have to agree.
        assert told == _expected(kind.rules.violations(_typed(kind, spec))), spec
        assert (sentence in told) == (spec in examples.refused)


@pytest.mark.parametrize(("kind", "rule"), BETWEEN, ids=_ids(BETWEEN))
def test_rule_between_specs_is_the_same_on_the_server(
    cluster: clusters.Cluster, namespace: str, kind: kinds.Kind, rule: rules.TransitionRule[Any]
) -> None:
    examples = rule_examples.BETWEEN[kind.name, rule.name]
    (sentence,) = _expected([rule])
    for old, new in (*examples.accepted, *examples.refused):
        proposed = objects.document(kind, f"old-{uuid.uuid4().hex[:10]}", old)
        stored = cluster.api.create(objects.collection(kind, namespace), proposed)
        if rule.is_once_provisioned:
            # Until then it may be corrected.
            assert not objects.sentences(objects.propose_change(cluster.api, kind, stored, new))
            where = objects.path(kind, namespace, stored["metadata"]["name"])
            stored = cluster.api.merge(f"{where}/status", {"status": {"provisioned": True}})
        told = objects.sentences(objects.propose_change(cluster.api, kind, stored, new))
        typed = _typed(kind, new)
        broken = [
            *kind.rules.violations(typed),
            *kind.rules.forbidden_changes(typed, _typed(kind, old)),
        ]
        assert told == _expected(broken), (old, new)
        assert (sentence in told) == ((old, new) in examples.refused)


ACCEPTED = [
    (kind, spec)
    for kind in kinds.KINDS
    for spec in (
        rule_examples.VALID[kind.name],
        *(
            spec
            for (name, _), examples in rule_examples.WITHIN.items()
            if name == kind.name
            for spec in examples.accepted
            if not kind.rules.violations(_typed(kind, spec))
        ),
    )
]


@pytest.mark.parametrize(("kind", "spec"), ACCEPTED)
def test_server_fills_in_the_defaults_of_the_types(
    cluster: clusters.Cluster, kind: kinds.Kind, spec: rule_examples.Spec
) -> None:
    answer = objects.propose(cluster.api, kind, spec)
    ours = _typed(kind, spec).model_dump(mode="json", by_alias=True, exclude_none=True)
    assert answer.body["spec"] == ours
