"""A new table's schema comes from a file that a user wrote, or somebody hostile."""

import json
import re
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from hoodie import errors
from hoodie.cli import schema_files
from hoodie.model import schemas


def avro(*fields: object) -> str:
    return json.dumps({"type": "record", "name": "trip", "fields": fields})


def field(kind: object, name: str = "a") -> dict[str, object]:
    return {"name": name, "type": kind}


def test_avro_schema_is_taken_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "trips.avsc"
    text = avro(field("string", "id"), field(["null", "double"], "fare"))
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    schema = schema_files.read(f"file://{path}", "trips", {}).schema
    assert schema.avro == text
    assert schema.arrow == pa.schema(
        [pa.field("id", pa.string(), nullable=False), pa.field("fare", pa.float64())]
    )


def test_parquet_columns_become_a_schema_without_hudis_own(tmp_path: Path) -> None:
    path = tmp_path / "day1.parquet"
    columns = pa.schema([*schemas.meta_fields(), pa.field("id", pa.int64())])
    parquet.write_table(columns.empty_table(), path)
    schema = schema_files.read(str(path), "trips", {}).schema
    assert schema.arrow == pa.schema([pa.field("id", pa.int64())])
    assert json.loads(schema.avro)["name"] == "trips_record"


NESTED = '{"type":"array","items":' * 900 + '"int"' + "}" * 900
BAD_SCHEMAS = {
    "empty": "",
    "no JSON": "{",
    "no record": '["int"]',
    "no fields": '{"type": "record", "name": "trip"}',
    "empty fields": avro(),
    "nested JSON": "[" * 100_000,
    "nested types": avro(field("int")).replace('"int"', NESTED),
    "unknown type": avro(field("integer")),
    "name with a blank": avro(field("int", "a b")),
    "name with control codes": avro(field("int", "a\x1b[31m")),
    "two of one name": avro(field("int"), field("long")),
    "two but for case": avro(field("int"), field("int", "A")),
    "ill-typed default": avro({**field("int"), "default": "x"}),
    "default that is no JSON": avro({**field("double"), "default": float("nan")}),
}


@pytest.mark.parametrize("text", BAD_SCHEMAS.values(), ids=BAD_SCHEMAS)
def test_bad_schema_is_refused_by_the_name_of_its_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad.avsc"
    path.write_text(text)
    with pytest.raises(errors.InvalidInputError, match=re.escape(f"schema {path}: ")):
        schema_files.read(str(path), "trips", {})


@pytest.mark.parametrize(
    "kind",
    [
        ["int", "string"],
        {"type": "int", "logicalType": "time-millis"},
        {"type": "array", "items": ["int", "string"]},
        {"type": "bytes", "logicalType": "decimal", "precision": 0},
    ],
)
def test_column_of_a_type_that_no_table_holds_is_refused(tmp_path: Path, kind: object) -> None:
    path = tmp_path / "odd.avsc"
    path.write_text(avro(field(kind)))
    with pytest.raises(errors.UnsupportedError, match="column 'a' is"):
        schema_files.read(str(path), "trips", {})


def test_file_that_is_no_schema_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.avsc").write_bytes(b"\xff\xfe{")
    (tmp_path / "rows.parquet").write_bytes(b"PAR1 no more")
    (tmp_path / "folder.avsc").mkdir()
    (tmp_path / "endless.avsc").symlink_to("/dev/zero")
    for name, complaint in (
        ("text.avsc", "is not UTF-8 at byte 0"),
        ("rows.parquet", "schema"),
        ("folder.avsc", "is a folder"),
        ("endless.avsc", "is longer than 16 MiB"),
        ("trips.txt", "unknown file name extension"),
    ):
        with pytest.raises(errors.InvalidInputError, match=complaint):
            schema_files.read(str(tmp_path / name), "trips", {})
    with pytest.raises(errors.NotFoundError, match="there is no such file"):
        schema_files.read(str(tmp_path / "none.avsc"), "trips", {})
    with pytest.raises(errors.UnsupportedError, match="expected a local file"):
        schema_files.read("s3://bucket/trips.avsc", "trips", {})
