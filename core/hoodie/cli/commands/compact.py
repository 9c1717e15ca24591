"""`hoodie compact`: log files merged into new base files."""

import contextlib
from dataclasses import replace
from typing import Annotated

import typer

from hoodie import environment, errors, table
from hoodie.cli import command, options, output, progress, run_settings, spark_job, tables
from hoodie.cli.views import compactions, outcomes
from hoodie.contract import engine_specs, job_specs
from hoodie.engine import local
from hoodie.model import compaction_options, instants
from hoodie.transaction import authors

DETAILS = """Without --schedule and --execute, a compaction is planned and run. Writers may continue
meanwhile: what they commit after the plan stays in log files.

By default a plan takes every file group that has log files, largest logs first. --trigger plans
only when a compaction is due, --strategy chooses file groups, --max-file-groups and --max-bytes
limit the plan: the next plan takes what is left. --dry-run shows the plan, and why a file group is
not in it; pending compactions do not run then.
"""
EXAMPLES = f"""Examples:

  hoodie compact /data/trips
  hoodie compact /data/trips --schedule
  hoodie compact /data/trips --execute 20261121093012345 --engine spark
  hoodie compact /data/trips --trigger num-or-time --strategy day-based,log-size --dry-run
  hoodie compact /data/trips --max-file-groups 20

Without options, pending compaction plans that no process executes run first, including those whose
process was killed. Strategies may also be the classes of Apache Hudi. Settings of triggers and
strategies for --set:

{options.compaction_text()}
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
    is_dry_run: Annotated[
        bool,
        typer.Option("--dry-run", metavar="", help="Only show what would be planned, and why not."),
    ] = False,
    trigger: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Plan only when due: num-commits, num-commits-after-last-request, time-elapsed, "
            "num-and-time or num-or-time.",
        ),
    ] = None,
    strategy: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Which file groups: "
            + ", ".join(each.value for each in compaction_options.Strategy)
            + "; several, separated by commas.",
            show_default="log-size",
        ),
    ] = None,
    max_file_groups: Annotated[
        str | None, typer.Option(metavar="N", help="At most N file groups in the plan.")
    ] = None,
    max_bytes: Annotated[
        str | None,
        typer.Option(metavar="N", help="At most N bytes to read in the plan."),
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
    if is_dry_run and execute is not None:
        raise typer.BadParameter("expected at most one of --dry-run and --execute")
    run = run_settings.with_compaction(
        run_settings.parse_for_service(uri, set_texts, lock),
        {
            "--trigger": trigger,
            "--strategy": strategy,
            "--max-file-groups": max_file_groups,
            "--max-bytes": max_bytes,
        },
    )
    if is_dry_run:
        _preview(uri, run, as_json=as_json)
        return
    instant = instants.checked_time(execute) if execute is not None else None
    step = _step(is_schedule=is_schedule, instant=instant)
    with progress.Display() as display:
        if engine is engine_specs.EngineKind.SPARK:
            spark_job.check_installed()
        opened = tables.open_table(uri, environment.system(), display)
        run_settings.check_facts(run.facts, opened.config)
        if engine is engine_specs.EngineKind.SPARK:
            planned_by = compaction_options.to_properties(run.compaction)
            work = job_specs.Compact(step=step, instant_time=instant, options=planned_by)
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
    else:
        _show(done)


def _show(done: outcomes.CompactDocument) -> None:
    output.line(outcomes.compact_line(done))
    if done.pending:
        output.note("hint: run a planned compaction with --execute INSTANT")
    if done.left_out:
        output.note(f"note: {compactions.left_out_text(done.left_out)}")
    for finding in done.findings:
        output.note(f"note: {finding}")


def _preview(uri: str, run: run_settings.RunSettings, *, as_json: bool) -> None:
    """Show what would be planned."""
    with progress.Display() as display:
        opened = tables.open_table(uri, environment.system(), display)
        run_settings.check_facts(run.facts, opened.config)
        display.phase("listing files")
        pending = tuple(each.requested_time for each in opened.timeline().pending_compactions)
        capacity = compactions.Capacity(
            slice_bytes=run.settings.compaction_memory_bytes, parallelism=local.processors()
        )
        decision = opened.preview_compaction(run.compaction)
        shown = compactions.preview(opened.uri, decision, pending, capacity)
    if as_json:
        output.document(shown)
        return
    if shown.partitions:
        output.grid(compactions.grid(shown))
    output.line(compactions.line(shown))
    if shown.left_out:
        output.note(f"note: {compactions.left_out_text(shown.left_out)}")
    if shown.pending:
        output.note(f"note: pending compactions, which run first: {', '.join(shown.pending)}")


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
    left_out = 0
    if step is job_specs.CompactionStep.SCHEDULE_AND_EXECUTE:
        for left in opened.timeline().pending_compactions:
            display.phase(f"compacting, as planned at {left.requested_time}")
            # One that somebody alive executes, or has executed meanwhile, is theirs.
            with contextlib.suppress(errors.ConflictError):
                result = opened.compact(left.requested_time, transaction)
                done = outcomes.compacted(opened.uri, result)
    if instant is None:
        display.phase("planning")
        planned = opened.plan_compaction(transaction, run.compaction)
        instant, left_out = planned.instant, planned.left_out
        if instant is None and done.instant is not None:
            return done
        if instant is None or step is job_specs.CompactionStep.SCHEDULE:
            return outcomes.scheduled(opened.uri, planned)
    display.phase("compacting")
    compacted = outcomes.compacted(opened.uri, opened.compact(instant, transaction))
    return replace(compacted, left_out=left_out)


COMMAND = command.Command(
    run=compact,
    details=DETAILS,
    examples=EXAMPLES,
)
