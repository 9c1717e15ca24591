"""A slice that is merged by a process of its own, whose memory Linux counts."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hoodie.maintenance.compaction import memory

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "compaction_memory.py"
MIB = 1 << 20


@pytest.mark.parametrize("blocks", ["parquet", "avro"])
def test_merge_keeps_to_its_memory_and_to_the_rows(tmp_path: Path, blocks: str) -> None:
    limit_mib = 512
    sizes = ("--base-mib", "32", "--log-mib", "60", "--limits-mib", "0", str(limit_mib))
    done = subprocess.run(
        [sys.executable, str(PROGRAM), *sizes, "--blocks", blocks, "--scratch", str(tmp_path)],
        check=True,
        capture_output=True,
        text=True,
        timeout=300,
    )
    _, at_once, bounded, comparison = done.stdout.splitlines()
    assert comparison == "equal: True"
    peak_bytes = json.loads(bounded)["peak_mib"] * MIB
    assert peak_bytes <= limit_mib * MIB + memory.PROCESS_BYTES
    assert peak_bytes < json.loads(at_once)["peak_mib"] * MIB
    assert list(tmp_path.iterdir()) == []
