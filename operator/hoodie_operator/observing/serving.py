"""The observer as an HTTP server: whoever asks has to know the token.

It needs nothing of the API server. A slow or a greedy asker is cut off; more than a few at one time
are sent away.
"""

import hmac
import http
import http.server
import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from hoodie import errors
from hoodie.model import json_values
from hoodie_operator.observing import dialogue
from hoodie_operator.observing.observer import Observer

logger = logging.getLogger(__name__)

_SOCKET_S: Final = 30.0
_AT_ONCE_MAX: Final = 16


def server(observer: Observer, port: int, token_file: Path) -> http.server.ThreadingHTTPServer:
    """Return a server that is to be told to serve.

    Args:
        observer: Who answers.
        port: Of all addresses; 0 takes a free one.
        token_file: What holds the token; read at each question, since it may be renewed.

    Raises:
        StorageError: The port is taken.
    """
    at_once = threading.BoundedSemaphore(_AT_ONCE_MAX)

    class Handler(_Handler):
        pass

    Handler.answers = {
        dialogue.TABLES_PATH: lambda body: json_values.encode(
            observer.look_at_tables(
                json_values.decode(dialogue.TablesQuestion, body, "the question")
            )
        ),
        dialogue.SOURCE_PATH: lambda body: json_values.encode(
            observer.look_at_source(
                json_values.decode(dialogue.SourceQuestion, body, "the question")
            )
        ),
    }
    Handler.token_file = token_file
    Handler.at_once = at_once
    try:
        made = http.server.ThreadingHTTPServer(("", port), Handler)
    except OSError as error:
        raise errors.StorageError(f"port {port}: {error.strerror}") from error
    made.daemon_threads = True
    return made


def serve_until_stopped(made: http.server.ThreadingHTTPServer) -> None:
    """Serve until SIGTERM or SIGINT comes; from the main thread."""
    stops = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, stops)
    thread = threading.Thread(target=made.serve_forever, name="serving", daemon=True)
    thread.start()
    logger.info("listening on port %s", made.server_port)
    told = signal.sigwait(stops)
    logger.info("received %s, stopping", signal.Signals(told).name)
    made.shutdown()
    made.server_close()


class _Handler(http.server.BaseHTTPRequestHandler):
    """One question."""

    answers: dict[str, Callable[[bytes], bytes]]
    token_file: Path
    at_once: threading.BoundedSemaphore
    timeout = _SOCKET_S
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer whether anybody answers."""
        is_health = self.path == dialogue.HEALTH_PATH
        self._answer(http.HTTPStatus.OK if is_health else http.HTTPStatus.NOT_FOUND, b"")

    def do_POST(self) -> None:
        """Answer a question."""
        answer = self.answers.get(self.path)
        if not self._is_known():
            # What follows is not read, and the connection could not go on after it.
            self.close_connection = True
            self._answer(http.HTTPStatus.UNAUTHORIZED, b"")
            return
        if answer is None:
            self.close_connection = True
            self._answer(http.HTTPStatus.NOT_FOUND, b"")
            return
        with self._admitted() as is_admitted:
            if is_admitted:
                self._answer(*self._made(answer))
            else:
                self.close_connection = True
                self._answer(http.HTTPStatus.SERVICE_UNAVAILABLE, b"")

    def _made(self, answer: Callable[[bytes], bytes]) -> tuple[http.HTTPStatus, bytes]:
        text = self.headers.get("Content-Length", "")
        length = int(text) if text.isdecimal() else -1
        if not 0 <= length <= dialogue.BODY_BYTES_MAX:
            self.close_connection = True
            return http.HTTPStatus.REQUEST_ENTITY_TOO_LARGE, b""
        try:
            return http.HTTPStatus.OK, answer(self.rfile.read(length))
        except errors.InvalidInputError as error:
            return http.HTTPStatus.BAD_REQUEST, str(error).encode()

    def _is_known(self) -> bool:
        try:
            token = self.token_file.read_bytes().strip()
        except OSError as error:
            logger.warning("the token cannot be read: %s", error.strerror)
            return False
        told = self.headers.get("Authorization", "").encode()
        return bool(token) and hmac.compare_digest(told, b"Bearer " + token)

    @contextmanager
    def _admitted(self) -> Iterator[bool]:
        is_admitted = self.at_once.acquire(blocking=False)
        try:
            yield is_admitted
        finally:
            if is_admitted:
                self.at_once.release()

    def _answer(self, status: http.HTTPStatus, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        """Log at the level of what is of no interest."""
        logger.debug(format, *args)
