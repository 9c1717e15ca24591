"""The objects of observers and of lock servers."""

import dataclasses
from typing import Any

import pytest

from hoodie_operator.api import configuration, kinds, objects
from hoodie_operator.api.resources import Manifest
from hoodie_operator.manifests import lock_servers, naming, observers
from support.operators import operator_world as ow
from support.operators import rule_examples

TOLD = configuration.parse(
    b"dataRoots: [/data, 's3://lake']\nlockServers: {volumeSize: 2Gi, storageClass: fast}",
    "operator.yaml",
)
STORAGE: dict[str, Any] = {
    "path": "a",
    "secrets": ["s3"],
    "env": {"A": "1", "B": "2"},
    "volumes": [{"name": "lake", "persistentVolumeClaim": "lake", "mountPath": "/data"}],
}


def table(namespace: str = "default", **changes: object) -> objects.Table:
    here = ow.Outside()
    spec = {**ow.TABLE, "storage": {**STORAGE, **changes}}
    found: Any = here.by_key[here.add(kinds.HUDI_TABLE, "flights", spec)]
    key = dataclasses.replace(found.key, namespace=namespace)
    return dataclasses.replace(found, key=key)  # type: ignore[no-any-return]  # a HudiTable


def identity(namespace: str = "default", **changes: object) -> observers.Identity:
    return observers.identity(table(namespace, **changes), TOLD)


def lock(name: str = "zk") -> objects.Lock:
    here = ow.Outside()
    found: Any = here.by_key[here.add(kinds.LOCK_PROVIDER, name, rule_examples.LOCK)]
    return found  # type: ignore[no-any-return]  # a LockProvider


def test_tables_of_one_identity_share_an_observer() -> None:
    assert identity(path="b") == identity()
    assert identity(env={"B": "2", "A": "1"}).name == identity().name
    assert identity(serviceAccount="default").name == identity().name


@pytest.mark.parametrize(
    "changes",
    [
        {"serviceAccount": "lake"},
        {"secrets": ["other"]},
        {"env": {"A": "1"}},
        {"volumes": [{**STORAGE["volumes"][0], "mountPath": "/lake"}]},
    ],
)
def test_another_identity_has_another_observer(changes: dict[str, object]) -> None:
    assert identity(**changes).name != identity().name
    assert identity("sales").address != identity().address


def container_of(manifest: Manifest) -> Manifest:
    (found,) = manifest["spec"]["template"]["spec"]["containers"]
    return dict(found)


def test_observer_is_told_what_it_may_look_at_and_cannot_write() -> None:
    made = observers.deployment(identity(), TOLD, [table()])
    container = container_of(made)
    told = " ".join(container["args"])
    assert "observe --root /data --root s3://lake" in told
    assert "--time-limit 20" in told
    assert all(
        mount.get("readOnly") for mount in container["volumeMounts"] if mount["mountPath"] != "/tmp"
    )
    assert made["spec"]["template"]["spec"]["automountServiceAccountToken"] is False


def test_observer_goes_with_its_tables() -> None:
    tables = [dataclasses.replace(table(), uid=f"u{number:03}") for number in range(100)]
    for made in (
        observers.deployment(identity(), TOLD, tables),
        observers.service(identity(), tables[::-1]),
    ):
        owners = made["metadata"]["ownerReferences"]
        assert [each["uid"] for each in owners] == [f"u{number:03}" for number in range(32)]
        # Several controllers of one object are refused.
        assert not any(each["controller"] or each["blockOwnerDeletion"] for each in owners)


def test_token_is_found_where_it_was_put() -> None:
    made = observers.secret(identity(), "abc", "uid-of-deployment")
    assert made["stringData"] == {"token": "abc"}
    assert observers.token_of({"data": {"token": "YWJj"}}) == "abc"
    for other in ({}, {"data": {}}, {"data": {"token": ""}}, {"data": {"token": "%"}}):
        assert observers.token_of(other) is None


def test_lock_server_is_one_pod_that_keeps_its_data() -> None:
    made = lock_servers.stateful_set(lock(), (), TOLD)
    assert made["spec"]["replicas"] == 1
    # An upgrade of the operator restarts none.
    assert made["spec"]["updateStrategy"] == {"type": "OnDelete"}
    (claim,) = made["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["resources"]["requests"]["storage"] == "2Gi"
    assert claim["spec"]["storageClassName"] == "fast"
    container = container_of(made)
    folder = container["args"][container["args"].index("--folder") + 1]
    mounts = {each["mountPath"]: each for each in container["volumeMounts"]}
    assert mounts[folder] == {"name": claim["metadata"]["name"], "mountPath": folder}


def test_change_of_a_lock_server_leaves_its_volume() -> None:
    wanted = lock_servers.stateful_set(lock(), (), TOLD)
    change = lock_servers.change(wanted)
    assert "volumeClaimTemplates" not in change["spec"]
    assert change["spec"]["template"] == wanted["spec"]["template"]
    assert change["metadata"].keys() == {"labels", "ownerReferences"}


@pytest.mark.parametrize(
    "made",
    [
        observers.deployment(identity(), TOLD, [table()]),
        lock_servers.stateful_set(lock(), (), TOLD),
    ],
)
def test_helper_that_starts_slowly_is_not_ended_for_it(made: Manifest) -> None:
    container = container_of(made)
    starting, living = container["startupProbe"], container["livenessProbe"]
    assert starting["periodSeconds"] * starting["failureThreshold"] >= 300
    assert starting.get("exec") == living.get("exec")
    assert starting.get("httpGet") == living.get("httpGet")


def test_lock_server_is_found_by_its_service() -> None:
    found = lock()
    service = lock_servers.service(found, ())
    pods = lock_servers.stateful_set(found, (), TOLD)["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= pods.items()
    (port,) = service["spec"]["ports"]
    name = service["metadata"]["name"]
    assert lock_servers.address(found) == f"{name}.default.svc:{port['port']}"


def test_lock_server_is_reached_by_the_operator_and_by_lock_clients_of_its_namespace() -> None:
    found = lock()
    policy = lock_servers.network_policy(found, (), "hudi")
    pods = lock_servers.stateful_set(found, (), TOLD)["spec"]["template"]
    assert (
        policy["spec"]["podSelector"]["matchLabels"].items() <= pods["metadata"]["labels"].items()
    )
    assert policy["metadata"]["ownerReferences"]
    (rule,) = policy["spec"]["ingress"]
    (container,) = pods["spec"]["containers"]
    assert {each["port"] for each in rule["ports"]} == {each["name"] for each in container["ports"]}
    operator, *others = rule["from"]
    assert operator["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "hudi"}
    # The namespace of the others is the server's own.
    assert all(list(each) == ["podSelector"] for each in others)


@pytest.mark.parametrize("name", ["zk", "z" * 63])
def test_name_of_a_lock_server_leaves_room_for_what_is_added_to_it(name: str) -> None:
    assert len(naming.lock_server(lock(name))) <= 52
