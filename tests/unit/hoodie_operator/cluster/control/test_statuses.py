"""Statuses on an API server with older kinds: without what it does not know, and saying so."""

import asyncio
from typing import Any

from hoodie_operator.api import kinds, objects, schemas
from hoodie_operator.api.resources import Manifest
from hoodie_operator.cluster.control import statuses
from hoodie_operator.cluster.informer import store
from support.operators import operator_world, rule_examples


class Server:
    """Remembers what was applied."""

    def __init__(self) -> None:
        self.applied: list[Manifest] = []

    async def apply_status(self, manifest: Manifest) -> Manifest:
        self.applied.append(manifest)
        return manifest


HERE = operator_world.Outside()
KEY = HERE.add(kinds.HUDI_TABLE, "flights", rule_examples.TABLE)
HERE.see_table(KEY)
HERE.settle()
STORED = store.Stored(uid=HERE.uid(KEY), version=7, finalizers=())


def _older() -> dict[str, Any]:
    """Return the schema of statuses of a version that knew less."""
    known = dict(schemas.structural(kinds.HUDI_TABLE.status))
    properties: Any = {**known["properties"]}  # type: ignore[dict-item]
    del properties["protocolHash"]
    condition = {**properties["conditions"]["items"]["properties"]}
    del condition["observedGeneration"]
    items = {**properties["conditions"]["items"], "properties": condition}
    properties["conditions"] = {**properties["conditions"], "items": items}
    return {**known, "properties": properties}


def _applied(known: statuses.Known) -> Manifest:
    server = Server()
    writing = statuses.Statuses(server, known)  # type: ignore[arg-type]  # what it asks for
    asyncio.run(writing.apply(KEY, STORED, HERE.status(KEY)))
    (applied,) = server.applied
    return applied


def test_status_is_applied_on_the_version_that_was_decided_on() -> None:
    applied = _applied({"HudiTable": dict(schemas.structural(kinds.HUDI_TABLE.status))})
    assert applied["metadata"]["resourceVersion"] == "7"
    assert applied["metadata"]["uid"] == HERE.uid(KEY)
    assert applied["status"] == HERE.status(KEY).model_dump(
        mode="json", by_alias=True, exclude_none=True
    )


def test_field_that_the_api_server_does_not_know_is_left_out() -> None:
    status = _applied({"HudiTable": _older()})["status"]
    assert "protocolHash" not in status
    assert status["uri"]
    assert [each["type"] for each in status["conditions"]]
    assert not any("observedGeneration" in each for each in status["conditions"])


def test_what_is_not_known_is_named() -> None:
    assert statuses.unknown_fields({"HudiTable": _older()}) == ["HudiTable.status.protocolHash"]


def test_finalizer_is_for_tables_whose_data_goes_with_them_alone() -> None:
    here = operator_world.Outside()
    wanted = {}
    for policy in ("Retain", "Delete"):
        spec = rule_examples.edited(rule_examples.TABLE, deletionPolicy=policy)
        key: objects.ObjectKey = here.add(kinds.HUDI_TABLE, policy.lower(), spec)
        wanted[policy] = statuses.is_finalizer_wanted(here.by_key[key])
    assert wanted == {"Retain": False, "Delete": True}
    key = here.add(kinds.WRITER, "left", rule_examples.WRITER)
    assert not statuses.is_finalizer_wanted(here.by_key[key])
