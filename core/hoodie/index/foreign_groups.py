"""File groups of no bucket, in a table with a simple bucket index.

Other engines make them in a table of ours: a clustering, and writers that are not told the table's
index (docs/spark-writers.md). Any key may be in such a group, and be in its bucket's group as well.
So reads never leave one out by its id, and what meets one warns of it, once a process and table.
"""

import functools
import logging
from collections.abc import Collection

from hoodie.model import files

logger = logging.getLogger(__name__)


def warn(table_uri: str, groups: Collection[files.FileGroupId]) -> None:
    """Warn of groups of no bucket in a table."""
    _warn_once(table_uri, str(min(groups)))


@functools.lru_cache(maxsize=1024)
def _warn_once(table_uri: str, name: str) -> None:
    logger.warning(
        "%s: file group %s belongs to no bucket: another engine clustered the partition, or wrote "
        "without hoodie.index.type=BUCKET. Keys in it may be duplicates: run hoodie check, and "
        "see docs/spark-writers.md",
        table_uri,
        name,
    )
