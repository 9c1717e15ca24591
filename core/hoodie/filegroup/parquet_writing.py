"""Writing parquet as Apache Hudi's readers expect it, and fast.

- No Arrow schema in the footer: types are parquet's own. The Avro schema is there.
- Dictionaries only for columns whose values repeat, by a sample: measured on 62,000 rows of 15
  columns, 28 instead of 50 ms, and 12 % fewer bytes.
- Row groups of bounded size, so that writing streams and reading may skip.

Source: format.md: Base files.
"""

from collections.abc import Callable, Mapping
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hoodie.model import schemas
from hoodie.storage import protocol

ROW_GROUP_BYTES = 128 << 20
"""A row group holds about so many bytes of Arrow data at most."""

AVRO_SCHEMA_KEY = "parquet.avro.schema"

_SAMPLE_ROWS = 2048
_REPEATING_SHARE = 0.95
"""With a larger share of distinct values in a sample a dictionary does not pay."""

# Arrow's own for gzip, 9, takes eight times as long for 5 % fewer bytes.
_LEVELS = {"gzip": 4}
_NEVER_REPEATING = (schemas.COMMIT_SEQNO, schemas.RECORD_KEY)
_WITHOUT_STATISTICS = (schemas.COMMIT_SEQNO, schemas.FILE_NAME)


class ParquetOutput:
    """One parquet file that is written table by table; leaving it by an error abandons it."""

    def __init__(
        self,
        sink: protocol.NewFile | pa.NativeFile,
        schema: pa.Schema,
        codec: str,
        see: Callable[[pa.Table], object] = lambda rows: None,
    ) -> None:
        """Begin a file.

        Args:
            sink: Where to; the caller closes it, afterwards.
            schema: Of the file. Tables have its columns in its order; all of them may have a
                dictionary of its type in some column, which is stored as values.
            codec: snappy, zstd, gzip or none.
            see: Called with rows that become one or more row groups.
        """
        self._sink = sink
        self._schema = schema
        self._codec = codec
        self._see = see
        self._footers: list[pq.FileMetaData] = []
        self._writer: pq.ParquetWriter | None = None
        self._pending: list[pa.Table] = []
        self._pending_bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if self._writer is not None:
            self._writer.is_open = False  # Or its finaliser writes to a sink that is closed.

    def write(self, rows: pa.Table) -> None:
        """Add rows; they are written once a row group is full, and cut where they are more."""
        if not rows.num_rows:
            return
        self._pending.append(rows)
        self._pending_bytes += rows.nbytes
        if self._pending_bytes >= ROW_GROUP_BYTES:
            self._flush()

    def finish(self, footer: Mapping[str, str]) -> pq.FileMetaData:
        """Write what is left, and the footer with these texts in it; return the footer."""
        self._flush()
        writer = self._open(self._schema.empty_table())
        writer.add_key_value_metadata(dict(footer))
        writer.close()
        return self._footers[-1]

    def _flush(self) -> None:
        if not self._pending:
            return
        rows = pa.concat_tables(self._pending)
        self._see(rows)
        row_bytes = max(1, self._pending_bytes // rows.num_rows)
        self._open(rows).write_table(rows, row_group_size=max(1, ROW_GROUP_BYTES // row_bytes))
        self._pending, self._pending_bytes = [], 0

    def _open(self, first: pa.Table) -> pq.ParquetWriter:
        if self._writer is None:
            self._writer = pq.ParquetWriter(
                self._sink,
                first.schema,
                compression=self._codec,
                compression_level=_LEVELS.get(self._codec),
                use_dictionary=_repeating(first) or False,
                write_statistics=[
                    name for name in first.column_names if name not in _WITHOUT_STATISTICS
                ],
                store_schema=False,
                metadata_collector=self._footers,
            )
        return self._writer


def _repeating(rows: pa.Table) -> list[str]:
    """Return the columns whose values repeat in a sample, the rows in the middle."""
    sample = rows.slice(max(0, rows.num_rows - _SAMPLE_ROWS) // 2, _SAMPLE_ROWS)
    return [
        name
        for name, column in zip(sample.column_names, sample.columns, strict=True)
        if name not in _NEVER_REPEATING and _repeats(column)
    ]


def _repeats(column: pa.ChunkedArray) -> bool:
    if pa.types.is_dictionary(column.type):
        return True
    if pa.types.is_nested(column.type) or pa.types.is_null(column.type):
        return False
    distinct = pc.count_distinct(column).as_py()
    return bool(distinct <= (len(column) - column.null_count) * _REPEATING_SHARE)
