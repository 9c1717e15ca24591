"""Reading slices: what counts, what wins, and what a filter may not hide."""

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa
import pytest

from hoodie import errors
from hoodie.filegroup import parquet_reading, parquet_writing
from hoodie.format import avro_records, delete_records
from hoodie.format.log_blocks import BlockType, HeaderKey
from hoodie.model import predicates, schemas
from hoodie.model.predicates import Comparator, Compare, In, IsNull, Not
from hoodie.model.settings import LogBlockFormat
from support.tables.file_groups import Group, at


def row(key: str, ts: int, **values: object) -> dict[str, object]:
    return {"id": key, "ts": ts, **values}


def group_of(*, ordering: bool = True) -> Group:
    """Return a group with the rows a, b and c in a base file of t1, ordered 10."""
    group = Group()
    if not ordering:
        group.by_commit_time()
    group.base(1, [row("a", 10, price=1.0), row("b", 10, price=2.0), row("c", 10, price=3.0)])
    return group


@pytest.mark.parametrize("block_format", list(LogBlockFormat))
def test_log_rows_replace_and_join_base_rows(block_format: LogBlockFormat) -> None:
    group = group_of()
    group.settings = replace(group.settings, log_block_format=block_format)
    group.log(2, [row("b", 11, price=20.0), row("d", 1, price=4.0)])
    assert group.read("id", "price") == [("a", 1.0), ("b", 20.0), ("c", 3.0), ("d", 4.0)]


def test_rows_stand_where_the_base_file_has_them_and_new_ones_last() -> None:
    group = group_of()
    group.log(2, [row("e", 1), row("b", 11), row("d", 1)], deleted=["a"])
    table = group.reader().read(group.slice, ["id"])
    assert table.column("id").to_pylist() == ["b", "c", "e", "d"]


def test_meta_columns_are_the_winners() -> None:
    group = group_of()
    group.log(2, [row("b", 11), row("c", 9)])
    assert group.read("id", "_hoodie_commit_time", "_hoodie_file_name") == [
        ("a", at(1), f"{group.id.file_id}_7-0-1_{at(1)}.parquet"),
        ("b", at(2), group.id.file_id),
        ("c", at(1), f"{group.id.file_id}_7-0-1_{at(1)}.parquet"),
    ]


def test_commit_time_takes_the_later_request_whatever_the_ordering_column_says() -> None:
    group = group_of(ordering=False)
    group.log(3, [row("a", 1, price=30.0)])
    group.log(2, [row("a", 99, price=20.0)])
    assert group.read("id", "price")[0] == ("a", 30.0)


def test_event_time_ties_go_to_the_later() -> None:
    group = group_of()
    group.log(2, [row("a", 10, price=20.0)])
    group.log(3, [row("a", 10, price=30.0)])
    assert group.read("id", "price")[0] == ("a", 30.0)


def test_delete_without_ordering_value_wins_over_any() -> None:
    group = group_of()
    group.log(2, deleted=["a", "unknown"])
    assert [key for (key,) in group.read("id")] == ["b", "c"]


@pytest.mark.parametrize("ts", [4, 10, 11])
def test_row_after_a_delete_without_ordering_value_lives(ts: int) -> None:
    # format.md: Merging: the default delete has no place in event time.
    group = group_of()
    group.log(2, deleted=["a"])
    group.log(3, [row("a", ts, price=9.0)])
    assert group.read("id", "ts", "price")[0] == ("a", ts, 9.0)


def test_delete_with_ordering_value_holds_after_one_without() -> None:
    # Apache Hudi forgets it, unless a compaction came between the two.
    group = group_of()
    group.log(2, deleted=["a"])
    group.log(3, deleted=["a"], ordering=pa.array([50]))
    group.log(4, [row("a", 11, price=9.0)])
    assert [key for (key,) in group.read("id")] == ["b", "c"]


@pytest.mark.parametrize("ordering", [None, pa.array([10])])
def test_values_of_a_deleted_row_stay_away(ordering: pa.Array | None) -> None:
    group = group_of()
    group.config = replace(group.config, has_partial_updates=True)
    group.log(2, deleted=["a"], ordering=ordering)
    group.log(3, [row("a", 12, name="n")])
    assert group.read("id", "price", "name")[0] == ("a", None, "n")


def test_delete_that_lost_takes_nothing_away() -> None:
    group = group_of()
    group.config = replace(group.config, has_partial_updates=True)
    group.log(2, deleted=["a"], ordering=pa.array([9]))
    group.log(3, [row("a", 12, name="n")])
    assert group.read("id", "price", "name")[0] == ("a", 1.0, "n")


def test_delete_has_no_place_in_event_time_under_the_payload_of_partial_updates() -> None:
    # Version 8, PartialUpdateAvroPayload: "use natural order for delete record".
    group = group_of()
    group.config = replace(group.config, version=8, has_partial_updates=True)
    group.log(2, deleted=["a", "b"], ordering=pa.array([3, 3]))
    group.log(3, [row("b", 11, name="n")])
    assert group.read("id", "price", "name") == [("b", None, "n"), ("c", 3.0, None)]


@pytest.mark.parametrize(("ordering", "lives"), [(9, True), (10, False), (11, False)])
def test_delete_with_ordering_value_wins_unless_it_is_smaller(ordering: int, lives: bool) -> None:
    group = group_of()
    group.log(2, deleted=["a"], ordering=pa.array([ordering]))
    assert (("a",) in group.read("id")) == lives


def test_delete_with_a_value_of_another_class_wins() -> None:
    # IntWrapper(3) against the bigint 10: measured on Spark (format.md: Merging).
    group = group_of()
    group.log(2, deleted=["a"], ordering=pa.array([3], pa.int32()))
    group.log(3, deleted=["b"], ordering=pa.array(["text"]))
    assert group.read("id") == [("c",)]


def test_row_that_says_it_is_deleted_deletes_by_its_ordering_value() -> None:
    group = group_of()
    gone = {"_hoodie_is_deleted": True}
    group.log(2, [row("a", 11, **gone), row("b", 9, **gone), row("c", 10, **gone)])
    assert group.read("id") == [("b",)]


def test_base_row_is_not_taken_for_deleted_whatever_it_says() -> None:
    # FileGroupRecordBuffer.hasNextBaseRecord looks at no flag.
    group = Group()
    group.base(1, [row("a", 1, _hoodie_is_deleted=True)])
    group.log(2, [row("b", 1)])
    assert group.read("id") == [("a",), ("b",)]


def test_delete_marker_of_the_table_is_obeyed() -> None:
    group = group_of()
    group.config = replace(group.config, delete_marker=("name", "D"))
    group.log(2, [row("a", 11, name="D"), row("b", 11, name="E"), row("c", 11)])
    assert group.read("id") == [("b",), ("c",)]


def avro_block(
    group: Group,
    tick: int,
    columns: pa.Table,
    *,
    is_partial: bool = False,
    more: Mapping[HeaderKey, str] | None = None,
) -> None:
    """Write an Avro block with these columns and no others."""
    schema = schemas.from_arrow(columns.schema.remove(0), "t")
    avro_json = schemas.with_meta(schema.avro)
    meta = {name: pa.nulls(columns.num_rows, pa.string()) for name in schemas.META_COLUMNS}
    whole = pa.table({**meta, **{name: columns[name] for name in columns.column_names}})
    header = {HeaderKey.SCHEMA: avro_json}
    if is_partial:
        header[HeaderKey.IS_PARTIAL] = "true"
    header |= more or {}
    group.block(tick, BlockType.AVRO_DATA, header, avro_records.encode(whole, avro_json))


@pytest.mark.parametrize(
    ("base_tick", "read"),
    [(1, [("a", 2), ("a", 2), ("b", 1)]), (7, [("a", 1), ("a", 2), ("b", 1)])],
)
def test_base_rows_of_one_key_are_all_merged_where_positions_name_them(
    base_tick: int, read: list[tuple[str, int]]
) -> None:
    # Hudi's insert makes such rows, its upsert finds all of them. Positions in another base file
    # count for nothing. Apache Hudi 1.2.0 reads it so.
    group = Group()
    group.base(1, [row("a", 1), row("b", 1), row("a", 1)])
    columns = pa.table({"_hoodie_record_key": ["a"], "id": ["a"], "ts": [2]})
    positions = {
        HeaderKey.RECORD_POSITIONS: "AQAAAAAAAAAAAAAAOjAAAAEAAAAAAAIAEAAAAAAAAQADAA==",
        HeaderKey.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS: at(base_tick),
    }
    avro_block(group, 2, columns, more=positions)
    assert group.read("id", "ts") == read


def test_rows_with_a_deleting_operation_delete() -> None:
    group = group_of()
    columns = {
        "_hoodie_record_key": ["a", "b", "c", "d"],
        "_hoodie_operation": ["D", "-U", "U", "I"],
        "id": ["a", "b", "c", "d"],
        "ts": [11, 11, 11, 11],
    }
    avro_block(group, 2, pa.table(columns))
    assert group.read("id") == [("c",), ("d",)]


def test_partial_block_overwrites_the_columns_it_carries() -> None:
    # IS_PARTIAL, format.md: Merging: nulls that it carries count.
    group = group_of()
    group.log(2, [row("a", 11, price=5.0, name="n"), row("z", 1, price=6.0)])
    partial = {
        "_hoodie_record_key": ["a", "b", "c"],
        "ts": [12, 12, 9],
        "price": [None, 7.0, 8.0],
    }
    avro_block(group, 3, pa.table(partial), is_partial=True)
    assert group.read("id", "ts", "price", "name") == [
        ("a", 12, None, "n"),
        ("b", 12, 7.0, None),
        ("c", 10, 3.0, None),
        ("z", 1, 6.0, None),
    ]


def test_slice_of_partial_blocks_alone_has_null_for_what_none_carries() -> None:
    group = Group()
    avro_block(
        group,
        2,
        pa.table({"_hoodie_record_key": ["a"], "id": ["a"], "ts": [1], "price": [1.0]}),
        is_partial=True,
    )
    avro_block(
        group, 3, pa.table({"_hoodie_record_key": ["a"], "ts": [2], "id": ["a"]}), is_partial=True
    )
    assert group.read("id", "ts", "price", "name") == [("a", 2, 1.0, None)]


def test_nulls_from_the_first_partial_block_on_count() -> None:
    # enablePartialMerging stays on for the slice, and replaces IGNORE_DEFAULTS. In Apache Hudi it
    # reaches back as well: there a partial block takes `a` its price, which it does not name.
    group = group_of()
    group.config = replace(group.config, has_partial_updates=True)
    group.log(2, [row("a", 11, name="n")])
    assert group.read("id", "price")[0] == ("a", 1.0)
    partial = {"_hoodie_record_key": ["b"], "ts": [12], "name": ["m"]}
    avro_block(group, 3, pa.table(partial), is_partial=True)
    group.log(4, [row("c", 11, name="o")])
    assert group.read("id", "price", "name") == [
        ("a", 1.0, "n"),
        ("b", 2.0, "m"),
        ("c", None, "o"),
    ]


def test_row_that_lost_to_a_delete_leaves_nothing_behind() -> None:
    group = Group()
    group.config = replace(group.config, has_partial_updates=True)
    group.log(2, deleted=["a"], ordering=pa.array([10]))
    group.log(3, [row("a", 5, price=5.0)])
    group.log(4, [row("a", 20, name="n")])
    assert group.read("id", "price", "name") == [("a", None, "n")]


@pytest.mark.parametrize("by_event_time", [True, False])
def test_nulls_of_a_partial_update_keep_the_older_value(by_event_time: bool) -> None:
    # IGNORE_DEFAULTS: two streams with disjoint columns.
    group = group_of()
    group.config = replace(group.config, has_partial_updates=True)
    if not by_event_time:
        group.by_commit_time(has_partial_updates=True)
    group.log(2, [row("a", 11, name="n")])
    group.log(3, [row("a", 12, price=9.0), row("new", 12)])
    group.log(4, [row("new", 13, name="m")])
    assert group.read("id", "ts", "price", "name") == [
        ("a", 12, 9.0, "n"),
        ("b", 10, 2.0, None),
        ("c", 10, 3.0, None),
        ("new", 13, None, "m"),
    ]


def test_partial_update_after_a_delete_is_a_fresh_row() -> None:
    group = group_of()
    group.by_commit_time(has_partial_updates=True)
    group.log(2, [row("a", 11, name="n")])
    group.log(3, deleted=["a"])
    group.log(4, [row("a", 12, price=9.0)])
    assert group.read("id", "price", "name")[0] == ("a", 9.0, None)


def test_partial_update_that_loses_by_event_time_fills_nulls_only() -> None:
    group = group_of()
    group.config = replace(group.config, has_partial_updates=True)
    group.log(2, [row("a", 9, price=9.0, name="late")])
    assert group.read("id", "ts", "price", "name")[0] == ("a", 10, 1.0, "late")


def test_merging_is_pairwise_in_log_order() -> None:
    """T-N14."""
    # Key id2 of a table that Apache Hudi wrote (mor_bucket_nbcc_partial): 12, not 98. With the
    # first of them in a base file Apache Hudi answers 98.
    group = Group()
    group.config = replace(group.config, has_partial_updates=True)
    group.base(1, [row("id2", 1000, price=12.0)])
    group.log(2, [row("id2", 2500, name="w1")])
    group.log(3, [row("id2", 2200, price=98.0)])
    with_base = group.read("id", "ts", "price", "name")
    assert with_base == [("id2", 2500, 12.0, "w1")]
    logs_alone = Group()
    logs_alone.config = group.config
    logs_alone.log(1, [row("id2", 1000, price=12.0)])
    logs_alone.log(2, [row("id2", 2500, name="w1")])
    logs_alone.log(3, [row("id2", 2200, price=98.0)])
    assert logs_alone.read("id", "ts", "price", "name") == [("id2", 2500, 12.0, "w1")]


def test_blocks_of_uncommitted_instants_do_not_count() -> None:
    group = group_of()
    group.log(2, [row("a", 11, price=9.0)])
    group.log(3, deleted=["b"])
    group.pending = {at(2), at(3)}
    assert group.read("id", "price") == [("a", 1.0), ("b", 2.0), ("c", 3.0)]


def rollback(group: Group, tick: int, target: int) -> None:
    header = {HeaderKey.TARGET_INSTANT_TIME: at(target), HeaderKey.COMMAND_BLOCK_TYPE: "0"}
    group.block(tick, BlockType.COMMAND, header)


def test_command_block_takes_back_the_blocks_of_its_target() -> None:
    group = group_of()
    group.log(2, [row("a", 11, price=8.0)])
    group.log(3, [row("a", 12, price=9.0)])
    rollback(group, 4, target=3)
    assert group.read("id", "price")[0] == ("a", 8.0)


def test_command_block_takes_back_only_what_came_before_it() -> None:
    # scanInternalV1; format.md: Log files.
    group = group_of()
    rollback(group, 2, target=3)
    group.log(3, [row("a", 12, price=9.0)])
    assert group.read("id", "price")[0] == ("a", 9.0)


def test_truncated_block_is_skipped_and_reported() -> None:
    group = group_of()
    group.log(2, [row("a", 11, price=8.0)])
    content = group.storage.read(group.log_files[0].path)
    group.raw(3, content + content[:-20])
    assert group.read("id", "price")[0] == ("a", 8.0)
    (corrupt,) = group.corrupt
    assert (corrupt.offset, corrupt.length) == (len(content), len(content) - 20)


def test_compacted_block_is_refused_by_name() -> None:
    group = group_of()
    group.block(2, BlockType.PARQUET_DATA, {HeaderKey.COMPACTED_BLOCK_TIMES: f"{at(1)},{at(0)}"})
    with pytest.raises(errors.UnsupportedError, match=r"p/\..*log\.1.* log compaction.*compact it"):
        group.read("id")


def test_ordering_field_inside_a_struct_is_refused_by_name() -> None:
    group = group_of()
    group.config = replace(group.config, ordering_fields=("place.ts",))
    assert len(group.read("id")) == 3
    group.log(2, [row("a", 11)])
    with pytest.raises(errors.UnsupportedError, match=r"merged by place\.ts"):
        group.read("id")


def test_hfile_block_is_refused_by_name() -> None:
    group = group_of()
    group.block(2, BlockType.HFILE_DATA, {})
    with pytest.raises(errors.UnsupportedError, match=r"p/\..*log\.1.* HFILE_DATA"):
        group.read("id")


def test_change_data_blocks_are_passed_by() -> None:
    group = group_of()
    group.block(2, BlockType.CDC_DATA, {})
    assert len(group.read("id")) == 3


@pytest.mark.parametrize(
    ("block_type", "header", "content"),
    [
        (BlockType.PARQUET_DATA, {}, b"PAR1 and no more"),
        (BlockType.AVRO_DATA, {}, b""),
        (BlockType.AVRO_DATA, {HeaderKey.SCHEMA: "{"}, b""),
        (BlockType.DELETE, {}, b"\x00\x00"),
        (BlockType.PARQUET_DATA, {HeaderKey.INSTANT_TIME: "yesterday"}, b""),
    ],
)
def test_broken_block_is_told_with_its_file(
    block_type: BlockType, header: dict[HeaderKey, str], content: bytes
) -> None:
    group = group_of()
    group.block(2, block_type, header, content)
    with pytest.raises(errors.FormatError, match=r"^p/\..*log\.1"):
        group.read("id")


def test_broken_base_file_is_told_by_name() -> None:
    group = group_of()
    assert group.base_file is not None
    group.storage.delete(group.base_file.path)
    group.storage.create(group.base_file.path, b"PAR1PAR1")
    with pytest.raises(errors.FormatError, match=r"^p/.*\.parquet"):
        group.read("id")


def test_block_without_record_key_is_broken() -> None:
    group = group_of()
    avro_block(group, 2, pa.table({"_hoodie_record_key": pa.nulls(1, pa.string()), "id": ["a"]}))
    with pytest.raises(errors.FormatError, match="no record key"):
        group.read("id")


def test_columns_that_a_file_lacks_are_null_and_narrow_ones_are_widened() -> None:
    group = Group()
    old = pa.schema([("id", pa.string()), ("ts", pa.int32()), ("price", pa.float32())])
    new, group.schema = group.schema, schemas.from_arrow(old, "t")
    group.base(1, [row("a", 10, price=1.5)])
    group.log(2, [row("b", 10, price=2.5)])
    group.schema = new
    group.log(3, [row("c", 2**40, price=0.1, name="n")])
    assert group.read("id", "ts", "price", "name") == [
        ("a", 10, 1.5, None),
        ("b", 10, 2.5, None),
        ("c", 2**40, 0.1, "n"),
    ]


def test_column_of_a_type_that_does_not_fit_is_told() -> None:
    group = Group()
    other = pa.schema([("id", pa.string()), ("ts", pa.string())])
    new, group.schema = group.schema, schemas.from_arrow(other, "t")
    group.base(1, [{"id": "a", "ts": "soon"}])
    group.schema = new
    with pytest.raises(errors.FormatError, match=r"parquet: column 'ts' is string, expected int64"):
        group.read("ts")


def test_unknown_column_is_told_with_the_known_ones() -> None:
    with pytest.raises(errors.NotFoundError, match=r"no column 'nmae'.* price, name"):
        group_of().read("nmae")


def test_read_optimized_reads_the_base_file_alone() -> None:
    group = group_of()
    group.log(2, [row("a", 11, price=9.0)], deleted=["b"])
    assert group.read("id", "price", is_read_optimized=True) == [
        ("a", 1.0),
        ("b", 2.0),
        ("c", 3.0),
    ]


def test_read_optimized_has_nothing_of_a_slice_without_base_file() -> None:
    group = Group()
    group.log(2, [row("a", 11, price=9.0)])
    assert group.read("id", "price", is_read_optimized=True) == []


def over(value: float) -> Compare:
    return Compare("price", Comparator.GT, value)


def test_filter_sees_merged_rows() -> None:
    # The base row passes and its newer version does not; of another it is the other way round.
    group = group_of()
    group.log(2, [row("c", 11, price=0.5), row("a", 11, price=5.0)])
    assert group.read("id", where=over(1.5)) == [("a",), ("b",)]


def test_filter_of_base_rows_does_not_bring_back_older_log_rows() -> None:
    # A base row that wins by event time, and is filtered out, must not leave the loser behind.
    group = group_of()
    group.log(2, [row("a", 9, price=50.0)])
    assert group.read("id", where=over(10)) == []


def test_filter_column_need_not_be_asked_for() -> None:
    group = group_of()
    assert group.read("id", where=over(1.5)) == [("b",), ("c",)]
    group.log(2, [row("d", 1, price=4.0)])
    assert group.read("id", where=over(1.5)) == [("b",), ("c",), ("d",)]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (Compare("id", Comparator.EQ, "b"), ["b"]),
        (Compare("id", Comparator.NE, "b"), ["a", "c", "d"]),
        (In("id", ("a", "d", "nobody")), ["a", "d"]),
        (Not(In("id", ("a", "d"))), ["b", "c"]),
        (IsNull("id"), []),
        (Compare("_hoodie_record_key", Comparator.GE, "c"), ["c", "d"]),
        (predicates.And((Compare("id", Comparator.GE, "b"), over(2.5))), ["c", "d"]),
    ],
)
def test_filter_on_the_key(where: predicates.Predicate, expected: list[str]) -> None:
    group = group_of()
    group.log(2, [row("d", 11, price=4.0), row("b", 11, price=0.0)])
    assert [key for (key,) in group.read("id", where=where)] == expected


@pytest.fixture
def small_row_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_writing, "ROW_GROUP_BYTES", 2_000)
    monkeypatch.setattr(parquet_reading, "_PIECE_BYTES", 3_000)


@pytest.mark.usefixtures("small_row_groups")
def test_base_file_streams_through_the_merge_piece_by_piece() -> None:
    group = Group()
    group.base(1, [row(f"{number:03}", 1, price=0.0) for number in range(200)])
    group.log(2, [row(f"{number:03}", 2, price=1.0) for number in range(0, 250, 5)], ["007"])
    rows = group.reader().stream(group.slice, ["id", "price"])
    tables = list(rows)
    assert len(tables) > 5
    merged = pa.concat_tables(tables).to_pylist()
    assert len(merged) == 200 - 1 + 10
    assert sum(each["price"] for each in merged) == 50
    counts = rows.counts
    assert (counts.inserted, counts.updated, counts.deleted) == (10, 40, 1)


def test_large_row_group_streams_through_the_merge_in_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    group = Group()
    group.base(1, [row(f"{number:03}", 1, price=0.0) for number in range(200)])
    group.log(2, [row(f"{number:03}", 2, price=1.0) for number in range(0, 250, 5)], ["007"])
    at_once = list(group.reader().stream(group.slice, ["id", "price"]))
    monkeypatch.setattr(parquet_reading, "_PIECE_BYTES", 1_000)
    in_parts = list(group.reader().stream(group.slice, ["id", "price"]))
    assert len(at_once) == 2  # The base file, and the new rows.
    assert len(in_parts) > 5
    assert pa.concat_tables(in_parts).equals(pa.concat_tables(at_once))


@pytest.mark.usefixtures("small_row_groups")
def test_row_groups_that_cannot_match_are_not_read() -> None:
    group = Group()
    group.base(1, [row(f"{number:03}", number, price=0.0) for number in range(200)])
    wanted = Compare("ts", Comparator.GE, 190)
    assert len(list(group.reader().stream(group.slice, ["id"], wanted))) == 1
    assert len(group.read("id", where=wanted)) == 10
    # With changes the same filter may not hide base rows, one on the key may.
    group.log(2, [row("000", 300, price=1.0)])
    assert len(list(group.reader().stream(group.slice, ["id"], wanted))) > 5
    assert group.read("id", where=wanted)[0] == ("000",)
    by_key = Compare("id", Comparator.EQ, "000")
    assert len(list(group.reader().stream(group.slice, ["id"], by_key))) == 2
    assert group.read("id", where=by_key) == [("000",)]


@pytest.mark.usefixtures("small_row_groups")
def test_not_a_number_is_found_where_statistics_do_not_show_it() -> None:
    group = Group()
    prices = [float("nan") if number == 50 else 5.0 for number in range(100)]
    group.base(1, [row(f"{number:03}", 1, price=price) for number, price in enumerate(prices)])
    assert group.read("id", where=Compare("price", Comparator.NE, 5.0)) == [("050",)]
    assert group.read("id", where=Not(Compare("price", Comparator.EQ, 5.0))) == [("050",)]
    assert len(group.read("id", where=Compare("price", Comparator.EQ, 5.0))) == 99


def test_delete_of_several_ordering_fields_is_compared_by_all_of_them() -> None:
    group = Group()
    group.config = replace(group.config, ordering_fields=("ts", "name"))
    group.base(1, [row("a", 1, name="m"), row("b", 1, name="m"), row("c", 1, name="m")])
    values = (pa.array([1, 1, 1]), pa.array(["l", "m", "n"]))
    content = delete_records.encode(pa.array(["a", "b", "c"]), "p", values)
    group.block(2, BlockType.DELETE, {}, content)
    assert group.read("id") == [("a",)]
