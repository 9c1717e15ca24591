"""Filters that are pushed into a dataset keep the rows that they keep of all rows, merged."""

import datetime
import decimal
import pickle

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings

import hoodie
from hoodie.door import datasets
from hoodie.model import predicates
from support.tables.random_filters import FILTERS, SCHEMA

DAY = datetime.date(2026, 1, 3)
TIME = datetime.datetime(2026, 1, 3, 12)  # noqa: DTZ001 - of a column without a zone
COLUMNS = pa.schema([pa.field("id", pa.string()), *SCHEMA])


def rows(first: int, last: int, shift: int = 0) -> pa.Table:
    """Return rows of keys, with nulls, NaN and texts whose order in Java is another."""
    found = []
    for key in range(first, last):
        n = key * 7 + shift
        found.append(
            {
                "id": str(key),
                "i": key % 5 - 2 or None,
                "f": [-0.0, 0.1, 1.5, float("nan"), None, -2.0][n % 6],
                "d": [None, -2.0, float("nan"), 0.1, 0.0, 1.5][n % 6],
                "s": ["a", "b", "ab", "\ue000", "\U0001f600", None, ""][n % 7],
                "day": None if n % 11 == 0 else DAY + datetime.timedelta(days=n % 5 - 2),
                "n": None if n % 13 == 0 else decimal.Decimal(n % 5 - 2) / 2,
                "t": None if n % 9 == 0 else TIME + datetime.timedelta(hours=n % 48),
            }
        )
    return pa.Table.from_pylist(found, COLUMNS)


@pytest.fixture(scope="module", params=["plain", "statistics", "partial"])
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> hoodie.Table:
    """Base files and logs in several partitions, of which one is of null."""
    made = hoodie.create_table(
        tmp_path_factory.mktemp("dataset") / "t",
        COLUMNS,
        "id",
        partition_by="i",
        buckets=2,
        partial_updates=request.param == "partial",
        foreign_writers=False,
    )
    if request.param == "statistics":
        made = made.initialise_metadata(made._writer.service)
    made.upsert(rows(0, 60))
    made.upsert(rows(10, 20, shift=1))
    made.delete(keys=rows(18, 22).select(["id", "i"]))
    made.insert(rows(60, 65))
    return made


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(where=FILTERS)
def test_pushed_filter_keeps_what_it_keeps_of_all_rows(
    table: hoodie.Table, where: predicates.Predicate
) -> None:
    expression = predicates.to_expression(where, COLUMNS)
    whole = table.dataset()
    expected = ids(table.read().read_all().filter(expression))
    assert ids(table.scan(["id"], where).to_arrow()) == expected
    assert ids(table.scan(["id"], expression).to_arrow()) == expected
    assert ids(whole.to_table(columns=["id"], filter=expression)) == expected
    assert whole.count_rows(filter=expression) == len(expected)
    # As DataFusion reads: fragments of the filter, which is given to each of them again or not.
    found = list(whole.get_fragments(expression))
    assert sorted(key for each in found for key in ids(each.to_table(columns=["id"]))) == expected
    again = [each.to_table(columns=["id"], filter=expression) for each in found]
    assert sorted(key for each in again for key in ids(each)) == expected
    # A filter on top of one.
    narrowed = whole.filter(pc.field("id") >= "3")
    assert ids(narrowed.to_table(filter=expression)) == [key for key in expected if key >= "3"]


def ids(found: pa.Table) -> list[str]:
    return sorted(found.column("id").to_pylist())


def test_dataset_and_fragments_arrive_in_other_processes(table: hoodie.Table) -> None:
    whole = table.dataset()
    there = pickle.loads(pickle.dumps(whole.filter(pc.field("day") == DAY)))
    assert isinstance(there, datasets.HoodieDataset)
    expected = ids(whole.to_table(filter=pc.field("day") == DAY))
    assert ids(there.to_table()) == expected
    assert there.count_rows() == len(expected)
    assert there.count_rows(filter=pc.field("i") == 1) == len(
        ids(whole.to_table(filter=(pc.field("day") == DAY) & (pc.field("i") == 1)))
    )
    fragments = [pickle.loads(pickle.dumps(each)) for each in there.get_fragments()]
    assert sorted(key for each in fragments for key in ids(each.to_table())) == expected
