"""Logging in: where the API server is, and by which credentials.

The package `kubernetes` reads the account of our pod, or a kubeconfig with everything that it may
name: a token, a certificate, a program that prints either of them (`exec`), OpenID Connect. One
`Logins` serves all clients of a process, Kopf's watches included: a program runs once for all.

A `Connection` is immutable. Credentials that say when they expire are renewed before that, beside
the requests; all others when they are refused. The token of a pod is read again every minute.
"""

import asyncio
import contextlib
import datetime
import logging
import os
import pathlib
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

import aiohttp
import yaml
from kubernetes.aio import client
from kubernetes.aio.config import ConfigException, incluster_config, kube_config, openid

from hoodie import clock, errors

logger = logging.getLogger(__name__)

TOKEN: Final = "BearerToken"  # noqa: S105 - the package's name of the header, not a token
_CONNECTIONS_MAX: Final = 32
_LOGIN_S: Final = 30.0
_RETRY_S: Final = 10.0
_EARLY_MAX_S: Final = 60.0
_EARLY_PART: Final = 0.2
"""Of the life of credentials is left when they are renewed, but at most `_EARLY_MAX_S`."""
_COMPLAINT_LENGTH_MAX: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Connection:
    """How the API server is reached.

    Attributes:
        configuration: For the package's clients; nobody changes it.
        expires: When the credentials end; None if that is not known.
    """

    configuration: client.Configuration
    expires: datetime.datetime | None = None


class Login(Protocol):
    """Returns the connection to use now."""

    async def __call__(self, refused: Connection | None = None) -> Connection:
        """Return a connection, the same as before while it can be used.

        Args:
            refused: One whose credentials the API server refused: another one is needed.

        Raises:
            InvalidInputError: There is none, or it cannot be used.
        """
        ...


class Logins:
    """A `Login` that reads the environment; at most one attempt is under way."""

    def __init__(
        self,
        environ: Mapping[str, str] = os.environ,
        our_clock: clock.Clock | None = None,
    ) -> None:
        """Read nothing yet.

        Args:
            environ: Names the API server of a pod, or kubeconfigs.
            our_clock: By which credentials expire; the system's by default.
        """
        self._environ = environ
        self._clock = our_clock or clock.SystemClock()
        self._current: Connection | None = None
        self._renew_ms: float | None = None
        self._attempt: asyncio.Task[Connection] | None = None
        self._waiting = 0

    async def __call__(self, refused: Connection | None = None) -> Connection:
        """Return the connection to use now; see `Login`."""
        current = self._current
        now_ms = self._clock.now_ms()
        if current is None or current is refused or _is_expired(current, now_ms):
            return await self._await_attempt()
        if self._renew_ms is not None and now_ms >= self._renew_ms:
            # Requests do not wait for it: the old credentials are still good.
            self._begin_attempt()
        return current

    async def _await_attempt(self) -> Connection:
        self._waiting += 1
        try:
            async with asyncio.timeout(_LOGIN_S):
                # Not cancelled with its first caller: the next one would run the program again.
                return await asyncio.shield(self._begin_attempt())
        except TimeoutError as error:
            raise errors.InvalidInputError(
                f"the kubeconfig's program or OpenID Connect provider gave no credentials within "
                f"{_LOGIN_S:.0f} s"
            ) from error
        finally:
            self._waiting -= 1

    def _begin_attempt(self) -> asyncio.Task[Connection]:
        if self._attempt is None:
            self._attempt = asyncio.create_task(self._log_in())
            self._attempt.add_done_callback(self._end_attempt)
        return self._attempt

    async def _log_in(self) -> Connection:
        found = await _connection(self._environ)
        now_ms = self._clock.now_ms()
        left_ms = None if found.expires is None else found.expires.timestamp() * 1000 - now_ms
        if left_ms is not None and left_ms <= 0:
            logger.warning("new credentials have expired already, by the clock of this machine")
            found, left_ms = Connection(configuration=found.configuration), None
        self._current = found
        self._renew_ms = None
        if left_ms is not None:
            self._renew_ms = now_ms + left_ms - min(_EARLY_MAX_S * 1000, left_ms * _EARLY_PART)
        return found

    def _end_attempt(self, attempt: asyncio.Task[Connection]) -> None:
        self._attempt = None
        error = None if attempt.cancelled() else attempt.exception()
        if error is None or self._waiting:
            return
        # Who waits raises it.
        logger.warning("the credentials could not be renewed: %s", error)
        self._renew_ms = self._clock.now_ms() + _RETRY_S * 1000


def _is_expired(connection: Connection, now_ms: int) -> bool:
    return connection.expires is not None and connection.expires.timestamp() * 1000 <= now_ms


async def authorization(configuration: client.Configuration) -> str:
    """Return the header of that name; empty if there is none.

    Raises:
        InvalidInputError: The token of the pod's account cannot be read.
    """
    try:
        found = await configuration.get_api_key_with_prefix(TOKEN)
    except (ConfigException, OSError) as error:
        raise errors.InvalidInputError(
            f"the token of the account cannot be read: {_reason(error)}"
        ) from None
    # Files often end with a newline, which no header may have.
    return (found or "").strip()


async def _connection(environ: Mapping[str, str]) -> Connection:
    """Return a connection, everything read anew and proved to be usable.

    Raises:
        InvalidInputError: There is none, or it cannot be used.
    """
    configuration = client.Configuration(connection_pool_maxsize=_CONNECTIONS_MAX)
    with _complaints() as complaints:
        try:
            expires = await _load(environ, configuration)
            # A kubeconfig may name anything as a certificate.
            client.ApiClient(configuration)
        except errors.InvalidInputError:
            raise
        except _UNUSABLE as error:
            raise errors.InvalidInputError(
                f"the account or kubeconfig cannot be used: {_reason(error)}"
            ) from None
    has_credentials = TOKEN in configuration.api_key or configuration.cert_file
    # What listens on this machine alone may be a proxy that needs none.
    if not has_credentials and not configuration.host.startswith("http://"):
        told = f": {complaints[-1]}" if complaints else ""
        raise errors.InvalidInputError(
            f"the kubeconfig has no credentials for {configuration.host} that can be used, "
            f"expected a token, a certificate, a name, or a program that gives them{told}"
        )
    return Connection(configuration=configuration, expires=expires)


async def _load(
    environ: Mapping[str, str], configuration: client.Configuration
) -> datetime.datetime | None:
    """Fill in a configuration; return when its credentials expire."""
    account = _account(environ)
    if account is not None:
        account.load_and_set(configuration)
        return None
    merged = kube_config.KubeConfigMerger(_kubeconfigs(environ))

    def save(_: object) -> None:
        # A provider may take a refresh token once only, and gives the next one.
        try:
            merged.save_changes()
        except OSError as error:
            logger.warning("the kubeconfig cannot keep the new refresh token: %s", error)

    loader = kube_config.KubeConfigLoader(
        config_dict=merged.config, config_base_path=None, config_persister=save
    )
    await loader.load_and_set(configuration)
    expires: datetime.datetime | None = getattr(loader, "exec_plugin_expiry", None)
    return expires


def _account(environ: Mapping[str, str]) -> incluster_config.InClusterConfigLoader | None:
    """Return what reads the account of our pod; None outside of pods, and without one."""
    token = incluster_config.SERVICE_TOKEN_FILENAME
    if not environ.get(incluster_config.SERVICE_HOST_ENV_NAME) or not pathlib.Path(token).exists():
        return None
    return incluster_config.InClusterConfigLoader(
        token_filename=token,
        cert_filename=incluster_config.SERVICE_CERT_FILENAME,
        environ=environ,
    )


def _kubeconfigs(environ: Mapping[str, str]) -> str:
    """Return the paths of kubeconfigs, of which one at least is there."""
    found = environ.get("KUBECONFIG") or str(pathlib.Path.home() / ".kube" / "config")
    if not any(pathlib.Path(each).expanduser().exists() for each in found.split(os.pathsep)):
        raise errors.InvalidInputError(
            "no way to an API server is known, expected to run in a pod with an account, or a "
            f"kubeconfig (KUBECONFIG, else ~/.kube/config): {found}: No such file or directory"
        )
    return found


class _Issuer(openid.OpenIDRequestor):  # type: ignore[misc] # mypy skips the package
    """Verifies the provider's certificate, by the system's authorities where none is named.

    The package does not, before it sends the client's secret and the refresh token.
    """

    def _client_session(self) -> aiohttp.ClientSession:
        secret = aiohttp.encode_basic_auth(self._client_id, self._client_secret)
        trusted = ssl.create_default_context(cafile=self._ssl_ca_cert)
        return aiohttp.ClientSession(
            headers={**self._default_headers, "Authorization": secret},
            connector=aiohttp.TCPConnector(ssl=trusted),
            raise_for_status=True,
            trust_env=True,
        )


kube_config.OpenIDRequestor = _Issuer


@contextlib.contextmanager
def _complaints() -> Iterator[list[str]]:
    """Collect what the package logs: why a program failed it does not raise."""
    found: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: found.append(_reason(record.getMessage()))  # type: ignore[method-assign] # one line instead of a class
    kube_config.logger.addHandler(handler)
    kube_config.logger.propagate = False
    try:
        yield found
    finally:
        kube_config.logger.removeHandler(handler)
        kube_config.logger.propagate = True


def _reason(error: Exception | str) -> str:
    """Return why something cannot be used, in one line and without secrets."""
    if isinstance(error, LookupError | TypeError | AttributeError):
        return "it lacks what its current context names, or is not a kubeconfig at all"
    text = " ".join(str(error).split()) or type(error).__name__
    if text.startswith("Invalid kube-config file"):
        # It goes on with all that stands in the place, credentials included.
        text = text.partition(" in ")[0]
    return text[:_COMPLAINT_LENGTH_MAX]


_UNUSABLE = (
    ConfigException,
    OSError,
    aiohttp.ClientError,
    yaml.YAMLError,
    # A provider of a cloud whose library is not there.
    ImportError,
    # What has another shape than a kubeconfig.
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
)
