"""The ZooKeeper of a LockProvider with `embedded`: a StatefulSet of one pod, and its Service.

Its data is on a claim of its own and survives its pod. Were it lost, the numbers by which ZooKeeper
tells a later lock from an earlier one would begin anew, the fences of runs at work would be gone,
and two writers could each hold what they take for the lock.

A pod is replaced when somebody deletes it, and not when its image or its resources change: an
upgrade of the operator would else take all locks of the cluster away at once. What its volume is,
is said when the server is made, and cannot be changed.
"""

from collections.abc import Sequence
from typing import Final

from hoodie_operator import lock_server
from hoodie_operator.api import configuration, documents, objects, resources
from hoodie_operator.api.resources import Manifest
from hoodie_operator.manifests import naming, obstacles, pods

PORT: Final = lock_server.PORT
_VOLUME: Final = "data"
_FOLDER: Final = "/var/lib/zookeeper"


def address(lock: objects.Lock) -> str:
    """Return the `host:port` of the server of a LockProvider, within the cluster."""
    return f"{naming.lock_server(lock)}.{lock.key.namespace}.svc:{PORT}"


def server(lock: objects.Lock) -> obstacles.Server:
    """Return the server of a LockProvider, as its pod is asked about."""
    return obstacles.Server(
        resource=resources.STATEFUL_SET,
        namespace=lock.key.namespace,
        name=naming.lock_server(lock),
        container=naming.LOCK_SERVER,
    )


def service(lock: objects.Lock, users: Sequence[objects.Owner]) -> Manifest:
    """Return the Service by which the server is found, whichever pod it is."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(lock, users),
        "spec": {
            "selector": _labels(lock),
            "ports": [{"name": "client", "port": PORT, "targetPort": "client"}],
        },
    }


def network_policy(
    lock: objects.Lock, users: Sequence[objects.Owner], operator_namespace: str
) -> Manifest:
    """Return the NetworkPolicy of the server.

    The server has no authentication (docs/adr/0019): every client that reaches it can delete locks
    and fences. The policy admits the operator, its pods in the namespace, and pods of the namespace
    with the label of lock clients.

    Args:
        lock: The LockProvider.
        users: As of `stateful_set`.
        operator_namespace: Where the operator's own pods are.
    """
    operators = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": operator_namespace}},
        "podSelector": {
            "matchLabels": {
                "app.kubernetes.io/name": resources.MANAGER,
                "app.kubernetes.io/component": "operator",
            }
        },
    }
    ours = {"podSelector": {"matchLabels": {resources.MANAGED_BY: resources.MANAGER}}}
    clients = {"podSelector": {"matchLabels": {naming.LOCK_CLIENT: "true"}}}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": _metadata(lock, users),
        "spec": {
            "podSelector": {"matchLabels": _labels(lock)},
            "policyTypes": ["Ingress"],
            "ingress": [
                {
                    "from": [operators, ours, clients],
                    "ports": [{"port": "client", "protocol": "TCP"}],
                }
            ],
        },
    }


def stateful_set(
    lock: objects.Lock, users: Sequence[objects.Owner], told: configuration.Configuration
) -> Manifest:
    """Return the StatefulSet; its claim goes with it.

    Args:
        lock: The LockProvider.
        users: HudiTables that use it. With the last of these and the LockProvider it goes.
        told: The operator's configuration.
    """
    labels = _labels(lock)
    name = naming.lock_server(lock)
    claim: Manifest = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": told.lock_servers.volume_size}},
    }
    if told.lock_servers.storage_class is not None:
        claim["storageClassName"] = told.lock_servers.storage_class
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": _metadata(lock, users),
        "spec": {
            # One, and never a second one beside it: a StatefulSet replaces no pod that may live.
            "replicas": 1,
            "serviceName": name,
            "updateStrategy": {"type": "OnDelete"},
            "selector": {"matchLabels": labels},
            "persistentVolumeClaimRetentionPolicy": {
                "whenDeleted": "Delete",
                "whenScaled": "Retain",
            },
            "template": {
                "metadata": {"labels": labels},
                "spec": pods.spec(_pod(told), told.image),
            },
            "volumeClaimTemplates": [{"metadata": {"name": _VOLUME}, "spec": claim}],
        },
    }


def change(wanted: Manifest) -> Manifest:
    """Return the change that makes a server as wanted, but for the volume that it has already.

    Args:
        wanted: The StatefulSet.
    """
    metadata = {key: wanted["metadata"][key] for key in ("labels", "ownerReferences")}
    changeable = ("replicas", "updateStrategy", "persistentVolumeClaimRetentionPolicy", "template")
    return {"metadata": metadata, "spec": {key: wanted["spec"][key] for key in changeable}}


def _pod(told: configuration.Configuration) -> pods.Pod:
    probe = {"exec": {"command": list(lock_server.probe(PORT))}, "timeoutSeconds": 5}
    container = pods.Container(
        name=naming.LOCK_SERVER,
        image=told.image.name,
        arguments=("hudi-operator", "lock-server", "--folder", _FOLDER),
        resources=told.resources.lock_servers,
        extra={
            "ports": [{"name": "client", "containerPort": PORT}],
            # A JVM on a busy node takes its time: one that was ended for it would never be there.
            "startupProbe": {**probe, **pods.START_TIME},
            "readinessProbe": {**probe, "periodSeconds": 3},
            "livenessProbe": {**probe, "periodSeconds": 15, "failureThreshold": 4},
        },
        writable_mounts={_VOLUME: _FOLDER},
    )
    # Its server needs neither credentials nor a name at the API server.
    return pods.Pod(container=container, service_account="default", has_work_folder=False)


def _labels(lock: objects.Lock) -> dict[str, str]:
    return {
        resources.MANAGED_BY: resources.MANAGER,
        naming.ROLE: naming.LOCK_SERVER,
        naming.IDENTITY: naming.lock_server(lock),
    }


def _metadata(lock: objects.Lock, users: Sequence[objects.Owner]) -> Manifest:
    return {
        "name": naming.lock_server(lock),
        "namespace": lock.key.namespace,
        "labels": _labels(lock),
        "ownerReferences": [
            naming.owner_reference(lock),
            # One owner alone may be the controller.
            *({**documents.owner_reference(user), "controller": False} for user in users),
        ],
    }
