"""The hash of what all writers agree on: frozen, so that no release stops another one's runs.

A change here is a change of the form: give it the next number, and keep the one before known.
"""

import dataclasses
import json

import pytest

from hoodie.model import table_config
from hoodie_operator.api import hudi_table
from hoodie_operator.reconcile import effective, protocols
from support.operators import operator_world as ow
from support.operators.flights_world import Flights
from support.operators.rule_examples import edited

PLAIN = edited(ow.TABLE, concurrency=None, merge=None)
EVERYTHING = edited(
    ow.TABLE,
    tableName="other",
    database="lake",
    tableVersion=8,
    keys={
        "recordFields": ["id"],
        "partitionFields": ["a"],
        "orderingFields": [],
        "hiveStyle": True,
        "urlEncode": True,
    },
    concurrency={
        "mode": "Optimistic",
        "lockRef": {"name": "zk"},
        "conflictRetries": 7,
        "conflictResolution": "PreferWriter",
        "earlyConflictDetection": "SimpleDirectMarker",
        "externalWriters": True,
        "clockSkew": "1s",
        "heartbeatInterval": "30s",
    },
    services={"compaction": "External"},
    files={"codec": "Zstd"},
)
FROZEN = [
    (PLAIN, "2-1b8c7f88bdd3b48b", "8e4b5a93b4a32830"),
    (ow.TABLE, "2-13df491fe4f96c24", "18b20f5dc2499c81"),
    (ow.SINGLE, "2-155b243c17d0a526", "db58c63c3377b008"),
    (EVERYTHING, "2-47c14471c7f3eb09", "b5b5e725e2ce1c40"),
]
"""Specs with their hashes in form 2, and in form 1 as the last release that wrote it gave them."""


def agreed(spec: dict[str, object], lock: str | None = None) -> protocols.Agreed:
    found = hudi_table.HudiTableSpec.model_validate_json(json.dumps(spec))
    config = effective._config(found, found.table_name or "flights")
    assert isinstance(config, table_config.TableConfig)
    return protocols.Agreed(
        uri="file:///data/flights",
        lock=lock or "zookeeper-implicit://a:2181,b:2181",
        config=config,
        spec=found,
    )


@pytest.mark.parametrize(("spec", "current", "earlier"), FROZEN)
def test_hash_of_a_table_is_the_same_in_each_release(
    spec: dict[str, object], current: str, earlier: str
) -> None:
    assert protocols.current(agreed(spec)) == current
    assert protocols.earlier(agreed(spec)) == earlier


def test_form_says_only_what_does_not_go_without_saying() -> None:
    assert json.loads(protocols.canonical(agreed(PLAIN))) == {
        "form": 2,
        "uri": "file:///data/flights",
        "lock": "zookeeper-implicit://a:2181,b:2181",
        "name": "flights",
        "version": 9,
        "record_key_fields": ["id"],
        "bucket_count": 4,
        "create_schema": [["id", "string", True], ["a", "string", True], ["b", "int32", True]],
    }


def test_each_field_is_agreed_on_or_is_none_of_it_for_a_reason() -> None:
    """A new field is put on one of the two sides by who adds it."""
    names = {
        *(field.name for field in dataclasses.fields(table_config.TableConfig)),
        *hudi_table.Concurrency.model_fields,
        *hudi_table.Services.model_fields,
    }
    assert protocols.parts() - {"uri", "lock"} | protocols.APART.keys() == names
    assert not protocols.parts() & protocols.APART.keys()


def test_two_spellings_of_one_value_agree() -> None:
    for one, other in (("60s", "1m"), ("1m", "60000ms")):
        specs = [edited(ow.TABLE, concurrency__heartbeatInterval=text) for text in (one, other)]
        assert protocols.current(agreed(specs[0])) == protocols.current(agreed(specs[1]))


@pytest.mark.parametrize(
    "change",
    [
        {"concurrency__mode": "SingleWriter"},
        {"concurrency__externalWriters": True},
        {"concurrency__acknowledgeOrderDependence": True},
        {"concurrency__clockSkew": "1s"},
        {"concurrency__heartbeatInterval": "30s"},
        {"writeIndex__bucket__count": 8},
        {"writeIndex__updatesPartitions": False},
        {"keys__recordFields": ["a"]},
        {"merge": {"partialUpdates": False}},
        {"changeData": "DataBefore"},
        {"database": "lake"},
        {"tableName": "other"},
    ],
)
def test_what_writers_agree_on_changes_the_hash(change: dict[str, object]) -> None:
    before, after = agreed(ow.TABLE), agreed(edited(ow.TABLE, **change))
    assert protocols.current(before) != protocols.current(after)


def test_lock_and_place_change_the_hash() -> None:
    before = agreed(ow.TABLE)
    for change in ({"lock": "filesystem"}, {"uri": "file:///data/other"}):
        after = dataclasses.replace(before, **change)
        assert protocols.current(before) != protocols.current(after)


def test_run_of_the_release_before_goes_on_and_others_start_beside_it() -> None:
    here = Flights()
    left = here.add_writer("left")
    here.settle()
    run = here.run(here.uid(left))
    wanted = here.started[0].table
    here.put_run(dataclasses.replace(run, protocol_hash=wanted.earlier_hash))
    here.progress(here.uid(left))
    right = here.add_writer("right", "b")
    here.settle()
    assert not here.stopped
    assert here.condition(right)[0] == "Starting"
    assert here.started[-1].table.protocol_hash.startswith("2-")


@pytest.mark.parametrize("is_earlier", [False, True])
def test_run_of_another_agreement_is_stopped_in_whichever_form(*, is_earlier: bool) -> None:
    here = Flights()
    left = here.add_writer("left")
    here.settle()
    if is_earlier:
        run = here.run(here.uid(left))
        hash_then = here.started[0].table.earlier_hash
        here.put_run(dataclasses.replace(run, protocol_hash=hash_then))
    here.edit(here.table_key, concurrency__externalWriters=True)
    here.settle()
    assert [stop.reason for stop in here.stopped] == [
        "the shared settings of HudiTable flights changed"
    ]
