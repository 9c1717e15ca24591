"""Plan a compaction, execute a planned one, or both: `python -m hoodie_jobs.compact SPEC.json`.

An execution that was killed is run again: the plan stays, and files of the dead one are removed.
"""

import sys
import threading
from contextlib import closing

from hoodie.contract import job_results, job_specs
from hoodie.engine.progress import ProgressEngine
from hoodie.model import compaction_options, instants
from hoodie_jobs import opening, program, runtimes
from hoodie_jobs.run import Run

_PHASE = "compacting"


def perform(run: Run) -> None:
    """Do the step that the spec asks for.

    Raises:
        NotFoundError: There is no such plan.
        ConflictError: Somebody alive is executing it.
    """
    work = run.spec.work
    assert isinstance(work, job_specs.Compact)
    instant_time = _planned(run, work)
    if instant_time is None or work.step is job_specs.CompactionStep.SCHEDULE:
        return
    run.cancellation.check()
    run.tell(f"starting {run.spec.engine.kind.value}")
    with closing(runtimes.open_runtime(run.spec.engine, run.cancellation)) as runtime:
        execute(run, instant_time, runtime)


def _planned(run: Run, work: job_specs.Compact) -> instants.InstantTime | None:
    """Return the plan to execute; None when there is nothing to compact."""
    if work.instant_time is not None:
        return instants.checked_time(work.instant_time)
    run.tell("planning")
    opened = opening.open_table(run.spec)
    options = compaction_options.from_properties(work.options)
    planned = opened.plan_compaction(opening.transaction_of(run.spec), options)
    instant_time = planned.instant
    run.add(left_out=planned.left_out)
    if instant_time is None:
        run.explain(f"{planned.outcome}: {planned.message}")
    elif work.step is job_specs.CompactionStep.SCHEDULE:
        run.add(
            instant=job_results.CommittedInstant(
                requested_time=instant_time,
                completion_time=None,
                action=instants.Action.COMPACTION.value,
            )
        )
    return instant_time


def execute(run: Run, instant_time: instants.InstantTime, runtime: runtimes.Runtime) -> None:
    """Execute a planned compaction and commit it.

    Raises:
        NotFoundError: There is no such plan.
        ConflictError: Somebody alive is executing it.
    """
    caller = threading.current_thread()

    def report(done: int, total: int) -> None:
        run.tell(f"{_PHASE} {instant_time}", done, total)
        # In the thread where the engine waits this ends the map; Spark's session stops Spark's own.
        if threading.current_thread() is caller:
            run.cancellation.check()

    opened = opening.open_table(run.spec, ProgressEngine(runtime.engine, report))
    start_s = run.clock.monotonic_s()
    commit = opened.compact(instant_time, opening.transaction_of(run.spec))
    run.add(
        write_ms=int((run.clock.monotonic_s() - start_s) * 1000), file_groups=commit.group_count
    )
    run.record(commit)


if __name__ == "__main__":
    sys.exit(program.main(sys.argv[1:], {job_specs.Compact: perform}))
