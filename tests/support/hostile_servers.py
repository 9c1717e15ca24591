"""Servers that do to their clients what they can: on this machine, in threads of the test."""

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator

Answer = Callable[[socket.socket], None]
"""Answers whoever has connected, until the connection ends."""

_MEBIBYTE = bytes(1 << 20)
_VERSION = b"Zookeeper version: 3.9.3-pretended\nMode: standalone\n"


@contextlib.contextmanager
def serving(answer: Answer) -> Iterator[str]:
    """Serve, and yield the `host:port`."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=_accept, args=(listening, answer), daemon=True).start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"


def _accept(listening: socket.socket, answer: Answer) -> None:
    with contextlib.suppress(OSError):  # The test has ended.
        while True:
            opened, _ = listening.accept()
            threading.Thread(target=_serve, args=(opened, answer), daemon=True).start()


def _serve(opened: socket.socket, answer: Answer) -> None:
    with opened, contextlib.suppress(OSError):
        answer(opened)


def announce(size: int) -> Answer:
    """Return what answers any request of a ZooKeeper client by a frame of that size."""

    def answer(opened: socket.socket) -> None:
        if opened.recv(4096).startswith(b"srvr"):
            opened.sendall(_VERSION)
            return
        opened.sendall(struct.pack(">i", size))
        for _ in range(max(1, size >> 20)):
            opened.sendall(_MEBIBYTE)

    return answer


def chatter(opened: socket.socket) -> None:
    """Open a session, then answer pings that were never sent, without end."""
    _open_session(opened)
    pings = struct.pack(">iiqi", 16, -2, 0, 0) * 4096
    while True:
        opened.sendall(pings)


def fall_silent(opened: socket.socket) -> None:
    """Open a session that lasts for weeks, and end in the middle of an answer."""
    _open_session(opened)
    opened.sendall(struct.pack(">iB", 100, 0))
    while opened.recv(4096):
        pass


def _open_session(opened: socket.socket) -> None:
    opened.recv(4096)
    weeks_ms = 0x7FFF_FFFF
    opened.sendall(struct.pack(">iiiqi16s", 36, 0, weeks_ms, 1, 16, bytes(16)))
