"""Servers that do to their clients what they can: on this machine, in threads of the test."""

import contextlib
import functools
import os
import socket
import struct
import threading
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

Answer = Callable[[socket.socket], None]
"""Answers whoever has connected, until the connection ends."""

Body = Callable[[], Iterator[bytes]]
"""Makes the body of an answer by HTTP."""

ENVIRONMENT: Final = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join(
        filter(None, [os.environ.get("PYTHONPATH"), str(Path(__file__).parents[2])])
    ),
}
"""Of a client in a process of its own, which imports this package."""

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


def http(body: Body, *headers: str) -> Answer:
    """Return what answers each request by a body that is sent until the asker has enough."""

    def answer(opened: socket.socket) -> None:
        opened.recv(1 << 20)
        opened.sendall("\r\n".join(("HTTP/1.1 200 OK", *headers, "", "")).encode())
        for chunk in body():
            opened.sendall(chunk)

    return answer


def many_values() -> Iterator[bytes]:
    """Yield the beginning of JSON of few bytes, each value of which takes far more memory."""
    yield b'{"tables":['
    for _ in range(1 << 10):
        yield b"[]," * (1 << 14)


def long_texts() -> Iterator[bytes]:
    """Yield JSON of a few values, each of which is as long as an answer may be."""
    text = b"x" * (3 << 20) + "\N{SNOWMAN}".encode()
    yield b'{"tables":[{"digest":"d","table":{"properties":{"a":"' + text + b'"}}}]}'


def packed() -> Iterator[bytes]:
    """Yield many zeros, packed."""
    yield _packed()


@functools.cache
def _packed() -> bytes:
    packer = zlib.compressobj(wbits=31)
    return b"".join(packer.compress(_MEBIBYTE) for _ in range(256)) + packer.flush()


def one_table(batches: int) -> Iterator[bytes]:
    """Yield a valid answer about one table, of which much is to be remembered."""
    ledger = ",".join(f'"{number:x}":["x"]' for number in range(batches))
    yield f'{{"tables":[{{"digest":"d","table":{{"ledger":{{{ledger}}}}}}}]}}'.encode()
