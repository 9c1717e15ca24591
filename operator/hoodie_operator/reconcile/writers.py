"""What is to be done about a Writer: write every file of its source once, one run at a time.

    gates, in order: deletion, rules, table, lock, other Writers, source, columns, remaining files

What is written already is read from the commits of the table's timeline, never from a result: a run
that was killed after any commit is followed by one that begins at the next batch.
"""

from collections.abc import Sequence
from dataclasses import replace

from hoodie import errors
from hoodie.contract import input_sources, job_specs
from hoodie.model import commits, schemas
from hoodie_operator.api import fields, objects, states, writer
from hoodie_operator.api.reasons import Reason
from hoodie_operator.api.states import State
from hoodie_operator.reconcile import (
    batch_settings,
    effective,
    facts,
    gates,
    interlocks,
    runs,
    sources,
    timelines,
)
from hoodie_operator.reconcile.effects import Effect, GiveBatchSettings, RemoveObject, SetStatus
from hoodie_operator.reconcile.verdicts import Statement, Verdict, stalled, stated, unreachable
from hoodie_operator.reconcile.world import World

_FORMATS = {
    writer.FileFormat.CSV: input_sources.SourceFormat.CSV,
    writer.FileFormat.JSON: input_sources.SourceFormat.JSON,
    writer.FileFormat.PARQUET: input_sources.SourceFormat.PARQUET,
}


def decide(world: World, me: objects.Writer) -> Sequence[Effect]:
    """Return what to do about a Writer."""
    target = gates.target(world, me)
    remaining = _remaining(world, me, target.seen)
    found = _situation(world, me, target, remaining)
    status = _told(world, me, target, found)
    if found.run is not None:
        why = gates.unwanted(world, me, target, found.run)
        step = runs.stop_unwanted(found, why) if why else runs.advance(found, None)
        given = () if why else _given(me, target, found.run)
        return [*step.effects, *given, _set(world, me, target, status, step.verdict)]
    if me.is_deleting:
        return [RemoveObject(key=me.key, uid=me.uid)]
    job = _job(world, me, target, remaining)
    if isinstance(job, Verdict):
        return [_set(world, me, target, status, job)]
    step = runs.advance(found, job)
    status = status.model_copy(update={"runs": step.status})
    return [*step.effects, _set(world, me, target, status, step.verdict)]


def _given(me: objects.Writer, target: gates.Target, run: facts.Run) -> Sequence[Effect]:
    """Return what gives an attempt at work the current batch settings, unless it has them."""
    if target.table is None:
        return ()
    wanted = batch_settings.of_writer(me, target.table)
    if not batch_settings.is_outdated(run, wanted):
        return ()
    return (GiveBatchSettings(id=run.id, settings=wanted),)


def _situation(
    world: World, me: objects.Writer, target: gates.Target, remaining: Sequence[input_sources.Batch]
) -> runs.Situation:
    interval = me.spec.pacing.commit_interval
    # A commit that is kept open on purpose shows no progress meanwhile.
    open_ms = fields.duration_ms(interval) if interval else 0
    deadlines = runs.deadlines(world, fields.duration_ms(me.spec.progress_deadline) + open_ms)
    previous = me.status.runs
    first = remaining[0].id[:100] if remaining else ""
    basis = runs.basis(
        me,
        [str(me.generation), target.protocol_hash or "", first],
        previous.basis if previous else None,
        is_known=target.protocol_hash is not None and bool(remaining),
    )
    return runs.situation(world, me, previous, me.spec.retry, deadlines, basis)


def _job(
    world: World,
    me: objects.Writer,
    target: gates.Target,
    remaining: tuple[input_sources.Batch, ...],
) -> runs.Job | Verdict:
    """Return what an attempt would write, or why none is to start."""
    opened = gates.enter(world, me, target)
    if isinstance(opened, Verdict):
        return opened
    refused = interlocks.check_writer(world, opened.table, opened.wanted, me) or _source_problem(
        world, me, opened
    )
    if refused is not None:
        return refused
    seen = runs.confirmed(world, me, target.seen)
    if isinstance(seen, Verdict):
        return seen
    if not remaining:
        return _done(world, me)
    busy = interlocks.check_alone(world, opened.table, opened.wanted, me)
    if busy is not None:
        return busy
    return runs.Job(
        table=_growing(opened.wanted, me),
        work=_work(me, opened.table, remaining),
        runtime=me.spec.runtime,
        run_hash=opened.run_hash(world, me),
        writer_id=effective.writer_id(me),
    )


def _growing(wanted: effective.EffectiveTable, me: objects.Writer) -> effective.EffectiveTable:
    """Return what a Writer's runs are told of their table: whether they may add columns, too."""
    adds_columns = me.spec.source.files.add_columns
    return replace(wanted, settings=replace(wanted.settings, adds_columns=adds_columns))


def _source_problem(world: World, me: objects.Writer, opened: gates.OpenTarget) -> Verdict | None:
    source = interlocks.source_of(world, me)
    if source is None:
        return Verdict(
            state=State.PENDING,
            reason=Reason.NOT_OBSERVED,
            message="the source has not been observed yet",
        )
    if source.problem is not None and source.problem.is_transient:
        return unreachable(source.problem)
    if source.problem is not None:
        reason = {
            errors.NotFoundError.kind: Reason.SOURCE_NOT_FOUND,
            errors.InvalidInputError.kind: Reason.PATH_NOT_ALLOWED,
        }.get(source.problem.kind, Reason.SOURCE_UNREADABLE)
        return stalled(me, reason, source.problem.message)
    return _column_problem(world, me, source, opened)


def _column_problem(
    world: World,
    me: objects.Writer,
    source: facts.SourceFacts,
    opened: gates.OpenTarget,
) -> Verdict | None:
    """Return what is wrong with the columns that a Writer carries, as far as it can be seen."""
    mapping = me.spec.source.files.columns
    missing = sorted(set((mapping or {}).values()) - set(source.columns or ()))
    if missing and source.columns is not None:
        return stalled(
            me,
            Reason.SCHEMA_MISMATCH,
            f"source.files.columns names {', '.join(missing)}, the files have "
            f"{', '.join(source.columns)}",
        )
    columns = interlocks.columns_of(world, me)
    config = opened.wanted.config
    assert config.create_schema is not None
    known = schemas.from_avro(config.create_schema).arrow.names
    if columns is None:
        return None
    unknown = sorted(columns - set(known))
    # Where a Writer may add columns, the table may have more than it was declared with.
    writers = world.writers_of(opened.table)
    if unknown and not any(each.spec.source.files.add_columns for each in writers):
        return stalled(
            me,
            Reason.SCHEMA_MISMATCH,
            f"column {', '.join(unknown)} of the source is not in the table, expected some of "
            f"{', '.join(known)}; source.files.columns selects and renames",
        )
    needed = (*config.record_key_fields, *config.partition_fields)
    if missing := [name for name in needed if name not in columns]:
        return stalled(
            me,
            Reason.SCHEMA_MISMATCH,
            f"the source lacks {', '.join(missing)}, expected every field of key and partition",
        )
    return None


def _remaining(
    world: World, me: objects.Writer, seen: facts.TableFacts | None
) -> tuple[input_sources.Batch, ...]:
    source = interlocks.source_of(world, me)
    if source is None or seen is None:
        return ()
    archived = seen.archived.get(effective.writer_id(me), "")
    return sources.remaining(source, _committed(me, seen), archived)


def _committed(me: objects.Writer, seen: facts.TableFacts) -> frozenset[str]:
    writer_id = effective.writer_id(me)
    held = sources.committed_tokens(timelines.commits_of(seen, writer_id))
    return held.union(seen.ledger.get(writer_id, ()))


def _work(
    me: objects.Writer, table: objects.Table, batches: tuple[input_sources.Batch, ...]
) -> job_specs.WriteBatches:
    files = me.spec.source.files
    csv = files.csv or writer.Csv()
    interval = me.spec.pacing.commit_interval
    return job_specs.WriteBatches(
        operation=commits.Operation[me.spec.operation.name],
        source=input_sources.Source(
            format=_FORMATS[files.format],
            columns=tuple(
                input_sources.ColumnMapping(name=name, source=source)
                for name, source in (files.columns or {}).items()
            ),
            has_header=csv.header,
            delimiter=csv.delimiter,
            null_text=csv.null_text,
        ),
        batches=batches,
        commit_interval_ms=fields.duration_ms(interval) if interval else 0,
        settings=batch_settings.of_writer(me, table),
        sort_by=me.spec.sort_by or (),
    )


def _done(world: World, me: objects.Writer) -> Verdict:
    source = interlocks.source_of(world, me)
    count = sum(len(group) for group in source.groups) if source else 0
    return Verdict(
        state=State.COMPLETED,
        reason=Reason.UP_TO_DATE,
        message=f"{'all ' if count > 1 else ''}{count} file{'' if count == 1 else 's'} committed",
    )


def _told(
    world: World, me: objects.Writer, target: gates.Target, found: runs.Situation
) -> writer.WriterStatus:
    seen = target.seen
    update: dict[str, object] = {"runs": found.status}
    if target.resolved is not None:
        update["protocol_hash"] = target.resolved.wanted.protocol_hash
        update["run_hash"] = target.resolved.run_hash(world, me)
    source = interlocks.source_of(world, me)
    if source is not None and source.problem is None:
        columns = interlocks.columns_of(world, me)
        update["columns"] = tuple(sorted(columns)) if columns is not None else None
        if seen is not None and seen.problem is None:
            committed = _committed(me, seen)
            archived = seen.archived.get(effective.writer_id(me), "")
            tokens = [file.token for group in source.groups for file in group]
            written = [
                token for token in tokens if token in committed or facts.holds(archived, token)
            ]
            update["files"] = writer.Batches(total=len(tokens), committed=len(written))
    if seen is not None:
        mine = list(timelines.commits_of(seen, effective.writer_id(me)))
        if mine:
            update["last_commit"] = writer.LastCommit(
                instant=mine[-1].requested_time,
                completion_time=mine[-1].completion_time,
                batch_settings_hash=seen.batch_settings.get(effective.writer_id(me)),
            )
    if target.table is not None:
        update["batch_settings_hash"] = batch_settings.of_writer(me, target.table).hash
    return me.status.model_copy(update=update)


def _set(
    world: World,
    me: objects.Writer,
    target: gates.Target,
    status: writer.WriterStatus,
    verdict: Verdict,
) -> SetStatus:
    assert verdict.state in states.WRITER, verdict
    statements = _pending_settings(world, me, target, status)
    status = stated(status, me, verdict, world.now(me), statements)
    return SetStatus(key=me.key, uid=me.uid, status=status)


def _pending_settings(
    world: World, me: objects.Writer, target: gates.Target, status: writer.WriterStatus
) -> Sequence[Statement]:
    if target.table is None or status.last_commit is None:
        return ()
    wanted = batch_settings.of_writer(me, target.table)
    run = next((run for run in world.runs(me) if run.is_running), None)
    return batch_settings.pending(run, wanted, status.last_commit.batch_settings_hash)
