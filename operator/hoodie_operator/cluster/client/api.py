"""Requests to the API server: plain manifests in and out, errors by class, retries with jitter."""

import asyncio
import contextlib
import itertools
import logging
import math
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kubernetes.aio import client as kubernetes

from hoodie import backoff, identity
from hoodie_operator.api import resources
from hoodie_operator.api.resources import Manifest, Resource
from hoodie_operator.cluster.client import api_errors, logins, transport

logger = logging.getLogger(__name__)

_METADATA_ALONE: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_APPLY: Final = "application/apply-patch+yaml"
_MERGE: Final = "application/merge-patch+json"
_PAGE: Final = 50
_SPREAD: Final = 0.5
"""Larger pages leave larger holes in memory once they are taken apart."""
_LISTINGS_MAX: Final = 5
_ASKED_AGAIN: Final = (
    api_errors.UnauthorizedError,
    api_errors.TooManyRequestsError,
    api_errors.UnavailableError,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How an answer is waited for.

    Attributes:
        timeout_s: For one answer.
        tries: In all, of what may be asked again.
        pause_s: Before the second try; it doubles, with jitter, and the server's own wish counts.
        pause_max_s: At most between two tries.
    """

    timeout_s: float = 30.0
    tries: int = 5
    pause_s: float = 0.2
    pause_max_s: float = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """All objects of a resource at one moment.

    Attributes:
        version: Of the moment.
        items: The objects.
    """

    version: int
    items: tuple[Manifest, ...]


class Api:
    """The API server. Every method raises an `api_errors.ApiError` that tells what was answered."""

    def __init__(
        self,
        login: logins.Login,
        *,
        patience: Patience = Patience(),
        random: identity.Random | None = None,
        on_answer: Callable[[str, int], None] = lambda method, status: None,
        change_s: Callable[[], float] = lambda: math.inf,
        creator: str = resources.MANAGER,
    ) -> None:
        """Take the way in; nothing is asked yet.

        Args:
            login: Gives the server and the credentials.
            patience: How answers are waited for.
            random: For jitter.
            on_answer: Hears method and HTTP status of every answer (0: none came).
            change_s: Asked before every try of a change: within how many seconds it has to be
                answered or given up; 0 for not to ask.
            creator: As whom it is recorded to have made an object.
        """
        self.login = login
        self._transport = transport.Transport(login)
        self._patience = patience
        self._random = random or identity.SystemRandom()
        self._on_answer = on_answer
        self._change_s = change_s
        self.creator = creator
        self._changes = 0

    @property
    def is_changing(self) -> bool:
        """Whether an answer to a change is waited for."""
        return self._changes > 0

    async def close(self) -> None:
        """Close the connections."""
        await self._transport.close()

    async def get(self, resource: Resource, namespace: str, name: str) -> Manifest | None:
        """Return an object; None when there is none."""
        try:
            return await self._ask(
                transport.Request(method="GET", path=resource.path(namespace, name))
            )
        except api_errors.NotFoundError:
            return None

    async def version(self, resource: Resource, namespace: str, name: str) -> str | None:
        """Return the version of an object, of which nothing else is sent; None when it is gone."""
        try:
            found = await self._ask(
                transport.Request(
                    method="GET", path=resource.path(namespace, name), accept=_METADATA_ALONE
                )
            )
        except api_errors.NotFoundError:
            return None
        return str(found["metadata"]["resourceVersion"])

    async def list(
        self, resource: Resource, namespace: str | None = None, labels: str = ""
    ) -> Listing:
        """Return all objects of a namespace, or of all, that a label selector chooses."""
        for left in range(_LISTINGS_MAX - 1, -1, -1):
            try:
                pages = [page async for page in self.pages(resource, namespace, labels)]
            except api_errors.GoneError:
                if not left:
                    raise
                logger.info("listing %s again: it took too long", resource)
            else:
                items = itertools.chain.from_iterable(page.items for page in pages)
                return Listing(version=pages[0].version, items=tuple(items))
        raise AssertionError("the last try returns or raises")

    async def some(
        self, resource: Resource, namespace: str, labels: str, fields: str = ""
    ) -> Sequence[Manifest]:
        """Return the first objects that selectors choose, by one request: a page of them at most.

        Args:
            resource: Of what.
            namespace: Where.
            labels: A label selector.
            fields: A field selector; empty for any.
        """
        async with contextlib.aclosing(self.pages(resource, namespace, labels, fields)) as pages:
            return (await anext(pages)).items

    async def pages(
        self,
        resource: Resource,
        namespace: str | None = None,
        labels: str = "",
        fields: str = "",
    ) -> AsyncGenerator[Listing]:
        """Yield what `list` returns part by part, so that never all of it is held at once.

        Raises:
            GoneError: It took too long: what comes next would be of another version.
        """
        query = {"limit": str(_PAGE)}
        if labels:
            query["labelSelector"] = labels
        if fields:
            query["fieldSelector"] = fields
        while True:
            page = await self._ask(
                transport.Request(method="GET", path=resource.path(namespace), query=query)
            )
            for each in page["items"]:
                # Who set which field is half of a listing, and nobody's question.
                each["metadata"].pop("managedFields", None)
                # Items of a list name no type of their own.
                each.update(apiVersion=resource.api_version, kind=resource.kind)
            yield Listing(version=resources.version_of(page), items=tuple(page["items"]))
            token = page["metadata"].get("continue")
            if not token:
                return
            query["continue"] = token

    async def create(self, manifest: Manifest) -> Manifest:
        """Create an object; one of that name must not be there.

        Raises:
            AlreadyExistsError: It is there, perhaps by an earlier try of this very call.
        """
        metadata = manifest["metadata"]
        path = resources.of(manifest).path(metadata["namespace"])
        return await self._ask(
            transport.Request(
                method="POST", path=path, query={"fieldManager": self.creator}, body=manifest
            )
        )

    async def replace(self, manifest: Manifest) -> Manifest:
        """Put an object in place of the version of it that the manifest names."""
        metadata = manifest["metadata"]
        path = resources.of(manifest).path(metadata["namespace"], metadata["name"])
        return await self._ask(transport.Request(method="PUT", path=path, body=manifest))

    async def apply(self, manifest: Manifest, manager: str = resources.MANAGER) -> Manifest:
        """Apply on the server's side what a manager wants of an object, created where missing.

        A manifest that names a version (`resourceVersion`) is applied on that one only.
        """
        return await self._apply(manifest, manager, "")

    async def apply_status(self, manifest: Manifest, manager: str = resources.MANAGER) -> Manifest:
        """Apply the status alone.

        Raises:
            NotFoundError: The object is not there.
        """
        return await self._apply(manifest, manager, "status")

    async def merge_patch(
        self, resource: Resource, namespace: str, name: str, patch: Mapping[str, Any]
    ) -> Manifest:
        """Change some fields of an object; with `metadata.uid` in the patch of that one only."""
        path = resource.path(namespace, name)
        return await self._ask(
            transport.Request(method="PATCH", path=path, body=patch, content_type=_MERGE)
        )

    async def delete(  # noqa: PLR0913 - what may be said of a deletion
        self,
        resource: Resource,
        namespace: str,
        name: str,
        *,
        uid: str | None = None,
        version: int | None = None,
        grace_s: int | None = None,
        propagation: str | None = None,
    ) -> None:
        """Have an object go; nothing when it is gone.

        Args:
            resource: Of what.
            namespace: Where.
            name: Which.
            uid: Of the one that is meant; another one of that name is a conflict.
            version: The one that is meant, where any other is a conflict.
            grace_s: For a Pod's processes to end.
            propagation: `Background`, `Foreground` or `Orphan`, for what it owns.

        Raises:
            ConflictError: Another one of that name, or version, is there.
        """
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        meant = {"uid": uid, "resourceVersion": None if version is None else str(version)}
        preconditions = {name: value for name, value in meant.items() if value is not None}
        if preconditions:
            options["preconditions"] = preconditions
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        if propagation is not None:
            options["propagationPolicy"] = propagation
        path = resource.path(namespace, name)
        try:
            await self._ask(transport.Request(method="DELETE", path=path, body=options))
        except api_errors.NotFoundError:
            return

    async def read(self, path: str) -> Manifest:
        """Return a document that is no object, such as a schema."""
        return await self._ask(transport.Request(method="GET", path=path))

    async def _apply(self, manifest: Manifest, manager: str, part: str) -> Manifest:
        metadata = manifest["metadata"]
        return await self._ask(
            transport.Request(
                method="PATCH",
                path=resources.of(manifest).path(metadata["namespace"], metadata["name"], part),
                query={"fieldManager": manager, "force": "true"},
                body=manifest,
                content_type=_APPLY,
            )
        )

    async def _ask(self, request: transport.Request) -> Manifest:
        """Ask until there is an answer, or patience ends.

        What is asked twice does no harm: all that is sent is conditional or comes to the same.
        """
        is_outcome_known = True
        for tried in range(1, self._patience.tries + 1):
            wish_s = 0.0
            try:
                async with self._transport.opened() as client:
                    answer = await self._answer(client, request)
                    wish_s = _wish_s(answer.retry_after)
                    return answer.document(request)
            except api_errors.ApiError as error:
                # What an earlier try has done, a later refusal does not undo.
                is_outcome_known = is_outcome_known and error.is_outcome_known
                error.is_outcome_known = is_outcome_known
                if tried == self._patience.tries or not isinstance(error, _ASKED_AGAIN):
                    raise
                logger.debug("asking again: %s", error)
            longest_s = self._patience.pause_max_s
            pause_s = backoff.growing(self._patience.pause_s, longest_s, tried)
            wait_s = max(min(wish_s, longest_s), pause_s)
            await asyncio.sleep(backoff.jittered(wait_s, self._random.uniform(), _SPREAD))
        raise AssertionError("the last try returns or raises")

    async def _answer(
        self, client: kubernetes.ApiClient, request: transport.Request
    ) -> transport.Answer:
        status = 0
        timeout_s = self._patience.timeout_s
        is_change = request.method != "GET"
        if is_change:
            timeout_s = min(timeout_s, self._change_s())
            if timeout_s <= 0:
                raise api_errors.NotLeadingError(
                    f"{request}: the lease is not held for certain any more"
                )
        self._changes += is_change
        try:
            answer = await transport.send(client, request, timeout_s)
            status = answer.status
            return answer
        finally:
            self._changes -= is_change
            self._on_answer(request.method, status)


def _wish_s(retry_after: str) -> float:
    """Return for how long the server wants to be left alone; 0 when it does not say."""
    return float(retry_after) if retry_after.isdecimal() else 0.0
