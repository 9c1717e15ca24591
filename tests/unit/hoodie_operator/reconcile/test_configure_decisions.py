"""When a TableAction of type Configure runs, and what a HudiTable says of other engines."""

import dataclasses

import pytest

from hoodie.contract import job_specs
from hoodie.model import table_config
from hoodie.model.change_data import LoggingMode
from hoodie_operator.api import kinds
from hoodie_operator.api.conditions import ConditionStatus, Type
from hoodie_operator.reconcile import facts
from support.operators import operator_world as ow
from support.operators.flights_world import Flights
from support.operators.rule_examples import edited

CONFIGURE = {"tableRef": {"name": "flights"}, "type": "Configure"}
CHAIN = table_config.ChainName(id="c")


def see(
    here: Flights,
    *,
    chain: table_config.ChainName | None = CHAIN,
    has_foreign_writers: bool = False,
    pending: tuple[facts.Pending, ...] = (),
    interference: tuple[str, ...] = (),
) -> None:
    """Have the observer see the table with a chain, or without."""
    here.see_table(here.table_key, pending=pending)
    here.change_stored(chain=chain, has_foreign_writers=has_foreign_writers)
    uid = here.uid(here.table_key)
    here.tables[uid] = dataclasses.replace(here.tables[uid], interference=interference)


@pytest.mark.parametrize("is_external", [False, True])
@pytest.mark.parametrize("has_chain", [False, True])
def test_table_is_changed_as_it_declares(*, is_external: bool, has_chain: bool) -> None:
    here = Flights(table=edited(ow.TABLE, concurrency__externalWriters=is_external))
    see(here, chain=None if has_chain else CHAIN, has_foreign_writers=True)
    here.started.clear()
    action = here.add(
        kinds.TABLE_ACTION, "configure", edited(CONFIGURE, configure={"chain": has_chain})
    )
    here.settle()
    (start,) = here.started
    has_foreign_writers = is_external or not has_chain
    assert start.work == job_specs.ConfigureTable(
        has_chain=has_chain, has_foreign_writers=has_foreign_writers, change_data=""
    )
    here.end(here.uid(action), is_told=True)
    see(here, chain=CHAIN if has_chain else None, has_foreign_writers=has_foreign_writers)
    here.settle()
    state, _, message = here.condition(action)
    assert state == "Succeeded"
    does = "admits" if has_foreign_writers else "excludes"
    assert message == f"the table has {'a' if has_chain else 'no'} chain and {does} other engines"


def test_writers_at_work_are_waited_for() -> None:
    here = Flights()
    see(here)
    here.add_writer("left")
    here.settle()
    here.started.clear()
    action = here.add(kinds.TABLE_ACTION, "configure", CONFIGURE)
    here.settle()
    state, reason, message = here.condition(action)
    assert (state, reason) == ("Blocked", "TableBusy")
    assert message.endswith("expected none while the table's writers change")
    assert not here.started


def test_pending_write_of_a_process_elsewhere_is_waited_for() -> None:
    here = Flights()
    see(here)
    write = facts.Pending(requested_time=ow.time(3), action="deltacommit", is_alive=True)
    see(here, pending=(write,))
    here.started.clear()
    action = here.add(kinds.TABLE_ACTION, "configure", CONFIGURE)
    here.settle()
    assert here.condition(action)[:2] == ("Blocked", "OwnedElsewhere")
    assert not here.started


def test_table_says_what_other_engines_did() -> None:
    """CH13; as long as the table's chain keeps it, and while the table cannot be seen."""
    here = Flights()
    found = "20260101000000000 deltacommit was completed by another engine"
    see(here, interference=(found,))
    here.settle()
    status = here.status(here.table_key)
    told = status.condition(Type.INTERFERENCE)
    assert told is not None
    assert (told.status, told.reason, told.message) == (
        ConditionStatus.TRUE,
        "ForeignInstant",
        found,
    )
    assert here.condition(here.table_key)[0] == "Ready"
    problem = facts.Problem(kind="storage", message="no answer", is_transient=True)
    here.tables[here.uid(here.table_key)] = facts.TableFacts(
        observed_ms=here.monotonic_ms, problem=problem
    )
    here.settle()
    assert here.status(here.table_key).condition(Type.INTERFERENCE) is not None
    see(here)
    here.settle()
    assert here.status(here.table_key).condition(Type.INTERFERENCE) is None


def test_table_says_that_it_admits_others_than_it_declares() -> None:
    here = Flights()
    see(here, has_foreign_writers=True)
    here.settle()
    state, _, message = here.condition(here.table_key)
    assert state == "Ready"
    assert "externalWriters is false, but the table admits other engines" in message
    see(here)
    here.settle()
    assert "engines" not in here.condition(here.table_key)[2]


@pytest.mark.parametrize("mode", [None, "DataBeforeAfter"])
def test_change_data_is_changed_as_it_declares(mode: str | None) -> None:
    stored = None if mode else LoggingMode.OP_KEY_ONLY
    wanted = LoggingMode.DATA_BEFORE_AFTER if mode else None
    here = Flights(table=edited(ow.TABLE, changeData=mode))
    see(here)
    here.change_stored(change_data=stored)
    here.settle()
    state, _, message = here.condition(here.table_key)
    assert state == "Ready"
    told = "none of their changes" if mode else "change data of mode OP_KEY_ONLY"
    expected = "DATA_BEFORE_AFTER" if mode else "none"
    assert f"writes store {told}, expected {expected} by changeData: a TableAction" in message
    here.started.clear()
    action = here.add(kinds.TABLE_ACTION, "configure", CONFIGURE)
    here.settle()
    (start,) = here.started
    assert start.work == job_specs.ConfigureTable(
        has_chain=True,
        has_foreign_writers=False,
        change_data="DATA_BEFORE_AFTER" if mode else "",
    )
    here.end(here.uid(action), is_told=True)
    see(here)
    here.change_stored(change_data=wanted)
    here.settle()
    state, _, message = here.condition(action)
    assert state == "Succeeded"
    assert message.endswith("store change data of mode DATA_BEFORE_AFTER") is (mode is not None)
    assert "changeData" not in here.condition(here.table_key)[2]
