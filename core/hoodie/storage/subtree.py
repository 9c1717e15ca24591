"""The files below one folder of a storage, as a storage: a table that lies in another one's."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from hoodie.storage import paths
from hoodie.storage.protocol import FileInfo, NewFile, Storage


class SubtreeStorage:
    """A folder of a storage, of which every call is one of the storage; see `Storage`."""

    def __init__(self, storage: Storage, folder: str) -> None:
        """Take the folder of that path below the storage's root; it need not exist."""
        self._storage = storage
        self._folder = paths.checked(folder)

    @property
    def uri(self) -> str:
        """The folder's."""
        return f"{self._storage.uri}/{self._folder}"

    @property
    def has_atomic_listings(self) -> bool:
        """As of the storage."""
        return self._storage.has_atomic_listings

    @property
    def request_time_ms(self) -> int:
        """As of the storage."""
        return self._storage.request_time_ms

    def list(self, directory: str, *, is_recursive: bool = False) -> "list[FileInfo]":
        """Return the files in a directory, sorted by path."""
        found = self._storage.list(self._directory(directory), is_recursive=is_recursive)
        return [self._inner(each) for each in found]

    def names(self, directory: str) -> Sequence[str]:
        """Return the names of the files in a directory."""
        return self._storage.names(self._directory(directory))

    def names_by_directory(
        self, directory: str, *, is_recursive: bool = False
    ) -> Mapping[str, Sequence[str]]:
        """Return the names of files by their directories' paths."""
        found = self._storage.names_by_directory(
            self._directory(directory), is_recursive=is_recursive
        )
        return {
            path.removeprefix(self._folder).removeprefix("/"): names
            for path, names in found.items()
        }

    def stat(self, path: str) -> FileInfo:
        """Return what is known of a file."""
        return self._inner(self._storage.stat(self._file(path)))

    def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        """Return a file's bytes, or a range of them."""
        return self._storage.read(self._file(path), offset=offset, length=length)

    def read_all(self, paths: Iterable[str]) -> Iterator[bytes]:
        """Yield the bytes of files, in that order."""
        return self._storage.read_all(map(self._file, paths))

    def read_buffers(self, paths: Sequence[str]) -> Sequence[pa.Buffer]:
        """Return the bytes of files."""
        return self._storage.read_buffers([self._file(path) for path in paths])

    def fetch(self, path: str) -> tuple[bytes, str]:
        """Return a file's bytes and the version to replace them by."""
        return self._storage.fetch(self._file(path))

    def open_input(self, path: str, *, is_mapped: bool = True) -> pa.NativeFile:
        """Open a file for random access by Arrow."""
        return self._storage.open_input(self._file(path), is_mapped=is_mapped)

    def create(self, path: str, content: bytes) -> FileInfo:
        """Create a file with its full content, atomically and durably."""
        return self._inner(self._storage.create(self._file(path), content))

    def replace(self, path: str, content: bytes, *, if_match: str) -> FileInfo:
        """Replace a file's content, if its version is still `if_match`."""
        return self._inner(self._storage.replace(self._file(path), content, if_match=if_match))

    def open_write(self, path: str) -> NewFile:
        """Open a new file for streaming."""
        return self._storage.open_write(self._file(path))

    def touch(self, path: str) -> FileInfo:
        """Create an empty file, or make an existing one's modification time the store's now."""
        return self._inner(self._storage.touch(self._file(path)))

    def delete(self, path: str) -> bool:
        """Delete a file; False when there was none."""
        return self._storage.delete(self._file(path))

    def delete_directory(self, directory: str) -> None:
        """Delete a directory and all in it."""
        self._storage.delete_directory(self._directory(directory))

    def delete_all(self, paths: Iterable[str]) -> None:
        """Delete files, in that order."""
        self._storage.delete_all(map(self._file, paths))

    def delete_ordered(self, paths: Iterable[str]) -> None:
        """Delete files that are never replaced, in that order."""
        self._storage.delete_ordered(map(self._file, paths))

    def delete_unordered(self, paths: Iterable[str]) -> None:
        """Delete files, in any order."""
        self._storage.delete_unordered(map(self._file, paths))

    def _file(self, path: str) -> str:
        return f"{self._folder}/{paths.checked(path)}"

    def _directory(self, directory: str) -> str:
        return self._file(directory) if directory else self._folder

    def _inner(self, info: FileInfo) -> FileInfo:
        return replace(info, path=info.path.removeprefix(f"{self._folder}/"))
