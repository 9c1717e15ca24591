"""Reading parquet: base files, and the content of parquet log blocks.

One thread reads one file: several slices are read at once, each by a thread of the engine. What
lies in memory, mapped files included, is not read ahead; a remote file is.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from hoodie import deferred, errors
from hoodie.filegroup import projecting
from hoodie.model import predicates

with deferred.imports():
    from hoodie.filegroup import row_groups

_PIECE_BYTES = 64 << 20
"""Row groups are read together until they hold about so many bytes, uncompressed; in parts where
one of them holds more."""

_NUMBER_BYTES_MAX = 4
"""A text of which a file has the number takes less, its dictionary included."""

_IN_MEMORY = (pa.MemoryMappedFile, pa.BufferReader)


class ParquetInput:
    """A parquet file, or a buffer that is one."""

    def __init__(self, source: pa.NativeFile) -> None:
        """Read the footer.

        Raises:
            FormatError: There is none, or it is broken.
        """
        self._source = source
        try:
            self._file = pq.ParquetFile(source, pre_buffer=not isinstance(source, _IN_MEMORY))
            self.schema: pa.Schema = self._file.schema_arrow
        except (pa.ArrowException, OSError) as error:
            raise errors.FormatError(f"not a readable parquet file: {error}") from error

    @property
    def metadata(self) -> pq.FileMetaData:
        """The footer."""
        return self._file.metadata

    def read(self, columns: pa.Schema) -> pa.Table:
        """Return all rows, in the table's columns.

        Raises:
            FormatError: The file is broken, or a column is of a type that does not fit.
        """
        return self._read(range(self._file.num_row_groups), columns)

    def pieces(
        self, columns: pa.Schema, where: predicates.Predicate | None = None
    ) -> Iterator[pa.Table]:
        """Yield the rows in order, some row groups or part of one at a time, in those columns.

        Args:
            columns: What to return.
            where: Row groups whose statistics prove that it is true nowhere are left out.
        """
        for rows in self._pieces(self._with_numbers(columns), columns, where):
            yield projecting.project(rows, columns)

    def kept(
        self, columns: pa.Schema, where: predicates.Predicate, output: Sequence[str]
    ) -> Iterator[pa.Table]:
        """Yield the rows that a filter keeps, as `pieces` does.

        Columns are brought into the table's types once the other rows are gone.

        Args:
            columns: The columns that are read, those of the filter among them.
            where: Rows to return; it names a column at least.
            output: What to return of the columns.
        """
        needed = pa.schema([columns.field(name) for name in predicates.columns(where)])
        returned = pa.schema([columns.field(name) for name in output])
        file = self._with_numbers(columns)
        for rows in self._pieces(file, columns, where):
            mask = predicates.mask(where, projecting.project(rows, needed))
            present = [name for name in output if name in rows.schema.names]
            # Of no column the number of rows would be lost.
            found = rows.select(present or rows.schema.names[:1]).filter(mask)
            yield projecting.project(found, returned)

    def _with_numbers(self, columns: pa.Schema) -> pq.ParquetFile:
        """Return the file, of which texts that repeat are read as numbers of the file's texts.

        To read the numbers, and make texts of them, takes half as long as to read texts.
        """
        repeating = [each.name for each in columns if self._has_numbers(each)]
        if not repeating:
            return self._file
        self._source.seek(0)
        return pq.ParquetFile(
            self._source,
            metadata=self._file.metadata,
            read_dictionary=repeating,
            pre_buffer=not isinstance(self._source, _IN_MEMORY),
        )

    def _has_numbers(self, column: pa.Field) -> bool:
        """Return whether a column is of texts that the file has once, and numbers of them."""
        position = self.schema.get_field_index(column.name)
        # A name with dots may be that of a field within a column, too.
        if position < 0 or "." in column.name or column.type != pa.string():
            return False
        footer = self._file.metadata
        paths = [footer.schema.column(each).path for each in range(footer.num_columns)]
        if column.name not in paths or self.schema.field(position).type != pa.string():
            return False
        at = paths.index(column.name)
        chunks = [footer.row_group(each).column(at) for each in range(footer.num_row_groups)]
        return all(
            each.has_dictionary_page
            and each.total_uncompressed_size < _NUMBER_BYTES_MAX * each.num_values
            for each in chunks
        )

    def _pieces(
        self, file: pq.ParquetFile, columns: pa.Schema, where: predicates.Predicate | None
    ) -> Iterator[pa.Table]:
        """Yield what the file has of some columns, in its own types."""
        piece: list[int] = []
        size_bytes = 0
        for number in self._matching(columns, where):
            group_bytes = self._file.metadata.row_group(number).total_byte_size
            if piece and size_bytes + group_bytes > _PIECE_BYTES:
                yield self._read_from(file, piece, columns)
                piece, size_bytes = [], 0
            if group_bytes > _PIECE_BYTES:
                yield from self._parts(file, number, columns, _PIECE_BYTES)
                continue
            piece.append(number)
            size_bytes += group_bytes
        if piece:
            yield self._read_from(file, piece, columns)

    def cut(self, columns: pa.Schema, bytes_max: int) -> Iterator[pa.Table]:
        """Yield the rows in order, about so many bytes of all columns at a time, uncompressed.

        The tables have the same rows whatever the columns are. A part of one row group is read at
        most.
        """
        for number in range(self._file.num_row_groups):
            for rows in self._parts(self._file, number, columns, bytes_max):
                yield projecting.project(rows, columns)

    def _parts(
        self, file: pq.ParquetFile, number: int, columns: pa.Schema, bytes_max: int
    ) -> Iterator[pa.Table]:
        group = self._file.metadata.row_group(number)
        rows_max = max(1, group.num_rows * bytes_max // max(1, group.total_byte_size))
        if group.num_rows <= rows_max:
            yield self._read_from(file, [number], columns)
        else:
            yield from self._read_in_batches(file, number, columns, rows_max)

    def _read_in_batches(
        self, file: pq.ParquetFile, row_group: int, columns: pa.Schema, rows_max: int
    ) -> Iterator[pa.Table]:
        present = self._present(columns)
        if not present:
            rows = self._read_from(file, [row_group], columns)
            for first in range(0, rows.num_rows, rows_max):
                yield rows.slice(first, rows_max)
            return
        try:
            for batch in file.iter_batches(
                rows_max, row_groups=[row_group], columns=present, use_threads=False
            ):
                yield pa.Table.from_batches([batch])
        except (pa.ArrowException, OSError) as error:
            raise errors.FormatError(f"broken parquet: {error}") from error

    def _present(self, columns: pa.Schema) -> list[str]:
        wanted = set(columns.names)
        return [name for name in self.schema.names if name in wanted]

    def _read(self, row_groups: Sequence[int], columns: pa.Schema) -> pa.Table:
        return projecting.project(self._read_from(self._file, row_groups, columns), columns)

    def _read_from(
        self, file: pq.ParquetFile, row_groups: Sequence[int], columns: pa.Schema
    ) -> pa.Table:
        present = self._present(columns)
        try:
            rows = file.read_row_groups(row_groups, columns=present, use_threads=False)
        except (pa.ArrowException, OSError) as error:
            raise errors.FormatError(f"broken parquet: {error}") from error
        if not present:
            count = sum(self._file.metadata.row_group(each).num_rows for each in row_groups)
            rows = pa.table({"": pa.nulls(count)})
        return rows

    def _matching(self, columns: pa.Schema, where: predicates.Predicate | None) -> Sequence[int]:
        every = range(self._file.num_row_groups)
        provable = predicates.all_of(
            part
            for part in (() if where is None else predicates.conjuncts(where))
            if self._is_provable(part, columns)
        )
        if provable is None:
            return every
        self._source.seek(0)
        return row_groups.matching(self._source, predicates.to_expression(provable, self.schema))

    def _is_provable(self, part: predicates.Predicate, columns: pa.Schema) -> bool:
        """Return whether statistics can tell that a part of the filter is true nowhere.

        Not for columns that are missing here or of another type. NaN is not in the statistics, so
        of fractions only what is false for NaN can be told.
        """
        if predicates.applied_in(part):
            return False
        is_plain = isinstance(part, predicates.Compare) and (
            part.comparator is not predicates.Comparator.NE
        )
        for name in predicates.columns(part):
            position = self.schema.get_field_index(name)
            kind = columns.field(name).type
            if position < 0 or not self.schema.field(position).type.equals(kind):
                return False
            if pa.types.is_floating(kind) and not is_plain:
                return False
        return True
