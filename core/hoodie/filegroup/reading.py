"""Reading a file slice: its base file and what its log files change.

What is read of the files: the columns asked for, those of the filter, and in slices with changes
the record key and the ordering fields. A filter is pushed into the base file as far as it may be.
Without changes that is the whole filter. With changes a row that the filter rejects may be the old
version of one that it keeps, so only what holds of every version of a row alike, a condition on the
record key, is pushed; the rest is applied to merged rows.

Columns whose values stand in the partition path alone (`partition_columns`) are put beside the rows
once these are merged: all rows of a slice have the same.

Cost: one open of each file of the slice. Memory: the changes, and some row groups of the base file.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa

from hoodie import deferred, errors
from hoodie.filegroup import parquet_reading, slicing
from hoodie.format import log_blocks
from hoodie.format.log_blocks import HeaderKey
from hoodie.model import column_names, files, partition_columns, predicates, schemas, table_config
from hoodie.storage import protocol

with deferred.imports():
    from hoodie.filegroup import (
        block_decoding,
        bounded_merging,
        folding,
        kept_deletes,
        log_scanning,
        merging,
        placing,
    )

logger = logging.getLogger(__name__)

Frame = TypeVar("Frame", bound=log_blocks.Frame)


@dataclass(frozen=True, slots=True, kw_only=True)
class Merging:
    """How slices of a partition are merged into rows with some columns.

    Attributes:
        output: The columns.
        values: Those of them that the partition path has.
        held: Those that data files have.
        inside: These, and what merging needs: the record key, and the ordering fields.
        rules: The table's.
        decoder: Of log blocks.
        on_corrupt: Called for each corrupt range of a log file.
    """

    output: pa.Schema
    values: Mapping[str, pa.Scalar]
    held: pa.Schema
    inside: pa.Schema
    rules: folding.Rules
    decoder: block_decoding.Decoder
    on_corrupt: log_scanning.OnCorrupt


class SliceReader:
    """Reads the file slices of a table as of one timeline."""

    def __init__(
        self,
        storage: protocol.Storage,
        config: table_config.TableConfig,
        schema: schemas.TableSchema,
        is_committed: slicing.IsCommitted,
        on_corrupt: log_scanning.OnCorrupt | None = None,
        *,
        source: partition_columns.Source = partition_columns.Source.FILE,
    ) -> None:
        """Take what all slices have in common.

        Args:
            storage: The table's.
            config: The table's configuration.
            schema: The table's columns.
            is_committed: Whether log blocks of an instant count.
            on_corrupt: Called for each corrupt range of a log file, which is skipped; logged as a
                warning by default.
            source: Where values of partition columns are taken from.

        Raises:
            UnsupportedError: As `partition_columns.of_paths`.
        """
        self._storage = storage
        self._config = config
        self._schema = pa.schema([*schemas.meta_fields(), *schema.arrow])
        self._of_paths = partition_columns.of_paths(config, schema.arrow, source)
        self._seen = partition_columns.seen(self._schema, self._of_paths)
        self._is_committed = is_committed
        self._on_corrupt = on_corrupt or self._warn

    def read(
        self,
        file_slice: files.FileSlice,
        columns: Sequence[str],
        where: predicates.Predicate | None = None,
        *,
        is_read_optimized: bool = False,
    ) -> pa.Table:
        """Return the rows of a slice; arguments and errors as of `stream`."""
        rows = self.stream(file_slice, columns, where, is_read_optimized=is_read_optimized)
        return pa.concat_tables([rows.schema.empty_table(), *rows])

    def stream(
        self,
        file_slice: files.FileSlice,
        columns: Sequence[str],
        where: predicates.Predicate | None = None,
        *,
        is_read_optimized: bool = False,
        watch: merging.Watch | None = None,
    ) -> SliceRows:
        """Return the rows of a slice as tables, one after the other, to be iterated once.

        Base rows come in the base file's order, rows that only logs have after them.

        Args:
            file_slice: What to read.
            columns: At least one; meta columns are allowed. The result has them in this order.
            where: Rows to return; None for all.
            is_read_optimized: Read the base file alone.
            watch: Called with what the log files change, in the columns that data files have.

        Raises:
            NotFoundError: There is no such column, or a file is gone.
            FormatError: A file is broken, or the partition path has no values of its columns.
            UnsupportedError: A log block is of a kind that is not read.
        """
        output = pa.schema([self._field(name) for name in columns])
        filtered = self._with(output, _columns_of(where))
        values = self._path_values(file_slice.group.partition_path, filtered)
        blocks = []
        if not is_read_optimized:
            blocks = log_scanning.read(
                self._storage, file_slice.log_files, self._is_committed, self._on_corrupt
            )
        if not blocks:
            base_file = file_slice.base_file
            return SliceRows(output, self._base_alone(base_file, filtered, values, where, output))
        how = self._merging(filtered, values)
        decoded = []
        for found in blocks:
            with log_scanning.named(found.file):
                decoded.append(how.decoder.decode(found.block))
        merge = merging.SliceMerge(
            decoded,
            how.rules,
            how.inside,
            how.held.names,
            merges_repeated_keys=name_base_rows(blocks, file_slice.base_file),
        )
        merge.watch = watch
        merged = self._merged(file_slice.base_file, merge, how.inside, where)
        merged = beside(merged, filtered, values)
        origins = tuple(
            kept_deletes.Origin(file=each.file, instant_time=log_scanning.instant_time(each.block))
            for each in blocks
        )
        return SliceRows(output, _filtered(merged, where, output), merge, origins)

    def stream_bounded(
        self,
        file_slice: files.FileSlice,
        columns: Sequence[str],
        memory: placing.Memory,
        watch: merging.Watch | None = None,
    ) -> bounded_merging.BoundedRows:
        """Return the same rows as `stream` of a slice whose changes do not fit into memory.

        Cost: the log files are read in about two requests a block, the base file twice, of which
        once its record keys alone.

        Args:
            file_slice: What to read.
            columns: As of `stream`, of those that data files have; the record key is among them.
            memory: What may be used.
            watch: As of `stream`.

        Raises:
            HoodieError: As `stream`; a StorageError where the scratch folder is full.
        """
        output = pa.schema([self._field(name) for name in columns])
        assert set(self._of_paths.names).isdisjoint(columns), columns
        blocks = log_scanning.locate(
            self._storage, file_slice.log_files, self._is_committed, self._on_corrupt
        )
        if file_slice.base_file is not None:
            check_is_whole(file_slice.base_file)
        rules = folding.rules_of(self._config)
        inside = self._inside(output, rules)
        source = placing.Source(
            storage=self._storage,
            base_file=file_slice.base_file,
            blocks=blocks,
            decoder=self._decoder(inside, rules),
            rules=rules,
            output=output.names,
            merges_repeated_keys=name_base_rows(blocks, file_slice.base_file),
            watch=watch,
        )
        return bounded_merging.BoundedRows(source, memory)

    def merging_of(self, partition_path: str, columns: Sequence[str]) -> Merging:
        """Return how slices of a partition are merged.

        Args:
            partition_path: The partition.
            columns: As of `stream`.

        Raises:
            HoodieError: As `stream`.
        """
        output = pa.schema([self._field(name) for name in columns])
        return self._merging(output, self._path_values(partition_path, output))

    def _path_values(self, partition_path: str, columns: pa.Schema) -> Mapping[str, pa.Scalar]:
        """Return the values of those of some columns that the partition path has."""
        of_path = pa.schema([each for each in columns if each.name in self._of_paths.names])
        return partition_columns.values(partition_path, self._config, of_path)

    def _merging(self, output: pa.Schema, values: Mapping[str, pa.Scalar]) -> Merging:
        rules = folding.rules_of(self._config)
        held = self._held(output)
        inside = self._inside(held, rules)
        return Merging(
            output=output,
            values=values,
            held=held,
            inside=inside,
            rules=rules,
            decoder=self._decoder(inside, rules),
            on_corrupt=self._on_corrupt,
        )

    def _base_alone(
        self,
        base_file: files.BaseFile | None,
        columns: pa.Schema,
        values: Mapping[str, pa.Scalar],
        where: predicates.Predicate | None,
        output: pa.Schema,
    ) -> Iterator[pa.Table]:
        """Return the rows of a base file that nothing changes; of values that paths have, too."""
        held = self._held(columns)
        if where is not None and predicates.columns(where) and not values:
            return kept_base_rows(self._storage, base_file, held, where, output.names)
        rows = base_rows(self._storage, base_file, held, self._about_files(where))
        return _filtered(beside(rows, columns, values), where, output)

    def _inside(self, output: pa.Schema, rules: folding.Rules) -> pa.Schema:
        """Return the columns to merge: of the output, and those that merging needs."""
        names = dict.fromkeys([schemas.RECORD_KEY, *rules.ordering_fields])
        missing = [self._schema.field(name) for name in names if name not in output.names]
        return pa.schema([*output, *missing])

    def _held(self, columns: pa.Schema) -> pa.Schema:
        """Return which of some columns are read of data files; one at least."""
        if not self._of_paths.names:
            return columns
        held = [each for each in columns if each.name not in self._of_paths.names]
        return pa.schema(held or [self._field(schemas.RECORD_KEY)])

    def _about_files(self, where: predicates.Predicate | None) -> predicates.Predicate | None:
        """Return the part of a filter that is about values in data files."""
        return None if where is None else predicates.without(where, self._of_paths.names)

    def _decoder(self, inside: pa.Schema, rules: folding.Rules) -> block_decoding.Decoder:
        return block_decoding.Decoder.of(self._config, self._schema, inside, rules.ordering_fields)

    def _merged(
        self,
        base_file: files.BaseFile | None,
        merge: merging.SliceMerge,
        inside: pa.Schema,
        where: predicates.Predicate | None,
    ) -> Iterator[pa.Table]:
        in_files = self._about_files(where)
        pushed = predicates.all_of(
            part
            for part in (() if in_files is None else predicates.conjuncts(in_files))
            if self._holds_of_every_version(part)
        )
        for rows in base_rows(self._storage, base_file, inside, pushed):
            yield merge.over(rows)
        yield merge.inserts()

    def _holds_of_every_version(self, part: predicates.Predicate) -> bool:
        """Return whether a condition is true for all versions of a row, or for none.

        It is on the record key. A key field is as good where the key is its text, and the condition
        is unknown for null, which a partial update may hold.
        """
        names = predicates.columns(part)
        if names == {schemas.RECORD_KEY}:
            return True
        key_fields = self._config.record_key_fields
        if len(key_fields) != 1 or names != set(key_fields):
            return False
        kind = self._field(key_fields[0]).type
        is_exact = pa.types.is_string(kind) or pa.types.is_integer(kind)
        return is_exact and isinstance(part, predicates.Compare | predicates.In)

    def _with(self, columns: pa.Schema, more: Sequence[str]) -> pa.Schema:
        missing = [name for name in dict.fromkeys(more) if name not in columns.names]
        return pa.schema([*columns, *(self._field(name) for name in missing)])

    def _field(self, name: str) -> pa.Field:
        position = self._seen.get_field_index(name)
        if position < 0:
            raise errors.NotFoundError(column_names.absence(name, self._seen.names))
        return self._seen.field(position)

    def _warn(self, log_file: files.LogFile, corrupt: log_blocks.CorruptRange) -> None:
        logger.warning(
            "%s: %s: skipping %d bytes at byte %d: %s",
            self._storage.uri,
            log_file.path,
            corrupt.length,
            corrupt.offset,
            corrupt.reason,
        )


class SliceRows:
    """The rows of a slice, to be iterated once."""

    def __init__(
        self,
        schema: pa.Schema,
        tables: Iterator[pa.Table],
        merge: merging.SliceMerge | None = None,
        origins: Sequence[kept_deletes.Origin] = (),
    ) -> None:
        """Put the parts together; nothing of the base file was read yet."""
        self.schema = schema
        self._tables = tables
        self._merge = merge
        self._origins = origins

    def __iter__(self) -> Iterator[pa.Table]:
        """Yield tables of the schema; some may be empty."""
        return self._tables

    @property
    def is_partial(self) -> bool:
        """Whether a change has some of the columns alone, and is merged with what was there."""
        return self._merge is not None and self._merge.is_partial

    @property
    def counts(self) -> merging.MergeCounts:
        """What merging did, before any filter, as far as the rows were iterated."""
        return merging.MergeCounts() if self._merge is None else self._merge.counts

    def kept_deletes(self, keeping: kept_deletes.Keeping) -> list[kept_deletes.KeptDeletes]:
        """Return the deletes that outlive a compaction; once all rows were iterated."""
        if self._merge is None:
            return []
        return kept_deletes.kept(self._merge.ordered_deletes(), self._origins, keeping)


def base_rows(
    storage: protocol.Storage,
    base_file: files.BaseFile | None,
    columns: pa.Schema,
    where: predicates.Predicate | None = None,
) -> Iterator[pa.Table]:
    """Yield the rows of a base file, some row groups at a time; none where there is no file.

    Args:
        storage: The table's.
        base_file: The file.
        columns: What to return; a column that the file has not is null.
        where: Row groups in which it is provably true nowhere are left out.

    Raises:
        NotFoundError: The file is gone.
        FormatError: It is broken.
        UnsupportedError: It is a skeleton.
    """
    if base_file is None:
        return
    check_is_whole(base_file)
    with log_scanning.named(base_file), storage.open_input(base_file.path) as source:
        yield from parquet_reading.ParquetInput(source).pieces(columns, where)


def kept_base_rows(
    storage: protocol.Storage,
    base_file: files.BaseFile | None,
    columns: pa.Schema,
    where: predicates.Predicate,
    output: Sequence[str],
) -> Iterator[pa.Table]:
    """Yield the rows of a base file that a filter keeps; errors as of `base_rows`.

    Args:
        storage: The table's.
        base_file: The file.
        columns: As of `base_rows`, those of the filter among them.
        where: Rows to return; it names a column at least.
        output: What to return of the columns.
    """
    if base_file is None:
        return
    check_is_whole(base_file)
    with log_scanning.named(base_file), storage.open_input(base_file.path) as source:
        yield from parquet_reading.ParquetInput(source).kept(columns, where, output)


def check_is_whole(base_file: files.BaseFile) -> None:
    """Refuse a base file whose rows are elsewhere: all of its columns would be null.

    Raises:
        UnsupportedError: It is a skeleton.
    """
    if base_file.is_skeleton:
        raise errors.UnsupportedError(
            f"base file {base_file.path} was made by a METADATA_ONLY bootstrap: its rows are in "
            "the bootstrapped files, which are not supported; expected a FULL_RECORD bootstrap, "
            "or a "
            "partition that Apache Hudi has clustered since"
        )


def name_base_rows(
    blocks: Iterable[log_scanning.Found[Frame]], base_file: files.BaseFile | None
) -> bool:
    """Return whether all blocks say at which positions of the base file their records are."""
    return all(
        base_file is not None
        and bool(each.block.header.get(HeaderKey.RECORD_POSITIONS))
        and each.block.header.get(HeaderKey.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS)
        == base_file.instant_time
        for each in blocks
    )


def _columns_of(where: predicates.Predicate | None) -> list[str]:
    return [] if where is None else sorted(predicates.columns(where))


def beside(
    tables: Iterator[pa.Table], columns: pa.Schema, values: Mapping[str, pa.Scalar]
) -> Iterator[pa.Table]:
    """Yield rows in some columns, of which some have one value in all rows."""
    if not values:
        yield from tables
        return
    for rows in tables:
        arrays = [
            pa.repeat(values[each.name], rows.num_rows)
            if each.name in values
            else rows.column(each.name)
            for each in columns
        ]
        yield pa.Table.from_arrays(arrays, schema=columns)


def _filtered(
    tables: Iterator[pa.Table], where: predicates.Predicate | None, output: pa.Schema
) -> Iterator[pa.Table]:
    for rows in tables:
        if where is None:
            yield rows.select(output.names)
        else:
            yield predicates.kept(where, rows, output.names)
