"""`hudi-operator observe`: an observer of a cluster."""

import logging
from pathlib import Path
from typing import Annotated

import typer

from hoodie import environment
from hoodie_operator.observing import observer, serving


def observe(
    root: Annotated[
        list[str], typer.Option("--root", help="Root of tables and input; repeat for more.")
    ],
    token_file: Annotated[
        Path, typer.Option("--token-file", help="File with the token of requests.")
    ],
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Port to listen on.")
    ] = 8091,
    threads: Annotated[int, typer.Option("--threads", min=1, help="Concurrent observations.")] = 8,
    time_limit: Annotated[
        float,
        typer.Option(
            "--time-limit", min=0.1, help="Maximum duration of one observation, in seconds."
        ),
    ] = 20.0,
) -> None:
    """Run an observer: read tables and sources for an operator in a cluster.

    It is beside their storage, reads, and never writes; it asks nothing of the API server.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    env = environment.system(allowed_roots=tuple(root))
    bounds = observer.Bounds(threads=threads, time_limit_s=time_limit)
    server = serving.server(observer.Observer(env, root, bounds), port, token_file)
    serving.serve_until_stopped(server)
