"""Looking at lock providers, and serving those that are to be served here."""

import shutil
import socket
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path

from hoodie import clock, errors
from hoodie_operator.api import lock_provider, objects
from hoodie_operator.reconcile import facts
from hoodie_operator.standalone.embedded_zookeeper import EmbeddedZooKeeper

_ANSWER_S = 1.0
_ANSWER_BYTES = 1024
_QUESTION = b"srvr"  # The one four-letter word that servers answer by default.
_ANSWER = b"Zookeeper version"
_NOT_SERVING = b"not currently serving requests"
_START_WAIT_S = 60.0
_WITHOUT_SERVER = {
    lock_provider.LockType.FILE_SYSTEM: "a lock file beside each table",
    lock_provider.LockType.IN_PROCESS: "a lock inside each process",
    lock_provider.LockType.STORAGE: "a lease in the storage of each table",
    # Whether it may be asked, the credentials of a run decide, not ours.
    lock_provider.LockType.DYNAMODB: "a lease in a table of DynamoDB",
}


class LockServers:
    """The lock servers of one state folder."""

    def __init__(self, state: Path, operator_clock: clock.Clock) -> None:
        """Take the state folder; nothing is started."""
        self._folder = state / "locks"
        self._clock = operator_clock
        self._addresses: dict[str, str] = {}
        self._failures: dict[str, str] = {}
        self._starting: dict[str, Future[str]] = {}
        self._threads = ThreadPoolExecutor(thread_name_prefix="lock-servers")

    def serve(self, uid: str) -> None:
        """See to it that the server of a LockProvider runs; it is started in the background."""
        starting = self._starting.get(uid)
        if starting is not None:
            if not starting.done():
                return
            del self._starting[uid]
            self._note(uid, starting)
        elif uid in self._addresses and self._server(uid).is_serving():
            return
        else:
            self._starting[uid] = self._threads.submit(self._server(uid).start, _START_WAIT_S)

    def _note(self, uid: str, started: Future[str]) -> None:
        try:
            self._addresses[uid] = started.result()
            self._failures.pop(uid, None)
        except errors.HoodieError as error:
            self._addresses.pop(uid, None)
            self._failures[uid] = f"{error.kind}: {error}"

    def stop(self, uid: str) -> None:
        """Stop the server of a LockProvider; nothing when none runs."""
        starting = self._starting.pop(uid, None)
        if starting is not None:
            wait([starting])
        self._addresses.pop(uid, None)
        if (self._folder / uid).is_dir():
            self._server(uid).stop()

    def remove(self, uid: str) -> None:
        """Stop the server of a LockProvider, and remove all that it kept."""
        self.stop(uid)
        shutil.rmtree(self._folder / uid, ignore_errors=True)

    def look(self, found: objects.Lock, before: facts.LockFacts | None) -> facts.LockFacts:
        """Return whether a provider answers now."""
        is_ready, servers, message = self._ask(found)
        is_same = before is not None and before.is_ready == is_ready
        return facts.LockFacts(
            generation=found.generation,
            is_ready=is_ready,
            servers=servers,
            message=message,
            since_ms=before.since_ms if before is not None and is_same else self._clock.now_ms(),
        )

    def _ask(self, found: objects.Lock) -> tuple[bool, tuple[str, ...], str]:
        spec = found.spec
        told = _WITHOUT_SERVER.get(spec.type)
        if told is not None:
            return True, (), told
        if spec.embedded:
            return self._ask_embedded(found.uid)
        if spec.hive_metastore is not None:
            return self._ask_all(spec.hive_metastore.servers, _silence, "Hive Metastore")
        assert spec.zookeeper is not None
        assert spec.zookeeper.servers is not None
        return self._ask_all(spec.zookeeper.servers, _silence_of_zookeeper, "ZooKeeper")

    def _ask_all(
        self, servers: tuple[str, ...], ask: Callable[[str], str | None], kind: str
    ) -> tuple[bool, tuple[str, ...], str]:
        return _told(dict(zip(servers, self._threads.map(ask, servers), strict=True)), kind)

    def _ask_embedded(self, uid: str) -> tuple[bool, tuple[str, ...], str]:
        address = self._addresses.get(uid)
        if address is None:
            return False, (), self._failures.get(uid, "the embedded server starts")
        if not self._server(uid).is_serving():
            return False, (address,), f"the embedded server at {address} does not answer"
        return True, (address,), f"the embedded server answers at {address}"

    def _server(self, uid: str) -> EmbeddedZooKeeper:
        return EmbeddedZooKeeper(self._folder / uid, self._clock)


def _told(silences: Mapping[str, str | None], kind: str) -> tuple[bool, tuple[str, ...], str]:
    """Return whether servers of a kind serve, which they are, and what is to be said of them."""
    count = sum(why is None for why in silences.values())
    told = "; ".join(f"{server} {why}" for server, why in silences.items() if why is not None)
    if count == 0:
        return False, tuple(silences), f"{told}, expected a {kind}"
    answers = f"{count} of {len(silences)} answer"
    return True, tuple(silences), f"{answers}; {told}" if told else answers


def _connect(server: str) -> socket.socket:
    host, _, port = server.rpartition(":")
    return socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWER_S)


def _silence(server: str) -> str | None:
    """Return why a server cannot be used; None when it takes connections."""
    try:
        _connect(server).close()
    except (OSError, ValueError, OverflowError):
        return "does not answer"
    return None


def _silence_of_zookeeper(server: str) -> str | None:
    """Return why a server cannot be used; None when it is a ZooKeeper that serves."""
    try:
        with _connect(server) as opened:
            opened.sendall(_QUESTION)
            answer = opened.recv(_ANSWER_BYTES)
    except (OSError, ValueError, OverflowError):
        return "does not answer"
    if _NOT_SERVING in answer:
        return "does not serve now: it has no quorum"
    # One that is told to answer no questions says so itself.
    return None if answer.startswith((_ANSWER, _QUESTION)) else "is no ZooKeeper"
