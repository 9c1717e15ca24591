"""Opening the storage that a table's URI names."""

from pathlib import Path

from hoodie import errors
from hoodie.storage import local, memory, objects, uris
from hoodie.storage.protocol import Storage


def open_storage(uri: str, allowed_root: str | None = None) -> Storage:
    """Open the storage of a table; nothing is read, and nothing need be there.

    Args:
        uri: A local path, or a URI: `file:`, `s3:`, `s3a:`, `gs:`, `az:`, `abfss:`; `memory://NAME`
            is a store of this process.
        allowed_root: A path or URI that the table must be or lie below, links resolved.

    Raises:
        InvalidInputError: The URI is malformed, or outside the allowed root.
        UnsupportedError: No storage has its scheme.
    """
    location = resolve(uri)
    if allowed_root is not None and not location.is_within(resolve(allowed_root)):
        raise errors.InvalidInputError(f"{location} lies outside the allowed root {allowed_root}")
    if location.scheme == uris.LOCAL:
        return local.LocalStorage(str(location))
    if location.scheme == uris.MEMORY:
        name = f"{location.authority}/{location.path}"
        return memory.MemoryStorage(memory.named_store(name), uri=str(location))
    return objects.ObjectStorage(str(location))


def resolve(uri: str) -> uris.Location:
    """Return the place that a URI or a local path names, symbolic links of local ones resolved.

    Raises:
        InvalidInputError: It is malformed.
        UnsupportedError: No storage has its scheme.
    """
    return local.resolved(uris.parse(uri, working_directory=str(Path.cwd())))
