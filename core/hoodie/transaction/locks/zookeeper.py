"""A lock in ZooKeeper, as Curator's InterProcessMutex has it, which Apache Hudi's writers use.

- While the connection is lost nothing is known of the lock; when the same session comes back it is
  still ours. When the session expires it is lost for good.
- `is_held` asks the servers: a process that was paused for longer than its session does not know.
- The fencing token is the transaction that created our node, which grows over the whole ensemble.
- The node's content names its owner to those who wait.
- A failed acquisition ends its session, so no node of it can stay behind and block everybody.
"""

import logging
import threading  # noqa: TID251 - kazoo calls from threads of its own
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import kazoo.exceptions

from hoodie import clock, errors, identity
from hoodie.transaction.locks import curator, inspection, zookeeper_session
from hoodie.transaction.locks.addresses import ZooKeeperAddress
from hoodie.transaction.locks.inspection import Holding, Liveness
from hoodie.transaction.locks.protocol import LockOwner

logger = logging.getLogger(__name__)

_LOOK_AGAIN_S = 5.0  # Should a notification ever get lost.
_ANSWER_MIN_S = 2.0  # A try takes some requests, even one that is not to wait for others.
_FAREWELL_S = 5.0
_OWNER_TEXT_MAX = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class _Hold:
    node: str
    token: int
    session_number: int


class ZooKeeperLock:
    """One transaction's access; it connects when it first takes the lock."""

    def __init__(
        self,
        address: ZooKeeperAddress,
        owner: LockOwner,
        *,
        path: str,
        waiting_clock: clock.Clock,
        random: identity.Random,
    ) -> None:
        """Take the ensemble, and the lock's path in it, which stands for the address's own."""
        self._address = address
        self._owner = owner
        self._path = path
        self._clock = waiting_clock
        self._random = random
        self._changed = threading.Event()
        self._session: zookeeper_session.Session | None = None
        self._hold: _Hold | None = None
        self._seen = ""

    @property
    def description(self) -> str:
        """The lock in words."""
        return f"ZooKeeper lock {self._path} at {','.join(self._address.servers)}"

    def acquire(self, wait_s: float) -> None:
        """Take the lock, waiting no longer than that for the connection and for others."""
        if self._hold is not None:
            raise errors.InvalidInputError(f"{self._owner} already holds the {self.description}")
        start_s = self._clock.monotonic_s()
        answers_by_s = start_s + max(wait_s, _ANSWER_MIN_S)
        connected_by_s = min(answers_by_s, start_s + self._address.connection_timeout_s)
        self._seen = f"no connection within {connected_by_s - start_s:g} s"
        try:
            session = self._connected(connected_by_s)
            self._hold = self._wait_in_line(session, start_s + wait_s, answers_by_s)
        except zookeeper_session.TimedOutError as error:
            raise errors.LockTimeoutError(
                f"{self._owner} timed out after {wait_s:g} s waiting for the {self.description}: "
                f"{self._seen}"
            ) from error
        except (kazoo.exceptions.NoAuthError, kazoo.exceptions.AuthFailedError) as error:
            raise errors.ConfigurationError(
                f"{self._owner} may not take the {self.description}: {type(error).__name__}"
            ) from error
        except kazoo.exceptions.KazooException as error:
            raise errors.StorageError(
                f"the {self.description} failed for {self._owner}: {type(error).__name__}"
            ) from error
        finally:
            if self._hold is None:
                self._end_session()

    def _connected(self, by_s: float) -> zookeeper_session.Session:
        if self._session is None:
            self._session = zookeeper_session.Session(
                ",".join(self._address.servers),
                self._address.session_timeout_s,
                self._clock,
                self._changed.set,
            )
        self._session.await_connection(by_s)
        return self._session

    def _wait_in_line(
        self, session: zookeeper_session.Session, line_by_s: float, answers_by_s: float
    ) -> _Hold:
        prefix = curator.node_prefix(self._random.uuid())
        self._seen = "the servers did not answer"
        while True:
            self._changed.clear()
            session.await_connection(answers_by_s)
            try:
                hold = self._look(session, prefix, answers_by_s)
            except (kazoo.exceptions.NoNodeError, *zookeeper_session.LOST_ANSWERS):
                continue  # Who was before us went, or the connection did: look again.
            if hold is not None:
                return hold
            left_s = line_by_s - self._clock.monotonic_s()
            if left_s <= 0:
                raise zookeeper_session.TimedOutError(self._seen)
            self._changed.wait(min(left_s, _LOOK_AGAIN_S))

    def _look(self, session: zookeeper_session.Session, prefix: str, by_s: float) -> _Hold | None:
        """Stand in line if we do not yet, and return our hold if we are the first.

        Where we are not, `_changed` is set when the one before us goes.
        """
        number = session.number
        line = self._line(session, by_s)
        ours = [name for name in line if name.startswith(prefix)]
        if not ours:
            session.create(f"{self._path}/{prefix}", str(self._owner).encode(), by_s)
            line = self._line(session, by_s)
            ours = [name for name in line if name.startswith(prefix)]
            if not ours:
                return None  # The session expired between; the change of state was heard.
        for twin in ours[1:]:
            # A creation whose answer was lost was done twice.
            session.delete(f"{self._path}/{twin}", by_s)
        before = line.index(ours[0])
        if before:
            holder = session.read(f"{self._path}/{line[0]}", by_s)
            others = f", and {before - 1} more are queued" if before > 1 else ""
            self._seen = f"held by {_shown(holder)}{others}"
            session.watch(f"{self._path}/{line[before - 1]}", by_s)
            return None
        node = f"{self._path}/{ours[0]}"
        token = session.creation(node, by_s)
        return None if token is None else _Hold(node=node, token=token, session_number=number)

    def _line(self, session: zookeeper_session.Session, by_s: float) -> list[str]:
        try:
            return curator.in_order(session.children(self._path, by_s))
        except kazoo.exceptions.NoNodeError:
            session.make_path(self._path, by_s)
            return []

    def holding(self) -> Holding | None:
        """Return who is first in line."""
        with self._reported():
            by_s = self._clock.monotonic_s() + self._address.connection_timeout_s
            session = self._connected(by_s)
            while True:
                try:
                    line = curator.in_order(session.children(self._path, by_s))
                except kazoo.exceptions.NoNodeError:
                    return None
                if not line:
                    return None
                node = session.node(f"{self._path}/{line[0]}", by_s)
                if node is not None:
                    return _holding(line[0], node)

    def take_away(self, found: Holding) -> bool:
        """Delete exactly the node that was seen."""
        path = f"{self._path}/{found.holder.id}"
        with self._reported():
            by_s = self._clock.monotonic_s() + self._address.connection_timeout_s
            session = self._connected(by_s)
            if session.creation(path, by_s) != int(found.version):
                return False
            try:
                session.delete(path, by_s)
            except kazoo.exceptions.NoNodeError:
                return False
        return True

    @contextmanager
    def _reported(self) -> Iterator[None]:
        """Turn the client's errors into ours."""
        try:
            yield
        except (kazoo.exceptions.KazooException, zookeeper_session.TimedOutError) as error:
            raise errors.StorageError(
                f"the {self.description} does not answer {self._owner}: {type(error).__name__}"
            ) from error

    def release(self) -> None:
        """Give the lock back, if it is still ours."""
        hold, self._hold = self._hold, None
        session = self._session
        if hold is None or session is None:
            raise errors.InvalidInputError(f"{self._owner} does not hold the {self.description}")
        if session.number != hold.session_number:
            logger.warning("%s had lost the %s before releasing it", self._owner, self.description)
            return
        try:
            session.delete(hold.node, self._clock.monotonic_s() + _FAREWELL_S)
        except kazoo.exceptions.NoNodeError:
            logger.warning("%s had lost the %s before releasing it", self._owner, self.description)
        except (kazoo.exceptions.KazooException, zookeeper_session.TimedOutError) as error:
            logger.warning(
                "%s ends its session to release the %s: %s",
                self._owner,
                self.description,
                type(error).__name__,
            )
            self._end_session()

    def is_held(self) -> bool:
        """Return whether our node is there, by the servers; False while they do not answer."""
        hold, session = self._hold, self._session
        if hold is None or session is None or not session.is_connected:
            return False
        by_s = self._clock.monotonic_s() + self._address.connection_timeout_s
        try:
            token = session.creation(hold.node, by_s)
        except (kazoo.exceptions.KazooException, zookeeper_session.TimedOutError):
            return False
        return token == hold.token and session.number == hold.session_number

    @property
    def fencing_token(self) -> int:
        """The transaction that created our node."""
        if self._hold is None:
            raise errors.LockLostError(f"{self._owner} does not hold the {self.description}")
        return self._hold.token

    def close(self) -> None:
        """Give the lock back if it is taken, and end the session."""
        if self._hold is not None:
            self.release()
        self._end_session()

    def _end_session(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()


def _holding(name: str, node: zookeeper_session.Node) -> Holding:
    if node.is_ephemeral:
        evidence = "the servers have not ended its session, which they do when it is silent"
        release = "the holder releases it, or its session ends"
    else:
        evidence = "its node belongs to no session, so its liveness is unknown"
        release = "only the holder can release it"
    return Holding(
        holder=replace(inspection.holder_of(_shown(node.content)), id=name),
        since_ms=node.created_ms,
        liveness=Liveness.MAYBE,
        evidence=evidence,
        release=release,
        version=str(node.creation),
    )


def _shown(content: bytes) -> str:
    text = content.decode(errors="replace")[:_OWNER_TEXT_MAX]
    return "".join(letter if letter.isprintable() else "?" for letter in text) or "unknown"
