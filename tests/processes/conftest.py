"""Fixtures of the tests with real processes."""

from support.servers.zookeeper_server import zookeeper

__all__ = ["zookeeper"]
