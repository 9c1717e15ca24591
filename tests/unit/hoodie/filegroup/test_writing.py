"""Data files as Apache Hudi expects them: names, blocks, meta columns, footers, stats."""

from dataclasses import replace
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hoodie.filegroup import kept_deletes, key_footers, parquet_writing, writing
from hoodie.format import avro_records, delete_records, log_blocks
from hoodie.format.log_blocks import BlockType, HeaderKey
from hoodie.model import commits, schemas, table_config
from hoodie.model.settings import LogBlockFormat, WriteSettings
from support.tables.file_groups import Group, at

ROWS = [
    {"id": "a", "ts": 1, "price": 1.5, "name": "one"},
    {"id": "b", "ts": 2, "price": None, "name": "two"},
]
FILE_ID = "00000000-0000-0000-0000-000000000000-0"


def blocks_of(group: Group, path: str) -> list[log_blocks.Block]:
    found = list(log_blocks.scan(pa.py_buffer(group.storage.read(path))))
    assert all(isinstance(each, log_blocks.Block) for each in found)
    return [each for each in found if isinstance(each, log_blocks.Block)]


def test_parquet_block_holds_rows_with_meta_columns() -> None:
    group = Group()
    (stat,) = group.log(5, ROWS)
    (block,) = blocks_of(group, stat.path)
    assert block.type is BlockType.PARQUET_DATA
    assert block.header == {
        HeaderKey.INSTANT_TIME: at(5),
        HeaderKey.SCHEMA: schemas.with_meta(group.schema.avro),
    }
    content = pq.read_table(pa.BufferReader(block.content))
    assert content.column_names == [*schemas.META_COLUMNS, *group.schema.arrow.names]
    assert content.to_pylist()[1] == {
        "_hoodie_commit_time": at(5),
        "_hoodie_commit_seqno": f"{at(5)}_7_1",
        "_hoodie_record_key": "b",
        "_hoodie_partition_path": "p",
        "_hoodie_file_name": FILE_ID,
        "id": "b",
        "ts": 2,
        "price": None,
        "name": "two",
        "_hoodie_is_deleted": None,
    }


def test_avro_block_holds_the_same_rows() -> None:
    group = Group()
    (parquet,) = group.log(5, ROWS)
    group.settings = replace(group.settings, log_block_format=LogBlockFormat.AVRO)
    (avro,) = group.log(6, ROWS)
    (as_parquet,) = blocks_of(group, parquet.path)
    (as_avro,) = blocks_of(group, avro.path)
    assert as_avro.type is BlockType.AVRO_DATA
    decoded = avro_records.decode(as_avro.content, as_avro.header[HeaderKey.SCHEMA])
    expected = pq.read_table(pa.BufferReader(as_parquet.content))
    assert decoded.drop_columns(schemas.META_COLUMNS[:2]) == expected.drop_columns(
        schemas.META_COLUMNS[:2]
    )


def test_deletes_come_in_a_block_of_their_own_after_the_rows() -> None:
    group = Group()
    (stat,) = group.log(5, ROWS, deleted=["c"], ordering=pa.array([9]))
    data, deletes = blocks_of(group, stat.path)
    assert (data.type, deletes.type) == (BlockType.PARQUET_DATA, BlockType.DELETE)
    assert deletes.header == data.header
    assert delete_records.decode(deletes.content).keys.to_pylist() == ["c"]
    assert (stat.records, stat.deletes, stat.log_blocks) == (2, 1, 2)


def test_log_stat_tells_what_was_written() -> None:
    group = Group()
    (stat,) = group.log(5, ROWS, deleted=["c"])
    name = f".{FILE_ID}_{at(5)}.log.1_7-0-1"
    assert stat == commits.WriteStat(
        file_id=FILE_ID,
        partition_path="p",
        path=f"p/{name}",
        prev_commit="null",
        records=2,
        inserts=0,
        updates=2,
        deletes=1,
        size_bytes=group.storage.stat(f"p/{name}").size_bytes,
        base_file="",
        log_files=(name,),
        log_version=1,
        log_blocks=2,
    )


def test_rows_known_to_be_new_are_counted_as_inserts() -> None:
    group = Group()
    data = group.data(ROWS)
    target = replace(group.target(5), base_instant_time=at(1), base_file="base.parquet")
    (stat,) = writing.write_log_files(
        target,
        [writing.LogRows(data=data, record_keys=pa.array(["a", "b"]), is_insert=True)],
        group.schema,
        group.settings,
    )
    assert (stat.inserts, stat.updates) == (2, 0)
    assert (stat.prev_commit, stat.base_file) == (at(1), "base.parquet")


def test_nothing_to_write_makes_no_file() -> None:
    group = Group()
    assert group.log(5) == ()
    assert group.marked == []


def test_blocks_are_cut_and_files_rolled_at_their_sizes() -> None:
    group = Group()
    many = [{"id": f"{number:05}", "ts": number, "name": "x" * 50} for number in range(1000)]
    group.settings = WriteSettings(log_block_bytes_max=20_000, log_file_bytes_max=20_000)
    stats = group.log(5, many, deleted=[f"d{number:05}" for number in range(4000)])
    assert [stat.log_version for stat in stats] == list(range(1, len(stats) + 1))
    assert len(stats) > 1
    assert all(stat.size_bytes >= 20_000 for stat in stats[:-1])
    assert sum(stat.log_blocks for stat in stats) > len(stats)
    assert sum(stat.records for stat in stats) == 1000
    assert sum(stat.deletes for stat in stats) == 4000
    rows = group.read("id", "_hoodie_commit_seqno")
    assert rows == [(f"{number:05}", f"{at(5)}_7_{number}") for number in range(1000)]


def test_rows_are_numbered_from_where_the_task_is() -> None:
    group = Group()
    data = group.data(ROWS)
    writing.write_log_files(
        group.target(5, first_row=100),
        [writing.LogRows(data=data, record_keys=pa.array(["a", "b"]))],
        group.schema,
        group.settings,
    )
    (path,) = group.marked
    (block,) = blocks_of(group, path)
    numbers = pq.read_table(pa.BufferReader(block.content)).column("_hoodie_commit_seqno")
    assert numbers.to_pylist() == [f"{at(5)}_7_100", f"{at(5)}_7_101"]


def test_marker_is_made_before_its_file() -> None:
    # W8: what a crash leaves must be found.
    group = Group()
    seen: list[tuple[str, bool]] = []

    def before_file(path: str) -> None:
        present = [info.path for info in group.storage.list("p")]
        seen.append((path, path in present))

    target = replace(group.target(5), before_file=before_file)
    rows = writing.LogRows(data=group.data(ROWS), record_keys=pa.array(["a", "b"]))
    (log,) = writing.write_log_files(target, [rows], group.schema, group.settings)
    base = writing.write_base_file(target, [], group.schema, group.settings)
    assert seen == [(log.path, False), (base.path, False)]


def test_file_is_not_opened_when_its_marker_is_refused() -> None:
    group = Group()

    def refuse(path: str) -> None:
        raise OSError(path)

    target = replace(group.target(5), before_file=refuse)
    rows = writing.LogRows(data=group.data(ROWS), record_keys=pa.array(["a", "b"]))
    with pytest.raises(OSError, match="log"):
        writing.write_log_files(target, [rows], group.schema, group.settings)
    assert group.storage.list("p") == []


def test_base_file_has_footer_and_its_own_name_in_the_rows() -> None:
    group = Group()
    stat = group.base(5, ROWS)
    name = f"{FILE_ID}_7-0-1_{at(5)}.parquet"
    assert stat == commits.WriteStat(
        file_id=FILE_ID,
        partition_path="p",
        path=f"p/{name}",
        prev_commit="null",
        records=2,
        inserts=2,
        updates=0,
        deletes=0,
        size_bytes=group.storage.stat(f"p/{name}").size_bytes,
    )
    content = pq.ParquetFile(group.storage.open_input(stat.path))
    assert content.metadata.metadata == {
        b"parquet.avro.schema": schemas.with_meta(group.schema.avro).encode(),
        b"hoodie_min_record_key": b"a",
        b"hoodie_max_record_key": b"b",
    }
    assert content.read().column("_hoodie_file_name").to_pylist() == [name, name]
    assert content.schema_arrow.remove_metadata() == pa.schema(
        [*schemas.meta_fields(), *group.schema.arrow]
    )


def test_ends_of_keys_are_those_of_java() -> None:
    """It orders texts by UTF-16: characters above U+FFFF come before those from U+E000."""
    pieces = [["b", "\uffff", None], ["\U0001f600", "\ue000"], [], ["\U0010ffff", "c"]]
    keys = key_footers.KeyFooter(has_bloom_filter=False)
    for each in pieces:
        keys.add(pa.chunked_array([pa.array(["a~", *each], pa.string())[1:]]))
    found = keys.finish()
    assert found == {"hoodie_min_record_key": "b", "hoodie_max_record_key": "\uffff"}
    one = key_footers.KeyFooter(has_bloom_filter=False)
    one.add(pa.chunked_array([["\U0010ffff"], ["\ue000", "\U0001f600"]]))
    assert list(one.finish().values()) == ["\U0001f600", "\ue000"]


def test_base_file_of_no_rows_can_be_read() -> None:
    group = Group()
    stat = group.base(5, [])
    assert stat.records == 0
    assert group.read("id") == []
    content = pq.ParquetFile(group.storage.open_input(stat.path))
    assert b"hoodie_min_record_key" not in content.metadata.metadata


@pytest.mark.parametrize(
    ("codec", "stored"),
    [("snappy", "SNAPPY"), ("zstd", "ZSTD"), ("gzip", "GZIP"), ("none", "UNCOMPRESSED")],
)
def test_codec_of_the_settings_is_used(codec: str, stored: str) -> None:
    group = Group()
    group.settings = replace(group.settings, parquet_codec=codec)
    stat = group.base(5, ROWS)
    metadata = pq.read_metadata(group.storage.open_input(stat.path))
    assert metadata.row_group(0).column(0).compression == stored
    assert [row[0] for row in group.read("id")] == ["a", "b"]


def test_base_file_is_written_in_bounded_row_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_writing, "ROW_GROUP_BYTES", 10_000)
    group = Group()
    many = [{"id": f"{number:05}", "ts": number, "name": "x" * 50} for number in range(1000)]
    stat = group.base(5, many)
    metadata = pq.read_metadata(group.storage.open_input(stat.path))
    assert metadata.num_rows == 1000
    assert metadata.num_row_groups > 5
    assert [row[0] for row in group.read("id")] == [row["id"] for row in many]


def test_only_columns_that_repeat_get_dictionaries() -> None:
    group = Group()
    many = [{"id": f"{number:05}", "ts": number % 3, "name": "same"} for number in range(1000)]
    stat = group.base(5, many)
    row_group = pq.read_metadata(group.storage.open_input(stat.path)).row_group(0)
    columns = [row_group.column(number) for number in range(row_group.num_columns)]
    with_dictionary = {
        column.path_in_schema for column in columns if column.dictionary_page_offset is not None
    }
    assert {"ts", "name", "_hoodie_file_name", "_hoodie_commit_time"} <= with_dictionary
    assert not {"id", "_hoodie_record_key", "_hoodie_commit_seqno"} & with_dictionary


@pytest.mark.parametrize(
    ("fields", "mode", "expected"),
    [
        (("ts",), table_config.MergeMode.EVENT_TIME, LogBlockFormat.PARQUET),
        (("name",), table_config.MergeMode.EVENT_TIME, LogBlockFormat.AVRO),
        (("ts", "name"), table_config.MergeMode.EVENT_TIME, LogBlockFormat.AVRO),
        (("name",), table_config.MergeMode.COMMIT_TIME, LogBlockFormat.PARQUET),
        ((), table_config.MergeMode.EVENT_TIME, LogBlockFormat.PARQUET),
    ],
)
def test_blocks_are_avro_where_apache_hudi_misreads_parquet(
    fields: tuple[str, ...], mode: table_config.MergeMode, expected: LogBlockFormat
) -> None:
    group = Group()
    config = replace(group.config, ordering_fields=fields, merge_mode=mode)
    found = writing.readable_by_hudi(group.settings, config, group.schema)
    assert found == replace(group.settings, log_block_format=expected)


def test_kept_deletes_tell_which_compaction_kept_them_first() -> None:
    group = Group()
    kept = [
        kept_deletes.KeptDeletes(
            instant_time=at(number), keys=pa.array([key]), ordering=(pa.array([number]),)
        )
        for number, key in ((3, "a"), (5, "b"))
    ]
    (stat,) = writing.write_kept_deletes(group.target(5), kept, group.schema, group.settings)
    blocks = blocks_of(group, stat.path)
    assert [each.header[HeaderKey.INSTANT_TIME] for each in blocks] == [at(3), at(5)]
    assert [delete_records.decode(each.content).keys.to_pylist() for each in blocks] == [
        ["a"],
        ["b"],
    ]


@pytest.mark.parametrize(
    "value", [pa.scalar(1, pa.time64("us")), pa.scalar(Decimal(10) ** 30, pa.decimal128(38, 0))]
)
def test_kept_deletes_that_no_block_can_hold_are_left_out(
    value: pa.Scalar, caplog: pytest.LogCaptureFixture
) -> None:
    group = Group()
    kept = kept_deletes.KeptDeletes(
        instant_time=at(5), keys=pa.array(["a"]), ordering=(pa.array([value]),)
    )
    assert writing.write_kept_deletes(group.target(5), [kept], group.schema, group.settings) == ()
    assert "1 deletes do not outlive compaction" in caplog.text
