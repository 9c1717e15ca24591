"""Reference of the kinds of the operator, from their custom resource definitions."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from hoodie_operator.api import fields
from manual import markdown

Schema = Mapping[str, Any]

_BOUNDS = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "minProperties": "at least {} entries",
    "maxProperties": "at most {} entries",
}
"""What a schema says of a value's size and form."""

_SHOWN = {
    "type", "description", "properties", "default", "format", "required", "items", "enum",
    "additionalProperties", "x-kubernetes-validations", "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys", "x-kubernetes-list-type", "pattern", *_BOUNDS,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field of a kind, at any depth.

    Attributes:
        path: From the object's root: `spec.keys.recordFields`, `spec.windows[].start`.
        kind: Its type, as the table shows it.
        default: As YAML; None for none.
        meaning: Its description, which may be empty.
        rules: What is asked of its value, each a phrase.
        is_required: Whether it must be there if what holds it is.
    """

    path: str
    kind: str
    default: str | None
    meaning: str
    rules: tuple[str, ...]
    is_required: bool


def page(definition: Schema) -> str:
    """Return the page of a custom resource definition."""
    names = definition["spec"]["names"]
    (version,) = definition["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]
    api = f"{definition['spec']['group']}/{version['name']}"
    short = ", ".join(f"`{each}`" for each in names.get("shortNames", ()))
    parts = [
        f"# {names['kind']}\n",
        f"{markdown.prose(schema['description'])}\n",
        f"`apiVersion: {api}`, `kind: {names['kind']}`; with kubectl `{names['plural']}`"
        + (f", or {short}" if short else "")
        + ". A field that is **bold** is required wherever the field that holds it is there.\n",
    ]
    found = fields_of(schema)
    for root in ("spec", "status"):
        parts += [f"## {root}\n", *_sections(root, [each for each in found if _root(each) == root])]
    rules = [
        rule
        for part in (schema, *(schema["properties"].get(each, {}) for each in ("spec", "status")))
        for rule in _validations(part)
    ]
    if rules:
        parts += ["## Rules\n", "Of the object as a whole:\n", _list(rules)]
    columns = version.get("additionalPrinterColumns", ())
    if columns:
        rows = (
            (each["name"], markdown.code(each["jsonPath"]), "wide" if each.get("priority") else "")
            for each in columns
        )
        heading = ("column", "field", "with -o")
        parts += ["## Columns of kubectl get\n", markdown.table(heading, rows)]
    return "\n".join(parts)


def overview(definitions: Sequence[Schema]) -> str:
    """Return the page that lists all kinds."""
    rows = (
        (
            f"[{names['kind']}]({names['kind'].lower()}.md)",
            markdown.prose(version["schema"]["openAPIV3Schema"]["description"]),
        )
        for each in definitions
        for names in [each["spec"]["names"]]
        for version in each["spec"]["versions"]
    )
    return (
        "# Kinds\n\nThe custom resources of the operator, with every field that a manifest may "
        "have, and every field of the status. The same manifests work on Kubernetes and with "
        "`hudi-operator standalone`. The operator's page has [the smallest useful ones]"
        "(../operator.md#kinds).\n\n" + markdown.table(("kind", "what it is"), rows)
    )


def read(text: str) -> Schema:
    """Return the custom resource definition of a file."""
    found: Schema = yaml.safe_load(text)
    return found


def fields_of(schema: Schema) -> list[Field]:
    """Return all fields below `spec` and `status`, each before those that it holds."""
    return [
        field
        for root in ("spec", "status")
        if root in schema["properties"]
        for field in _below(root, schema["properties"][root])
    ]


def unknown(schema: Schema) -> set[str]:
    """Return the keywords of a schema, at any depth, that no page shows."""
    found = set(schema) - _SHOWN
    for part in (*schema.get("properties", {}).values(), *_held(schema)):
        found |= unknown(part)
    return found


def _below(path: str, schema: Schema) -> Iterator[Field]:
    required = schema.get("required", ())
    for name, part in schema.get("properties", {}).items():
        here = f"{path}.{name}"
        yield _field(here, part, is_required=name in required)
        deep, inner = here, part
        while "properties" not in inner and _held(inner):
            deep += "[]" if "items" in inner else ".*"
            (inner,) = _held(inner)
        yield from _below(deep, inner)


def _field(path: str, schema: Schema, *, is_required: bool) -> Field:
    meaning = str(schema.get("description", ""))
    items = _held(schema)
    if not meaning and items:
        meaning = str(items[0].get("description", ""))
    default = schema.get("default")
    if default is not None and not (isinstance(default, str) and default):
        default = json.dumps(default, ensure_ascii=False)
    return Field(
        path=path,
        kind=_kind(schema),
        default=default,
        meaning=meaning,
        rules=tuple(_rules(schema)),
        is_required=is_required,
    )


def _kind(schema: Schema) -> str:
    if schema.get("x-kubernetes-int-or-string"):
        return "number or text"
    if isinstance(held := schema.get("additionalProperties"), Mapping):
        return f"map of {_kind(held)}"
    match schema.get("type"):
        case "array":
            return f"list of {_kind(schema['items'])}"
        case "string" if "enum" in schema:
            return " or ".join(f"`{each}`" for each in schema["enum"])
        case "string":
            return "time" if schema.get("format") == "date-time" else "text"
        case kind:
            return str(kind)


def _rules(schema: Schema) -> Iterator[str]:
    for keyword, phrase in _BOUNDS.items():
        if keyword in schema:
            yield phrase.format(f"{schema[keyword]:,}")
    if "pattern" in schema:
        known = fields.PATTERNS.get(schema["pattern"])
        yield known or f"matches {markdown.code(schema['pattern'])}"
    if schema.get("x-kubernetes-list-type") == "map":
        keys = " and ".join(f"`{each}`" for each in schema["x-kubernetes-list-map-keys"])
        yield f"one item of each {keys}"
    if schema.get("x-kubernetes-list-type") == "set":
        yield "no item twice"
    yield from _validations(schema)
    for inner in _held(schema):
        if "properties" not in inner:
            of = "each item" if "items" in schema else "each value"
            yield from (f"{of}: {rule}" for rule in _rules(inner))


def _validations(schema: Schema) -> Iterator[str]:
    for each in schema.get("x-kubernetes-validations", ()):
        place = f"`{each['fieldPath'].removeprefix('.')}`: " if "fieldPath" in each else ""
        yield place + markdown.prose(each["message"])


def _held(schema: Schema) -> list[Schema]:
    """Return the schema of what a list or a map holds, if it says one."""
    found = [schema.get("items"), schema.get("additionalProperties")]
    return [each for each in found if isinstance(each, Mapping)]


def _root(field: Field) -> str:
    return field.path.partition(".")[0]


def _top(field: Field) -> str:
    return field.path.split(".")[1].removesuffix("[]")


def _sections(root: str, found: Sequence[Field]) -> Iterator[str]:
    """Yield the fields below a root: those that hold no others first, then a section each."""
    by_top: dict[str, list[Field]] = {}
    for field in found:
        by_top.setdefault(_top(field), []).append(field)
    single = [inside[0] for inside in by_top.values() if len(inside) == 1]
    if single:
        yield _table(root, single)
    for top, inside in by_top.items():
        if len(inside) > 1:
            (first, *rest) = inside
            yield f"### {root}.{top}\n"
            yield f"{_summary(first)}\n"
            yield _table(first.path, rest)


def _summary(field: Field) -> str:
    parts = [markdown.prose(field.meaning), f"Type: {field.kind}."]
    if field.is_required:
        parts.append("Required.")
    if field.rules:
        parts.append(f"Rules: {'; '.join(field.rules)}.")
    return " ".join(each for each in parts if each)


def _table(root: str, rows: Sequence[Field]) -> str:
    def shown(field: Field) -> tuple[str, str, str, str]:
        name = field.path.removeprefix(root).removeprefix("[]").removeprefix(".*").lstrip(".")
        told = markdown.prose(field.meaning)
        if field.rules:
            told = (
                f"{told} <br> *{'; '.join(field.rules)}*" if told else f"*{'; '.join(field.rules)}*"
            )
        default = "" if field.default is None else markdown.code(field.default)
        bold = f"**`{name}`**" if field.is_required else f"`{name}`"
        return bold, field.kind, default, told

    return markdown.table(("field", "type", "default", "meaning and rules"), map(shown, rows))


def _list(rules: Sequence[str]) -> str:
    return "".join(f"- {each}\n" for each in rules)
