"""What is told of a HudiTable's mirror in Iceberg, and the TableAction that brings it up to date.

    spec.mirror, commits that the mirror has not followed -> a TableAction, one for the newest

Due is the first of these commits, `interval` after it completed: a table that is written all the
time is mirrored so often. How far the mirror is its own metadata say, so that one by hand counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from hoodie_operator.api import (
    fields,
    hudi_table_status,
    kinds,
    objects,
    table_action,
    times,
)
from hoodie_operator.reconcile import facts, names, references, table_services, timelines
from hoodie_operator.reconcile.effects import CreateObject, Effect
from hoodie_operator.reconcile.world import World

_TYPE: Final = table_action.ActionType.MIRROR
_KEPT_FOR: Final = "1h"
"""How long TableActions that are done stay: there may be one a minute."""

_MESSAGE_LENGTH_MAX: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What is told of a table's mirror, and what is done about it.

    Attributes:
        status: None where there is none, and none is wanted.
        effects: A TableAction at most.
    """

    status: hudi_table_status.MirrorStatus | None
    effects: Sequence[Effect] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Remedy:
    message: str | None = None
    action: str | None = None
    effects: Sequence[Effect] = ()


def look(world: World, table: objects.Table) -> Outcome:
    """Return how far a table's mirror is, and what brings it up to date."""
    seen = world.seen.tables.get(table.uid)
    if seen is None or seen.problem is not None:
        return Outcome(status=table.status.mirror)
    mirror, is_wanted = seen.mirror, table.spec.mirror.enabled
    if seen.config is None or (mirror is None and not is_wanted):
        return Outcome(status=None)
    missing = _missing(seen)
    remedy = _remedy(world, table, seen, missing) if is_wanted and missing else _Remedy()
    since = None
    if missing:
        since = times.text(timelines.epoch_ms(seen, missing[0].completion_time))
    status = hudi_table_status.MirrorStatus(
        instant=None if mirror is None else mirror.instant,
        snapshots=None if mirror is None else mirror.snapshots,
        unmirrored_commits=len(missing),
        unmirrored_since=since,
        unmirrored_file_groups=None if mirror is None else mirror.unmirrored_groups,
        unmirrored_log_bytes=None if mirror is None else mirror.unmirrored_log_bytes,
        action=remedy.action,
        message=None if remedy.message is None else remedy.message[:_MESSAGE_LENGTH_MAX],
    )
    return Outcome(status=status, effects=remedy.effects)


def withdrawal(table: objects.Table, action: objects.Action) -> str | None:
    """Return why what was planned here must not start any more; None where it may."""
    if action.spec.type is not _TYPE or action.owner != names.owner(table):
        return None
    if not table.spec.mirror.enabled:
        return "spec.mirror.enabled of the table is false now"
    planned = None if action.spec.mirror is None else action.spec.mirror.catalog
    return None if planned == table.spec.mirror.catalog else "spec.mirror.catalog has changed"


def _missing(seen: facts.TableFacts) -> list[facts.Commit]:
    """Return the commits that the mirror has not followed, in the order of their completion."""
    mirrored = "" if seen.mirror is None else seen.mirror.completion_time
    return [each for each in seen.commits if each.completion_time > mirrored]


def _remedy(
    world: World, table: objects.Table, seen: facts.TableFacts, missing: Sequence[facts.Commit]
) -> _Remedy:
    """Return the TableAction, or why there is none now.

    Its name holds the newest commit: one that failed is followed by another after the next commit,
    or once the spec has changed.
    """
    not_ready = references.check_ready(table, table)
    if not_ready is not None:
        return _Remedy(message=not_ready.message)
    for action in world.actions_of(table):
        if action.spec.type is _TYPE and not table_services.has_ended(action):
            return _Remedy(message=f"TableAction {action.name} is active", action=action.name)
    how = table.spec.mirror
    # By whichever clock is ahead: what is mirrored early does no harm.
    now_ms = max(world.now_ms, timelines.epoch_ms(seen, missing[-1].completion_time))
    waited_ms = now_ms - timelines.epoch_ms(seen, missing[0].completion_time)
    if waited_ms < fields.duration_ms(how.interval):
        return _Remedy(message=f"due {how.interval} after the first commit")
    name = names.action(table, _TYPE, f"{missing[-1].requested_time}-g{table.generation}")
    key = objects.ObjectKey(kind=kinds.TABLE_ACTION.name, namespace=table.key.namespace, name=name)
    existing = world.action(key)
    if existing is not None:
        message = f"TableAction {name}: {table_services.ready_message(existing)}"
        return _Remedy(message=message, action=name)
    spec = table_action.TableActionSpec(
        table_ref=fields.Reference(name=table.name),
        type=_TYPE,
        mirror=table_action.MirrorParameters(
            keep_snapshots=how.keep_snapshots, catalog=how.catalog
        ),
        ttl_after_finished=_KEPT_FOR,
    )
    return _Remedy(
        message=f"TableAction {name} is active",
        action=name,
        effects=[CreateObject(key=key, owner=names.owner(table), spec=spec)],
    )
