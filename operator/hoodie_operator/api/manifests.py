"""Manifests: YAML that declares objects, read strictly.

Whatever does not fit is reported with file, document, path and expectation, all at once. Only a
word of an enumeration may be spelled in another case, and with hyphens or underscores, which an API
server refuses: it is accepted, and reported (`Manifest.respelled`). The text may be anybody's: its
size, its depth and what its aliases grow to are bounded.
"""

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import pydantic
import pydantic_core
import yaml
from pydantic import Field

from hoodie_operator.api import fields, group, kinds, objects

BYTES_MAX = 1 << 20
NODES_MAX = 100_000
DEPTH_MAX = 50
DOCUMENTS_MAX = 1000

_SHOWN_LENGTH_MAX = 60
_NO_LETTER = re.compile(r"[^A-Za-z0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What is wrong with a manifest.

    Attributes:
        source: The file.
        document: Which document of it, from 1; 0 for the file itself.
        path: Where in the document; empty for the document itself.
        message: What is there and what was expected.
        key: Of the object that the document is about; None where that cannot be told.
    """

    source: str
    document: int
    path: str
    message: str
    key: objects.ObjectKey | None = None

    def __str__(self) -> str:
        place = self.source if self.document == 0 else f"{self.source}, document {self.document}"
        return f"{place}: {self.path}: {self.message}" if self.path else f"{place}: {self.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One declared object.

    Attributes:
        key: Kind, namespace and name.
        labels: As given.
        spec: Of the kind's type; it breaks no rule.
        source: The file.
        document: Which document of it, from 1.
        respelled: Where words of enumerations are spelled in another way than in the API.
    """

    key: objects.ObjectKey
    labels: Mapping[str, str]
    spec: fields.Block
    source: str
    document: int
    respelled: tuple[Problem, ...] = ()


Model = TypeVar("Model", bound=fields.Block)


class _Metadata(fields.Block):
    name: fields.ObjectName
    namespace: fields.ObjectName = objects.DEFAULT_NAMESPACE
    labels: fields.Labels = Field(default={})
    annotations: dict[fields.LabelKey, str] = Field(default={})


class _Loader(yaml.CSafeLoader):
    """Safe, without dates (a text is a text), and without doubled keys."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Return the mapping.

        Raises:
            ConstructorError: A key is there twice, or is no text.
        """
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(
                    None, None, "found a key that is not a string", key.start_mark
                )
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"found key {key.value!r} twice", key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def parse(content: bytes, source: str) -> tuple[list[Manifest], list[Problem]]:
    """Return the objects that a file declares, and everything that is wrong with it.

    A document with a problem yields no object; the others of the file do.
    """

    def problem(
        document: int, path: str, message: str, key: objects.ObjectKey | None = None
    ) -> Problem:
        return Problem(source=source, document=document, path=path, message=message, key=key)

    manifests: list[Manifest] = []
    problems: list[Problem] = []
    try:
        for number, data in enumerate(_documents(content), start=1):
            if data is None:
                continue
            found = _parse_document(data)
            if isinstance(found, list):
                key = _key(data)
                problems.extend(problem(number, path, message, key) for path, message in found)
            else:
                key, labels, spec, respelled = found
                manifests.append(
                    Manifest(
                        key=key,
                        labels=labels,
                        spec=spec,
                        source=source,
                        document=number,
                        respelled=tuple(
                            problem(number, path, message, key) for path, message in respelled
                        ),
                    )
                )
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        problems.append(problem(0, "", f"is not valid YAML: {_one_line(error)}"))
    return manifests, problems


def parse_block(content: bytes, model: type[Model], source: str) -> Model | list[Problem]:
    """Return the one block that a file holds, or everything that is wrong with it."""
    found: list[tuple[str, str]] = []
    block = None
    try:
        documents = [data for data in _documents(content) if data is not None]
        if len(documents) == 1:
            block = _validate(model, documents[0], "", found)
        else:
            found.append(("", f"holds {len(documents)} documents, expected one"))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        found.append(("", f"is not valid YAML: {_one_line(error)}"))
    if block is not None:
        return block
    return [
        Problem(source=source, document=0, path=path.removeprefix("."), message=message)
        for path, message in found
    ]


def _documents(content: bytes) -> Iterator[object]:
    if len(content) > BYTES_MAX:
        raise ValueError(f"it has more than {BYTES_MAX} bytes")
    text = content.decode("utf-8-sig")
    _check_size(text)
    loader = _Loader(text)
    try:
        count = 0
        while loader.check_node():
            count += 1
            if count > DOCUMENTS_MAX:
                raise ValueError(f"it has more than {DOCUMENTS_MAX} documents")
            node = loader.get_node()
            if node is not None:
                _check_growth(node)
                yield loader.construct_document(node)
    finally:
        loader.dispose()


def _check_size(text: str) -> None:
    """Refuse a text that holds or nests more than manifests ever do, found without recursion."""
    depth = count = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.NodeEvent):
            count += 1
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > DEPTH_MAX:
            raise ValueError(f"it nests deeper than {DEPTH_MAX}")
        if count > NODES_MAX:
            raise ValueError(f"it holds more than {NODES_MAX} values")


def _check_growth(root: yaml.Node) -> None:
    """Refuse a document whose aliases repeat more than a manifest would ever hold, or itself."""
    count = 0
    stack = [(root, 0)]
    while stack:
        node, depth = stack.pop()
        count += 1
        if count > NODES_MAX or depth > DEPTH_MAX:
            raise ValueError(f"its aliases grow beyond {NODES_MAX} nodes or {DEPTH_MAX} levels")
        if isinstance(node, yaml.MappingNode):
            stack.extend((item, depth + 1) for pair in node.value for item in pair)
        elif isinstance(node, yaml.SequenceNode):
            stack.extend((item, depth + 1) for item in node.value)


_Found = tuple[objects.ObjectKey, Mapping[str, str], fields.Block, list[tuple[str, str]]]


def _parse_document(data: object) -> _Found | list[tuple[str, str]]:
    if not isinstance(data, dict):
        return [("", f"is {_shown(data)}, expected an object with apiVersion, kind and spec")]
    if data.get("apiVersion") != group.API_VERSION:
        return [
            ("apiVersion", f"is {_shown(data.get('apiVersion'))}, expected {group.API_VERSION}")
        ]
    name = data.get("kind")
    kind = kinds.BY_NAME.get(name) if isinstance(name, str) else None
    if kind is None:
        return [("kind", f"is {_shown(name)}, expected one of {', '.join(kinds.BY_NAME)}")]
    known = ("apiVersion", "kind", "metadata", "spec")
    problems = [(str(key), _unknown(str(key), known)) for key in data if key not in known]
    metadata = _validate(_Metadata, data.get("metadata"), "metadata", problems)
    respelled: list[tuple[str, str]] = []
    spec = _validate(kind.spec, data.get("spec"), "spec", problems, respelled)
    if spec is not None:
        problems.extend(
            (f"spec.{rule.field}" if rule.field else "spec", rule.message)
            for rule in kind.rules.violations(spec)
        )
    if problems or metadata is None or spec is None:
        return problems
    key = objects.ObjectKey(kind=kind.name, namespace=metadata.namespace, name=metadata.name)
    return key, metadata.labels, spec, respelled


def _key(data: object) -> objects.ObjectKey | None:
    """Return what object a document is about that does not fit; None where it does not tell."""
    if not isinstance(data, dict) or not isinstance(data.get("kind"), str):
        return None
    kind = kinds.BY_NAME.get(data["kind"])
    metadata = _validate(_Metadata, data.get("metadata"), "metadata", [])
    if kind is None or metadata is None:
        return None
    return objects.ObjectKey(kind=kind.name, namespace=metadata.namespace, name=metadata.name)


def _validate(
    model: type[Model],
    data: object,
    path: str,
    problems: list[tuple[str, str]],
    respelled: list[tuple[str, str]] | None = None,
) -> Model | None:
    """Return a block; None, and problems, where it does not fit.

    Words of enumerations may be in any spelling if there is a list that takes the reports of them.
    """
    if not isinstance(data, dict):
        problems.append((path, f"is {_shown(data)}, expected an object"))
        return None
    stored = {name: _as_stored(part) for name, part in data.items() if part is not None}
    try:
        text = json.dumps(stored, allow_nan=False)
    except (TypeError, ValueError) as error:
        problems.append((path, f"holds a value that JSON cannot represent: {error}"))
        return None
    try:
        return model.model_validate_json(text, context=fields.DECLARED)
    except pydantic.ValidationError as error:
        found = error.errors(include_url=False)
        words = [] if respelled is None else list(_respelled(stored, path, found))
        if respelled is not None and words:
            respelled += words
            # What else does not fit is found once more.
            return _validate(model, stored, path, problems, respelled)
        problems.extend(
            (_join(path, details["loc"]), _explained(details, model))
            for details in found
            if not _follows_from_others(details, found)
        )
        return None


def _respelled(
    data: dict[str, Any], path: str, found: list[pydantic_core.ErrorDetails]
) -> Iterator[tuple[str, str]]:
    """Spell words of enumerations in data as they are known; yield where, and what they were."""
    for details in found:
        if details["type"] not in ("enum", "literal_error"):
            continue
        given, known = details["input"], _known_word(details)
        place: tuple[Any, Any] | None = None
        here: Any = data
        for step in details["loc"]:
            is_item = isinstance(here, list) and isinstance(step, int)
            # Others are names of validators.
            if is_item or (isinstance(here, dict) and step in here):
                place, here = (here, step), here[step]
        if place is not None and here == given and known not in (None, given):
            holder, last = place
            holder[last] = known
            text = f"is {_shown(given)}, taken for {known}, which an API server expects"
            yield _join(path, details["loc"]), text


def _as_stored(value: object) -> object:
    """Return a value as an API server stores it: fields that are null are absent, 8.0 is 8."""
    if isinstance(value, dict):
        return {name: _as_stored(part) for name, part in value.items() if part is not None}
    if isinstance(value, list):
        return [_as_stored(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _follows_from_others(
    details: pydantic_core.ErrorDetails, found: list[pydantic_core.ErrorDetails]
) -> bool:
    """Return whether a list is too short only because items of it do not fit."""
    location = details["loc"]
    return details["type"] == "too_short" and any(
        other["loc"][: len(location)] == location and other is not details for other in found
    )


def _join(path: str, location: tuple[int | str, ...]) -> str:
    for step in location:
        if isinstance(step, int):
            path += f"[{step}]"
        elif step not in ("[key]", "str", "int") and not step.startswith("function-"):
            path += f".{step}"
    return path


_EXPECTED = {
    "string_type": "a text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "bool_type": "true or false",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "tuple_type": "a list",
    "list_type": "a list",
    "greater_than_equal": "{ge} or more",
    "less_than_equal": "{le} or less",
    "string_too_short": "a text of at least {min_length} characters",
    "string_too_long": "a text of at most {max_length} characters",
    "too_short": "at least {min_length} entries",
    "too_long": "at most {max_length} entries",
}


def _explained(details: pydantic_core.ErrorDetails, model: type[fields.Block]) -> str:
    context = details.get("ctx", {})
    kind = details["type"]
    if kind == "missing":
        return "is missing"
    if kind == "extra_forbidden":
        return _unknown(str(details["loc"][-1]), _field_names(model, details["loc"][:-1]))
    if kind == "string_pattern_mismatch":
        pattern = context["pattern"]
        expected = fields.PATTERNS.get(pattern, f"a text like {pattern}")
    elif kind in ("enum", "literal_error"):
        same = _known_word(details)
        hint = f"; did you mean {same}?" if same else ""
        expected = f"one of {', '.join(_words(details))}{hint}"
    elif kind == "value_error":
        expected = str(context["error"]).removeprefix("expected ")
    else:
        expected = _EXPECTED.get(kind, details["msg"]).format(**context)
    return f"is {_shown(details['input'])}, expected {expected}"


def _field_names(model: type[fields.Block], location: tuple[int | str, ...]) -> list[str]:
    """Return the fields known at a place in a model; empty where that cannot be told."""
    current: object = model
    for step in location:
        if isinstance(step, int):
            continue
        blocks = _blocks_in(current)
        field = next(
            (
                info
                for block in blocks
                for name, info in block.model_fields.items()
                if (info.alias or name) == step
            ),
            None,
        )
        if field is None:
            return []
        current = field.annotation
    return [
        info.alias or name
        for block in _blocks_in(current)
        for name, info in block.model_fields.items()
    ]


def _blocks_in(annotation: object) -> list[type[fields.Block]]:
    if isinstance(annotation, type) and issubclass(annotation, fields.Block):
        return [annotation]
    return [block for item in getattr(annotation, "__args__", ()) for block in _blocks_in(item)]


def _words(details: pydantic_core.ErrorDetails) -> list[str]:
    """Return the words of an enumeration that a value is none of."""
    known = str(details.get("ctx", {})["expected"])
    return known.replace("'", "").replace(" or", ",").split(", ")


def _known_word(details: pydantic_core.ErrorDetails) -> str | None:
    """Return the word of an enumeration that a value is, but for case and hyphens; None if none."""
    plain = _NO_LETTER.sub("", str(details["input"])).lower()
    return next((word for word in _words(details) if word.lower() == plain), None)


def _unknown(name: str, known: list[str] | tuple[str, ...]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    if close:
        return f"unknown field, did you mean {close[0]}?"
    return f"unknown field, expected one of {', '.join(known)}" if known else "unknown field"


def _shown(value: object) -> str:
    if value is None:
        return "missing"
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN_LENGTH_MAX else text[: _SHOWN_LENGTH_MAX - 3] + "..."


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
