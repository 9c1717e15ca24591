"""What befalls a fleet: deaths, pauses, cut cables, and a ZooKeeper that goes or ends sessions."""

import contextlib
import enum
import heapq
import itertools
import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from hoodie import environment, errors, table
from hoodie.timeline import chain
from hoodie.transaction import authors
from hoodie.transaction.locks import curator
from hoodie_operator.standalone.embedded_zookeeper import EmbeddedZooKeeper
from processes import fleet, network, worker

LOCK_PATH = "/fleet/lock"
SESSION_S = 2.0
_ANSWER_S = 2.0
_LOOK_S = 0.005
_JAVA_LONG = 1 << 48


class Kind(enum.StrEnum):
    """What may befall the fleet."""

    DEATH = "deaths"
    PAUSE = "pauses"
    SILENCE = "pauses beyond the session"
    REPLACEMENT = "replacements of a paused process"
    CUT = "cuts"
    RESTART = "restarts of ZooKeeper"
    FREEZE = "pauses of ZooKeeper"
    EXPIRY = "sessions of a holder ended"
    LIFELESSNESS = "pauses beyond the heartbeat"
    EPOCH = "authors of a new epoch stopped"


OF_PROCESSES: Mapping[Kind, int] = {
    Kind.DEATH: 8,
    Kind.PAUSE: 6,
    Kind.SILENCE: 2,
    Kind.REPLACEMENT: 2,
}
"""How often, by the side of each other."""

_OF_ONE = {*OF_PROCESSES, Kind.LIFELESSNESS}

OF_ALL: Mapping[Kind, int] = {
    **OF_PROCESSES,
    Kind.CUT: 3,
    Kind.RESTART: 1,
    Kind.FREEZE: 1,
    Kind.EXPIRY: 4,
}

WITHOUT_LOCK: Mapping[Kind, int] = {
    Kind.DEATH: 4,
    Kind.PAUSE: 6,
    Kind.LIFELESSNESS: 4,
    Kind.REPLACEMENT: 3,
    Kind.EPOCH: 8,
}

_PAUSES_S = {
    Kind.PAUSE: (0.05, 1.0),
    Kind.SILENCE: (SESSION_S, 4 * SESSION_S),
    Kind.LIFELESSNESS: (worker.HEARTBEAT_EXPIRY_S, 2.0 * worker.HEARTBEAT_EXPIRY_S),
}

_AFTER_EPOCH = (Kind.DEATH, Kind.PAUSE, Kind.LIFELESSNESS, Kind.REPLACEMENT)
"""What may befall an author between its epoch and the file that this says."""


@dataclass(frozen=True, kw_only=True)
class LockService:
    """A ZooKeeper, and the network between it and the fleet."""

    server: EmbeddedZooKeeper
    address: str
    cables: network.Network
    sites: tuple[str, ...]


class Trouble:
    """Does one thing after the other to a fleet; what it breaks it mends a little later."""

    def __init__(
        self,
        crew: fleet.Fleet,
        opened: table.Table,
        service: LockService | None,
        chance: random.Random,
    ) -> None:
        """Take the fleet, its table, and the lock service if something may befall that, too."""
        self._crew = crew
        storage = environment.system().open_storage(opened.uri)
        self._chain = chain.opened(storage, opened.config)
        if self._chain is not None:
            self._weights = WITHOUT_LOCK
        else:
            self._weights = OF_PROCESSES if service is None else OF_ALL
        self._service = service
        self._chance = chance
        self._mends: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._cut: set[str] = set()
        self.expiries_ms: list[int] = []
        self.counts: Counter[Kind] = Counter()

    def go_on(self) -> None:
        """Mend what is due, and let something befall the fleet, if it can just now."""
        while self._mends and self._mends[0][0] <= time.monotonic():
            heapq.heappop(self._mends)[2]()
        (kind,) = self._chance.choices(list(self._weights), list(self._weights.values()))
        actor = self._chance.choice(self._crew.actors)
        # On a busy machine Python takes seconds to start: nobody is killed before it did something.
        if kind in _OF_ONE and not actor.is_at_work:
            return
        self.counts[kind] += self._befall(kind, actor)

    def mend_all(self) -> None:
        """Mend everything now."""
        while self._mends:
            heapq.heappop(self._mends)[2]()

    def _befall(self, kind: Kind, actor: fleet.Actor) -> bool:
        """Return whether there was an occasion."""
        match kind:
            case Kind.DEATH:
                self._crew.kill(actor)
                self._crew.start(actor)
            case Kind.PAUSE | Kind.SILENCE | Kind.LIFELESSNESS:
                self._later(self._chance.uniform(*_PAUSES_S[kind]), self._crew.pause(actor))
            case Kind.REPLACEMENT:
                return self._replace(actor)
            case Kind.EPOCH:
                return self._stop_author()
            case Kind.CUT:
                return self._cut_cable()
            case Kind.RESTART:
                self._restart()
            case Kind.FREEZE:
                self._freeze()
            case Kind.EXPIRY:
                return self._end_session()
        return True

    def _later(self, seconds: float, mend: Callable[[], None]) -> None:
        heapq.heappush(self._mends, (time.monotonic() + seconds, next(self._numbers), mend))

    def _replace(self, actor: fleet.Actor) -> bool:
        """Take a process for dead that is not, and let it come back."""
        if actor.role is not worker.Role.WRITER:
            return False
        forgotten = actor.process
        assert forgotten is not None
        go_on = self._crew.pause(actor)
        self._crew.start(actor)

        def die() -> None:
            forgotten.kill()
            forgotten.wait()

        come_back_s = self._chance.uniform(0.5, 4) * SESSION_S
        self._later(come_back_s, go_on)
        self._later(come_back_s + 2 * SESSION_S, die)
        return True

    def _stop_author(self) -> bool:
        """Stop the author of the next epoch, if possible before the epoch is published."""
        assert self._chain is not None
        deadline_s = time.monotonic() + _ANSWER_S
        try:
            before = self._chain.head()
            while (newest := self._chain.head()) == before:
                if time.monotonic() > deadline_s:
                    return False
                time.sleep(_LOOK_S)
        except errors.StorageError:
            return False  # It does not answer just now.
        author = newest.epoch.author
        for actor in self._crew.actors:
            if author == str(authors.Author(writer_id=actor.name)) and actor.is_at_work:
                return self._befall(self._chance.choice(_AFTER_EPOCH), actor)
        return False  # It is of a service, or of a process that was replaced.

    def _cut_cable(self) -> bool:
        assert self._service is not None
        cables, site = self._service.cables, self._chance.choice(self._service.sites)
        if site in self._cut:
            return False
        cables.cut(site)
        self._cut.add(site)

        def mend() -> None:
            cables.mend(site)
            self._cut.discard(site)

        self._later(self._chance.uniform(0.1, 2) * SESSION_S, mend)
        return True

    def _restart(self) -> None:
        assert self._service is not None
        if self._chance.random() < 0.5:
            os.kill(self._server_pid, signal.SIGKILL)
        else:
            self._service.server.stop()
        time.sleep(self._chance.uniform(0, SESSION_S))
        self._service.server.start()

    def _freeze(self) -> None:
        os.kill(self._server_pid, signal.SIGSTOP)
        time.sleep(self._chance.uniform(0.1, 2) * SESSION_S)
        os.kill(self._server_pid, signal.SIGCONT)

    def _end_session(self) -> bool:
        """Stop whoever has the lock, give it to the next by ending the session, let it go on."""
        assert self._service is not None
        client = KazooClient(self._service.address)
        try:
            client.start(timeout=_ANSWER_S)
            line = curator.in_order(client.get_children(LOCK_PATH))
            content, node = client.get(f"{LOCK_PATH}/{line[0]}")
            go_on = self._pause_process(content.decode())
            self.expiries_ms.append(time.time_ns() // 1_000_000)
            end_session(self._service.address, node.owner_session_id)
        except (KazooException, KazooTimeoutError, IndexError, StopIteration):
            return False  # It does not answer just now, or nobody has the lock.
        finally:
            client.stop()
            client.close()
        self._later(self._chance.uniform(0.1, 1), go_on)
        return True

    def _pause_process(self, owner: str) -> Callable[[], None]:
        """Stop the process that a lock's node tells of."""
        pid = int(owner.partition("(pid ")[2].partition(" ")[0])
        actor = next(each for each in self._crew.actors if each.process and each.process.pid == pid)
        return self._crew.pause(actor)

    @property
    def _server_pid(self) -> int:
        assert self._service is not None
        pid: int = json.loads((self._service.server.directory / "server.json").read_text())["pid"]
        return pid


def end_session(address: str, session_id: int) -> None:
    """End another client's session: come with its id and password, and say farewell."""
    twin = KazooClient(address, client_id=(session_id, session_password(session_id)))
    with contextlib.suppress(KazooTimeoutError, KazooException):
        twin.start(timeout=_ANSWER_S)
        twin.stop()
    twin.close()


def session_password(session_id: int) -> bytes:
    """Return the password that a server gives out with a session.

    It is 16 bytes of `java.util.Random`, seeded with the session and a constant of the server.
    Source: `org.apache.zookeeper.server.ZooKeeperServer.generatePasswd`.
    """
    state = (session_id ^ 0xB3415C00 ^ 0x5DEECE66D) % _JAVA_LONG
    password = b""
    for _ in range(4):
        state = (state * 0x5DEECE66D + 0xB) % _JAVA_LONG
        password += (state >> 16).to_bytes(4, "little")
    return password
