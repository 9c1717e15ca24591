"""Fixtures of the tests with real servers."""

from support.contracts.installed_lock import installed
from support.peer.hive_metastore import hive_metastore
from support.servers.aws_server import aws, aws_server, bucket, lock_table, new_bucket
from support.servers.zookeeper_server import lock_path, own_zookeeper, zookeeper

__all__ = [
    "aws",
    "aws_server",
    "bucket",
    "hive_metastore",
    "installed",
    "lock_path",
    "lock_table",
    "new_bucket",
    "own_zookeeper",
    "zookeeper",
]
