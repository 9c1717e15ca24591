"""What users get wrong, and kinds of another release: told with a reason, and left in peace."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from hoodie_operator.api import kinds
from support import cluster_helpers, cluster_operator, cluster_place, rule_examples
from support import operator_world as ow
from support.kube import clusters, control_plane, fault_proxy, objects, programs
from support.rule_examples import edited

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
    """Return what is said of actions that the API server refused, with the time of the next try."""
    return [
        condition["message"]
        for each in place.all(kinds.TABLE_ACTION)
        for condition in (each.get("status") or {}).get("conditions", ())
        if condition["reason"] == "ApiRefused" and "; next try at 20" in condition["message"]
    ]


def test_operator_that_is_newer_than_its_kinds_works_and_says_so(
    own_control_plane: control_plane.ControlPlane, lake: cluster_helpers.Lake
) -> None:
    cluster = clusters.of_kubeconfig(own_control_plane.kubeconfig)
    clusters.install_crds(cluster)
    cluster.api.create("/api/v1/namespaces", {"metadata": {"name": "here"}})
    place = cluster_place.Place(cluster, "here")
    _forget_fields(cluster)
    with cluster_operator.leading(cluster.kubeconfig, "here", lake.folder):
        place.create(kinds.HUDI_TABLE, "flights", rule_examples.TABLE)
        found = place.await_state(kinds.HUDI_TABLE, "flights", "Ready", "Ready")
    assert "deletionProtection" not in found["spec"]
    assert "protocolHash" not in found["status"]
    log = lake.folder.with_name("one.log").read_text()
    assert "without HudiTable.status.protocolHash" in log


def _forget_fields(cluster: clusters.Cluster) -> None:
    """Make of the kind HudiTable an older one, which knows some fields not yet."""
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/huditables.hudi.dev"
    definition = cluster.api.get(path)
    versions: list[dict[str, Any]] = definition["spec"]["versions"]
    schema = versions[0]["schema"]["openAPIV3Schema"]["properties"]
    del schema["spec"]["properties"]["deletionProtection"]
    del schema["status"]["properties"]["protocolHash"]
    cluster.api.merge(path, {"spec": {"versions": versions}})

    def is_forgotten() -> bool:
        proposed = objects.propose(
            cluster.api, kinds.HUDI_TABLE, {**rule_examples.TABLE, "deletionProtection": False}
        )
        return not proposed.is_accepted

    programs.wait_until(is_forgotten, "the field is not known")
