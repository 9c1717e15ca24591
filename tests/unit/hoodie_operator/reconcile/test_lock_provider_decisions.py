"""What is decided about a LockProvider, state by state: with its reason, and what serves it."""

import pytest

from hoodie_operator.api import kinds, objects
from hoodie_operator.reconcile import decide, effects
from support.operators import operator_world as ow
from support.operators import rule_examples
from support.operators.flights_world import Flights
from support.operators.operator_world import Outside
from support.operators.rule_examples import edited


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


def test_what_is_seen_of_a_silent_lock_is_told_by_all_that_wait_for_it() -> None:
    here = Flights(is_ready=False)
    writer = here.add_writer("left")
    here.see_lock(here.lock_key, is_ready=False)
    here.settle()
    for key in (here.lock_key, here.table_key, writer):
        assert "as told" in here.condition(key)[2]


def test_embedded_lock_is_served() -> None:
    here = Outside()
    key = here.add(kinds.LOCK_PROVIDER, "zk", {"type": "ZooKeeper", "embedded": True})
    assert effects.ServeLock(key=key, uid=here.uid(key)) in here.reconcile(key)
    here.see_lock(key)
    here.reconcile(key)
    assert decide.is_settled(here.world), "it is asked for at every look and keeps nobody waiting"


def test_embedded_lock_is_served_for_its_tables() -> None:
    here = Outside()
    key = here.add(kinds.LOCK_PROVIDER, "zk", {"type": "ZooKeeper", "embedded": True})
    here.add(kinds.LOCK_PROVIDER, "other", {"type": "ZooKeeper", "embedded": True})
    table = here.add(kinds.HUDI_TABLE, "flights", ow.TABLE)
    of_other = edited(ow.TABLE, storage={"path": "b"}, concurrency__lockRef={"name": "other"})
    here.add(kinds.HUDI_TABLE, "b", of_other)
    owner = objects.Owner(kind="HudiTable", name="flights", uid=here.uid(table))
    served = effects.ServeLock(key=key, uid=here.uid(key), users=(owner,))
    assert served in here.decide(key)


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
