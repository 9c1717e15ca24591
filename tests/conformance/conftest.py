"""Fixtures: the judges, and the tables that Apache Hudi made."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hoodie.clock import SystemClock
from hoodie_operator.standalone.embedded_zookeeper import EmbeddedZooKeeper
from support.peer.hive_metastore import hive_metastore
from support.peer.judge import Judge, Settings, missing_peer
from support.peer.peer_cases import RECIPES, REFUSED, PeerCase, build

__all__ = ["hive_metastore"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark everything in this folder, and skip it visibly where the peer is not set up."""
    here = Path(__file__).parent
    reason = missing_peer()
    for item in items:
        if not item.path.is_relative_to(here):
            continue
        item.add_marker(pytest.mark.conformance)
        if reason is not None:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    """One Apache Hudi process for the session. Tests give their tables paths of their own."""
    with Judge(tmp_path_factory.mktemp("judge")) as started:
        yield started


@pytest.fixture(scope="session")
def second_judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    """Another process, started when first asked for, to write beside the first."""
    folder = tmp_path_factory.mktemp("second_judge")
    with Judge(folder, Settings(name="second-judge")) as started:
        yield started


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """HOST:PORT of a real ZooKeeper for the session."""
    server = EmbeddedZooKeeper(tmp_path_factory.mktemp("zookeeper"), SystemClock())
    try:
        yield server.start()
    finally:
        server.stop()


@pytest.fixture(scope="session")
def peer_case(judge: Judge, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], PeerCase]:
    """Return a function from a case's name to the finished case; each is made once a session.

    The stages are shared: a test that writes copies the folder first.
    """
    root = tmp_path_factory.mktemp("peer_cases")
    made: dict[str, PeerCase] = {}

    def get(name: str) -> PeerCase:
        if name not in made:
            recipe = (RECIPES | REFUSED)[name]
            made[name] = build(name, recipe, judge, root / name)
        return made[name]

    return get
