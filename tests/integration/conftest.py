"""Fixtures of the tests with real servers."""

from support.zookeeper_server import lock_path, own_zookeeper, zookeeper

__all__ = ["lock_path", "own_zookeeper", "zookeeper"]
