"""Which tables may be looked at: those that their own decision does not refuse.

An observer runs as the account and with the secrets that a table names; where these are not
allowed, nobody is to run as them, not to look either.
"""

from typing import Final

from hoodie_operator.api import objects
from hoodie_operator.api.reasons import Reason
from hoodie_operator.reconcile import hudi_tables
from hoodie_operator.reconcile.verdicts import Verdict
from hoodie_operator.reconcile.world import World

_REFUSED: Final = frozenset(
    {
        Reason.INVALID_SPEC,
        Reason.ACCOUNT_NOT_ALLOWED,
        Reason.NOT_ALLOWED,
        Reason.PATH_NOT_ALLOWED,
    }
)
"""What a table waits for otherwise, a lock for one, does not make a look at it wrong."""


def may_be_observed(now: World, table: objects.Table) -> bool:
    """Return whether an observer may run for a table and look at it."""
    resolved = hudi_tables.resolve(now, table)
    return not (isinstance(resolved, Verdict) and resolved.reason in _REFUSED)
