"""Changes of a table as the data source gives them: planned in one process, read in many.

    latest_state  each changed row as it is at the end of the range; with deletes a column _change
                  before the others, which is `upsert`, or `delete` with key and partition alone
    cdc           each change of each write: op (i, u, d), ts_ms (the requested time of the write),
                  and the rows before and after as texts of JSON, as Apache Hudi's data source; or,
                  as structs, with record_key and partition_path beside them

A partition of a scan is a part of the changes, or some small ones; see `hoodie.read.changes` and
`change_data`. The texts of JSON lack columns that are null; days are days since the epoch and times
microseconds, as Spark's rows hold them, and bytes are base64.

Source: `CDCRelation.scala`, `InternalRowToJsonStringConverter.scala` (1.2.0).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import datasource

from hoodie import errors, table
from hoodie.format import json_lines
from hoodie.model import change_data as values
from hoodie.model import column_names, moments, predicates
from hoodie.read import change_data, changed_rows, changes, positions, row_versions, tasks, travel
from hoodie_jobs.spark import packing, read_options

Planned: TypeAlias = changes.Changes | change_data.ChangeData
Retype: TypeAlias = Callable[[pa.DataType], pa.DataType]
Part: TypeAlias = changes.Part | Sequence[row_versions.VersionTask]

_IMAGES = (values.BEFORE, values.AFTER)
_PARTITION_PATH = row_versions.PARTITION_PATH
_SHOWN_AS_JSON = (values.OP, values.TIME, *_IMAGES)


@dataclass(frozen=True)
class ChangesPartition(datasource.InputPartition):
    """Some parts of changes."""

    parts: tuple[Part, ...]


NOTHING = ChangesPartition(())


def schema_of(opened: table.Table, options: read_options.Options) -> pa.Schema:
    """Return the columns of changes.

    Raises:
        NotFoundError: A column is named that the table has not.
    """
    names = columns_of(opened, options)
    if options.format is read_options.Format.CDC:
        full = row_versions.schema_of(opened.schema, names)
        if options.images is read_options.Images.STRUCT:
            return full
        return pa.schema([pa.field(name, pa.string()) for name in _SHOWN_AS_JSON])
    full = changed_rows.schema_of(opened.schema, names)
    return full if options.has_deletes else full.remove(0)


def columns_of(opened: table.Table, options: read_options.Options) -> tuple[str, ...]:
    """Return the columns of rows that are asked for.

    Raises:
        NotFoundError: The table has not one of them.
    """
    known = tasks.full_schema(opened.schema.arrow).names
    for name in options.columns:
        if name not in known:
            raise errors.NotFoundError(column_names.absence(name, known))
    has_deletes = options.has_deletes and options.format is read_options.Format.LATEST_STATE
    return options.columns or changed_rows.default_columns(
        opened.config, opened.schema, has_deletes=has_deletes
    )


def plan(
    opened: table.Table,
    options: read_options.Options,
    begin: positions.Position | str | None,
    end: positions.Position | str | None,
    wanted: Sequence[str] | None = None,
    pushed: predicates.Predicate | None = None,
) -> Planned:
    """Return changes, planned.

    Args:
        opened: The table.
        options: How they are read.
        begin: As of `Table.changes`.
        end: Likewise, its `until`.
        wanted: Columns of the result that are read; None for all.
        pushed: A condition on changed rows, besides that of the options; None for none.

    Raises:
        HoodieError: As `Table.changes`.
    """
    names = columns_of(opened, options)
    if options.format is read_options.Format.CDC:
        return opened.change_data(begin, columns=names, until=end, is_ordered=options.is_ordered)
    if wanted is not None:
        names = tuple(name for name in wanted if name != changed_rows.CHANGE)
    since: positions.Position | travel.Given | None = begin
    if options.rule is moments.Rule.REQUESTED:
        since = travel.requested_since(None if begin is None else str(begin))
    return opened.changes(
        since,
        columns=names,
        where=predicates.all_of(each for each in (options.where, pushed) if each is not None),
        until=end,
        has_deletes=options.has_deletes,
        is_ordered=options.is_ordered,
        falls_back=options.falls_back,
    )


def parts_of(planned: Planned, pushed: predicates.Predicate | None = None) -> Sequence[Part]:
    """Return what processes read alone.

    Args:
        planned: The changes.
        pushed: Of change data, a condition on its columns: what it excludes is left out as far as
            that is known without reading. None for none.
    """
    if isinstance(planned, changes.Changes):
        return planned.parts()
    conditions = () if pushed is None else predicates.conjuncts(pushed)
    narrowed = (_narrowed(task, conditions) for task in planned.tasks())
    return list(row_versions.together(each for each in narrowed if each is not None))


def _narrowed(
    task: row_versions.VersionTask, conditions: Sequence[predicates.Predicate]
) -> row_versions.VersionTask | None:
    """Return a task with what conditions leave of it; None if that is nothing."""
    known = {_PARTITION_PATH: (*task.before, *task.after)[0].group.partition_path}
    if task.time is not None:
        known[values.TIME] = task.time
    one = pa.table({name: [value] for name, value in known.items()})
    for each in conditions:
        if predicates.columns(each) <= known.keys() and not predicates.kept(each, one, []).num_rows:
            return None
        keys = predicates.literals_equal_to(each, values.RECORD_KEY)
        if keys is not None:
            asked = set(map(str, keys))
            task = replace(task, keys=tuple(sorted(asked & set(task.keys or asked))))
            if not task.keys:
                return None
    return task


def packed(parts: Sequence[Part], cores: int | None) -> list[list[Part]]:
    """Return what each task of a scan reads; see `packing`."""
    sizes_bytes = [max(_size_bytes(each), packing.ITEM_BYTES_MIN) for each in parts]
    return [[parts[place] for place in group] for group in packing.groups(sizes_bytes, cores)]


def partitions(parts: Sequence[Part]) -> list[ChangesPartition]:
    """Return the partitions of a scan."""
    # Spark plans in a worker, where the number of cores is not known.
    return [ChangesPartition(tuple(group)) for group in packed(parts, None)]


def read(
    partition: datasource.InputPartition, schema: pa.Schema, images: read_options.Images
) -> Iterator[pa.RecordBatch]:
    """Yield the changes of a partition in exactly these types: Spark compares them."""
    assert isinstance(partition, ChangesPartition), partition
    for part in partition.parts:
        yield from read_part(part, schema, images)


def read_part(
    part: Part, schema: pa.Schema, images: read_options.Images = read_options.Images.STRUCT
) -> Iterator[pa.RecordBatch]:
    """Yield the changes of a part, as `read` does."""
    if isinstance(part, changes.Part):
        batches = part.read()
    else:
        batches = row_versions.changes_of(part)
        if images is read_options.Images.JSON:
            batches = map(_with_json, batches)
    for batch in batches:
        yield pa.RecordBatch.from_arrays(
            [batch.column(field.name).cast(field.type) for field in schema], schema=schema
        )


def _with_json(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return change data with images as texts."""
    for name in _IMAGES:
        place = batch.schema.get_field_index(name)
        batch = batch.set_column(place, name, _texts(batch.column(place)))
    return batch


def _texts(images: pa.StructArray) -> pa.Array:
    columns = [_as_numbers(column) for column in images.flatten()]
    rows = pa.RecordBatch.from_arrays(columns, names=[each.name for each in images.type])
    return pc.if_else(images.is_valid(), json_lines.objects(rows), pa.scalar(None, pa.string()))


def _as_numbers(column: pa.Array) -> pa.Array:
    """Return days and times as the numbers that Spark's rows have, nested ones too."""
    in_us = _with_times(column.type, lambda kind: pa.timestamp("us", kind.tz), lambda kind: kind)
    in_numbers = _with_times(in_us, lambda _: pa.int64(), lambda _: pa.int32())
    return column if in_numbers == column.type else column.cast(in_us).cast(in_numbers)


def _with_times(kind: pa.DataType, of_time: Retype, of_day: Retype) -> pa.DataType:
    """Return a type with other ones for its days and times."""
    if pa.types.is_timestamp(kind):
        return of_time(kind)
    if pa.types.is_date32(kind):
        return of_day(kind)
    if pa.types.is_struct(kind):
        return pa.struct([each.with_type(_with_times(each.type, of_time, of_day)) for each in kind])
    if pa.types.is_map(kind):
        key = kind.key_field.with_type(_with_times(kind.key_type, of_time, of_day))
        return pa.map_(key, kind.item_field.with_type(_with_times(kind.item_type, of_time, of_day)))
    if pa.types.is_list(kind):
        item = kind.value_field
        return pa.list_(item.with_type(_with_times(item.type, of_time, of_day)))
    return kind


def _size_bytes(part: Part) -> int:
    if isinstance(part, changes.Part):
        return part.size_bytes
    return sum(task.size_bytes for task in part)
