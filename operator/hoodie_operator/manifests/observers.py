"""An observer: a Deployment for each identity of storages in a namespace, with Service and token.

An identity is what pods of a table take: account, secrets, variables, volumes. Tables of one
identity share an observer. It talks with nobody but storages, and its volumes are read only.
"""

import base64
import functools
import hashlib
import heapq
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from hoodie_operator.api import (
    configuration,
    fields,
    group,
    hudi_table,
    kinds,
    objects,
    resources,
    spec_memory,
)
from hoodie_operator.api.resources import Manifest
from hoodie_operator.manifests import naming, obstacles, pods

PORT: Final = 8091
_FILE: Final = "token"
_TOKEN_FOLDER: Final = "/etc/hudi-operator/token"  # noqa: S105 - where it is
_VOLUME: Final = "token"
_SECRETS: Final = f"{group.GROUP}/secret-versions"
_DIGEST_LENGTH: Final = 10
_PREFIX: Final = "hudi-observer-"
_NAME: Final = re.compile(rf"{_PREFIX}[0-9a-f]{{{_DIGEST_LENGTH}}}")
_OWNERS_MAX: Final = 32
"""An object that names all of a thousand tables would be a large one."""


@dataclass(frozen=True, kw_only=True)
class Identity:  # Without slots, so that names are made once.
    """Whose eyes are needed to see a table.

    Attributes:
        namespace: The table's.
        storage: Its storage block, without the path.
        service_account: As whom pods run.
    """

    namespace: str
    storage: hudi_table.Storage
    service_account: str

    @functools.cached_property
    def name(self) -> str:
        """Of all objects of the observer."""
        told = self.storage.model_dump(mode="json", by_alias=True, exclude_none=True)
        text = json.dumps([told, self.service_account], sort_keys=True)
        return f"{_PREFIX}{hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_LENGTH]}"

    @functools.cached_property
    def address(self) -> str:
        """Where the observer answers, within the cluster."""
        return address(self.namespace, self.name)


def address(namespace: str, name: str) -> str:
    """Return where the observer of that name answers, within the cluster."""
    return f"http://{name}.{namespace}.svc:{PORT}"


def identity(table: objects.Table, told: configuration.Configuration) -> Identity:
    """Return the identity of a table; equal ones are of equal form."""
    return _identity(table.spec.storage, table.key.namespace, told.service_accounts.default)


@spec_memory.remembered
def _identity(storage: hudi_table.Storage, namespace: str, default_account: str) -> Identity:
    volumes = [
        volume.model_copy(update={"read_only": True})
        for volume in sorted(storage.volumes or (), key=lambda volume: volume.name)
    ]
    plain = storage.model_copy(
        update={
            "path": "-",
            "service_account": None,
            "env": dict(sorted(storage.env.items())) if storage.env else None,
            "volumes": tuple(volumes) or None,
        }
    )
    return Identity(
        namespace=namespace,
        storage=plain,
        service_account=storage.service_account or default_account,
    )


def server(found: Identity) -> obstacles.Server:
    """Return an observer, as its pod is asked about."""
    return obstacles.Server(
        resource=resources.DEPLOYMENT,
        namespace=found.namespace,
        name=found.name,
        container=naming.OBSERVER,
    )


def secret(found: Identity, token: str, deployment_uid: str) -> Manifest:
    """Return the Secret that the operator and the observer know each other by.

    Args:
        found: Of whom.
        token: What they know each other by.
        deployment_uid: Of the Deployment that the Secret goes with.
    """
    owner = {
        "apiVersion": resources.DEPLOYMENT.api_version,
        "kind": resources.DEPLOYMENT.kind,
        "name": found.name,
        "uid": deployment_uid,
    }
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {**_metadata(found), "ownerReferences": [owner]},
        "type": "Opaque",
        "stringData": {_FILE: token},
    }


def is_observer(deployment: Manifest) -> bool:
    """Return whether a Deployment is one that the operator made for tables.

    More than its labels has to say so, before it is removed with all that has its name.
    """
    metadata = deployment["metadata"]
    owners = metadata.get("ownerReferences") or ()
    return (
        _NAME.fullmatch(metadata["name"]) is not None
        and is_part(deployment, metadata["name"])
        and bool(owners)
        and all(naming.is_a(each, group.GROUP, kinds.HUDI_TABLE.name) for each in owners)
    )


def is_part(found: Manifest, observer: str) -> bool:
    """Return whether the labels of an object say that it belongs to an observer of that name."""
    labels = found["metadata"].get("labels") or {}
    return all(labels.get(key) == value for key, value in _labels(observer).items())


def token_of(found: Manifest) -> str | None:
    """Return the token in a Secret; None when there is none in it."""
    encoded = (found.get("data") or {}).get(_FILE)
    if not encoded:
        return None
    try:
        return base64.b64decode(encoded, validate=True).decode("ascii") or None
    except ValueError:
        return None


def service(found: Identity, tables: Sequence[objects.Table]) -> Manifest:
    """Return the Service by which the observer of some tables is found."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {**_metadata(found), "ownerReferences": _owners(tables)},
        "spec": {
            "selector": {naming.IDENTITY: found.name},
            "ports": [{"name": "http", "port": PORT, "targetPort": "http"}],
        },
    }


def deployment(
    found: Identity,
    told: configuration.Configuration,
    tables: Sequence[objects.Table],
    secret_versions: Mapping[str, str] | None = None,
) -> Manifest:
    """Return the Deployment.

    Args:
        found: Of whom.
        told: The operator's configuration.
        tables: Those that it observes: it goes with the last of them, also where no operator is
            there any more, since it holds their volumes.
        secret_versions: By the name of each Secret of its storage. A pod keeps the variables that
            it began with: one of a changed Secret takes its place. A version tells nothing of what
            is in a Secret.
    """
    template: Manifest = {"labels": _labels(found.name)}
    if secret_versions:
        told_versions = [f"{name}={version}" for name, version in sorted(secret_versions.items())]
        template["annotations"] = {_SECRETS: ",".join(told_versions)}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {**_metadata(found), "ownerReferences": _owners(tables)},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {naming.IDENTITY: found.name}},
            "template": {
                "metadata": template,
                "spec": pods.spec(_pod(found, told), told.image),
            },
        },
    }


def _pod(found: Identity, told: configuration.Configuration) -> pods.Pod:
    limit_s = fields.duration_ms(told.observers.time_limit) / 1000
    roots = [argument for root in told.data_roots for argument in ("--root", root)]
    probe = {"httpGet": {"path": "/healthz", "port": "http"}, "timeoutSeconds": 5}
    container = pods.Container(
        name=naming.OBSERVER,
        image=told.image.name,
        arguments=(
            *(*pods.PYTHON, "hoodie_operator", "observe", *roots),
            *("--port", str(PORT), "--token-file", f"{_TOKEN_FOLDER}/{_FILE}"),
            *("--threads", str(told.observers.threads), "--time-limit", f"{limit_s:g}"),
        ),
        resources=told.resources.observers,
        storage=found.storage,
        mounts={_VOLUME: _TOKEN_FOLDER},
        extra={
            "ports": [{"name": "http", "containerPort": PORT}],
            "startupProbe": {**probe, **pods.START_TIME},
            "readinessProbe": {**probe, "periodSeconds": 2},
            "livenessProbe": {**probe, "periodSeconds": 20, "failureThreshold": 6},
        },
    )
    return pods.Pod(
        container=container,
        service_account=found.service_account,
        grace_s=5,
        volumes=({"name": _VOLUME, "secret": {"secretName": found.name}},),
        has_work_folder=False,
    )


def _owners(tables: Sequence[objects.Table]) -> list[Manifest]:
    """Return references to some of the tables; the operator names others when these go."""
    some = heapq.nsmallest(_OWNERS_MAX, tables, key=lambda table: table.uid)
    return [{**naming.owner_reference(table), "controller": False} for table in some]


def _labels(observer: str) -> dict[str, str]:
    return {
        resources.MANAGED_BY: resources.MANAGER,
        naming.ROLE: naming.OBSERVER,
        naming.IDENTITY: observer,
    }


def _metadata(found: Identity) -> Manifest:
    return {"name": found.name, "namespace": found.namespace, "labels": _labels(found.name)}
