"""Writes of a `Table` by people: rows in any form, one commit each, and what is refused."""

import dataclasses
import datetime
import re
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Literal

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import dataset

import hoodie
from hoodie import errors
from hoodie.door import inputs, outcomes
from hoodie.filegroup import writing
from hoodie.model import commits, results
from hoodie.storage import protocol as storage_protocol
from hoodie.write import sessions, streaming

COLUMNS = {
    "id": pa.string(),
    "city": pa.string(),
    "n": pa.int64(),
    "f": pa.float64(),
    "at": pa.timestamp("us"),
}
TIME = datetime.datetime(2026, 1, 1, 12)  # noqa: DTZ001 - of a column without a zone
ROWS = [
    {"id": str(n), "city": ["Oslo", "Rome"][n % 2], "n": n, "f": n / 2, "at": TIME}
    for n in range(6)
]


@pytest.fixture
def trips(tmp_path: Path) -> hoodie.Table:
    return hoodie.create_table(tmp_path / "t", COLUMNS, "id", buckets=2, foreign_writers=False)


@pytest.fixture
def parted(tmp_path: Path) -> hoodie.Table:
    made = hoodie.create_table(
        tmp_path / "p", COLUMNS, "id", partition_by="city", buckets=2, foreign_writers=False
    )
    made.upsert(ROWS)
    return made


def rows_of(table: hoodie.Table) -> list[dict[str, object]]:
    return table.scan().to_arrow().sort_by("id").to_pylist()


def arrow() -> pa.Table:
    return pa.Table.from_pylist(ROWS, pa.schema(COLUMNS))


def frame() -> pd.DataFrame:
    made = arrow().to_pandas()
    return made.assign(city=made["city"].astype("category"), at=made["at"].astype("datetime64[ns]"))


class Capsule:
    """Anything that gives a stream."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return arrow().__arrow_c_stream__(requested_schema)


FORMS = {
    "table": arrow,
    "reader": lambda: arrow().to_reader(),
    "batch": lambda: arrow().combine_chunks().to_batches()[0],
    "dataset": lambda: dataset.dataset(arrow()),
    "scanner": lambda: dataset.dataset(arrow()).scanner(),
    "generator": lambda: (each for each in arrow().to_batches(max_chunksize=2)),
    "tables": lambda: [arrow().slice(0, 2), arrow().slice(2)],
    "pandas": frame,
    "pandas by index": lambda: frame().set_index("id"),
    "polars": lambda: pl.from_arrow(arrow()),
    "polars categories": lambda: pl.from_arrow(arrow()).cast({"city": pl.Categorical}),
    "capsule": Capsule,
    "data frames": lambda: (frame().iloc[at : at + 2] for at in range(0, 6, 2)),
    "parts of a lazy frame": lambda: pl.from_arrow(arrow()).lazy().collect_batches(),
    "frames of polars": lambda: iter([pl.from_arrow(arrow())]),
    "generator of dicts": lambda: iter(ROWS),
    "dicts": lambda: ROWS,
    "lists": lambda: arrow().to_pydict(),
}


@pytest.mark.parametrize("form", FORMS)
def test_rows_of_every_form_are_written(trips: hoodie.Table, form: str) -> None:
    done = trips.upsert(FORMS[form]())
    assert rows_of(trips) == ROWS
    assert (done.rows, done.inserted, done.updated, done.deleted) == (6, 6, 0, 0)
    (instant,) = trips.timeline().completed_writes
    assert (done.instant, done.completed) == (instant.requested_time, instant.completion_time)
    assert done.files == 2
    assert done.size_bytes > 0
    assert done.took_ms >= 0


def test_columns_of_runs_are_those_of_their_values(tmp_path: Path) -> None:
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array(["a", None]))
    rows = pa.table({"id": [1, 2, 3], "runs": runs})
    table = hoodie.create_table(tmp_path / "t", rows, "id")
    assert table.schema.arrow.field("runs").type == pa.string()
    table.upsert(rows)
    table.upsert(rows.slice(2).to_reader())
    found = table.scan().to_arrow().sort_by("id")
    assert found["runs"].to_pylist() == ["a", "a", None]


def test_maps_go_to_pandas_and_back(tmp_path: Path) -> None:
    columns = pa.schema([("id", pa.int64()), ("m", pa.map_(pa.string(), pa.int64()))])
    table = hoodie.create_table(tmp_path / "t", columns, "id")
    rows = [{"id": 1, "m": [("a", 1), ("b", None)]}, {"id": 2, "m": None}, {"id": 3, "m": []}]
    table.upsert(rows)
    table.upsert(table.scan().to_pandas())
    assert rows_of(table) == rows
    with pytest.raises(errors.InvalidInputError, match="column 'm' has values of different types"):
        table.upsert(pd.DataFrame({"id": [1], "m": [[("a", "x")]]}))


def test_relation_of_duckdb_is_written(trips: hoodie.Table) -> None:
    found = arrow()  # noqa: F841 - named in the query
    trips.upsert(duckdb.sql("select * from found where n > 1"))
    assert rows_of(trips) == ROWS[2:]


def test_upsert_counts_what_it_sees(tmp_path: Path) -> None:
    trips = hoodie.create_table(tmp_path / "t", COLUMNS, "id", table_type="cow", buckets=1)
    trips.upsert(ROWS[:2])
    done = trips.upsert(ROWS[1:4])
    assert (done.rows, done.inserted, done.updated) == (3, 2, 1)


def test_pandas_numbers_with_gaps_are_whole_again(trips: hoodie.Table) -> None:
    rows = pd.DataFrame({"id": ["1", "2"], "city": None, "n": [1, None], "f": [1, 2], "at": None})
    assert rows["n"].dtype == "float64"
    trips.upsert(rows)
    assert trips.scan(["n", "f"]).to_arrow().sort_by("f").to_pylist() == [
        {"n": 1, "f": 1.0},
        {"n": None, "f": 2.0},
    ]


def test_pandas_columns_without_a_value_are_of_any_type(trips: hoodie.Table) -> None:
    """A column of texts that are all missing is one of floating-point numbers in pandas."""
    rows = pd.DataFrame({"id": ["1"], "city": [float("nan")], "n": [None], "f": None, "at": pd.NaT})
    assert rows["city"].dtype == "float64"
    trips.upsert(rows)
    (row,) = rows_of(trips)
    assert row == {"id": "1", "city": None, "n": None, "f": None, "at": None}


NESTED = {
    "id": pa.string(),
    "s": pa.struct([("a", pa.int32()), ("at", pa.timestamp("us"))]),
    "l": pa.list_(pa.struct([("b", pa.int32())])),
    "m": pa.map_(pa.string(), pa.struct([("c", pa.int32())])),
}


def test_what_arrow_would_drop_of_dicts_is_refused(tmp_path: Path) -> None:
    nested = hoodie.create_table(tmp_path / "n", NESTED, "id", foreign_writers=False)
    fine = {"id": "1", "s": {"a": 1}, "l": [{"b": 2}, None], "m": {"k": {"c": 3}}}
    for wrong, complaint in (
        ({"s": {"a": 1, "z": 2}}, "column 's' has no field 'z'; its fields are a, at"),
        ({"s": {"at": ZONE_TIME}}, "column 's.at' is timestamp[us], and 2026-01-01T12:00:00+00:00"),
        ({"l": [{"b": 1}, {"B": 1}]}, "column 'l' has no field 'B'; its fields are b; did you"),
        ({"m": {"k": {"d": 1}}}, "column 'm' has no field 'd'; its fields are c"),
        ({"m": [[1, 2]]}, "column 'm' has a value that is not map"),
        ({"m": 3}, "column 'm' has a value that is not map"),
        ({"l": 3}, "column 'l' has a value that is not list"),
        ({"s": 3}, "column 's' has a value that is not struct"),
        ({"m": [("k", {"d": 1})]}, "column 'm' has no field 'd'; its fields are c"),
    ):
        with pytest.raises(errors.InvalidInputError, match=re.escape(complaint)):
            nested.upsert([fine, {**fine, **wrong}])
    nested.upsert([fine, {"id": "2", "s": None, "l": None, "m": [("k", {"c": 3})]}])
    first, second = rows_of(nested)
    assert first["l"] == [{"b": 2}, None]
    assert first["m"] == second["m"] == [("k", {"c": 3})]


def test_no_rows_are_no_commit(trips: hoodie.Table) -> None:
    assert trips.upsert(arrow().slice(0, 0)).instant is None
    assert trips.upsert([]).instant is None
    assert trips.timeline().instants == ()
    with pytest.raises(errors.InvalidInputError, match="'x' is not in the table"):
        trips.upsert(pa.table({"x": pa.array([], pa.int64())}))


ZONED = frame().assign(at=frame()["at"].dt.tz_localize("Europe/Oslo"))
ZONE_TIME = TIME.replace(tzinfo=datetime.UTC)
MIXED = frame().assign(at=pd.Series([TIME, ZONE_TIME, None, TIME, TIME, TIME], dtype=object))
FINE = frame().assign(at=pd.Timestamp("2026-01-01T00:00:00.123456789"))


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        (3, "the rows are of type int, expected something with __arrow_c_stream__"),
        ("x", "the rows are of type str"),
        ({"id": 1}, "the rows are a dict, expected a list of dicts, or a dict of lists"),
        ({"id": ["1"], "n": [1, 2]}, "the lists differ in length"),
        (iter([3]), "gave a value of type int, expected record batches or tables"),
        (frame().assign(n=[1, "x", 3, 4, 5, 6]), "column 'n' has values of different types"),
        (frame().assign(n=0.5), "column 'n' is double, expected int64"),
        (ZONED, "column 'at' is timestamp[us, tz=Europe/Oslo], expected timestamp[us]"),
        (MIXED, "column 'at' has times with and without a time zone, expected one of both"),
        ([{**ROWS[0], "at": ZONE_TIME}], "2026-01-01T12:00:00+00:00 has a time zone: take the"),
        (FINE, "column 'at' is timestamp[ns], which a table holds as timestamp[us], and a value"),
        (frame().assign(id=None), "column 'id' has null or empty, which is not a record key"),
        (frame().drop(columns="n"), "column 'n' (int64) is missing"),
        (frame().assign(m=1), "column 'm' is not in the table"),
        (frame().rename(columns={"n": 7}), "a column named 7, expected texts as names"),
        ([{**ROWS[0], "n": "abc"}], "column 'n' has a value that is not int64"),
        ([{**ROWS[0], "f": object()}], "column 'f' has a value that is not double"),
        (pa.table({"id": ["1"]}).to_reader(), "column 'city' (string) is missing"),
        (pl.LazyFrame({"id": ["1"]}), "a LazyFrame, which is not collected: expected .collect()"),
        ([arrow(), arrow().select(["id"])], "a record batch with other columns than the first"),
    ],
)
def test_rows_that_do_not_fit_are_refused_before_anything_is_written(
    trips: hoodie.Table, rows: object, complaint: str
) -> None:
    with pytest.raises(errors.InvalidInputError, match=re.escape(complaint)):
        trips.upsert(rows)
    assert trips.timeline().instants == ()
    assert trips.check(trips._writer.transaction.settings) == []


class BoomError(Exception):
    pass


def breaking(count: int) -> Iterator[pa.RecordBatch]:
    yield from arrow().to_batches(max_chunksize=1)[:count]
    raise BoomError


def fail_in_a_transaction(table: hoodie.Table, *, fails_inside: bool) -> None:
    with table.transaction("etl", 1) as tx:
        tx.upsert(ROWS)
        tx.delete(keys=["1"])
        if fails_inside:
            raise BoomError
        tx.upsert(breaking(4))


@pytest.mark.parametrize("memory_bytes", [streaming.MEMORY_BYTES, 100])
def test_generator_that_raises_in_the_middle_publishes_nothing(
    trips: hoodie.Table, monkeypatch: pytest.MonkeyPatch, memory_bytes: int
) -> None:
    monkeypatch.setattr(streaming, "MEMORY_BYTES", memory_bytes)
    monkeypatch.setattr(streaming, "PIECE_BYTES", 50)
    with pytest.raises(BoomError):
        trips.upsert(breaking(4))
    for fails_inside in (False, True):
        with pytest.raises(BoomError):
            fail_in_a_transaction(trips, fails_inside=fails_inside)
    assert trips.timeline().instants == ()
    assert trips.scan().count() == 0
    trips.upsert(ROWS)
    assert trips.scan().count() == 6


def test_streams_are_read_once_and_in_pieces(
    trips: hoodie.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "MEMORY_BYTES", 100)
    monkeypatch.setattr(streaming, "PIECE_BYTES", 50)
    taken: list[int] = []

    def batches() -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(arrow().to_batches(max_chunksize=1)):
            taken.append(number)
            yield batch

    reader = inputs.data_of(batches(), trips.schema.arrow)
    assert isinstance(reader, pa.RecordBatchReader)
    assert len(taken) <= 1
    trips.upsert(reader)
    assert taken == list(range(6))
    assert rows_of(trips) == ROWS
    assert isinstance(inputs.data_of(arrow(), trips.schema.arrow), pa.RecordBatchReader)


@pytest.mark.parametrize("where", ["n > 3", pc.field("n") > 3, [("n", ">", 3)]])
def test_rows_are_deleted_by_a_filter_of_any_form(parted: hoodie.Table, where: object) -> None:
    done = parted.delete(where)
    assert done.deleted == 2
    assert rows_of(parted) == ROWS[:4]
    assert parted.delete("n > 3").instant is None


@pytest.mark.parametrize(
    "keys",
    [
        ["4", "5", "none"],
        {"4", "5"},
        pa.array(["4", "5"]),
        pd.Series(["4", "5"]),
        pl.Series(["4", "5"]),
        pa.table({"id": ["4", "5"], "city": ["Oslo", "Rome"]}),
        [{"id": "4", "city": "Oslo"}, {"id": "5", "city": "Rome"}],
    ],
)
def test_rows_are_deleted_by_their_keys(parted: hoodie.Table, keys: object) -> None:
    parted.delete(keys=keys)
    assert rows_of(parted) == ROWS[:4]


def test_keys_of_a_table_without_partitions_need_no_look_at_it(trips: hoodie.Table) -> None:
    trips.upsert(ROWS)
    other = hoodie.open_table(trips.uri, concurrency="nbcc")
    other.delete(keys=["4", "5", "none"])
    assert rows_of(trips) == ROWS[:4]
    assert trips.delete(keys=[]).instant is None


@pytest.mark.parametrize(
    ("arguments", "error", "complaint"),
    [
        ({}, errors.InvalidInputError, "keys=...; overwrite([]) deletes all rows"),
        ({"where": "n = 1", "keys": ["1"]}, errors.InvalidInputError, "expected either"),
        ({"keys": 3}, errors.InvalidInputError, "keys is 3, expected a list, such as [3]"),
        ({"keys": "1"}, errors.InvalidInputError, "expected a list, such as ['1']"),
        ({"keys": [[1]]}, errors.InvalidInputError, "column 'id' has a value that is not string"),
        ({"where": ["1"]}, errors.InvalidInputError, "expected keys=['1'], or a filter"),
        ({"where": "no = 1"}, errors.NotFoundError, "there is no column 'no'"),
    ],
)
def test_deletes_that_say_nothing_are_refused(
    parted: hoodie.Table, arguments: dict[str, object], error: type[Exception], complaint: str
) -> None:
    with pytest.raises(error, match=re.escape(complaint)):
        parted.delete(**arguments)
    assert rows_of(parted) == ROWS


def test_columns_of_chosen_rows_are_set(parted: hoodie.Table) -> None:
    done = parted.update({"f": pc.field("f") * 2 + 1, "at": None}, "n >= 4")
    assert done.rows == 2
    expected = [{**each, "f": each["n"] + 1.0, "at": None} for each in ROWS[4:]]
    assert rows_of(parted) == [*ROWS[:4], *expected]
    assert parted.update({"n": 0}, "n = 77").instant is None
    assert parted.update({"n": 0}).rows == 6
    assert parted.scan(where="n = 0").count() == 6


@pytest.mark.parametrize(
    ("values", "error", "complaint"),
    [
        ({}, errors.InvalidInputError, "expected a dict of columns and what they are set to"),
        (3, errors.InvalidInputError, "expected a dict of columns"),
        ({"id": "x"}, errors.InvalidInputError, "column 'id' is part of the record key or of"),
        ({"city": "x"}, errors.InvalidInputError, "column 'city' is part of the record key or of"),
        ({"no": 1}, errors.NotFoundError, "there is no column 'no'; the columns are id, city"),
        ({"n": "x"}, errors.InvalidInputError, "column 'n' is int64, and 'x' is not one"),
        ({"n": "n * 2"}, errors.InvalidInputError, "those of pyarrow.compute, such as pc.field"),
        ({"n": 1.5}, errors.InvalidInputError, "1.5 is not one: a fraction would be cut off"),
        ({"n": float("inf")}, errors.InvalidInputError, "column 'n' is int64, and inf is not one"),
        ({"at": ZONE_TIME}, errors.InvalidInputError, "has a time zone: take the zone off"),
        ({"at": 5}, errors.InvalidInputError, "a number would be taken for days or for parts"),
        ({"n": pc.field("city")}, errors.InvalidInputError, "and city does not become one"),
        ({"n": pc.field("no")}, errors.InvalidInputError, "and no does not become one: No match"),
    ],
)
def test_updates_that_do_not_fit_are_refused(
    parted: hoodie.Table, values: object, error: type[Exception], complaint: str
) -> None:
    with pytest.raises(error, match=re.escape(complaint)):
        parted.update(values)
    assert rows_of(parted) == ROWS


def test_update_to_null_is_refused_where_null_changes_nothing(tmp_path: Path) -> None:
    made = hoodie.create_table(tmp_path / "t", COLUMNS, "id", partial_updates=True)
    with pytest.raises(errors.InvalidInputError, match="null, which changes nothing in a table"):
        made.update({"n": None})


def test_change_of_another_writer_during_an_update_is_a_conflict(parted: hoodie.Table) -> None:
    """Rows are selected after the write has begun, so none is lost."""
    uri = parted.uri
    first = hoodie.open_table(uri, concurrency="occ", writer_id="a")
    second = hoodie.open_table(uri, concurrency="occ", writer_id="b")
    read_now = type(first)._read_now
    calls: list[int] = []

    def read(columns: list[str], where: object) -> pa.RecordBatchReader:
        found = read_now(first, columns, where)
        calls.append(1)
        if len(calls) == 2:  # The first call looks whether there is anything to do.
            second.upsert([{**ROWS[2], "n": 500}])
        return found

    first._read_now = read  # type: ignore[method-assign]
    with pytest.raises(errors.WriteConflictError):
        first.update({"f": 9.0}, "n = 2")
    assert rows_of(parted)[2] == {**ROWS[2], "n": 500}


def adding(uri: str) -> hoodie.Table:
    """Return a writer that adds columns."""
    return hoodie.open_table(uri, settings={"hoodie.datasource.write.reconcile.schema": "true"})


def test_update_keeps_columns_that_another_writer_has_added(parted: hoodie.Table) -> None:
    tipped = arrow().slice(2, 1).append_column("tip", pa.array([2.5]))
    adding(parted.uri).upsert(tipped)
    parted.update({"f": 9.0}, "n = 2")
    found = parted.scan(["f", "tip"], "n = 2").to_arrow().to_pylist()
    assert found == [{"f": 9.0, "tip": 2.5}]


def test_update_during_which_a_column_is_added_changes_nothing(
    parted: hoodie.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_now = type(parted)._read_now

    def read(self: hoodie.Table, columns: list[str], where: object) -> pa.RecordBatchReader:
        tipped = arrow().slice(2, 1).append_column("tip", pa.array([2.5]))
        adding(parted.uri).upsert(tipped)
        return read_now(self, columns, where)

    monkeypatch.setattr(type(parted), "_read_now", read)
    with pytest.raises(errors.ConflictError, match="were changed while rows were selected"):
        parted.update({"f": 9.0}, "n = 2")
    monkeypatch.undo()
    found = parted.refresh().scan(["f", "tip"], "n = 2").to_arrow().to_pylist()
    assert found == [{"f": 1.0, "tip": 2.5}]


@pytest.mark.parametrize("table_type", ["mor", "cow"])
def test_rows_without_key_fields_are_updated_where_they_are(
    tmp_path: Path, table_type: str
) -> None:
    """They keep generated keys and file groups, also those that are equal in all columns."""
    made = hoodie.create_table(
        tmp_path / "t", COLUMNS, (), table_type=table_type, index="simple", partition_by="city"
    )
    made.insert(ROWS)
    made.insert(ROWS)
    places = ["_hoodie_record_key", "_hoodie_partition_path"]
    before = made.scan([*places, "id", "n"]).to_arrow().sort_by(places[0]).to_pylist()
    groups = {each.group for each in made.slices()}
    made.update({"n": pc.field("n") + 100, "at": "2026-11-28 12:00"}, "id in ('2', '3')")
    found = made.scan([*places, "id", "n"]).to_arrow().sort_by(places[0]).to_pylist()
    added = {"2": 100, "3": 100}
    assert found == [{**each, "n": each["n"] + added.get(each["id"], 0)} for each in before]
    assert {each.group for each in made.slices()} == groups
    assert made.scan(where="at = '2026-11-28 12:00'").count() == 4
    with pytest.raises(errors.UnsupportedError, match=r"by a filter \(hoodie update --where"):
        made.upsert(ROWS)
    with pytest.raises(errors.InvalidInputError, match=r"has no record key, expected where=\.\.\."):
        made.delete(keys=["1"])
    with pytest.raises(errors.InvalidInputError, match="'city' is part of the record key or of"):
        made.update({"city": "Bonn"})
    made.delete("id = '2'")
    assert made.scan().count() == 10


@pytest.mark.parametrize("change", ["delete", "update"])
def test_non_blocking_writer_changes_no_rows_by_a_filter(parted: hoodie.Table, change: str) -> None:
    other = hoodie.open_table(parted.uri, concurrency="nbcc")
    with pytest.raises(errors.ConfigurationError, match=f"cannot be {change}d by a filter in mode"):
        other.delete("n = 1") if change == "delete" else other.update({"n": 1}, "n = 1")


def test_overwrite_replaces_the_table_or_partitions(parted: hoodie.Table) -> None:
    row = {**ROWS[0], "id": "new"}
    parted.overwrite([row], replace="partitions")
    assert [each["id"] for each in rows_of(parted)] == ["1", "3", "5", "new"]
    parted.overwrite([], replace=["Rome"])
    assert rows_of(parted) == [row]
    parted.overwrite(ROWS[1:3])
    assert rows_of(parted) == ROWS[1:3]
    parted.overwrite([])
    assert rows_of(parted) == []
    with pytest.raises(errors.InvalidInputError, match="expected 'table', 'partitions', or a list"):
        parted.overwrite(ROWS, replace="some")


def test_bulk_inserts_sort_their_rows(trips: hoodie.Table) -> None:
    done = trips.insert(ROWS, bulk=True, sort_by="n")
    assert (done.rows, done.inserted) == (6, 6)
    assert rows_of(trips) == ROWS
    with pytest.raises(errors.InvalidInputError):
        trips.insert(ROWS, sort_by="n")


def test_batch_is_written_once(trips: hoodie.Table) -> None:
    etl = hoodie.open_table(trips.uri, writer_id="etl")
    assert not etl.upsert(ROWS[:2], batch_id="b1").is_repeated
    again = etl.upsert(ROWS[2:], batch_id="b1")
    assert (again.is_repeated, again.rows, again.batch_id) == (True, 0, "b1")
    assert rows_of(trips) == ROWS[:2]
    with pytest.raises(errors.InvalidInputError, match="batch_id without a writer_id"):
        trips.upsert(ROWS, batch_id="b2")


def test_transaction_is_one_commit_and_made_once(trips: hoodie.Table) -> None:
    for attempt in range(2):
        with trips.transaction("etl", 42) as tx:
            assert tx.is_done is (attempt == 1)
            tx.upsert(ROWS[:3])
            # The same columns in another order, and a later version of a row.
            tx.upsert(arrow().slice(3).select(["n", "at", "id", "f", "city"]))
            tx.upsert([{**ROWS[0], "n": 100}])
        assert tx.result is not None
        assert tx.result.is_repeated is (attempt == 1)
        assert tx.result.batch_id == "42"
    assert rows_of(trips) == [{**ROWS[0], "n": 100}, *ROWS[1:]]
    assert len(trips.timeline().completed_writes) == 1
    assert trips.committed_batches("etl") == {"42"}


def test_transaction_does_one_thing_after_the_other(parted: hoodie.Table) -> None:
    new = {**ROWS[0], "id": "7", "n": 70}
    with parted.transaction("etl", 1) as tx:
        tx.upsert([{**ROWS[0], "n": 100}, {**ROWS[1], "n": 101}])
        tx.delete(keys=["1", "2"])
        tx.update({"n": pc.field("n") + 1}, where="n >= 100 or n = 3")
        tx.delete("f = 2.0")
        tx.delete([{"id": "5", "city": "Rome"}])
        tx.insert([new])
        tx.upsert([ROWS[5]])
    assert tx.result is not None
    expected = [{**ROWS[0], "n": 101}, {**ROWS[3], "n": 4}, ROWS[5], new]
    assert rows_of(parted) == expected
    assert len(parted.timeline().completed_writes) == 2
    (operation,) = parted.inspect.timeline(limit=1).column("operation").to_pylist()
    assert operation == "UPSERT"
    assert parted.check(parted._writer.transaction.settings) == []


def test_transaction_that_undoes_itself_leaves_nothing(trips: hoodie.Table) -> None:
    with trips.transaction("etl", 1) as tx:
        tx.upsert(ROWS)
        tx.delete(keys=[str(n) for n in range(6)])
    assert rows_of(trips) == []
    with trips.transaction("etl", 2) as tx:
        tx.update({"n": 1}, "n = 77")
        tx.delete("n = 78")
    assert tx.result is not None
    assert tx.result.instant is None
    with trips.transaction("etl", 3) as tx:
        tx.upsert([])
        tx.delete(keys=[])
    assert tx.result is not None
    assert tx.result.instant is None


def test_deletes_of_a_transaction_may_have_different_columns(trips: hoodie.Table) -> None:
    trips.upsert(ROWS)
    with trips.transaction("etl", 1) as tx:
        tx.delete([{"id": "1"}])
        tx.delete(ROWS[2:3])
    assert rows_of(trips) == [ROWS[0], *ROWS[3:]]


def test_rows_of_a_transaction_may_lack_what_partial_updates_may(tmp_path: Path) -> None:
    made = hoodie.create_table(tmp_path / "t", COLUMNS, "id", partial_updates=True)
    made.upsert(ROWS[:2])
    with made.transaction("etl", 1) as tx:
        tx.upsert([{"id": "0", "n": 50}])
        tx.upsert([{"id": "0", "f": 7.5}, {"id": "1", "f": 8.5}])
        tx.delete(keys=["1"])
        tx.upsert([{"id": "1", "n": 9}])
    nulls = {"city": None, "f": None, "at": None}
    assert rows_of(made) == [{**ROWS[0], "n": 50, "f": 7.5}, {"id": "1", "n": 9, **nulls}]


@pytest.mark.parametrize("kind", ["mor", "cow"])
def test_partial_updates_of_a_record_in_two_partitions_all_count(
    tmp_path: Path, kind: Literal["mor", "cow"]
) -> None:
    made = hoodie.create_table(
        tmp_path / "t",
        COLUMNS,
        "id",
        partition_by="city",
        table_type=kind,
        index="global-simple",
        keep_partitions=True,
        partial_updates=True,
    )
    for step in range(2):
        lists = {"id": ["1", "1"], "city": ["Oslo", "Rome"], "n": [step, None], "f": [None, 2.0]}
        made.upsert(lists)
        expected = {"id": "1", "city": "Rome", "n": step, "f": 2.0, "at": None}
        assert rows_of(made) == [expected]


def test_change_of_another_writer_has_a_transaction_done_again(parted: hoodie.Table) -> None:
    retried = {"hoodie.write.num.retries.on.conflict.failures": "1"}
    first = hoodie.open_table(parted.uri, concurrency="occ", settings=retried)
    second = hoodie.open_table(parted.uri, concurrency="occ", writer_id="b")
    read_now = type(first)._read_now
    calls: list[int] = []

    def read(columns: list[str], where: object) -> pa.RecordBatchReader:
        found = read_now(first, columns, where)
        calls.append(1)
        if len(calls) == 1:
            second.upsert([{**ROWS[2], "n": 500}, {**ROWS[4], "n": 7}])
        return found

    first._read_now = read  # type: ignore[method-assign]
    with first.transaction("etl", 1) as tx:
        tx.upsert([{**ROWS[0], "n": 400}])
        tx.update({"n": pc.field("n") + 1}, "n >= 400")
    assert [row["n"] for row in rows_of(parted)] == [401, 1, 501, 3, 7, 5]
    assert len(parted.timeline().completed_writes) == 3


@pytest.mark.parametrize("kind", ["mor", "cow"])
def test_transaction_that_dies_while_it_writes_publishes_nothing(
    tmp_path: Path, kind: Literal["mor", "cow"], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = hoodie.create_table(tmp_path / "t", COLUMNS, "id", buckets=3, table_type=kind)
    table.upsert(ROWS)
    written: list[str] = []

    def dying(target: writing.FileTarget, name: str) -> storage_protocol.NewFile:
        written.append(name)
        if len(written) == 2:
            raise BoomError
        return open_file(target, name)

    def do() -> None:
        with table.transaction("etl", 1) as tx:
            tx.upsert([{**each, "n": 100} for each in ROWS])
            tx.delete(keys=["0"])
            tx.update({"n": 101}, "n = 100")

    open_file = writing._open
    with monkeypatch.context() as patched:
        patched.setattr(writing, "_open", dying)
        with pytest.raises(BoomError):
            do()
    assert len(written) >= 2
    assert rows_of(table) == ROWS
    do()
    assert rows_of(table) == [{**each, "n": 101} for each in ROWS[1:]]
    do()
    assert table.committed_batches("etl") == {"1"}
    assert len(table.timeline().completed_writes) == 2


def test_non_blocking_writer_does_what_needs_no_look(tmp_path: Path) -> None:
    hoodie.create_table(tmp_path / "t", COLUMNS, "id", ordering="n", buckets=1)
    table = hoodie.open_table(tmp_path / "t", concurrency="nbcc", writer_id="w")
    with table.transaction("etl", 1) as tx:
        tx.upsert(ROWS)
        tx.delete(keys=["1"])
        tx.delete([{"id": "2", "n": 1}, {"id": "3", "n": 9}])
        tx.upsert([{**ROWS[3], "n": 8}, {**ROWS[1], "f": 7.0, "n": 0}])
    assert rows_of(table) == [ROWS[0], {**ROWS[1], "f": 7.0, "n": 0}, ROWS[2], *ROWS[4:]]
    looking = table.transaction("etl", 2).__enter__()
    looking.upsert(ROWS)
    looking.update({"f": 1.0}, "n > 3")
    with pytest.raises(errors.ConfigurationError, match="cannot be updated by a filter"):
        looking.__exit__(None, None, None)


def test_deletes_of_a_transaction_are_claimed_beside_non_blocking_writers(tmp_path: Path) -> None:
    made = hoodie.create_table(tmp_path / "t", COLUMNS, "id", ordering="n", buckets=1)
    table = hoodie.open_table(tmp_path / "t", concurrency="nbcc", writer_id="w")
    options = table._job.options(commits.Operation.UPSERT)
    deletes = commits.Operation.DELETE
    for columns, expected in ((("id",), True), (("id", "n"), False)):
        parts = ((commits.Operation.UPSERT, tuple(COLUMNS)), (deletes, columns))
        composed = dataclasses.replace(options, parts=parts)
        stream = sessions._stream(made.config, composed, list(COLUMNS))
        assert stream.is_order_dependent_delete is expected


def test_operations_that_one_commit_cannot_hold_are_refused(trips: hoodie.Table) -> None:
    mixed = trips.transaction("etl", 1).__enter__()
    mixed.upsert(ROWS)
    complaint = "cannot do anything else: one commit either replaces the table or changes its rows"
    with pytest.raises(errors.InvalidInputError, match=complaint):
        mixed.overwrite(ROWS[:1])
    replacing = trips.transaction("etl", 1).__enter__()
    replacing.overwrite(ROWS)
    for more in (replacing.overwrite, replacing.upsert, replacing.insert, replacing.delete):
        with pytest.raises(errors.InvalidInputError, match=complaint):
            more(ROWS)
    with pytest.raises(errors.InvalidInputError, match=complaint):
        replacing.update({"n": 1})
    skipping = hoodie.open_table(
        trips.uri, settings={"hoodie.datasource.write.insert.drop.duplicates": "true"}
    )
    mixed = skipping.transaction("etl", 1).__enter__()
    mixed.insert(ROWS)
    mixed.delete(keys=["1"])
    with pytest.raises(errors.ConfigurationError, match="use a transaction for the insert alone"):
        mixed.__exit__(None, None, None)
    lacking = trips.transaction("etl", 1).__enter__()
    lacking.upsert(ROWS)
    lacking.upsert([{"id": "9"}])
    with pytest.raises(errors.InvalidInputError, match=r"column 'city' .* is missing"):
        lacking.__exit__(None, None, None)
    assert trips.timeline().instants == ()


def test_table_without_keys_takes_inserts_or_changes_in_a_transaction(tmp_path: Path) -> None:
    made = hoodie.create_table(tmp_path / "t", COLUMNS, (), index="simple", foreign_writers=False)
    with made.transaction("etl", 1) as tx:
        tx.insert(ROWS[:2])
        tx.insert(ROWS[2:])
    with made.transaction("etl", 2) as tx:
        tx.update({"n": 7}, "n > 3")
        tx.delete("n = 7 and id = '4'")
    assert [row["n"] for row in rows_of(made)] == [0, 1, 2, 3, 7]
    mixed = made.transaction("etl", 3).__enter__()
    mixed.delete("n = 7")
    mixed.insert(ROWS)
    with pytest.raises(errors.UnsupportedError, match="either inserts rows or changes and deletes"):
        mixed.__exit__(None, None, None)
    assert made.scan().count() == 5


def test_rows_beside_a_filter_are_held_in_memory(
    trips: hoodie.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "MEMORY_BYTES", 100)
    mixed = trips.transaction("etl", 1).__enter__()
    mixed.upsert(iter(arrow().to_batches(max_chunksize=1)))
    mixed.delete("n = 1")
    with pytest.raises(errors.InvalidInputError, match="write them in a commit of their own"):
        mixed.__exit__(None, None, None)
    assert trips.timeline().instants == ()


def test_columns_are_not_added_beside_a_change_by_a_filter(trips: hoodie.Table) -> None:
    growing = hoodie.open_table(
        trips.uri, settings={"hoodie.datasource.write.reconcile.schema": "true"}
    )
    more = {**ROWS[0], "more": 1}
    mixed = growing.transaction("etl", 1).__enter__()
    mixed.upsert([more])
    mixed.delete("n = 1")
    with pytest.raises(errors.InvalidInputError, match="add them in a commit of its own"):
        mixed.__exit__(None, None, None)
    with growing.transaction("etl", 1) as tx:
        tx.upsert(ROWS[:2])
        tx.upsert([more])
        tx.delete(keys=["1"])
    assert rows_of(growing.refresh()) == [more]


def test_transaction_that_is_not_open_takes_nothing(trips: hoodie.Table) -> None:
    with pytest.raises(errors.InvalidInputError, match="the transaction is not open"):
        trips.transaction("etl", 1).upsert(ROWS)
    with trips.transaction("etl", 1) as tx:
        pass
    assert tx.result == outcomes.Written(batch_id="1")
    with pytest.raises(
        errors.InvalidInputError, match="the transaction is not open: use it in a block"
    ):
        tx.upsert(ROWS)
    with pytest.raises(errors.InvalidInputError, match="batch id '' has 0 characters"):
        trips.transaction("etl", "")
    assert trips.timeline().instants == ()


@pytest.mark.parametrize("operation", ["insert", "delete", "overwrite"])
def test_transaction_of_each_operation(trips: hoodie.Table, operation: str) -> None:
    trips.upsert(ROWS[:2])
    with trips.transaction("etl", operation) as tx:
        getattr(tx, operation)(ROWS[1:2] if operation == "delete" else ROWS[2:3])
    expected = {"insert": ROWS[:3], "delete": ROWS[:1], "overwrite": ROWS[2:3]}
    assert rows_of(trips) == expected[operation]


@pytest.mark.parametrize("kind", ["mor", "cow"])
@pytest.mark.parametrize("ordering", [None, "n"])
def test_new_and_updated_rows_are_counted(
    tmp_path: Path, kind: Literal["mor", "cow"], ordering: str | None
) -> None:
    columns = {"id": pa.string(), "n": pa.int64()}
    table = hoodie.create_table(
        tmp_path / "t", columns, "id", ordering=ordering, table_type=kind, buckets=2
    )
    random = Random(7)
    for step in range(4):
        before = {row["id"]: row["n"] for row in rows_of(table)}
        ids = random.sample(range(30), 10)
        rows = [{"id": str(each), "n": random.randrange(100)} for each in ids]
        # A write that reads the base files counts by itself.
        done = table.upsert(rows, count=kind == "mor" or step % 2 == 0)
        lost = [row for row in rows if ordering and before.get(str(row["id"]), 0) > row["n"]]
        new = [row for row in rows if row["id"] not in before]
        assert (done.inserted, done.updated) == (len(new), len(rows) - len(new) - len(lost)), step
        assert done.unchanged == len(lost), step
        assert not done.findings
        # A rewritten base file has no rows that lost.
        assert done.rows == len(rows) - (len(lost) if kind == "cow" else 0)


def test_a_write_that_is_not_counted_is_written(
    trips: hoodie.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: results.CommitResult) -> results.RowCounts:
        raise errors.GoneError("a file was cleaned")

    trips.upsert(ROWS[:1])
    monkeypatch.setattr(trips, "row_counts", fail)
    done = trips.upsert(ROWS, count=True)
    assert (done.rows, done.inserted, done.unchanged) == (6, None, None)
    assert done.findings == ("new and updated rows are not counted: a file was cleaned",)
    assert len(rows_of(trips)) == 6


def test_rows_of_a_write_are_counted_after_others_as_before(trips: hoodie.Table) -> None:
    trips.upsert(ROWS[:4])
    job = trips._job
    options = job.options(commits.Operation.UPSERT)
    write = trips.write(pa.Table.from_pylist(ROWS[2:], pa.schema(COLUMNS)), options)
    assert isinstance(write, results.CommitResult)
    counts = results.RowCounts(inserted=2, updated=2, unchanged=0)
    assert trips.row_counts(write) == counts
    trips.upsert(ROWS)
    trips.maintain.compact()
    trips.delete(keys=["5"])
    assert trips.row_counts(write) == counts


@pytest.mark.parametrize("in_transaction", [False, True])
def test_table_reads_the_columns_that_its_own_write_widened(
    tmp_path: Path, *, in_transaction: bool
) -> None:
    settings = {"hoodie.datasource.write.reconcile.schema": "true"}
    hoodie.create_table(tmp_path / "w", {"id": pa.string(), "n": pa.int32()}, "id")
    other = hoodie.open_table(tmp_path / "w")
    table = hoodie.open_table(tmp_path / "w", settings=settings)
    wide = [{"id": "1", "n": 1 << 40, "note": "new"}]
    if in_transaction:
        with table.transaction("etl", 1) as tx:
            tx.upsert(pa.Table.from_pylist(wide))
    else:
        table.upsert(pa.Table.from_pylist(wide))
    assert table.scan().to_arrow().to_pylist() == wide
    with pytest.raises(errors.FormatError, match=r"open it again, or call Table\.refresh"):
        other.scan().to_arrow()
    assert other.refresh().scan().to_arrow().to_pylist() == wide
