"""`diff`: what would be created, changed by which fields, and deleted."""

import dataclasses
import json

from hoodie_operator.api import kinds, objects
from hoodie_operator.standalone import applying, diffing
from hoodie_operator.standalone.diffing import Change, FieldChange
from support.operators import rule_examples


def _writer(name: str, **edits: object) -> objects.AnyObject:
    spec = rule_examples.edited(rule_examples.WRITER, **edits)
    return objects.Object(
        key=objects.ObjectKey(kind="Writer", namespace="default", name=name),
        uid=name,
        generation=1,
        created_ms=0,
        spec=kinds.WRITER.spec.model_validate_json(json.dumps(spec)),
        status=kinds.WRITER.status(),
    )


def _differences(
    stored: list[objects.AnyObject], put: list[objects.AnyObject]
) -> dict[str, diffing.Difference]:
    changes = applying.Changes(put=put, problems=(), vanished=(), protected=())
    found = diffing.differences({each.key: each for each in stored}, changes)
    return {each.key.name: each for each in found}


def test_new_changed_and_deleted_objects_are_told_apart() -> None:
    kept, gone = _writer("kept"), _writer("gone")
    after = dataclasses.replace(
        _writer("kept", suspend=True, pacing__commitInterval="30s"), labels={"tier": "gold"}
    )
    found = _differences(
        [kept, gone], [_writer("new"), after, dataclasses.replace(gone, deletion_ms=1)]
    )
    assert {name: each.change for name, each in found.items()} == {
        "new": Change.CREATED,
        "kept": Change.CHANGED,
        "gone": Change.DELETED,
    }
    assert set(found["kept"].fields) == {
        FieldChange(path="labels.tier", before=None, after="gold"),
        FieldChange(path="spec.suspend", before=False, after=True),
        FieldChange(path="spec.pacing.commitInterval", before=None, after="30s"),
    }


def test_field_that_is_set_no_more_is_told() -> None:
    found = _differences([_writer("kept", pacing__commitInterval="30s")], [_writer("kept")])
    (change,) = found["kept"].fields
    assert (change.path, change.before, change.after) == ("spec.pacing.commitInterval", "30s", None)
