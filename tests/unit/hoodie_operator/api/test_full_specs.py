"""The specs that cluster tests vary hold every field, so that a new one is varied, too."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from hoodie_operator.api import kinds, schemas
from support.operators import full_specs


def _fields(node: dict[str, Any], path: str = "") -> Iterator[str]:
    for name, part in node.get("properties", {}).items():
        yield f"{path}.{name}"
        yield from _fields(part, f"{path}.{name}")
    if "items" in node:
        yield from _fields(node["items"], path)


def _given(value: object, path: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for name, part in value.items():
            yield f"{path}.{name}"
            yield from _given(part, f"{path}.{name}")
    elif isinstance(value, list):
        for part in value:
            yield from _given(part, path)


@pytest.mark.parametrize("kind", kinds.KINDS, ids=lambda kind: kind.name)
def test_full_specs_hold_every_field(kind: kinds.Kind) -> None:
    schema: dict[str, Any] = schemas.structural(kind.spec)
    given = {path for spec in full_specs.FULL[kind.name] for path in _given(spec)}
    assert set(_fields(schema)) <= given


@pytest.mark.parametrize("kind", kinds.KINDS, ids=lambda kind: kind.name)
def test_full_specs_are_valid(kind: kinds.Kind) -> None:
    for spec in full_specs.FULL[kind.name]:
        assert kind.rules.violations(kind.spec.model_validate_json(json.dumps(spec))) == []
