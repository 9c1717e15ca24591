"""Objects as documents: the JSON that Kubernetes stores and `get -o json` prints.

Read leniently: a field that this version does not know was written by a newer one, and is left out.
"""

import json
from collections.abc import Mapping
from typing import Any

import pydantic

from hoodie import errors
from hoodie_operator.api import group, kinds, objects, times


def to_document(found: objects.AnyObject) -> dict[str, Any]:
    """Return the document of an object."""
    metadata: dict[str, Any] = {
        "name": found.key.name,
        "namespace": found.key.namespace,
        "uid": found.uid,
        "generation": found.generation,
        "creationTimestamp": times.text(found.created_ms),
    }
    if found.labels:
        metadata["labels"] = dict(found.labels)
    if found.retry_request is not None:
        metadata["annotations"] = {group.RETRY_REQUEST: found.retry_request}
    if found.owner is not None:
        metadata["ownerReferences"] = [owner_reference(found.owner)]
    if found.deletion_ms is not None:
        metadata["deletionTimestamp"] = times.text(found.deletion_ms)
    return {
        "apiVersion": group.API_VERSION,
        "kind": found.key.kind,
        "metadata": metadata,
        "spec": found.spec.model_dump(mode="json", by_alias=True, exclude_none=True),
        "status": found.status.model_dump(mode="json", by_alias=True, exclude_none=True),
    }


def _controller(metadata: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the reference to the object of ours that an object was made for; None for none.

    Anybody who may make the object may write it: it says what goes with what, and proves nothing.
    """
    for reference in metadata.get("ownerReferences") or ():
        is_ours = reference["apiVersion"].partition("/")[0] == group.GROUP
        if is_ours and reference.get("controller"):
            found: Mapping[str, Any] = reference
            return found
    return None


def owner_reference(owner: objects.Owner) -> dict[str, Any]:
    """Return what an object says of the object that it was made for, and goes with."""
    return {
        "apiVersion": group.API_VERSION,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
    }


def from_document(document: Mapping[str, Any]) -> objects.AnyObject:
    """Return the object of a document.

    Raises:
        FormatError: It is no document of ours.
    """
    try:
        kind = kinds.BY_NAME[document["kind"]]
        metadata = document["metadata"]
        reference = _controller(metadata)
        deletion = metadata.get("deletionTimestamp")
        return objects.Object(
            key=objects.ObjectKey(
                kind=kind.name, namespace=metadata["namespace"], name=metadata["name"]
            ),
            uid=metadata["uid"],
            generation=metadata["generation"],
            created_ms=times.epoch_ms(metadata["creationTimestamp"]),
            labels=metadata.get("labels") or {},
            owner=None
            if reference is None
            else objects.Owner(
                kind=reference["kind"], name=reference["name"], uid=reference["uid"]
            ),
            deletion_ms=None if deletion is None else times.epoch_ms(deletion),
            retry_request=(metadata.get("annotations") or {}).get(group.RETRY_REQUEST),
            spec=kind.spec.model_validate_json(json.dumps(document["spec"]), extra="ignore"),
            status=kind.status.model_validate_json(
                json.dumps(document.get("status") or {}), extra="ignore"
            ),
        )
    except (KeyError, TypeError, ValueError, pydantic.ValidationError) as error:
        raise errors.FormatError(f"no stored object: {error}") from error
