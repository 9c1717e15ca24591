"""Letting a HudiTable go: the object alone, or after all who need it the data too.

The data goes only by a run of the table's own, and only where the HudiTable asks for that in full:
it is being deleted, its policy is Delete, nothing protects it, and what is at its place is the
table that it made or took over. The run is told all of this and looks again (`hoodie_jobs.drop`).

Data stays where the object goes although it was to stay: a protected table whose kind was deleted,
or that was deleted where no admission policy asks. It stays with its namespace as well, in which
nothing can be started that would delete it.
"""

from collections.abc import Sequence

from hoodie.contract import job_specs
from hoodie_operator.api import hudi_table, objects
from hoodie_operator.api.reasons import Reason
from hoodie_operator.api.states import State
from hoodie_operator.reconcile import effective, own_runs, runs
from hoodie_operator.reconcile.effects import Effect, RemoveObject, SetStatus
from hoodie_operator.reconcile.own_runs import Purpose
from hoodie_operator.reconcile.verdicts import Verdict, stated
from hoodie_operator.reconcile.world import World


def decide(
    world: World, table: objects.Table, cleared: effective.EffectiveTable | Verdict
) -> Sequence[Effect]:
    """Let the object go; where the data is to go too, first wait for all who need it.

    Args:
        world: Everything.
        table: The table, which is being deleted.
        cleared: Its effective configuration, or why its data is not to be touched now.
    """
    found = own_runs.situation(world, table, Purpose.DELETION, cleared)
    is_own = table.spec.deletion_policy is hudi_table.DeletionPolicy.DELETE and (
        table.status.provisioned
    )
    kept = _kept(world, table) if is_own else None
    if found.run is not None and not world.is_namespace_ending(table):
        is_wanted = is_own and kept is None and own_runs.is_for(world, table, Purpose.DELETION)
        unwanted = None if is_wanted else f"HudiTable {table.name} is deleted"
        step = own_runs.watch(world, table, found, cleared, unwanted)
        return [*step.effects, _set(world, table, step)]
    if not is_own:
        return [RemoveObject(key=table.key, uid=table.uid)]
    if kept is not None:
        step = runs.Outcome(effects=[], verdict=kept, status=found.status)
        return [_set(world, table, step), RemoveObject(key=table.key, uid=table.uid)]
    return _drop(world, table, found, cleared)


def _drop(
    world: World,
    table: objects.Table,
    found: runs.Situation,
    cleared: effective.EffectiveTable | Verdict,
) -> Sequence[Effect]:
    """Delete the data, and let the object go when it is gone."""
    was_begun = own_runs.is_for(world, table, Purpose.DELETION)
    if not was_begun and (users := _users(world, table)):
        waits = f"waiting for the deletion of {', '.join(users[:5])}"
        return [_stay(world, table, found, _deleting(Reason.IN_USE, waits))]
    seen = runs.confirmed(world, table, world.seen.tables.get(table.uid))
    if isinstance(seen, Verdict):
        return [_stay(world, table, found, seen)]
    if seen.config is None and own_runs.has_succeeded(world, table, found, Purpose.DELETION):
        return [RemoveObject(key=table.key, uid=table.uid)]
    if isinstance(cleared, Verdict):
        return [_stay(world, table, found, _not_yet(cleared))]
    work = job_specs.DropTable(
        table_uid=table.uid,
        deletion_policy=table.spec.deletion_policy.value,
        is_protected=table.spec.is_protected,
    )
    step = own_runs.go_on(world, table, found, cleared, work)
    return [*step.effects, _set(world, table, step)]


def _kept(world: World, table: objects.Table) -> Verdict | None:
    """Return why a table's data stays although its policy is to delete it; None when it goes."""
    if table.spec.is_protected:
        why = "deletionProtection is on, and no admission policy refused the deletion"
    elif world.is_namespace_ending(table):
        namespace = table.key.namespace
        why = f"namespace {namespace} is being deleted, and no run can start in it"
    else:
        return None
    return _deleting(
        Reason.DATA_KEPT,
        f"{why}: HudiTable {table.name} is deleted, and its remaining data stays at "
        f"{table.status.uri}",
    )


def _not_yet(why: Verdict) -> Verdict:
    """Return the verdict about data that is not touched now, and may have to be left."""
    message = f"the data is not deleted: {why.message}"
    if why.state is not State.STALLED:
        return _deleting(why.reason, message)
    return Verdict(
        state=State.STALLED,
        reason=why.reason,
        message=f"{message}. To delete only the object, set deletionPolicy "
        f"{hudi_table.DeletionPolicy.RETAIN.value}",
    )


def _users(world: World, table: objects.Table) -> list[str]:
    """Return who needs the data: Writers, actions at work, runs whose owner is gone."""
    actions = [action for action in world.actions_of(table) if world.has_run_at_work(action)]
    return [
        *(str(each.key) for each in (*world.writers_of(table), *actions)),
        *(
            f"{run.process or run.id} of {run.id.kind} {run.id.name}"
            for run in world.ownerless_runs(table)
        ),
    ]


def _deleting(reason: Reason, message: str) -> Verdict:
    return Verdict(state=State.DELETING, reason=reason, message=message)


def _stay(world: World, table: objects.Table, found: runs.Situation, verdict: Verdict) -> SetStatus:
    return _set(world, table, runs.Outcome(effects=[], verdict=verdict, status=found.status))


def _set(world: World, table: objects.Table, step: runs.Outcome) -> SetStatus:
    verdict = own_runs.told(step.verdict, State.DELETING, Reason.DELETING)
    status = table.status.model_copy(update={"runs": step.status})
    status = stated(status, table, verdict, world.now(table))
    return SetStatus(key=table.key, uid=table.uid, status=status)
