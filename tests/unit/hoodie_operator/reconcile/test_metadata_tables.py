"""What is decided about metadata tables: by spec.metadata, and by TableActions of users."""

import dataclasses

import pytest

from hoodie.contract import job_specs
from hoodie_operator.api import hudi_table_status, kinds, objects
from hoodie_operator.api.conditions import ConditionStatus, Type
from hoodie_operator.reconcile import facts
from support.operators import operator_world as ow
from support.operators.flights_world import Flights
from support.operators.rule_examples import edited

INIT = {"tableRef": {"name": "flights"}, "type": "MetadataInit"}
DROP = {"tableRef": {"name": "flights"}, "type": "MetadataDrop"}


class Indexed(Flights):
    """A table that may have a metadata table."""

    def declare(self, enabled: bool | None) -> None:
        self.edit(self.table_key, metadata={"enabled": enabled} if enabled is not None else {})

    def see(
        self, *partitions: str, building: tuple[str, ...] = (), commits: int = 1, problem: str = ""
    ) -> None:
        """Have the observer see these partitions."""
        self.now_ms += 1
        self.see_table(self.table_key, [ow.commit(number + 1) for number in range(commits)])
        self.change_stored(metadata_partitions=partitions, metadata_partitions_inflight=building)
        found = facts.MetadataTable(delta_commits=3, problem=problem) if partitions else None
        uid = self.uid(self.table_key)
        self.tables[uid] = dataclasses.replace(self.tables[uid], metadata=found)
        self.settle()

    @property
    def told(self) -> hudi_table_status.MetadataStatus | None:
        found: hudi_table_status.MetadataStatus | None = self.status(self.table_key).metadata
        return found

    def end_well(self, key: objects.ObjectKey, *partitions: str) -> None:
        """End the run of an action, after which the table has these partitions."""
        self.end(self.uid(key), is_told=True)
        self.see(*partitions)

    @property
    def works(self) -> list[job_specs.Work]:
        return [start.work for start in self.started]


@pytest.mark.parametrize("enabled", [None, False, True])
def test_table_is_created_with_what_it_declares(enabled: bool | None) -> None:
    here = Flights(
        table=edited(ow.TABLE, metadata={} if enabled is None else {"enabled": enabled}),
        is_ready=False,
    )
    here.see_table(here.table_key, is_there=False)
    here.settle()
    (start,) = here.started
    assert start.work == job_specs.CreateTable(has_metadata_table=enabled is True)


@pytest.mark.parametrize(
    ("enabled", "partitions"),
    [(None, ()), (None, ("files",)), (True, ("files",)), (False, ())],
)
def test_table_that_is_as_declared_is_left_as_it_is(
    enabled: bool | None, partitions: tuple[str, ...]
) -> None:
    here = Indexed()
    here.declare(enabled)
    here.see(*partitions)
    assert not here.actions()
    if partitions:
        assert here.told == hudi_table_status.MetadataStatus(
            partitions=(hudi_table_status.MetadataPartition(name="files", ready=True),),
            delta_commits=3,
        )
    else:
        assert here.told is None


def test_missing_metadata_table_is_made_by_one_action_beside_writers() -> None:
    here = Indexed()
    here.add_writer("left")
    here.declare(True)
    here.see()
    (action,) = here.actions()
    assert here.by_key[action].owner == objects.Owner(
        kind="HudiTable", name="flights", uid=here.uid(here.table_key)
    )
    assert job_specs.InitialiseMetadata() in here.works
    assert any(isinstance(work, job_specs.WriteBatches) for work in here.works)
    here.see(commits=2)
    assert here.actions() == [action]
    assert here.told == hudi_table_status.MetadataStatus(
        action=action.name, message=f"TableAction {action.name} is active"
    )
    here.end_well(action, "files")
    assert here.condition(action) == (
        "Succeeded",
        "Succeeded",
        "the table has a metadata table with files",
    )
    assert here.told is not None
    assert here.told.message is None


def test_metadata_table_is_dropped_and_again_when_another_engine_made_it_again() -> None:
    here = Indexed()
    here.declare(False)
    here.see("files", "record_index")
    (first,) = here.actions()
    assert here.works == [job_specs.DropMetadata()]
    here.end_well(first)
    assert here.condition(first)[::2] == ("Succeeded", "the table has no metadata table")
    assert here.told is None
    here.see(building=("files",), commits=2)
    assert len(here.actions()) == 2


def test_metadata_table_that_another_engine_builds_is_there() -> None:
    here = Indexed()
    here.declare(True)
    here.see(building=("files",))
    assert not here.actions()
    assert here.told == hudi_table_status.MetadataStatus(
        partitions=(hudi_table_status.MetadataPartition(name="files", ready=False),)
    )


def test_action_that_failed_is_told_and_followed_at_the_next_commit() -> None:
    here = Indexed()
    here.declare(True)
    here.see()
    (action,) = here.actions()
    here.end(here.uid(action), "Format")
    here.see()
    assert here.actions() == [action]
    assert here.told is not None
    assert here.told.message == f"TableAction {action.name}: RunFailed: attempt 1: Format: as told"
    here.see(commits=2)
    assert len(here.actions()) == 2


def test_action_that_waits_is_withdrawn_when_the_table_declares_otherwise() -> None:
    here = Indexed()
    here.declare(False)
    here.see("files")
    (action,) = here.actions()
    here.end(here.uid(action), "Storage")
    here.declare(True)
    here.see("files")
    assert here.condition(action)[:2] == ("Cancelled", "Cancelled")


@pytest.mark.parametrize(
    ("spec", "partitions", "work"),
    [
        (INIT, (), job_specs.InitialiseMetadata()),
        (INIT, ("files",), None),
        (
            edited(INIT, metadataInit={"rebuild": True}),
            ("files",),
            job_specs.InitialiseMetadata(is_rebuilt=True),
        ),
        (DROP, ("files",), job_specs.DropMetadata()),
        (DROP, (), None),
    ],
)
def test_actions_of_users(
    spec: dict[str, object], partitions: tuple[str, ...], work: job_specs.Work | None
) -> None:
    here = Indexed()
    here.see(*partitions)
    action = here.add(kinds.TABLE_ACTION, "mine", spec)
    here.settle()
    assert here.works == ([] if work is None else [work])
    if work is None:
        assert here.condition(action)[:2] == ("Succeeded", "NothingToDo")
        return
    here.end_well(action, *(() if spec is DROP else ("files",)))
    assert here.condition(action)[:2] == ("Succeeded", "Succeeded")


def test_one_action_makes_or_drops_at_a_time() -> None:
    here = Indexed()
    here.see("files")
    first = here.add(kinds.TABLE_ACTION, "first", edited(INIT, metadataInit={"rebuild": True}))
    here.settle()
    second = here.add(kinds.TABLE_ACTION, "second", DROP)
    here.settle()
    assert here.condition(second) == (
        "Blocked",
        "TableBusy",
        f"{first} has an active run, expected one at a time",
    )


def test_damaged_metadata_table_is_a_condition_until_it_is_made_again() -> None:
    here = Indexed()
    here.declare(True)
    here.see("files", problem="file:///m lacks 1 commit: the table was changed without it")
    assert not here.actions()
    found = here.status(here.table_key).condition(Type.METADATA_TABLE_UNUSABLE)
    assert (found.status, found.reason) == (ConditionStatus.TRUE, "BehindOrDamaged")
    assert found.message.startswith("file:///m lacks 1 commit: the table was changed without it; ")
    assert "MetadataInit with metadataInit.rebuild" in found.message
    assert here.condition(here.table_key)[0] == "Ready"
    here.tables[here.uid(here.table_key)] = facts.TableFacts(
        observed_ms=here.monotonic_ms,
        problem=facts.Problem(kind="Storage", message="it is away", is_transient=True),
    )
    here.settle()
    assert here.status(here.table_key).condition(Type.METADATA_TABLE_UNUSABLE) is not None
    here.see("files")
    assert here.status(here.table_key).condition(Type.METADATA_TABLE_UNUSABLE) is None


def test_names_in_a_tables_properties_are_bounded() -> None:
    here = Indexed()
    here.see(*(f"expr_index_{number:03}{'x' * 600}" for number in range(300)))
    assert here.told is not None
    assert here.told.partitions is not None
    assert len(here.told.partitions) == 100
