"""Indexes that Apache Hudi makes by SQL."""

from collections.abc import Mapping
from pathlib import Path

from support.peer.judge import Judge
from support.peer.peer_options import in_process_lock

ALONE = in_process_lock() | {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.clean.failed.writes.policy": "LAZY",
}
"""What `CREATE INDEX` needs: else it fails, and leaves a definition behind."""

BY_DAY = "USING column_stats(ts) OPTIONS(expr='from_unixtime', format='yyyy-MM-dd')"


def create(judge: Judge, path: Path, wanted: Mapping[str, str]) -> None:
    """Make indexes of a table.

    Args:
        judge: Apache Hudi.
        path: The table's root.
        wanted: What each of them is of, by their names.
    """
    name = f"indexed_{abs(hash(str(path)))}"
    judge.execute(f"CREATE TABLE {name} USING hudi LOCATION '{path}'")
    for key, value in ALONE.items():
        judge.execute(f"SET {key}={value}")
    try:
        for index, what in wanted.items():
            judge.execute(f"CREATE INDEX {index} ON {name} {what}")
    finally:
        for key in ALONE:
            judge.execute(f"RESET {key}")
