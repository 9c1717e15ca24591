"""Which of several tables has a place, and which places are one."""

import pytest

from hoodie_operator.api import kinds, objects
from hoodie_operator.reconcile import effective
from support.operators import operator_world as ow
from support.operators.rule_examples import Spec, edited

S3 = "s3://lake"


def world() -> ow.Outside:
    """Return a cluster with a lock in each of its namespaces, which all tables need."""
    here = ow.Outside()
    here.identify = effective.spot
    here.limits = ow.limits(data_roots=("file:///data", "file:///lake", S3))
    for namespace in ("ours", "theirs"):
        here.see_lock(here.add(kinds.LOCK_PROVIDER, "zk", {"type": "Storage"}, namespace=namespace))
    here.settle()
    return here


def table(path: str, claim: str | None = None, mount: str = "/data") -> Spec:
    """Return a table at a path, with a claim mounted."""
    volumes = [{"name": "v", "persistentVolumeClaim": claim, "mountPath": mount}]
    storage: dict[str, object] = {"path": path}
    if claim is not None:
        storage["volumes"] = volumes
    return edited(
        ow.SINGLE, storage=storage, concurrency={"mode": "SingleWriter", "lockRef": {"name": "zk"}}
    )


def declared(
    here: ow.Outside, namespace: str, name: str, spec: Spec, *, is_made: bool = True
) -> objects.ObjectKey:
    """Declare a table; by default it is brought into being where nothing is in its way."""
    key = here.add(kinds.HUDI_TABLE, name, spec, namespace=namespace)
    if is_made:
        here.see_table(key, is_there=False)
        here.settle()
        if here.uid(key) in here.runs:
            here.end(here.uid(key), is_told=True)
            here.see_table(key)
            here.settle()
    return key


def test_one_path_of_two_namespaces_with_claims_of_their_own_is_two_places() -> None:
    here = world()
    first = declared(here, "theirs", "flights", table("flights", "lake"))
    second = declared(here, "ours", "flights", table("flights", "lake"))
    third = declared(here, "ours", "other", table("flights", "other"))
    for key in (first, second, third):
        assert here.condition(key)[0] == "Ready"


def test_folder_of_one_claim_is_one_place_wherever_it_is_mounted() -> None:
    here = world()
    declared(here, "ours", "first", table("file:///data/flights", "lake"))
    second = declared(here, "ours", "second", table("file:///lake/flights/x", "lake", "/lake"))
    state, reason, message = here.condition(second)
    assert (state, reason) == ("Stalled", "LocationConflict")
    assert "HudiTable first at file:///data/flights" in message


def test_conflict_tells_neither_name_nor_path_of_another_namespace() -> None:
    here = world()
    declared(here, "theirs", "secret-plans", table(f"{S3}/warehouse/secret"))
    second = declared(here, "ours", "t", table(f"{S3}/warehouse"))
    state, reason, message = here.condition(second)
    assert (state, reason) == ("Stalled", "LocationConflict")
    assert "another namespace" in message
    assert "secret" not in message
    assert "theirs" not in message


@pytest.mark.parametrize("hindrance", ["account", "unseen", "suspended"])
def test_older_table_that_was_never_made_does_not_block_its_location(hindrance: str) -> None:
    here = world()
    here.limits = ow.limits(data_roots=(S3,), service_accounts=frozenset({"default"}))
    edits: dict[str, object] = {
        "account": {"storage__serviceAccount": "not-allowed"},
        "unseen": {},
        "suspended": {"suspend": True},
    }[hindrance]  # type: ignore[assignment]  # edits by hindrance
    squatter = declared(
        here, "theirs", "squat", edited(table(f"{S3}/warehouse"), **edits), is_made=False
    )
    if hindrance != "unseen":
        here.see_table(squatter, is_there=False)
    here.settle()
    honest = declared(here, "ours", "t", table(f"{S3}/warehouse/t"))
    assert here.condition(honest)[0] == "Ready"
    # Nor does it get the place later.
    here.edit(squatter, suspend=False, storage__serviceAccount=None)
    here.see_table(squatter, is_there=False)
    here.settle()
    assert here.condition(squatter)[:2] == ("Stalled", "LocationConflict")
    assert here.condition(honest)[0] == "Ready"


def test_of_two_tables_that_can_be_made_the_older_one_has_the_place() -> None:
    here = world()
    older = declared(here, "ours", "older", table(f"{S3}/t"), is_made=False)
    younger = declared(here, "ours", "younger", table(f"{S3}/t"), is_made=False)
    for key in (older, younger):
        here.see_table(key, is_there=False)
    here.reconcile(younger)
    assert here.condition(younger)[:2] == ("Stalled", "LocationConflict")
    here.reconcile(older)
    assert here.condition(older)[0] == "Provisioning"
