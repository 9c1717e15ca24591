"""A session with a ZooKeeper ensemble, in which no call waits longer than it is told.

kazoo's own calls wait for as long as the connection is being mended, and a client that is not
connected takes its time to stop; both would break the promise of a lock's waiting time.
"""

import logging
import threading  # noqa: TID251 - stopping a client that hangs must not hold up its user
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import kazoo.client
import kazoo.exceptions
import kazoo.handlers.threading
import kazoo.retry
from kazoo.protocol.states import KazooState

from hoodie import clock
from hoodie.transaction.locks import zookeeper_connection

logger = logging.getLogger(__name__)

TimedOutError: type[Exception] = kazoo.handlers.threading.KazooTimeoutError
"""What a call raises that had no answer in time."""

LOST_ANSWERS = (
    kazoo.exceptions.ConnectionLoss,
    kazoo.exceptions.OperationTimeoutError,
    kazoo.exceptions.SessionExpiredError,
)
"""What a call raises whose effect is unknown, or known to be gone with its session."""

# kazoo waits for the answer to a connect for the session's time-out divided by the number of hosts.
# A server that is just starting may accept a connection and never answer: with one host that would
# cost the session, so each is named several times.
_TRIES_PER_SESSION = 4

_FAREWELL_S = 5.0
"""A server that is well answers the end of a session at once; one that does not is left."""

_ANY_ANSWERS = zookeeper_connection.AnswerLimits()

_RECONNECT = {"max_tries": -1, "delay": 0.05, "backoff": 2, "max_delay": 1.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node, as it was at some moment.

    Attributes:
        content: Its bytes.
        creation: The transaction that created it.
        created_ms: When that was, by the servers' clock.
        is_ephemeral: Whether it goes with the session that created it.
        version: Counts the changes of its content.
    """

    content: bytes
    creation: int
    created_ms: int
    is_ephemeral: bool
    version: int


class _Quietly(logging.LoggerAdapter[logging.Logger]):
    """kazoo warns at each try to connect; what comes of them is told by our errors."""

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:  # noqa: ANN401
        quiet = logging.DEBUG if level <= logging.WARNING else level
        super().log(quiet, msg, *args, **kwargs)


class Session:
    """A client, connected or connecting, until it is closed."""

    def __init__(
        self,
        servers: str,
        session_timeout_s: float,
        waiting_clock: clock.Clock,
        heard: Callable[[], None],
        limits: zookeeper_connection.AnswerLimits = _ANY_ANSWERS,
    ) -> None:
        """Begin to connect.

        Args:
            servers: `HOST:PORT[,HOST:PORT]`.
            session_timeout_s: Silence after which the servers are to end the session.
            waiting_clock: Deadlines are by its monotonic time.
            heard: Called in a thread of the client when the connection or a watched node changes.
            limits: How much is taken from the servers.
        """
        self._clock = waiting_clock
        self._heard = heard
        self._expiries = 0
        self._handler = zookeeper_connection.BoundedHandler(limits)
        self._client: Any = kazoo.client.KazooClient(
            handler=self._handler,
            hosts=",".join([servers] * _TRIES_PER_SESSION),
            timeout=session_timeout_s,
            connection_retry=_RECONNECT,
            logger=_Quietly(logging.getLogger(f"{__name__}.client")),
        )
        self._client.add_listener(self._listen)
        self._connected = self._client.start_async()

    def _listen(self, state: str) -> None:
        logger.debug("connection of a lock: %s", state)
        if state == KazooState.LOST:
            self._expiries += 1
        self._heard()

    @property
    def is_connected(self) -> bool:
        """Whether the client believes so; a process that was paused may be wrong."""
        return bool(self._client.state == KazooState.CONNECTED)

    @property
    def number(self) -> int:
        """Which session it is: grows when one expired, and its nodes went."""
        return self._expiries

    def await_connection(self, deadline_s: float) -> None:
        """Wait until connected.

        Raises:
            TimedOutError: It is not by the deadline.
        """
        if not self._connected.wait(max(0.0, deadline_s - self._clock.monotonic_s())):
            raise TimedOutError("no connection")

    def create(self, path: str, content: bytes, deadline_s: float) -> str:
        """Create an ephemeral node with a number, and return its path."""
        call = self._client.create_async(path, content, ephemeral=True, sequence=True)
        return str(self._answer(call, deadline_s))

    def create_lasting(self, path: str, content: bytes, deadline_s: float) -> None:
        """Create a node that stays, and the persistent nodes above it."""
        call = self._client.create_async(path, content, makepath=True)
        self._answer(call, deadline_s)

    def replace(self, path: str, content: bytes, version: int, deadline_s: float) -> None:
        """Replace a node's content, if it still has that version."""
        self._answer(self._client.set_async(path, content, version=version), deadline_s)

    def make_path(self, path: str, deadline_s: float) -> None:
        """Create persistent nodes down to a path."""
        self._answer(self._client.ensure_path_async(path), deadline_s)

    def children(self, path: str, deadline_s: float) -> list[str]:
        """Return the names below a path, no older than this call."""
        self._client.sync_async(path)  # Answers come in the order of the calls.
        return list(self._answer(self._client.get_children_async(path), deadline_s))

    def read(self, path: str, deadline_s: float) -> bytes:
        """Return a node's content."""
        content: bytes = self._answer(self._client.get_async(path), deadline_s)[0]
        return content

    def node(self, path: str, deadline_s: float) -> Node | None:
        """Return a node as it is now; None when it is gone."""
        self._client.sync_async(path)
        try:
            content, stat = self._answer(self._client.get_async(path), deadline_s)
        except kazoo.exceptions.NoNodeError:
            return None
        return Node(
            content=content,
            creation=int(stat.czxid),
            created_ms=int(stat.ctime),
            is_ephemeral=stat.ephemeralOwner != 0,
            version=int(stat.version),
        )

    def watch(self, path: str, deadline_s: float) -> None:
        """Have `heard` called when a node, which must be there, changes or goes."""
        self._answer(self._client.get_async(path, watch=self._notice), deadline_s)

    def _notice(self, _: object) -> None:
        self._heard()

    def creation(self, path: str, deadline_s: float) -> int | None:
        """Return the transaction that created a node, as it is now; None when it is gone."""
        self._client.sync_async(path)
        stat = self._answer(self._client.exists_async(path), deadline_s)
        return None if stat is None else int(stat.czxid)

    def delete(self, path: str, deadline_s: float, version: int = -1) -> None:
        """Delete a node, if it still has that version; -1 for any."""
        self._answer(self._client.delete_async(path, version=version), deadline_s)

    def _answer(self, call: Any, deadline_s: float) -> Any:  # noqa: ANN401 - kazoo has no types
        return call.get(timeout=max(0.0, deadline_s - self._clock.monotonic_s()))

    def close(self) -> None:
        """End the session, and with it its ephemeral nodes: at once if connected, else in time."""
        self._client.remove_listener(self._listen)
        if self.is_connected:
            self._stop()
        else:
            threading.Thread(target=self._stop, name="hoodie-zookeeper-stop", daemon=True).start()

    def _stop(self) -> None:
        # kazoo waits without end for a server that does not answer the farewell.
        cut = threading.Timer(_FAREWELL_S, self._handler.cut)
        cut.daemon = True
        cut.start()
        try:
            self._client.stop()
            self._client.close()
        except (kazoo.exceptions.KazooException, OSError) as error:
            logger.debug("a ZooKeeper client did not stop in order: %s", error)
        finally:
            cut.cancel()
