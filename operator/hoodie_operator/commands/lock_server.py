"""`hudi-operator lock-server`: the ZooKeeper of a LockProvider with `embedded`."""

from pathlib import Path
from typing import Annotated

import typer

from hoodie_operator import lock_server as server


def lock_server(
    folder: Annotated[Path, typer.Option("--folder", help="Folder of the server's data.")],
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "0.0.0.0",  # noqa: S104 - in a pod
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="Port to listen on.")] = (
        server.PORT
    ),
) -> None:
    """Run the ZooKeeper server of a LockProvider with `embedded`, in a pod."""
    server.become(folder.absolute(), host, port)
