"""Take failed writes back: `python -m hoodie_jobs.rollback SPEC.json`.

A run that was killed is followed by one that goes on with what it had begun. Deleting files is work
for this process alone, whatever the spec's engine.
"""

import sys

from hoodie.contract import job_specs
from hoodie.model import instants, results
from hoodie_jobs import opening, program
from hoodie_jobs.run import Run


def perform(run: Run) -> None:
    """Take back what the spec asks for.

    Raises:
        NotFoundError: There is no such instant.
        ConflictError: It has completed, or somebody alive works on it.
    """
    work = run.spec.work
    assert isinstance(work, job_specs.RollBack)
    run.tell("rolling back")
    opened = opening.open_table(run.spec)
    transaction = opening.transaction_of(run.spec)
    if work.instant_time is not None:
        _record(run, opened.roll_back(instants.checked_time(work.instant_time), transaction))
        return
    found = opened.roll_back_failed(transaction)
    for done in found.done:
        _record(run, done)
    for reason in found.passed_over:
        run.find(reason)
    if found.leftovers:
        run.find(f"deleted {found.leftovers} orphan files")


def _record(run: Run, done: results.RollbackResult) -> None:
    run.complete(
        done.instant,
        files=len(done.deleted),
        lock_wait_ms=done.lock_wait_ms,
        lock_hold_ms=done.lock_hold_ms,
    )
    run.find(f"rolled back {done.target} {done.action.value}")
    for finding in done.findings:
        run.find(finding)


if __name__ == "__main__":
    sys.exit(program.main(sys.argv[1:], {job_specs.RollBack: perform}))
