"""Which statistics of a metadata table `hoodie metadata validate` finds to be wrong."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from hoodie import table
from hoodie.format import metadata_avro
from hoodie.format.metadata_avro import RecordType
from hoodie.model import partition_statistics, results, table_config
from hoodie.model.file_statistics import ColumnStatistics
from hoodie.read import where
from hoodie.services import metadata_tables
from support.tables.tables import CONFIG, SmallTable

ROWS = [{"id": str(n), "part": f"p{n % 2}", "a": n, "b": "x" if n > 1 else None} for n in range(8)]
FILES, PARTITIONS = RecordType.COLUMN_STATS, RecordType.PARTITION_STATS
LIES = {
    "a value above": (FILES, {"low": -5, "high": -1}, "-5 to -1, 0 nulls"),
    "a value below": (FILES, {"low": 2, "high": 3}, "2 to 3, 0 nulls"),
    "all": (FILES, {"low": None, "high": None, "kind": None}, "None to None, 0 nulls"),
    "of a partition": (PARTITIONS, {"high": -1}, "0 to -1, 1 nulls"),
}
"""What a record says of a column with one value, 0, and what is shown of it."""


@pytest.fixture
def small(tmp_path: Path) -> SmallTable:
    made = SmallTable(tmp_path / "t")
    made.table = made.table.initialise_metadata(made.options().transaction)
    return made


def validated(small: SmallTable) -> metadata_tables.Validation:
    return table.open_table(str(small.path), small.env).validate_metadata()


@pytest.fixture
def lying(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return what makes records of one kind and column say something else from now on."""

    def lie(record_type: RecordType, column: str, changes: dict[str, object]) -> None:
        encode = metadata_avro.encode_statistics

        def encoded(statistics: ColumnStatistics, written: RecordType) -> bytes:
            is_wrong = written is record_type and statistics.column == column
            return encode(replace(statistics, **changes) if is_wrong else statistics, written)

        monkeypatch.setattr(metadata_avro, "encode_statistics", encoded)

    return lie


@pytest.mark.parametrize(
    ("count_max", "compared"),
    [(None, "pqrstu"), (6, "pqrstu"), (3, "pru"), (2, "pu"), (1, "p")],
)
def test_sample_of_partitions_is_spread_over_all(
    tmp_path: Path, count_max: int | None, compared: str
) -> None:
    small = SmallTable(tmp_path / "t")
    small.upsert([{"id": part, "part": part, "a": 1} for part in "pqrstu"])
    small.table = small.table.initialise_metadata(small.options().transaction)
    heard: list[str] = []
    found = small.table.validate_metadata(heard.append, count_max)
    assert "".join(heard) == compared
    assert found.files == len(compared)
    assert found.is_right


@pytest.mark.parametrize(("count_max", "looked_into"), [(None, 6), (6, 6), (3, 3), (1, 1)])
def test_sample_of_file_groups_is_looked_into(
    tmp_path: Path, lying: Callable[..., None], count_max: int | None, looked_into: int
) -> None:
    small = SmallTable(tmp_path / "t", replace(CONFIG, partition_fields=(), bucket_count=6))
    small.table = small.table.initialise_metadata(small.options().transaction)
    lying(FILES, "a", {"low": -5, "high": -1})
    small.upsert([{"id": str(number), "a": 1} for number in range(60)])
    found = table.open_table(str(small.path), small.env).validate_metadata(groups_max=count_max)
    assert found.files == 6
    assert found.files_read == looked_into
    assert len(found.statistics) == looked_into


@pytest.mark.parametrize("case", LIES)
def test_what_statistics_of_log_files_and_partitions_exclude_is_a_difference(
    case: str, small: SmallTable, lying: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    record_type, changes, stated = LIES[case]
    lying(record_type, "a", changes)
    small.upsert([{"id": "0", "part": "p0", "a": 0, "b": "x"}, ROWS[1]])
    monkeypatch.undo()
    (wrong,) = [each for each in validated(small).statistics if each.path.startswith("p0")]
    assert (".log." in wrong.path) == (record_type is FILES)
    assert (wrong.column, wrong.metadata_range, wrong.file_range) == (
        "a",
        stated,
        "0 to 0, 0 nulls",
    )
    assert wrong.is_relied_on


def test_what_statistics_of_base_files_exclude_is_a_difference(
    small: SmallTable, lying: Callable[..., None]
) -> None:
    small.upsert(ROWS)
    lying(FILES, "a", {"low": 7, "high": 7})
    assert small.compact() is not None
    found = validated(small)
    assert not found.differences
    assert found.statistics
    assert {each.column for each in found.statistics} == {"a"}
    assert {each.path.rpartition(".")[2] for each in found.statistics} == {"parquet"}


def test_null_that_is_excluded_is_a_difference(
    small: SmallTable, lying: Callable[..., None]
) -> None:
    lying(FILES, "b", {"nulls": 0})
    small.upsert(ROWS)
    (north, south) = validated(small).statistics
    assert {north.metadata_range, south.metadata_range} == {"'x' to 'x', 0 nulls"}
    assert {north.file_range, south.file_range} == {"'x' to 'x', 1 nulls"}


def test_partition_without_a_record_of_one_column_is_a_difference(
    small: SmallTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_files = partition_statistics.of_files

    def without(path: str, files: Sequence[ColumnStatistics]) -> tuple[ColumnStatistics, ...]:
        return tuple(each for each in of_files(path, files) if each.column != "a")

    with monkeypatch.context() as patch:
        patch.setattr(partition_statistics, "of_files", without)
        small.upsert(ROWS)
    found = validated(small).statistics
    assert [(each.path, each.column, each.metadata_range) for each in found] == [
        ("p0", "a", "missing"),
        ("p1", "a", "missing"),
    ]
    transaction = small.options().transaction
    small.table = small.table.initialise_metadata(transaction, is_rebuilt=True)
    assert validated(small).is_right


ALONE = replace(CONFIG, chain=table_config.ChainName(id="c"), has_foreign_writers=False)


@pytest.mark.parametrize("config", [CONFIG, ALONE], ids=["shared", "alone"])
def test_partition_that_is_older_than_a_column_is_no_damage(
    tmp_path: Path, config: table_config.TableConfig
) -> None:
    small = SmallTable(tmp_path / "t", config)
    small.table = small.table.initialise_metadata(small.options().transaction)
    small.upsert(ROWS)
    grown = pa.table({"id": ["0"], "part": ["p0"], "later": pa.array([5], pa.int64())})
    small.table.write(grown, small.options(adds_columns=True))
    found = validated(small)
    assert found.is_right
    assert [(each.path, each.column, each.is_relied_on) for each in found.statistics] == [
        ("p1", "later", False)
    ]
    opened = table.open_table(str(small.path), small.env)
    for condition, count in (("later is null", 7), ("later = 5", 1), ("later != 5", 0)):
        rows = opened.read(where=where.parse(condition)).read_all()
        assert rows.num_rows == count, condition
    small.table = opened
    small.upsert([{**row, "later": 6} for row in ROWS if row["part"] == "p1"])
    assert not validated(small).statistics


def test_more_than_there_is_is_no_difference(small: SmallTable, lying: Callable[..., None]) -> None:
    lying(FILES, "a", {"low": -9, "high": 99, "nulls": 3})
    small.upsert(ROWS)
    found = validated(small)
    assert found.is_right
    assert found.files_read == found.files


def test_file_that_cannot_be_read_is_a_difference(small: SmallTable) -> None:
    small.upsert(ROWS)
    assert small.compact() is not None
    broken = next(small.path.glob("p0/*.parquet"))
    content = broken.read_bytes()
    broken.write_bytes(content[:-4] + b"XXXX")
    (wrong,) = validated(small).statistics
    assert wrong.path == f"p0/{broken.name}"
    assert "not a readable parquet file" in wrong.file_range


HARMLESS = {
    # What Apache Hudi takes from footers: texts beside nulls, and fractions with 0 between bounds.
    "text beside nulls": ("b", FILES, {"high": "w"}),
    "zero": ("single", FILES, {"low": 0.0, "high": 0.0}),
    "bytes": ("raw", FILES, {"low": b"\xff", "high": b"\x00"}),
    # As it orders them by UTF-16: no filter with such a text asks the bounds.
    "text": ("wide", FILES, {"high": "\uffee"}),
    "nulls of a partition": ("b", PARTITIONS, {"nulls": 0}),
    "bytes of a partition": ("raw", PARTITIONS, {"high": b"\x00"}),
}
"""Statistics that exclude values, and by which no read leaves anything out."""
WIDE = {"single": 1.5, "raw": b"\x01\xff", "wide": "\U00010000"}


@pytest.mark.parametrize("case", HARMLESS)
def test_what_reads_do_not_rely_on_is_told_and_is_no_damage(
    case: str, tmp_path: Path, lying: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    column, record_type, changes = HARMLESS[case]
    small = SmallTable(tmp_path / "t", single="float32", raw="binary", wide="string")
    small.table = small.table.initialise_metadata(small.options().transaction)
    lying(record_type, column, changes)
    small.upsert([{**row, **WIDE} for row in ROWS])
    assert small.compact() is not None
    monkeypatch.undo()
    found = validated(small)
    wrong = [each for each in found.statistics if ".log." not in each.path]
    assert wrong
    assert {(each.column, each.is_relied_on) for each in wrong} == {(column, False)}
    checked = table.open_table(str(small.path), small.env).check(
        small.options().transaction.settings
    )
    of_column = [each for each in checked if each.subject == f"column {column}"]
    assert [each.severity for each in of_column] == [results.Severity.NOTE]
    assert "reads of this project do not rely on such statistics" in of_column[0].message


def test_table_without_foreign_writers_has_no_statistics_that_are_not_relied_on(
    tmp_path: Path, lying: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = replace(CONFIG, chain=table_config.ChainName(id="c"), has_foreign_writers=False)
    small = SmallTable(tmp_path / "t", alone, single="float32")
    small.table = small.table.initialise_metadata(small.options().transaction)
    lying(FILES, "single", {"low": 0.0, "high": 0.0})
    small.upsert([{**row, "single": 1.5} for row in ROWS])
    assert small.compact() is not None
    monkeypatch.undo()
    wrong = [each for each in validated(small).statistics if ".log." not in each.path]
    assert {each.is_relied_on for each in wrong} == {True}


def test_columns_that_partial_rows_leave_as_they_are_have_no_nulls_by_them(
    small: SmallTable, lying: Callable[..., None]
) -> None:
    small.upsert([{**row, "b": "x"} for row in ROWS])
    # Apache Hudi counts nulls of what a block has alone.
    lying(PARTITIONS, "b", {"nulls": 0})
    small.upsert([{"id": row["id"], "part": row["part"], "a": 1} for row in ROWS])
    assert validated(small).statistics == ()
