"""What is decided about IndexRequests, and about TableActions that build or drop indexes."""

import dataclasses
import re

import pytest

from hoodie.contract import job_specs
from hoodie.metadata import index_decisions
from hoodie.model import instants, table_config
from hoodie_operator.api import index_request, kinds, objects
from hoodie_operator.api.conditions import Type
from hoodie_operator.cluster.control import statuses
from hoodie_operator.reconcile import facts
from support.operators import operator_world as ow
from support.operators.flights_world import Flights
from support.operators.rule_examples import edited

NAMES = ("column_stats", "bloom_filters")
REQUEST = {"tableRef": {"name": "flights"}, "indexes": list(NAMES)}
FILES = ("files",)
SAMPLE = job_specs.IndexValidation.SAMPLE


class Indexed(Flights):
    """A table with a metadata table, and what is built in it."""

    def __init__(self, table: dict[str, object] | None = None) -> None:
        super().__init__(table=table)
        self.see()

    def ask(self, name: str = "wanted", **edits: object) -> objects.ObjectKey:
        key = self.add(kinds.INDEX_REQUEST, name, edited(REQUEST, **edits))
        self.settle()
        return key

    def see(
        self,
        *ready: str,
        building: tuple[str, ...] = (),
        pending: tuple[facts.Pending, ...] = (),
        has_partitioned: bool = False,
        **stored: object,
    ) -> None:
        """Have the observer see these partitions beside the files, and these builds."""
        self.now_ms += 1
        self.see_table(self.table_key, [ow.commit(1)], pending)
        self.change_stored(
            metadata_partitions=(*FILES, *ready), metadata_partitions_inflight=building, **stored
        )
        uid = self.uid(self.table_key)
        told = facts.MetadataTable(delta_commits=1, has_partitioned_record_index=has_partitioned)
        self.tables[uid] = dataclasses.replace(self.tables[uid], metadata=told)
        self.settle()

    def states(self, key: objects.ObjectKey) -> dict[str, str]:
        return {each.name: each.state.value for each in self.status(key).indexes or ()}

    @property
    def works(self) -> list[job_specs.Work]:
        return [start.work for start in self.started]

    def of_type(self, action_type: str) -> list[objects.ObjectKey]:
        return [key for key in self.actions() if f"-{action_type}-" in key.name]

    def only(self, action_type: str) -> objects.ObjectKey:
        (found,) = self.of_type(action_type)
        return found

    def end_well(self, key: objects.ObjectKey, *ready: str) -> None:
        """End the run of an action, after which the table has these indexes."""
        self.end(self.uid(key), is_told=True)
        self.see(*ready)


def pending(*names: str, action_id: str | None = None, is_alive: bool = False) -> facts.Pending:
    return facts.Pending(
        requested_time=instants.InstantTime(ow.time(2)),
        action="indexing",
        action_id=action_id,
        is_alive=is_alive,
        process="pid 9 on elsewhere" if is_alive else "",
        indexes=names,
    )


def test_indexes_are_built_by_one_action_beside_writers_until_readers_use_them() -> None:
    here = Indexed()
    here.add_writer("left")
    key = here.ask()
    action = here.only("indexbuild")
    assert here.by_key[action].owner == objects.Owner(
        kind="IndexRequest", name="wanted", uid=here.uid(key)
    )
    assert job_specs.BuildIndexes(names=NAMES, validation=SAMPLE) in here.works
    assert any(isinstance(work, job_specs.WriteBatches) for work in here.works)
    assert here.condition(key)[:2] == ("Building", "ActionAtWork")
    assert here.states(key) == dict.fromkeys(NAMES, "Missing")

    here.see(pending=(pending(*NAMES, action_id=action.name),))
    assert here.states(key) == dict.fromkeys(NAMES, "Planned")
    assert here.status(key).instant == ow.time(2)
    here.progress(here.uid(action), "reading bloom filters", 3, 10)
    here.see(
        "column_stats",
        building=("bloom_filters",),
        pending=(pending("bloom_filters", action_id=action.name, is_alive=True),),
    )
    assert here.states(key) == {"column_stats": "Ready", "bloom_filters": "Building"}
    told = here.status(key)
    assert (told.built, told.progress) == ("1/2", "reading bloom filters 3/10")
    assert "reading bloom filters 3/10" in here.condition(key)[2]

    # Ready is what was compared, and not what the properties alone show.
    here.see(*NAMES)
    assert here.condition(key)[0] == "Building"
    here.end_well(action, *NAMES)
    assert here.condition(key) == ("Ready", "Ready", "readers use column_stats, bloom_filters")
    told = here.status(key)
    assert (told.built, told.action, told.progress, told.instant) == ("2/2", None, None, None)
    assert told.validated.value == "Sample"
    assert here.condition(action)[:2] == ("Succeeded", "Succeeded")
    assert here.of_type("indexbuild") == [action]


def test_build_goes_on_from_the_timeline_when_another_process_leads() -> None:
    """T-P07."""
    here = Indexed()
    key = here.ask()
    action = here.only("indexbuild")
    here.lead_anew(clock_ahead_ms=-60_000)
    here.see_lock(here.lock_key)
    here.settle()
    assert here.of_type("indexbuild") == [action]
    here.end(here.uid(action))
    here.see(building=NAMES, pending=(pending(*NAMES, action_id=action.name),))
    here.now_ms += 600_000
    here.see(building=NAMES, pending=(pending(*NAMES, action_id=action.name),))
    build = job_specs.BuildIndexes(names=NAMES, validation=SAMPLE)
    assert here.works.count(build) == 2
    here.end_well(action, *NAMES)
    assert here.condition(key)[0] == "Ready"


def test_index_that_something_else_has_dropped_is_built_again() -> None:
    here = Indexed()
    key = here.ask()
    here.end_well(here.only("indexbuild"), *NAMES)
    here.see("column_stats")
    assert here.condition(key)[0] == "Building"
    assert here.status(key).validated is None
    build = job_specs.BuildIndexes(names=NAMES, validation=SAMPLE)
    assert here.works.count(build) == 2
    here.end_well(here.only("indexbuild"), *NAMES)
    assert here.condition(key)[0] == "Ready"


STATISTICS_COLUMNS = table_config.STATISTICS_COLUMNS_KEY


def see_columns(here: Indexed, *columns: str) -> None:
    """Have the observer see that there are statistics of these columns."""
    here.see(*NAMES, properties={STATISTICS_COLUMNS: ",".join(columns)})


def test_statistics_are_built_again_where_other_columns_are_asked_for() -> None:
    here = Indexed()
    here.see(*NAMES)
    key = here.ask(statisticsColumns=["a", "b"])
    build = job_specs.BuildIndexes(names=NAMES, validation=SAMPLE, statistics_columns=("a", "b"))
    assert here.works == [build]
    # All of them are ready, and of other columns.
    here.see(*NAMES)
    assert here.condition(key)[0] == "Building"
    assert here.status(key).validated is None
    here.end(here.uid(here.only("indexbuild")), is_told=True)
    see_columns(here, "b", "a")
    assert here.condition(key)[0] == "Ready"

    here.edit(key, statisticsColumns=["c"])
    here.settle()
    assert here.condition(key)[0] == "Building"
    assert here.status(key).validated is None
    assert here.works[1:] == [dataclasses.replace(build, statistics_columns=("c",))]
    here.end(here.uid(here.only("indexbuild")), is_told=True)
    see_columns(here, "c")
    assert here.condition(key)[0] == "Ready"
    # What is asked for no more stays as it is.
    here.edit(key, statisticsColumns=None)
    here.settle()
    assert here.condition(key)[0] == "Ready"


def test_build_of_columns_that_are_not_asked_for_any_more_is_stopped() -> None:
    here = Indexed()
    key = here.ask(statisticsColumns=["a"])
    action = here.only("indexbuild")
    here.edit(key, statisticsColumns=["b"])
    here.settle()
    assert here.run(here.uid(action)).stop_reason == f"{key} has other statisticsColumns"
    here.end(here.uid(action), "Cancelled")
    here.see()
    assert [each.statistics_columns for each in here.works] == [("a",), ("b",)]  # type: ignore[union-attr]  # builds
    assert here.condition(key)[0] == "Building"


def test_younger_object_with_other_columns_is_refused() -> None:
    here = Indexed()
    see_columns(here, "a")
    older = here.ask("older", validation="None", statisticsColumns=["a"])
    younger = here.ask("younger", validation="None", statisticsColumns=["b"])
    assert here.condition(older)[0] == "Ready"
    assert here.condition(younger) == (
        "Stalled",
        "RequestConflict",
        "IndexRequest older is older and has the statisticsColumns a",
    )
    assert not here.works
    # One that names none is content with them, and so is one with the same in another order.
    here.edit(younger, statisticsColumns=None)
    here.settle()
    assert here.condition(younger)[0] == "Ready"


def test_action_for_other_columns_has_something_to_do() -> None:
    here = Indexed()
    see_columns(here, "a")

    def act(name: str, *columns: str) -> objects.ObjectKey:
        build = {"indexes": list(NAMES), "statisticsColumns": list(columns)}
        spec = {"tableRef": {"name": "flights"}, "type": "IndexBuild", "indexBuild": build}
        key = here.add(kinds.TABLE_ACTION, name, spec)
        here.settle()
        return key

    assert here.condition(act("same", "a"))[:2] == ("Succeeded", "NothingToDo")
    assert not here.works
    act("other", "b")
    assert here.works == [job_specs.BuildIndexes(names=NAMES, statistics_columns=("b",))]


@pytest.mark.parametrize("validation", ["None", "Sample", "Whole"])
def test_index_that_is_there_is_compared_as_declared(validation: str) -> None:
    here = Indexed()
    here.see(*NAMES)
    key = here.ask(validation=validation)
    if validation == "None":
        assert here.condition(key)[0] == "Ready"
        assert not here.works
        return
    how = job_specs.IndexValidation(validation.lower())
    assert here.works == [job_specs.BuildIndexes(names=NAMES, validation=how)]
    here.end_well(here.only("indexbuild"), *NAMES)
    assert here.condition(key)[0] == "Ready"
    # More is asked for later; less is not.
    here.edit(key, validation="Whole")
    here.settle()
    if validation == "Whole":
        assert here.condition(key)[0] == "Ready"
        return
    assert here.condition(key)[0] == "Building"
    here.end_well(here.only("indexbuild"), *NAMES)
    assert here.status(key).validated.value == "Whole"
    here.edit(key, validation="Sample")
    here.settle()
    assert here.condition(key)[0] == "Ready"


def test_build_that_failed_is_told_and_tried_again_once_the_object_is_changed() -> None:
    here = Indexed()
    key = here.ask()
    here.end(here.uid(here.only("indexbuild")), "Format")
    here.see()
    state, reason, message = here.condition(key)
    assert (state, reason) == ("Stalled", "ActionFailed")
    assert message.endswith("RunFailed: attempt 1: Format: as told")
    here.edit(key, priority=1)
    here.settle()
    assert here.condition(key)[0] == "Building"
    here.end_well(here.only("indexbuild"), *NAMES)
    assert here.condition(key)[0] == "Ready"


def test_build_that_a_user_cancelled_is_not_made_again() -> None:
    here = Indexed()
    key = here.ask()
    action = here.only("indexbuild")
    here.edit(action, cancel=True)
    here.settle()
    here.end(here.uid(action), "Cancelled")
    here.see()
    assert here.condition(action)[0] == "Cancelled"
    assert here.condition(key)[:2] == ("Stalled", "ActionFailed")
    assert here.of_type("indexbuild") == [action]


@pytest.mark.parametrize(
    ("stored", "edits", "told"),
    [
        ({"metadata_partitions": ()}, {}, "set its metadata.enabled to true"),
        ({}, {"indexes": ["partition_stats"]}, "has no partitions"),
    ],
)
def test_table_that_cannot_have_the_index_is_named_and_looked_at_again(
    stored: dict[str, object], edits: dict[str, object], told: str
) -> None:
    here = Indexed()
    here.change_stored(**stored)
    key = here.ask(**edits)
    state, reason, message = here.condition(key)
    assert (state, reason) == ("Stalled", "IndexRefused")
    assert told in message
    assert not here.actions()
    here.see()
    assert here.condition(key)[0] == ("Stalled" if edits else "Building")


def test_table_that_other_engines_may_write_has_its_writers_asked_for_the_index() -> None:
    here = Indexed()
    here.change_stored(has_foreign_writers=True)
    key = here.ask(indexes=[NAMES[0]])
    assert here.condition(key)[0] == "Building"
    assert here.status(key).condition(Type.EXTERNAL_WRITERS) is not None
    here.see()
    assert here.condition(key)[0] == "Building"
    assert here.status(key).condition(Type.EXTERNAL_WRITERS) is None


def test_index_by_which_other_engines_miss_rows_is_refused_as_the_core_says() -> None:
    here = Indexed()
    here.change_stored(has_foreign_writers=True)
    config = here.tables[here.uid(here.table_key)].config
    assert config is not None
    key = here.ask()
    refusal = index_decisions.readers_refusal(NAMES, config)
    assert here.condition(key) == ("Stalled", "IndexRefused", str(refusal))
    assert not here.actions()
    here.see()
    assert here.condition(key)[0] == "Building"


def test_table_of_a_single_writer_is_refused() -> None:
    """T-I01."""
    here = Indexed(table=ow.SINGLE)
    state, reason, message = here.condition(here.ask())
    assert (state, reason) == ("Stalled", "OperationNotAllowed")
    assert "SingleWriter, expected Optimistic or NonBlocking" in message


def test_metadata_table_that_is_being_made_is_waited_for() -> None:
    here = Indexed(table=edited(ow.TABLE, metadata={"enabled": True}))
    here.change_stored(metadata_partitions=())
    key = here.ask()
    assert here.condition(key)[:2] == ("Pending", "TableNotReady")
    here.see()
    assert here.condition(key)[0] == "Building"


def test_one_build_runs_on_a_table_at_a_time() -> None:
    here = Indexed()
    first = here.ask("first", indexes=["column_stats"])
    second = here.ask("second", indexes=["bloom_filters"])
    assert len(here.works) == 1
    state, _, message = here.condition(second)
    assert state == "Building"
    assert "TableBusy: TableAction flights-indexbuild-" in message
    action = next(each for each in here.actions() if here.by_key[each].owner.name == "first")  # type: ignore[union-attr]  # each is owned
    here.end_well(action, "column_stats")
    assert here.condition(first)[0] == "Ready"
    assert len(here.works) == 2


def test_build_that_waits_for_its_user_waits_for_no_other_run() -> None:
    """It stays failed while another build runs, which it does not wait for."""
    here = Indexed()
    first = here.ask("first", indexes=["column_stats"])
    failed = here.only("indexbuild")
    here.end(here.uid(failed), "Format")
    here.settle()
    told = here.condition(first)
    assert told[:2] == ("Stalled", "ActionFailed")
    here.ask("second", indexes=["bloom_filters"])
    assert len(here.works) == 2
    assert here.condition(failed)[:2] == ("Failed", "RunFailed")
    assert here.condition(first) == told


def test_build_waits_for_another_process_and_for_builds_of_others() -> None:
    here = Indexed()
    here.see(pending=(pending("bloom_filters", is_alive=True),))
    key = here.ask()
    assert not here.works
    assert "OwnedElsewhere" in here.condition(key)[2]
    assert "pid 9 on elsewhere" in here.condition(key)[2]
    # One that is dead is finished by this build.
    here.see(pending=(pending("bloom_filters"),))
    assert len(here.works) == 1


def test_dead_build_of_another_index_is_named() -> None:
    here = Indexed()
    here.see(pending=(pending("column_stats"),))
    key = here.ask(indexes=["bloom_filters"])
    assert not here.works
    assert "TableBusy" in here.condition(key)[2]
    assert "builds column_stats, expected no other index" in here.condition(key)[2]


def test_metadata_table_is_not_dropped_beside_a_build() -> None:
    here = Indexed()
    here.ask()
    drop = here.add(
        kinds.TABLE_ACTION, "drop", {"tableRef": {"name": "flights"}, "type": "MetadataDrop"}
    )
    here.settle()
    assert here.condition(drop)[:2] == ("Blocked", "TableBusy")


def test_suspended_object_stops_its_run_and_goes_on_later() -> None:
    here = Indexed()
    key = here.ask()
    action = here.only("indexbuild")
    here.edit(key, suspend=True)
    here.settle()
    assert here.condition(key)[:2] == ("Suspended", "Suspended")
    assert here.run(here.uid(action)).stop_reason == f"{key} is suspended"
    here.end(here.uid(action), "Cancelled")
    here.see()
    assert here.condition(action)[:2] == ("Cancelled", "Cancelled")
    here.edit(key, suspend=False)
    here.settle()
    assert here.condition(key)[0] == "Building"
    assert len(here.works) == 2


def test_absent_indexes_are_dropped_with_what_is_being_built() -> None:
    here = Indexed()
    key = here.ask()
    build = here.only("indexbuild")
    here.see("column_stats", building=("bloom_filters",))
    here.edit(key, ensure="Absent")
    here.settle()
    assert here.run(here.uid(build)).stop_reason == f"{key} has ensure Absent"
    here.end(here.uid(build), "Cancelled")
    here.see("column_stats", building=("bloom_filters",))
    drop = here.only("indexdrop")
    assert here.works[-1] == job_specs.DropIndexes(names=NAMES)
    assert here.condition(key)[:2] == ("Dropping", "ActionAtWork")
    here.end_well(drop)
    assert here.condition(key)[:2] == ("Absent", "Ready")
    here.edit(key, ensure="Present")
    here.settle()
    assert here.condition(key)[0] == "Building"
    here.end_well(here.only("indexbuild"), *NAMES)
    assert here.condition(key)[0] == "Ready"


def test_index_that_another_one_needs_is_not_dropped() -> None:
    here = Indexed()
    here.see("column_stats", "partition_stats")
    key = here.ask(indexes=["column_stats"], ensure="Absent")
    state, reason, message = here.condition(key)
    assert (state, reason) == ("Stalled", "IndexRefused")
    assert "partition_stats" in message


def test_younger_object_that_wants_the_opposite_is_refused() -> None:
    here = Indexed()
    here.see(*NAMES)
    older = here.ask("older", validation="None")
    younger = here.ask("younger", ensure="Absent")
    state, reason, message = here.condition(younger)
    assert (state, reason) == ("Stalled", "RequestConflict")
    assert message.startswith("IndexRequest older is older and has ensure Present for column")
    assert here.condition(older)[0] == "Ready"
    assert not here.works
    here.delete(older)
    here.settle()
    assert older not in here.by_key
    assert here.works == [job_specs.DropIndexes(names=NAMES)]


def test_object_that_is_refused_itself_stands_in_no_way_of_others() -> None:
    here = Indexed()
    here.see(*NAMES)
    oldest = here.ask("a-oldest", validation="None")
    opposite = here.ask("b-opposite", ensure="Absent")
    youngest = here.ask("c-youngest", validation="None")
    assert here.condition(opposite)[:2] == ("Stalled", "RequestConflict")
    assert here.condition(oldest)[0] == "Ready"
    assert here.condition(youngest)[0] == "Ready"
    # Of two that are left the older one wins.
    here.delete(oldest)
    here.settle()
    state, reason, message = here.condition(youngest)
    assert (state, reason) == ("Stalled", "RequestConflict")
    assert message.startswith("IndexRequest b-opposite is older and has ensure Absent")


@pytest.mark.parametrize("policy", ["Retain", "Drop"])
def test_complete_indexes_go_with_the_object_by_its_policy(policy: str) -> None:
    here = Indexed()
    key = here.ask(deletionPolicy=policy)
    here.end_well(here.only("indexbuild"), *NAMES)
    assert statuses.is_finalizer_wanted(here.by_key[key]) is (policy == "Drop")
    here.delete(key)
    here.settle()
    if policy == "Retain":
        assert key not in here.by_key
        return
    assert here.condition(key)[:2] == ("Deleting", "Deleting")
    assert here.works[-1] == job_specs.DropIndexes(names=NAMES)
    here.end_well(here.only("indexdrop"))
    assert key not in here.by_key


def test_what_is_not_complete_is_given_up_with_the_object_whatever_its_policy() -> None:
    here = Indexed()
    key = here.ask()
    build = here.only("indexbuild")
    assert statuses.is_finalizer_wanted(here.by_key[key])
    plan = pending("bloom_filters", action_id=build.name)
    here.see("column_stats", building=("bloom_filters",), pending=(plan,))
    here.delete(key)
    here.settle()
    assert here.run(here.uid(build)).stop_reason == f"{key} is deleted"
    here.now_ms += 1
    here.end(here.uid(build), "Cancelled")
    here.settle()
    # What was seen before the run ended says nothing of what it has left.
    assert key in here.by_key
    assert not here.of_type("indexdrop")
    here.see("column_stats", building=("bloom_filters",), pending=(plan,))
    assert here.works[-1] == job_specs.DropIndexes(names=("bloom_filters",))
    here.end_well(here.only("indexdrop"), "column_stats")
    assert key not in here.by_key


def test_index_that_another_object_wants_stays() -> None:
    here = Indexed()
    here.see(*NAMES)
    first = here.ask("first", deletionPolicy="Drop", validation="None")
    here.ask("second", indexes=["bloom_filters"], validation="None")
    here.delete(first)
    here.settle()
    assert here.works == [job_specs.DropIndexes(names=("column_stats",))]
    here.ask("third", indexes=["column_stats"], validation="None")
    assert here.stopped[-1].reason == "another IndexRequest needs column_stats"


def test_drop_that_is_refused_says_how_the_object_goes() -> None:
    here = Indexed()
    here.see("column_stats", "partition_stats")
    key = here.ask(deletionPolicy="Drop", validation="None", indexes=["column_stats"])
    here.delete(key)
    here.settle()
    state, reason, message = here.condition(key)
    assert (state, reason) == ("Stalled", "IndexRefused")
    assert message.endswith("; to delete only the object, set deletionPolicy Retain")
    here.edit(key, deletionPolicy="Retain")
    here.settle()
    assert key not in here.by_key


def test_external_writers_are_asked_for_the_options_that_keep_an_index_up() -> None:
    here = Indexed()
    here.see(*NAMES, has_foreign_writers=True)
    key = here.ask(validation="None")
    assert here.condition(key)[0] == "Ready"
    told = here.status(key).condition(Type.EXTERNAL_WRITERS)
    assert "hoodie.metadata.index.column.stats.enable=true" in told.message
    assert "hoodie.metadata.index.bloom.filter.enable=true" in told.message
    here.see(*NAMES)
    assert here.status(key).condition(Type.EXTERNAL_WRITERS) is None


def test_index_that_is_there_is_not_compared_where_none_can_be_built() -> None:
    here = Indexed(table=ow.SINGLE)
    here.see(*NAMES)
    key = here.ask()
    state, _, message = here.condition(key)
    assert state == "Ready"
    assert "; not compared with the table: an index is built beside writers" in message
    assert here.status(key).validated is None
    assert not here.works


def test_write_that_an_index_lacks_is_named_with_its_writer() -> None:
    here = Indexed()
    here.see(*NAMES, has_foreign_writers=True)
    key = here.ask(validation="None")
    uid = here.uid(here.table_key)
    commits = (ow.commit(1, writer_id="jvm"), ow.commit(2, writer_id=None))
    behind = tuple(
        facts.IndexBehind(name=name, instant=commit.requested_time)
        for name, commit in zip(("column_stats", "partition_stats"), commits, strict=True)
    )
    here.tables[uid] = dataclasses.replace(
        here.tables[uid], commits=commits, metadata=facts.MetadataTable(behind=behind)
    )
    here.settle()
    assert here.condition(key)[0] == "Ready"
    told = here.status(key).condition(Type.INDEX_BEHIND)
    assert told.reason == "WriteMissing"
    assert told.message.startswith(f"column_stats lacks {ow.time(1)} of writer jvm: give")
    here.see(*NAMES, has_foreign_writers=True)
    assert here.status(key).condition(Type.INDEX_BEHIND) is None


def test_index_that_readers_cannot_use_is_not_ready() -> None:
    here = Indexed()
    here.see(*NAMES)
    key = here.ask(validation="None")
    uid = here.uid(here.table_key)
    lacks = facts.MetadataTable(problem="file:///m lacks deltacommit 20250101000000000 of writer b")
    here.tables[uid] = dataclasses.replace(here.tables[uid], metadata=lacks)
    here.settle()
    state, reason, message = here.condition(key)
    assert (state, reason) == ("Stalled", "BehindOrDamaged")
    assert "lacks deltacommit 20250101000000000 of writer b" in message
    here.see(*NAMES)
    assert here.condition(key)[0] == "Ready"


def test_storage_that_is_away_changes_nothing_about_what_is_ready() -> None:
    here = Indexed()
    here.see(*NAMES)
    ready = here.ask(validation="None")
    away = facts.Problem(kind="Storage", message="it is away", is_transient=True)
    here.tables[here.uid(here.table_key)] = facts.TableFacts(
        observed_ms=here.monotonic_ms, problem=away
    )
    here.settle()
    assert here.condition(ready)[0] == "Ready"
    assert here.condition(here.ask("other"))[:2] == ("Pending", "StorageUnreachable")


def test_missing_table_is_named() -> None:
    here = Indexed()
    key = here.ask(tableRef={"name": "elsewhere"})
    assert here.condition(key)[:2] == ("Stalled", "ReferenceNotFound")


@pytest.mark.parametrize(
    ("spec", "ready", "work"),
    [
        (
            {"type": "IndexBuild", "indexBuild": {"indexes": ["bloom_filters"]}},
            (),
            job_specs.BuildIndexes(names=("bloom_filters",)),
        ),
        ({"type": "IndexBuild", "indexBuild": {"indexes": ["bloom_filters"]}}, NAMES, None),
        (
            {"type": "IndexDrop", "indexDrop": {"indexes": ["bloom_filters"]}},
            NAMES,
            job_specs.DropIndexes(names=("bloom_filters",)),
        ),
        ({"type": "IndexDrop", "indexDrop": {"indexes": ["bloom_filters"]}}, (), None),
    ],
)
def test_actions_of_users(
    spec: dict[str, object], ready: tuple[str, ...], work: job_specs.Work | None
) -> None:
    here = Indexed()
    here.see(*ready)
    action = here.add(kinds.TABLE_ACTION, "mine", {"tableRef": {"name": "flights"}, **spec})
    here.settle()
    assert here.works == ([] if work is None else [work])
    if work is None:
        assert here.condition(action)[:2] == ("Succeeded", "NothingToDo")
        return
    here.end(here.uid(action), is_told=True)
    here.see(*(() if "indexDrop" in spec else NAMES))
    assert here.condition(action)[:2] == ("Succeeded", "Succeeded")


def test_run_that_told_of_success_without_a_trace_is_not_repeated() -> None:
    here = Indexed()
    key = here.ask()
    here.end_well(here.only("indexbuild"))
    state, reason, message = here.condition(key)
    assert (state, reason) == ("Stalled", "ActionFailed")
    assert "reported success, but the timeline does not have its result" in message


PARTITIONED = {"indexes": ["record_index"], "partitioned": True}


def test_record_index_of_each_partition_is_built_and_told_from_the_other_kind() -> None:
    here = Indexed()
    key = here.ask(**PARTITIONED, validation="None")
    (action,) = here.of_type("indexbuild")
    assert job_specs.BuildIndexes(names=("record_index",), is_partitioned=True) in here.works
    plan = dataclasses.replace(pending("record_index", action_id=action.name), is_partitioned=True)
    here.see(pending=(plan,))
    assert here.states(key) == {"record_index": "Planned"}
    here.end(here.uid(action), is_told=True)
    here.see("record_index", has_partitioned=True)
    assert here.condition(key)[0] == "Ready"
    other = here.ask("other", indexes=["record_index"])
    state, reason, message = here.condition(other)
    assert (state, reason) == ("Stalled", "IndexRefused")
    assert "has a record_index of each partition, and a table has one" in message
    # Somebody has built the other kind.
    here.see("record_index")
    assert here.condition(other)[0] == "Building"  # It is compared.
    assert here.condition(key)[:2] == ("Stalled", "IndexRefused")


def test_record_index_beside_other_engines_needs_their_options_or_is_refused() -> None:
    here = Indexed()
    here.change_stored(has_foreign_writers=True)
    key = here.ask(**PARTITIONED)
    state, reason, message = here.condition(key)
    assert (state, reason) == ("Stalled", "IndexRefused")
    assert "insert into log files of buckets" in message
    concurrency = {**ow.TABLE["concurrency"], "mode": "Optimistic"}
    here = Indexed(table=edited(ow.TABLE, tableType="CopyOnWrite", concurrency=concurrency))
    here.see(has_foreign_writers=True)
    key = here.ask(**PARTITIONED)
    assert here.condition(key)[0] == "Building", here.condition(key)
    needed = here.status(key).condition(Type.EXTERNAL_WRITERS)
    assert needed is not None
    assert "needs hoodie.metadata.record.level.index.enable=true;" in needed.message


def test_build_of_the_other_kind_is_waited_for() -> None:
    here = Indexed()
    here.see(pending=(pending("record_index"),))
    spec = {"tableRef": {"name": "flights"}, "type": "IndexBuild", "indexBuild": PARTITIONED}
    action = here.add(kinds.TABLE_ACTION, "mine", spec)
    here.settle()
    state, reason, message = here.condition(action)
    assert (state, reason) == ("Blocked", "TableBusy")
    assert "builds record_index of the whole table, expected no other index" in message
    here.see("record_index")
    assert here.condition(action)[:2] == ("Failed", "IndexRefused")
    assert not here.works


def test_every_index_that_is_built_can_be_asked_for() -> None:
    schema = index_request.IndexRequestSpec.model_json_schema()
    pattern = schema["properties"]["indexes"]["items"]["pattern"]
    for name in (*index_decisions.BUILDABLE, "secondary_index_a", "expr_index_of_Rider_2"):
        assert re.search(pattern, name), name
        assert index_decisions.names_refusal([name]) is None
    for name in (
        "files",
        "secondary_index_",
        "secondary_index_a-b",
        "expr_index_",
        "vector_index_a",
        "record_index2",
    ):
        assert re.search(pattern, name) is None, name
        assert index_decisions.names_refusal([name]) is not None


def test_secondary_index_is_built_of_its_column() -> None:
    here = Indexed()
    here.see("record_index", "bloom_filters", has_foreign_writers=False)
    named, columns = ["secondary_index_of_city"], {"secondary_index_of_city": "city"}
    key = here.ask(indexes=named, columns=columns, validation="None")
    assert here.works == [job_specs.BuildIndexes(names=tuple(named), columns=columns)]
    here.end_well(here.only("indexbuild"), "record_index", "bloom_filters", *named)
    assert here.condition(key)[:2] == ("Ready", "Ready")


def test_secondary_index_without_a_record_index_is_refused_with_the_way_out() -> None:
    here = Indexed()
    here.see("bloom_filters", has_foreign_writers=False)
    named, columns = ["secondary_index_of_city"], {"secondary_index_of_city": "city"}
    key = here.ask(indexes=named, columns=columns)
    state, reason, message = here.condition(key)
    assert (state, reason) == ("Stalled", "IndexRefused")
    assert "Build record_index first, or both" in message
