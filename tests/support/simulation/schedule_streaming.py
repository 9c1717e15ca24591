"""Writers of Apache Hudi in a simulated world that stream into the metadata table.

Such a writer opens the metadata table once its requested file is there (J1 of ADR 0032), and
completes by the properties as they were then. Nothing that it puts there says that it is of this
project: its heartbeat is empty, and so is its inflight file. All else it does as ours do.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import cast

from hoodie.storage.protocol import FileInfo, Storage
from hoodie.timeline import active, table_properties
from hoodie.transaction import layout

PREFIX = "wstream"
"""How the names of its processes begin."""


class StreamingStorage:
    """The storage as such a writer has it."""

    def __init__(self, inner: Storage, opened: Callable[[], bytes]) -> None:
        self._inner = inner
        self._opened = opened
        self._properties: bytes | None = None
        self._own: dict[str, bytes] = {}

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def create(self, path: str, content: bytes) -> object:
        if layout.HEARTBEATS in path or path.endswith(".inflight"):
            self._own[path] = content
            content = b""
        created = self._inner.create(path, content)
        if path.startswith(f"{active.DIRECTORY}/") and path.endswith(".requested"):
            self._properties = self._opened()
        return created

    def renew(self) -> None:
        """Forget the properties of a write that has ended."""
        self._properties = None

    def read(self, path: str, **rest: int) -> bytes:
        if path == table_properties.PATH and self._properties is not None:
            return self._properties
        return self._inner.read(path, **rest) or self._own.get(path, b"")

    def touch(self, path: str) -> FileInfo:
        info = self._inner.touch(path)
        return replace(info, size_bytes=len(self._own.get(path, b"")))

    def fetch(self, path: str) -> tuple[bytes, str]:
        content, version = self._inner.fetch(path)
        return content or self._own.get(path, b""), version


def streaming(inner: Storage, opened: Callable[[], bytes] | None = None) -> Storage:
    """Return a storage as such a writer has it.

    Args:
        inner: As others have it.
        opened: Returns the properties by which a write goes that begins now; those that there are
            by default.
    """
    read = opened or (lambda: inner.read(table_properties.PATH))
    return cast("Storage", StreamingStorage(inner, read))


def renew(storage: Storage) -> None:
    """Let a write begin by the properties that there are, if its writer is one that streams."""
    found: object = storage
    if isinstance(found, StreamingStorage):
        found.renew()


def is_one(storage: Storage) -> bool:
    """Return whether a storage is that of such a writer."""
    found: object = storage
    return isinstance(found, StreamingStorage)
