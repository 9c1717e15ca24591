"""A slice merged in bounded memory is what it is when merged at once: rows, order, counts, deletes.

With so little memory that a piece of the base file is a row or some, that a part has the changes of
a key or of all, and that places are cut wherever they can be.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hoodie.filegroup import kept_deletes, merging, placing, writing
from hoodie.format import avro_records, delete_records, file_names
from hoodie.format.log_blocks import BlockType, HeaderKey
from hoodie.model import files, schemas, table_config
from support.tables.file_groups import Group, at

KEYS = tuple(f"k{number}" for number in range(8))
COLUMNS = ("price", "name", "_hoodie_is_deleted")
COMPACTION = at(900)


@dataclass(frozen=True)
class Rows:
    """A data block."""

    values: tuple[Mapping[str, object], ...]
    columns: tuple[str, ...]
    is_avro: bool
    is_partial: bool


@dataclass(frozen=True)
class Deletes:
    """A delete block; `ordering` is a value of the column, a text of another class, or none."""

    keys: tuple[str, ...]
    ordering: tuple[int, ...] | tuple[str, ...] | None


@dataclass(frozen=True)
class Table:
    """A slice, and how it is merged."""

    mode: table_config.MergeMode
    fills_nulls: bool
    base: tuple[Mapping[str, object], ...] | None
    names_positions: bool
    blocks: tuple[Rows | Deletes, ...]
    begins_with_kept: bool
    memory_bytes: int
    parts_max: int


def rows(nulls: bool) -> st.SearchStrategy[Mapping[str, object]]:
    maybe = st.none() if nulls else st.nothing()
    return st.fixed_dictionaries(
        {
            "id": st.sampled_from(KEYS),
            "ts": st.one_of(st.integers(0, 3), maybe),
            "price": st.one_of(st.sampled_from([0.5, 1.5, -0.0]), maybe),
            "name": st.one_of(st.sampled_from(["", "a", "é"]), maybe),
            "_hoodie_is_deleted": st.sampled_from([None, False, False, True]),
        }
    )


@st.composite
def tables(draw: st.DrawFn) -> Table:
    nulls = draw(st.booleans())
    fills_nulls = draw(st.booleans())
    has_partial_blocks = draw(st.booleans())
    blocks: list[Rows | Deletes] = []
    for _ in range(draw(st.integers(1, 6))):
        if draw(st.integers(0, 3)) == 0:
            keys = tuple(draw(st.lists(st.sampled_from(KEYS), max_size=5)))
            kind = draw(st.sampled_from([st.integers(0, 3), st.sampled_from(["x"]), None]))
            size = len(keys)
            ordering = None
            if kind is not None:
                ordering = tuple(draw(st.lists(kind, min_size=size, max_size=size)))
            blocks.append(Deletes(keys, ordering))
            continue
        is_partial = has_partial_blocks and draw(st.booleans())
        is_whole = not is_partial and draw(st.integers(0, 3)) > 0
        columns = COLUMNS if is_whole else tuple(name for name in COLUMNS if draw(st.booleans()))
        blocks.append(
            Rows(
                tuple(draw(st.lists(rows(nulls), max_size=6))),
                columns,
                is_avro=draw(st.booleans()),
                is_partial=is_partial,
            )
        )
    some = st.lists(rows(nulls), max_size=12).map(tuple)
    return Table(
        mode=draw(st.sampled_from(list(table_config.MergeMode)[:2])),
        fills_nulls=fills_nulls,
        base=draw(st.one_of([some, some, some, st.none()])),
        names_positions=draw(st.integers(0, 3)) == 0,
        blocks=tuple(blocks),
        begins_with_kept=draw(st.booleans()),
        memory_bytes=16 * draw(st.sampled_from([1, 100, 300, 500, 1000, 2000, 1 << 20])),
        parts_max=draw(st.sampled_from([1, 2, 1024])),
    )


def group_of(table: Table) -> Group:
    group = Group()
    by_time = table.mode is table_config.MergeMode.EVENT_TIME
    group.config = replace(
        group.config,
        merge_mode=table.mode,
        ordering_fields=("ts",) if by_time else (),
        has_partial_updates=table.fills_nulls,
    )
    if table.base is not None:
        put_base(group, table.base)
    for number, block in enumerate(table.blocks):
        # The first may be deletes that the compaction before has kept.
        is_kept = table.begins_with_kept and number == 0 and isinstance(block, Deletes)
        tick = 1 if is_kept else 10 + number
        header = {HeaderKey.SCHEMA: schemas.with_meta(group.schema.avro)}
        if table.names_positions:
            header[HeaderKey.RECORD_POSITIONS] = "any"
            header[HeaderKey.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS] = at(1)
        put_block(group, tick, block, header)
    return group


def put_base(group: Group, values: Sequence[Mapping[str, object]]) -> None:
    data = whole(group, 1, values)
    name = file_names.base_file_name(group.id.file_id, "7-0-1", at(1))
    sink = pa.BufferOutputStream()
    pq.write_table(data, sink, row_group_size=5)
    content = sink.getvalue().to_pybytes()
    group.storage.create(f"p/{name}", content)
    parsed = file_names.parse(f"p/{name}", len(content))
    assert isinstance(parsed, files.BaseFile)
    group.base_file = parsed


def put_block(
    group: Group, tick: int, block: Rows | Deletes, header: Mapping[HeaderKey, str]
) -> None:
    if isinstance(block, Deletes):
        ordering = None
        if block.ordering is not None:
            kind = pa.string() if "x" in block.ordering else pa.int64()
            ordering = pa.array(block.ordering, kind)
        content = delete_records.encode(pa.array(block.keys, pa.string()), "p", ordering)
        group.block(tick, BlockType.DELETE, header, content)
        return
    data = whole(group, tick, block.values)
    missing = [name for name in COLUMNS if name not in block.columns]
    schema = schemas.from_arrow(
        pa.schema([field for field in group.schema.arrow if field.name not in missing]), "t"
    )
    own = {**header, HeaderKey.SCHEMA: schemas.with_meta(schema.avro)}
    if block.is_partial:
        own[HeaderKey.IS_PARTIAL] = "true"
    data = data.drop_columns(missing)
    if block.is_avro:
        content = avro_records.encode(data, own[HeaderKey.SCHEMA])
        group.block(tick, BlockType.AVRO_DATA, own, content)
        return
    sink = pa.BufferOutputStream()
    pq.write_table(data, sink, row_group_size=2)
    group.block(tick, BlockType.PARQUET_DATA, own, sink.getvalue())


def whole(group: Group, tick: int, values: Sequence[Mapping[str, object]]) -> pa.Table:
    data = group.data(values)
    keys = pa.array([str(each["id"]) for each in values], pa.string())
    return writing.with_meta_columns(data, keys, group.target(tick), 0, group.id.file_id)


Result = tuple[str, merging.MergeCounts, set[tuple[object, ...]]]


def result(
    found: pa.Table,
    counts: merging.MergeCounts,
    kept: Sequence[kept_deletes.KeptDeletes],
) -> Result:
    found.validate(full=True)
    listed = [
        (each.instant_time, *delete)
        for each in kept
        for delete in zip(
            each.keys.to_pylist(), *(o.to_pylist() for o in each.ordering), strict=True
        )
    ]
    assert len(set(listed)) == len(listed)
    return repr(found.to_pylist()), counts, set(listed)


@settings(max_examples=200, deadline=None)
@given(tables())
def test_bounded_merge_is_the_merge_of_all_at_once(table: Table) -> None:
    check(table)


def check(table: Table) -> set[tuple[object, ...]]:
    """Compare the two merges; return the deletes that outlive the compaction."""
    group = group_of(table)
    file_slice = replace(
        group.slice,
        base_instant_time=at(1),
        log_files=files.in_merge_order(group.log_files, at(1)),
    )
    keeping = kept_deletes.Keeping(instant_time=COMPACTION, file_slice=file_slice, hours=1)
    columns = [*writing.BASE_FILE_META_COLUMNS, *group.schema.arrow.names]
    whole_rows = group.reader().stream(file_slice, columns)
    expected_rows = pa.concat_tables([whole_rows.schema.empty_table(), *whole_rows])
    expected = result(expected_rows, whole_rows.counts, whole_rows.kept_deletes(keeping))
    memory = placing.Memory(bytes_max=table.memory_bytes, scratch_folder="/tmp")
    with (
        mock.patch.object(placing, "PARTS_MAX", table.parts_max),
        group.reader().stream_bounded(file_slice, columns, memory) as bounded,
    ):
        found_rows = pa.concat_tables([whole_rows.schema.empty_table(), *bounded])
        found = result(found_rows, bounded.counts, list(bounded.kept_deletes(keeping)))
    assert found == expected
    return found[2]


def test_delete_of_a_key_with_several_base_rows_does_not_outlive_the_compaction() -> None:
    """Their rows are in different pieces of the base file."""
    row = {"price": 0.5, "name": "a", "_hoodie_is_deleted": None, "ts": 1}
    base = [{"id": key, **row} for key in ("k0", "k1", "k2", "k0")]
    kept = check(
        Table(
            mode=table_config.MergeMode.EVENT_TIME,
            fills_nulls=False,
            base=tuple(base),
            names_positions=False,
            blocks=(Deletes(("k0", "k1", "k7"), (3, 3, 3)),),
            begins_with_kept=False,
            memory_bytes=16,
            parts_max=1024,
        )
    )
    assert kept == {(COMPACTION, "k1", 3), (COMPACTION, "k7", 3)}


@pytest.mark.parametrize("memory_bytes", [16, 16 * 100, 16 * 500, 16 * 2000])
@pytest.mark.parametrize("parts_max", [1, 1024])
@pytest.mark.parametrize("base_keys", [(), KEYS])
def test_part_beyond_its_memory_is_cut_by_places(
    memory_bytes: int, base_keys: tuple[str, ...], parts_max: int
) -> None:
    row = {"price": 0.5, "name": "a", "_hoodie_is_deleted": None}
    check(
        Table(
            mode=table_config.MergeMode.EVENT_TIME,
            fills_nulls=True,
            base=tuple({"id": key, "ts": 1, **row} for key in base_keys) or None,
            names_positions=False,
            blocks=tuple(
                Rows(
                    tuple({"id": key, "ts": number, **row} for key in KEYS[number:]),
                    COLUMNS,
                    is_avro=False,
                    is_partial=False,
                )
                for number in (3, 0, 1, 2)
            ),
            begins_with_kept=False,
            memory_bytes=memory_bytes,
            parts_max=parts_max,
        )
    )
