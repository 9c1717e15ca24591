"""What all pods of ours have in common: the restricted security standard, folders, the storage.

Source of the standard: Kubernetes, Pod Security Standards, "Restricted". No pod gets a token of the
API server but Spark's drivers, and none writes anywhere but into its own folders and the volumes of
its table.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from hoodie_operator.api import configuration, execution, fields, hudi_table
from hoodie_operator.api.resources import Manifest

USER: Final = 10001
"""The image's user and group, which owns what is on the volumes of pods."""

PYTHON: Final = ("python", "-I", "-u", "-B", "-m")
"""How a module of ours is run where a tenant may set variables.

Isolated from them and from folders, and told by itself what the image's variables say: output
without delay, and no bytecode, which could not be written.
"""

START_TIME: Final = {"periodSeconds": 2, "failureThreshold": 150}
"""Of the start-up probe of what serves: so long nobody asks whether it is alive."""

WORK_FOLDER: Final = "/work"
_TEMPORARY_FOLDER: Final = "/tmp"  # noqa: S108 - a container's own
_MEBIBYTE: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """The one container of a pod.

    Attributes:
        name: Its name.
        image: Its image.
        arguments: Of the image's entry point.
        resources: What it gets.
        storage: Of the table that it works on; None for none.
        variables: Environment variables that are the operator's own, which go before all others.
        runtime: What a user says of runs; None where it is no run.
        mounts: Volume name to folder, beside its own and the table's; read only.
        writable_mounts: As `mounts`, to write into.
        extra: Further fields.
    """

    name: str
    image: str
    arguments: tuple[str, ...] = ()
    resources: execution.Resources
    storage: hudi_table.Storage | None = None
    variables: Mapping[str, Any] = field(default_factory=dict)
    runtime: execution.Runtime | None = None
    mounts: Mapping[str, str] = field(default_factory=dict)
    writable_mounts: Mapping[str, str] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """One pod.

    Attributes:
        container: What is in it.
        service_account: As whom it runs.
        has_token: Whether it may talk with the API server.
        grace_s: For its processes to end.
        volumes: Beside its own and the table's.
        pull_secrets: For its image.
        has_work_folder: Whether it has a folder for large temporary files.
        extra: Further fields.
    """

    container: Container
    service_account: str
    has_token: bool = False
    grace_s: int = 30
    volumes: tuple[Manifest, ...] = ()
    pull_secrets: tuple[str, ...] = ()
    has_work_folder: bool = True
    extra: Mapping[str, Any] = field(default_factory=dict)


def spec(pod: Pod, image: configuration.Image) -> Manifest:
    """Return the spec of a pod."""
    runtime = pod.container.runtime or execution.Runtime()
    secrets = dict.fromkeys((*image.pull_secrets, *pod.pull_secrets))
    found: Manifest = {
        "serviceAccountName": pod.service_account,
        "automountServiceAccountToken": pod.has_token,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": pod.grace_s,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(pod, image)],
        "volumes": [*_own_volumes(pod), *_table_volumes(pod.container.storage), *pod.volumes],
        **pod.extra,
    }
    if secrets:
        found["imagePullSecrets"] = [{"name": name} for name in secrets]
    if runtime.node_selector:
        found["nodeSelector"] = dict(runtime.node_selector)
    if runtime.tolerations:
        found["tolerations"] = [
            each.model_dump(mode="json", by_alias=True, exclude_none=True)
            for each in runtime.tolerations
        ]
    return found


def _container(pod: Pod, image: configuration.Image) -> Manifest:
    container = pod.container
    found: Manifest = {
        "name": container.name,
        "image": container.image,
        "imagePullPolicy": image.pull_policy.value,
        "resources": resources(container.resources),
        "env": _variables(container),
        "envFrom": [
            {"secretRef": {"name": name}}
            for name in (container.storage.secrets if container.storage else None) or ()
        ],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [
            *(
                {"name": each["name"], "mountPath": f"/{each['name']}"}
                for each in _own_volumes(pod)
            ),
            *_table_mounts(container.storage),
            *(
                {"name": name, "mountPath": path, "readOnly": True}
                for name, path in container.mounts.items()
            ),
            *(
                {"name": name, "mountPath": path}
                for name, path in container.writable_mounts.items()
            ),
        ],
        **container.extra,
    }
    if container.arguments:
        found["args"] = list(container.arguments)
    return found


def _variables(container: Container) -> list[Manifest]:
    told = dict((container.storage.env if container.storage else None) or {})
    told |= (container.runtime.env if container.runtime else None) or {}
    found: dict[str, Manifest] = {name: {"value": value} for name, value in told.items()}
    for name, value in container.variables.items():
        found[name] = {"value": value} if isinstance(value, str) else {"valueFrom": value}
    return [{"name": name, **value} for name, value in found.items()]


def field_of_pod(path: str) -> Manifest:
    """Return where a variable gets a field of its own pod from."""
    return {"fieldRef": {"fieldPath": path}}


def _own_volumes(pod: Pod) -> list[Manifest]:
    folders = [_TEMPORARY_FOLDER, *([WORK_FOLDER] if pod.has_work_folder else [])]
    return [{"name": folder.removeprefix("/"), "emptyDir": {}} for folder in folders]


def _table_volumes(storage: hudi_table.Storage | None) -> list[Manifest]:
    return [
        {
            "name": _volume(volume),
            # Read only where it is mounted: a claim that one pod takes so, and another one not,
            # may not be had by both.
            "persistentVolumeClaim": {"claimName": volume.persistent_volume_claim},
        }
        for volume in (storage.volumes if storage else None) or ()
    ]


def _table_mounts(storage: hudi_table.Storage | None) -> list[Manifest]:
    return [
        {
            "name": _volume(volume),
            "mountPath": volume.mount_path,
            "readOnly": bool(volume.read_only),
        }
        for volume in (storage.volumes if storage else None) or ()
    ]


def _volume(volume: hudi_table.Volume) -> str:
    # Apart from our own, whatever they are called.
    return f"table-{volume.name}"[:63].rstrip("-")


def resources(found: execution.Resources) -> Manifest:
    """Return the resources of a container."""
    told = {}
    for name, amounts in (("requests", found.requests), ("limits", found.limits)):
        each: Manifest = {}
        if amounts.cpu is not None:
            each["cpu"] = str(amounts.cpu)
        if amounts.memory is not None:
            each["memory"] = amounts.memory
        if each:
            told[name] = each
    return told


def scaled(found: execution.Resources, memory_percent: int) -> execution.Resources:
    """Return resources with more or less memory."""

    def amounts(each: execution.Amounts) -> execution.Amounts:
        if each.memory is None:
            return each
        return execution.Amounts(
            cpu=each.cpu, memory=f"{mebibytes(each.memory) * memory_percent // 100}Mi"
        )

    return execution.Resources(requests=amounts(found.requests), limits=amounts(found.limits))


def mebibytes(memory: str) -> int:
    """Return an amount of memory in mebibytes, at least one."""
    return max(1, fields.size_bytes(memory) // _MEBIBYTE)
