"""Which rows of a unit changed, in slices that this project's writers would not write."""

import pyarrow as pa
import pytest

from hoodie.filegroup import snapshots
from hoodie.format import avro_records
from hoodie.format.log_blocks import BlockType, HeaderKey
from hoodie.model import files, predicates, schemas
from hoodie.read import changed_rows, where
from hoodie.timeline import active
from support.tables.file_groups import Group, at


def partial_block(group: Group, tick: int, columns: dict[str, object]) -> None:
    """Write a block with some columns alone, as `MERGE INTO` of Apache Hudi does."""
    rows = pa.table({name: [value] for name, value in columns.items()})
    avro_json = schemas.with_meta(schemas.from_arrow(rows.schema, "t").avro)
    meta = dict.fromkeys(schemas.META_COLUMNS, pa.nulls(1, pa.string()))
    meta |= {schemas.COMMIT_TIME: pa.array([at(tick)]), schemas.RECORD_KEY: pa.array(["a"])}
    content = avro_records.encode(
        pa.table({**meta, **dict(zip(rows.column_names, rows.columns, strict=True))}), avro_json
    )
    header = {HeaderKey.SCHEMA: avro_json, HeaderKey.IS_PARTIAL: "true"}
    group.block(tick, BlockType.AVRO_DATA, header, content)


def task_of(
    group: Group, before: files.FileSlice, filter_: predicates.Predicate | None
) -> changed_rows.UnitTask:
    known = snapshots.CommittedInstants(
        completed={at(tick): at(tick) for tick in (1, 2, 3)},
        gap=active.Gap(first=None, start=None),
        late=frozenset(),
        rollbacks=(),
    )
    return changed_rows.UnitTask(
        config=group.config,
        schema=group.schema,
        before=(before,),
        after=(group.slice,),
        known_before=known,
        known_after=known,
        writes=(at(3),),
        columns=("id", "price", "name"),
        is_compared=False,
        where=filter_,
    )


@pytest.mark.parametrize("text", [None, "name = 'late'", "name = 'other'"])
def test_older_partial_update_that_fills_a_column_is_a_change(text: str | None) -> None:
    """The row keeps the version of the newer one; the table says nothing of partial updates."""
    group = Group()
    partial_block(group, 2, {"id": "a", "ts": 12, "price": 7.0})
    before = group.slice
    partial_block(group, 3, {"id": "a", "ts": 11, "name": "late"})
    task = task_of(group, before, None if text is None else where.parse(text))
    found = [
        (row["id"], row["price"], row["name"])
        for batch in changed_rows.upserts(task, group.storage)
        for row in batch.to_pylist()
    ]
    assert found == ([] if text == "name = 'other'" else [("a", 7.0, "late")])
