"""Whether a run may start now: the interlocks between the runs of one table, as one function.

    R1   a service runs by the operator only if the table says that the operator owns it
    R2   nothing runs without a ready table, which includes its lock (in `gates`); under
         SingleWriter nothing runs beside a writer
    R12  nothing runs beside a run that was started under another protocol hash
    R4   one action per instant, one plan at a time
    R9   a SingleWriter table has one Writer; a second one is refused, not made to wait
    R14  of two HudiTables with one location the younger is refused (in `hudi_tables`)

What is refused needs a user; what waits does not. R1 and R4 are asked where the answer is needed:
in `table_services` and `table_actions`. A table has one effective configuration, whose hash
every run carries and a fence checks as well, and `states` limits every wait (R15).
"""

from collections.abc import Collection, Iterator

from hoodie.model import commits
from hoodie.write import compatibility
from hoodie_operator.api import objects, table_action
from hoodie_operator.api.conditions import Type
from hoodie_operator.api.reasons import Reason
from hoodie_operator.api.states import State
from hoodie_operator.reconcile import effective, facts
from hoodie_operator.reconcile.verdicts import Verdict, stalled
from hoodie_operator.reconcile.world import World


def check_alone(
    world: World, table: objects.Table, wanted: effective.EffectiveTable, me: objects.AnyObject
) -> Verdict | None:
    """Return why a run has to wait for others of its table (R2, R12).

    Where one run at a time is taken, for any; else for those that began before lock, concurrency
    or anything else that all runs agree on was changed: they would not exclude each other.
    """
    for run, who in others_at_work(world, table, me):
        if not table.spec.takes_many_writers:
            why = f"a {table.spec.concurrency.mode.value} table allows one run at a time"
        elif not wanted.agrees_with(run.protocol_hash):
            why = f"the shared settings of HudiTable {table.name} have changed since it started"
        else:
            continue
        return Verdict(state=State.BLOCKED, reason=Reason.TABLE_BUSY, message=f"{who}, and {why}")
    return None


def others_at_work(
    world: World, table: objects.Table, me: objects.AnyObject
) -> Iterator[tuple[facts.Run, str]]:
    """Yield the runs at work on a table that are not of an object, and who they are."""
    for other in (table, *world.writers_of(table), *world.actions_of(table)):
        if other.uid != me.uid:
            for run in world.runs(other):
                if run.is_running:
                    yield run, f"{other.key} has an active run"
    for run in world.ownerless_runs(table):
        process = run.process or run.id
        yield run, f"{process} still runs for {run.id.kind} {run.id.name}, which no longer exists"


def other_at_work(
    world: World,
    table: objects.Table,
    me: objects.Action,
    types: Collection[table_action.ActionType],
) -> objects.Action | None:
    """Return another TableAction of some types with a run at work on a table; None for none."""
    for other in world.actions_of(table):
        is_such = other.uid != me.uid and other.spec.type in types
        if is_such and world.has_run_at_work(other):
            return other
    return None


def untold_creation(world: World, table: objects.Table) -> objects.Action | None:
    """Return a CreateSavepoint that was tried and has no result yet; None for none."""
    for action in world.actions_of(table):
        if action.spec.type is table_action.ActionType.CREATE_SAVEPOINT and is_untold(action):
            return action
    return None


def is_untold(action: objects.Action) -> bool:
    """Return whether an action was tried and has no result yet."""
    tried = action.status.runs is not None and action.status.runs.attempts > 0
    has_ended = action.status.finished_time is not None or action.status.is_true(Type.STALLED)
    return tried and not has_ended


def is_run_by_other_process(world: World, table: objects.Table, pending: facts.Pending) -> bool:
    """Return whether a process that we do not know works on a pending instant.

    A fresh heartbeat proves nothing once the run that it belonged to is known to have ended.
    """
    if not pending.is_alive:
        return False
    owners = [each for each in world.actions_of(table) if each.name == pending.action_id]
    return not owners


def check_writer(
    world: World, table: objects.Table, wanted: effective.EffectiveTable, me: objects.Writer
) -> Verdict | None:
    """Return why a Writer is refused on its table, or beside the older Writers; None if not."""
    operation = commits.Operation[me.spec.operation.name]
    if operation.replaces and table.spec.is_non_blocking:
        return stalled(
            me,
            Reason.OPERATION_NOT_ALLOWED,
            f"{me.spec.operation.value} replaces what other writers of HudiTable {table.name} "
            f"write meanwhile in mode {table.spec.concurrency.mode.value}, expected a table of "
            "mode SingleWriter or Optimistic",
        )
    if not operation.adds_rows and not wanted.config.record_key_fields:
        return stalled(
            me,
            Reason.OPERATION_NOT_ALLOWED,
            f"HudiTable {table.name} has no record key, by which {me.spec.operation.value} finds "
            "rows, expected Insert, BulkInsert, InsertOverwrite or InsertOverwriteTable",
        )
    for other in world.writers_of(table):
        if other.uid == me.uid:
            # The rest is younger: it is they who are refused.
            return None
        if other.is_deleting:
            continue
        verdict = _beside(world, table, wanted, me, other)
        if verdict is not None:
            return verdict
    return None


def _beside(
    world: World,
    table: objects.Table,
    wanted: effective.EffectiveTable,
    me: objects.Writer,
    other: objects.Writer,
) -> Verdict | None:
    """Return why a Writer is refused beside one older Writer."""
    if effective.writer_id(other) == effective.writer_id(me):
        return stalled(
            me,
            Reason.DUPLICATE_WRITER_ID,
            f"Writer {other.name} of HudiTable {table.name} has the id "
            f"{effective.writer_id(me)!r} too, expected one of its own",
        )
    if not table.spec.takes_many_writers:
        return stalled(
            me,
            Reason.SECOND_WRITER,
            f"HudiTable {table.name} is {table.spec.concurrency.mode.value} and has Writer "
            f"{other.name}, expected no other",
        )
    # Optimistic writers find out when they complete where they overlap.
    if not table.spec.is_non_blocking or table.spec.concurrency.acknowledge_order_dependence:
        return None
    return _sharing(world, table, wanted, me, other)


def _sharing(
    world: World,
    table: objects.Table,
    wanted: effective.EffectiveTable,
    me: objects.Writer,
    other: objects.Writer,
) -> Verdict | None:
    """Return why what two Writers make of one row would be chance."""
    for writer in (me, other):
        seen = source_of(world, writer)
        if seen is None and columns_of(world, writer) is None:
            return Verdict(
                state=State.PENDING,
                reason=Reason.NOT_OBSERVED,
                message=f"the source of Writer {writer.name} was not read yet, to compare columns",
            )
        if seen is not None and seen.problem is not None:
            return None
    why = compatibility.order_dependence(
        wanted.config, _stream(world, me, wanted), _stream(world, other, wanted)
    )
    if why is None:
        return None
    return stalled(
        me,
        Reason.SHARED_COLUMNS,
        f"beside Writer {other.name} the content of HudiTable {table.name} would depend on when "
        f"compaction runs: {why}",
    )


def source_of(world: World, writer: objects.Writer) -> facts.SourceFacts | None:
    """Return what is known of a Writer's source as it is declared now."""
    seen = world.seen.sources.get(writer.uid)
    return seen if seen is not None and seen.generation == writer.generation else None


def columns_of(world: World, writer: objects.Writer) -> frozenset[str] | None:
    """Return the table's columns that a Writer writes; None when nobody knows."""
    declared = writer.spec.source.files.columns
    if declared is not None:
        return frozenset(declared)
    seen = source_of(world, writer)
    if seen is None or seen.columns is None:
        return None
    return frozenset(seen.columns)


def _stream(
    world: World, writer: objects.Writer, wanted: effective.EffectiveTable
) -> compatibility.Stream:
    columns = columns_of(world, writer)
    operation = commits.Operation[writer.spec.operation.name]
    return compatibility.Stream(
        writer_id=effective.writer_id(writer),
        columns=None if columns is None else tuple(sorted(columns)),
        is_order_dependent_delete=compatibility.is_order_dependent_delete(
            wanted.config, operation, columns or ()
        ),
    )
