"""What a table may take of its namespace: what the operator's configuration names, and no more."""

import pytest

from hoodie_operator.api import configuration, kinds
from hoodie_operator.reconcile import observations
from support.operators import operator_world as ow
from support.operators.flights_world import Flights

DEFAULT = configuration.parse(b"dataRoots: [/data]", "operator.yaml").allowed


def _claim(name: str) -> dict[str, object]:
    return {"volumes": [{"name": "v", "persistentVolumeClaim": name, "mountPath": "/data"}]}


@pytest.mark.parametrize(
    ("storage", "told"),
    [
        ({"secrets": ["hudi-keys"]}, None),
        ({"secrets": ["hudi-keys", "db-root"]}, "storage.secrets has db-root, expected"),
        ({"secrets": ["hudi-observer-0123456789"]}, "is reserved for the operator"),
        (_claim("hudi-lake"), None),
        (_claim("payroll"), "storage.volumes has payroll, expected names that allowed.claims"),
        ({"env": {"AWS_REGION": "x", "HTTPS_PROXY": "y"}}, None),
        ({"env": {"AWS_REGION": "x", "MY_OWN": "y"}}, "storage.env has MY_OWN, expected"),
    ],
)
def test_table_takes_what_the_configuration_allows(
    storage: dict[str, object], told: str | None
) -> None:
    here = Flights(is_ready=False)
    here.limits = ow.limits(allowed=DEFAULT)
    here.edit(here.table_key, **{f"storage__{name}": each for name, each in storage.items()})
    here.see_table(here.table_key, is_there=False)
    here.settle()
    table = here.world.table("default", "flights")
    assert table is not None
    assert observations.may_be_observed(here.world, table) is (told is None)
    state, reason, message = here.condition(here.table_key)
    if told is None:
        assert state == "Provisioning"
    else:
        assert (state, reason) == ("Stalled", "NotAllowed")
        assert told in message
        assert here.actions() == []


def test_run_takes_the_variables_that_the_configuration_allows() -> None:
    here = Flights()
    here.limits = ow.limits(allowed=DEFAULT)
    good = here.add_writer("good", runtime__env={"AWS_REGION": "x"})
    bad = here.add_writer("bad", "b", runtime__env={"MY_OWN": "x"})
    here.settle()
    assert here.condition(good)[0] == "Starting"
    state, reason, message = here.condition(bad)
    assert (state, reason) == ("Stalled", "NotAllowed")
    assert "runtime.env has MY_OWN, expected names that allowed.variables" in message


def test_action_takes_the_variables_that_the_configuration_allows() -> None:
    here = Flights()
    here.limits = ow.limits(allowed=DEFAULT)
    spec = {"tableRef": {"name": "flights"}, "type": "Rollback", "runtime": {"env": {"MY": "x"}}}
    key = here.add(
        kinds.TABLE_ACTION, "undo", {**spec, "rollback": {"instant": "20260101000000000"}}
    )
    here.settle()
    assert here.condition(key)[:2] == ("Failed", "NotAllowed")
