"""The generated CustomResourceDefinitions: equal to crds/, structural, bounded, with defaults."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from hoodie_operator.api import generate, json_paths, kinds, manifests, schemas
from support.operators import full_specs, rule_examples

ROOT = Path(__file__).parents[4]
KINDS = [pytest.param(kind, id=kind.name) for kind in kinds.KINDS]


def _nodes(node: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, node
    for name, part in node.get("properties", {}).items():
        yield from _nodes(part, f"{path}.{name}")
    if "items" in node:
        yield from _nodes(node["items"], f"{path}[]")
    if "additionalProperties" in node:
        yield from _nodes(node["additionalProperties"], f"{path}{{}}")


def _schema(kind: kinds.Kind) -> dict[str, Any]:
    definition: dict[str, Any] = schemas.definition(kind)
    (version,) = definition["spec"]["versions"]
    schema: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return schema


def test_crds_folder_is_what_the_types_give() -> None:
    stored = {path.name: path.read_text() for path in (ROOT / "crds").iterdir()}
    assert stored == generate.files()


EDITOR = jsonschema.Draft7Validator(schemas.for_editors())


def _manifest(kind: kinds.Kind, spec: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": "a", "labels": {"tier": "gold"}}
    return {
        "apiVersion": "hudi.dev/v1alpha1",
        "kind": kind.name,
        "metadata": metadata,
        "spec": spec,
    }


def test_schema_for_editors_takes_every_manifest_of_the_examples() -> None:
    jsonschema.Draft7Validator.check_schema(schemas.for_editors())
    taken = 0
    for path in (ROOT / "examples").rglob("*.yaml"):
        declared, problems = manifests.parse(path.read_bytes(), path.name)
        if declared and not problems:
            for document in yaml.safe_load_all(path.read_text()):
                assert [error.message for error in EDITOR.iter_errors(document)] == [], path
                taken += 1
    assert taken > 10


@pytest.mark.parametrize("kind", KINDS)
def test_schema_for_editors_takes_full_specs_and_no_unknown_field(kind: kinds.Kind) -> None:
    for spec in full_specs.FULL[kind.name]:
        assert EDITOR.is_valid(_manifest(kind, spec)), list(EDITOR.iter_errors(spec))
        assert not EDITOR.is_valid(_manifest(kind, {**spec, "unknown": 1}))


@pytest.mark.parametrize("kind", KINDS)
def test_schema_is_structural(kind: kinds.Kind) -> None:
    allowed = {
        "type", "description", "properties", "required", "items", "additionalProperties", "enum",
        "pattern", "minLength", "maxLength", "minimum", "maximum", "minItems", "maxItems",
        "minProperties", "maxProperties", "default", "format", "x-kubernetes-validations",
        "x-kubernetes-int-or-string", "x-kubernetes-list-type", "x-kubernetes-list-map-keys",
    }  # fmt: skip
    for path, node in _nodes(_schema(kind)):
        assert node.keys() <= allowed, path
        assert "type" in node or node.get("x-kubernetes-int-or-string"), path
        assert not ("properties" in node and "additionalProperties" in node), path
        assert "null" not in json.dumps(node.get("default")) or "default" not in node, path


@pytest.mark.parametrize("kind", KINDS)
def test_every_text_list_and_map_is_bounded(kind: kinds.Kind) -> None:
    for path, node in _nodes(_schema(kind)):
        if path in {".apiVersion", ".kind", ".metadata"}:
            continue
        if node.get("type") == "string":
            assert "maxLength" in node or "enum" in node, path
        if node.get("type") == "array":
            assert "maxItems" in node, path
        if "additionalProperties" in node:
            assert "maxProperties" in node, path


@pytest.mark.parametrize("kind", KINDS)
def test_no_default_stands_inside_a_list_item(kind: kinds.Kind) -> None:
    for path, node in _nodes(_schema(kind)):
        if "[]" in path:
            assert "default" not in node, path


def _defaulted(node: dict[str, Any], value: object) -> object:
    """Return what the API server stores: defaults filled in from the top down."""
    if isinstance(value, dict) and "properties" in node:
        filled = dict(value)
        for name, part in node["properties"].items():
            if name not in filled and "default" in part:
                filled[name] = part["default"]
            if name in filled:
                filled[name] = _defaulted(part, filled[name])
        return filled
    return value


@pytest.mark.parametrize("kind", KINDS)
def test_defaults_of_schema_and_types_are_equal(kind: kinds.Kind) -> None:
    given = rule_examples.VALID[kind.name]
    spec = kind.spec.model_validate_json(json.dumps(given))
    ours = spec.model_dump(mode="json", by_alias=True, exclude_none=True)
    assert ours == _defaulted(_schema(kind)["properties"]["spec"], given)


@pytest.mark.parametrize("kind", KINDS)
def test_rules_point_at_fields_that_exist(kind: kinds.Kind) -> None:
    spec = _schema(kind)["properties"]["spec"]
    paths = {path for path, _ in _nodes(spec)}
    for validation in spec["x-kubernetes-validations"]:
        assert validation["fieldPath"] in paths


@pytest.mark.parametrize("kind", KINDS)
def test_printer_columns_point_at_fields_that_exist(kind: kinds.Kind) -> None:
    paths = {path.replace("[]", "") for path, _ in _nodes(_schema(kind))}
    for column in kind.columns:
        if column.path.startswith(".metadata"):
            continue
        plain = column.path.partition("[?")
        tail = plain[2].partition("]")[2]
        assert plain[0] + tail in paths, column


def test_files_are_yaml_that_reads_back() -> None:
    for name, content in generate.files().items():
        data = yaml.safe_load(content)
        assert data["metadata"]["name"] + ".yaml" == ".".join(
            [name.removesuffix(".yaml").rpartition("_")[2], name.partition("_")[0], "yaml"]
        )


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (".a.b", 1),
        (".c", None),
        (".a.b.c", None),
        ('.l[?(@.type=="y")].s', "2"),
        ('.l[?(@.type=="z")].s', None),
    ],
)
def test_json_path_leads_to_its_value(path: str, value: object) -> None:
    data = {"a": {"b": 1}, "l": [{"type": "x", "s": "1"}, {"type": "y", "s": "2"}]}
    assert json_paths.value_at(data, path) == value
