"""Names of instants in timeline layout 2: format.md: Timeline, one name for each state."""

import pytest

from hoodie import errors
from hoodie.format import instant_names
from hoodie.model import instants
from hoodie.model.instants import Action, State

R = instants.InstantTime("20261121071232155")
C = instants.InstantTime("20261121071233000")

PENDING = [
    (f"{R}.commit.requested", Action.COMMIT, State.REQUESTED),
    (f"{R}.inflight", Action.COMMIT, State.INFLIGHT),
    (f"{R}.deltacommit.requested", Action.DELTA_COMMIT, State.REQUESTED),
    (f"{R}.deltacommit.inflight", Action.DELTA_COMMIT, State.INFLIGHT),
    (f"{R}.compaction.requested", Action.COMPACTION, State.REQUESTED),
    (f"{R}.compaction.inflight", Action.COMPACTION, State.INFLIGHT),
    (f"{R}.logcompaction.requested", Action.LOG_COMPACTION, State.REQUESTED),
    (f"{R}.logcompaction.inflight", Action.LOG_COMPACTION, State.INFLIGHT),
    (f"{R}.replacecommit.requested", Action.REPLACE_COMMIT, State.REQUESTED),
    (f"{R}.replacecommit.inflight", Action.REPLACE_COMMIT, State.INFLIGHT),
    (f"{R}.clustering.requested", Action.CLUSTERING, State.REQUESTED),
    (f"{R}.clustering.inflight", Action.CLUSTERING, State.INFLIGHT),
    (f"{R}.clean.requested", Action.CLEAN, State.REQUESTED),
    (f"{R}.clean.inflight", Action.CLEAN, State.INFLIGHT),
    (f"{R}.rollback.requested", Action.ROLLBACK, State.REQUESTED),
    (f"{R}.rollback.inflight", Action.ROLLBACK, State.INFLIGHT),
    (f"{R}.restore.requested", Action.RESTORE, State.REQUESTED),
    (f"{R}.restore.inflight", Action.RESTORE, State.INFLIGHT),
    (f"{R}.indexing.requested", Action.INDEXING, State.REQUESTED),
    (f"{R}.indexing.inflight", Action.INDEXING, State.INFLIGHT),
    (f"{R}.savepoint.inflight", Action.SAVEPOINT, State.INFLIGHT),
]
COMPLETED = [
    (f"{R}_{C}.{action.value}", action)
    for action in (
        Action.COMMIT,
        Action.DELTA_COMMIT,
        Action.REPLACE_COMMIT,
        Action.CLEAN,
        Action.ROLLBACK,
        Action.RESTORE,
        Action.INDEXING,
        Action.SAVEPOINT,
    )
]


@pytest.mark.parametrize(("name", "action", "state"), PENDING)
def test_pending_instant_has_the_name_of_hudi(name: str, action: Action, state: State) -> None:
    instant = instants.Instant(requested_time=R, action=action, state=state)
    assert instant_names.file_name(instant) == name
    assert instant_names.parse(name) == instant


@pytest.mark.parametrize(("name", "action"), COMPLETED)
def test_completed_instant_has_the_name_of_hudi(name: str, action: Action) -> None:
    instant = instants.Instant(
        requested_time=R, action=action, state=State.COMPLETED, completion_time=C
    )
    assert instant_names.file_name(instant) == name
    assert instant_names.parse(name) == instant


@pytest.mark.parametrize(
    "name",
    [
        "history",
        ".hoodie",
        "hoodie.properties",
        f".{R}_{C}.commit.crc",
        f"{R}_{C}.commit.0f7a9e39-0e0e-4a7e-8b4c-6ab7f3b1a0f5",
        f"{R}.deltacommit.inflight.0f7a9e39-0e0e-4a7e-8b4c-6ab7f3b1a0f5",
        f"{R}_{C}.deltacommit.inflight",
        f"{R}_{C}.inflight",
        f"{R}.requested",
        f"{R}.commit.inflight",
        f"{R}.savepoint.requested",
        f"{R}.schemacommit",
        f"{R}.compaction",
        f"{R}_{C}.compaction",
        f"{R}_{C}.clustering",
        f"{R}_{C}.logcompaction",
        f"{R}_{C}",
        f"{R}_.commit",
        "2026.commit",
        f"{R}.COMMIT.requested",
        f"{R}.commit.requested\n",
        "",
    ],
)
def test_other_names_are_no_instants(name: str) -> None:
    assert instant_names.parse(name) is None


def test_completed_instant_of_layout_1_is_not_overlooked() -> None:
    with pytest.raises(errors.UnsupportedError, match=rf"{R}\.commit.*completion time"):
        instant_names.parse(f"{R}.commit")


def test_times_of_fourteen_digits_are_padded() -> None:
    instant = instant_names.parse("20200101000000_20200101000001.commit")
    assert instant is not None
    assert (instant.requested_time, instant.completion_time) == (
        "20200101000000999",
        "20200101000001999",
    )
