"""`init`: the manifests for somebody's files are valid, and of the columns that the files have."""

from pathlib import Path

import pyarrow as pa
import pytest

from hoodie import errors
from hoodie.model import schemas
from hoodie_operator import __main__ as program
from hoodie_operator.api import hudi_table, manifests, writer
from hoodie_operator.standalone import drafting

COLUMNS = pa.schema(
    [("id", pa.int64()), ("when", pa.timestamp("us", "UTC")), ("price", pa.decimal128(10, 2))]
)


def _draft(
    columns: pa.Schema, table_type: hudi_table.TableType, ordering: tuple[str, ...] = ()
) -> dict[str, manifests.Manifest]:
    draft = drafting.Draft(
        name="trips",
        columns=columns,
        record_key=("id",),
        partition_by=(),
        ordering=ordering,
        table_type=table_type,
        source={"path": "in/*.csv.gz", "format": "CSV", "csv": {"delimiter": "\t"}},
    )
    found, problems = manifests.parse(drafting.text(draft).encode(), "trips.yaml")
    assert not problems
    return {manifest.key.kind: manifest for manifest in found}


@pytest.mark.parametrize("table_type", hudi_table.TableType)
@pytest.mark.parametrize("ordering", [(), ("when",)])
def test_manifests_are_valid(table_type: hudi_table.TableType, ordering: tuple[str, ...]) -> None:
    found = _draft(COLUMNS, table_type, ordering)
    is_mor = table_type is hudi_table.TableType.MERGE_ON_READ
    assert ("CompactionPolicy" in found) == is_mor
    table = found["HudiTable"].spec
    assert isinstance(table, hudi_table.HudiTableSpec)
    assert table.schema_.columns is not None
    assert [(each.name, each.type) for each in table.schema_.columns] == [
        ("id", "long"),
        ("when", "timestamp"),
        ("price", "decimal(10, 2)"),
    ]
    assert table.keys.ordering_fields == ordering
    source = found["Writer"].spec
    assert isinstance(source, writer.WriterSpec)
    assert source.source.files.csv == writer.Csv(delimiter="\t")


def test_columns_that_have_no_name_of_a_type_are_an_avro_schema() -> None:
    columns = COLUMNS.append(pa.field("tags", pa.list_(pa.string())))
    table = _draft(columns, hudi_table.TableType.COPY_ON_WRITE)["HudiTable"].spec
    assert isinstance(table, hudi_table.HudiTableSpec)
    assert table.schema_.avro is not None
    assert schemas.from_avro(table.schema_.avro).arrow == schemas.from_arrow(columns, "trips").arrow


@pytest.fixture
def trips(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with files of trips, in which the command runs."""
    (tmp_path / "in trips").mkdir()
    for number in (1, 2):
        rows = f"id;price\n{number};1.5\n"
        (tmp_path / "in trips" / f"{number}.csv").write_text(rows.replace(";", ","))
    (tmp_path / "other.csv").write_text("id,price\n3,2.5\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_command_names_the_folder_of_its_files(
    trips: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert program.main(["init", "in trips/*.csv", "--record-key", "id", "--type", "COW"]) == 0
    (trips / "trips.yaml").write_text(capsys.readouterr().out)
    assert program.main(["validate", "-f", "trips.yaml"]) == 0
    printed = (trips / "trips.yaml").read_text()
    assert "{path: in trips/*.csv, format: CSV}" in printed
    assert "storage: {path: lake/in-trips}" in printed


def test_columns_get_other_names(trips: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (trips / "odd.csv").write_text("Trip ID,price\n1,2.5\n")
    assert program.main(["init", "odd.csv", "--record-key", "Trip_ID"]) != 0
    assert "by --rename 'Trip_ID=Trip ID'" in capsys.readouterr().err
    assert program.main(["init", "odd.csv", "--record-key", "id", "--rename", "id=Trip ID"]) == 0
    found, problems = manifests.parse(capsys.readouterr().out.encode(), "odd.yaml")
    assert not problems
    specs = {each.key.kind: each.spec for each in found}
    table, source = specs["HudiTable"], specs["Writer"]
    assert isinstance(table, hudi_table.HudiTableSpec)
    assert isinstance(source, writer.WriterSpec)
    assert [each.name for each in table.schema_.columns or ()] == ["id", "price"]
    assert source.source.files.columns == {"id": "Trip ID", "price": "price"}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["other.csv", "--record-key", "idx"], "there is no column 'idx'"),
        (["none.csv", "--record-key", "id"], "none.csv"),
        (["other.csv", "--record-key", "id", "--name", "My Trips"], "--name 'My Trips': expected"),
        (["other.csv", "in trips/1.csv", "--record-key", "id"], "expected those of one Writer"),
        (["other.txt", "--record-key", "id"], "other.txt"),
    ],
)
def test_what_cannot_be_is_a_sentence(
    trips: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    assert program.main(["init", *arguments]) in (
        errors.InvalidInputError.exit_code,
        errors.NotFoundError.exit_code,
    )
    printed = capsys.readouterr()
    assert printed.out == ""
    assert told in printed.err
    assert "Traceback" not in printed.err
