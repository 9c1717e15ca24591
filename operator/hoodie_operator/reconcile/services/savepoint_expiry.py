"""When savepoints of a table have expired, by the newest commit on its timeline (SP5)."""

from hoodie_operator.api import (
    fields,
    hudi_table,
    objects,
    retention_policy,
    table_action,
    times,
)
from hoodie_operator.api.reasons import Reason
from hoodie_operator.reconcile import facts, timelines
from hoodie_operator.reconcile.services.protocol import Appraisal, Case, Due, Idle
from hoodie_operator.reconcile.services.retention import RetentionService


class SavepointExpiry(RetentionService):
    """The deletion of old savepoints, as a RetentionPolicy has it done."""

    name = "SavepointExpiry"
    action_type = table_action.ActionType.DELETE_SAVEPOINTS

    def declared_owner(self, table: objects.Table) -> hudi_table.ServiceOwner | None:
        """Return that of cleaning, which savepoints hold back."""
        return table.spec.services.cleaning

    def block(self, rules: retention_policy.RetentionRules) -> retention_policy.Savepoints | None:
        """Return what a policy says of it."""
        return rules.savepoints

    def appraise(self, case: Case) -> Appraisal:
        """Return whether a savepoint has expired."""
        assert isinstance(case.rules, retention_policy.RetentionRules)
        how = self.block(case.rules)
        assert how is not None
        if not case.seen.savepoints:
            return Idle(reason=Reason.NOTHING_EXPIRED, message="no savepoints")
        oldest = case.seen.savepoints[0]
        for each in case.seen.savepoints:
            age_ms = timelines.age_ms(case.seen, each.completion_time, case.world.now_ms)
            if age_ms is not None and age_ms > fields.duration_ms(how.expire_after):
                return _expired(each, how)
        completed_ms = timelines.epoch_ms(case.seen, oldest.completion_time)
        due_ms = completed_ms + fields.duration_ms(how.expire_after)
        return Idle(
            reason=Reason.NOTHING_EXPIRED,
            message=f"the oldest savepoint, of commit {oldest.requested_time}, expires with "
            f"the first commit after {times.text(due_ms)}",
        )


def _expired(saved: facts.Savepoint, how: retention_policy.Savepoints) -> Due:
    parameters = table_action.DeleteSavepointsParameters(older_than=how.expire_after)
    return Due(
        message=f"the savepoint of commit {saved.requested_time} has expired",
        # Of itself: the commit may get another one, which expires in its turn.
        basis=saved.completion_time,
        parameters={"delete_savepoints": parameters},
    )
