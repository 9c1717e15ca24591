"""When a compaction of a table is due.

A pending compaction that no process executes is executed before a new one is planned.
"""

from collections.abc import Iterator, Sequence

from hoodie_operator.api import (
    compaction_policy,
    configuration,
    fields,
    hudi_table,
    kinds,
    objects,
    service_policy,
    table_action,
    times,
)
from hoodie_operator.api.reasons import Reason
from hoodie_operator.reconcile import facts, interlocks, timelines
from hoodie_operator.reconcile.services.protocol import Appraisal, Case, Due, Idle, Trigger, combine


class Compaction:
    """Compaction, as a CompactionPolicy plans it."""

    name = "Compaction"
    policy_kind = kinds.COMPACTION_POLICY
    action_type = table_action.ActionType.COMPACTION
    is_deleting = False

    def declared_owner(self, table: objects.Table) -> hudi_table.ServiceOwner | None:
        """Return whom the table leaves its compaction to."""
        return table.spec.services.compaction

    def is_ruled_by(self, rules: service_policy.Schedule) -> bool:
        """Return that every CompactionPolicy rules it."""
        return isinstance(rules, compaction_policy.CompactionRules)

    def default_rules(
        self, defaults: configuration.ServiceDefaults
    ) -> service_policy.Schedule | None:
        """Return the operator's own triggers."""
        return defaults.compaction

    def inapplicable(self, table: objects.Table) -> Idle | None:
        """Return that the table leaves nothing to compact."""
        if not table.spec.is_copy_on_write:
            return None
        return Idle(
            reason=Reason.NOTHING_TO_COMPACT,
            message="it is CopyOnWrite and has no log files to compact",
        )

    def appraise(self, case: Case) -> Appraisal:
        """Return whether a pending compaction is to be executed, or a new one is due."""
        return _pending(case) or _new(case)


def _pending(case: Case) -> Appraisal | None:
    """Return what is done about the oldest pending compaction; None where there is none."""
    for pending in timelines.pending_compactions(case.seen):
        instant = pending.requested_time
        if interlocks.is_run_by_other_process(case.world, case.table, pending):
            message = f"another process executes instant {instant}"
            return Idle(reason=Reason.OWNED_ELSEWHERE, message=message)
        parameters = table_action.CompactionParameters(instant=instant)
        return Due(
            message=f"instant {instant} is pending",
            basis=instant,
            parameters={"compaction": parameters},
        )
    return None


def _new(case: Case) -> Appraisal:
    """Return whether a new compaction is due."""
    rules = case.rules
    assert isinstance(rules, compaction_policy.CompactionRules)
    plan = rules.plan
    parameters = {"compaction": plan and table_action.CompactionParameters(plan=plan)}
    bounded = _bounded(case)
    if bounded is not None:
        return Due(
            message="the last plan left file groups out",
            basis=f"{bounded}-rest",
            parameters=parameters,
        )
    waiting = timelines.uncompacted(case.seen)
    if not waiting:
        message = "no delta commits since the last compaction"
        return Idle(reason=Reason.NOTHING_TO_COMPACT, message=message)
    triggers = list(_triggers(rules.triggers, case.seen, waiting, case.world.now_ms))
    fired = combine(rules.triggers.match, triggers)
    if not fired.is_due:
        return Idle(reason=Reason.NOT_DUE, message=fired.message, next_due_ms=fired.next_due_ms)
    return Due(message=fired.message, basis=waiting[-1].requested_time, parameters=parameters)


def _bounded(case: Case) -> str | None:
    """Return the last compaction if it was made here and did not take all that it was to.

    What it left out is due as the compaction was, and waits for no trigger, once: what such a run
    has not compacted either waits for the triggers.
    """
    last = timelines.last_planned(case.seen)
    is_followed = any(f"-{last}-rest-" in action.name for action in case.actions)
    for action in case.actions:
        result = action.status.result
        if action.status.instant == last and result is not None and result.left_out:
            return None if is_followed else last
    return None


def _triggers(
    triggers: compaction_policy.Triggers,
    seen: facts.TableFacts,
    waiting: Sequence[facts.Commit],
    now_ms: int,
) -> Iterator[Trigger]:
    """Yield the triggers that are given, and how far each one is."""
    if triggers.delta_commits is not None:
        yield Trigger(
            is_fired=len(waiting) >= triggers.delta_commits,
            message=f"{len(waiting)} of {triggers.delta_commits} delta commits",
        )
    if triggers.log_bytes is not None:
        logged = sum(commit.log_bytes for commit in waiting)
        limit = fields.size_bytes(triggers.log_bytes)
        yield Trigger(is_fired=logged >= limit, message=f"{logged} of {limit} log bytes")
    if triggers.elapsed is not None:
        since = timelines.last_planned(seen) or waiting[0].requested_time
        due_ms = timelines.epoch_ms(seen, since) + fields.duration_ms(triggers.elapsed)
        # The moment and not the time that is left: a status that changes by itself is noise.
        yield Trigger(
            is_fired=now_ms >= due_ms, message=f"elapsed at {times.text(due_ms)}", due_ms=due_ms
        )
