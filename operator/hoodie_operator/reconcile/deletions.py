"""Letting a HudiTable go: the object alone, or after all who need it the data too.

Data stays where the object goes although it was to stay: a protected table whose kind was deleted,
or that was deleted where no admission policy asks. It stays with its namespace as well, in which
nothing can be started that would delete it.
"""

from collections.abc import Sequence

from hoodie_operator.api import fields, hudi_table, kinds, objects, table_action
from hoodie_operator.api.conditions import Type
from hoodie_operator.api.reasons import Reason
from hoodie_operator.api.states import State
from hoodie_operator.reconcile import names
from hoodie_operator.reconcile.effects import CreateObject, Effect, RemoveObject, SetStatus
from hoodie_operator.reconcile.verdicts import Verdict, stated
from hoodie_operator.reconcile.world import World


def decide(world: World, table: objects.Table) -> Sequence[Effect]:
    """Let the object go; where the data is to go too, first wait for all who need it."""
    is_kept = table.spec.deletion_policy is hudi_table.DeletionPolicy.RETAIN
    if is_kept or not table.status.provisioned:
        return [RemoveObject(key=table.key, uid=table.uid)]
    kept = _kept(world, table)
    if kept is not None:
        return [_set(world, table, kept), RemoveObject(key=table.key, uid=table.uid)]
    name = names.action(table, table_action.ActionType.DELETE, "data")
    key = objects.ObjectKey(kind=kinds.TABLE_ACTION.name, namespace=table.key.namespace, name=name)
    action = world.action(key)
    if action is not None and action.status.state == State.SUCCEEDED.value:
        return [RemoveObject(key=table.key, uid=table.uid)]
    if action is None and (users := _users(world, table)):
        verdict = Verdict(
            state=State.DELETING,
            reason=Reason.IN_USE,
            message=f"it goes when these are gone: {', '.join(users[:5])}",
        )
        return [_set(world, table, verdict)]
    effects: list[Effect] = [_set(world, table, _going(name, action))]
    if action is None:
        spec = table_action.TableActionSpec(
            table_ref=fields.Reference(name=table.name), type=table_action.ActionType.DELETE
        )
        effects.append(CreateObject(key=key, owner=names.owner(table), spec=spec))
    return effects


def _kept(world: World, table: objects.Table) -> Verdict | None:
    """Return why a table's data stays although its policy is to delete it; None when it goes."""
    if table.spec.is_protected:
        why = "deletionProtection is on, which the deletion did not ask"
    elif world.is_namespace_ending(table):
        namespace = table.key.namespace
        why = f"namespace {namespace} is being deleted, and nothing can be started there"
    else:
        return None
    return Verdict(
        state=State.DELETING,
        reason=Reason.DATA_KEPT,
        message=f"{why}: HudiTable {table.name} is let go, and what is left of its data stays at "
        f"{table.status.uri}",
    )


def _going(name: str, action: objects.Action | None) -> Verdict:
    """Return the verdict about a table whose data an action deletes, or could not."""
    ready = action.status.condition(Type.READY) if action is not None else None
    why = f": {ready.message}" if ready is not None else ""
    if action is not None and action.status.is_true(Type.STALLED):
        return Verdict(
            state=State.STALLED,
            reason=Reason.ACTION_FAILED,
            message=f"the data was not deleted by TableAction {name}{why}",
        )
    return Verdict(
        state=State.DELETING,
        reason=Reason.DELETING,
        message=f"the data is deleted by TableAction {name}{why}",
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


def _set(world: World, table: objects.Table, verdict: Verdict) -> SetStatus:
    status = stated(table.status, table, verdict, world.now(table))
    return SetStatus(key=table.key, uid=table.uid, status=status)
