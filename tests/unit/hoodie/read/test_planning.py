"""Filters leave out file groups by bucket only where every row is in the bucket of its key."""

import logging
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from hoodie.filegroup import listing
from hoodie.model import predicates
from hoodie.read import planning, where
from support.peer.replacements import Replacements
from support.tables.tables import CONFIG, SmallTable

ROWS = [{"id": str(n), "part": "p", "a": n, "b": "x"} for n in range(12)]
FOREIGN_IDS = [
    None,
    # One random id in 43 begins with eight digits, and this one with a bucket of no table's.
    "00000002-3bda-48af-b1c1-20f87a742091-0",
    "31415926-3bda-48af-b1c1-20f87a742091-0",
]
FILTERS = [
    "id = '3'",
    "id in ('3', '4', 'none')",
    "id = '3' and part = 'p'",
    "part = 'p'",
    "part = 'q' and id = '3'",
    "not id = '3'",
]


@pytest.fixture
def small(tmp_path: Path) -> SmallTable:
    return SmallTable(tmp_path / "t")


def check(small: SmallTable, text: str) -> list[dict[str, object]]:
    """Compare a filtered read with a full read that is filtered then."""
    predicate = where.parse(text)
    found = small.rows(where=predicate)
    whole = small.table.read().read_all()
    expression = predicates.to_expression(predicate, small.table.schema.arrow)
    expected = sorted(whole.filter(expression).to_pylist(), key=lambda row: str(row["id"]))
    assert found == expected
    return found


@pytest.mark.parametrize("text", FILTERS)
@pytest.mark.parametrize("file_id", FOREIGN_IDS)
def test_clustered_rows_are_found_by_their_key(
    small: SmallTable, text: str, file_id: str | None
) -> None:
    small.upsert(ROWS)
    Replacements(small).cluster("p", file_id)
    found = check(small, text)
    assert bool(found) == ("'q'" not in text)


@pytest.mark.parametrize("text", FILTERS)
@pytest.mark.parametrize("file_id", FOREIGN_IDS)
def test_rows_in_a_group_of_another_index_are_found_by_their_key(
    small: SmallTable, text: str, file_id: str | None
) -> None:
    small.upsert(ROWS[4:])
    Replacements(small).add_group("p", ROWS[:4], file_id)
    check(small, text)


def warnings(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_group_of_no_bucket_is_warned_of_once_a_table(
    small: SmallTable, caplog: pytest.LogCaptureFixture
) -> None:
    small.upsert(ROWS)
    file_id = Replacements(small).cluster("p")
    with caplog.at_level(logging.WARNING, "hoodie"):
        small.rows()
        small.rows()
    (record,) = warnings(caplog)
    assert f"file group p/{file_id}" in record.getMessage()
    assert "hoodie check" in record.getMessage()


def test_buckets_alone_are_not_warned_of(
    small: SmallTable, caplog: pytest.LogCaptureFixture
) -> None:
    small.upsert(ROWS)
    with caplog.at_level(logging.WARNING, "hoodie"):
        small.rows()
    assert not warnings(caplog)


def test_partitions_that_a_filter_names_are_not_looked_for_among_all(
    small: SmallTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    for part in "pqrs":
        small.upsert([{"id": part, "part": part, "a": 1, "b": "x"}])
    assert len(check(small, "part in ('p', 'r', 'none')")) == 2
    assert len(check(small, "part = 'q' and a = 1")) == 1
    monkeypatch.setattr(listing, "own_files", None)
    plan = small.table.explain_read(where=where.parse("part in ('p', 'r', 'none')"))
    step = plan.step(planning.Means.PARTITION_VALUES)
    assert (step.considered, step.left, step.is_named) == (2, 2, True)
    assert {each.group.partition_path for each in plan.slices} == {"p", "r"}
    assert small.table.explain_read(where=where.parse("part = 'none'")).slices == ()


def test_folder_of_another_table_is_no_partition_that_a_filter_names(small: SmallTable) -> None:
    small.upsert(ROWS)
    config = replace(CONFIG, partition_fields=())
    SmallTable(small.path.parent / "other", config).upsert([{**ROWS[0], "part": "q"}])
    shutil.move(small.path.parent / "other", small.path / "q")
    assert small.rows(where=where.parse("part = 'q'")) == []
    assert small.table.explain_read(where=where.parse("part = 'q'")).slices == ()
