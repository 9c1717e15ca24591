"""When a TableAction of type Rollback runs (interlock R3), and when it is done."""

import dataclasses

import pytest

from hoodie.contract import job_specs
from hoodie_operator.api import kinds, objects
from hoodie_operator.reconcile import facts
from support.operators import operator_world as ow
from support.operators.operator_world import Outside
from support.operators.rule_examples import edited

ROLLBACK = {"tableRef": {"name": "flights"}, "type": "Rollback"}
ONE = edited(ROLLBACK, rollback={"instant": ow.time(3)})


class Place(Outside):
    """A ready table with a writer."""

    def __init__(self, table: dict[str, object] | None = None) -> None:
        super().__init__()
        self.see_lock(self.add(kinds.LOCK_PROVIDER, "zk", ow.LOCK))
        self.table_key = self.add(kinds.HUDI_TABLE, "flights", table or ow.TABLE)
        self.see_table(self.table_key)
        self.settle()
        self.end(self.uid(self.table_key), is_told=True)
        self.see([])
        self.settle()
        self.started.clear()

    def see(self, pending: list[facts.Pending], *commits: facts.Commit) -> None:
        self.see_table(self.table_key, [ow.commit(1), *commits], pending)

    def act(self, spec: dict[str, object], name: str = "back") -> objects.ObjectKey:
        key = self.add(kinds.TABLE_ACTION, name, spec)
        self.settle()
        return key


def failed(number: int = 3, **fields: object) -> facts.Pending:
    """Return a pending delta commit of writer `left`."""
    return dataclasses.replace(
        facts.Pending(requested_time=ow.time(number), action="deltacommit", writer_id="left"),
        **fields,  # type: ignore[arg-type]  # the caller names the fields
    )


def rollback(number: int, of: int, **fields: object) -> facts.Pending:
    return failed(number, action="rollback", writer_id=None, target=ow.time(of), **fields)


@pytest.mark.parametrize(("spec", "instant"), [(ONE, ow.time(3)), (ROLLBACK, None)])
def test_failed_write_is_taken_back_and_the_timeline_tells(
    spec: dict[str, object], instant: str | None
) -> None:
    here = Place()
    here.see([failed()])
    action = here.act(spec)
    (start,) = here.started
    assert start.work == job_specs.RollBack(instant_time=instant)
    assert (start.action_id, start.writer_id) == (action.name, None)
    here.end(here.uid(action), is_told=True)
    here.see([])
    here.settle()
    assert here.condition(action)[:2] == ("Succeeded", "Succeeded")
    assert len(here.started) == 1


def test_run_that_was_killed_is_followed_by_one_that_goes_on() -> None:
    """The target is gone, its rollback is not completed."""
    here = Place()
    here.see([failed()])
    action = here.act(ONE)
    here.end(here.uid(action))
    here.see([rollback(4, of=3)])
    here.settle()
    here.now_ms += 10_000
    here.see([rollback(4, of=3)])
    here.settle()
    assert [start.id.attempt for start in here.started] == [1, 2]
    here.end(here.uid(action))
    here.see([])
    here.settle()
    assert here.condition(action)[:2] == ("Succeeded", "Succeeded")


def test_write_whose_heart_beats_is_waited_for() -> None:
    here = Place()
    here.see([failed(is_alive=True)])
    action = here.act(ONE)
    assert here.condition(action)[:2] == ("Blocked", "OwnedElsewhere")
    assert not here.started
    here.see([failed()])
    here.settle()
    assert len(here.started) == 1


def test_write_that_completes_after_all_is_not_taken_back() -> None:
    here = Place()
    here.see([failed(is_alive=True)])
    action = here.act(ONE)
    here.see([], ow.commit(3))
    here.settle()
    assert here.condition(action)[:2] == ("Failed", "InstantNotFound")
    assert not here.started


@pytest.mark.parametrize("spec", [ONE, ROLLBACK])
def test_writer_at_work_is_waited_for_though_its_heart_stopped(spec: dict[str, object]) -> None:
    """R3: a paused process goes on sooner or later; its own earlier failures do not matter."""
    here = Place()
    writer = here.add(kinds.WRITER, "left", ow.writer_spec())
    here.see_source(writer, [["1"]], ["id", "a"])
    here.settle()
    begun = failed(5, attempt=here.started[-1].fence_number)
    here.see([begun])
    edits = {"rollback": {"instant": begun.requested_time}} if "rollback" in spec else {}
    action = here.act(edited(spec, **edits))
    state, reason, message = here.condition(action)
    assert (state, reason) == ("Blocked", "TableBusy")
    assert "Writer" in message
    here.end(here.uid(writer))
    here.see([begun])
    here.settle()
    assert isinstance(here.started[-1].work, job_specs.RollBack | job_specs.WriteBatches)
    assert any(isinstance(start.work, job_specs.RollBack) for start in here.started)


def test_earlier_failure_of_a_writer_at_work_is_taken_back() -> None:
    here = Place()
    writer = here.add(kinds.WRITER, "left", ow.writer_spec())
    here.see_source(writer, [["1"]], ["id", "a"])
    here.see([failed(attempt=1)])
    here.settle()
    here.act(ONE)
    assert isinstance(here.started[-1].work, job_specs.RollBack)


def test_one_rollback_of_a_table_is_at_work_at_a_time() -> None:
    here = Place()
    here.see([failed(), failed(4)])
    first = here.act(ONE)
    second = here.act(ROLLBACK, "all")
    assert here.condition(second)[:2] == ("Blocked", "TableBusy")
    here.end(here.uid(first), is_told=True)
    here.see([failed(4)])
    here.settle()
    assert [start.id.name for start in here.started] == ["back", "all"]


def test_single_writer_table_takes_one_run_at_a_time() -> None:
    """R2."""
    table = edited(ow.TABLE, concurrency={"mode": "SingleWriter", "lockRef": {"name": "zk"}})
    here = Place(table)
    writer = here.add(kinds.WRITER, "other", ow.writer_spec())
    here.see_source(writer, [["1"]], ["id", "a"])
    here.see([failed()])
    here.settle()
    action = here.act(ONE)
    assert here.condition(action)[:2] == ("Blocked", "TableBusy")


def test_unknown_instant_is_refused() -> None:
    here = Place()
    action = here.act(ONE)
    assert here.condition(action)[:2] == ("Failed", "InstantNotFound")
    assert not here.started
