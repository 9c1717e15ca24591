"""A writer that became a daemon: its identity is that of the process that writes."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hoodie import errors
from hoodie.model import settings
from hoodie.transaction.locks import address_texts, opening
from support.tables.tables import SmallTable

SCRIPT = Path(__file__).parents[1] / "support" / "processes" / "daemon_writer.py"


@pytest.fixture
def small(tmp_path: Path) -> SmallTable:
    return SmallTable(tmp_path / "t")


@pytest.fixture
def daemon(small: SmallTable) -> "Iterator[subprocess.Popen[str]]":
    """Start one, and wait until it has begun and the process that was started has ended."""
    with subprocess.Popen(
        [sys.executable, SCRIPT, small.path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as started:
        started.wait()
        assert started.stdout is not None
        assert started.stdout.readline() == "begun\n"
        yield started


def test_daemon_that_was_forked_from_the_opener_of_its_table_is_alive(
    small: SmallTable, daemon: "subprocess.Popen[str]"
) -> None:
    """P1, R-A: the environment was made before the fork; its process has ended."""
    transaction = small.options(concurrency=settings.ConcurrencyMode.OPTIMISTIC).transaction
    storage = small.env.open_storage(str(small.path))
    lock = opening.open_for("other", address_texts.parse("filesystem"), storage, small.env)
    with pytest.raises(errors.LockTimeoutError, match="held by daemon"):
        lock.acquire(0)
    (pending,) = small.table.pending(transaction.settings)
    assert pending.is_alive
    answer, _ = daemon.communicate("go on\n")
    assert answer == "committed\n"
    assert [row["id"] for row in small.rows()] == ["1"]
