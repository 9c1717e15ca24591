"""Move old instants out of the active timeline: `python -m hoodie_jobs.archive SPEC.json`.

Work for this process alone, whatever the spec's engine. Runs follow each other until nothing is
left to archive; one that was killed changes nothing that a reader sees. Then history is trimmed, if
the spec says how much of it stays.
"""

import sys
from collections.abc import Iterable

from hoodie.contract import job_specs
from hoodie.maintenance.archiving import planning
from hoodie.model import results
from hoodie_jobs import opening, program
from hoodie_jobs.run import Run


def perform(run: Run) -> None:
    """Archive and trim what may go, or report what would.

    Raises:
        ConfigurationError: The policy's bounds contradict each other.
        ConflictError: The table is being restored, or its configuration has changed.
    """
    work = run.spec.work
    assert isinstance(work, job_specs.Archive)
    policy = planning.Policy(
        commits_min=work.commits_min,
        commits_max=work.commits_max,
        clean_retained=work.clean_retained,
        history_days=work.history_days,
    )
    policy.check()
    opened = opening.open_table(run.spec)
    if work.is_dry_run:
        run.tell("planning")
        plan = opened.preview_archive(policy)
        run.add(archived=len(plan.chosen), trimmed=_count(plan.trimmed))
        run.explain("dry run")
        for held in plan.holds:
            run.find(held.text)
        return
    run.tell("archiving")
    done = opened.archive(opening.transaction_of(run.spec), policy)
    run.add(
        archived=len(done.archived),
        trimmed=_count(done.trimmed),
        lock_wait_ms=done.lock_wait_ms,
        lock_hold_ms=done.lock_hold_ms,
    )
    for hold in done.holds:
        run.find(hold)
    if done.leftovers:
        run.find(f"deleted {done.leftovers} orphan files")


def _count(trimmed: Iterable[results.HistoryFile]) -> int:
    return sum(each.count for each in trimmed)


if __name__ == "__main__":
    sys.exit(program.main(sys.argv[1:], {job_specs.Archive: perform}))
