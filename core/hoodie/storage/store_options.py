"""Credentials and endpoints of object stores that a caller gives, instead of the environment.

Keys are those of the stores' own environment variables in lower case (`aws_region`,
`google_service_account`, `azure_storage_account_name`), with or without the store's name before
them. Values stand in no message.

Tasks take a table's URI to wherever they run, and open it there: an `OptionedUri` brings the
options along.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass

import obstore.store
from obstore import exceptions

from hoodie import errors

StorageOptions = Mapping[str, str]

_PREFIXES = ("aws_", "google_", "azure_")
_OF_CLIENTS = frozenset(
    {
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "http1_only",
        "http2_only",
        "pool_idle_timeout",
        "pool_max_idle_per_host",
        "proxy_ca_certificate",
        "proxy_excludes",
        "proxy_url",
        "read_timeout",
        "root_certificate",
        "timeout",
        "user_agent",
    }
)
"""Options of any store's HTTP client; among those of a store obstore does not find them."""

_AS_ENVIRONMENT = "the names of the store's environment variables in lower case, such as aws_region"


class OptionedUri(str):
    """The URI of a table, and the options to open it with; it pickles with them.

    Attributes:
        options: Not empty.
    """

    __slots__ = ("options",)

    options: StorageOptions

    @classmethod
    def of(cls, uri: str, options: StorageOptions) -> "OptionedUri":
        """Put the two together."""
        made = cls(uri)
        made.options = options
        return made


def of_uri(uri: str) -> StorageOptions | None:
    """Return the options that a URI brings along; None for none."""
    return uri.options if isinstance(uri, OptionedUri) else None


@dataclass(frozen=True, slots=True)
class _Sorted:
    """Options as obstore takes them."""

    store: Mapping[str, str]
    client: Mapping[str, str]


def open_store(bucket: str, options: StorageOptions | None = None) -> obstore.store.ObjectStore:
    """Open a bucket or container.

    Args:
        bucket: Its URI, without a path.
        options: Take the place of what the environment says; None for none.

    Raises:
        InvalidInputError: An option is not known, or its value is not of its kind.
        ConfigurationError: The environment and the options do not say how to open the bucket.
    """
    found = _sorted(options or {})
    try:
        opened: obstore.store.ObjectStore = obstore.store.from_url(
            bucket,
            config=dict(found.store),  # type: ignore[call-overload] # of any store
            client_options=_client_options(found.client),
        )
    except exceptions.UnknownConfigurationKeyError as error:
        raise errors.InvalidInputError(
            f"storage_options of {bucket}: {_first_line(error)} Expected {_AS_ENVIRONMENT}"
        ) from None
    except (exceptions.BaseError, ValueError) as error:
        message = f"cannot open {bucket}: {_first_line(error)}"
        if options and any(each and each in message for each in options.values()):
            message = (
                f"cannot open {bucket} with the storage options {', '.join(sorted(options))}: a "
                "value is malformed"
            )
        raise errors.ConfigurationError(message) from None
    return opened


def check(options: object) -> None:
    """Refuse what is not a mapping of texts.

    Raises:
        InvalidInputError: It is not.
    """
    if not isinstance(options, Mapping):
        raise errors.InvalidInputError(
            f"storage_options is a {type(options).__name__}, expected a dict of texts"
        )
    for key, value in options.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise errors.InvalidInputError(
                f"storage_options[{key!r}] is a {type(value).__name__}, expected a text, such as "
                "'true'"
            )


def _sorted(options: StorageOptions) -> _Sorted:
    check(options)
    store, client = {}, {}
    for key, value in options.items():
        name = key.lower()
        bare = next((name.removeprefix(each) for each in _PREFIXES if name.startswith(each)), name)
        if bare in _OF_CLIENTS:
            client[bare] = value
        else:
            store[name] = value
    return _Sorted(store, client)


def _client_options(given: Mapping[str, str]) -> Mapping[str, str] | None:
    """Return the options of the HTTP client: obstore drops the environment's once it gets some."""
    if not given:
        return None
    of_environment = {
        name: value
        for name in _OF_CLIENTS
        for prefix in _PREFIXES
        if (value := os.environ.get(f"{prefix}{name}".upper())) is not None
    }
    return of_environment | dict(given)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
