"""Write batches of input files, one commit each: `python -m hoodie_jobs.write SPEC.json`.

    open the table -> for each batch not yet committed: read, begin, write, pace, commit

A batch's id stands in its commit, so a run that was killed at any moment is simply run again: what
the timeline holds is skipped, and what a dead attempt left open stays invisible.
"""

import logging
import sys
from contextlib import closing

from hoodie import errors, table
from hoodie.contract import batch_settings, input_sources, job_specs
from hoodie.model import commits, compaction_options, results, schemas
from hoodie.sources import local_files
from hoodie.write import retries, sessions
from hoodie_jobs import files, opening, program, runtimes
from hoodie_jobs.run import Run

logger = logging.getLogger(__name__)


def perform(run: Run) -> None:
    """Write the batches that the timeline does not hold yet, in their order.

    Raises:
        HoodieError: A batch failed; those before it are committed.
    """
    work = run.spec.work
    assert isinstance(work, job_specs.WriteBatches)
    assert run.spec.writer_id is not None
    run.tell("opening the table")
    opened = opening.open_table(run.spec)
    committed = opened.committed_batches(run.spec.writer_id)
    pending = [batch for batch in work.batches if batch.id not in committed]
    for batch in pending:
        opening.check_files(run.spec, batch.files)
    run.add(skipped_count=len(work.batches) - len(pending))
    if not pending:
        return
    run.tell(f"starting {run.spec.engine.kind.value}", _done(run), len(work.batches))
    with closing(runtimes.open_runtime(run.spec.engine, run.cancellation)) as runtime:
        settings = work.settings
        for batch in pending:
            run.cancellation.check()
            settings = _current_settings(run, settings)
            run.tell(f"writing batch {batch.id}", _done(run), len(work.batches))
            write_batch(run, batch, settings, opened, runtime)
    run.tell("done", _done(run), len(work.batches))


def _current_settings(
    run: Run, before: batch_settings.BatchSettings
) -> batch_settings.BatchSettings:
    """Return the settings of the next batch; those of the last one where none can be read."""
    path = run.spec.batch_settings_path
    if path is None:
        return before
    try:
        found = batch_settings.decode(files.read(path), path)
    except errors.NotFoundError:
        return before
    except errors.HoodieError as error:
        logger.warning("%s: batch settings stay as they were: %s", run.spec.table_uri, error)
        return before
    if found != before:
        logger.info("%s: took up batch settings %s", run.spec.table_uri, found.hash)
    return found


def write_batch(
    run: Run,
    batch: input_sources.Batch,
    settings: batch_settings.BatchSettings,
    opened: table.Table,
    runtime: runtimes.Runtime,
) -> None:
    """Write one batch and commit it, unless the timeline holds it already.

    One that lost a conflict is written again, as often as the settings say.

    Raises:
        WriteConflictError: It lost each time.
        HoodieError: Nothing of the batch is visible.
    """
    work = run.spec.work
    assert isinstance(work, job_specs.WriteBatches)
    start_s = run.clock.monotonic_s()
    # Before the write begins: what does not fit leaves no trace on the timeline.
    schema = opened.schema
    if run.spec.settings.adds_columns:
        schema = local_files.grown(batch.files, work.source, schema)
    target = runtimes.Target(
        config=opened.config,
        schema=schema,
        operation=work.operation,
        fills_columns=run.spec.settings.adds_columns,
    )
    data = runtime.read(batch.files, work.source, target)
    read_s = run.clock.monotonic_s()
    run.add(read_ms=_ms(read_s - start_s))
    carried = {commits.BATCH_SETTINGS_KEY: settings.hash} if settings.hash else {}
    options = sessions.WriteOptions(
        operation=work.operation,
        transaction=opening.transaction_of(run.spec),
        batch_id=batch.id,
        extra={**batch.extra_metadata, **carried},
        compaction=compaction_options.from_properties(settings.compaction),
        sort_by=work.sort_by,
    )
    retries.until_won(
        lambda: _write_once(run, opened, schema, runtime, data, options),
        retries.Retries(
            count_max=run.spec.settings.conflict_retries_max,
            random=opening.environment_of(run.spec).random,
            wait=run.cancellation.wait,
        ),
    )


def _write_once(
    run: Run,
    opened: table.Table,
    schema: schemas.TableSchema,
    runtime: runtimes.Runtime,
    data: runtimes.Input,
    options: sessions.WriteOptions,
) -> None:
    work = run.spec.work
    assert isinstance(work, job_specs.WriteBatches)
    session = opened.begin_write(options, data.columns, schema)
    if isinstance(session, results.AlreadyCommitted):
        run.add(skipped_count=1)
        return
    try:
        write_s = run.clock.monotonic_s()
        written = runtime.write(data, session.task)
        run.add(write_ms=_ms(run.clock.monotonic_s() - write_s))
        _pace(run, write_s, work.commit_interval_ms)
    except BaseException:
        session.abort(has_tasks_left=runtime.has_tasks_left)
        raise
    run.record(session.commit(written))


def _pace(run: Run, begun_s: float, interval_ms: int) -> None:
    """Keep the write open as long as the spec says."""
    if interval_ms:
        run.cancellation.wait(begun_s + interval_ms / 1000 - run.clock.monotonic_s())
    # The last moment to stop: from here on the commit takes effect or fails by itself.
    run.cancellation.check()


def _done(run: Run) -> int:
    return run.result.skipped_count + run.result.commit_count


def _ms(seconds: float) -> int:
    return int(seconds * 1000)


if __name__ == "__main__":
    sys.exit(program.main(sys.argv[1:], {job_specs.WriteBatches: perform}))
