"""Fixtures of the tests with real servers."""

from support.aws_server import aws, aws_server, bucket, lock_table, new_bucket
from support.hive_metastore import hive_metastore
from support.installed_lock import installed
from support.zookeeper_server import lock_path, own_zookeeper, zookeeper

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
