"""The chart, rendered: what values make, what they may not be, what an API server says of it."""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from hoodie_operator.api import configuration, group, kinds, resources
from hoodie_operator.cluster.control import metrics
from support.kube import binaries, clusters
from support.operators import chart

EXPECTED: Mapping[str, Mapping[str, int]] = {
    "minimal": {
        "ClusterRole": 1, "ClusterRoleBinding": 1, "ConfigMap": 1, "CustomResourceDefinition": 8,
        "Deployment": 1, "PodDisruptionBudget": 1, "Role": 1, "RoleBinding": 1,
        "ServiceAccount": 1, "ValidatingAdmissionPolicy": 1, "ValidatingAdmissionPolicyBinding": 1,
    },
    "namespaces": {
        "ConfigMap": 1, "Deployment": 1, "PodDisruptionBudget": 1, "Role": 5, "RoleBinding": 5,
        "ServiceAccount": 3,
    },
    "everything": {
        "ClusterRole": 1, "ClusterRoleBinding": 1, "ConfigMap": 1, "CustomResourceDefinition": 8,
        "Deployment": 1, "NetworkPolicy": 2, "PodDisruptionBudget": 1, "Role": 2, "RoleBinding": 2,
        "ServiceAccount": 2, "ValidatingAdmissionPolicy": 1, "ValidatingAdmissionPolicyBinding": 1,
    },
}  # fmt: skip
VALUES: Mapping[str, chart.Values] = {
    "minimal": chart.MINIMAL,
    "namespaces": chart.namespaces_only("sales", "stock"),
    "everything": chart.everything("sales"),
}


@pytest.fixture
def helm(built: binaries.Binaries, tmp_path: Path) -> chart.Helm:
    return chart.Helm(program=built.helm, folder=tmp_path)


def _of(manifests: list[chart.Manifest], kind: str) -> chart.Manifest:
    (found,) = (each for each in manifests if each["kind"] == kind)
    return found


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_lint_finds_nothing(helm: chart.Helm, values: chart.Values) -> None:
    told = helm.run("lint", "--strict", values=values)
    assert "[WARNING]" not in told
    assert "[ERROR]" not in told


def test_alerts_are_about_metrics_that_exist(helm: chart.Helm) -> None:
    values = {**chart.MINIMAL, "alerts": {"enabled": True, "labels": {"release": "prometheus"}}}
    found = _of(helm.rendered(values), "PrometheusRule")
    assert found["metadata"]["labels"]["release"] == "prometheus"
    source = Path(metrics.__file__).read_text(encoding="utf-8")
    rules = found["spec"]["groups"][0]["rules"]
    names = {name for rule in rules for name in re.findall(r"hudi_\w+", rule["expr"])}
    assert len(names) == len(rules)
    assert [name for name in names if f'"{name}"' not in source] == []
    assert "{{ $labels.service }}" in rules[1]["annotations"]["summary"]


@pytest.mark.parametrize("name", VALUES)
def test_values_make_these_objects_and_no_others(helm: chart.Helm, name: str) -> None:
    found: dict[str, int] = {}
    for manifest in helm.rendered(VALUES[name]):
        found[manifest["kind"]] = found.get(manifest["kind"], 0) + 1
    assert found == EXPECTED[name]


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({}, "at '/config/dataRoots': minItems"),
        ({"config": {"dataRoots": []}}, "at '/config/dataRoots': minItems"),
        ({"replicas": 0}, "at '/replicas'"),
        ({"replica": 2}, "additional properties 'replica' not allowed"),
        ({"image": {"digest": "latest"}}, "at '/image/digest'"),
        ({"image": {"repository": "a b"}}, "at '/image/repository'"),
        ({"rbac": {"scope": "Everywhere"}}, "at '/rbac/scope'"),
        ({"rbac": {"scope": "Namespaces"}}, "at '/config/watchNamespaces': minItems"),
        ({"config": {"observers": {"treads": 4}}}, "additional properties 'treads' not allowed"),
        ({"config": {"observers": {"threads": 0}}}, "at '/config/observers/threads'"),
        ({"config": {"watchNamespaces": ["Sales"]}}, "at '/config/watchNamespaces/0'"),
        ({"jobs": {"serviceAccount": {"name": ""}}}, "at '/jobs/serviceAccount/name'"),
        ({"crds": {"install": "yes"}}, "at '/crds/install'"),
    ],
)
def test_schema_refuses_what_makes_no_sense(
    helm: chart.Helm, values: Mapping[str, Any], told: str
) -> None:
    config = {**chart.MINIMAL["config"], **values.get("config", {})} if values else {}
    done = helm.tried("template", "--kube-version", "1.34", values={**values, "config": config})
    assert done.returncode != 0
    assert told in done.stderr


@pytest.mark.parametrize(
    "values",
    [
        {**chart.MINIMAL, "jobs": {"serviceAccount": {"namespaces": ["sales", "hudi"]}}},
        chart.namespaces_only("sales", "hudi"),
    ],
    ids=["named", "watched"],
)
def test_account_that_may_make_pods_is_not_made_beside_the_operators_unless_asked_for(
    helm: chart.Helm, values: chart.Values
) -> None:
    place = ("--namespace", "hudi", "--kube-version", "1.34")
    done = helm.tried("template", *place, values=values)
    assert done.returncode != 0
    assert (
        "jobs.serviceAccount would be created in hudi, the namespace of the release" in done.stderr
    )
    jobs = values.get("jobs", {}).get("serviceAccount", {})
    asked = {**values, "jobs": {"serviceAccount": {**jobs, "inReleaseNamespace": True}}}
    assert _job_namespaces(helm.rendered(asked)) == {"sales", "hudi"}
    # Whoever makes accounts himself knows.
    own = {**values, "jobs": {"serviceAccount": {**jobs, "create": False}}}
    assert _job_namespaces(helm.rendered(own)) == set()


def _job_namespaces(rendered: Sequence[chart.Manifest]) -> set[str]:
    accounts = [each["metadata"] for each in rendered if each["kind"] == "ServiceAccount"]
    return {each["namespace"] for each in accounts if each["name"] == "hudi-jobs"}


@pytest.mark.parametrize(
    ("namespaces", "told"),
    [
        ([], ["which does not exist yet", "{NAMESPACE}'", "kubectl -n NAMESPACE apply"]),
        (["sales"], ["which exists in sales.", "kubectl -n sales apply"]),
    ],
)
def test_notes_say_where_runs_have_an_account(
    helm: chart.Helm, cluster: clusters.Cluster, namespaces: list[str], told: list[str]
) -> None:
    there = dataclasses.replace(helm, kubeconfig=cluster.kubeconfig)
    jobs = {"serviceAccount": {"namespaces": namespaces}}
    values = {**chart.MINIMAL, "crds": {"install": False}, "jobs": jobs}
    printed = there.run("install", "--namespace", "hudi", "--dry-run=client", values=values)
    notes = printed.partition("NOTES:")[2]
    assert [each for each in told if each not in notes] == []


def test_releases_of_one_namespace_have_leases_of_their_own(helm: chart.Helm) -> None:
    deployment = _of(list(helm.rendered(chart.MINIMAL)), "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert f"--lease={deployment['metadata']['name']}" in container["args"]


@pytest.mark.parametrize("name", VALUES)
def test_operator_understands_its_configuration(helm: chart.Helm, name: str) -> None:
    content = _of(list(helm.rendered(VALUES[name])), "ConfigMap")["data"]["config.yaml"]
    read = configuration.parse(content.encode(), "config.yaml")
    assert list(read.data_roots) == VALUES[name]["config"]["dataRoots"]
    deployment = _of(list(helm.rendered(VALUES[name])), "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert read.image.name == container["image"]
    assert read.image.pull_policy.value == container["imagePullPolicy"]


def test_what_config_says_goes_before_what_follows_from_other_values(helm: chart.Helm) -> None:
    config = {
        "dataRoots": ["file:///data"],
        "image": {"name": "jobs:2"},
        "serviceAccounts": {"default": "mine"},
    }
    content = _of(list(helm.rendered({"config": config})), "ConfigMap")["data"]["config.yaml"]
    read = configuration.parse(content.encode(), "config.yaml")
    assert (read.image.name, read.service_accounts.default) == ("jobs:2", "mine")


def test_changed_configuration_rolls_the_operator_out(helm: chart.Helm) -> None:
    other = {"config": {**chart.MINIMAL["config"], "observers": {"threads": 2}}}
    templates = [
        _of(list(helm.rendered(values)), "Deployment")["spec"]["template"]
        for values in (chart.MINIMAL, other)
    ]
    assert templates[0] != templates[1]
    assert helm.rendered(chart.MINIMAL) == helm.rendered(chart.MINIMAL)


@pytest.mark.parametrize("keep", [True, False])
def test_definitions_are_those_of_the_code(helm: chart.Helm, keep: bool) -> None:
    found = {
        each["metadata"]["name"]: each
        for each in helm.rendered({**chart.MINIMAL, "crds": {"keep": keep}})
        if each["kind"] == "CustomResourceDefinition"
    }
    for path in clusters.CRDS.glob("*.yaml"):
        definition = yaml.safe_load(path.read_text())
        rendered = found.pop(definition["metadata"]["name"])
        assert rendered["spec"] == definition["spec"]
        policy = rendered["metadata"].get("annotations", {}).get("helm.sh/resource-policy")
        assert policy == ("keep" if keep else None)
    assert found == {}


def test_operator_may_watch_what_it_has_to_and_write_each_status(helm: chart.Helm) -> None:
    granted = {
        (api_group, resource, verb)
        for rule in _of(list(helm.rendered(chart.MINIMAL)), "ClusterRole")["rules"]
        for api_group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    for watched in resources.WATCHED:
        assert {(watched.group, watched.plural, verb) for verb in ("list", "watch")} <= granted
    for kind in kinds.KINDS:
        assert (group.GROUP, f"{kind.plural}/status", "patch") in granted
    assert not [each for each in granted if "*" in each]


@pytest.mark.parametrize("name", VALUES)
def test_api_server_takes_all_of_it(
    helm: chart.Helm, cluster: clusters.Cluster, namespace: str, name: str
) -> None:
    values = {
        "minimal": chart.MINIMAL,
        "namespaces": {**chart.namespaces_only(namespace), **chart.IN_RELEASE_NAMESPACE},
        "everything": chart.everything(namespace),
    }[name]
    rendered = helm.rendered(values, namespace)
    text = yaml.safe_dump_all(rendered)
    told = cluster.kubectl(
        "apply", "--server-side", "--force-conflicts", "--dry-run=server", "-f", "-", stdin=text
    )
    assert len(told.splitlines()) == len(rendered)


def test_operator_fits_where_only_restricted_pods_may_run(
    helm: chart.Helm, cluster: clusters.Cluster, namespace: str
) -> None:
    label = {"pod-security.kubernetes.io/enforce": "restricted"}
    cluster.api.merge(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": label}})
    rendered = list(helm.rendered(chart.MINIMAL, namespace))
    account = _of([each for each in rendered if "hudi-jobs" not in str(each)], "ServiceAccount")
    cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(account))
    template = _of(rendered, "Deployment")["spec"]["template"]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "operator", "namespace": namespace},
        "spec": template["spec"],
    }
    told = cluster.kubectl("create", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump(pod))
    assert told.startswith("pod/operator created")
