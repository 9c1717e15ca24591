"""What is done about a Savepoint: the table gets one, which goes with the object or expires.

Both are TableActions, owned by the object. Expiry is by the newest commit of the table and not by a
clock: a table that nothing is written to does not age.

What the table keeps is read from its timeline. A savepoint that a policy's expiry or another engine
has deleted is not created again: its files may be gone, and it was deleted on purpose.
"""

from collections.abc import Sequence
from dataclasses import replace

from hoodie_operator.api import fields, kinds, objects, savepoint, table_action
from hoodie_operator.api.conditions import Type
from hoodie_operator.api.reasons import Reason
from hoodie_operator.api.states import State
from hoodie_operator.reconcile import facts, interlocks, names, references, timelines
from hoodie_operator.reconcile.effects import CreateObject, Effect, RemoveObject, SetStatus
from hoodie_operator.reconcile.verdicts import Verdict, broken_rule, stalled, stated
from hoodie_operator.reconcile.world import World

_CREATION = table_action.ActionType.CREATE_SAVEPOINT
_DELETION = table_action.ActionType.DELETE_SAVEPOINTS


def decide(world: World, me: objects.Savepoint) -> Sequence[Effect]:
    """Return what to do about a Savepoint."""
    table = world.table(me.key.namespace, me.spec.table_ref.name)
    if me.is_deleting:
        return _let_go(world, me, table)
    broken = broken_rule(me)
    if broken is not None:
        return [_set(world, me, me.status, broken)]
    if table is None:
        verdict = references.missing(world, me, kinds.HUDI_TABLE, me.spec.table_ref.name)
        return [_set(world, me, me.status, verdict)]
    return _keep(world, me, table)


def _keep(world: World, me: objects.Savepoint, table: objects.Table) -> Sequence[Effect]:
    """Have the table keep the files for as long as they are to be kept."""
    if me.status.expired:
        return _delete(world, me, table, _expired(me))
    if me.status.commit is None:
        return _create(world, me, table)
    seen = world.seen.tables.get(table.uid)
    if seen is not None and _has_expired(me, me.status.commit, seen, world.now_ms):
        expired = me.status.model_copy(update={"expired": True})
        return [_set(world, me, expired, _expired(me))]
    kept = _lost(me) if _is_gone(world, table, me.status.commit) else _saved(me)
    return [_set(world, me, me.status, kept)]


def _create(world: World, me: objects.Savepoint, table: objects.Table) -> Sequence[Effect]:
    """Have the savepoint created; done when its action is."""
    parameters = table_action.CreateSavepointParameters(
        commit=me.spec.commit, comment=me.spec.comment
    )
    spec = _spec(me, _CREATION).model_copy(update={"create_savepoint": parameters})
    key = _action_key(me, table, _CREATION)
    action = world.action(key)
    if action is None:
        closed = references.check_ready(table, me)
        if closed is not None:
            return [_set(world, me, me.status, closed)]
        verdict = _at_work(f"TableAction {key.name} creates it")
        status = me.status.model_copy(update={"action": key.name})
        made = CreateObject(key=key, owner=names.owner(me), spec=spec)
        return [_set(world, me, status, verdict), made]
    if _has_failed(action) and action.status.instant is None:
        return [*_again(me, action), _set(world, me, me.status, _failed(me, action))]
    if action.status.finished_time is None or action.status.instant is None:
        return [_set(world, me, me.status, _at_work(f"TableAction {key.name} is active"))]
    status = me.status.model_copy(update={"commit": action.status.instant, "action": None})
    return [_set(world, me, status, _saved(me, action.status.instant))]


def _let_go(world: World, me: objects.Savepoint, table: objects.Table | None) -> Sequence[Effect]:
    """Have the table's savepoint deleted, where there is one, and the object go."""
    gone = [RemoveObject(key=me.key, uid=me.uid)]
    is_kept = me.spec.deletion_policy is savepoint.DeletionPolicy.RETAIN
    if table is None or table.is_deleting or world.is_namespace_ending(me):
        return gone
    creation = world.action(_action_key(me, table, _CREATION))
    if creation is not None and (
        world.has_run_at_work(creation) or (not is_kept and interlocks.is_untold(creation))
    ):
        verdict = _deleting(f"waiting for the end of TableAction {creation.name}")
        return [_set(world, me, me.status, verdict)]
    is_gone = me.status.commit is not None and _is_gone(world, table, me.status.commit)
    if creation is not None and me.status.commit is None:
        # It ended before it was told here.
        status = me.status.model_copy(update={"commit": creation.status.instant})
        me = replace(me, status=status)
    if is_kept or me.status.commit is None or _sharing(world, table, me.uid, me.status.commit):
        return gone
    action = world.action(_action_key(me, table, _DELETION))
    if is_gone and (action is None or _has_failed(action)):
        return gone
    if action is not None and action.status.finished_time is not None and not _has_failed(action):
        return gone
    return _delete(world, me, table, _deleting("the savepoint is being deleted from the table"))


def _delete(
    world: World, me: objects.Savepoint, table: objects.Table, verdict: Verdict
) -> Sequence[Effect]:
    """Have the savepoint deleted from the table."""
    assert me.status.commit is not None
    parameters = table_action.DeleteSavepointsParameters(commits=(me.status.commit,))
    spec = _spec(me, _DELETION).model_copy(update={"delete_savepoints": parameters})
    key = _action_key(me, table, _DELETION)
    action = world.action(key)
    if action is None or _has_failed(action):
        commit = me.status.commit
        if _is_gone(world, table, commit) or _sharing(world, table, me.uid, commit):
            # Should the other object go first, this one's action is made again.
            failed = [] if action is None else [RemoveObject(key=key, uid=action.uid)]
            status = me.status.model_copy(update={"action": None})
            return [*failed, _set(world, me, status, verdict)]
    if action is None:
        status = me.status.model_copy(update={"action": key.name})
        return [
            _set(world, me, status, verdict),
            CreateObject(key=key, owner=names.owner(me), spec=spec),
        ]
    if _has_failed(action):
        return [*_again(me, action), _set(world, me, me.status, _failed(me, action))]
    is_done = action.status.finished_time is not None
    status = me.status.model_copy(update={"action": None if is_done else key.name})
    return [_set(world, me, status, verdict)]


def _again(me: objects.Savepoint, failed: objects.Action) -> list[Effect]:
    """Return the removal of an action that has failed, where the object was changed since."""
    is_new = me.status.observed_generation is not None and (
        me.status.observed_generation < me.generation
    )
    return [RemoveObject(key=failed.key, uid=failed.uid)] if is_new else []


def _has_expired(me: objects.Savepoint, commit: str, seen: facts.TableFacts, clock_ms: int) -> bool:
    """Return whether the savepoint in the table is older than it is to be."""
    if me.spec.expire_after is None:
        return False
    for each in seen.savepoints:
        if each.requested_time == commit:
            age_ms = timelines.age_ms(seen, each.completion_time, clock_ms)
            return age_ms is not None and age_ms > fields.duration_ms(me.spec.expire_after)
    return False


def _is_gone(world: World, table: objects.Table, commit: str) -> bool:
    """Return whether the timeline shows that the savepoint of a commit was deleted.

    Its creation has ended only once the timeline was read after the run: what was read of the table
    since a status names the commit is never from before.
    """
    seen = world.seen.tables.get(table.uid)
    if seen is None or seen.problem is not None or seen.config is None:
        return False
    return all(each.requested_time != commit for each in seen.savepoints)


def withdrawal(world: World, table: objects.Table, action: objects.Action) -> str | None:
    """Return why the deletion that an object needed must not start any more; None where it may."""
    owner, how = action.owner, action.spec.delete_savepoints
    if owner is None or owner.kind != kinds.SAVEPOINT.name or how is None:
        return None
    for commit in how.commits or ():
        if _is_gone(world, table, commit):
            return f"the table has no savepoint of commit {commit} any more"
        other = _sharing(world, table, owner.uid, commit)
        if other is not None:
            return f"Savepoint {other.name} keeps commit {commit} too"
    return None


def _sharing(world: World, table: objects.Table, uid: str, commit: str) -> objects.Savepoint | None:
    """Return another object that keeps the savepoint of a commit, or may be about to.

    Args:
        world: Everything.
        table: The table.
        uid: Of the one object.
        commit: Which is kept.
    """
    for other in world.savepoints_of(table):
        if other.uid == uid or other.is_deleting or other.status.expired:
            continue
        creation = world.action(_action_key(other, table, _CREATION))
        made = None if creation is None else creation.status.instant
        if commit in (other.status.commit or made, other.spec.commit):
            return other
    return None


def _has_failed(action: objects.Action) -> bool:
    is_cancelled = action.status.state == State.CANCELLED.value
    return is_cancelled or action.status.is_true(Type.STALLED)


def _spec(
    me: objects.Savepoint, action_type: table_action.ActionType
) -> table_action.TableActionSpec:
    return table_action.TableActionSpec(
        table_ref=me.spec.table_ref, type=action_type, retry=me.spec.retry
    )


def _action_key(
    me: objects.Savepoint, table: objects.Table, action_type: table_action.ActionType
) -> objects.ObjectKey:
    name = names.action(table, action_type, me.uid[:8].lower())
    return objects.ObjectKey(kind=kinds.TABLE_ACTION.name, namespace=me.key.namespace, name=name)


def _saved(me: objects.Savepoint, commit: str | None = None) -> Verdict:
    message = f"the files of commit {commit or me.status.commit} are kept"
    return Verdict(state=State.SAVED, reason=Reason.SAVED, message=message)


def _lost(me: objects.Savepoint) -> Verdict:
    return stalled(
        me,
        Reason.SAVEPOINT_DELETED,
        f"the timeline has no savepoint of commit {me.status.commit} any more: a policy's expiry, "
        "or something other than this object, has deleted it. It is not created again; to keep a "
        "commit, declare another Savepoint",
    )


def _expired(me: objects.Savepoint) -> Verdict:
    message = f"older than {me.spec.expire_after} by the newest commit: deleted from the table"
    return Verdict(state=State.EXPIRED, reason=Reason.EXPIRED, message=message)


def _at_work(message: str) -> Verdict:
    return Verdict(state=State.PROVISIONING, reason=Reason.ACTION_AT_WORK, message=message)


def _deleting(message: str) -> Verdict:
    return Verdict(state=State.DELETING, reason=Reason.DELETING, message=message)


def _failed(me: objects.Savepoint, action: objects.Action) -> Verdict:
    ready = action.status.condition(Type.READY)
    told = f"{ready.reason}: {ready.message}" if ready else ""
    if me.is_deleting:
        hint = "; to delete only the object, set deletionPolicy Retain"
        return stalled(me, Reason.ACTION_FAILED, f"TableAction {action.name}: {told}{hint}")
    return stalled(me, Reason.ACTION_FAILED, f"TableAction {action.name}: {told}")


def _set(
    world: World, me: objects.Savepoint, status: savepoint.SavepointStatus, verdict: Verdict
) -> SetStatus:
    return SetStatus(key=me.key, uid=me.uid, status=stated(status, me, verdict, world.now(me)))
