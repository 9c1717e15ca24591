"""Our kinds as kubectl and controllers meet them on an API server."""

import json
from typing import Any

import pytest

from hoodie_operator.api import group, kinds, states
from hoodie_operator.api.conditions import ConditionStatus
from support.kube import api, clusters, objects
from support.operators import rule_examples

KINDS = [pytest.param(kind, id=kind.name) for kind in kinds.KINDS]
_TIME = "2025-01-01T00:00:00Z"


def _create(
    cluster: clusters.Cluster, kind: kinds.Kind, namespace: str, name: str = "a"
) -> dict[str, Any]:
    proposed = objects.document(kind, name, rule_examples.VALID[kind.name])
    return cluster.api.create(objects.collection(kind, namespace), proposed)


def _set_status(
    cluster: clusters.Cluster, kind: kinds.Kind, namespace: str, status: dict[str, Any]
) -> dict[str, Any]:
    path = objects.path(kind, namespace, "a")
    return cluster.api.merge(f"{path}/status", {"status": status})


def _conditions(row: states.Row) -> list[dict[str, Any]]:
    stands = {
        "Ready": row.ready.value,
        "Reconciling": "True" if row.is_reconciling else None,
        "Stalled": "True" if row.is_stalled else None,
        "Suspended": "True" if row.is_suspended else None,
    }
    reason = min(row.reasons, key=lambda reason: reason.value)
    return [
        {
            "type": condition,
            "status": status,
            "reason": reason.value,
            "message": reason.sentence,
            "lastTransitionTime": _TIME,
            "observedGeneration": 1,
        }
        for condition, status in stands.items()
        if status is not None
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_definition_has_no_remarks_of_the_server(
    cluster: clusters.Cluster, kind: kinds.Kind
) -> None:
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    definition = cluster.api.get(f"{path}/{kind.plural}.{group.GROUP}")
    stands = {each["type"]: each["status"] for each in definition["status"]["conditions"]}
    assert stands == {"NamesAccepted": "True", "Established": "True"}


@pytest.mark.parametrize("kind", KINDS)
def test_kind_is_found_by_all_its_names(
    cluster: clusters.Cluster, namespace: str, kind: kinds.Kind
) -> None:
    _create(cluster, kind, namespace)
    for name in (kind.plural, kind.singular, *kind.short_names, *kinds.CATEGORIES):
        printed = cluster.kubectl("-n", namespace, "get", name, "-o", "name")
        assert printed == f"{kind.singular}.{group.GROUP}/a\n"


@pytest.mark.parametrize("kind", KINDS)
def test_name_that_no_label_takes_is_refused(
    cluster: clusters.Cluster, namespace: str, kind: kinds.Kind
) -> None:
    where = objects.collection(kind, namespace)
    for name, is_accepted in (("a" * 63, True), ("a" * 64, False), ("a.b", False), ("a-b", True)):
        proposed = objects.document(kind, name, rule_examples.VALID[kind.name])
        answer = cluster.api.request("POST", f"{where}?dryRun=All", proposed)
        assert answer.is_accepted is is_accepted, name
        if not is_accepted:
            assert "metadata.name is a label of pods" in answer.message


@pytest.mark.parametrize("kind", KINDS)
def test_columns_are_printed(cluster: clusters.Cluster, namespace: str, kind: kinds.Kind) -> None:
    _create(cluster, kind, namespace)
    row = kind.states[
        states.State.STALLED if states.State.STALLED in kind.states else states.State.FAILED
    ]
    _set_status(cluster, kind, namespace, {"state": "Stalled", "conditions": _conditions(row)})
    heading, line = cluster.kubectl("-n", namespace, "get", kind.plural, "-o", "wide").splitlines()
    assert heading.split() == ["NAME", *(column.name.upper() for column in kind.columns)]
    (condition, *_) = _conditions(row)
    assert {"Stalled", "False", condition["reason"]} <= set(line.split())
    assert condition["message"] in line
    narrow = cluster.kubectl("-n", namespace, "get", kind.plural).splitlines()[0].split()
    assert narrow == [
        "NAME", *(column.name.upper() for column in kind.columns if not column.is_wide)
    ]  # fmt: skip


def test_objects_are_selected_by_their_table(cluster: clusters.Cluster, namespace: str) -> None:
    for kind in (kinds.WRITER, kinds.TABLE_ACTION):
        _create(cluster, kind, namespace)
        for table, found in (("flights", f"{kind.singular}.{group.GROUP}/a\n"), ("trips", "")):
            selector = f"--field-selector=spec.tableRef.name={table}"
            printed = cluster.kubectl("-n", namespace, "get", kind.plural, selector, "-o", "name")
            assert printed == found


@pytest.mark.parametrize("kind", KINDS)
def test_status_is_written_apart_from_the_spec(
    cluster: clusters.Cluster, namespace: str, kind: kinds.Kind
) -> None:
    created = _create(cluster, kind, namespace)
    path = objects.path(kind, namespace, "a")
    assert "status" not in cluster.api.merge(path, {"status": {"state": "Ready"}})
    changed = _set_status(cluster, kind, namespace, {"state": "Ready"})
    assert changed["status"]["state"] == "Ready"
    assert changed["metadata"]["generation"] == created["metadata"]["generation"]
    suspended = {"spec": {"suspend": True}, "status": {"state": "Suspended"}}
    if "suspend" in kind.spec.model_fields:
        changed = cluster.api.merge(path, suspended)
        assert changed["status"]["state"] == "Ready"
        assert changed["metadata"]["generation"] == created["metadata"]["generation"] + 1


@pytest.mark.parametrize("kind", KINDS)
def test_status_with_everything_in_it_is_stored(
    cluster: clusters.Cluster, namespace: str, kind: kinds.Kind
) -> None:
    _create(cluster, kind, namespace)
    for state, row in kind.states.items():
        told = {
            "observedGeneration": 1,
            "state": state.value,
            "waiting": {"state": state.value, "reason": "X", "since": _TIME},
            "conditions": _conditions(row),
        }
        typed = kind.status.model_validate_json(json.dumps(told))
        given = typed.model_dump(mode="json", by_alias=True, exclude_none=True)
        document = {"apiVersion": group.API_VERSION, "kind": kind.name, "status": given}
        path = f"{objects.path(kind, namespace, 'a')}/status"
        stored = cluster.api.apply(path, document)
        assert stored["status"] == given


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_is_explained(cluster: clusters.Cluster, kind: kinds.Kind) -> None:
    assert (kind.spec.__doc__ or "") in cluster.kubectl("explain", kind.plural)
    told = cluster.kubectl("explain", f"{kind.short_names[0]}.spec", "--recursive")
    assert {"FIELDS:", "spec"} & set(told.split())
    for field in kind.spec.model_fields.values():
        assert field.alias in told.replace("\t", " ").split()


def test_explanation_of_a_field_is_its_description(cluster: clusters.Cluster) -> None:
    told = cluster.kubectl("explain", "ht.spec.concurrency.clockSkew")
    assert "Maximum difference between the clocks of writers." in told


@pytest.mark.parametrize("kind", KINDS)
def test_server_keeps_no_field_that_it_does_not_know(
    cluster: clusters.Cluster, namespace: str, kind: kinds.Kind
) -> None:
    proposed = objects.document(kind, "a", {**rule_examples.VALID[kind.name], "unknown": 1})
    collection = objects.collection(kind, namespace)
    strict = cluster.api.request("POST", f"{collection}?fieldValidation=Strict", proposed)
    assert (strict.status, "unknown" in strict.message) == (400, True)
    lenient = cluster.api.create(f"{collection}?fieldValidation=Ignore", proposed)
    assert "unknown" not in lenient["spec"]


@pytest.mark.parametrize("kind", KINDS)
def test_kstatus_of_each_state_is_what_the_table_of_states_says(
    cluster: clusters.Cluster, kind: kinds.Kind
) -> None:
    documents = []
    for row in kind.states.values():
        found = objects.document(kind, "a", rule_examples.VALID[kind.name])
        found["metadata"] |= {"generation": 1, "namespace": "default"}
        if row.kstatus is states.Kstatus.TERMINATING:
            found["metadata"]["deletionTimestamp"] = _TIME
        found["status"] = {"observedGeneration": 1, "conditions": _conditions(row)}
        documents.append(found)
    computed = [each["status"] for each in cluster.kstatus(*documents)]
    assert computed == [row.kstatus.value for row in kind.states.values()]


def test_object_that_nobody_has_seen_yet_is_in_progress(cluster: clusters.Cluster) -> None:
    found = objects.document(kinds.HUDI_TABLE, "a", rule_examples.TABLE)
    row = kinds.HUDI_TABLE.states[states.State.READY]
    found["metadata"] |= {"generation": 2, "namespace": "default"}
    found["status"] = {"observedGeneration": 1, "conditions": _conditions(row)}
    (computed,) = cluster.kstatus(found)
    assert row.ready is ConditionStatus.TRUE
    assert computed["status"] == states.Kstatus.IN_PROGRESS.value


def test_account_without_rights_sees_nothing(cluster: clusters.Cluster, namespace: str) -> None:
    token = cluster.token(namespace, "nobody")
    nobody = api.with_token(cluster.api.server, cluster.api.ca, token)
    answer = nobody.request("GET", objects.collection(kinds.HUDI_TABLE, namespace))
    assert answer.status == 403
