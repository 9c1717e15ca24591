"""Settings that a running writer takes up at its next batch: nothing is stopped for them."""

import dataclasses

import pytest

from hoodie.contract import job_specs
from hoodie_operator.api import kinds, objects, writer
from hoodie_operator.api.conditions import Type
from support.operators import operator_world as ow
from support.operators import rule_examples
from support.operators.flights_world import Flights

NONE = "1-fd38380720bcaff6"
FROZEN = [({}, NONE), ({"compaction": {"deltaCommits": 3}}, "1-7003fa2ee7567814")]


def commit_under(here: Flights, digest: str, number: int = 1) -> None:
    """Have the observer see a commit of the writer left, made under batch settings."""
    here.see_table(here.table_key, [ow.commit(number, writer_id="left", batch_id="1@0")])
    table = here.uid(here.table_key)
    here.tables[table] = dataclasses.replace(here.tables[table], batch_settings={"left": digest})


def status(here: Flights, key: objects.ObjectKey) -> writer.WriterStatus:
    found = here.status(key)
    assert isinstance(found, writer.WriterStatus)
    return found


@pytest.mark.parametrize(("spec", "expected"), FROZEN)
def test_hash_of_batch_settings_is_the_same_in_each_release(
    spec: dict[str, object], expected: str
) -> None:
    here = Flights()
    here.add_writer("left", **spec)
    here.settle()
    (start,) = here.started
    assert isinstance(start.work, job_specs.WriteBatches)
    assert start.work.settings.hash == expected


def test_running_writer_is_given_a_changed_setting_once_and_goes_on() -> None:
    here = Flights()
    key = here.add_writer("left", compaction={"deltaCommits": 3})
    here.settle()
    commit_under(here, here.started[0].batch_settings_hash)
    here.settle()
    assert status(here, key).condition(Type.BATCH_SETTINGS_PENDING) is None
    here.edit(key, compaction={"deltaCommits": 7})
    here.settle()
    here.settle()
    (given,) = here.given
    assert given.settings.compaction["hoodie.compact.inline.max.delta.commits"] == "7"
    assert not here.stopped
    assert len(here.started) == 1
    found = status(here, key)
    assert found.last_commit is not None
    assert found.batch_settings_hash == given.settings.hash
    assert found.last_commit.batch_settings_hash == here.started[0].batch_settings_hash
    pending = found.condition(Type.BATCH_SETTINGS_PENDING)
    assert pending is not None
    assert (pending.reason, given.settings.hash in pending.message) == ("NextBatch", True)
    commit_under(here, given.settings.hash, 2)
    here.settle()
    assert status(here, key).condition(Type.BATCH_SETTINGS_PENDING) is None


@pytest.mark.parametrize("owner", ["External", "Disabled"])
def test_running_writer_plans_no_compactions_once_others_own_the_service(owner: str) -> None:
    here = Flights()
    here.add_writer("left", compaction={"deltaCommits": 3})
    here.settle()
    protocol = here.started[0].table.protocol_hash
    here.edit(here.table_key, services__compaction=owner)
    here.settle()
    (given,) = here.given
    assert (given.settings.compaction, given.settings.hash) == ({}, NONE)
    assert not here.stopped
    assert here.status(here.table_key).protocol_hash == protocol


def test_attempt_that_an_earlier_release_started_is_given_nothing() -> None:
    here = Flights()
    key = here.add_writer("left")
    here.settle()
    here.put_run(dataclasses.replace(here.run(here.uid(key)), batch_settings_hash=""))
    here.edit(key, compaction={"deltaCommits": 3})
    here.settle()
    assert not here.given
    assert not here.stopped


def test_attempt_that_has_to_stop_is_given_nothing() -> None:
    here = Flights()
    key = here.add_writer("left")
    here.settle()
    here.edit(key, compaction={"deltaCommits": 3}, suspend=True)
    here.settle()
    assert (len(here.stopped), here.given) == (1, [])


@pytest.mark.parametrize(
    ("owner", "is_asked_for", "is_stopped"),
    [
        ("External", False, True),
        ("External", True, False),
        ("Disabled", False, True),
        ("Disabled", True, True),
    ],
)
def test_compaction_at_work_stops_when_others_own_the_service(
    owner: str, *, is_asked_for: bool, is_stopped: bool
) -> None:
    here = Flights()
    if is_asked_for:
        here.add(kinds.TABLE_ACTION, "now", rule_examples.ACTION)
    else:
        here.add_policy()
        commits = [ow.commit(number, log_bytes=100) for number in range(1, 9)]
        here.see_table(here.table_key, commits)
    here.settle()
    assert isinstance(here.started[-1].work, job_specs.Compact)
    here.edit(here.table_key, services__compaction=owner)
    here.settle()
    expected = ["services.compaction of HudiTable flights changed"] if is_stopped else []
    assert [stop.reason for stop in here.stopped] == expected
