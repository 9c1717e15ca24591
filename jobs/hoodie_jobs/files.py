"""The job's own small files: spec, progress, fence, result."""

import os
from pathlib import Path

from hoodie import errors


def read(path: str) -> bytes:
    """Return a file's content.

    Raises:
        NotFoundError: There is none.
        StorageError: It cannot be read.
    """
    try:
        return Path(path).read_bytes()
    except FileNotFoundError as error:
        raise errors.NotFoundError(f"{path}: there is no such file") from error
    except OSError as error:
        raise errors.StorageError(f"{path}: {error.strerror}") from error


def write_into(path: str, content: bytes) -> None:
    """Make this the content of a file that is there, and cannot be replaced: it is a mount.

    Raises:
        StorageError: It cannot be written.
    """
    try:
        Path(path).write_bytes(content)
    except OSError as error:
        raise errors.StorageError(f"{path}: {error.strerror}") from error


def replace(path: str, content: bytes, *, is_durable: bool) -> None:
    """Put a file in place, whole, by rename; a durable one survives a crash of the machine.

    Raises:
        StorageError: It cannot be written.
    """
    partial = f"{path}.{os.getpid()}.partial"
    try:
        with Path(partial).open("wb") as file:
            file.write(content)
            if is_durable:
                file.flush()
                os.fsync(file.fileno())
        Path(partial).replace(path)
    except OSError as error:
        raise errors.StorageError(f"{path}: {error.strerror}") from error
