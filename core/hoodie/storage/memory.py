"""Tables in memory, for simulations and tests of everything above the storage.

A `MemoryStore` is the disk that several `MemoryStorage` share, as writers share a bucket. It keeps
the same promises as the others and passes the same contract tests.
"""

import bisect
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from hoodie import clock, errors
from hoodie.storage import new_files, paths
from hoodie.storage.protocol import FileInfo, NewFile


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    content: bytes
    info: FileInfo


class MemoryStore:
    """Files by path, with versions that never come twice; safe to share between threads."""

    def __init__(self, store_clock: clock.Clock | None = None) -> None:
        """Start empty, with the store's own clock: the machine's if none is given."""
        self.clock: clock.Clock = store_clock or clock.SystemClock()
        self.files: dict[str, _File] = {}
        self.lock = threading.Lock()
        self._version = 0
        self._sorted: list[str] = []  # All paths: a listing looks at those of its directory only.

    def put(self, path: str, content: bytes) -> FileInfo:
        """Put a file, whatever was there; the caller holds the lock."""
        self._version += 1
        info = FileInfo(
            path=path,
            size_bytes=len(content),
            modified_ms=self.clock.now_ms(),
            version=str(self._version),
        )
        if path not in self.files:
            bisect.insort(self._sorted, path)
        self.files[path] = _File(content=content, info=info)
        return info

    def remove(self, path: str) -> bool:
        """Remove a file; False when there was none. The caller holds the lock."""
        if self.files.pop(path, None) is None:
            return False
        del self._sorted[bisect.bisect_left(self._sorted, path)]
        return True

    def below(self, directory: str) -> list[str]:
        """Return the paths below a directory, sorted; the caller holds the lock."""
        if not directory:
            return self._sorted
        first = bisect.bisect_left(self._sorted, f"{directory}/")
        # The character that follows the slash.
        behind = bisect.bisect_left(self._sorted, f"{directory}0", first)
        return self._sorted[first:behind]


_NAMED: "weakref.WeakValueDictionary[str, MemoryStore]" = weakref.WeakValueDictionary()
_NAMED_LOCK = threading.Lock()


def named_store(name: str) -> MemoryStore:
    """Return this process's store of that name; it lives as long as somebody holds it."""
    with _NAMED_LOCK:
        store = _NAMED.get(name)
        if store is None:
            store = _NAMED[name] = MemoryStore()
        return store


class MemoryStorage:
    """One user's view of a store."""

    def __init__(self, store: MemoryStore | None = None, *, uri: str = "memory://table") -> None:
        """Take the store, a fresh one if none is given, and the URI that it is to tell."""
        self._store = store or MemoryStore()
        self._uri = uri

    @property
    def uri(self) -> str:
        """The URI it was given."""
        return self._uri

    @property
    def has_atomic_listings(self) -> bool:
        """True: the store is locked meanwhile."""
        return True

    @property
    def request_time_ms(self) -> int:
        """0: it is gone with the process."""
        return 0

    def list(self, directory: str, *, is_recursive: bool = False) -> "list[FileInfo]":
        """Return the files in a directory, sorted by path."""
        name = paths.checked_directory(directory)
        begin = len(name) + 1 if name else 0
        with self._store.lock:
            return [
                self._store.files[path].info
                for path in self._store.below(name)
                if is_recursive or "/" not in path[begin:]
            ]

    def names(self, directory: str) -> Sequence[str]:
        """Return the names in a directory."""
        name = paths.checked_directory(directory)
        begin = len(name) + 1 if name else 0
        with self._store.lock:
            found = [path[begin:].partition("/")[:2] for path in self._store.below(name)]
        return list(dict.fromkeys(map("".join, found)))

    def names_by_directory(
        self, directory: str, *, is_recursive: bool = False
    ) -> Mapping[str, Sequence[str]]:
        """Return the names of files by directory."""
        found = self.list(directory, is_recursive=is_recursive)
        return paths.by_directory(info.path for info in found)

    def stat(self, path: str) -> FileInfo:
        """Return what is known of a file."""
        return self._find(path).info

    def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        """Return a file's bytes, or a range of them, which ends where the file does."""
        paths.check_range(path, offset, length)
        content = self._find(path).content
        return content[offset:] if length is None else content[offset : offset + length]

    def read_all(self, paths: Iterable[str]) -> Iterator[bytes]:
        """Yield the bytes of files, in that order."""
        return map(self.read, paths)

    def read_buffers(self, paths: Sequence[str]) -> Sequence[pa.Buffer]:
        """Return the bytes of files, in that order."""
        return [pa.py_buffer(self._find(path).content) for path in paths]

    def fetch(self, path: str) -> tuple[bytes, str]:
        """Return a file's bytes and their version."""
        file = self._find(path)
        return file.content, file.info.version

    def open_input(self, path: str, *, is_mapped: bool = True) -> pa.NativeFile:
        """Open a file as it is now; nothing is mapped."""
        return pa.BufferReader(self._find(path).content)

    def create(self, path: str, content: bytes) -> FileInfo:
        """Create a file with its full content, atomically."""
        with self._store.lock:
            if paths.checked(path) in self._store.files:
                raise errors.AlreadyExistsError(f"{self._uri}/{path} exists already")
            return self._store.put(path, bytes(content))

    def replace(self, path: str, content: bytes, *, if_match: str) -> FileInfo:
        """Replace a file's content, if its version is still `if_match`."""
        with self._store.lock:
            file = self._store.files.get(paths.checked(path))
            if file is None or file.info.version != if_match:
                found = "it is gone" if file is None else f"it is at version {file.info.version}"
                raise errors.ConflictError(
                    f"{self._uri}/{path} is not at version {if_match}: {found}"
                )
            return self._store.put(path, bytes(content))

    def open_write(self, path: str) -> NewFile:
        """Open a new file for streaming; it is there, empty, until closing fills it."""
        with self._store.lock:
            self._store.put(paths.checked(path), b"")
        return _MemoryWriter(self._store, path)

    def touch(self, path: str) -> FileInfo:
        """Create an empty file, or make an existing one's modification time the store's now."""
        with self._store.lock:
            file = self._store.files.get(paths.checked(path))
            return self._store.put(path, b"" if file is None else file.content)

    def delete(self, path: str) -> bool:
        """Delete a file; False when there was none."""
        with self._store.lock:
            return self._store.remove(paths.checked(path))

    def delete_directory(self, directory: str) -> None:
        """Delete a directory and all in it."""
        for info in self.list(directory, is_recursive=True):
            self.delete(info.path)

    def delete_all(self, paths: Iterable[str]) -> None:
        """Delete files, in that order; missing ones are fine."""
        for path in paths:
            self.delete(path)

    def delete_ordered(self, paths: Iterable[str]) -> None:
        """Delete files, in that order; missing ones are fine."""
        self.delete_all(paths)

    def delete_unordered(self, paths: Iterable[str]) -> None:
        """Delete files; missing ones are fine."""
        self.delete_all(paths)

    def _find(self, path: str) -> _File:
        with self._store.lock:
            file = self._store.files.get(path)  # No file has a path that is none.
        if file is None:
            raise errors.NotFoundError(f"there is no file {self._uri}/{paths.checked(path)}")
        return file


class _MemoryWriter(new_files.StreamedFile):
    """A new file that has its content once it is closed, and stays empty if it is discarded."""

    def __init__(self, store: MemoryStore, path: str) -> None:
        super().__init__(path)
        self._store = store
        self._path = path
        self._content = bytearray()

    def _append(self, content: memoryview) -> None:
        self._content += content

    def _publish(self) -> None:
        with self._store.lock:
            self._store.put(self._path, bytes(self._content))

    def _drop(self) -> None:
        self._content.clear()
