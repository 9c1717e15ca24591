"""Data files of the simulation: a line of text for each write that is in them.

Base files of a table whose metadata table has bloom filters, or will have, are Parquet without
rows: the lines are in the footer, and a small filter of them. The statistics of a file are those of
rows whose commit times are in its lines.
"""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from hoodie.format import bloom_filters
from hoodie.model import file_statistics, schemas, table_config
from hoodie.model.file_statistics import ColumnStatistics
from hoodie.model.value_wrappers import Wrapper

FILTERED_KEY = "hoodie.simulation.filtered"
"""A property of tables whose base files have filters, also while their metadata table has none."""

_LINES_KEY = "lines"
_SIZE = bloom_filters.Size(entries=8, error_rate=0.1)


def base_content(config: table_config.TableConfig, lines: bytes) -> bytes:
    """Return the content of a base file."""
    is_filtered = file_statistics.BLOOM_FILTERS in config.metadata_partitions
    if not is_filtered and FILTERED_KEY not in config.properties:
        return lines
    new = bloom_filters.NewFilter(size=_SIZE)
    new.add(pa.array(lines.decode().splitlines(), pa.string()))
    stored = new.stored()
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, pa.schema([]), store_schema=False) as writer:
        writer.add_key_value_metadata(
            {
                _LINES_KEY: lines.decode(),
                bloom_filters.FOOTER_KEY: stored.text.decode(),
                bloom_filters.FOOTER_TYPE_KEY: stored.type_code,
            }
        )
    return bytes(sink.getvalue())


def statistics_of(lines: bytes, name: str) -> Sequence[ColumnStatistics]:
    """Return the statistics of a data file with some lines, each of which begins with a time."""
    times = [line.split()[0] for line in lines.decode().splitlines()]
    if not times:
        return ()
    return (
        ColumnStatistics(
            file_name=name,
            column=schemas.COMMIT_TIME,
            low=min(times),
            high=max(times),
            kind=Wrapper.STRING,
            value_type=file_statistics.ValueType.STRING,
            values=len(times),
        ),
    )


def lines_of(content: bytes) -> bytes:
    """Return the lines that a data file has."""
    if not content.startswith(b"PAR1"):
        return content
    lines: bytes = pq.read_metadata(pa.BufferReader(content)).metadata[_LINES_KEY.encode()]
    return lines
