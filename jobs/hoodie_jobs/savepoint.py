"""Create a savepoint, or delete savepoints: `python -m hoodie_jobs.savepoint SPEC.json`.

Done twice it is done once: a run that was killed is followed by one that finds what is done.
"""

import sys

from hoodie.contract import job_specs
from hoodie.maintenance import savepoints
from hoodie.model import instants
from hoodie_jobs import opening, program
from hoodie_jobs.run import Run


def create(run: Run) -> None:
    """Keep the files of a commit.

    Raises:
        NotFoundError: There is no such commit on the timeline.
        AlreadyExistsError: It has a savepoint with another comment.
        ConflictError: Files of it were cleaned, or are about to be.
    """
    work = run.spec.work
    assert isinstance(work, job_specs.CreateSavepoint)
    run.tell("creating a savepoint")
    opened = opening.open_table(run.spec)
    commit = None if work.commit is None else instants.checked_time(work.commit)
    wanted = savepoints.Wanted(commit=commit, comment=work.comment)
    found = opened.create_savepoint(wanted, opening.transaction_of(run.spec))
    run.complete(found.instant, files=len(found.savepoint.paths))
    if not found.is_new:
        run.explain("the commit has this savepoint already")


def delete(run: Run) -> None:
    """Delete savepoints; one that is not there is passed over.

    Raises:
        ConflictError: A restore is pending.
    """
    work = run.spec.work
    assert isinstance(work, job_specs.DeleteSavepoints)
    run.tell("deleting savepoints")
    opened = opening.open_table(run.spec)
    named = {instants.checked_time(each) for each in work.commits}
    there = {each.instant.requested_time for each in opened.savepoints()}
    for missing in sorted(named - there):
        run.find(f"commit {missing} has no savepoint")
    doomed = savepoints.Doomed(commits=frozenset(named & there), older_than_ms=work.older_than_ms)
    if not there:
        return
    for each in opened.delete_savepoints(doomed, opening.transaction_of(run.spec)):
        run.complete(each)


if __name__ == "__main__":
    performs = {job_specs.CreateSavepoint: create, job_specs.DeleteSavepoints: delete}
    sys.exit(program.main(sys.argv[1:], performs))
