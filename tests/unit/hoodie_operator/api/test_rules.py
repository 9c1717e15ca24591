"""Every rule accepts what it should and refuses what it should, by its predicate."""

import json
from typing import Any

import pytest

from hoodie_operator.api import fields, kinds, rules
from support.operators import rule_examples

WITHIN = [(kind, rule) for kind in kinds.KINDS for rule in kind.rules.within]
BETWEEN = [(kind, rule) for kind in kinds.KINDS for rule in kind.rules.between]


def _spec(kind: kinds.Kind, spec: rule_examples.Spec) -> fields.Block:
    return kind.spec.model_validate_json(json.dumps(spec))


def test_every_rule_has_examples() -> None:
    assert {(kind.name, rule.name) for kind, rule in WITHIN} == rule_examples.WITHIN.keys()
    assert {(kind.name, rule.name) for kind, rule in BETWEEN} == rule_examples.BETWEEN.keys()
    assert all(each.accepted and each.refused for each in rule_examples.WITHIN.values())
    assert all(each.accepted and each.refused for each in rule_examples.BETWEEN.values())


@pytest.mark.parametrize(
    ("kind", "rule"), WITHIN, ids=[f"{kind.name}-{rule.name}" for kind, rule in WITHIN]
)
def test_rule_within_a_spec_agrees_with_its_examples(
    kind: kinds.Kind, rule: rules.Rule[Any]
) -> None:
    examples = rule_examples.WITHIN[kind.name, rule.name]
    assert all(rule.holds(_spec(kind, spec)) for spec in examples.accepted)
    assert not any(rule.holds(_spec(kind, spec)) for spec in examples.refused)


@pytest.mark.parametrize(
    ("kind", "rule"), BETWEEN, ids=[f"{kind.name}-{rule.name}" for kind, rule in BETWEEN]
)
def test_rule_between_specs_agrees_with_its_examples(
    kind: kinds.Kind, rule: rules.TransitionRule[Any]
) -> None:
    examples = rule_examples.BETWEEN[kind.name, rule.name]
    for old, new in examples.accepted:
        assert rule.holds(_spec(kind, new), _spec(kind, old))
    for old, new in examples.refused:
        assert not rule.holds(_spec(kind, new), _spec(kind, old))


@pytest.mark.parametrize("kind", kinds.KINDS, ids=lambda kind: kind.name)
def test_valid_spec_breaks_no_rule(kind: kinds.Kind) -> None:
    spec = _spec(kind, rule_examples.VALID[kind.name])
    assert kind.rules.violations(spec) == []
    assert kind.rules.forbidden_changes(spec, spec) == []
