"""When a clean of a table is due.

All times are the timeline's: a clock that is ahead makes no clean due.
"""

from collections.abc import Iterator, Sequence

from hoodie_operator.api import (
    fields,
    hudi_table,
    objects,
    retention_policy,
    table_action,
)
from hoodie_operator.api.reasons import Reason
from hoodie_operator.reconcile import facts, timelines
from hoodie_operator.reconcile.services.protocol import Appraisal, Case, Due, Idle, Trigger, combine
from hoodie_operator.reconcile.services.retention import RetentionService


class Cleaning(RetentionService):
    """Cleaning, as a RetentionPolicy has it done."""

    name = "Cleaning"
    action_type = table_action.ActionType.CLEAN

    def declared_owner(self, table: objects.Table) -> hudi_table.ServiceOwner | None:
        """Return whom the table leaves its cleaning to."""
        return table.spec.services.cleaning

    def block(self, rules: retention_policy.RetentionRules) -> retention_policy.Cleaning | None:
        """Return what a policy says of it."""
        return rules.cleaning

    def appraise(self, case: Case) -> Appraisal:
        """Return whether a pending clean is to be finished, or a new one is due."""
        assert isinstance(case.rules, retention_policy.RetentionRules)
        how = self.block(case.rules)
        assert how is not None
        parameters = {
            "clean": table_action.CleanParameters(
                keep=how.keep, reader_grace=how.reader_grace, max_files=how.max_files
            )
        }
        for pending in timelines.pending_cleans(case.seen):
            instant = pending.requested_time
            # Once: one that another process executes stays pending. Later runs have met it, too.
            is_met = case.last_basis is not None and case.last_basis >= instant
            if not is_met and not any(f"-{instant}-" in action.name for action in case.actions):
                return Due(
                    message=f"clean {instant} is pending", basis=instant, parameters=parameters
                )
        since = max(case.seen.last_clean or "", _completion(case.seen, case.last_basis))
        waiting = [each for each in case.seen.commits if each.completion_time > since]
        if not waiting:
            return Idle(reason=Reason.NOTHING_TO_CLEAN, message="no commits since the last clean")
        triggers = list(_triggers(how.triggers, case.seen, since, waiting))
        fired = combine(how.triggers.match, triggers)
        if not fired.is_due:
            return Idle(reason=Reason.NOT_DUE, message=fired.message)
        return Due(message=fired.message, basis=waiting[-1].requested_time, parameters=parameters)


def _completion(seen: facts.TableFacts, basis: str | None) -> str:
    """Return when the commit completed at which the last run was due; empty for none."""
    found = (each.completion_time for each in seen.commits if each.requested_time == basis)
    return next(found, basis or "")


def _triggers(
    triggers: retention_policy.CleaningTriggers,
    seen: facts.TableFacts,
    since: str,
    waiting: Sequence[facts.Commit],
) -> Iterator[Trigger]:
    if triggers.commits is not None:
        yield Trigger(
            is_fired=len(waiting) >= triggers.commits,
            message=f"{len(waiting)} of {triggers.commits} commits",
        )
    if triggers.elapsed is not None:
        begin = since or waiting[0].requested_time
        newest_ms = timelines.epoch_ms(seen, waiting[-1].completion_time)
        elapsed_ms = newest_ms - timelines.epoch_ms(seen, begin)
        yield Trigger(
            is_fired=elapsed_ms >= fields.duration_ms(triggers.elapsed),
            message=f"{elapsed_ms // 60_000} min of {triggers.elapsed} between commits",
        )
