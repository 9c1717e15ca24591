"""What the core asks of a storage.

A Storage is opened on one table's root. Paths are relative to it, `/`-separated, without leading or
trailing slash, and never leave it.

Invariants that every implementation keeps, proved by `tests/support/contracts/storage_contract.py`:
    - `create` publishes the whole content or nothing, exactly one of several racing calls wins, and
      what it published survives a crash of the machine;
    - a `version` changes whenever the content does; where it is a hash of the content (S3), equal
      content has an equal one, so what must tell two states apart puts something unique into them;
    - `modified_ms` is the store's own clock, and goes back when that does: compare it only with
      times from the same store.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, Self

import pyarrow as pa


@dataclass(frozen=True, slots=True, kw_only=True)
class FileInfo:
    """What a listing tells of a file.

    Attributes:
        path: Below the root.
        size_bytes: Its length.
        modified_ms: Last modification by the store's clock, milliseconds since the epoch; rounded
            down.
        version: An opaque tag of exactly this content (ETag; inode, mtime and size).
        modified_step_ms: What it is rounded to: the file was modified less than this later.
    """

    path: str
    size_bytes: int
    modified_ms: int
    version: str
    modified_step_ms: int = 0

    @property
    def modified_before_ms(self) -> int:
        """The earliest moment by which it certainly was modified: ages are counted from here."""
        return self.modified_ms + self.modified_step_ms

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]


class NewFile(Protocol):
    """A file that is being written; Arrow can write to it.

    Left by an error, or forgotten without being closed, it is discarded.
    """

    def write(self, content: Any, /) -> int:  # noqa: ANN401 - Buffer has a name from 3.12 on
        """Write all of it and return its length.

        Raises:
            StorageError: It could not be written; the file is discarded.
        """
        ...

    def tell(self) -> int:
        """Return how many bytes were written."""
        ...

    def close(self) -> None:
        """Have the file be there, whole and durable; nothing if it was discarded."""
        ...

    def discard(self) -> None:
        """Give it up: what was written of it is not, or not for long, under its name."""
        ...

    def __enter__(self) -> Self:
        """Return itself."""
        ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it, or discard it if there was an error."""
        ...


class Storage(Protocol):
    """The files of one table.

    Every call may raise InvalidInputError (the path is none, or leads out of the root) and
    StorageError (the store failed, is full, or refuses us; an UnansweredError where the call may
    take effect later), with the file named.
    """

    @property
    def uri(self) -> str:
        """The root, normalised, without trailing slash; equal for equal tables."""
        ...

    @property
    def has_atomic_listings(self) -> bool:
        """Whether a listing shows a directory as it was at one moment.

        A listing that is not atomic takes a while. It has every file that exists all that while; of
        those that appear or vanish meanwhile it has any, so it may have the later of two and lack
        the earlier. No object store promises more, not even of a single page, and a local disk is
        read in parts.
        """
        ...

    @property
    def request_time_ms(self) -> int:
        """How long after a process died a call of it may still take effect.

        0 where a call ends with its process. An object store may carry out a request whose sender
        is gone; it does so within the time after which a client gives a request up, or not at all,
        as far as anybody can tell.
        """
        ...

    def list(self, directory: str, *, is_recursive: bool = False) -> "list[FileInfo]":
        """Return the files in a directory, sorted by path; empty when there is no such directory.

        What appears or vanishes meanwhile may be in it or not, see `has_atomic_listings`. Temporary
        files of a `create` may be there.
        """
        ...

    def names(self, directory: str) -> Sequence[str]:
        """Return the names of the files in a directory, as `list`, in any order.

        Those of directories are among them, with a slash at their end. For directories of many
        files of which only the names matter: a local disk need not look at each.
        """
        ...

    def names_by_directory(
        self, directory: str, *, is_recursive: bool = False
    ) -> Mapping[str, Sequence[str]]:
        """Return the names of the files that `list` returns, sorted, by their directories' paths.

        The same requests as `list`; but a local disk need not look at each file.
        """
        ...

    def stat(self, path: str) -> FileInfo:
        """Return what is known of a file.

        Raises:
            NotFoundError: There is none.
        """
        ...

    def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        """Return a file's bytes, or a range of them, which ends where the file does.

        Raises:
            NotFoundError: There is none.
        """
        ...

    def read_all(self, paths: Iterable[str]) -> Iterator[bytes]:
        """Yield the bytes of files, in that order; a path is asked for when its file is.

        Raises:
            NotFoundError: There is none of a path.
        """
        ...

    def read_buffers(self, paths: Sequence[str]) -> Sequence[pa.Buffer]:
        """Return the bytes of whole files, in that order, at once where a request takes long.

        Local files are mapped into memory.

        Raises:
            NotFoundError: There is none of a path.
        """
        ...

    def fetch(self, path: str) -> tuple[bytes, str]:
        """Return a file's bytes and the version to replace them by, in one request.

        The bytes may be newer than the version, by which nothing is replaced then.

        Raises:
            NotFoundError: There is none.
        """
        ...

    def open_input(self, path: str, *, is_mapped: bool = True) -> pa.NativeFile:
        """Open a file for random access by Arrow; the caller closes it.

        Args:
            path: The file.
            is_mapped: Whether a local file may be mapped into memory, where all that was read of
                it counts as the process's own until it is closed.

        Raises:
            NotFoundError: There is none.
        """
        ...

    def create(self, path: str, content: bytes) -> FileInfo:
        """Create a file with its full content, atomically and durably.

        `modified_ms` of the result is 0 if the store does not return it.

        Raises:
            AlreadyExistsError: The name is taken. After a lost answer the caller reads back whose
                it is.
            OutcomeUnknownError: It is there, but whether it survives a crash is not known.
        """
        ...

    def replace(self, path: str, content: bytes, *, if_match: str) -> FileInfo:
        """Replace a file's content, if its version is still `if_match`; readers see old or new.

        The result is as of `create`.

        Raises:
            ConflictError: It has another version, or is gone.
        """
        ...

    def open_write(self, path: str) -> NewFile:
        """Open a new file for streaming.

        For names that are unique by construction (data files): the name's freshness is not checked.
        Ours have the file under its name once it is whole; others may have it there while it is
        written, and a crash then leaves a part of it.

        Raises:
            AlreadyExistsError: When it is closed, where the name turns out to be taken.
        """
        ...

    def touch(self, path: str) -> FileInfo:
        """Create an empty file, or make an existing one's modification time the store's now."""
        ...

    def delete(self, path: str) -> bool:
        """Delete a file; False when there was none."""
        ...

    def delete_directory(self, directory: str) -> None:
        """Delete a directory and all in it; nothing when there is none. Not atomic."""
        ...

    def delete_all(self, paths: Iterable[str]) -> None:
        """Delete files, in that order; missing ones are fine."""
        ...

    def delete_ordered(self, paths: Iterable[str]) -> None:
        """Delete files that are never replaced, in that order; missing ones are fine.

        A path is asked for right before its file is deleted. A call that replaces the file may come
        in between, and bring it back.
        """
        ...

    def delete_unordered(self, paths: Iterable[str]) -> None:
        """Delete files that are never replaced, in any order, as `delete_ordered`.

        If it fails, some may be left. A request for each 1,000 files where a store can do that.
        """
        ...
