"""`hoodie compact`: log files merged into new base files."""

import contextlib
from dataclasses import replace
from typing import Annotated

import typer

from hoodie import environment, errors, table
from hoodie.cli import command, options, output, progress, run_settings, spark_job, tables
from hoodie.cli.views import outcomes
from hoodie.contract import engine_specs, job_specs
from hoodie.model import instants
from hoodie.transaction import authors

DETAILS = """Without --schedule and --execute, a compaction is planned and run. Writers may continue
meanwhile: what they commit after the plan stays in log files.
"""
EXAMPLES = """Examples:

  hoodie compact /data/trips
  hoodie compact /data/trips --schedule
  hoodie compact /data/trips --execute 20261121093012345 --engine spark

Without options, pending compaction plans that no process executes run first, including those whose
process was killed.
"""


def compact(  # noqa: PLR0913 - a parameter an option
    uri: options.TableUri,
    *,
    is_schedule: Annotated[
        bool, typer.Option("--schedule", metavar="", help="Only plan, and print the instant.")
    ] = False,
    execute: Annotated[
        str | None, typer.Option(metavar="INSTANT", help="Only run the plan of this instant.")
    ] = None,
    engine: Annotated[
        engine_specs.EngineKind, typer.Option(help="Run in this process, or as a Spark job.")
    ] = engine_specs.EngineKind.LOCAL,
    lock: options.LockText = None,
    set_texts: options.SetTexts = None,
    as_json: options.AsJson = False,
) -> None:
    """Compact a table."""
    if is_schedule and execute is not None:
        raise typer.BadParameter("expected at most one of --schedule and --execute")
    run = run_settings.parse_for_service(set_texts, lock)
    instant = instants.checked_time(execute) if execute is not None else None
    step = _step(is_schedule=is_schedule, instant=instant)
    with progress.Display() as display:
        if engine is engine_specs.EngineKind.SPARK:
            spark_job.check_installed()
        opened = tables.open_table(uri, environment.system(), display)
        run_settings.check_facts(run.facts, opened.config)
        if engine is engine_specs.EngineKind.SPARK:
            work = job_specs.Compact(step=step, instant_time=instant)
            done = outcomes.compacted_by_job(
                opened.uri, spark_job.compact(opened.uri, work, run, display)
            )
        else:
            done = _compact_here(opened, step, instant, run, display)
        if done.instant is None:
            pending = opened.timeline().pending_compactions
            done = replace(done, pending=tuple(each.requested_time for each in pending))
    if as_json:
        output.document(done)
        return
    output.line(outcomes.compact_line(done))
    if done.pending:
        output.note("hint: run a planned compaction with --execute INSTANT")
    for finding in done.findings:
        output.note(f"note: {finding}")


def _step(*, is_schedule: bool, instant: instants.InstantTime | None) -> job_specs.CompactionStep:
    if is_schedule:
        return job_specs.CompactionStep.SCHEDULE
    if instant is not None:
        return job_specs.CompactionStep.EXECUTE
    return job_specs.CompactionStep.SCHEDULE_AND_EXECUTE


def _compact_here(
    opened: table.Table,
    step: job_specs.CompactionStep,
    instant: instants.InstantTime | None,
    run: run_settings.RunSettings,
    display: progress.Display,
) -> outcomes.CompactDocument:
    """Compact with threads of this process; tell of the newest compaction."""
    transaction = run.transaction(authors.Author())
    done = outcomes.CompactDocument(table=opened.uri, instant=None)
    if step is job_specs.CompactionStep.SCHEDULE_AND_EXECUTE:
        for left in opened.timeline().pending_compactions:
            display.phase(f"compacting, as planned at {left.requested_time}")
            # One that somebody alive executes, or has executed meanwhile, is theirs.
            with contextlib.suppress(errors.ConflictError):
                result = opened.compact(left.requested_time, transaction)
                done = outcomes.compacted(opened.uri, result)
    if instant is None:
        display.phase("planning")
        instant = opened.schedule_compaction(transaction)
    if instant is None:
        return done
    if step is job_specs.CompactionStep.SCHEDULE:
        return outcomes.CompactDocument(table=opened.uri, instant=instant)
    display.phase("compacting")
    return outcomes.compacted(opened.uri, opened.compact(instant, transaction))


COMMAND = command.Command(
    run=compact,
    details=DETAILS,
    examples=EXAMPLES,
)
