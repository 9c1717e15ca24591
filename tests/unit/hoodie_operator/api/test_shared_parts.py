"""Equal parts of specs and statuses are held once, and nothing else about them changes."""

import json

import pytest

from hoodie_operator.api import hudi_table, hudi_table_status, kinds, shared_parts
from support.operators import full_specs, rule_examples


def table(**edits: object) -> hudi_table.HudiTableSpec:
    spec = rule_examples.edited(rule_examples.TABLE, **edits)
    read = hudi_table.HudiTableSpec.model_validate_json(json.dumps(spec))
    return shared_parts.with_shared_parts(read)


def test_tables_share_what_is_equal_and_not_what_differs() -> None:
    one, other = table(storage__path="a"), table(storage__path="b")
    assert one.concurrency is other.concurrency
    assert one.write_index is other.write_index
    assert (one.storage.path, other.storage.path) == ("a", "b")


@pytest.mark.parametrize("kind", kinds.KINDS, ids=lambda kind: kind.name)
def test_no_spec_is_changed(kind: kinds.Kind) -> None:
    for spec in full_specs.FULL[kind.name]:
        read = kind.spec.model_validate_json(json.dumps(spec))
        shared = shared_parts.with_shared_parts(read)
        assert shared == read
        assert shared.model_dump(mode="json") == read.model_dump(mode="json")


def test_equal_specs_are_still_two() -> None:
    one, other = table(), table()
    assert one == other
    assert one is not other


def test_part_that_holds_a_map_stays_as_it_is() -> None:
    env = {"storage__env": {"A": "b"}}
    assert table(**env).storage.env == {"A": "b"}


def test_part_that_nobody_holds_is_forgotten() -> None:
    # Not by how many are held: what is by default is for ever, and others' may end at any time.
    one = table(files__logFileSize="123Mi")
    equal = one.files.model_copy()
    assert equal in shared_parts._held
    del one
    assert equal not in shared_parts._held


def test_what_tables_tell_of_a_service_is_shared_and_not_changed() -> None:
    told = {
        "name": "Cleaning",
        "owner": "Operator",
        "reason": "NotDue",
        "message": "1 of 3 commits",
        "last": {"action": "a", "time": "2026-01-01T00:00:00Z", "message": "done"},
    }
    text = json.dumps({"uri": "file:///data/t", "services": [told]})
    read = [hudi_table_status.HudiTableStatus.model_validate_json(text) for _ in range(2)]
    one, other = (shared_parts.with_shared_services(each) for each in read)
    assert one == read[0]
    assert one is not other
    assert one.services is not None
    assert other.services is not None
    assert one.services[0] is other.services[0]


@pytest.mark.parametrize("kind", kinds.KINDS, ids=lambda kind: kind.name)
def test_status_without_services_stays_as_it_is(kind: kinds.Kind) -> None:
    status = kind.status()
    assert shared_parts.with_shared_services(status) is status
