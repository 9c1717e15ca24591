"""File slices that are files of parquet and nothing more, which engines read by themselves.

A slice without changes is its base file. Where this has the columns as the table has them, an
engine's own reader takes half as long as a dataset: no row passes through Arrow.
"""

from collections.abc import Sequence

import pyarrow as pa

from hoodie.engine import ahead
from hoodie.filegroup import parquet_reading
from hoodie.model import files, partition_columns
from hoodie.read import tasks
from hoodie.storage import protocol, uris

_FILES_MAX = 1_000
"""An engine opens each file for each query; a dataset those alone that statistics leave."""

_KINDS = (
    *(pa.bool_(), pa.int32(), pa.int64(), pa.float32(), pa.float64()),
    *(pa.string(), pa.binary(), pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC")),
)
"""Types of which engines make the same of parquet as of Arrow; decimals are others."""

_PATTERNS = frozenset("*?[]{}\\")
"""A path with one of these may be taken for a pattern."""


def paths(
    storage: protocol.Storage, wanted: Sequence[tasks.ReadTask], threads: int
) -> list[str | None]:
    """Return the absolute path of each slice that is such a file, on a local disk; None of others.

    Cost: the footer of each, read by threads. With more than 1,000 slices there are none.

    Args:
        storage: The table's.
        wanted: Reads the slices, with all columns that are needed; a filter is left to the engine.
        threads: So many footers are read at once.

    Raises:
        NotFoundError: A base file is gone.
        FormatError: One is broken.
    """
    place = uris.parse(storage.uri, working_directory="/")
    if place.scheme != uris.LOCAL or len(wanted) > _FILES_MAX:
        return [None] * len(wanted)

    def path(task: tasks.ReadTask) -> str | None:
        base_file = _whole(task)
        if base_file is None:
            return None
        found = f"/{place.path}/{base_file.path}"
        if not _PATTERNS.isdisjoint(found):
            return None
        with storage.open_input(base_file.path) as source:
            stored = parquet_reading.ParquetInput(source).schema
        return found if _is_stored(task, stored) else None

    return list(ahead.results(path, wanted, threads))


def _whole(task: tasks.ReadTask) -> files.BaseFile | None:
    """Return the base file of a slice if that has its rows; None otherwise."""
    found = task.file_slice
    is_changed = found.is_changed and not task.query.is_read_optimized
    if found.base_file is None or found.base_file.is_skeleton or is_changed:
        return None
    return found.base_file


def _is_stored(task: tasks.ReadTask, stored: pa.Schema) -> bool:
    """Return whether a file has all columns of a query, as the table has them."""
    columns = tasks.full_schema(task.schema.arrow)
    of_paths = partition_columns.of_paths(task.config, task.schema.arrow, task.query.source)
    for name in task.query.columns:
        kind = columns.field(name).type
        position = stored.get_field_index(name)
        if position < 0 or stored.field(position).type != kind or name in of_paths.names:
            return False
        if kind not in _KINDS and not pa.types.is_decimal(kind):
            return False
    return True
