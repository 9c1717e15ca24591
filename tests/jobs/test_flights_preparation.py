"""The demo's data: split from the real source without losing or changing a field."""

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import csv

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "examples" / "flights" / "prepare.py"
KEY = ["time_hour", "carrier", "flight"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("flights")
    subprocess.run([sys.executable, str(SCRIPT), str(folder)], check=True, timeout=60)
    return folder


def read(folder: Path) -> pa.Table:
    return pa.concat_tables(csv.read_csv(path) for path in sorted(folder.iterdir()))


def test_both_writers_have_every_flight_once_and_share_key_and_partition_only(folder: Path) -> None:
    schedules, actuals = read(folder / "schedules"), read(folder / "actuals")

    for table in (schedules, actuals):
        assert table.num_rows == 336_776
        assert table.group_by(KEY).aggregate([]).num_rows == 336_776
    assert {*schedules.column_names} & {*actuals.column_names} == {*KEY, "month"}
    assert schedules.join(actuals, KEY, join_type="inner").num_rows == 336_776


def test_schedules_come_by_airport_and_actuals_by_month(folder: Path) -> None:
    airports = ("EWR", "JFK", "LGA")
    for airport, path in zip(airports, sorted((folder / "schedules").iterdir()), strict=True):
        assert path.name == f"{airport}.csv"
        rows = csv.read_csv(path)
        assert rows["origin"].unique().to_pylist() == [airport]
        assert sorted(rows["month"].unique().to_pylist()) == list(range(1, 13))
    for month, path in enumerate(sorted((folder / "actuals").iterdir()), start=1):
        assert path.name == f"2013-{month:02d}.csv"
        assert csv.read_csv(path)["month"].unique().to_pylist() == [month]


def test_missing_values_keep_the_text_of_the_source(folder: Path) -> None:
    with (folder / "actuals" / "2013-01.csv").open() as file:
        text = file.read()
    assert text.startswith(
        "time_hour,carrier,flight,month,dep_time,dep_delay,arr_time,arr_delay,air_time\n"
        "2013-01-01T10:00:00Z,UA,1545,1,517,2,830,11,227\n"
    )
    assert text.count(",NA,NA,NA,NA,NA\n") == 521
