"""What the services of a RetentionPolicy share: each is ruled by a block of its own."""

from abc import ABC, abstractmethod

from hoodie_operator.api import configuration, fields, kinds, objects, retention_policy
from hoodie_operator.api.service_policy import Schedule
from hoodie_operator.reconcile.services.protocol import Idle


class RetentionService(ABC):
    """A service that deletes, or moves away, what is old."""

    policy_kind = kinds.RETENTION_POLICY
    is_deleting = True

    @abstractmethod
    def block(self, rules: retention_policy.RetentionRules) -> fields.Block | None:
        """Return what a policy says of the service; None for nothing."""

    def is_ruled_by(self, rules: Schedule) -> bool:
        """Return whether a policy has a block for it."""
        if not isinstance(rules, retention_policy.RetentionRules):
            return False
        return self.block(rules) is not None

    def default_rules(self, defaults: configuration.ServiceDefaults) -> Schedule | None:
        """Return the operator's own bounds."""
        return defaults.retention

    def inapplicable(self, table: objects.Table) -> Idle | None:
        """Return that every table may need it."""
        del table
        return None
