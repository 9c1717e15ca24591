"""What users get wrong, and kinds of another release: told with a reason, and left in peace."""

import contextlib
import copy
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from hoodie_operator.api import group, kinds, resources
from support.kube import clusters, control_plane, fault_proxy, objects, programs
from support.operators import cluster_helpers, cluster_operator, cluster_place, rule_examples
from support.operators import operator_world as ow
from support.operators.rule_examples import edited

REST_S = 8.0
WRONG: tuple[tuple[kinds.Kind, str, rule_examples.Spec, str, str], ...] = (
    (
        kinds.HUDI_TABLE, "outside", edited(rule_examples.TABLE, storage={"path": "/etc"}),
        "Stalled", "PathNotAllowed",
    ),
    (
        kinds.HUDI_TABLE, "lockless", edited(ow.TABLE, storage={"path": "lockless"}),
        "Stalled", "ReferenceNotFound",
    ),
    (
        kinds.WRITER, "lonely", ow.writer_spec(tableRef={"name": "nowhere"}),
        "Stalled", "ReferenceNotFound",
    ),
    (
        kinds.TABLE_ACTION, "lonely", edited(rule_examples.ACTION, tableRef={"name": "nowhere"}),
        "Failed", "ReferenceNotFound",
    ),
    (
        kinds.COMPACTION_POLICY, "lonely",
        edited(rule_examples.POLICY, target={"tableRef": {"name": "nowhere"}}),
        "Stalled", "ReferenceNotFound",
    ),
)  # fmt: skip


@pytest.fixture
def lake(tmp_path: Path) -> cluster_helpers.Lake:
    """A storage of one test."""
    return cluster_helpers.Lake(tmp_path / "lake")


def test_what_is_wrong_is_told_once_costs_nothing_more_and_gives_no_secret_away(
    cluster: clusters.Cluster, namespace: str, lake: cluster_helpers.Lake, tmp_path: Path
) -> None:
    place = cluster_place.Place(cluster, namespace)
    token = cluster.api.token
    assert token is not None
    with fault_proxy.FaultProxy(cluster.api, tmp_path / "proxy") as proxy:
        # What is refused is logged, too.
        quota = fault_proxy.Refuse(status=403)
        proxy.add(fault_proxy.Rule(matches=_is_of_jobs, fault=quota))
        kubeconfig = proxy.kubeconfig(token)
        with cluster_operator.leading(kubeconfig, namespace, lake.folder):
            place.create(kinds.HUDI_TABLE, "refused", rule_examples.TABLE)
            for kind, name, spec, _, _ in WRONG:
                place.create(kind, name, spec)
            for kind, name, _, state, reason in WRONG:
                found = place.await_state(kind, name, state, reason)
                assert found["status"]["conditions"][0]["message"]
            programs.wait_until(lambda: _refused(place) != [], "a refusal is told", 90)
            before = len(proxy.calls)
            time.sleep(REST_S)
            changes = [
                call
                for call in proxy.calls[before:]
                if call.is_change and any(f"/{name}" in call.path for _, name, *_ in WRONG)
            ]
            assert changes == []
        told = json.dumps([place.all(kind) for kind in kinds.KINDS])
    log = lake.folder.with_name("one.log").read_text()
    assert "ApiRefused" in told
    assert "refused" in log
    assert token not in told
    assert token not in log


def _is_of_jobs(call: fault_proxy.Call) -> bool:
    return call.method == "POST" and call.path.endswith("/jobs")


def _refused(place: cluster_place.Place) -> list[str]:
    """Return what is said of tables whose run was refused, with the time of the next try."""
    return [
        condition["message"]
        for each in place.all(kinds.HUDI_TABLE)
        for condition in (each.get("status") or {}).get("conditions", ())
        if condition["reason"] == "ApiRefused" and "; next try at 20" in condition["message"]
    ]


def test_operator_that_is_newer_than_its_kinds_works_and_says_so(
    own_control_plane: control_plane.ControlPlane, lake: cluster_helpers.Lake
) -> None:
    place = cluster_place.of_own(own_control_plane)
    cluster = place.cluster
    _forget_fields(cluster, spec="deletionProtection", status="protocolHash")
    with cluster_operator.leading(cluster.kubeconfig, "here", lake.folder):
        place.create(kinds.HUDI_TABLE, "flights", rule_examples.TABLE)
        found = place.await_state(kinds.HUDI_TABLE, "flights", "Ready", "Ready")
    assert "deletionProtection" not in found["spec"]
    assert "protocolHash" not in found["status"]
    log = lake.folder.with_name("one.log").read_text()
    assert "statuses lack HudiTable.status.protocolHash" in log


DATA: Final = {
    "retained": {"deletionPolicy": "Retain"},
    "dropped": {"deletionPolicy": "Delete", "deletionProtection": False},
    "protected": {"deletionPolicy": "Delete"},
}
"""By name: what is said of each table's data."""


def test_operator_that_is_newer_than_its_kinds_creates_and_deletes_each_table_once(
    own_control_plane: control_plane.ControlPlane, lake: cluster_helpers.Lake
) -> None:
    """The kinds are of a release whose HudiTables had no runs of their own."""
    place = cluster_place.of_own(own_control_plane)
    cluster = place.cluster
    _forget_fields(cluster, status="runs")

    def declare(name: str, **edits: object) -> None:
        spec = edited(rule_examples.TABLE, storage={"path": name}, **edits)
        place.create(kinds.HUDI_TABLE, name, spec)

    def has_data() -> dict[str, bool]:
        return {name: lake.table(f"file:///data/{name}") is not None for name in DATA}

    with cluster_operator.leading(cluster.kubeconfig, "here", lake.folder):
        for name, edits in DATA.items():
            declare(name, **edits)
        for name in DATA:
            found = place.await_state(kinds.HUDI_TABLE, name, "Ready", "Ready")
            assert "runs" not in found["status"]
    assert len(lake.started) == len(DATA)
    with cluster_operator.leading(cluster.kubeconfig, "here", lake.folder):
        # What comes into being meanwhile shows that this one has decided about all others.
        declare("later")
        place.await_state(kinds.HUDI_TABLE, "later", "Ready", "Ready")
        assert len(lake.started) == len(DATA) + 1
        for name in DATA:
            place.api.delete(objects.path(kinds.HUDI_TABLE, "here", name))
        programs.wait_until(
            lambda: not any(place.is_there(kinds.HUDI_TABLE, name) for name in DATA),
            "the tables are gone",
            cluster_place.WAIT_S,
        )
    assert has_data() == {"retained": True, "dropped": False, "protected": True}
    # One run has deleted data, once.
    assert len(lake.started) == len(DATA) + 2


def test_creation_that_failed_is_tried_again_by_an_operator_that_is_newer_than_its_kinds(
    own_control_plane: control_plane.ControlPlane, lake: cluster_helpers.Lake
) -> None:
    place = cluster_place.of_own(own_control_plane)
    cluster = place.cluster
    _forget_fields(cluster, status="runs")

    def at_work(attempt: int) -> list[str]:
        return [
            each["metadata"]["name"]
            for each in place.jobs()
            if each["metadata"]["labels"][resources.ATTEMPT] == str(attempt)
        ]

    def await_job(attempt: int) -> str:
        programs.wait_until(
            lambda: bool(at_work(attempt)), f"attempt {attempt} starts", cluster_place.WAIT_S
        )
        return at_work(attempt)[0]

    def end(attempt: int, how: str) -> None:
        path = resources.JOB.path("here", await_job(attempt))
        place.api.merge(path, {"metadata": {"annotations": {cluster_helpers.ENDED: how}}})

    held = cluster_operator.Runs.HELD
    with cluster_operator.leading(cluster.kubeconfig, "here", lake.folder, runs=held):
        place.create(kinds.HUDI_TABLE, "flights", rule_examples.TABLE)
        end(1, "Storage")
        place.await_state(kinds.HUDI_TABLE, "flights", "Provisioning", "BackingOff")
    with cluster_operator.leading(cluster.kubeconfig, "here", lake.folder, runs=held):
        end(2, "Storage")
        lake.work(lake.asked(await_job(3)))
        end(3, cluster_helpers.SUCCESS)
        place.await_state(kinds.HUDI_TABLE, "flights", "Ready", "Ready")
    assert len(lake.started) == len(place.jobs()) == 3


def test_protected_data_stays_when_its_kind_is_deleted(
    own_control_plane: control_plane.ControlPlane, lake: cluster_helpers.Lake
) -> None:
    """Kubernetes asks no admission policy for the objects of a kind that goes."""
    place = cluster_place.of_own(own_control_plane)
    cluster = place.cluster
    with cluster_operator.leading(cluster.kubeconfig, "here", lake.folder):
        spec = edited(rule_examples.TABLE, deletionPolicy="Delete")
        place.create(kinds.HUDI_TABLE, "flights", spec)
        found = place.await_state(kinds.HUDI_TABLE, "flights", "Ready", "Ready")
        assert found["metadata"]["finalizers"] == [resources.FINALIZER]
        cluster.api.delete(_DEFINITION)
        programs.wait_until(
            lambda: not cluster.api.is_there(_DEFINITION), "the kind is gone", cluster_place.WAIT_S
        )
    assert lake.table(found["status"]["uri"]) is not None
    assert len(lake.started) == 1


def test_action_of_a_type_that_an_earlier_release_had_is_taken_away_and_starts_nothing(
    own_control_plane: control_plane.ControlPlane, lake: cluster_helpers.Lake
) -> None:
    place = cluster_place.of_own(own_control_plane)
    cluster = place.cluster
    deletion = {"tableRef": {"name": "flights"}, "type": "Delete"}
    path = objects.collection(kinds.TABLE_ACTION, "here")
    refused = objects.propose(cluster.api, kinds.TABLE_ACTION, deletion)
    assert not refused.is_accepted
    with _earlier_types(cluster):
        place.create(kinds.TABLE_ACTION, "old", deletion)
    with cluster_operator.leading(cluster.kubeconfig, "here", lake.folder):
        table = place.create(
            kinds.HUDI_TABLE, "flights", edited(rule_examples.TABLE, deletionPolicy="Delete")
        )
        place.await_state(kinds.HUDI_TABLE, "flights", "Ready", "Ready")
        programs.wait_until(lambda: place.all(kinds.TABLE_ACTION) == [], "it is taken away")
        # As by somebody who may create TableActions under the schema of an earlier release.
        with _earlier_types(cluster):
            forged = objects.document(kinds.TABLE_ACTION, "flights-delete", deletion)
            reference = {"apiVersion": group.API_VERSION, "kind": "HudiTable", "name": "flights"}
            forged["metadata"]["ownerReferences"] = [
                {**reference, "uid": table["metadata"]["uid"], "controller": True}
            ]
            cluster.api.create(path, forged)
            programs.wait_until(lambda: place.all(kinds.TABLE_ACTION) == [], "it is taken away")
    assert lake.table("file:///data/flights") is not None
    assert len(lake.started) == 1


_DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/huditables.hudi.dev"
_ACTIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/tableactions.hudi.dev"


@contextlib.contextmanager
def _earlier_types(cluster: clusters.Cluster) -> Iterator[None]:
    """Have TableActions of all types that an earlier release had, for a while."""
    versions: list[dict[str, Any]] = cluster.api.get(_ACTIONS)["spec"]["versions"]
    earlier = copy.deepcopy(versions)
    spec = earlier[0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"]["type"]["enum"] += ["Create", "Delete"]
    deletion = {"tableRef": {"name": "flights"}, "type": "Delete"}

    def is_accepted() -> bool:
        return objects.propose(cluster.api, kinds.TABLE_ACTION, deletion).is_accepted

    cluster.api.merge(_ACTIONS, {"spec": {"versions": earlier}})
    programs.wait_until(is_accepted, "the earlier types hold")
    try:
        yield
    finally:
        cluster.api.merge(_ACTIONS, {"spec": {"versions": versions}})
        programs.wait_until(lambda: not is_accepted(), "the types of today hold")


def _forget_fields(cluster: clusters.Cluster, *, spec: str = "suspend", status: str) -> None:
    """Make of the kind HudiTable an older one, which does not know a field of spec and of status.

    What the spec has not shows when the older kind holds.
    """
    definition = cluster.api.get(_DEFINITION)
    versions: list[dict[str, Any]] = definition["spec"]["versions"]
    schema = versions[0]["schema"]["openAPIV3Schema"]["properties"]
    del schema["spec"]["properties"][spec]
    del schema["status"]["properties"][status]
    cluster.api.merge(_DEFINITION, {"spec": {"versions": versions}})

    def is_forgotten() -> bool:
        proposed = objects.propose(
            cluster.api, kinds.HUDI_TABLE, {**rule_examples.TABLE, spec: False}
        )
        return not proposed.is_accepted

    programs.wait_until(is_forgotten, "the field is not known")
