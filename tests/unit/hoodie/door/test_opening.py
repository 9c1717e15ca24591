"""`hoodie.create_table` and `hoodie.open_table`: what a stranger types first."""

import ast
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import hoodie
from hoodie import errors
from hoodie.door import columns, writers
from hoodie.model import settings, table_config
from hoodie.storage import locations, store_options
from hoodie.transaction.locks import addresses

COLUMNS = {"id": pa.string(), "city": pa.string(), "at": pa.timestamp("us")}


def test_table_that_was_created_is_opened_by_its_path(tmp_path: Path) -> None:
    made = hoodie.create_table(
        tmp_path / "trips", COLUMNS, "id", partition_by="city", ordering="at", buckets=2
    )
    found = hoodie.open_table(tmp_path / "trips")
    assert found.uri == made.uri == (tmp_path / "trips").as_uri()
    assert found.schema.arrow == pa.schema(COLUMNS)
    assert found.config == made.config
    assert found.config.record_key_fields == ("id",)
    assert found.config.merge_mode is table_config.MergeMode.EVENT_TIME
    assert found.config.chain is not None
    assert repr(found) == f"<hoodie.Table trips in {found.uri}: 3 columns, key id>"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (pa.schema([("id", pa.int64())]), pa.int64()),
        (pa.table({"id": [1]}), pa.int64()),
        (pa.table({"id": [1]}).to_reader(), pa.int64()),
        (pl.DataFrame({"id": ["a"]}), pa.string()),
        (pd.DataFrame({"id": pd.Categorical(["a", "b"])}), pa.string()),
        (pd.DataFrame({"x": [1]}, index=pd.Index(["a"], name="id")), pa.string()),
        (pd.DataFrame({"id": pd.to_datetime(["2026-01-01"])}), pa.timestamp("us")),
        ({"id": pa.list_(pa.timestamp("ns"))}, pa.list_(pa.timestamp("us"))),
        ({"id": "int32"}, pa.int32()),
        ({"id": "long"}, pa.int64()),
        ({"id": "timestamp"}, pa.timestamp("us", "UTC")),
        ({"id": "decimal(10, 2)"}, pa.decimal128(10, 2)),
    ],
)
def test_columns_are_those_of_a_schema_or_of_data(
    tmp_path: Path, given: object, expected: pa.DataType
) -> None:
    found = columns.schema_of(given)
    key = pa.schema([pa.field("key", pa.string())])
    made = hoodie.create_table(tmp_path / "t", pa.unify_schemas([key, found]), "key")
    assert made.schema.arrow.field("id").type == expected


@pytest.mark.parametrize(
    ("given", "error", "complaint"),
    [
        (
            3,
            errors.InvalidInputError,
            "schema is of type int, expected a pyarrow.Schema, or data with",
        ),
        (pa.schema([("id", pa.null())]), errors.InvalidInputError, "'id' has nulls alone"),
        (
            pd.DataFrame({"id": [1, "x"]}),
            errors.InvalidInputError,
            "column 'id' has values of different types",
        ),
        (pd.DataFrame({0: [1]}), errors.InvalidInputError, "a column named 0, expected texts"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), errors.InvalidInputError, "'a' twice"),
        (
            {"id": "nope"},
            errors.InvalidInputError,
            "schema: column 'id': type 'nope' is not known, expected string, int, long, float",
        ),
        ({"id": "dat"}, errors.InvalidInputError, "did you mean date?"),
        ({"id": str}, errors.InvalidInputError, "column 'id' has the type <class 'str'>, expected"),
        ({3: "string"}, errors.InvalidInputError, "schema: 3 is not a name"),
        ({"ID": "string"}, errors.InvalidInputError, "its columns are ID; did you mean 'ID'?"),
        ({"a b": "string"}, errors.InvalidInputError, "'a b' is not a valid name"),
        (
            {"id": pa.duration("s")},
            errors.UnsupportedError,
            "duration[s]: this type is not supported, cast it to int64",
        ),
        ({"id": pa.uint64()}, errors.UnsupportedError, "cast it to decimal128(20, 0)"),
        ({"id": pa.time64("us")}, errors.UnsupportedError, "cast it to string"),
        ({"x": "string"}, errors.InvalidInputError, "record_key 'id': the schema has no such"),
    ],
)
def test_columns_that_make_no_table_are_refused(
    tmp_path: Path, given: object, error: type[Exception], complaint: str
) -> None:
    with pytest.raises(error, match=re.escape(complaint)):
        hoodie.create_table(tmp_path / "t", given, "id")
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    ("arguments", "error", "complaint"),
    [
        (
            {"record_key": []},
            errors.InvalidInputError,
            "expected the columns that identify a row, or index simple or bloom",
        ),
        (
            {"record_key": (), "index": "global-bloom"},
            errors.InvalidInputError,
            "record_key is empty",
        ),
        (
            {"index": "global-simple", "partial_updates": True},
            errors.ConfigurationError,
            "expected keep_partitions, or an index that is not global",
        ),
        ({"record_key": None}, errors.InvalidInputError, "record_key is empty: expected the"),
        ({"record_key": 3}, errors.InvalidInputError, "record_key is of type int, expected names"),
        ({"record_key": ["id", "id"]}, errors.InvalidInputError, "'id' is given twice"),
        ({"buckets": 0}, errors.InvalidInputError, "buckets is 0, expected 1 or more"),
        ({"table_type": "xow"}, errors.InvalidInputError, "expected one of 'mor', 'cow'"),
        ({"index": "hash"}, errors.InvalidInputError, "index is 'hash', expected one of"),
        ({"concurrency": "both"}, errors.InvalidInputError, "expected one of single-writer"),
        ({"lock": "zoo"}, errors.InvalidInputError, "'zoo' is not a lock"),
        ({"settings": {"a.b": "c"}}, errors.ConfigurationError, "unknown key a.b"),
        (
            {"settings": {"hoodie.parquet.compresion.codec": "zstd"}},
            errors.ConfigurationError,
            "did you mean 'hoodie.parquet.compression.codec'?",
        ),
        (
            {"concurrency": "occ", "lock": "in-process"},
            errors.ConfigurationError,
            "it excludes no other process",
        ),
        ({"index": "simple", "buckets": 3}, errors.ConfigurationError, "buckets 3 with index"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(
    tmp_path: Path, arguments: dict[str, object], error: type[Exception], complaint: str
) -> None:
    given = {"schema": COLUMNS, "record_key": "id", **arguments}
    with pytest.raises(error, match=re.escape(complaint)):
        hoodie.create_table(tmp_path / "t", **given)
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    ("uri", "error", "complaint"),
    [
        ("/nowhere/t", errors.NotFoundError, "there is no table in file:///nowhere/t"),
        ("hdfs://host/t", errors.UnsupportedError, "unsupported scheme hdfs: expected one of"),
        ("s3:/bucket/t", errors.InvalidInputError, "two slashes behind s3"),
        ("", errors.InvalidInputError, "is not a table location"),
        (3, errors.InvalidInputError, "URI is of type int, expected a text or a path"),
    ],
)
def test_place_without_a_table_is_refused(uri: str, error: type[Exception], complaint: str) -> None:
    with pytest.raises(error, match=re.escape(complaint)):
        hoodie.open_table(uri)


def test_table_is_not_created_twice(tmp_path: Path) -> None:
    hoodie.create_table(tmp_path / "t", COLUMNS, "id")
    with pytest.raises(errors.AlreadyExistsError, match="there already is a table in"):
        hoodie.create_table(tmp_path / "t", COLUMNS, "id")


def test_writer_is_the_one_that_was_described(tmp_path: Path) -> None:
    hoodie.create_table(tmp_path / "t", COLUMNS, "id")
    opened = hoodie.open_table(
        tmp_path / "t",
        concurrency="nbcc",
        settings={
            "hoodie.parquet.compression.codec": "zstd",
            "hoodie.compact.inline.max.delta.commits": "7",
        },
    )
    writer = opened._writer
    assert writer.transaction.settings.concurrency is settings.ConcurrencyMode.NON_BLOCKING
    assert writer.transaction.settings.parquet_codec == "zstd"
    assert writer.transaction.author.writer_id
    assert writer.compaction.delta_commits == 7
    assert writer.transaction.lock == addresses.FileSystemAddress()


def test_lock_is_in_the_storage_of_the_table() -> None:
    kinds = {
        "memory://lock/t": addresses.InProcessAddress,
        "s3://bucket/t": addresses.StorageAddress,
        "/t": addresses.FileSystemAddress,
    }
    assert {uri: type(writers.lock_of(uri)) for uri in kinds} == kinds


def test_uri_brings_its_storage_options_to_other_processes() -> None:
    options = {"region": "eu", "AWS_ALLOW_HTTP": "true", "skip_signature": "true"}
    opened = locations.open_storage("s3://bucket/t", options=options)
    there = pickle.loads(pickle.dumps(opened.uri))
    assert there == "s3://bucket/t"
    assert store_options.of_uri(there) == options
    assert store_options.of_uri(locations.open_storage(there).uri) == options
    assert store_options.of_uri(pickle.loads(pickle.dumps(opened)).uri) == options


@pytest.mark.parametrize(
    ("uri", "options", "complaint"),
    [
        ("s3://bucket/t", {"nope": "SECRET"}, "'nope' is not valid for store 'S3'. Expected the"),
        ("s3://bucket/t", {"allow_http": "SECRET"}, "storage options allow_http: a value is"),
        (
            "s3://bucket/t",
            {"endpoint": "a", "aws_endpoint": "SECRET"},
            "storage options aws_endpoint, endpoint",
        ),
        ("s3://bucket/t", {"aws_region": 3}, "storage_options['aws_region'] is a int"),
        ("s3://bucket/t", ["SECRET"], "storage_options is a list, expected a dict of texts"),
        ("/t", {"aws_region": "eu"}, "takes no storage_options: they are for object stores"),
    ],
)
def test_storage_options_that_are_not_known_are_refused_without_their_values(
    uri: str, options: dict[str, str], complaint: str
) -> None:
    with pytest.raises(errors.HoodieError, match=re.escape(complaint)) as caught:
        hoodie.open_table(uri, options)
    assert "SECRET" not in str(caught.value)


def test_stub_names_what_the_package_has() -> None:
    stub = ast.parse(Path(hoodie.__file__).with_suffix(".pyi").read_text())
    homes = {
        alias.name: f"hoodie.{alias.name}" if node.module == "hoodie" else node.module
        for node in stub.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert homes == vars(hoodie)["_HOMES"]
    assert sorted(homes) == hoodie.__all__
    assert [getattr(hoodie, name) for name in hoodie.__all__]
    assert set(hoodie.__all__) <= set(dir(hoodie))
    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        getattr(hoodie, "no" + "pe")


def test_importing_hoodie_imports_nothing_else() -> None:
    """What it takes beyond Python's own start is a millisecond."""
    code = (
        "import sys; import hoodie; "
        "found = [each for each in sys.modules if each.partition('.')[0] in "
        "('hoodie', 'pyarrow', 'pandas', 'numpy', 'obstore')]; print(found)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "['hoodie']"
