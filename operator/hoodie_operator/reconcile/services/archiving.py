"""When old commits of a table are to leave its active timeline."""

from hoodie_operator.api import (
    hudi_table,
    objects,
    retention_policy,
    table_action,
)
from hoodie_operator.api.reasons import Reason
from hoodie_operator.reconcile.services.protocol import Appraisal, Case, Due, Idle
from hoodie_operator.reconcile.services.retention import RetentionService


class Archiving(RetentionService):
    """Archiving, as a RetentionPolicy has it done."""

    name = "Archiving"
    action_type = table_action.ActionType.ARCHIVE

    def declared_owner(self, table: objects.Table) -> hudi_table.ServiceOwner | None:
        """Return whom the table leaves its archiving to."""
        return table.spec.services.archiving

    def block(self, rules: retention_policy.RetentionRules) -> retention_policy.Archiving | None:
        """Return what a policy says of it."""
        return rules.archiving

    def appraise(self, case: Case) -> Appraisal:
        """Return whether there are too many commits, and enough new ones since the last run.

        What holds them back may hold them for long: a run for each commit would be in vain.
        """
        assert isinstance(case.rules, retention_policy.RetentionRules)
        how = self.block(case.rules)
        assert how is not None
        commits = case.seen.commits
        message = f"{len(commits)} of {how.max_commits} commits"
        if len(commits) <= how.max_commits:
            return Idle(reason=Reason.NOTHING_TO_ARCHIVE, message=message)
        step = how.max_commits - how.min_commits
        since = [each for each in commits if each.requested_time > (case.last_basis or "")]
        if len(since) < step:
            message = f"{message}, {len(since)} of {step} since the last run"
            return Idle(reason=Reason.NOT_DUE, message=message)
        cleaning = case.rules.cleaning
        parameters = table_action.ArchiveParameters(
            min_commits=how.min_commits,
            max_commits=how.max_commits,
            history_days=how.history_days,
            readable_commits=None if cleaning is None else cleaning.keep.commits,
        )
        return Due(
            message=message,
            basis=max(each.requested_time for each in commits),
            parameters={"archive": parameters},
        )
