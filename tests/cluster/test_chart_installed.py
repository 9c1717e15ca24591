"""The chart, installed: who may do what then, what is protected, upgrade and uninstallation."""

import itertools
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from hoodie_operator.api import group, kinds, resources
from support.kube import api, binaries, clusters, control_plane, programs
from support.operators import (
    chart,
    cluster_helpers,
    cluster_operator,
    cluster_place,
    installed_chart,
    rule_examples,
)

HUDI = f"/apis/{group.API_VERSION}/namespaces"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
OPERATOR = "system:serviceaccount:hudi:hudi-operator"
JOBS = "system:serviceaccount:sales:hudi-jobs"
NAMESPACES = ("hudi", "sales", "stock")
VALUES: chart.Values = {**chart.MINIMAL, "jobs": {"serviceAccount": {"namespaces": ["sales"]}}}


@pytest.fixture
def cluster(own_control_plane: control_plane.ControlPlane) -> clusters.Cluster:
    """A cluster of the test's own."""
    return installed_chart.empty(own_control_plane, NAMESPACES)


@pytest.fixture
def helm(cluster: clusters.Cluster, tmp_path: Path) -> chart.Helm:
    return installed_chart.helm(cluster, tmp_path)


@pytest.fixture(scope="module")
def installed(
    built: binaries.Binaries, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[clusters.Cluster]:
    """A cluster with a release, which no test changes."""
    plane = control_plane.ControlPlane(built, tmp_path_factory.mktemp("installed") / "plane")
    try:
        plane.start()
        found = installed_chart.empty(plane, NAMESPACES)
        helm = installed_chart.helm(found, tmp_path_factory.mktemp("helm"))
        helm.run("install", "--namespace", "hudi", values=VALUES)
        installed_chart.await_kinds(found, "sales")
        _await_protection(found)
        yield found
    finally:
        plane.stop()


def _may(cluster: clusters.Cluster, account: str, namespace: str, what: str) -> bool:
    """Return whether an account may do something: `verb resource`, or `verb group/resource`."""
    verb, _, resource = what.partition(" ")
    *api_group, plural = resource.split("/", 1)
    plural, _, part = plural.partition(":")
    review = {
        "spec": {
            "user": account,
            "groups": ["system:serviceaccounts", "system:authenticated"],
            "resourceAttributes": {
                "namespace": namespace,
                "verb": verb,
                "group": api_group[0] if api_group else "",
                "resource": plural,
                "subresource": part,
            },
        }
    }
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    answer: bool = cluster.api.create(path, review)["status"]["allowed"]
    return answer


MAY = {
    (OPERATOR, "sales"): [
        "watch hudi.dev/huditables", "patch hudi.dev/writers:status", "patch hudi.dev/huditables",
        "create hudi.dev/tableactions", "create batch/jobs", "watch pods", "delete pods",
        "create apps/deployments", "patch apps/deployments", "create apps/statefulsets",
        "patch apps/statefulsets", "patch networking.k8s.io/networkpolicies",
        "patch services", "delete services", "create secrets",
        "get secrets", "delete secrets", "create configmaps", "delete configmaps",
        "get events", "create events", "patch events",
        "update hudi.dev/lockproviders:finalizers", "update hudi.dev/writers:finalizers",
    ],
    (OPERATOR, "hudi"): ["create coordination.k8s.io/leases", "update coordination.k8s.io/leases"],
    (JOBS, "sales"): ["create pods", "deletecollection pods", "deletecollection configmaps"],
}  # fmt: skip
MAY_NOT = {
    (OPERATOR, "sales"): [
        # What users declare is theirs.
        "create hudi.dev/huditables", "delete hudi.dev/huditables", "patch hudi.dev/writers",
        "delete hudi.dev/writers", "create hudi.dev/lockproviders",
        # Neither into pods nor as others.
        "create pods", "create pods:exec", "get pods:log", "impersonate serviceaccounts",
        "list secrets", "watch secrets", "patch secrets", "create serviceaccounts:token",
        "get configmaps", "patch configmaps", "delete persistentvolumeclaims",
        "create rbac.authorization.k8s.io/roles", "create rbac.authorization.k8s.io/rolebindings",
        "deletecollection batch/jobs", "create coordination.k8s.io/leases",
    ],
    (OPERATOR, ""): [
        "list nodes", "list namespaces", "patch apiextensions.k8s.io/customresourcedefinitions",
        "create admissionregistration.k8s.io/validatingadmissionpolicies",
    ],
    (JOBS, "sales"): [
        "get secrets", "create batch/jobs", "get hudi.dev/huditables",
        "patch hudi.dev/huditables:status", "create pods:exec",
    ],
    (JOBS, "stock"): ["create pods", "list pods", "get configmaps"],
    (JOBS, "hudi"): ["get configmaps", "delete pods", "update coordination.k8s.io/leases"],
}  # fmt: skip


def test_accounts_may_do_what_they_need_and_nothing_else(installed: clusters.Cluster) -> None:
    for expected, table in ((True, MAY), (False, MAY_NOT)):
        for (account, namespace), actions in table.items():
            found = {what: _may(installed, account, namespace, what) for what in actions}
            assert found == dict.fromkeys(actions, expected), (account, namespace)


LOOK = {"get", "list", "watch"}
OPERATOR_RIGHTS = {
    "huditables.hudi.dev": {*LOOK, "patch"},
    "writers.hudi.dev": LOOK,
    "compactionpolicies.hudi.dev": LOOK,
    "retentionpolicies.hudi.dev": LOOK,
    "savepoints.hudi.dev": {*LOOK, "patch"},
    "indexrequests.hudi.dev": {*LOOK, "patch"},
    "lockproviders.hudi.dev": LOOK,
    "tableactions.hudi.dev": {*LOOK, "create", "patch", "delete"},
    **{f"{kind.plural}/status.hudi.dev": {"get", "patch"} for kind in kinds.KINDS},
    **{f"{kind.plural}/finalizers.hudi.dev": {"update"} for kind in kinds.KINDS},
    "jobs.batch": {*LOOK, "create", "patch", "delete"},
    "pods": {"list", "watch", "delete"},
    "configmaps": {"create", "delete"},
    "deployments.apps": {"list", "create", "patch", "delete"},
    "secrets": {"get", "create", "delete"},
    "statefulsets.apps": {"create", "patch"},
    "networkpolicies.networking.k8s.io": {"create", "patch"},
    "services": {"create", "patch", "delete"},
    "events": {"get", "create", "patch"},
}
ALL = {*LOOK, "create", "patch", "update", "delete", "deletecollection"}
RIGHTS = {
    ("hudi", "hudi-operator", "sales"): OPERATOR_RIGHTS,
    ("hudi", "hudi-operator", "hudi"): {
        **OPERATOR_RIGHTS,
        "leases.coordination.k8s.io": {"get", "create", "update"},
    },
    ("sales", "hudi-jobs", "sales"): {
        "pods": ALL,
        "services": ALL,
        "configmaps": ALL,
        "persistentvolumeclaims": ALL,
    },
    ("sales", "hudi-jobs", "stock"): {},
    ("sales", "hudi-jobs", "hudi"): {},
    # Of lock servers.
    ("sales", "default", "sales"): {},
}
"""All that each account may do: namespace and name of the account, and where."""


def _as(cluster: clusters.Cluster, namespace: str, account: str) -> api.Api:
    server = cluster.api
    return api.with_token(server.server, server.ca, cluster.token(namespace, account))


def _rights(account: api.Api, namespace: str) -> dict[str, set[str]]:
    """Return the verbs that an account may use in a namespace, by resource and group."""
    path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    told = account.create(path, {"spec": {"namespace": namespace}})["status"]
    assert not told["incomplete"], told
    found: dict[str, set[str]] = {}
    for rule in told["resourceRules"]:
        for group_name, resource in itertools.product(rule["apiGroups"], rule["resources"]):
            # What an account may ask about itself, everybody may.
            if group_name not in {"authorization.k8s.io", "authentication.k8s.io"}:
                name = f"{resource}.{group_name}".rstrip(".")
                found.setdefault(name, set()).update(rule["verbs"])
    return found


def test_accounts_have_these_rights_and_no_others(installed: clusters.Cluster) -> None:
    for (home, account, namespace), expected in RIGHTS.items():
        found = _rights(_as(installed, home, account), namespace)
        assert found == expected, (account, namespace)


REFUSED = {
    ("hudi", "hudi-operator"): [
        ("GET", "/api/v1/namespaces/sales/secrets"),
        ("GET", "/api/v1/namespaces/sales/pods/any/log"),
        ("POST", "/api/v1/namespaces/sales/pods"),
        ("POST", "/api/v1/namespaces/sales/pods/any/exec?command=id"),
        ("POST", "/api/v1/namespaces/sales/serviceaccounts/hudi-jobs/token"),
        ("DELETE", f"{HUDI}/sales/writers/any"),
    ],
    ("sales", "hudi-jobs"): [
        ("GET", "/api/v1/namespaces/sales/secrets/any"),
        ("GET", f"{HUDI}/sales/huditables"),
        ("PATCH", f"{HUDI}/sales/writers/any/status"),
        ("POST", "/apis/batch/v1/namespaces/sales/jobs"),
        ("GET", "/api/v1/namespaces/stock/pods"),
        ("POST", "/api/v1/namespaces/hudi/pods"),
    ],
}


def test_what_accounts_may_not_do_is_refused(installed: clusters.Cluster) -> None:
    for (home, account), calls in REFUSED.items():
        asking = _as(installed, home, account)
        kind = "application/merge-patch+json"
        found = {call: asking.request(*call, {}, kind).status for call in calls}
        assert found == dict.fromkeys(calls, 403), account


def test_operator_of_some_namespaces_may_do_nothing_elsewhere(
    cluster: clusters.Cluster, helm: chart.Helm
) -> None:
    clusters.install_crds(cluster)
    helm.run("install", "--namespace", "hudi", values=chart.namespaces_only("sales"))
    for what in ("watch hudi.dev/huditables", "create batch/jobs"):
        # The API server follows what is granted in its own time.
        programs.wait_until(
            lambda what=what: _may(cluster, OPERATOR, "sales", what), f"the operator may {what}"
        )
    assert not _may(cluster, OPERATOR, "stock", "watch hudi.dev/huditables")
    assert not _may(cluster, OPERATOR, "", "watch hudi.dev/huditables")
    assert not _may(cluster, OPERATOR, "stock", "create batch/jobs")


def _declare(
    cluster: clusters.Cluster, name: str, namespace: str = "sales", **fields: object
) -> str:
    path = f"{HUDI}/{namespace}/huditables"
    spec = rule_examples.edited(rule_examples.TABLE, **fields)
    cluster.api.create(path, _document(name, spec))
    return f"{path}/{name}"


def _document(name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": group.API_VERSION,
        "kind": "HudiTable",
        "metadata": {"name": name},
        "spec": spec,
    }


def _await_protection(cluster: clusters.Cluster) -> None:
    """Return once the policy is enforced, which takes the API server a moment."""
    path = _declare(cluster, "canary", deletionPolicy="Delete")

    def is_refused() -> bool:
        return not cluster.api.request("DELETE", f"{path}?dryRun=All").is_accepted

    programs.wait_until(is_refused, "the policy is enforced")


def test_data_is_protected_until_that_is_taken_off(installed: clusters.Cluster) -> None:
    path = _declare(installed, "orders", deletionPolicy="Delete")
    refused = installed.api.request("DELETE", path)
    assert not refused.is_accepted
    assert "HudiTable orders has deletionPolicy Delete" in refused.message
    assert "Set spec.deletionProtection to false first" in refused.message
    installed.api.merge(path, {"spec": {"deletionProtection": False}})
    assert installed.api.request("DELETE", path).is_accepted


def test_table_whose_data_stays_is_not_protected(installed: clusters.Cluster) -> None:
    path = _declare(installed, "kept")
    assert installed.api.request("DELETE", path).is_accepted


def test_namespace_goes_with_a_protected_table_in_it(installed: clusters.Cluster) -> None:
    path = "/api/v1/namespaces/doomed"
    installed.api.create("/api/v1/namespaces", {"metadata": {"name": "doomed"}})
    table = _declare(installed, "orders", "doomed", deletionPolicy="Delete")
    assert not installed.api.request("DELETE", table).is_accepted
    installed.api.delete(path)
    programs.wait_until(lambda: not installed.api.is_there(path), "the namespace is gone")


def test_namespace_goes_and_the_data_of_its_tables_stays(
    installed: clusters.Cluster, tmp_path: Path
) -> None:
    path = "/api/v1/namespaces/dissolved"
    installed.api.create("/api/v1/namespaces", {"metadata": {"name": "dissolved"}})
    lake = cluster_helpers.Lake(tmp_path / "lake")
    place = cluster_place.Place(installed, "dissolved")
    operator = cluster_operator.leading(installed.kubeconfig, "dissolved", lake.folder, home="hudi")
    with operator:
        _declare(
            installed,
            "orders",
            "dissolved",
            deletionPolicy="Delete",
            deletionProtection=False,
        )
        found = place.await_state(kinds.HUDI_TABLE, "orders", "Ready", "Ready")
        assert found["metadata"]["finalizers"] == [resources.FINALIZER]
        installed.api.delete(path)
        programs.wait_until(lambda: not installed.api.is_there(path), "the namespace is gone", 90)
        programs.wait_until(
            lambda: bool(_events_of_namespace(installed, "dissolved")), "it is told"
        )
    assert lake.table(found["status"]["uri"]) is not None
    (told,) = _events_of_namespace(installed, "dissolved")
    assert told["reason"] == "DataKept"
    assert f"its remaining data stays at {found['status']['uri']}" in told["message"]


def test_namespace_of_tables_whose_data_stays_ends_though_no_operator_is_left(
    installed: clusters.Cluster, tmp_path: Path
) -> None:
    path = "/api/v1/namespaces/forsaken"
    installed.api.create("/api/v1/namespaces", {"metadata": {"name": "forsaken"}})
    lake = cluster_helpers.Lake(tmp_path / "lake")
    place = cluster_place.Place(installed, "forsaken")
    with cluster_operator.leading(installed.kubeconfig, "forsaken", lake.folder, home="hudi"):
        _declare(installed, "orders", "forsaken")
        found = place.await_state(kinds.HUDI_TABLE, "orders", "Ready", "Ready")
    installed.api.delete(path)
    programs.wait_until(lambda: not installed.api.is_there(path), "the namespace is gone")
    assert lake.table(found["status"]["uri"]) is not None


def _events_of_namespace(cluster: clusters.Cluster, name: str) -> list[dict[str, Any]]:
    events = cluster.api.get(resources.EVENT.path("default"))["items"]
    return [
        each
        for each in events
        if (each["involvedObject"]["kind"], each["involvedObject"]["name"]) == ("Namespace", name)
    ]


def test_upgrade_brings_new_fields_and_uninstallation_keeps_what_is_declared(
    cluster: clusters.Cluster, helm: chart.Helm, tmp_path: Path
) -> None:
    older = _chart_without(tmp_path / "older", "deletionProtection")
    done = helm.tried("install", "--namespace", "hudi", values=VALUES, chart=older)
    assert done.returncode == 0, done.stderr
    installed_chart.await_kinds(cluster, "sales")
    path = _declare(cluster, "orders", deletionProtection=False)
    assert "deletionProtection" not in cluster.api.get(path)["spec"]
    helm.run("upgrade", "--namespace", "hudi", values=VALUES)

    def is_known() -> bool:
        cluster.api.merge(path, {"spec": {"deletionProtection": False}})
        return cluster.api.get(path)["spec"].get("deletionProtection") is False

    programs.wait_until(is_known, "the new field is known")
    helm.run("uninstall", "--namespace", "hudi")
    assert cluster.api.is_there(path)
    assert _left(cluster, "deployments", "apps/v1") == []
    programs.wait_until(
        lambda: not _may(cluster, OPERATOR, "sales", "watch hudi.dev/huditables"),
        "the operator's rights are gone",
    )
    # The next release of that name takes over what was kept.
    helm.run("install", "--namespace", "hudi", values=VALUES)


def test_kinds_go_with_the_release_where_that_is_wanted(
    cluster: clusters.Cluster, helm: chart.Helm
) -> None:
    helm.run("install", "--namespace", "hudi", values={**VALUES, "crds": {"keep": False}})
    installed_chart.await_kinds(cluster, "sales")
    helm.run("uninstall", "--namespace", "hudi", "--wait")
    programs.wait_until(lambda: _definitions(cluster) == [], "the kinds are gone")


def _definitions(cluster: clusters.Cluster) -> list[str]:
    return [each["metadata"]["name"] for each in cluster.api.get(CRDS)["items"]]


def _left(cluster: clusters.Cluster, plural: str, version: str) -> list[str]:
    path = f"/apis/{version}/namespaces/hudi/{plural}"
    return [each["metadata"]["name"] for each in cluster.api.get(path)["items"]]


def _chart_without(folder: Path, field: str) -> Path:
    """Make a copy of the chart that does not know a field of HudiTables, and return its path."""
    shutil.copytree(chart.CHART, folder)
    path = folder / "files" / "crds" / f"{group.GROUP}_huditables.yaml"
    definition = yaml.safe_load(path.read_text())
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    del schema["properties"]["spec"]["properties"][field]
    path.write_text(yaml.safe_dump(definition))
    return folder
