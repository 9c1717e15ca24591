"""Tables on a local or mounted file system.

- `create` writes `<name>.<uuid>` beside the target, syncs it, links it to its name and syncs the
  directory. A crash may leave the first name behind, which Apache Hudi and we ignore.
- `open_write` writes under a name that no reader takes for a data file (`paths.unfinished`), syncs,
  links it to its name, removes the first and syncs the directory. What a crash leaves behind goes
  with the file of that name when that is deleted, there or not.
- A version is inode, modification time and size. Changes by us make the time grow, so that no
  version of a file comes twice; only one deleted and created anew within one step of the file
  system's clock (up to 10 ms before Linux 6.13) could be taken for its predecessor.
- The time of a file that is touched goes back with the file system's clock, if that was set back by
  a second or more: the ages of heartbeats are measured by such files.
- A symbolic link may lead from one place of the table to another, never out of it.

Source: `org.apache.hudi.storage.HoodieStorage.createImmutableFileInPath` for the temporary name.
"""

import io
import itertools
import os
import stat as file_modes
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self

import pyarrow as pa

from hoodie import errors
from hoodie.storage import local_directory, local_files, new_files, paths, uris
from hoodie.storage.protocol import FileInfo, NewFile

_WRITE_BUFFER_BYTES = 1 << 20
_SECOND_NS = 1_000_000_000


class LocalStorage:
    """A directory of the file system."""

    def __init__(self, root: str) -> None:
        """Take a directory, which need not exist, as the root.

        Args:
            root: A path, or a `file:` URI. Symbolic links in it are resolved.

        Raises:
            InvalidInputError: It is none, or the file system's own root.
        """
        location = resolved(uris.parse(root, working_directory=str(Path.cwd())))
        if location.scheme != uris.LOCAL or not location.path:
            raise errors.InvalidInputError(
                f"{root!r} is not a directory that can be a table's root"
            )
        self._root = Path(f"/{location.path}")
        self._root_text = str(self._root)
        self._uri = str(location)

    def __reduce__(self) -> tuple[type[Self], tuple[str]]:
        """Pickle as the URI."""
        return type(self), (self._uri,)

    @property
    def uri(self) -> str:
        """The root as a `file:///` URI, symbolic links resolved."""
        return self._uri

    @property
    def has_atomic_listings(self) -> bool:
        """False: the system reads a directory in parts, of some 500 names on ext4."""
        return False

    @property
    def request_time_ms(self) -> int:
        """0: a process is gone only after its system calls."""
        return 0

    def list(self, directory: str, *, is_recursive: bool = False) -> "list[FileInfo]":
        """Return the files in a directory, sorted by path.

        In a recursive listing every file stands once, where it is: links to directories are passed
        by.

        Raises:
            InvalidInputError: A symbolic link in it leads out of the table.
        """
        start = paths.checked_directory(directory)
        if start:
            self._locate(start)
        with local_files.reported("list", f"{self._uri}/{start}"):
            return sorted(self._scan(start, is_recursive), key=lambda info: info.path)

    def names(self, directory: str) -> Sequence[str]:
        """Return the names in a directory, in any order; no file is looked at.

        Raises:
            InvalidInputError: A symbolic link in it leads out of the table.
        """
        start = paths.checked_directory(directory)
        if start:
            self._locate(start)
        found = []
        with local_files.reported("list", f"{self._uri}/{start}"):
            try:
                entries = os.scandir(self._root / start)
            except (FileNotFoundError, NotADirectoryError):
                return []
            with entries:
                for entry in entries:
                    if entry.is_file(follow_symlinks=False):
                        found.append(entry.name)
                        continue
                    if entry.is_symlink():
                        self._refuse_escape(paths.joined(start, entry.name), Path(entry.path))
                    if entry.is_file():
                        found.append(entry.name)
                    elif entry.is_dir():
                        found.append(f"{entry.name}/")
        return found

    def names_by_directory(
        self, directory: str, *, is_recursive: bool = False
    ) -> Mapping[str, Sequence[str]]:
        """Return the names of files by directory; no file is looked at.

        Raises:
            InvalidInputError: A symbolic link in it leads out of the table.
        """
        start = paths.checked_directory(directory)
        if start:
            self._locate(start)
        found = {}
        with local_files.reported("list", f"{self._uri}/{start}"):
            for path, entries in self._walk(start, is_recursive):
                if entries:
                    found[path] = sorted([entry.name for entry in entries])
        return found

    def _scan(self, start: str, is_recursive: bool) -> Iterator[FileInfo]:
        for directory, entries in self._walk(start, is_recursive):
            prefix = paths.joined(directory, "")
            for entry in entries:
                try:
                    seen = entry.stat()
                except local_files.ABSENT:
                    continue
                if file_modes.S_ISREG(seen.st_mode):
                    yield _info(prefix + entry.name, seen)

    def _walk(
        self, start: str, is_recursive: bool
    ) -> Iterator[tuple[str, Sequence[os.DirEntry[str]]]]:
        """Yield directories, each with the files in it and the links to files."""
        pending = [start]
        while pending:
            directory = pending.pop()
            try:
                entries = os.scandir(self._root / directory)
            except (FileNotFoundError, NotADirectoryError):
                continue
            found = []
            with entries:
                for entry in entries:
                    if entry.is_file(follow_symlinks=False):
                        found.append(entry)
                    elif entry.is_symlink():
                        self._refuse_escape(paths.joined(directory, entry.name), Path(entry.path))
                        if local_files.is_file(entry):
                            found.append(entry)
                    elif is_recursive and entry.is_dir():
                        pending.append(paths.joined(directory, entry.name))
            yield directory, found

    def stat(self, path: str) -> FileInfo:
        """Return what is known of a file."""
        return _info(path, self._find(path)[1])

    def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        """Return a file's bytes, or a range of them, which ends where the file does."""
        paths.check_range(path, offset, length)
        return self._read(path, offset, length)[0]

    def read_all(self, paths: Iterable[str]) -> Iterator[bytes]:
        """Yield the bytes of files, in that order.

        The directory of some that follow each other is looked up once.
        """
        for directory, found in itertools.groupby(paths, _checked_parent):
            with self._opened(directory) as opened:
                for path in found:
                    content = None if opened is None else self._read_in(opened, path)
                    if content is None:
                        raise errors.NotFoundError(f"there is no file {self._named(path)}")
                    yield content

    def read_buffers(self, paths: Sequence[str]) -> Sequence[pa.Buffer]:
        """Return the bytes of files, in that order, mapped into memory."""
        found = []
        for path in paths:
            with self.open_input(path) as source:
                found.append(source.read_buffer())
        return found

    def fetch(self, path: str) -> tuple[bytes, str]:
        """Return a file's bytes and their version; files are replaced by others, never changed."""
        content, seen = self._read(path, 0, None)
        return content, _info(path, seen).version

    def _read_in(self, directory: local_directory.OpenDirectory, path: str) -> bytes | None:
        """Return the bytes of a file, as `read` does, in its directory; None if there is none."""
        try:
            return directory.read(path.rpartition("/")[2])
        except local_directory.LinkError:
            return self.read(path)
        except OSError as error:
            raise local_files.translated("read", self._named(path), error) from error

    def _read(self, path: str, offset: int, length: int | None) -> tuple[bytes, os.stat_result]:
        """Return a range of a file's bytes, and what is known of the file."""
        target, _ = self._find(path)
        try:
            descriptor = os.open(target, os.O_RDONLY | os.O_CLOEXEC)
            try:
                seen = os.fstat(descriptor)
                return local_files.read_range(descriptor, seen.st_size, offset, length), seen
            finally:
                os.close(descriptor)
        except OSError as error:
            raise local_files.translated("read", self._named(path), error) from error

    def open_input(self, path: str, *, is_mapped: bool = True) -> pa.NativeFile:
        """Open a file, mapped into memory by default."""
        target, _ = self._find(path)
        with local_files.reported("open", self._named(path)):
            return pa.memory_map(target, "r") if is_mapped else pa.OSFile(target, "r")

    def create(self, path: str, content: bytes) -> FileInfo:
        """Create a file with its full content, atomically and durably."""
        return self._create(path, content, is_durable=True)

    def create_volatile(self, path: str, content: bytes) -> FileInfo:
        """Create a file as `create` does, but one that need not survive a crash of the machine.

        For lock files, which say nothing once the machine went down; it is some 30 times faster.
        """
        return self._create(path, content, is_durable=False)

    def _create(self, path: str, content: bytes, *, is_durable: bool) -> FileInfo:
        target = self._locate(path)
        with local_files.reported("create", self._named(path)):
            if os.path.lexists(target):
                raise errors.AlreadyExistsError(f"{self._named(path)} exists already")
            with local_files.temporary_file(target, content, is_durable=is_durable) as temporary:
                local_files.remove_checksum(target)
                seen = temporary.stat()
                with local_files.perhaps_done(self._named(path)):
                    local_files.link_new(temporary, target)
            if is_durable:
                local_files.sync_published(target.parent, self._named(path))
        return _info(path, seen)

    def replace(self, path: str, content: bytes, *, if_match: str) -> FileInfo:
        """Replace a file's content, if its version is still `if_match`; readers see old or new."""
        target = self._locate(path)
        with local_files.reported("replace", self._named(path)):
            # Looked at before anything is written, and again when nobody else can change it.
            self._refuse_other_version(path, local_files.status(target), if_match)
            with (
                local_files.temporary_file(target, content, is_durable=True) as temporary,
                local_files.held(target) as there,
            ):
                before = self._refuse_other_version(path, there, if_match)
                seen = local_files.make_later(temporary, before)
                local_files.remove_checksum(target)
                with local_files.perhaps_done(self._named(path)):
                    temporary.replace(target)
            local_files.sync_directory(target.parent)
        return _info(path, seen)

    def move(self, path: str, destination: str, *, if_match: str) -> None:
        """Give a file another name, deleting what has it, if its version is still `if_match`.

        Of several racing calls one moves it. It need not survive a crash of the machine.

        Raises:
            ConflictError: It has another version, or is gone.
        """
        source, target = self._locate(path), self._locate(destination)
        with (
            local_files.reported("move", self._named(path)),
            local_files.held(source) as seen,
        ):
            self._refuse_other_version(path, seen, if_match)
            local_files.remove_checksum(target)
            # ext4 writes a file out when its move replaces another: a millisecond for nothing.
            target.unlink(missing_ok=True)
            source.replace(target)
            local_files.remove_checksum(source)

    def open_write(self, path: str) -> NewFile:
        """Open a new file for streaming; it has its name once it is whole, and replaces nothing."""
        target = self._locate(path)
        temporary = target.with_name(paths.unfinished(path).rpartition("/")[2])
        with local_files.reported("create", self._named(path)):
            local_files.remove_checksum(target)
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
            descriptor = local_files.open_in_made_directory(temporary, flags)
        return _NewFile(descriptor, target, temporary, self._named(path))

    def touch(self, path: str) -> FileInfo:
        """Create an empty file, or make an existing one's modification time the store's now."""
        target = self._locate(path)
        with local_files.reported("touch", self._named(path)):
            flags = os.O_WRONLY | os.O_CREAT
            os.close(local_files.open_in_made_directory(target, flags))
            with local_files.held(target) as before:
                if before is None:
                    raise errors.ConflictError(f"{self._named(path)} was deleted while touched")
                local_files.remove_checksum(target)
                os.utime(target)  # By the store's clock, not ours.
                return _info(path, local_files.make_distinct(target, before))

    def delete(self, path: str) -> bool:
        """Delete a file, with its checksum and what was never finished of it; False for none."""
        with self._opened(paths.parent(paths.checked(path))) as directory:
            return directory is not None and self._delete(path, directory)

    def delete_directory(self, directory: str) -> None:
        """Delete a directory and all in it, the root itself when it is empty text."""
        name = paths.checked_directory(directory)
        target = self._locate(name) if name else self._root
        with local_files.reported("delete", self._named(name)):
            if target.is_symlink():
                target.unlink()
            else:
                local_files.remove_tree(target)

    def delete_all(self, paths: Iterable[str]) -> None:
        """Delete files, in that order; missing ones are fine."""
        for path in paths:
            self.delete(path)

    def delete_ordered(self, paths: Iterable[str]) -> None:
        """Delete files that are never replaced, in that order; missing ones are fine.

        The directory of some that follow each other is looked up once. What goes with files, and
        appears while many are deleted, may be left.
        """
        for directory, found in itertools.groupby(paths, _checked_parent):
            with self._deleting(directory) as opened:
                for path in found:
                    if opened is not None:
                        opened.remove(path.rpartition("/")[2])

    def delete_unordered(self, wanted: Iterable[str]) -> None:
        """Delete files that are never replaced, as `delete_ordered`."""
        for directory, found in paths.by_directory(map(paths.checked, wanted)).items():
            with self._deleting(directory) as opened:
                if opened is not None:
                    opened.remove_all(found)

    @contextmanager
    def _deleting(self, directory: str) -> Iterator[local_directory.OpenDirectory | None]:
        """Open the directory of files to delete; yields None if there is none such."""
        with (
            local_files.reported("delete", f"files in {self._named(directory)}"),
            self._opened(directory) as opened,
        ):
            yield opened

    @contextmanager
    def _opened(self, directory: str) -> Iterator[local_directory.OpenDirectory | None]:
        """Open the directory of some files; yields None if there is none such."""
        at = self._seek(directory)[0] if directory else self._root_text
        with ExitStack() as stack:
            with local_files.reported("find", self._named(directory)):
                found = stack.enter_context(local_directory.opened(at))
            yield found

    def _delete(self, path: str, directory: local_directory.OpenDirectory) -> bool:
        """Delete a file, as `delete` does, in its directory."""
        name = path.rpartition("/")[2]
        try:
            return directory.delete(name)
        except local_directory.LinkError:
            self._refuse_escape(path, Path(self._named(path)))
            with local_files.reported("delete", self._named(path)):
                return directory.delete(name, may_be_link=True)
        except OSError as error:
            raise local_files.translated("delete", self._named(path), error) from error

    def _named(self, path: str) -> str:
        return f"{self._root_text}/{path}"

    def _find(self, path: str) -> tuple[str, os.stat_result]:
        target, seen = self._seek(path)
        if seen is not None and file_modes.S_ISLNK(seen.st_mode):
            with local_files.reported("find", self._named(path)):
                seen = local_files.status(target)
        if seen is None or not file_modes.S_ISREG(seen.st_mode):
            raise errors.NotFoundError(f"there is no file {self._named(path)}")
        return target, seen

    def _locate(self, path: str) -> Path:
        return Path(self._seek(path)[0])

    def _seek(self, path: str) -> tuple[str, os.stat_result | None]:
        """Return where a path leads, and what is there, which may be a link.

        Raises:
            InvalidInputError: A symbolic link in it leads out of the table.
        """
        at, seen = self._root_text, None
        try:
            for part in paths.checked(path).split("/"):
                at = f"{at}/{part}"
                try:
                    seen = os.lstat(at)
                except local_files.ABSENT:
                    seen = None
                    continue
                if file_modes.S_ISLNK(seen.st_mode):
                    self._refuse_escape(path, Path(at))
        except OSError as error:
            raise local_files.translated("find", self._named(path), error) from error
        return at, seen

    def _refuse_escape(self, path: str, link: Path) -> None:
        real = Path(os.path.realpath(link))
        if not real.is_relative_to(self._root):
            raise errors.InvalidInputError(
                f"{path} leaves the table {self._uri}: {link} is a symbolic link to {real}"
            )

    def _refuse_other_version(
        self, path: str, seen: os.stat_result | None, wanted: str
    ) -> os.stat_result:
        if seen is None or _info(path, seen).version != wanted:
            found = (
                "it is gone" if seen is None else f"it is at version {_info(path, seen).version}"
            )
            raise errors.ConflictError(f"{self._named(path)} is not at version {wanted}: {found}")
        return seen


class _NewFile(new_files.StreamedFile):
    """A new file that has a name of its own until it is whole."""

    def __init__(self, descriptor: int, target: Path, temporary: Path, shown: str) -> None:
        super().__init__(shown)
        self._buffer = io.BufferedWriter(io.FileIO(descriptor, "wb"), _WRITE_BUFFER_BYTES)
        self._target = target
        self._temporary = temporary

    def _append(self, content: memoryview) -> None:
        with local_files.reported("write", self._shown):
            self._buffer.write(content)

    def _publish(self) -> None:
        with local_files.reported("write", self._shown):
            self._buffer.flush()
            os.fsync(self._buffer.fileno())
            self._buffer.close()
            with local_files.gone_if_deleted(self._temporary, self._target):
                local_files.link_new(self._temporary, self._target)
            self._temporary.unlink(missing_ok=True)
            local_files.sync_directory(self._target.parent)

    def _drop(self) -> None:
        self._buffer.raw.close()  # First, or closing the buffer would write what is left in it.
        self._temporary.unlink(missing_ok=True)


def resolved(location: uris.Location) -> uris.Location:
    """Return a local place with the symbolic links of its path resolved; any other as it is."""
    if location.scheme != uris.LOCAL:
        return location
    real = os.path.realpath(f"/{location.path}")
    return uris.Location(scheme=uris.LOCAL, authority="", path=real.strip("/"))


def _info(path: str, seen: os.stat_result) -> FileInfo:
    # Some network file systems keep whole seconds, which a finer time hits once in a while.
    is_whole = seen.st_mtime_ns % _SECOND_NS == 0
    return FileInfo(
        path=path,
        size_bytes=seen.st_size,
        modified_ms=seen.st_mtime_ns // 1_000_000,
        version=f"{seen.st_ino:x}-{seen.st_mtime_ns:x}-{seen.st_size:x}",
        modified_step_ms=1_000 if is_whole else local_files.CLOCK_STEP_MS,
    )


def _checked(path: str) -> str:
    return paths.checked(path)  # For methods with a parameter of the module's name.


def _checked_parent(path: str) -> str:
    return paths.parent(paths.checked(path))
