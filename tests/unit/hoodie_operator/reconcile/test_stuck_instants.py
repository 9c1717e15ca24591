"""Instants that stay pending: what is told of them, and which are rolled back by a policy."""

import dataclasses

import pytest

from hoodie.model import instants
from hoodie_operator.api import hudi_table_status, kinds, objects, table_action
from hoodie_operator.api.conditions import Type
from hoodie_operator.reconcile import facts
from support.operators import operator_world as ow
from support.operators.flights_world import Flights
from support.operators.rule_examples import RETENTION, edited

HOUR_MS = 3_600_000
ROLL_BACK = {"after": "1h", "action": "RollBack"}


class Place(Flights):
    """A ready table with a RetentionPolicy that deals with stuck instants."""

    def __init__(self, stuck: dict[str, object] | None = None, **edits: object) -> None:
        super().__init__()
        policy = edited(RETENTION, stuck=stuck or ROLL_BACK, **edits)
        self.policy = self.add(kinds.RETENTION_POLICY, "past", policy)
        self.settle()

    def see(self, *pending: facts.Pending) -> None:
        self.see_table(self.table_key, [ow.commit(1)], pending)
        self.settle()

    def time(self, age_ms: int = 2 * HOUR_MS) -> instants.InstantTime:
        return instants.format_time(self.wall_ms - age_ms)

    def failed(self, age_ms: int = 2 * HOUR_MS, **fields: object) -> facts.Pending:
        pending = facts.Pending(
            requested_time=self.time(age_ms),
            action="deltacommit",
            writer_id="left",
            attempt=7,
            process="pid 71 on node-3",
        )
        return dataclasses.replace(pending, **fields)  # type: ignore[arg-type]  # what a test varies

    def told(self) -> tuple[hudi_table_status.StuckInstant, ...]:
        found = self.status(self.table_key)
        assert isinstance(found, hudi_table_status.HudiTableStatus)
        return found.stuck or ()

    def rollbacks(self) -> list[objects.ObjectKey]:
        return [
            key
            for key in self.actions()
            if self.by_key[key].spec.model_dump()["type"] is table_action.ActionType.ROLLBACK
        ]


def ended_writer(here: Place) -> None:
    """Add the Writer left, which has no run."""
    here.add_writer("left", suspend=True)


def test_stuck_write_of_a_writer_without_a_run_is_rolled_back_and_told() -> None:
    here = Place()
    ended_writer(here)
    pending = here.failed()
    here.see(pending)
    (key,) = here.rollbacks()
    spec = here.by_key[key].spec
    assert isinstance(spec, table_action.TableActionSpec)
    assert spec.rollback == table_action.RollbackParameters(instant=pending.requested_time)
    (told,) = here.told()
    assert (told.instant, told.type) == (pending.requested_time, "deltacommit")
    assert (told.owner, told.process) == ("writer left", "pid 71 on node-3")
    assert (told.policy, told.action) == ("RetentionPolicy/past", key.name)
    condition = here.status(here.table_key).condition(Type.INSTANTS_STUCK)
    assert condition is not None
    assert condition.reason == "InstantStuck"
    assert "deltacommit" in condition.message
    here.settle()
    assert here.rollbacks() == [key]
    here.see()
    assert here.told() == ()
    assert here.status(here.table_key).condition(Type.INSTANTS_STUCK) is None


def test_write_that_is_pending_for_less_than_the_policy_says_is_no_matter() -> None:
    here = Place()
    ended_writer(here)
    here.see(here.failed(age_ms=HOUR_MS // 2))
    assert (here.told(), here.rollbacks()) == ((), [])


def test_table_without_such_a_policy_reports_nothing() -> None:
    here = Flights()
    old = instants.format_time(here.wall_ms - 100 * HOUR_MS)
    pending = facts.Pending(requested_time=old, action="deltacommit", writer_id="left")
    here.see_table(here.table_key, [ow.commit(1)], [pending])
    here.settle()
    assert here.status(here.table_key).stuck is None


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"is_alive": True}, "its heartbeat is alive"),
        ({"writer_id": None}, "not certain"),
        ({"writer_id": "jvm"}, "writer jvm does not belong to a Writer"),
        ({"action": "rollback", "writer_id": None}, "its service executes it"),
        ({"action": "clean", "writer_id": None}, "its service executes it"),
    ],
)
def test_instant_whose_owner_lives_or_is_not_known_is_only_told(
    fields: dict[str, object], message: str
) -> None:
    here = Place()
    ended_writer(here)
    here.see(here.failed(**fields))
    (told,) = here.told()
    assert message in told.message
    assert here.rollbacks() == []


def test_write_of_a_writer_with_an_active_run_is_only_told() -> None:
    here = Place()
    key = here.add_writer("left")
    here.settle()
    assert here.run(here.uid(key)).is_running
    here.see(here.failed(attempt=None))
    (told,) = here.told()
    assert "has an active run and may continue it" in told.message
    assert here.rollbacks() == []


def test_write_of_a_foreign_writer_is_rolled_back_once_the_policy_names_it() -> None:
    here = Place({**ROLL_BACK, "foreignWriters": ["jvm"]})
    here.see(here.failed(writer_id="jvm"), here.failed(3 * HOUR_MS, writer_id="other"))
    (key,) = here.rollbacks()
    assert {each.owner: each.action for each in here.told()} == {
        "writer jvm": key.name,
        "writer other": None,
    }


@pytest.mark.parametrize(
    ("stuck", "edits", "message"),
    [
        ({"after": "1h"}, {}, "stuck.action of RetentionPolicy/past is Report"),
        (ROLL_BACK, {"dryRun": True}, "a dry run leaves it"),
        (ROLL_BACK, {"suspend": True}, "is suspended"),
    ],
)
def test_policy_that_only_reports_rolls_nothing_back(
    stuck: dict[str, object], edits: dict[str, object], message: str
) -> None:
    here = Place(stuck, **edits)
    ended_writer(here)
    here.see(here.failed())
    (told,) = here.told()
    assert message in told.message
    assert here.rollbacks() == []


def test_table_that_leaves_cleaning_to_others_is_only_reported_on() -> None:
    here = Place()
    ended_writer(here)
    here.edit(here.table_key, services__cleaning="External")
    here.see(here.failed())
    (told,) = here.told()
    assert "leaves cleaning to External" in told.message
    assert here.rollbacks() == []


def test_instant_of_fourteen_digits_is_only_told() -> None:
    here = Place({**ROLL_BACK, "foreignWriters": ["jvm"]})
    here.see(here.failed(writer_id="jvm", requested_time=here.time()[:14]))
    assert len(here.told()) == 1
    assert here.rollbacks() == []


def test_stuck_compaction_is_told_by_its_own_policy() -> None:
    here = Place()
    here.add_policy(stuck={"after": "1h"})
    here.see(here.failed(action="compaction", writer_id=None, action_id="often"))
    (told,) = here.told()
    assert (told.owner, told.policy) == ("TableAction often", "CompactionPolicy/often")


def test_what_is_stuck_stays_told_while_the_storage_is_not_read() -> None:
    here = Place({"after": "1h"})
    here.see(here.failed())
    before = here.told()
    uid = here.uid(here.table_key)
    problem = facts.Problem(kind="Storage", message="it is away", is_transient=True)
    here.tables[uid] = facts.TableFacts(observed_ms=here.monotonic_ms, problem=problem)
    here.settle()
    assert here.told() == before
