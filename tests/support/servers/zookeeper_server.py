"""A real ZooKeeper for tests, from pyspark's jars; it needs Java, which the project requires.

`zookeeper` is one server for the whole test session, which starts in a second. Tests that stop and
start it, or end sessions, take `own_zookeeper`.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from hoodie.clock import SystemClock
from hoodie_operator.standalone.embedded_zookeeper import EmbeddedZooKeeper

_PATHS = itertools.count()


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """`HOST:PORT` of a server that goes on all the time."""
    server = EmbeddedZooKeeper(tmp_path_factory.mktemp("zookeeper"), SystemClock())
    yield server.start()
    server.stop()


@pytest.fixture
def own_zookeeper(tmp_path: Path) -> Iterator[EmbeddedZooKeeper]:
    """A server of one test, with short sessions; the test starts it."""
    server = EmbeddedZooKeeper(tmp_path / "zookeeper", SystemClock(), tick_ms=100)
    yield server
    server.stop()


@pytest.fixture
def lock_path() -> str:
    """A path of a lock that no other test has."""
    return f"/test/locks/lock-{next(_PATHS)}"
