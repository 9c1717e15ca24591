"""The server's side of `slow_s3`, which starts it: `slow_s3_server.py LATENCY_MS` prints its port.

Each HTTP request sleeps before moto answers it, as a store far away would have it; requests sleep
side by side, and moto answers one after the other, so that its conditional puts hold (see
`support.servers.aws_server`).
"""

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from moto.server import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server

ASKED = "/-/asked"
"""Answered at once, with the methods of the requests since the last time; no bucket's name."""

Application = Callable[[dict[str, Any], Callable[..., object]], Iterable[bytes]]


def slowed(application: Application, latency_s: float) -> Application:
    """Return an application that takes a while for each request."""
    one_by_one = threading.Lock()
    asked: list[str] = []

    def answer(request: dict[str, Any], start_response: Callable[..., object]) -> Iterable[bytes]:
        if request["PATH_INFO"] == ASKED:
            with one_by_one:
                body = json.dumps(asked).encode()
                asked.clear()
            start_response("200 OK", [("Content-Length", str(len(body)))])
            return [body]
        time.sleep(latency_s)
        with one_by_one:
            asked.append(request["REQUEST_METHOD"])
            return [b"".join(application(request, start_response))]

    return answer


def main(latency_ms: int) -> None:
    """Serve until terminated."""
    os.environ["S3_IGNORE_SUBDOMAIN_BUCKETNAME"] = "true"  # It is in the path, whatever its name.
    application = slowed(DomainDispatcherApplication(create_backend_app), latency_ms / 1000)
    server = make_server(
        "127.0.0.1", 0, application, threaded=True, request_handler=MotoRequestHandler
    )
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]))
