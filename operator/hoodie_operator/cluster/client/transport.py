"""One request to the API server, by the package `kubernetes`: plain documents in and out.

Its `ApiClient` adds credentials and sends; its models, which know each kind, are not imported: they
cost much memory and time, and know nothing of our kinds.
"""

import contextlib
import json
import logging
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp
from kubernetes.aio import client

from hoodie import errors
from hoodie_operator.api import resources
from hoodie_operator.api.resources import Manifest
from hoodie_operator.cluster.client import api_errors, logins

logger = logging.getLogger(__name__)

_JSON: Final = "application/json"
_ERROR: Final = 400
_TEXT_LENGTH_MAX: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is asked.

    Attributes:
        method: Of HTTP.
        path: On the server.
        query: Parameters.
        body: A document; None for none.
        content_type: Of the body.
        accept: Which form of answer is wanted.
    """

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    content_type: str = _JSON
    accept: str = _JSON

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What was answered.

    Attributes:
        status: Of HTTP.
        reason: The status in words.
        retry_after: When the server wants to be asked again; empty if it does not say.
        content: The body.
    """

    status: int
    reason: str
    retry_after: str
    content: bytes

    def document(self, request: Request) -> Manifest:
        """Return the document that was wanted.

        Raises:
            ApiError: It was refused, or is no document.
        """
        try:
            document: Manifest = json.loads(self.content)
        except ValueError:
            text = self.content[:_TEXT_LENGTH_MAX].decode(errors="replace").strip()
            document = {"message": text}
            if self.status < _ERROR:
                raise api_errors.UnavailableError(f"{request}: the answer is not JSON") from None
        if self.status < _ERROR:
            return document
        message = f"{request}: {self.status} {document.get('message') or self.reason}"
        causes = (document.get("details") or {}).get("causes") or ()
        reasons = [cause.get("reason", "") for cause in causes]
        raise api_errors.of(self.status, document.get("reason") or "", message, reasons)


@dataclass(slots=True, kw_only=True, eq=False)
class _Opened:
    """A client of one connection, and how many requests it has under way."""

    connection: logins.Connection
    client: client.ApiClient
    uses: int = 0


class Transport:
    """Sends requests over the connection that a login gives; a pool of its own."""

    def __init__(self, login: logins.Login) -> None:
        """Open nothing yet."""
        self._login = login
        self._opened: _Opened | None = None
        self._refused: logins.Connection | None = None

    async def close(self) -> None:
        """Close the connections."""
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.client.close()

    @contextlib.asynccontextmanager
    async def opened(self) -> AsyncIterator[client.ApiClient]:
        """Give a client whose credentials are good, as far as is known.

        Raises:
            UnauthorizedError: There is no way to the API server now.
        """
        try:
            connection = await self._login(self._refused)
        except errors.InvalidInputError as error:
            # It was there when the process began, and may be written anew just now.
            raise api_errors.UnauthorizedError(str(error)) from error
        opened = self._opened
        if opened is None or opened.connection is not connection:
            before = opened
            made = client.ApiClient(connection.configuration)
            made.user_agent = resources.MANAGER
            self._opened = opened = _Opened(connection=connection, client=made)
            if before is not None and not before.uses:
                await before.client.close()
        opened.uses += 1
        try:
            yield opened.client
        except api_errors.UnauthorizedError:
            self._refused = connection
            raise
        finally:
            opened.uses -= 1
            # What still waits for an answer keeps its connection.
            if opened is not self._opened and not opened.uses:
                await opened.client.close()


async def send(sender: client.ApiClient, request: Request, timeout_s: float) -> Answer:
    """Send a request and return what is answered.

    aiohttp sends a GET, PUT or DELETE once more where the connection breaks before the answer: a
    change may then meet itself, as a conflict.

    Args:
        sender: The client.
        request: What is asked.
        timeout_s: For the whole answer.

    Raises:
        UnavailableError: No answer, or only part of one.
        UnauthorizedError: The credentials cannot be read.
    """
    headers = {"Accept": request.accept, "Content-Type": request.content_type}
    try:
        authorization = await logins.authorization(sender.configuration)
        if authorization:
            headers["Authorization"] = authorization
        method, url, headers, _, _ = await sender.param_serialize(
            request.method,
            request.path,
            query_params=list(request.query.items()),
            header_params=headers,
        )
        found = await sender.call_api(
            method,
            url,
            headers,
            body=request.body,
            _request_timeout=aiohttp.ClientTimeout(total=timeout_s),
        )
        async with found.response as response:
            return Answer(
                status=response.status,
                reason=response.reason or "",
                retry_after=response.headers.get("Retry-After", ""),
                content=await response.read(),
            )
    except errors.InvalidInputError as error:
        raise api_errors.UnauthorizedError(f"{request}: {error}") from error
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        why = str(error) or type(error).__name__
        raise api_errors.UnavailableError(f"{request}: {why}") from error
