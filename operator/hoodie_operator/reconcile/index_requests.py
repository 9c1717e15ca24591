"""What is done about an IndexRequest: the table gets the indexes, or loses them.

    facts: missing -> planned -> building -> ready     TableActions: IndexBuild, IndexDrop

Each step is a TableAction that the object owns; which one is due follows from the table's timeline
and properties alone, so that a restart of the operator changes nothing. An index that another
process has built is there; one that was dropped later is built again. Writers are neither stopped
nor restarted: what they complete is in the index by the properties that there are by then.

What is not complete when the object goes is given up, whatever its deletion policy: no partition
stays half built. An index that another object wants stays.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hoodie.metadata import index_decisions
from hoodie.services import spark_options
from hoodie_operator.api import index_request, kinds, objects, table_action, table_indexes
from hoodie_operator.api.conditions import ConditionStatus, Type
from hoodie_operator.api.index_request import IndexState
from hoodie_operator.api.reasons import Reason
from hoodie_operator.api.states import State
from hoodie_operator.reconcile import facts, indexes, names, references, runs, table_services
from hoodie_operator.reconcile.effects import CreateObject, Effect, RemoveObject, SetStatus
from hoodie_operator.reconcile.verdicts import (
    Statement,
    Verdict,
    broken_rule,
    stalled,
    stated,
    unreachable,
)
from hoodie_operator.reconcile.world import World

_BUILD = table_action.ActionType.INDEX_BUILD
_DROP = table_action.ActionType.INDEX_DROP
_PROGRESS_LENGTH_MAX = 1000


def decide(world: World, me: objects.IndexRequest) -> Sequence[Effect]:
    """Return what to do about an IndexRequest."""
    table = world.table(me.key.namespace, me.spec.table_ref.name)
    if me.is_deleting:
        return _let_go(world, me, table)
    closed = _closed(world, me, table)
    if table is None or closed is not None:
        assert closed is not None, "a table that is missing has a verdict"
        return [_set(world, me, closed)]
    seen = _fresh(world, me, table)
    if seen is None or seen.config is None:
        return _unseen(world, me, table)
    me = _seen(me, seen)
    is_wanted = me.spec.ensure is index_request.Ensure.PRESENT
    opposite = world.action(_action_key(me, table, _DROP if is_wanted else _BUILD))
    if opposite is not None and not _has_ended(world, opposite):
        return [_set(world, me, _waiting(me, opposite))]
    return (_have if is_wanted else _have_none)(world, me, table, seen)


def _closed(world: World, me: objects.IndexRequest, table: objects.Table | None) -> Verdict | None:
    """Return why nothing is done, whatever the table's timeline shows."""
    broken = broken_rule(me)
    if broken is not None:
        return broken
    if table is None:
        return references.missing(world, me, kinds.HUDI_TABLE, me.spec.table_ref.name)
    if me.spec.suspend:
        return Verdict(state=State.SUSPENDED, reason=Reason.SUSPENDED, message="no run starts")
    rival = _rival(world, table, me)
    if rival is None:
        return None
    wants = _opposition(me, rival)
    return stalled(me, Reason.REQUEST_CONFLICT, f"IndexRequest {rival.name} is older and {wants}")


def withdrawal(world: World, table: objects.Table, action: objects.Action) -> str | None:
    """Return why what an object needed must not go on any more; None where it may."""
    owner = action.owner
    is_owned = owner is not None and owner.kind == kinds.INDEX_REQUEST.name
    if owner is None or not is_owned or action.spec.type not in (_BUILD, _DROP):
        return None
    for me in world.index_requests_of(table):
        if me.uid != owner.uid:
            continue
        return _withdrawal_of(world, table, me, action)
    return None


def _withdrawal_of(
    world: World, table: objects.Table, me: objects.IndexRequest, action: objects.Action
) -> str | None:
    how = action.spec.index_drop
    if me.is_deleting and how is None:
        return f"{me.key} is deleted"
    if me.is_deleting and how is not None:
        wanted = set(how.indexes) & _wanted_by_others(world, table, me)
        return f"another IndexRequest needs {', '.join(sorted(wanted))}" if wanted else None
    if me.spec.suspend:
        return f"{me.key} is suspended"
    if me.spec.ensure is (
        index_request.Ensure.ABSENT if how is None else index_request.Ensure.PRESENT
    ):
        return f"{me.key} has ensure {me.spec.ensure.value}"
    if how is None and _asks_for_others(me, action):
        return f"{me.key} has other statisticsColumns"
    rival = _rival(world, table, me)
    return None if rival is None else f"{rival.key} {_opposition(me, rival)}"


def _asks_for_others(me: objects.IndexRequest, build: objects.Action) -> bool:
    """Return whether a build is not of the columns that an object asks for by now."""
    how = build.spec.index_build
    return how is not None and not _request(me).takes_statistics_of(how.statistics_columns)


def _request(me: objects.IndexRequest) -> index_decisions.Request:
    return index_decisions.Request(
        me.spec.indexes,
        me.spec.statistics_columns,
        secondary=me.spec.columns or {},
        is_partitioned=me.spec.partitioned,
    )


def _have(
    world: World, me: objects.IndexRequest, table: objects.Table, seen: facts.TableFacts
) -> Sequence[Effect]:
    """Have the indexes built, and compared with the table."""
    assert seen.config is not None, "it was looked at before"
    me = _compared(world, me, table)
    request = _request(me)
    other_kind = indexes.kind_refusal(me, seen, request)
    is_complete = (
        not _states_other_than(me, IndexState.READY)
        and indexes.has_columns(seen, request)
        and other_kind is None
    )
    refused = indexes.build_refusal(me, table, seen, request)
    # What is there in a table in which nothing can be built is not compared.
    if is_complete and (_is_validated(me) or refused is not None):
        if seen.metadata is not None and seen.metadata.problem:
            message = f"readers cannot use the metadata table: {seen.metadata.problem}"
            return [_set(world, me, stalled(me, Reason.BEHIND_OR_DAMAGED, message))]
        statements = (*_external_writers(me, seen), *_behind(me, seen))
        return [_set(world, _without_action(me), _ready(me, refused), statements)]
    if not seen.config.metadata_partitions and table.spec.metadata.enabled:
        verdict = Verdict(
            state=State.PENDING,
            reason=Reason.TABLE_NOT_READY,
            message=f"HudiTable {table.name} has no metadata table yet",
        )
        return [_set(world, me, verdict)]
    parameters = table_action.IndexBuildParameters(
        indexes=me.spec.indexes,
        partitioned=me.spec.partitioned,
        columns=me.spec.columns,
        statistics_columns=me.spec.statistics_columns,
        validation=me.spec.validation,
    )
    spec = _spec(me, _BUILD).model_copy(update={"index_build": parameters})
    return _act(world, me, table, spec, refused, _external_writers(me, seen))


def _have_none(
    world: World, me: objects.IndexRequest, table: objects.Table, seen: facts.TableFacts
) -> Sequence[Effect]:
    """Have the indexes dropped."""
    if not _states_other_than(me, IndexState.MISSING):
        message = f"the table does not have {', '.join(me.spec.indexes)}"
        absent = Verdict(state=State.ABSENT, reason=Reason.READY, message=message)
        return [_set(world, _without_action(me), absent)]
    return _drop(world, me, table, seen, me.spec.indexes)


def _drop(
    world: World,
    me: objects.IndexRequest,
    table: objects.Table,
    seen: facts.TableFacts,
    doomed: Sequence[str],
) -> Sequence[Effect]:
    assert seen.config is not None, "it was looked at before"
    parameters = table_action.IndexDropParameters(indexes=tuple(doomed))
    spec = _spec(me, _DROP).model_copy(update={"index_drop": parameters})
    return _act(world, me, table, spec, indexes.drop_refusal(me, seen.config, doomed))


def _act(
    world: World,
    me: objects.IndexRequest,
    table: objects.Table,
    spec: table_action.TableActionSpec,
    refused: Verdict | None,
    statements: Sequence[Statement] = (),
) -> Sequence[Effect]:
    """Have a TableAction do what is missing, unless it is refused; say how far it is.

    Args:
        world: Everything.
        me: The object.
        table: Its table.
        spec: Of the action.
        refused: Why none is made; None where one may be.
        statements: Made beside that one is at work.
    """
    key = _action_key(me, table, spec.type)
    action = world.action(key)
    if action is not None and not _has_ended(world, action):
        return [_set(*_following(world, me, action), statements)]
    me = _without_action(me)
    if action is not None and not _has_failed(action):
        # Something else has undone what it did, or it was withdrawn.
        again = _at_work(me, spec.type, f"TableAction {key.name} is made again")
        return [RemoveObject(key=key, uid=action.uid), _set(world, me, again)]
    if refused is not None:
        return [_set(world, me, refused)]
    if action is not None:
        return [*_again(me, action), _set(world, me, _failed(me, action))]
    closed = references.check_ready(table, me)
    if closed is not None:
        return [_set(world, me, closed)]
    status = me.status.model_copy(update={"action": key.name})
    verdict = _at_work(me, spec.type, f"TableAction {key.name} is active")
    made = CreateObject(key=key, owner=names.owner(me), spec=spec)
    return [_set(world, replace(me, status=status), verdict, statements), made]


def _following(
    world: World, me: objects.IndexRequest, action: objects.Action
) -> tuple[World, objects.IndexRequest, Verdict]:
    """Return what is told of an object whose action has not ended."""
    message = f"TableAction {action.name}: {table_services.ready_message(action)}"
    status = me.status.model_copy(update={"action": action.name, "progress": _progress(action)})
    return world, replace(me, status=status), _at_work(me, action.spec.type, message)


def _let_go(
    world: World, me: objects.IndexRequest, table: objects.Table | None
) -> Sequence[Effect]:
    """Have dropped what goes with the object, and given up what is not complete."""
    gone = [RemoveObject(key=me.key, uid=me.uid)]
    if table is None or table.is_deleting or world.is_namespace_ending(me):
        return gone
    build = world.action(_action_key(me, table, _BUILD))
    if build is not None and world.has_run_at_work(build):
        return [_set(world, me, _waiting(me, build))]
    seen = _fresh(world, me, table)
    if seen is not None and seen.config is None:
        return gone
    if seen is None:
        has_begun = build is not None or me.status.is_unfinished
        if not has_begun and me.spec.deletion_policy is index_request.DeletionPolicy.RETAIN:
            return gone
        verdict = _at_work(me, _DROP, f"waiting for HudiTable {table.name} to be read")
        return [_set(world, me, verdict)]
    return _undo(world, me, table, seen)


def _undo(
    world: World, me: objects.IndexRequest, table: objects.Table, seen: facts.TableFacts
) -> Sequence[Effect]:
    """Have dropped what is there and is to go; then the object goes."""
    me = _seen(me, seen)
    doomed = _doomed(world, me, table, seen)
    drop = world.action(_action_key(me, table, _DROP))
    if drop is not None and not (doomed and _is_drop_of(drop, doomed)):
        # Of an earlier time, or of more than is to go now.
        if not _has_ended(world, drop):
            return [_set(world, me, _waiting(me, drop))]
        return [RemoveObject(key=drop.key, uid=drop.uid)]
    if doomed:
        return _drop(world, me, table, seen, doomed)
    return [RemoveObject(key=me.key, uid=me.uid)]


def _doomed(
    world: World, me: objects.IndexRequest, table: objects.Table, seen: facts.TableFacts
) -> tuple[str, ...]:
    """Return the indexes that go with the object: by its policy, or because they are unfinished."""
    is_dropping = (
        me.spec.deletion_policy is index_request.DeletionPolicy.DROP
        and me.spec.ensure is index_request.Ensure.PRESENT
    )
    if is_dropping:
        there = set(_states_other_than(me, IndexState.MISSING))
    else:
        mine = _action_key(me, table, _BUILD).name
        there = {
            name
            for each in indexes.pending_builds(seen)
            if each.action_id == mine
            for name in each.indexes
        }
    there -= _wanted_by_others(world, table, me)
    return tuple(name for name in me.spec.indexes if name in there)


def _is_drop_of(action: objects.Action, doomed: Sequence[str]) -> bool:
    how = action.spec.index_drop
    return how is not None and set(how.indexes) == set(doomed)


def _wanted_by_others(world: World, table: objects.Table, me: objects.IndexRequest) -> set[str]:
    """Return the indexes that other objects want the table to have."""
    return {
        name
        for other in world.index_requests_of(table)
        if other.uid != me.uid
        and not other.is_deleting
        and other.spec.ensure is index_request.Ensure.PRESENT
        for name in other.spec.indexes
    }


def _rival(
    world: World, table: objects.Table, me: objects.IndexRequest
) -> objects.IndexRequest | None:
    """Return the oldest object that wants what excludes what this one wants, if it is older.

    One that has an older rival itself is refused, and stands in no way.
    """
    standing: list[objects.IndexRequest] = []
    for other in world.index_requests_of(table):
        rivals = (each for each in standing if _opposition(other, each) is not None)
        if other.uid == me.uid:
            return next(rivals, None)
        if not other.is_deleting and next(rivals, None) is None:
            standing.append(other)
    return None


def _opposition(me: objects.IndexRequest, other: objects.IndexRequest) -> str | None:
    """Return what another object wants that excludes what one wants; None if both can be had."""
    shared = _shared(me, other)
    if other.spec.ensure is not me.spec.ensure:
        wants = f"has ensure {other.spec.ensure.value} for {', '.join(shared)}"
        return wants if shared else None
    theirs = other.spec.statistics_columns
    is_wanted = me.spec.ensure is index_request.Ensure.PRESENT
    if not is_wanted or theirs is None or _request(me).takes_statistics_of(theirs):
        return None
    return f"has the statisticsColumns {', '.join(theirs)}"


def _shared(me: objects.IndexRequest, other: objects.IndexRequest) -> list[str]:
    return [name for name in me.spec.indexes if name in other.spec.indexes]


def _fresh(world: World, me: objects.IndexRequest, table: objects.Table) -> facts.TableFacts | None:
    """Return what the storage told after the last run of the object's actions; None before."""
    seen = world.seen.tables.get(table.uid)
    if seen is None or seen.problem is not None:
        return None
    for action_type in (_BUILD, _DROP):
        action = world.action(_action_key(me, table, action_type))
        if action is not None and isinstance(runs.confirmed(world, action, seen), Verdict):
            return None
    return seen


def _seen(me: objects.IndexRequest, seen: facts.TableFacts) -> objects.IndexRequest:
    """Return the object with where its indexes are."""
    states = indexes.states(seen, me.spec.indexes)
    ready = sum(state is IndexState.READY for state in states.values())
    instant = next(
        (
            each.requested_time
            for each in indexes.pending_builds(seen)
            if not set(each.indexes).isdisjoint(me.spec.indexes)
        ),
        None,
    )
    update: dict[str, object] = {
        "indexes": tuple(
            index_request.IndexStatus(name=name, state=state) for name, state in states.items()
        ),
        "built": f"{ready}/{len(states)}",
        "instant": instant,
    }
    if ready < len(states) or not indexes.has_columns(seen, _request(me)):
        update["validated"] = None
    return replace(me, status=me.status.model_copy(update=update))


def _compared(world: World, me: objects.IndexRequest, table: objects.Table) -> objects.IndexRequest:
    """Return the object with how its indexes were compared by the build that has ended well."""
    build = world.action(_action_key(me, table, _BUILD))
    if build is None or build.spec.index_build is None or _states_other_than(me, IndexState.READY):
        return me
    if build.status.state != State.SUCCEEDED.value:
        return me
    status = me.status.model_copy(update={"validated": build.spec.index_build.validation})
    return replace(me, status=status)


def _is_validated(me: objects.IndexRequest) -> bool:
    whole = table_indexes.Validation.WHOLE
    is_wanted = me.spec.validation is not table_indexes.Validation.NONE
    return not is_wanted or me.status.validated in (me.spec.validation, whole)


def _states_other_than(me: objects.IndexRequest, state: IndexState) -> list[str]:
    """Return the indexes that are elsewhere, as the status tells."""
    return [each.name for each in me.status.indexes or () if each.state is not state]


def _unseen(world: World, me: objects.IndexRequest, table: objects.Table) -> Sequence[Effect]:
    """Wait for the table to be read; what was as declared stays so until that shows otherwise."""
    is_new = me.status.observed_generation != me.generation
    if not is_new and me.status.state in (State.READY.value, State.ABSENT.value):
        return []
    for action_type in (_BUILD, _DROP):
        action = world.action(_action_key(me, table, action_type))
        if action is not None and not _has_ended(world, action):
            return [_set(*_following(world, me, action))]
    seen = world.seen.tables.get(table.uid)
    if seen is not None and seen.problem is not None:
        return [_set(world, me, unreachable(seen.problem))]
    closed = references.check_ready(table, me)
    if closed is not None:
        return [_set(world, me, closed)]
    verdict = Verdict(
        state=State.PENDING,
        reason=Reason.NOT_OBSERVED,
        message=f"waiting for the timeline of HudiTable {table.name} to be read",
    )
    return [_set(world, me, verdict)]


def _external_writers(me: objects.IndexRequest, seen: facts.TableFacts) -> Sequence[Statement]:
    """Return what writers of other engines need to keep the indexes up, where there may be some."""
    if seen.config is None or not seen.config.has_foreign_writers:
        return ()
    options = _options(me)
    told = ", ".join(f"{key}={value}" for key, value in options.items())
    statement = Statement(
        type=Type.EXTERNAL_WRITERS,
        status=ConditionStatus.TRUE,
        reason=Reason.OPTIONS_NEEDED.value,
        message=f"other engines may write the table: each of their writers needs {told}; without "
        "them it drops an index or leaves it behind",
    )
    return (statement,)


def _options(me: objects.IndexRequest) -> Mapping[str, str]:
    return spark_options.options_of_indexes(
        me.spec.indexes,
        is_partitioned=me.spec.partitioned,
        statistics_columns=me.spec.statistics_columns,
    )


def _behind(me: objects.IndexRequest, seen: facts.TableFacts) -> Sequence[Statement]:
    """Return which writes of whom the indexes lack."""
    writers = {each.requested_time: each.writer_id for each in seen.commits}
    told = [
        f"{each.name} lacks {each.instant} of "
        f"{f'writer {writer}' if (writer := writers.get(each.instant)) else 'another engine'}"
        for each in (() if seen.metadata is None else seen.metadata.behind)
        if each.name in me.spec.indexes
    ]
    if not told:
        return ()
    options = _options(me)
    statement = Statement(
        type=Type.INDEX_BEHIND,
        status=ConditionStatus.TRUE,
        reason=Reason.WRITE_MISSING.value,
        message=f"{'; '.join(told)}: give the writer the options {', '.join(options)}, and "
        "declare a TableAction of type MetadataInit with metadataInit.rebuild",
    )
    return (statement,)


def _without_action(me: objects.IndexRequest) -> objects.IndexRequest:
    update = {"action": None, "progress": None}
    return replace(me, status=me.status.model_copy(update=update))


def _progress(action: objects.Action) -> str | None:
    current = None if action.status.runs is None else action.status.runs.current
    if current is None or current.phase is None:
        return None
    count = f" {current.done}/{current.total}" if current.total else ""
    return f"{current.phase}{count}"[:_PROGRESS_LENGTH_MAX]


def _has_ended(world: World, action: objects.Action) -> bool:
    return table_services.has_ended(action) and not world.has_run_at_work(action)


def _has_failed(action: objects.Action) -> bool:
    return action.spec.cancel or action.status.is_true(Type.STALLED)


def _again(me: objects.IndexRequest, failed: objects.Action) -> list[Effect]:
    """Return the removal of an action that has failed, where the object was changed since."""
    is_new = me.status.observed_generation is not None and (
        me.status.observed_generation < me.generation
    )
    return [RemoveObject(key=failed.key, uid=failed.uid)] if is_new else []


def _spec(
    me: objects.IndexRequest, action_type: table_action.ActionType
) -> table_action.TableActionSpec:
    return table_action.TableActionSpec(
        table_ref=me.spec.table_ref,
        type=action_type,
        priority=me.spec.priority,
        runtime=me.spec.runtime,
        retry=me.spec.retry,
        time_limit=me.spec.time_limit,
    )


def _action_key(
    me: objects.IndexRequest, table: objects.Table, action_type: table_action.ActionType
) -> objects.ObjectKey:
    name = names.action(table, action_type, me.uid[:8].lower())
    return objects.ObjectKey(kind=kinds.TABLE_ACTION.name, namespace=me.key.namespace, name=name)


def _ready(me: objects.IndexRequest, refused: Verdict | None) -> Verdict:
    message = f"readers use {', '.join(me.spec.indexes)}"
    if not _is_validated(me) and refused is not None:
        message += f"; not compared with the table: {refused.message}"
    return Verdict(state=State.READY, reason=Reason.READY, message=message)


def _at_work(
    me: objects.IndexRequest, action_type: table_action.ActionType, message: str
) -> Verdict:
    if me.is_deleting:
        return Verdict(state=State.DELETING, reason=Reason.DELETING, message=message)
    state = State.BUILDING if action_type is _BUILD else State.DROPPING
    return Verdict(state=state, reason=Reason.ACTION_AT_WORK, message=message)


def _waiting(me: objects.IndexRequest, action: objects.Action) -> Verdict:
    return _at_work(me, action.spec.type, f"waiting for the end of TableAction {action.name}")


def _failed(me: objects.IndexRequest, action: objects.Action) -> Verdict:
    message = f"TableAction {action.name}: {table_services.ready_message(action)}"
    return stalled(me, Reason.ACTION_FAILED, message)


def _set(
    world: World,
    me: objects.IndexRequest,
    verdict: Verdict,
    statements: Sequence[Statement] = (),
) -> SetStatus:
    """Return the status; of an object that is going with what would let it go at once."""
    if me.is_deleting and verdict.state is State.STALLED:
        hint = "; to delete only the object, set deletionPolicy Retain"
        verdict = replace(verdict, message=f"{verdict.message}{hint}")
    return SetStatus(
        key=me.key,
        uid=me.uid,
        status=stated(me.status, me, verdict, world.now(me), statements),
    )
