"""The steps on a local file system that the local storage is made of.

`held` is how changes of one file keep out of each other's way: whoever replaces, touches, moves or
deletes what is at a path first holds an advisory lock (flock) on the very inode that is there, and
looks again afterwards whether it still is. So of two processes that saw one version, one changes it
and the other then sees another inode. Programs that know nothing of it are not kept out.
"""

import errno
import fcntl
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hoodie import errors

ABSENT = (FileNotFoundError, IsADirectoryError, NotADirectoryError)
"""What the operating system raises where there is no file."""

CLOCK_STEP_MS = 10
"""The longest step of the clock that modification times are taken from, before Linux 6.13."""

_SET_BACK_NS = 1_000_000_000


@contextmanager
def reported(action: str, what: str) -> Iterator[None]:
    """Turn the operating system's errors into ours, saying what was done to what."""
    try:
        yield
    except OSError as error:
        raise translated(action, what, error) from error


def translated(action: str, what: str, error: OSError) -> errors.HoodieError:
    """Return an error of the operating system as ours, saying what was done to what.

    For what is done to each of many files, where `reported` costs as much as the call in it.
    """
    message = f"cannot {action} {what}: {error.strerror or error}"
    match error.errno:
        case errno.ENOENT:
            return errors.NotFoundError(message)
        case errno.EEXIST | errno.ENOTDIR | errno.EISDIR:
            return errors.AlreadyExistsError(message)
        case errno.ENAMETOOLONG | errno.ELOOP:
            return errors.InvalidInputError(message)
        case errno.ENOTSUP | errno.ENOSYS | errno.ENOLCK:
            return errors.UnsupportedError(message)
        case _:
            return errors.StorageError(message)


@contextmanager
def temporary_file(target: Path, content: bytes, *, is_durable: bool) -> Iterator[Path]:
    """Write the content beside the target as `<name>.<uuid>`, a name that Apache Hudi ignores.

    It is deleted at the end, unless it was moved.

    Raises:
        StorageError: Others deleted it, who took this process for dead (`transaction.leftovers`).
    """
    temporary = _write_temporary(target, content, is_durable=is_durable)
    try:
        with gone_if_deleted(temporary, target):
            yield temporary
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def gone_if_deleted(temporary: Path, target: Path) -> Iterator[None]:
    """Have a temporary file that is missing be a failure, and not one of a file to be found.

    Raises:
        StorageError: Others deleted it, who took this process for dead.
    """
    try:
        yield
    except FileNotFoundError as error:
        if temporary.exists():
            raise
        raise errors.StorageError(
            f"{temporary} was deleted by others before it became {target.name}"
        ) from error


def _write_temporary(target: Path, content: bytes, *, is_durable: bool) -> Path:
    temporary = target.with_name(f"{target.name}.{uuid.uuid4()}")
    descriptor = open_in_made_directory(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        try:
            rest = memoryview(content)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
            if is_durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return temporary


def open_in_made_directory(path: Path, flags: int) -> int:
    """Open a file, making its directory when there is none.

    Raises:
        FileNotFoundError: The directory was deleted again and again meanwhile.
    """
    for _ in range(3):
        try:
            return os.open(path, flags | os.O_CLOEXEC, 0o666)
        except FileNotFoundError:
            make_directory(path.parent)
    return os.open(path, flags | os.O_CLOEXEC, 0o666)


def make_directory(directory: Path) -> None:
    """Make a directory with its parents, durably; nothing when it is there."""
    if directory.is_dir():
        return
    make_directory(directory.parent)
    try:
        directory.mkdir()
    except FileExistsError:
        if not directory.is_dir():
            raise
    except FileNotFoundError:
        return  # The parent was deleted at this moment; opening the file tells.
    sync_directory(directory.parent)


def sync_directory(directory: Path) -> None:
    """Make the names in a directory survive a crash of the machine."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some file systems (FUSE) have nothing to do here and say so.
        if error.errno not in {errno.EINVAL, errno.ENOTSUP}:
            raise
    finally:
        os.close(descriptor)


def sync_published(directory: Path, shown: str) -> None:
    """Make the name of a file that others see by now survive a crash of the machine.

    Raises:
        OutcomeUnknownError: Whether it will is not known, and asking again does not tell: the
            kernel shows what it has in memory.
    """
    try:
        sync_directory(directory)
    except OSError as error:
        raise errors.OutcomeUnknownError(
            f"{shown} was created, and may be lost if the machine crashes: its directory could not "
            f"be synced: {error.strerror or error}"
        ) from error


@contextmanager
def perhaps_done(shown: str) -> Iterator[None]:
    """Have a call that got no answer be one that may take effect yet.

    A soft mount of NFS gives up waiting for its server, which may carry the call out all the same.

    Raises:
        UnansweredError: There was no answer.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in {errno.EIO, errno.ETIMEDOUT}:
            raise
        raise errors.UnansweredError(
            f"the file system did not say whether it created {shown}: {error.strerror or error}"
        ) from error


def link_new(temporary: Path, target: Path) -> None:
    """Give a temporary file its name, if it is free.

    Raises:
        FileExistsError: It is not.
        UnsupportedError: The file system has no hard links.
    """
    try:
        target.hardlink_to(temporary)
    except FileExistsError:
        # NFS repeats a call whose answer was lost, and then finds its own link.
        if temporary.stat().st_nlink == 1:
            raise
    except OSError as error:
        if error.errno in {errno.EPERM, errno.ENOTSUP, errno.ENOSYS}:
            raise errors.UnsupportedError(
                f"the file system of {target.parent} has no hard links"
            ) from error
        raise


@contextmanager
def held(path: Path) -> Iterator[os.stat_result | None]:
    """Hold the file at a path against every other `held`; yields None if there is none."""
    descriptor, seen = hold(path)
    try:
        yield seen
    finally:
        if descriptor is not None:
            os.close(descriptor)


def hold(
    path: str | Path, flags: int = 0, directory: int | None = None
) -> tuple[int | None, os.stat_result | None]:
    """Hold the file at a path as `held` does, until the descriptor is closed; None for none.

    Args:
        path: Of the file; its name if its directory is given.
        flags: To open it with, beside those that are needed.
        directory: The descriptor of its directory.
    """
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | flags, dir_fd=directory)
        except ABSENT:
            return None, None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            mine, there = os.fstat(descriptor), status(path, directory)
        except BaseException:
            os.close(descriptor)
            raise
        if there is not None and (mine.st_dev, mine.st_ino) == (there.st_dev, there.st_ino):
            return descriptor, there
        os.close(descriptor)  # Somebody replaced or deleted it while we waited.


def is_file(entry: "os.DirEntry[str]") -> bool:
    """Return whether what was found in a directory is a file, or a link to one."""
    try:
        return entry.is_file()
    except ABSENT:
        return False


def read_range(descriptor: int, size: int, offset: int, length: int | None) -> bytes:
    """Return a range of the bytes of a file of that size, which ends where the file does."""
    rest = max(0, size - offset) if length is None else min(length, max(0, size - offset))
    parts: list[bytes] = []
    while rest:
        part = os.pread(descriptor, rest, offset)
        if not part:
            break  # It became shorter meanwhile.
        parts.append(part)
        offset += len(part)
        rest -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def status(path: str | Path, directory: int | None = None) -> os.stat_result | None:
    """Return what is at a path, None when nothing is."""
    try:
        return os.stat(path, dir_fd=directory)
    except ABSENT:
        return None


def make_later(path: Path, before: os.stat_result) -> os.stat_result:
    """Return the file's status, its modification time moved past `before` if it is not later.

    File systems keep times in steps of up to 10 ms and reuse inodes: only a time that grows with
    every change makes inode, time and size together an unmistakable version.
    """
    seen = path.stat()
    if seen.st_mtime_ns <= before.st_mtime_ns:
        os.utime(path, ns=(seen.st_atime_ns, before.st_mtime_ns + 1))
        seen = path.stat()
    return seen


def make_distinct(path: Path, before: os.stat_result) -> os.stat_result:
    """Return the status of a file that was touched, its modification time unlike `before`.

    As `make_later`, unless the file system's clock was set back: then the time stays what it is.
    """
    if path.stat().st_mtime_ns <= before.st_mtime_ns - _SET_BACK_NS:
        return path.stat()
    return make_later(path, before)


def remove_checksum(path: Path) -> None:
    """Remove the checksum that Hadoop's local file system keeps beside a file, if there is one.

    It would not fit the content that comes, and Hadoop then refuses to read the file.
    """
    path.with_name(checksum(path.name)).unlink(missing_ok=True)


def checksum(name: str) -> str:
    """Return the name of the checksum that Hadoop keeps of a file of that name."""
    return f".{name}.crc"


def remove_tree(directory: Path) -> None:
    """Delete a directory with all in it, also while others go on creating for a moment."""
    for _ in range(10):
        try:
            shutil.rmtree(directory)
        except (FileNotFoundError, NotADirectoryError):
            # Either all is gone, or something in it went while we were deleting it.
            if not directory.is_dir():
                return
        except OSError as error:
            if error.errno != errno.ENOTEMPTY:
                raise
        else:
            return
    shutil.rmtree(directory)
