"""Names that a user of PyIceberg or delta-rs tries first: the error has the right one."""

import copy
import inspect
import pickle
import re
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest

import hoodie
from hoodie import guesses, table
from hoodie.door import front, inspecting, maintaining, scans, transactions
from hoodie.model import schemas
from hoodie.read import change_data, changes, history


@pytest.fixture
def trips(tmp_path: Path) -> hoodie.Table:
    return hoodie.create_table(tmp_path / "trips", {"id": pa.string(), "fare": pa.float64()}, "id")


@pytest.mark.parametrize(
    ("owner", "name", "told"),
    [
        ("hoodie", "load_table", "hoodie.open_table(uri)"),
        ("hoodie", "DeltaTable", "hoodie.open_table(uri)"),
        ("hoodie", "open_tabel", "did you mean open_table?"),
        ("hoodie", "HudiTable", "hoodie.open_table(uri)"),
        ("hoodie", "table_exists", "hoodie.errors.NotFoundError"),
        ("hoodie", "drop_table", "`hoodie drop URI`"),
        ("hoodie", "read_hudi_table", "; what may do it here: hoodie.open_table(uri)"),
        ("trips", "to_pandas", "scan().to_pandas()"),
        ("trips.schema", "to_arrow", "what does it here: arrow"),
        ("trips.changes()", "to_pandas", "read().read_pandas()"),
        ("trips.change_data()", "to_arrow", "read().read_all()"),
        ("trips.history('1')", "to_arrow", "read().read_all()"),
        ("trips.transaction('a', 1)", "append", "insert(rows), or upsert(rows)"),
        ("trips.transaction('a', 1)", "commit_transaction", "the end of the `with` block commits"),
        ("trips.maintain", "restore", "Table.overwrite(table.scan(as_of=...))"),
        ("trips", "append", "insert(rows)"),
        ("trips", "vacuum", "maintain.clean()"),
        ("trips", "snapshots", "inspect.timeline()"),
        ("trips", "upsrt", "did you mean upsert?"),
        ("trips.scan()", "to_df", "to_pandas()"),
        ("trips.scan()", "plan_files", "explain()"),
        ("trips.scan()", "to_arow", "did you mean to_arrow?"),
        ("trips.inspect", "snapshots", "timeline()"),
        ("trips.maintain", "vacuum", "clean()"),
        ("trips.maintain", "rollback", "roll_back()"),
    ],
)
def test_name_that_others_have_is_answered_with_ours(
    trips: hoodie.Table, owner: str, name: str, told: str
) -> None:
    found = eval(owner, {"hoodie": hoodie, "trips": trips})
    with pytest.raises(AttributeError, match=re.escape(told)) as caught:
        getattr(found, name)
    assert f"has no attribute {name!r}" in str(caught.value)
    assert not hasattr(found, name)
    assert not hasattr(found, "_ipython_canary_method_should_not_exist_")


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ("trips.scan(row_filter='fare > 1')", "Table.scan() got an unexpected keyword"),
        ("trips.scan(row_filter='fare > 1')", "expected where="),
        ("trips.upsert([], join_cols=['id'])", "matched by the table's record key"),
        ("trips.dataset(columns=['id'])", "scan(columns, where).dataset()"),
        ("trips.schema()", "schema.arrow is the schema as pyarrow has it"),
        ("trips.maintain.clean(retention_hours=1)", "expected keep_hours="),
        ("trips.maintain.compact(dryrun=True)", "did you mean dry_run=?"),
        ("trips.metadata()", "inspect.timeline() has what writes say of themselves"),
        ("trips.scan().to_duckdb(table_name='t')", "expected name="),
        ("pickle.dumps(trips)", "pickle its uri, or its dataset()"),
        ("trips.scan(selected_fields=['id'])", "expected columns="),
        ("trips.scan(colums=['id'])", "did you mean columns=?"),
        ("trips.scan(nope=1)", "its arguments are columns, where, as_of, read_optimized, limit"),
        ("trips.delete(delete_filter='fare > 1')", "expected where="),
        ("trips.update(updates={'fare': 1})", "expected values="),
        ("trips.upsert()", "its arguments are rows, batch_id, count"),
        ("trips.write([])", "upsert, insert and overwrite"),
        ("trips.compact()", "maintain.compact()"),
        ("trips.history()", "inspect.timeline()"),
        ("trips.transaction()", "app_id and batch_id name an input"),
        ("hoodie.Table('/tmp/x')", "hoodie.open_table(uri)"),
        ("hoodie.create_table('/tmp/x', {'id': 'int32'})", "record_key names the columns"),
        ("hoodie.create_table('/tmp/x', {}, primary_key='id')", "expected record_key="),
        ("hoodie.create_table('/tmp/x', {}, 'id', partition_spec='id')", "expected partition_by="),
        (
            "hoodie.create_table('/tmp/x', {}, 'id', exists_ok=True)",
            "it creates; hoodie.open_table(uri) opens a table that is there",
        ),
        ("hoodie.open_table(path='/tmp/x')", "expected uri="),
    ],
)
def test_argument_that_others_have_is_answered_with_ours(
    trips: hoodie.Table, call: str, told: str
) -> None:
    with pytest.raises(TypeError, match=re.escape(told)):
        eval(call, {"hoodie": hoodie, "trips": trips, "pickle": pickle})


def test_import_of_a_name_that_others_have_is_answered_with_ours() -> None:
    told = re.escape("cannot import name 'DeltaTable' from 'hoodie'; what does it here: hoodie.op")
    with pytest.raises(ImportError, match=told):
        exec("from hoodie import DeltaTable")
    with pytest.raises(ImportError, match="did you mean open_table"):
        exec("from hoodie import open_tabel")
    with pytest.raises(ImportError, match=r"cannot import name '_x' from 'hoodie' \("):
        exec("from hoodie import _x")


def test_error_of_the_type_inside_a_call_is_left_as_it_is() -> None:
    @guesses.of_arguments()
    def fails(rows: object) -> None:
        raise TypeError(f"not {rows}")

    with pytest.raises(TypeError, match=r"^not 1$"):
        fails(1)


def test_property_that_fails_says_what_failed() -> None:
    @guesses.of_names({})
    class Failing:
        @property
        def good(self) -> object:
            return getattr(object(), "inner")  # noqa: B009 - one that types do not have

    with pytest.raises(AttributeError, match="inner"):
        _ = Failing().good


def test_guesses_are_no_names_of_ours_and_answers_are() -> None:
    """Where an answer begins with a name, that is one of the class that is asked."""
    classes: list[tuple[type, Mapping[str, str]]] = [
        (table.Table, guesses.TABLE),
        (scans.Scan, guesses.SCAN),
        (inspecting.Inspection, guesses.INSPECT),
        (maintaining.Maintenance, guesses.MAINTAIN),
        (transactions.Transaction, guesses.TRANSACTION),
        (schemas.TableSchema, guesses.SCHEMA),
        (changes.Changes, guesses.READER),
        (change_data.ChangeData, guesses.READER),
        (history.History, guesses.READER),
    ]
    for owner, meant in classes:
        names = {*dir(owner), *getattr(owner, "__slots__", ()), "config", "schema"}
        assert not names & set(meant)
        for answer in meant.values():
            start = re.match(r"(?:Table\.)?(\w+)(?=[(.=]|$)", answer)
            known = {*dir(table.Table), "config"} if answer.startswith("Table.") else names
            others = {"hoodie_jobs", "polars", "nothing"}
            assert start is None or start[1] in {*known, *others}, answer
    assert not set(guesses.MODULE) & set(hoodie.__all__)


def test_signatures_copies_and_pickles_are_as_before(trips: hoodie.Table) -> None:
    assert list(inspect.signature(front.Front.scan).parameters)[:3] == ["self", "columns", "where"]
    scan = trips.scan()
    assert copy.copy(scan).schema == scan.schema
    assert pickle.loads(pickle.dumps(trips.dataset())).schema == scan.schema


def test_version_is_that_of_the_distribution() -> None:
    assert re.fullmatch(r"\d+\.\d+.*", hoodie.__version__)
