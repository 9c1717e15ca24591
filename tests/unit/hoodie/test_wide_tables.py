"""Work on a table grows with its columns, not with their square.

Measured as processor time of this process, where eight times as many columns may take up to thirty
times as long: linear work takes eight times as long, quadratic work sixty-four.
"""

import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from hoodie.cli import grids
from hoodie.cli.views import rows
from hoodie.contract import input_sources
from hoodie.filegroup import parquet_reading
from hoodie.format import avro_records
from hoodie.model import schemas
from hoodie.sources import local_files

FEW, MANY = 500, 4_000
GROWTH_MAX = 30


def wide(count: int) -> pa.Table:
    return pa.table({f"c{number}": [1, 2] for number in range(count)})


def conforming(count: int, folder: Path) -> Callable[[], object]:
    del folder
    data = wide(count)
    table = schemas.from_arrow(data.schema, "t")

    def work() -> None:
        schemas.check_fits(data.schema, table)
        schemas.conform(data, table)

    return work


def reading_input(count: int, folder: Path) -> Callable[[], object]:
    path = str(folder / f"{count}.parquet")
    data = wide(count)
    parquet.write_table(data, path)
    source = input_sources.Source(format=input_sources.SourceFormat.PARQUET)
    schema = data.schema.append(pa.field("absent", pa.int64()))
    return lambda: local_files.read([path], source, schema)


def reading_base_file(count: int, folder: Path) -> Callable[[], object]:
    path = str(folder / f"{count}.parquet")
    data = wide(count)
    parquet.write_table(data, path)
    file = parquet_reading.ParquetInput(pa.memory_map(path))
    return lambda: file.read(data.schema)


def avro_block(count: int, folder: Path) -> Callable[[], object]:
    del folder
    data = wide(count)
    avro = schemas.from_arrow(data.schema, "t").avro

    def work() -> None:
        content = pa.py_buffer(avro_records.encode(data, avro))
        avro_records.decode(content, avro, data.column_names)

    return work


def at_terminal(count: int, folder: Path) -> Callable[[], object]:
    del folder
    data = wide(count)
    return lambda: grids.fit(rows.grid(data), 80)


@pytest.mark.parametrize(
    "prepare", [conforming, reading_input, reading_base_file, avro_block, at_terminal]
)
def test_time_grows_with_the_columns(
    prepare: Callable[[int, Path], Callable[[], object]], tmp_path: Path
) -> None:
    few, many = (_least_s(prepare(count, tmp_path)) for count in (FEW, MANY))
    assert many < GROWTH_MAX * few


def _least_s(work: Callable[[], object]) -> float:
    found = []
    for _ in range(3):
        begun_s = time.process_time()
        work()
        found.append(time.process_time() - begun_s)
    return min(found)
