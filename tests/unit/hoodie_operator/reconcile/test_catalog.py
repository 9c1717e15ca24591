"""The catalog finds what a search through all objects finds, after any changes."""

import dataclasses
import json
import random
from typing import cast

import pytest

from hoodie.storage import uris
from hoodie_operator.api import kinds, objects
from hoodie_operator.reconcile import catalog, effective
from support.operators import rule_examples
from support.operators.rule_examples import edited

ROOT = "s3://lake/data"
PATHS = ("a", "a/b", "a/b/c", "ab", "s3a://lake/data/a/b", "s3://other/a", "../data/c", "c")
NAMESPACES = ("n", "m")
NAMES = ("one", "two", "three")
LOCATE = effective.locator(ROOT)


def _specs(chance: random.Random) -> tuple[kinds.Kind, rule_examples.Spec]:
    table = {"name": chance.choice(NAMES)}
    selector = {"matchLabels": {"tier": "gold"}}
    target = chance.choice(({"tableRef": table}, {"tableSelector": selector}))
    return chance.choice(
        (
            (
                kinds.HUDI_TABLE,
                edited(rule_examples.TABLE, storage={"path": chance.choice(PATHS)}),
            ),
            (kinds.WRITER, edited(rule_examples.WRITER, tableRef=table)),
            (kinds.TABLE_ACTION, {"type": "Compaction", "tableRef": table}),
            (kinds.COMPACTION_POLICY, {"target": target, "triggers": {"deltaCommits": 2}}),
            (kinds.LOCK_PROVIDER, {"type": "FileSystem"}),
        )
    )


def _object(chance: random.Random) -> objects.AnyObject:
    kind, spec = _specs(chance)
    key = objects.ObjectKey(
        kind=kind.name, namespace=chance.choice(NAMESPACES), name=chance.choice(NAMES)
    )
    owner = objects.Owner(kind="CompactionPolicy", name="p", uid=chance.choice("xyz"))
    return objects.Object(
        key=key,
        uid=str(chance.random()),
        generation=1,
        created_ms=0,
        owner=chance.choice((None, owner)),
        spec=kind.spec.model_validate_json(json.dumps(spec)),
        status=kind.status(),
    )


def _overlapping(held: list[objects.AnyObject], uri: str) -> set[str]:
    mine = uris.parse(uri, working_directory="/")
    found = set()
    for each in held:
        place = LOCATE(each.spec) if each.key.kind == "HudiTable" else None  # type: ignore[arg-type]
        if place is not None:
            theirs = uris.parse(place, working_directory="/")
            if mine.is_within(theirs) or theirs.is_within(mine):
                found.add(each.uid)
    return found


def _table_of(found: objects.AnyObject) -> object:
    spec = found.spec.model_dump(by_alias=True)
    reference = spec.get("tableRef") or spec.get("target", {}).get("tableRef")
    return reference["name"] if reference else None


def _check(found: catalog.Catalog, held: list[objects.AnyObject]) -> None:
    assert dict(found) == {each.key: each for each in held}
    for kind in kinds.KINDS:
        for namespace in NAMESPACES:
            here = [each for each in held if each.key.kind == kind.name]
            here = [each for each in here if each.key.namespace == namespace]
            assert {each.uid for each in found.of(kind, namespace)} == {each.uid for each in here}
            for name in NAMES:
                named = {each.uid for each in here if _table_of(each) == name}
                assert {each.uid for each in found.of_table(kind, namespace, name)} == named
    choosing = {
        each.uid for each in held if each.key.kind == "CompactionPolicy" and _table_of(each) is None
    }
    assert choosing == {
        each.uid
        for namespace in NAMESPACES
        for each in found.choosing_tables(kinds.COMPACTION_POLICY, namespace)
    }
    for uid in "xyz":
        owned = {each.uid for each in held if each.owner is not None and each.owner.uid == uid}
        assert {each.uid for each in found.owned_by(uid)} == owned
    for path in PATHS:
        spec = kinds.HUDI_TABLE.spec.model_validate_json(
            json.dumps(edited(rule_examples.TABLE, storage={"path": path}))
        )
        uri = LOCATE(spec)  # type: ignore[arg-type]
        if uri is not None:
            asked = dataclasses.replace(
                _object(random.Random(0)),
                key=objects.ObjectKey(kind="HudiTable", namespace="asking", name="asking"),
                spec=spec,
            )
            table = cast("objects.Table", asked)
            assert {each.uid for each in found.overlapping(table)} == _overlapping(held, uri)


@pytest.mark.parametrize("seed", range(20))
def test_finds_what_a_search_finds_after_any_changes(seed: int) -> None:
    chance = random.Random(seed)
    found = catalog.Catalog(LOCATE)
    held: dict[objects.ObjectKey, objects.AnyObject] = {}
    for _ in range(60):
        made = _object(chance)
        match chance.randrange(4):
            case 0 if made.key in held:
                del held[made.key]
                found.remove(made.key)
            case 1 if made.key in held:
                # A change of the status alone keeps the spec.
                before = held[made.key]
                status = before.status.model_copy(update={"state": "Ready"})
                held[made.key] = dataclasses.replace(before, status=status)
                found.put(held[made.key])
            case _:
                held[made.key] = made
                found.put(made)
        _check(found, list(held.values()))


def test_removing_what_is_not_held_does_nothing() -> None:
    found = catalog.Catalog(LOCATE)
    found.remove(objects.ObjectKey(kind="Writer", namespace="n", name="one"))
    assert len(found) == 0
