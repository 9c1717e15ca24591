"""What is decided about each kind, state by state: with its reason, and what is started for it."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hoodie.model import jobs, table_config
from hoodie.model import settings as write_settings
from hoodie_operator.api import kinds, objects, times
from hoodie_operator.reconcile import decide, effects, facts, sources
from support import operator_world as ow
from support import rule_examples
from support.operator_world import Outside
from support.rule_examples import edited


class Flights(Outside):
    """A table of two writers, its lock and its policy, all seen and ready."""

    def __init__(self, table: dict[str, object] | None = None, *, is_ready: bool = True) -> None:
        super().__init__()
        self.lock_key = self.add(kinds.LOCK_PROVIDER, "zk", ow.LOCK)
        self.table_key = self.add(
            kinds.HUDI_TABLE, "flights", table or ow.TABLE, labels={"tier": "gold"}
        )
        self.see_lock(self.lock_key)
        if is_ready:
            self.see_table(self.table_key)
            self.settle()
            (create,) = self.actions()
            self.end(self.uid(create), is_told=True)
            self.see_table(self.table_key)
            self.settle()
            assert self.condition(self.table_key)[0] == "Ready"
            self.started.clear()

    def actions(self) -> list[objects.ObjectKey]:
        return [key for key in self.by_key if key.kind == "TableAction"]

    def add_writer(
        self, name: str, column: str = "a", files: tuple[str, ...] = ("1", "2"), **edits: object
    ) -> objects.ObjectKey:
        key = self.add(kinds.WRITER, name, ow.writer_spec(**edits))
        self.see_source(key, [[file] for file in files], ["id", column])
        return key

    def add_policy(self, name: str = "often", **edits: object) -> objects.ObjectKey:
        spec = {"target": {"tableRef": {"name": "flights"}}, "triggers": {"deltaCommits": 2}}
        return self.add(kinds.COMPACTION_POLICY, name, edited(spec, **edits))

    def compactions(self) -> list[objects.ObjectKey]:
        return [key for key in self.actions() if "compaction" in key.name]


# LockProvider


def test_lock_that_answers_is_ready() -> None:
    here = Flights(is_ready=False)
    here.settle()
    assert here.condition(here.lock_key) == ("Ready", "Ready", "as told")


def test_lock_that_does_not_answer_is_waited_for_and_then_stalled() -> None:
    here = Flights(is_ready=False)
    here.see_lock(here.lock_key, is_ready=False)
    here.settle()
    assert here.condition(here.lock_key)[:2] == ("Pending", "LockUnreachable")
    assert here.condition(here.table_key)[:2] == ("Pending", "LockNotReady")
    here.now_ms += 61_000
    here.settle()
    assert here.condition(here.lock_key)[:2] == ("Stalled", "LockUnreachable")
    assert here.condition(here.table_key)[:2] == ("Stalled", "LockNotReady")
    assert not here.started


def test_embedded_lock_is_served() -> None:
    here = Outside()
    key = here.add(kinds.LOCK_PROVIDER, "zk", {"type": "ZooKeeper", "embedded": True})
    assert effects.ServeLock(key=key, uid=here.uid(key)) in here.reconcile(key)
    here.see_lock(key)
    here.reconcile(key)
    assert decide.is_settled(here.world), "it is asked for at every look and keeps nobody waiting"


def test_lock_in_use_is_not_removed() -> None:
    here = Flights()
    here.delete(here.lock_key)
    here.settle()
    assert here.condition(here.lock_key)[:2] == ("Deleting", "InUse")


@pytest.mark.parametrize(
    ("spec", "servers", "address"),
    [
        ({"type": "Storage"}, (), "storage"),
        (
            {"type": "DynamoDB", "dynamodb": rule_examples.DYNAMODB},
            (),
            "dynamodb://eu-west-1/locks",
        ),
        (
            {"type": "HiveMetastore", "hiveMetastore": rule_examples.HIVE},
            ("metastore:9083",),
            "hive://metastore:9083/lake/flights",
        ),
        (
            {"type": "ZooKeeper", "zookeeper": {"servers": ["zk:2181"], "basePath": "/hudi"}},
            ("zk:2181",),
            "zookeeper://zk:2181/hudi/flights",
        ),
    ],
)
def test_runs_are_told_the_address_of_the_tables_lock(
    spec: dict[str, object], servers: tuple[str, ...], address: str
) -> None:
    here = Outside()
    lock = here.add(kinds.LOCK_PROVIDER, "zk", spec)
    table = here.add(kinds.HUDI_TABLE, "flights", ow.TABLE)
    here.see_lock(lock, servers=servers)
    here.see_table(table, is_there=False)
    here.settle()
    (start,) = here.started
    assert start.table.lock == address


# HudiTable


def test_table_is_created_by_an_action_of_a_deterministic_name() -> None:
    here = Flights(is_ready=False)
    here.see_table(here.table_key, is_there=False)
    here.settle()
    (create,) = here.actions()
    assert create.name == "flights-create-000002-g1"
    (start,) = here.started
    assert start.work == jobs.CreateTable(may_create=True, may_adopt=True)
    assert start.table.uri == "file:///data/flights"
    assert here.condition(here.table_key)[:2] == ("Provisioning", "Creating")


def test_table_is_ready_when_the_storage_has_it_and_not_before() -> None:
    here = Flights(is_ready=False)
    here.see_table(here.table_key, is_there=False)
    here.settle()
    (create,) = here.actions()
    here.now_ms += 1000
    here.end(here.uid(create), is_told=True)
    here.settle()
    assert here.condition(create)[:2] == ("Pending", "Confirming")
    assert here.condition(here.table_key)[0] == "Provisioning"
    here.see_table(here.table_key)
    here.settle()
    assert here.condition(here.table_key)[0] == "Ready"


def test_creation_that_the_storage_does_not_show_is_a_failure() -> None:
    here = Flights(is_ready=False)
    here.see_table(here.table_key, is_there=False)
    here.settle()
    (create,) = here.actions()
    here.end(here.uid(create), is_told=True)
    here.see_table(here.table_key, is_there=False)
    here.settle()
    assert here.condition(create)[:2] == ("Failed", "RunFailed")
    assert here.condition(here.table_key)[:2] == ("Stalled", "ActionFailed")
    assert len(here.started) == 1


def _changed_config(here: Flights, **changes: object) -> None:
    uid = here.uid(here.table_key)
    seen = here.tables[uid]
    assert seen.config is not None
    config = dataclasses.replace(seen.config, **changes)  # type: ignore[arg-type]
    here.tables[uid] = dataclasses.replace(seen, config=config)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"bucket_count": 8}, "hoodie.bucket.index.num.buckets is '8', expected '4'"),
        ({"record_key_fields": ("a",)}, "hoodie.table.recordkey.fields is 'a', expected 'id'"),
        ({"version": 8}, "hoodie.table.version is '8', expected '9'"),
        ({"table_type": table_config.TableType.COPY_ON_WRITE}, "is 'COPY_ON_WRITE', expected"),
    ],
)
def test_existing_table_that_differs_is_refused_by_property(
    change: dict[str, object], told: str
) -> None:
    here = Flights(is_ready=False)
    here.see_table(here.table_key)
    _changed_config(here, **change)
    here.settle()
    state, reason, message = here.condition(here.table_key)
    assert (state, reason) == ("Stalled", "ImmutableMismatch")
    assert told in message
    assert not here.actions()


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
    assert here.condition(here.table_key) == ("Pending", "StorageUnreachable", "Storage: no route")
    here.now_ms += 11 * 60_000
    here.settle()
    state, reason, message = here.condition(here.table_key)
    assert (state, reason) == ("Stalled", "TimedOut")
    assert "StorageUnreachable: Storage: no route" in message
    here.see_table(here.table_key)
    here.settle()
    assert here.condition(here.table_key)[0] == "Provisioning"


def test_table_that_vanished_is_not_made_anew() -> None:
    here = Flights()
    here.see_table(here.table_key, is_there=False)
    here.settle()
    assert here.condition(here.table_key)[:2] == ("Stalled", "TableNotFound")
    assert not here.started


def test_retained_table_goes_at_once_and_its_data_stays() -> None:
    here = Flights()
    here.delete(here.table_key)
    here.settle()
    assert here.table_key not in here.by_key
    assert not here.started


def test_writers_of_a_table_that_waits_for_them_to_go_are_stalled() -> None:
    here = Flights(edited(ow.TABLE, deletionPolicy="Delete"))
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


def test_action_of_a_table_whose_lock_is_gone_stalls_with_it_and_goes_on_after() -> None:
    here = Flights(edited(ow.TABLE, deletionPolicy="Delete"))
    here.see_lock(here.lock_key, is_ready=False)
    here.now_ms += 61_000
    here.settle()
    here.delete(here.table_key)
    here.settle()
    (deletion,) = (key for key in here.actions() if "delete" in key.name)
    assert here.condition(deletion)[:2] == ("Failed", "TableNotReady")
    assert decide.is_settled(here.world)
    here.see_lock(here.lock_key)
    here.settle()
    assert here.condition(deletion)[0] == "Starting"
    assert here.condition(here.table_key)[:2] == ("Deleting", "Deleting")


def test_deletion_that_failed_for_good_is_told_and_settles() -> None:
    here = Flights(edited(ow.TABLE, deletionPolicy="Delete"))
    here.delete(here.table_key)
    here.settle()
    (deletion,) = (key for key in here.actions() if "delete" in key.name)
    here.now_ms += 1
    here.end(here.uid(deletion), "InvalidInput")
    here.see_table(here.table_key)
    here.settle()
    assert here.condition(here.table_key)[:2] == ("Stalled", "ActionFailed")
    assert f"TableAction {deletion.name}" in here.condition(here.table_key)[2]
    assert decide.is_settled(here.world)


def test_deletion_that_was_begun_waits_for_nobody() -> None:
    here = Flights(edited(ow.TABLE, deletionPolicy="Delete"))
    here.delete(here.table_key)
    here.settle()
    late = here.add_writer("late")
    here.settle()
    (deletion,) = (key for key in here.actions() if "delete" in key.name)
    here.now_ms += 1
    here.end(here.uid(deletion), is_told=True)
    here.see_table(here.table_key, is_there=False)
    here.settle()
    assert here.table_key not in here.by_key
    assert here.condition(late)[:2] == ("Stalled", "ReferenceNotFound")


def test_deleted_table_waits_for_its_writers_and_then_drops_its_data() -> None:
    here = Flights(edited(ow.TABLE, deletionPolicy="Delete"))
    writer = here.add_writer("left")
    here.settle()
    here.delete(here.table_key)
    here.settle()
    assert here.condition(here.table_key)[:2] == ("Deleting", "InUse")
    assert here.stopped[0].reason == "HudiTable flights is deleted"
    here.end(here.uid(writer))
    here.delete(writer)
    here.settle()
    assert here.started[-1].work == jobs.DropTable()
    (drop,) = (key for key in here.actions() if "delete" in key.name)
    here.end(here.uid(drop), is_told=True)
    here.see_table(here.table_key, is_there=False)
    here.settle()
    assert here.table_key not in here.by_key


# Writer


def test_writer_writes_every_file_in_order() -> None:
    here = Flights()
    key = here.add_writer("left", files=("1", "2", "3"))
    here.settle()
    (start,) = here.started
    assert isinstance(start.work, jobs.WriteBatches)
    assert [batch.id for batch in start.work.batches] == ["1@0", "2@0", "3@0"]
    assert (start.writer_id, start.id.attempt) == ("left", 1)
    assert here.condition(key)[0] == "Starting"
    here.progress(here.uid(key), "writing", 1, 3)
    here.settle()
    assert here.condition(key) == ("Running", "Running", "attempt 1, pid 1 on test: writing 1/3")


def test_writer_whose_files_are_committed_is_complete() -> None:
    here = Flights()
    key = here.add_writer("left")
    commits = [
        ow.commit(1, writer_id="left", batch_id="1@0"),
        ow.commit(2, writer_id="left", batch_id="2@0"),
        ow.commit(3, writer_id="right", batch_id="3@0"),
    ]
    here.see_table(here.table_key, commits)
    here.settle()
    assert here.condition(key) == ("Completed", "UpToDate", "all 2 files committed")
    assert not here.started


def test_writer_killed_after_a_commit_goes_on_at_the_next_batch() -> None:
    here = Flights()
    key = here.add_writer("left", files=("1", "2", "3"))
    here.settle()
    here.now_ms += 1000
    here.end(here.uid(key))
    here.see_table(here.table_key, [ow.commit(1, writer_id="left", batch_id="1@0")])
    here.settle()
    assert here.condition(key)[0] == "BackingOff"
    here.now_ms += 10_000
    here.see_table(here.table_key, [ow.commit(1, writer_id="left", batch_id="1@0")])
    here.settle()
    start = here.started[-1]
    assert isinstance(start.work, jobs.WriteBatches)
    assert [batch.id for batch in start.work.batches] == ["2@0", "3@0"]
    assert start.id.attempt == 2


def test_nothing_is_started_before_the_timeline_was_read_after_the_last_run() -> None:
    here = Flights()
    key = here.add_writer("left")
    here.settle()
    here.now_ms += 1000
    here.end(here.uid(key), is_told=True)
    here.settle()
    assert here.condition(key)[:2] == ("Pending", "Confirming")
    assert len(here.started) == 1


def test_success_that_the_timeline_does_not_show_is_not_repeated_for_ever() -> None:
    here = Flights()
    key = here.add_writer("left")
    here.settle()
    here.end(here.uid(key), is_told=True)
    here.see_table(here.table_key)
    here.settle()
    assert here.condition(key)[:2] == ("Stalled", "RunFailed")
    assert len(here.started) == 1


def test_new_file_is_written_after_the_others() -> None:
    here = Flights()
    key = here.add_writer("left", files=("1",))
    here.settle()
    here.end(here.uid(key), is_told=True)
    here.see_table(here.table_key, [ow.commit(1, writer_id="left", batch_id="1@0")])
    here.settle()
    assert here.condition(key)[0] == "Completed"
    here.see_source(key, [["1"], ["2"]], ["id", "a"])
    here.settle()
    assert here.started[-1].id.attempt == 2
    assert isinstance(here.started[-1].work, jobs.WriteBatches)
    assert [batch.id for batch in here.started[-1].work.batches] == ["2@0"]


def test_files_are_written_once_however_they_are_grouped() -> None:
    here = Flights()
    key = here.add_writer("left")
    here.see_source(key, [["1", "2"], ["3", "4"]], ["id", "a"])
    written = ow.commit(1, writer_id="left", batch_id="1+1@x", files=("1@0", "3@0"))
    here.see_table(here.table_key, [written])
    here.settle()
    assert isinstance(here.started[0].work, jobs.WriteBatches)
    batches = here.started[0].work.batches
    assert [(batch.id, batch.files) for batch in batches] == [
        ("2@0", ("/data/2",)),
        ("4@0", ("/data/4",)),
    ]


def test_batch_of_several_files_lists_them_in_its_commit() -> None:
    here = Flights()
    key = here.add_writer("left")
    here.see_source(key, [["1", "2"]], ["id", "a"])
    here.settle()
    assert isinstance(here.started[0].work, jobs.WriteBatches)
    (batch,) = here.started[0].work.batches
    assert batch.tokens == ("1@0", "2@0")
    assert batch.extra_metadata == {jobs.BATCH_FILES_KEY: '["1@0", "2@0"]'}
    assert batch.id.startswith("1+1@")


def test_batch_that_only_the_ledger_remembers_is_not_written_again() -> None:
    here = Flights()
    key = here.add_writer("left")
    seen = here.tables[here.uid(here.table_key)]
    here.tables[here.uid(here.table_key)] = dataclasses.replace(
        seen, ledger={"left": ("1@0", "2@0")}
    )
    here.settle()
    assert here.condition(key)[0] == "Completed"


@settings(deadline=None)
@given(name=st.text(min_size=1, max_size=300), count=st.integers(2, 1000))
def test_ids_of_batches_fit_into_commits(name: str, count: int) -> None:
    one = facts.SourceFile(path="/x", token=sources.token(name, "0" * 16))
    others = [facts.SourceFile(path="/y", token=f"{n}@0") for n in range(count - 1)]
    for group in ([one], [one, *others]):
        seen = facts.SourceFacts(generation=1, observed_ms=0, groups=(tuple(group),))
        (batch,) = sources.remaining(seen, frozenset())
        assert 0 < len(batch.id) <= 128
        assert sources.remaining(seen, frozenset({batch.id})) == ()


def test_long_names_are_told_apart_by_more_than_their_ends() -> None:
    tokens = {sources.token(f"{first}{'x' * 200}", "0" * 16) for first in "ab"}
    assert len(tokens) == 2


def test_object_made_anew_fences_off_the_attempts_of_the_old_one() -> None:
    numbers = []
    for created_s in (0, 60):
        here = Flights()
        key = here.add_writer("left")
        made = dataclasses.replace(here.by_key[key], created_ms=ow.START_MS + created_s * 1000)
        here.by_key[key] = made
        for _ in range(3):
            here.settle()
            numbers.append(here.started[-1].fence_number)
            here.now_ms += 1
            here.end(here.uid(key), "Conflict")
            here.now_ms += 1_000_000
            here.see_table(here.table_key)
    assert numbers == sorted(set(numbers))


@pytest.mark.parametrize(
    ("kind", "state", "reason"),
    [
        ("Conflict", "BackingOff", "BackingOff"),
        ("WriteConflict", "BackingOff", "WriteConflict"),
        ("LockTimeout", "BackingOff", "BackingOff"),
        ("Storage", "BackingOff", "BackingOff"),
        ("Configuration", "Stalled", "RunFailed"),
        ("InvalidInput", "Stalled", "RunFailed"),
        (None, "BackingOff", "BackingOff"),
    ],
)
def test_failed_attempt_is_answered_by_its_class(kind: str | None, state: str, reason: str) -> None:
    here = Flights()
    key = here.add_writer("left")
    here.settle()
    here.end(here.uid(key), kind)
    here.see_table(here.table_key)
    here.settle()
    assert here.condition(key)[:2] == (state, reason)
    assert (kind or "Killed") in here.condition(key)[2]


def test_optimistic_writers_run_together_whatever_they_write() -> None:
    here = Flights(edited(ow.TABLE, concurrency={"mode": "Optimistic"}))
    here.add_writer("left", "a")
    here.add_writer("right", "a")
    here.add(kinds.TABLE_ACTION, "compact", rule_examples.ACTION)
    here.see_table(here.table_key, [ow.commit(1)])
    here.settle()
    assert [start.id.name for start in here.started] == ["left", "right", "compact"]
    assert {start.table.settings.concurrency for start in here.started} == {
        write_settings.ConcurrencyMode.OPTIMISTIC
    }


@pytest.mark.parametrize(("declared", "told"), [(None, 3), (0, 0), (7, 7)])
def test_runs_are_told_how_often_to_write_again_what_lost(declared: int | None, told: int) -> None:
    concurrency = {"mode": "Optimistic"} | (
        {} if declared is None else {"conflictRetries": declared}
    )
    here = Flights(edited(ow.TABLE, concurrency=concurrency))
    writer = here.add_writer("left")
    here.settle()
    (start,) = here.started
    assert start.table.settings.conflict_retries_max == told
    here.edit(here.table_key, concurrency__conflictRetries=9)
    here.settle()
    assert not here.stopped, "how often a loser tries again concerns nobody else"
    assert here.condition(writer)[0] == "Starting"


def test_conflict_lost_too_often_is_told_with_its_class() -> None:
    here = Flights(edited(ow.TABLE, concurrency={"mode": "Optimistic"}))
    key = here.add_writer("left", retry={"limit": 0})
    here.settle()
    here.end(here.uid(key), "WriteConflict")
    here.see_table(here.table_key)
    here.settle()
    state, reason, message = here.condition(key)
    assert (state, reason) == ("Stalled", "RetriesExhausted")
    assert "attempt 1: WriteConflict: as told" in message


@pytest.mark.parametrize("mode", ["Optimistic", "NonBlocking"])
def test_writers_of_several_processes_need_a_lock_that_excludes_processes(mode: str) -> None:
    here = Outside()
    lock = here.add(kinds.LOCK_PROVIDER, "zk", {"type": "InProcess"})
    concurrency = {"mode": mode, "lockRef": {"name": "zk"}}
    table = here.add(kinds.HUDI_TABLE, "flights", edited(ow.TABLE, concurrency=concurrency))
    here.see_lock(lock)
    here.settle()
    assert here.condition(table)[:2] == ("Stalled", "LockNotShared")


def test_lock_file_beside_a_table_in_an_object_store_is_refused() -> None:
    here = Outside()
    here.limits = dataclasses.replace(here.limits, data_root="s3://lake")
    optimistic = edited(ow.TABLE, concurrency={"mode": "Optimistic"})
    table = here.add(kinds.HUDI_TABLE, "flights", optimistic)
    here.settle()
    state, reason, message = here.condition(table)
    assert (state, reason) == ("Stalled", "InvalidSpec")
    assert "s3://lake/flights cannot hold a lock file" in message


def test_exhausted_writer_starts_again_when_it_is_edited() -> None:
    here = Flights()
    key = here.add_writer("left", retry={"limit": 0})
    here.settle()
    here.end(here.uid(key), "Storage")
    here.see_table(here.table_key)
    here.settle()
    assert here.condition(key)[:2] == ("Stalled", "RetriesExhausted")
    here.edit(key, retry__limit=1)
    here.see_source(key, [["1"], ["2"]], ["id", "a"])
    here.settle()
    assert here.started[-1].id.attempt == 2


def test_suspended_writer_is_stopped_and_killed_when_it_does_not_end() -> None:
    here = Flights()
    key = here.add_writer("left")
    here.settle()
    here.edit(key, suspend=True)
    here.settle()
    assert here.condition(key)[:2] == ("Stopping", "Stopping")
    assert [stop.is_killed for stop in here.stopped] == [False]
    here.now_ms += 61_000
    here.see_table(here.table_key)
    here.settle()
    assert [stop.is_killed for stop in here.stopped] == [False, True]
    assert here.condition(key)[:2] == ("Suspended", "Suspended")


def test_silent_writer_is_stopped() -> None:
    here = Flights()
    key = here.add_writer("left", progressDeadline="1m")
    here.settle()
    here.progress(here.uid(key))
    here.now_ms += 61_000
    here.settle()
    assert [stop.reason for stop in here.stopped] == ["NoProgress"]
    here.end(here.uid(key))
    here.see_table(here.table_key)
    here.settle()
    assert here.condition(key)[0] == "BackingOff"


def test_change_of_the_protocol_stops_the_runs_and_starts_them_anew() -> None:
    here = Flights()
    key = here.add_writer("left")
    here.settle()
    before = here.started[0].table.protocol_hash
    here.edit(here.table_key, concurrency__externalWriters=True)
    here.settle()
    assert here.stopped[0].reason == "the protocol of HudiTable flights changed"
    here.end(here.uid(key))
    here.see_table(here.table_key)
    here.settle()
    assert here.started[-1].id.attempt == 2
    assert here.started[-1].table.protocol_hash != before


def test_change_of_how_files_are_coded_leaves_runs_alone() -> None:
    here = Flights()
    here.add_writer("left")
    here.settle()
    here.edit(here.table_key, files__codec="Zstd")
    here.settle()
    assert not here.stopped


def test_writers_of_different_columns_run_at_once() -> None:
    here = Flights()
    here.add_writer("left", "a")
    here.add_writer("right", "b")
    here.settle()
    assert [start.writer_id for start in here.started] == ["left", "right"]


def test_younger_of_two_writers_that_share_columns_is_refused_with_their_names() -> None:
    here = Flights()
    here.add_writer("left", "a")
    key = here.add_writer("right", "a")
    here.settle()
    state, reason, message = here.condition(key)
    assert (state, reason) == ("Stalled", "SharedColumns")
    assert message == (
        "beside Writer left the content of HudiTable flights would depend on when compaction "
        "runs: both write columns a"
    )
    assert [start.writer_id for start in here.started] == ["left"]


def test_shared_columns_may_be_acknowledged() -> None:
    here = Flights(edited(ow.TABLE, concurrency__acknowledgeOrderDependence=True))
    here.add_writer("left", "a")
    here.add_writer("right", "a")
    here.settle()
    assert [start.writer_id for start in here.started] == ["left", "right"]


def test_columns_that_are_declared_need_no_look_into_files() -> None:
    here = Flights()
    here.add_writer("left", "a")
    mapping = {"id": "x", "b": "y"}
    key = here.add(kinds.WRITER, "right", ow.writer_spec(source__files__columns=mapping))
    here.see_source(key, [["1"]], None)
    here.settle()
    assert [start.writer_id for start in here.started] == ["left", "right"]


SINGLE = edited(ow.TABLE, concurrency={"mode": "SingleWriter", "lockRef": {"name": "zk"}})


def test_second_writer_of_a_single_writer_table_is_refused() -> None:
    here = Flights(SINGLE)
    here.add_writer("left", "a")
    key = here.add_writer("right", "b")
    here.settle()
    assert here.condition(key)[:2] == ("Stalled", "SecondWriter")


def test_runs_of_a_single_writer_table_wait_for_each_other() -> None:
    here = Flights(SINGLE)
    here.see_table(here.table_key, [ow.commit(n) for n in (1, 2)])
    writer_uid = here.uid(here.add_writer("left", "a"))
    here.add_policy()
    here.settle()
    (compaction,) = here.compactions()
    assert [start.id.name for start in here.started] == ["left"]
    assert here.condition(compaction)[:2] == ("Blocked", "TableBusy")
    here.now_ms += 1000
    here.end(writer_uid, is_told=True)
    written = [ow.commit(n, writer_id="left", batch_id=f"{n}@0") for n in (1, 2)]
    here.see_table(here.table_key, written)
    here.settle()
    assert [start.id.name for start in here.started] == ["left", compaction.name]


def test_two_writers_of_one_id_are_told_apart() -> None:
    here = Flights()
    here.add_writer("left", "a", writerId="w")
    key = here.add_writer("right", "b", writerId="w")
    here.settle()
    assert here.condition(key)[:2] == ("Stalled", "DuplicateWriterId")


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


def test_writer_of_a_table_that_is_not_there_is_stalled() -> None:
    here = Outside()
    key = here.add(kinds.WRITER, "left", ow.writer_spec())
    here.settle()
    assert here.condition(key)[:2] == ("Stalled", "ReferenceNotFound")


def test_writer_waits_for_its_table_and_stalls_with_it() -> None:
    here = Flights(is_ready=False)
    key = here.add_writer("left")
    here.settle()
    assert here.condition(key)[:2] == ("Blocked", "TableNotReady")
    here.see_table(here.table_key)
    _changed_config(here, bucket_count=5)
    here.settle()
    assert here.condition(key)[:2] == ("Stalled", "TableNotReady")


def test_suspended_table_suspends_its_writers() -> None:
    here = Flights()
    key = here.add_writer("left")
    here.settle()
    here.edit(here.table_key, suspend=True)
    here.settle()
    assert here.stopped[0].reason == "HudiTable flights is suspended"
    here.end(here.uid(key))
    here.settle()
    assert here.condition(key)[:2] == ("Suspended", "TableSuspended")


def test_deleted_writer_is_stopped_before_it_goes() -> None:
    here = Flights()
    key = here.add_writer("left")
    here.settle()
    here.delete(key)
    here.settle()
    assert key in here.by_key
    assert here.stopped
    here.end(here.uid(key))
    here.settle()
    assert key not in here.by_key


# CompactionPolicy and its TableActions


@pytest.mark.parametrize(
    ("triggers", "is_due"),
    [
        ({"deltaCommits": 3}, True),
        ({"deltaCommits": 4}, False),
        ({"logBytes": 300}, True),
        ({"logBytes": "1Ki"}, False),
        ({"elapsed": "1m"}, True),
        ({"elapsed": "1h"}, False),
        ({"deltaCommits": 4, "elapsed": "1m"}, True),
        ({"match": "All", "deltaCommits": 4, "elapsed": "1m"}, False),
        ({"match": "All", "deltaCommits": 3, "elapsed": "1m"}, True),
    ],
)
def test_triggers_fire_on_what_was_logged_since_the_last_plan(
    triggers: dict[str, object], is_due: bool
) -> None:
    here = Flights()
    commits = [ow.commit(1), ow.compaction(2), *(ow.commit(n) for n in (3, 4, 5))]
    here.see_table(here.table_key, commits)
    here.now_ms += 100_000
    key = here.add_policy(triggers=triggers)
    here.settle()
    assert bool(here.compactions()) is is_due
    assert here.condition(key)[:2] == ("Ready", "Watching")


def test_commit_that_completed_after_the_plan_is_not_compacted_by_it() -> None:
    here = Flights()
    late = ow.commit(1, completion_time=ow.time(3))
    here.see_table(here.table_key, [ow.compaction(2), late])
    here.add_policy(triggers={"deltaCommits": 1})
    here.settle()
    assert here.compactions()


def test_policy_tells_how_far_its_triggers_are() -> None:
    here = Flights()
    here.see_table(here.table_key, [ow.commit(1)])
    key = here.add_policy(triggers={"deltaCommits": 4, "logBytes": "1Ki"})
    here.settle()
    assert here.condition(key)[2] == "flights: 1 of 4 delta commits, 100 of 1024 log bytes"


def test_due_compaction_runs_beside_writers() -> None:
    here = Flights()
    here.see_table(here.table_key, [ow.commit(n) for n in (1, 2)])
    here.add_writer("left")
    here.add_policy(runtime={"engine": "Spark", "parallelism": 2})
    here.settle()
    (action,) = here.compactions()
    assert action.name == f"flights-compaction-000002-{ow.time(2)}-g1"
    (start,) = (start for start in here.started if start.action_id)
    assert start.work == jobs.Compact(step=jobs.CompactionStep.SCHEDULE_AND_EXECUTE)
    assert (start.action_id, start.engine.kind) == (action.name, jobs.EngineKind.SPARK)
    assert {each.id.name for each in here.started} == {"left", action.name}


def test_one_compaction_of_a_table_is_at_work_at_a_time() -> None:
    here = Flights()
    here.see_table(here.table_key, [ow.commit(n) for n in (1, 2)])
    here.add_policy()
    here.settle()
    here.see_table(here.table_key, [ow.commit(n) for n in (1, 2, 3, 4)])
    here.settle()
    assert len(here.compactions()) == 1


def test_compaction_is_done_when_the_timeline_has_it() -> None:
    here = Flights()
    here.see_table(here.table_key, [ow.commit(n) for n in (1, 2)])
    here.add_policy()
    here.settle()
    (action,) = here.compactions()
    here.end(here.uid(action), is_told=True)
    here.see_table(here.table_key, [*(ow.commit(n) for n in (1, 2)), ow.compaction(3, action.name)])
    here.settle()
    assert here.condition(action)[:2] == ("Succeeded", "Succeeded")
    assert here.compactions() == [action]


def test_killed_compaction_executes_the_plan_that_it_made() -> None:
    here = Flights()
    commits = [ow.commit(n) for n in (1, 2)]
    here.see_table(here.table_key, commits)
    here.add_policy()
    here.settle()
    (action,) = here.compactions()
    here.end(here.uid(action))
    plan = ow.planned(3, action_id=action.name, is_alive=True)
    here.see_table(here.table_key, commits, [plan])
    here.settle()
    here.now_ms += 10_000
    here.see_table(here.table_key, commits, [plan])
    here.settle()
    assert here.started[-1].id.attempt == 2
    assert here.started[-1].work == jobs.Compact(
        step=jobs.CompactionStep.EXECUTE, instant_time=ow.time(3)
    )
    assert here.compactions() == [action]


def test_compaction_with_nothing_to_do_says_so() -> None:
    here = Flights()
    here.see_table(here.table_key, [ow.commit(n) for n in (1, 2)])
    here.add_policy()
    here.settle()
    (action,) = here.compactions()
    here.end(here.uid(action), is_told=True)
    here.see_table(here.table_key, [ow.commit(n) for n in (1, 2)])
    here.settle()
    assert here.condition(action)[:2] == ("Succeeded", "NothingToDo")
    assert here.compactions() == [action], "the same basis makes no second action"


def test_plan_that_nobody_executes_is_executed_before_a_new_one_is_made() -> None:
    here = Flights()
    here.see_table(here.table_key, [ow.commit(n) for n in (1, 2)], [ow.planned(3)])
    here.add_policy()
    here.settle()
    (start,) = here.started
    assert start.work == jobs.Compact(step=jobs.CompactionStep.EXECUTE, instant_time=ow.time(3))


def test_plan_that_somebody_executes_is_left_to_them() -> None:
    here = Flights()
    here.see_table(here.table_key, [ow.commit(n) for n in (1, 2)], [ow.planned(3, is_alive=True)])
    key = here.add_policy()
    here.settle()
    assert not here.started
    assert "another process works on instant" in here.condition(key)[2]


def test_failed_action_stalls_its_policy_until_the_table_moves_on() -> None:
    here = Flights()
    commits = [ow.commit(n) for n in (1, 2)]
    here.see_table(here.table_key, commits)
    key = here.add_policy()
    here.settle()
    (action,) = here.compactions()
    here.end(here.uid(action), "Configuration")
    here.see_table(here.table_key, commits)
    here.settle()
    assert here.condition(action)[:2] == ("Failed", "RunFailed")
    assert here.condition(key)[:2] == ("Stalled", "ActionFailed")
    assert len(here.started) == 1
    here.see_table(here.table_key, [*commits, ow.commit(3)])
    here.settle()
    assert len(here.compactions()) == 2


def test_failed_action_is_followed_by_another_when_the_policy_is_edited() -> None:
    here = Flights()
    commits = [ow.commit(n) for n in (1, 2)]
    here.see_table(here.table_key, commits)
    key = here.add_policy()
    here.settle()
    here.end(here.uid(here.compactions()[0]), "Configuration")
    here.see_table(here.table_key, commits)
    here.settle()
    here.edit(key, timeLimit="1h")
    here.settle()
    assert len(here.compactions()) == 2


def test_action_on_an_instant_that_is_gone_fails() -> None:
    here = Flights()
    key = here.add(
        kinds.TABLE_ACTION,
        "again",
        {
            "tableRef": {"name": "flights"},
            "type": "Compaction",
            "compaction": {"instant": ow.time(9)},
        },
    )
    here.settle()
    assert here.condition(key)[:2] == ("Failed", "InstantNotFound")


def test_copy_on_write_table_is_not_compacted() -> None:
    here = Flights(edited(ow.TABLE, tableType="CopyOnWrite", concurrency={}))
    here.see_table(here.table_key, [ow.commit(n) for n in (1, 2)])
    policy = here.add_policy()
    spec = {"tableRef": {"name": "flights"}, "type": "Compaction"}
    action = here.add(kinds.TABLE_ACTION, "mine", spec)
    here.settle()
    assert here.condition(action)[:2] == ("Failed", "InvalidSpec")
    assert "its writes leave nothing to compact" in here.condition(action)[2]
    assert not here.compactions()
    assert here.condition(policy)[0] == "Ready"


@pytest.mark.parametrize("action_type", ["Delete", "Create"])
def test_tables_are_made_and_deleted_by_their_own_actions_alone(action_type: str) -> None:
    here = Flights()
    spec = {"tableRef": {"name": "flights"}, "type": action_type}
    key = here.add(kinds.TABLE_ACTION, "mine", spec)
    here.settle()
    assert here.condition(key)[:2] == ("Failed", "InvalidSpec")
    assert "HudiTable flights makes itself, expected Compaction" in here.condition(key)[2]
    assert here.started == []


def test_action_that_takes_too_long_is_stopped() -> None:
    here = Flights()
    here.see_table(here.table_key, [ow.commit(n) for n in (1, 2)])
    here.add_policy(timeLimit="1m")
    here.settle()
    (action,) = here.compactions()
    here.progress(here.uid(action))
    here.now_ms += 61_000
    here.settle()
    assert here.stopped[0].reason == "NoProgress"


def test_policy_that_names_the_table_goes_before_one_that_selects_it() -> None:
    here = Flights()
    here.see_table(here.table_key, [ow.commit(n) for n in (1, 2)])
    selecting = here.add_policy("gold", target={"tableSelector": {"matchLabels": {"tier": "gold"}}})
    naming = here.add_policy("often", triggers={"deltaCommits": 5})
    here.settle()
    assert here.condition(selecting)[:2] == ("Stalled", "PolicyConflict")
    assert here.condition(naming)[:2] == ("Ready", "Watching")
    assert not here.compactions()


def test_policy_selects_tables_by_labels() -> None:
    here = Flights()
    here.see_table(here.table_key, [ow.commit(n) for n in (1, 2)])
    here.add_policy("gold", target={"tableSelector": {"matchLabels": {"tier": "gold"}}})
    none = here.add_policy("lead", target={"tableSelector": {"matchLabels": {"tier": "lead"}}})
    here.settle()
    assert len(here.compactions()) == 1
    assert here.condition(none)[:2] == ("Ready", "Watching")


@pytest.mark.parametrize("owner", ["External", "Disabled"])
def test_service_of_another_owner_is_not_run(owner: str) -> None:
    here = Flights(edited(ow.TABLE, services={"compaction": owner}))
    here.see_table(here.table_key, [ow.commit(n) for n in (1, 2)])
    key = here.add_policy()
    here.settle()
    assert here.condition(key)[:2] == ("Stalled", "Disabled")
    assert not here.started


def test_finished_actions_beyond_the_history_are_removed() -> None:
    here = Flights()
    here.add_policy(history={"successful": 1})
    commits = [ow.commit(n) for n in (1, 2)]
    for number in (3, 6):
        here.now_ms += 2000
        here.see_table(here.table_key, commits)
        here.settle()
        newest = here.compactions()[-1]
        here.end(here.uid(newest), is_told=True)
        commits += [ow.compaction(number, newest.name)]
        here.see_table(here.table_key, commits)
        here.settle()
        commits += [ow.commit(number + 1), ow.commit(number + 2)]
    assert [key.name for key in here.compactions()] == [newest.name]


def test_times_of_statuses_read_back() -> None:
    assert times.epoch_ms(times.text(ow.START_MS)) == ow.START_MS
    spans = [times.span(ms) for ms in (850, 12_000, 300_000, 3 * 3_600_000)]
    assert spans == ["850 ms", "12 s", "5 min", "3 h"]
