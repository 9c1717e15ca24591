"""A directory of the local file system that is open, for what is done to many files in it.

The path that leads to it is looked up once, and its files are found by their names alone. Beside a
file there may be the checksum that Hadoop keeps of it, and one that was never finished under that
name (`storage.paths`), which go with it. To look for them takes twice as long as to delete the
file, so that a directory of which many files are deleted is listed instead. What comes beside files
later, while their deletion goes on, may be left.
"""

import errno
import os
import stat as file_modes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from hoodie.storage import local_files, paths

_LISTED_FROM = 100
"""For fewer files no directory is listed, however large it says that it is."""

_LISTED_BYTES = 2_000
"""A directory of fewer bytes for each file is listed. A name in it takes some 70 bytes, and a
listing of 30 names as long as a look for what may be beside one file."""

_NOTHING: frozenset[str] = frozenset()


class LinkError(Exception):
    """A name is that of a symbolic link, which was not to be followed."""


class OpenDirectory:
    """A directory that is open. Names are of files in it; what is raised is an OSError."""

    def __init__(self, descriptor: int) -> None:
        """Take its descriptor, which the caller closes."""
        self._descriptor = descriptor
        self._sought = 0
        self._hidden: frozenset[str] | None = None

    def read(self, name: str) -> bytes | None:
        """Return the bytes of a file; None if there is no such file.

        Raises:
            LinkError: It is a symbolic link.
        """
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            descriptor = os.open(name, flags, dir_fd=self._descriptor)
        except local_files.ABSENT:
            return None
        except OSError as error:
            raise _link_or(error) from error
        try:
            seen = os.fstat(descriptor)
            if not file_modes.S_ISREG(seen.st_mode):
                return None
            return local_files.read_range(descriptor, seen.st_size, 0, None)
        finally:
            os.close(descriptor)

    def delete(self, name: str, *, may_be_link: bool = False) -> bool:
        """Delete a file, held against others that change it; False if there is none.

        Args:
            name: The file's.
            may_be_link: Whether it may be a symbolic link, which goes instead of what it leads to.

        Raises:
            LinkError: It is one, and may not be.
        """
        flags = 0 if may_be_link else os.O_NOFOLLOW
        try:
            descriptor, _ = local_files.hold(name, flags, self._descriptor)
        except OSError as error:
            raise _link_or(error) from error
        try:
            self._remove(paths.unfinished(name))
            # Who removes a file that is never replaced does not hold it: it may be gone by now.
            is_deleted = descriptor is not None and self._remove(name)
            if is_deleted:
                self._remove(local_files.checksum(name))
            return is_deleted
        finally:
            if descriptor is not None:
                os.close(descriptor)

    def remove(self, name: str) -> None:
        """Delete a file that is never replaced, or a link; a missing one is fine."""
        if self._hidden is None:
            self._seek(1)
        self._remove_with(name)

    def remove_all(self, names: Sequence[str]) -> None:
        """Delete files that are never replaced, or links; missing ones are fine."""
        self._seek(len(names))
        for name in names:
            self._remove_with(name)

    def _remove_with(self, name: str) -> None:
        """Delete a file, and what goes with it."""
        if self._hidden != _NOTHING:
            for beside in (paths.unfinished(name), local_files.checksum(name)):
                if self._hidden is None or beside in self._hidden:
                    self._remove(beside)
        self._remove(name)

    def _seek(self, count: int) -> None:
        """Count files, and list the directory once they are many for its size."""
        self._sought += count
        if self._sought < _LISTED_FROM:
            return
        if os.fstat(self._descriptor).st_size < self._sought * _LISTED_BYTES:
            # What goes with a file has a name that begins with a point.
            found = os.listdir(self._descriptor)  # noqa: PTH208 (a path has no descriptor)
            self._hidden = frozenset(each for each in found if each.startswith("."))

    def _remove(self, name: str) -> bool:
        try:
            os.unlink(name, dir_fd=self._descriptor)
        except local_files.ABSENT:
            return False
        return True


@contextmanager
def opened(path: str) -> Iterator[OpenDirectory | None]:
    """Open a directory; yields None if there is none of that name."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except local_files.ABSENT:
        yield None
        return
    try:
        yield OpenDirectory(descriptor)
    finally:
        os.close(descriptor)


def _link_or(error: OSError) -> Exception:
    return LinkError() if error.errno == errno.ELOOP else error
