"""Names, labels and annotations of what the operator makes: deterministic, so that none is twice.

A name holds as much of its object's name as fits, and enough to tell it from every other.
"""

import hashlib
from collections.abc import Mapping
from typing import Final

from hoodie_operator.api import group, objects, resources
from hoodie_operator.api.resources import Manifest
from hoodie_operator.reconcile import facts

LENGTH_MAX: Final = 63
EXECUTOR_LENGTH_MAX: Final = 47
"""Of the prefix of executors' names, to which Spark adds their numbers."""

PROTOCOL: Final = f"{group.GROUP}/protocol-hash"
RUN: Final = f"{group.GROUP}/run-hash"
BATCH_SETTINGS: Final = f"{group.GROUP}/batch-settings-hash"
GIVEN_BATCH_SETTINGS: Final = f"{group.GROUP}/given-batch-settings-hash"
STARTED: Final = f"{group.GROUP}/started-ms"
STOP_REQUESTED: Final = f"{group.GROUP}/stop-requested-ms"
STOP_REASON: Final = f"{group.GROUP}/stop-reason"
"""Annotations of the Job of an attempt; the first two hashes of its pods as well."""

ROLE: Final = f"{group.GROUP}/role"
DRIVER: Final = "driver"
EXECUTOR: Final = "executor"
OBSERVER: Final = "observer"
LOCK_SERVER: Final = "lock-server"
"""What a pod is for, as the label tells."""

IDENTITY: Final = f"{group.GROUP}/identity"
LOCK_CLIENT: Final = f"{group.GROUP}/lock-client"
"""Label of a pod that is not the operator's, and takes locks at a lock server of its namespace."""
"""Label of everything that belongs to one observer."""

_DIGEST_LENGTH: Final = 6
_SPEC_DIGEST_LENGTH: Final = 10
_UID_LENGTH: Final = 6


def run(run_id: facts.RunId) -> str:
    """Return the name of the Job of an attempt."""
    return fitted(run_id.name, f"-{run_id.uid[:_UID_LENGTH].lower()}-{run_id.attempt}")


def run_spec(run_id: facts.RunId, content: str) -> str:
    """Return the name of the ConfigMap that tells an attempt what to do.

    It names what it tells: a Job that is made late has what it was decided with, or nothing.
    """
    return _run_spec(run_id, hashlib.sha256(content.encode()).hexdigest()[:_SPEC_DIGEST_LENGTH])


def is_run_spec(name: str, run_id: facts.RunId) -> bool:
    """Return whether a ConfigMap of that name tells an attempt what to do."""
    return name == _run_spec(run_id, name.rpartition("-")[2])


def _run_spec(run_id: facts.RunId, digest: str) -> str:
    tail = f"-{run_id.uid[:_UID_LENGTH].lower()}-{run_id.attempt}-{digest}"
    return fitted(run_id.name, tail)


def batch_settings(run_id: facts.RunId) -> str:
    """Return the name of the ConfigMap with the later batch settings of an attempt."""
    tail = f"-{run_id.uid[:_UID_LENGTH].lower()}-batch-{run_id.attempt}"
    return fitted(run_id.name, tail)


def executors(run_id: facts.RunId) -> str:
    """Return what the names of an attempt's executors begin with."""
    tail = f"-{run_id.uid[:_UID_LENGTH].lower()}-{run_id.attempt}"
    return fitted(run_id.name, tail, EXECUTOR_LENGTH_MAX)


def lock_server(lock: objects.Lock) -> str:
    """Return the name of everything that serves a LockProvider."""
    # A StatefulSet adds a hash of eleven characters where it names its revisions.
    return fitted(lock.name, f"-lock-{lock.uid[:_UID_LENGTH].lower()}", LENGTH_MAX - 11)


def fitted(name: str, tail: str, length_max: int = LENGTH_MAX) -> str:
    """Return a name and its tail, the name shortened and told apart by a digest if needed."""
    if len(name) + len(tail) > length_max:
        digest = hashlib.sha256(name.encode()).hexdigest()[:_DIGEST_LENGTH]
        room = length_max - len(tail) - _DIGEST_LENGTH - 1
        name = f"{name[:room].rstrip('-')}-{digest}"
    return name + tail


def run_labels(run_id: facts.RunId, table: str) -> dict[str, str]:
    """Return the labels of the Job and of every pod of an attempt."""
    return {
        resources.MANAGED_BY: resources.MANAGER,
        resources.OWNER_KIND: run_id.kind,
        resources.OWNER_NAME: run_id.name,
        resources.OWNER_UID: run_id.uid,
        resources.ATTEMPT: str(run_id.attempt),
        resources.TABLE: table,
    }


def run_id(manifest: Manifest) -> facts.RunId | None:
    """Return the attempt that labels name; None where they name none (see `ownership`)."""
    metadata = manifest["metadata"]
    labels: Mapping[str, str] = metadata.get("labels") or {}
    attempt = labels.get(resources.ATTEMPT, "")
    kind = labels.get(resources.OWNER_KIND)
    name = labels.get(resources.OWNER_NAME)
    uid = labels.get(resources.OWNER_UID)
    if not kind or not name or not uid or not attempt.isdecimal():
        return None
    return facts.RunId(
        kind=kind, namespace=metadata["namespace"], name=name, uid=uid, attempt=int(attempt)
    )


def table_of(manifest: Manifest) -> str:
    """Return namespace and name of the table that a Job or a Pod works on; empty for none."""
    metadata = manifest["metadata"]
    table = (metadata.get("labels") or {}).get(resources.TABLE)
    return f"{metadata.get('namespace', '')}/{table}" if table else ""


def is_a(reference: Manifest, api_group: str, kind: str) -> bool:
    """Return whether a reference is to an object of a kind, in whatever version of its group."""
    return (reference["apiVersion"].rpartition("/")[0], reference["kind"]) == (api_group, kind)


def owner_reference(owner: objects.AnyObject) -> Manifest:
    """Return the reference by which what is made for an object goes with it."""
    return {
        "apiVersion": group.API_VERSION,
        "kind": owner.key.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }
