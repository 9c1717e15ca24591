"""What is done about a CompactionPolicy: when a compaction of a table is due.

A pending compaction that no process executes is executed before a new one is planned.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from hoodie.model import instants
from hoodie_operator.api import compaction_policy, fields, hudi_table, objects, table_action, times
from hoodie_operator.api.reasons import Reason
from hoodie_operator.reconcile import facts, interlocks, policies, timelines
from hoodie_operator.reconcile.effects import Effect
from hoodie_operator.reconcile.policies import Finding, Trigger
from hoodie_operator.reconcile.world import World


class CompactionService:
    """Compaction, as a policy plans it."""

    action_type = table_action.ActionType.COMPACTION

    def inapplicable(self, table: objects.Table) -> Finding | None:
        """Return that the table owns its compaction itself, or leaves nothing to compact."""
        service = table.spec.services.compaction
        if service is not hudi_table.ServiceOwner.OPERATOR:
            message = f"its services.compaction is {service.value}"
            return Finding(table=table, reason=Reason.DISABLED, message=message)
        if table.spec.is_copy_on_write:
            message = "it is CopyOnWrite and has no log files to compact"
            return Finding(table=table, reason=Reason.NOTHING_TO_COMPACT, message=message)
        return None

    def evaluate(self, world: World, me: objects.Policy, table: objects.Table) -> Finding:
        """Return whether a pending compaction is to be executed, or a new one is due."""
        seen = world.seen.tables.get(table.uid)
        if seen is None or seen.problem is not None or seen.config is None:
            message = "its timeline has not been read yet"
            return Finding(table=table, reason=Reason.NOT_OBSERVED, message=message)
        return _pending(world, me, table, seen) or _due(world, me, table, seen)


def _pending(
    world: World, me: objects.Policy, table: objects.Table, seen: facts.TableFacts
) -> Finding | None:
    """Return what is done about the oldest pending compaction; None where there is none."""
    for pending in timelines.pending_compactions(seen):
        instant = pending.requested_time
        if interlocks.is_run_by_other_process(world, table, pending):
            message = f"another process executes instant {instant}"
            return Finding(table=table, reason=Reason.OWNED_ELSEWHERE, message=message)
        parameters = table_action.CompactionParameters(instant=instant)
        return policies.make_action(world, me, table, _spec(me, table, parameters), instant)
    return None


def _due(world: World, me: objects.Policy, table: objects.Table, seen: facts.TableFacts) -> Finding:
    """Return whether a new compaction is due."""
    parameters = None
    if me.spec.plan is not None:
        parameters = table_action.CompactionParameters(plan=me.spec.plan)
    spec = _spec(me, table, parameters)
    bounded = _bounded(world, me, table, seen)
    if bounded is not None:
        rest = policies.make_action(world, me, table, spec, f"{bounded}-rest")
        # Once: what such a run has not compacted either waits for the triggers.
        if rest.made is not None:
            return rest
    waiting = timelines.uncompacted(seen)
    if not waiting:
        message = "no delta commits since the last compaction"
        return Finding(table=table, reason=Reason.NOTHING_TO_COMPACT, message=message)
    triggers = _triggers(me.spec.triggers, seen, waiting, world.now_ms)
    is_due, message = policies.combine(me.spec.triggers.match, triggers)
    if not is_due:
        return Finding(table=table, reason=Reason.NOT_DUE, message=message)
    return policies.make_action(world, me, table, spec, waiting[-1].requested_time)


def _spec(
    me: objects.Policy,
    table: objects.Table,
    parameters: table_action.CompactionParameters | None,
) -> table_action.TableActionSpec:
    spec = policies.action_spec(me, table, table_action.ActionType.COMPACTION)
    return spec.model_copy(update={"compaction": parameters})


_SERVICE: Final = CompactionService()


def decide(world: World, me: objects.Policy) -> Sequence[Effect]:
    """Return what to do about a CompactionPolicy."""
    return policies.decide(world, me, _SERVICE)


def _bounded(
    world: World, me: objects.Policy, table: objects.Table, seen: facts.TableFacts
) -> str | None:
    """Return the last compaction if it is this policy's and did not take all that it was to.

    What it left out is due as the compaction was, and waits for no trigger.
    """
    last = timelines.last_planned(seen)
    for action in world.actions_for(me):
        is_last = action.spec.table_ref.name == table.name and action.status.instant == last
        result = action.status.result
        if is_last and result is not None and result.left_out:
            return last
    return None


def _triggers(
    triggers: compaction_policy.Triggers,
    seen: facts.TableFacts,
    waiting: Sequence[facts.Commit],
    now_ms: int,
) -> Iterator[Trigger]:
    """Yield the triggers that a policy has, and how far each one is."""
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
        # The times of a table in some local zone cannot be compared with a clock of ours; only the
        # order of its commits counts there.
        due_ms = instants.parse_time(since) + fields.duration_ms(triggers.elapsed)
        # The moment and not the time that is left: a status that changes by itself is noise.
        yield Trigger(is_fired=now_ms >= due_ms, message=f"elapsed at {times.text(due_ms)}")
