"""Telling whoever asks how far a run is: `GET /progress` on a port of the job's own.

Nobody being able to ask is no reason to stop: a port that is taken is told in the log alone.
"""

import contextlib
import http.server
import logging
import threading
from collections.abc import Iterator
from typing import Final, Protocol

from hoodie.contract import job_results, job_specs

logger = logging.getLogger(__name__)

PATH: Final = "/progress"
_ANSWER_S: Final = 5.0
_POLL_S: Final = 0.1


class Told(Protocol):
    """A run, as far as it is told of."""

    spec: job_specs.JobSpec
    progress: job_results.JobProgress | None


@contextlib.contextmanager
def serving(run: Told) -> Iterator[None]:
    """Answer for the length of a run, if its spec names a port."""
    server = None if run.spec.progress_port is None else _opened(run, run.spec.progress_port)
    if server is None:
        yield
        return
    thread = threading.Thread(
        target=server.serve_forever, args=(_POLL_S,), name="progress", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


def _opened(run: Told, port: int) -> http.server.HTTPServer | None:
    class Handler(http.server.BaseHTTPRequestHandler):
        timeout = _ANSWER_S

        def do_GET(self) -> None:
            if self.path != PATH:
                self.send_error(404)
                return
            told = run.progress
            content = b"" if told is None else job_results.encode_progress(told)
            self.send_response(200 if content else 204)
            if content:
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
            logger.debug(format, *args)

    try:
        # One at a time: its answer is in memory, and a slow asker is cut off.
        return http.server.HTTPServer(("", port), Handler)
    except OSError as error:
        logger.warning("progress is not served on port %d: %s", port, error.strerror)
        return None
