"""Delete all rows of some partitions, in one commit: `python -m hoodie_jobs.partitions SPEC.json`.

Done twice it is done once: a partition without rows is passed over.
"""

import sys

from hoodie.contract import job_specs
from hoodie.model import commits, results
from hoodie.write import sessions
from hoodie_jobs import opening, program
from hoodie_jobs.run import Run


def delete(run: Run) -> None:
    """Retire all file groups of the partitions that have some.

    Raises:
        ConfigurationError: The table is written without blocking.
        WriteConflictError: Other writes of them were faster each time.
    """
    work = run.spec.work
    assert isinstance(work, job_specs.DeletePartitions)
    run.tell("deleting partitions")
    opened = opening.open_table(run.spec)
    there = {each.group.partition_path for each in opened.slices()}
    for missing in sorted(set(work.partitions) - there):
        run.find(f"partition {missing or '.'} has no rows")
    doomed = tuple(sorted(there.intersection(work.partitions)))
    if not doomed:
        return
    options = sessions.WriteOptions(
        operation=commits.Operation.DELETE_PARTITION,
        transaction=opening.transaction_of(run.spec),
        partitions=doomed,
    )
    done = opened.delete_partitions(options)
    assert isinstance(done, results.CommitResult), "it has no batch id"
    run.complete(done.instant, file_groups=len(done.replaced))


if __name__ == "__main__":
    sys.exit(program.main(sys.argv[1:], {job_specs.DeletePartitions: delete}))
