"""A batch of rows on its way into the table: checked, keyed, and split by file group.

Nothing here touches the table, so a batch that does not fit is refused before anything is written.
Rows keep their order within a file group: of two rows with one key the later is the newer one.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie import errors
from hoodie.filegroup import block_decoding, projecting
from hoodie.index import protocol, tables
from hoodie.model import commits, instants, schemas, table_config
from hoodie.write import keys

NO_BUCKET = -1

MARK = "_hoodie_operator_mark"
"""The column of rows of several operations that says what each of them does; bits."""

DELETES = 1
"""The row deletes its key, and says nothing else."""

CLEARS = 2
"""What came before the row counts no more: its key was deleted in between (`composition`)."""

Marks = npt.NDArray[np.uint8]
Rows = npt.NDArray[np.int64]
"""Positions of rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRows:
    """The rows of one file group.

    Attributes:
        partition_path: The group's partition.
        bucket: The group's bucket.
        rows: Positions in the batch's tables, ascending.
        file_id: Of a group that was found by keys, or chosen for new ones; None for the group that
            the bucket has.
        is_base_file: Whether they become a base file, whatever the table's type.
        leaving: Positions of rows whose keys the group loses to another partition, ascending.
    """

    partition_path: str
    bucket: int
    rows: npt.NDArray[np.int64]
    file_id: str | None = None
    is_base_file: bool = False
    leaving: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))

    @property
    def is_empty(self) -> bool:
        """Whether the group is not written to."""
        return not len(self.rows) and not len(self.leaving)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A batch that fits its table.

    Attributes:
        data: All columns of the table, one chunk each; a column that the input lacks is null.
        carried: The columns that the input had.
        record_keys: One a row; in a table without a record key null until the write has begun.
        groups: Every row is in one; once its key was looked up, in none if there is nothing to
            delete, and in several if these hold the key.
        is_by_partition: Whether they are of the buckets that each partition has of its own.
        row_bytes: About how many a row with all columns takes in memory.
        marks: What each row does, in a batch of several operations; None where the write's one
            operation says it.
    """

    data: pa.Table
    carried: frozenset[str]
    record_keys: pa.Array
    groups: tuple[GroupRows, ...]
    is_by_partition: bool = False
    row_bytes: float = 0.0
    marks: Marks | None = None

    @property
    def partition_paths(self) -> list[str]:
        """The partitions of its groups, each once."""
        return list(dict.fromkeys(group.partition_path for group in self.groups))


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """All of some rows that decides which file groups they are written to; it pickles.

    Attributes:
        rows: For each its record key, its partition, its mark if it has one, and the columns that
            were asked for.
        carried: The columns that the input had.
        data_bytes: Of the rows with all columns, in memory.
    """

    rows: pa.Table
    carried: frozenset[str]
    data_bytes: int


def prepare(
    data: pa.Table,
    config: table_config.TableConfig,
    schema: schemas.TableSchema,
    operation: commits.Operation,
    *,
    fills_columns: bool = False,
) -> Batch:
    """Check a batch against its table, compute keys and split it by partition and bucket.

    Args:
        data: Columns of the table in any order. An upsert or insert may lack some where the table
            has partial updates; a delete needs those of key, partition and, to be decided by event
            time, ordering. Of an upsert with `MARK` some rows delete, and may be null elsewhere.
        config: The table's configuration, which says how records are found.
        schema: The table's columns.
        operation: What will be done with it.
        fills_columns: Whether columns that may be null may be missing, too: those that other
            writers have added.

    Raises:
        InvalidInputError: A column is missing, unknown or of another type, a key or ordering value
            is null, or a key or partition value is one that readers would not understand.
        UnsupportedError: The table has no record key, and the rows are more than added.
    """
    data, marks = _unmarked(data)
    check_columns(data.schema, config, schema, operation, fills_columns=fills_columns)
    if marks is None:
        check_ordering(data, config)
    else:
        fixed = {each.name for each in schema.arrow if not each.nullable}
        checked = [each for each in data.column_names if each in fixed | {*config.ordering_fields}]
        rows = data.select(checked).filter(pa.array(marks & DELETES == 0))
        check_ordering(rows, config)
        schemas.check_nulls(rows, schema)
        schema = schemas.with_nulls(schema)
    conformed = schemas.conform(data, schema).combine_chunks()
    if config.record_key_fields:
        record_keys = keys.record_keys(conformed, config)
    else:
        _check_adds(config, operation)
        record_keys = pa.nulls(len(conformed), pa.string())  # Until the write has begun.
    partition_paths = keys.partition_paths(conformed, config)
    index = tables.index_of(config)
    return Batch(
        data=conformed,
        carried=frozenset(data.column_names),
        record_keys=record_keys,
        groups=_split(partition_paths, index.tag(record_keys), index.bucket_count),
        row_bytes=conformed.nbytes / max(1, len(conformed)),
        marks=marks,
    )


def check_columns(
    columns: pa.Schema,
    config: table_config.TableConfig,
    schema: schemas.TableSchema,
    operation: commits.Operation,
    *,
    fills_columns: bool = False,
) -> None:
    """Refuse columns with which an operation does not fit its table; arguments as of `prepare`.

    Raises:
        InvalidInputError: A column is missing, unknown or of another type.
    """
    may_miss, filled = _may_miss(config, schema, operation), _filled(config, schema)
    if fills_columns:
        may_miss |= filled
    schemas.check_fits(columns, schema, may_miss=may_miss, could_miss=filled)


def _unmarked(data: pa.Table) -> tuple[pa.Table, Marks | None]:
    """Return rows without their marks, and these."""
    if MARK not in data.column_names:
        return data, None
    return data.drop_columns([MARK]), np.asarray(data.column(MARK), np.uint8)


def unmarked_names(names: Iterable[str]) -> Sequence[str]:
    """Return the names of the columns of rows that may have marks, without that of these."""
    return [name for name in names if name != MARK]


def remarked(pieces: Iterable[pa.Table], marks: Marks | None) -> Iterator[pa.Table]:
    """Yield the pieces of rows with other marks, if there are any, in the order of the rows."""
    first = 0
    for piece in pieces:
        if marks is None:
            yield piece
            continue
        own = pa.array(marks[first : first + piece.num_rows])
        first += piece.num_rows
        yield piece.drop_columns([MARK]).append_column(MARK, own)


def outline(batch: Batch, columns: Sequence[str]) -> Outline:
    """Return what of a batch, in the order of its rows, decides where these are written.

    Args:
        batch: Split in any way by which each row is in one group.
        columns: Those of its columns that are needed for that.
    """
    paths = batch.partition_paths
    codes = np.empty(len(batch.record_keys), np.int32)
    for group in batch.groups:
        codes[group.rows] = paths.index(group.partition_path)
    names = pa.array(paths, pa.string())
    rows = batch.data.select(columns)
    if batch.marks is not None:
        rows = rows.append_column(MARK, pa.array(batch.marks))
    return Outline(
        rows=rows.append_column(schemas.RECORD_KEY, batch.record_keys).append_column(
            schemas.PARTITION_PATH, pa.DictionaryArray.from_arrays(codes, names)
        ),
        carried=batch.carried,
        data_bytes=batch.data.nbytes,
    )


def of_outlines(outlines: Sequence[Outline], config: table_config.TableConfig) -> Batch:
    """Return the batch of some outlines, one after the other, with their columns alone.

    Args:
        outlines: At least one, with the same columns.
        config: The table's configuration.
    """
    rows = pa.concat_tables([each.rows for each in outlines]).unify_dictionaries().combine_chunks()
    record_keys = rows.column(schemas.RECORD_KEY).combine_chunks()
    partition_paths = rows.column(schemas.PARTITION_PATH).combine_chunks()
    index = tables.index_of(config)
    data, marks = _unmarked(rows.drop_columns([schemas.RECORD_KEY, schemas.PARTITION_PATH]))
    return Batch(
        data=data,
        carried=outlines[0].carried,
        record_keys=record_keys,
        groups=_split(partition_paths, index.tag(record_keys), index.bucket_count),
        row_bytes=sum(each.data_bytes for each in outlines) / max(1, len(rows)),
        marks=marks,
    )


def of_stored(
    records: pa.Table, config: table_config.TableConfig, schema: schemas.TableSchema
) -> Batch:
    """Return a batch of records of a table that keep key and partition, whatever made these.

    Args:
        records: Their `_hoodie_record_key` and `_hoodie_partition_path`, and of an update all
            columns of the table.
        config: The table's configuration.
        schema: The table's columns.

    Raises:
        InvalidInputError: A value is null where the table has none, or an ordering value is.
    """
    check_ordering(records, config)
    record_keys = records.column(schemas.RECORD_KEY).combine_chunks().cast(pa.string())
    partition_paths = records.column(schemas.PARTITION_PATH).combine_chunks()
    index = tables.index_of(config)
    return Batch(
        data=schemas.conform(records, schema).combine_chunks(),
        carried=frozenset(records.column_names) & frozenset(schema.arrow.names),
        record_keys=record_keys,
        groups=_split(
            partition_paths.dictionary_encode(), index.tag(record_keys), index.bucket_count
        ),
    )


def by_indexes(batch: Batch, index_of: Callable[[str], protocol.Index]) -> Batch:
    """Return a batch of a table whose partitions have buckets of their own, split by these.

    Args:
        batch: Split in any way by which each row is in one group.
        index_of: Returns the index of a partition.
    """
    rows: dict[str, list[npt.NDArray[np.int64]]] = {}
    for group in batch.groups:
        rows.setdefault(group.partition_path, []).append(group.rows)
    found = []
    for path, parts in rows.items():
        of_partition = np.sort(np.concatenate(parts))
        buckets = index_of(path).tag(batch.record_keys.take(pa.array(of_partition)))
        found += [
            GroupRows(partition_path=path, bucket=bucket, rows=of_partition[places])
            for bucket, places in _places(buckets)
        ]
    return replace(batch, groups=tuple(found), is_by_partition=True)


def in_columns(batch: Batch, schema: schemas.TableSchema) -> Batch:
    """Return a batch in the columns that the table has by now: at least the batch's own.

    One that the batch lacks is null in it, one whose type was widened is cast.
    """
    return replace(batch, data=projecting.project(batch.data, schema.arrow).combine_chunks())


def with_generated_keys(batch: Batch, instant_time: instants.InstantTime, task: int) -> Batch:
    """Return the batch of a table without a record key, with a key of its own for each row.

    As Apache Hudi makes them: requested time, task and row. Source:
    `AutoRecordKeyGeneratorWrapper.java`.
    """
    rows = pa.array(np.arange(len(batch.record_keys))).cast(pa.string())
    return replace(
        batch, record_keys=pc.binary_join_element_wise(f"{instant_time}_{task}", rows, "_")
    )


def written_columns(
    data_columns: Sequence[str], config: table_config.TableConfig
) -> frozenset[str]:
    """Return the columns of its own that a write of these input columns claims."""
    fixed = {*config.record_key_fields, *config.partition_fields, *config.ordering_fields}
    return frozenset(data_columns) - fixed


def _check_adds(config: table_config.TableConfig, operation: commits.Operation) -> None:
    """Check that rows without keys are only added, and that no key decides where."""
    if not operation.adds_rows:
        raise errors.UnsupportedError(
            f"table {config.name!r} has no record key, so that no row says which one it replaces: "
            f"expected the operation insert, bulk_insert or an overwrite, not "
            f"{operation.value.lower()}; rows that are there are changed, or deleted, by a filter "
            "(hoodie update --where, hoodie delete --where, Table.update, Table.delete)"
        )
    if not config.looks_keys_up:
        raise errors.UnsupportedError(
            f"table {config.name!r} has no record key and a bucket index, which needs one: "
            "expected the index simple or bloom"
        )


def _may_miss(
    config: table_config.TableConfig, schema: schemas.TableSchema, operation: commits.Operation
) -> frozenset[str]:
    key_fields = {*config.record_key_fields, *config.partition_fields}
    if operation is commits.Operation.DELETE:
        return frozenset(schema.arrow.names) - key_fields
    if config.has_partial_updates:
        return frozenset(schema.arrow.names) - key_fields - set(config.ordering_fields)
    # A batch without the flag deletes nothing.
    return frozenset((block_decoding.IS_DELETED,)) & frozenset(schema.arrow.names)


def _filled(config: table_config.TableConfig, schema: schemas.TableSchema) -> frozenset[str]:
    needed = {*config.record_key_fields, *config.partition_fields, *config.ordering_fields}
    return frozenset(each.name for each in schema.arrow if each.nullable) - needed


def check_ordering(data: pa.Table, config: table_config.TableConfig) -> None:
    """Refuse null ordering values: Apache Hudi's readers fail on a file group that holds one.

    Raises:
        InvalidInputError: There are some.
    """
    for name in config.ordering_fields:
        if name in data.column_names and data.column(name).null_count:
            raise errors.InvalidInputError(
                f"ordering field {name!r} is null in {data.column(name).null_count} of "
                f"{data.num_rows} rows, expected a value in each"
            )


def _split(
    partition_paths: pa.DictionaryArray, buckets: npt.NDArray[np.int32], bucket_count: int
) -> tuple[GroupRows, ...]:
    """Return the rows of each (partition, bucket), in the order of partitions and buckets."""
    if not len(buckets):
        return ()
    names = partition_paths.dictionary.to_pylist()
    codes = pc.fill_null(partition_paths.indices, 0).to_numpy(zero_copy_only=False)
    group = codes.astype(np.int64) * bucket_count + buckets
    if len(names) * bucket_count <= np.iinfo(np.uint16).max:
        group = group.astype(np.uint16)  # numpy sorts two bytes by radix
    return tuple(
        GroupRows(
            partition_path=names[number // bucket_count], bucket=number % bucket_count, rows=places
        )
        for number, places in _places(group)
    )


def _places(numbers: npt.NDArray[np.integer]) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
    """Yield each number, ascending, and where it is."""
    order = np.argsort(numbers, kind="stable")
    present, starts = np.unique(numbers[order], return_index=True)
    ends = np.append(starts[1:], len(order))
    for number, start, end in zip(present.tolist(), starts, ends, strict=True):
        yield number, order[start:end]
