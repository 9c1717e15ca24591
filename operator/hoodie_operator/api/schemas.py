"""CustomResourceDefinitions made from the kinds: structural schemas with rules and columns.

Pydantic's JSON schema becomes structural by mechanical rewrites: references are inlined, `X or
null` becomes an optional X, and what OpenAPI in Kubernetes does not take is left out.
"""

import json
from collections.abc import Mapping
from typing import Final, TypeAlias, cast

from hoodie_operator.api import fields, group, kinds, rules

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
Node: TypeAlias = dict[str, Json]

_LEFT_OUT = frozenset(
    {
        "title",
        "additionalProperties",
        "patternProperties",
        "propertyNames",
        "$defs",
        "$ref",
        "anyOf",
        "default",
    }
)


_NAME_LENGTH_MAX: Final = 63
_NAME: Final[Node] = {
    # What is there already has to be told what is wrong, and let go.
    "rule": (
        f"oldSelf.hasValue() || (size(self.metadata.name) <= {_NAME_LENGTH_MAX} "
        "&& !self.metadata.name.contains('.'))"
    ),
    "optionalOldSelf": True,
    "message": f"metadata.name is a label of pods, expected at most {_NAME_LENGTH_MAX} characters "
    "and no dot",
}
"""A name that labels do not take would be stored, and each Job of it refused."""


def definition(kind: kinds.Kind) -> Node:
    """Return the CustomResourceDefinition of a kind."""
    spec = structural(kind.spec)
    of_object = [rule for rule in kind.rules.between if rule.is_once_provisioned]
    spec["x-kubernetes-validations"] = [
        _validation(rule) for rule in kind.rules if rule not in of_object
    ]
    schema: Node = {
        "type": "object",
        "description": (kind.spec.__doc__ or "").strip(),
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": structural(kind.status),
        },
    }
    schema["x-kubernetes-validations"] = [
        _NAME,
        *(_validation(rule, "spec.") for rule in of_object),
    ]
    version: Node = {
        "name": group.VERSION,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [_column(column) for column in kind.columns],
        "schema": {"openAPIV3Schema": schema},
    }
    if kind.selectable_fields:
        version["selectableFields"] = [{"jsonPath": path} for path in kind.selectable_fields]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{group.GROUP}"},
        "spec": {
            "group": group.GROUP,
            "names": {
                "kind": kind.name,
                "listKind": f"{kind.name}List",
                "plural": kind.plural,
                "singular": kind.singular,
                "shortNames": list(kind.short_names),
                "categories": list(kinds.CATEGORIES),
            },
            "scope": "Namespaced",
            "versions": [version],
        },
    }


def for_editors() -> Node:
    """Return the JSON schema of a manifest of any kind, draft 7, as editors take it.

    It takes what the CustomResourceDefinitions take, but for their rules, and refuses fields that
    these would drop.
    """
    by_kind: list[Json] = [
        {
            "if": {"properties": {"kind": {"const": kind.name}}, "required": ["kind"]},
            "then": {"properties": {"spec": _closed(structural(kind.spec))}},
        }
        for kind in kinds.KINDS
    ]
    text: Node = {"type": "string"}
    texts: Node = {"type": "object", "additionalProperties": text}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": f"{group.API_VERSION} manifest",
        "type": "object",
        "required": ["apiVersion", "kind", "metadata", "spec"],
        "properties": {
            "apiVersion": {"const": group.API_VERSION},
            "kind": {"enum": [kind.name for kind in kinds.KINDS]},
            "metadata": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": {"type": "string", "maxLength": _NAME_LENGTH_MAX},
                    "namespace": text,
                    "labels": texts,
                    "annotations": texts,
                },
            },
            "spec": {"type": "object"},
        },
        "additionalProperties": False,
        "allOf": by_kind,
    }


def _closed(node: Json) -> Json:
    """Return a structural schema as a plain one whose objects have no other fields."""
    if isinstance(node, list):
        return [_closed(item) for item in node]
    if not isinstance(node, dict):
        return node
    result: Node = {}
    for key, value in node.items():
        if key == "properties":
            assert isinstance(value, dict)
            result[key] = {name: _closed(part) for name, part in value.items()}
            result["additionalProperties"] = False
        elif key == "default":
            result[key] = value
        elif not key.startswith("x-kubernetes-"):
            result[key] = _closed(value)
    return result


def structural(model: type[fields.Block]) -> Node:
    """Return the structural schema of a block."""
    schema = model.model_json_schema(by_alias=True, mode="validation")
    definitions = cast("Mapping[str, Node]", schema.get("$defs", {}))
    return _structural(schema, definitions)


def _structural(node: Node, definitions: Mapping[str, Node]) -> Node:
    merged = _merged(node, definitions)
    result: Node = {}
    for key, value in merged.items():
        if key == "properties":
            assert isinstance(value, dict)
            result[key] = {
                name: _structural(cast("Node", part), definitions) for name, part in value.items()
            }
        elif key == "items":
            result[key] = _structural(cast("Node", value), definitions)
        elif key not in _LEFT_OUT:
            result[key] = value
    if isinstance(names := merged.get("propertyNames"), dict):
        result |= _map(merged, names, definitions)
    if result.get("type") == "integer":
        result["format"] = "int64"
    if (default := merged.get("default")) is not None:
        result["default"] = _without_nulls(default)
    return result


def _map(node: Node, names: Node, definitions: Mapping[str, Node]) -> Node:
    """Return what a map's schema has instead of a schema of its keys: one of values, and a rule."""
    conditions = [f"size(key) <= {names['maxLength']}"]
    values = node.get("additionalProperties")
    if isinstance(by_pattern := node.get("patternProperties"), dict):
        ((pattern, values),) = by_pattern.items()
        conditions.append(f"key.matches({json.dumps(pattern)})")
    return {
        "additionalProperties": _structural(cast("Node", values), definitions),
        "x-kubernetes-validations": [
            {
                "rule": f"self.all(key, {' && '.join(conditions)})",
                "message": "holds a key of a form that is not allowed",
            }
        ],
    }


def _merged(node: Node, definitions: Mapping[str, Node]) -> Node:
    """Return a node with its reference and its one alternative to null put in its place."""
    options = node.get("anyOf")
    if isinstance(options, list):
        (option,) = (item for item in options if item != {"type": "null"})
        return {**_merged(cast("Node", option), definitions), **node}
    reference = node.get("$ref")
    if isinstance(reference, str):
        return {**_merged(definitions[reference.rpartition("/")[2]], definitions), **node}
    return node


def _without_nulls(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_without_nulls(item) for item in value]
    return value


def _validation(
    rule: rules.Rule[fields.Block] | rules.TransitionRule[fields.Block], below: str = ""
) -> Json:
    """Return a rule as it stands at the spec, or at what has the spec below it."""
    validation: Node = {"rule": rule.cel, "message": f"{rule.field or 'spec'} {rule.message}"}
    if rule.field:
        validation["fieldPath"] = f".{below}{rule.field}"
    return validation


def _column(column: kinds.PrinterColumn) -> Json:
    described: Node = {"name": column.name, "type": column.type, "jsonPath": column.path}
    if column.is_wide:
        described["priority"] = 1
    return described
