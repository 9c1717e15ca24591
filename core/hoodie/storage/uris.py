"""Where a table is: its URI taken apart, and one form of it, so that equal tables have equal URIs.

A local path is given plainly (`/data/a b`, `data`) or as a `file:` URI, where `%` begins an escape.
The normal form escapes `%` alone, so it reads back as the same path. The URI of an object store is
taken as it stands, as the stores' own tools and Hadoop do: keys may hold `%`.
"""

import re
import urllib.parse
from dataclasses import dataclass

from hoodie import errors

LOCAL = "file"
MEMORY = "memory"
OBJECT_STORES = frozenset({"s3", "gs", "az", "abfs", "abfss"})
_AZURE_FILE_SYSTEMS = frozenset({"abfs", "abfss"})
_ALIASES = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "azure": "az"}
_URI = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<authority>[^/]*)(?P<path>.*)", re.DOTALL
)
_WITHOUT_SLASHES = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):(?P<rest>.*)", re.DOTALL)
_AUTHORITY = re.compile(r"(?:[A-Za-z0-9_.-]+@)?[A-Za-z0-9_.-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """A place that can hold a table.

    Attributes:
        scheme: `file`, `memory` or an object store's, aliases replaced.
        authority: The bucket or container, a memory store's name; empty for files.
        path: Names joined by single slashes, no slash at either end; for files, absolute but for
            the slash it begins with, links not resolved.
    """

    scheme: str
    authority: str
    path: str

    def __str__(self) -> str:
        path = self.path.replace("%", "%25") if self.scheme == LOCAL else self.path
        return f"{self.scheme}://{self.authority}/{path}".rstrip("/")

    @property
    def plain_text(self) -> str:
        """The URI with nothing escaped, as Hadoop writes a path; Apache Hudi hashes this form."""
        return f"{self.scheme}://{self.authority}/{self.path}".rstrip("/")

    def is_within(self, other: "Location") -> bool:
        """Whether this is the other place or lies below it; links are not looked at."""
        if (self.scheme, self.authority) != (other.scheme, other.authority):
            return False
        return other.path in ("", self.path) or self.path.startswith(f"{other.path}/")


def parse(uri: str, *, working_directory: str) -> Location:
    """Take a URI or a local path apart.

    Args:
        uri: As a user writes it.
        working_directory: What a relative local path is relative to.

    Raises:
        InvalidInputError: It is empty, malformed, or holds credentials, which are not repeated.
        UnsupportedError: No storage has its scheme.
    """
    if "\0" in uri or not uri:
        raise errors.InvalidInputError(f"{uri!r} is not a table location: expected a path or a URI")
    if uri.startswith("file:"):
        return _local(_file_path(uri))
    match = _URI.fullmatch(uri)
    if match is None:
        _refuse_missing_slash(uri)
        return _local(uri if uri.startswith("/") else f"{working_directory}/{uri}")
    scheme = _ALIASES.get(match["scheme"].lower(), match["scheme"].lower())
    if scheme != MEMORY and scheme not in OBJECT_STORES:
        known = ", ".join(sorted({LOCAL, MEMORY, *OBJECT_STORES}))
        raise errors.UnsupportedError(f"unsupported scheme {scheme}: expected one of {known}")
    if _AUTHORITY.fullmatch(match["authority"]) is None:
        # A secret with a slash in it is cut there, before its @.
        shown = re.sub(r".*[@:].*", "***", match["authority"])
        raise errors.InvalidInputError(
            f"{scheme}://{shown}/ names no bucket: expected its name without credentials"
        )
    _check_account(scheme, match["authority"])
    parts = [part for part in match["path"].split("/") if part]
    if any(part in {".", ".."} for part in parts):
        raise errors.InvalidInputError(f"{uri!r} has a '.' or '..' in its path")
    return Location(scheme=scheme, authority=match["authority"], path="/".join(parts))


def _refuse_missing_slash(text: str) -> None:
    """Refuse a URI that lacks a slash; it would be taken for a local folder.

    Raises:
        InvalidInputError: It begins as a URI does.
    """
    match = _WITHOUT_SLASHES.fullmatch(text)
    if match is None:
        return
    scheme, rest = match["scheme"].lower(), match["rest"]
    is_known = _ALIASES.get(scheme, scheme) in {MEMORY, *OBJECT_STORES}
    if is_known or rest.startswith("/"):
        # What stands before an @ may be a secret.
        meant = "BUCKET/PATH" if "@" in rest else rest.lstrip("/")
        raise errors.InvalidInputError(
            f"a URI needs two slashes behind {scheme}: write {scheme}://{meant}, or begin with ./ "
            "for a local folder of that name"
        )


def _check_account(scheme: str, authority: str) -> None:
    """Refuse an account of Azure without its domain.

    Raises:
        InvalidInputError: The message has the form that is expected.
    """
    container, at, host = authority.partition("@")
    if scheme in _AZURE_FILE_SYSTEMS and at and "." not in host:
        raise errors.InvalidInputError(
            f"{scheme}://{authority}/ does not name a storage account: write "
            f"{scheme}://{container}@{host}.dfs.core.windows.net/PATH"
        )


def _file_path(uri: str) -> str:
    rest = uri.removeprefix("file:")
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        if host not in {"", "localhost"}:
            raise errors.InvalidInputError(f"{uri!r} names another machine: expected file:///PATH")
        rest = slash + path
    if not rest.startswith("/"):
        raise errors.InvalidInputError(f"{uri!r} is not absolute: expected file:///PATH")
    try:
        path = urllib.parse.unquote(rest, errors="strict")
    except UnicodeDecodeError as error:
        raise errors.InvalidInputError(f"{uri!r} escapes bytes that are not UTF-8") from error
    if "\0" in path:
        raise errors.InvalidInputError(f"{uri!r} escapes a NUL")
    return path


def _local(absolute: str) -> Location:
    parts: list[str] = []
    for part in absolute.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in {"", "."}:
            parts.append(part)
    return Location(scheme=LOCAL, authority="", path="/".join(parts))
