"""`get --watch`: a line for what has changed, none for what only grew older."""

import dataclasses
import json

from hoodie_operator.api import kinds, objects
from hoodie_operator.standalone import watching
from support.operators import rule_examples


def _writer(name: str, state: str | None = None) -> objects.AnyObject:
    return objects.Object(
        key=objects.ObjectKey(kind="Writer", namespace="default", name=name),
        uid=name,
        generation=1,
        created_ms=0,
        spec=kinds.WRITER.spec.model_validate_json(json.dumps(rule_examples.WRITER)),
        status=kinds.WRITER.status.model_validate({"state": state}),
    )


def _words(lines: list[str]) -> list[list[str]]:
    return [line.split() for line in lines]


def test_changes_are_printed_and_ages_are_none() -> None:
    watch = watching.Watch(kinds.WRITER, is_wide=False)
    left, right = _writer("left"), _writer("right")
    heading, *rows = _words(watch.lines([left, right], 1_000))
    assert heading[:2] == ["NAME", "TABLE"]
    assert [row[0] for row in rows] == ["left", "right"]
    assert watch.lines([left, right], 90_000) == []
    running = _writer("right", "Running")
    ((name, *cells),) = _words(watch.lines([left, running], 90_000))
    assert name == "right"
    assert "Running" in cells
    assert _words(watch.lines([running], 90_000)) == [["left", "gone"]]
    assert watch.lines([running], 90_000) == []


def test_one_that_was_made_again_is_another() -> None:
    watch = watching.Watch(kinds.WRITER, is_wide=False)
    left = _writer("left")
    watch.lines([left], 0)
    again = dataclasses.replace(left, uid="other")
    assert [row[:2] for row in _words(watch.lines([again], 0))] == [
        ["left", "flights"],
        ["left", "gone"],
    ]


def test_names_among_all_kinds_tell_theirs_and_the_columns_stay_where_they_are() -> None:
    watch = watching.Watch(None, is_wide=True)
    heading, row = watch.lines([_writer("left", "Running")], 0)
    assert row.startswith("writer/left   Running")
    (longer,) = watch.lines([_writer("left", "Ready")], 0)
    assert longer.index("Ready") == row.index("Running") == heading.index("STATE")
