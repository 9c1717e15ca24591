"""A streaming query whose process is killed in a micro-batch, and started again."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.kube.programs import wait_until
from support.tables.job_workshop import Workshop

PROGRAM = Path(__file__).parents[1] / "support/processes/stream_reader.py"
WAIT_S = 180


def start(workshop: Workshop, sink: Path) -> subprocess.Popen[bytes]:
    with (sink / "log.txt").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, str(PROGRAM), workshop.uri, str(sink)],
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the driver with its JVM and workers at once."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(WAIT_S)


def batches(sink: Path) -> list[list[dict[str, Any]]]:
    numbers = sorted(int(path.stem) for path in sink.glob("*.json"))
    assert numbers == list(range(len(numbers)))
    return [json.loads((sink / f"{number}.json").read_text()) for number in numbers]


@pytest.mark.sample(0)  # Minutes; `tests/property/test_streams.py` kills anywhere.
@pytest.mark.parametrize("where", ["hold-after", "hold"])
def test_nothing_is_lost_or_repeated(where: str, written: Workshop, tmp_path: Path) -> None:
    """Killed before, or after, the sink has the rows of a micro-batch."""
    sink = tmp_path / "sink"
    sink.mkdir()
    assert start(written, sink).wait(WAIT_S) == 0, (sink / "log.txt").read_text()
    for number in range(3):
        rows = f"e,eu,{number},v\nn{number},us,{number},\n"
        written.write(written.file(f"more{number}", rows), attempt=number + 3)
    (sink / where).touch()
    process = start(written, sink)
    try:
        wait_until(lambda: any(sink.glob("holding-*")), "a micro-batch is read", WAIT_S)
    finally:
        kill(process)
    (sink / where).unlink()
    # It completes before the logged micro-batch is read again.
    written.write(written.file("last", "e,eu,9,v\n"), attempt=7)
    assert start(written, sink).wait(WAIT_S) == 0, (sink / "log.txt").read_text()
    found = batches(sink)
    sizes = [len(rows) for rows in found if rows]
    assert sizes == [4, 2, 2, 2, 1]
    held = {}
    for row in (row for rows in found for row in rows):
        assert row.pop("_change") == "upsert"
        held[row["id"]] = tuple(row.values())
    assert held == written.rows()
