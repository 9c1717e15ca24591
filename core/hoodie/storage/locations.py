"""Opening the storage that a table's URI names."""

from collections.abc import Sequence
from pathlib import Path

from hoodie import errors
from hoodie.storage import local, memory, objects, uris
from hoodie.storage.protocol import Storage


def open_storage(uri: str, allowed_roots: Sequence[str] = ()) -> Storage:
    """Open the storage of a table; nothing is read, and nothing need be there.

    Args:
        uri: A local path, or a URI: `file:`, `s3:`, `s3a:`, `gs:`, `az:`, `abfss:`; `memory://NAME`
            is a store of this process.
        allowed_roots: Paths or URIs of which the table must be one or lie below one, links
            resolved; none for no limit.

    Raises:
        InvalidInputError: The URI is malformed, or outside the allowed roots.
        UnsupportedError: No storage has its scheme.
    """
    location = resolve(uri)
    check_allowed(location, allowed_roots)
    if location.scheme == uris.LOCAL:
        return local.LocalStorage(str(location))
    if location.scheme == uris.MEMORY:
        name = f"{location.authority}/{location.path}"
        return memory.MemoryStorage(memory.named_store(name), uri=str(location))
    return objects.ObjectStorage(str(location))


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
