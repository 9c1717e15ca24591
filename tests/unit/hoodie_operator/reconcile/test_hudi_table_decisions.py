"""What is decided about a HudiTable, state by state: with its reason, and what is made for it."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

from hoodie.contract import job_specs
from hoodie.model import schemas, settings, table_config
from hoodie_operator.api import kinds
from hoodie_operator.reconcile import decide, effects, facts
from support.operators import operator_world as ow
from support.operators.flights_world import Flights
from support.operators.operator_world import Outside
from support.operators.rule_examples import edited

UNPROTECTED = edited(ow.TABLE, deletionPolicy="Delete", deletionProtection=False)
DROP = job_specs.DropTable(table_uid="000002-flights", deletion_policy="Delete", is_protected=False)


def test_table_is_created_by_a_run_of_its_own() -> None:
    here = Flights(is_ready=False)
    here.see_table(here.table_key, is_there=False)
    here.settle()
    assert not here.actions()
    (start,) = here.started
    assert start.id.owner == here.table_key
    assert (start.writer_id, start.action_id) == (None, "HudiTable/flights")
    assert start.work == job_specs.CreateTable(may_create=True, may_adopt=True)
    assert start.table.uri == "file:///data/flights"
    assert here.condition(here.table_key)[:2] == ("Provisioning", "Creating")


def test_table_is_ready_when_the_storage_has_it_and_not_before() -> None:
    here = Flights(is_ready=False)
    here.see_table(here.table_key, is_there=False)
    here.settle()
    here.now_ms += 1000
    here.end(here.uid(here.table_key), is_told=True)
    here.settle()
    state, reason, message = here.condition(here.table_key)
    assert (state, reason) == ("Provisioning", "Creating")
    assert message == "reading the timeline for the result of the run"
    here.see_table(here.table_key)
    here.settle()
    assert here.condition(here.table_key)[0] == "Ready"
    assert here.status(here.table_key).runs.history[0].outcome.value == "Succeeded"


def test_table_tells_what_holds_up_its_creation() -> None:
    here = Flights(is_ready=False)
    here.see_table(here.table_key, is_there=False)
    here.settle()
    told = "attempt 1, pid 1 on test is starting"
    assert here.condition(here.table_key) == ("Provisioning", "Creating", told)
    waiting = facts.Waiting(obstacle=facts.Obstacle.NO_NODE, message="so", since_ms=here.now_ms)
    here.put_run(dataclasses.replace(here.run(here.uid(here.table_key)), waiting=waiting))
    here.now_ms += 6_000
    here.settle()
    assert here.condition(here.table_key)[:2] == ("Provisioning", "Unschedulable")
    here.end(here.uid(here.table_key), "Storage")
    here.see_table(here.table_key, is_there=False)
    here.settle()
    state, reason, message = here.condition(here.table_key)
    assert (state, reason) == ("Provisioning", "BackingOff")
    assert message.startswith("next attempt at ")
    assert message.endswith("attempt 1: Storage: as told")


def test_creation_that_the_storage_does_not_show_is_a_failure() -> None:
    here = Flights(is_ready=False)
    here.see_table(here.table_key, is_there=False)
    here.settle()
    here.end(here.uid(here.table_key), is_told=True)
    here.see_table(here.table_key, is_there=False)
    here.settle()
    assert here.condition(here.table_key)[:2] == ("Stalled", "RunFailed")
    assert len(here.started) == 1


def test_creation_that_failed_for_good_begins_anew_when_asked_to() -> None:
    here = Flights(is_ready=False)
    here.see_table(here.table_key, is_there=False)
    here.settle()
    here.end(here.uid(here.table_key), "Configuration")
    here.see_table(here.table_key, is_there=False)
    here.settle()
    table = here.by_key[here.table_key]
    here.by_key[here.table_key] = dataclasses.replace(table, retry_request="now")
    here.settle()
    assert [start.id.attempt for start in here.started] == [1, 2]


def test_creation_that_failed_for_good_begins_anew_when_the_table_is_edited() -> None:
    here = Flights(is_ready=False)
    here.see_table(here.table_key, is_there=False)
    here.settle()
    here.end(here.uid(here.table_key), "Configuration")
    here.see_table(here.table_key, is_there=False)
    here.settle()
    assert here.condition(here.table_key)[:2] == ("Stalled", "RunFailed")
    here.edit(here.table_key, files={"codec": "Zstd"})
    here.settle()
    assert [start.id.attempt for start in here.started] == [1, 2]


@pytest.mark.parametrize(("kind", "may_adopt"), [(None, True), ("AlreadyExists", False)])
def test_what_a_killed_creation_has_left_is_taken_over_and_nothing_else(
    kind: str | None, *, may_adopt: bool
) -> None:
    here = Flights(edited(ow.TABLE, adoption="CreateOnly"), is_ready=False)
    here.see_table(here.table_key, is_there=False)
    here.settle()
    assert here.started[0].work == job_specs.CreateTable(may_create=True, may_adopt=False)
    here.end(here.uid(here.table_key), kind)
    here.now_ms += 60_000
    here.see_table(here.table_key)
    here.edit(here.table_key, files={"codec": "Zstd"})
    here.settle()
    if may_adopt:
        assert here.started[-1].work == job_specs.CreateTable(may_create=True, may_adopt=True)
    else:
        assert here.condition(here.table_key)[:2] == ("Stalled", "AlreadyExists")


def test_creation_at_work_is_stopped_with_its_table() -> None:
    here = Flights(is_ready=False)
    here.see_table(here.table_key, is_there=False)
    here.settle()
    here.delete(here.table_key)
    here.settle()
    assert [stop.reason for stop in here.stopped] == ["HudiTable flights is deleted"]
    assert here.condition(here.table_key)[:2] == ("Deleting", "Stopping")
    here.end(here.uid(here.table_key), "Cancelled")
    here.settle()
    assert here.table_key not in here.by_key
    assert len(here.started) == 1


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"bucket_count": 8}, "hoodie.bucket.index.num.buckets is '8', expected '4'"),
        ({"record_key_fields": ("a",)}, "hoodie.table.recordkey.fields is 'a', expected 'id'"),
        ({"version": 8}, "hoodie.table.version is '8', expected '9'"),
        (
            {"bucket_count": None, "index": table_config.IndexKind.SIMPLE},
            "hoodie.operator.index is 'SIMPLE', expected ''",
        ),
        ({"table_type": table_config.TableType.COPY_ON_WRITE}, "is 'COPY_ON_WRITE', expected"),
    ],
)
def test_existing_table_that_differs_is_refused_by_property(
    change: dict[str, object], told: str
) -> None:
    here = Flights(is_ready=False)
    here.see_table(here.table_key)
    here.change_stored(**change)
    here.settle()
    state, reason, message = here.condition(here.table_key)
    assert (state, reason) == ("Stalled", "ImmutableMismatch")
    assert told in message
    assert not here.actions()


def test_existing_table_that_differs_is_refused_with_the_fields_to_set() -> None:
    here = Flights(is_ready=False)
    here.see_table(here.table_key)
    here.change_stored(database="default", bucket_count=8)
    here.settle()
    message = here.condition(here.table_key)[2]
    assert message.endswith("; set database and writeIndex.bucket.count to what the table has")


COUNTED: dict[str, Any] = {
    "keys__partitionFields": ["a"],
    "concurrency__mode": "Optimistic",
    "concurrency__externalWriters": True,
}


def test_bucket_counts_by_partition_are_of_the_run_that_creates_the_table() -> None:
    counts = [{"pattern": "^eu", "count": 8}, {"pattern": "us|ca", "count": 2}]
    here = Flights(
        edited(ow.TABLE, **COUNTED, writeIndex__bucket__partitionCounts=counts), is_ready=False
    )
    here.tables[here.uid(here.table_key)] = facts.TableFacts(observed_ms=here.now_ms)
    here.settle()
    (started,) = here.started
    assert started.work == job_specs.CreateTable(bucket_counts="^eu,8;us|ca,2")


def test_pattern_that_means_something_else_in_java_is_refused() -> None:
    counts = [{"pattern": "\\p{Alpha}+", "count": 8}]
    here = Flights(
        edited(ow.TABLE, **COUNTED, writeIndex__bucket__partitionCounts=counts), is_ready=False
    )
    here.tables[here.uid(here.table_key)] = facts.TableFacts(observed_ms=here.now_ms)
    here.settle()
    status, reason, message = here.condition(here.table_key)
    assert (status, reason) == ("Stalled", "InvalidSpec")
    assert "writeIndex.bucket.partitionCounts" in message
    assert "\\p{Alpha}+" in message
    assert not here.started


@pytest.mark.parametrize(
    ("edit", "is_there", "reason"),
    [
        ({"adoption": "CreateOnly"}, True, "AlreadyExists"),
        ({"adoption": "AdoptOnly"}, False, "TableNotFound"),
        ({"storage__path": "../outside"}, False, "PathNotAllowed"),
        ({"storage__path": "/etc"}, False, "PathNotAllowed"),
        ({"storage__path": "."}, False, "PathNotAllowed"),
        ({"storage__path": "s3://bucket/x"}, False, "PathNotAllowed"),
        ({"storage__path": "ftp://x/y"}, False, "InvalidSpec"),
        ({"keys__recordFields": ["c"]}, False, "InvalidSpec"),
        ({"keys__recordFields": []}, False, "InvalidSpec"),
        ({"schema": {"avro": "{}"}}, False, "InvalidSpec"),
        ({"concurrency__lockRef": {"name": "other"}}, False, "ReferenceNotFound"),
    ],
)
def test_table_that_only_a_user_can_mend_is_stalled(
    edit: dict[str, object], is_there: bool, reason: str
) -> None:
    here = Flights(edited(ow.TABLE, **edit), is_ready=False)
    here.tables[here.uid(here.table_key)] = facts.TableFacts(observed_ms=here.now_ms)
    if is_there:
        here.see_table(here.table_key)
    here.settle()
    assert here.condition(here.table_key)[:2] == ("Stalled", reason)
    assert not here.started


def test_table_of_several_writers_needs_a_lock_between_processes() -> None:
    here = Outside()
    lock = here.add(kinds.LOCK_PROVIDER, "zk", {"type": "InProcess"})
    table = here.add(kinds.HUDI_TABLE, "flights", ow.TABLE)
    here.see_lock(lock)
    here.settle()
    assert here.condition(table)[:2] == ("Stalled", "LockNotShared")


def test_settings_of_every_run_are_told_in_the_status() -> None:
    """T-L28, T-O20: as they take effect, those that nobody has set, too."""
    here = Flights()
    told = here.status(here.table_key).settings
    assert told["hoodie.write.lock.wait_time_ms"] == "60000"
    assert told["hoodie.clean.failed.writes.policy"] == "LAZY"
    here.edit(here.lock_key, acquireTimeout="1ms")
    here.see_lock(here.lock_key)
    here.add_writer("left")
    here.settle()
    told = here.status(here.table_key).settings
    assert told["hoodie.write.lock.wait_time_ms"] == "1"
    (start,) = here.started
    assert settings.to_properties(start.table.settings) == told


def test_younger_of_two_tables_at_one_place_is_refused() -> None:
    here = Flights()
    other = here.add(
        kinds.HUDI_TABLE, "copy", edited(ow.TABLE, storage__path="./flights/", tableName="flights")
    )
    here.settle()
    state, reason, message = here.condition(other)
    assert (state, reason) == ("Stalled", "LocationConflict")
    assert "HudiTable flights" in message
    assert here.condition(here.table_key)[0] == "Ready"


@pytest.mark.parametrize("path", ["flights/", "./x/../flights", "flights/month=1", "lake/.."])
def test_table_in_or_around_an_older_one_is_refused(path: str) -> None:
    older = "flights" if path != "lake/.." else "lake/flights"
    here = Flights(edited(ow.TABLE, storage__path=older), is_ready=False)
    second = here.add(kinds.HUDI_TABLE, "second", edited(ow.TABLE, storage__path=path))
    third = here.add(kinds.HUDI_TABLE, "third", edited(ow.TABLE, storage__path=f"{older}2"))
    here.see_table(here.table_key, is_there=False)
    here.settle()
    assert here.condition(second)[:2] in [
        ("Stalled", "LocationConflict"),
        ("Stalled", "PathNotAllowed"),  # The root of all data is around everything.
    ]
    assert here.condition(third)[:2] == ("Pending", "NotObserved")


def test_missing_reference_may_be_on_its_way_for_the_grace() -> None:
    here = Flights(edited(ow.TABLE, concurrency__lockRef={"name": "other"}), is_ready=False)
    here.limits = dataclasses.replace(here.limits, reference_grace_ms=60_000)
    here.settle()
    assert here.condition(here.table_key)[:2] == ("Pending", "ReferenceNotFound")
    here.now_ms += 120_000
    here.settle()
    assert here.condition(here.table_key)[:2] == ("Stalled", "ReferenceNotFound")


def test_storage_that_fails_for_too_long_times_out_and_recovers() -> None:
    here = Flights(is_ready=False)
    problem = facts.Problem(kind="Storage", message="no route", is_transient=True)
    seen = facts.TableFacts(observed_ms=here.now_ms, problem=problem)
    here.tables[here.uid(here.table_key)] = seen
    here.settle()
    told = "Storage: no route; the operator retries every few seconds"
    assert here.condition(here.table_key) == ("Pending", "StorageUnreachable", told)
    here.now_ms += 11 * 60_000
    here.settle()
    state, reason, message = here.condition(here.table_key)
    assert (state, reason) == ("Stalled", "TimedOut")
    assert "StorageUnreachable: Storage: no route" in message
    here.see_table(here.table_key)
    here.settle()
    assert here.condition(here.table_key)[0] == "Provisioning"


@pytest.mark.parametrize(
    "index",
    [
        {"bucket": {"count": 4}},
        {"type": "Simple"},
        {"type": "GlobalBloom", "updatesPartitions": False},
    ],
)
def test_table_that_does_not_say_its_index_is_compared_by_a_run_before_it_is_refused(
    index: Mapping[str, object],
) -> None:
    """Apache Hudi does not put it into a table's properties; the run that takes it over does."""
    spec = edited(ow.TABLE, writeIndex=index, concurrency__mode="Optimistic")
    here = Flights(spec, is_ready=False)
    here.see_table(here.table_key)
    here.change_stored(bucket_count=None, hash_fields=(), index=None)
    here.settle()
    assert here.condition(here.table_key)[0] == "Provisioning"
    here.end(here.uid(here.table_key), is_told=True)
    here.see_table(here.table_key)
    here.settle()
    assert here.condition(here.table_key)[0] == "Ready"
    here.change_stored(bucket_count=None, hash_fields=(), index=None)
    here.settle()
    state, reason, message = here.condition(here.table_key)
    assert (state, reason) == ("Stalled", "ImmutableMismatch")
    assert "hoodie.bucket.index.num.buckets" in message or "hoodie.operator.index" in message


def test_run_that_adopts_a_table_is_told_the_options_of_its_keys() -> None:
    options = {"hoodie.keygen.timebased.output.dateformat": "yyyy/MM/dd"}
    here = Flights(edited(ow.TABLE, keys__options=options, adoption="AdoptOnly"), is_ready=False)
    here.see_table(here.table_key)
    here.change_stored(bucket_count=None, hash_fields=(), index=None)
    here.settle()
    (start,) = here.started
    work = start.work
    assert isinstance(work, job_specs.CreateTable)
    assert (work.may_create, work.key_options) == (False, options)


def _declared_with(*columns: tuple[str, str]) -> dict[str, object]:
    named = [{"name": name, "type": kind} for name, kind in columns]
    return edited(ow.TABLE, schema={"columns": named})


def _began_with(*columns: tuple[str, pa.DataType]) -> str:
    return schemas.from_arrow(pa.schema(columns), "flights").avro


def test_table_may_be_declared_with_columns_that_writes_have_added() -> None:
    here = Flights(_declared_with(("id", "string"), ("a", "string"), ("tip", "double")))
    here.change_stored(create_schema=_began_with(("id", pa.string()), ("a", pa.string())))
    here.settle()
    assert here.condition(here.table_key)[0] == "Ready"
    assert here.status(here.table_key).mismatches is None


def test_table_is_not_declared_without_a_column_that_it_began_with() -> None:
    here = Flights(_declared_with(("id", "string"), ("a", "string")), is_ready=False)
    here.see_table(here.table_key)
    here.change_stored(
        create_schema=_began_with(("id", pa.string()), ("a", pa.int32()), ("b", pa.int64()))
    )
    here.settle()
    state, reason, message = here.condition(here.table_key)
    assert (state, reason) == ("Stalled", "ImmutableMismatch")
    assert "schema is 'a int32, b int64', expected 'a string, no b'" in message


def test_wrong_number_of_buckets_is_corrected_before_the_table_is_taken_over() -> None:
    here = Flights(is_ready=False)
    here.see_table(here.table_key)
    right = here.tables[here.uid(here.table_key)]
    here.edit(here.table_key, writeIndex__bucket__count=8)
    here.tables[here.uid(here.table_key)] = right
    here.settle()
    assert here.condition(here.table_key)[:2] == ("Stalled", "ImmutableMismatch")
    here.edit(here.table_key, writeIndex__bucket__count=4)
    here.settle()
    here.end(here.uid(here.table_key), is_told=True)
    here.see_table(here.table_key)
    here.settle()
    assert here.condition(here.table_key)[0] == "Ready"


def test_number_of_buckets_that_a_run_refused_is_corrected() -> None:
    here = Flights(is_ready=False)
    here.see_table(here.table_key)
    here.change_stored(bucket_count=None, hash_fields=())
    unnumbered = here.tables[here.uid(here.table_key)]
    here.settle()
    here.end(here.uid(here.table_key), "Configuration")
    here.tables[here.uid(here.table_key)] = unnumbered
    here.settle()
    assert here.condition(here.table_key)[:2] == ("Stalled", "RunFailed")
    here.edit(here.table_key, writeIndex__bucket__count=8)
    here.settle()
    here.end(here.uid(here.table_key), is_told=True)
    here.see_table(here.table_key)
    here.settle()
    assert here.condition(here.table_key)[0] == "Ready"


def test_table_that_vanished_is_not_made_anew() -> None:
    here = Flights()
    here.see_table(here.table_key, [ow.commit(1)])
    here.settle()
    here.see_table(here.table_key, is_there=False)
    here.settle()
    assert here.condition(here.table_key)[:2] == ("Stalled", "TableNotFound")
    assert not here.started
    status = here.status(here.table_key)
    assert (status.commits, status.latest_commit, status.backlog) == (None, None, None)


def test_table_below_another_data_root_than_before_says_where_it_was() -> None:
    here = Flights()
    here.limits = dataclasses.replace(here.limits, data_roots=("file:///elsewhere",))
    here.see_table(here.table_key, is_there=False)
    here.settle()
    here.settle()
    state, reason, message = here.condition(here.table_key)
    assert (state, reason) == ("Stalled", "TableNotFound")
    assert "there is no table at file:///elsewhere/flights, expected the one" in message
    assert "it was at file:///data/flights: the operator's data root has changed" in message
    here.limits = dataclasses.replace(here.limits, data_roots=(ow.DATA_ROOT,))
    here.see_table(here.table_key)
    here.settle()
    assert here.condition(here.table_key) == ("Ready", "Ready", "0 commits at file:///data/flights")


def test_table_that_no_run_could_write_says_so() -> None:
    here = Flights()
    here.change_stored(metadata_partitions=("files", "vector_index_x"))
    here.settle()
    state, _, message = here.condition(here.table_key)
    assert state == "Ready"
    assert "the table is read-only: the metadata table of flights has vector_index_x" in message


def test_table_with_bucket_counts_by_partition_is_read_only() -> None:
    here = Flights()
    uid = here.uid(here.table_key)
    here.tables[uid] = dataclasses.replace(here.tables[uid], has_partition_buckets=True)
    here.settle()
    state, _, message = here.condition(here.table_key)
    assert state == "Ready"
    assert "the table is read-only: file:///data/flights has bucket counts by partition" in message


def test_retained_table_goes_at_once_and_its_data_stays() -> None:
    here = Flights()
    here.delete(here.table_key)
    here.settle()
    assert here.table_key not in here.by_key
    assert not here.started


def test_deleted_table_waits_for_the_run_of_a_writer_that_is_gone() -> None:
    here = Flights(UNPROTECTED)
    old = facts.RunId(kind="Writer", namespace="default", name="old", uid="u-old", attempt=3)
    run = facts.Run(
        id=old, protocol_hash="h", started_ms=0, process="pod old-3", table="default/flights"
    )
    here.runs["u-old"] = [run]
    here.delete(here.table_key)
    here.settle()
    assert here.condition(here.table_key)[:2] == ("Deleting", "InUse")
    assert "pod old-3 of Writer old" in here.condition(here.table_key)[2]
    here.runs["u-old"] = [dataclasses.replace(run, ended_ms=here.now_ms)]
    here.settle()
    assert here.started[-1].work == DROP


def test_writers_of_a_table_that_waits_for_them_to_go_are_stalled() -> None:
    here = Flights(UNPROTECTED)
    left = here.add_writer("left")
    here.settle()
    here.end(here.uid(left), is_told=True)
    here.delete(here.table_key)
    here.see_table(here.table_key)
    here.settle()
    assert here.condition(here.table_key)[:2] == ("Deleting", "InUse")
    assert here.condition(left)[:2] == ("Stalled", "TableNotReady")
    assert "is being deleted" in here.condition(left)[2]
    assert decide.is_settled(here.world)


def test_deletion_of_a_table_whose_lock_is_gone_stalls_with_it_and_goes_on_after() -> None:
    here = Flights(UNPROTECTED)
    here.see_lock(here.lock_key, is_ready=False)
    here.now_ms += 61_000
    here.settle()
    here.delete(here.table_key)
    here.settle()
    state, reason, message = here.condition(here.table_key)
    assert (state, reason) == ("Stalled", "LockNotReady")
    assert message.endswith("To delete only the object, set deletionPolicy Retain")
    assert decide.is_settled(here.world)
    here.see_lock(here.lock_key)
    here.settle()
    assert here.started[-1].work == DROP
    assert here.condition(here.table_key)[:2] == ("Deleting", "Deleting")


def test_deletion_that_failed_for_good_is_told_and_settles() -> None:
    here = Flights(UNPROTECTED)
    here.delete(here.table_key)
    here.settle()
    here.now_ms += 1
    here.end(here.uid(here.table_key), "InvalidInput")
    here.see_table(here.table_key)
    here.settle()
    assert here.condition(here.table_key)[:2] == ("Stalled", "RunFailed")
    assert decide.is_settled(here.world)


def test_table_that_goes_with_its_namespace_keeps_its_data() -> None:
    here = Flights(UNPROTECTED)
    here.delete(here.table_key)
    uid = here.uid(here.table_key)
    here.refusals[uid] = facts.Refusal(
        generation=1,
        message="unable to create new content in namespace default",
        due_ms=here.now_ms + 500,
        is_namespace_ending=True,
    )
    told, removed = here.decide(here.table_key)
    here.carry_out(told)
    assert here.condition(here.table_key)[:2] == ("Deleting", "DataKept")
    assert "data stays at file:///data/flights" in here.condition(here.table_key)[2]
    assert removed == effects.RemoveObject(key=here.table_key, uid=uid)
    # It is refused for good: the time of the next try changes nothing.
    here.now_ms += 60_000
    assert here.decide(here.table_key) == [removed]


def test_protected_table_that_is_deleted_all_the_same_keeps_its_data() -> None:
    """Its kind was deleted, or no admission policy was there to refuse."""
    here = Flights(edited(ow.TABLE, deletionPolicy="Delete"))
    here.delete(here.table_key)
    told, removed = here.decide(here.table_key)
    here.carry_out(told)
    assert here.condition(here.table_key)[:2] == ("Deleting", "DataKept")
    assert "deletionProtection is on" in here.condition(here.table_key)[2]
    assert "data stays at file:///data/flights" in here.condition(here.table_key)[2]
    here.carry_out(removed)
    here.settle()
    assert here.table_key not in here.by_key
    assert not here.started


def test_deletion_that_was_begun_waits_for_nobody() -> None:
    here = Flights(UNPROTECTED)
    here.delete(here.table_key)
    here.settle()
    late = here.add_writer("late")
    here.settle()
    here.now_ms += 1
    here.end(here.uid(here.table_key), is_told=True)
    here.see_table(here.table_key, is_there=False)
    here.settle()
    assert here.table_key not in here.by_key
    assert here.condition(late)[:2] == ("Stalled", "ReferenceNotFound")


def test_deleted_table_waits_for_its_writers_and_then_drops_its_data() -> None:
    here = Flights(UNPROTECTED)
    writer = here.add_writer("left")
    here.settle()
    here.delete(here.table_key)
    here.settle()
    assert here.condition(here.table_key)[:2] == ("Deleting", "InUse")
    assert here.stopped[0].reason == "HudiTable flights is deleted"
    here.end(here.uid(writer))
    here.delete(writer)
    here.settle()
    assert here.started[-1].work == DROP
    here.end(here.uid(here.table_key), is_told=True)
    here.see_table(here.table_key, is_there=False)
    here.settle()
    assert here.table_key not in here.by_key
