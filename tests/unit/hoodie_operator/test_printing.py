"""What `get` prints: aligned, no wider than needed, with namespaces where there are several."""

import json

from hoodie_operator.api import kinds, objects
from hoodie_operator.standalone import printing
from support import rule_examples


def _writer(name: str, namespace: str = objects.DEFAULT_NAMESPACE) -> objects.AnyObject:
    return objects.Object(
        key=objects.ObjectKey(kind="Writer", namespace=namespace, name=name),
        uid="1",
        generation=1,
        created_ms=0,
        spec=kinds.WRITER.spec.model_validate_json(json.dumps(rule_examples.WRITER)),
        status=kinds.WRITER.status(),
    )


def _get(*found: objects.AnyObject) -> list[list[str]]:
    text = printing.get(found, kinds.WRITER, is_wide=False, now_ms=90_000)
    return [line.split() for line in text.splitlines()]


def test_default_namespace_is_not_printed() -> None:
    heading, row = _get(_writer("left"))
    assert heading[:2] == ["NAME", "TABLE"]
    assert row[:2] == ["left", "flights"]
    assert row[-1] == "90s"


def test_other_namespaces_are_printed_before_names() -> None:
    heading, *rows = _get(_writer("left"), _writer("left", "shop"))
    assert heading[:2] == ["NAMESPACE", "NAME"]
    assert [row[:2] for row in rows] == [["default", "left"], ["shop", "left"]]
    assert str(_writer("left", "shop").key) == "Writer shop/left"


def test_json_of_a_name_is_the_object_and_of_several_a_list() -> None:
    left, right = _writer("left"), _writer("left", "shop")
    assert json.loads(printing.get_json([left], is_one=True))["kind"] == "Writer"
    assert json.loads(printing.get_json([left], is_one=False))["kind"] == "List"
    assert len(json.loads(printing.get_json([left, right], is_one=True))["items"]) == 2
