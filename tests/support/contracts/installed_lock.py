"""A lock provider of a user's own, in a distribution that is installed for one test.

It is a file taken by `flock`, which the kernel gives back when its process ends.
"""

import fcntl
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import IO

import pytest

from hoodie import clock, errors, identity
from hoodie.background.protocol import Background
from hoodie.storage.protocol import Storage
from hoodie.transaction.locks.custom import ENTRY_POINTS
from hoodie.transaction.locks.polling import Polling, Waiting
from hoodie.transaction.locks.protocol import LockOwner

logger = logging.getLogger(__name__)

NAME = "flock"
_POLLING = Polling(first_s=0.002, longest_s=0.05)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of the provider, which this process and its children find installed."""
    site = tmp_path / "site"
    providers = {NAME: "flock_locks:open_flock", "broken": "flock_locks:nothing"}
    write_distribution(site, "flock-locks", providers)
    (site / "flock_locks.py").write_text(
        "from support.contracts.installed_lock import open_flock\n"
    )
    monkeypatch.syspath_prepend(str(site))
    tests = str(Path(__file__).parents[2])
    before = [path for path in (os.environ.get("PYTHONPATH"),) if path]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(site), tests, *before]))
    return NAME


def write_distribution(site: Path, name: str, providers: Mapping[str, str]) -> None:
    """Write what an installed distribution says of itself, with lock providers by their names."""
    information = site / f"{name.replace('-', '_')}-1.0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = (f"{provider} = {function}\n" for provider, function in providers.items())
    (information / "entry_points.txt").write_text(f"[{ENTRY_POINTS}]\n{''.join(lines)}")


def open_flock(
    text: str,
    storage: Storage,
    owner: LockOwner,
    *,
    waiting_clock: clock.Clock,
    random: identity.Random,
    background: Background,
) -> "Flock":
    """Open the file that the address names."""
    del storage, background
    return Flock(Path(f"/{text}"), owner, waiting_clock, random)


class Flock:
    """One access to a file; its content is the last token, and who had it."""

    def __init__(
        self, path: Path, owner: LockOwner, waiting_clock: clock.Clock, random: identity.Random
    ) -> None:
        self._path = path
        self._owner = owner
        self._clock = waiting_clock
        self._random = random
        self._file: IO[bytes] | None = None
        self._token = 0

    @property
    def description(self) -> str:
        return f"flock of {self._path}"

    def acquire(self, wait_s: float) -> None:
        if self._file is not None:
            raise errors.InvalidInputError(f"{self._owner} already holds the {self.description}")
        waiting = Waiting(_POLLING, wait_s, self._clock, self._random)
        file = self._path.open("a+b")
        while not _is_taken(file):
            if not waiting.pause():
                _, owner = self._read(file)
                file.close()
                raise errors.LockTimeoutError(
                    f"{self._owner} did not get the {self.description}: held by {owner}"
                )
        self._file, self._token = file, self._read(file)[0] + 1
        file.truncate(0)
        file.write(f"{self._token} {self._owner}".encode())
        file.flush()

    def _read(self, file: IO[bytes]) -> tuple[int, str]:
        file.seek(0)
        token, _, owner = file.read().decode().partition(" ")
        return int(token or 0), owner

    def release(self) -> None:
        file, self._file = self._file, None
        if file is None:
            raise errors.InvalidInputError(f"{self._owner} does not hold the {self.description}")
        if not self._is_same(file):
            logger.warning("%s had lost the %s before releasing it", self._owner, self.description)
        file.close()

    def is_held(self) -> bool:
        return self._file is not None and self._is_same(self._file)

    def _is_same(self, file: IO[bytes]) -> bool:
        try:
            return os.path.samestat(os.fstat(file.fileno()), self._path.stat())
        except FileNotFoundError:
            return False

    @property
    def fencing_token(self) -> int:
        if self._file is None:
            raise errors.LockLostError(f"{self._owner} does not hold the {self.description}")
        return self._token

    def close(self) -> None:
        if self._file is not None:
            self.release()


def _is_taken(file: IO[bytes]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
