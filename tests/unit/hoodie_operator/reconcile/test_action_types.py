"""Every type of TableAction that may be declared has a service."""

from hoodie_operator.api import table_action
from hoodie_operator.reconcile.actions import registry


def test_every_type_that_may_be_declared_has_a_service() -> None:
    assert set(registry.BY_TYPE) == set(table_action.ActionType) - table_action.RETIRED
