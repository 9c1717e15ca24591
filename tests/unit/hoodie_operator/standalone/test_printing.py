"""What `get` prints: aligned, no wider than needed, with namespaces where there are several."""

import dataclasses
import json

import pytest

from hoodie_operator.api import attempts, kinds, manifests, objects, states
from hoodie_operator.standalone import printing
from support.operators import rule_examples


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


@pytest.mark.parametrize("word", ["index", "indexes", "hix", "indexrequests", "IndexRequest"])
def test_indexes_are_listed_as_kubectl_lists_them(word: str) -> None:
    kind = printing.kind_named(word)
    spec = {**rule_examples.INDEX_REQUEST, "indexes": ["column_stats", "bloom_filters"]}
    found: objects.AnyObject = objects.Object(
        key=objects.ObjectKey(kind=kind.name, namespace=objects.DEFAULT_NAMESPACE, name="wanted"),
        uid="1",
        generation=1,
        created_ms=0,
        spec=kind.spec.model_validate_json(json.dumps(spec)),
        status=kind.status(),
    )
    heading, row = printing.get([found], kind, is_wide=False, now_ms=0).splitlines()
    assert heading.split()[:4] == ["NAME", "TABLE", "INDEXES", "ENSURE"]
    assert row.split()[:4] == [
        *("wanted", "flights", '["column_stats","bloom_filters"]', "Present"),
    ]


def test_json_of_a_name_is_the_object_and_of_several_a_list() -> None:
    left, right = _writer("left"), _writer("left", "shop")
    assert json.loads(printing.get_json([left], is_one=True))["kind"] == "Writer"
    assert json.loads(printing.get_json([left], is_one=False))["kind"] == "List"
    assert len(json.loads(printing.get_json([left, right], is_one=True))["items"]) == 2


@pytest.mark.parametrize(
    ("state", "count", "told"),
    [
        (states.State.BACKING_OFF, 1, "1 attempt, 1 failure in a row, next at 2030"),
        (states.State.STALLED, 2, "2 attempts, 2 failures in a row"),
        (states.State.COMPLETED, 0, "0 attempts"),
    ],
)
def test_next_attempt_is_told_of_what_waits_for_it(
    state: states.State, count: int, told: str
) -> None:
    runs = attempts.Runs(attempts=count, failures=count, next_attempt_time="2030")
    status = kinds.WRITER.status.model_validate({"state": state.value}).model_copy(
        update={"runs": runs}
    )
    writer = dataclasses.replace(_writer("left"), status=status)
    assert f"Runs:         {told}\n" in printing.describe(writer, [], [], None)


def test_what_was_refused_of_a_manifest_stands_above_the_spec_that_goes_on() -> None:
    problem = manifests.Problem(source="a.yaml", document=1, path="spec", message="no")
    text = printing.describe(_writer("left"), [], [problem], None)
    assert "Refused:      a.yaml, document 1: spec: no\nSpec:\n" in text
