"""A ZooKeeper server (`lock_server`) as a process of this machine.

It listens on 127.0.0.1 only, unless told otherwise, keeps its data in a directory, and goes on when
the operator ends: running jobs hold locks in it. Whoever opens the same directory finds it again.
In the directory:

    zoo.cfg       its configuration, made anew at each start
    data/         its own snapshots and logs
    server.json   port and process of the last start
    server.lock   held (flock) by the server's process, which inherits it, for as long as it lives
    server.log    what it printed
    start.lock    held (flock) by whoever is starting or stopping it

So whether the server runs is known for certain, whatever became of its starter and its process id.
"""

import fcntl
import json
import logging
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from hoodie import clock, errors
from hoodie_operator import lock_server

logger = logging.getLogger(__name__)

HOST = "127.0.0.1"
_ANSWER_S = 2.0
_EARLY_ANSWER_S = 0.5  # A server that is just starting may accept a connection and never answer.
_POLL_S = 0.05
_PORTS_TRIED_MAX = 5
_LOG_TAIL_BYTES = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Start:
    port: int
    pid: int


class EmbeddedZooKeeper:
    """The server of one directory, running or not."""

    def __init__(
        self,
        directory: Path,
        waiting_clock: clock.Clock,
        *,
        tick_ms: int = lock_server.TICK_MS,
        java: str | None = None,
        host: str = HOST,
    ) -> None:
        """Take the directory, which is made at the first start.

        Args:
            directory: Where the server keeps everything.
            waiting_clock: For waiting.
            tick_ms: The server's unit of time: sessions end within one of their time-out, which is
                two at least.
            java: The program; `JAVA_HOME` or the PATH tells where none is given.
            host: The address it listens at.
        """
        self._directory = directory.resolve()
        self._clock = waiting_clock
        self._tick_ms = tick_ms
        self._java = java
        self._host = host

    @property
    def directory(self) -> Path:
        """Where the server keeps everything."""
        return self._directory

    def start(self, wait_s: float = 60.0) -> str:
        """Start the server unless it serves already, and return its `HOST:PORT`.

        The port stays the same over restarts if it can, so that clients find the server again.

        Raises:
            ConfigurationError: There is no Java or no pyspark.
            StorageError: The server ended, or does not answer within that time.
        """
        deadline_s = self._clock.monotonic_s() + wait_s
        with self._only_one():
            last = self._last_start()
            if self._is_running():
                if last is None:
                    raise errors.StorageError(
                        f"a ZooKeeper runs in {self._directory}, and its server.json is gone"
                    )
                if self._await_answer(last.port, deadline_s):
                    return f"{self._host}:{last.port}"
                # It was about to end when we looked.
            wished = None if last is None else last.port
            for _ in range(_PORTS_TRIED_MAX):
                port = _free_port(self._host, wished)
                said_before = self._log_size()
                self._spawn(port)
                if self._await_answer(port, deadline_s):
                    logger.info("started ZooKeeper at %s:%s", self._host, port)
                    return f"{self._host}:{port}"
                said = self._log_from(said_before)
                if "Address already in use" not in said:
                    raise errors.StorageError(f"the ZooKeeper of {self._directory} ended: {said}")
                wished = None
        raise errors.StorageError(f"the ZooKeeper of {self._directory} finds no free port")

    def is_serving(self) -> bool:
        """Return whether this directory's server answers now."""
        last = self._last_start()
        return last is not None and self._serves(last.port)

    def stop(self, wait_s: float = 10.0) -> None:
        """Stop the server and wait until its process has ended; nothing if none runs.

        Raises:
            StorageError: It cannot be stopped.
        """
        with self._only_one():
            last = self._last_start()
            for each in (signal.SIGTERM, signal.SIGKILL):
                if not self._is_running():
                    return
                if last is None:
                    break
                os.kill(last.pid, each)
                deadline_s = self._clock.monotonic_s() + wait_s
                while self._is_running() and self._clock.monotonic_s() < deadline_s:
                    self._clock.sleep_s(_POLL_S)
                _reap(last.pid)
            if self._is_running():
                raise errors.StorageError(f"the ZooKeeper of {self._directory} cannot be stopped")

    @contextmanager
    def _only_one(self) -> Iterator[None]:
        self._directory.mkdir(parents=True, exist_ok=True)
        with (self._directory / "start.lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _spawn(self, port: int) -> None:
        configuration = lock_server.write_configuration(
            self._directory, self._host, port, self._tick_ms
        )
        command = lock_server.command(configuration, self._java)
        # Written twice, so that the port of a running server is known whenever we are killed.
        self._remember(_Start(port=port, pid=0))
        log_flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        with (self._directory / "server.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            inherited = lock.fileno() + 1  # Another number: then it stays open in the child alone.
            # In a session of its own: it outlives the operator, and an interrupt of its terminal.
            pid = os.posix_spawn(
                command[0],
                command,
                os.environ,
                setsid=True,
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_OPEN, 1, str(self._directory / "server.log"), log_flags, 0o644),
                    (os.POSIX_SPAWN_DUP2, 1, 2),
                    (os.POSIX_SPAWN_DUP2, lock.fileno(), inherited),
                ],
            )
        self._remember(_Start(port=port, pid=pid))

    def _remember(self, start: _Start) -> None:
        temporary = self._directory / "server.json.new"
        temporary.write_text(json.dumps(asdict(start)), encoding="utf-8")
        temporary.replace(self._directory / "server.json")

    def _last_start(self) -> _Start | None:
        try:
            fields = json.loads((self._directory / "server.json").read_text(encoding="utf-8"))
            return _Start(port=int(fields["port"]), pid=int(fields["pid"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _is_running(self) -> bool:
        with (self._directory / "server.lock").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            return False

    def _await_answer(self, port: int, deadline_s: float) -> bool:
        """Return True once it serves, and False if it ended."""
        while not self._serves(port, _EARLY_ANSWER_S):
            if not self._is_running():
                return False
            if self._clock.monotonic_s() >= deadline_s:
                raise errors.StorageError(
                    f"the ZooKeeper of {self._directory} does not answer at {self._host}:{port}"
                )
            self._clock.sleep_s(_POLL_S)
        return True

    def _serves(self, port: int, answer_s: float = _ANSWER_S) -> bool:
        # Its own data directory is the proof that it is this server and no other at the port.
        answer = _ask((self._host, port), b"conf", answer_s)
        return f"dataDir={lock_server.data(self._directory)}{os.sep}" in answer

    def _log_size(self) -> int:
        path = self._directory / "server.log"
        return path.stat().st_size if path.exists() else 0

    def _log_from(self, offset: int) -> str:
        content = (self._directory / "server.log").read_bytes()[offset:]
        return content[-_LOG_TAIL_BYTES:].decode(errors="replace").strip()


def _free_port(host: str, wished: int | None) -> int:
    for port in (wished or 0, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError:
                continue
            number: int = probe.getsockname()[1]
            return number
    raise errors.StorageError(f"there is no free port at {host}")


def _ask(server: tuple[str, int], word: bytes, answer_s: float) -> str:
    """Return the answer to a four-letter word, empty if there is none."""
    try:
        with socket.create_connection(server, timeout=answer_s) as connection:
            connection.sendall(word)
            parts = []
            while part := connection.recv(4096):
                parts.append(part)
            return b"".join(parts).decode(errors="replace")
    except OSError:
        return ""


def _reap(pid: int) -> None:
    """Take note of the end of a child, which stays a zombie otherwise."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except (ChildProcessError, ProcessLookupError):
        return  # Not ours, or reaped before.
