"""Delete file versions that no reader needs any more: `python -m hoodie_jobs.clean SPEC.json`.

A run that was killed is followed by one that finishes the clean that it had planned.
"""

import sys
from contextlib import closing
from dataclasses import replace
from typing import Final

from hoodie.contract import job_specs
from hoodie.engine.progress import ProgressEngine
from hoodie.maintenance.cleaning import planning, retention
from hoodie.model import results
from hoodie_jobs import opening, program, runtimes
from hoodie_jobs.run import Run

_PARTITIONS_TOLD_MAX: Final = 15
_POLICIES: Final = {
    job_specs.CleanPolicy.COMMITS: retention.Policy.COMMITS,
    job_specs.CleanPolicy.HOURS: retention.Policy.HOURS,
    job_specs.CleanPolicy.VERSIONS: retention.Policy.VERSIONS,
}


def perform(run: Run) -> None:
    """Clean the table, or report what a clean would delete.

    Raises:
        ConfigurationError: A number of the policy is too small.
        ConflictError: The table is being restored, or changes faster than a clean is planned.
    """
    work = run.spec.work
    assert isinstance(work, job_specs.Clean)
    how = _retention(work)
    if work.is_dry_run:
        run.tell("looking for files to delete")
        _tell(run, opening.open_table(run.spec).propose_clean(how))
        return
    run.tell(f"starting {run.spec.engine.kind.value}")
    with closing(runtimes.open_runtime(run.spec.engine, run.cancellation)) as runtime:

        def report(done: int, total: int) -> None:
            run.tell("cleaning", done, total)

        opened = opening.open_table(run.spec, ProgressEngine(runtime.engine, report))
        run.tell("planning")
        _record(run, opened.clean(how, opening.transaction_of(run.spec)))


def _retention(work: job_specs.Clean) -> retention.Retention:
    how = retention.Retention(
        policy=_POLICIES[work.policy], retained=work.retained, grace_ms=work.grace_ms
    )
    return how if work.files_max is None else replace(how, files_max=work.files_max)


def _tell(run: Run, proposal: planning.Proposal) -> None:
    """Tell what a clean would delete, the partitions with the most bytes first."""
    sizes = proposal.sizes_by_partition()
    run.add(
        files=sum(map(len, sizes.values())),
        bytes=sum(map(sum, sizes.values())),
        left_out=proposal.left_out,
    )
    run.explain(f"dry run; older versions stay because {proposal.hold.reason}")
    by_size = sorted(sizes.items(), key=lambda each: (-sum(each[1]), each[0]))
    for path, found in by_size[:_PARTITIONS_TOLD_MAX]:
        run.find(f"{path or '.'}: {len(found)} files, {sum(found)} bytes")
    if len(by_size) > _PARTITIONS_TOLD_MAX:
        run.find(f"and {len(by_size) - _PARTITIONS_TOLD_MAX} partitions more")


def _record(run: Run, found: results.CleanResults) -> None:
    for done in found.done:
        run.complete(
            done.instant,
            files=len(done.deleted),
            lock_wait_ms=done.lock_wait_ms,
            lock_hold_ms=done.lock_hold_ms,
        )
        for finding in done.findings:
            run.find(finding)
    run.add(left_out=found.left_out)
    run.explain(f"older versions stay because {found.held_by}")


if __name__ == "__main__":
    sys.exit(program.main(sys.argv[1:], {job_specs.Clean: perform}))
