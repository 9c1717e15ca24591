"""What is decided about cleaning, archiving and savepoints, by policies and by default."""

import dataclasses
from typing import Any, cast

import pytest

from hoodie.contract import job_results, job_specs
from hoodie.model import instants
from hoodie_operator.api import (
    configuration,
    hudi_table_status,
    kinds,
    objects,
    retention_policy,
)
from hoodie_operator.api.conditions import Type
from hoodie_operator.reconcile import facts, names
from support.operators import operator_world as ow
from support.operators.flights_world import Flights
from support.operators.rule_examples import edited

RETENTION = {
    "target": {"tableRef": {"name": "flights"}},
    "cleaning": {"keep": {"commits": 2}, "triggers": {"commits": 3}},
    "archiving": {"minCommits": 3, "maxCommits": 5},
}


class Retained(Flights):
    """A table with old commits."""

    def retain(self, name: str = "kept", **edits: object) -> objects.ObjectKey:
        return self.add(kinds.RETENTION_POLICY, name, edited(RETENTION, **edits))

    def commit(self, *numbers: int, **told: object) -> None:
        """Have the table seen with the commits of these numbers, the last of which is new."""
        newest_ms = instants.parse_time(ow.time(max(numbers), 500))
        self.now_ms = max(self.now_ms, newest_ms)
        uid = self.uid(self.table_key)
        before = self.tables.get(uid)
        told = {"savepoints": before.savepoints if before else (), **told}
        self.see_table(self.table_key, [ow.commit(number) for number in numbers])
        self.tables[uid] = dataclasses.replace(self.tables[uid], **told)  # type: ignore[arg-type]

    def service(self, name: str) -> hudi_table_status.ServiceStatus:
        """Return what the table tells of a service."""
        services = self.status(self.table_key).services
        found: hudi_table_status.ServiceStatus
        (found,) = (each for each in services if each.name == name)
        return found

    def of_type(self, action_type: str) -> list[objects.ObjectKey]:
        """Return the keys of the actions of a type."""
        found: list[objects.ObjectKey] = []
        for key in self.actions():
            spec: Any = self.by_key[key].spec
            if spec.type.value == action_type:
                found.append(key)
        return found

    def finish(self, key: objects.ObjectKey, **result: Any) -> None:  # noqa: ANN401 - fields of it
        """End an action's run well."""
        uid = self.uid(key)
        told = job_results.JobResult(attempt=self.run(uid).id.attempt, **result)
        self.end(uid, result=told)
        seen = self.tables[self.uid(self.table_key)]
        self.now_ms += 1
        spec: Any = self.by_key[key].spec
        doomed = spec.delete_savepoints.commits or () if spec.delete_savepoints else ()
        saved = [each for each in seen.savepoints if each.requested_time not in doomed]
        saved += [
            facts.Savepoint(
                requested_time=each.requested_time, completion_time=each.completion_time
            )
            for each in result.get("instants", ())
            if each.action == "savepoint"
        ]
        self.tables[self.uid(self.table_key)] = dataclasses.replace(
            seen, observed_ms=self.monotonic_ms, savepoints=tuple(saved)
        )
        self.settle()

    @property
    def works(self) -> list[job_specs.Work]:
        return [start.work for start in self.started]


def test_clean_is_due_after_so_many_commits_and_told_on_the_table() -> None:
    here = Retained()
    policy = here.retain(archiving=None)
    here.commit(1, 2)
    here.settle()
    told = here.service("Cleaning")
    assert (told.owner, told.policy) == ("Operator", "RetentionPolicy/kept")
    assert (told.reason, told.message) == ("NotDue", "2 of 3 commits")
    assert here.condition(policy)[2] == "flights: 2 of 3 commits"
    here.commit(1, 2, 3)
    here.settle()
    (action,) = here.of_type("Clean")
    edition = names.edition(cast("objects.Policy", here.by_key[policy]))
    assert action.name == f"flights-clean-000002-{ow.time(3)}-{edition}"
    assert here.works == [
        job_specs.Clean(policy=job_specs.CleanPolicy.COMMITS, retained=2, grace_ms=3_600_000)
    ]
    assert here.service("Cleaning").action == action.name
    here.finish(action, files=7, reason="older versions stay because of x")
    told = here.service("Cleaning")
    assert told.last is not None
    assert told.last.basis == ow.time(3)
    assert told.last.message == "deleted 7 files; older versions stay because of x"
    assert told.reason == "NothingToClean"
    assert here.condition(action)[2] == "deleted 7 files"
    here.commit(1, 2, 3, 4, 5)
    here.settle()
    assert here.service("Cleaning").message == "2 of 3 commits"
    assert len(here.started) == 1
    here.commit(1, 2, 3, 4, 5, 6)
    here.settle()
    assert len(here.of_type("Clean")) == 2


def test_clean_that_another_engine_planned_is_finished_once() -> None:
    here = Retained()
    here.retain(archiving=None)
    pending = facts.Pending(requested_time=ow.time(2), action="clean")
    here.commit(1, pending=(pending,))
    here.settle()
    (action,) = here.of_type("Clean")
    assert ow.time(2) in action.name
    here.finish(action)
    assert here.service("Cleaning").reason == "NothingToClean"
    assert len(here.started) == 1


def test_archiving_is_due_above_the_bound_and_not_at_each_commit_in_vain() -> None:
    here = Retained()
    here.retain(cleaning__triggers={"commits": 100})
    here.commit(1, 2, 3, 4, 5)
    here.settle()
    assert here.service("Archiving").reason == "NothingToArchive"
    here.commit(1, 2, 3, 4, 5, 6)
    here.settle()
    (action,) = here.of_type("Archive")
    assert here.works == [job_specs.Archive(commits_min=3, commits_max=5, clean_retained=2)]
    # Something holds them all back.
    here.finish(action, findings=("savepoint x holds them back",))
    assert "savepoint x" in (here.service("Archiving").last or RAISE).message
    here.commit(1, 2, 3, 4, 5, 6, 7)
    here.settle()
    assert here.service("Archiving").message == "7 of 5 commits, 1 of 2 since the last run"
    here.commit(1, 2, 3, 4, 5, 6, 7, 8)
    here.settle()
    assert len(here.of_type("Archive")) == 2


def test_history_is_trimmed_as_long_as_the_policy_says() -> None:
    here = Retained()
    here.retain(cleaning=None, archiving__historyDays=30)
    here.commit(1, 2, 3, 4, 5, 6)
    here.settle()
    assert here.works == [job_specs.Archive(commits_min=3, commits_max=5, history_days=30)]
    (action,) = here.of_type("Archive")
    here.finish(action, archived=3, trimmed=40)
    status: Any = here.by_key[action].status
    assert status.condition(Type.READY).message == "archived 3 instants, deleted 40 of the history"
    assert status.result.trimmed == 40


RAISE: Any = None


@pytest.mark.parametrize("ahead_ms", [0, 10 * 365 * 86_400_000])
def test_clock_that_jumps_ahead_makes_nothing_due_that_deletes(ahead_ms: int) -> None:
    here = Retained()
    here.retain(
        cleaning={"keep": {"hours": 1}, "triggers": {"elapsed": "1h"}},
        savepoints={"expireAfter": "1h"},
    )
    saved = facts.Savepoint(requested_time=ow.time(1), completion_time=ow.time(2))
    here.commit(1, 2, 3, savepoints=(saved,))
    here.now_ms += ahead_ms
    here.commit(1, 2, 3, savepoints=(saved,))
    here.settle()
    assert not here.started
    assert here.service("SavepointExpiry").reason == "NothingExpired"
    later = [*range(1, 4), 3_700]
    here.commit(*later, savepoints=(saved,))
    here.settle()
    assert {type(work) for work in here.works} == {job_specs.Clean, job_specs.DeleteSavepoints}
    assert job_specs.DeleteSavepoints(older_than_ms=3_600_000) in here.works


def test_commit_of_the_future_makes_no_savepoint_old() -> None:
    here = Retained()
    here.retain(archiving=None, cleaning=None, savepoints={"expireAfter": "1h"})
    far = ow.commit(2, completion_time=instants.InstantTime("29990101000000000"))
    for minutes, is_due in ((0, False), (50, False), (20, True)):
        here.now_ms += minutes * 60_000
        here.see_table(here.table_key, [ow.commit(1), far])
        uid = here.uid(here.table_key)
        here.tables[uid] = dataclasses.replace(here.tables[uid], savepoints=(expired(),))
        here.settle()
        assert bool(here.works) is is_due


def by_default(here: Flights) -> None:
    """Have the operator keep tables small that no policy targets."""
    here.limits = dataclasses.replace(here.limits, services=configuration.ServiceDefaults())


def come_from(here: Flights, origin: hudi_table_status.Origin | None) -> None:
    """Have the table be one that the operator created, or not, or one of an earlier release."""
    found = here.by_key[here.table_key]
    status = found.status.model_copy(update={"origin": origin})
    here.by_key[here.table_key] = dataclasses.replace(found, status=status)


def test_table_that_the_operator_created_is_kept_small_by_default() -> None:
    here = Retained()
    come_from(here, hudi_table_status.Origin.CREATED)
    by_default(here)
    here.commit(*range(1, 35))
    here.settle()
    assert {type(work) for work in here.works} == {
        job_specs.Compact,
        job_specs.Clean,
        job_specs.Archive,
    }
    assert {each.policy for each in here.status(here.table_key).services if each.action} == {
        "default"
    }
    assert here.by_key[here.of_type("Clean")[0]].owner == objects.Owner(
        kind="HudiTable", name="flights", uid=here.uid(here.table_key)
    )


@pytest.mark.parametrize("is_there", [False, True])
def test_origin_is_told(is_there: bool) -> None:
    here = Retained(is_ready=False)
    here.see_table(here.table_key, is_there=is_there)
    here.settle()
    here.end(here.uid(here.table_key), is_told=True)
    here.see_table(here.table_key)
    here.settle()
    expected = hudi_table_status.Origin.ADOPTED if is_there else hudi_table_status.Origin.CREATED
    assert here.status(here.table_key).origin is expected


@pytest.mark.parametrize("origin", [None, hudi_table_status.Origin.ADOPTED])
def test_table_of_another_origin_is_only_reported_on_until_it_consents(
    origin: hudi_table_status.Origin | None,
) -> None:
    here = Retained()
    come_from(here, origin)
    by_default(here)
    here.commit(*range(1, 35))
    here.settle()
    dry = [work for work in here.works if isinstance(work, job_specs.Clean | job_specs.Archive)]
    assert len(dry) == 2
    assert all(work.is_dry_run for work in dry)
    for key in (*here.of_type("Clean"), *here.of_type("Archive")):
        here.finish(key, files=5)
    condition = here.by_key[here.table_key].status.condition(Type.RETENTION_DRY_RUN)
    assert condition is not None
    assert condition.reason == "ConsentNeeded"
    assert "would delete 5 files" in condition.message
    here.started.clear()
    here.commit(*range(1, 99))
    here.settle()
    assert not [each for each in here.works if not isinstance(each, job_specs.Compact)]
    here.edit(here.table_key, services__cleaning="Operator")
    here.settle()
    (clean,) = (work for work in here.works if isinstance(work, job_specs.Clean))
    assert not clean.is_dry_run


def test_consent_has_done_what_was_only_reported_at_the_same_commit() -> None:
    here = Retained()
    by_default(here)
    here.commit(*range(1, 12))
    here.settle()
    here.finish(here.of_type("Clean")[0], files=5)
    here.edit(here.table_key, services__cleaning="Operator")
    here.settle()
    cleans = [work for work in here.works if isinstance(work, job_specs.Clean)]
    assert [work.is_dry_run for work in cleans] == [True, False]


def test_dry_run_of_a_policy_deletes_no_savepoint() -> None:
    here = Retained()
    here.retain(cleaning=None, archiving=None, savepoints={"expireAfter": "1h"}, dryRun=True)
    here.commit(1, 2, 9_000, savepoints=saved_at(9))
    here.settle()
    assert not here.actions()
    assert here.service("SavepointExpiry").message.endswith("has expired; a dry run leaves it")


@pytest.mark.parametrize("change", ["rules", "owner", "gone"])
def test_clean_that_waits_is_withdrawn_when_its_rules_are_gone(change: str) -> None:
    """It waits for approval, a slot or a retry; meanwhile the table may be to keep more."""
    here = Retained()
    policy = here.retain(archiving=None, approval=True)
    here.commit(1, 2, 3)
    here.settle()
    (action,) = here.of_type("Clean")
    if change == "rules":
        here.edit(policy, cleaning__keep={"commits": 100})
    elif change == "owner":
        here.edit(here.table_key, services__cleaning="External")
    else:
        here.delete(policy)
    here.edit(action, approved=True)
    here.settle()
    assert not [work for work in here.works if isinstance(work, job_specs.Clean)]
    if action in here.by_key:
        assert here.condition(action)[:2] == ("Cancelled", "Cancelled")


def test_commit_that_completed_after_the_last_clean_was_due_is_counted() -> None:
    """The clean was due at a commit of an earlier requested time that completed late."""
    here = Retained()
    here.retain(archiving=None, cleaning__triggers={"commits": 1})
    late = ow.commit(1, completion_time=ow.time(5))
    here.see_table(here.table_key, [ow.commit(3), late])
    here.settle()
    here.finish(here.of_type("Clean")[0])
    assert here.service("Cleaning").reason == "NothingToClean"
    assert len(here.of_type("Clean")) == 1


def test_policy_is_consent() -> None:
    here = Retained()
    by_default(here)
    here.retain(archiving=None)
    here.commit(1, 2, 3)
    here.settle()
    (clean,) = (work for work in here.works if isinstance(work, job_specs.Clean))
    assert not clean.is_dry_run
    assert here.service("Archiving").policy == "default"


def test_external_writers_clean_themselves() -> None:
    spec = edited(ow.TABLE, concurrency__externalWriters=True)
    here = Retained(spec)
    come_from(here, hudi_table_status.Origin.CREATED)
    by_default(here)
    here.commit(*range(1, 12))
    here.settle()
    (clean,) = (work for work in here.works if isinstance(work, job_specs.Clean))
    assert clean.is_dry_run


def test_policy_of_a_service_that_the_table_keeps_for_others_is_stalled() -> None:
    here = Retained(edited(ow.TABLE, services={"cleaning": "External"}))
    policy = here.retain(archiving=None)
    here.commit(1, 2, 3)
    here.settle()
    assert not here.started
    assert here.condition(policy)[:2] == ("Stalled", "Disabled")


def test_policy_without_a_block_leaves_it_to_another_policy() -> None:
    here = Retained()
    here.retain("cleaning", archiving=None)
    selecting = here.retain("archiving", cleaning=None, target=SELECTING)
    here.commit(*range(1, 7))
    here.settle()
    assert here.service("Cleaning").policy == "RetentionPolicy/cleaning"
    assert here.service("Archiving").policy == "RetentionPolicy/archiving"
    assert here.condition(selecting)[:2] == ("Ready", "Watching")


SELECTING = {"tableSelector": {"matchLabels": {"tier": "gold"}}}


def test_dry_run_of_a_policy_changes_nothing() -> None:
    here = Retained()
    here.retain(dryRun=True)
    here.commit(*range(1, 7))
    here.settle()
    assert len(here.works) == 2
    for work in here.works:
        assert isinstance(work, job_specs.Clean | job_specs.Archive)
        assert work.is_dry_run


def test_run_waits_for_its_window_unless_it_is_overdue() -> None:
    here = Retained()
    # The world's time begins on a Friday at 08:00 UTC.
    policy = here.retain(
        archiving=None, windows=[{"start": "22:00", "end": "23:00"}], overdueAfter="3h"
    )
    here.commit(1, 2, 3)
    here.settle()
    told = here.service("Cleaning")
    assert told.reason == "OutsideWindow"
    assert told.next_due == "2027-01-15T22:00:00Z"
    assert told.due_since == "2027-01-15T08:00:03Z"
    assert here.status(policy).overdue is None
    here.now_ms += 2 * 3_600_000
    here.commit(1, 2, 3)
    here.settle()
    assert not here.started
    here.now_ms += 2 * 3_600_000
    here.commit(1, 2, 3)
    here.settle()
    assert len(here.started) == 1
    assert here.service("Cleaning").overdue
    assert here.status(policy).overdue == 1
    here.finish(here.of_type("Clean")[0])
    assert here.service("Cleaning").due_since is None
    assert here.status(policy).overdue is None


def test_run_waits_for_approval() -> None:
    here = Retained()
    here.retain(archiving=None, approval=True)
    here.commit(1, 2, 3)
    here.settle()
    (action,) = here.of_type("Clean")
    assert here.condition(action)[:2] == ("Suspended", "AwaitingApproval")
    assert not here.started
    here.edit(action, approved=True)
    here.settle()
    assert len(here.started) == 1


def test_cancelled_action_ends_for_good_and_goes_when_its_time_is_over() -> None:
    here = Retained()
    here.commit(1)
    spec = {
        "tableRef": {"name": "flights"},
        "type": "Archive",
        "ttlAfterFinished": "1h",
    }
    key = here.add(kinds.TABLE_ACTION, "mine", spec)
    here.settle()
    here.edit(key, cancel=True)
    here.settle()
    assert here.stopped[-1].reason == "the TableAction is cancelled"
    here.end(here.uid(key), "Cancelled")
    here.settle()
    assert here.condition(key)[:2] == ("Cancelled", "Cancelled")
    here.now_ms += 3_500_000
    here.settle()
    assert key in here.by_key
    here.now_ms += 200_000
    here.settle()
    assert key not in here.by_key


def test_failed_clean_is_told_with_its_basis_and_tried_again_after_commits() -> None:
    here = Retained()
    policy = here.retain(archiving=None)
    here.commit(1, 2, 3)
    here.settle()
    (action,) = here.of_type("Clean")
    here.end(here.uid(action), "Configuration")
    here.commit(1, 2, 3)
    here.settle()
    told = here.service("Cleaning")
    assert told.reason == "ActionFailed"
    assert told.last_failure is not None
    assert told.last_failure.basis == ow.time(3)
    assert here.condition(policy)[:2] == ("Stalled", "ActionFailed")
    here.commit(1, 2, 3, 4)
    here.settle()
    newest = here.of_type("Clean")[-1]
    assert newest != action
    here.now_ms += 5_000
    here.finish(newest)
    assert here.service("Cleaning").last_failure is None


# Savepoints


def save(here: Retained, **edits: object) -> objects.ObjectKey:
    """Declare a Savepoint and have its action end well."""
    spec = edited({"tableRef": {"name": "flights"}, "comment": "before"}, **edits)
    key = here.add(kinds.SAVEPOINT, "mine", spec)
    here.settle()
    (action,) = here.of_type("CreateSavepoint")
    assert here.works[-1] == job_specs.CreateSavepoint(comment="before")
    assert here.condition(key)[:2] == ("Provisioning", "ActionAtWork")
    saved = job_results.CommittedInstant(
        requested_time=ow.time(2), completion_time=ow.time(9), action="savepoint"
    )
    here.finish(action, instants=(saved,))
    return key


def saved_at(number: int) -> tuple[facts.Savepoint, ...]:
    return (facts.Savepoint(requested_time=ow.time(2), completion_time=ow.time(number)),)


def test_savepoint_is_created_and_goes_with_its_object() -> None:
    here = Retained()
    here.commit(1, 2)
    key = save(here)
    assert here.condition(key) == ("Saved", "Saved", f"the files of commit {ow.time(2)} are kept")
    here.commit(1, 2, savepoints=saved_at(9))
    here.delete(key)
    here.settle()
    assert here.condition(key)[:2] == ("Deleting", "Deleting")
    assert here.works[-1] == job_specs.DeleteSavepoints(commits=(ow.time(2),))
    here.finish(here.of_type("DeleteSavepoints")[0])
    assert key not in here.by_key


def test_savepoint_may_outlive_its_object() -> None:
    here = Retained()
    here.commit(1, 2)
    key = save(here, deletionPolicy="Retain")
    here.delete(key)
    here.settle()
    assert key not in here.by_key
    assert len(here.started) == 1


def test_savepoint_expires_by_the_newest_commit_and_not_by_a_clock() -> None:
    here = Retained()
    here.commit(1, 2)
    key = save(here, expireAfter="1h")
    here.now_ms += 86_400_000
    here.commit(1, 2, savepoints=saved_at(9))
    here.settle()
    assert here.condition(key)[0] == "Saved"
    here.commit(1, 2, 3_700, savepoints=saved_at(9))
    here.settle()
    assert here.condition(key)[:2] == ("Expired", "Expired")
    assert here.works[-1] == job_specs.DeleteSavepoints(commits=(ow.time(2),))
    here.finish(here.of_type("DeleteSavepoints")[0])
    assert here.condition(key)[0] == "Expired"
    here.delete(key)
    here.settle()
    assert key not in here.by_key


def test_savepoint_of_a_commit_that_another_object_keeps_is_left_to_that() -> None:
    here = Retained()
    here.commit(1, 2)
    key = save(here)
    other = here.add(
        kinds.SAVEPOINT, "theirs", {"tableRef": {"name": "flights"}, "comment": "before"}
    )
    here.settle()
    saved = job_results.CommittedInstant(
        requested_time=ow.time(2), completion_time=ow.time(9), action="savepoint"
    )
    here.finish(here.of_type("CreateSavepoint")[-1], instants=(saved,))
    here.delete(key)
    here.settle()
    assert key not in here.by_key
    assert not here.of_type("DeleteSavepoints")
    here.delete(other)
    here.settle()
    assert here.works[-1] == job_specs.DeleteSavepoints(commits=(ow.time(2),))


def test_savepoint_that_cannot_be_created_says_why() -> None:
    here = Retained()
    here.commit(1, 2)
    key = here.add(kinds.SAVEPOINT, "mine", {"tableRef": {"name": "flights"}})
    here.settle()
    here.end(here.uid(here.of_type("CreateSavepoint")[0]), "NotFound")
    here.commit(1, 2)
    here.settle()
    assert here.condition(key)[:2] == ("Stalled", "ActionFailed")
    assert "as told" in here.condition(key)[2]
    here.delete(key)
    here.settle()
    assert key not in here.by_key


def test_policy_that_replaces_another_tries_at_the_same_commit() -> None:
    here = Retained()
    here.retain("for-all", archiving=None, target=SELECTING, retry={"limit": 0})
    here.commit(1, 2, 3)
    here.settle()
    here.end(here.uid(here.of_type("Clean")[0]), "Unknown")
    here.commit(1, 2, 3)
    here.settle()
    assert here.service("Cleaning").reason == "ActionFailed"
    here.retain("for-one", archiving=None)
    here.settle()
    assert here.service("Cleaning").reason == "ActionAtWork"
    assert len(here.started) == 2


def test_times_that_no_calendar_has_make_nothing_due() -> None:
    here = Retained()
    here.retain(
        cleaning={"keep": {"hours": 1}, "triggers": {"elapsed": "1h"}},
        savepoints={"expireAfter": "1h"},
    )
    strange = instants.InstantTime("20269999999999999")
    here.commit(1, savepoints=(facts.Savepoint(requested_time=strange, completion_time=strange),))
    here.settle()
    assert here.service("SavepointExpiry").reason == "NothingExpired"


def test_savepoint_with_a_strange_time_does_not_expire() -> None:
    here = Retained()
    here.commit(1, 2)
    save(here, expireAfter="1h")
    strange = instants.InstantTime("20269999999999999")
    saved = facts.Savepoint(requested_time=ow.time(2), completion_time=strange)
    here.commit(1, 2, savepoints=(saved,))
    here.settle()
    assert not here.of_type("DeleteSavepoints")


MADE = job_results.CommittedInstant(
    requested_time=ow.time(2), completion_time=ow.time(9), action="savepoint"
)


def test_savepoint_deleted_while_it_is_created_goes_from_the_table_too() -> None:
    here = Retained()
    here.commit(1, 2)
    key = here.add(kinds.SAVEPOINT, "mine", {"tableRef": {"name": "flights"}})
    here.settle()
    (action,) = here.of_type("CreateSavepoint")
    here.delete(key)
    here.settle()
    here.finish(action, instants=(MADE,))
    assert here.works[-1] == job_specs.DeleteSavepoints(commits=(ow.time(2),))
    here.finish(here.of_type("DeleteSavepoints")[0])
    assert key not in here.by_key


def test_savepoint_of_two_objects_goes_with_the_last_one() -> None:
    here = Retained()
    here.commit(1, 2)
    keys = []
    for number, name in enumerate(("one", "other")):
        keys.append(here.add(kinds.SAVEPOINT, name, {"tableRef": {"name": "flights"}}))
        here.settle()
        here.finish(here.of_type("CreateSavepoint")[number], instants=(MADE,))
    assert [here.condition(key)[0] for key in keys] == ["Saved", "Saved"]
    here.commit(1, 2, savepoints=saved_at(9))
    here.delete(keys[0])
    here.settle()
    assert keys[0] not in here.by_key
    assert not here.of_type("DeleteSavepoints")
    here.delete(keys[1])
    here.settle()
    assert here.works[-1] == job_specs.DeleteSavepoints(commits=(ow.time(2),))


def test_savepoint_that_something_else_deleted_is_stalled_and_not_made_again() -> None:
    here = Retained()
    here.commit(1, 2)
    key = save(here)
    here.commit(1, 2, 3, savepoints=())
    here.settle()
    state, reason, message = here.condition(key)
    assert (state, reason) == ("Stalled", "SavepointDeleted")
    assert ow.time(2) in message
    assert len(here.works) == 1
    here.commit(1, 2, 3, savepoints=saved_at(9))
    here.settle()
    assert here.condition(key)[0] == "Saved"
    here.commit(1, 2, 3, savepoints=())
    here.delete(key)
    here.settle()
    assert key not in here.by_key
    assert len(here.works) == 1


def test_timeline_that_cannot_be_read_shows_no_deletion_of_a_savepoint() -> None:
    here = Retained()
    here.commit(1, 2)
    key = save(here)
    problem = facts.Problem(kind="Storage", message="as told", is_transient=True)
    here.commit(1, 2, savepoints=(), problem=problem)
    here.settle()
    assert here.condition(key)[0] == "Saved"


def test_expired_savepoint_that_something_else_deleted_is_expired() -> None:
    here = Retained()
    here.commit(1, 2)
    key = save(here, expireAfter="1h")
    here.commit(1, 2, 3_700)
    here.settle()
    here.end(here.uid(here.of_type("DeleteSavepoints")[0]), "NotFound")
    here.commit(1, 2, 3_700, savepoints=())
    here.settle()
    assert here.condition(key)[:2] == ("Expired", "Expired")
    assert not here.of_type("DeleteSavepoints")


def test_creation_and_deletion_of_savepoints_wait_for_each_other() -> None:
    here = Retained()
    here.commit(1, 2)
    first = save(here)
    here.delete(first)
    here.settle()
    (deletion,) = here.of_type("DeleteSavepoints")
    second = here.add(kinds.SAVEPOINT, "other", {"tableRef": {"name": "flights"}})
    here.settle()
    creation = here.of_type("CreateSavepoint")[-1]
    assert here.condition(creation)[:2] == ("Blocked", "TableBusy")
    here.finish(deletion)
    assert here.works[-1] == job_specs.CreateSavepoint()
    here.finish(creation, instants=(MADE,))
    assert here.condition(second)[0] == "Saved"


def test_deletion_of_a_savepoint_that_another_object_got_meanwhile_does_not_start() -> None:
    here = Retained()
    here.commit(1, 2)
    first = save(here)
    second = here.add(
        kinds.SAVEPOINT, "other", {"tableRef": {"name": "flights"}, "comment": "before"}
    )
    here.settle()
    creation = here.of_type("CreateSavepoint")[-1]
    here.delete(first)
    here.settle()
    (deletion,) = here.of_type("DeleteSavepoints")
    assert here.condition(deletion)[:2] == ("Blocked", "TableBusy")
    # The deletion is decided about before the creation has told what it made.
    here.end(here.uid(creation), result=job_results.JobResult(attempt=1, instants=(MADE,)))
    here.now_ms += 1
    here.commit(1, 2)
    here.reconcile(deletion)
    assert here.condition(deletion)[:2] == ("Blocked", "TableBusy")
    here.settle()
    assert first not in here.by_key
    assert here.condition(second)[0] == "Saved"
    assert job_specs.DeleteSavepoints not in {type(work) for work in here.works}


def test_expired_object_leaves_its_savepoint_to_another_one_until_that_goes() -> None:
    here = Retained()
    here.commit(1, 2)
    first = save(here, expireAfter="1h")
    second = here.add(
        kinds.SAVEPOINT, "other", {"tableRef": {"name": "flights"}, "comment": "before"}
    )
    here.settle()
    here.commit(1, 2, 3_700)
    here.settle()
    here.finish(here.of_type("CreateSavepoint")[-1], instants=(MADE,))
    assert here.condition(first)[0] == "Expired"
    assert here.condition(second)[0] == "Saved"
    assert not here.of_type("DeleteSavepoints")
    here.delete(second)
    here.settle()
    here.finish(here.started[-1].id.owner)
    assert second not in here.by_key
    assert here.works.count(job_specs.DeleteSavepoints(commits=(ow.time(2),))) == 1
    assert here.condition(first)[0] == "Expired"


@pytest.mark.parametrize("action_type", ["CreateSavepoint", "DeleteSavepoints"])
def test_savepoint_whose_action_was_cancelled_is_stalled(action_type: str) -> None:
    here = Retained()
    here.commit(1, 2)
    if action_type == "CreateSavepoint":
        key = here.add(kinds.SAVEPOINT, "mine", {"tableRef": {"name": "flights"}})
    else:
        key = save(here)
        here.delete(key)
    here.settle()
    (action,) = here.of_type(action_type)
    here.edit(action, cancel=True)
    here.settle()
    here.end(here.uid(action), "Cancelled")
    here.commit(1, 2)
    here.settle()
    assert here.condition(key)[:2] == ("Stalled", "ActionFailed")


# What must not be deleted


def expired() -> facts.Savepoint:
    return facts.Savepoint(requested_time=ow.time(1), completion_time=ow.time(2))


def test_dry_run_deletes_no_savepoint() -> None:
    here = Retained()
    here.retain(dryRun=True, archiving=None, cleaning=None, savepoints={"expireAfter": "1h"})
    here.commit(1, 2, 7_400, savepoints=(expired(),))
    here.settle()
    assert not here.works
    assert "a dry run leaves it" in here.service("SavepointExpiry").message


def test_default_without_consent_deletes_no_savepoint() -> None:
    here = Retained()
    come_from(here, hudi_table_status.Origin.ADOPTED)
    plain = configuration.ServiceDefaults().retention or RAISE
    bounds = retention_policy.Savepoints(expire_after="1h")
    rules = plain.model_copy(update={"savepoints": bounds})
    services = configuration.ServiceDefaults(retention=rules)
    here.limits = dataclasses.replace(here.limits, services=services)
    here.commit(1, 2, 7_400, savepoints=(expired(),))
    here.settle()
    assert not here.works


@pytest.mark.parametrize(
    "edits", [{"dryRun": True}, {"cleaning__keep": {"commits": 9}}, {"suspend": True}]
)
def test_clean_that_waits_does_not_start_under_other_rules(edits: dict[str, Any]) -> None:
    here = Retained()
    policy = here.retain(archiving=None, approval=True)
    here.commit(1, 2, 3)
    here.settle()
    (action,) = here.of_type("Clean")
    here.edit(policy, **edits)
    here.settle()
    here.edit(action, approved=True)
    here.settle()
    assert not here.works
    assert here.condition(action)[0] == "Cancelled"


def test_clean_that_waits_does_not_start_once_the_table_is_left_to_others() -> None:
    here = Retained()
    here.retain(archiving=None, approval=True)
    here.commit(1, 2, 3)
    here.settle()
    (action,) = here.of_type("Clean")
    here.edit(here.table_key, services={"cleaning": "External"})
    here.settle()
    here.edit(action, approved=True)
    here.settle()
    assert not here.works


def test_consent_counts_without_a_new_commit() -> None:
    here = Retained()
    come_from(here, None)
    by_default(here)
    here.commit(*range(1, 12))
    here.settle()
    here.finish(here.of_type("Clean")[0], files=5)
    here.started.clear()
    here.edit(here.table_key, services__cleaning="Operator")
    here.settle()
    (clean,) = (work for work in here.works if isinstance(work, job_specs.Clean))
    assert not clean.is_dry_run


# What must happen once, and again


def test_savepoint_of_a_commit_expires_each_time() -> None:
    here = Retained()
    here.retain(archiving=None, cleaning=None, savepoints={"expireAfter": "1h"})
    here.commit(1, 2, 7_400, savepoints=(expired(),))
    here.settle()
    here.finish(here.of_type("DeleteSavepoints")[0])
    again = facts.Savepoint(requested_time=ow.time(1), completion_time=ow.time(7_401))
    here.commit(1, 2, 7_400, 20_000, savepoints=(again,))
    here.settle()
    assert len(here.works) == 2


def finish_cleans(here: Retained, commits: list[facts.Commit], **told: Any) -> None:  # noqa: ANN401
    """Have the table seen, and each clean that is made end, until none is."""
    for _ in range(6):
        here.see_table(here.table_key, commits, **told)
        here.settle()
        todo = [each for each in here.of_type("Clean") if not here.status(each).finished_time]
        if not todo:
            return
        here.now_ms += 2_000
        here.finish(todo[0])
    raise AssertionError("cleans are made for ever")


def test_clean_that_stays_pending_is_tried_once_whatever_the_history() -> None:
    here = Retained()
    here.retain(archiving=None, cleaning__triggers={"commits": 1}, history={"successful": 1})
    pending = facts.Pending(requested_time=ow.time(2), action="clean")
    for count in (3, 4, 5):
        commits = [ow.commit(number) for number in range(1, count)]
        finish_cleans(here, commits, pending=(pending,))
    assert sum(ow.time(2) in start.id.name for start in here.started) == 1


def test_commits_that_overlap_are_cleaned_after_once() -> None:
    here = Retained()
    here.retain(
        archiving=None, cleaning__triggers={"commits": 1}, history={"successful": 0}, dryRun=True
    )
    first = ow.commit(2, completion_time=ow.time(4))
    finish_cleans(here, [first, ow.commit(1, completion_time=ow.time(5))])
    assert len(here.started) == 1


def test_what_is_due_stays_so_when_another_process_leads() -> None:
    here = Retained()
    here.retain(archiving=None, windows=[{"start": "22:00", "end": "23:00"}], overdueAfter="3h")
    here.commit(1, 2, 3)
    here.settle()
    here.now_ms += 2 * 3_600_000
    here.lead_anew(clock_ahead_ms=0)
    here.settle()
    here.see_lock(here.lock_key)
    here.commit(1, 2, 3)
    here.settle()
    here.now_ms += 2 * 3_600_000
    here.commit(1, 2, 3)
    here.settle()
    assert len(here.started) == 1
