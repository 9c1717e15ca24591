"""Statistics that are gathered of data files as they are written."""

import math
import pickle
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hoodie.filegroup import parquet_writing, rewriting, writing
from hoodie.model import commits, file_statistics, schemas, settings, table_config
from hoodie.model.file_statistics import ColumnStatistics, Definition, ValueType
from hoodie.model.settings import LogBlockFormat, WriteSettings
from hoodie.model.value_wrappers import Wrapper
from hoodie.timeline import index_definitions
from support.tables import every_type
from support.tables.file_groups import Group, at
from support.tables.tables import CONFIG, SmallTable

WITH_STATISTICS = table_config.TableConfig(
    name="t", record_key_fields=("id",), metadata_partitions=("files", "column_stats")
)
ROWS = [
    {"id": "a", "ts": 1, "price": 1.5, "name": "one"},
    {"id": "b", "ts": 2, "price": None, "name": "two"},
    {"id": "c", "ts": 3, "price": -2.5, "name": None},
]


def wanted(schema: pa.Schema, version: int = 9) -> file_statistics.Wanted:
    return file_statistics.wanted(replace(WITH_STATISTICS, version=version), schema, None)


class Gathering(Group):
    """A file group of which statistics are gathered."""

    def target(self, tick: int, first_row: int = 0) -> writing.FileTarget:
        found = super().target(tick, first_row)
        return replace(found, statistics=wanted(self.schema.arrow))


def by_column(stat: commits.WriteStat) -> dict[str, ColumnStatistics]:
    assert {each.file_name for each in stat.statistics} <= {stat.path.rpartition("/")[2]}
    return {each.column: each for each in stat.statistics}


def of_base_file(rows: pa.Table, version: int = 9) -> dict[str, ColumnStatistics]:
    group = Group()
    group.schema = schemas.from_arrow(rows.schema, "t")
    target = replace(group.target(5), statistics=wanted(group.schema.arrow, version))
    keys = pa.array([str(number) for number in range(len(rows))], pa.string())
    with_meta = writing.with_meta_columns(rows, keys, target, 0, "")
    return by_column(writing.write_base_file(target, [with_meta], group.schema, group.settings))


def told(
    stat: commits.WriteStat, *columns: str
) -> list[tuple[object, object, int | None, int | None]]:
    found = by_column(stat)
    return [
        (each.low, each.high, each.values, each.nulls) for each in map(found.get, columns) if each
    ]


COLUMNS_TOLD = ("_hoodie_commit_time", "_hoodie_partition_path", "_hoodie_record_key", "id", "ts")


def test_base_file_has_the_statistics_of_its_footer() -> None:
    stat = Gathering().base(5, ROWS)
    assert list(by_column(stat)) == [
        *COLUMNS_TOLD[:3],
        "id",
        "ts",
        "price",
        "name",
        "_hoodie_is_deleted",
    ]
    assert told(stat, *COLUMNS_TOLD) == [
        (at(5), at(5), 3, 0),
        ("p", "p", 3, 0),
        ("a", "c", 3, 0),
        ("a", "c", 3, 0),
        (1, 3, 3, 0),
    ]
    assert told(stat, "price", "name", "_hoodie_is_deleted") == [
        (-2.5, 1.5, 3, 1),
        ("one", "two", 3, 1),
        (None, None, 3, 3),
    ]
    assert all(each.size_bytes and each.plain_bytes for each in stat.statistics)


def test_statistics_of_several_row_groups_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_writing, "ROW_GROUP_BYTES", 1)
    group = Gathering()
    stat = group.base(5, ROWS)
    footer = pq.read_metadata(pa.BufferReader(group.storage.read(stat.path)))
    assert footer.num_row_groups == 3
    assert told(stat, "ts", "price", "name") == [
        (1, 3, 3, 0),
        (-2.5, 1.5, 3, 1),
        ("one", "two", 3, 1),
    ]
    chunks = [footer.row_group(number).column(6) for number in range(3)]
    assert {each.path_in_schema for each in chunks} == {"ts"}
    ts = by_column(stat)["ts"]
    assert ts.size_bytes == sum(each.total_compressed_size for each in chunks)
    assert ts.plain_bytes == sum(each.total_uncompressed_size for each in chunks)


def test_nothing_is_gathered_where_nothing_is_wanted() -> None:
    group = Group()
    assert group.base(5, ROWS).statistics == ()
    (stat,) = group.log(6, ROWS)
    assert stat.statistics == ()


def test_base_file_without_rows_has_no_statistics() -> None:
    assert Gathering().base(5, []).statistics == ()


@pytest.mark.parametrize("block_format", LogBlockFormat)
def test_log_file_has_the_statistics_of_its_rows(block_format: LogBlockFormat) -> None:
    group = Gathering()
    group.settings = WriteSettings(log_block_format=block_format)
    (stat,) = group.log(5, ROWS, deleted=["zz"])
    base = Gathering().base(5, ROWS)
    name = stat.path.rpartition("/")[2]
    assert stat.statistics == tuple(
        replace(each, file_name=name, size_bytes=0, plain_bytes=0) for each in base.statistics
    )


def test_each_log_file_has_its_own_statistics() -> None:
    group = Gathering()
    group.settings = WriteSettings(log_block_bytes_max=1, log_file_bytes_max=1)
    stats = group.log(5, ROWS, deleted=["zz"])
    assert [told(each, "ts") for each in stats] == [
        [(1, 1, 1, 0)],
        [(2, 2, 1, 0)],
        [(3, 3, 1, 0)],
        [(None, None, 0, 0)],
    ]


def test_log_file_of_deletes_alone_has_no_types() -> None:
    (stat,) = Gathering().log(5, deleted=["zz"])
    assert len(stat.statistics) == 8
    for each in stat.statistics:
        assert each == ColumnStatistics(
            file_name=stat.log_files[0], column=each.column, value_type=ValueType.NULL
        )


NAN = math.nan


@pytest.mark.parametrize(
    ("values", "bounds"),
    [
        ([1.0, NAN, 3.0], (1.0, NAN)),
        ([None, NAN], (NAN, NAN)),
        ([None, 2.0], (2.0, 2.0)),
        ([-math.inf, -0.0], (-math.inf, 0.0)),
    ],
)
@pytest.mark.parametrize("data_type", [pa.float32(), pa.float64()])
def test_nan_is_the_greatest_number(
    values: list[float | None], bounds: tuple[float, float], data_type: pa.DataType
) -> None:
    found = of_base_file(pa.table({"x": pa.array(values, data_type)}))["x"]
    assert repr((found.low, abs(float(str(found.high))))) == repr(bounds)
    assert found.nulls == values.count(None)


@pytest.mark.parametrize("length", [1024, 1025, 4096, 4097, 10_000])
def test_long_bounds_are_cut_to_ones_outside_the_values(length: int) -> None:
    rows = pa.table({"t": ["m" * length, "y" * length], "r": [b"\xff" * length, b"\x01" * length]})
    found = of_base_file(rows)
    if length == 1024:
        assert (found["t"].low, found["t"].high) == ("m" * 1024, "y" * 1024)
    else:
        assert (found["t"].low, found["t"].high) == ("m" * 1024, "y" * 1023 + "z")
    # Nothing short is above bytes that are all the greatest.
    assert (found["r"].low, found["r"].high) == (b"\x01" * 1024, b"\xff" * length)


def test_next_text_after_a_cut_one_is_a_text() -> None:
    def high(*parts: str) -> object:
        return of_base_file(pa.table({"t": ["".join(parts)]}))["t"].high

    assert high("a" * 1023, "\ud7ff", "b") == "a" * 1023 + "\ue000"
    assert high("a" * 1022, "b\U0010ffff", "c") == "a" * 1022 + "c"


VERSION_8 = {
    "flag": (True, True, Wrapper.BOOLEAN),
    "small": (7, 7, Wrapper.INT),
    "ratio": (0.5, 0.5, Wrapper.FLOAT),
    "score": (1.25, 1.25, Wrapper.DOUBLE),
    "price": (Decimal("12.5"), Decimal("12.5"), Wrapper.DECIMAL),
    "day": (15707, 15707, Wrapper.DATE),
    "at": (1357095845678901, 1357095845678901, Wrapper.LONG),
    "local_at": (1357095845678901, 1357095845678901, Wrapper.LONG),
    "raw": (b"\x00\xff", b"\x00\xff", Wrapper.BYTES),
    "coarse_at": (1357095845678, 1357095845678, Wrapper.LONG),
    "name": ("ü", "ü", Wrapper.STRING),
}
TYPES = (
    *(ValueType.BOOLEAN, ValueType.INT, ValueType.FLOAT, ValueType.DOUBLE, ValueType.DECIMAL),
    *(ValueType.DATE, ValueType.TIMESTAMP_MICROS, ValueType.LOCAL_TIMESTAMP_MICROS),
    *(ValueType.BYTES, ValueType.TIMESTAMP_MILLIS, ValueType.STRING),
)


@pytest.mark.parametrize("version", [8, 9])
def test_bounds_of_every_type_are_written_by_version(version: int) -> None:
    found = of_base_file(pa.Table.from_pylist(every_type.ROWS, every_type.SCHEMA), version)
    expected = {name: (*bounds, None, None) for name, bounds in VERSION_8.items()}
    if version > 8:
        expected = {
            name: (*bounds, value_type, None)
            for (name, bounds), value_type in zip(VERSION_8.items(), TYPES, strict=True)
        }
        unscaled = b"\x04\xe2"
        expected["price"] = (unscaled, unscaled, Wrapper.BYTES, ValueType.DECIMAL, "12,2")
        expected["day"] = (15707, 15707, Wrapper.INT, ValueType.DATE, None)
    assert {
        name: (each.low, each.high, each.kind, each.value_type, each.type_info)
        for name, each in found.items()
        if name in expected
    } == expected


@pytest.mark.parametrize(
    ("value", "content"),
    [
        ("0", b"\x00"),
        ("1.27", b"\x7f"),
        ("1.28", b"\x00\x80"),
        ("-1.28", b"\x80"),
        ("-1.29", b"\xff\x7f"),
    ],
)
def test_decimals_are_written_as_java_does(value: str, content: bytes) -> None:
    found = of_base_file(pa.table({"d": pa.array([Decimal(value)], pa.decimal128(30, 2))}))
    assert found["d"].low == content


def test_next_base_file_has_statistics_of_all_its_rows() -> None:
    group = Gathering()
    group.base(5, ROWS)
    data = group.data([{"id": "d", "ts": 9}])
    batch = writing.LogRows(data=data, record_keys=pa.array(["d"]), deleted_keys=pa.array(["a"]))
    stat = rewriting.rewrite(
        group.target(6), group.base_file, [[batch]], group.config, group.schema, group.settings
    )
    assert told(stat, "id", "ts", "_hoodie_commit_time") == [
        ("b", "d", 3, 0),
        (2, 9, 3, 0),
        (at(5), at(6), 3, 0),
    ]


def test_statistics_pickle_with_what_tasks_return() -> None:
    (stat,) = Gathering().log(5, ROWS)
    assert pickle.loads(pickle.dumps(stat)) == stat
    asked = wanted(every_type.SCHEMA)
    assert pickle.loads(pickle.dumps(asked)) == asked


DATA = [{"id": "a", "part": "p", "a": 1}, {"id": "b", "part": "p", "a": 2}]


def paths(stats: Sequence[commits.WriteStat]) -> set[str]:
    return {each.file_name for stat in stats for each in stat.statistics}


@pytest.mark.parametrize("table_type", table_config.TableType)
def test_writes_and_compactions_gather_what_the_table_needs(
    table_type: table_config.TableType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def needed(*_: object) -> file_statistics.Wanted:
        return wanted(small.table.schema.arrow)

    config = replace(CONFIG, table_type=table_type)
    is_cow = config.is_copy_on_write
    small = SmallTable(tmp_path / "t", config)
    monkeypatch.setattr(index_definitions, "wanted_statistics", needed)
    mode = settings.ConcurrencyMode.SINGLE_WRITER
    first = small.upsert(DATA, concurrency=mode)
    done = [first, small.delete(DATA[:1], concurrency=mode)]
    if not is_cow:
        compacted = small.compact()
        assert compacted is not None
        done.append(compacted)
    for result in done:
        written = {stat.path.rpartition("/")[2] for stat in result.stats if stat.records}
        assert written <= paths(result.stats)
    of_a = [each for stat in first.stats for each in stat.statistics if each.column == "a"]
    assert sorted(str(each.high) for each in of_a) == ["1", "2"]
    assert all(stat.log_files for stat in done[1].stats) != is_cow


def test_definitions_say_which_columns_have_statistics() -> None:
    columns = pa.schema([("a", pa.int32()), ("b", pa.list_(pa.int32())), ("c", pa.string())])
    meta = list(file_statistics.META_COLUMNS)

    def names(*defined: str, has_value_types: bool | None = None) -> list[str]:
        definition = Definition(columns=(*meta, *defined), has_value_types=has_value_types)
        found = file_statistics.wanted(WITH_STATISTICS, columns, definition)
        return list(found.kinds)[len(meta) :]

    assert names("c") == ["c"]
    assert names("c", "a", "gone", "b") == ["c", "a"]
    assert names("a", "c") == ["a", "c"]
    # As Apache Hudi chose them by itself, before the others were added.
    assert names("a") == ["a", "c"]
    assert names() == ["a", "c"]


def test_first_columns_have_statistics_without_a_definition() -> None:
    columns = pa.schema(
        [("nested", pa.struct([("x", pa.int32())])), *((f"c{n}", pa.int32()) for n in range(40))]
    )
    assert list(wanted(columns).kinds)[3:] == [f"c{n}" for n in range(32)]


def test_version_of_the_definition_decides_how_bounds_are_written() -> None:
    columns = pa.schema(
        [("d", pa.decimal128(38, 20)), ("e", pa.decimal128(20, 15)), ("f", pa.binary(3))]
    )
    definition = Definition(columns=("d", "e", "f"), has_value_types=False)
    found = file_statistics.wanted(WITH_STATISTICS, columns, definition)
    assert list(found.kinds)[3:] == ["e"]
    assert list(wanted(columns, 8).kinds)[3:] == ["e"]
    assert list(wanted(columns).kinds)[3:] == ["d", "e", "f"]


def test_table_without_statistics_needs_none() -> None:
    for partitions in ((), ("files", "record_index")):
        config = replace(WITH_STATISTICS, metadata_partitions=partitions)
        assert file_statistics.wanted(config, every_type.SCHEMA, None) == file_statistics.NOTHING
    building = replace(config, metadata_partitions_inflight=("partition_stats",))
    assert file_statistics.wanted(building, every_type.SCHEMA, None).kinds
