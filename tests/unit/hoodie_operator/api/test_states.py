"""The one table of states keeps its own promises."""

import pytest

from hoodie_operator.api import kinds, states
from hoodie_operator.api.conditions import ConditionStatus
from hoodie_operator.api.reasons import Reason

ROWS = [
    pytest.param(row, id=f"{kind}-{state.value}")
    for kind, table in states.TABLE.items()
    for state, row in table.items()
]


def _kstatus(row: states.Row) -> states.Kstatus:
    # What kstatus computes of conditions whose generation is the object's (generic.go).
    if row.is_reconciling:
        return states.Kstatus.IN_PROGRESS
    if row.is_stalled:
        return states.Kstatus.FAILED
    if row.ready is ConditionStatus.TRUE:
        return states.Kstatus.CURRENT
    return states.Kstatus.IN_PROGRESS


@pytest.mark.parametrize("row", ROWS)
def test_kstatus_is_what_kstatus_computes(row: states.Row) -> None:
    if row.kstatus is not states.Kstatus.TERMINATING:
        assert row.kstatus is _kstatus(row)


@pytest.mark.parametrize("row", ROWS)
def test_ready_reconciling_and_stalled_exclude_each_other(row: states.Row) -> None:
    stands = [row.ready is ConditionStatus.TRUE, row.is_reconciling, row.is_stalled]
    assert stands.count(True) == 1


@pytest.mark.parametrize("kind", kinds.KINDS, ids=lambda kind: kind.name)
def test_every_kind_has_its_states(kind: kinds.Kind) -> None:
    assert kind.states is states.TABLE[kind.name]
    assert states.State.DELETING in kind.states


def test_every_wait_that_nobody_ends_for_sure_has_a_limit() -> None:
    # R15: runs have limits of their own, everything else that waits has one here.
    bounded_elsewhere = {
        states.State.QUEUED,  # The runs before it have limits.
        states.State.STARTING,
        states.State.RUNNING,
        states.State.STOPPING,
        states.State.BACKING_OFF,
        states.State.PROVISIONING,
        # Each has a TableAction, whose states are bounded.
        states.State.BUILDING,
        states.State.DROPPING,
        states.State.DELETING,
    }
    for table in states.TABLE.values():
        for state, row in table.items():
            if row.is_reconciling and state not in bounded_elsewhere:
                assert row.limit_ms is not None, state


def test_every_reason_is_explained() -> None:
    assert all(reason.sentence.endswith(".") for reason in Reason)
    assert len({reason.value for reason in Reason}) == len(list(Reason))
