"""What is decided about a Writer whose source cannot be read, or does not fit its table."""

import pytest

from hoodie_operator.reconcile import facts
from support.operators.flights_world import Flights


@pytest.mark.parametrize(
    ("columns", "edit", "told"),
    [
        (["id", "a", "z"], {}, "column z of the source is not in the table"),
        (["a"], {}, "the source lacks id"),
        (["x"], {"source__files__columns": {"id": "y"}}, "names y, the files have x"),
    ],
)
def test_source_that_does_not_fit_is_refused_before_a_run(
    columns: list[str], edit: dict[str, object], told: str
) -> None:
    here = Flights()
    key = here.add_writer("left", **edit)
    here.see_source(key, [["1"]], columns)
    here.settle()
    state, reason, message = here.condition(key)
    assert (state, reason) == ("Stalled", "SchemaMismatch")
    assert told in message
    assert not here.started


def test_source_whose_storage_is_silent_is_waited_for() -> None:
    here = Flights()
    key = here.add_writer("left")
    problem = facts.Problem(kind="Storage", message="no route", is_transient=True)
    seen = facts.SourceFacts(generation=1, observed_ms=here.now_ms, problem=problem)
    here.sources[here.uid(key)] = seen
    here.settle()
    told = "Storage: no route; the operator retries every few seconds"
    assert here.condition(key) == ("Pending", "StorageUnreachable", told)
    assert not here.started
    here.now_ms += 11 * 60_000
    here.settle()
    assert here.condition(key)[:2] == ("Stalled", "TimedOut")
    here.see_source(key, [["1.csv"]], None)
    here.settle()
    assert here.condition(key)[0] == "Starting"


def test_writer_that_may_add_columns_is_told_so_and_others_may_carry_them() -> None:
    here = Flights()
    adding = here.add_writer(
        "left", source__files__addColumns=True, source__files__format="Parquet"
    )
    here.see_source(adding, [["1"]], ["id", "z"])
    other = here.add_writer("right", "b")
    here.see_source(other, [["1"]], ["id", "y"])
    here.settle()
    told = {each.writer_id: each.table.settings.adds_columns for each in here.started}
    assert told == {"left": True, "right": False}


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("NotFound", "SourceNotFound"),
        ("InvalidInput", "PathNotAllowed"),
        ("Format", "SourceUnreadable"),
    ],
)
def test_source_that_cannot_be_read_is_told(kind: str, reason: str) -> None:
    here = Flights()
    key = here.add_writer("left")
    problem = facts.Problem(kind=kind, message="m", is_transient=False)
    seen = facts.SourceFacts(generation=1, observed_ms=here.now_ms, problem=problem)
    here.sources[here.uid(key)] = seen
    here.settle()
    assert here.condition(key)[:2] == ("Stalled", reason)
