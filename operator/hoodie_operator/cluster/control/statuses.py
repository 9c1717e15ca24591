"""Writing statuses and our finalizer: by server-side apply, on the version decided about alone.

A status is applied with the resource version that it was decided on: an object that was made anew
under the same name, or edited meanwhile, refuses it, and the next decision sees what is there.
"""

import logging
from collections.abc import Mapping
from typing import Any, Final

from hoodie_operator.api import (
    conditions,
    group,
    hudi_table,
    index_request,
    kinds,
    objects,
    resources,
    savepoint,
)
from hoodie_operator.api.resources import Manifest
from hoodie_operator.cluster.client import api, api_errors
from hoodie_operator.cluster.informer import store

logger = logging.getLogger(__name__)

_SCHEMAS: Final = f"/openapi/v3/apis/{group.GROUP}/{group.VERSION}"

Known = Mapping[str, Mapping[str, Any]]
"""The schema of the status of each kind, as the API server knows it."""


class Statuses:
    """The one writer of the status of our objects."""

    def __init__(self, server: api.Api, known: Known) -> None:
        """Take the API server, and what it knows of statuses (`known_fields`)."""
        self._api = server
        self._known = known

    async def apply(
        self, key: objects.ObjectKey, stored: store.Stored, status: conditions.Status
    ) -> Manifest:
        """Make this the status of an object of the version that is stored.

        Returns:
            The object as it now is.

        Raises:
            ApiError: It was refused: as `ConflictError` or `NotFoundError` when it has moved on.
        """
        told = status.model_dump(mode="json", by_alias=True, exclude_none=True)
        return await self._apply(key, stored, told)

    async def report_unreadable(
        self, key: objects.ObjectKey, stored: store.Stored, status: conditions.Status
    ) -> Manifest:
        """Tell that an object cannot be read, and leave all else that its status tells.

        Returns:
            The object as it now is.

        Raises:
            ApiError: It was refused.
        """
        told = status.model_dump(mode="json", by_alias=True, exclude_none=True)
        return await self._apply(key, stored, {**stored.raw_status, **told})

    async def keep_finalizer(
        self, key: objects.ObjectKey, stored: store.Stored, *, is_wanted: bool
    ) -> Manifest:
        """Have our finalizer on an object, or not.

        Returns:
            The object as it now is; all but gone when the last finalizer went.

        Raises:
            ApiError: It was refused.
        """
        document = _document(key, stored)
        document["metadata"]["finalizers"] = [resources.FINALIZER] if is_wanted else []
        return await self._api.apply(document)

    def are_same(self, kind: str, before: conditions.Status, after: conditions.Status) -> bool:
        """Return whether the API server would store the same for two statuses of a kind.

        One with older kinds stores no field that they do not know: what differs in these alone
        would be applied for ever.
        """
        if kind not in self._known:
            return before == after
        dumped = (
            each.model_dump(mode="json", by_alias=True, exclude_none=True)
            for each in (before, after)
        )
        stored_before, stored_after = (_pruned(each, self._known[kind]) for each in dumped)
        return stored_before == stored_after

    async def _apply(
        self, key: objects.ObjectKey, stored: store.Stored, told: Mapping[str, Any]
    ) -> Manifest:
        known = self._known.get(key.kind)
        kept = told if known is None else _pruned(told, known)
        return await self._api.apply_status({**_document(key, stored), "status": kept})


def is_finalizer_wanted(found: objects.AnyObject) -> bool:
    """Return whether an object must not go before its data has, or what it has begun is undone."""
    match found.spec:
        case hudi_table.HudiTableSpec() as spec:
            return spec.deletion_policy is hudi_table.DeletionPolicy.DELETE
        case savepoint.SavepointSpec() as spec:
            return spec.deletion_policy is savepoint.DeletionPolicy.DELETE
        case index_request.IndexRequestSpec() as spec:
            assert isinstance(found.status, index_request.IndexRequestStatus)
            is_dropped = spec.deletion_policy is index_request.DeletionPolicy.DROP
            return is_dropped or found.status.is_unfinished
    return False


async def known_fields(server: api.Api) -> Known:
    """Return what the API server knows of statuses; an older one than ours does not know all.

    A field that it does not know would make it refuse the whole status.

    Raises:
        ApiError: It does not tell.
    """
    try:
        document = await server.read(_SCHEMAS)
    except api_errors.NotFoundError:
        return {}
    found: dict[str, Mapping[str, Any]] = {}
    for schema in document.get("components", {}).get("schemas", {}).values():
        for each in schema.get("x-kubernetes-group-version-kind", ()):
            status = schema.get("properties", {}).get("status")
            if each.get("group") == group.GROUP and status is not None:
                found[each["kind"]] = status
    return found


def unknown_fields(known: Known) -> list[str]:
    """Return the fields of statuses that the API server does not know, as `Kind.status.field`."""
    return [
        f"{resource.kind}.status.{name}"
        for resource in resources.OURS
        if resource.kind in known
        for name in _names(resource.kind)
        if name not in known[resource.kind].get("properties", {})
    ]


def _names(kind: str) -> list[str]:
    fields = kinds.BY_NAME[kind].status.model_fields
    return [info.alias or name for name, info in fields.items()]


def _document(key: objects.ObjectKey, stored: store.Stored) -> Manifest:
    return {
        "apiVersion": group.API_VERSION,
        "kind": key.kind,
        "metadata": {
            "name": key.name,
            "namespace": key.namespace,
            "uid": stored.uid,
            "resourceVersion": str(stored.version),
        },
    }


def _pruned(value: object, schema: Mapping[str, Any]) -> object:
    """Return a value without the fields that a schema does not know."""
    if isinstance(value, Mapping):
        properties = schema.get("properties")
        if properties is None:
            return value
        return {
            key: _pruned(part, properties[key]) for key, part in value.items() if key in properties
        }
    if isinstance(value, list) and "items" in schema:
        return [_pruned(part, schema["items"]) for part in value]
    return value
