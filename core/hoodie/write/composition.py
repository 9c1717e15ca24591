"""Several operations in one write, as if they were done one after the other.

The rows of all operations, in the order of these, are one batch. A mark says which of them delete
(`batches.Batch.marks`). Inserts are upserts here: of several rows of one key the later one counts.

    composed   the rows of operations, marked
    joined     the same, of batches that were made of records of the table
    in_turn    once a write, before keys are looked up: what a later delete takes away is left out,
               and a row that comes after a delete of its key is marked to clear what came before
    turns      what a file group takes: first the keys that are cleared or deleted, then the rest

A delete in commit order takes away all that came before it, whatever that was. So of each key only
the last such delete counts, and it can come first of all. What is left of the key are rows, and
deletes that have a place in event time: these are merged in their order, with the base rows in a
rewrite, and by readers of log files, whose blocks are in this order. If whole rows are merged by
commit time the last change of a key is all that is left.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie import errors
from hoodie.filegroup import folding, ordering
from hoodie.model import commits, schemas, settings, table_config
from hoodie.write import batches

Data: TypeAlias = pa.Table | pa.RecordBatchReader

_Flags = npt.NDArray[np.bool_]

_NEVER = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Rows of one of several operations.

    Attributes:
        operation: An upsert, an insert, or a delete, whose rows have key and partition.
        rows: A reader is read once.
    """

    operation: commits.Operation
    rows: Data

    @property
    def deletes(self) -> bool:
        """Whether it deletes."""
        return self.operation is commits.Operation.DELETE

    @property
    def prepared_as(self) -> commits.Operation:
        """The operation as which its rows are checked beside others."""
        return commits.Operation.DELETE if self.deletes else commits.Operation.UPSERT


def check(
    steps: Sequence[object],
    config: table_config.TableConfig,
    write_settings: settings.WriteSettings,
) -> None:
    """Refuse operations that one write cannot do together.

    Args:
        steps: Parts, and others.
        config: The table's configuration.
        write_settings: The writer's.

    Raises:
        ConfigurationError: An insert that leaves out known keys is beside other operations.
        UnsupportedError: The table has no record key, and rows are beside other operations.
    """
    operations = {each.operation if isinstance(each, Part) else None for each in steps}
    if len(operations) == 1:
        return
    if commits.Operation.INSERT in operations and write_settings.drops_duplicates:
        raise errors.ConfigurationError(
            "beside other operations an insert replaces rows whose keys are there, and "
            "hoodie.datasource.write.insert.drop.duplicates=true leaves such rows out: use a "
            "transaction for the insert alone, with a batch id of its own"
        )
    if not config.record_key_fields:
        raise errors.UnsupportedError(
            f"table {config.name!r} has no record key, so that one commit either inserts rows or "
            "changes and deletes those that filters find: use a transaction for each, with a "
            "batch id of its own"
        )


def composed(
    parts: Sequence[Part],
    config: table_config.TableConfig,
    schema: schemas.TableSchema,
    *,
    fills_columns: bool = False,
) -> tuple[Data, commits.Operation]:
    """Return the rows of all parts, one after the other, and the operation that writes them.

    They are marked if their operations differ, or the columns of deletes do.

    Args:
        parts: At least one.
        config: The table's configuration.
        schema: The table's columns, with those that the write adds.
        fills_columns: As of `batches.prepare`.

    Raises:
        InvalidInputError: The columns of a part do not fit.
    """
    operation = parts[0].operation
    if len(parts) == 1:
        return parts[0].rows, operation
    for part in parts:
        batches.check_columns(
            part.rows.schema, config, schema, part.operation, fills_columns=fills_columns
        )
    names = [_names(part, config) for part in parts]
    given = {name for each in names for name in each}
    fields = [each.with_nullable(True) for each in schema.arrow if each.name in given]
    is_alike = all(part.operation is operation for part in parts)
    is_marked = not is_alike or (
        operation is commits.Operation.DELETE and any(set(each) != given for each in names)
    )
    if is_marked:
        fields.append(pa.field(batches.MARK, pa.uint8()))

    def rows() -> Iterator[pa.RecordBatch]:
        for part, present in zip(parts, names, strict=True):
            reader = part.rows.to_reader() if isinstance(part.rows, pa.Table) else part.rows
            for batch in reader:
                own = batch.select(present)
                if part.deletes:
                    batches.check_ordering(pa.table(own), config)
                yield _widened(own, fields, batches.DELETES if part.deletes else 0)

    reader = pa.RecordBatchReader.from_batches(pa.schema(fields), rows())
    return reader, commits.Operation.UPSERT if is_marked else operation


def _names(part: Part, config: table_config.TableConfig) -> list[str]:
    """Return the columns of a part that count: of a delete those that say what is deleted."""
    names: list[str] = part.rows.schema.names
    if not part.deletes:
        return names
    ordered = set(config.ordering_fields)
    wanted = {*config.record_key_fields, *config.partition_fields}
    if ordered <= set(names):
        wanted |= ordered
    return [name for name in names if name in wanted]


def _widened(batch: pa.RecordBatch, fields: Sequence[pa.Field], mark: int) -> pa.RecordBatch:
    arrays = []
    for field in fields:
        if field.name == batches.MARK:
            arrays.append(pa.array(np.full(batch.num_rows, mark, np.uint8)))
        elif field.name in batch.schema.names:
            arrays.append(batch.column(field.name).cast(field.type))
        else:
            arrays.append(pa.nulls(batch.num_rows, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def joined(before: batches.Batch | None, after: batches.Batch, *, deletes: bool) -> batches.Batch:
    """Return the batch of some operations, followed by the rows of another.

    Args:
        before: With marks; None for nothing.
        after: Without.
        deletes: Whether its rows are deleted.
    """
    marks = np.full(len(after.record_keys), batches.DELETES if deletes else 0, np.uint8)
    after = replace(after, data=_nullable(after.data), marks=marks)
    if before is None:
        return after
    assert before.marks is not None, "a batch of operations has marks"
    first = len(before.record_keys)
    groups = {(each.partition_path, each.bucket): each for each in before.groups}
    for each in after.groups:
        place = each.partition_path, each.bucket
        rows = each.rows + first
        if place in groups:
            rows = np.concatenate([groups[place].rows, rows])
        groups[place] = replace(each, rows=rows)
    return replace(
        before,
        data=pa.concat_tables([before.data, after.data]).combine_chunks(),
        carried=before.carried | after.carried,
        record_keys=pa.concat_arrays([before.record_keys, after.record_keys]),
        groups=tuple(groups.values()),
        row_bytes=max(before.row_bytes, after.row_bytes),
        marks=np.concatenate([before.marks, marks]),
    )


def _nullable(data: pa.Table) -> pa.Table:
    fields = [each.with_nullable(True) for each in data.schema]
    return pa.Table.from_arrays(data.columns, schema=pa.schema(fields))


def in_turn(batch: batches.Batch, config: table_config.TableConfig) -> batches.Batch:
    """Return a batch without what later changes of a key take away, whatever is stored.

    Args:
        batch: Split in any way by which each row is in one group.
        config: The table's configuration.

    Returns:
        With at most one delete in commit order of each key, and then nothing else of it; where that
        is the last change of the key. If whole rows are merged by commit time there is but one
        change of each key.
    """
    assert batch.marks is not None, "a batch of operations has marks"
    rules = folding.rules_of(config)
    is_whole = not rules.ordering_fields and not rules.fills_nulls
    marks = batch.marks.copy()
    is_kept = np.ones(len(marks), np.bool_)
    for rows in _key_spaces(batch, config):
        encoded = batch.record_keys.take(pa.array(rows)).dictionary_encode()
        keys = encoded.indices.to_numpy()
        ends = np.ones(len(rows), np.bool_) if is_whole else natural(batch, rows, config)
        last_of = np.full(len(encoded.dictionary), _NEVER, np.int64)
        # Of several assignments to one place the last one counts.
        last_of[keys[ends]] = rows[ends]
        last = last_of[keys]
        follows = (last != _NEVER) & (rows > last)
        marks[rows[follows]] |= batches.CLEARS
        is_followed = np.zeros(len(encoded.dictionary), np.bool_)
        is_followed[keys[follows]] = True
        is_kept[rows] = (rows > last) | ((rows == last) & ~is_followed[keys])
    groups = [replace(each, rows=each.rows[is_kept[each.rows]]) for each in batch.groups]
    return replace(batch, groups=tuple(each for each in groups if not each.is_empty), marks=marks)


def _key_spaces(batch: batches.Batch, config: table_config.TableConfig) -> Iterator[batches.Rows]:
    """Yield the rows, ascending, among which a key is one record: of a partition, or all."""
    parts: dict[str, list[batches.Rows]] = {}
    for group in batch.groups:
        path = "" if config.has_global_index else group.partition_path
        parts.setdefault(path, []).append(group.rows)
    for rows in parts.values():
        yield np.sort(np.concatenate(rows))


def natural(batch: batches.Batch, rows: batches.Rows, config: table_config.TableConfig) -> _Flags:
    """Return which of some rows delete in commit order, and not by a place in event time."""
    assert batch.marks is not None, "a batch of operations has marks"
    is_delete = (batch.marks[rows] & batches.DELETES).astype(np.bool_)
    rules = folding.rules_of(config)
    if not rules.ordering_fields or not rules.orders_deletes or not is_delete.any():
        return is_delete
    first, *others = rules.ordering_fields
    values = batch.data.column(first).take(pa.array(rows))
    if not others:
        return is_delete & ordering.is_default(values)
    # Several values together are never a default, and there are all of them or none.
    return is_delete & ordering.flags(values.is_null())


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """What the rows of a file group do, in this order.

    Attributes:
        cleared: Rows whose keys are deleted first, whatever is there.
        rest: Then these; as of `runs`.
    """

    cleared: batches.Rows
    rest: Sequence[tuple[batches.Rows, bool]]


def turns(batch: batches.Batch, rows: batches.Rows, config: table_config.TableConfig) -> Turns:
    """Return what rows of a batch do.

    Args:
        batch: Of `in_turn`.
        rows: Of one file group, ascending.
        config: The table's configuration.
    """
    assert batch.marks is not None, "a batch of operations has marks"
    is_natural = natural(batch, rows, config)
    is_cleared = is_natural | (batch.marks[rows] & batches.CLEARS).astype(np.bool_)
    return Turns(cleared=rows[is_cleared], rest=list(runs(batch.marks, rows[~is_natural])))


def runs(marks: batches.Marks, rows: batches.Rows) -> Iterator[tuple[batches.Rows, bool]]:
    """Yield rows as long as they do the same, and whether they delete.

    Args:
        marks: Of a batch.
        rows: Some of its rows, ascending.
    """
    if not len(rows):
        return
    deletes = marks[rows] & batches.DELETES
    for piece in np.split(rows, np.flatnonzero(np.diff(deletes)) + 1):
        yield piece, bool(marks[piece[0]] & batches.DELETES)
