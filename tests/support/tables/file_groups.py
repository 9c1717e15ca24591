"""A file group in memory that tests write into, and read as a slice."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from hoodie.filegroup import reading, writing
from hoodie.format import file_names, log_blocks
from hoodie.format.log_blocks import BlockType, HeaderKey
from hoodie.model import (
    commits,
    files,
    instants,
    predicates,
    schemas,
    table_config,
)
from hoodie.model.settings import WriteSettings
from hoodie.storage import memory

Rows = Sequence[Mapping[str, object]]

ARROW = pa.schema(
    [
        ("id", pa.string()),
        ("ts", pa.int64()),
        ("price", pa.float64()),
        ("name", pa.string()),
        ("_hoodie_is_deleted", pa.bool_()),
    ]
)
CONFIG = table_config.TableConfig(
    name="t",
    record_key_fields=("id",),
    ordering_fields=("ts",),
    merge_mode=table_config.MergeMode.EVENT_TIME,
)


def at(tick: int) -> instants.InstantTime:
    return instants.InstantTime(f"20260101{tick:09d}")


class Group:
    """A file group in memory; ticks are requested times, and count unless they are in `pending`."""

    def __init__(self) -> None:
        self.storage = memory.MemoryStorage()
        self.id = files.FileGroupId("p", "00000000-0000-0000-0000-000000000000-0")
        self.schema = schemas.from_arrow(ARROW, "t")
        self.config = CONFIG
        self.settings = WriteSettings()
        self.pending: set[instants.InstantTime] = set()
        self.base_file: files.BaseFile | None = None
        self.log_files: list[files.LogFile] = []
        self.corrupt: list[log_blocks.CorruptRange] = []
        self.marked: list[str] = []

    def target(self, tick: int, first_row: int = 0) -> writing.FileTarget:
        return writing.FileTarget(
            storage=self.storage,
            group=self.id,
            instant_time=at(tick),
            write_token="7-0-1",
            before_file=self.marked.append,
            first_row=first_row,
        )

    def data(self, rows: Rows) -> pa.Table:
        return pa.Table.from_pylist(list(rows), self.schema.arrow)

    def base(self, tick: int, rows: Rows) -> commits.WriteStat:
        data = self.data(rows)
        with_meta = writing.with_meta_columns(
            data, data.column("id").combine_chunks(), self.target(tick), 0, "to be replaced"
        )
        stat = writing.write_base_file(self.target(tick), [with_meta], self.schema, self.settings)
        parsed = file_names.parse(stat.path, stat.size_bytes)
        assert isinstance(parsed, files.BaseFile)
        self.base_file = parsed
        return stat

    def log(
        self,
        tick: int,
        rows: Rows = (),
        deleted: Sequence[str] = (),
        ordering: pa.Array | None = None,
    ) -> tuple[commits.WriteStat, ...]:
        data = self.data(rows)
        stats = writing.write_log_files(
            self.target(tick),
            [
                writing.LogRows(
                    data=data,
                    record_keys=data.column("id").combine_chunks(),
                    deleted_keys=pa.array(deleted, pa.string()),
                    deleted_ordering=ordering,
                )
            ],
            self.schema,
            self.settings,
        )
        for stat in stats:
            self._add(stat.path, stat.size_bytes)
        return stats

    def block(
        self,
        tick: int,
        block_type: BlockType,
        header: Mapping[HeaderKey, str],
        content: bytes | pa.Buffer = b"",
    ) -> None:
        """Write a log file with one block that our writer would not write."""
        whole = {HeaderKey.INSTANT_TIME: at(tick), **header}
        self.raw(tick, b"".join(map(bytes, log_blocks.encode(block_type, whole, content))))

    def raw(self, tick: int, content: bytes) -> None:
        path = f"p/{file_names.log_file_name(self.id.file_id, at(tick), 1, '7-0-1')}"
        self.storage.create(path, content)
        self._add(path, len(content))

    def _add(self, path: str, size_bytes: int) -> None:
        parsed = file_names.parse(path, size_bytes)
        assert isinstance(parsed, files.LogFile)
        self.log_files.append(parsed)

    def by_commit_time(self, *, has_partial_updates: bool = False) -> "Group":
        """Let commit time decide."""
        self.config = replace(
            self.config,
            ordering_fields=(),
            merge_mode=table_config.MergeMode.COMMIT_TIME,
            has_partial_updates=has_partial_updates,
        )
        return self

    @property
    def slice(self) -> files.FileSlice:
        return files.FileSlice(
            group=self.id,
            base_instant_time=at(0),
            base_file=self.base_file,
            log_files=tuple(sorted(self.log_files, key=lambda log: log.merge_order)),
        )

    def reader(self) -> reading.SliceReader:
        return reading.SliceReader(
            self.storage,
            self.config,
            self.schema,
            lambda time: time not in self.pending,
            lambda _, corrupt: self.corrupt.append(corrupt),
        )

    def read(
        self,
        *columns: str,
        where: predicates.Predicate | None = None,
        is_read_optimized: bool = False,
    ) -> list[tuple[object, ...]]:
        """Return the rows of the slice as tuples, sorted by the first column."""
        table = self.reader().read(self.slice, columns, where, is_read_optimized=is_read_optimized)
        assert tuple(table.column_names) == columns
        return sorted(tuple(row.values()) for row in table.to_pylist())
