"""A plain client of an API server for tests: nothing cached, and tried again only when told so.

Reads kubeconfig files as kind writes them (client certificates inline) and as ours are (tokens).
"""

import base64
import contextlib
import http.client
import json
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import yaml

Json = dict[str, Any]

APPLY: Final = "application/apply-patch+yaml"
MERGE: Final = "application/merge-patch+json"
_TIMEOUT_S = 30
_PAUSE_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the API server said."""

    status: int
    body: Json

    @property
    def message(self) -> str:
        """The sentence of a refusal."""
        return str(self.body.get("message", ""))

    @property
    def is_accepted(self) -> bool:
        return self.status < http.client.BAD_REQUEST


class RefusedError(Exception):
    """A request that a test relies on was not granted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """One account's way to one API server.

    Attributes:
        server: The URL.
        ca: Whose certificate to trust, as PEM.
        tls: That trust, and a client certificate if the account has one.
        token: What the account shows else.
    """

    server: str
    ca: str | None
    tls: ssl.SSLContext
    token: str | None

    def request(
        self, method: str, path: str, body: object = None, content_type: str = "application/json"
    ) -> Answer:
        """Ask once and return the answer, whatever it is."""
        with contextlib.closing(self._connection(_TIMEOUT_S)) as connection:
            return self._ask(connection, method, path, body, content_type)

    @contextlib.contextmanager
    def creating(self, path: str) -> Iterator[Callable[[Json], Answer]]:
        """Give what creates objects in a collection over one connection: for thousands of them."""
        with contextlib.closing(self._connection(_TIMEOUT_S)) as connection:
            yield lambda body: self._ask(connection, "POST", path, body, "application/json")

    def _ask(
        self,
        connection: http.client.HTTPSConnection,
        method: str,
        path: str,
        body: object,
        content_type: str,
    ) -> Answer:
        data = None if body is None else json.dumps(body)
        connection.request(method, path, data, self._headers(content_type))
        response = connection.getresponse()
        try:
            text = response.read().decode()
        except http.client.IncompleteRead as error:
            # As any other end of the server, which those who wait for another one expect.
            raise ConnectionError(f"{method} {path}: the answer ended early") from error
        try:
            parsed = json.loads(text)
        except ValueError:
            parsed = {"message": text}
        return Answer(status=response.status, body=parsed)

    def get(self, path: str) -> Json:
        """Return what lies at a path.

        Raises:
            RefusedError: The API server does not give it.
        """
        return self._granted("GET", path)

    def create(self, path: str, body: Json) -> Json:
        """Create an object in a collection; raises as `get`."""
        return self._granted("POST", path, body)

    def delete(self, path: str) -> Json:
        """Delete an object; raises as `get`."""
        return self._granted("DELETE", path)

    def apply(self, path: str, body: Json, manager: str = "tests") -> Json:
        """Apply an object server-side; raises as `get`."""
        query = urlencode({"fieldManager": manager, "force": "true"})
        return self._granted("PATCH", f"{path}?{query}", body, APPLY)

    def merge(self, path: str, body: Json) -> Json:
        """Change fields of an object; raises as `get`."""
        return self._granted("PATCH", path, body, MERGE)

    def is_there(self, path: str) -> bool:
        """Return whether an object exists, or an address answers."""
        return self.request("GET", path).is_accepted

    def watch(self, path: str, timeout_s: float = _TIMEOUT_S) -> Iterator[Json]:
        """Yield the events of a collection as they come, until the server or the time ends it."""
        connection = self._connection(timeout_s)
        try:
            glue = "&" if "?" in path else "?"
            connection.request("GET", f"{path}{glue}watch=true", None, self._headers(None))
            response = connection.getresponse()
            while line := response.readline():
                yield json.loads(line)
        finally:
            connection.close()

    def _granted(
        self, method: str, path: str, body: object = None, content_type: str = "application/json"
    ) -> Json:
        answer = self.request(method, path, body, content_type)
        end_s = time.monotonic() + _TIMEOUT_S
        # "storage is (re)initializing", for one, in the first moments of a kind.
        while answer.status == http.HTTPStatus.TOO_MANY_REQUESTS and time.monotonic() < end_s:
            time.sleep(_PAUSE_S)
            answer = self.request(method, path, body, content_type)
        if not answer.is_accepted:
            raise RefusedError(f"{method} {path}: {answer.status} {answer.message}")
        return answer.body

    def _connection(self, timeout_s: float) -> http.client.HTTPSConnection:
        host = urlsplit(self.server).netloc
        return http.client.HTTPSConnection(host, timeout=timeout_s, context=self.tls)

    def _headers(self, content_type: str | None) -> dict[str, str]:
        headers = {"Accept": "application/json"}
        if content_type is not None:
            headers["Content-Type"] = content_type
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        return headers


def connect(kubeconfig: Path) -> Api:
    """Return the client of a kubeconfig's current context."""
    config = yaml.safe_load(kubeconfig.read_text())
    context = _named(config["contexts"], config["current-context"])["context"]
    cluster = _named(config["clusters"], context["cluster"])["cluster"]
    user = _named(config["users"], context["user"])["user"]
    ca = _content(cluster, "certificate-authority", kubeconfig)
    tls = ssl.create_default_context(cadata=ca)
    if certificate := _content(user, "client-certificate", kubeconfig):
        key = _content(user, "client-key", kubeconfig)
        # The ssl module takes client certificates from files only.
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
            file.write(f"{certificate}\n{key}\n")
            file.flush()
            tls.load_cert_chain(file.name)
    return Api(server=cluster["server"], ca=ca, tls=tls, token=user.get("token"))


def with_token(server: str, ca: str | None, token: str) -> Api:
    """Return the client of an account that shows a token."""
    tls = ssl.create_default_context(cadata=ca)
    return Api(server=server, ca=ca, tls=tls, token=token)


def is_true(found: Json, condition: str) -> bool:
    """Return whether a condition stands in an object's status."""
    # Before the first one some objects hold null, others nothing.
    conditions = found.get("status", {}).get("conditions") or []
    return any(each["type"] == condition and each["status"] == "True" for each in conditions)


def _named(entries: list[Json], name: str) -> Json:
    (entry,) = (entry for entry in entries if entry["name"] == name)
    return entry


def _content(entry: Json, field: str, kubeconfig: Path) -> str | None:
    """Return a PEM text that stands inline or in a file, or None."""
    if data := entry.get(f"{field}-data"):
        return base64.b64decode(data).decode()
    if path := entry.get(field):
        return (kubeconfig.parent / path).read_text()
    return None
