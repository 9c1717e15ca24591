"""Scans: one snapshot, in whichever form it is asked for."""

import datetime
import re
from collections.abc import Sequence
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hoodie
from hoodie import errors
from hoodie.model import predicates, schemas
from hoodie.read import streams, tasks
from support.tables.tables import SmallTable

ROWS = [
    {"id": str(n), "part": "pq"[n % 2], "a": n, "b": None if n == 7 else "x"} for n in range(20)
]


@pytest.fixture
def small(tmp_path: Path) -> SmallTable:
    """Twenty rows in base files, of which logs change one, delete one and add one."""
    made = SmallTable(tmp_path / "small")
    made.upsert(ROWS)
    made.compact()
    made.upsert([{"id": "3", "part": "q", "a": 30}, {"id": "99", "part": "p", "a": 99}])
    made.delete([{"id": "4", "part": "p"}])
    return made


def test_every_form_has_the_same_rows(small: SmallTable) -> None:
    scan = small.table.scan(["id", "a"], "a > 12")
    expected = [*map(str, range(13, 20)), "3", "99"]
    assert sorted(scan.to_arrow().column("id").to_pylist()) == sorted(expected)
    assert sorted(scan.to_pandas()["id"]) == sorted(expected)
    assert sorted(scan.to_polars()["id"]) == sorted(expected)
    assert sorted(pl.DataFrame(scan)["id"]) == sorted(expected)
    assert pl.DataFrame(small.table).height == small.table.scan().count()
    assert duckdb.sql("select count(*), sum(a) from scan").fetchall() == [(9, 30 + 99 + 112)]
    assert pa.table(scan).schema == scan.schema == pa.schema({"id": "string", "a": "int64"})
    assert scan.count() == len(expected)
    assert scan.to_batches().schema == scan.schema


def test_scan_is_of_the_snapshot_in_which_it_was_made(small: SmallTable) -> None:
    scan = small.table.scan()
    before = scan.to_arrow().sort_by("id")
    small.upsert([{"id": "0", "part": "p", "a": 500}, {"id": "700", "part": "z", "a": 1}])
    small.compact()
    assert scan.to_arrow().sort_by("id") == before
    assert scan.count() == len(before)
    assert small.table.scan().count() == len(before) + 1


@pytest.mark.parametrize(
    "where",
    [
        "a >= 2 and a < 5 and part = 'p'",
        (pc.field("a") >= 2) & (pc.field("a") < 5) & (pc.field("part") == "p"),
        [("a", ">=", 2), ("a", "<", np.int64(5)), ("part", "==", "p")],
        predicates.And(
            (
                predicates.In("a", (2, 4)),
                predicates.Compare("part", predicates.Comparator.EQ, "p"),
            )
        ),
        (pc.field("a") >= 2) & (pc.field("a") < 5) & pc.starts_with(pc.field("part"), "p"),
    ],
)
def test_filters_of_every_form_keep_the_same_rows(small: SmallTable, where: object) -> None:
    assert small.table.scan(["id"], where).to_arrow().to_pylist() == [{"id": "2"}]


@pytest.mark.parametrize(
    ("triple", "count"),
    [
        (("b", "is", None), 2),
        (("b", "is not", None), 18),
        (("a", "in", [1, 2, 77]), 2),
        (("a", "not  IN", {1, 2}), 18),
        (("id", "!=", "1"), 19),
        ([], 20),
    ],
)
def test_triples_compare_as_sql_does(small: SmallTable, triple: object, count: int) -> None:
    assert small.table.scan(["id"], triple).count() == count


def test_key_of_an_expression_is_looked_for_in_its_bucket_alone(small: SmallTable) -> None:
    scan = small.table.scan(["a"], pc.field("id") == "3")
    assert scan.to_arrow().to_pylist() == [{"a": 30}]
    assert len(scan.explain().plan.slices) == 2  # One of two in each partition.
    assert "buckets of keys: 2 of 4 left" in repr(scan.explain())
    assert scan.explain().files == len(
        [each for found in scan.explain().plan.slices for each in found.data_files]
    )
    assert scan.explain().size_bytes > 0


def test_rows_are_counted_without_reading_columns(small: SmallTable) -> None:
    table = small.table
    assert table.scan().count() == table.scan([]).count() == 20
    assert table.scan(read_optimized=True).count() == 20
    assert table.scan(read_optimized=True, where="a = 3").count() == 1
    assert table.scan(limit=3).count() == 3
    assert table.scan(limit=0).count() == 0
    assert table.scan(limit=300).count() == 20
    small.compact()
    assert table.scan().count() == 20
    assert table.scan(["id"], limit=7).to_arrow().num_rows == 7


def test_work_on_a_wide_table_does_not_grow_by_the_square_of_its_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each list of all columns takes as long as there are columns: one for each would be a square.

    With 8,000 columns a count took a minute, and an update 80 s.
    """
    names = [f"c{at}" for at in range(200)]
    columns = pa.schema([("id", pa.int64()), *((name, pa.int64()) for name in names)])
    wide = hoodie.create_table(tmp_path / "wide", columns, "id", foreign_writers=False)
    listed = 0
    meta_fields = schemas.meta_fields

    def counted() -> list[pa.Field]:
        nonlocal listed
        listed += 1
        return meta_fields()

    monkeypatch.setattr(schemas, "meta_fields", counted)
    wide.upsert([{"id": at, **dict.fromkeys(names, at)} for at in range(3)])
    wide.update({"c1": 7}, where="id = 1")
    with wide.transaction("app", 1) as tx:
        tx.delete("c1 = 2")
        tx.update({"c2": 5}, where="id = 0")
    wide.delete(keys=[1])
    assert wide.scan().narrowed(["c2"]).to_arrow().to_pylist() == [{"c2": 5}]
    assert wide.scan().count() == wide.dataset().count_rows() == 1
    assert listed < len(names)


def test_merged_rows_are_counted_by_their_keys_and_the_columns_of_the_filter(
    small: SmallTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: set[tuple[str, ...]] = set()
    read = streams.batches

    def watched(found: Sequence[tasks.ReadTask], threads: int) -> object:
        asked.update(each.query.columns for each in found)
        return read(found, threads)

    monkeypatch.setattr(streams, "batches", watched)
    assert small.table.scan().count() == 20
    assert asked == {(schemas.RECORD_KEY,)}
    asked.clear()
    # Arrow's expression, which says more than a predicate of this project can.
    assert small.table.scan(["id"], pc.field("b") == pc.utf8_lower(pc.field("b"))).count() == 18
    assert asked == {("b",)}


def test_meta_columns_and_an_earlier_moment_can_be_read(small: SmallTable) -> None:
    first = small.table.timeline().completed_writes[0]
    then = small.table.scan(["_hoodie_record_key", "a"], "id = '3'", as_of=first.requested_time)
    assert then.to_arrow().to_pylist() == [{"_hoodie_record_key": "3", "a": 3}]
    now = datetime.datetime.now(datetime.UTC)
    assert small.table.scan(as_of=now).count() == 20


def test_reader_that_is_closed_half_way_leaves_the_table_usable(small: SmallTable) -> None:
    reader = small.table.scan().to_batches()
    reader.read_next_batch()
    reader.close()
    del reader
    assert small.table.scan().count() == 20


def test_scan_shows_itself(small: SmallTable) -> None:
    scan = small.table.scan(["id", "a"], limit=2)
    assert repr(scan) == f"<Scan of {small.table.uri}: 4 file slices, at most 2 rows; id, a>"
    assert "<td>a</td><td>int64</td>" in scan._repr_html_()


@pytest.mark.parametrize(
    ("query", "error", "complaint"),
    [
        ({"where": "a ="}, errors.InvalidInputError, "character 4: found the end"),
        (
            {"where": 3},
            errors.InvalidInputError,
            "a filter is of type int (3), expected a text such as",
        ),
        ({"where": [("a", "~", 1)]}, errors.InvalidInputError, "expected one of =, !=,"),
        ({"where": [("a", "in", "12")]}, errors.InvalidInputError, "expected a list of values"),
        ({"where": [("a", "=", object)]}, errors.InvalidInputError, "expected a number, text,"),
        ({"where": pc.field("no") == 1}, errors.NotFoundError, "there is no column 'no'; the"),
        (
            {"where": pc.field("a") > pa.scalar("x")},
            errors.InvalidInputError,
            "does not fit the columns id, part, a",
        ),
        ({"where": pc.field("a") + 1}, errors.InvalidInputError, "must evaluate to bool"),
        ({"where": "no = 1"}, errors.NotFoundError, "there is no column 'no'; the columns are"),
        ({"where": "a = 'x'"}, errors.InvalidInputError, "cannot be compared with 'x'"),
        ({"columns": "id"}, errors.InvalidInputError, "expected a list of names, such as ['id']"),
        ({"columns": ["no"]}, errors.NotFoundError, "there is no column 'no'; the columns are id,"),
        ({"limit": -1}, errors.InvalidInputError, "limit is -1, expected a whole number, 0"),
        ({"limit": 2.0}, errors.InvalidInputError, "limit is 2.0, expected a whole number"),
        ({"limit": True}, errors.InvalidInputError, "limit is True, expected a whole number"),
        ({"limit": "2"}, errors.InvalidInputError, "limit is '2', expected a whole number"),
        ({"as_of": "soon"}, errors.InvalidInputError, "'soon' names no moment"),
    ],
)
def test_what_cannot_be_read_is_refused_at_once(
    small: SmallTable, query: dict[str, object], error: type[Exception], complaint: str
) -> None:
    with pytest.raises(error, match=re.escape(complaint)):
        small.table.scan(**query)


def test_package_that_is_not_installed_is_named(
    small: SmallTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "polars", None)
    with pytest.raises(errors.ConfigurationError, match="needs the package polars"):
        small.table.scan().to_polars()


def test_pandas_and_numpy_values_are_filters(small: SmallTable) -> None:
    day = pd.Timestamp("2026-01-01").to_pydatetime()
    assert small.table.scan(where=[("a", "=", np.int32(30))]).count() == 1
    with pytest.raises(errors.InvalidInputError, match="cannot be compared with"):
        small.table.scan(where=[("a", "=", day)])
