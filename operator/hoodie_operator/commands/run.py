"""`hudi-operator run`: the operator of a cluster."""

import asyncio
import logging
import socket
from pathlib import Path
from typing import Annotated

import typer

from hoodie import errors
from hoodie_operator.api import configuration, objects, resources
from hoodie_operator.cluster import logs
from hoodie_operator.cluster.process import leader, wiring


def run(
    config: Annotated[Path, typer.Option("--config", help="The operator's configuration file.")],
    namespace: Annotated[
        str,
        typer.Option(
            "--namespace", envvar="POD_NAMESPACE", help="Namespace of the leader's Lease."
        ),
    ] = objects.DEFAULT_NAMESPACE,
    lease: Annotated[
        str, typer.Option("--lease", help="Name of the Lease, which all replicas share.")
    ] = resources.MANAGER,
    name: Annotated[
        str | None,
        typer.Option(
            "--name", envvar="POD_NAME", help="Name of this process. Defaults to the host name."
        ),
    ] = None,
    port: Annotated[int, typer.Option("--port", help="Port of probes and metrics.")] = 8080,
    verbose: Annotated[
        bool, typer.Option("--verbose", metavar="", help="Log debug messages.")
    ] = False,
) -> None:
    """Run the operator of a cluster: in a pod, or with a kubeconfig.

    Of several one leads, and the others wait. SIGTERM ends it; runs go on, and are found again.
    """
    try:
        content = config.read_bytes()
    except OSError as error:
        raise errors.NotFoundError(f"--config {config}: {error.strerror}") from error
    told = configuration.parse(content, str(config))
    logs.to_stderr(logging.DEBUG if verbose else logging.INFO)
    place = leader.Place(
        namespace=namespace, lease=lease, instance=name or socket.gethostname(), port=port
    )
    try:
        asyncio.run(wiring.run(told, place))
    except OSError as error:
        raise errors.StorageError(f"port {port}: {error.strerror}") from error
