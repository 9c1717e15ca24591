"""Opening the storage that a table's URI names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hoodie import deferred, errors
from hoodie.storage import local, uris
from hoodie.storage.protocol import Storage

with deferred.imports():
    from hoodie.storage import memory, objects, store_options


def open_storage(
    uri: str,
    allowed_roots: Sequence[str] = (),
    options: store_options.StorageOptions | None = None,
) -> Storage:
    """Open the storage of a table; nothing is read, and nothing need be there.

    Args:
        uri: A local path, or a URI: `file:`, `s3:`, `s3a:`, `gs:`, `az:`, `abfss:`; `memory://NAME`
            is a store of this process.
        allowed_roots: Paths or URIs of which the table must be one or lie below one, links
            resolved; none for no limit.
        options: Credentials and endpoint of an object store, instead of the environment; None for
            what the URI brings along (`store_options.OptionedUri`), if it does.

    Raises:
        InvalidInputError: The URI is malformed, or outside the allowed roots; or it has options and
            is not of an object store, or one is not known.
        UnsupportedError: No storage has its scheme.
    """
    location = resolve(uri)
    check_allowed(location, allowed_roots)
    if location.scheme in uris.OBJECT_STORES:
        options = options or store_options.of_uri(uri)
    elif options:
        raise errors.InvalidInputError(
            f"{location} takes no storage_options: they are for object stores, such as s3://"
        )
    if location.scheme == uris.LOCAL:
        return local.LocalStorage(str(location))
    if location.scheme == uris.MEMORY:
        name = f"{location.authority}/{location.path}"
        return memory.MemoryStorage(memory.named_store(name), uri=str(location))
    return objects.ObjectStorage(str(location), options=options)


def check_allowed(location: uris.Location, allowed_roots: Sequence[str]) -> None:
    """Refuse a place, links resolved, that is in none of some roots; none for no limit.

    Raises:
        InvalidInputError: It is in none of them.
    """
    if allowed_roots and not any(location.is_within(resolve(root)) for root in allowed_roots):
        shown = "root" if len(allowed_roots) == 1 else "roots"
        raise errors.InvalidInputError(
            f"{location} lies outside the allowed {shown} {', '.join(allowed_roots)}"
        )


def resolve(uri: str) -> uris.Location:
    """Return the place that a URI or a local path names, symbolic links of local ones resolved.

    Raises:
        InvalidInputError: It is malformed.
        UnsupportedError: No storage has its scheme.
    """
    return local.resolved(uris.parse(uri, working_directory=str(Path.cwd())))
