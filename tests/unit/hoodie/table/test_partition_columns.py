"""Tables whose partition columns are in partition paths alone, whatever data files say of them."""

import datetime
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hoodie import errors, table
from hoodie.model import commits, partition_columns, schemas, settings, table_config
from hoodie.read import where
from hoodie.timeline import table_properties
from support.tables.tables import CONFIG, SmallTable

DROPS = table_config.DROPS_PARTITION_COLUMNS_KEY
DAY = datetime.date(1969, 12, 31)
LEFT_OUT = replace(
    CONFIG,
    partition_fields=("part", "n"),
    has_partial_updates=False,
    drops_partition_columns=True,
    is_hive_style=True,
)
SINGLE: Mapping[str, object] = {"concurrency": settings.ConcurrencyMode.SINGLE_WRITER}
ROWS: list[dict[str, object]] = [
    {"id": "1", "part": "x", "n": -1, "a": 1, "b": "one"},
    {"id": "2", "part": None, "n": 2, "a": 2, "b": "two"},
    {"id": "3", "part": "x", "n": None, "a": 3, "b": None},
]


def config(kind: str, version: int) -> table_config.TableConfig:
    table_type = table_config.TableType(kind)
    return replace(LEFT_OUT, table_type=table_type, version=version)


KINDS = [(kind.value, version) for kind in table_config.TableType for version in (8, 9)]


@pytest.mark.parametrize(("kind", "version"), KINDS)
def test_values_of_paths_are_in_rows_and_not_in_files(
    kind: str, version: int, tmp_path: Path
) -> None:
    small = SmallTable(tmp_path / "t", config(kind, version), n="int32")
    small.upsert(ROWS, **SINGLE)
    small.upsert([ROWS[0] | {"a": 7}], **SINGLE)
    small.delete([ROWS[2]], **SINGLE)
    expected = [ROWS[0] | {"a": 7}, ROWS[1]]
    assert small.rows() == expected
    if kind == "MERGE_ON_READ":
        small.compact()
        assert small.rows() == expected
    small.upsert([ROWS[1] | {"b": "2"}], **SINGLE)
    expected[1] = ROWS[1] | {"b": "2"}
    assert small.rows() == expected
    assert small.rows(columns=["n"], where=where.parse("part = 'x'")) == [{"n": -1}]
    assert small.rows(columns=["a"], where=where.parse("n > 1 or part is null")) == [{"a": 2}]
    assert small.rows(columns=["part", "n"], where=where.parse("a = 7")) == [{"part": "x", "n": -1}]
    for file in small.path.glob("part=*/n=*/*.parquet"):
        assert {"part", "n"}.isdisjoint(pq.read_schema(file).names)
    assert small.problems() == []


def test_partitions_are_left_out_by_values_in_paths(tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "t", LEFT_OUT, n="int32")
    small.upsert(ROWS)
    found = small.table.explain_read(where=where.parse("n = -1"))
    assert {each.group.partition_path for each in found.slices} == {"part=x/n=-1"}
    assert small.rows(where=where.parse("n = -1")) == [ROWS[0]]


@pytest.mark.parametrize("kind", ["MERGE_ON_READ", "COPY_ON_WRITE"])
def test_what_files_say_of_the_columns_does_not_count(kind: str, tmp_path: Path) -> None:
    plain = replace(config(kind, 9), drops_partition_columns=False)
    small = SmallTable(tmp_path / "t", plain, n="int32")
    small.upsert(ROWS, **SINGLE)
    for file in small.path.glob("part=*/n=*/*.parquet"):
        # As Apache Hudi's copies of rows without the columns.
        found = pq.read_table(file)
        for name in ("part", "n"):
            position = found.schema.get_field_index(name)
            nulls = pa.nulls(len(found), found.schema.field(name).type)
            found = found.set_column(position, name, nulls)
        pq.write_table(found, file)
    small.upsert([ROWS[1] | {"a": 8}], **SINGLE)
    properties = small.path / ".hoodie" / "hoodie.properties"
    properties.write_text(properties.read_text().replace(f"{DROPS}=false", f"{DROPS}=true"))
    small.table = table.open_table(str(small.path), small.env)
    assert small.rows() == [ROWS[0], ROWS[1] | {"a": 8}, ROWS[2]]
    assert small.rows(where=where.parse("n = -1 and part = 'x'")) == [ROWS[0]]
    assert small.rows(where=where.parse("part is null")) == [ROWS[1] | {"a": 8}]
    small.upsert([ROWS[2] | {"a": 9}], **SINGLE)
    if kind == "MERGE_ON_READ":
        small.compact()
    assert small.rows() == [ROWS[0], ROWS[1] | {"a": 8}, ROWS[2] | {"a": 9}]


def test_record_that_moves_takes_the_value_of_its_new_partition(tmp_path: Path) -> None:
    index = table_config.IndexKind.GLOBAL_SIMPLE
    moving = replace(LEFT_OUT, bucket_count=None, index=index)
    small = SmallTable(tmp_path / "t", moving, n="int32")
    small.upsert(ROWS, **SINGLE)
    small.upsert([ROWS[0] | {"part": "y", "n": 5}], **SINGLE)
    assert small.rows() == [ROWS[0] | {"part": "y", "n": 5}, *ROWS[1:]]


def test_records_that_stay_in_their_partition_are_refused(tmp_path: Path) -> None:
    index = table_config.IndexKind.GLOBAL_SIMPLE
    staying = replace(LEFT_OUT, bucket_count=None, index=index, updates_partitions=False)
    with pytest.raises(errors.UnsupportedError, match="records that move to the partition"):
        SmallTable(tmp_path / "t", staying, n="int32")


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("", "stands for null"),
        ("__HIVE_DEFAULT_PARTITION__", "stands for null"),
        ("a%41", "percent sign"),
        ("a=b", "equals sign"),
        ("a/b", "slash"),
    ],
)
def test_value_that_would_be_lost_is_refused(value: str, problem: str, tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "t", replace(LEFT_OUT, is_hive_style=False), n="int32")
    with pytest.raises(errors.InvalidInputError, match=problem):
        small.upsert([ROWS[0] | {"part": value}])
    assert small.rows() == []


@pytest.mark.parametrize("value", ["a=b", "a/b", "a%41", "%", "ü ", "a%2Fb"])
def test_encoded_value_comes_back(value: str, tmp_path: Path) -> None:
    encoded = replace(LEFT_OUT, is_hive_style=False, is_url_encoded=True)
    small = SmallTable(tmp_path / "t", encoded, n="int32")
    rows = [ROWS[0] | {"part": value}]
    small.upsert(rows)
    assert small.rows() == rows


def test_value_of_another_type_is_a_damage_that_names_the_partition(tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "t", LEFT_OUT, n="int32")
    small.upsert(ROWS[:1])
    (small.path / "part=x" / "n=-1").rename(small.path / "part=x" / "n=one")
    with pytest.raises(errors.FormatError, match="'part=x/n=one' has 'one' for column 'n'"):
        small.rows()
    assert small.rows(columns=["a"]) == [{"a": 1}]


def test_ordering_field_of_paths_is_refused(tmp_path: Path) -> None:
    ordered = replace(
        LEFT_OUT, ordering_fields=("n",), merge_mode=table_config.MergeMode.EVENT_TIME
    )
    with pytest.raises(errors.UnsupportedError, match="ordering field 'n' is one of these"):
        SmallTable(tmp_path / "t", ordered, n="int32")


def test_overwrites_and_statistics_go_by_paths(tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "t", config("COPY_ON_WRITE", 9), n="int32")
    small.table = small.table.initialise_metadata(small.options(**SINGLE).transaction)
    small.upsert(ROWS, **SINGLE)
    replaced = small.options(operation=commits.Operation.INSERT_OVERWRITE, **SINGLE)
    small.table.write(small.data([ROWS[0] | {"id": "9"}]), replaced)
    assert small.rows(where=where.parse("n = -1 and a >= 1")) == [ROWS[0] | {"id": "9"}]
    assert small.rows(where=where.parse("n is null or a = 2")) == [ROWS[1], ROWS[2]]
    found = small.table.validate_metadata()
    assert (found.differences, found.statistics) == ((), ())


def test_stored_property_is_what_apache_hudi_has(tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "t", LEFT_OUT, n="int32")
    stored = table_properties.load(small.env.open_storage(str(small.path)), small.env.clock)
    assert stored.drops_partition_columns
    assert stored.properties[DROPS] == "true"


def schema_of(*fields: tuple[str, object]) -> schemas.TableSchema:
    listed = [{"name": name, "type": ["null", kind], "default": None} for name, kind in fields]
    return schemas.from_avro(json.dumps({"type": "record", "name": "r", "fields": listed}))


DATE = {"type": "int", "logicalType": "date"}


@pytest.mark.parametrize(
    ("committed", "created", "expected"),
    [
        # As Apache Hudi's data source commits: texts, at the end.
        ([("id", "string")], None, [("id", "string"), ("p", "string"), ("d", "string")]),
        ([("d", DATE), ("id", "string")], None, [("d", DATE), ("id", "string"), ("p", "string")]),
        # Its deletes make texts of them.
        (
            [("p", "string"), ("id", "string")],
            [("id", "string"), ("p", "int"), ("d", DATE)],
            [("p", "int"), ("id", "string"), ("d", DATE)],
        ),
        # They were widened.
        (
            [("id", "string"), ("p", "long"), ("d", DATE)],
            [("id", "string"), ("p", "int"), ("d", DATE)],
            [("id", "string"), ("p", "long"), ("d", DATE)],
        ),
    ],
)
def test_columns_that_commits_leave_out_have_the_type_of_the_tables_creation(
    committed: list[tuple[str, object]],
    created: list[tuple[str, object]] | None,
    expected: list[tuple[str, object]],
) -> None:
    partitioned = table_config.TableConfig(
        name="t",
        record_key_fields=("id",),
        partition_fields=("p", "d"),
        drops_partition_columns=True,
        create_schema=None if created is None else schema_of(*created).avro,
    )
    found = partition_columns.whole(schema_of(*committed), partitioned)
    assert found.arrow == schema_of(*expected).arrow
    assert partition_columns.stored(found, partitioned).arrow == schema_of(("id", "string")).arrow


@pytest.mark.parametrize(
    ("fields", "path", "expected"),
    [
        ("p", "eu", {"p": "eu"}),
        ("p", "a/b", {"p": "a/b"}),
        ("p", "__HIVE_DEFAULT_PARTITION__", {"p": None}),
        ("p,d", "7/1969-12-31", {"p": "7", "d": DAY}),
    ],
)
def test_value_is_the_text_of_its_folder(
    fields: str, path: str, expected: Mapping[str, object]
) -> None:
    partitioned = table_config.TableConfig(
        name="t",
        record_key_fields=("id",),
        partition_fields=tuple(fields.split(",")),
        drops_partition_columns=True,
    )
    columns = pa.schema(
        [("p", pa.string()), ("d", pa.date32())][: len(partitioned.partition_fields)]
    )
    found = partition_columns.values(path, partitioned, columns)
    assert {name: value.as_py() for name, value in found.items()} == expected


@pytest.mark.parametrize("path", ["", "a", "a/b/c"])
def test_path_of_other_folders_is_a_damage(path: str) -> None:
    partitioned = replace(LEFT_OUT, is_hive_style=False)
    with pytest.raises(errors.FormatError, match="expected a folder for each of part, n"):
        partition_columns.values(path, partitioned, pa.schema([("part", pa.string())]))


def test_times_in_paths_are_read_as_texts_alone() -> None:
    timed = table_config.TableConfig(
        name="t",
        record_key_fields=("id",),
        partition_fields=("at",),
        drops_partition_columns=True,
        properties={"hoodie.table.keygenerator.type": "TIMESTAMP"},
    )
    found = partition_columns.whole(schema_of(("id", "string")), timed)
    taken = partition_columns.of_paths(timed, found.arrow)
    assert partition_columns.values("2024/03/15", timed, taken)["at"].as_py() == "2024/03/15"
    assert partition_columns.write_refusal(timed) is not None
    with pytest.raises(errors.UnsupportedError, match="cannot be read from its paths"):
        partition_columns.whole(schema_of(("id", "string"), ("at", "long")), timed)


TIMED = replace(
    CONFIG,
    partition_fields=("at",),
    has_partial_updates=False,
    ordering_fields=("at",),
    merge_mode=table_config.MergeMode.EVENT_TIME,
    properties={"hoodie.table.keygenerator.type": "TIMESTAMP"},
)
TIME_OPTIONS = """hoodie.table.keygenerator.type=TIMESTAMP
hoodie.keygen.timebased.timestamp.type=EPOCHMILLISECONDS
hoodie.keygen.timebased.output.dateformat=yyyy/MM/dd
hoodie.keygen.timebased.output.timezone=UTC
"""
TIMES = [
    {"id": "1", "part": "x", "at": 1710460800123, "a": 1, "b": "one"},
    {"id": "2", "part": "x", "at": 1710460800999, "a": 2, "b": "two"},
    {"id": "3", "part": "y", "at": -5, "a": 3, "b": None},
]


def with_times(path: Path, *more: str) -> SmallTable:
    """Return a table whose paths have texts of a column that decides by event time as well."""
    plain = replace(TIMED, properties={})
    small = SmallTable(path, plain, at="int64")
    properties = path / ".hoodie" / "hoodie.properties"
    text = properties.read_text().replace("hoodie.table.keygenerator.type=SIMPLE\n", "")
    properties.write_text(text + TIME_OPTIONS + "".join(more))
    small.table = table.open_table(str(path), small.env)
    return small


def test_values_of_files_or_of_paths_as_the_reader_wishes(tmp_path: Path) -> None:
    small = with_times(tmp_path / "t")
    small.upsert(TIMES, **SINGLE)
    small.upsert([TIMES[0] | {"a": 7}], **SINGLE)
    small.upsert([TIMES[1] | {"a": 8}])
    rows = [TIMES[0] | {"a": 7}, TIMES[1] | {"a": 8}, TIMES[2]]
    assert small.rows() == rows
    days = ["2024/03/15", "2024/03/15", "1969/12/31"]
    shown = [row | {"at": day} for row, day in zip(rows, days, strict=True)]
    assert small.rows(partition_values="path") == shown
    wanted = where.parse("at = '2024/03/15' and a > 7")
    assert small.rows(where=wanted, partition_values="path") == [shown[1]]
    found = small.table.explain_read(["at"], wanted, partition_values="path")
    assert {each.group.partition_path for each in found.slices} == {"2024/03/15"}
    alone = small.rows(columns=["at"], partition_values="path")
    assert sorted(str(row["at"]) for row in alone) == sorted(days)
    optimized = small.rows(partition_values="path", is_read_optimized=True)
    assert [row["at"] for row in optimized] == days
    with pytest.raises(errors.InvalidInputError, match="expected file or path"):
        small.rows(partition_values="paths")
    with pytest.raises(errors.InvalidInputError, match="at"):
        small.rows(where=where.parse("at > 5"), partition_values="path")


def test_values_of_plain_paths_have_the_tables_types(tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "t", replace(LEFT_OUT, drops_partition_columns=False), n="int32")
    small.upsert([*ROWS, ROWS[0] | {"id": "4", "part": ""}])
    shown = [*ROWS, ROWS[0] | {"id": "4", "part": None}]
    assert small.rows(partition_values="path") == shown
    assert small.rows()[3]["part"] == ""
    nulls = where.parse("part is null")
    assert small.rows(where=nulls, partition_values="path") == [shown[1], shown[3]]
    assert small.rows(where=nulls) == [ROWS[1]]


def test_filter_on_values_of_paths_is_not_looked_up_as_a_key(tmp_path: Path) -> None:
    keyed = replace(
        CONFIG,
        record_key_fields=("part",),
        has_partial_updates=False,
        is_url_encoded=True,
        bucket_count=8,
    )
    small = SmallTable(tmp_path / "t", keyed)
    small.upsert(
        [{"id": "1", "part": f"2024-03-{day}", "a": 1, "b": None} for day in range(10, 28)]
    )
    properties = small.path / ".hoodie" / "hoodie.properties"
    key = "hoodie.datasource.write.slash.separated.date.partitioning"
    properties.write_text(properties.read_text() + f"{key}=true\n")
    for folder in list(small.path.glob("2024-*")):
        target = small.path / folder.name.replace("-", "/")
        target.parent.mkdir(parents=True, exist_ok=True)
        folder.rename(target)
    small.table = table.open_table(str(small.path), small.env)
    for day in range(10, 28):
        wanted = where.parse(f"part = '2024/03/{day}'")
        assert len(small.rows(where=wanted, partition_values="path")) == 1


def test_generator_that_is_not_known_is_refused(tmp_path: Path) -> None:
    own = "hoodie.table.keygenerator.class=org.example.Own\n"
    small = SmallTable(tmp_path / "t", CONFIG)
    properties = small.path / ".hoodie" / "hoodie.properties"
    properties.write_text(properties.read_text() + own)
    small.table = table.open_table(str(small.path), small.env)
    with pytest.raises(errors.UnsupportedError, match="it has the key generator Own"):
        small.rows(partition_values="path")
