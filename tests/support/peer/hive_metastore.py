"""A real Hive Metastore for tests, over Derby, from pyspark's jars."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hoodie_operator import lock_server

_SOURCE = Path(__file__).parents[2] / "integration" / "hive" / "Metastore.java"
_LOCK_TIMEOUT_S = 3


@contextmanager
def running(folder: Path) -> Iterator[str]:
    """Give `HOST:PORT` of a metastore that keeps its files in a folder."""
    jars = str(lock_server.jars() / "*")
    # A small heap, and no waiting for the optimising compiler.
    options = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    command = ["java", *options, "-cp", jars, str(_SOURCE), str(folder), str(_LOCK_TIMEOUT_S)]
    log = folder / "log"
    with (
        log.open("wb") as output,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=output) as process,
    ):
        try:
            assert process.stdout is not None
            port = process.stdout.readline().decode().strip()
            if not port:
                raise RuntimeError(f"the metastore ended: {log.read_text()[-2000:]}")
            yield f"127.0.0.1:{port}"
        finally:
            process.terminate()


@pytest.fixture(scope="session")
def hive_metastore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """`HOST:PORT` of a metastore that goes on all the time; silent holders lose after 3 s."""
    with running(tmp_path_factory.mktemp("hive_metastore")) as servers:
        yield servers
