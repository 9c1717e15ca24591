"""One operator per state folder, by a lock that ends with its process."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hoodie import errors, identity

_NAME = "owner.lock"


@contextmanager
def owned(folder: Path) -> Iterator[None]:
    """Own a state folder for as long as the context is open.

    The lock goes with the process, however it ends; what the file says is for messages only.

    Raises:
        AlreadyExistsError: Another process owns it; the message names it.
        StorageError: The folder cannot be made or locked.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / _NAME).open("a+")
    except OSError as error:
        raise errors.StorageError(f"{folder}: {error.strerror}") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            owner = file.read().strip() or "another process"
            raise errors.AlreadyExistsError(
                f"another operator ({owner}) uses the state folder {folder}: stop it, or take "
                "another one by --state"
            ) from None
        except OSError as error:
            raise errors.StorageError(f"{folder}: {error.strerror}") from error
        file.truncate(0)
        process = identity.current_process()
        file.write(f"{process}\n")
        file.flush()
        os.set_inheritable(file.fileno(), False)
        yield


def owner_of(folder: Path) -> str | None:
    """Return who owns a state folder now; None when nobody does."""
    try:
        with (folder / _NAME).open("r") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return None
    except BlockingIOError:
        return (folder / _NAME).read_text().strip() or "another process"
    except OSError:
        return None
