"""What a filter leaves out by the statistics of a metadata table: file slices, and partitions.

A filter on merged rows may leave a file slice out if no value that it wants is in any file of the
slice: the values of a merged row are values of these files, each perhaps of another one. So the
ranges of a slice's files are joined, column by column. Where the record of a file is missing, or
has what is not understood, nothing is known of the slice's column.

A partition of the data table is left out as well if its own records exclude the filter. They are
right only if every write adds to them: `MetadataTable.check_is_kept_up` looks for one that did not.
A record of Apache Hudi's is of all files that it saw, and replaces those of earlier instants, but
not only of instants that it saw: of writes in progress at the same time the one that was requested
first loses its record if it completes last. So of the records in logs the union counts, and where
such a write is known the base file, in which they may have been merged, is not used either. Whether
there are nulls a partition's record does not say: those of files that lack the column are missing.

An expression index has the same of what a function makes of a column: its records of files are
asked where a filter has the function.

Requests: those of `column_statistics`.

Source: `ColumnStatsIndexSupport.scala`, `PartitionStatsIndexSupport.scala` (1.2.0).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie import deferred, errors
from hoodie.filegroup import column_ranges, metadata_table
from hoodie.filegroup.column_ranges import Ranges
from hoodie.format import metadata_avro
from hoodie.model import expression_indexes, files, predicates
from hoodie.model.file_statistics import COLUMN_STATS, PARTITION_STATS

with deferred.imports():
    from hoodie.filegroup import column_statistics, metadata_writing, ordering

_PARTITIONS_MAX = 100
"""Of more partitions of the data table the records of a column are read at once."""

RangesOf = Callable[[str, pa.DataType], Ranges]
"""Returns the ranges of a column of a type, in each of some file slices."""

_HASH_LENGTH = 12
"""Of a hash in a key: that of the column, and then that of the partition."""


def matching_slices(
    table: metadata_table.MetadataTable,
    slices: Sequence[files.FileSlice],
    where: predicates.Predicate,
    schema: pa.Schema,
    *,
    is_shared: bool,
) -> list[bool]:
    """Return for each file slice whether a read with a filter needs it.

    Args:
        table: The metadata table, which has `column_stats`.
        slices: Of any partitions.
        where: The filter.
        schema: The data table's.
        is_shared: Whether Apache Hudi may have written files of the table.

    Raises:
        FormatError: The partition is damaged.
        UnsupportedError: It has something that is not read.
    """
    columns = _columns(where, schema)
    if not columns:
        return [True] * len(slices)
    ranges_of = ranges_of_slices(table, slices, columns, is_shared=is_shared)
    return _matching(where, schema, columns, ranges_of, len(slices))


def ranges_of_slices(
    table: metadata_table.MetadataTable,
    slices: Sequence[files.FileSlice],
    columns: Sequence[str],
    *,
    is_shared: bool,
) -> RangesOf:
    """Return what returns the ranges of a column in file slices: in all files of each.

    Args:
        table: As of `matching_slices`, as are `slices` and `is_shared`.
        slices: Of any partitions.
        columns: Those that will be asked for.
        is_shared: Whether Apache Hudi may have written files of the table.

    Raises:
        FormatError: The partition is damaged.
        UnsupportedError: It has something that is not read.
    """
    paths = sorted({each.group.partition_path for each in slices})
    partition = table.partition(COLUMN_STATS, is_held=False)
    known = column_statistics.read(
        partition, columns, paths if len(paths) <= _PARTITIONS_MAX else [None]
    )
    wanted, groups = _names_of(slices)

    def ranges_of(name: str, data_type: pa.DataType) -> Ranges:
        of_column = known.filter(pc.equal(known.column("columnName"), name))
        file_names = of_column.column("fileName").combine_chunks()
        may_hide = is_shared & ~ordering.flags(pc.match_substring(file_names, ".log."))
        stated = column_ranges.stated(of_column, data_type, may_hide)
        places = pc.index_in(wanted, value_set=_names_in(of_column)).fill_null(-1)
        return stated.take(places.to_numpy().astype(np.int64)).joined(groups, len(slices))

    return ranges_of


def matching_by_expression(
    table: metadata_table.MetadataTable,
    slices: Sequence[files.FileSlice],
    definition: expression_indexes.Definition,
    conditions: Sequence[predicates.Applied],
    schema: pa.Schema,
) -> list[bool]:
    """Return for each file slice whether it may have a row by an expression index.

    Args:
        table: The metadata table, which has the index.
        slices: Of any partitions.
        definition: The index.
        conditions: On its function of its column, all of which must be true.
        schema: The data table's.

    Raises:
        FormatError: The partition is damaged.
        UnsupportedError: It has something that is not read.
    """
    partition = table.partition(definition.partition, is_held=False)
    paths = sorted({each.group.partition_path for each in slices})
    known = column_statistics.of_expression(partition, definition.column, paths)
    wanted, groups = _names_of(slices)

    def ranges_of(_: str, data_type: pa.DataType) -> Ranges:
        # They are taken from rows, and none is hidden behind a footer.
        stated = column_ranges.stated(known, data_type, np.zeros(known.num_rows, np.bool_))
        places = pc.index_in(wanted, value_set=_names_in(known)).fill_null(-1)
        return stated.take(places.to_numpy().astype(np.int64)).joined(groups, len(slices))

    where = predicates.And(tuple(each.condition for each in conditions))
    results = predicates.result_schema(conditions[0], schema)
    return _matching(where, results, results.names, ranges_of, len(slices))


def is_excludable(condition: predicates.Applied) -> bool:
    """Return whether bounds that another version of Java has made may exclude a condition.

    One that takes a certain value is true of rows alone of which each version makes that value.
    """
    if not condition.function.has_uncertain_values:
        return True
    values = predicates.literals_equal_to(condition.condition, condition.call)
    return values is not None and all(map(condition.function.is_certain, values))


def matching_partitions(
    table: metadata_table.MetadataTable,
    paths: Sequence[str],
    where: predicates.Predicate,
    schema: pa.Schema,
    *,
    is_shared: bool,
) -> list[bool]:
    """Return for each partition of the data table whether a read with a filter needs it.

    Args:
        table: The metadata table, which has `partition_stats`.
        paths: Of the partitions.
        where: As of `matching_slices`, as are `schema` and `is_shared`.
        schema: The data table's.
        is_shared: Whether Apache Hudi may have written files of the table.

    Raises:
        FormatError: The partition is damaged, or lacks what a write adds to it; or it is not ready
            by that table, whatever properties said before.
        UnsupportedError: It has something that is not read, or may lack a write that was overtaken.
    """
    columns = _columns(where, schema)
    if not columns:
        return [True] * len(paths)
    overtaken = table.overtaken() if is_shared else None
    if overtaken is not None:
        raise errors.UnsupportedError(
            f"{PARTITION_STATS} may lack rows of {overtaken}, which completed after a write that "
            "was requested later: Apache Hudi's record of that may have replaced its own"
        )
    if not all(map(metadata_writing.is_made, table.latest_slices(PARTITION_STATS))):
        raise errors.FormatError(
            f"{PARTITION_STATS} is being built, or was dropped: expected one that is ready"
        )
    table.check_is_kept_up(PARTITION_STATS)
    if is_shared:
        # Apache Hudi's records of partitions are of the files that have their own at that time.
        table.check_is_not_rolled_back(COLUMN_STATS)
        table.check_is_not_rolled_back(PARTITION_STATS)
    partition = table.partition(PARTITION_STATS, is_held=False)
    known = column_statistics.of_partitions(partition, columns)
    hashed = pa.array([_hash_of(path) for path in paths], pa.binary())

    def ranges_of(name: str, data_type: pa.DataType) -> Ranges:
        of_column = known.filter(pc.equal(known.column("columnName"), name))
        stated = column_ranges.stated(of_column, data_type, np.full(of_column.num_rows, is_shared))
        groups = pc.index_in(_hashes_in(of_column), value_set=hashed).fill_null(len(paths))
        joined = stated.joined(groups.to_numpy().astype(np.int64), len(paths) + 1)
        is_there = np.bincount(groups.to_numpy(), minlength=len(paths) + 1) > 0
        places = np.where(is_there, np.arange(len(paths) + 1), -1)[: len(paths)]
        found = joined.take(places)
        return replace(found, has_nulls=np.ones(len(paths), np.bool_))

    return _matching(where, schema, columns, ranges_of, len(paths))


def _columns(where: predicates.Predicate, schema: pa.Schema) -> list[str]:
    """Return the columns of a filter whose bounds are understood."""
    return sorted(
        predicates.columns(where).intersection(column_statistics.understood_columns(schema))
    )


def _matching(
    where: predicates.Predicate,
    schema: pa.Schema,
    columns: Sequence[str],
    ranges_of: Callable[[str, pa.DataType], Ranges],
    count: int,
) -> list[bool]:
    """Return which of some files, or groups of them, may have a row that a filter keeps."""
    arrays: dict[str, pa.Array] = {}
    for name in predicates.columns(where):
        data_type = schema.field(name).type
        is_read = name in columns
        found = ranges_of(name, data_type) if is_read else column_ranges.unknown(data_type, count)
        arrays |= found.columns(name)
    ranges = pa.table({**arrays, "": pa.array(np.arange(count))})
    matching = ranges.filter(predicates.to_range_expression(where, schema))
    is_wanted = np.zeros(count, np.bool_)
    is_wanted[matching.column("").to_numpy()] = True
    found_flags: list[bool] = is_wanted.tolist()
    return found_flags


def _names_of(slices: Sequence[files.FileSlice]) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """Return the files of slices, each as `_names_in` has it, and which slice each is of."""
    hashes: dict[str, str] = {}
    names, counts = [], []
    for each in slices:
        path = each.group.partition_path
        if path not in hashes:
            hashes[path] = _hash_of(path)
        data_files = each.data_files
        names += [hashes[path] + data_file.name for data_file in data_files]
        counts.append(len(data_files))
    return pa.array(names, pa.string()), np.repeat(np.arange(len(slices)), counts)


def _names_in(records: pa.Table) -> pa.Array:
    """Return the file of each record: the hash of its partition, and its name there."""
    # Files of two partitions may have one name.
    hashes = _hashes_in(records).cast(pa.string())
    return pc.binary_join_element_wise(hashes, records.column("fileName").combine_chunks(), "")


def _hashes_in(records: pa.Table) -> pa.Array:
    """Return the hash of the partition in the key of each record."""
    keys = records.column("key").combine_chunks()
    return pc.binary_slice(keys, _HASH_LENGTH, 2 * _HASH_LENGTH)


def _hash_of(path: str) -> str:
    return metadata_avro.statistics_prefix("", path)[_HASH_LENGTH:]
