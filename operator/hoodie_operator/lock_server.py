"""The ZooKeeper server of a LockProvider with `embedded`: its program and its configuration.

The program is among the jars that come with pyspark. Without a cluster it is a process that
`standalone` starts; in one, `hudi-operator lock-server` becomes it, in a pod of its own. In the
server's folder are `zoo.cfg`, made anew at each start, and `data/`, its own snapshots and logs: by
them it goes on where it was, and locks and fences survive a restart.
"""

import importlib.util
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NoReturn

from hoodie import errors

PORT: Final = 2181
TICK_MS: Final = 500
"""The server's unit of time: sessions end within one of their time-out, which is two at least."""

MAIN: Final = "org.apache.zookeeper.server.ZooKeeperServerMain"
# A small heap, and no waiting for the optimising compiler: it serves a handful of clients.
_JAVA_OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_SESSION_MS_MAX = 60_000


def jars() -> Path:
    """Return the folder of the jars that come with pyspark.

    Raises:
        ConfigurationError: There is no pyspark.
    """
    # Found without importing it: pyspark is an engine, and slow to import.
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise errors.ConfigurationError(
            "the embedded ZooKeeper comes with pyspark, which is not installed"
        )
    return Path(spec.submodule_search_locations[0]) / "jars"


def probe(port: int = PORT) -> Sequence[str]:
    """Return a command that succeeds in the server's container while the server serves."""
    answer = f'exec 3<>/dev/tcp/127.0.0.1/{port} && echo ruok >&3 && [ "$(cat <&3)" = imok ]'
    return ("bash", "-c", answer)


def data(folder: Path) -> Path:
    """Return where a server keeps its data, within its folder."""
    return folder / "data"


def command(configuration: Path, java: str | None = None) -> list[str]:
    """Return what starts a server.

    Args:
        configuration: Its zoo.cfg.
        java: The program; `JAVA_HOME` or the PATH tells where none is given.

    Raises:
        ConfigurationError: There is no Java or no pyspark.
    """
    return [
        _java_program(java),
        *_JAVA_OPTIONS,
        "-Dzookeeper.admin.enableServer=false",
        "-Dzookeeper.jmx.log4j.disable=true",
        "-cp",
        str(jars() / "*"),
        MAIN,
        str(configuration),
    ]


def write_configuration(folder: Path, host: str, port: int, tick_ms: int = TICK_MS) -> Path:
    """Write the zoo.cfg of a server into its folder, and return its path.

    Args:
        folder: Where the server keeps everything.
        host: The address at which it listens.
        port: The port.
        tick_ms: Its unit of time.
    """
    path = folder / "zoo.cfg"
    settings = {
        "dataDir": data(folder),
        "clientPort": port,
        "clientPortAddress": host,
        "tickTime": tick_ms,
        "minSessionTimeout": 2 * tick_ms,
        "maxSessionTimeout": max(_SESSION_MS_MAX, 2 * tick_ms),
        "maxClientCnxns": 0,
        "autopurge.purgeInterval": 1,
        "4lw.commands.whitelist": "ruok,conf,srvr",
    }
    lines = [f"{name}={value}\n" for name, value in settings.items()]
    path.write_text("".join(lines), encoding="utf-8")
    return path


def become(folder: Path, host: str, port: int) -> NoReturn:
    """Have this process become the server: signals reach it, and its end is the process's.

    Args:
        folder: Where it keeps everything; made if it is not there.
        host: The address at which it listens.
        port: The port.

    Raises:
        ConfigurationError: There is no Java or no pyspark.
        StorageError: The folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        program = command(write_configuration(folder, host, port))
    except OSError as error:
        raise errors.StorageError(f"{folder} cannot be written: {error}") from error
    os.execv(program[0], program)  # noqa: S606 - no shell is wanted


def _java_program(java: str | None) -> str:
    home = os.environ.get("JAVA_HOME")
    candidate = java or (f"{home}/bin/java" if home else "java")
    found = shutil.which(candidate)
    if found is None:
        raise errors.ConfigurationError(f"{candidate} is not there: expected Java 17 or newer")
    return found
