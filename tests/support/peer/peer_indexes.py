"""Indexes that Apache Hudi makes by SQL, and how its writers leave them to others."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from support.peer.judge import Judge
from support.peer.peer_options import in_process_lock

ALONE = in_process_lock() | {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.clean.failed.writes.policy": "LAZY",
}
"""What `CREATE INDEX` needs: else it fails, and leaves a definition behind."""

ASYNC = {
    "hoodie.metadata.index.async": "true",
    "hoodie.metadata.streaming.write.enabled": "false",
}
"""Of writers: leaves the building of indexes to others, and keeps those up that there are.

By default 1.2.0 opens the metadata table before it writes data; with an index whose option is on,
and that is not there, it fails then.
"""

BY_DAY = "USING column_stats(ts) OPTIONS(expr='from_unixtime', format='yyyy-MM-dd')"


def create(judge: Judge, path: Path, wanted: Mapping[str, str]) -> None:
    """Make indexes of a table.

    Args:
        judge: Apache Hudi.
        path: The table's root.
        wanted: What each of them is of, by their names.
    """
    _execute(judge, path, [f"CREATE INDEX {each} ON TABLE {what}" for each, what in wanted.items()])


def drop(judge: Judge, path: Path, names: Iterable[str]) -> None:
    """Drop indexes of a table, by the names that SQL gave them."""
    _execute(judge, path, [f"DROP INDEX {each} ON TABLE" for each in names])


def _execute(judge: Judge, path: Path, statements: Iterable[str]) -> None:
    """Execute statements on TABLE, with a lock."""
    name = f"indexed_{abs(hash(str(path)))}"
    judge.execute(f"CREATE TABLE IF NOT EXISTS {name} USING hudi LOCATION '{path}'")
    for key, value in ALONE.items():
        judge.execute(f"SET {key}={value}")
    try:
        for each in statements:
            judge.execute(each.replace(" ON TABLE", f" ON {name}"))
    finally:
        for key in ALONE:
            judge.execute(f"RESET {key}")
