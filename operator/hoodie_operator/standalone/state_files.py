"""The operator's own small files: whole or not at all, by rename."""

import json
import os
from pathlib import Path
from typing import Any

from hoodie import errors


def replace(path: Path, content: bytes) -> None:
    """Put a file in place, durably.

    Raises:
        StorageError: It cannot be written.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        raise errors.StorageError(f"{path}: {error.strerror}") from error


def read(path: Path) -> bytes | None:
    """Return a file's content; None when there is none.

    Raises:
        StorageError: It cannot be read.
    """
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise errors.StorageError(f"{path}: {error.strerror}") from error


def replace_json(path: Path, data: object) -> None:
    """Put a JSON file in place, as `replace`."""
    replace(path, json.dumps(data, indent=1).encode())


def read_json(path: Path) -> dict[str, Any] | None:
    """Return a JSON file's object; None when there is none.

    Raises:
        FormatError: It holds something else.
        StorageError: It cannot be read.
    """
    content = read(path)
    if content is None:
        return None
    try:
        data = json.loads(content)
    except ValueError as error:
        raise errors.FormatError(f"{path}: {error}") from error
    if not isinstance(data, dict):
        raise errors.FormatError(f"{path}: holds no JSON object")
    return data
