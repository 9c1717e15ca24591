"""An S3 emulator (moto) in a process of its own, which takes a while for each request.

`slow_s3_server` says what it does. It also keeps a list of what it was asked for.
"""

import contextlib
import itertools
import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests")]  # `support`

from support.servers import aws_server  # noqa: E402 (the path comes first)

_SERVER = ROOT / "benchmarks" / "slow_s3_server.py"
_ASKED = "/-/asked"


class SlowS3:
    """The emulator's client side."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._buckets = (f"bench-{number}" for number in itertools.count())

    def new_bucket(self) -> str:
        """Make a bucket and return its URI."""
        name = next(self._buckets)
        aws_server.make_bucket(self._url, name)
        return f"s3://{name}"

    def asked(self) -> Sequence[str]:
        """Return the method of each request since the last call of this."""
        with urllib.request.urlopen(f"{self._url}{_ASKED}") as answer:
            found: list[str] = json.load(answer)
        return found


@contextlib.contextmanager
def running(folder: Path, latency_ms: int) -> Iterator[SlowS3]:
    """Run an emulator that logs into a folder; this process and its children find it."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, str(_SERVER), str(latency_ms)]
    with (
        (folder / "s3.log").open("wb") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        try:
            assert process.stdout is not None
            url = f"http://127.0.0.1:{int(process.stdout.readline())}"
            os.environ.update(aws_server.settings(url))
            emulator = SlowS3(url)
            emulator.new_bucket()  # The first request loads much.
            yield emulator
        finally:
            process.terminate()
