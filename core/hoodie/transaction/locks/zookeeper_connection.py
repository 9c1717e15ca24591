"""Connections of the kazoo client with a limit on the size of responses.

A ZooKeeper frame begins with its length, and kazoo reads a frame of any announced length, up to
2 GiB, into memory. An untrusted server must not decide how much memory a client uses. kazoo asks
the socket for all remaining bytes of a frame at once, so a request for more bytes than the limit
means that the announced length exceeds it. It fails before any of these bytes is read.
"""

import socket
import threading  # noqa: TID251 - kazoo connects in a thread of its own
from dataclasses import dataclass
from typing import Any, Final

import kazoo.handlers.threading

FRAME_BYTES_MAX: Final = 1 << 20
"""Apache ZooKeeper's own limit, `jute.maxbuffer`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerLimits:
    """How much a client takes from the servers.

    Attributes:
        frame_bytes: Of one answer.
        session_bytes: Of all answers of a session; None for no bound, as of one that lasts.
    """

    frame_bytes: int = FRAME_BYTES_MAX
    session_bytes: int | None = None


class BoundedHandler(kazoo.handlers.threading.SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's threads, with bounded answers, and connections that can be cut from outside."""

    def __init__(self, limits: AnswerLimits) -> None:
        """Connect to nothing yet; for the arguments see `AnswerLimits`."""
        super().__init__()
        self._limits = limits
        self._lock = threading.Lock()
        self._left = limits.session_bytes
        self._opened: _BoundedSocket | None = None
        self._is_cut = False

    def create_connection(self, *args: Any, **kwargs: Any) -> socket.socket:  # noqa: ANN401
        """Return a connection that reads no more than the limits allow.

        Raises:
            OSError: There is none, or connections were cut.
        """
        plain = super().create_connection(*args, **kwargs)
        bounded = _BoundedSocket(self, fileno=plain.detach())
        with self._lock:
            self._opened = bounded
            is_cut = self._is_cut
        if is_cut:
            bounded.close()
            raise OSError("the client was stopped")
        return bounded

    def cut(self) -> None:
        """End the connection and let no other begin: what waits for an answer waits no longer."""
        with self._lock:
            self._is_cut = True
            opened = self._opened
        if opened is not None:
            try:
                opened.shutdown(socket.SHUT_RDWR)
            except OSError:
                return  # It has ended.

    def admit(self, size: int) -> None:
        """Refuse to receive so many bytes as the rest of one answer.

        Raises:
            OSError: It is more than an answer, or all of them, may have.
        """
        if size > self._limits.frame_bytes:
            raise OSError(
                f"an answer of {size} bytes is announced, expected {self._limits.frame_bytes} at "
                "most"
            )
        if self._left is not None and size > self._left:
            raise OSError(
                f"the answers exceed the limit, expected {self._limits.session_bytes} bytes at "
                "most in all"
            )

    def count(self, size: int) -> None:
        """Note that so many bytes were received."""
        if self._left is not None:
            self._left -= size


class _BoundedSocket(socket.socket):
    def __init__(self, handler: BoundedHandler, *, fileno: int) -> None:
        super().__init__(fileno=fileno)
        self._handler = handler

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        self._handler.admit(size)
        received = super().recv(size, flags)
        self._handler.count(len(received))
        return received
