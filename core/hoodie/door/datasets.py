"""Datasets of Arrow, by which DuckDB, Polars, DataFusion and others read a snapshot.

DuckDB and Polars call `scanner` with the columns and the filter of a query; DataFusion asks for
fragments, which are file slices here, and reads them in parallel. Both drop the filters that they
have pushed, so the whole filter is applied to merged rows. Below the merge go conditions on keys
and partitions alone: of another column a log file may change the value.

The classes are subclasses for the sake of `isinstance`. What needs a dataset of Arrow's C++ works
on rows in memory, or is refused: the one that is inside has a file that is not there, whose name
says so, since without one the process would die of a segmentation fault.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset, fs

from hoodie import errors
from hoodie.door import filters
from hoodie.model import column_names, schemas
from hoodie.read import tasks

Columns = Sequence[str] | Mapping[str, pc.Expression] | None
"""Names, or expressions by the names of the result; None for all columns."""


_NO_FILE = "(a dataset of hoodie, which Arrow's own engine cannot scan: give it to_table() of it)"
"""Where Arrow's C++ looks for rows."""


class Rows(Protocol):
    """Rows of which columns and rows can be chosen before they are read."""

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        ...

    def narrowed(self, columns: Sequence[str] | None = None, where: object = None) -> Self:
        """Return some of the columns, and of the rows."""
        ...

    def to_batches(self) -> pa.RecordBatchReader:
        """Return the rows."""
        ...

    def count(self) -> int:
        """Return how many rows there are."""
        ...


class Scannable(Rows, Protocol):
    """The rows of several file slices."""

    def fragments(self) -> "list[HoodieFragment]":
        """Return the rows of each file slice by themselves."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """The rows of a file slice; it pickles.

    Attributes:
        task: Reads them.
        filter: What the task does not apply of it is applied here.
        schema: The columns.
    """

    task: tasks.ReadTask
    filter: filters.Filter
    schema: pa.Schema

    def narrowed(self, columns: Sequence[str] | None = None, where: object = None) -> "Slice":
        """Return some of the columns, and of the rows.

        Raises:
            HoodieError: As of `scans.Scan.narrowed`.
        """
        full = tasks.full_schema(self.task.schema.arrow)
        names = self.schema.names if columns is None else list(columns)
        known = set(self.schema.names)
        for name in names:
            if name not in known:
                raise errors.NotFoundError(column_names.absence(name, self.schema.names))
        found = filters.both(self.filter, filters.filter_of(where, full))
        read = tuple(dict.fromkeys([*names, *found.columns])) or (schemas.RECORD_KEY,)
        query = replace(self.task.query, columns=read, where=found.predicate)
        return Slice(
            task=replace(self.task, query=query),
            filter=found,
            schema=pa.schema([self.schema.field(name) for name in names]),
        )

    def to_batches(self) -> pa.RecordBatchReader:
        """Return the rows."""
        return pa.RecordBatchReader.from_batches(self.schema, self._batches())

    def count(self) -> int:
        """Return how many rows there are."""
        return sum(int(batch.num_rows) for batch in self.narrowed([])._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for batch in tasks.run(self.task):
            yield self.filter.kept(batch).select(self.schema.names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slices:
    """The rows of some file slices, as they arrive in another process: none is left out any more.

    Attributes:
        slices: The rows of each.
        schema: The columns.
    """

    slices: tuple[Slice, ...]
    schema: pa.Schema

    def narrowed(self, columns: Sequence[str] | None = None, where: object = None) -> "Slices":
        """Return some of the columns, and of the rows."""
        names = self.schema.names if columns is None else list(columns)
        return Slices(
            slices=tuple(each.narrowed(names, where) for each in self.slices),
            schema=pa.schema([self.schema.field(name) for name in names]),
        )

    def to_batches(self) -> pa.RecordBatchReader:
        """Return the rows."""
        rows = (batch for each in self.slices for batch in each.to_batches())
        return pa.RecordBatchReader.from_batches(self.schema, rows)

    def count(self) -> int:
        """Return how many rows there are."""
        return sum(each.count() for each in self.slices)

    def fragments(self) -> "list[HoodieFragment]":
        """Return the rows of each file slice by themselves."""
        return list(map(HoodieFragment, self.slices))


def _scanner(rows: Rows, columns: Columns, where: pc.Expression | None) -> dataset.Scanner:
    """Return what reads some columns, or expressions of them, of the rows that a filter keeps."""
    if columns is None:
        columns = rows.schema.names
    if not isinstance(columns, Mapping):
        return _Scanner(rows.narrowed(list(columns), where).to_batches())
    names = dict.fromkeys(
        name for each in columns.values() for name in filters.columns_of_value(each, rows.schema)
    )
    found = rows.narrowed(list(names), where).to_batches()
    values = dict(columns)

    def computed(batch: pa.Table) -> pa.Table:
        return dataset.InMemoryDataset(batch).to_table(columns=values)

    results = (
        batch for each in found for batch in computed(pa.Table.from_batches([each])).to_batches()
    )
    empty = computed(found.schema.empty_table()).schema
    return _Scanner(pa.RecordBatchReader.from_batches(empty, results))


class _Scanner(dataset.Scanner):  # type: ignore[misc] # pyarrow has no types
    """What a scan gives, asked for by whoever wants it.

    A scanner of Arrow's own asks for rows in a thread of Arrow, even if nobody wants any more: a
    process that ends meanwhile, as after a query that failed, is aborted.
    """

    def __init__(self, reader: pa.RecordBatchReader) -> None:
        """Take the rows."""
        self._reader = reader

    @property
    def dataset_schema(self) -> pa.Schema:
        """The columns."""
        return self._reader.schema

    @property
    def projected_schema(self) -> pa.Schema:
        """The columns."""
        return self._reader.schema

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the rows."""
        return self._reader

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows."""
        return iter(self._reader)

    def scan_batches(self) -> Iterator[dataset.TaggedRecordBatch]:
        """Yield the rows, without saying which fragment they are of."""
        return (dataset.TaggedRecordBatch(each, None) for each in self._reader)

    def to_table(self) -> pa.Table:
        """Return all rows."""
        return self._reader.read_all()

    def count_rows(self) -> int:
        """Return how many rows there are."""
        return sum(int(batch.num_rows) for batch in self._reader)

    def head(self, num_rows: int) -> pa.Table:
        """Return the first rows."""
        found, count = [], 0
        with self._reader as batches:
            for batch in batches:
                found.append(batch)
                count += batch.num_rows
                if count >= num_rows:
                    break
        return pa.Table.from_batches(found, self._reader.schema).slice(0, num_rows)

    def take(self, indices: Any) -> pa.Table:  # noqa: ANN401 - integers of any kind
        """Return some rows by their positions, after all were read."""
        return self.to_table().take(indices)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the rows as a capsule of Arrow's C stream interface."""
        return self._reader.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return f"<Scanner of {', '.join(self._reader.schema.names)}>"


class HoodieDataset(dataset.UnionDataset):  # type: ignore[misc] # pyarrow has no types
    """The rows of a snapshot, for engines."""

    def __init__(self, scan: Scannable) -> None:
        """Take the rows."""
        disk, form = fs.LocalFileSystem(), dataset.IpcFileFormat()
        missing = [form.make_fragment(_NO_FILE, disk)]
        child = dataset.FileSystemDataset(missing, scan.schema, form, disk)
        super().__init__(scan.schema, [child])
        self._scan = scan

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self._scan.schema

    def scanner(
        self,
        columns: Columns = None,
        filter: pc.Expression | None = None,  # noqa: A002 - as Arrow names it
        **options: Any,  # noqa: ANN401 - of Arrow's scans; none applies
    ) -> dataset.Scanner:
        """Return what reads some columns of the rows that a filter keeps.

        Args:
            columns: Names, or a dict of names and expressions; None for all.
            filter: On any columns.
            options: Those of Arrow's scanners are accepted, and have no effect.
        """
        del options
        return _scanner(self._scan, columns, filter)

    def get_fragments(self, filter: pc.Expression | None = None) -> "Iterator[HoodieFragment]":  # noqa: A002
        """Yield a fragment for each file slice that may hold rows that a filter keeps."""
        return iter(self._scan.narrowed(None, filter).fragments())

    def count_rows(self, filter: pc.Expression | None = None, **options: Any) -> int:  # noqa: A002, ANN401
        """Return how many rows a filter keeps."""
        del options
        return self._scan.narrowed([], filter).count()

    def filter(self, expression: pc.Expression) -> "HoodieDataset":
        """Return a dataset of the rows that a filter keeps."""
        return HoodieDataset(self._scan.narrowed(None, expression))

    @property
    def partition_expression(self) -> pc.Expression:
        """What holds of all rows: nothing is known."""
        return pc.scalar(True)

    def sort_by(self, sorting: Any, **options: Any) -> dataset.Dataset:  # noqa: ANN401
        """Return all rows, sorted, in memory."""
        return self._in_memory().sort_by(sorting, **options)

    def join(
        self,
        right_dataset: dataset.Dataset,
        *arguments: Any,  # noqa: ANN401
        **options: Any,  # noqa: ANN401
    ) -> dataset.Dataset:
        """Join all rows, in memory, with another dataset."""
        return self._in_memory().join(_of_arrow(right_dataset), *arguments, **options)

    def join_asof(
        self,
        right_dataset: dataset.Dataset,
        *arguments: Any,  # noqa: ANN401
        **options: Any,  # noqa: ANN401
    ) -> dataset.Dataset:
        """Join all rows, in memory, with another dataset, by the nearest key."""
        return self._in_memory().join_asof(_of_arrow(right_dataset), *arguments, **options)

    def take(self, indices: Any, **options: Any) -> pa.Table:  # noqa: ANN401
        """Return some rows by their positions, after all were read."""
        return self.scanner(**options).to_table().take(indices)

    def replace_schema(self, schema: pa.Schema) -> dataset.Dataset:
        """Refuse another schema: a scan casts none.

        Raises:
            UnsupportedError: Always.
        """
        raise errors.UnsupportedError(
            f"the columns of {self!r} cannot be replaced by {', '.join(schema.names)}, as a union "
            "of datasets does: cast them in the query, or take its to_table()"
        )

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the rows as a capsule of Arrow's C stream interface.

        By it Arrow writes a dataset (`write_dataset`), which otherwise asks its C++.
        """
        return self.scanner().__arrow_c_stream__(requested_schema)

    def __reduce__(self) -> tuple[type[Self], tuple["Slices"]]:
        found = tuple(each.rows for each in self._scan.fragments())
        return type(self), (Slices(slices=found, schema=self.schema),)

    def __repr__(self) -> str:
        return f"<HoodieDataset of {self._scan!r}>"

    def _in_memory(self) -> dataset.InMemoryDataset:
        return dataset.InMemoryDataset(self.scanner().to_table())


def _of_arrow(given: dataset.Dataset) -> dataset.Dataset:
    """Return a dataset that Arrow can scan."""
    return given._in_memory() if isinstance(given, HoodieDataset) else given


class HoodieFragment(dataset.Fragment):  # type: ignore[misc] # as above
    """The rows of a file slice, for engines that read slices in parallel; it pickles."""

    def __init__(self, rows: Slice) -> None:
        """Take the rows."""
        self._rows = rows

    @property
    def rows(self) -> Slice:
        """The rows, as a value."""
        return self._rows

    @property
    def physical_schema(self) -> pa.Schema:
        """The columns."""
        return self._rows.schema

    @property
    def partition_expression(self) -> pc.Expression:
        """What holds of all rows: nothing is known here that was not asked before."""
        return pc.scalar(True)

    def scanner(
        self,
        schema: pa.Schema | None = None,
        columns: Columns = None,
        filter: pc.Expression | None = None,  # noqa: A002 - as Arrow names it
        **options: Any,  # noqa: ANN401 - of Arrow's scans; none applies
    ) -> dataset.Scanner:
        """Return what reads some columns of the rows that a filter keeps."""
        del options
        if columns is None and schema is not None:
            columns = schema.names
        return _scanner(self._rows, columns, filter)

    def to_batches(
        self,
        schema: pa.Schema | None = None,
        columns: Columns = None,
        filter: pc.Expression | None = None,  # noqa: A002
        **options: Any,  # noqa: ANN401
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows that a filter keeps."""
        yield from self.scanner(schema, columns, filter, **options).to_batches()

    def to_table(
        self,
        schema: pa.Schema | None = None,
        columns: Columns = None,
        filter: pc.Expression | None = None,  # noqa: A002
        **options: Any,  # noqa: ANN401
    ) -> pa.Table:
        """Return the rows that a filter keeps."""
        return self.scanner(schema, columns, filter, **options).to_table()

    def head(self, num_rows: int, columns: Columns = None, **options: Any) -> pa.Table:  # noqa: ANN401
        """Return the first rows."""
        return self.scanner(None, columns, **options).head(num_rows)

    def take(self, indices: Any, columns: Columns = None, **options: Any) -> pa.Table:  # noqa: ANN401
        """Return some rows by their positions, after all were read."""
        return self.scanner(None, columns, **options).to_table().take(indices)

    def count_rows(self, filter: pc.Expression | None = None, **options: Any) -> int:  # noqa: A002, ANN401
        """Return how many rows a filter keeps."""
        del options
        return self._rows.narrowed([], filter).count()

    def __reduce__(self) -> tuple[type[Self], tuple[Slice]]:
        return type(self), (self._rows,)

    def __repr__(self) -> str:
        return f"<HoodieFragment {self._rows.task.file_slice.group}>"
