"""Where the indexes of a table are, as facts show it, and what is in the way of a build or a drop.

    missing -> planned (a pending indexing action) -> building (inflight in the properties) -> ready

What is decided in the core is asked there: the same functions refuse in a run.
"""

from collections.abc import Iterator, Mapping, Sequence

from hoodie import errors
from hoodie.metadata import index_decisions
from hoodie.model import instants, plans, settings, table_config
from hoodie_operator.api import objects
from hoodie_operator.api.index_request import IndexState
from hoodie_operator.api.reasons import Reason
from hoodie_operator.api.states import State
from hoodie_operator.reconcile import effective, facts, interlocks
from hoodie_operator.reconcile.verdicts import Verdict, stalled
from hoodie_operator.reconcile.world import World


def pending_builds(seen: facts.TableFacts) -> Iterator[facts.Pending]:
    """Yield the indexing actions that are planned or being executed, the oldest first."""
    return (each for each in seen.pending if each.action == instants.Action.INDEXING.value)


def states(seen: facts.TableFacts, names: Sequence[str]) -> Mapping[str, IndexState]:
    """Return where indexes are."""
    config = seen.config
    ready = () if config is None else config.metadata_partitions
    inflight = () if config is None else config.metadata_partitions_inflight
    planned = {name for each in pending_builds(seen) for name in each.indexes}
    found = {}
    for name in names:
        if name in ready:
            found[name] = IndexState.READY
        elif name in inflight:
            found[name] = IndexState.BUILDING
        else:
            found[name] = IndexState.PLANNED if name in planned else IndexState.MISSING
    return found


def has_columns(seen: facts.TableFacts, request: index_decisions.Request) -> bool:
    """Return whether the statistics that a table has are of the columns that are asked for."""
    assert seen.config is not None, "it is not asked of a table that is not there"
    return request.takes_statistics_of(seen.config.statistics_columns)


def kind_refusal(
    me: objects.AnyObject, seen: facts.TableFacts, request: index_decisions.Request
) -> Verdict | None:
    """Return why a table that has a record index of the other kind cannot have one; else None."""
    assert seen.config is not None, "it is not asked of a table that is not there"
    if seen.metadata is None or seen.metadata.problem:
        return None  # It is not known.
    refusal = index_decisions.kind_refusal(
        request,
        seen.config,
        has_partitioned=seen.metadata.has_partitioned_record_index,
    )
    return _refused(me, refusal)


def build_refusal(
    me: objects.AnyObject,
    table: objects.Table,
    seen: facts.TableFacts,
    request: index_decisions.Request,
) -> Verdict | None:
    """Return why a table cannot have indexes as it is; None where it can.

    Args:
        me: Who asks.
        table: The table.
        seen: What its storage tells; it is there.
        request: The indexes.
    """
    config = seen.config
    assert config is not None, "it is not asked of a table that is not there"
    if not table.spec.takes_many_writers:
        return stalled(
            me,
            Reason.OPERATION_NOT_ALLOWED,
            f"an index is built beside writers, and concurrency.mode of HudiTable {table.name} is "
            f"{table.spec.concurrency.mode.value}, expected Optimistic or NonBlocking",
        )
    if not config.metadata_partitions:
        return stalled(
            me,
            Reason.INDEX_REFUSED,
            f"HudiTable {table.name} has no metadata table, which indexes are part of: set its "
            "metadata.enabled to true",
        )
    mode = settings.WriteSettings(concurrency=effective.mode_of(table.spec))
    refusal = index_decisions.asked_refusal(request, config, mode)
    return _refused(me, refusal) or kind_refusal(me, seen, request)


def drop_refusal(
    me: objects.AnyObject, config: table_config.TableConfig, names: Sequence[str]
) -> Verdict | None:
    """Return why a table cannot lose indexes as it is; None where it can."""
    return _refused(me, index_decisions.drop_refusal(names, config))


def _refused(me: objects.AnyObject, error: errors.HoodieError | None) -> Verdict | None:
    return None if error is None else stalled(me, Reason.INDEX_REFUSED, str(error))


def build_obstacle(
    world: World,
    table: objects.Table,
    seen: facts.TableFacts,
    request: index_decisions.Request,
) -> Verdict | None:
    """Return why a build has to wait for one that is pending: by another process, or of others."""
    assert seen.config is not None, "it is not asked of a table that is not there"
    builds = [
        index_decisions.Build(
            instant=instants.Instant(
                requested_time=each.requested_time,
                action=instants.Action.INDEXING,
                state=instants.State.REQUESTED,
            ),
            plan=plans.Indexing(
                partitions=tuple(
                    plans.IndexedPartition(
                        name=name,
                        through="",
                        extra={plans.IS_PARTITIONED: "true"} if each.is_partitioned else {},
                    )
                    for name in each.indexes
                )
            ),
        )
        for each in pending_builds(seen)
    ]
    try:
        index_decisions.next_step(request, seen.config, builds)
    except errors.ConflictError as error:
        return _blocked(Reason.TABLE_BUSY, str(error))
    return _executed_elsewhere(world, table, pending_builds(seen))


def drop_obstacle(
    world: World, table: objects.Table, seen: facts.TableFacts, names: Sequence[str]
) -> Verdict | None:
    """Return why a drop has to wait: a live process builds one of the indexes."""
    builds = [each for each in pending_builds(seen) if not set(names).isdisjoint(each.indexes)]
    return _executed_elsewhere(world, table, builds)


def _executed_elsewhere(
    world: World, table: objects.Table, builds: Iterator[facts.Pending] | Sequence[facts.Pending]
) -> Verdict | None:
    for each in builds:
        if interlocks.is_run_by_other_process(world, table, each):
            where = f" ({each.process})" if each.process else ""
            return _blocked(
                Reason.OWNED_ELSEWHERE,
                f"the heartbeat of indexing {each.requested_time} is alive: another process"
                f"{where} builds {', '.join(each.indexes) or 'an index'}",
            )
    return None


def _blocked(reason: Reason, message: str) -> Verdict:
    return Verdict(state=State.BLOCKED, reason=reason, message=message)
